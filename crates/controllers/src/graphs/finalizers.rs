//! The finalizer that kro puts on definitions and revisions.
//!
//! Ours need none: what must happen when they go is decided by what is left. On a cluster that kro
//! ran before, the finalizer is there, and nobody else would remove it.

use deltaplane_client::{ObjectKey, Resource, request};
use deltaplane_graph::labels;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{Seen, api};
use crate::Context;
use crate::queue::Failure;

/// Returns true if an object is being deleted and has the finalizer.
pub(super) fn keeps(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let finalizers = metadata["finalizers"].as_array();
    let mut finalizers = finalizers.into_iter().flatten();
    metadata["deletionTimestamp"].is_string() && finalizers.any(|one| *one == labels::FINALIZER)
}

/// Removes the finalizer from a definition and its revisions, if they are being deleted.
pub(super) async fn release(context: &Context, seen: &Seen) -> Result<(), Failure> {
    for revision in seen.revisions.iter().filter(|one| one.finalizing) {
        remove(context, &api::revisions(), &revision.name).await?;
    }
    if let Some(definition) = seen.definition.as_ref().filter(|one| keeps(one)) {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        remove(context, &api::definitions(), name).await?;
    }
    Ok(())
}

async fn remove(context: &Context, kind: &Resource, name: &str) -> Result<(), Failure> {
    let path = kind.object_path(&ObjectKey::cluster(name));
    let failed = Failure::to("remove the finalizer of kro");
    let there = match request::get::<Value>(&context.client, &path).await {
        Err(error) if error.is_not_found() => return Ok(()),
        there => there.map_err(failed)?,
    };
    let metadata = &there["metadata"];
    let finalizers = metadata["finalizers"].as_array();
    let finalizers = finalizers.into_iter().flatten();
    let others: Vec<&Value> = finalizers
        .filter(|one| **one != labels::FINALIZER)
        .collect();
    let change = json!({"metadata": {
        "finalizers": others, "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
    }});
    let merge = request::Patch::Merge;
    let patched = request::patch::<IgnoredAny>(&context.client, &path, merge, &change).await;
    match patched {
        Err(error) if error.is_not_found() => Ok(()),
        patched => {
            patched.map_err(Failure::to("remove the finalizer of kro"))?;
            Ok(())
        }
    }
}
