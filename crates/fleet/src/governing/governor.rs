//! One policy: what it governs at the hub, what it released, and what was decided.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use deltaplane_api::selector::LabelSelector;
use deltaplane_border::{Place, Placement, PolicyId, Slot};
use deltaplane_propagation::stages::{
    HeadFacts, Object, Phase, Policy, PolicySpec, Record, Targets,
};
use deltaplane_sync::{Crossing, Item, Smuggled, SyncKind, Version, ZoneName};
use serde_json::{Map, Value, json};

use super::AUTHOR;
use super::authors::Authors;
use super::contents::Contents;
use super::release::{Id, Released, selector};
use super::trials::Trials;
use crate::divergence::ReleaseFloor;
use crate::graphs::not_accepted;

/// A policy's spec as it is decided by, or what is wrong with it: compiled once, by whoever asks
/// first, which may be outside the lock.
pub(super) type CompiledPolicy = Arc<OnceLock<Result<Policy, String>>>;

/// What is known of a policy.
pub(crate) struct Governor {
    pub(crate) id: PolicyId,
    pub(crate) uid: String,
    pub(crate) object: Arc<Value>,
    pub(super) compiled: CompiledPolicy,
    pub(super) targets: Vec<Targets>,
    /// Where `targets` are from.
    targets_source: TargetsSource,
    zones: LabelSelector,
    /// What it governs now.
    pub(crate) head: BTreeMap<Id, HeadObject>,
    /// Objects of it that its targets do not include any more: they leave when that is approved.
    pub(super) departing: BTreeSet<Id>,
    /// Objects whose departure was completed, while releases have them.
    pub(super) departed: BTreeSet<Id>,
    /// Who changed what it governs, and it has not released since.
    pub(super) unreleased: Authors,
    /// Who deleted what it governed and has not released since, as far as is known.
    pub(super) deleters: BTreeMap<Id, Arc<str>>,
    /// What is to be said of it, until it or the overrides change.
    pub(super) facts: OnceCell<HeadFacts>,
    /// Which overrides can be applied to what.
    pub(super) trials: RefCell<Trials>,
    /// When that changed last.
    pub(crate) changed: u64,
    pub(crate) releases: BTreeMap<u64, Arc<Released>>,
    pub(crate) record: Record,
    /// Decisions are there that this version cannot read: nothing is decided until they can be.
    pub(super) unreadable: bool,
    /// The releases of which somebody agreed to what they take away.
    pub(super) agreed: BTreeSet<u64>,
    /// Objects of its releases that are there, or were, and are not its business any more.
    pub(super) elsewhere: BTreeSet<Id>,
    /// The same, as releases say.
    left: BTreeSet<Id>,
    /// When what it had let go came back, or what others had let zones have came. Meanwhile zones
    /// were sent it by none of its releases, so that what was released before then says nothing of
    /// what they should have.
    pub(super) returned: BTreeMap<Id, u64>,
    /// The revision at which the catalog was told something of it last.
    pub(super) refreshed: u64,
    /// Entries have to be made anew.
    pub(crate) stale: bool,
    /// Zones may have to be placed anew.
    pub(crate) moved: bool,
    /// Objects whose entries have to be made anew.
    pub(crate) touched: BTreeSet<Id>,
}

/// Where the targets of a policy are from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TargetsSource {
    /// The policy as it is.
    Policy,
    /// The policy as it was when this version could read its targets last, as they were written.
    Earlier(Value),
    /// This version never read any: the policy governs the objects of its newest release, and no
    /// others.
    Unknown,
}

/// An object as it is at the hub.
#[derive(Clone, Debug)]
pub(crate) struct HeadObject {
    pub(crate) version: Version,
    pub(crate) body: Arc<[u8]>,
    /// What selectors look at, so that nobody has to read the whole for it.
    pub(crate) labelled: Arc<Map<String, Value>>,
    /// Who wrote it last, as far as is known.
    pub(crate) author: Option<Arc<str>>,
    /// Why it must not be released.
    pub(crate) blocked: Option<Arc<str>>,
}

/// An object without anything but its labels.
fn labelled(object: &Map<String, Value>) -> Map<String, Value> {
    let labels = object.get("metadata").and_then(|all| all.get("labels"));
    let mut metadata = Map::new();
    metadata.extend(labels.map(|labels| ("labels".to_owned(), labels.clone())));
    let metadata = Value::Object(metadata);
    Map::from_iter([("metadata".to_owned(), metadata)])
}

// === impl HeadObject ===

impl HeadObject {
    /// What of a stored object would be released.
    pub(crate) fn of(object: &Value) -> Result<Self, Smuggled> {
        let crossing = Crossing::of(object)?;
        let body = serde_json::to_vec(crossing.object()).unwrap_or_default();
        let author = object["metadata"]["annotations"][AUTHOR].as_str();
        Ok(Self {
            version: crossing.version(),
            body: body.into(),
            labelled: Arc::new(object.as_object().map(labelled).unwrap_or_default()),
            author: author.map(Into::into),
            blocked: not_accepted(object).map(Into::into),
        })
    }

    /// What is sent already.
    pub(super) fn of_item(item: &Item) -> Self {
        let object: Map<String, Value> = serde_json::from_slice(&item.body).unwrap_or_default();
        Self {
            version: item.version,
            body: item.body.clone(),
            labelled: Arc::new(labelled(&object)),
            author: None,
            blocked: None,
        }
    }

    /// As selectors take it.
    pub(crate) fn about<'a>(&'a self, (kind, name): &'a Id) -> Object<'a> {
        Object {
            group: kind.group(),
            kind: kind.kind(),
            namespace: name.namespace(),
            name: name.name(),
            object: &self.labelled,
        }
    }
}

// === impl Governor ===

impl Governor {
    pub(crate) fn new(object: Value) -> Self {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let mut governor = Self {
            id: PolicyId::new(name),
            uid: uid.to_owned(),
            object: Arc::new(Value::Null),
            compiled: CompiledPolicy::default(),
            targets: Vec::new(),
            targets_source: TargetsSource::Unknown,
            zones: LabelSelector::default(),
            head: BTreeMap::new(),
            departing: BTreeSet::new(),
            departed: BTreeSet::new(),
            unreleased: Authors::default(),
            deleters: BTreeMap::new(),
            facts: OnceCell::new(),
            trials: RefCell::default(),
            changed: 0,
            releases: BTreeMap::new(),
            record: Record::default(),
            unreadable: false,
            agreed: BTreeSet::new(),
            elsewhere: BTreeSet::new(),
            left: BTreeSet::new(),
            returned: BTreeMap::new(),
            refreshed: 0,
            stale: true,
            moved: true,
            touched: BTreeSet::new(),
        };
        governor.update(object);
        governor
    }

    /// The same policy with another object: what it would be.
    pub(super) fn supposed(&self, object: Value) -> Self {
        Self {
            head: self.head.clone(),
            departing: self.departing.clone(),
            departed: self.departed.clone(),
            unreleased: self.unreleased.clone(),
            deleters: self.deleters.clone(),
            changed: self.changed,
            releases: self.releases.clone(),
            record: self.record.clone(),
            unreadable: self.unreadable,
            agreed: self.agreed.clone(),
            elsewhere: self.elsewhere.clone(),
            left: self.left.clone(),
            returned: self.returned.clone(),
            uid: self.uid.clone(),
            ..Self::new(object)
        }
    }

    /// The same policy as far as it says which objects it would govern: those that it includes, and
    /// those that it keeps for an approval.
    pub(super) fn selecting(&self) -> Self {
        let (metadata, stages) = (&self.object["metadata"], &self.object["spec"]["stages"]);
        let needs_approval = self.needs_approval();
        let newest = self.newest().map(|newest| newest.number);
        let releases = self.releases.iter();
        let releases = releases.filter(|(number, _)| needs_approval || Some(**number) == newest);
        let let_go = |ids: &BTreeSet<Id>| {
            if needs_approval {
                ids.clone()
            } else {
                BTreeSet::new()
            }
        };
        let left = self.left.iter();
        let left = left.filter(|id| needs_approval && !self.head.contains_key(*id));
        Self {
            targets: self.targets.clone(),
            targets_source: self.targets_source.clone(),
            releases: releases
                .map(|(number, one)| (*number, one.clone()))
                .collect(),
            elsewhere: let_go(&self.elsewhere),
            departed: let_go(&self.departed),
            left: left.cloned().collect(),
            ..Self::new(json!({"metadata": metadata, "spec": {"stages": stages}}))
        }
    }

    /// The object changed. Whether what it governs may have.
    pub(crate) fn update(&mut self, object: Value) -> bool {
        let spec = self.object["spec"] != object["spec"];
        let decided = self.object["status"]["decisions"] != object["status"]["decisions"];
        let floor = ReleaseFloor::of(&self.object);
        if !self.object.is_null() {
            self.unreleased.updated(&self.object, &object);
        }
        let needed_approval = self.needs_approval();
        let before = std::mem::replace(&mut self.object, Arc::new(object));
        if before["spec"] != self.object["spec"] {
            self.compiled = CompiledPolicy::default();
        }
        if decided {
            // What somebody else wrote there moves nobody.
            let written = &self.object["status"]["decisions"];
            let record = Record::read(written);
            self.unreadable = record.is_none();
            if let Some(record) = record {
                self.record = record;
                self.moved = true;
            }
        }
        self.moved |= floor != ReleaseFloor::of(&self.object);
        if !spec {
            return false;
        }
        self.facts.take();
        if let Some(zones) = selector(&self.object["spec"]["zones"]) {
            self.zones = zones;
        }
        self.moved = true;
        let targets_changed = self.update_targets(&before["spec"]["targets"]);
        let needs_approval = self.needs_approval();
        if !needs_approval {
            // Nobody has to agree any more that they leave.
            self.departing.clear();
        }
        targets_changed || needs_approval != needed_approval
    }

    /// Returns true if the objects that it governs may have changed. Unreadable targets let nothing
    /// go that was governed: a newer version may have written them.
    fn update_targets(&mut self, before: &Value) -> bool {
        if let Some(targets) = Targets::read(&self.object["spec"]["targets"]) {
            let changed = targets != self.targets || self.targets_source == TargetsSource::Unknown;
            if targets != self.targets {
                // They leave at once, or are among the targets again.
                self.departing.clear();
            }
            self.targets = targets;
            self.targets_source = TargetsSource::Policy;
            return changed;
        }
        if self.targets_source == TargetsSource::Policy {
            self.targets_source = TargetsSource::Earlier(before.clone());
        }
        false
    }

    /// The targets that are in force, as they were written. A policy may have others that this
    /// version cannot read, now or when the next process begins.
    pub(super) fn targets_in_force(&self) -> Option<&Value> {
        match &self.targets_source {
            TargetsSource::Policy => Some(&self.object["spec"]["targets"]),
            TargetsSource::Earlier(targets) => Some(targets),
            TargetsSource::Unknown => None,
        }
    }

    /// Takes targets of before, from the journal or the log, if the policy has none that this version
    /// can read. Later ones replace those before.
    pub(super) fn recall_targets(&mut self, written: &Value) {
        let is_unread = self.targets_source != TargetsSource::Policy;
        let targets = Targets::read(written).filter(|_| is_unread && !written.is_null());
        if let Some(targets) = targets {
            self.targets = targets;
            self.targets_source = TargetsSource::Earlier(written.clone());
        }
    }

    /// What was decided of zones that are gone says nothing of others of the same name.
    pub(super) fn forget_renewed(&mut self, created: &BTreeMap<ZoneName, u64>) {
        let before = self.record.zones.len();
        self.record.forget_renewed(|name| {
            let name: ZoneName = name.parse().ok()?;
            created.get(&name).copied()
        });
        self.moved |= self.record.zones.len() != before;
    }

    /// The oldest comes first.
    pub(crate) fn age(&self) -> (&str, &str) {
        let created = self.object["metadata"]["creationTimestamp"].as_str();
        (created.unwrap_or_default(), self.id.as_str())
    }

    pub(crate) fn kinds(&self) -> BTreeSet<SyncKind> {
        if self.targets_source == TargetsSource::Unknown {
            let newest = self.newest().map(|newest| newest.kinds.clone());
            return newest.unwrap_or_default();
        }
        let targets = self.targets.iter();
        let kinds = targets.filter_map(|one| SyncKind::new(&one.group, &one.kind).ok());
        kinds.collect()
    }

    /// Whether it may govern objects of a kind.
    pub(crate) fn targets(&self, kind: &SyncKind) -> bool {
        self.kinds().contains(kind)
    }

    /// Returns the policy as it is decided by, or what is wrong with it.
    pub(super) fn compiled(&self) -> Result<&Policy, &String> {
        let compiled = self.compiled.get_or_init(|| compile(&self.object));
        compiled.as_ref()
    }

    pub(crate) fn includes(&self, object: &Object<'_>) -> bool {
        if self.targets_source == TargetsSource::Unknown {
            return self.newest().is_some_and(|newest| newest.names(object));
        }
        self.targets.iter().any(|targets| targets.include(object))
    }

    pub(crate) fn selects(&self, zone: &Map<String, Value>) -> bool {
        let labels = zone
            .get("metadata")
            .and_then(|metadata| metadata.get("labels"));
        self.zones.matches(|key| labels?.get(key)?.as_str())
    }

    pub(super) fn put(&mut self, id: Id, head: HeadObject, at: u64) {
        let known = self.head.get(&id);
        let same = known.is_some_and(|known| known.version == head.version);
        if known.is_some_and(|known| known.blocked != head.blocked) {
            self.facts.take();
        }
        if !same {
            self.changed = at;
            self.facts.take();
            let mut releases = self.releases.values().rev();
            let newest = releases.find(|one| one.decided.restores.is_none());
            let released = newest.and_then(|newest| newest.manifest.get(&id));
            self.unreleased.changed(&id, &head, released.copied());
        }
        let was_let_go = self.elsewhere.remove(&id) | self.departed.remove(&id);
        let was_let_go = was_let_go || self.left.contains(&id);
        if was_let_go && !self.head.contains_key(&id) {
            self.returned.insert(id.clone(), at);
        }
        self.deleters.remove(&id);
        self.touched.insert(id.clone());
        self.head.insert(id, head);
    }

    /// Something comes that zones have already.
    pub(super) fn joins(&mut self, id: &Id, at: u64) {
        // Nobody goes back to before the first release.
        if !self.releases.is_empty() && !self.head.contains_key(id) {
            self.returned.insert(id.clone(), at);
        }
    }

    /// It is there, and not its business.
    pub(super) fn let_go(&mut self, id: &Id, at: u64) {
        self.departing.remove(id);
        if self.head.remove(id).is_some() {
            self.changed = at;
            self.facts.take();
        }
        if self.is_released(id) {
            self.elsewhere.insert(id.clone());
        }
    }

    /// A release came.
    pub(super) fn released(&mut self, release: Released) {
        self.stale = true;
        self.facts.take();
        let manifest = &release.manifest;
        self.deleters.retain(|id, _| manifest.contains_key(id));
        self.unreleased.released(&release, &self.head);
        self.learn_returned(&release);
        self.releases.insert(release.number, Arc::new(release));
        self.left = self.find_left();
    }

    fn learn_returned(&mut self, release: &Released) {
        for (id, at) in &release.returned {
            let known = self.returned.entry(id.clone()).or_default();
            *known = (*known).max(*at);
        }
    }

    /// Releases of a policy that was not known.
    pub(super) fn adopt(&mut self, releases: BTreeMap<u64, Arc<Released>>) {
        for release in releases.values() {
            self.learn_returned(release);
        }
        self.releases = releases;
        self.facts.take();
        self.left = self.find_left();
    }

    /// What releases say that it was let go, and no later one has.
    fn find_left(&self) -> BTreeSet<Id> {
        let releases = self.releases.iter();
        let left = releases.flat_map(|(number, one)| one.left.iter().map(move |id| (number, id)));
        let left = left.filter(|(number, id)| {
            let mut later = self.releases.range(*number..);
            !later.any(|(_, later)| later.manifest.contains_key(*id))
        });
        left.map(|(_, id)| id.clone()).collect()
    }

    /// A release is gone.
    pub(super) fn forget_release(&mut self, number: u64) {
        self.stale = true;
        self.facts.take();
        self.releases.remove(&number);
        self.left = self.find_left();
        let mut elsewhere = std::mem::take(&mut self.elsewhere);
        elsewhere.retain(|id| self.is_released(id));
        self.elsewhere = elsewhere;
        let mut departed = std::mem::take(&mut self.departed);
        departed.retain(|id| self.is_released(id));
        self.departed = departed;
        let mut returned = std::mem::take(&mut self.returned);
        returned.retain(|_, at| self.was_released_before(*at));
        self.returned = returned;
    }

    fn is_released(&self, id: &Id) -> bool {
        let mut releases = self.releases.values();
        releases.any(|release| release.manifest.contains_key(id))
    }

    /// Whether a zone that it was for may have an object.
    pub(super) fn may_be_had(&self, id: &Id) -> bool {
        self.head.contains_key(id) || self.is_released(id)
    }

    /// Whether there is content of before a revision, which somebody may have or go back to.
    fn was_released_before(&self, at: u64) -> bool {
        let mut releases = self.releases.values();
        releases.any(|one| one.content_as_of < at)
    }

    pub(super) fn deleted(&mut self, id: &Id, by: Option<&str>, at: u64) {
        let was = self.head.remove(id).is_some();
        self.departing.remove(id);
        if was {
            self.changed = at;
            self.facts.take();
            let by = by.map(|by| (id.clone(), by.into()));
            self.deleters.extend(by);
        }
        if was {
            self.touched.insert(id.clone());
        }
    }

    /// Returns the objects of a kind that zones may hold because of it.
    pub(super) fn kept_of(&self, kind: &SyncKind) -> impl Iterator<Item = &Id> {
        let released = self.releases.values().flat_map(|one| one.manifest.keys());
        let of_kind = released.filter(move |(of, _)| of == kind);
        of_kind.filter(|id| self.has(id))
    }

    pub(super) fn forget_kind(&mut self, kind: &SyncKind, at: u64) {
        let before = self.head.len();
        self.head.retain(|(of, _), _| of != kind);
        self.departing.retain(|(of, _)| of != kind);
        if self.head.len() != before {
            self.changed = at;
            self.facts.take();
        }
        self.touched.retain(|(of, _)| of != kind);
        let released = self.releases.values().flat_map(|one| one.manifest.keys());
        let of_kind = released.filter(|(of, _)| of == kind);
        self.elsewhere.extend(of_kind.cloned());
    }

    /// Whether there is something that the catalog may not know.
    pub(super) fn is_news(&self) -> bool {
        self.stale || self.moved || !self.touched.is_empty()
    }

    /// Returns true if somebody has to agree to changes of what it governs.
    pub(crate) fn needs_approval(&self) -> bool {
        let stages = self.object["spec"]["stages"].as_array();
        let mut stages = stages.into_iter().flatten();
        let needs =
            |stage: &Value| matches!(stage["approval"].as_str(), Some(way) if way != "None");
        stages.any(needs)
    }

    /// Whether zones may hold an object because of it.
    pub(crate) fn keeps(&self, id: &Id) -> bool {
        self.has(id) && self.is_released(id)
    }

    /// Whether what zones may hold of an object is this policy's business.
    pub(super) fn has(&self, id: &Id) -> bool {
        let left = self.left.contains(id) && !self.head.contains_key(id);
        !left && !self.elsewhere.contains(id) && !self.departed.contains(id)
    }

    /// Whether a release says what zones should have of an object. One of before the object was let
    /// go and came back does not, unless it is again what it was then: zones may have something
    /// newer, which must neither go nor be set back.
    pub(super) fn decides(&self, id: &Id, release: &Released) -> bool {
        let shows = match release.manifest.contains_key(id) {
            true => release.as_of,
            // What is not in it was not there when its content was, or zones had it from elsewhere.
            false => release.content_as_of,
        };
        self.is_shown(id, shows) || {
            let head = self.head.get(id).map(|head| head.version);
            head.is_some() && release.manifest.get(id).copied() == head
        }
    }

    /// Whether content of a revision says something of an object by being without it.
    pub(super) fn is_shown(&self, id: &Id, revision: u64) -> bool {
        let since = self.returned.get(id);
        since.is_none_or(|since| revision >= *since)
    }

    /// Whether an object was there and is not any more, for who has a release without it. What came
    /// later waits for the release that has it, and what zones have of it stays.
    pub(super) fn took_away(&self, id: &Id, release: u64) -> bool {
        let since = self.returned.get(id).copied().unwrap_or(0);
        let has = |(_, one): (&u64, &Arc<Released>)| one.manifest.contains_key(id);
        let mut before = self.releases.range(..release);
        let before = before.any(|one| one.1.as_of >= since && has(one));
        let later = self.head.contains_key(id) || self.releases.range(release..).any(has);
        before || !later
    }

    /// Whether somebody agreed that zones at a release lose an object: when that release took it
    /// away, or one before that they may have missed.
    pub(super) fn agreed_to_lose(&self, id: &Id, release: u64) -> bool {
        let releases = self.releases.range(..=release).rev();
        let mut without = releases.take_while(|(_, one)| !one.manifest.contains_key(id));
        without.any(|(number, _)| self.agreed.contains(number))
    }

    /// The canonical JSON of a version of an object, before overrides.
    pub(super) fn content(
        &self,
        contents: &Contents,
        id: &Id,
        version: Version,
    ) -> Option<Arc<[u8]>> {
        let head = self.head.get(id).filter(|head| head.version == version);
        head.map(|head| head.body.clone())
            .or_else(|| contents.get(version))
    }

    /// The revision of the store that its object is of.
    pub(super) fn revision(&self) -> u64 {
        let revision = self.object["metadata"]["resourceVersion"].as_str();
        revision.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The contents that zones should have now. Those of before the store was restored say nothing of
    /// zones that followed it further: these wait for a release that their gates let through.
    pub(super) fn slots(&self) -> BTreeSet<Slot> {
        let zones = self.record.zones.values();
        let placed = zones.filter(|one| one.phase != Phase::Deferred);
        let slots = placed.map(|one| Slot {
            release: one.target.release,
            class: one.target.class.bits(),
        });
        let floor = ReleaseFloor::of(&self.object).number;
        slots
            .filter(|slot| self.releases.contains_key(&slot.release) && slot.release >= floor)
            .collect()
    }

    /// Whether nothing may move that it governs.
    fn is_paused(&self) -> bool {
        self.object["spec"]["paused"] == true
    }

    /// Where zones stand. While it is paused, what zones have stays that it is not for any more:
    /// otherwise they would lose it at once.
    pub(super) fn placement(
        &self,
        zones: &BTreeMap<ZoneName, Arc<Map<String, Value>>>,
        slots: &BTreeSet<Slot>,
        before: Option<&Placement>,
    ) -> Placement {
        let paused = self.is_paused();
        let stays = |zone: &ZoneName| {
            let recorded = self.record.zones.contains_key(zone.as_str());
            paused && (recorded || before.is_some_and(|before| before.get(zone).is_some()))
        };
        let placed = zones.iter().filter_map(|(zone, object)| {
            if !self.selects(object) {
                return stays(zone).then(|| (zone.clone(), Place::Frozen));
            }
            let admitted = self.record.zones.get(zone.as_str());
            let admitted = admitted.filter(|one| one.phase != Phase::Deferred);
            let slot = admitted.map(|one| Slot {
                release: one.target.release,
                class: one.target.class.bits(),
            });
            // Of a release that is not there nobody knows what it says.
            let place = match slot.filter(|slot| slots.contains(slot)) {
                Some(slot) => Place::At(slot),
                None => Place::Frozen,
            };
            Some((zone.clone(), place))
        });
        placed.collect()
    }
}

/// Compiles the spec of a policy.
pub(super) fn compile(policy: &Value) -> Result<Policy, String> {
    let spec: Result<PolicySpec, _> = serde_json::from_value(policy["spec"].clone());
    let spec = spec.map_err(|error| format!("the policy: {error}"))?;
    Policy::compile(&spec).map_err(|problems| {
        let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
        said.join("; ")
    })
}
