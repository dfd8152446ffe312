//! The content of versions that zones may hold, kept in the store itself under its hash: no kind
//! has this collection, so that nobody reads Secrets there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_store::{Collection, CommitError, Draft, KeyError, Store, Txn};
use deltaplane_sync::Version;
use parking_lot::Mutex;

use crate::kinds::TENANT;

const CONTENTS: &str = "deltaplane.io/contents";

/// What is kept.
#[derive(Clone)]
pub(crate) struct Contents {
    store: Store,
    /// Kept for releases that are not there yet, by policy: the next release of a policy takes the
    /// place of one that was never written.
    promised: Arc<Mutex<BTreeMap<String, BTreeSet<Version>>>>,
}

/// Content could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum ContentsError {
    #[error("failed to keep the content of a release")]
    Write(#[from] CommitError),
    #[error("the name of a content is not legal")]
    Name(#[from] KeyError),
}

// === impl Contents ===

impl Contents {
    pub(crate) fn new(store: Store) -> Self {
        let promised = Arc::default();
        Self { store, promised }
    }

    pub(crate) fn has(&self, version: Version) -> bool {
        self.get(version).is_some()
    }

    /// The canonical JSON of an object.
    pub(crate) fn get(&self, version: Version) -> Option<Arc<[u8]>> {
        let collection = Collection::new(TENANT, CONTENTS).ok()?;
        let key = collection.key("", &version.to_string()).ok()?;
        let object = self.store.get(&key)?;
        Some(object.bytes().to_vec().into())
    }

    /// A release of a policy is about to be written that holds these, and no other one is.
    /// Returns true if one was.
    pub(crate) fn promise(&self, policy: &str, versions: impl Iterator<Item = Version>) -> bool {
        let mut promised = self.promised.lock();
        let before = promised.insert(policy.to_owned(), versions.collect());
        before.is_some()
    }

    /// No release of a policy is about to be written. Returns true if one was.
    pub(crate) fn release_promise(&self, policy: &str) -> bool {
        self.promised.lock().remove(policy).is_some()
    }

    /// Keeps content for a release that is about to be written. It is durable when this returns.
    pub(crate) async fn keep(
        &self,
        contents: &[(Version, Arc<[u8]>)],
    ) -> Result<(), ContentsError> {
        let collection = Collection::new(TENANT, CONTENTS)?;
        // Side by side, so that they are made durable together.
        let writes = contents.iter().map(|(version, body)| {
            let key = collection.key("", &version.to_string());
            async {
                let draft = Draft::opaque(body.to_vec());
                match self.store.commit(Txn::create(key?, draft)).await {
                    // What is called like its content is the same.
                    Ok(_) | Err(CommitError::Conflict { .. }) => Ok(()),
                    Err(error) => Err(ContentsError::from(error)),
                }
            }
        });
        futures::future::try_join_all(writes).await?;
        Ok(())
    }

    /// What is kept for releases that are not there yet.
    pub(crate) fn promised(&self) -> BTreeSet<Version> {
        let promised = self.promised.lock();
        promised.values().flatten().copied().collect()
    }

    /// Drops what nobody holds.
    pub(crate) async fn sweep(&self, held: &BTreeSet<Version>) -> Result<usize, ContentsError> {
        let collection = Collection::new(TENANT, CONTENTS)?;
        let snapshot = self.store.snapshot(&collection);
        let mut swept = 0;
        for object in snapshot.range(None, None).into_iter().flatten() {
            let version: Result<Version, ()> = object.key().name().parse();
            let is_held = version.is_ok_and(|version| {
                let promised = self.promised.lock();
                let mut promised = promised.values();
                held.contains(&version) || promised.any(|one| one.contains(&version))
            });
            if is_held {
                continue;
            }
            let delete = Txn::delete(object.key().clone(), object.revision(), None);
            match self.store.commit(delete).await {
                Ok(_) => swept += 1,
                // Somebody else did.
                Err(CommitError::Conflict { .. } | CommitError::Missing { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(swept)
    }
}
