//! What of policies cannot be found again in what is stored: who changed and deleted what since the
//! last release, what leaves a policy and what came back to it, the targets that were in force before
//! unreadable ones were written, and what zones were told to let go when a policy was deleted. Kept in the store, in a collection that no kind has, by the uid of the policy.
//!
//! It is written before what depends on it is published.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_store::{Collection, CommitError, Draft, KeyError, Store, Txn};
use deltaplane_sync::Withdrawal;
use serde_json::{Map, Value, json};

use super::Governing;
use super::governor::Governor;
use super::release::{Id, ids, returned, write_id, write_left, write_returned};
use crate::kinds::TENANT;

const JOURNAL: &str = "deltaplane.io/governing";
/// The entry of what was withdrawn; the others are called after uids.
const WITHDRAWN: &str = "withdrawn";

/// What is stored, as it was written last.
pub(crate) struct Journal {
    store: Store,
    written: BTreeMap<String, Value>,
    /// Entries that cannot be read: they stay as they are.
    unreadable: BTreeSet<String>,
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
            unreadable: BTreeSet::new(),
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
        self.unreadable.clear();
        for object in objects {
            let name = object.key().name().to_owned();
            match serde_json::from_slice(object.bytes()) {
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
        for governor in governing.policies.values_mut() {
            if let Some(entry) = self.written.get(&governor.uid) {
                governor.recall(entry);
            }
        }
        let withdrawn = self.written.get(WITHDRAWN).map(|entry| &entry["objects"]);
        for (id, one) in withdrawn.into_iter().flat_map(ids) {
            let withdrawal = match one["withdrawal"].as_str() {
                Some("Delete") => Withdrawal::Delete,
                _ => Withdrawal::Orphan,
            };
            governing.withdrawn.extend(id.map(|id| (id, withdrawal)));
        }
    }

    /// Writes the entries that changed. They are durable when this returns, but for entries that the
    /// store can never take: one policy must not hold up all others.
    pub(crate) async fn write(
        &mut self,
        wanted: &BTreeMap<String, Value>,
    ) -> Result<(), JournalError> {
        let names: BTreeSet<String> = wanted.keys().chain(self.written.keys()).cloned().collect();
        for name in names {
            let entry = wanted.get(&name);
            if self.written.get(&name) == entry || self.unreadable.contains(&name) {
                continue;
            }
            match self.write_entry(&name, entry).await {
                Ok(()) => {}
                Err(error) if error.is_permanent() => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(
                        entry = name,
                        error,
                        "the store cannot take an entry of the journal of policies"
                    );
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn write_entry(&mut self, name: &str, entry: Option<&Value>) -> Result<(), JournalError> {
        let key = Collection::new(TENANT, JOURNAL)?.key("", name)?;
        match entry {
            Some(entry) => {
                let draft = Draft::opaque(entry.to_string().into_bytes());
                self.store.commit(Txn::put(key, draft)).await?;
                self.written.insert(name.to_owned(), entry.clone());
            }
            None => {
                if let Some(stored) = self.store.get(&key) {
                    let delete = Txn::delete(key, stored.revision(), None);
                    self.store.commit(delete).await?;
                }
                self.written.remove(name);
            }
        }
        Ok(())
    }
}

// === impl Governing ===

impl Governing {
    /// What is to be written down, if that may be another than before.
    pub(crate) fn journal(&mut self) -> Option<BTreeMap<String, Value>> {
        if !std::mem::take(&mut self.journal_changed) {
            return None;
        }
        let policies = self.policies.values();
        let entries = policies.filter_map(|one| Some((one.uid.clone(), one.memory()?)));
        let mut entries: BTreeMap<String, Value> = entries.collect();
        if !self.withdrawn.is_empty() {
            let one = |(id, withdrawal): (&Id, &Withdrawal)| {
                let mut written = write_id(id);
                written["withdrawal"] = format!("{withdrawal:?}").into();
                written
            };
            let objects: Vec<Value> = self.withdrawn.iter().map(one).collect();
            entries.insert(WITHDRAWN.to_owned(), json!({ "objects": objects }));
        }
        Some(entries)
    }

    /// Zones that have an object are to let it go, until all of them have acknowledged that.
    pub(crate) fn withdraw(&mut self, id: &Id, withdrawal: Withdrawal) {
        let before = self.withdrawn.insert(id.clone(), withdrawal);
        self.journal_changed |= before != Some(withdrawal);
    }

    /// An object is there again, or all zones have let it go.
    pub(crate) fn forget_withdrawn(&mut self, id: &Id) {
        self.journal_changed |= self.withdrawn.remove(id).is_some();
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
        // An object that is not let go departs where stages need approval.
        let none = BTreeSet::new();
        let elsewhere = match self.needs_approval() {
            true => &self.elsewhere,
            false => &none,
        };
        let lists = [
            ("departing", &self.departing),
            ("departed", &self.departed),
            ("elsewhere", elsewhere),
        ];
        for (field, ids) in lists.into_iter().filter(|(_, ids)| !ids.is_empty()) {
            memory.insert(field.to_owned(), write_left(ids));
        }
        if let Some(targets) = self.earlier_targets() {
            memory.insert("targets".to_owned(), targets.clone());
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
        self.recall_targets(&entry["targets"]);
        let written = |field: &str| ids(&entry[field]).filter_map(|(id, _)| id);
        self.departing.extend(written("departing"));
        self.departed.extend(written("departed"));
        self.elsewhere.extend(written("elsewhere"));
    }
}
