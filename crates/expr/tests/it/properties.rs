use std::sync::OnceLock;

use deltaplane_expr::syntax::print;
use deltaplane_expr::{
    Absent, Bindings, Budget, Decl, Env, Eval, Meter, Reason, Type, check, compile, env, lower,
    parse,
};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::generate::{expression, typed};

fn variables() -> [(&'static str, Type, Json); 5] {
    [
        ("i", Type::Int, json!(3)),
        ("s", Type::String, json!("hello")),
        ("b", Type::Bool, json!(true)),
        ("l", Type::list(Type::Int), json!([1, 2, 3])),
        (
            "m",
            Type::map(Type::String, Type::Int),
            json!({"a": 1, "b": 2}),
        ),
    ]
}

fn kro() -> Env {
    static ENV: OnceLock<Env> = OnceLock::new();
    ENV.get_or_init(|| env::kro().build()).clone()
}

fn declared(base: &Env) -> Env {
    base.with_variables(
        variables().map(|(name, ty, _)| (name.to_owned(), Decl::of_type(ty, Absent::Fails))),
    )
}

fn bound<'a>(env: &'a Env, data: &'a [(&str, Type, Json)]) -> Bindings<'a> {
    let mut bindings = Bindings::new(env);
    for (name, _, json) in data {
        bindings
            .set_json(env, env.slot(name).expect("declared"), json)
            .expect("the data fits");
    }
    bindings
}

/// An outcome that can be compared: places in the text aside.
fn told(outcome: Eval<'_>) -> String {
    match outcome {
        Eval::Value(value) => format!("{value:?}"),
        Eval::Waiting(path) => format!("waiting for {path}"),
        Eval::Failed(failure) => format!("failed: {}", failure.reason),
        Eval::Stopped(stopped) => format!("stopped: {stopped}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn printing_and_parsing_is_the_identity(source in expression()) {
        let env = kro();
        let ast = parse(&source, &env).expect("generated expressions parse");
        let printed = print(&ast);
        let again = parse(&printed, &env).unwrap_or_else(|problems| panic!("{printed}: {problems}"));
        prop_assert!(again.same(&ast), "{} prints as {}", source, printed);
    }

    #[test]
    fn evaluation_changes_no_inputs_and_gives_the_same_twice(source in expression()) {
        let env = declared(&kro());
        let ast = parse(&source, &env).expect("generated expressions parse");
        // Without the checker everything is tried.
        let program = lower(&ast, None, &env).expect("nothing is refused");
        let data = variables();
        let first = told(program.eval(&bound(&env, &data), Budget::default()));
        let second = told(program.eval(&bound(&env, &data), Budget::default()));
        prop_assert_eq!(first, second);
        for ((_, _, now), (_, _, before)) in data.iter().zip(variables()) {
            prop_assert_eq!(now, &before);
        }
    }

    #[test]
    fn constants_and_variables_come_to_the_same(source in typed()) {
        // The same expression with its data written out is folded as far as it can be.
        let inline = inlined(&source);
        let env = declared(&kro());
        let data = variables();
        let by_name = compile(&source, &env).map(|program| told(program.eval(&bound(&env, &data), Budget::default())));
        let folded = compile(&inline, &env).map(|program| told(program.eval(&bound(&env, &data), Budget::default())));
        prop_assert_eq!(by_name.map_err(|_| ()), folded.map_err(|_| ()), "{}", inline);
    }

    #[test]
    fn what_checks_never_fails_for_its_types(source in typed()) {
        let env = declared(&env::kubernetes());
        if let Ok(program) = compile(&source, &env) {
            let data = variables();
            if let Eval::Failed(failure) = program.eval(&bound(&env, &data), Budget::default()) {
                let typed = matches!(failure.reason, Reason::NoSuchOverload(_) | Reason::BadKey(_) | Reason::Unbound(_));
                prop_assert!(!typed, "{}: {}", source, failure.reason);
            }
        }
    }

    #[test]
    fn what_is_generated_with_types_checks(source in typed()) {
        let env = declared(&env::kubernetes());
        let ast = parse(&source, &env).expect("generated expressions parse");
        prop_assert!(check::check(&ast, &env).is_ok(), "{}", source);
    }

    #[test]
    fn the_cost_never_exceeds_the_budget(source in typed(), cost in 0_u64..200) {
        let env = declared(&env::kubernetes());
        if let Ok(program) = compile(&source, &env) {
            let data = variables();
            let mut meter = Meter::new(Budget { cost, ..Budget::default() });
            let outcome = program.eval_metered(&bound(&env, &data), &mut meter);
            prop_assert!(meter.cost() <= cost);
            let mut free = Meter::new(Budget::STEPS_ONLY);
            let unbounded = program.eval_metered(&bound(&env, &data), &mut free);
            if free.cost() <= cost {
                prop_assert_eq!(told(outcome), told(unbounded));
            } else {
                prop_assert!(matches!(outcome, Eval::Stopped(_)), "{}", source);
            }
        }
    }

    #[test]
    fn no_text_panics(source in "\\PC{0,60}") {
        let env = declared(&kro());
        let _outcome = compile(&source, &env).map(|program| told(program.eval(&Bindings::new(&env), Budget::default())));
    }

    #[test]
    fn no_tokens_panic(tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..40)) {
        let env = declared(&kro());
        let source = tokens.join(" ");
        if let Ok(ast) = parse(&source, &env) {
            let data = variables();
            let checked = check::check(&ast, &env).ok();
            let program = lower(&ast, checked.as_ref(), &env).expect("nothing is refused");
            told(program.eval(&bound(&env, &data), Budget::default()));
        }
    }
}

const TOKENS: &[&str] = &[
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    "?",
    ":",
    "+",
    "-",
    "*",
    "!",
    "&&",
    "||",
    "<",
    "==",
    "in",
    "i",
    "s",
    "l",
    "m",
    "x",
    "1",
    "2u",
    "1.5",
    "'a'",
    "b'b'",
    "true",
    "null",
    "has(",
    "size(",
    "map(x,",
    "all(",
    "cel.bind(",
    "`a-b`",
];

/// Variables replaced by their data.
fn inlined(source: &str) -> String {
    let mut out = String::new();
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let word = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        if word == 0 {
            let quote = c == '\'';
            let end = if quote {
                rest[1..].find('\'').map_or(rest.len(), |end| end + 2)
            } else {
                c.len_utf8()
            };
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        let is_field = out.ends_with('.');
        out.push_str(match &rest[..word] {
            "i" if !is_field => "3",
            "s" if !is_field => "'hello'",
            "b" if !is_field => "true",
            "l" if !is_field => "[1, 2, 3]",
            "m" if !is_field => "{'a': 1, 'b': 2}",
            other => other,
        });
        rest = &rest[word..];
    }
    out
}
