//! What the fleet does for whoever decides: content is kept for releases, zones are asked how they
//! fare, and whoever waits is woken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use deltaplane_border::{Audience, Entry};
use deltaplane_propagation::stages::{Policy, Targets};
use deltaplane_runtime::{Stop, heavy};
use deltaplane_sync::{
    Asked, AskedPolicy, AskedSelector, AskedTarget, ObjectName, SyncKind, ZoneName,
};
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::governor::{CompiledPolicy, Governor, compile};
use super::release::Id;
use crate::fleet::Fleet;
use crate::graphs::UNJUDGED;
use crate::session::Session;

/// What was written together is released by then.
const SOON: Duration = Duration::from_secs(3);

/// Why nothing can be released.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    #[error("there is no policy {0}")]
    Unknown(String),
    #[error("{0}")]
    Impossible(String),
    #[error("what is there is being read anew")]
    Loading,
    #[error(transparent)]
    Contents(#[from] super::ContentsError),
}

// === impl Fleet ===

impl Fleet {
    /// Woken by what policies are about.
    pub fn stirred(&self) -> watch::Receiver<u64> {
        self.inner().stirred.subscribe()
    }

    /// Ends when the policies that may govern a kind say of themselves what there is as of a
    /// revision.
    pub(crate) async fn said(&self, kind: &SyncKind, revision: u64) {
        let inner = self.inner();
        // Errors mean that the process stops.
        let _ = inner
            .catalog
            .positions()
            .wait_for(|at| *at >= revision)
            .await;
        let concerned = inner.governing.lock().concerned;
        let mut told = inner.told.subscribe();
        loop {
            let all_said = {
                let governing = inner.governing.lock();
                let told = told.borrow_and_update();
                let said = |policy: &String| told.get(policy).is_some_and(|at| *at >= concerned);
                let mut policies = governing.policies.iter();
                policies.all(|(name, policy)| !policy.targets(kind) || said(name))
            };
            if all_said || told.changed().await.is_err() {
                return;
            }
        }
    }

    /// What a policy says of itself is as of this revision, or later.
    pub fn told(&self, policy: &str, at: u64) {
        // Not under the lock of what is told: who waits for it has the other one.
        let there: BTreeSet<String> = self.policies().into_iter().collect();
        self.inner().told.send_if_modified(|told| {
            let known = told.len();
            told.retain(|name, _| there.contains(name));
            let before = told.insert(policy.to_owned(), at);
            before != Some(at) || told.len() != known
        });
    }

    /// The spec of the release that a policy would make now, but for its number; or of one that
    /// brings back an older one. All of its content is kept when this returns.
    pub async fn draft(&self, policy: &str, restores: Option<u64>) -> Result<Value, DraftError> {
        let inner = self.inner();
        let (draft, contents) = {
            let mut governing = inner.governing.lock();
            if governing.loading {
                return Err(DraftError::Loading);
            }
            let governor = governing.policies.get(policy);
            let governor = governor.ok_or_else(|| DraftError::Unknown(policy.to_owned()))?;
            let catalog = inner.catalog.read();
            let draft = governor.draft(restores, (&catalog, &governing.contents));
            let mut draft = draft.map_err(DraftError::Impossible)?;
            // What is there already must not go before the release is there, either.
            let versions = draft.versions.iter().copied();
            governing.litter |= governing.contents.promise(policy, versions);
            draft
                .contents
                .retain(|(version, _)| !governing.contents.has(*version));
            (draft, governing.contents.clone())
        };
        if let Err(error) = contents.keep(&draft.contents).await {
            self.forsake(policy);
            return Err(error.into());
        }
        Ok(draft.spec)
    }

    /// A draft does not become a release: what was kept for it may go.
    pub fn forsake(&self, policy: &str) {
        let mut governing = self.inner().governing.lock();
        if governing.contents.release_promise(policy) {
            governing.litter = true;
        }
    }

    /// Forgets what all zones have let go. Who is away may still have it.
    fn settle_withdrawals(&self) {
        let withdrawn: Vec<Id> = {
            let governing = self.inner().governing.lock();
            governing.withdrawn.keys().cloned().collect()
        };
        if withdrawn.is_empty() {
            return;
        }
        let zones: Vec<ZoneName> = self.known().borrow().zones.keys().cloned().collect();
        for id in withdrawn.into_iter().filter(|id| self.is_told_to_go(id)) {
            if !zones.is_empty() && zones.iter().all(|zone| self.has_let_go(zone, &id)) {
                self.inner().governing.lock().forget_withdrawn(&id);
            }
        }
    }

    /// Returns true if the catalog tells zones to let an object go: before that, whoever has it as it
    /// was says nothing about that.
    fn is_told_to_go(&self, (kind, name): &Id) -> bool {
        let catalog = self.inner().catalog.read();
        match catalog.entry(kind, name) {
            Some(Entry::Shared { audience, .. }) => matches!(audience, Audience::Nobody(_)),
            Some(Entry::Governed(_)) | None => false,
        }
    }

    fn has_let_go(&self, zone: &ZoneName, id: &Id) -> bool {
        let Some(session) = self.session_of(zone).filter(|session| session.is_open()) else {
            return false;
        };
        let kinds = BTreeSet::from([id.0.clone()]);
        let asked = |kind: &SyncKind, name: &ObjectName| *kind == id.0 && *name == id.1;
        let standing = session.sending.standing(&kinds, asked);
        standing.is_some_and(|one| one.unsubscribed.is_empty() && one.count == 0)
    }

    /// Drops the content that no release holds any more, if there may be any.
    pub async fn sweep(&self) -> Result<usize, super::ContentsError> {
        self.settle_withdrawals();
        if !self.inner().governing.lock().litter {
            return Ok(0);
        }
        // A release that was written meanwhile holds content, too.
        self.caught_up().await;
        let (contents, held) = {
            let mut governing = self.inner().governing.lock();
            // What a release that cannot be read holds is not known, and so it is kept.
            let known = !governing.loading && governing.unreadable.is_empty();
            if !known || !std::mem::take(&mut governing.litter) {
                return Ok(0);
            }
            (governing.contents.clone(), governing.held())
        };
        let swept = contents.sweep(&held).await;
        if swept.is_err() {
            // What is left is dropped the next time.
            self.inner().governing.lock().litter = true;
        }
        swept
    }

    /// Asks zones how they fare with what policies govern, whenever that changes.
    pub(crate) async fn ask_zones(&self, stop: Stop) {
        let mut stirred = self.stirred();
        let mut known = None;
        loop {
            stirred.borrow_and_update();
            let (shaped, any) = {
                let governing = self.inner().governing.lock();
                (Some(governing.shaped), !governing.policies.is_empty())
            };
            // Where there never was a policy nobody is asked anything.
            if shaped != known && (any || known.is_some()) {
                known = shaped;
                self.ask(&self.questions());
            }
            if !matches!(stop.unless(stirred.changed()).await, Some(Ok(()))) {
                return;
            }
        }
    }

    /// Compiles the policies that nobody has compiled since they changed. That takes long for some:
    /// nobody waits for the lock meanwhile.
    fn compile_policies(&self) {
        let pending: Vec<(Arc<Value>, CompiledPolicy)> = {
            let governing = self.inner().governing.lock();
            let policies = governing.policies.values();
            let pending = policies.filter(|governor| governor.compiled.get().is_none());
            pending
                .map(|governor| (governor.object.clone(), governor.compiled.clone()))
                .collect()
        };
        for (object, compiled) in pending {
            heavy(|| compiled.get_or_init(|| compile(&object)));
        }
    }

    fn questions(&self) -> BTreeMap<ZoneName, Arc<Asked>> {
        self.compile_policies();
        let governing = self.inner().governing.lock();
        let compiled: Vec<(&Governor, Option<&Policy>)> = governing
            .policies
            .values()
            .map(|governor| (governor, governor.compiled().ok()))
            .collect();
        let zones = governing.zones.iter();
        let asked = zones.map(|(zone, object)| {
            let selecting = compiled.iter();
            let selecting = selecting.filter(|(governor, _)| governor.selects(object));
            let policies = selecting.map(|(governor, policy)| AskedPolicy {
                name: governor.id.as_str().to_owned(),
                targets: policy
                    .as_ref()
                    .map(|policy| targets(policy, &governor.departing, object))
                    .unwrap_or_default(),
            });
            let policies = policies.collect();
            (zone.clone(), Arc::new(Asked { policies }))
        });
        asked.collect()
    }

    /// Ends when a policy has released what is there, or cannot, or takes too long: what is written
    /// together is released a moment later, and who plans right after it means what comes after.
    pub(crate) async fn gathered(&self, policy: &str) {
        let released = async {
            let mut stirred = self.stirred();
            loop {
                stirred.borrow_and_update();
                let facts = self.look(policy);
                let done = facts.is_some_and(|facts| {
                    let mut problems = facts.head.problems.iter();
                    // What is compiled in a moment holds nothing for longer.
                    let is_lasting = |problem: &String| !problem.ends_with(UNJUDGED);
                    let stuck = problems.any(is_lasting) || facts.policy().is_err();
                    stuck || facts.is_released()
                });
                let is_there = self.inner().governing.lock().policies.contains_key(policy);
                if done || !is_there || stirred.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = released => {}
            () = self.inner().clock.sleep(SOON) => {}
        }
    }

    /// Tells when a zone said something, as long as it is connected.
    pub(crate) async fn listen(&self, session: &Session) {
        let mut said = session.sending.said();
        while said.changed().await.is_ok() {
            self.stir();
        }
    }

    pub(crate) fn stir(&self) {
        self.inner().stirred.send_modify(|stirred| *stirred += 1);
    }

    /// Wakes whoever decides when zones say how they fare.
    pub(crate) async fn hear(&self, stop: Stop) {
        let mut changes = self.inner().readiness.changes();
        while let Some(Ok(())) = stop.unless(changes.changed()).await {
            self.stir();
        }
    }
}

/// What a zone is asked about, with what its stage adds.
fn targets(
    policy: &Policy,
    departing: &BTreeSet<Id>,
    zone: &Map<String, Value>,
) -> Vec<AskedTarget> {
    let stage = policy.stage_of(zone).map(|index| &policy.stages[index]);
    let more = stage
        .map(|stage| stage.ready_when.as_slice())
        .unwrap_or_default();
    let asked = policy.targets.iter().filter_map(asked_about);
    let departing = departing.iter().map(|id| asked_by_name(policy, id));
    let asked = asked.chain(departing).map(|mut asked| {
        asked.ready_when.extend_from_slice(more);
        asked
    });
    asked.collect()
}

/// What zones are asked of an object that no target selects any more: the same as before.
fn asked_by_name(policy: &Policy, (kind, name): &Id) -> AskedTarget {
    let mut targets = policy.targets.iter();
    let of_kind =
        targets.find(|one| (one.group.as_str(), one.kind.as_str()) == (kind.group(), kind.kind()));
    AskedTarget {
        kind: kind.clone(),
        names: BTreeSet::from([name.to_string()]),
        selector: AskedSelector::default(),
        ready_when: of_kind.map_or_else(Vec::new, |target| target.ready_when.clone()),
    }
}

/// What zones are asked of what a policy governs.
pub(super) fn asked_about(target: &Targets) -> Option<AskedTarget> {
    Some(AskedTarget {
        kind: SyncKind::new(&target.group, &target.kind).ok()?,
        names: target.given().clone(),
        selector: AskedSelector::in_zones(&target.labels).ok()?,
        ready_when: target.ready_when.clone(),
    })
}
