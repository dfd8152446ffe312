//! No input panics.

use deltaplane_api::field::Path;
use deltaplane_api::time::Time;
use deltaplane_schema::fieldset::{Filter, PathElement, Set};
use deltaplane_schema::managed::{self, Context, SingleVersion};
use deltaplane_schema::{Definitions, Schema, crd, strategic};
use proptest::prelude::*;
use serde_json::Value;

use crate::laws::config;
use crate::objects::{anything, schema};

fn exercise(schema: &Schema, value: &Value, other: &Value) {
    let _ = schema.validate(value, Some(other));
    let _ = schema.validate(value, None);
    let mut changed = value.clone();
    let _ = schema.decode(&mut changed);
    schema.prune(&mut changed);
    schema.default(&mut changed);
    let _ = strategic::apply(schema, value, other);
    let versions = SingleVersion {
        api_version: "x.io/v1",
        schema,
    };
    let cx = Context {
        versions: &versions,
        api_version: "x.io/v1",
        kind: "X",
        subresource: "",
        manager: "kubectl",
        fields: &Filter::All,
        now: Time::from_unix(1),
    };
    let mut new = value.clone();
    managed::track_update(&cx, Some(other), &mut new);
    managed::track_update(&cx, None, &mut new);
    let mut patch = value.clone();
    if let Some(patch) = patch.as_object_mut() {
        patch.insert("apiVersion".to_owned(), "x.io/v1".into());
        patch.insert("kind".to_owned(), "X".into());
    }
    let _ = managed::apply(&cx, Some(other), &patch, true);
    let _ = managed::validate_managed_fields(value);
    managed::keep_timestamps(other, &mut new);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn values(value in anything(), other in anything()) {
        exercise(&schema(), &value, &other);
        exercise(&Schema::deduced(), &value, &other);
    }

    #[test]
    fn schemas(raw in anything(), value in anything(), other in anything()) {
        if let Ok(schema) = crd::compile(&raw, &Path::root(), crd::Options { status_subresource: true, accepted: false }) {
            exercise(&schema, &value, &other);
        }
        if let Ok(definitions) = Definitions::from_openapi([("a", &raw)]) {
            exercise(&definitions.get("a").unwrap(), &value, &other);
        }
    }

    #[test]
    fn field_sets(value in anything(), text in ".{0,12}") {
        let _ = Set::from_fields_v1(&value);
        let _ = PathElement::from_key(&text);
    }

    #[test]
    fn patterns(pattern in "[a\\[\\]\\\\(){}^$|?*+.,:0-9d-]{0,12}", text in "[a-c0-9.]{0,6}") {
        let raw = serde_json::json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}}}});
        if let Ok(schema) = crd::compile(&raw, &Path::root(), crd::Options::default()) {
            let _ = schema.validate(&serde_json::json!({"spec": {"x": text}}), None);
        }
    }
}
