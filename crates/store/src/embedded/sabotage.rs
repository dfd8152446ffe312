//! Deliberate bugs, so that `cargo xtask torture` can show that it finds them.
//!
//! Only in builds with the feature `sabotage`, which no other crate asks for. Which bug a process
//! has is said by its environment, once; without a word there, it has none.

use std::{
    env, mem,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

use super::engine::Entry;
use crate::{event::Event, revision::Revision};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    AckEarly,
    DropEvent,
    ReuseRevision,
}

static BUG: LazyLock<Option<Bug>> =
    LazyLock::new(|| match env::var("DELTAPLANE_SABOTAGE").as_deref() {
        Ok("ack-early") => Some(Bug::AckEarly),
        Ok("drop-event") => Some(Bug::DropEvent),
        Ok("reuse-revision") => Some(Bug::ReuseRevision),
        Ok(_) | Err(_) => None,
    });

/// Once in so many times something is wrong: rarely, but in every short life of a process.
const ONE_IN: usize = 40;

fn strikes(bug: Bug) -> bool {
    static COUNT: AtomicUsize = AtomicUsize::new(1);
    *BUG == Some(bug) && COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(ONE_IN)
}

/// What to make durable now: with the bug, the batch before, so that each batch is acknowledged
/// before it is written.
pub(super) fn postpone(batch: &[Entry]) -> Vec<Entry> {
    static WAITING: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
    let batch = batch.to_vec();
    match *BUG {
        Some(Bug::AckEarly) => mem::replace(&mut WAITING.lock(), batch),
        Some(Bug::DropEvent | Bug::ReuseRevision) | None => batch,
    }
}

/// What watchers are told: with the bug, not everything.
pub(crate) fn forget(events: &[Arc<Event>]) -> Vec<Arc<Event>> {
    let told = events.iter().filter(|_| !strikes(Bug::DropEvent));
    told.cloned().collect()
}

/// The revision of a transaction: with the bug, sometimes the last one that was given out.
pub(super) fn repeat(last: Revision, next: Revision) -> Revision {
    match strikes(Bug::ReuseRevision) {
        true => last,
        false => next,
    }
}
