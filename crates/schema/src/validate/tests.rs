use deltaplane_api::field::Path;
use serde_json::{Value, json};

use crate::{Schema, crd};

fn compile(spec: Value) -> Schema {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    crd::compile(&schema, &Path::root(), crd::Options::default()).unwrap()
}

fn texts(spec: Value, value: Value, old: Option<Value>) -> Vec<String> {
    let old = old.map(|old| json!({"spec": old}));
    let errors = compile(spec).validate(&json!({"spec": value}), old.as_ref());
    errors.iter().map(ToString::to_string).collect()
}

fn check(spec: Value, value: Value, expected: &[&str]) {
    assert_eq!(texts(spec, value, None), expected);
}

#[test]
fn types() {
    let object = |x: Value| json!({"type": "object", "properties": {"x": x}});
    let wrong =
        r#"spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#;
    check(
        object(json!({"type": "integer"})),
        json!({"x": "a"}),
        &[wrong],
    );
    check(object(json!({"type": "integer"})), json!({"x": 1.0}), &[]);
    check(object(json!({"type": "number"})), json!({"x": 1}), &[]);
    check(
        object(json!({"type": "integer"})),
        json!({"x": 1.5}),
        &[
            r#"spec.x: Invalid value: "number": spec.x in body must be of type integer: "number""#,
            r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x"#,
        ],
    );
    check(
        object(json!({"type": "string"})),
        json!({"x": null}),
        &[r#"spec.x: Invalid value: "null": spec.x in body must be of type string: "null""#],
    );
    check(
        object(json!({"type": "string", "nullable": true})),
        json!({"x": null}),
        &[],
    );
    check(
        object(json!({"x-kubernetes-int-or-string": true})),
        json!({"x": "a"}),
        &[],
    );
    check(
        object(json!({"x-kubernetes-int-or-string": true})),
        json!({"x": true}),
        &[
            r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#,
        ],
    );
    check(
        object(json!({"type": "integer", "format": "int32"})),
        json!({"x": 3_000_000_000_i64}),
        &[
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x"#,
        ],
    );
}

#[test]
fn required_and_enumerations() {
    let bars = json!({"type": "object", "required": ["bars"], "properties": {"bars": {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "age": {"type": "string", "enum": ["b", "a"]}},
        },
    }}});
    check(bars.clone(), json!({"bars": [{"name": "x"}]}), &[]);
    check(
        bars.clone(),
        json!({"bars": [{}]}),
        &["spec.bars[0].name: Required value"],
    );
    check(bars.clone(), json!({}), &["spec.bars: Required value"]);
    check(
        bars,
        json!({"bars": [{"name": "x", "age": "c"}]}),
        &[r#"spec.bars[0].age: Unsupported value: "c": supported values: "b", "a""#],
    );
}

#[test]
fn texts_numbers_and_sizes() {
    let spec = json!({"type": "object", "properties": {
        "text": {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^a"},
        "number": {"type": "integer", "minimum": 1, "maximum": 10, "exclusiveMaximum": true, "multipleOf": 2},
        "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
        "map": {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": {"type": "string"}},
        "ip": {"type": "string", "format": "ipv4"},
    }});
    check(
        spec.clone(),
        json!({"text": "aéé", "number": 2, "list": [1], "map": {"a": "b"}, "ip": "1.2.3.4"}),
        &[],
    );
    check(
        spec.clone(),
        json!({"text": "abcd", "number": 10, "list": [], "map": {}, "ip": "x"}),
        &[
            r#"spec.ip: Invalid value: "x": spec.ip in body must be of type ipv4: "x""#,
            "spec.list: Invalid value: 0: spec.list in body should have at least 1 items",
            "spec.map: Invalid value: 0: spec.map in body should have at least 1 properties",
            "spec.number: Invalid value: 10: spec.number in body should be less than 10",
            "spec.text: Too long: may not be more than 3 bytes",
        ],
    );
    check(
        spec,
        json!({"text": "bc", "number": -1, "list": [1, "2", 3], "map": {"a": "b", "c": 1}}),
        &[
            r#"spec.list[1]: Invalid value: "string": spec.list[1] in body must be of type integer: "string""#,
            "spec.list: Too many: 3: must have at most 2 items",
            "spec.map: Too many: 2: must have at most 1 item",
            r#"spec.map.c: Invalid value: "integer": spec.map.c in body must be of type string: "integer""#,
            "spec.number: Invalid value: -1: spec.number in body should be a multiple of 2",
            "spec.number: Invalid value: -1: spec.number in body should be greater than or equal to 1",
            r#"spec.text: Invalid value: "bc": spec.text in body should match '^a'"#,
        ],
    );
}

#[test]
fn logic() {
    let spec = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    });
    check(spec.clone(), json!({"a": "x"}), &[]);
    check(
        spec.clone(),
        json!({}),
        &[
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.a: Required value",
        ],
    );
    check(
        spec,
        json!({"a": "x", "b": "y"}),
        &[
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ],
    );
    let not = json!({"type": "string", "not": {"enum": ["x"]}, "allOf": [{"minLength": 1}, {"maxLength": 2}]});
    check(not.clone(), json!("y"), &[]);
    check(
        not.clone(),
        json!("x"),
        &[r#"<nil>: Invalid value: "": "spec" must not validate the schema (not)"#],
    );
    check(
        not,
        json!("yyy"),
        &[
            "spec: Too long: may not be more than 2 bytes",
            r#"<nil>: Invalid value: "": "spec" must validate all the schemas (allOf)"#,
        ],
    );
}

#[test]
fn list_types() {
    let spec = json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        },
    }});
    let twice = json!({"set": ["a", "b", "a", "a"], "map": [{"name": "a"}, {"name": "a"}]});
    check(
        spec.clone(),
        twice.clone(),
        &[
            r#"spec.map[1]: Duplicate value: {"name":"a"}"#,
            r#"spec.set[2]: Duplicate value: "a""#,
        ],
    );
    assert_eq!(texts(spec, twice.clone(), Some(twice)), [""; 0]);
}

#[test]
fn unchanged_parts_are_not_reported() {
    let spec = json!({"type": "object", "properties": {
        "x": {"type": "string", "maxLength": 1},
        "y": {"type": "string", "maxLength": 1},
        "list": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "v": {"type": "integer", "maximum": 1}},
            },
        },
    }});
    let old =
        json!({"x": "long", "y": "y", "list": [{"name": "a", "v": 9}, {"name": "b", "v": 1}]});
    let new =
        json!({"x": "long", "y": "long", "list": [{"name": "b", "v": 2}, {"name": "a", "v": 9}]});
    assert_eq!(
        texts(spec, new, Some(old)),
        [
            "spec.list[0].v: Invalid value: 2: spec.list[0].v in body should be less than or equal to 1",
            "spec.y: Too long: may not be more than 1 byte",
        ]
    );
}

#[test]
fn embedded_resources() {
    let spec = json!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    });
    check(
        spec.clone(),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "x": 1}),
        &[],
    );
    check(
        spec,
        json!({"kind": "P d", "metadata": {"name": "a/b", "labels": {"a b": "c"}}}),
        &[
            "spec.apiVersion: Required value",
            r#"spec.kind: Invalid value: "P d": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"#,
            r#"spec.metadata.name: Invalid value: "a/b": may not contain '/'"#,
            r#"spec.metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#,
        ],
    );
}
