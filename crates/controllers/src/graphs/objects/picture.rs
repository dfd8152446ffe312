//! The picture of the objects that graphs made, by kind and by instance: what is known of each, and
//! no more of it than the graph of its instance needs.
//!
//! Invariants: an object is in the picture once; one of which less is kept than is needed by now is
//! marked, until its feed tells it again.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_client::{Item, ObjectKey};
use deltaplane_graph::labels;
use deltaplane_graph::observed::{Applied, Content, Live, ObjectId, Observed, Owner};
use deltaplane_graph::{Graph, Gvk, ObjectNeeds, StoredObject};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Dirty, Wanting};

#[derive(Default)]
pub(super) struct Picture {
    kinds: BTreeMap<Gvk, KindObjects>,
    /// By the uid of the instance.
    instances: BTreeMap<Arc<str>, BTreeSet<ByNode>>,
    /// The uids of instances whose objects are of a set: more than one if an instance was made
    /// again, and left something behind.
    sets: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Instances that want an object which is somebody else's.
    wanted: BTreeMap<ObjectId, BTreeMap<String, Arc<Dirty>>>,
    /// Who wants to know, by the group and kind of instances.
    listeners: BTreeMap<InstanceKind, Arc<Dirty>>,
    /// What graphs need of the objects of their nodes. Of nodes of which nobody said it, everything
    /// is kept.
    needs: BTreeMap<InstanceKind, BTreeMap<Arc<str>, ObjectNeeds>>,
}

/// The group and kind of instances, as labels have them.
pub(super) type InstanceKind = (String, String);

/// The objects of a kind.
struct KindObjects {
    gvk: Arc<Gvk>,
    objects: BTreeSet<ByKey>,
}

/// What is known of an object.
#[derive(Clone)]
pub(super) struct KnownObject {
    gvk: Arc<Gvk>,
    key: ObjectKey,
    uid: Arc<str>,
    resource_version: Box<str>,
    whose: Whose,
    /// Nothing of what is not ours: nobody reads it.
    stored: Option<StoredObject>,
    /// The fields that are ours, as the API has them down.
    fields: Option<FieldsDigest>,
    /// The same, when it was last applied, or found intact.
    written: Option<FieldsDigest>,
    /// Less is kept of it than is needed by now.
    is_narrow: bool,
}

/// In the order of keys.
struct ByKey(Arc<KnownObject>);

/// In the order of nodes.
struct ByNode(Arc<KnownObject>);

/// A digest of fields; so much of it tells them apart.
type FieldsDigest = [u8; 16];

/// An object as the API tells it.
pub(super) struct ToldObject {
    live: Live,
    whose: Whose,
}

/// Whose an object is.
#[derive(Clone, PartialEq)]
struct Whose {
    /// The set that it is applied with. That of an instance is the same when it is made again.
    set: Arc<str>,
    of: Option<Of>,
}

/// The instance that an object belongs to.
#[derive(Clone, PartialEq)]
struct Of {
    uid: Arc<str>,
    node: Arc<str>,
    kind: Arc<InstanceKind>,
}

// === impl Picture ===

impl Picture {
    pub(super) fn listen(&mut self, kind: InstanceKind) -> Arc<Dirty> {
        self.listeners.entry(kind).or_default().clone()
    }

    /// The objects of a kind that are known, as they were written last.
    pub(super) fn versions(&self, gvk: &Gvk) -> BTreeMap<ObjectKey, String> {
        let versions = self.of_kind(gvk);
        versions
            .map(|one| (one.key.clone(), one.resource_version.to_string()))
            .collect()
    }

    pub(super) fn of_kind(&self, gvk: &Gvk) -> impl Iterator<Item = &Arc<KnownObject>> {
        let kind = self.kinds.get(gvk).into_iter();
        kind.flat_map(|kind| kind.objects.iter().map(|one| &one.0))
    }

    /// Those that were known when all began to be told, and were not told of. What was written
    /// meanwhile may not have been there then.
    pub(super) fn vanished(
        &self,
        gvk: &Gvk,
        known: BTreeMap<ObjectKey, String>,
        told: &BTreeSet<ObjectKey>,
    ) -> Vec<ObjectId> {
        let untold = known.into_iter().filter(|(key, version)| {
            let same = |one: &Arc<KnownObject>| *one.resource_version == **version;
            !told.contains(key) && self.find(gvk, key).is_some_and(same)
        });
        untold.map(|(key, _)| object_id(gvk, &key)).collect()
    }

    fn get(&self, id: &ObjectId) -> Option<&Arc<KnownObject>> {
        self.find(&id.gvk, &ObjectKey::new(&id.namespace, &id.name))
    }

    fn find(&self, gvk: &Gvk, key: &ObjectKey) -> Option<&Arc<KnownObject>> {
        let found = self.kinds.get(gvk)?.objects.get(key)?;
        Some(&found.0)
    }

    /// Returns true if it is in the picture already: what the API answered, a feed tells a moment
    /// later. It is not read again.
    pub(super) fn has(&self, gvk: &Gvk, item: &Item) -> bool {
        let header = &item.header;
        let same = |one: &Arc<KnownObject>| {
            let version = *one.resource_version == *header.resource_version;
            version && *one.uid == *header.uid && !one.is_narrow
        };
        self.find(gvk, &header.key()).is_some_and(same)
    }

    /// Puts an object into the picture, unless something newer is there.
    pub(super) fn put(&mut self, told: ToldObject, is_answer: bool) {
        let ToldObject { live, whose } = told;
        let fields = live.fields().map(fields_digest);
        let answered = fields.filter(|_| is_answer);
        let before = self.get(&live.id).cloned();
        let same = before.as_ref().filter(|before| *before.uid == *live.uid);
        let written = answered.or_else(|| same?.written);
        let known = same.filter(|known| known.stored.is_some());
        let known = known.filter(|known| !is_newer(&live, known));
        let known = known.filter(|known| !(known.is_narrow && known.is_version_of(&live)));
        let mut new = match known {
            // The feed was faster than the answer.
            Some(known) if answered.is_some() => KnownObject {
                whose: self.shared(whose),
                written,
                ..KnownObject::clone(known)
            },
            Some(_) => return,
            None => self.known(&live, whose, fields, written),
        };
        let of = new.whose.of.clone();
        new.judge(of.as_ref().and_then(|of| self.needs_of(of)));
        let new = Arc::new(new);
        if let Some(before) = &before {
            self.take_out(before);
            if before.whose != new.whose {
                self.tell(&before.whose);
                self.wake(&live.id);
            }
        }
        self.put_in(&new);
        // Whoever wrote it knows.
        if answered.is_none() {
            self.tell(&new.whose);
        }
    }

    /// What is to be kept of an object.
    fn known(
        &mut self,
        live: &Live,
        whose: Whose,
        fields: Option<FieldsDigest>,
        written: Option<FieldsDigest>,
    ) -> KnownObject {
        let whose = self.shared(whose);
        let stored = whose.of.as_ref().map(|of| match self.needs_of(of) {
            Some(needs) => StoredObject::of(live, needs),
            None => StoredObject::of(live, &ObjectNeeds::whole()),
        });
        KnownObject {
            gvk: self.kind(&live.id.gvk).gvk.clone(),
            key: ObjectKey::new(&live.id.namespace, &live.id.name),
            uid: live.uid.as_str().into(),
            resource_version: live.resource_version.as_str().into(),
            whose,
            stored,
            fields,
            written,
            is_narrow: false,
        }
    }

    fn kind(&mut self, gvk: &Gvk) -> &mut KindObjects {
        self.kinds
            .entry(gvk.clone())
            .or_insert_with(|| KindObjects {
                gvk: Arc::new(gvk.clone()),
                objects: BTreeSet::new(),
            })
    }

    fn needs_of(&self, of: &Of) -> Option<&ObjectNeeds> {
        self.needs.get(&*of.kind)?.get(&of.node)
    }

    /// The same, in the texts that others of the instance and of the node have already.
    fn shared(&self, whose: Whose) -> Whose {
        let Some(of) = whose.of else {
            return whose;
        };
        let others = self.instances.get(&of.uid).into_iter().flatten();
        let other = others.map(|one| &one.0.whose).next();
        let other = other.and_then(|other| Some((&other.set, other.of.as_ref()?)));
        let node = self.needs.get(&*of.kind);
        let node = node.and_then(|nodes| Some(nodes.get_key_value(&of.node)?.0.clone()));
        let node = node.unwrap_or(of.node);
        match other {
            Some((set, other)) if *set == whose.set && other.kind == of.kind => Whose {
                set: set.clone(),
                of: Some(Of {
                    uid: other.uid.clone(),
                    node,
                    kind: other.kind.clone(),
                }),
            },
            Some(_) | None => Whose {
                set: whose.set,
                of: Some(Of { node, ..of }),
            },
        }
    }

    fn put_in(&mut self, one: &Arc<KnownObject>) {
        let kind = self.kind(&one.gvk);
        kind.objects.insert(ByKey(one.clone()));
        let Whose { set, of } = &one.whose;
        if let Some(of) = of {
            let uids = self.sets.entry(set.clone()).or_default();
            uids.insert(of.uid.clone());
            let objects = self.instances.entry(of.uid.clone()).or_default();
            objects.insert(ByNode(one.clone()));
        }
    }

    fn take_out(&mut self, one: &Arc<KnownObject>) {
        if let Some(kind) = self.kinds.get_mut(&*one.gvk) {
            kind.objects.remove(&one.key);
        }
        let Whose { set, of: Some(of) } = &one.whose else {
            return;
        };
        let Some(objects) = self.instances.get_mut(&of.uid) else {
            return;
        };
        objects.remove(&ByNode(one.clone()));
        if objects.is_empty() {
            self.instances.remove(&of.uid);
            let uids = self.sets.get_mut(set);
            if uids.is_some_and(|uids| uids.remove(&of.uid) && uids.is_empty()) {
                self.sets.remove(set);
            }
        }
    }

    /// Tells whoever runs the instance that something of it is other than before.
    fn tell(&self, whose: &Whose) {
        if let Some(of) = &whose.of
            && let Some(listener) = self.listeners.get(&*of.kind)
        {
            listener.add(of.uid.to_string());
        }
    }

    /// An object is not there: this one, and no other of that name.
    pub(super) fn remove(&mut self, id: &ObjectId, uid: Option<&str>) {
        if let Some(known) = self.get(id).cloned() {
            if uid != Some(&*known.uid) {
                return;
            }
            self.take_out(&known);
            self.tell(&known.whose);
        }
        self.wake(id);
    }

    /// An object is not there any more.
    pub(super) fn gone(&mut self, id: &ObjectId) {
        let uid = self.get(id).map(|known| known.uid.clone());
        self.remove(id, uid.as_deref());
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

    /// How many objects go with one: itself, and what it made. Nothing is counted twice.
    pub(super) fn weight(&self, uid: &str, seen: &mut BTreeSet<String>) -> u64 {
        if !seen.insert(uid.to_owned()) {
            return 0;
        }
        let made = self.instances.get(uid).into_iter().flatten();
        1 + made.map(|one| self.weight(&one.0.uid, seen)).sum::<u64>()
    }

    /// What there is for an instance.
    pub(super) fn of_instance(&self, uid: &str) -> Vec<Arc<KnownObject>> {
        let objects = self.instances.get(uid).into_iter().flatten();
        objects.map(|one| one.0.clone()).collect()
    }

    /// What there is for others that had its name.
    pub(super) fn left_behind(&mut self, of: &Wanting<'_>) -> Vec<Arc<KnownObject>> {
        let uids = self.sets.get(of.set).into_iter().flatten();
        let others = uids.filter(|uid| ***uid != *of.uid);
        let left: Vec<_> = others.flat_map(|uid| self.of_instance(uid)).collect();
        for one in &left {
            self.want(&one.id(), of);
        }
        left
    }

    /// Whose the object is, if it is neither this instance's nor of its set: what an instance of
    /// that name left behind is taken on.
    pub(super) fn foreign(&mut self, id: &ObjectId, by: &Wanting<'_>) -> Option<Owner> {
        let whose = &self.get(id)?.whose;
        let owner = match &whose.of {
            _ if *whose.set == *by.set => return None,
            Some(of) if *of.uid == *by.uid => return None,
            Some(of) => format!("node {} of the instance with uid {}", of.node, of.uid),
            None => format!("the apply set {}", whose.set),
        };
        self.want(id, by);
        Some(Owner(owner))
    }

    /// What a graph needs of the objects of its nodes is kept from now on, and of what nobody needs
    /// nothing. The kinds of which more is needed than is there.
    pub(super) fn need(&mut self, graph: &Graph) -> BTreeSet<Gvk> {
        let kind = graph.kind();
        let kind = (labels::value(&kind.group), labels::value(&kind.kind));
        let own = graph.nodes().iter().filter(|node| !node.is_external());
        let mut changed: BTreeMap<Arc<str>, bool> = BTreeMap::new();
        let nodes = self.needs.entry(kind.clone()).or_default();
        for node in own {
            let (id, needs) = (labels::value(node.id()), node.needs());
            match nodes.get_mut(&*id) {
                Some(known) if known.cover(needs) => {}
                Some(known) => {
                    known.merge(needs);
                    changed.insert(id.as_str().into(), true);
                }
                None => {
                    nodes.insert(id.as_str().into(), needs.clone());
                    changed.insert(id.as_str().into(), false);
                }
            }
        }
        match changed.is_empty() {
            true => BTreeSet::new(),
            false => self.review(&kind, &changed),
        }
    }

    /// Goes through the objects of nodes whose needs are others than before: more, or less than
    /// everything. The kinds of those of which more is needed.
    fn review(&mut self, kind: &InstanceKind, changed: &BTreeMap<Arc<str>, bool>) -> BTreeSet<Gvk> {
        let all = self.instances.values().flatten().map(|one| &one.0);
        let concerned = all.filter_map(|one| {
            let of = one.whose.of.as_ref().filter(|of| *of.kind == *kind)?;
            Some((one.clone(), *changed.get(&of.node)?))
        });
        let concerned: Vec<(Arc<KnownObject>, bool)> = concerned.collect();
        let mut narrow = BTreeSet::new();
        for (one, is_more) in concerned {
            let mut new = KnownObject::clone(&one);
            new.is_narrow |= is_more;
            let needs = new.whose.of.as_ref().and_then(|of| self.needs_of(of));
            if let (false, Some(stored), Some(needs)) = (is_more, &mut new.stored, needs) {
                stored.shrink(needs);
            }
            new.whose = self.shared(new.whose);
            if is_more {
                narrow.insert(Gvk::clone(&one.gvk));
            }
            self.take_out(&one);
            self.put_in(&Arc::new(new));
        }
        narrow
    }

    /// Returns true if less is kept of some objects of a kind than is needed.
    pub(super) fn is_narrow(&self, gvk: &Gvk) -> bool {
        self.of_kind(gvk).any(|one| one.is_narrow)
    }

    /// Plans found that what was applied to these objects is intact: as long as the API has down the
    /// same fields, it is.
    pub(super) fn verified(&mut self, observed: &Observed) {
        for (_, live) in observed.iter().filter(|(_, live)| live.is_verified()) {
            let same = |one: &&Arc<KnownObject>| *one.uid == *live.uid && one.is_version_of(live);
            let Some(known) = self.get(&live.id).filter(same).cloned() else {
                continue;
            };
            let mut new = KnownObject::clone(&known);
            let needs = new.whose.of.as_ref().and_then(|of| self.needs_of(of));
            new.written = new.fields;
            if let Some(stored) = &mut new.stored {
                stored.judge(true, needs.unwrap_or(&ObjectNeeds::whole()));
            }
            self.take_out(&known);
            self.put_in(&Arc::new(new));
        }
    }
}

// === impl KnownObject ===

impl KnownObject {
    pub(super) fn id(&self) -> ObjectId {
        object_id(&self.gvk, &self.key)
    }

    fn node(&self) -> Option<&str> {
        self.whose.of.as_ref().map(|of| &*of.node)
    }

    fn is_version_of(&self, live: &Live) -> bool {
        *self.resource_version == *live.resource_version
    }

    /// As plans take it, with the node that it is for.
    pub(super) fn live(&self) -> Option<(&str, Live)> {
        let (stored, of) = (self.stored.as_ref()?, self.whose.of.as_ref()?);
        let live = stored.live(self.id(), &self.uid, &self.resource_version);
        Some((&of.node, live))
    }

    /// Says whether what was applied is as it was, if somebody knows that.
    fn judge(&mut self, needs: Option<&ObjectNeeds>) {
        let Some(written) = self.written else {
            return;
        };
        let is_intact = self.fields == Some(written);
        if let Some(stored) = &mut self.stored {
            stored.judge(is_intact, needs.unwrap_or(&ObjectNeeds::whole()));
        }
    }
}

// === impl ByKey ===

impl Borrow<ObjectKey> for ByKey {
    fn borrow(&self) -> &ObjectKey {
        &self.0.key
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByKey {}

// === impl ByNode ===

impl Ord for ByNode {
    fn cmp(&self, other: &Self) -> Ordering {
        let (own, other) = (&self.0, &other.0);
        let nodes = own.node().cmp(&other.node());
        nodes
            .then_with(|| own.gvk.cmp(&other.gvk))
            .then_with(|| own.key.cmp(&other.key))
    }
}

impl PartialOrd for ByNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByNode {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByNode {}

// === impl ToldObject ===

impl ToldObject {
    /// An object that is applied with others as a set.
    pub(super) fn of(gvk: &Gvk, json: Value) -> Option<Self> {
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
        Some(Self { live, whose })
    }
}

// === impl Whose ===

impl Whose {
    /// As the labels of an object say.
    fn of(all: &Value) -> Option<Self> {
        let label = |name: &str| all[name].as_str();
        let of = || {
            let (group, kind) = (
                label(labels::INSTANCE_GROUP)?,
                label(labels::INSTANCE_KIND)?,
            );
            Some(Of {
                uid: label(labels::INSTANCE)?.into(),
                node: label(labels::NODE)?.into(),
                kind: Arc::new((group.to_owned(), kind.to_owned())),
            })
        };
        let owned = all[labels::OWNED] == "true";
        Some(Self {
            set: label(labels::PART_OF)?.into(),
            of: owned.then(of).flatten(),
        })
    }
}

pub(super) fn object_id(gvk: &Gvk, key: &ObjectKey) -> ObjectId {
    ObjectId {
        gvk: gvk.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

/// Whether it was written later. Versions are numbers that grow, as Kubernetes promises from 1.35
/// on; what cannot be compared is taken for newer.
fn is_newer(live: &Live, known: &KnownObject) -> bool {
    let (new, old) = (&live.resource_version, &known.resource_version);
    match (new.parse::<u64>(), old.parse::<u64>()) {
        (Ok(new), Ok(old)) => new > old,
        _ => **new != **old,
    }
}

/// A digest of the fields that we apply, as the API has them down.
fn fields_digest(fields: &[u8]) -> FieldsDigest {
    let digest = Sha256::digest(fields);
    std::array::from_fn(|at| digest[at])
}

#[cfg(test)]
mod tests;
