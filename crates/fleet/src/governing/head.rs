//! What a policy would release now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_border::{Catalog, Entry, Governed, Place};
use deltaplane_propagation::stages::{ContentFacts, HeadFacts, Removes};
use deltaplane_sync::{ObjectName, SyncKind, Version, Withdrawal};
use serde_json::{Value, json};

use super::Zones;
use super::authors::Authorship;
use super::compare::MayRead;
use super::contents::Contents;
use super::governor::Governor;
use super::release::{self, Id, Manifest, Released};
use crate::divergence::ReleaseFloor;
use crate::graphs::{held_release, instance_kind};

/// A release that is to be written.
pub(crate) struct Draft {
    /// All but its number.
    pub(crate) spec: Value,
    /// What has to be kept first.
    pub(crate) contents: Vec<(Version, Arc<[u8]>)>,
    /// All that it holds.
    pub(crate) versions: Vec<Version>,
}

pub(crate) const GRAPHS: (&str, &str) = ("kro.run", "ResourceGraphDefinition");
/// Larger objects are refused by many stores.
const LARGEST: usize = 1 << 20;

// === impl Governor ===

impl Governor {
    pub(super) fn overrides(&self) -> Value {
        let overrides = self.object["spec"].get("overrides");
        overrides.cloned().unwrap_or_else(|| json!([]))
    }

    pub(super) fn head_facts(&self) -> HeadFacts {
        self.head_facts_for(&|_| true)
    }

    /// The same for somebody who may read some objects: problems with others are counted. Whoever
    /// asks first decides who hears of problems until something changes, so this is for policies
    /// that are only supposed.
    pub(super) fn head_facts_for(&self, may_read: &MayRead<'_>) -> HeadFacts {
        let facts = self.facts.get_or_init(|| {
            let (manifest, overrides) = self.releasable();
            HeadFacts {
                digest: release::digest(&manifest, &overrides, &self.next_departures()),
                objects: self.head.len(),
                problems: self.problems(&overrides, may_read),
                rolled_back: self.rolled_back(),
            }
        });
        facts.clone()
    }

    fn problems(&self, overrides: &Value, may_read: &MayRead<'_>) -> Vec<String> {
        let mut trials = self.trials.borrow_mut();
        let found = trials.problems((overrides, &self.targets), &self.head);
        let found = found.iter().map(|one| (one.object(), one.to_string()));
        let blocked = self.blocked().map(|(id, text)| (Some(id), text));
        let mut problems = Vec::new();
        let mut hidden = BTreeSet::new();
        for (id, text) in found.chain(blocked) {
            match id.filter(|id| !may_read(id)) {
                Some(id) => drop(hidden.insert(id)),
                None => problems.push(text),
            }
        }
        problems.extend(match hidden.len() {
            0 => None,
            1 => Some("an object that you may not read has a problem".to_owned()),
            many => Some(format!(
                "{many} objects that you may not read have problems"
            )),
        });
        problems
    }

    /// Returns the objects that hold the next release, and what is said of them.
    pub(super) fn blocked(&self) -> impl Iterator<Item = (&Id, String)> {
        let head = self.head.iter();
        head.filter_map(|(id, head)| Some((id, held_release(&id.1, head.blocked.as_deref()?))))
    }

    pub(super) fn content_facts(&self) -> BTreeMap<u64, ContentFacts> {
        let releases = self.releases.iter();
        let facts = releases.map(|(number, release)| {
            let facts = ContentFacts {
                digest: release.digest.clone(),
                objects: release.manifest.len(),
                removes: release.removes_from_the_last(),
            };
            (*number, facts)
        });
        facts.collect()
    }

    /// The kinds of all that it may govern, or did, as far as they cross.
    pub(super) fn all_kinds(&self, crossing: &BTreeSet<SyncKind>) -> BTreeSet<SyncKind> {
        let mut kinds = self.kinds();
        for release in self.releases.values() {
            kinds.extend(release.kinds.iter().cloned());
        }
        kinds.retain(|kind| crossing.contains(kind));
        kinds
    }

    /// Whether it governs an object, or did.
    pub(super) fn concerns(&self, kind: &SyncKind, name: &ObjectName) -> bool {
        let id = (kind.clone(), name.clone());
        let released = || {
            let mut releases = self.releases.values();
            releases.any(|release| release.manifest.contains_key(&id))
        };
        self.has(&id) && (self.head.contains_key(&id) || released())
    }

    /// What is not there any more, and zones may still have because of it: what they do with each
    /// when nobody governs it.
    pub(crate) fn waiting(&self, catalog: &Catalog, zones: &Zones) -> Vec<Withdrawal> {
        let slots = self.slots();
        let placement = self.placement(zones, &slots, None);
        let undecided = placement.iter().any(|(_, place)| place == Place::Frozen);
        // What was taken away wherever zones are is with nobody any more.
        let is_lost = |governed: &Governed| {
            let mut slots = slots.iter().map(|slot| governed.slots.get(slot));
            !undecided && slots.all(|item| item == Some(&None))
        };
        let released = self.releases.values().flat_map(|one| one.manifest.keys());
        let gone: BTreeSet<&Id> = released.filter(|id| !self.head.contains_key(*id)).collect();
        let waiting = gone.into_iter().filter_map(|(kind, name)| {
            let Entry::Governed(governed) = catalog.entry(kind, name)? else {
                return None;
            };
            let waits = governed.policy == self.id && !is_lost(governed);
            waits.then_some(governed.withdrawal)
        });
        waiting.collect()
    }

    /// The release before the next.
    pub(crate) fn newest(&self) -> Option<&Arc<Released>> {
        self.releases.values().next_back()
    }

    /// The highest number that a release had. Numbers are never used twice.
    pub(crate) fn newest_number(&self) -> u64 {
        let known = self.newest().map_or(0, |newest| newest.number);
        known.max(self.object["status"]["release"].as_u64().unwrap_or(0))
    }

    /// The objects that zones get otherwise when an older release comes back instead of the newest.
    pub(crate) fn differing_from(&self, older: u64) -> BTreeSet<Id> {
        let Some((newest, older)) = self.newest().zip(self.releases.get(&older)) else {
            return BTreeSet::new();
        };
        let ids = newest.manifest.keys().chain(older.manifest.keys());
        let differing = ids.filter(|id| {
            let versions = [newest, older].map(|one| one.manifest.get(*id));
            let overrides = [newest, older].map(|one| one.overrides_for(id));
            versions[0] != versions[1] || overrides[0] != overrides[1]
        });
        differing.cloned().collect()
    }

    /// What would be released: what is there now, or what an older release had.
    pub(crate) fn draft(
        &self,
        restores: Option<u64>,
        known: (&Catalog, &Contents),
    ) -> Result<Draft, String> {
        let (manifest, overrides, shows) = match restores {
            None => {
                let (manifest, overrides) = self.releasable();
                (manifest, overrides, self.changed)
            }
            Some(number) => {
                let release = self.releases.get(&number);
                let release = release.ok_or_else(|| format!("release {number} is not kept"))?;
                let (mut manifest, overrides) =
                    (release.manifest.clone(), release.overrides.clone());
                // What left the policy meanwhile is not its to bring back.
                manifest.retain(|id, _| self.has(id));
                (manifest, overrides, release.content_as_of)
            }
        };
        let before = self
            .newest()
            .map(|newest| newest.manifest.clone())
            .unwrap_or_default();
        let departing = self.departing_in(restores);
        let (added, changed, mut removed) = release::changes(&before, &manifest);
        removed.retain(|id| self.is_shown(id, shows) && self.has(id));
        let digest = release::digest(&manifest, &overrides, &departing);
        let Authorship { authors, writers } =
            self.authors((&before, &manifest), &overrides, restores);
        let mut spec = json!({
            "policy": self.id.as_str(),
            "policyUID": self.uid,
            "revision": self.changed,
            "contentRevision": shows,
            "digest": digest,
            "restores": restores,
            "authorsSince": release::write_since(&self.authors_since(&authors)),
            "authors": authors,
            "writers": writers,
            "overrides": overrides,
            "changes": {
                "added": added,
                "changed": changed,
                "removed": removed.len(),
                "departing": departing.len(),
                "overrides": self.is_patched_otherwise(&overrides),
            },
            "removes": release::write_removes(&self.removes((&manifest, shows), known)),
            "left": release::write_left(self.let_go_of()),
            "departing": release::write_left(&departing),
            "returned": release::write_returned(&self.returned_after(&manifest)),
            "objects": release::write_manifest(&manifest),
        });
        if let Some(settles) = self.settles() {
            spec["settles"] = settles;
        }
        self.write_withheld(&mut spec, (&manifest, &overrides), restores);
        let size = spec.to_string().len();
        if size > LARGEST {
            return Err(format!(
                "the policy governs {} objects, whose list takes {size} bytes, and {LARGEST} are possible: make several policies of it",
                manifest.len()
            ));
        }
        let head = self.head.iter().filter(|(id, head)| {
            let is_new = manifest.get(*id) == Some(&head.version);
            is_new && restores.is_none()
        });
        let contents: Vec<_> = head
            .map(|(_, head)| (head.version, head.body.clone()))
            .collect();
        Ok(Draft {
            versions: manifest.into_values().collect(),
            spec,
            contents,
        })
    }

    /// What the next release settles: zones had followed others in a lost future of the store, so that
    /// it may bring them another content although nothing changed here.
    fn settles(&self) -> Option<Value> {
        let newest = self.newest().map_or(0, |newest| newest.number);
        if newest == 0 || newest >= ReleaseFloor::of(&self.object).number {
            return None;
        }
        let zones = ReleaseFloor::zones(&self.object).into_iter();
        let zones = zones.map(|(zone, objects)| json!({"zone": zone, "objects": objects}));
        Some(json!({"zones": zones.collect::<Vec<_>>()}))
    }

    /// What releases have, and is not its business any more. Each release says all of it, since
    /// those before it may go while zones still have what is older.
    fn let_go_of(&self) -> BTreeSet<&Id> {
        let released = self.releases.values().flat_map(|one| one.manifest.keys());
        released.filter(|id| !self.has(id)).collect()
    }

    /// What would be taken away from zones, by the release that they have.
    fn removes(
        &self,
        (manifest, shows): (&Manifest, u64),
        known: (&Catalog, &Contents),
    ) -> BTreeMap<u64, (Removes, u64)> {
        let releases = self.releases.iter();
        let removes = releases.map(|(since, release)| {
            let (_, _, removed) = release::changes(&release.manifest, manifest);
            // What was let go stays, or goes by itself.
            let removed = removed.iter().filter(|id| self.has(id));
            let removed: Vec<&Id> = removed.filter(|id| self.is_shown(id, shows)).collect();
            let behind: u64 = removed.iter().map(|id| self.left_behind(id, known)).sum();
            let removes = Removes {
                objects: removed.len() as u64,
                of: release.manifest.len() as u64,
            };
            (*since, (removes, behind))
        });
        removes.collect()
    }

    /// How many instances a graph leaves behind.
    fn left_behind(&self, id: &Id, (catalog, contents): (&Catalog, &Contents)) -> u64 {
        if (id.0.group(), id.0.kind()) != GRAPHS {
            return 0;
        }
        let mut releases = self.releases.values().rev();
        let version = releases.find_map(|release| release.manifest.get(id));
        let body = version.and_then(|version| contents.get(*version));
        let graph: Value = body
            .and_then(|body| serde_json::from_slice(&body).ok())
            .unwrap_or_default();
        instances(&graph, catalog).map_or(0, |(_, count)| count)
    }
}

/// The kind that a graph defines, and how many there are of it that zones may have.
pub(crate) fn instances(graph: &Value, catalog: &Catalog) -> Option<(SyncKind, u64)> {
    let kind = instance_kind(graph)?;
    let entries = catalog.entries(&kind);
    let count = entries.filter(|(_, entry)| !is_gone(entry)).count() as u64;
    Some((kind, count))
}

/// Whether it was taken away wherever a policy decided about it.
fn is_gone(entry: &Entry) -> bool {
    matches!(entry, Entry::Governed(_)) && !entry.is_for_anybody()
}
