//! Holds what a zone sends against its quota: before anything is written for it, and as it would be
//! stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use deltaplane_apiserver::Error;
use deltaplane_apiserver::error::About;
use deltaplane_apiserver::seams::{Admission, BoxFuture as SeamFuture, Review};
use deltaplane_border::Target;
use deltaplane_runtime::heavy;
use deltaplane_store::Collection;
use deltaplane_sync::{
    Item, Mirrored, ObjectName, Origin, Outcome, Position, SyncKind, ZoneName, is_named_by_labels,
    mirrored_name,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;

use crate::fleet::Fleet;
use crate::kinds::{SYNC_USER, TENANT};
use crate::quota::{QuotaExceeded, QuotaLimits, SizeChange, ZoneQuota, ZoneUsage, content_size};
use crate::session::MAX_OBJECT;

/// What a zone sends, within its quota.
pub(crate) struct Metered<T> {
    pub(crate) target: T,
    pub(crate) zone: ZoneName,
    pub(crate) usage: Arc<Mutex<ZoneUsage>>,
    pub(crate) fleet: Fleet,
}

/// Holds the objects of zones against their quotas as the hub would store them.
pub struct UploadQuota(pub Fleet);

// === impl UploadQuota ===

impl UploadQuota {
    fn check(&self, review: &Review<'_>) -> Result<(), Error> {
        let resource = &review.resource;
        let is_upload = review.user.name == SYNC_USER && resource.subresource.is_empty();
        let origin = Origin::of(review.object).filter(|_| is_upload);
        let Some(Origin::Zone(zone)) = origin else {
            return Ok(());
        };
        let kind = SyncKind::new(resource.group, resource.kind);
        let name = ObjectName::new(resource.namespace, Mirrored::authored_as(review.object));
        // Sync writes nothing else.
        let (Ok(kind), Ok(name)) = (kind, name) else {
            return Ok(());
        };
        let change = SizeChange {
            before: review.old.map(content_size),
            after: content_size(review.object),
        };
        let usage = self.0.usage_of(&zone);
        let quota = self.0.quota_of(&zone);
        let stored = usage.lock().store(&quota, &kind, &name, change);
        stored.map_err(|exceeded| {
            let about = About {
                group: resource.group,
                resource: resource.plural,
                name: resource.name,
            };
            Error::forbidden(about, &exceeded.to_string())
        })
    }
}

impl Admission for UploadQuota {
    fn admit<'a>(&'a self, _review: Review<'a>) -> SeamFuture<'a, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn conclude(&self, review: &Review<'_>) -> Result<(), Error> {
        self.check(review)
    }
}

// === impl Metered ===

impl<T> Metered<T> {
    /// Makes room for an object that is to be written; returns how large it was before.
    fn reserve(
        &self,
        kind: &SyncKind,
        name: &ObjectName,
        item: &Item,
    ) -> Result<Option<u64>, QuotaExceeded> {
        // One that is too large is refused without being decoded.
        let size = if item.body.len() > MAX_OBJECT {
            item.body.len() as u64
        } else {
            content_size(&serde_json::from_slice(&item.body).unwrap_or_default())
        };
        let quota = self.fleet.quota_of(&self.zone);
        let none = BTreeSet::new();
        let made = self.fleet.inner().made_namespaces.read();
        let limits = QuotaLimits {
            quota: &quota,
            made: made.of(&self.zone).unwrap_or(&none),
        };
        let mut usage = self.usage.lock();
        usage.reserve(limits, kind, name, size)
    }

    /// Counts an object as it was before a write that failed. By then it is known whether a namespace
    /// was made for it, which stays.
    async fn restore(&self, kind: &SyncKind, name: &ObjectName, before: Option<u64>) {
        self.fleet.caught_up().await;
        let mut usage = self.usage.lock();
        match before {
            Some(size) => usage.set(kind, name, size),
            None => {
                usage.remove(kind, name);
            }
        }
    }
}

impl<T: Target> Target for Metered<T> {
    fn apply<'a>(
        &'a self,
        kind: &'a SyncKind,
        name: &'a ObjectName,
        item: &'a Item,
        at: &'a Position,
    ) -> BoxFuture<'a, Outcome> {
        async move {
            let before = self
                .reserve(kind, name, item)
                .map_err(|exceeded| exceeded.to_string())?;
            let applied = self.target.apply(kind, name, item, at).await;
            if applied.is_err() {
                self.restore(kind, name, before).await;
            }
            applied
        }
        .boxed()
    }

    fn orphan<'a>(&'a self, kind: &'a SyncKind, name: &'a ObjectName) -> BoxFuture<'a, Outcome> {
        self.target.orphan(kind, name)
    }

    fn delete<'a>(&'a self, kind: &'a SyncKind, name: &'a ObjectName) -> BoxFuture<'a, Outcome> {
        async move {
            let deleted = self.target.delete(kind, name).await;
            if deleted.is_ok() {
                self.usage.lock().remove(kind, name);
            }
            deleted
        }
        .boxed()
    }

    fn count(&self, kind: &SyncKind) -> u64 {
        self.target.count(kind)
    }

    fn parallel(&self) -> usize {
        self.target.parallel()
    }

    fn approves_deletions(&self) -> bool {
        self.fleet.approves_deletions(&self.zone)
    }

    fn along<'a>(
        &'a self,
        kind: &'a SyncKind,
        names: &'a [ObjectName],
    ) -> BoxFuture<'a, Result<u64, String>> {
        self.target.along(kind, names)
    }
}

// === impl Fleet ===

impl Fleet {
    /// How much a zone may keep here.
    fn quota_of(&self, zone: &ZoneName) -> ZoneQuota {
        let known = self.inner().known.borrow();
        let spec = known.zones.get(zone).and_then(|zone| zone.spec.quota);
        ZoneQuota::of(spec.unwrap_or_default())
    }

    /// How much a zone keeps here; the same for all of its sessions.
    pub(crate) fn usage_of(&self, zone: &ZoneName) -> Arc<Mutex<ZoneUsage>> {
        let mut zones = self.inner().zones.lock();
        zones.usage.entry(zone.clone()).or_default().clone()
    }

    /// Counts the objects of a kind that came from a zone and are here. Those that were counted
    /// before are not read again.
    pub(crate) fn measure(&self, zone: &ZoneName, kind: &SyncKind, plural: &str) {
        let key = (zone.clone(), kind.clone());
        let here: BTreeSet<ObjectName> = {
            let all = self.inner().from_zones.read();
            let here = all.get(&key).into_iter().flatten();
            here.map(|(name, _)| name.clone()).collect()
        };
        let usage = self.usage_of(zone);
        usage.lock().retain(kind, &here);
        let resource = match kind.group() {
            "" => plural.to_owned(),
            group => format!("{group}/{plural}"),
        };
        let Ok(collection) = Collection::new(TENANT, &resource) else {
            return;
        };
        let unknown = here
            .into_iter()
            .filter(|name| !usage.lock().counts(kind, name));
        for name in unknown.collect::<Vec<_>>() {
            let local = mirrored_name(zone, name.name(), is_named_by_labels(kind));
            let stored = collection.key(name.namespace(), &local).ok();
            let stored = stored.and_then(|key| self.inner().store.get(&key));
            let size = stored.map_or(0, |stored| {
                let object = heavy(|| serde_json::from_slice::<Value>(stored.bytes()));
                object.map_or(0, |object| content_size(&object))
            });
            usage.lock().set(kind, &name, size);
        }
    }
}
