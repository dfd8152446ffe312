//! What must be there before a control plane is ready, such as the definitions of our own kinds.
//!
//! A control plane that is started on a disk that takes no writes serves reads: what it cannot
//! write then is written as soon as the store takes writes.

use std::error::Error;
use std::time::Duration;

use deltaplane_apiserver::ApiServer;
use deltaplane_client::RequestError;
use deltaplane_runtime::readiness::Guard;
use deltaplane_runtime::{Clock, Readiness, Tasks};
use deltaplane_store::{Health, Store};
use tokio::sync::watch;

use crate::config::Beginning;
use crate::error::PlaneError;

/// Prepares a control plane, now or later.
pub(crate) struct Preparation {
    pub(crate) api: ApiServer,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// Says that it is done.
    pub(crate) begun: watch::Sender<bool>,
    pub(crate) guard: Guard,
}

/// How long to wait after a failure that is not the store's.
const RETRY: Duration = Duration::from_secs(5);

// === impl Preparation ===

impl Preparation {
    /// Does it; on a store that takes no writes as a task of `tasks`, later.
    pub(crate) async fn run(
        self,
        beginning: Option<Beginning>,
        tasks: &Tasks,
    ) -> Result<(), PlaneError> {
        let Some(begin) = beginning else {
            self.done();
            return Ok(());
        };
        match begin(self.api.clone()).await {
            Ok(()) => self.done(),
            Err(error) if is_failing(&self.store) => {
                log(&error);
                let stop = tasks.stop();
                tasks.group("beginning").spawn(async move {
                    stop.unless(self.finish(begin)).await;
                });
            }
            Err(error) => return Err(PlaneError::Beginning(Box::new(error))),
        }
        Ok(())
    }

    async fn finish(self, begin: Beginning) {
        let mut health = self.store.health();
        loop {
            if health.now() != Health::Well {
                health.changed().await;
                continue;
            }
            match begin(self.api.clone()).await {
                Ok(()) => return self.done(),
                Err(error) => log(&error),
            }
            tokio::select! {
                () = health.changed() => {}
                () = self.clock.sleep(RETRY) => {}
            }
        }
    }

    fn done(self) {
        self.begun.send_replace(true);
        self.guard.ready();
    }
}

fn log(error: &RequestError) {
    let error = error as &dyn Error;
    tracing::error!(
        error,
        "failed to make what must be there first; will try again"
    );
}

fn is_failing(store: &Store) -> bool {
    matches!(store.health().now(), Health::Failing { .. })
}

/// Waits until everything is ready, or until the store takes no writes, which keeps some of it from
/// becoming ready and nobody from reading.
pub(crate) async fn ready_to_read(readiness: &Readiness, store: &Store) {
    let mut health = store.health();
    let failing = async {
        while !matches!(health.now(), Health::Failing { .. }) {
            health.changed().await;
        }
    };
    tokio::select! {
        biased;
        () = readiness.wait() => {}
        () = failing => tracing::error!("the store takes no writes; only reads are served"),
    }
}
