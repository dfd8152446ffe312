//! What policies decided, taken into the catalog.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_border::Audience;
use deltaplane_runtime::Stop;
use deltaplane_store::{Event, Object, Revision, Scope, WatchError};
use deltaplane_sync::{ObjectName, SyncKind, Withdrawal, ZoneName};
use serde_json::{Map, Value};

use super::batch::Batch;
use super::place::{audience, name};
use super::{APPROVALS, BATCH, POLICIES, Projector, ProjectorError, RELEASES, RETRY};
use crate::governing::{AUTHOR, Entries, Gone, Governing, HeadObject, Id, JournalError, Told};
use crate::kinds::SyncedKind;

// === impl Projector ===

impl Projector {
    /// Takes in all policies, before the objects that they may govern.
    pub(super) async fn load_policies(&mut self, at: Revision) -> Result<(), ProjectorError> {
        for collection in [POLICIES, RELEASES, APPROVALS] {
            for object in self.list(collection, at).await? {
                let value: Value = serde_json::from_slice(object.bytes()).unwrap_or_default();
                let mut governing = self.governing.lock();
                match collection {
                    POLICIES => drop(governing.policy(value, true)),
                    RELEASES => governing.release(&value, true),
                    _ => governing.approval(&value, true),
                }
            }
        }
        Ok(())
    }

    pub(super) fn place_zone(
        &mut self,
        name: &ZoneName,
        object: Option<&Map<String, Value>>,
        created: Revision,
    ) {
        let mut governing = self.governing.lock();
        governing.zone_created(name, object.map(|_| created.get()));
        governing.zone(name, object.cloned());
    }

    /// A policy, a release or an approval came, changed or went.
    pub(super) async fn policy(
        &mut self,
        batch: &mut Batch,
        (object, there): (&Object, bool),
    ) -> Result<(), ProjectorError> {
        let at = object.revision();
        batch.stirs = true;
        let value: Value = serde_json::from_slice(object.bytes()).unwrap_or_default();
        let affected = {
            let mut governing = self.governing.lock();
            match object.key().resource() {
                POLICIES => governing.policy(value, there),
                RELEASES => {
                    governing.release(&value, there);
                    return Ok(());
                }
                _ => {
                    governing.approval(&value, there);
                    return Ok(());
                }
            }
        };
        // Objects may be another policy's business now, or nobody's.
        let synced = self.synced.iter();
        let collections: Vec<String> = synced
            .filter(|(_, kind)| affected.kinds.contains(&kind.kind))
            .map(|(collection, _)| collection.clone())
            .collect();
        for collection in collections {
            self.project(batch, &collection, at).await?;
        }
        Ok(())
    }

    /// Takes note of a write by which an object may leave a policy.
    pub(super) fn note_write(&self, collection: &str, object: &Object) {
        let Some((synced, name)) = self.synced.get(collection).zip(name(object.key())) else {
            return;
        };
        let id = (synced.kind.clone(), name);
        let mut governing = self.governing.lock();
        if !governing.may_depart(&id) {
            return;
        }
        let value: Value = serde_json::from_slice(object.bytes()).unwrap_or_default();
        let crosses = audience(synced, &value) == Audience::Everyone;
        governing.note_write(&id, value.as_object().filter(|_| crosses));
    }

    /// Whether a policy decides about an object that is there.
    pub(super) fn is_governed(
        &self,
        batch: &Batch,
        (kind, name): (&SyncKind, &ObjectName),
        object: &Value,
        audience: &Audience,
        at: Revision,
    ) -> bool {
        let mut governing = self.governing.lock();
        let id = (kind.clone(), name.clone());
        governing.forget_withdrawn(&id);
        let policy = policy_of(&mut governing, &id, object, audience);
        let head = policy.as_ref().and_then(|_| head(kind, object));
        match (policy, head) {
            (Some(policy), Some(head)) => {
                if batch.is_wanted(kind, name) && batch.is_of_others(&id, &policy) {
                    governing.joins(&policy, &id, at.get());
                }
                governing.govern(&policy, &id, head, at.get());
                true
            }
            (_, _) => {
                governing.ungovern(&id, Gone::Elsewhere, at.get());
                false
            }
        }
    }

    /// Whether an object that was deleted stays in zones until a policy says otherwise.
    pub(super) fn is_kept(&self, id: Id, last: Option<&Object>, at: Revision) -> bool {
        let mut governing = self.governing.lock();
        if governing.policies.is_empty() {
            return false;
        }
        let last: Value = last
            .and_then(|last| serde_json::from_slice(last.bytes()).ok())
            .unwrap_or_default();
        let by = last["metadata"]["annotations"][AUTHOR].as_str();
        governing.ungovern(&id, Gone::Deleted { by }, at.get());
        governing.keeps(&id)
    }

    /// Tells the catalog what policies decided.
    pub(super) async fn govern(
        &mut self,
        batch: &mut Batch,
        at: Revision,
    ) -> Result<(), ProjectorError> {
        let mut namespaces = Vec::new();
        let crossing = self.synced.values().filter(|synced| synced.goes_down());
        let crossing = crossing.map(|synced| synced.kind.clone()).collect();
        let declared = self.synced.values().map(|synced| synced.kind.clone());
        let names: BTreeSet<String> = self.synced.values().map(SyncedKind::name).collect();
        let unread = self.known.unreadable.difference(&names).cloned();
        {
            let mut governing = self.governing.lock();
            governing.crossing = crossing;
            governing.declare_kinds(declared.collect(), unread.collect());
        }
        self.let_go(batch, at).await?;
        let names: Vec<String> = self.governing.lock().policies.keys().cloned().collect();
        for policy in names {
            let mut governing = self.governing.lock();
            let synced = &self.synced;
            let withdrawal = |kind: &SyncKind| {
                let mut kinds = synced.values();
                let kind = kinds.find(|synced| synced.kind == *kind);
                kind.map_or(Withdrawal::Orphan, |kind| kind.withdrawal())
            };
            let entries = self.governed.entry(policy.clone()).or_default();
            let Some((placed, news)) = governing.refresh((&policy, at.get()), entries, &withdrawal)
            else {
                continue;
            };
            drop(governing);
            // Who is governed from now on is frozen first.
            for Told { id, certain, entry } in news.objects {
                if !certain && batch.is_of_others(&id, &policy) {
                    let entries = self.governed.get_mut(&policy);
                    entries.into_iter().for_each(|entries| entries.forget(&id));
                    continue;
                }
                let (kind, name) = &id;
                let was = batch.is_wanted(kind, name);
                batch.govern(&id, at, entry);
                let is = batch.is_wanted(kind, name);
                if self.count(name.namespace(), was, is) {
                    namespaces.push(name.namespace().to_owned());
                }
            }
            if let Some(placement) = news.placement {
                batch.place(placed, at, Some(placement));
            }
        }
        for namespace in namespaces {
            self.namespace_of(batch, &namespace, at).await?;
        }
        Ok(())
    }

    /// Zones may have to be told still what to do with what policies governed that were deleted
    /// before this process began, or with what was withdrawn before these kinds crossed again. What
    /// is withdrawn of kinds that do not cross now, or of which that is not known, is written down.
    pub(super) fn withdraw_again(
        &self,
        batch: &mut Batch,
        at: Revision,
        of: &dyn Fn(&SyncKind) -> bool,
    ) {
        let mut governing = self.governing.lock();
        let left = governing.of_deleted_policies().into_iter();
        for id in left.filter(|(kind, _)| of(kind)) {
            let is_known = governing.withdrawn.contains_key(&id);
            if !is_known && !batch.has(&id) {
                governing.withdraw(&id, self.withdrawal_of(&id.0));
            }
        }
        let withdrawn = governing.withdrawn.clone().into_iter();
        for (id, withdrawal) in withdrawn.filter(|((kind, _), _)| of(kind)) {
            if batch.has(&id) {
                governing.forget_withdrawn(&id);
                continue;
            }
            let withdrawal = withdrawal.or(self.withdrawal_of(&id.0));
            if let Some(withdrawal) = withdrawal.filter(|_| self.crosses(&id.0)) {
                governing.withdraw(&id, Some(withdrawal));
                batch.withdraw_as((&id.0, &id.1), at, withdrawal);
            }
        }
    }

    /// Returns true if a kind has a SyncedKind that was read.
    fn crosses(&self, kind: &SyncKind) -> bool {
        self.synced.values().any(|synced| synced.kind == *kind)
    }

    /// Returns what zones do with what is withdrawn of a kind: they keep it if no SyncedKind says
    /// otherwise, and nothing is known while one of a kind that did not cross cannot be read.
    fn withdrawal_of(&self, kind: &SyncKind) -> Option<Withdrawal> {
        let mut synced = self.synced.values();
        let synced = synced.find(|synced| synced.kind == *kind);
        let is_unread = synced.is_none() && !self.known.unreadable.is_empty();
        (!is_unread).then(|| synced.map_or(Withdrawal::Orphan, SyncedKind::withdrawal))
    }

    /// Takes in what the log says of policies since the journal was written: a process may end
    /// between a write and the journal's. History that is not retained is skipped.
    pub(super) async fn replay(
        &mut self,
        kinds: &[Arc<Object>],
        at: Revision,
    ) -> Result<(), ProjectorError> {
        let Some(from) = self.journal.position().filter(|from| *from < at.get()) else {
            return Ok(());
        };
        let kinds = kinds.iter().filter_map(|object| {
            let value: Value = serde_json::from_slice(object.bytes()).ok()?;
            let synced = SyncedKind::of(&value).ok()?;
            Some((synced.collection(), synced))
        });
        let kinds: BTreeMap<String, SyncedKind> = kinds.collect();
        let watch = self.store.watch(Scope::everything(), Revision::new(from));
        let mut watch = match watch {
            Err(WatchError::Resync { .. }) => return Ok(()),
            watch => watch?,
        };
        while watch.progress() < at {
            let events = match watch.next_batch(BATCH).await {
                Err(WatchError::Resync { .. }) => return Ok(()),
                events => events?,
            };
            let events = events.events.iter();
            for event in events.filter(|event| event.object().revision() <= at) {
                self.replay_event(&kinds, event);
            }
        }
        Ok(())
    }

    fn replay_event(&self, kinds: &BTreeMap<String, SyncedKind>, event: &Event) {
        let collection = event.key().resource();
        let synced = kinds.get(collection);
        if ![POLICIES, RELEASES].contains(&collection) && synced.is_none() {
            return;
        }
        let value: Value = serde_json::from_slice(event.object().bytes()).unwrap_or_default();
        let mut governing = self.governing.lock();
        if collection == POLICIES {
            if !event.is_delete() {
                governing.recall_policy(&value);
            }
            return;
        }
        let Some((synced, name)) = synced.zip(name(event.key())) else {
            if event.is_delete() {
                governing.recall_deleted_release(&value);
            }
            return;
        };
        let id = (synced.kind.clone(), name);
        if event.is_delete() {
            let by = value["metadata"]["annotations"][AUTHOR].as_str();
            governing.recall_deletion(&id, by);
            return;
        }
        let policy = policy_of(&mut governing, &id, &value, &audience(synced, &value));
        if let Some((policy, head)) = policy.zip(head(&id.0, &value)) {
            let revision = event.object().revision().get();
            governing.recall_write(&policy, &id, &head, revision);
        }
    }

    /// Writes the journal once. Everything in it can be derived again from what is stored at the
    /// start of a process, so a store that takes no writes does not keep the hub from starting.
    pub(super) async fn write_loaded_journal(&mut self, at: Revision) {
        let Some(wanted) = self.governing.lock().journal() else {
            return;
        };
        if let Err(error) = self.journal.write(&wanted, at.get()).await {
            warn_of_journal(&error);
            self.governing.lock().journal_changed = true;
        }
    }

    /// Writes the journal before anybody acts on the events that changed it, however long the store
    /// takes no writes: a process that ended in between would break what it promised. Returns false
    /// if the process stops first.
    pub(super) async fn write_journal(&mut self, at: Revision, stop: &Stop) -> bool {
        let Some(wanted) = self.governing.lock().journal() else {
            return true;
        };
        loop {
            let written = stop.unless(self.journal.write(&wanted, at.get())).await;
            match written {
                None => return false,
                Some(Ok(())) => return true,
                Some(Err(error)) => warn_of_journal(&error),
            }
            if stop.unless(self.clock.sleep(RETRY)).await.is_none() {
                return false;
            }
        }
    }

    /// Policies that are gone.
    async fn let_go(&mut self, batch: &mut Batch, at: Revision) -> Result<(), ProjectorError> {
        let gone: Vec<String> = {
            let governing = self.governing.lock();
            let gone = self.governed.keys();
            let gone = gone.filter(|name| !governing.policies.contains_key(*name));
            gone.cloned().collect()
        };
        for policy in gone {
            let entries: Entries = self.governed.remove(&policy).unwrap_or_default();
            for object in entries.known() {
                let Some(governed) = batch.governed_by(object, &policy) else {
                    continue;
                };
                let (kind, name) = object;
                let was = batch.is_wanted(kind, name);
                let withdrawal = self.withdrawal_of(kind);
                self.governing.lock().withdraw(object, withdrawal);
                if withdrawal.is_some() {
                    batch.withdraw((kind, name), at, &governed);
                } else {
                    // Zones keep what they have until the SyncedKind can be read.
                    batch.remove(kind, name, at);
                }
                if self.count(name.namespace(), was, false) {
                    self.namespace_of(batch, name.namespace(), at).await?;
                }
            }
            batch.place(deltaplane_border::PolicyId::new(&policy), at, None);
        }
        Ok(())
    }
}

fn warn_of_journal(error: &JournalError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(
        error,
        "failed to write the journal of policies; trying again"
    );
}

/// The policy that decides about an object: the one that the object departs from, or the first of
/// those that select it.
fn policy_of(
    governing: &mut Governing,
    id: &Id,
    object: &Value,
    audience: &Audience,
) -> Option<String> {
    let version = HeadObject::of(object).ok().map(|head| head.version);
    let departing = version.and_then(|version| governing.still_departing(id, version));
    let departing = departing.map(|governor| governor.id.as_str().to_owned());
    let selecting = || match audience {
        Audience::Everyone => governing.governor_of(id, object),
        Audience::EveryoneBut(_) | Audience::Nobody(_) | Audience::Undecided => None,
    };
    departing.or_else(|| Some(selecting()?.id.as_str().to_owned()))
}

/// An object as policies release it.
fn head(kind: &SyncKind, object: &Value) -> Option<HeadObject> {
    match HeadObject::of(object) {
        Ok(head) => Some(head),
        Err(reason) => {
            tracing::warn!(%kind, %reason, "an object cannot cross");
            None
        }
    }
}
