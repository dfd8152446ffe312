//! CustomResourceDefinitions: defaults and rules.

use std::collections::BTreeSet;

use deltaplane_api::field::{Error, Path};
use deltaplane_api::names;
use deltaplane_schema::{Kind as NodeKind, crd};
use serde_json::{Value, json};

use super::{GENERIC, Strategy, immutable};
use crate::jsonpath::JsonPath;
use crate::kinds::custom;
use crate::value;

/// Held until the kind's objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
const MAX_SELECTABLE: usize = 8;

pub(crate) static STRATEGY: Strategy = Strategy {
    generation: true,
    unconditional_update: false,
    prepare_create: Some(prepare_create),
    prepare_update: Some(prepare_update),
    validate: Some(validate),
    mark_deleted: Some(mark_deleted),
    ..GENERIC
};

fn prepare_create(definition: &mut Value) {
    default(definition);
    let stored: Vec<&str> = custom::storage_version(definition).into_iter().collect();
    let status = json!({
        "conditions": [],
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": stored,
    });
    value::set(definition, "status", status);
}

/// Whoever changes the storage version leaves objects behind in the old one: remember both.
fn prepare_update(definition: &mut Value, _old: &Value) {
    default(definition);
    let Some(storage) = custom::storage_version(definition).map(str::to_owned) else {
        return;
    };
    let mut stored = value::list(definition, "status.storedVersions").to_vec();
    if !stored.iter().any(|version| *version == storage.as_str()) {
        stored.push(json!(storage));
        value::set_at(definition, "status.storedVersions", json!(stored));
    }
}

fn default(definition: &mut Value) {
    let kind = value::text(definition, "spec.names.kind").to_owned();
    let defaults = [
        ("spec.names.singular", json!(kind.to_lowercase())),
        ("spec.names.listKind", json!(format!("{kind}List"))),
        ("spec.conversion", json!({"strategy": "None"})),
    ];
    for (path, default) in defaults {
        let unset = matches!(value::at(definition, path), Value::Null)
            || value::at(definition, path) == &json!("");
        if unset && definition["spec"].is_object() {
            value::set_at(definition, path, default);
        }
    }
}

fn mark_deleted(definition: &mut Value) {
    let mut finalizers = value::list(definition, "metadata.finalizers").to_vec();
    if !finalizers.iter().any(|one| one == CLEANUP) {
        finalizers.push(json!(CLEANUP));
    }
    value::set_at(definition, "metadata.finalizers", json!(finalizers));
}

fn validate(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    validate_names(new, &mut errors);
    validate_versions(new, &mut errors);
    validate_conversion(new, &mut errors);
    if let Some(old) = old {
        validate_change(new, old, &mut errors);
    }
    errors
}

fn validate_names(definition: &Value, errors: &mut Vec<Error>) {
    let spec = Path::new("spec");
    let (group, plural) = (
        value::text(definition, "spec.group"),
        value::text(definition, "spec.names.plural"),
    );
    let name = value::text(definition, "metadata.name");
    if name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(Error::invalid(
            Path::new("metadata").child("name"),
            name,
            detail,
        ));
    }
    let path = spec.child("group");
    match group {
        "" => errors.push(Error::required(path, "")),
        group if !names::dns_subdomain(group).is_empty() => {
            let faults = names::dns_subdomain(group).join(",");
            errors.push(Error::invalid(path, group, faults));
        }
        group if !group.contains('.') => {
            let detail = "should be a domain with at least one dot";
            errors.push(Error::invalid(path, group, detail));
        }
        _ => {}
    }
    match value::text(definition, "spec.scope") {
        "" => errors.push(Error::required(spec.child("scope"), "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let scopes = ["Cluster", "Namespaced"];
            errors.push(Error::not_supported(spec.child("scope"), other, &scopes));
        }
    }
    if value::at(definition, "spec.preserveUnknownFields") == &json!(true) {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(Error::invalid(
            spec.child("preserveUnknownFields"),
            true,
            detail,
        ));
    }
    validate_spec_names(
        value::at(definition, "spec.names"),
        &spec.child("names"),
        errors,
    );
}

fn validate_spec_names(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    for field in ["plural", "singular", "kind", "listKind"] {
        let text = value::text(spec, field);
        if text.is_empty() {
            errors.push(Error::required(path.child(field), ""));
            continue;
        }
        let lowered = match field {
            "kind" | "listKind" => text.to_lowercase(),
            _ => text.to_owned(),
        };
        let faults = names::dns_1035(&lowered);
        if !faults.is_empty() {
            errors.push(Error::invalid(path.child(field), text, faults.join(",")));
        }
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in value::texts(spec, field).enumerate() {
            let faults = names::dns_1035(name);
            if !faults.is_empty() {
                let path = path.child(field).index(index);
                errors.push(Error::invalid(path, name, faults.join(",")));
            }
        }
    }
    if !value::text(spec, "kind").is_empty() && spec["kind"] == spec["listKind"] {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(
            path.child("listKind"),
            spec["listKind"].clone(),
            detail,
        ));
    }
}

fn validate_versions(definition: &Value, errors: &mut Vec<Error>) {
    let path = Path::new("spec").child("versions");
    let versions = value::list(definition, "spec.versions");
    if versions.is_empty() {
        errors.push(Error::required(
            path.clone(),
            "must have at least one version",
        ));
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        let name = value::text(version, "name");
        if !names::dns_1035(name).is_empty() {
            let faults = names::dns_1035(name).join(",");
            errors.push(Error::invalid(path.child("name"), name, faults));
        }
        if !seen.insert(name) {
            let detail = "must contain unique version names";
            errors.push(Error::invalid(path.child("name"), name, detail));
        }
        validate_version(version, &path, errors);
    }
    let storage = versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count();
    if storage != 1 && !versions.is_empty() {
        let detail = "must have exactly one version marked as storage version";
        errors.push(Error::invalid(
            path,
            Value::Array(versions.to_vec()),
            detail,
        ));
    }
}

fn validate_version(version: &Value, path: &Path, errors: &mut Vec<Error>) {
    validate_columns(version, &path.child("additionalPrinterColumns"), errors);
    validate_scale(version, &path.child("subresources").child("scale"), errors);
    let schema_path = path.child("schema").child("openAPIV3Schema");
    let document = value::at(version, "schema.openAPIV3Schema");
    if document.is_null() {
        errors.push(Error::required(schema_path, "schemas are required"));
        return;
    }
    let status_subresource = !value::at(version, "subresources.status").is_null();
    match crd::compile(document, &schema_path, crd::Options { status_subresource }) {
        Ok(schema) => {
            validate_selectable(version, &schema, &path.child("selectableFields"), errors);
        }
        Err(faults) => errors.extend(faults),
    }
}

fn validate_columns(version: &Value, path: &Path, errors: &mut Vec<Error>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    for (index, column) in value::list(version, "additionalPrinterColumns")
        .iter()
        .enumerate()
    {
        let path = path.index(index);
        if value::text(column, "name").is_empty() {
            errors.push(Error::required(path.child("name"), ""));
        }
        match value::text(column, "type") {
            "" => errors.push(Error::required(
                path.child("type"),
                "must be one of boolean,date,integer,number,string",
            )),
            kind if !TYPES.contains(&kind) => {
                let detail = "must be one of boolean,date,integer,number,string";
                errors.push(Error::invalid(path.child("type"), kind, detail));
            }
            _ => {}
        }
        match value::text(column, "jsonPath") {
            "" => errors.push(Error::required(path.child("jsonPath"), "")),
            text => {
                if let Err(fault) = JsonPath::parse(text) {
                    let path = path.child("jsonPath");
                    errors.push(Error::invalid(
                        path,
                        text,
                        format!("is an invalid JSON path: {fault}"),
                    ));
                }
            }
        }
    }
}

fn validate_scale(version: &Value, path: &Path, errors: &mut Vec<Error>) {
    let scale = value::at(version, "subresources.scale");
    if scale.is_null() {
        return;
    }
    let rows = [
        ("specReplicasPath", ".spec.", true),
        ("statusReplicasPath", ".status.", true),
        ("labelSelectorPath", ".", false),
    ];
    for (field, prefix, required) in rows {
        let text = value::text(scale, field);
        let simple = JsonPath::parse(text).is_ok_and(|path| path.fields().is_some());
        match text {
            "" if required => errors.push(Error::required(path.child(field), "")),
            "" => {}
            text if !simple => {
                let detail = "should be a valid JSON path without array notation";
                errors.push(Error::invalid(path.child(field), text, detail));
            }
            text if !text.starts_with(prefix) => {
                let detail = format!(
                    "should be a json path under {}",
                    prefix.trim_end_matches('.')
                );
                errors.push(Error::invalid(path.child(field), text, detail));
            }
            _ => {}
        }
    }
}

fn validate_selectable(
    version: &Value,
    schema: &deltaplane_schema::Schema,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let fields = value::list(version, "selectableFields");
    if fields.len() > MAX_SELECTABLE {
        errors.push(Error::too_many(path.clone(), fields.len(), MAX_SELECTABLE));
    }
    let mut seen = BTreeSet::new();
    for (index, one) in fields.iter().enumerate() {
        let path = path.index(index).child("jsonPath");
        let text = value::text(one, "jsonPath");
        if text.is_empty() {
            errors.push(Error::required(path, ""));
            continue;
        }
        if !seen.insert(text) {
            errors.push(Error::duplicate(path.clone(), text));
        }
        let simple = JsonPath::parse(text).is_ok_and(|path| path.fields().is_some());
        let node = schema.root().at(text).map(deltaplane_schema::Node::kind);
        let fault = match (simple, node) {
            (false, _) => "is an invalid path: must be a simple path of fields",
            (true, None) => "is an invalid path: does not refer to a valid field",
            (true, Some(NodeKind::String | NodeKind::Integer | NodeKind::Boolean)) => {
                match text.starts_with(".metadata.") {
                    true => "must not point to fields in metadata",
                    false => continue,
                }
            }
            (true, Some(_)) => {
                "must point to a field of type string, boolean or integer. Enum string fields and string fields with formats are allowed."
            }
        };
        errors.push(Error::invalid(path, text, fault));
    }
}

fn validate_conversion(definition: &Value, errors: &mut Vec<Error>) {
    let path = Path::new("spec").child("conversion").child("strategy");
    match value::text(definition, "spec.conversion.strategy") {
        "None" | "" => {}
        "Webhook" => errors.push(Error::invalid(
            path,
            "Webhook",
            "conversion webhooks are not supported by this server: use None",
        )),
        other => errors.push(Error::not_supported(path, other, &["None"])),
    }
}

fn validate_change(new: &Value, old: &Value, errors: &mut Vec<Error>) {
    if custom::is_established(old) {
        for path in [
            "spec.group",
            "spec.scope",
            "spec.names.plural",
            "spec.names.kind",
        ] {
            immutable(path, new, old, errors);
        }
    }
    let path = Path::new("status").child("storedVersions");
    let versions: Vec<&str> = value::list(new, "spec.versions")
        .iter()
        .map(|one| value::text(one, "name"))
        .collect();
    for (index, stored) in value::texts(new, "status.storedVersions").enumerate() {
        if !versions.contains(&stored) {
            let detail = "must appear in spec.versions";
            errors.push(Error::invalid(path.index(index), stored, detail));
        }
    }
}

#[cfg(test)]
mod tests {
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
            &["spec.versions: Required value: must have at least one version"],
        );
        check(
            "version.schema",
            Value::Null,
            &["spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"],
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
                "spec.versions[0].selectableFields[0].jsonPath: Invalid value: \".spec.size\": is an invalid path: does not refer to a valid field",
            ],
        );
        check(
            "version.additionalPrinterColumns",
            json!([{"name": "A", "type": "string", "jsonPath": ".a["}]),
            &[
                "spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid value: \".a[\": is an invalid JSON path: unclosed bracket",
            ],
        );
        check(
            "version.subresources",
            json!({"scale": {"specReplicasPath": ".replicas", "statusReplicasPath": ".status.x[0]"}}),
            &[
                "spec.versions[0].subresources.scale.specReplicasPath: Invalid value: \".replicas\": should be a json path under .spec",
                "spec.versions[0].subresources.scale.statusReplicasPath: Invalid value: \".status.x[0]\": should be a valid JSON path without array notation",
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
}
