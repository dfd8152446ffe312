//! What a change would do, before anything is written: what of it a policy governs, what each zone
//! would get, and in which order.
//!
//! Invariants: nothing is worked out while the state of policies is locked, and no object is named
//! that whoever asks may not read.

mod foreseen;
mod limits;
mod supposed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_propagation::Timestamp;
use deltaplane_propagation::stages::{Class, Phase, PolicyFacts, Target, decide, problems};
use deltaplane_runtime::heavy;
use deltaplane_sync::Version;
use serde_json::{Value, json};

use super::Governing;
use super::compare::{Bodies, Edition, Hunks, MayRead, compare, set};
use super::contents::Contents;
use super::governor::Governor;
use super::release::{Id, Manifest, Released};
use crate::fleet::Fleet;
use crate::graphs::is_graph;
use foreseen::Foreseen;
use supposed::Supposed;

/// What would be written.
pub(crate) struct Change {
    /// As they would be stored.
    pub(crate) objects: Vec<Value>,
    pub(crate) deletions: Vec<Id>,
    /// The policy itself, if it would be another.
    pub(crate) policy: Option<Value>,
    /// Definitions that do not compile, and why.
    pub(crate) refused: BTreeMap<Id, String>,
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error("there is no such policy")]
    Unknown,
    #[error("{0}")]
    Object(String),
    #[error("{0}")]
    Policy(String),
    #[error("{0}")]
    TooLarge(String),
}

/// A plan as far as it can be told without those who may read it.
struct Worked {
    supposed: Supposed,
    contents: Contents,
    facts: PolicyFacts,
    leaving: BTreeSet<String>,
    released: Released,
}

// === impl Change ===

impl Change {
    /// Refuses what is more than a plan can take.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        limits::check_change(self)
    }
}

// === impl Fleet ===

impl Fleet {
    /// What a change would do with what a policy governs.
    pub(crate) async fn plan(
        &self,
        policy: &str,
        change: Change,
        may_read: &MayRead<'_>,
    ) -> Result<Value, PlanError> {
        // What was decided of it is in force then.
        let is_new = self.inputs(policy).await.is_none();
        let mut planned = heavy(|| {
            let now = Timestamp::from_system(self.inner().clock.now());
            let worked = self.work_out(policy, change, may_read, now)?;
            self.tell_plan(&worked, may_read, now)
        })?;
        if is_new {
            planned["new"] = true.into();
        }
        Ok(planned)
    }

    /// Works out what would be released, on copies of what is known.
    fn work_out(
        &self,
        policy: &str,
        change: Change,
        may_read: &MayRead<'_>,
        now: Timestamp,
    ) -> Result<Worked, PlanError> {
        let inner = self.inner();
        let (mut supposed, contents) = {
            let governing = inner.governing.lock();
            let supposed = Supposed::new(&governing, policy, change.policy)?;
            (supposed, governing.contents.clone())
        };
        let candidates = supposed.candidates(&inner.catalog.read());
        supposed.adopt(candidates);
        let known = inner.known.borrow().clone();
        for object in &change.objects {
            supposed.put(&known, object, &change.refused)?;
        }
        for id in change.deletions {
            supposed.delete(id);
        }
        let governor = &supposed.governor;
        limits::check_trials(governor)?;
        let drafted = governor.draft(None, (&inner.catalog.read(), &contents));
        let spec = drafted.map_err(PlanError::Policy)?.spec;
        // Overrides are tried now, and not when the facts are put together under a lock.
        governor.head_facts_for(may_read);
        let (facts, leaving) = {
            let mut reports = inner.reports.lock();
            let governing = inner.governing.lock();
            let facts = self.supposed_facts((&governing, governor), &mut reports);
            (facts, leaving(&governing, policy, governor))
        };
        let released = released(spec, facts.newest() + 1, now);
        let released = released.ok_or_else(|| PlanError::Policy("it cannot be read".to_owned()))?;
        Ok(Worked {
            supposed,
            contents,
            facts,
            leaving,
            released,
        })
    }

    fn tell_plan(
        &self,
        worked: &Worked,
        may_read: &MayRead<'_>,
        now: Timestamp,
    ) -> Result<Value, PlanError> {
        let Worked {
            supposed,
            contents,
            facts,
            leaving,
            released,
        } = worked;
        let policy = facts.policy().map_err(|problems| {
            let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
            PlanError::Policy(said.join("; "))
        })?;
        let outcome = decide(&policy, facts.situation(&facts.zones(), now));
        let is_told = |told: &&(Id, Value)| may_read(&told.0);
        let told = supposed.told.iter().filter(is_told);
        let mut hidden: BTreeSet<&Id> = supposed.told.iter().map(|(id, _)| id).collect();
        let mut planned = json!({
            "policy": facts.object["metadata"]["name"],
            "asOf": now.to_string(),
            "objects": told.map(|(_, said)| said).collect::<Vec<_>>(),
            "problems": problems(facts, &policy, &outcome),
            "leaving": set(leaving),
        });
        let governor = &supposed.governor;
        let is_blocked = governor.blocked().next().is_some();
        let is_news = is_news(facts, released);
        // Another spec may let zones have what was released before.
        let newest = governor.newest();
        let newest = newest.filter(|_| supposed.is_changed() && !is_news);
        let released = newest.map_or(released, |newest| newest);
        let mut hunks = Hunks::default();
        if !is_blocked && (is_news || newest.is_some()) {
            let held = self.held(facts, (governor, contents), released);
            hunks = self::hunks(facts, (governor, &held), released, contents);
            let foreseen = Foreseen {
                facts,
                policy: &policy,
                released,
                is_new: is_news,
                governor,
                held: &held,
                now,
            };
            // It stays so until it is changed at the hub.
            let rolled_back = facts.head.rolled_back.as_ref();
            planned["rolledBack"] = rolled_back.map(ToString::to_string).into();
            foreseen.tell(&mut planned, &hunks, may_read);
        }
        hidden.extend(hunks.objects());
        hidden.retain(|id| !may_read(id));
        planned["hidden"] = hidden.len().into();
        Ok(planned)
    }

    /// Returns the definitions among objects that would not compile, and why.
    pub(crate) async fn refused_definitions(&self, objects: &[Value]) -> BTreeMap<Id, String> {
        let mut refused = BTreeMap::new();
        for object in objects.iter().filter(|object| is_graph(object)) {
            let why = self.definition_findings(object).await.problem;
            let why = why.map(|problem| problem.why().to_owned());
            refused.extend(supposed::id_of(object).ok().zip(why));
        }
        refused
    }

    /// What zones hold of a policy's objects that were not let in anywhere, by what they
    /// acknowledged.
    fn held(
        &self,
        facts: &PolicyFacts,
        (governor, contents): (&Governor, &Contents),
        released: &Released,
    ) -> BTreeMap<String, Manifest> {
        let before = governor
            .releases
            .values()
            .flat_map(|one| one.manifest.keys());
        let ids: BTreeSet<&Id> = released.manifest.keys().chain(before).collect();
        let unplaced = facts.zones.iter();
        let unplaced = unplaced.filter(|zone| target_of(facts, &zone.name).is_none());
        let held = unplaced.filter_map(|zone| {
            let session = self.session_of(&zone.name.parse().ok()?)?;
            let versions = ids.iter().filter_map(|id| {
                let version = session.sending.object(&id.0, &id.1)?.acknowledged?;
                let head = governor
                    .head
                    .get(*id)
                    .is_some_and(|head| head.version == version);
                // What it is can only be said of what is kept.
                (head || contents.has(version)).then(|| ((*id).clone(), version))
            });
            Some((zone.name.clone(), versions.collect()))
        });
        held.collect()
    }

    /// What is in a release, and what is not as it was in the one before.
    pub(crate) fn release(
        &self,
        policy: &str,
        number: u64,
        may_read: &MayRead<'_>,
    ) -> Option<Value> {
        let (release, before, contents) = {
            let governing = self.inner().governing.lock();
            let governor = governing.policies.get(policy)?;
            let before = governor.releases.range(..number).next_back();
            let before = before.map(|(_, release)| release.clone());
            let release = governor.releases.get(&number)?.clone();
            (release, before, governing.contents.clone())
        };
        let bodies: &Bodies<'_> = &|_, version| contents.get(version);
        let class = Class::default();
        let old = before.as_ref().map(|one| (Edition::of(one), class));
        let hunks = compare(old, (Edition::of(&release), class), bodies);
        let objects = release.manifest.iter().map(|((kind, name), version)| {
            json!({
                "group": kind.group(), "kind": kind.kind(), "namespace": name.namespace(),
                "name": name.name(), "version": version.to_string(),
            })
        });
        Some(json!({
            "release": number,
            "digest": release.digest,
            "objects": objects.collect::<Vec<_>>(),
            "overrides": release.overrides,
            "before": before.map(|before| before.number),
            "hunks": hunks.iter().map(|(hunk, _)| hunk.json(may_read)).collect::<Vec<_>>(),
        }))
    }
}

/// The release that would be made.
fn released(mut spec: Value, number: u64, now: Timestamp) -> Option<Released> {
    spec["number"] = number.into();
    let created = now.to_string();
    Released::read(&json!({"metadata": {"creationTimestamp": created}, "spec": spec}))
}

/// Whether anything would be released.
fn is_news(facts: &PolicyFacts, released: &Released) -> bool {
    let newest = facts.releases.last();
    let newest = newest.and_then(|newest| facts.contents.get(&newest.number));
    match newest {
        Some(newest) => newest.digest != released.digest,
        None => !released.manifest.is_empty(),
    }
}

/// Zones that the policy is not for any more.
fn leaving(governing: &Governing, policy: &str, supposed: &Governor) -> BTreeSet<String> {
    let Some(governor) = governing.policies.get(policy) else {
        return BTreeSet::new();
    };
    let zones = governing.zones.iter();
    let leaving = zones.filter(|(_, zone)| governor.selects(zone) && !supposed.selects(zone));
    leaving.map(|(name, _)| name.to_string()).collect()
}

/// What zones have, by release or without one, and which overrides would apply to them.
type Alike<'a> = (Option<Target>, Option<&'a Manifest>, Class);

/// What each zone would get, at some time.
fn hunks(
    facts: &PolicyFacts,
    (governor, held): (&Governor, &BTreeMap<String, Manifest>),
    released: &Released,
    contents: &Contents,
) -> Hunks {
    let mut alike: BTreeMap<Alike<'_>, Vec<&str>> = BTreeMap::new();
    for zone in &facts.zones {
        let has = target_of(facts, &zone.name);
        let gets = released.decided.class(&zone.object);
        let key = (has, held.get(&zone.name), gets);
        alike.entry(key).or_default().push(&zone.name);
    }
    let bodies: &Bodies<'_> = &|id: &Id, version: Version| -> Option<Arc<[u8]>> {
        let head = governor.head.get(id).filter(|head| head.version == version);
        let body = head.map(|head| head.body.clone());
        body.or_else(|| contents.get(version))
    };
    let mut hunks = Hunks::default();
    for ((has, held, gets), zones) in alike {
        let before = has.and_then(|has| {
            let release = governor.releases.get(&has.release)?;
            Some((Edition::of(release), has.class))
        });
        let before = before.or(held.map(|held| (Edition::plain(held), Class::default())));
        let found = compare(before, (Edition::of(released), gets), bodies);
        hunks.add(found, &zones, has);
    }
    hunks
}

/// What a zone should have now.
fn target_of(facts: &PolicyFacts, zone: &str) -> Option<Target> {
    let admitted = facts.record.zones.get(zone);
    let admitted = admitted.filter(|one| one.phase != Phase::Deferred);
    admitted.map(|one| one.target)
}
