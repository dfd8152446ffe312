//! How far a cache that follows the store has come, so that a write can wait for it.

use deltaplane_store::Revision;
use tokio::sync::watch;

/// A revision that only grows, and can be waited for.
pub(crate) struct Reach(watch::Sender<Revision>);

// === impl Reach ===

impl Reach {
    pub(crate) fn new() -> Self {
        Self(watch::channel(Revision::ZERO).0)
    }

    pub(crate) fn advance(&self, to: Revision) {
        self.0.send_if_modified(|reached| {
            let grows = to > *reached;
            *reached = (*reached).max(to);
            grows
        });
    }

    /// Waits until the cache shows `revision`.
    pub(crate) async fn reached(&self, revision: Revision) {
        let mut receiver = self.0.subscribe();
        // The sender is `self`, which outlives this borrow.
        let _ = receiver.wait_for(|reached| *reached >= revision).await;
    }
}
