//! What of policies cannot be found again in what is stored: who changed and deleted what since the
//! last release, what leaves a policy and what came back to it, the targets that are in force (a policy
//! may have others that cannot be read), and what zones were told to let go when a policy was deleted. Kept
//! in the store, in a collection that no kind has, by the uid of the policy.
//!
//! A large entry is in several parts (`parts`).
//!
//! It is written before what depends on it is published. A process that starts replays the log from
//! the journal's position, because the process before may have ended between a write and the journal.

mod parts;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_store::{Collection, CommitError, Draft, KeyError, Store, Txn};
use deltaplane_sync::Withdrawal;
use serde_json::{Map, Value, json};

use super::Governing;
use super::governor::{Governor, HeadObject};
use super::release::{Id, Released, ids, returned, write_id, write_left, write_returned};
use crate::kinds::TENANT;

const JOURNAL: &str = "deltaplane.io/governing";
/// The entry of what was withdrawn; the others are called after uids.
const WITHDRAWN: &str = "withdrawn";
/// The entry with the revision up to which the other entries have what the log says.
const POSITION: &str = "position";
/// The field of an entry with targets as they were written.
const TARGETS: &str = "targets";

/// What is stored, as it was written last.
pub(crate) struct Journal {
    store: Store,
    written: BTreeMap<String, Value>,
    /// The revision up to which the entries have what the log says.
    position: Option<u64>,
    /// Entries that cannot be read: they stay as they are.
    unreadable: BTreeSet<String>,
    /// Entries that the store did not take as they are to be now.
    refused: BTreeSet<String>,
}

/// What the journal is to have.
pub(crate) struct JournalEntries {
    by_name: BTreeMap<String, Value>,
    /// There are policies: a process that starts has to know from where the log is replayed.
    has_policies: bool,
}

/// The journal could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    #[error("failed to write down what policies depend on")]
    Write(#[from] CommitError),
    #[error("the name of an entry is not legal")]
    Name(#[from] KeyError),
}

// === impl JournalError ===

impl JournalError {
    /// Returns true if the store can never take the entry.
    fn is_permanent(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Write(CommitError::Invalid(_)))
    }
}

// === impl Journal ===

impl Journal {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            written: BTreeMap::new(),
            position: None,
            unreadable: BTreeSet::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Reads all that is stored.
    fn read(&mut self) {
        let Ok(collection) = Collection::new(TENANT, JOURNAL) else {
            return;
        };
        let snapshot = self.store.snapshot(&collection);
        let objects = snapshot.range(None, None).into_iter().flatten();
        self.written.clear();
        self.position = None;
        self.unreadable.clear();
        for object in objects {
            let name = object.key().name().to_owned();
            match serde_json::from_slice(object.bytes()) {
                Ok(value) if name == POSITION => {
                    let value: &Value = &value;
                    self.position = value["revision"].as_u64();
                }
                Ok(value) => drop(self.written.insert(name, value)),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(
                        entry = name,
                        error,
                        "an entry of the journal of policies cannot be read; it is left as it is"
                    );
                    self.unreadable.insert(name);
                }
            }
        }
    }

    /// Tells all that is known of policies that are there, and of what was withdrawn.
    pub(crate) fn recall(&mut self, governing: &mut Governing) {
        self.read();
        let mut entries: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for (name, part) in &self.written {
            entries.entry(parts::entry_of(name)).or_default().push(part);
        }
        let parts_of = |name: &str| entries.get(name).into_iter().flatten();
        for governor in governing.policies.values_mut() {
            for part in parts_of(&governor.uid.clone()) {
                governor.recall(part);
            }
        }
        for (id, one) in parts_of(WITHDRAWN).flat_map(|part| ids(&part["objects"])) {
            let withdrawal = match one["withdrawal"].as_str() {
                Some("Delete") => Some(Withdrawal::Delete),
                Some(_) => Some(Withdrawal::Orphan),
                None => None,
            };
            governing.withdrawn.extend(id.map(|id| (id, withdrawal)));
        }
    }

    /// The revision after which the log may say more than the entries; none if nothing was ever
    /// written.
    pub(crate) fn position(&self) -> Option<u64> {
        self.position
    }

    /// Writes the entries that changed, which have what the log says up to a revision. They are
    /// durable when this returns, but for entries that the store can never take: one policy must
    /// not hold up all others. While there is such an entry, a process that begins replays the log
    /// from the position of before.
    pub(crate) async fn write(
        &mut self,
        wanted: &JournalEntries,
        at: u64,
    ) -> Result<(), JournalError> {
        let mut changed = self.position.is_none() && wanted.has_policies;
        changed |= !self.refused.is_empty();
        let refused = std::mem::take(&mut self.refused);
        for (name, entry) in &wanted.by_name {
            if self.written.get(name) == Some(entry) || self.unreadable.contains(name) {
                continue;
            }
            changed = true;
            match self.put(name, entry).await {
                Ok(()) => drop(self.written.insert(name.clone(), entry.clone())),
                Err(error) if error.is_permanent() => {
                    if !refused.contains(name) {
                        warn_of_refusal(name, &error);
                    }
                    self.refused.insert(name.clone());
                }
                Err(error) => return Err(error),
            }
        }
        if !self.refused.is_empty() {
            return Ok(());
        }
        // What is split otherwise by now is in the other parts.
        let gone = self.written.keys();
        let gone = gone.filter(|name| !wanted.by_name.contains_key(*name));
        let gone: Vec<String> = gone.cloned().collect();
        for name in gone {
            changed = true;
            self.delete(&name).await?;
        }
        // Last: a process that ends before replays the log from the earlier position.
        if changed {
            let position = json!({ "revision": at });
            self.put(POSITION, &position).await?;
            self.position = Some(at);
        }
        Ok(())
    }

    async fn put(&self, name: &str, entry: &Value) -> Result<(), JournalError> {
        let key = Collection::new(TENANT, JOURNAL)?.key("", name)?;
        let draft = Draft::opaque(entry.to_string().into_bytes());
        self.store.commit(Txn::put(key, draft)).await?;
        Ok(())
    }

    async fn delete(&mut self, name: &str) -> Result<(), JournalError> {
        let key = Collection::new(TENANT, JOURNAL)?.key("", name)?;
        if let Some(stored) = self.store.get(&key) {
            let delete = Txn::delete(key, stored.revision(), None);
            self.store.commit(delete).await?;
        }
        self.written.remove(name);
        Ok(())
    }
}

fn warn_of_refusal(entry: &str, error: &JournalError) {
    let error = error as &dyn std::error::Error;
    tracing::error!(
        entry,
        error,
        "the store cannot take an entry of the journal of policies; a restart replays the log from before it"
    );
}

// === impl Governing ===

impl Governing {
    /// What is to be written down, if that may be another than before.
    pub(crate) fn journal(&mut self) -> Option<JournalEntries> {
        self.journal_within(parts::LARGEST)
    }

    /// The same in entries of a size.
    fn journal_within(&mut self, largest: usize) -> Option<JournalEntries> {
        if !std::mem::take(&mut self.journal_changed) {
            return None;
        }
        let policies = self.policies.values();
        let entries = policies.filter_map(|one| Some((one.uid.clone(), one.memory()?)));
        let mut entries: BTreeMap<String, Value> = entries.collect();
        if !self.withdrawn.is_empty() {
            let one = |(id, withdrawal): (&Id, &Option<Withdrawal>)| {
                let mut written = write_id(id);
                let withdrawal = withdrawal.map(|one| format!("{one:?}"));
                written["withdrawal"] = withdrawal.into();
                written
            };
            let objects: Vec<Value> = self.withdrawn.iter().map(one).collect();
            entries.insert(WITHDRAWN.to_owned(), json!({ "objects": objects }));
        }
        let entries = entries.into_iter();
        let parts = entries.flat_map(|(name, entry)| parts::split(name, entry, largest));
        Some(JournalEntries {
            by_name: parts.collect(),
            has_policies: !self.policies.is_empty(),
        })
    }

    /// Zones that have an object are to let it go, until all of them have acknowledged that; nothing
    /// is given if it is not known what they do with it.
    pub(crate) fn withdraw(&mut self, id: &Id, withdrawal: Option<Withdrawal>) {
        let before = self.withdrawn.insert(id.clone(), withdrawal);
        self.journal_changed |= before != Some(withdrawal);
    }

    /// An object is there again, or all zones have let it go.
    pub(crate) fn forget_withdrawn(&mut self, id: &Id) {
        self.journal_changed |= self.withdrawn.remove(id).is_some();
    }

    /// Takes in a deletion that the log has and the journal does not.
    pub(crate) fn recall_deletion(&mut self, id: &Id, by: Option<&str>) {
        for governor in self.policies.values_mut() {
            let newest = governor.newest();
            if newest.is_some_and(|newest| newest.manifest.contains_key(id)) {
                let by = by.map(|by| (id.clone(), by.into()));
                governor.deleters.extend(by);
            }
        }
    }

    /// Takes in a policy as the log has it and the journal does not: its targets may be in force still.
    pub(crate) fn recall_policy(&mut self, object: &Value) {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let mut policies = self.policies.values_mut();
        if let Some(governor) = policies.find(|governor| governor.uid == uid) {
            governor.recall_targets(&object["spec"]["targets"]);
        }
    }

    /// Takes in a write of an object that the log has and the journal does not. What a release
    /// shows is nobody's any more.
    pub(crate) fn recall_write(&mut self, policy: &str, id: &Id, head: &HeadObject, at: u64) {
        let Some(governor) = self.policies.get_mut(policy) else {
            return;
        };
        let newest = governor.newest();
        if newest.is_none_or(|newest| newest.as_of < at) {
            let released = newest.and_then(|newest| newest.manifest.get(id)).copied();
            governor.unreleased.changed(id, head, released);
        }
    }

    /// Takes in the deletion of a release that the log has and the journal does not: what the
    /// release of a deleted policy had is withdrawn.
    pub(crate) fn recall_deleted_release(&mut self, object: &Value) {
        let release = Released::read(object);
        let of_known = |release: &Released| {
            let mut policies = self.policies.values();
            policies.any(|governor| governor.uid == release.policy)
        };
        if let Some(release) = release.filter(|release| !of_known(release)) {
            let releases = self.orphans.entry(release.policy.clone()).or_default();
            releases.insert(release.number, Arc::new(release));
        }
    }

    /// Objects that releases of deleted policies have: whoever ended before that was written down
    /// left them.
    pub(crate) fn of_deleted_policies(&self) -> BTreeSet<Id> {
        let releases = self.orphans.values().flat_map(BTreeMap::values);
        let left: BTreeSet<&Id> = releases.clone().flat_map(|one| &one.left).collect();
        let ids = releases.flat_map(|one| one.manifest.keys());
        ids.filter(|id| !left.contains(id)).cloned().collect()
    }
}

// === impl Governor ===

impl Governor {
    /// What is not in any object or release; nothing if there is nothing.
    fn memory(&self) -> Option<Value> {
        let mut memory = Map::new();
        if !self.returned.is_empty() {
            memory.insert("returned".to_owned(), write_returned(&self.returned));
        }
        let deleters = self.deleters.iter().map(|(id, by)| {
            let mut written = write_id(id);
            written["by"] = (&**by).into();
            written
        });
        let deleters: Vec<Value> = deleters.collect();
        if !deleters.is_empty() {
            memory.insert("deleters".to_owned(), deleters.into());
        }
        if let Some(authors) = self.unreleased.write() {
            memory.insert("authors".to_owned(), authors);
        }
        // An object that is not let go stays with a policy whose stages need approval, also if they
        // need it since later.
        let lists = [
            ("departing", &self.departing),
            ("departed", &self.departed),
            ("elsewhere", &self.elsewhere),
        ];
        for (field, ids) in lists.into_iter().filter(|(_, ids)| !ids.is_empty()) {
            memory.insert(field.to_owned(), write_left(ids));
        }
        if let Some(targets) = self.targets_in_force() {
            memory.insert(TARGETS.to_owned(), targets.clone());
        }
        (!memory.is_empty()).then_some(Value::Object(memory))
    }

    /// Takes in what was written down.
    fn recall(&mut self, entry: &Value) {
        for (id, at) in returned(&entry["returned"]).unwrap_or_default() {
            let known = self.returned.entry(id).or_default();
            *known = (*known).max(at);
        }
        for (id, one) in ids(&entry["deleters"]) {
            if let (Some(id), Some(by)) = (id, one["by"].as_str()) {
                self.deleters.insert(id, Arc::from(by));
            }
        }
        let newest = self.newest().cloned();
        self.deleters.retain(|id, _| {
            newest
                .as_ref()
                .is_some_and(|one| one.manifest.contains_key(id))
        });
        self.unreleased.read(&entry["authors"]);
        self.recall_targets(&entry[TARGETS]);
        let written = |field: &str| ids(&entry[field]).filter_map(|(id, _)| id);
        self.departing.extend(written("departing"));
        self.departed.extend(written("departed"));
        self.elsewhere.extend(written("elsewhere"));
    }
}
