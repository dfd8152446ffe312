//! `metadata`: what the server fills in, and what must hold. Pure; uid, time and random suffix
//! come in as arguments.

use std::collections::BTreeSet;

use deltaplane_api::field::{Error, Path};
use deltaplane_api::time::Time;
use deltaplane_api::{finalizers, names};
use serde_json::{Map, Value, json};

use crate::kinds::Kind;
use crate::value;

/// The most that all annotations of an object may hold.
const ANNOTATIONS_MAX: usize = 256 << 10;
/// Who tries to change these is told.
const IMMUTABLE: [&str; 3] = ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"];
/// A generated name is a prefix of at most this length and a suffix.
const GENERATED_PREFIX_MAX: usize = 58;

/// What a new object gets from the server.
pub(crate) struct Birth<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) suffix: &'a str,
    pub(crate) now: Time,
}

/// Fills in the metadata of a new object.
pub(crate) fn prepare_create(kind: &Kind, object: &mut Value, birth: &Birth<'_>) {
    let Some(metadata) = value::map_mut(object, "metadata") else {
        return;
    };
    for field in [
        "resourceVersion",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        metadata.remove(field);
    }
    match kind.namespaced {
        true => metadata.insert("namespace".to_owned(), json!(birth.namespace)),
        false => metadata.remove("namespace"),
    };
    generate_name(metadata, birth.suffix);
    metadata.insert("uid".to_owned(), json!(birth.uid));
    metadata.insert("creationTimestamp".to_owned(), birth.now.to_value());
    match kind.strategy.generation {
        true => metadata.insert("generation".to_owned(), json!(1)),
        false => metadata.remove("generation"),
    };
}

fn generate_name(metadata: &mut Map<String, Value>, suffix: &str) {
    let text = |field: &str| {
        metadata
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let prefix = text("generateName");
    if !text("name").is_empty() || prefix.is_empty() {
        return;
    }
    let cut = (0..=GENERATED_PREFIX_MAX.min(prefix.len())).rev();
    let end = cut
        .into_iter()
        .find(|&at| prefix.is_char_boundary(at))
        .unwrap_or(0);
    let name = format!("{}{suffix}", &prefix[..end]);
    metadata.insert("name".to_owned(), json!(name));
}

/// Metadata that a change cannot touch is taken from the stored object; where a change of it is
/// refused instead of ignored ([`IMMUTABLE`]), only if it is not there.
pub(crate) fn prepare_update(object: &mut Value, old: &Value) {
    let old = &old["metadata"];
    let Some(metadata) = value::map_mut(object, "metadata") else {
        return;
    };
    let fixed = [
        "creationTimestamp",
        "generation",
        "namespace",
        "name",
        "resourceVersion",
    ];
    let unset = |field: &&str| match metadata.get(*field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    let mut taken: Vec<&str> = IMMUTABLE.into_iter().filter(unset).collect();
    taken.extend(fixed);
    if !old["deletionTimestamp"].is_null() {
        taken.push("deletionTimestamp");
    }
    metadata.remove("selfLink");
    for field in taken {
        match old[field].is_null() {
            true => metadata.remove(field),
            false => metadata.insert(field.to_owned(), old[field].clone()),
        };
    }
    if metadata.get("generateName").is_none() && !old["generateName"].is_null() {
        metadata.insert("generateName".to_owned(), old["generateName"].clone());
    }
}

/// Removes empty maps and lists that mean nothing, so that they are not stored.
pub(crate) fn tidy(object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    for field in [
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ] {
        let empty = match metadata.get(field) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Null) => true,
            Some(_) | None => false,
        };
        if empty {
            metadata.remove(field);
        }
    }
}

/// All that is wrong with an object's metadata.
pub(crate) fn validate(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<Error> {
    let path = Path::new("metadata");
    let metadata = &object["metadata"];
    let mut errors = Vec::new();
    validate_name(kind, metadata, &path, &mut errors);
    validate_labels(metadata, &path.child("labels"), &mut errors);
    validate_annotations(metadata, &path.child("annotations"), &mut errors);
    validate_owners(metadata, &path.child("ownerReferences"), &mut errors);
    validate_finalizers(kind, metadata, old, &mut errors);
    for field in IMMUTABLE {
        if old.is_some_and(|old| old["metadata"][field] != metadata[field]) {
            let (path, new) = (path.child(field), metadata[field].clone());
            errors.push(Error::invalid(path, new, "field is immutable"));
        }
    }
    errors
}

fn validate_name(kind: &Kind, metadata: &Value, path: &Path, errors: &mut Vec<Error>) {
    let prefix = value::text(metadata, "generateName");
    if !prefix.is_empty() {
        let faults = kind.strategy.name.check_prefix(prefix).into_iter();
        let path = path.child("generateName");
        errors.extend(faults.map(|fault| Error::invalid(path.clone(), prefix, fault)));
    }
    match value::text(metadata, "name") {
        "" => errors.push(Error::required(
            path.child("name"),
            "name or generateName is required",
        )),
        name => {
            let faults = kind.strategy.name.check(name).into_iter();
            let path = path.child("name");
            errors.extend(faults.map(|fault| Error::invalid(path.clone(), name, fault)));
        }
    }
    if kind.namespaced {
        match value::text(metadata, "namespace") {
            "" => errors.push(Error::required(path.child("namespace"), "")),
            namespace => {
                let faults = names::dns_label(namespace).into_iter();
                let path = path.child("namespace");
                errors.extend(faults.map(|fault| Error::invalid(path.clone(), namespace, fault)));
            }
        }
    }
}

fn validate_labels(metadata: &Value, path: &Path, errors: &mut Vec<Error>) {
    for (key, content) in value::entries(metadata, "labels") {
        let faults = names::qualified_name(key).into_iter();
        errors.extend(faults.map(|fault| Error::invalid(path.clone(), key, fault)));
        let text = content.as_str().unwrap_or_default();
        let faults = names::label_value(text).into_iter();
        errors.extend(faults.map(|fault| Error::invalid(path.clone(), text, fault)));
    }
}

fn validate_annotations(metadata: &Value, path: &Path, errors: &mut Vec<Error>) {
    let mut size = 0;
    for (key, content) in value::entries(metadata, "annotations") {
        let faults = names::qualified_name(&key.to_lowercase()).into_iter();
        errors.extend(faults.map(|fault| Error::invalid(path.clone(), key, fault)));
        size += key.len() + content.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_MAX {
        errors.push(Error::too_long(path.clone(), ANNOTATIONS_MAX));
    }
}

fn validate_owners(metadata: &Value, path: &Path, errors: &mut Vec<Error>) {
    for owner in value::list(metadata, "ownerReferences") {
        let said = |field: &str| value::text(owner, field);
        let version = said("apiVersion");
        if version.is_empty() || version.matches('/').count() > 1 {
            let detail = "version must not be empty";
            errors.push(Error::invalid(path.child("apiVersion"), version, detail));
        }
        let empty = ["kind", "name", "uid"].into_iter();
        for field in empty.filter(|field| said(field).is_empty()) {
            errors.push(Error::invalid(path.child(field), "", "must not be empty"));
        }
        if (version, said("kind")) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(Error::invalid(path.clone(), owner.clone(), detail));
        }
    }
    let owners = value::list(metadata, "ownerReferences").iter();
    let mut controllers = owners.filter(|owner| owner["controller"] == true);
    // Once, however many there are: it shows all of them.
    if let (Some(one), Some(other)) = (controllers.next(), controllers.next()) {
        let show = |owner| {
            format!(
                "{}/{}",
                value::text(owner, "kind"),
                value::text(owner, "name")
            )
        };
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
            show(one),
            show(other)
        );
        let owners = metadata["ownerReferences"].clone();
        errors.push(Error::invalid(path.clone(), owners, detail));
    }
}

/// Kubernetes' own kinds take finalizers with a domain only, and the standard ones. While an object
/// is being deleted, finalizers can go but none can come.
fn validate_finalizers(
    kind: &Kind,
    metadata: &Value,
    old: Option<&Value>,
    errors: &mut Vec<Error>,
) {
    let path = &Path::new("metadata").child("finalizers");
    let has = |wanted: &str| value::texts(metadata, "finalizers").any(|one| one == wanted);
    for name in value::texts(metadata, "finalizers") {
        let faults = names::qualified_name(name).into_iter();
        errors.extend(faults.map(|fault| Error::invalid(path.clone(), name, fault)));
    }
    if has(finalizers::ORPHAN) && has(finalizers::FOREGROUND) {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        let all = metadata["finalizers"].clone();
        errors.push(Error::invalid(path.clone(), all, detail));
    }
    for (index, name) in value::texts(metadata, "finalizers").enumerate() {
        if kind.strategy.qualified_finalizers && is_unqualified(name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(Error::invalid(path.index(index), name, detail));
        }
    }
    let Some(old) = old.filter(|old| is_going(old)) else {
        return;
    };
    let before: BTreeSet<&str> = value::texts(old, "metadata.finalizers").collect();
    let added: Vec<String> = value::texts(metadata, "finalizers")
        .filter(|one| !before.contains(one))
        .map(|one| format!("{one:?}"))
        .collect();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        errors.push(Error::forbidden(path.clone(), detail));
    }
}

/// Whether an object is being deleted.
pub(crate) fn is_going(object: &Value) -> bool {
    !value::at(object, "metadata.deletionTimestamp").is_null()
}

/// Whether others may mean another thing by this finalizer.
fn is_unqualified(name: &str) -> bool {
    let standard = [
        finalizers::ORPHAN,
        finalizers::FOREGROUND,
        finalizers::KUBERNETES,
    ];
    !name.contains('/') && !standard.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_cut_and_end_in_the_suffix() {
        let check = |prefix: String, expected: String| {
            let mut metadata = Map::from_iter([("generateName".to_owned(), json!(prefix))]);
            generate_name(&mut metadata, "x7q2z");
            assert_eq!(metadata["name"], json!(expected));
        };
        check("web-".to_owned(), "web-x7q2z".to_owned());
        check("a".repeat(70), format!("{}x7q2z", "a".repeat(58)));
        check("ä".repeat(40), format!("{}x7q2z", "ä".repeat(29)));
    }

    #[test]
    fn finalizers_cannot_be_added_while_deleting() {
        let old = json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["a.io/x"]}});
        let kinds = crate::kinds::builtin::kinds();
        let mut kinds = kinds.into_iter();
        let kind = kinds.find(|kind| kind.is("", "configmaps"));
        let kind = kind.expect("a kind");
        let check = |finalizers: Value| {
            let metadata = json!({ "finalizers": finalizers });
            let mut errors = Vec::new();
            validate_finalizers(&kind, &metadata, Some(&old), &mut errors);
            errors.len()
        };
        assert_eq!(check(json!([])), 0);
        assert_eq!(check(json!(["a.io/x"])), 0);
        assert_eq!(check(json!(["a.io/x", "b.io/y"])), 1);
    }
}
