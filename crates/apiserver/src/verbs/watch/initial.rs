//! What existed when a watch began, in the order in which it is sent.

use std::collections::VecDeque;
use std::sync::Arc;

use deltaplane_store::{Key, ListQuery, Object, Page, ReadError, Revision, Snapshot};

use crate::context::Cx;
use crate::error::Error;
use crate::filter::Filter;
use crate::verbs::list;
use crate::verbs::part::Part;

/// The objects that are still to be sent.
pub(super) enum Initial {
    /// Chosen while the watch still held its turn: choosing costs more than sending.
    Chosen(VecDeque<Arc<Object>>),
    /// All of a part of the collection, taken as the client reads: a client that does not read
    /// costs no list of them.
    Walk {
        snapshot: Snapshot,
        namespace: Option<String>,
        after: Option<Key>,
    },
}

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
        Ok((Self::Chosen(page.items.into()), page.revision))
    }

    pub(super) fn none() -> Self {
        Self::Chosen(VecDeque::new())
    }

    /// The next ones, at most so many; none when all were taken.
    pub(super) fn take(&mut self, count: usize) -> Vec<Arc<Object>> {
        match self {
            Self::Chosen(objects) => {
                let count = count.min(objects.len());
                objects.drain(..count).collect()
            }
            Self::Walk {
                snapshot,
                namespace,
                after,
            } => {
                // The key is one of the collection, so the range is one too.
                let range = snapshot.range(namespace.as_deref(), after.as_ref());
                let taken: Vec<Arc<Object>> = range
                    .map(|range| range.take(count).cloned().collect())
                    .unwrap_or_default();
                if let Some(last) = taken.last() {
                    *after = Some(last.key().clone());
                }
                taken
            }
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
