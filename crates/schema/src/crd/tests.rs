use super::*;
use serde_json::json;

fn check(schema: Value, expected: &[&str]) {
    let path = Path::new("schema");
    let errors = match compile(&schema, &path, Options::default()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors,
    };
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(texts, expected, "{schema}");
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

#[test]
fn every_value_has_a_type() {
    check(json!({"type": "object"}), &[]);
    check(
        json!({}),
        &["schema.type: Required value: must not be empty at the root"],
    );
    check(
        json!({"type": "string"}),
        &[r#"schema.type: Invalid value: "string": must be object at the root"#],
    );
    check(
        object(json!({"spec": {"items": {}}})),
        &[
            "schema.properties[spec].items.type: Required value: must not be empty for specified array items",
            "schema.properties[spec].type: Required value: must not be empty for specified object fields",
        ],
    );
    check(
        object(json!({"spec": {"type": "array"}})),
        &["schema.properties[spec].items: Required value: must be specified"],
    );
    check(
        object(json!({"spec": {"type": "teapot"}})),
        &[
            r#"schema.properties[spec].type: Unsupported value: "teapot": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ],
    );
    check(
        object(json!({"a": {"x-kubernetes-int-or-string": true}})),
        &[],
    );
    check(
        object(json!({"a": {"x-kubernetes-preserve-unknown-fields": true}})),
        &[],
    );
}

#[test]
fn logic_only_restricts() {
    check(
        json!({"type": "object", "anyOf": [{"type": "object", "default": 1, "properties": {"a": {}}}]}),
        &[
            "schema.anyOf[0].default: Forbidden: must be undefined to be structural",
            "schema.anyOf[0].type: Forbidden: must be empty to be structural",
            "schema.properties[a]: Required value: because it is defined in schema.anyOf[0].properties[a]",
        ],
    );
    let int_or_string = json!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
    });
    check(object(json!({"port": int_or_string})), &[]);
    check(
        object(json!({"a": {"type": "string", "not": {"nullable": true}, "pattern": "("}})),
        &[
            "schema.properties[a].not.nullable: Forbidden: must be false to be structural",
            r#"schema.properties[a].pattern: Invalid value: "(": must be a valid regular expression, but isn't: error: unclosed group"#,
        ],
    );
}

#[test]
fn metadata_is_not_for_schemas_to_describe() {
    check(object(json!({"metadata": {"type": "object"}})), &[]);
    check(
        object(
            json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}}),
        ),
        &[],
    );
    check(
        object(
            json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}),
        ),
        &[
            "schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ],
    );
    check(
        object(json!({"kind": {"type": "integer", "default": 1}})),
        &[
            r#"schema.properties[kind].type: Invalid value: "integer": must be string"#,
            "schema.properties[kind].default: Forbidden: must not be set in top-level kind",
        ],
    );
}

#[test]
fn lists_and_maps() {
    let list = |more: Value| {
        let mut list = json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object",
            "properties": {"name": {"type": "string"}, "port": {"type": "object"}}}});
        let list_map = list.as_object_mut().unwrap();
        list_map.extend(more.as_object().unwrap().clone());
        object(json!({"l": list}))
    };
    check(
        list(json!({})),
        &[
            "schema.properties[l].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ],
    );
    check(
        list(json!({"x-kubernetes-list-map-keys": ["name", "nope", "port"]})),
        &[
            r#"schema.properties[l].x-kubernetes-list-map-keys: Invalid value: ["name","nope","port"]: entries must all be names of item properties"#,
            r#"schema.properties[l].items.properties[port].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map"#,
            "schema.properties[l].items.properties[name].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            "schema.properties[l].items.properties[port].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ],
    );
    check(
        object(
            json!({"l": {"type": "array", "x-kubernetes-list-type": "bag", "items": {"type": "string"}}}),
        ),
        &[
            r#"schema.properties[l].x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map""#,
        ],
    );
    check(
        object(json!({"m": {"type": "string", "x-kubernetes-map-type": "atomic"}})),
        &[
            r#"schema.properties[m].type: Invalid value: "string": must be object if x-kubernetes-map-type is specified"#,
        ],
    );
    check(
        object(
            json!({"s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}}),
        ),
        &[
            "schema.properties[s].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        ],
    );
}

#[test]
fn defaults_satisfy_their_schema() {
    check(
        object(json!({"a": {"type": "integer", "default": "x"}})),
        &[
            r#"schema.properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#,
        ],
    );
    check(
        object(
            json!({"a": {"type": "object", "default": {"b": 1}, "properties": {"c": {"type": "string"}}}}),
        ),
        &[r#"schema.properties[a].default: Invalid value: {"b":1}: must not have unknown fields"#],
    );
    check(
        object(
            json!({"a": {"type": "object", "default": {"c": 1}, "properties": {"c": {"type": "string"}}}}),
        ),
        &[
            r#"schema.properties[a].default.c: Invalid value: "integer": c in body must be of type string: "integer""#,
        ],
    );
    let embedded = |name: Value| {
        object(json!({"e": {
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": name}}}},
        }}))
    };
    check(embedded(json!("ok")), &[]);
    check(
        embedded(json!("a/b")),
        &[
            r#"schema.properties[e].properties[metadata].properties[name].default: Invalid value: "a/b": must result in valid metadata: metadata.name: Invalid value: "a/b": may not contain '/'"#,
        ],
    );
}

#[test]
fn unsupported_keywords() {
    check(
        json!({"type": "object", "$ref": "x", "additionalProperties": true, "uniqueItems": true}),
        &[
            "schema.$ref: Forbidden: $ref is not supported",
            "schema.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ],
    );
    check(
        object(json!({"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": false}})),
        &[
            "schema.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ],
    );
    check(
        json!({"type": 1}),
        &["schema.type: Invalid value: 1: must be a string"],
    );
    check(
        object(
            json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}),
        ),
        &[
            "schema.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ],
    );
}

#[test]
fn rules_have_sound_texts() {
    let with = |rule: Value| json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [rule]});
    check(
        with(json!({"rule": "true", "fieldPath": ".a", "reason": "FieldValueInvalid"})),
        &[],
    );
    check(
        with(json!({"rule": " "})),
        &["schema.x-kubernetes-validations[0].rule: Required value: rule is not specified"],
    );
    check(
        with(json!({"rule": "a", "fieldPath": ".b", "reason": "Because"})),
        &[
            r#"schema.x-kubernetes-validations[0].reason: Unsupported value: "Because": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#,
            r#"schema.x-kubernetes-validations[0].fieldPath: Invalid value: ".b": must be a valid path"#,
        ],
    );
}

#[test]
fn the_status_subresource_restricts_the_root() {
    let schema = json!({"type": "object", "maxProperties": 3});
    let options = Options {
        status_subresource: true,
        ..Options::default()
    };
    let errors = compile(&schema, &Path::new("schema"), options).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0]
            .to_string()
            .contains("only [Description Type Format"),
        "{}",
        errors[0]
    );
}

#[test]
fn deep_schemas_are_refused() {
    let mut schema = json!({"type": "string"});
    for _ in 0..59 {
        schema = object(json!({"a": schema}));
    }
    check(schema.clone(), &[]);
    for _ in 0..60 {
        schema = object(json!({"a": schema}));
    }
    assert!(compile(&schema, &Path::root(), Options::default()).is_err());
}

#[test]
fn the_object_s_own_fields_are_described() {
    let schema = compile(
        &object(json!({"spec": {"type": "object"}})),
        &Path::root(),
        Options::default(),
    )
    .unwrap();
    let names: Vec<&str> = schema.root().properties().map(|(name, _)| name).collect();
    assert_eq!(names, ["apiVersion", "kind", "metadata", "spec"]);
    assert!(schema.root().at("metadata.ownerReferences[].uid").is_some());
}
