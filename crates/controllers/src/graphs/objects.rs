//! The objects that graphs made: one feed for each kind, however many graphs use it, and a picture
//! of them by instance.
//!
//! What the API answers to a write is put into the picture at once, so that a pass goes on with it;
//! a feed that tells of something older than that is not believed. Of objects that is kept which
//! their graphs need; when a graph comes that needs more of objects that are there, the feeds of
//! their kinds begin anew.
//!
//! Invariant: an object is in the picture of the one instance that its labels name. One that others
//! apply as a set is known to be theirs.

mod picture;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use deltaplane_client::{Event, Feed, Item, ObjectKey, Query, Resource};
use deltaplane_graph::labels;
use deltaplane_graph::observed::{ObjectId, Observed, Owner};
use deltaplane_graph::{Graph, Gvk};
use deltaplane_runtime::TaskGroup;
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use super::following::{Following, Interest, Telling};
use crate::Context;
use picture::{Picture, ToldObject, object_id};

/// All of them. Cheap to clone.
#[derive(Clone)]
pub(super) struct Objects {
    context: Context,
    tasks: TaskGroup,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    feeds: BTreeMap<Gvk, KindFeed>,
    /// Where objects are of the kinds that were ever followed, as they were served then.
    places: BTreeMap<Gvk, Resource>,
    picture: Picture,
}

/// The feed of a kind.
struct KindFeed {
    following: Weak<Following>,
    synced: watch::Sender<bool>,
    /// It is to begin anew.
    anew: Arc<Notify>,
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

/// What a feed told since it began to tell everything.
#[derive(Default)]
struct Round {
    /// What was known before, as it was written last.
    known: BTreeMap<ObjectKey, String>,
    told: BTreeSet<ObjectKey>,
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
        let kind = (group.to_owned(), kind.to_owned());
        self.shared.lock().picture.listen(kind)
    }

    /// Follows a kind for as long as the answer is kept.
    pub(super) fn follow(&self, gvk: &Gvk, resource: Resource) -> Interest {
        let mut shared = self.shared.lock();
        // A kind that was deleted may be made again with another scope, or another name in paths.
        let there = shared.places.get(gvk) == Some(&resource);
        let followed = shared.feeds.get(gvk).filter(|_| there);
        if let Some(interest) = followed.and_then(|feed| Interest::find(&feed.following)) {
            return interest;
        }
        shared.places.insert(gvk.clone(), resource.clone());
        let (all, of) = (self.clone(), gvk.clone());
        let (anew, mut synced) = (Arc::new(Notify::new()), None);
        let interest = Interest::start(&self.tasks, |telling| {
            synced = Some(telling.synced.clone());
            let anew = anew.clone();
            async move {
                let _end = End {
                    objects: &all,
                    gvk: &of,
                };
                all.run(of.clone(), resource, telling, &anew).await;
            }
        });
        let feed = KindFeed {
            following: interest.downgrade(),
            synced: synced.expect("it was started"),
            anew,
        };
        shared.feeds.insert(gvk.clone(), feed);
        interest
    }

    /// Keeps from now on what a graph needs of the objects of its nodes. Feeds of which that takes
    /// more than they told are not synced until they told it.
    pub(super) fn need(&self, graph: &Graph) {
        let Shared { feeds, picture, .. } = &mut *self.shared.lock();
        for gvk in picture.need(graph) {
            if let Some(feed) = feeds.get(&gvk) {
                feed.synced.send_replace(false);
                feed.anew.notify_one();
            }
        }
    }

    async fn run(&self, gvk: Gvk, resource: Resource, telling: Telling, anew: &Notify) {
        let query = Query::all(resource).with_labels(labels::PART_OF);
        let mut feed = self.feed(&query, &telling);
        // While everything is being told.
        let mut round = None;
        let mut incomplete = 0;
        loop {
            let event = tokio::select! {
                () = anew.notified() => {
                    feed = self.feed(&query, &telling);
                    continue;
                }
                event = feed.next() => event,
            };
            match event {
                None => return,
                Some(Event::Restarted) => {
                    round = Some(Round {
                        known: self.shared.lock().picture.versions(&gvk),
                        told: BTreeSet::new(),
                    });
                }
                Some(Event::Applied(item)) => {
                    if let Some(round) = &mut round {
                        round.told.insert(item.header.key());
                    }
                    if self.shared.lock().picture.has(&gvk, &item) {
                        continue;
                    }
                    match item
                        .parse()
                        .ok()
                        .and_then(|json| ToldObject::of(&gvk, json))
                    {
                        Some(told) => self.shared.lock().picture.put(told, false),
                        // One that lost its labels is nobody's any more.
                        None => self.went(&gvk, &item),
                    }
                }
                // A deletion is of one object, and not of another of that name.
                Some(Event::Deleted(item)) => {
                    if let Some(round) = &mut round {
                        round.told.remove(&item.header.key());
                    }
                    self.went(&gvk, &item);
                }
                Some(Event::InSync) => {
                    if self.complete(&gvk, round.take().unwrap_or_default(), &telling) {
                        incomplete = 0;
                        continue;
                    }
                    // More is needed by now than it told, or it told of what is older.
                    incomplete += 1;
                    self.context.pace.rest(incomplete, None).await;
                    feed = self.feed(&query, &telling);
                }
            }
        }
    }

    fn feed(&self, query: &Query, telling: &Telling) -> BoxStream<'static, Event> {
        let Context { client, pace } = &self.context;
        let feed = Feed::new(client.clone(), query.clone(), pace.clone());
        feed.telling(telling.trouble.clone()).events()
    }

    fn went(&self, gvk: &Gvk, item: &Item) {
        self.remove(&object_id(gvk, &item.header.key()), Some(&item.header.uid));
    }

    /// A feed told all that there is. Returns true if that is all that is needed.
    fn complete(&self, gvk: &Gvk, round: Round, telling: &Telling) -> bool {
        let Shared { picture, .. } = &mut *self.shared.lock();
        let Round { known, told } = round;
        for id in picture.vanished(gvk, known, &told) {
            picture.gone(&id);
        }
        let is_complete = !picture.is_narrow(gvk);
        if is_complete {
            telling.synced.send_replace(true);
        }
        is_complete
    }

    /// The API answered this to a write.
    pub(super) fn written(&self, gvk: &Gvk, json: Value) {
        if let Some(told) = ToldObject::of(gvk, json) {
            self.shared.lock().picture.put(told, true);
        }
    }

    /// Plans found that what was applied to these is intact.
    pub(super) fn verified(&self, observed: &Observed) {
        if observed.iter().any(|(_, live)| live.is_verified()) {
            self.shared.lock().picture.verified(observed);
        }
    }

    /// An object is not there: this one, and no other of that name.
    pub(super) fn remove(&self, id: &ObjectId, uid: Option<&str>) {
        self.shared.lock().picture.remove(id, uid);
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

    /// How many objects go with the one of this uid: itself, and if it is an instance of a graph, all
    /// that it made.
    pub(super) fn weight(&self, uid: &str) -> u64 {
        let picture = &self.shared.lock().picture;
        picture.weight(uid, &mut BTreeSet::new())
    }

    /// How many objects these instances made.
    pub(super) fn count<'u>(&self, uids: impl Iterator<Item = &'u String>) -> u64 {
        let picture = &self.shared.lock().picture;
        let mut seen = BTreeSet::new();
        uids.map(|uid| picture.weight(uid, &mut seen).saturating_sub(1))
            .sum()
    }

    /// What there is for an instance, also what one of its name left behind.
    pub(super) fn observed(&self, of: &Wanting<'_>) -> Observed {
        let (own, left) = {
            let picture = &mut self.shared.lock().picture;
            (picture.of_instance(of.uid), picture.left_behind(of))
        };
        let mut observed = Observed::default();
        for (node, live) in own.iter().filter_map(|one| one.live()) {
            observed.insert(node, Arc::new(live));
        }
        for (node, mut live) in left.iter().filter_map(|one| one.live()) {
            // Its labels are another's.
            live.applied = None;
            observed.insert(node, Arc::new(live));
        }
        observed
    }

    /// Whose the object is, if it is neither this instance's nor of its set: what an instance of
    /// that name left behind is taken on.
    pub(super) fn foreign(&self, id: &ObjectId, by: &Wanting<'_>) -> Option<Owner> {
        self.shared.lock().picture.foreign(id, by)
    }
}

// === impl End ===

impl Drop for End<'_> {
    fn drop(&mut self) {
        let Shared { feeds, picture, .. } = &mut *self.objects.shared.lock();
        let feed = feeds.get(self.gvk);
        // Whoever began anew finds out what is old.
        if feed.is_some_and(|feed| Interest::find(&feed.following).is_some()) {
            return;
        }
        let ids: Vec<ObjectId> = picture.of_kind(self.gvk).map(|one| one.id()).collect();
        ids.iter().for_each(|id| picture.gone(id));
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
