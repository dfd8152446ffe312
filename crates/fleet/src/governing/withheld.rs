//! What a rollback keeps from being released: objects at the hub that are as they were when it was
//! rolled back. A later release of other objects has what the rollback brought back of them.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_propagation::stages::{RollbackCause, RolledBack};
use deltaplane_sync::Version;
use serde_json::Value;

use super::governor::Governor;
use super::release::{self, Id, Manifest, Released, Withheld};

// === impl Governor ===

impl Governor {
    /// The objects that differ from the newest release because of a rollback, and are as they were
    /// then.
    pub(super) fn withheld(&self) -> Withheld {
        let Some(newest) = self.newest() else {
            return Withheld::new();
        };
        let written = newest.withheld.clone();
        let withheld = written.unwrap_or_else(|| self.rolled_back_by_older_version());
        let still = withheld.into_iter().filter(|(id, version)| {
            let is = self.version_of(id) == *version;
            is && self.has(id) && newest.manifest.get(id) != version.as_ref()
        });
        still.collect()
    }

    /// What was rolled back by a version that did not write it down: all in which the newest
    /// release of what was there differs.
    fn rolled_back_by_older_version(&self) -> Withheld {
        let newest = self.newest().filter(|one| one.decided.restores.is_some());
        let mut releases = self.releases.values().rev();
        let authored = releases.find(|one| one.decided.restores.is_none());
        match newest.zip(authored) {
            Some((newest, authored)) => difference(&authored.manifest, &newest.manifest),
            None => Withheld::new(),
        }
    }

    /// The overrides of the policy, if a rollback keeps them from being released.
    fn withheld_overrides(&self) -> Option<Value> {
        let written = self.newest()?.withheld_overrides.clone()?;
        Some(written).filter(|written| *written == self.overrides())
    }

    /// The rollback that keeps the version of an object at the hub from being released.
    pub(crate) fn rolled_back_by(&self, id: &Id) -> Option<RolledBack> {
        let rolled_back = self.head_facts().rolled_back?;
        self.withheld().contains_key(id).then_some(rolled_back)
    }

    /// The revision of the store that a release shows of an object. Of what it withholds it has what
    /// an earlier release had, which may be older than the rest of its content.
    pub(crate) fn shows_as_of(&self, id: &Id, release: &Released) -> u64 {
        let mut release = release;
        loop {
            let withholds = release.withheld.as_ref();
            let before = match release.decided.restores {
                Some(restored) => self.releases.get(&restored),
                None if withholds.is_some_and(|withheld| withheld.contains_key(id)) => {
                    let mut before = self.releases.range(..release.number);
                    before.next_back().map(|(_, before)| before)
                }
                None => return release.content_as_of,
            };
            // What an earlier one had is older than what is withheld, if it is not known any more.
            match before.filter(|before| before.number < release.number) {
                Some(before) => release = before,
                None if withholds.is_some_and(|withheld| withheld.contains_key(id)) => return 0,
                None => return release.content_as_of,
            }
        }
    }

    fn version_of(&self, id: &Id) -> Option<Version> {
        self.head.get(id).map(|head| head.version)
    }

    fn head_manifest(&self) -> Manifest {
        let head = self.head.iter();
        head.map(|(id, head)| (id.clone(), head.version)).collect()
    }

    /// What a release would have now: what is there, and what was brought back of what is withheld.
    pub(super) fn releasable(&self) -> (Manifest, Value) {
        let mut manifest = self.head_manifest();
        let Some(newest) = self.newest() else {
            return (manifest, self.overrides());
        };
        for id in self.withheld().into_keys() {
            match newest.manifest.get(&id) {
                Some(version) => manifest.insert(id, *version),
                None => manifest.remove(&id),
            };
        }
        let overrides = match self.withheld_overrides() {
            Some(_) => newest.overrides.clone(),
            None => self.overrides(),
        };
        (manifest, overrides)
    }

    /// Writes down what a release withholds, and why.
    pub(super) fn write_withheld(
        &self,
        spec: &mut Value,
        (manifest, overrides): (&Manifest, &Value),
        restores: Option<u64>,
    ) {
        let own = self.overrides();
        let (withheld, other) = match restores {
            Some(_) => {
                let mut all = difference(&self.head_manifest(), manifest);
                all.retain(|id, _| self.has(id));
                (all, (own != *overrides).then_some(own))
            }
            None => (self.withheld(), self.withheld_overrides()),
        };
        let is_any = !withheld.is_empty() || other.is_some();
        spec["withheld"] = release::write_withheld(&withheld);
        if let Some(other) = other {
            spec["withheldOverrides"] = other;
        }
        let cause = self.newest().and_then(|newest| newest.rolled_back.clone());
        if let Some((release, cause)) = cause.filter(|_| is_any && restores.is_none()) {
            spec["rolledBack"] = cause.write(release);
        }
    }

    /// When objects came back, for a release: what was rolled back before zones were told of it is
    /// nothing that a release without it takes away.
    pub(super) fn returned_after(&self, manifest: &Manifest) -> BTreeMap<Id, u64> {
        let mut returned = self.returned.clone();
        let shown = self.newest().map_or(0, |newest| newest.content_as_of);
        let undecided = self.withheld().into_keys();
        let undecided =
            undecided.filter(|id| !manifest.contains_key(id) && !self.is_shown(id, shown));
        returned.extend(undecided.map(|id| (id, self.changed + 1)));
        returned
    }

    /// Why objects at the hub are not in the newest release, if a rollback is why.
    pub(super) fn rolled_back(&self) -> Option<RolledBack> {
        let withheld = self.withheld();
        if withheld.is_empty() && self.withheld_overrides().is_none() {
            return None;
        }
        let (release, cause) = self.newest()?.rolled_back.clone().unwrap_or_else(|| {
            let mut releases = self.releases.values().rev();
            let authored = releases.find(|one| one.decided.restores.is_none());
            let reason = "the release does not record the cause".to_owned();
            let cause = RollbackCause { zone: None, reason };
            (authored.map_or(0, |one| one.number), cause)
        });
        let objects = withheld.into_keys();
        let objects = objects.map(|(kind, name)| format!("{} {name}", kind.kind()));
        Some(RolledBack {
            release,
            cause,
            objects: objects.collect(),
        })
    }
}

/// The objects whose versions differ, with those of the first.
fn difference(first: &Manifest, second: &Manifest) -> Withheld {
    let ids: BTreeSet<&Id> = first.keys().chain(second.keys()).collect();
    let differing = ids
        .into_iter()
        .filter(|id| first.get(*id) != second.get(*id));
    differing
        .map(|id| (id.clone(), first.get(id).copied()))
        .collect()
}
