//! Objects that leave a policy because of what somebody wrote in them: a label by which the policy
//! selects, or by which they cross.
//!
//! Without a policy an object goes to all zones at once, or is withdrawn from them. Where stages need
//! approval, such a write is therefore a change like any other: the policy goes on to govern the
//! object, releases it as it is with a word that it leaves, and lets it go when every stage has
//! completed such a release.
//!
//! A label that is added takes no object away from such a policy, either: of several policies that
//! include an object, the one from which zones have it keeps it.
//!
//! Not here: objects that leave because `spec.targets` changed. Who may change a policy may take its
//! approvals away, too.

use std::collections::BTreeSet;

use deltaplane_propagation::stages::Object;
use deltaplane_sync::{SyncKind, Version};
use serde_json::{Map, Value};

use super::Governing;
use super::governor::Governor;
use super::release::{Id, Manifest, Released};

// === impl Governing ===

impl Governing {
    /// Takes note of a write of an object, before it is decided about: nothing is given of an object
    /// that does not cross any more.
    pub(crate) fn note_write(&mut self, id: &Id, object: Option<&Map<String, Value>>) {
        for governor in self.policies.values_mut() {
            let changed = match governor.departs(id, object) {
                true => governor.departing.insert(id.clone()),
                false => governor.departing.remove(id),
            };
            if changed {
                governor.facts.take();
                self.journal_changed = true;
                self.shaped += 1;
            }
        }
    }

    /// Returns true if a policy must hear of a write of an object, although it may not select it.
    pub(crate) fn may_depart(&self, id: &Id) -> bool {
        let mut policies = self.policies.values();
        policies.any(|governor| governor.departing.contains(id) || governor.holds_for_approval(id))
    }

    /// Returns the policy that would keep an object, if it were written so, until its departure is
    /// approved.
    pub(crate) fn departing_from(
        &self,
        id: &Id,
        object: Option<&Map<String, Value>>,
    ) -> Option<&Governor> {
        let mut policies = self.policies.values();
        policies.find(|governor| governor.departs(id, object))
    }

    /// Returns the policy that an object departs from, unless every stage has completed a release of
    /// this version that says so: then the policy lets it go.
    pub(crate) fn still_departing(&mut self, id: &Id, version: Version) -> Option<&Governor> {
        let mut policies = self.policies.values_mut();
        let governor = policies.find(|governor| governor.departing.contains(id))?;
        if governor.has_completed_departure(id, version) {
            governor.departing.remove(id);
            governor.departed.insert(id.clone());
            self.journal_changed = true;
            self.shaped += 1;
            return None;
        }
        Some(governor)
    }
}

// === impl Governor ===

impl Governor {
    /// Returns true if zones have an object by this policy, and its stages need approval.
    fn holds_for_approval(&self, id: &Id) -> bool {
        self.keeps(id) && self.needs_approval()
    }

    /// Orders the policies that include an object: the first one governs it. Every part is stored:
    /// what the policy released and let go, and the policy itself.
    pub(super) fn precedence(&self, id: &Id) -> (bool, (&str, &str)) {
        (!self.holds_for_approval(id), self.age())
    }

    /// Returns true if an object, as it is written, is not among the targets, and zones have it by
    /// this policy.
    pub(crate) fn departs(&self, id: &Id, object: Option<&Map<String, Value>>) -> bool {
        let stays = object.is_some_and(|object| self.includes(&selectable(id, object)));
        !stays && self.holds_for_approval(id)
    }

    /// Returns true if every stage has completed a release of this version that names the departure.
    fn has_completed_departure(&self, id: &Id, version: Version) -> bool {
        let names =
            |one: &Released| one.departing.contains(id) && one.manifest.get(id) == Some(&version);
        let naming = self.releases.iter().rev().take_while(|(_, one)| names(one));
        let Some(first) = naming.last().map(|(number, _)| *number) else {
            return false;
        };
        let stages = self.object["spec"]["stages"].as_array();
        let mut stages = stages.into_iter().flatten();
        stages.all(|stage| {
            let name = stage["name"].as_str();
            let progress = name.and_then(|name| self.record.stages.get(name));
            let completed = progress.and_then(|progress| progress.completed);
            completed.is_some_and(|mark| mark.release >= first)
        })
    }

    /// Returns the kinds of objects whose departure is completed.
    pub(super) fn kinds_of_completed_departures(&self) -> BTreeSet<SyncKind> {
        let departing = self.departing.iter();
        let completed = departing.filter(|id| {
            let head = self.head.get(*id);
            head.is_some_and(|head| self.has_completed_departure(id, head.version))
        });
        completed.map(|(kind, _)| kind.clone()).collect()
    }

    /// Returns the departures that the next release names: those that no rollback withholds.
    pub(super) fn next_departures(&self) -> BTreeSet<Id> {
        if self.departing.is_empty() {
            return BTreeSet::new();
        }
        let withheld = self.withheld();
        let departing = self.departing.iter();
        let departing = departing.filter(|id| !withheld.contains_key(*id));
        departing
            .filter(|id| self.head.contains_key(*id))
            .cloned()
            .collect()
    }

    /// Returns the departures that a release names: the next one, or one that brings back an older.
    pub(super) fn departing_in(&self, restores: Option<u64>) -> BTreeSet<Id> {
        let Some(number) = restores else {
            return self.next_departures();
        };
        let restored = self.releases.get(&number).map(|one| one.departing.iter());
        let restored = restored.into_iter().flatten();
        let still = restored.filter(|id| self.departing.contains(*id));
        still.cloned().collect()
    }

    /// Returns who wrote the objects that depart and that the newest release does not name.
    pub(super) fn departure_authors(&self) -> Vec<Option<&str>> {
        let newest = self.newest();
        let is_named = |id: &Id| newest.is_some_and(|newest| newest.departing.contains(id));
        let departing = self.next_departures().into_iter();
        let heads = departing.filter(|id| !is_named(id));
        let heads = heads.filter_map(|id| self.head.get(&id));
        heads.map(|head| head.author.as_deref()).collect()
    }

    /// Returns the manifest and the departures of a release without objects that departed since: by
    /// them nothing changes in zones.
    pub(super) fn without_departed(&self, release: &Released) -> Option<(Manifest, BTreeSet<Id>)> {
        let mut departed = self.departed.iter();
        if !departed.any(|id| release.manifest.contains_key(id)) {
            return None;
        }
        let (mut manifest, mut departing) = (release.manifest.clone(), release.departing.clone());
        manifest.retain(|id, _| !self.departed.contains(id));
        departing.retain(|id| !self.departed.contains(id));
        Some((manifest, departing))
    }
}

/// An object as targets select it.
pub(super) fn selectable<'a>((kind, name): &'a Id, object: &'a Map<String, Value>) -> Object<'a> {
    Object {
        group: kind.group(),
        kind: kind.kind(),
        namespace: name.namespace(),
        name: name.name(),
        object,
    }
}
