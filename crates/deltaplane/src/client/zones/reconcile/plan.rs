//! What is written at the hub so that it has what zones have. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use deltaplane_border::{definitions, namespaces};
use deltaplane_graph::extract_owned;
use deltaplane_sync::{
    Crossing, MANAGER, Mirrored, Origin, SyncKind, VERSION, ZoneName, label_crossed_secret,
};
use serde_json::Value;

/// An object, at the hub and in zones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectId {
    pub(super) kind: SyncKind,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// How a zone differs from the hub, as the hub says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Divergence {
    pub(super) zone: ZoneName,
    pub(super) followed: u64,
    /// The zone does not know how far it followed.
    pub(super) record_lost: bool,
    pub(super) revision: u64,
    pub(super) objects: BTreeMap<ObjectId, DifferingObject>,
    /// How many differ besides.
    pub(super) more: u64,
    pub(super) plurals: BTreeMap<SyncKind, String>,
    /// The first kind of which the zone has not said what it has.
    untold: Option<String>,
    /// Why the hub does not settle the zone.
    refused: Option<String>,
    budget: DeletionLimit,
    /// How many objects of a kind the hub has for the zone.
    wanted: BTreeMap<SyncKind, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DifferingObject {
    pub(super) difference: ShownDifference,
    pub(super) policy: Option<String>,
    /// The zone has it with overrides of its policy.
    overridden: bool,
    /// The zone lacks it, and may never have had it.
    doubtful_absence: bool,
    /// The zone lacks it because the hub created it later than anything that the zone was sent.
    created_since: bool,
    /// The hub's object of this name, whether it crosses or not.
    at_hub: Option<ObjectVersion>,
    /// A zone that follows the hub keeps it as its own.
    is_orphaned: bool,
}

/// Which object of a name it is, as it was at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectVersion {
    pub(super) uid: String,
    pub(super) resource_version: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShownDifference {
    Changed,
    OnlyAtHub,
    OnlyInZone,
}

/// How many objects of a kind may be deleted: so many, or this share, whichever is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DeletionLimit {
    max: u64,
    percent: u64,
}

/// What a zone has of the objects that differ.
#[derive(Debug, Default)]
pub(super) struct ZoneContents(BTreeMap<ObjectId, ZoneContent>);

#[derive(Clone, Debug, PartialEq)]
enum ZoneContent {
    Absent,
    /// The zone does not serve the kind: what it has cannot be read.
    Unserved,
    /// As the hub sent it, at this revision.
    Applied {
        content: Value,
        sent_at: Option<u64>,
    },
    /// An object of the zone's own, which sync does not manage.
    Own,
    /// Why it cannot be written at the hub.
    Unusable(&'static str),
}

/// A zone that may be settled, and what it has.
#[derive(Debug)]
pub(super) struct ReadZone {
    pub(super) divergence: Divergence,
    pub(super) contents: ZoneContents,
}

/// What is done at the hub about an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HubWrite {
    Put(Value),
    Delete,
}

/// What is done at the hub, and what is left to a person.
#[derive(Debug, Default)]
pub(super) struct Plan {
    writes: BTreeMap<ObjectId, HubWrite>,
    /// The hub's objects as they were listed: no others are replaced or deleted.
    at_hub: BTreeMap<ObjectId, ObjectVersion>,
    /// Objects that the hub keeps, and zones are sent when they are settled.
    kept: BTreeSet<ObjectId>,
    /// Objects that nothing is done about, and why.
    left: BTreeMap<ObjectId, String>,
    /// Zones that are not settled because of what is left.
    unsettled: BTreeSet<ZoneName>,
    /// Deletions that no zone's budget allows.
    excess: Vec<String>,
    /// What more there is that was not listed.
    unlisted: Vec<String>,
}

/// What becomes of an object that nothing is done about.
pub(super) const LEFT_AS_IT_IS: &str = "left as it is";
const KEPT_AT_HUB: &str = "the hub's in the zone: created there since";
const LOCALLY_CHANGED: &str = "the zone's copy was changed locally; change it back there";
const OF_A_ZONE: &str = "it is an object of another zone, which sends it again";
const OWN_OF_THE_ZONE: &str = "the zone has an object of its own of this name; rename one of them";
const NOT_SERVED: &str = "the zone does not serve its kind, so that nobody knows what it has";
const OVERRIDDEN: &str =
    "its policy overrides it in the zone, which cannot be taken out of it; write it at the hub";
const NAMESPACE: &str = "deleting it at the hub would delete all objects in it, also those that are not synced; if that is meant, delete it with kubectl, and reconcile again";
const DEFINITION: &str = "deleting it at the hub would delete all objects of its kind, also those that are not synced; if that is meant, delete it with kubectl, and reconcile again";
const DOUBTFUL_ABSENCE: &str = "the zone lacks it, and the hub does not know whether it ever had it; delete it at the hub, or settle the zone with --keep hub";

/// The hub takes over what all of these zones agree on.
pub(super) fn keep_zone(zones: &[ReadZone]) -> Plan {
    let mut plan = Plan::default();
    let ids = zones.iter().flat_map(|one| one.divergence.objects.keys());
    let ids: BTreeSet<&ObjectId> = ids.collect();
    for id in ids {
        let mut listed = zones.iter();
        let place = ObjectPlace {
            is_at_hub: listed.any(|one| one.divergence.is_at_hub(id)),
            created_since: zones.iter().any(|one| one.divergence.is_created_since(id)),
            sent_at: zones
                .iter()
                .filter_map(|one| one.contents.sent_at(id))
                .max(),
        };
        let opinions = zones.iter();
        let opinions = opinions.map(|one| (&one.divergence.zone, one.opinion(id, place)));
        plan.add(id, &opinions.collect::<Vec<_>>());
        let at_hub = zones
            .iter()
            .filter_map(|one| one.divergence.version_at_hub(id));
        // A write because of an older listing is refused if the object is another one by now.
        let at_hub = at_hub.min_by_key(|one| one.revision()).cloned();
        plan.at_hub
            .extend(at_hub.map(|at_hub| (id.clone(), at_hub)));
    }
    for ReadZone { divergence, .. } in zones {
        plan.count(divergence);
    }
    plan
}

/// Where an object is that differs in some zone.
#[derive(Clone, Copy, Debug)]
struct ObjectPlace {
    is_at_hub: bool,
    /// The hub created it after the state that it has in common with one of the zones.
    created_since: bool,
    /// The latest revision of a lost future at which the hub sent it to a zone.
    sent_at: Option<u64>,
}

/// What a zone says of an object that differs in it or in another one.
#[derive(Clone, Debug, PartialEq)]
enum Opinion {
    Wish(Wish),
    /// The zone has what the hub has.
    AsAtHub,
    /// Neither the zone nor the hub has it.
    Absent,
    /// The zone lacks it, and was never sent it.
    NeverSent,
    /// The zone has no such object, and is not to have the hub's, or had not followed so far.
    Unconcerned,
}

/// What a zone that differs would have at the hub, or why it cannot say.
type Wish = Result<HubWrite, &'static str>;

/// Returns true for kinds whose objects go to zones because other objects need them.
fn is_prerequisite(kind: &SyncKind) -> bool {
    *kind == namespaces() || *kind == definitions()
}

fn wish(id: &ObjectId, object: &DifferingObject, contents: &ZoneContents) -> Wish {
    if object.overridden {
        return Err(OVERRIDDEN);
    }
    match contents.0.get(id) {
        Some(ZoneContent::Applied { content, .. }) => Ok(HubWrite::Put(content.clone())),
        Some(ZoneContent::Absent) if object.doubtful_absence => Err(DOUBTFUL_ABSENCE),
        Some(ZoneContent::Absent) if id.kind == namespaces() => Err(NAMESPACE),
        Some(ZoneContent::Absent) if id.kind == definitions() => Err(DEFINITION),
        Some(ZoneContent::Absent) => Ok(HubWrite::Delete),
        Some(ZoneContent::Unserved) => Err(NOT_SERVED),
        Some(ZoneContent::Own) => Err(OWN_OF_THE_ZONE),
        Some(ZoneContent::Unusable(why)) => Err(why),
        None => Err("the hub does not sync its kind; create its SyncedKind first"),
    }
}

/// The hub's object with the content of the zone's, and all that is the hub's own.
pub(super) fn replaced(hub: &Value, content: &Value) -> Value {
    let mut object = content.clone();
    let metadata = hub["metadata"].as_object().cloned().unwrap_or_default();
    let mut metadata = Value::Object(metadata);
    for part in ["labels", "annotations"] {
        let ours = metadata[part].as_object().cloned().unwrap_or_default();
        let ours = ours
            .into_iter()
            .filter(|(key, _)| key.starts_with("deltaplane.io/"));
        let theirs = content["metadata"][part].as_object().cloned();
        metadata[part] = theirs.into_iter().flatten().chain(ours).collect();
    }
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("managedFields");
    }
    object["metadata"] = metadata;
    // Although the hub's own may say that it does not cross.
    label_crossed_secret(&mut object);
    if let Some(status) = hub.get("status") {
        object["status"] = status.clone();
    }
    object
}

// === impl ObjectId ===

impl ObjectId {
    pub(super) fn path(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind(), self.path())
    }
}

// === impl ShownDifference ===

impl fmt::Display for ShownDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "changed",
            Self::OnlyAtHub => "only at the hub",
            Self::OnlyInZone => "only in the zone",
        })
    }
}

// === impl ObjectVersion ===

impl ObjectVersion {
    /// As the hub lists it, or from the metadata of an object.
    pub(super) fn read(written: &Value) -> Option<Self> {
        Some(Self {
            uid: written["uid"].as_str()?.to_owned(),
            resource_version: written["resourceVersion"].as_str()?.to_owned(),
        })
    }

    fn revision(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }
}

// === impl DifferingObject ===

impl DifferingObject {
    /// What becomes of it in a zone that follows the hub.
    pub(super) fn follows(&self) -> &'static str {
        match (self.difference, &self.policy) {
            (ShownDifference::OnlyInZone, _) if self.is_orphaned => "stays, as the zone's own",
            (ShownDifference::OnlyInZone, Some(_)) => "deleted in the zone, with a new release",
            (ShownDifference::OnlyInZone, None) => "deleted in the zone at once, within its budget",
            (_, Some(_)) => "the hub's in the zone, with a new release",
            (_, None) => "the hub's in the zone",
        }
    }

    /// Returns true if the zone lacks it, and nothing says that the zone ever had it.
    fn was_perhaps_never_sent(&self) -> bool {
        let is_lacking = self.difference == ShownDifference::OnlyAtHub;
        is_lacking && (self.created_since || self.doubtful_absence)
    }

    /// Returns true if a zone that follows the hub deletes it, and no policy of the hub says when.
    pub(super) fn is_deleted_ungoverned(&self) -> bool {
        let is_deleted = self.difference == ShownDifference::OnlyInZone && !self.is_orphaned;
        is_deleted && self.policy.is_none()
    }
}

// === impl Divergence ===

impl Divergence {
    /// Of what the hub says, if the zone has diverged.
    pub(super) fn read(zone: &ZoneName, answer: &Value) -> Option<Self> {
        if answer["diverged"] != true {
            return None;
        }
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let budget = &answer["deletionBudget"];
        let mut divergence = Self {
            zone: zone.clone(),
            followed: number(&answer["followed"]),
            record_lost: answer["reason"] == "RecordLost",
            revision: number(&answer["revision"]),
            objects: BTreeMap::new(),
            more: 0,
            plurals: BTreeMap::new(),
            untold: answer["untold"][0].as_str().map(str::to_owned),
            refused: answer["refused"].as_str().map(str::to_owned),
            budget: DeletionLimit {
                max: number(&budget["max"]),
                percent: number(&budget["percent"]),
            },
            wanted: BTreeMap::new(),
        };
        for kind in answer["kinds"].as_array().into_iter().flatten() {
            divergence.add(kind)?;
        }
        Some(divergence)
    }

    /// Why the zone cannot be settled now, if it cannot.
    pub(super) fn obstacle(&self) -> Option<String> {
        let untold = self.untold.as_ref().map(|kind| {
            let zone = &self.zone;
            format!("it has not said yet what it has of {kind}; deltaplane zones show {zone} says how it stands with it")
        });
        self.refused.clone().or(untold)
    }

    /// Of these objects, those that a zone which follows the hub now would not keep as they are. It
    /// keeps those that it has because others needed them, and loses nothing by what it lacks because
    /// it was not sent it: another zone had it, and it was written at the hub because of that.
    pub(super) fn lost_by_following(&self, of: &BTreeSet<ObjectId>) -> BTreeSet<ObjectId> {
        let differing = self.objects.iter().filter(|(id, _)| of.contains(id));
        let lost = differing.filter(|(id, object)| {
            let stays = object.difference == ShownDifference::OnlyInZone && object.is_orphaned;
            let is_kept = stays && is_prerequisite(&id.kind);
            !is_kept && !object.was_perhaps_never_sent()
        });
        lost.map(|(id, _)| id.clone()).collect()
    }

    /// Returns true if the hub has an object that differs in the zone.
    fn is_at_hub(&self, id: &ObjectId) -> bool {
        let object = self.objects.get(id);
        object.is_some_and(|object| object.difference != ShownDifference::OnlyInZone)
    }

    /// Returns true if the hub created an object after the state that it has in common with the zone.
    fn is_created_since(&self, id: &ObjectId) -> bool {
        let object = self.objects.get(id);
        object.is_some_and(|object| object.created_since)
    }

    fn version_at_hub(&self, id: &ObjectId) -> Option<&ObjectVersion> {
        self.objects.get(id)?.at_hub.as_ref()
    }

    fn add(&mut self, written: &Value) -> Option<()> {
        let kind = SyncKind::new(written["group"].as_str()?, written["kind"].as_str()?).ok()?;
        self.more += written["more"].as_u64().unwrap_or(0);
        self.wanted
            .insert(kind.clone(), written["wanted"].as_u64().unwrap_or(0));
        let plural = written["plural"].as_str();
        self.plurals
            .extend(plural.map(|plural| (kind.clone(), plural.to_owned())));
        for object in written["objects"].as_array()? {
            let id = ObjectId {
                kind: kind.clone(),
                namespace: object["namespace"].as_str()?.to_owned(),
                name: object["name"].as_str()?.to_owned(),
            };
            let object = DifferingObject {
                difference: match object["difference"].as_str()? {
                    "OnlyAtHub" => ShownDifference::OnlyAtHub,
                    "OnlyInZone" => ShownDifference::OnlyInZone,
                    _ => ShownDifference::Changed,
                },
                policy: object["policy"].as_str().map(str::to_owned),
                overridden: object["overridden"] == true,
                doubtful_absence: object["doubtfulAbsence"] == true,
                created_since: object["createdSince"] == true,
                at_hub: ObjectVersion::read(&object["atHub"]),
                is_orphaned: object["leaves"] == "Orphan",
            };
            self.objects.insert(id, object);
        }
        Some(())
    }
}

// === impl ReadZone ===

impl ReadZone {
    fn opinion(&self, id: &ObjectId, place: ObjectPlace) -> Opinion {
        let contents = &self.contents;
        let followed = Some(self.divergence.followed).filter(|_| !self.divergence.record_lost);
        let was_behind = followed
            .zip(place.sent_at)
            .is_some_and(|(followed, sent_at)| followed < sent_at);
        match (self.divergence.objects.get(id), contents.0.get(id)) {
            // Sync needs it to be there, and does not mind whose it is.
            (Some(_), Some(ZoneContent::Own)) if is_prerequisite(&id.kind) => Opinion::Unconcerned,
            (Some(_), Some(ZoneContent::Absent | ZoneContent::Unserved)) if place.created_since => {
                Opinion::NeverSent
            }
            (Some(object), _) => Opinion::Wish(wish(id, object, contents)),
            // The zone would differ if it were to have what the hub has.
            (None, Some(ZoneContent::Absent | ZoneContent::Unserved)) => {
                if place.is_at_hub || was_behind {
                    Opinion::Unconcerned
                } else {
                    Opinion::Absent
                }
            }
            (None, _) => Opinion::AsAtHub,
        }
    }
}

// === impl DeletionLimit ===

impl DeletionLimit {
    fn of(self, wanted: u64) -> u64 {
        self.max.max(wanted * self.percent / 100)
    }
}

// === impl ZoneContents ===

impl ZoneContents {
    /// The zone does not serve the kind.
    pub(super) fn insert_unserved(&mut self, id: ObjectId) {
        self.0.insert(id, ZoneContent::Unserved);
    }

    /// The revision at which the hub sent what the zone has.
    fn sent_at(&self, id: &ObjectId) -> Option<u64> {
        match self.0.get(id)? {
            ZoneContent::Applied { sent_at, .. } => *sent_at,
            ZoneContent::Absent
            | ZoneContent::Unserved
            | ZoneContent::Own
            | ZoneContent::Unusable(_) => None,
        }
    }

    /// What the zone has under a name, if anything.
    pub(super) fn insert(&mut self, id: ObjectId, found: Option<&Value>) {
        let content = found.map_or(ZoneContent::Absent, ZoneContent::of);
        self.0.insert(id, content);
    }
}

// === impl ZoneContent ===

impl ZoneContent {
    /// What the hub sent of an object that a zone has: exactly the version that the object says.
    fn of(object: &Value) -> Self {
        match Origin::of(object) {
            Some(Origin::Hub) => {}
            Some(Origin::Zone(_)) => return Self::Unusable(OF_A_ZONE),
            None => return Self::Own,
        }
        let version = object["metadata"]["annotations"][VERSION].as_str();
        let managed = object["metadata"]["managedFields"].as_array();
        let mut managed = managed.into_iter().flatten();
        let applied = managed
            .find(|entry| entry["manager"] == MANAGER && entry["operation"] == "Apply")
            .map(|entry| extract_owned(&entry["fieldsV1"], object));
        let candidates = [Some(object.clone()), applied].into_iter().flatten();
        let mut crossings = candidates.filter_map(|one| Crossing::of(&one).ok());
        let exact = crossings.find(|one| Some(one.version().to_string().as_str()) == version);
        match exact {
            Some(crossing) => {
                let mut content = Value::Object(crossing.object().clone());
                label_crossed_secret(&mut content);
                let source = Mirrored::of(object).and_then(|mirrored| mirrored.source);
                Self::Applied {
                    content,
                    sent_at: source.map(|source| source.revision),
                }
            }
            None => Self::Unusable(LOCALLY_CHANGED),
        }
    }
}

/// Says why zones do not agree about an object: some would have it otherwise than the hub.
fn disagreement(wishing: &[&ZoneName], as_at_hub: &[&ZoneName], absent: &[&ZoneName]) -> String {
    let names = |zones: &[&ZoneName]| {
        let zones: Vec<&str> = zones.iter().map(|zone| zone.as_str()).collect();
        match zones.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => zones.concat(),
        }
    };
    let (has, does, have) = match wishing {
        [_] => ("has", "does", wishing[0].to_string()),
        _ => ("have", "do", names(wishing)),
    };
    if let ([zone], false) = (wishing, absent.is_empty()) {
        let lacking = names(absent);
        return format!(
            "of the zones that are reconciled only {zone} has it, and the hub does not know whether {lacking} lost it or was never to have it; to keep it: deltaplane zones reconcile {zone} --keep zone, to delete it: deltaplane zones reconcile {zone} --keep hub"
        );
    }
    let how = if !absent.is_empty() {
        format!("{have} {has} it, and {} not", names(absent))
    } else if !as_at_hub.is_empty() {
        let others = names(as_at_hub);
        let verb = if as_at_hub.len() == 1 { "has" } else { "have" };
        format!("{others} {verb} it as the hub does, and {have} {does} not")
    } else {
        format!("{have} differ from the hub in different ways")
    };
    format!("zones disagree about it: {how}; reconcile them one by one")
}

// === impl Plan ===

impl Plan {
    fn add(&mut self, id: &ObjectId, opinions: &[(&ZoneName, Opinion)]) {
        let wishes = opinions.iter().filter_map(|(zone, opinion)| match opinion {
            Opinion::Wish(wish) => Some((*zone, wish)),
            Opinion::AsAtHub | Opinion::Absent | Opinion::NeverSent | Opinion::Unconcerned => None,
        });
        let wishes: Vec<(&ZoneName, &Wish)> = wishes.collect();
        if wishes.is_empty() && opinions.iter().any(|(_, one)| *one == Opinion::NeverSent) {
            self.kept.insert(id.clone());
        }
        let Some((_, first)) = wishes.first() else {
            return;
        };
        let others = |other: &Opinion| {
            let zones = opinions.iter().filter(|(_, one)| one == other);
            zones.map(|(zone, _)| *zone).collect::<Vec<_>>()
        };
        let (as_at_hub, absent) = (others(&Opinion::AsAtHub), others(&Opinion::Absent));
        let is_same = wishes.iter().all(|(_, wish)| wish == first);
        let why = match first {
            Ok(write) if is_same && as_at_hub.is_empty() && absent.is_empty() => {
                self.writes.insert(id.clone(), write.clone());
                return;
            }
            Ok(_) => {
                let wishing: Vec<&ZoneName> = wishes.iter().map(|(zone, _)| *zone).collect();
                disagreement(&wishing, &as_at_hub, &absent)
            }
            Err(why) => (*why).to_owned(),
        };
        self.left.insert(id.clone(), why);
        let zones = wishes.into_iter().map(|(zone, _)| zone.clone());
        self.unsettled.extend(zones);
    }

    /// Counts what is deleted because of a zone, by its budget.
    fn count(&mut self, divergence: &Divergence) {
        if divergence.more > 0 {
            self.unsettled.insert(divergence.zone.clone());
            let (zone, more) = (&divergence.zone, divergence.more);
            self.unlisted.push(format!(
                "zone {zone}: {more} more objects differ than are listed"
            ));
        }
        let mut deletions: BTreeMap<&SyncKind, u64> = BTreeMap::new();
        for id in divergence.objects.keys() {
            if self.writes.get(id) == Some(&HubWrite::Delete) {
                *deletions.entry(&id.kind).or_default() += 1;
            }
        }
        for (kind, count) in deletions {
            let wanted = divergence.wanted.get(kind).copied().unwrap_or(0);
            let limit = divergence.budget.of(wanted);
            if count > limit {
                self.excess.push(format!(
                    "{count} {} objects would be deleted at the hub, and the deletion budget of zone {} allows {limit}",
                    kind.kind(),
                    divergence.zone
                ));
            }
        }
    }

    /// Puts first what others may need, and deletes last.
    pub(super) fn writes(&self) -> impl Iterator<Item = (&ObjectId, &HubWrite)> {
        let rank = |(id, write): &(&ObjectId, &HubWrite)| match (write, id.kind.kind()) {
            (HubWrite::Put(_), "Namespace" | "CustomResourceDefinition") => 0,
            (HubWrite::Put(_), _) => 1,
            (HubWrite::Delete, _) => 2,
        };
        let mut writes: Vec<_> = self.writes.iter().collect();
        writes.sort_by_key(rank);
        writes.into_iter()
    }

    /// The hub's object as it was listed.
    pub(super) fn version_at_hub(&self, id: &ObjectId) -> Option<&ObjectVersion> {
        self.at_hub.get(id)
    }

    pub(super) fn exceeds_budget(&self) -> bool {
        !self.excess.is_empty()
    }

    /// Whether a zone has nothing that is left to a person.
    pub(super) fn settles(&self, zone: &ZoneName) -> bool {
        !self.unsettled.contains(zone)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.unsettled.is_empty() && self.excess.is_empty()
    }

    /// What is done about an object, in a few words.
    pub(super) fn says(&self, id: &ObjectId) -> &'static str {
        match self.writes.get(id) {
            Some(HubWrite::Put(_)) => "the zone's at the hub",
            Some(HubWrite::Delete) => "deleted at the hub",
            None if self.kept.contains(id) => KEPT_AT_HUB,
            None => LEFT_AS_IT_IS,
        }
    }

    /// What a person has to do.
    pub(super) fn problems(&self) -> String {
        let mut text = String::new();
        for (id, why) in &self.left {
            text.push_str(&format!("{id} is left as it is: {why}\n"));
        }
        for line in self.unlisted.iter().chain(&self.excess) {
            text.push_str(&format!("{line}\n"));
        }
        if self.exceeds_budget() {
            text.push_str(
                "hint: delete them at the hub first, or raise spec.deletionBudget of the zone\n",
            );
        }
        if !self.unsettled.is_empty() {
            let zones = self.unsettled.iter().map(ZoneName::as_str);
            let zones: Vec<&str> = zones.collect();
            text.push_str(&format!("not settled: {}\n", zones.join(", ")));
        }
        text
    }
}

#[cfg(test)]
mod tests;
