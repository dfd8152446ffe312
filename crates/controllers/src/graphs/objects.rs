//! The objects that graphs made: one feed for each kind, however many graphs use it, and a picture
//! of them by instance.
//!
//! What the API answers to a write is put into the picture at once, so that a pass goes on with it;
//! a feed that tells of something older than that is not believed.
//!
//! Invariant: an object is in the picture of the one instance that its labels name. One that others
//! apply as a set is known to be theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use deltaplane_client::{Cache, Event, Feed, Item, ObjectKey, Query, Resource};
use deltaplane_graph::Gvk;
use deltaplane_graph::labels;
use deltaplane_graph::observed::{Applied, Content, Live, ObjectId, Observed, Owner};
use deltaplane_runtime::TaskGroup;
use futures::StreamExt;
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use super::following::{Following, Interest, Telling};
use crate::Context;

/// All of them. Cheap to clone.
#[derive(Clone)]
pub(super) struct Objects {
    context: Context,
    tasks: TaskGroup,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    feeds: BTreeMap<Gvk, Weak<Following>>,
    /// Where objects are of the kinds that were ever followed, as they were served then.
    places: BTreeMap<Gvk, Resource>,
    /// By the uid of the instance.
    instances: BTreeMap<String, Observed>,
    /// The uids of instances whose objects are of a set: more than one if an instance was made
    /// again, and left something behind.
    sets: BTreeMap<String, BTreeSet<String>>,
    owners: BTreeMap<ObjectId, Whose>,
    /// Instances that want an object which is somebody else's.
    wanted: BTreeMap<ObjectId, BTreeMap<String, Arc<Dirty>>>,
    /// What the API answered when it was last applied.
    written: BTreeMap<ObjectId, Written>,
    /// Who wants to know, by the group and kind of instances.
    listeners: BTreeMap<(String, String), Arc<Dirty>>,
}

/// What is known of an object's last write.
struct Written {
    uid: String,
    /// A digest of the fields that are ours.
    fields: [u8; 32],
}

/// Instances whose objects changed.
#[derive(Default)]
pub(super) struct Dirty {
    uids: Mutex<BTreeSet<String>>,
    notify: Notify,
}

/// The end of a feed: what is known of its kind becomes old, and is forgotten.
struct End<'a> {
    objects: &'a Objects,
    gvk: &'a Gvk,
}

/// Who wants an object.
pub(super) struct Wanting<'a> {
    /// Of the instance.
    pub(super) uid: &'a str,
    /// The set that its objects are applied with.
    pub(super) set: &'a str,
    /// Told when it may be had.
    pub(super) dirty: &'a Arc<Dirty>,
}

/// An object as a feed tells it.
#[derive(Clone)]
struct Told {
    live: Arc<Live>,
    whose: Whose,
}

/// Whose an object is.
#[derive(Clone, PartialEq)]
struct Whose {
    /// The set that it is applied with. That of an instance is the same when it is made again.
    set: String,
    of: Option<Of>,
}

/// The instance that an object belongs to.
#[derive(Clone, PartialEq)]
struct Of {
    uid: String,
    node: String,
    /// The group and kind of the instance.
    kind: (String, String),
}

// === impl Objects ===

impl Objects {
    pub(super) fn new(context: Context, tasks: TaskGroup) -> Self {
        Self {
            context,
            tasks,
            shared: Arc::default(),
        }
    }

    /// Who is told when objects of this kind of instance change.
    pub(super) fn listen(&self, group: &str, kind: &str) -> Arc<Dirty> {
        let key = (group.to_owned(), kind.to_owned());
        let mut shared = self.shared.lock();
        shared.listeners.entry(key).or_default().clone()
    }

    /// Follows a kind for as long as the answer is kept.
    pub(super) fn follow(&self, gvk: &Gvk, resource: Resource) -> Interest {
        let mut shared = self.shared.lock();
        // A kind that was deleted may be made again with another scope, or another name in paths.
        let there = shared.places.get(gvk) == Some(&resource);
        let followed = shared.feeds.get(gvk).filter(|_| there);
        if let Some(interest) = followed.and_then(Interest::find) {
            return interest;
        }
        shared.places.insert(gvk.clone(), resource.clone());
        let (all, of) = (self.clone(), gvk.clone());
        let interest = Interest::start(&self.tasks, |telling| async move {
            let _end = End {
                objects: &all,
                gvk: &of,
            };
            all.run(of.clone(), resource, telling).await;
        });
        shared.feeds.insert(gvk.clone(), interest.downgrade());
        interest
    }

    async fn run(&self, gvk: Gvk, resource: Resource, telling: Telling) {
        let query = Query::all(resource).with_labels(labels::PART_OF);
        let Context { client, pace } = &self.context;
        let feed = Feed::new(client.clone(), query, pace.clone());
        let mut feed = feed.telling(telling.trouble).events();
        let mut cache = Cache::new();
        // What was known when it was begun to tell everything.
        let mut known = BTreeMap::new();
        while let Some(event) = feed.next().await {
            let complete = matches!(event, Event::InSync);
            if matches!(event, Event::Restarted) {
                known = self.shared.lock().versions(&gvk);
            }
            // A deletion is of one object, and not of another of that name.
            let gone = match &event {
                // One that lost its labels is nobody's any more.
                Event::Deleted(item) | Event::Applied(item) => Some(item.header.uid.clone()),
                Event::Restarted | Event::InSync => None,
            };
            let before = match &event {
                Event::InSync => cache
                    .iter()
                    .map(|(key, told): (_, &Told)| (key.clone(), told.live.uid.clone()))
                    .collect(),
                Event::Restarted | Event::Applied(_) | Event::Deleted(_) => BTreeMap::new(),
            };
            for key in cache.apply(event, |item| self.told(&gvk, &item)) {
                match cache.get(&key) {
                    Some(told) => self.put(told.clone(), None),
                    None => {
                        let uid = gone.as_ref().or_else(|| before.get(&key));
                        self.remove(&object_id(&gvk, &key), uid.map(String::as_str));
                    }
                }
            }
            if complete {
                // What went while nobody followed the kind, or before its feed told of it.
                let known = std::mem::take(&mut known);
                let gone = self
                    .shared
                    .lock()
                    .vanished(known, &|key| cache.get(key).is_some());
                gone.iter().for_each(|id| self.gone(id));
                telling.synced.send_replace(true);
            }
        }
    }

    fn told(&self, gvk: &Gvk, item: &Item) -> Option<Told> {
        let same = self.shared.lock().same(gvk, item);
        same.or_else(|| Told::of(gvk, item.parse().ok()?))
    }

    /// The API answered this to a write.
    pub(super) fn written(&self, gvk: &Gvk, json: Value) {
        if let Some(told) = Told::of(gvk, json) {
            let fields = digest(&told.live);
            self.put(told, fields);
        }
    }

    fn put(&self, told: Told, written: Option<[u8; 32]>) {
        self.shared.lock().put(told, written);
    }

    /// An object is not there: this one, and no other of that name.
    pub(super) fn remove(&self, id: &ObjectId, uid: Option<&str>) {
        let mut shared = self.shared.lock();
        let other = shared
            .get(id)
            .is_some_and(|known| Some(known.uid.as_str()) != uid);
        if other {
            return;
        }
        shared.written.remove(id);
        if let Some(whose) = shared.owners.remove(id) {
            shared.leave(&whose, id);
        }
        shared.wake(id);
    }

    /// An object is not there any more.
    fn gone(&self, id: &ObjectId) {
        let uid = {
            let shared = self.shared.lock();
            shared.get(id).map(|known| known.uid.clone())
        };
        self.remove(id, uid.as_deref());
    }

    /// The path of an object. Every kind that is observed or applied was followed.
    pub(super) fn path(&self, id: &ObjectId) -> String {
        let shared = self.shared.lock();
        let place = shared.places.get(&id.gvk);
        let key = ObjectKey::new(&id.namespace, &id.name);
        place
            .map(|place| place.object_path(&key))
            .unwrap_or_default()
    }

    /// The name of a kind in paths.
    pub(super) fn plural(&self, gvk: &Gvk) -> String {
        let shared = self.shared.lock();
        let place = shared.places.get(gvk);
        place.map(|place| place.plural.clone()).unwrap_or_default()
    }

    /// What there is for an instance, also what one of its name left behind.
    pub(super) fn observed(&self, of: &Wanting<'_>) -> Observed {
        let mut shared = self.shared.lock();
        let mut observed = shared.instances.get(of.uid).cloned().unwrap_or_default();
        let uids = shared.sets.get(of.set).cloned().unwrap_or_default();
        for left in uids.iter().filter(|uid| *uid != of.uid) {
            let left = shared.instances.get(left).cloned().unwrap_or_default();
            for (node, live) in left.iter() {
                let mut live = Live::clone(live);
                // Its labels are another's.
                live.applied = None;
                shared.want(&live.id, of);
                observed.insert(node, Arc::new(live));
            }
        }
        observed
    }

    /// How many objects go with the one of this uid: itself, and if it is an instance of a graph, all
    /// that it made.
    pub(super) fn weight(&self, uid: &str) -> u64 {
        let shared = self.shared.lock();
        shared.weight(uid, &mut BTreeSet::new())
    }

    /// How many objects these instances made.
    pub(super) fn count<'u>(&self, uids: impl Iterator<Item = &'u String>) -> u64 {
        let shared = self.shared.lock();
        let mut seen = BTreeSet::new();
        uids.map(|uid| shared.weight(uid, &mut seen).saturating_sub(1))
            .sum()
    }

    /// Whose the object is, if it is neither this instance's nor of its set: what an instance of
    /// that name left behind is taken on.
    pub(super) fn foreign(&self, id: &ObjectId, by: &Wanting<'_>) -> Option<Owner> {
        let mut shared = self.shared.lock();
        let whose = shared.owners.get(id).filter(|whose| whose.set != by.set)?;
        let owner = match &whose.of {
            Some(of) if of.uid == by.uid => return None,
            Some(of) => format!("node {} of the instance with uid {}", of.node, of.uid),
            None => format!("the apply set {}", whose.set),
        };
        shared.want(id, by);
        Some(Owner(owner))
    }
}

// === impl End ===

impl Drop for End<'_> {
    fn drop(&mut self) {
        let ids: Vec<ObjectId> = {
            let shared = self.objects.shared.lock();
            let goes_on = shared.feeds.get(self.gvk).and_then(Interest::find);
            // Whoever began anew finds out what is old.
            match goes_on {
                Some(_) => Vec::new(),
                None => shared.of_kind(self.gvk).cloned().collect(),
            }
        };
        ids.iter().for_each(|id| self.objects.gone(id));
    }
}

// === impl Shared ===

impl Shared {
    /// The objects of a kind that are known, as they were written last.
    fn versions(&self, gvk: &Gvk) -> BTreeMap<ObjectId, String> {
        let versions = self
            .of_kind(gvk)
            .filter_map(|id| Some((id.clone(), self.get(id)?)));
        versions
            .map(|(id, live)| (id, live.resource_version.clone()))
            .collect()
    }

    fn of_kind<'s>(&'s self, gvk: &'s Gvk) -> impl Iterator<Item = &'s ObjectId> {
        self.owners.keys().filter(move |id| id.gvk == *gvk)
    }

    /// Those that were known when all began to be told, and were not told of. What was written
    /// meanwhile may not have been there then.
    fn vanished(
        &self,
        known: BTreeMap<ObjectId, String>,
        there: &dyn Fn(&ObjectKey) -> bool,
    ) -> Vec<ObjectId> {
        let untold = known.into_iter().filter(|(id, version)| {
            let same = |live: &Arc<Live>| live.resource_version == *version;
            !there(&ObjectKey::new(&id.namespace, &id.name)) && self.get(id).is_some_and(same)
        });
        untold.map(|(id, _)| id).collect()
    }

    /// Nothing is counted twice.
    fn weight<'s>(&'s self, uid: &'s str, seen: &mut BTreeSet<String>) -> u64 {
        if !seen.insert(uid.to_owned()) {
            return 0;
        }
        let made = self.instances.get(uid).into_iter().flat_map(Observed::iter);
        1 + made
            .map(|(_, live)| self.weight(&live.uid, seen))
            .sum::<u64>()
    }

    fn get(&self, id: &ObjectId) -> Option<&Arc<Live>> {
        let of = self.owners.get(id)?.of.as_ref()?;
        self.instances.get(&of.uid)?.get(&of.node, id)
    }

    /// What is in the picture already: what the API answered, a feed tells a moment later. It is
    /// not read again, and kept once.
    fn same(&self, gvk: &Gvk, item: &Item) -> Option<Told> {
        let id = object_id(gvk, &item.header.key());
        let live = self.get(&id)?.clone();
        let whose = self.owners.get(&id)?.clone();
        let told = Told { live, whose };
        told.is_of(item).then_some(told)
    }

    /// Puts an object into the picture, unless something newer is there.
    fn put(&mut self, told: Told, written: Option<[u8; 32]>) {
        let Told { live, whose } = told;
        let id = live.id.clone();
        if let Some(fields) = written {
            let uid = live.uid.clone();
            self.written.insert(id.clone(), Written { uid, fields });
        }
        let known = self.get(&id).filter(|known| known.uid == live.uid);
        let newest = match known.filter(|known| !is_newer(&live, known)) {
            // The feed was faster than the answer.
            Some(known) if written.is_some() => known.clone(),
            Some(_) => return,
            None => live,
        };
        let live = self.judged(newest);
        let before = self.owners.insert(id.clone(), whose.clone());
        if let Some(before) = before.filter(|before| *before != whose) {
            self.leave(&before, &id);
            self.wake(&id);
        }
        let Whose { set, of } = whose;
        let Some(Of { uid, node, kind }) = of else {
            return;
        };
        self.sets.entry(set).or_default().insert(uid.clone());
        let observed = self.instances.entry(uid.clone()).or_default();
        observed.insert(&node, live);
        // Whoever wrote it knows.
        if written.is_none()
            && let Some(listener) = self.listeners.get(&kind)
        {
            listener.add(uid);
        }
    }

    /// Tells them when the object may be free, or is gone.
    fn want(&mut self, id: &ObjectId, by: &Wanting<'_>) {
        let wanting = self.wanted.entry(id.clone()).or_default();
        wanting.insert(by.uid.to_owned(), by.dirty.clone());
    }

    /// Tells those who want an object that it may be free.
    fn wake(&mut self, id: &ObjectId) {
        for (uid, dirty) in self.wanted.remove(id).unwrap_or_default() {
            dirty.add(uid);
        }
    }

    /// An object is not this one's any more.
    fn leave(&mut self, whose: &Whose, id: &ObjectId) {
        let Some(of) = &whose.of else { return };
        if let Some(observed) = self.instances.get_mut(&of.uid) {
            observed.remove(&of.node, id);
            if observed.iter().next().is_none() {
                self.instances.remove(&of.uid);
                let uids = self.sets.get_mut(&whose.set);
                if uids.is_some_and(|uids| uids.remove(&of.uid) && uids.is_empty()) {
                    self.sets.remove(&whose.set);
                }
            }
        }
        if let Some(listener) = self.listeners.get(&of.kind) {
            listener.add(of.uid.clone());
        }
    }

    /// Says whether what was applied is as it was.
    fn judged(&self, live: Arc<Live>) -> Arc<Live> {
        let id = &live.id;
        let Some(known) = self.written.get(id).filter(|known| known.uid == live.uid) else {
            return live;
        };
        let intact = digest(&live) == Some(known.fields);
        let mut judged = Live::clone(&live);
        judged.sure = true;
        if let Some(applied) = &mut judged.applied {
            applied.intact = intact;
        }
        Arc::new(judged)
    }
}

// === impl Dirty ===

impl Dirty {
    pub(super) fn add(&self, uid: String) {
        self.uids.lock().insert(uid);
        self.notify.notify_one();
    }

    /// Instances whose objects changed, once there are some.
    pub(super) async fn changed(&self) -> BTreeSet<String> {
        loop {
            let uids = std::mem::take(&mut *self.uids.lock());
            if !uids.is_empty() {
                return uids;
            }
            self.notify.notified().await;
        }
    }
}

// === impl Told ===

impl PartialEq for Told {
    fn eq(&self, other: &Self) -> bool {
        self.live.uid == other.live.uid && self.live.resource_version == other.live.resource_version
    }
}

impl Told {
    /// Whether it is the same object, as it was written last.
    fn is_of(&self, item: &Item) -> bool {
        let Item { header, .. } = item;
        self.live.uid == header.uid && self.live.resource_version == header.resource_version
    }

    /// An object that is applied with others as a set.
    fn of(gvk: &Gvk, json: Value) -> Option<Self> {
        let metadata = &json["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let whose = Whose::of(&metadata["labels"])?;
        let id = ObjectId {
            gvk: gvk.clone(),
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
        };
        let content = metadata["annotations"][labels::CONTENT].as_str();
        let applied = content.map(|content| Applied {
            content: Content::read(content),
            intact: true,
        });
        let (own, version) = (text(&metadata["uid"]), text(&metadata["resourceVersion"]));
        let deleting = metadata["deletionTimestamp"].is_string();
        let json = match whose.of {
            Some(_) => json,
            // Nobody reads what is not ours.
            None => Value::Null,
        };
        let mut live = Live::parsed(id, json);
        live.uid = own;
        live.resource_version = version;
        live.deleting = deleting;
        live.applied = applied;
        live.sure = false;
        let live = Arc::new(live);
        Some(Self { live, whose })
    }
}

// === impl Whose ===

impl Whose {
    /// As the labels of an object say.
    fn of(all: &Value) -> Option<Self> {
        let label = |name: &str| all[name].as_str().map(str::to_owned);
        let of = || {
            Some(Of {
                uid: label(labels::INSTANCE)?,
                node: label(labels::NODE)?,
                kind: (
                    label(labels::INSTANCE_GROUP)?,
                    label(labels::INSTANCE_KIND)?,
                ),
            })
        };
        let owned = all[labels::OWNED] == "true";
        Some(Self {
            set: label(labels::PART_OF)?,
            of: owned.then(of).flatten(),
        })
    }
}

fn object_id(gvk: &Gvk, key: &ObjectKey) -> ObjectId {
    ObjectId {
        gvk: gvk.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

/// Whether it was written later. Versions are numbers that grow, as Kubernetes promises from 1.35
/// on; what cannot be compared is taken for newer.
fn is_newer(live: &Live, known: &Live) -> bool {
    let number = |live: &Live| live.resource_version.parse::<u64>();
    match (number(live), number(known)) {
        (Ok(new), Ok(old)) => new > old,
        _ => live.resource_version != known.resource_version,
    }
}

/// A digest of the fields that we apply, as the API has them down.
fn digest(live: &Live) -> Option<[u8; 32]> {
    live.fields().map(|fields| Sha256::digest(fields).into())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn config_map(version: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a", "namespace": "team", "uid": "u-a", "resourceVersion": version,
                "labels": {
                    labels::PART_OF: "set", labels::OWNED: "true", labels::INSTANCE: "u-1",
                    labels::NODE: "config", labels::INSTANCE_GROUP: "kro.run",
                    labels::INSTANCE_KIND: "Shop",
                },
            },
        })
    }

    /// What a write was answered with is the same object that the feed tells of next, and not a
    /// copy of it; what was written since is another.
    #[test]
    fn what_was_answered_is_kept_once() {
        let gvk = Gvk::new("", "v1", "ConfigMap");
        let item = |version| Item::new(Bytes::from(config_map(version).to_string()));
        let mut shared = Shared::default();
        let told = Told::of(&gvk, config_map("7")).expect("of an instance");
        shared.put(told, Some([0; 32]));
        let kept = shared.get(&object_id(&gvk, &ObjectKey::new("team", "a")));
        let kept = kept.expect("it is in the picture").clone();

        let same = shared.same(&gvk, &item("7").expect("an object"));
        assert!(same.is_some_and(|told| Arc::ptr_eq(&told.live, &kept)));
        let other = shared.same(&gvk, &item("8").expect("an object"));
        assert!(other.is_none());
    }

    /// What is applied while a feed tells everything again is there, told or not.
    #[test]
    fn what_was_written_meanwhile_is_not_taken_for_gone() {
        let gvk = Gvk::new("", "v1", "ConfigMap");
        let id = object_id(&gvk, &ObjectKey::new("team", "a"));
        let mut shared = Shared::default();
        let write = |shared: &mut Shared, version: &str| {
            let told = Told::of(&gvk, config_map(version)).expect("of an instance");
            shared.put(told, Some([0; 32]));
        };
        let untold = |_: &ObjectKey| false;
        let before = shared.versions(&gvk);
        write(&mut shared, "7");
        assert_eq!(shared.vanished(before, &untold), []);
        let before = shared.versions(&gvk);
        assert_eq!(shared.vanished(before.clone(), &|_| true), []);
        assert_eq!(shared.vanished(before.clone(), &untold), [id]);
        write(&mut shared, "8");
        assert_eq!(shared.vanished(before, &untold), []);
    }
}
