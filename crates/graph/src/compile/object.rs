//! What every template must have and must not have, whatever its kind.

use deltaplane_api::field::Path;
use serde_json::Value as Json;

use crate::kinds::Known;
use crate::problem::{Problem, Problems};

/// Labels and annotations that are not for templates.
const RESERVED: [&str; 2] = ["kro.run/", "internal.kro.run/"];

/// The kind whose templates may have expressions in their metadata only.
pub(super) fn is_crd(known: &Known) -> bool {
    let gvk = known.gvk();
    gvk.group == "apiextensions.k8s.io"
        && gvk.version == "v1"
        && gvk.kind == "CustomResourceDefinition"
}

/// Version, kind and metadata.
pub(super) fn shape(object: &Json, path: &Path, problems: &mut Problems) {
    for field in ["apiVersion", "kind"] {
        let path = path.child(field);
        match object.get(field) {
            None => problems.push(Problem::new(&path, "it is required")),
            Some(Json::String(text)) if text.contains("${") => {
                let message = "it must be written out, not computed";
                problems.push(Problem::new(&path, message));
            }
            Some(Json::String(text)) => {
                let valid = match field {
                    "kind" => !text.is_empty(),
                    _ => crate::kinds::Gvk::parse(text, "Any").is_some(),
                };
                if !valid {
                    let message = format!("{text:?} is not valid");
                    problems.push(Problem::new(&path, message));
                }
            }
            Some(other) => {
                let message = format!("expected string, got {}", super::word(other));
                problems.push(Problem::new(&path, message));
            }
        }
    }
    let path = path.child("metadata");
    match object.get("metadata") {
        None => problems.push(Problem::new(&path, "it is required")),
        Some(Json::Object(_)) => {}
        Some(other) => {
            let message = format!("expected object, got {}", super::word(other));
            problems.push(Problem::new(&path, message));
        }
    }
}

/// Whether the object says which namespace it is in, if it must or must not.
pub(super) fn namespace(
    namespace: Option<&Json>,
    known: &Known,
    instance_namespaced: bool,
    path: &Path,
    problems: &mut Problems,
) {
    let path = path.child("namespace");
    let kind = &known.gvk().kind;
    if !known.namespaced() && namespace.is_some() {
        let message = format!("{kind} is cluster-scoped and must not set metadata.namespace");
        problems.push(Problem::new(&path, message));
    }
    let given = namespace
        .and_then(Json::as_str)
        .is_some_and(|text| !text.trim().is_empty());
    if known.namespaced() && !instance_namespaced && !given {
        let message = format!(
            "{kind} is namespaced and must set metadata.namespace when the instance is \
             cluster-scoped"
        );
        problems.push(Problem::new(&path, message));
    }
}

/// Labels and annotations that are kept for what runs the graph.
pub(super) fn reserved(object: &Json, path: &Path, problems: &mut Problems) {
    for (field, word) in [("labels", "labels"), ("annotations", "annotations")] {
        let Some(Json::Object(map)) = object["metadata"].get(field) else {
            continue;
        };
        for key in map.keys() {
            if let Some(prefix) = RESERVED.iter().find(|prefix| key.starts_with(**prefix)) {
                let path = path.child("metadata").child(field).key(key);
                let message =
                    format!("{word} with prefix {prefix:?} are reserved for internal use");
                problems.push(Problem::new(&path, message));
            }
        }
    }
}
