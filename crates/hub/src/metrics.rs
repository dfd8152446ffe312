//! What the listener counts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counts connections. Cheap to clone; all clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    open: Gauge,
    accepted: Counter,
    pub(crate) handshake_failures: Counter,
}

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct Open(Gauge);

// === impl Metrics ===

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("listener");
        let open = "Connections that are open";
        registry.register("open_connections", open, self.open.clone());
        let accepted = "Connections that were accepted";
        registry.register("connections", accepted, self.accepted.clone());
        let failures = "Connections whose TLS handshake failed";
        registry.register(
            "handshake_failures",
            failures,
            self.handshake_failures.clone(),
        );
    }

    /// Counts a connection until the result is dropped.
    pub(crate) fn connection(&self) -> Open {
        self.accepted.inc();
        self.open.inc();
        Open(self.open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted() {
        let mut registry = Registry::default();
        let metrics = Metrics::default();
        metrics.register(&mut registry);
        let first = metrics.connection();
        let _second = metrics.connection();
        drop(first);
        metrics.handshake_failures.inc();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("memory");
        for line in [
            "listener_open_connections 1",
            "listener_connections_total 2",
            "listener_handshake_failures_total 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
    }
}
