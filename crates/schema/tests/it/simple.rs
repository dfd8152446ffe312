//! SimpleSchema and comparisons of schemas, of anything.

use deltaplane_api::field::Path;
use deltaplane_schema::plural::pluralize;
use deltaplane_schema::simple::{self, Problem, Source};
use deltaplane_schema::{compat, crd};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::laws::config;
use crate::objects::anything;

fn compile(spec: &Value, types: &Value) -> Result<Value, Vec<Problem>> {
    simple::compile(&Source {
        spec: Some(spec),
        types: Some(types),
        path: &Path::new("schema"),
    })
}

/// Fields that are right, with `T` and `U` among their types.
fn right_field() -> impl Strategy<Value = &'static str> {
    select(vec![
        "string | default=a minLength=1 description=\"a b\"",
        "string | required=true pattern=^a",
        "integer | default=3 minimum=1 maximum=5",
        "integer | enum=1,2 required=true",
        "boolean | default=true immutable=true",
        "float | minimum=0.5 validation=\"self > 0.6\"",
        "object",
        "[]string | uniqueItems=true default=[\"a\"]",
        "[]T | listType=map listMapKey=id",
        "map[string]U | required=true",
        "T | description=t",
        "[][]U",
        "map[string][]object",
    ])
}

fn structure(
    leaf: impl Strategy<Value = Value> + 'static,
    depth: u32,
) -> impl Strategy<Value = Value> {
    let name = || select(vec!["a", "b", "c", "d"]);
    let nested = leaf.prop_recursive(depth, 16, 4, move |inner| {
        proptest::collection::btree_map(name(), inner, 0..4).prop_map(|fields| json!(fields))
    });
    let fields = proptest::collection::btree_map(name(), nested, 0..4);
    fields.prop_map(|fields| json!(fields))
}

fn right_spec() -> impl Strategy<Value = Value> {
    structure(right_field().prop_map(Value::from), 3)
}

fn right_types() -> Value {
    json!({
        "T": {"id": "string | required=true", "of": "U"},
        "U": "integer | default=1 minimum=0",
    })
}

/// Fields that may be right: pieces of the grammar in any order.
fn wild_text() -> impl Strategy<Value = String> {
    let pieces = "string integer T a [] map[string] map[ | = \" \\ { ] default required pattern= \
        enum= minimum 1 true , é";
    let mut pieces: Vec<&str> = pieces.split_ascii_whitespace().collect();
    pieces.extend([" ", "\u{a0}"]);
    proptest::collection::vec(select(pieces), 0..10).prop_map(|pieces| pieces.concat())
}

fn wild_field() -> impl Strategy<Value = Value> {
    prop_oneof![4 => wild_text().prop_map(Value::from), 1 => anything()]
}

/// Every keyword that constrains a value in place, taken out one by one.
fn without_constraints(schema: &Value) -> Value {
    let Value::Object(map) = schema else {
        return schema.clone();
    };
    let gone = [
        "required",
        "enum",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "x-kubernetes-validations",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
    ];
    let mut out = Map::new();
    for (keyword, value) in map.iter().filter(|(key, _)| !gone.contains(&key.as_str())) {
        let value = match (keyword.as_str(), value) {
            ("properties", Value::Object(fields)) => fields
                .iter()
                .map(|(name, field)| (name.clone(), without_constraints(field)))
                .collect::<Map<_, _>>()
                .into(),
            ("items" | "additionalProperties", _) => without_constraints(value),
            _ => value.clone(),
        };
        out.insert(keyword.clone(), value);
    }
    Value::Object(out)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_compiled_is_the_schema_of_a_definition(spec in right_spec()) {
        let compiled = compile(&spec, &right_types());
        let spec = compiled.map_err(|problems| TestCaseError::fail(problems[0].to_string()))?;
        let whole = json!({"type": "object", "properties": {"spec": spec}});
        let schema = crd::compile(&whole, &Path::root(), crd::Options::default());
        prop_assert!(schema.is_ok(), "{:?}", schema.err());
    }

    #[test]
    fn no_source_panics(
        spec in structure(wild_field(), 2),
        types in structure(wild_field(), 2),
        other in anything(),
    ) {
        if let Err(problems) = compile(&spec, &types) {
            prop_assert!(!problems.is_empty());
        }
        let _ = compile(&spec, &right_types());
        let _ = compile(&other, &types);
        let _ = compile(&spec, &other);
    }

    #[test]
    fn spans_are_in_the_text(text in wild_text()) {
        for problem in compile(&json!({"f": text}), &Value::Null).err().unwrap_or_default() {
            let inside = problem.span.is_none_or(|span| text.get(span).is_some());
            prop_assert!(inside, "{text:?}");
        }
    }

    #[test]
    fn nothing_changes_between_equal_schemas(schema in right_spec(), other in anything()) {
        let schema = compile(&schema, &right_types()).unwrap_or_default();
        prop_assert_eq!(compat::changes(&schema, &schema), []);
        prop_assert_eq!(compat::changes(&other, &other), []);
        prop_assert_eq!(compat::version_changes(&other, &other), []);
    }

    #[test]
    fn different_schemas_have_changes(a in right_spec(), b in right_spec()) {
        let a = compile(&a, &right_types()).unwrap_or_default();
        let b = compile(&b, &right_types()).unwrap_or_default();
        prop_assert_eq!(a == b, compat::changes(&a, &b).is_empty());
        prop_assert_eq!(a == b, compat::changes(&b, &a).is_empty());
    }

    #[test]
    fn leaving_constraints_out_breaks_nothing(schema in right_spec()) {
        let schema = compile(&schema, &right_types()).unwrap_or_default();
        let relaxed = without_constraints(&schema);
        for change in compat::changes(&schema, &relaxed) {
            prop_assert!(!change.is_breaking(), "{change}");
        }
        if schema != relaxed {
            prop_assert!(compat::changes(&relaxed, &schema).iter().any(compat::Change::is_breaking));
        }
    }

    #[test]
    fn no_comparison_panics(a in anything(), b in anything()) {
        for change in compat::changes(&a, &b) {
            let _ = (change.is_breaking(), change.to_string());
        }
        let _ = compat::version_changes(&a, &b);
    }

    #[test]
    fn plurals_are_names(kind in "[A-Z][a-zA-Z0-9]{0,20}") {
        let plural = pluralize(&kind);
        prop_assert!(plural.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()));
    }
}
