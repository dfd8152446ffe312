//! When this store was opened, kept in the store itself: so a store that was restored to an earlier
//! state knows of fewer openings than those who followed it.

use deltaplane_border::Openings;
use deltaplane_runtime::Tasks;
use deltaplane_store::{Collection, CommitError, Draft, Health, Key, Revision, Store, Txn};
use deltaplane_sync::Epoch;
use tokio::sync::watch;
use uuid::Uuid;

use crate::kinds::TENANT;

/// An opening could not be written down.
#[derive(Debug, thiserror::Error)]
pub enum LineageError {
    #[error("failed to write down that the store was opened")]
    Write(#[from] CommitError),
    #[error("the name of an opening is not legal")]
    Name(#[from] deltaplane_store::KeyError),
}

/// An opening that could not be written down yet, because the store takes no writes. Until it is,
/// nobody may follow the store: a later opening would not know of this one.
#[derive(Clone, Debug)]
struct UnrecordedOpening {
    key: Key,
    draft: Draft,
}

/// The openings of a store, the one of now included.
struct StoreLineage {
    openings: Openings,
    unrecorded: Option<UnrecordedOpening>,
}

/// Not served: no kind has this collection.
const OPENINGS: &str = "deltaplane.io/openings";
/// Who was away for longer has to be told by a person that nothing is lost.
const KEPT: usize = 1000;

/// The openings of a store, and whether the one of now is written down.
pub struct FollowedLineage {
    pub openings: Openings,
    /// True when the store may be followed. See [`open_as_possible`].
    pub recorded: watch::Receiver<bool>,
}

/// Writes down that the store was opened, and says when it was before.
pub async fn open(store: &Store) -> Result<Openings, LineageError> {
    let StoreLineage {
        openings,
        unrecorded,
    } = open_or_defer(store).await?;
    if let Some(unrecorded) = unrecorded {
        unrecorded.record(store).await?;
    }
    Ok(openings)
}

/// Like [`open`], on a store that may take no writes: then it is written down as a task of `tasks`,
/// later, and until then nobody may follow the store.
pub async fn open_as_possible(
    store: &Store,
    tasks: &Tasks,
) -> Result<FollowedLineage, LineageError> {
    let StoreLineage {
        openings,
        unrecorded,
    } = open_or_defer(store).await?;
    let (sender, recorded) = watch::channel(unrecorded.is_none());
    if let Some(unrecorded) = unrecorded {
        let (store, stop) = (store.clone(), tasks.stop());
        tasks.group("store opening").spawn(async move {
            stop.unless(record_later(unrecorded, store, sender)).await;
        });
    }
    Ok(FollowedLineage { openings, recorded })
}

/// Writes down that the store was opened, as soon as the store takes writes.
async fn record_later(opening: UnrecordedOpening, store: Store, recorded: watch::Sender<bool>) {
    let mut health = store.health();
    loop {
        if health.now() == Health::Well && opening.record(&store).await.is_ok() {
            recorded.send_replace(true);
            return;
        }
        health.changed().await;
    }
}

/// Like [`open`], on a store that may take no writes: what could not be written is for later.
async fn open_or_defer(store: &Store) -> Result<StoreLineage, LineageError> {
    let collection = Collection::new(TENANT, OPENINGS)?;
    let snapshot = store.snapshot(&collection);
    let mut openings: Vec<(String, u64)> = snapshot
        .range(None, None)
        .into_iter()
        .flatten()
        .map(|object| (object.key().name().to_owned(), object.revision().get()))
        .collect();
    openings.sort_by_key(|(_, began)| *began);
    let name = Uuid::new_v4().simple().to_string();
    let key = collection.key("", &name)?;
    let draft = Draft::opaque(format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
    let next = store.revision().get() + 1;
    let opening = UnrecordedOpening { key, draft };
    let recorded = opening.record(store).await;
    let surplus = openings.len().saturating_sub(KEPT);
    let forgotten = openings.drain(..surplus).collect::<Vec<_>>();
    let unrecorded = match recorded {
        Ok(()) => {
            for (opening, began) in forgotten {
                let key = collection.key("", &opening)?;
                let forget = Txn::delete(key, Revision::new(began), None);
                store.commit(forget).await?;
            }
            None
        }
        Err(CommitError::Storage { .. } | CommitError::Unknown { .. }) => Some(opening),
        Err(error) => return Err(error.into()),
    };
    // Each ended before the next began: that it began is a write of the next.
    let begins = openings.iter().skip(1).map(|(_, began)| *began);
    let begins = begins.chain([next]);
    let ends: Vec<u64> = begins.map(|began| began.saturating_sub(1)).collect();
    let identity = store.epoch().to_string();
    let epoch = |opening: &str| Epoch::opening(&identity, opening);
    let earlier = openings.iter().zip(ends);
    let earlier = earlier.map(|((opening, _), end)| (epoch(opening), end));
    Ok(StoreLineage {
        openings: Openings::new(earlier.collect(), epoch(&name)),
        unrecorded,
    })
}

// === impl UnrecordedOpening ===

impl UnrecordedOpening {
    /// Writes it down.
    async fn record(&self, store: &Store) -> Result<(), CommitError> {
        let create = Txn::create(self.key.clone(), self.draft.clone());
        match store.commit(create).await {
            // It was not known before whether it was written, and it was.
            Ok(_) | Err(CommitError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_store::testing::disk::MemoryDisk;
    use deltaplane_store::{Embedded, Options};

    use super::*;

    #[tokio::test]
    async fn an_opening_on_a_full_disk_is_written_down_later() {
        let disk = MemoryDisk::new();
        let store = Embedded::open_on(Box::new(disk.clone()), Options::default()).expect("opened");
        let first = open(&store).await.expect("written");
        let before = store.revision();
        disk.fail_writes_after(Some(0));
        let lineage = open_or_defer(&store).await.expect("readable");
        assert!(
            open(&store).await.is_err(),
            "whoever needs it written is told"
        );
        let unrecorded = lineage.unrecorded.expect("it is not written");
        assert_eq!(store.revision(), before);
        assert_ne!(lineage.openings.current(), first.current());
        disk.fail_writes_after(None);
        store.heal();
        let mut health = store.health();
        while health.now() != Health::Well {
            health.changed().await;
        }
        unrecorded.record(&store).await.expect("written");
        assert!(store.get(&unrecorded.key).is_some());
    }
}
