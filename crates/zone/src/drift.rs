//! What came from the hub, and somebody here changed or deleted behind sync: a watch tells, and the
//! hub is asked for it again.
//!
//! Nothing is looked up and nothing is compared but what a watch tells; with nothing happening here
//! nothing is done. How an object should be is known by the mirror ([`Mirror::told`]); when it is
//! sent again is for the hub to decide, which lets those wait who fight.
//!
//! What is found stays found until it is back, from one connection to the next.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use deltaplane_border::{
    Mirror, PendingWrites, RepairNames, Subscriptions, Told, definitions, namespaces,
};
use deltaplane_client::feed::{Event, Feed, Query};
use deltaplane_client::{Item, Pace, Resource};
use deltaplane_runtime::{Stop, TaskGroup};
use deltaplane_sync::{ORIGIN, ObjectName, Outcome, SyncKind, Version};
use futures::StreamExt;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Watches what came from the hub.
pub(crate) struct Drift {
    mirror: Arc<Mirror>,
    client: Client,
    pace: Pace,
    group: TaskGroup,
    stop: Stop,
    found: Mutex<Found>,
    /// Woken when there is something to say.
    wake: Notify,
}

/// Says when an object is not being written any more, however that ended.
pub(crate) struct MirrorWriteGuard<'a> {
    drift: &'a Arc<Drift>,
    kind: &'a SyncKind,
    name: &'a ObjectName,
    done: bool,
}

#[derive(Debug, Default)]
struct Found {
    watched: BTreeSet<SyncKind>,
    writes: PendingWrites,
    /// What is not as it should be.
    lost: RepairNames,
    /// What of it the hub was not told yet.
    unsaid: RepairNames,
    /// What of it the hub was told when its kind was subscribed to, and was not lost again since.
    told: RepairNames,
}

/// One kind that is watched.
struct Watching {
    drift: Arc<Drift>,
    kind: SyncKind,
    /// What was here when the watch began anew, and was not told since.
    missing: BTreeSet<ObjectName>,
}

// === impl Drift ===

impl Drift {
    /// Of what the mirror applies with this client.
    pub(crate) fn new(
        mirror: Arc<Mirror>,
        (client, pace): (Client, Pace),
        (group, stop): (TaskGroup, Stop),
    ) -> Self {
        Self {
            mirror,
            client,
            pace,
            group,
            stop,
            found: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// Sync writes an object. What is told of it meanwhile may be its own doing.
    pub(crate) fn writing<'a>(
        self: &'a Arc<Self>,
        kind: &'a SyncKind,
        name: &'a ObjectName,
    ) -> MirrorWriteGuard<'a> {
        self.found.lock().writes.begin(kind, name);
        MirrorWriteGuard {
            drift: self,
            kind,
            name,
            done: false,
        }
    }

    /// What of a kind is not as it should be. The caller says so to the hub.
    pub(crate) fn lost(&self, kind: &SyncKind) -> BTreeSet<ObjectName> {
        let mut found = self.found.lock();
        found.unsaid.set(kind, BTreeSet::new());
        let lost = found.lost.of(kind);
        found.told.set(kind, lost.clone());
        lost
    }

    /// A connection is over on which the hub sent all that it wanted, but for `open`. What it did
    /// not send of what it was told is not to be here any more.
    pub(crate) fn settle(&self, kind: &SyncKind, open: &BTreeSet<ObjectName>) {
        self.found.lock().settle(kind, open);
    }

    /// Another kind was subscribed to.
    pub(crate) fn subscribed(&self) {
        self.wake.notify_one();
    }

    /// Asks for what is found again, of the kinds that are subscribed to.
    pub(crate) async fn tell(
        &self,
        to: &Subscriptions,
        subscribed: &Mutex<BTreeSet<SyncKind>>,
    ) -> Infallible {
        loop {
            while let Some((kind, names)) = self.unsaid(subscribed) {
                to.repair(kind, names).await;
            }
            self.wake.notified().await;
        }
    }

    fn unsaid(
        &self,
        subscribed: &Mutex<BTreeSet<SyncKind>>,
    ) -> Option<(SyncKind, BTreeSet<ObjectName>)> {
        let subscribed = subscribed.lock();
        self.found.lock().unsaid.take(&subscribed)
    }

    /// Begins to watch a kind, if something of it is here and it is not watched yet.
    pub(crate) fn watch(self: &Arc<Self>, kind: &SyncKind) {
        let is_watched = self.found.lock().watched.contains(kind);
        if is_watched || self.mirror.watched(kind).is_empty() {
            return;
        }
        if !self.found.lock().watched.insert(kind.clone()) {
            return;
        }
        let watching = Watching {
            drift: self.clone(),
            kind: kind.clone(),
            missing: BTreeSet::new(),
        };
        let stop = self.stop.clone();
        self.group.spawn(async move {
            stop.unless(watching.run()).await;
        });
    }

    /// A watch told this.
    fn told(&self, kind: &SyncKind, name: &ObjectName, told: Told) {
        if self.found.lock().writes.defer(kind, name, told) {
            return;
        }
        if self.mirror.told(kind, name, told) {
            tracing::debug!(%kind, %name, ?told, "changed or deleted here behind sync");
            self.found.lock().lose(kind, name);
            self.wake.notify_one();
        }
    }
}

// === impl MirrorWriteGuard ===

impl MirrorWriteGuard<'_> {
    pub(crate) fn end(mut self, outcome: &Outcome) {
        self.done = outcome.is_ok();
        let Self {
            drift, kind, name, ..
        } = self;
        let left = drift.mirror.version(kind, name) == Some(Version::altered());
        // It could not be done as a whole, and something of it is here.
        if outcome.is_err() && left {
            drift.found.lock().lose(kind, name);
            drift.wake.notify_one();
        }
    }
}

impl Drop for MirrorWriteGuard<'_> {
    fn drop(&mut self) {
        let Self {
            drift, kind, name, ..
        } = *self;
        let told = drift.found.lock().end(kind, name, self.done);
        if let Some(told) = told {
            drift.told(kind, name, told);
        }
        drift.watch(kind);
    }
}

// === impl Watching ===

impl Watching {
    async fn run(mut self) {
        let query = Query::metadata(self.resource().await);
        let query = match [definitions(), namespaces()].contains(&self.kind) {
            // Those that were made here serve as well, and may go as well.
            true => query,
            false => query.with_labels(ORIGIN),
        };
        let Drift { client, pace, .. } = &*self.drift;
        let mut events = Feed::new(client.clone(), query, pace.clone()).events();
        while let Some(event) = events.next().await {
            self.event(event);
        }
    }

    /// Where the kind is. It is served, since something of it was applied.
    async fn resource(&self) -> Resource {
        let Drift { mirror, pace, .. } = &*self.drift;
        let mut failures = 0;
        loop {
            if let Ok(Some(resource)) = mirror.served(&self.kind).await {
                return resource;
            }
            failures += 1;
            pace.rest(failures, None).await;
        }
    }

    fn event(&mut self, event: Event) {
        let Self {
            drift,
            kind,
            missing,
        } = self;
        match event {
            Event::Restarted => *missing = drift.mirror.watched(kind).into_iter().collect(),
            Event::Applied(item) => {
                if let Some(name) = name(&item) {
                    missing.remove(&name);
                    drift.told(kind, &name, drift.mirror.there(&item));
                }
            }
            Event::Deleted(item) => {
                if let Some(name) = name(&item) {
                    missing.remove(&name);
                    let revision = item.header.resource_version.parse().unwrap_or(u64::MAX);
                    drift.told(kind, &name, Told::Gone(revision));
                }
            }
            // What was not told of is gone, whenever that was.
            Event::InSync => {
                for name in std::mem::take(missing) {
                    drift.told(kind, &name, Told::Gone(u64::MAX));
                }
            }
        }
    }
}

fn name(item: &Item) -> Option<ObjectName> {
    ObjectName::new(&item.header.namespace, &item.header.name).ok()
}

// === impl Found ===

impl Found {
    /// What was told meanwhile. What was done is as it should be.
    fn end(&mut self, kind: &SyncKind, name: &ObjectName, done: bool) -> Option<Told> {
        if done {
            self.lost.remove(kind, name);
            self.unsaid.remove(kind, name);
        }
        self.writes.end(kind, name)
    }

    fn settle(&mut self, kind: &SyncKind, open: &BTreeSet<ObjectName>) {
        let told = self.told.of(kind);
        self.told.set(kind, BTreeSet::new());
        for name in told.difference(open) {
            self.lost.remove(kind, name);
        }
    }

    fn lose(&mut self, kind: &SyncKind, name: &ObjectName) {
        self.told.remove(kind, name);
        self.lost.add(kind, name);
        self.unsaid.add(kind, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(kind: &str) -> SyncKind {
        SyncKind::new("example.com", kind).expect("legal")
    }

    fn name(text: &str) -> ObjectName {
        text.parse().expect("legal")
    }

    #[test]
    fn what_is_found_stays_so_until_it_is_back() {
        let (widget, a) = (kind("Widget"), name("ns/a"));
        let all = BTreeSet::from([widget.clone()]);
        let mut found = Found::default();
        found.lose(&widget, &a);
        found.writes.begin(&widget, &a);
        found.end(&widget, &a, false);
        let taken = found.unsaid.take(&all);
        assert_eq!(taken, Some((widget.clone(), BTreeSet::from([a.clone()]))));
        assert!(!found.lost.of(&widget).is_empty(), "told, and not back");
        found.writes.begin(&widget, &a);
        found.end(&widget, &a, true);
        assert!(found.lost.of(&widget).is_empty());
    }

    #[test]
    fn what_the_hub_does_not_want_any_more_is_forgotten() {
        let (widget, names) = (kind("Widget"), ["ns/a", "ns/b", "ns/c"].map(name));
        let mut found = Found::default();
        for name in &names {
            found.lose(&widget, name);
        }
        let told = found.lost.of(&widget);
        found.told.set(&widget, told);
        // Lost once more, after it was back.
        found.lose(&widget, &names[2]);
        found.settle(&widget, &BTreeSet::from([names[1].clone()]));
        let left = BTreeSet::from([names[1].clone(), names[2].clone()]);
        assert_eq!(found.lost.of(&widget), left);
    }
}
