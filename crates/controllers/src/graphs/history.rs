//! Old revisions go, but for those that instances run or may run.
//!
//! Which those are is asked when a revision was issued, and not each time that a definition is looked
//! at: one that an instance left meanwhile goes with the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_api::admission::Admission;
use deltaplane_client::{ObjectKey, Query, Resource, feed, request};
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::api;
use super::revision::{self, Revision};
use crate::Context;
use crate::queue::Failure;

/// The revisions of each definition of which it is known that they are needed. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Needed(Arc<Mutex<BTreeMap<String, BTreeSet<i64>>>>);

/// The revisions of a definition.
pub(super) struct History<'a> {
    pub(super) definition: &'a Value,
    pub(super) revisions: &'a [Revision],
    /// The kind of its instances.
    pub(super) instances: &'a Resource,
    /// How many revisions are kept, used or not.
    pub(super) kept: usize,
}

/// Keeps those of the revisions of a definition that are needed, and no others.
pub(super) async fn keep(
    context: &Context,
    needed: &Needed,
    history: &History<'_>,
) -> Result<(), Failure> {
    let History {
        definition,
        revisions,
        instances,
        kept,
    } = *history;
    for one in revisions.iter().filter(|one| !one.belongs_to(definition)) {
        adopt(context, definition, one).await?;
    }
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    if revisions.len() <= kept || needed.are_all(name, revisions) {
        return Ok(());
    }
    let mut left: BTreeSet<i64> = revisions.iter().map(|one| one.number).collect();
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
    for one in revision::surplus(revisions, kept, &in_use) {
        let path = api::revisions().object_path(&ObjectKey::cluster(&one.name));
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        match request::delete(&context.client, &path, &options).await {
            Err(error) if !error.is_not_found() => {
                return Err(Failure::to("delete an old revision")(error));
            }
            Ok(()) | Err(_) => drop(left.remove(&one.number)),
        }
    }
    needed.0.lock().insert(name.to_owned(), left);
    Ok(())
}

// === impl Needed ===

impl Needed {
    /// Whether all of these were needed when it was last looked, so that nothing is to be done.
    fn are_all(&self, definition: &str, revisions: &[Revision]) -> bool {
        let needed = self.0.lock();
        let needed = needed.get(definition);
        needed.is_some_and(|needed| revisions.iter().all(|one| needed.contains(&one.number)))
    }

    /// The definition is gone.
    pub(super) fn forget(&self, definition: &str) {
        self.0.lock().remove(definition);
    }
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
