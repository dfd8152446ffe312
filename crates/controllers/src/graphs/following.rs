//! Feeds that go on for as long as somebody is interested, and say what keeps them from it.

use std::sync::{Arc, Weak};

use deltaplane_runtime::{TaskGroup, Trigger};
use tokio::sync::watch;

/// Keeps a feed going. Cheap to clone.
#[derive(Clone)]
pub(super) struct Interest(Arc<Following>);

pub(super) struct Following {
    stop: Trigger,
    synced: watch::Receiver<bool>,
    trouble: watch::Receiver<Option<String>>,
}

/// Where a feed tells how it stands with it.
pub(super) struct Telling {
    /// Whether all that exists was seen.
    pub(super) synced: watch::Sender<bool>,
    /// What keeps it from going on.
    pub(super) trouble: watch::Sender<Option<String>>,
}

// === impl Interest ===

impl Interest {
    /// Starts what follows a feed; it ends when nobody is interested any more.
    pub(super) fn start<F>(tasks: &TaskGroup, run: impl FnOnce(Telling) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (told, synced) = watch::channel(false);
        let (troubled, trouble) = watch::channel(None);
        let (stop, stopped) = Trigger::new();
        let run = run(Telling {
            synced: told,
            trouble: troubled,
        });
        let end = tasks.stop();
        tasks.spawn(async move {
            end.unless(stopped.unless(run)).await;
        });
        Self(Arc::new(Following {
            stop,
            synced,
            trouble,
        }))
    }

    /// To be found by others for as long as it goes on.
    pub(super) fn downgrade(&self) -> Weak<Following> {
        Arc::downgrade(&self.0)
    }

    /// The same as others have, if they still have it.
    pub(super) fn find(following: &Weak<Following>) -> Option<Self> {
        following.upgrade().map(Self)
    }

    /// Waits until all that exists was seen.
    pub(super) async fn synced(&self) {
        // An error means that the process stops.
        let _ = self.0.synced.clone().wait_for(|synced| *synced).await;
    }

    pub(super) fn is_synced(&self) -> bool {
        *self.0.synced.borrow()
    }

    /// What keeps it from going on.
    pub(super) fn trouble(&self) -> Option<String> {
        self.0.trouble.borrow().clone()
    }

    /// Waits until something else keeps it from going on than this.
    pub(super) async fn other_trouble(&self, than: &Option<String>) {
        let mut trouble = self.0.trouble.clone();
        if trouble.wait_for(|now| now != than).await.is_err() {
            // The process stops.
            std::future::pending().await
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.stop.stop();
    }
}
