//! The parts of Jobs that Kubernetes generates: labels of their Pods, and a selector of those labels.

use serde_json::Value;

/// The label of a Job's Pods with the uid of the Job.
pub const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// The label of a Job's Pods with the name of the Job.
pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// The same, before these labels had a prefix.
pub const LEGACY_CONTROLLER_UID: &str = "controller-uid";
/// The same, before these labels had a prefix.
pub const LEGACY_JOB_NAME: &str = "job-name";

/// Removes what a server generated into this Job's `spec`, which no other server accepts: it names
/// the uid of the Job. A selector that was written by hand stays.
pub fn remove_generated(spec: &mut Value) {
    if spec["manualSelector"] == true {
        return;
    }
    let generated = [
        CONTROLLER_UID,
        JOB_NAME,
        LEGACY_CONTROLLER_UID,
        LEGACY_JOB_NAME,
    ];
    let labels = spec.pointer_mut("/template/metadata/labels");
    if let Some(labels) = labels.and_then(Value::as_object_mut) {
        labels.retain(|key, _| !generated.contains(&key.as_str()));
        if labels.is_empty() {
            remove(spec.pointer_mut("/template/metadata"), "labels");
        }
    }
    let metadata = spec.pointer("/template/metadata");
    if metadata.is_some_and(|metadata| metadata.as_object().is_some_and(|map| map.is_empty())) {
        remove(spec.pointer_mut("/template"), "metadata");
    }
    remove(Some(spec), "selector");
}

fn remove(object: Option<&mut Value>, field: &str) {
    if let Some(object) = object.and_then(Value::as_object_mut) {
        object.remove(field);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn generated_parts_are_removed() {
        let check = |mut spec: Value, expected: Value| {
            remove_generated(&mut spec);
            assert_eq!(spec, expected);
        };
        let selector = json!({"matchLabels": {CONTROLLER_UID: "u"}});
        let generated = json!({CONTROLLER_UID: "u", JOB_NAME: "j", LEGACY_CONTROLLER_UID: "u",
            LEGACY_JOB_NAME: "j"});
        let mut labelled = generated.clone();
        labelled["app"] = json!("a");
        check(
            json!({"selector": selector, "template": {"metadata": {"labels": labelled}}}),
            json!({"template": {"metadata": {"labels": {"app": "a"}}}}),
        );
        check(
            json!({"selector": selector, "template": {"metadata": {"labels": generated}, "spec": {}}}),
            json!({"template": {"spec": {}}}),
        );
        let manual = json!({"selector": selector, "manualSelector": true,
            "template": {"metadata": {"labels": labelled}}});
        check(manual.clone(), manual);
        check(json!({}), json!({}));
        check(json!("odd"), json!("odd"));
    }
}
