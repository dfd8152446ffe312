//! Expressions, templates and rules of schemas: parse, print, check, evaluate, judge.
//!
//! The input is the expression, a zero byte, and JSON for the variable `x`. As a rule the
//! expression is one about a whole object and about each item of a list, and objects are judged
//! that are always the same.
#![no_main]

use std::sync::LazyLock;

use deltaplane_api::field::{Error, Path};
use deltaplane_expr::rules::{self, Rules};
use deltaplane_expr::{
    Absent, Bindings, Budget, Decl, Env, Eval, Exposure, LazyJson, Meter, Program, Reading, Reason,
    Template, check, compile_template, cost, env, lower, parse, syntax,
};
use deltaplane_schema::{Schema, crd};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value as Json, json};

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
    let schema = compiled(&described()).expect("it is a schema");
    let reading = Reading {
        absent: Absent::Fails,
        exposure: Exposure::Declared,
        resource: false,
    };
    Decl::of_schema(&schema, "x", reading).expect("it can be seen")
}

/// A field of every kind.
fn described() -> Json {
    json!({
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
    })
}

fn compiled(schema: &Json) -> Result<Schema, Vec<Error>> {
    crd::compile(schema, &Path::root(), crd::Options::default())
}

/// What rules judge: one that has everything, one that has little, one that is not as described.
static OBJECTS: LazyLock<[Json; 3]> = LazyLock::new(|| {
    let full = json!({
        "s": "a", "i": 1, "d": 1.5, "b": true, "t": "2026-01-01T00:00:00Z", "q": "50%",
        "l": ["a", "b", "b"], "m": {"a": 1, "b c": 2}, "o": {"l": [{"n": "x"}, {}]},
    });
    let little = json!({"s": "", "i": -1, "b": null, "q": 7, "l": ["b"], "o": {"l": [{"n": "x"}]}});
    let wrong =
        json!({"s": 1, "i": "a", "l": {"a": 1}, "m": [null], "o": {"l": [[1]]}, "t": "soon"});
    [full, little, wrong].map(|spec| json!({"metadata": {"name": "a"}, "spec": spec}))
});

fuzz_target!(|input: &[u8]| {
    let mut halves = input.splitn(2, |byte| *byte == 0);
    let source = String::from_utf8_lossy(halves.next().unwrap_or_default());
    let data = halves.next().unwrap_or_default();
    for env in ENVS.iter() {
        expression(&source, data, env);
        template(&source, data, env);
    }
    rule(&source);
});

/// A definition with the expression for a rule, and for the message of one.
fn rule(source: &str) {
    let rule = json!([
        {"rule": source, "messageExpression": source},
        {"rule": "self == oldSelf", "messageExpression": source},
        {"rule": source, "optionalOldSelf": true},
    ]);
    let mut spec = described();
    // One about an item sees another type, and may see no past.
    spec["properties"]["l"]["items"]["x-kubernetes-validations"] = rule.clone();
    spec["properties"]["o"]["x-kubernetes-validations"] = rule.clone();
    spec["x-kubernetes-validations"] = rule;
    let document = json!({"type": "object", "properties": {"spec": spec}});
    // A rule of nothing is none.
    let Ok(schema) = compiled(&document) else {
        return;
    };
    let refused = rules::check(&schema, &Path::root());
    drop(refused.iter().map(ToString::to_string).collect::<Vec<_>>());
    let Some(rules) = Rules::of_resource(&schema) else {
        return;
    };
    let [full, little, wrong] = &*OBJECTS;
    // Made, changed for less and for more, and not as described.
    for (new, old) in [
        (full, None),
        (little, Some(full)),
        (full, Some(little)),
        (wrong, Some(wrong)),
    ] {
        let verdict = rules.judge(new, old);
        drop(
            verdict
                .errors
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
        );
    }
}

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
