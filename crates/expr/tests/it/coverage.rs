//! That the generators are not idle: what they write checks, has values, and is of every kind.

use std::collections::BTreeSet;

use deltaplane_expr::{Eval, Type, check, lower, parse};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use crate::choices::{Choices, choices, config};
use crate::outcome::has_dyn;
use crate::typed::Writer;
use crate::world::{self, BUDGET, WORLDS, World};

const CASES: usize = 1200;

/// What was generated.
#[derive(Default)]
struct Seen {
    checked: usize,
    without_dyn: usize,
    valued: usize,
    types: BTreeSet<String>,
    sources: String,
}

impl Seen {
    /// What a writer of expressions writes for the same choices in every run.
    fn of(world: &World, write: impl Fn(&mut Choices) -> String) -> Self {
        let mut runner = TestRunner::new(config(1));
        let mut seen = Self::default();
        for _ in 0..CASES {
            let tree = choices().new_tree(&mut runner).expect("any bytes do");
            seen.see(world, tree.current(), &write);
        }
        seen
    }

    fn see(&mut self, world: &World, mut choices: Choices, write: impl Fn(&mut Choices) -> String) {
        let object = world::object(&mut choices);
        let source = write(&mut choices);
        let ast = parse(&source, &world.env).expect("it parses");
        self.sources += &source;
        self.sources.push('\n');
        let Ok(checked) = check::check(&ast, &world.env) else {
            return;
        };
        self.checked += 1;
        self.without_dyn += usize::from(!ast.ids().any(|id| has_dyn(checked.ty(id))));
        self.types.insert(checked.ty(ast.root()).name().to_owned());
        if let Ok(program) = lower(&ast, Some(&checked), &world.env) {
            let outcome = program.eval(&world.bound(&object), BUDGET);
            self.valued += usize::from(matches!(outcome, Eval::Value(_)));
        }
    }
}

#[test]
fn typed_expressions_check_and_have_values() {
    for world in WORLDS.iter() {
        let seen = Seen::of(world, |choices| Writer::new(choices, world).any());
        assert!(seen.checked > CASES * 95 / 100, "{} check", seen.checked);
        assert!(
            seen.without_dyn > CASES * 3 / 4,
            "{} have no dyn",
            seen.without_dyn
        );
        assert!(seen.valued > CASES * 2 / 5, "{} have values", seen.valued);
    }
    let world = world::kubernetes();
    let seen = Seen::of(world, |choices| {
        Writer::estimable(choices, world).of(&Type::Bool)
    });
    assert!(seen.valued > CASES * 2 / 5, "{} are estimated", seen.valued);
}

#[test]
fn typed_expressions_are_of_every_type() {
    const TYPES: [&str; 14] = [
        "bool",
        "bytes",
        "double",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
        "int",
        "list",
        "map",
        "null_type",
        "optional_type",
        "self.limit",
        "string",
        "type",
        "uint",
    ];
    for world in WORLDS.iter() {
        let seen = Seen::of(world, |choices| Writer::dynamic(choices, world).any());
        let opaque = world.opaque.iter().map(Type::name);
        for name in TYPES.into_iter().chain(opaque).chain(["dyn"]) {
            assert!(seen.types.contains(name), "nothing is of type {name}");
        }
    }
}

#[test]
fn typed_expressions_are_of_every_form() {
    const FORMS: [&str; 23] = [
        ".all(",
        ".exists(",
        ".exists_one(",
        ".map(",
        ".filter(",
        ".sortBy(",
        ".transformList(",
        ".transformMap(",
        ".transformMapEntry(",
        ".optMap(",
        ".optFlatMap(",
        ".orValue(",
        "has(",
        ".?",
        ")[?",
        "[?",
        "{?",
        " ? ",
        " in ",
        "-(",
        "!(",
        "self.rules[0]",
        "odd__dash__name",
    ];
    for world in WORLDS.iter() {
        let seen = Seen::of(world, |choices| Writer::dynamic(choices, world).any());
        let binding = world.binds.then_some("cel.bind(");
        for form in FORMS.into_iter().chain(binding) {
            assert!(seen.sources.contains(form), "{form} is never written");
        }
    }
}
