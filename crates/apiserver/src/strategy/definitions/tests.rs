use super::*;

fn definition() -> Value {
    let mut definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {
                        "type": "object",
                        "properties": {"color": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
                    }},
                }},
            }],
        },
    });
    prepare_create(&mut definition);
    definition
}

fn check(path: &str, new: Value, expected: &[&str]) {
    let mut definition = definition();
    match path.strip_prefix("version.") {
        Some(field) => definition["spec"]["versions"][0][field] = new,
        None => assert!(value::set_at(&mut definition, path, new)),
    }
    let texts: Vec<String> = validate(&definition, None)
        .iter()
        .map(Error::to_string)
        .collect();
    assert_eq!(texts, expected, "{path}");
}

#[test]
fn a_plain_definition_gets_defaults_and_is_valid() {
    let definition = definition();
    assert_eq!(validate(&definition, None), []);
    assert_eq!(
        value::text(&definition, "spec.names.listKind"),
        "WidgetList"
    );
    assert_eq!(value::text(&definition, "spec.names.singular"), "widget");
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
}

#[test]
fn broken_definitions_are_refused_field_by_field() {
    check(
        "spec.names.plural",
        json!("gadgets"),
        &[
            "metadata.name: Invalid value: \"widgets.example.com\": must be spec.names.plural+\".\"+spec.group",
        ],
    );
    check(
        "spec.scope",
        json!("Galaxy"),
        &[
            "spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\"",
        ],
    );
    check(
        "spec.versions",
        json!([]),
        &[
            "spec.versions: Invalid value: []: must have exactly one version marked as storage version",
        ],
    );
    check(
        "version.schema",
        Value::Null,
        &["spec.versions[0].schema.openAPIV3Schema: Required value"],
    );
    check(
        "version.selectableFields",
        json!([{"jsonPath": ".spec.color"}]),
        &[],
    );
    check(
        "version.selectableFields",
        json!([{"jsonPath": ".spec.size"}]),
        &[
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.size\": is an invalid path: does not refer to a valid field",
        ],
    );
    check(
        "version.additionalPrinterColumns",
        json!([{"name": "A", "type": "string", "jsonPath": ".a["}]),
        &[
            "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \".a[\": is an invalid JSON path: unclosed bracket",
        ],
    );
    check(
        "version.subresources",
        json!({"scale": {"specReplicasPath": ".replicas", "statusReplicasPath": "x"}}),
        &[
            "spec.subresources.scale.specReplicasPath: Invalid value: \".replicas\": should be a json path under .spec",
            "spec.subresources.scale.statusReplicasPath: Invalid value: \"x\": must be a simple json path starting with .",
        ],
    );
    check(
        "version.deprecationWarning",
        json!("x"),
        &[
            "spec.versions[0].deprecationWarning: Invalid value: \"x\": can only be set for deprecated versions",
        ],
    );
    check(
        "spec.preserveUnknownFields",
        json!(true),
        &[
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ],
    );
    check(
        "spec.conversion.strategy",
        json!("Webhook"),
        &[
            "spec.conversion.strategy: Invalid value: \"Webhook\": conversion webhooks are not supported by this server: use None",
        ],
    );
}

#[test]
fn what_versions_have_in_common_is_said_once() {
    let bad = json!({"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}});
    let fault = "openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields";
    let check = |schemas: [&Value; 2], paths: &[&str]| {
        let mut definition = definition();
        let mut other = definition["spec"]["versions"][0].clone();
        other["name"] = json!("v2");
        other["storage"] = json!(false);
        definition["spec"]["versions"]
            .as_array_mut()
            .unwrap()
            .push(other);
        for (index, schema) in schemas.into_iter().enumerate() {
            definition["spec"]["versions"][index]["schema"] = schema.clone();
        }
        let errors = validate(&definition, None);
        let texts: Vec<String> = errors.iter().map(Error::to_string).collect();
        let expected: Vec<String> = paths.iter().map(|path| format!("{path}.{fault}")).collect();
        assert_eq!(texts, expected);
    };
    let good = json!({"openAPIV3Schema": {"type": "object"}});
    check([&good, &good], &[]);
    check([&bad, &bad], &["spec.validation"]);
    check([&good, &bad], &["spec.versions[1].schema"]);
}

#[test]
fn versions_that_objects_are_stored_in_stay() {
    let old = definition();
    let mut new = old.clone();
    new["spec"]["versions"][0]["name"] = json!("v2");
    prepare_update(&mut new, &old);
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    let texts: Vec<String> = validate(&new, Some(&old))
        .iter()
        .map(Error::to_string)
        .collect();
    assert_eq!(
        texts,
        ["status.storedVersions[0]: Invalid value: \"v1\": must appear in spec.versions"]
    );
}
