//! What the zone has authored, kept as a catalog for the hub.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_border::{
    Audience, Catalog, Edit, Entry, Openings, ServedKind, Shared, served_kind,
};
use deltaplane_client::feed::{Event, Feed, Query};
use deltaplane_client::{Item as ApiItem, Pace, Resource};
use deltaplane_fleet::kinds::SyncedKind;
use deltaplane_runtime::{Stop, TaskGroup};
use deltaplane_sync::{Crossing, Item, ORIGIN, ORPHANED, ObjectName, Revision, SyncKind};
use futures::StreamExt;
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use crate::kinds_file::{Kind, Kinds};

/// Follows the kinds that the hub asks for.
pub(crate) struct Uploads {
    client: Client,
    pace: Pace,
    group: TaskGroup,
    stop: Stop,
    kinds: watch::Receiver<Arc<Kinds>>,
    catalog: Arc<Shared>,
    feeds: Mutex<BTreeMap<SyncKind, watch::Receiver<bool>>>,
    unread: watch::Sender<UnreadKinds>,
}

/// The kinds whose objects cannot be read, and why.
pub(crate) type UnreadKinds = BTreeMap<SyncKind, String>;

/// Finds the version in which the zone serves a kind, and says when it serves none.
#[derive(Clone)]
struct KindLookup {
    client: Client,
    pace: Pace,
    kind: SyncKind,
    unread: watch::Sender<UnreadKinds>,
}

/// One kind that is followed.
struct Following {
    kind: SyncKind,
    served: KindLookup,
    /// Says which of its objects cross, and what the kind is called in paths. None while the hub
    /// has withdrawn the kind.
    synced: Option<Kind>,
    kinds: watch::Receiver<Arc<Kinds>>,
    catalog: Arc<Shared>,
    /// What was told since the feed began anew.
    starting: Option<(Vec<Edit>, BTreeSet<ObjectName>)>,
    in_sync: watch::Sender<bool>,
}

/// Why nothing is uploaded of a kind that the hub asks for.
const UNTOLD: &str = "the hub has not said yet which objects of this kind are synced";

// === impl Uploads ===

impl Uploads {
    /// Of an API that is at `at`.
    pub(crate) fn new(
        client: Client,
        pace: Pace,
        (openings, at): (Openings, Revision),
        (group, stop): (TaskGroup, Stop),
        kinds: watch::Receiver<Arc<Kinds>>,
    ) -> Self {
        Self {
            client,
            pace,
            group,
            stop,
            kinds,
            catalog: Arc::new(Shared::new(Catalog::new(openings, at))),
            feeds: Mutex::default(),
            unread: watch::Sender::default(),
        }
    }

    pub(crate) fn catalog(&self) -> &Arc<Shared> {
        &self.catalog
    }

    /// The kinds whose objects cannot be read, now and later.
    pub(crate) fn unread(&self) -> watch::Receiver<UnreadKinds> {
        self.unread.subscribe()
    }

    /// Waits until all of a kind is in the catalog.
    pub(crate) async fn ready(&self, kind: &SyncKind) {
        let known = self.feeds.lock().get(kind).cloned();
        let mut in_sync = match known {
            Some(in_sync) => in_sync,
            None => self.follow(kind).await,
        };
        // An error means that the process stops.
        let _ = in_sync.wait_for(|in_sync| *in_sync).await;
    }

    async fn follow(&self, kind: &SyncKind) -> watch::Receiver<bool> {
        let synced = self.told(kind).await;
        let (sender, in_sync) = watch::channel(false);
        let mut feeds = self.feeds.lock();
        if let Some(known) = feeds.get(kind) {
            return known.clone();
        }
        feeds.insert(kind.clone(), in_sync.clone());
        let served = KindLookup {
            client: self.client.clone(),
            pace: self.pace.clone(),
            kind: kind.clone(),
            unread: self.unread.clone(),
        };
        let following = Following {
            kind: kind.clone(),
            served,
            synced: Some(synced),
            kinds: self.kinds.clone(),
            catalog: self.catalog.clone(),
            starting: None,
            in_sync: sender,
        };
        let stop = self.stop.clone();
        self.group.spawn(async move {
            stop.unless(following.run()).await;
        });
        in_sync
    }

    /// What the hub says of a kind; it may ask before it has told. Meanwhile the kind counts as one
    /// that cannot be read, and the hub shows it.
    async fn told(&self, kind: &SyncKind) -> Kind {
        let mut kinds = self.kinds.clone();
        loop {
            if let Some(told) = find(&kinds.borrow_and_update(), kind) {
                tell_unread(&self.unread, kind, None);
                return told;
            }
            tell_unread(&self.unread, kind, Some(UNTOLD.to_owned()));
            if kinds.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

// === impl KindLookup ===

impl KindLookup {
    fn feed(&self, at: &ServedKind, trouble: watch::Sender<Option<String>>) -> Feed {
        let (group, kind) = (self.kind.group(), self.kind.kind());
        let resource = Resource::cluster(group, &at.version, &at.plural, kind);
        let feed = Feed::new(self.client.clone(), Query::all(resource), self.pace.clone());
        feed.telling(trouble)
    }

    /// Waits until the zone serves the kind under this plural; its definition may be on its way.
    async fn path(&self, plural: String) -> ServedKind {
        let mut failures = 0;
        loop {
            match served_kind(&self.client, &self.kind, &plural).await {
                Ok(Some(served)) if served.plural == plural => {
                    self.tell(None);
                    return served;
                }
                Ok(Some(served)) => self.tell(Some(misnamed(&self.kind, &served.plural))),
                Ok(None) => self.tell(Some("the zone does not serve this kind".to_owned())),
                Err(reason) => self.tell(Some(reason)),
            }
            failures += 1;
            self.pace.rest(failures, None).await;
        }
    }

    /// Ends when the kind is served in another version than the one that cannot be followed.
    async fn moved(&self, trouble: &mut watch::Receiver<Option<String>>, from: &ServedKind) {
        let mut failures = 0;
        loop {
            let reason = trouble.borrow_and_update().clone();
            let is_troubled = reason.is_some();
            self.tell(reason);
            if is_troubled {
                let served = served_kind(&self.client, &self.kind, &from.plural).await;
                if let Ok(Some(served)) = served
                    && served != *from
                {
                    return;
                }
            }
            failures += 1;
            tokio::select! {
                // An error means that the feed ended.
                changed = trouble.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
                () = self.pace.rest(failures, None), if is_troubled => {}
            }
        }
    }

    /// Says whether the kind can be read.
    fn tell(&self, unread: Option<String>) {
        tell_unread(&self.unread, &self.kind, unread);
    }
}

// === impl Following ===

impl Following {
    /// Follows the kind, and begins anew when the hub says something else of it, or when it is
    /// served in another version.
    async fn run(mut self) {
        let served = self.served.clone();
        loop {
            let Some(synced) = &self.synced else {
                // Nobody asks for the kind, so that nobody misses it.
                served.tell(None);
                self.in_sync.send_replace(false);
                self.told_otherwise().await;
                continue;
            };
            let plural = synced.synced.plural.clone();
            let path = tokio::select! {
                path = served.path(plural) => path,
                () = self.told_otherwise() => continue,
            };
            let (tell, mut trouble) = watch::channel(None);
            let mut events = served.feed(&path, tell).events();
            loop {
                tokio::select! {
                    event = events.next() => match event {
                        Some(event) => self.event(event),
                        None => return,
                    },
                    () = self.told_otherwise() => break,
                    () = served.moved(&mut trouble, &path) => break,
                }
            }
        }
    }

    /// Ends when the hub says something else of the kind, or withdraws it.
    async fn told_otherwise(&mut self) {
        loop {
            let told = find(&self.kinds.borrow_and_update(), &self.kind);
            let is_same = match (&told, &self.synced) {
                (Some(told), Some(synced)) => told.is(synced),
                (told, synced) => told.is_none() && synced.is_none(),
            };
            if !is_same {
                self.synced = told;
                return;
            }
            if self.kinds.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Restarted => self.starting = Some((Vec::new(), BTreeSet::new())),
            Event::Applied(item) => self.applied(&item),
            Event::Deleted(item) => {
                let name = ObjectName::new(&item.header.namespace, &item.header.name);
                if let Ok(name) = name {
                    self.edit(name, revision(&item), None);
                }
            }
            Event::InSync => self.started(),
        }
    }

    fn applied(&mut self, item: &ApiItem) {
        let header = &item.header;
        let Ok(name) = ObjectName::new(&header.namespace, &header.name) else {
            return;
        };
        let came_from_elsewhere = header.labels.contains_key(ORIGIN);
        let synced = self.synced.as_ref().filter(|_| !came_from_elsewhere);
        let entry = synced.and_then(|synced| entry(item, &synced.synced));
        self.edit(name, revision(item), entry);
    }

    fn edit(&mut self, name: ObjectName, revision: Revision, becomes: Option<Entry>) {
        let edit = Edit::Object {
            kind: self.kind.clone(),
            name: name.clone(),
            revision,
            becomes,
        };
        match &mut self.starting {
            Some((edits, names)) => {
                names.insert(name);
                edits.push(edit);
            }
            None => self.catalog.apply(vec![edit], revision),
        }
    }

    /// What is there has been told; what was not is gone.
    fn started(&mut self) {
        let Some((mut edits, names)) = self.starting.take() else {
            return;
        };
        let at = edits.iter().map(Edit::revision).max().unwrap_or(0);
        let catalog = self.catalog.read();
        let gone = catalog.entries(&self.kind).map(|(name, _)| name);
        let gone: Vec<ObjectName> = gone.filter(|name| !names.contains(name)).cloned().collect();
        drop(catalog);
        edits.extend(gone.into_iter().map(|name| Edit::Object {
            kind: self.kind.clone(),
            name,
            revision: at,
            becomes: None,
        }));
        let kind = self.kind.clone();
        self.catalog
            .change(edits, at, |catalog| catalog.declare(kind, None));
        self.in_sync.send_replace(true);
    }
}

fn tell_unread(to: &watch::Sender<UnreadKinds>, kind: &SyncKind, unread: Option<String>) {
    to.send_if_modified(|all| {
        let before = match &unread {
            Some(reason) => all.insert(kind.clone(), reason.clone()),
            None => all.remove(kind),
        };
        before != unread
    });
}

fn find(kinds: &Kinds, kind: &SyncKind) -> Option<Kind> {
    kinds.values().find(|one| one.synced.kind == *kind).cloned()
}

fn revision(item: &ApiItem) -> Revision {
    item.header.resource_version.parse().unwrap_or(0)
}

/// Why nothing is uploaded of a kind whose SyncedKind has another plural than the zone's API.
fn misnamed(kind: &SyncKind, plural: &str) -> String {
    let name = match kind.group() {
        "" => plural.to_owned(),
        group => format!("{plural}.{group}"),
    };
    format!(
        "the zone serves {} as {name}; nothing crosses until the SyncedKind has that name",
        kind.kind()
    )
}

/// What of an object goes to the hub.
fn entry(item: &ApiItem, synced: &SyncedKind) -> Option<Entry> {
    let object: Value = item.parse().ok()?;
    // What the hub left here is not the zone's to send, unless somebody makes it so.
    let left = object["metadata"]["annotations"].get(ORPHANED).is_some();
    if !synced.goes_up() || !synced.selects(&object) || left {
        return None;
    }
    let crossing = Crossing::of(&object).ok()?;
    let body = serde_json::to_vec(crossing.object()).ok()?;
    Some(Entry::Shared {
        item: Item {
            version: crossing.version(),
            body: body.into(),
            relayed: None,
        },
        audience: Audience::Everyone,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_selected_stays_in_the_zone() {
        let crosses = |kind: &str, object: Value| {
            let plural = format!("{}s", kind.to_lowercase());
            let synced = json!({
                "metadata": {"name": plural},
                "spec": {
                    "kind": kind, "direction": "Both",
                    "selector": {"matchExpressions": [{"key": "hidden", "operator": "DoesNotExist"}]},
                },
            });
            let synced = SyncedKind::of(&synced).expect("well-formed");
            let item = ApiItem::new(object.to_string().into()).expect("an object");
            entry(&item, &synced).is_some()
        };
        let object = |kind: &str, labels: Value| {
            let metadata = json!({"name": "a", "namespace": "ns", "labels": labels});
            json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})
        };
        assert!(crosses("ConfigMap", object("ConfigMap", json!({}))));
        assert!(!crosses(
            "ConfigMap",
            object("ConfigMap", json!({"hidden": ""}))
        ));
        assert!(!crosses("Secret", object("Secret", json!({}))));
        let marked = object("Secret", json!({"deltaplane.io/sync": "true"}));
        assert!(crosses("Secret", marked.clone()));
        let mut token = marked;
        token["type"] = "kubernetes.io/service-account-token".into();
        assert!(!crosses("Secret", token));
        // The SyncedKind has the name of another kind.
        assert!(!crosses("ConfigMap", object("Secret", json!({}))));
        let mut other = object("ConfigMap", json!({}));
        other["apiVersion"] = "example.com/v1".into();
        assert!(!crosses("ConfigMap", other));
    }
}
