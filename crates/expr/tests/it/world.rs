//! What generated expressions are about: environments with variables, and data for them.

use std::sync::{Arc, LazyLock};

use deltaplane_api::field;
use deltaplane_expr::env::Overload;
use deltaplane_expr::{
    Absent, Bindings, Budget, Decl, Env, Eval, Exposure, Reading, Type, Value, compile, env,
};
use deltaplane_schema::crd;
use serde_json::{Value as Json, json};

use crate::choices::Choices;

/// An environment, and what a generator needs to know of it.
pub(crate) struct World {
    pub(crate) env: Env,
    /// Everything that can be called and written.
    pub(crate) overloads: Vec<Arc<Overload>>,
    /// The types that libraries bring.
    pub(crate) opaque: Vec<Type>,
    /// Whether `cel.bind` is there.
    pub(crate) binds: bool,
}

/// Enough for nearly every expression, and little enough for many.
pub(crate) const BUDGET: Budget = Budget {
    cost: 1_000_000,
    steps: 200_000,
};

/// The variables beside `self` which data is set for, with expressions for their values.
const COMPUTED: [(&str, &str); 8] = [
    ("u", "7u"),
    ("y", r"b'\x00\xff'"),
    ("maybe", "optional.of(3)"),
    ("never", "optional.of('a').or(optional.none())"),
    ("flags", "{true: 'yes', false: 'no'}"),
    ("sizes", "{1: [1.5, 2.5], 2: []}"),
    ("lists", "[[3, 1, 2], [], [1]]"),
    ("times", "[timestamp('2026-01-01T00:00:00Z')]"),
];

/// What CustomResourceDefinitions, graphs and the language's own tests see.
pub(crate) static WORLDS: LazyLock<[World; 3]> = LazyLock::new(|| {
    [
        World::new(&env::kubernetes(), Absent::Fails, false),
        World::new(&env::kro().build(), Absent::Waits, true),
        World::new(&env::conformance().build(), Absent::Fails, true),
    ]
});

/// The one in which rules are written.
pub(crate) fn kubernetes() -> &'static World {
    &WORLDS[0]
}

/// The one of graphs, which refuses no constant for its value.
pub(crate) fn kro() -> &'static World {
    &WORLDS[1]
}

impl World {
    fn new(base: &Env, absent: Absent, binds: bool) -> Self {
        let object = ("self".to_owned(), declared(absent));
        let computed = COMPUTED.map(|(name, source)| {
            let plain = env::kro().build();
            let ty = type_of(source, &plain);
            (name.to_owned(), Decl::of_type(ty, Absent::Fails))
        });
        let env = base.with_variables([object].into_iter().chain(computed));
        let functions = env.functions();
        let overloads = functions.iter().flat_map(|one| one.overloads());
        let overloads: Vec<_> = overloads
            .filter(|one| is_writable(one.function()))
            .cloned()
            .collect();
        let results = overloads.iter().map(|one| &one.signature().result);
        let mut opaque: Vec<Type> = Vec::new();
        for ty in results.filter(|ty| matches!(ty, Type::Opaque(_))) {
            if !opaque.contains(ty) {
                opaque.push(ty.clone());
            }
        }
        Self {
            env,
            overloads,
            opaque,
            binds,
        }
    }

    /// The variables set: `self` to the object, which must fit the schema.
    pub(crate) fn bound<'a>(&'a self, object: &'a Json) -> Bindings<'a> {
        let mut bindings = Bindings::new(&self.env);
        let slot = |name| self.env.slot(name).expect("declared");
        bindings
            .set_json(&self.env, slot("self"), object)
            .expect("the object fits");
        for (name, value) in OWNED.iter() {
            bindings.set(slot(name), value.clone());
        }
        bindings
    }
}

/// The values of [`COMPUTED`]: shared by all evaluations of a run, so that one which changed them
/// would be noticed by all others.
pub(crate) static OWNED: LazyLock<Vec<(&str, Value<'static>)>> = LazyLock::new(|| {
    static ENV: LazyLock<Env> = LazyLock::new(|| env::kro().build());
    let value = |source| {
        let program = Box::leak(Box::new(compile(source, &ENV).expect("it compiles")));
        match program.eval(&Bindings::new(&ENV), Budget::default()) {
            Eval::Value(value) => value,
            other @ (Eval::Waiting(_) | Eval::Failed(_) | Eval::Stopped(_)) => {
                panic!("{source}: {other:?}")
            }
        }
    };
    COMPUTED.map(|(name, source)| (name, value(source))).into()
});

/// The type of an expression.
pub(crate) fn type_of(source: &str, env: &Env) -> Type {
    let ast = deltaplane_expr::parse(source, env).expect("it parses");
    let checked = deltaplane_expr::check::check(&ast, env).expect("it checks");
    checked.ty(ast.root()).clone()
}

/// Some functions are made by macros only.
fn is_writable(function: &str) -> bool {
    let operator = matches!(function, "@in" | "math.@max" | "math.@min");
    operator || !function.contains('@')
}

/// The schema of `self`: every kind of node, all of them bounded.
static SCHEMA: LazyLock<Json> = LazyLock::new(schema);

fn schema() -> Json {
    let text = |most: u64| json!({"type": "string", "maxLength": most});
    let numbers = json!({"type": "array", "maxItems": 5, "items": {"type": "integer"}});
    let limit = json!({
        "type": "object",
        "nullable": true,
        "required": ["min"],
        "properties": {"min": {"type": "integer"}, "max": {"type": "integer", "nullable": true}},
    });
    let rule = json!({
        "type": "object",
        "required": ["name"],
        "properties": {"name": text(6), "weights": numbers, "limit": limit},
    });
    json!({
        "type": "object",
        "required": ["name", "count", "tags"],
        "properties": {
            "name": text(20),
            "mode": {"type": "string", "enum": ["a", "bb", "ccc"]},
            "count": {"type": "integer"},
            "ratio": {"type": "number"},
            "on": {"type": "boolean", "nullable": true},
            "when": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "wait": {"type": "string", "format": "duration"},
            "blob": {"type": "string", "format": "byte", "maxLength": 16},
            "port": {"x-kubernetes-int-or-string": true, "maxLength": 8},
            "tags": {"type": "array", "maxItems": 4, "items": text(10)},
            "numbers": numbers,
            "ids": {"type": "array", "maxItems": 3, "items": {"type": "integer"}, "x-kubernetes-list-type": "set"},
            "matrix": {"type": "array", "maxItems": 3, "items": numbers},
            "labels": {"type": "object", "maxProperties": 3, "additionalProperties": text(8)},
            "shares": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "number"}},
            "limit": limit,
            "by": {"type": "object", "maxProperties": 3, "additionalProperties": limit},
            "rules": {
                "type": "array",
                "maxItems": 3,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": rule,
            },
            // Names that expressions write differently.
            "odd-name": {"type": "integer"},
            "namespace": text(4),
        },
    })
}

fn declared(absent: Absent) -> Decl {
    let path = field::Path::root();
    // The root of a resource has more fields than it says: `self` is below.
    let root = json!({"type": "object", "properties": {"spec": *SCHEMA}});
    let root = crd::compile(&root, &path, crd::Options::default()).expect("a schema");
    let schema = root.rooted_at(root.root().property("spec").expect("it is there"));
    let reading = Reading {
        absent,
        exposure: Exposure::Declared,
        resource: false,
    };
    Decl::of_schema(&schema, "self", reading).expect("it can be seen")
}

/// An object that fits [`SCHEMA`].
pub(crate) fn object(choices: &mut Choices) -> Json {
    data(choices, &SCHEMA)
}

/// Data that fits a schema. Null is for fields only: one that may be null is not there when it
/// is, while an item or a value that is null would not be what the checker takes it for, here as
/// in Kubernetes.
fn data(choices: &mut Choices, schema: &Json) -> Json {
    match schema["type"].as_str() {
        Some("integer") => {
            json!(choices.pick(&[1, 0, -1, 3, 80, i64::MAX, i64::MIN]))
        }
        Some("number") => json!(choices.pick(&[1.5, 0.0, -2.0, 1e300])),
        Some("boolean") => json!(choices.once_in(2)),
        Some("string") => string(choices, schema),
        Some("array") => {
            let count = choices.below(most(schema, "maxItems") + 1);
            (0..count)
                .map(|_| data(choices, &schema["items"]))
                .collect()
        }
        Some("object") => fields(choices, schema),
        _ => match choices.once_in(2) {
            true => text(choices, most(schema, "maxLength")),
            false => json!(choices.below(9)),
        },
    }
}

fn most(schema: &Json, bound: &str) -> usize {
    let bound = schema[bound].as_u64().expect("everything has a bound");
    usize::try_from(bound).expect("small")
}

fn string(choices: &mut Choices, schema: &Json) -> Json {
    if let Some(allowed) = schema["enum"].as_array() {
        return choices.pick(allowed).clone();
    }
    let fixed: &[&str] = match schema["format"].as_str() {
        Some("date-time") => &["2026-02-03T04:05:06Z", "1969-12-31T23:59:59.5+01:00"],
        Some("date") => &["2026-02-28", "0001-01-01"],
        Some("duration") => &["1h30m", "0s", "-1ms"],
        Some("byte") => &["", "AP8=", "aGVsbG8="],
        _ => return text(choices, most(schema, "maxLength")),
    };
    json!(choices.pick(fixed))
}

/// A text of so many characters, at most.
fn text(choices: &mut Choices, most: usize) -> Json {
    const ALPHABET: [char; 8] = ['a', 'b', '1', '.', '-', ' ', 'ü', '😀'];
    let length = choices.below(most + 1);
    let text: String = (0..length).map(|_| *choices.pick(&ALPHABET)).collect();
    json!(text)
}

fn fields(choices: &mut Choices, schema: &Json) -> Json {
    let values = &schema["additionalProperties"];
    if values.is_object() {
        let count = choices.below(most(schema, "maxProperties") + 1);
        let keys = ["a", "b", "c d"].into_iter().take(count);
        return keys
            .map(|key| (key.to_owned(), data(choices, values)))
            .collect();
    }
    let required = |name: &str| {
        let required = schema["required"].as_array();
        required.is_some_and(|names| names.iter().any(|one| one == name))
    };
    let mut object = serde_json::Map::new();
    for (name, property) in schema["properties"].as_object().expect("an object") {
        if !required(name) && choices.once_in(8) {
            continue;
        }
        let is_null = property["nullable"] == true && choices.once_in(3);
        let value = if is_null {
            Json::Null
        } else {
            data(choices, property)
        };
        object.insert(name.clone(), value);
    }
    object.into()
}
