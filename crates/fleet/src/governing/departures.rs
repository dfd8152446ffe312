//! Objects that leave a policy because of what somebody wrote in them: a label by which the policy
//! selects, or by which they cross.
//!
//! Without a policy an object goes to all zones at once, or is withdrawn from them. Where stages need approval, a departure is
//! therefore a change like any other: a release without the object names the departure and the
//! version at the hub, goes through the stages, and the object leaves when all of them have
//! completed it. Zones keep what they have of it until then.
//!
//! Not here: objects that leave because `spec.targets` changed. Who may change a policy may take its
//! approvals away, too.

use std::collections::BTreeSet;

use deltaplane_propagation::stages::Object;
use deltaplane_sync::{SyncKind, Version};
use serde_json::{Map, Value};

use super::Governing;
use super::contents::Contents;
use super::governor::{Governor, HeadObject};
use super::release::{Departures, Id, Manifest, Released};

// === impl Governing ===

impl Governing {
    /// Returns the policy that an object is about to leave, and cannot leave before that is approved.
    pub(crate) fn departing_from(
        &self,
        id: &Id,
        object: Option<&Map<String, Value>>,
    ) -> Option<&Governor> {
        let mut policies = self.policies.values();
        policies.find(|governor| governor.departs(id, object, &self.contents))
    }

    /// Keeps an object in a policy while its departure is not approved. Returns false if all stages
    /// have completed a release with the departure: then it leaves.
    pub(crate) fn depart(&mut self, policy: &str, id: &Id, head: &HeadObject, at: u64) -> bool {
        self.journal_changed = true;
        let Some(governor) = self.policies.get_mut(policy) else {
            return false;
        };
        if governor.has_completed_departure(id, head.version) {
            governor.departed.insert(id.clone());
            return false;
        }
        governor.depart(id, head, at);
        for (_, other) in self.policies.iter_mut().filter(|(name, _)| *name != policy) {
            other.let_go(id, at);
        }
        true
    }
}

// === impl Governor ===

impl Governor {
    /// Returns true if an object that zones have by this policy is not among its targets as it is
    /// written now, and was as it was released. There is no object if it does not cross any more.
    pub(crate) fn departs(
        &self,
        id: &Id,
        object: Option<&Map<String, Value>>,
        contents: &Contents,
    ) -> bool {
        let stays = object.is_some_and(|object| self.includes(&about(id, object)));
        !stays && self.needs_approval() && self.keeps(id) && self.includes_released(id, contents)
    }

    /// Returns true if the newest content that was released of an object is among the targets, or if
    /// that cannot be read.
    fn includes_released(&self, id: &Id, contents: &Contents) -> bool {
        let mut releases = self.releases.values().rev();
        let version = releases.find_map(|release| release.manifest.get(id));
        let body = version.and_then(|version| contents.get(*version));
        let object = body.and_then(|body| serde_json::from_slice::<Map<String, Value>>(&body).ok());
        object.is_none_or(|object| self.includes(&about(id, &object)))
    }

    /// Takes note of the version at the hub of an object that is about to leave.
    pub(crate) fn depart(&mut self, id: &Id, head: &HeadObject, at: u64) {
        let known = self.departing.get(id).map(|known| known.version);
        if self.head.remove(id).is_none() && known == Some(head.version) {
            return;
        }
        self.changed = at;
        self.facts.take();
        self.unreleased.changed(id, head, None);
        self.deleters.remove(id);
        self.departing.insert(id.clone(), head.clone());
        self.touched.insert(id.clone());
    }

    /// Returns true if every stage has completed a release that says that this version leaves.
    fn has_completed_departure(&self, id: &Id, version: Version) -> bool {
        let releases = self.releases.iter().rev();
        let mut naming = releases.take_while(|(_, one)| one.departures.get(id) == Some(&version));
        let Some(first) = naming.by_ref().last().map(|(number, _)| *number) else {
            return false;
        };
        let stages = self.object["spec"]["stages"].as_array();
        let mut names = stages
            .into_iter()
            .flatten()
            .map(|stage| stage["name"].as_str());
        names.all(|name| {
            let progress = name.and_then(|name| self.record.stages.get(name));
            let completed = progress.and_then(|progress| progress.completed);
            completed.is_some_and(|mark| mark.release >= first)
        })
    }

    /// Returns the kinds of the objects that may leave now, and could not before.
    pub(super) fn kinds_of_completed_departures(&self) -> BTreeSet<SyncKind> {
        let departing = self.departing.iter();
        let completed =
            departing.filter(|(id, head)| self.has_completed_departure(id, head.version));
        completed.map(|((kind, _), _)| kind.clone()).collect()
    }

    /// Returns the departures that the next release names: those that no rollback withholds.
    pub(super) fn next_departures(&self) -> Departures {
        let withheld = self.withheld();
        let departing = self.departing.iter();
        let departing = departing.filter(|(id, _)| !withheld.contains_key(*id));
        let departing = departing.map(|(id, head)| (id.clone(), head.version));
        departing.collect()
    }

    /// Returns the departures by which what is there is compared with the newest release. Those that
    /// it names and that are done need no other release.
    pub(super) fn current_departures(&self) -> Departures {
        let mut departures = self.next_departures();
        let named = self.newest().map(|newest| &newest.departures);
        let done = named.into_iter().flatten();
        let done = done.filter(|(id, _)| self.departed.contains(*id));
        departures.extend(done.map(|(id, version)| (id.clone(), *version)));
        departures
    }

    /// Returns what zones at a release hold because of it: its manifest, and what was about to leave
    /// with it and has not left.
    pub(super) fn held_of(&self, release: &Released) -> Manifest {
        let departures = release.departures.iter();
        let held = departures.filter(|(id, _)| self.has(id));
        let held = held.map(|(id, version)| (id.clone(), *version));
        release.manifest.clone().into_iter().chain(held).collect()
    }

    /// Returns who wrote the objects that depart otherwise than the newest release says.
    pub(super) fn departure_authors(&self) -> Vec<Option<&str>> {
        let named = self.newest().map(|newest| &newest.departures);
        let departures = self.next_departures();
        let is_new = |id: &Id| {
            let before = named.and_then(|named| named.get(id));
            departures.contains_key(id) && before != departures.get(id)
        };
        let departing = self.departing.iter().filter(|(id, _)| is_new(id));
        let authors = departing.flat_map(|(id, head)| {
            let earlier = self.unreleased.of(id);
            earlier.map(Some).chain([head.author.as_deref()])
        });
        authors.collect()
    }
}

/// An object as targets select it.
fn about<'a>((kind, name): &'a Id, object: &'a Map<String, Value>) -> Object<'a> {
    Object {
        group: kind.group(),
        kind: kind.kind(),
        namespace: name.namespace(),
        name: name.name(),
        object,
    }
}
