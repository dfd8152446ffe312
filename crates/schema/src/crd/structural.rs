//! Whether a schema is structural: every value has one place that says what it is, and logic
//! (`allOf`, `anyOf`, `oneOf`, `not`) only restricts values further.

use deltaplane_api::field::{Error, Path};
use serde_json::{Value, json};

use super::props::{Extra, Props};
use crate::validate::pattern::PatternBudget;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What was found so far.
struct Findings {
    errors: Vec<Error>,
    patterns: PatternBudget,
}

impl Findings {
    fn push(&mut self, error: Error) {
        self.errors.push(error);
    }
}

/// Appends what is not structural, sorted by text as Kubernetes does.
pub(super) fn check(
    props: Props<'_>,
    path: &Path,
    patterns: PatternBudget,
    errors: &mut Vec<Error>,
) {
    let mut found = Findings {
        errors: Vec::new(),
        patterns,
    };
    invariants(props, Level::Root, path, &mut found);
    completeness(props, Some(props), path, path, &mut found);
    found.errors.sort_by_cached_key(Error::to_string);
    errors.append(&mut found.errors);
}

fn invariants(props: Props<'_>, level: Level, path: &Path, found: &mut Findings) {
    if props.kind() == "array" && !props.has("items") {
        found.push(Error::required(path.child("items"), "must be specified"));
    }
    if let Some(items) = props.items() {
        invariants(items, Level::Item, &path.child("items"), found);
    }
    for (name, child) in props.properties() {
        invariants(
            child,
            Level::Field,
            &path.child("properties").key(name),
            found,
        );
    }
    let extra = props.additional();
    if !matches!(extra, Extra::None) && level == Level::Root {
        found.push(Error::forbidden(
            path.child("additionalProperties"),
            "must not be used at the root",
        ));
    }
    if let Extra::Schema(child) = extra {
        invariants(
            child,
            Level::Field,
            &path.child("additionalProperties"),
            found,
        );
    }
    extensions(props, path, found);
    let int_or_string = IntOrString::of(props);
    values(props, int_or_string, path, found);
    types(props, level, path, found);
    if props.flag("x-kubernetes-embedded-resource") {
        embedded(props, path, found);
    }
    let checks_meta = level == Level::Root || props.flag("x-kubernetes-embedded-resource");
    meta(props, level, checks_meta, path, found);
}

fn extensions(props: Props<'_>, path: &Path, found: &mut Findings) {
    if props.flag("x-kubernetes-int-or-string") {
        for key in [
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
        ] {
            if props.flag(key) {
                let words = "must be false if x-kubernetes-int-or-string is true";
                found.push(Error::invalid(path.child(key), true, words));
            }
        }
    }
}

fn types(props: Props<'_>, level: Level, path: &Path, found: &mut Findings) {
    let kind = props.kind();
    let untyped_allowed = props.flag("x-kubernetes-int-or-string")
        || props.flag("x-kubernetes-preserve-unknown-fields");
    let at = path.child("type");
    if props.flag("x-kubernetes-embedded-resource") && kind != "object" {
        let words = "must be object if x-kubernetes-embedded-resource is true";
        found.push(match kind {
            "" => Error::required(at.clone(), words),
            kind => Error::invalid(at.clone(), kind, words),
        });
    } else if kind.is_empty() && !untyped_allowed {
        let words = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        found.push(Error::required(at.clone(), words));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        found.push(Error::invalid(at, kind, "must be object at the root"));
    }
}

fn embedded(props: Props<'_>, path: &Path, found: &mut Findings) {
    if !matches!(props.additional(), Extra::None) {
        let words = "must not be used if x-kubernetes-embedded-resource is set";
        found.push(Error::forbidden(path.child("additionalProperties"), words));
    }
    if !props.flag("x-kubernetes-preserve-unknown-fields") && props.properties().len() == 0 {
        let words = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        found.push(Error::required(path.child("properties"), words));
    }
}

fn meta(props: Props<'_>, level: Level, checks_meta: bool, path: &Path, found: &mut Findings) {
    let at = |name: &str| path.child("properties").key(name);
    for name in ["kind", "apiVersion"] {
        if let Some(child) = props
            .property(name)
            .filter(|child| checks_meta && child.kind() != "string")
        {
            found.push(Error::invalid(
                at(name).child("type"),
                child.kind(),
                "must be string",
            ));
        }
    }
    let Some(metadata) = props.property("metadata") else {
        return;
    };
    if checks_meta && metadata.kind() != "object" {
        found.push(Error::invalid(
            at("metadata").child("type"),
            metadata.kind(),
            "must be object",
        ));
    }
    if level == Level::Root && !is_plain_metadata(metadata) {
        let words = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        found.push(Error::forbidden(at("metadata"), words));
    }
}

/// Whether nothing but the name is restricted.
fn is_plain_metadata(metadata: Props<'_>) -> bool {
    let names_only = metadata
        .properties()
        .all(|(name, _)| matches!(name, "name" | "generateName"));
    let other = metadata.raw().iter().any(|(key, value)| {
        let ignored = matches!(key.as_str(), "type" | "properties" | "default");
        let empty = match value {
            Value::Bool(flag) => !flag,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Null | Value::Number(_) | Value::Object(_) => false,
        };
        !ignored && !empty
    });
    names_only && !other
}

/// The two ways of writing "integer or string" that may name types in logic.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IntOrString {
    No,
    AnyOf,
    AllOfAnyOf,
}

// === impl IntOrString ===

impl IntOrString {
    fn of(props: Props<'_>) -> Self {
        let pattern = json!([{"type": "integer"}, {"type": "string"}]);
        if props.get("anyOf") == Some(&pattern) {
            return Self::AnyOf;
        }
        let first = props.schemas("allOf").into_iter().next();
        match first.is_some_and(|first| first.get("anyOf") == Some(&pattern)) {
            true => Self::AllOfAnyOf,
            false => Self::No,
        }
    }
}

fn values(props: Props<'_>, int_or_string: IntOrString, path: &Path, found: &mut Findings) {
    if int_or_string != IntOrString::AnyOf {
        for (index, branch) in props.schemas("anyOf").into_iter().enumerate() {
            nested(
                branch,
                IntOrString::No,
                &path.child("anyOf").index(index),
                found,
            );
        }
    }
    for (index, branch) in props.schemas("allOf").into_iter().enumerate() {
        let inner = match (int_or_string, index) {
            (IntOrString::AllOfAnyOf, 0) => IntOrString::AnyOf,
            (_, _) => IntOrString::No,
        };
        nested(branch, inner, &path.child("allOf").index(index), found);
    }
    for (index, branch) in props.schemas("oneOf").into_iter().enumerate() {
        nested(
            branch,
            IntOrString::No,
            &path.child("oneOf").index(index),
            found,
        );
    }
    if let Some(not) = props.schema("not") {
        nested(not, IntOrString::No, &path.child("not"), found);
    }
    let pattern = props.text("pattern");
    if let Some(fault) = (!pattern.is_empty())
        .then(|| found.patterns.check(pattern).err())
        .flatten()
    {
        let words = format!("must be a valid regular expression, but isn't: {fault}");
        found.push(Error::invalid(path.child("pattern"), pattern, words));
    }
}

/// A schema inside logic, which may restrict values but not describe them.
fn nested(props: Props<'_>, int_or_string: IntOrString, path: &Path, found: &mut Findings) {
    values(props, int_or_string, path, found);
    if let Some(items) = props.items() {
        nested(items, IntOrString::No, &path.child("items"), found);
    }
    for (name, child) in props.properties() {
        nested(
            child,
            IntOrString::No,
            &path.child("properties").key(name),
            found,
        );
    }
    let mut forbid = |key: &str, words: &str| found.push(Error::forbidden(path.child(key), words));
    for key in ["type", "title", "description"] {
        if !props.text(key).is_empty() {
            forbid(key, "must be empty to be structural");
        }
    }
    if matches!(props.additional(), Extra::Schema(_) | Extra::Bool(true)) {
        forbid("additionalProperties", "must be undefined to be structural");
    }
    for key in ["default", "x-kubernetes-list-type", "x-kubernetes-map-type"] {
        if props.has(key) {
            forbid(key, "must be undefined to be structural");
        }
    }
    for key in [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        if props.flag(key) {
            forbid(key, "must be false to be structural");
        }
    }
    for key in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
        if props
            .get(key)
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty())
        {
            forbid(key, "must be empty to be structural");
        }
    }
    if props.property("metadata").is_some() {
        let at = path.child("properties").key("metadata");
        found.push(Error::forbidden(
            at,
            "must not be specified in a nested context",
        ));
    }
}

/// Logic may only speak of fields and items that are described outside of it. `structure` is the
/// description of the value that `props` restricts.
fn completeness(
    props: Props<'_>,
    structure: Option<Props<'_>>,
    structure_path: &Path,
    path: &Path,
    found: &mut Findings,
) {
    if let Some(not) = props.schema("not") {
        nested_completeness(not, structure, structure_path, &path.child("not"), found);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, branch) in props.schemas(key).into_iter().enumerate() {
            let path = path.child(key).index(index);
            nested_completeness(branch, structure, structure_path, &path, found);
        }
    }
}

fn nested_completeness(
    props: Props<'_>,
    structure: Option<Props<'_>>,
    structure_path: &Path,
    path: &Path,
    found: &mut Findings,
) {
    let Some(structure) = structure else {
        found.push(Error::required(
            structure_path.clone(),
            format!("because it is defined in {path}"),
        ));
        return;
    };
    completeness(props, Some(structure), structure_path, path, found);
    if let Some(items) = props.items() {
        let (below, at) = (structure_path.child("items"), path.child("items"));
        nested_completeness(items, structure.items(), &below, &at, found);
    }
    for (name, child) in props.properties() {
        let below = structure_path.child("properties").key(name);
        let at = path.child("properties").key(name);
        nested_completeness(child, structure.property(name), &below, &at, found);
    }
}
