//! Old revisions go, but for those that instances run or may run.

use std::collections::BTreeSet;

use deltaplane_api::admission::Admission;
use deltaplane_client::{ObjectKey, Query, Resource, feed, request};
use serde_json::{Value, json};

use super::api;
use super::revision::{self, KEPT, Revision};
use crate::Context;
use crate::queue::Failure;

/// Deletes what nobody needs any more of the revisions of a definition, whose instances these are.
pub(super) async fn keep(
    context: &Context,
    instances: &Resource,
    revisions: &[Revision],
) -> Result<(), Failure> {
    if revisions.len() <= KEPT {
        return Ok(());
    }
    let mut in_use = BTreeSet::new();
    let query = Query::metadata(instances.clone());
    let listed = feed::list(&context.client, &query, |item| {
        let object: Option<Value> = item.parse().ok();
        let admission = object.as_ref().and_then(Admission::read);
        in_use.extend(admission.map(|one| one.at));
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
