//! What is counted of graphs, for operators.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::admission::{Counts, Health};

/// Counts what is done for instances. Cheap to clone; all clones count together.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    passes: Family<Outcome, Counter>,
    applied: Family<Of, Counter>,
    deleted: Family<Of, Counter>,
    refused: Family<Of, Counter>,
    instances: Family<Of, Gauge>,
    in_flight: Family<Of, Gauge>,
    waiting: Family<Of, Gauge>,
    counted_deletions: Family<Of, Counter>,
    held_deletions: Family<Of, Gauge>,
}

/// What is counted of one kind of instances.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    metrics: Metrics,
    of: Of,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    definition: String,
    /// Of the instances.
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    definition: String,
    kind: String,
    outcome: &'static str,
}

/// How a pass may end.
const OUTCOMES: [&str; 3] = ["ready", "waiting", "failed"];

// === impl Metrics ===

impl Metrics {
    /// Shows them to operators.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("graphs");
        let passes = "Times that an instance was gone through, by what came of it";
        registry.register("passes", passes, self.passes.clone());
        for (name, help, family) in [
            (
                "applied_objects",
                "Objects that were applied",
                &self.applied,
            ),
            (
                "deleted_objects",
                "Objects that were deleted",
                &self.deleted,
            ),
            (
                "counted_deletions",
                "Objects whose deletion counted towards the deletion budget",
                &self.counted_deletions,
            ),
            (
                "refused_writes",
                "Objects that the API did not let be applied or deleted",
                &self.refused,
            ),
        ] {
            registry.register(name, help, family.clone());
        }
        for (name, help, family) in [
            ("instances", "Instances that there are", &self.instances),
            (
                "instances_in_flight",
                "Instances that moved to the newest revision and are not ready there yet",
                &self.in_flight,
            ),
            (
                "instances_waiting",
                "Instances that wait for a gate to let them move",
                &self.waiting,
            ),
            (
                "held_deletions",
                "Objects whose deletion exceeds the deletion budget and waits for approval",
                &self.held_deletions,
            ),
        ] {
            registry.register(name, help, family.clone());
        }
    }

    pub(super) fn of(&self, definition: &str, kind: &str) -> Counted {
        Counted {
            metrics: self.clone(),
            of: Of {
                definition: definition.to_owned(),
                kind: kind.to_owned(),
            },
        }
    }
}

// === impl Counted ===

impl Counted {
    pub(super) fn passed(&self, health: Health) {
        let [ready, waiting, failed] = OUTCOMES;
        let outcome = match health {
            Health::Ready { .. } => ready,
            Health::Unready => waiting,
            Health::Failed => failed,
        };
        self.metrics
            .passes
            .get_or_create(&self.outcome(outcome))
            .inc();
    }

    fn outcome(&self, outcome: &'static str) -> Outcome {
        let Of { definition, kind } = self.of.clone();
        Outcome {
            definition,
            kind,
            outcome,
        }
    }

    pub(super) fn applied(&self) {
        self.metrics.applied.get_or_create(&self.of).inc();
    }

    pub(super) fn deleted(&self) {
        self.metrics.deleted.get_or_create(&self.of).inc();
    }

    pub(super) fn refused(&self) {
        self.metrics.refused.get_or_create(&self.of).inc();
    }

    /// So many there are.
    pub(super) fn instances(&self, count: usize) {
        set(&self.metrics.instances, &self.of, count);
    }

    /// So it stands with the gate of instances.
    pub(super) fn propagation(&self, counts: Counts) {
        set(&self.metrics.in_flight, &self.of, counts.in_flight);
        set(&self.metrics.waiting, &self.of, counts.waiting);
    }

    /// So many deletions were counted, and so many are held.
    pub(super) fn deletions(&self, counted: u64, held: u64) {
        if counted > 0 {
            let family = &self.metrics.counted_deletions;
            family.get_or_create(&self.of).inc_by(counted);
        }
        let held = usize::try_from(held).unwrap_or(usize::MAX);
        set(&self.metrics.held_deletions, &self.of, held);
    }

    /// There is nothing to count any more.
    pub(super) fn end(&self) {
        let Metrics {
            passes,
            applied,
            deleted,
            refused,
            instances,
            in_flight,
            waiting,
            counted_deletions,
            held_deletions,
        } = &self.metrics;
        for family in [applied, deleted, refused, counted_deletions] {
            family.remove(&self.of);
        }
        for family in [instances, in_flight, waiting, held_deletions] {
            family.remove(&self.of);
        }
        for outcome in OUTCOMES {
            passes.remove(&self.outcome(outcome));
        }
    }
}

fn set(family: &Family<Of, Gauge>, of: &Of, count: usize) {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    family.get_or_create(of).set(count);
}
