//! The hand-over from client-side apply, which kept its last configuration in an annotation.

use serde_json::Value;

use super::{Context, metadata};
use crate::depth;
use crate::fieldset::Set;
use crate::typed::{self, Duplicates};
use crate::updater::Conflict;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager whose two ways of applying are reconciled.
const KUBECTL: &str = "kubectl";
/// Kubernetes' limit for all annotations of an object together.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// Whether the annotation could settle conflicts at all.
pub(super) fn may_forgive(cx: &Context<'_>, live: &Value) -> bool {
    cx.manager == KUBECTL && annotation(live).is_some()
}

/// The conflicts that stay when `kubectl` may take over what it applied itself on the client's
/// side, and nobody has changed since.
pub(super) fn not_forgiven(
    cx: &Context<'_>,
    live: &Value,
    conflicts: Vec<Conflict>,
) -> Vec<Conflict> {
    let Some(own) = unchanged_since(cx, live) else {
        return conflicts;
    };
    conflicts
        .into_iter()
        .filter(|conflict| !own.contains(&conflict.path))
        .collect()
}

/// The fields of the last configuration that the object still has.
fn unchanged_since(cx: &Context<'_>, live: &Value) -> Option<Set> {
    let schema = cx.versions.schema(cx.api_version)?;
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion")?.as_str()? != cx.api_version || depth::too_deep(&last) {
        return None;
    }
    for object in [live, &last] {
        typed::check(object, schema.root(), Duplicates::Refused).ok()?;
    }
    let changes = typed::compare(&last, live, schema.root()).ok()?;
    let fields = typed::fields(&last, schema.root());
    Some(
        fields
            .difference(&changes.modified)
            .difference(&changes.added)
            .difference(&changes.removed),
    )
}

fn annotation(object: &Value) -> Option<&str> {
    metadata(object, "annotations")?
        .get(ANNOTATION)?
        .as_str()
        .filter(|text| !text.is_empty())
}

/// Keeps the annotation in step, for users who may go back to client-side apply.
pub(super) fn refresh(manager: &str, object: &mut Value, patch: &Value) {
    if manager != KUBECTL || annotation(object).is_none() {
        return;
    }
    let mut config = patch.clone();
    if let Some(annotations) = config
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
    }
    let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), format!("{config}\n").into());
    let size: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}
