//! Old revisions go, but for those that instances run or may run.

use std::collections::BTreeSet;

use deltaplane_api::admission::Admission;
use deltaplane_client::{ObjectKey, Query, Resource, feed, request};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::api;
use super::revision::{self, KEPT, Revision};
use crate::Context;
use crate::queue::Failure;

/// Keeps those of the revisions of a definition that are needed, and no others, given the kind of
/// its instances.
pub(super) async fn keep(
    context: &Context,
    definition: &Value,
    instances: &Resource,
    revisions: &[Revision],
) -> Result<(), Failure> {
    for one in revisions.iter().filter(|one| !one.belongs_to(definition)) {
        adopt(context, definition, one).await?;
    }
    if revisions.len() <= KEPT {
        return Ok(());
    }
    let mut in_use = BTreeSet::new();
    let query = Query::metadata(instances.clone());
    let listed = feed::list(&context.client, &query, |item| {
        let object: Option<Value> = item.parse().ok();
        let admission = object.as_ref().and_then(Admission::read);
        let used = admission
            .into_iter()
            .flat_map(|one| [one.at, one.settled()]);
        in_use.extend(used);
    });
    listed
        .await
        .map_err(Failure::to("find out which revisions are in use"))?;
    for one in revision::surplus(revisions, &in_use) {
        let path = api::revisions().object_path(&ObjectKey::cluster(&one.name));
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        match request::delete(&context.client, &path, &options).await {
            Err(error) if !error.is_not_found() => {
                return Err(Failure::to("delete an old revision")(error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// What a definition of that name left behind is this one's, and does not go with the other.
async fn adopt(context: &Context, definition: &Value, one: &Revision) -> Result<(), Failure> {
    let path = api::revisions().object_path(&ObjectKey::cluster(&one.name));
    let change = json!({"metadata": {"ownerReferences": revision::owners(definition)}});
    let format = request::Patch::Merge;
    let patched = request::patch::<IgnoredAny>(&context.client, &path, format, &change).await;
    match patched {
        Err(error) if !error.is_not_found() && !error.is_conflict() => {
            Err(Failure::to("take on a revision")(error))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}
