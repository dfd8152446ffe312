//! What existed when a watch began, in the order in which it is sent.

use std::sync::Arc;
use std::vec;

use deltaplane_store::{Key, ListQuery, Object, Page, ReadError, Revision, Snapshot};

use super::BATCH_BYTES;
use crate::context::Cx;
use crate::error::Error;
use crate::filter::Filter;
use crate::verbs::list;
use crate::verbs::part::Part;

/// The objects that are still to be sent.
pub(super) enum Initial {
    /// Chosen while the watch still held its turn: choosing costs more than sending.
    Chosen(vec::IntoIter<Arc<Object>>),
    /// All of a part of the collection, taken as the client reads: a client that does not read
    /// costs no list of them.
    Walk {
        snapshot: Snapshot,
        namespace: Option<String>,
        after: Option<Key>,
    },
}

/// Some of them.
pub(super) struct Taken {
    pub(super) objects: Vec<Arc<Object>>,
    /// Whether there are no more.
    pub(super) is_last: bool,
}

/// As many objects as are turned into one write.
const COUNT: usize = 64;

// === impl Initial ===

impl Initial {
    /// What exists now, and the revision from which to go on.
    pub(super) async fn now(cx: &Cx, filter: &Filter) -> Result<(Self, Revision), Error> {
        let part = Part::of(cx, filter)?;
        let query = list::query(cx, filter)?;
        if filter.is_empty() {
            let snapshot = cx.server.store.snapshot(&query.collection);
            let revision = snapshot.revision();
            let namespace = part.namespace().map(str::to_owned);
            let walk = Self::Walk {
                snapshot,
                namespace,
                after: None,
            };
            return Ok((walk, revision));
        }
        let page = choose(cx, &part, &query, filter).await;
        let page = page.map_err(|error| Error::unavailable(error.to_string()))?;
        Ok((Self::Chosen(page.items.into_iter()), page.revision))
    }

    pub(super) fn none() -> Self {
        Self::Chosen(Vec::new().into_iter())
    }

    /// The next ones, as many as belong into one write.
    pub(super) fn take(&mut self) -> Taken {
        match self {
            Self::Chosen(objects) => Taken::some_of(objects),
            Self::Walk {
                snapshot,
                namespace,
                after,
            } => {
                // The key is one of the collection, so the range is one too.
                let Ok(range) = snapshot.range(namespace.as_deref(), after.as_ref()) else {
                    return Taken::some_of(&mut std::iter::empty());
                };
                let taken = Taken::some_of(&mut range.cloned());
                if let Some(last) = taken.objects.last() {
                    *after = Some(last.key().clone());
                }
                taken
            }
        }
    }
}

// === impl Taken ===

impl Taken {
    fn some_of(objects: &mut impl ExactSizeIterator<Item = Arc<Object>>) -> Self {
        let mut taken = Vec::with_capacity(COUNT.min(objects.len()));
        let mut bytes = 0;
        while taken.len() < COUNT
            && bytes < BATCH_BYTES
            && let Some(object) = objects.next()
        {
            bytes += object.bytes().len();
            taken.push(object);
        }
        Self {
            objects: taken,
            is_last: objects.len() == 0,
        }
    }
}

async fn choose(
    cx: &Cx,
    part: &Part,
    query: &ListQuery,
    filter: &Filter,
) -> Result<Page, ReadError> {
    match part {
        Part::Object(key) => list::look_up(cx, key, query, filter).await,
        Part::Namespace(_) | Part::All => list::search(cx, query, filter).await,
    }
}
