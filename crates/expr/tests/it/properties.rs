use std::thread;

use deltaplane_expr::syntax::{Ast, print};
use deltaplane_expr::{
    Absent, Bindings, Budget, Checked, Decl, Env, Eval, LazyJson, Meter, Program, Reason, Type,
    check, compile, cost, lower, parse,
};
use proptest::prelude::*;
use serde_json::Value as Json;

use crate::choices::{choices, config};
use crate::generate::expression;
use crate::outcome::{Ran, fits, has_dyn, is_for_types, run, run_metered, told, written};
use crate::typed::{Writer, constants};
use crate::world::{self, BUDGET, OWNED, WORLDS, World};

// Printing

fn prints_as_itself(source: &str, env: &Env) {
    let ast = parse(source, env).unwrap_or_else(|problems| panic!("{source}\n{problems}"));
    let printed = print(&ast);
    let again = parse(&printed, env).unwrap_or_else(|problems| panic!("{printed}\n{problems}"));
    assert!(again.same(&ast), "{source}\nprints as\n{printed}");
    assert_eq!(print(&again), printed, "{source}");
}

#[test]
fn difficult_texts_print_as_themselves() {
    for source in [
        "i ? (i ? i : i) : i",
        "(a ? b : c) ? (d ? e : f) : g ? h : j",
        "1 - (2 - 3) - 4",
        "1 - 2 - 3",
        "(1 < 2) == (3 in [4])",
        "(a || b) && (c && d) || e",
        "!(a && b)",
        "-(1)",
        "-(-1)",
        "--1",
        "- 1",
        "-(1).f()",
        "(-1).f()",
        "-1.5.f()",
        "!(-x)",
        "-x.y",
        "(-x).y",
        "(a + b).c[0].?d[?e]",
        "has((a ? b : c).d)",
        "has(has(a.b).c)",
        "M{}.x",
        "a.`b-c`.`d`",
        "'\\U0001f600\\x00' + r'\\' + '''\n'''",
        "b'\\000\\377ü'",
        "1.0",
        "1e100",
        "5e-324",
    ] {
        prints_as_itself(source, &world::kro().env);
    }
}

// Evaluation

struct Compiled {
    ast: Ast,
    checked: Checked,
    program: Program,
}

/// Nothing for what is refused: a literal that is no duration is, in Kubernetes.
fn compiled(source: &str, env: &Env) -> Option<Compiled> {
    let ast = parse(source, env).unwrap_or_else(|problems| panic!("{source}\n{problems}"));
    let checked = check::check(&ast, env).ok()?;
    let program = lower(&ast, Some(&checked), env).ok()?;
    Some(Compiled {
        ast,
        checked,
        program,
    })
}

impl Compiled {
    fn is_dynamic(&self) -> bool {
        self.ast.ids().any(|id| has_dyn(self.checked.ty(id)))
    }

    fn ty(&self) -> &Type {
        self.checked.ty(self.ast.root())
    }
}

/// Evaluates something that checks, and looks for what the checker should have prevented. Where
/// something was made `dyn`, or given for it, values decide: `anything` goes with everything. But
/// names and functions are those that were found.
fn fails_for_no_types(source: &str, world: &World, object: &Json, anything: bool) {
    let Some(compiled) = compiled(source, &world.env) else {
        return;
    };
    let outcome = compiled.program.eval(&world.bound(object), BUDGET);
    match &outcome {
        Eval::Failed(failure) => {
            let found = is_for_types(&failure.reason);
            let allowed = (anything || compiled.is_dynamic())
                && matches!(
                    failure.reason,
                    Reason::NoSuchOverload(_) | Reason::BadKey(_)
                );
            assert!(!found || allowed, "{source}\n{object}\n{}", failure.reason);
        }
        Eval::Value(value) => {
            let ty = compiled.ty();
            let told = told(&outcome);
            assert!(fits(value, ty), "{source}\n{object}\nis no {ty}: {told}");
        }
        Eval::Waiting(_) | Eval::Stopped(_) => {}
    }
}

/// The places in which an expression is evaluated must not matter: alone or among others, again
/// with the same meter, in another thread.
fn leaves_nothing_behind(programs: &[Program], bindings: &Bindings<'_>) {
    let alone: Vec<Ran> = programs
        .iter()
        .map(|program| run(program, bindings, BUDGET))
        .collect();
    let orders = [[0, 1, 2, 0, 1, 2], [2, 1, 0, 0, 1, 2], [1, 1, 2, 2, 0, 0]];
    for order in orders {
        for at in order {
            assert_eq!(run(&programs[at], bindings, BUDGET), alone[at]);
        }
    }
    let mut meter = Meter::new(BUDGET);
    for (program, alone) in programs.iter().zip(&alone).rev() {
        meter.restart(BUDGET);
        let again = run_metered(program, bindings, &mut meter);
        // Patterns that the meter knows already are not compiled again.
        let stopped = alone.outcome.starts_with("stopped");
        assert!(stopped || (&again.outcome, again.cost) == (&alone.outcome, alone.cost));
        assert!(stopped || again.steps <= alone.steps);
    }
    thread::scope(|scope| {
        let elsewhere = [(); 2].map(|()| {
            scope.spawn(|| {
                let ran = programs.iter().map(|one| run(one, bindings, BUDGET));
                ran.collect::<Vec<_>>()
            })
        });
        for thread in elsewhere {
            assert_eq!(thread.join().expect("it does not panic"), alone);
        }
    });
}

/// An expression over text that is parsed when it is looked at comes to the same as over data,
/// whether it is the first to look or not; and parsing is counted once.
fn reads_text_like_data(program: &Program, world: &World, object: &Json) {
    let text = object.to_string();
    let lazy = LazyJson::new(text.as_bytes());
    let mut bindings = world.bound(object);
    let known = run(program, &bindings, BUDGET);
    bindings.set_lazy(world.env.slot("self").expect("declared"), &lazy);
    let first = run(program, &bindings, BUDGET);
    let looked = lazy.is_parsed();
    let second = run(program, &bindings, BUDGET);
    if [&known, &first]
        .iter()
        .any(|ran| ran.outcome.starts_with("stopped"))
    {
        return;
    }
    assert_eq!((&first.outcome, first.cost), (&known.outcome, known.cost));
    assert_eq!((&second.outcome, second.cost), (&known.outcome, known.cost));
    let parsing = if looked { text.len() as u64 / 64 } else { 0 };
    assert_eq!(first.steps, second.steps + parsing);
}

proptest! {
    #![proptest_config(config(1024))]

    #[test]
    fn printing_and_parsing_is_the_identity(mut choices in choices()) {
        prints_as_itself(&expression(&mut choices), &world::kro().env);
    }

    #[test]
    fn typed_expressions_print_as_themselves(mut choices in choices()) {
        for world in WORLDS.iter() {
            let source = Writer::dynamic(&mut choices, world).any();
            prints_as_itself(&source, &world.env);
        }
    }
}

proptest! {
    #![proptest_config(config(1536))]

    #[test]
    fn what_checks_never_fails_for_its_types(mut choices in choices()) {
        let object = world::object(&mut choices);
        for world in WORLDS.iter() {
            let source = Writer::new(&mut choices, world).any();
            fails_for_no_types(&source, world, &object, false);
        }
    }

    #[test]
    fn what_checks_with_dyn_finds_its_functions(mut choices in choices()) {
        let object = world::object(&mut choices);
        for world in WORLDS.iter() {
            let source = Writer::dynamic(&mut choices, world).any();
            fails_for_no_types(&source, world, &object, true);
        }
    }
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn every_macro_gives_what_it_says(mut choices in choices()) {
        let object = world::object(&mut choices);
        for world in WORLDS.iter() {
            let source = Writer::new(&mut choices, world).going_through();
            fails_for_no_types(&source, world, &object, false);
        }
    }
}

proptest! {
    #![proptest_config(config(16))]

    // Some functions are rarely chosen: here each has its turn.
    #[test]
    fn every_function_gives_what_it_says(choices in choices()) {
        for world in WORLDS.iter() {
            for overload in &world.overloads {
                let mut choices = choices.clone();
                let object = world::object(&mut choices);
                let source = Writer::new(&mut choices, world).calling(overload);
                let anything = overload.signature().params.iter().any(has_dyn);
                fails_for_no_types(&source, world, &object, anything);
                prints_as_itself(&source, &world.env);
            }
        }
    }
}

proptest! {
    #![proptest_config(config(256))]

    // Rust sees to it that borrowed data does not change. What could change is what is shared or
    // kept: lists and maps behind an `Arc` that are sorted or added to in place, text that is
    // parsed when it is looked at, patterns that a program or a meter compiles once, variables of
    // macros that are left behind. Then an evaluation would come to something else the second
    // time, after others, or beside others in another thread.
    #[test]
    fn evaluation_leaves_nothing_behind(mut choices in choices()) {
        let object = world::object(&mut choices);
        for world in &WORLDS[..2] {
            let mut write = || {
                let source = Writer::dynamic(&mut choices, world).any();
                let ast = parse(&source, &world.env).expect("it parses");
                let checked = check::check(&ast, &world.env).ok();
                lower(&ast, checked.as_ref(), &world.env)
            };
            let (Ok(first), Ok(second), Ok(third)) = (write(), write(), write()) else {
                continue;
            };
            let before: Vec<String> = OWNED.iter().map(|(_, value)| written(value)).collect();
            let programs = [first, second, third];
            leaves_nothing_behind(&programs, &world.bound(&object));
            reads_text_like_data(&programs[0], world, &object);
            for ((name, value), before) in OWNED.iter().zip(before) {
                prop_assert_eq!(written(value), before, "{}", name);
            }
        }
    }
}

proptest! {
    #![proptest_config(config(16))]

    #[test]
    fn every_function_comes_to_the_same_again(choices in choices()) {
        for world in WORLDS.iter() {
            for overload in &world.overloads {
                let mut choices = choices.clone();
                let object = world::object(&mut choices);
                let source = Writer::dynamic(&mut choices, world).calling(overload);
                if let Some(compiled) = compiled(&source, &world.env) {
                    let bindings = world.bound(&object);
                    let [first, again] = [(); 2].map(|()| run(&compiled.program, &bindings, BUDGET));
                    prop_assert_eq!(first, again, "{}", source);
                }
            }
        }
    }
}

// Folding

/// Something of any type that is never evaluated but takes all the work that may be done ahead of
/// time: compiling a pattern that is not known counts as a lot.
fn exhausting() -> String {
    let patterns = (0..6).map(|number| format!("'a'.find('{number}')"));
    format!("[][({}).size()]", patterns.collect::<Vec<_>>().join(" + "))
}

/// The same expression behind a condition that is never true: folded, and not folded because
/// nothing may be done ahead of time any more.
fn folded_and_not(source: &str, env: &Env) -> Option<[Program; 2]> {
    let behind = |other: &str| compile(&format!("false ? {other} : ({source})"), env).ok();
    Some([behind("[][0]")?, behind(&exhausting())?])
}

proptest! {
    #![proptest_config(config(1024))]

    #[test]
    fn folding_changes_neither_results_nor_costs(mut choices in choices()) {
        let world = world::kro();
        let object = world::object(&mut choices);
        let written = Writer::constants_only(&mut choices, world).any();
        let (source, ..) = constants(&written);
        if let Some([folded, unfolded]) = folded_and_not(&source, &world.env) {
            let bindings = world.bound(&object);
            let [folded, unfolded] = [folded, unfolded].map(|program| run(&program, &bindings, Budget::STEPS_ONLY));
            prop_assert_eq!(&folded.outcome, &unfolded.outcome, "{}", source);
            prop_assert_eq!(folded.cost, unfolded.cost, "{}", source);
            prop_assert!(folded.steps <= unfolded.steps, "{}", source);
        }
    }

    // Lists, maps and conversions of constants are computed ahead of time by cel-go, too, and are
    // free then. Here only what they come to is the same.
    #[test]
    fn constants_and_variables_come_to_the_same(mut choices in choices()) {
        let world = world::kro();
        let (source, named, values) = constants(&Writer::constants_only(&mut choices, world).any());
        let compiled_values: Vec<Compiled> = values
            .iter()
            .map(|value| compiled(value, &world.env).expect("a constant"))
            .collect();
        let variables = compiled_values.iter().enumerate().map(|(at, value)| {
            (format!("c{at}"), Decl::of_type(value.ty().clone(), Absent::Fails))
        });
        let env = world.env.with_variables(variables);
        let nothing = Bindings::new(&world.env);
        let mut bindings = Bindings::new(&env);
        for (at, value) in compiled_values.iter().enumerate() {
            if let Eval::Value(value) = value.program.eval(&nothing, BUDGET) {
                bindings.set(env.slot(&format!("c{at}")).expect("declared"), value);
            }
        }
        let by_name = compile(&named, &env).map(|program| run(&program, &bindings, Budget::STEPS_ONLY).outcome);
        let folded = compile(&source, &env).map(|program| run(&program, &bindings, Budget::STEPS_ONLY).outcome);
        prop_assert_eq!(by_name.map_err(|_| ()), folded.map_err(|_| ()), "{}", source);
    }
}

// Limits

/// With what it takes an expression comes to the same; with less of it, it is stopped, and has
/// not used more than it was given.
fn keeps_to_its_budget(program: &Program, bindings: &Bindings<'_>, some: u64) {
    let free = run(
        program,
        bindings,
        Budget {
            cost: u64::MAX,
            ..BUDGET
        },
    );
    if free.outcome.starts_with("stopped") {
        return;
    }
    let Ran { cost, steps, .. } = free;
    let exact = run(program, bindings, Budget { cost, steps });
    assert_eq!(exact, free);
    for cost in [cost.checked_sub(1), cost.checked_sub(1 + some)]
        .into_iter()
        .flatten()
    {
        let less = run(program, bindings, Budget { cost, steps });
        assert_eq!(less.outcome, "stopped: Cost");
        assert_eq!(less.cost, cost);
    }
    for steps in [steps.checked_sub(1), steps.checked_sub(1 + some)]
        .into_iter()
        .flatten()
    {
        let less = run(program, bindings, Budget { cost, steps });
        assert_eq!(less.outcome, "stopped: Steps");
        assert!(less.cost <= cost);
    }
}

proptest! {
    #![proptest_config(config(1024))]

    #[test]
    fn evaluation_keeps_to_its_budget(mut choices in choices(), some in 0_u64..100) {
        let object = world::object(&mut choices);
        for world in WORLDS.iter() {
            let source = Writer::dynamic(&mut choices, world).any();
            if let Some(compiled) = compiled(&source, &world.env) {
                keeps_to_its_budget(&compiled.program, &world.bound(&object), some);
            }
        }
    }

    // The estimate is Kubernetes', which is no bound of everything: `is_underestimated` says of
    // what it is not. Nor is it one of evaluations that fail: what failed is charged as if its
    // size were one, and what is empty is estimated to be free.
    #[test]
    fn the_estimate_is_never_below_the_cost(mut choices in choices()) {
        let world = world::kubernetes();
        let object = world::object(&mut choices);
        let source = Writer::estimable(&mut choices, world).of(&Type::Bool);
        if let Some(compiled) = compiled(&source, &world.env) {
            let most = cost::estimate(&compiled.ast, &compiled.checked, &world.env).max;
            let ran = run(&compiled.program, &world.bound(&object), Budget::STEPS_ONLY);
            prop_assert!(ran.outcome.starts_with("failed") || ran.cost <= most, "{}\n{}\ncosts {} of {}: {}", source, object, ran.cost, most, ran.outcome);
        }
    }

    // Without the checker everything is tried.
    #[test]
    fn nothing_unchecked_panics(mut choices in choices()) {
        let world = world::kro();
        let object = world::object(&mut choices);
        for source in [expression(&mut choices), Writer::dynamic(&mut choices, world).any()] {
            let ast = parse(&source, &world.env).expect("it parses");
            let program = lower(&ast, None, &world.env).expect("nothing is refused");
            let ran = run(&program, &world.bound(&object), BUDGET);
            prop_assert!(ran.cost <= BUDGET.cost);
        }
    }

    #[test]
    fn no_text_panics(source in "\\PC{0,60}") {
        let world = world::kro();
        let _outcome = compile(&source, &world.env).map(|program| run(&program, &Bindings::new(&world.env), BUDGET));
    }

    #[test]
    fn no_tokens_panic(tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..40)) {
        let world = world::kro();
        let source = tokens.join(" ");
        if let Ok(ast) = parse(&source, &world.env) {
            let checked = check::check(&ast, &world.env).ok();
            let program = lower(&ast, checked.as_ref(), &world.env).expect("nothing is refused");
            run(&program, &world.bound(&world::object(&mut crate::choices::Choices::new(vec![]))), BUDGET);
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
    "u",
    "self",
    "lists",
    "sizes",
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
