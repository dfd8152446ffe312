//! What every template must have and must not have, whatever its kind.

use deltaplane_api::field::Path;
use serde_json::Value as Json;

use crate::kinds::{Gvk, Known};
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
pub(super) fn shape(object: &Json, at: &dyn Fn() -> Path, problems: &mut Problems) {
    for field in ["apiVersion", "kind"] {
        let wrong = match object.get(field) {
            None => Some("it is required".to_owned()),
            Some(Json::String(text)) => written(field, text),
            Some(other) => Some(format!("expected string, got {}", super::word(other))),
        };
        if let Some(message) = wrong {
            problems.push(Problem::new(&at().child(field), message));
        }
    }
    let wrong = match object.get("metadata") {
        None => Some("it is required".to_owned()),
        Some(Json::Object(_)) => None,
        Some(other) => Some(format!("expected object, got {}", super::word(other))),
    };
    if let Some(message) = wrong {
        problems.push(Problem::new(&at().child("metadata"), message));
    }
}

/// What is wrong with a version or a kind.
fn written(field: &str, text: &str) -> Option<String> {
    if text.contains("${") {
        return Some("it must be written out, not computed".to_owned());
    }
    let valid = match field {
        "kind" => !text.is_empty(),
        _ => Gvk::parse(text, "Any").is_some(),
    };
    (!valid).then(|| format!("{text:?} is not valid"))
}

/// What is wrong with the namespace of an object: it must be given, or must not.
pub(super) fn namespace(
    namespace: Option<&Json>,
    known: &Known,
    instance_namespaced: bool,
) -> Option<String> {
    let kind = &known.gvk().kind;
    if !known.namespaced() {
        return namespace
            .map(|_| format!("{kind} is cluster-scoped and must not set metadata.namespace"));
    }
    let text = namespace.and_then(Json::as_str).unwrap_or_default();
    (!instance_namespaced && text.trim().is_empty()).then(|| {
        format!(
            "{kind} is namespaced and must set metadata.namespace when the instance is \
             cluster-scoped"
        )
    })
}

/// Labels and annotations that are kept for what runs the graph.
pub(super) fn reserved(object: &Json, path: &Path, problems: &mut Problems) {
    for field in ["labels", "annotations"] {
        let Some(Json::Object(map)) = object["metadata"].get(field) else {
            continue;
        };
        for key in map.keys() {
            if let Some(prefix) = RESERVED.iter().find(|prefix| key.starts_with(**prefix)) {
                let path = path.child("metadata").child(field).key(key);
                let message =
                    format!("{field} with prefix {prefix:?} are reserved for internal use");
                problems.push(Problem::new(&path, message));
            }
        }
    }
}
