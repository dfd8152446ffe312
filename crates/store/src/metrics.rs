//! What a store counts. What can be asked at any time (revision, sizes, watchers) is not here: see
//! [`Store::held`](crate::Store::held) and its like.

use std::time::Duration;

use prometheus_client::{
    metrics::{
        counter::Counter,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

/// Counts commits. Cheap to clone; all clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    commits: Histogram,
    failures: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            // From 100 µs, a fast disk, to 26 s.
            commits: Histogram::new(exponential_buckets(0.0001, 4.0, 10)),
            failures: Counter::default(),
        }
    }
}

impl Metrics {
    /// Shows them to operators.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "commit_duration",
            "Time to make a batch of writes durable",
            Unit::Seconds,
            self.commits.clone(),
        );
        registry.register(
            "commit_failures",
            "Writes that the storage did not take",
            self.failures.clone(),
        );
    }

    pub(crate) fn committed(&self, took: Duration) {
        self.commits.observe(took.as_secs_f64());
    }

    pub(crate) fn failed(&self, writes: usize) {
        self.failures.inc_by(writes as u64);
    }
}
