//! What is known of a policy and its zones, put together for whoever decides.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::SystemTime;

use deltaplane_api::keys;
use deltaplane_border::{Catalog, Entry, Lacking, Slot, Standing};

use deltaplane_propagation::stages::{
    Admitted, Approved, Class, Fared, Link, Phase, PolicyFacts, ReportFacts, Target, ZoneFacts,
};
use deltaplane_propagation::{Duration, Hold, Timestamp};
use deltaplane_sync::{SyncKind, Verdict as Rejected, Version, ZoneName};
use serde_json::{Map, Value};

use super::Governing;
use super::governor::Governor;
use super::release::Id;
use crate::divergence::{ReleaseFloor, is_diverged};
use crate::fleet::Fleet;
use crate::readiness::{Readiness, Verdict, ZoneReadiness};
use crate::session::Session;

/// What was found of zones, until something is news.
#[derive(Default)]
pub(crate) struct Reports {
    known: BTreeMap<(String, ZoneName), Known>,
    /// Counts what zones said.
    said: BTreeMap<ZoneName, u64>,
    /// As of which policies and zones it is.
    shaped: u64,
}

/// What is found once for all zones that are looked at together.
struct Contents<'a> {
    /// What zones in a slot should have; nothing while that is being put together.
    slots: BTreeMap<Slot, Option<Vec<(&'a Id, Version)>>>,
    /// The kinds of all that the policy governs, or did.
    kinds: BTreeSet<SyncKind>,
}

#[derive(Clone)]
struct Known {
    /// What it was found by.
    by: By,
    /// Or why nothing was heard on this connection: what was said on another counts for nothing,
    /// since much may have happened meanwhile; and it is no relapse that it has not spoken yet.
    report: Result<ReportFacts, String>,
    /// Since when it fails without a break.
    failing: Option<Timestamp>,
}

/// Who fails for so long has failed: what is refused once is often taken a moment later.
const LASTS: Duration = Duration::from_nanos(5_000_000_000);

#[derive(Clone, Copy, PartialEq, Eq)]
struct By {
    target: Target,
    session: Option<u64>,
    progress: u64,
    said: u64,
}

// === impl Fleet ===

impl Fleet {
    /// The names of all policies.
    pub fn policies(&self) -> Vec<String> {
        let governing = self.inner().governing.lock();
        governing.policies.keys().cloned().collect()
    }

    /// All that is known of a policy, when that is known. What was decided and has not reached what
    /// zones are sent says nothing yet of how they fare with it; whoever waits is woken then.
    pub fn look(&self, policy: &str) -> Option<PolicyFacts> {
        let inner = self.inner();
        let mut reports = inner.reports.lock();
        let governing = inner.governing.lock();
        let governor = self.settled(&governing, policy)?;
        reports.forget(&governing);
        reports.hear(&inner.readiness);
        Some(self.facts((&governing, governor), &mut reports))
    }

    /// A policy, if all that is known of it has reached what zones are sent.
    fn settled<'a>(&self, governing: &'a Governing, policy: &str) -> Option<&'a Governor> {
        let governor = governing.policies.get(policy)?;
        let at = governor.revision().max(governor.refreshed);
        let is_settled = !governing.loading && at <= self.inner().catalog.read().at();
        is_settled.then_some(governor)
    }

    /// Of all that [`Self::look`] depends on, beside the time: whoever finds the same stamp again
    /// finds the same. Nothing when that is not known.
    pub fn stamp(&self, policy: &str) -> Option<u64> {
        let troubles = self.troubles(policy);
        let inner = self.inner();
        let mut reports = inner.reports.lock();
        let governing = inner.governing.lock();
        let governor = self.settled(&governing, policy)?;
        reports.hear(&inner.readiness);
        let mut stamp = DefaultHasher::new();
        let (revision, refreshed) = (governor.revision(), governor.refreshed);
        (&governor.uid, revision, refreshed, governor.changed).hash(&mut stamp);
        (governing.shaped, troubles).hash(&mut stamp);
        governor
            .releases
            .keys()
            .for_each(|one| one.hash(&mut stamp));
        for Approved { stage, release, by } in governing.approvals_of(&governor.uid) {
            (stage, release, by).hash(&mut stamp);
        }
        let zones = governing.zones.iter();
        for (zone, object) in zones.filter(|(_, object)| governor.selects(object)) {
            let metadata = object.get("metadata");
            let version = metadata.and_then(|all| all.get("resourceVersion")?.as_str());
            let session = self.session_of(zone);
            let session = session.map(|one| (one.id.get(), one.is_open(), one.sending.progress()));
            let said = reports.said.get(zone).copied().unwrap_or_default();
            (zone.as_str(), version, session, said).hash(&mut stamp);
        }
        Some(stamp.finish())
    }

    /// Why nothing was heard of zones that should have something of a policy, of each since it
    /// connected, when somebody looked last.
    pub(crate) fn unheard(&self, policy: &str) -> BTreeMap<String, String> {
        let reports = self.inner().reports.lock();
        let known = reports.known.iter().filter(|((of, _), _)| of == policy);
        let unheard = known.filter_map(|((_, zone), known)| {
            let why = known.report.as_ref().err()?;
            Some((zone.to_string(), why.clone()))
        });
        unheard.collect()
    }

    /// All that would be known of a policy if it were this. What is found of zones is kept nowhere:
    /// nothing is decided by what might be.
    pub(super) fn supposed_facts(
        &self,
        (governing, governor): (&Governing, &Governor),
        reports: &mut Reports,
    ) -> PolicyFacts {
        reports.hear(&self.inner().readiness);
        let mut supposed = reports.of(governor.id.as_str());
        self.facts((governing, governor), &mut supposed)
    }

    /// All that is known of a policy, be it one that might be.
    fn facts(
        &self,
        (governing, governor): (&Governing, &Governor),
        reports: &mut Reports,
    ) -> PolicyFacts {
        let inner = self.inner();
        let selected = governing.zones.iter();
        let selected = selected.filter(|(_, object)| governor.selects(object));
        let now = Timestamp::from_system(inner.clock.now());
        let mut again: Option<Timestamp> = None;
        let mut contents = Contents {
            slots: BTreeMap::new(),
            kinds: governor.all_kinds(&governing.crossing),
        };
        let zones = selected.map(|(zone, object)| {
            let session = self.session_of(zone);
            let recorded = governor.record.zones.contains_key(zone.as_str());
            let link = self.link(session.as_deref(), (object, recorded));
            let (hold, released_at) = hold(object, inner.clock.now());
            let admitted = governor.record.zones.get(zone.as_str());
            let admitted = admitted.filter(|one| one.phase != Phase::Deferred);
            ZoneFacts {
                name: zone.to_string(),
                object: object.clone(),
                link,
                holds: session
                    .as_deref()
                    .and_then(|session| governor.held_release(session, object)),
                hold,
                released_at,
                report: admitted.and_then(|one| {
                    let of = (zone, session.as_deref());
                    let known = self.report(reports, (governor, &mut contents), of, (*one, now));
                    let (report, later) = known.told(now);
                    again = again.into_iter().chain(later).min();
                    report
                }),
            }
        });
        let zones = zones.collect();
        let left = governor.record.zones.keys().filter(|name| {
            let known = name
                .parse()
                .ok()
                .and_then(|name: ZoneName| governing.zones.get(&name));
            known.is_some_and(|object| !governor.selects(object))
        });
        let selected = governing.zones.iter();
        let selected = selected.filter(|(_, object)| governor.selects(object));
        // Whether they are connected or not: what they followed is not undone by going away.
        let diverged =
            selected.filter(|(zone, object)| is_diverged(self.session_of(zone).as_deref(), object));
        PolicyFacts {
            diverged: diverged.map(|(zone, _)| zone.to_string()).collect(),
            left: left.cloned().collect(),
            object: governor.object.clone(),
            record: governor.record.clone(),
            unreadable: governing.unreadable_input(governor),
            head: governor.head_facts(),
            releases: governor
                .releases
                .values()
                .map(|one| governor.decided(one))
                .collect(),
            contents: governor.content_facts(),
            zones,
            zones_as_of: governing.created.values().copied().max(),
            approvals: governing.approvals_of(&governor.uid),
            settled_release: match governor.newest() {
                Some(_) => 0,
                None => self.settled_release(governor.id.as_str()),
            },
            again,
        }
    }

    fn link(
        &self,
        session: Option<&Session>,
        (zone, recorded): (&Map<String, Value>, bool),
    ) -> Link {
        let inner = self.inner();
        match session {
            // Nothing is sent to it, as if it were away.
            Some(session) if session.sending.diverged().is_some() => Link::Lost {
                since: Timestamp::from_system(session.since),
            },
            Some(session) if session.is_open() => Link::Connected {
                since: Timestamp::from_system(session.since),
            },
            Some(session) => Link::Lost {
                since: Timestamp::from_system(session.lost().unwrap_or(session.since)),
            },
            None if !recorded && never_joined(zone) => Link::Never,
            // It may have been away for long when this process began.
            None => Link::Lost {
                since: lost(zone).unwrap_or_else(|| Timestamp::from_system(inner.began)),
            },
        }
    }

    /// How a zone fares with what it was admitted to.
    fn report<'a, 'g>(
        &self,
        reports: &'a mut Reports,
        (governor, contents): (&'g Governor, &mut Contents<'g>),
        (zone, session): (&ZoneName, Option<&Session>),
        (admitted, now): (Admitted, Timestamp),
    ) -> &'a Known {
        let by = By {
            target: admitted.target,
            session: session.map(|session| session.id.get()),
            progress: session.map_or(0, |session| session.sending.progress()),
            said: reports.said.get(zone).copied().unwrap_or_default(),
        };
        let key = (governor.id.as_str().to_owned(), zone.clone());
        let before = reports.known.get(&key);
        let before = before.filter(|known| known.by.target == by.target);
        if before.is_some_and(|known| known.by == by) {
            return &reports.known[&key];
        }
        let before = before.and_then(|known| known.failing);
        let state = match session {
            Some(session) => self.fares((governor, contents), zone, session, admitted),
            None => Err("it has not connected yet".to_owned()),
        };
        let fails = state.as_ref().is_ok_and(Fared::is_failure);
        let at = admitted.target;
        let known = Known {
            by,
            failing: fails.then(|| before.unwrap_or(now)),
            report: state.map(|state| ReportFacts { at, state }),
        };
        let kept = reports.known.entry(key).insert_entry(known);
        kept.into_mut()
    }

    /// How a zone fares, or why nothing was heard of that since it connected.
    fn fares<'g>(
        &self,
        (governor, contents): (&'g Governor, &mut Contents<'g>),
        zone: &ZoneName,
        session: &Session,
        admitted: Admitted,
    ) -> Result<Fared, String> {
        if let Some(lost) = session.sending.diverged() {
            let cause = match session.lost_record() {
                Some(_) => "the zone lost its record of how far it followed the hub".to_owned(),
                None => format!(
                    "the zone followed revision {}, which this hub does not know",
                    lost.revision
                ),
            };
            return Err(format!(
                "{cause}; settle it with: deltaplane zones reconcile {zone} --keep hub|zone"
            ));
        }
        let concerns = |kind: &_, name: &_| governor.concerns(kind, name);
        let Some(standing) = session.sending.standing(&contents.kinds, concerns) else {
            return Err("it begins anew".to_owned());
        };
        if let Some(kind) = standing.unsubscribed.first() {
            let kind = kind.kind();
            return Err(format!("it has not asked for {kind} since it connected"));
        }
        if !self.inner().readiness.is_heard(zone, session.id) {
            return Err("it has not said how it fares since it connected".to_owned());
        }
        let slot = Slot {
            release: admitted.target.release,
            class: admitted.target.class.bits(),
        };
        let Some(release) = governor.releases.get(&slot.release) else {
            let reason = format!("release {} is not there", slot.release);
            return Ok(Fared::Delivering(reason));
        };
        if slot.release < ReleaseFloor::of(&governor.object).number {
            let reason = "the zone keeps what it has until its gate lets a release through that was made after the hub was restored";
            return Ok(Fared::Delivering(reason.to_owned()));
        }
        let wanted = contents.slots.entry(slot).or_insert_with(|| {
            let catalog = self.inner().catalog.read();
            let ids = release.manifest.keys();
            let ids = ids.filter(|id| governor.has(id) && governor.decides(id, release));
            ids.map(|id| Some((id, version_in(&catalog, id, slot)?)))
                .collect()
        });
        let Some(wanted) = wanted else {
            let reason = "its content is being put together".to_owned();
            return Ok(Fared::Delivering(reason));
        };
        let held = |kind: &SyncKind| {
            let held = session.sending.counts(kind)?.held?;
            Some(format!(
                "{held}; deltaplane zones approve-deletions {zone} lets them go"
            ))
        };
        if let Some(undelivered) = undelivered(&standing, held) {
            return Ok(undelivered);
        }
        // What it keeps of its own says nothing of what was released: the rest does.
        let taken = wanted
            .iter()
            .filter(|(id, _)| !standing.foreign.contains_key(*id));
        let readiness = &self.inner().readiness;
        let fared = readiness.with(zone, |readiness| verdict(readiness, taken, admitted.at));
        Ok(match standing.foreign.first_key_value() {
            Some(((kind, name), reason)) if fared.is_settled() => {
                Fared::Refused(format!("{} {name}: {reason}", kind.kind()))
            }
            Some(_) | None => fared,
        })
    }
}

/// The version of an object in a slot, as zones get it.
fn version_in(catalog: &Catalog, (kind, name): &Id, slot: Slot) -> Option<Version> {
    match catalog.entry(kind, name)? {
        Entry::Governed(governed) => Some(governed.slots.get(&slot)?.as_ref()?.version),
        Entry::Shared { .. } => None,
    }
}

/// What a zone has not acknowledged, if there is anything.
fn undelivered(standing: &Standing, held: impl Fn(&SyncKind) -> Option<String>) -> Option<Fared> {
    let rejected = |one: &Lacking| match &one.rejected {
        Some((Rejected::Failed | Rejected::Own | Rejected::Foreign, reason)) => {
            Some(format!("{} {}: {reason}", one.kind.kind(), one.name))
        }
        Some((Rejected::Held, _)) | None => None,
    };
    if let Some(reason) = standing.lacking.iter().find_map(rejected) {
        return Some(Fared::Rejected(reason));
    }
    let first = standing.lacking.first()?;
    let held = held(&first.kind);
    let what = held.as_deref().unwrap_or("on its way");
    let more = match standing.count {
        1 => String::new(),
        count => format!(" ({count} in all)"),
    };
    Some(Fared::Delivering(format!(
        "{} {}: {what}{more}",
        first.kind.kind(),
        first.name
    )))
}

/// What a zone says of what it acknowledged.
fn verdict<'a>(
    readiness: &ZoneReadiness,
    wanted: impl IntoIterator<Item = &'a (&'a Id, Version)>,
    admitted: Timestamp,
) -> Fared {
    let mut ready = admitted;
    let (mut waiting, mut unknown) = (None, None);
    for ((kind, name), version) in wanted {
        let say = |reason: &str| format!("{} {name}: {reason}", kind.kind());
        match readiness.verdict(kind, name, *version) {
            Verdict::Failed { reason, .. } => return Fared::Failed(say(&reason)),
            Verdict::Waiting(reason) => waiting = waiting.or_else(|| Some(say(&reason))),
            Verdict::NoEvidence(reason) => unknown = unknown.or_else(|| Some(say(&reason))),
            Verdict::Ready { since } => ready = ready.max(Timestamp::from_system(since)),
        }
    }
    match (waiting, unknown) {
        (Some(reason), _) => Fared::Waiting(reason),
        (None, Some(reason)) => Fared::NoEvidence(reason),
        (None, None) => Fared::Ready { since: ready },
    }
}

/// Returns true if a zone was never connected, as its status says.
fn never_joined(zone: &Map<String, Value>) -> bool {
    let status = zone.get("status");
    status.is_none_or(|status| status["connection"].is_null())
}

/// Since when a zone is away, if its status says that it is.
fn lost(zone: &Map<String, Value>) -> Option<Timestamp> {
    Timestamp::parse(disconnected_since(zone)?)
}

/// Returns since when a zone is away, as the status of its object says. In the status of a zone that
/// counts as connected, `since` is the time at which it connected.
pub(crate) fn disconnected_since(zone: &Map<String, Value>) -> Option<&str> {
    let status = zone.get("status")?;
    let since = status["since"].as_str();
    since.filter(|_| status["connection"] == "Disconnected")
}

/// Whether somebody holds a zone: until a time, or until that is taken away.
fn hold(zone: &Map<String, Value>, now: SystemTime) -> (Hold, Option<Timestamp>) {
    if zone.get("spec").map(|spec| &spec["enabled"]) == Some(&Value::Bool(false)) {
        return (Hold::Held, None);
    }
    let Some(said) = zone.get("metadata").and_then(keys::hold) else {
        return (Hold::Free, None);
    };
    match Timestamp::parse(said) {
        Some(until) if until <= Timestamp::from_system(now) => (Hold::Free, None),
        Some(until) => (Hold::Held, Some(until)),
        None => (Hold::Held, None),
    }
}

// === impl Known ===

impl Known {
    /// What is said of a zone now, and when that may be another.
    fn told(&self, now: Timestamp) -> (Option<ReportFacts>, Option<Timestamp>) {
        let report = self.report.as_ref().ok();
        let ends = self.failing.and_then(|since| since.plus(LASTS));
        let Some(ends) = ends.filter(|ends| *ends > now) else {
            return (report.cloned(), None);
        };
        let report = report.map(|report| ReportFacts {
            at: report.at,
            state: report.state.clone().for_now(),
        });
        (report, Some(ends))
    }
}

// === impl Governor ===

impl Governor {
    /// Returns the newest release if a zone has acknowledged exactly its content, although it was
    /// not admitted to it: then nothing changes there, and nobody has to approve it.
    fn held_release(&self, session: &Session, zone: &Map<String, Value>) -> Option<u64> {
        let newest = self.newest()?;
        let admitted = self.record.zones.get(session.zone.as_str());
        let admitted = admitted.filter(|one| one.phase != Phase::Deferred);
        let floor = ReleaseFloor::of(&self.object).number;
        let is_decided = admitted.is_some_and(|one| one.target.release >= floor);
        let is_overridden = self.decided(newest).class(zone) != Class::default();
        if is_decided || is_overridden || !self.needs_approval() || session.is_diverged() {
            return None;
        }
        let released = self.releases.values().flat_map(|one| one.manifest.keys());
        let mut ids = released.filter(|id| self.has(id));
        let is_held = |(kind, name): &Id| {
            let state = session.sending.object(kind, name);
            state.is_some_and(|state| {
                let version = newest.manifest.get(&(kind.clone(), name.clone())).copied();
                state.rejected.is_none() && state.acknowledged == version
            })
        };
        ids.all(is_held).then_some(newest.number)
    }
}

// === impl Reports ===

impl Reports {
    /// Takes note of which zones said something.
    fn hear(&mut self, readiness: &Readiness) {
        for zone in readiness.take_dirty() {
            *self.said.entry(zone).or_default() += 1;
        }
    }

    /// A copy of what is known of one policy.
    fn of(&self, policy: &str) -> Self {
        let known = self.known.iter().filter(|((of, _), _)| of == policy);
        Self {
            known: known
                .map(|(key, known)| (key.clone(), known.clone()))
                .collect(),
            said: self.said.clone(),
            shaped: self.shaped,
        }
    }

    /// Policies and zones that are gone, once for each time that any may be.
    fn forget(&mut self, governing: &Governing) {
        if std::mem::replace(&mut self.shaped, governing.shaped) == governing.shaped {
            return;
        }
        let Governing {
            policies, zones, ..
        } = governing;
        self.known
            .retain(|(of, zone), _| policies.contains_key(of) && zones.contains_key(zone));
        self.said.retain(|zone, _| zones.contains_key(zone));
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_runtime::{Clock, Tasks};
    use deltaplane_store::{Embedded, Options};
    use serde_json::json;

    use super::*;
    use crate::FleetConfig;

    #[tokio::test]
    async fn what_might_be_leaves_nothing_that_is_decided_by() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Embedded::open(directory.path(), Options::default()).expect("opened");
        let tasks = Tasks::new();
        let config = FleetConfig {
            store,
            clock: Clock::system(),
            product: "0".to_owned(),
        };
        let fleet = Fleet::open(config, &tasks).await.expect("opened");
        let mut governing = fleet.inner().governing.lock();
        let zone = json!({"metadata": {"name": "x"}, "spec": {}});
        governing.zone(&"x".parse().expect("legal"), zone.as_object().cloned());
        let admitted = json!({
            "release": "1", "phase": "Admitted", "at": "2026-03-01T12:00:00Z", "zones": "x",
        });
        let policy = json!({
            "metadata": {"name": "web", "uid": "u"},
            "spec": {"targets": [{"kind": "ConfigMap"}]},
            "status": {"decisions": {"zones": [admitted], "stages": [], "evidence": []}},
        });
        let _ = governing.policy(policy, true);
        let governor = &governing.policies["web"];
        let mut reports = Reports::default();
        fleet.supposed_facts((&governing, governor), &mut reports);
        assert!(reports.known.is_empty());
        fleet.facts((&governing, governor), &mut reports);
        assert_eq!(reports.known.len(), 1);
    }

    #[test]
    fn who_was_away_before_the_hub_began_is_away_since_then() {
        let check = |status: Value, expected: Option<&str>| {
            let zone = Map::from_iter([("status".to_owned(), status)]);
            assert_eq!(lost(&zone), expected.and_then(Timestamp::parse));
        };
        let since = "2026-03-01T12:00:00Z";
        check(
            json!({"connection": "Disconnected", "since": since}),
            Some(since),
        );
        check(json!({"connection": "Connected", "since": since}), None);
        check(Value::Null, None);
    }
}
