//! Where graphs are authored and do not run: what their users make crosses to where they do.

use deltaplane_client::{Resource, request};
use deltaplane_graph::labels;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::Context;
use crate::queue::Failure;

/// Lets the instances of a graph cross, unless somebody said already how they do.
pub(super) async fn cross(context: &Context, kind: &Resource) -> Result<(), Failure> {
    let synced = Resource::cluster(
        "fleet.deltaplane.io",
        "v1alpha1",
        "syncedkinds",
        "SyncedKind",
    );
    let object = json!({
        "apiVersion": synced.api_version(),
        "kind": synced.kind,
        "metadata": {"name": kind.to_string(), "labels": {labels::OWNED: "true"}},
        "spec": {"group": kind.group, "kind": kind.kind, "direction": "Both"},
    });
    let path = synced.collection_path(None);
    match request::create::<IgnoredAny>(&context.client, &path, &object).await {
        Err(error) if !error.is_conflict() => {
            Err(Failure::to("let the instances of the graph cross")(error))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}
