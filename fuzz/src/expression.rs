//! Expressions and templates: parse, print, check, evaluate.
//!
//! The input is the expression, a zero byte, and JSON for the variable `x`.
#![no_main]

use std::sync::LazyLock;

use deltaplane_expr::{
    Absent, Bindings, Budget, Decl, Env, Eval, Exposure, LazyJson, Meter, Program, Reading, Reason,
    Template, check, compile_template, cost, env, lower, parse, syntax,
};
use deltaplane_schema::crd;
use libfuzzer_sys::fuzz_target;

/// Little enough for many runs in a second.
const BUDGET: Budget = Budget {
    cost: 100_000,
    steps: 500_000,
};

/// One in which nothing is known of `x`, and one in which all is.
static ENVS: LazyLock<[Env; 2]> = LazyLock::new(|| {
    let open = env::kro().build().with_dynamic(&["x"], Absent::Waits);
    let typed = env::kubernetes().with_variables([("x".to_owned(), declared())]);
    [open, typed]
});

fn declared() -> Decl {
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "s": {"type": "string"},
            "i": {"type": "integer"},
            "d": {"type": "number"},
            "b": {"type": "boolean", "nullable": true},
            "t": {"type": "string", "format": "date-time"},
            "q": {"x-kubernetes-int-or-string": true},
            "l": {"type": "array", "items": {"type": "string"}},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}},
            "o": {"type": "object", "properties": {"l": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string"}}}}}},
        },
    });
    let path = deltaplane_api::field::Path::root();
    let schema = crd::compile(&schema, &path, crd::Options::default()).expect("it is a schema");
    let reading = Reading {
        absent: Absent::Fails,
        exposure: Exposure::Declared,
        resource: false,
    };
    Decl::of_schema(&schema, "x", reading).expect("it can be seen")
}

fuzz_target!(|input: &[u8]| {
    let mut halves = input.splitn(2, |byte| *byte == 0);
    let source = String::from_utf8_lossy(halves.next().unwrap_or_default());
    let data = halves.next().unwrap_or_default();
    for env in ENVS.iter() {
        expression(&source, data, env);
        template(&source, data, env);
    }
});

fn expression(source: &str, data: &[u8], env: &Env) {
    let Ok(ast) = parse(source, env) else {
        return;
    };
    let printed = syntax::print(&ast);
    let again = parse(&printed, env).unwrap_or_else(|why| panic!("{printed}\n{why}"));
    assert!(ast.same(&again), "{printed}");
    check::references(&ast, env);
    let checked = check::check(&ast, env);
    match &checked {
        Ok(checked) => drop(cost::estimate(&ast, checked, env)),
        Err(problems) => drop((problems.drawn(), problems.reported())),
    }
    if let Ok(program) = lower(&ast, checked.as_ref().ok(), env) {
        let outcome = evaluate(source, &program, data, env);
        // Functions that are not there are found by the checker.
        assert!(checked.is_err() || outcome != Outcome::Unbound);
    }
}

fn template(source: &str, data: &[u8], env: &Env) {
    if let Ok(Template::Value(program) | Template::Joined(program)) = compile_template(source, env)
    {
        evaluate(source, &program, data, env);
    }
}

#[derive(PartialEq)]
enum Outcome {
    Unbound,
    Other,
}

fn evaluate(source: &str, program: &Program, data: &[u8], env: &Env) -> Outcome {
    let x = LazyJson::new(data);
    let mut bindings = Bindings::new(env);
    bindings.set_lazy(env.slot("x").expect("declared"), &x);
    let mut meter = Meter::new(BUDGET);
    let outcome = program.eval_metered(&bindings, &mut meter);
    assert!(meter.cost() <= BUDGET.cost);
    match outcome {
        Eval::Value(value) => drop(value.to_json(&mut meter)),
        Eval::Failed(failure) => {
            // Whatever it says can be said.
            failure.drawn(source);
            if let Reason::Unbound(_) = failure.reason {
                return Outcome::Unbound;
            }
        }
        Eval::Waiting(path) => drop(path.to_string()),
        Eval::Stopped(_) => {}
    }
    Outcome::Other
}
