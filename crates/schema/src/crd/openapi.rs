//! The rules for single keywords of a CRD's schema.

use deltaplane_api::field::{Error, Path};
use serde_json::Value;

use super::Options;
use super::props::{Extra, Props};
use crate::field_path;
use crate::validate::not_supported;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Keywords that may stand at the root when status is a subresource, and Kubernetes' list of them.
const AT_ROOT: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];
const AT_ROOT_WORDS: &str = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled";

/// What is handed down from schema to schema.
#[derive(Clone)]
struct Inside {
    root: bool,
    meta: bool,
    /// Why defaults are forbidden here, if they are.
    no_defaults: Option<String>,
}

pub(super) fn check(props: Props<'_>, path: &Path, options: Options, errors: &mut Vec<Error>) {
    if options.status_subresource {
        root_with_status(props, path, errors);
    }
    if props.flag("nullable") {
        errors.push(Error::forbidden(
            path.child("nullable"),
            "nullable cannot be true at the root",
        ));
    }
    schema(
        props,
        path,
        &Inside {
            root: true,
            meta: false,
            no_defaults: None,
        },
        errors,
    );
}

fn root_with_status(props: Props<'_>, path: &Path, errors: &mut Vec<Error>) {
    if !props.kind().is_empty() && props.kind() != "object" {
        let words = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
        errors.push(Error::invalid(path.child("type"), props.kind(), words));
        return;
    }
    let set = |(key, value): (&String, &Value)| {
        *value != Value::Bool(false) && !AT_ROOT.contains(&key.as_str())
    };
    if props.raw().iter().any(set) {
        errors.push(Error::invalid(
            path.clone(),
            Value::Object(props.raw().clone()),
            AT_ROOT_WORDS,
        ));
    }
}

fn schema(props: Props<'_>, path: &Path, inside: &Inside, errors: &mut Vec<Error>) {
    unsupported(props, path, inside, errors);
    if props.flag("uniqueItems") {
        let words =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(Error::forbidden(path.child("uniqueItems"), words));
    }
    additional(props, path, inside, errors);
    children(props, path, inside, errors);
    if props.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(Error::invalid(at, false, "must be true or undefined"));
    }
    map_type(props, path, errors);
    list_type(props, path, errors);
    list_map(props, path, errors);
    keyed_items(props, path, errors);
    rules(props, path, errors);
}

fn unsupported(props: Props<'_>, path: &Path, inside: &Inside, errors: &mut Vec<Error>) {
    let kind = props.kind();
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(not_supported(
            path.child("type"),
            &kind.into(),
            &TYPES.map(Value::from),
        ));
    }
    if let Some(reason) = inside.no_defaults.as_ref().filter(|_| props.has("default")) {
        errors.push(Error::forbidden(
            path.child("default"),
            format!("must not be set {reason}"),
        ));
    }
    for key in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        let empty = match props.get(key) {
            None => true,
            Some(Value::String(text)) => text.is_empty() && key != "$ref",
            Some(Value::Object(map)) => {
                map.is_empty() && key != "dependencies" && key != "additionalItems"
            }
            Some(_) => false,
        };
        if !empty {
            errors.push(Error::forbidden(
                path.child(key),
                format!("{key} is not supported"),
            ));
        }
    }
    if kind == "null" {
        let words = "type cannot be set to null, use nullable as an alternative";
        errors.push(Error::forbidden(path.child("type"), words));
    }
    if props
        .get("items")
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty())
    {
        errors.push(Error::forbidden(
            path.child("items"),
            "items must be a schema object and not an array",
        ));
    }
    if inside.meta && props.flag("x-kubernetes-embedded-resource") {
        let at = path.child("x-kubernetes-embedded-resource");
        errors.push(Error::forbidden(
            at,
            "must not be used inside of resource meta",
        ));
    }
}

fn additional(props: Props<'_>, path: &Path, inside: &Inside, errors: &mut Vec<Error>) {
    let at = path.child("additionalProperties");
    match props.additional() {
        Extra::None | Extra::Bool(true) => {}
        Extra::Bool(false) | Extra::Schema(_) if props.properties().len() > 0 => {
            let words = "additionalProperties and properties are mutual exclusive";
            errors.push(Error::forbidden(at.clone(), words));
        }
        Extra::Bool(false) | Extra::Schema(_) => {}
    }
    if let Extra::Schema(child) = props.additional() {
        let reason = "inside additionalProperties applying to object metadata";
        let no_defaults = match inside.meta {
            true => Some(reason.to_owned()),
            false => inside.no_defaults.clone(),
        };
        schema(
            child,
            &at,
            &Inside {
                root: false,
                no_defaults,
                ..*inside
            },
            errors,
        );
    }
}

fn children(props: Props<'_>, path: &Path, inside: &Inside, errors: &mut Vec<Error>) {
    let plain = Inside {
        root: false,
        ..inside.clone()
    };
    let resource = inside.root || props.flag("x-kubernetes-embedded-resource");
    for (name, child) in props.properties() {
        let mut below = plain.clone();
        if resource && matches!(name, "metadata" | "kind" | "apiVersion") {
            below.meta = true;
            if inside.root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        schema(child, &path.child("properties").key(name), &below, errors);
    }
    if let Some(not) = props.schema("not") {
        schema(not, &path.child("not"), &plain, errors);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (index, branch) in props.schemas(key).into_iter().enumerate() {
            schema(branch, &path.child(key).index(index), &plain, errors);
        }
    }
    if let Some(items) = props.items() {
        schema(items, &path.child("items"), &plain, errors);
    }
}

fn map_type(props: Props<'_>, path: &Path, errors: &mut Vec<Error>) {
    if !props.has("x-kubernetes-map-type") {
        return;
    }
    if props.kind() != "object" {
        errors.push(wrong_kind(
            props,
            path,
            "must be object if x-kubernetes-map-type is specified",
        ));
    }
    let value = props.text("x-kubernetes-map-type");
    if !matches!(value, "atomic" | "granular") {
        let known = ["atomic", "granular"].map(Value::from);
        errors.push(not_supported(
            path.child("x-kubernetes-map-type"),
            &value.into(),
            &known,
        ));
    }
}

fn wrong_kind(props: Props<'_>, path: &Path, words: &str) -> Error {
    match props.kind() {
        "" => Error::required(path.child("type"), words),
        kind => Error::invalid(path.child("type"), kind, words),
    }
}

fn list_type(props: Props<'_>, path: &Path, errors: &mut Vec<Error>) {
    let value = props.text("x-kubernetes-list-type");
    if props.has("x-kubernetes-list-type") {
        if props.kind() != "array" {
            errors.push(wrong_kind(
                props,
                path,
                "must be array if x-kubernetes-list-type is specified",
            ));
        } else if let Some(items) = props.items().filter(|_| value == "set") {
            set_items(items, &path.child("items"), errors);
        }
        if !matches!(value, "atomic" | "set" | "map") {
            let known = ["atomic", "set", "map"].map(Value::from);
            errors.push(not_supported(
                path.child("x-kubernetes-list-type"),
                &value.into(),
                &known,
            ));
        }
    }
    if !props.texts("x-kubernetes-list-map-keys").is_empty() && value != "map" {
        let (at, words) = (
            path.child("x-kubernetes-list-type"),
            "must be map if x-kubernetes-list-map-keys is non-empty",
        );
        errors.push(match props.has("x-kubernetes-list-type") {
            true => Error::invalid(at, value, words),
            false => Error::required(at, words),
        });
    }
}

/// Items of a set are compared as wholes, so they must be owned as wholes.
fn set_items(items: Props<'_>, path: &Path, errors: &mut Vec<Error>) {
    let words = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = items
        .get("x-kubernetes-list-type")
        .cloned()
        .unwrap_or(Value::Null);
    match items.kind() {
        "array" if !matches!(items.text("x-kubernetes-list-type"), "" | "atomic") => {
            errors.push(Error::invalid(
                path.child("x-kubernetes-list-type"),
                list_type,
                words,
            ));
        }
        "object" if items.text("x-kubernetes-map-type") != "atomic" => {
            errors.push(Error::invalid(
                path.child("x-kubernetes-map-type"),
                list_type,
                words,
            ));
        }
        _ => {}
    }
}

fn list_map(props: Props<'_>, path: &Path, errors: &mut Vec<Error>) {
    if props.text("x-kubernetes-list-type") != "map" {
        return;
    }
    let keys = props.texts("x-kubernetes-list-map-keys");
    let keys_path = path.child("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let words = "must not be empty if x-kubernetes-list-type is map";
        errors.push(Error::required(keys_path.clone(), words));
    }
    let Some(items) = props.items() else {
        if !props.has("items") {
            let words = "must have a schema if x-kubernetes-list-type is map";
            errors.push(Error::required(path.child("items"), words));
        }
        return;
    };
    if items.kind() != "object" {
        let at = path.child("items").child("type");
        let words = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(at, items.kind(), words));
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        match items.property(key) {
            Some(child) if matches!(child.kind(), "array" | "object") => {
                let at = path
                    .child("items")
                    .child("properties")
                    .key(key)
                    .child("type");
                let words = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(Error::invalid(at, items.kind(), words));
            }
            Some(_) => {}
            None => {
                let words = "entries must all be names of item properties";
                errors.push(Error::invalid(
                    keys_path.clone(),
                    Value::from(keys.clone()),
                    words,
                ));
            }
        }
        if keys[..index].contains(key) {
            let words = "must not contain duplicate entries";
            errors.push(Error::invalid(
                keys_path.clone(),
                Value::from(keys.clone()),
                words,
            ));
        }
    }
}

/// Items that are told apart by value or key must have one.
fn keyed_items(props: Props<'_>, path: &Path, errors: &mut Vec<Error>) {
    let list_type = props.text("x-kubernetes-list-type");
    let Some(items) = props.items().filter(|_| matches!(list_type, "set" | "map")) else {
        return;
    };
    let path = path.child("items");
    if items.flag("nullable") {
        let words = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(Error::forbidden(path.child("nullable"), words));
    }
    if list_type == "set" {
        return;
    }
    let required = items.texts("required");
    for key in props.texts("x-kubernetes-list-map-keys") {
        let Some(child) = items.property(key) else {
            continue;
        };
        let path = path.child("properties").key(key);
        if !required.contains(&key) && !child.has("default") {
            let words = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(Error::required(path.child("default"), words));
        }
        if child.flag("nullable") {
            let words = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(path.child("nullable"), words));
        }
    }
}

fn rules(props: Props<'_>, path: &Path, errors: &mut Vec<Error>) {
    for (index, rule) in props
        .schemas("x-kubernetes-validations")
        .into_iter()
        .enumerate()
    {
        rule_texts(
            props,
            rule,
            &path.child("x-kubernetes-validations").index(index),
            errors,
        );
    }
}

/// The texts of one rule; whether its expressions compile is for others to say.
fn rule_texts(props: Props<'_>, rule: Props<'_>, path: &Path, errors: &mut Vec<Error>) {
    let lines = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (rule.text("rule").trim(), rule.text("message"));
    let invalid = |key: &str, words: &str| Error::invalid(path.child(key), rule.text(key), words);
    if expression.is_empty() {
        errors.push(Error::required(path.child("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(invalid("message", "must be non-empty if specified"));
    } else if lines(message.trim()) {
        errors.push(invalid("message", "must not contain line breaks"));
    } else if lines(expression) && message.trim().is_empty() {
        let words = "message must be specified if rule contains line breaks";
        errors.push(Error::required(path.child("message"), words));
    }
    let message_expression = rule.text("messageExpression");
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        let words = "messageExpression must be non-empty if specified";
        errors.push(Error::required(path.child("messageExpression"), words));
    }
    if rule.has("reason") && !REASONS.contains(&rule.text("reason")) {
        let at = path.child("reason");
        errors.push(not_supported(
            at,
            &rule.text("reason").into(),
            &REASONS.map(Value::from),
        ));
    }
    let field_path = rule.text("fieldPath");
    if !field_path.is_empty() {
        if field_path.trim().is_empty() {
            errors.push(invalid("fieldPath", "must be non-empty if specified"));
        }
        if lines(field_path) {
            errors.push(invalid("fieldPath", "must not contain line breaks"));
        }
        if !leads_somewhere(props, field_path) {
            errors.push(invalid("fieldPath", "must be a valid path"));
        }
    }
}

/// Whether a path such as `.spec.x` or `.spec['a.b']` leads to something in the schema.
fn leads_somewhere(props: Props<'_>, path: &str) -> bool {
    let Some(names) = field_path::steps(path) else {
        return false;
    };
    let end = names.iter().try_fold(props, |at, name| {
        at.property(name).or_else(|| match at.additional() {
            Extra::Schema(child) => Some(child),
            Extra::None | Extra::Bool(_) => None,
        })
    });
    end.is_some()
}
