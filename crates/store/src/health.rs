//! Whether a store takes writes, as an event for whoever must know.
//!
//! Drivers say so through [`Memory`](crate::memory::Memory) when it changes, not with every write.

use std::sync::Arc;

use tokio::sync::watch;

/// Whether a store takes writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It does.
    #[default]
    Well,
    /// It does not, until a write succeeds again. Reads go on.
    Failing {
        /// Why, without paths: it may be shown to anybody.
        reason: Arc<str>,
    },
    /// It is closed, or its writer has died.
    Closed,
}

/// Follows a store's health. See [`Store::health`](crate::Store::health).
#[derive(Clone, Debug)]
pub struct HealthWatch(watch::Receiver<Health>);

// === impl HealthWatch ===

impl HealthWatch {
    pub(crate) fn new(receiver: watch::Receiver<Health>) -> Self {
        Self(receiver)
    }

    /// How it is now; later changes are news.
    pub fn now(&mut self) -> Health {
        self.0.borrow_and_update().clone()
    }

    /// Ends when it is not as it was when last asked. Cancel safe.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The store is gone altogether, and nobody is left to say so.
            std::future::pending::<()>().await;
        }
    }
}
