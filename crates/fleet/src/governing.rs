//! What policies govern, and which zone may have which release of it: from their objects, in the
//! order in which they were written, to entries and places of the catalog.
//!
//! It decides nothing: what was decided is in the status of policies, and what was released in
//! releases. Until both say so, what zones have stays as it is.

mod authors;
mod compare;
mod contents;
mod decided;
mod departures;
mod entries;
mod facts;
mod frozen;
mod governor;
mod head;
mod journal;
mod kept_back;
mod plan;
mod release;
mod releasing;
mod render;
mod trials;
mod withheld;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_border::PolicyId;
use deltaplane_propagation::stages::{Approved, UnreadableInput};
use deltaplane_sync::{SyncKind, Version, Withdrawal, ZoneName};
use serde_json::{Map, Value};

pub(crate) use contents::Contents;
pub use contents::ContentsError;
pub(crate) use decided::Decided;
use departures::selectable;
pub(crate) use entries::{Entries, News, Told};
pub(crate) use facts::{Reports, disconnected_since};
pub(crate) use frozen::{AssignedVersion, FrozenVersions};
pub(crate) use governor::{Governor, HeadObject};
pub(crate) use head::{GRAPHS, instances};
pub(crate) use journal::{Journal, JournalError};
pub(crate) use kept_back::{Back, KeptBack};
pub(crate) use plan::{Change, PlanError};
pub(crate) use release::{Id, Released};
pub use releasing::DraftError;

/// The annotation of a governed object with who changed it last.
pub(crate) const AUTHOR: &str = "deltaplane.io/author";

/// All zones, as they are stored.
pub(crate) type Zones = BTreeMap<ZoneName, Arc<Map<String, Value>>>;

/// All policies, and what they are about.
pub(crate) struct Governing {
    pub(crate) contents: Contents,
    /// By name.
    pub(crate) policies: BTreeMap<String, Governor>,
    pub(crate) zones: Zones,
    /// The revisions at which zones were created: another one of the same name has a later one.
    created: BTreeMap<ZoneName, u64>,
    /// By the name of their objects: the uid of the policy, and what was approved.
    approvals: BTreeMap<String, (String, Approved)>,
    /// Content may be there that no release has any more.
    pub(crate) litter: bool,
    /// Not everything that is there was told yet.
    pub(crate) loading: bool,
    /// The last revision with something that may concern policies.
    pub(crate) concerned: u64,
    /// The kinds that go to zones.
    pub(crate) crossing: BTreeSet<SyncKind>,
    /// The kinds that have a SyncedKind which was read, now or earlier by this process.
    declared: BTreeSet<SyncKind>,
    /// SyncedKinds that this process never could read, by name.
    unread_kinds: BTreeSet<String>,
    /// Counts changes of what policies say, and of zones.
    pub(crate) shaped: u64,
    /// What zones were told to let go when a policy was deleted, or its kind, until all of them did.
    /// Nothing while the SyncedKind that says what they do with it cannot be read.
    pub(crate) withdrawn: BTreeMap<Id, Option<Withdrawal>>,
    /// What the journal has may be another by now.
    pub(crate) journal_changed: bool,
    /// Releases that cannot be read, by the names of their objects: another version wrote them.
    pub(crate) unreadable: BTreeSet<String>,
    /// Releases of policies that are not known, by the uid of the policy.
    orphans: BTreeMap<String, BTreeMap<u64, Arc<Released>>>,
}

/// Why an object is not governed any more.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gone<'a> {
    /// It is there, and no policy's business.
    Elsewhere,
    Deleted {
        /// As far as is known.
        by: Option<&'a str>,
    },
}

/// What a change of a policy asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Affected {
    /// Kinds whose objects may be another's business now.
    pub(crate) kinds: BTreeSet<SyncKind>,
}

/// What of a zone says where it belongs.
fn shape(zone: &Map<String, Value>) -> (Option<&Value>, [Option<&Value>; 4]) {
    let metadata = |field: &str| zone.get("metadata").and_then(|all| all.get(field));
    let fields = ["uid", "labels", "annotations", "creationTimestamp"].map(metadata);
    (zone.get("spec"), fields)
}

// === impl Governing ===

impl Governing {
    pub(crate) fn new(contents: Contents) -> Self {
        Self {
            contents,
            policies: BTreeMap::new(),
            zones: BTreeMap::new(),
            created: BTreeMap::new(),
            approvals: BTreeMap::new(),
            // What a process left that ended in between.
            litter: true,
            loading: false,
            concerned: 0,
            crossing: BTreeSet::new(),
            declared: BTreeSet::new(),
            unread_kinds: BTreeSet::new(),
            shaped: 0,
            withdrawn: BTreeMap::new(),
            journal_changed: true,
            unreadable: BTreeSet::new(),
            orphans: BTreeMap::new(),
        }
    }

    /// Everything is told anew: until that is done nothing here is the whole.
    pub(crate) fn begin(&mut self) {
        let shaped = self.shaped + 1;
        *self = Self::new(self.contents.clone());
        self.shaped = shaped;
        self.loading = true;
    }

    /// A policy came, changed or went.
    pub(crate) fn policy(&mut self, object: Value, there: bool) -> Affected {
        self.journal_changed = true;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let name = name.to_owned();
        let known = self.policies.get(&name);
        if !there || known.is_none_or(|known| known.object["spec"] != object["spec"]) {
            self.shaped += 1;
        }
        let before = self.policies.get(&name).map(Governor::kinds);
        let mut kinds = before.unwrap_or_default();
        if !there {
            if let Some(gone) = self.policies.remove(&name) {
                self.orphans.insert(gone.uid.clone(), gone.releases);
            }
            return Affected { kinds };
        }
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        match self.policies.get_mut(&name) {
            Some(known) if known.uid == uid => {
                let changed = known.update(object);
                known.forget_renewed(&self.created);
                if !changed {
                    let kinds = known.kinds_of_completed_departures();
                    return Affected { kinds };
                }
            }
            Some(_) | None => {
                let mut governor = Governor::new(object);
                let releases = self.orphans.remove(&governor.uid);
                governor.adopt(releases.unwrap_or_default());
                governor.forget_renewed(&self.created);
                self.policies.insert(name.clone(), governor);
            }
        }
        kinds.extend(
            self.policies
                .get(&name)
                .map(Governor::kinds)
                .unwrap_or_default(),
        );
        Affected { kinds }
    }

    /// A release came or went.
    pub(crate) fn release(&mut self, object: &Value, there: bool) {
        self.journal_changed = true;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let read = Released::read(object);
        match read.is_none() && there {
            true => self.unreadable.insert(name.to_owned()),
            false => self.unreadable.remove(name),
        };
        let Some(release) = read else {
            self.litter = true;
            return;
        };
        let mut policies = self.policies.values_mut();
        let governor = policies.find(|governor| governor.uid == release.policy);
        if !there {
            self.litter = true;
        }
        match governor {
            Some(governor) if there => {
                self.contents.release_promise(governor.id.as_str());
                governor.released(release);
            }
            Some(governor) => governor.forget_release(release.number),
            None => {
                let releases = self.orphans.entry(release.policy.clone()).or_default();
                match there {
                    true => drop(releases.insert(release.number, Arc::new(release))),
                    false => drop(releases.remove(&release.number)),
                }
            }
        }
        self.orphans.retain(|_, releases| !releases.is_empty());
    }

    pub(crate) fn approval(&mut self, object: &Value, there: bool) {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        let spec = &object["spec"];
        let policy = spec["policyUID"].as_str().unwrap_or_default().to_owned();
        let approved = spec["release"].as_u64().map(|release| Approved {
            stage: spec["stage"].as_str().map(str::to_owned),
            release,
            by: spec["approvedBy"].as_str().unwrap_or_default().to_owned(),
        });
        match approved.filter(|_| there) {
            Some(approved) => self.approvals.insert(name, (policy.clone(), approved)),
            None => self.approvals.remove(&name),
        };
        let approvals = self.approvals.values().filter(|(of, _)| *of == policy);
        let deletions = approvals.filter(|(_, one)| one.stage.is_none());
        let agreed = deletions.map(|(_, one)| one.release).collect();
        let mut policies = self.policies.values_mut();
        let governor = policies.find(|governor| governor.uid == policy);
        if let Some(governor) = governor.filter(|governor| governor.agreed != agreed) {
            governor.agreed = agreed;
            governor.stale = true;
        }
    }

    /// The revision at which a zone was created, of which something is about to be told.
    pub(crate) fn zone_created(&mut self, name: &ZoneName, created: Option<u64>) {
        let before = match created {
            Some(created) => self.created.insert(name.clone(), created),
            None => self.created.remove(name),
        };
        if before == created {
            return;
        }
        for governor in self.policies.values_mut() {
            governor.forget_renewed(&self.created);
        }
    }

    /// A zone came, changed or went. Nobody is placed anew because its connection is written down.
    pub(crate) fn zone(&mut self, name: &ZoneName, object: Option<Map<String, Value>>) {
        let before = self.zones.get(name).map(|zone| shape(zone));
        let same = before == object.as_ref().map(shape);
        match object {
            Some(object) => self.zones.insert(name.clone(), Arc::new(object)),
            None => self.zones.remove(name),
        };
        if same {
            return;
        }
        self.shaped += 1;
        for governor in self.policies.values_mut() {
            governor.moved = true;
        }
    }

    /// The policy that governs an object: of several that include it the one from which zones have
    /// it, if its stages need approval, and otherwise the oldest. A label that somebody adds must
    /// not move the object past approvals to another policy.
    pub(crate) fn governor_of(&self, id: &Id, object: &Value) -> Option<&Governor> {
        let about = selectable(id, object.as_object()?);
        let policies = self.policies.values();
        let matching = policies.filter(|governor| governor.includes(&about));
        matching.min_by_key(|governor| governor.precedence(id))
    }

    /// An object is there, and this policy's business.
    pub(crate) fn govern(&mut self, policy: &str, id: &Id, head: HeadObject, at: u64) {
        self.journal_changed = true;
        for (name, governor) in &mut self.policies {
            match name == policy {
                true => governor.put(id.clone(), head.clone(), at),
                false => governor.let_go(id, at),
            }
        }
    }

    /// An object comes to a policy that zones have already, by no policy or by another one.
    pub(crate) fn joins(&mut self, policy: &str, id: &Id, at: u64) {
        self.journal_changed = true;
        let governor = self.policies.get_mut(policy);
        governor.into_iter().for_each(|one| one.joins(id, at));
    }

    /// An object is no policy's business any more, though it is there; or it is deleted. The
    /// policies that still have it in what zones may hold.
    pub(crate) fn ungovern(&mut self, id: &Id, gone: Gone<'_>, at: u64) {
        self.journal_changed = true;
        for governor in self.policies.values_mut() {
            match gone {
                Gone::Deleted { by } => governor.deleted(id, by, at),
                Gone::Elsewhere => governor.let_go(id, at),
            }
        }
    }

    /// A kind does not cross any more. Objects of it that were deleted and whose deletion was not
    /// released are withdrawn like the others, also from zones that are away until the kind crosses
    /// again.
    pub(crate) fn forget_kind(&mut self, kind: &SyncKind, withdrawal: Withdrawal, at: u64) {
        let mut deleted = BTreeSet::new();
        for governor in self.policies.values_mut() {
            let kept = governor.kept_of(kind);
            deleted.extend(kept.filter(|id| !governor.head.contains_key(*id)).cloned());
            governor.forget_kind(kind, at);
        }
        for id in deleted {
            self.withdraw(&id, Some(withdrawal));
        }
        self.journal_changed = true;
    }

    /// Kinds do not cross any more that releases have: while nobody was there who could be told of
    /// it, or before releases said so.
    pub(crate) fn forget_kinds_but(&mut self, declared: &BTreeSet<SyncKind>, at: u64) {
        let mut kept = BTreeSet::new();
        for governor in self.policies.values_mut() {
            let releases = governor.releases.values();
            let kinds: BTreeSet<SyncKind> = releases.flat_map(|one| one.kinds.clone()).collect();
            for kind in kinds.difference(declared) {
                kept.extend(governor.kept_of(kind).cloned());
                governor.forget_kind(kind, at);
            }
        }
        // Which of them are there is known when the kind crosses again.
        for id in kept {
            self.withdraw(&id, Some(Withdrawal::Orphan));
        }
    }

    /// Sets which kinds are known to cross, and which SyncedKinds cannot be read.
    pub(crate) fn declare_kinds(
        &mut self,
        declared: BTreeSet<SyncKind>,
        unread_kinds: BTreeSet<String>,
    ) {
        if self.unread_kinds != unread_kinds {
            self.shaped += 1;
        }
        self.declared = declared;
        self.unread_kinds = unread_kinds;
    }

    /// Returns what keeps a policy from being decided about. While a SyncedKind cannot be read, the
    /// objects of its kind are not among those that the policy governs, and a release without them
    /// would delete them.
    fn unreadable_input(&self, governor: &Governor) -> Option<UnreadableInput> {
        if governor.unreadable {
            return Some(UnreadableInput::Decisions);
        }
        let released = governor.releases.values().flat_map(|one| &one.kinds);
        let mut kinds = governor.kinds();
        kinds.extend(released.cloned());
        let is_unknown = !self.unread_kinds.is_empty() && !kinds.is_subset(&self.declared);
        is_unknown.then(|| UnreadableInput::SyncedKinds(self.unread_kinds.clone()))
    }

    /// What is done with objects of a kind that are withdrawn is something else by now.
    pub(crate) fn tell_again(&mut self, kind: &SyncKind) {
        for governor in self.policies.values_mut() {
            let mut releases = governor.releases.values();
            governor.stale |= releases.any(|one| one.kinds.contains(kind));
        }
    }

    /// Whether zones may still have an object that was deleted.
    pub(crate) fn keeps(&self, id: &Id) -> bool {
        let mut policies = self.policies.values();
        policies.any(|governor| governor.keeps(id))
    }

    /// What the catalog does not know yet of a policy.
    pub(crate) fn refresh(
        &mut self,
        (policy, at): (&str, u64),
        entries: &mut Entries,
        withdrawal: &dyn Fn(&SyncKind) -> Withdrawal,
    ) -> Option<(PolicyId, News)> {
        let governor = self.policies.get_mut(policy)?;
        if !governor.is_news() {
            return None;
        }
        governor.refreshed = at;
        let news = entries.refresh(governor, &self.contents, &self.zones, withdrawal);
        Some((governor.id.clone(), news))
    }

    /// Which contents releases hold, those that are about to be written among them: who drops what
    /// is left does not see them come.
    pub(crate) fn held(&self) -> BTreeSet<Version> {
        let known = self.policies.values().flat_map(|one| one.releases.values());
        let orphans = self.orphans.values().flat_map(BTreeMap::values);
        let all = known.chain(orphans);
        let mut held = self.contents.promised();
        held.extend(all.flat_map(|release| release.manifest.values().copied()));
        held
    }

    /// What was approved of a policy, and of none of its name that was there before.
    pub(crate) fn approvals_of(&self, uid: &str) -> Vec<Approved> {
        let approvals = self.approvals.values();
        let of_policy = approvals.filter(|(of, _)| of == uid);
        of_policy.map(|(_, approved)| approved.clone()).collect()
    }
}
