//! At most ten updaters per object: the oldest are merged, version by version.

use std::collections::BTreeMap;

use super::entries::{Managed, ManagerInfo, Operation};
use crate::updater::Owned;

const MAX_UPDATERS: usize = 10;
const MERGED: &str = "ancient-changes";

pub(super) fn limit_updaters(managed: &mut Managed) {
    let updaters = managed
        .owners
        .iter()
        .filter(|(_, owned)| !owned.applied)
        .map(|(id, _)| id.clone());
    let mut updaters: Vec<String> = updaters.collect();
    if updaters.len() <= MAX_UPDATERS {
        return;
    }
    let time = |id: &String| managed.infos.get(id).and_then(|(_, time)| *time);
    updaters.sort_by_key(|id| {
        (
            time(id).map_or(0, deltaplane_api::time::Time::unix),
            id.clone(),
        )
    });
    let mut excess = updaters.len() - MAX_UPDATERS;
    let mut first_of: BTreeMap<Box<str>, String> = BTreeMap::new();
    for id in updaters {
        if excess == 0 {
            break;
        }
        let Some(version) = managed
            .owners
            .get(&id)
            .map(|owned| owned.api_version.clone())
        else {
            continue;
        };
        match first_of.get(&version).cloned() {
            // One entry alone has nothing to be merged with.
            None => drop(first_of.insert(version, id)),
            Some(first) => {
                merge(managed, &first, &id, &version);
                excess -= 1;
            }
        }
    }
}

/// Merges `id` into the bucket of its version, which begins as `first`.
fn merge(managed: &mut Managed, first: &str, id: &str, version: &str) {
    let bucket = ManagerInfo {
        manager: MERGED.into(),
        operation: Operation::Update,
        api_version: version.into(),
        subresource: "".into(),
    };
    let bucket_id = bucket.id();
    if !managed.owners.contains_key(&bucket_id)
        && let Some(owned) = managed.owners.remove(first)
    {
        managed.owners.insert(bucket_id.clone(), owned);
    }
    let Some(owned) = managed.owners.remove(id) else {
        return;
    };
    let merged = match managed.owners.remove(&bucket_id) {
        Some(bucket) => Owned {
            set: owned.set.union(&bucket.set),
            ..owned
        },
        None => owned,
    };
    managed.owners.insert(bucket_id.clone(), merged);
    // The bucket is as old as its youngest part.
    let time = managed.infos.get(id).and_then(|(_, time)| *time);
    managed.infos.insert(bucket_id, (bucket, time));
}
