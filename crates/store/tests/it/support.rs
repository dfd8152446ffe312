//! How the embedded driver is made for tests.

use std::time::Duration;

use deltaplane_store::{
    Embedded, Epoch, Options, RingLimits, Store,
    driver::BoxFuture,
    testing::{disk::MemoryDisk, model::Harness},
};

/// Embedded stores in memory. The last disk is the one that `reopen` uses.
pub(crate) struct Embeddeds {
    pub(crate) disk: MemoryDisk,
    pub(crate) ring: RingLimits,
}

impl Embeddeds {
    pub(crate) fn new(ring: RingLimits) -> Self {
        let disk = MemoryDisk::new();
        Self { disk, ring }
    }
}

pub(crate) fn options(ring: RingLimits) -> Options {
    Options {
        ring,
        new_epoch: Epoch::random(),
        ..Options::default()
    }
}

pub(crate) fn ring(events: usize) -> RingLimits {
    RingLimits {
        events,
        ..RingLimits::default()
    }
}

/// Opens a store that must open.
pub(crate) fn open(disk: &MemoryDisk, ring: RingLimits) -> Store {
    Embedded::open_on(Box::new(disk.clone()), options(ring)).unwrap()
}

impl Harness for Embeddeds {
    fn open(&mut self) -> Store {
        self.disk = MemoryDisk::new();
        open(&self.disk, self.ring)
    }

    fn reopen(&mut self, store: Store) -> BoxFuture<'_, Store> {
        Box::pin(async move {
            store.close().await.unwrap();
            open(&self.disk, self.ring)
        })
    }
}

/// Longer than any test takes, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(100);

/// Runs a test's future, on one thread so that it is deterministic. A test
/// that waits for what never comes fails.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let patient = async { tokio::time::timeout(PATIENCE, future).await };
    runtime.unwrap().block_on(patient).expect("the test hangs")
}
