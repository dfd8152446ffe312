//! What operators see of the server, in OpenMetrics.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// The server's metrics.
#[derive(Clone)]
pub(crate) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<VerbLabels, Histogram, fn() -> Histogram>,
    pub(crate) watches: Gauge,
}

/// Bounded: verbs and status codes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            // From 100 µs to 26 s.
            seconds: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.0001, 4.0, 10))
            }),
            watches: Gauge::default(),
        };
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register(
            "request_duration_seconds",
            "Time from a request's head to its answer's head",
            metrics.seconds.clone(),
        );
        registry.register("watches", "Watches that are open", metrics.watches.clone());
        metrics
    }

    pub(crate) fn answered(&self, verb: &'static str, code: u16, seconds: f64) {
        self.requests
            .get_or_create(&RequestLabels { verb, code })
            .inc();
        self.seconds
            .get_or_create(&VerbLabels { verb })
            .observe(seconds);
    }
}
