//! Jobs: unless their author selects Pods by hand, the server generates labels and a selector that
//! belong to one Job alone.

use deltaplane_api::field::{Error, Path};
use deltaplane_api::jobs::{CONTROLLER_UID, JOB_NAME, LEGACY_CONTROLLER_UID, LEGACY_JOB_NAME};
use deltaplane_api::selector::check_form;
use serde_json::{Value, json};

use super::immutable;
use crate::value;

/// Adds the selector, and the labels of the template, that only this Job has.
pub(super) fn generate_selector(job: &mut Value) {
    if is_manual(job) {
        return;
    }
    let (name, uid) = identity(job);
    let Some(spec) = value::map_mut(job, "spec") else {
        return;
    };
    let template = spec.entry("template").or_insert_with(|| json!({}));
    if let Some(metadata) = value::map_mut(template, "metadata") {
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        for (key, text) in expected_labels(&name, &uid) {
            insert_absent(labels, key, text);
        }
    }
    let selector = spec.entry("selector").or_insert_with(|| json!({}));
    if value::map_mut(selector, "matchLabels").is_some() {
        insert_absent(&mut selector["matchLabels"], CONTROLLER_UID, &uid);
    }
}

/// All that is wrong with the selector, and with what it selects. Jobs that were stored without one
/// stay as they are.
pub(super) fn validate(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    let selector = value::at(new, "spec.selector");
    if old.is_some_and(|old| value::at(old, "spec.selector").is_null()) {
        return errors;
    }
    if selector.is_null() {
        errors.push(Error::required(spec.child("selector"), ""));
    } else {
        errors.extend(check_form(selector, &spec.child("selector")));
    }
    let labels = value::at(new, "spec.template.metadata.labels");
    let path = spec.child("template").child("metadata").child("labels");
    if !is_manual(new) && !selector.is_null() {
        validate_generated(new, labels, &path, &mut errors);
    }
    if value::entries(selector, "matchLabels").any(|(key, want)| labels[key] != *want) {
        let detail = "`selector` does not match template `labels`";
        errors.push(Error::invalid(path, labels.clone(), detail));
    }
    if let Some(old) = old {
        immutable("spec.selector", new, old, &mut errors);
    }
    errors
}

/// The labels are those of this Job, and the selector selects them.
fn validate_generated(job: &Value, labels: &Value, path: &Path, errors: &mut Vec<Error>) {
    let (name, uid) = identity(job);
    for (key, expected) in expected_labels(&name, &uid) {
        let path = path.key(key);
        let detail = format!("must be '{expected}'");
        match labels[key].as_str() {
            None => errors.push(Error::required(path, detail)),
            Some(found) if found != expected => {
                errors.push(Error::invalid(path, labels.clone(), detail));
            }
            Some(_) => {}
        }
    }
    let selector = value::at(job, "spec.selector");
    let expected = expected_labels(&name, &uid);
    let is_own = |(key, found): (&str, &Value)| {
        expected
            .iter()
            .any(|(own, text)| *own == key && found == text)
    };
    let selects = value::entries(selector, "matchLabels").all(is_own)
        && value::list(selector, "matchExpressions").is_empty();
    if !selects {
        let path = Path::new("spec").child("selector");
        let detail = "`selector` not auto-generated";
        errors.push(Error::invalid(path, selector.clone(), detail));
    }
}

fn is_manual(job: &Value) -> bool {
    value::at(job, "spec.manualSelector") == &Value::Bool(true)
}

fn identity(job: &Value) -> (String, String) {
    let text = |path: &str| value::text(job, path).to_owned();
    (text("metadata.name"), text("metadata.uid"))
}

fn expected_labels<'a>(name: &'a str, uid: &'a str) -> [(&'static str, &'a str); 4] {
    [
        (LEGACY_CONTROLLER_UID, uid),
        (LEGACY_JOB_NAME, name),
        (CONTROLLER_UID, uid),
        (JOB_NAME, name),
    ]
}

fn insert_absent(map: &mut Value, key: &str, text: &str) {
    if let Some(map) = map.as_object_mut() {
        map.entry(key).or_insert_with(|| json!(text));
    }
}
