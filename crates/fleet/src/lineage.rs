//! When this store was opened, kept in the store itself: so a store that was restored to an earlier
//! state knows of fewer openings than those who followed it.

use deltaplane_border::Openings;
use deltaplane_store::{Collection, CommitError, Draft, Revision, Store, Txn};
use deltaplane_sync::Epoch;
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

/// Not served: no kind has this collection.
const OPENINGS: &str = "deltaplane.io/openings";
/// Who was away for longer has to be told by a person that nothing is lost.
const KEPT: usize = 1000;

/// Writes down that the store was opened, and says when it was before.
pub async fn open(store: &Store) -> Result<Openings, LineageError> {
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
    let committed = store.commit(Txn::create(key, draft)).await?;
    let surplus = openings.len().saturating_sub(KEPT);
    for (opening, began) in openings.drain(..surplus) {
        let key = collection.key("", &opening)?;
        store
            .commit(Txn::delete(key, Revision::new(began), None))
            .await?;
    }
    // Each ended before the next began: that it began is a write of the next.
    let begins = openings.iter().skip(1).map(|(_, began)| *began);
    let begins = begins.chain([committed.revision.get()]);
    let ends: Vec<u64> = begins.map(|began| began.saturating_sub(1)).collect();
    let identity = store.epoch().to_string();
    let epoch = |opening: &str| Epoch::opening(&identity, opening);
    let earlier = openings.iter().zip(ends);
    let earlier = earlier.map(|((opening, _), end)| (epoch(opening), end));
    Ok(Openings::new(earlier.collect(), epoch(&name)))
}
