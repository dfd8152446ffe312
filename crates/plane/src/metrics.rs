//! What the hub counts: its listener, and what can be asked of its store.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use deltaplane_store::{Held, Metrics as StoreMetrics, Store};

/// Everything that the hub counts. Cheap to clone; all clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) listener: ListenerMetrics,
    pub(crate) store: StoreMetrics,
}

/// Counts connections. Cheap to clone; all clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenerMetrics {
    open: Gauge,
    accepted: Counter,
    pub(crate) handshake_failures: Counter,
    pub(crate) refused: Counter,
    pub(crate) full: Counter,
    pub(crate) accept_failures: Counter,
}

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct Open(Gauge);

/// Asks the store when metrics are read, so that writes pay nothing for it.
#[derive(Debug)]
struct StoreGauges(Store);

// === impl Metrics ===

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry, store: &Store) {
        self.listener.register(registry);
        let registry = registry.sub_registry_with_prefix("store");
        self.store.register(registry);
        registry.register_collector(Box::new(StoreGauges(store.clone())));
    }
}

// === impl ListenerMetrics ===

impl ListenerMetrics {
    fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("listener");
        let open = "Connections that are open";
        registry.register("open_connections", open, self.open.clone());
        for (name, help, counter) in [
            (
                "connections",
                "Connections that were accepted",
                &self.accepted,
            ),
            (
                "handshake_failures",
                "Connections whose TLS handshake failed",
                &self.handshake_failures,
            ),
            (
                "refused_connections",
                "Connections that were closed because their client has too many",
                &self.refused,
            ),
            (
                "full",
                "Times that no further connection could be taken because of their limit",
                &self.full,
            ),
            (
                "accept_failures",
                "Times that a connection could not be taken, such as for lack of descriptors",
                &self.accept_failures,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
    }

    #[cfg(test)]
    pub(crate) fn connections(&self) -> u64 {
        self.accepted.get()
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

// === impl StoreGauges ===

impl Collector for StoreGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(store) = self;
        let Held {
            objects,
            bytes,
            superseded,
            superseded_bytes,
        } = store.held();
        let mut gauge = |name, help, unit: Option<&Unit>, value: u64| {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let place = encoder.encode_descriptor(name, help, unit, gauge.metric_type())?;
            gauge.encode(place)
        };
        let of_bytes = Some(&Unit::Bytes);
        gauge(
            "revision",
            "The newest revision",
            None,
            store.revision().get(),
        )?;
        let oldest = "The oldest revision that can be read and watched from";
        gauge("oldest_revision", oldest, None, store.oldest().get())?;
        gauge("objects", "Objects", None, objects)?;
        gauge("object", "Bytes of the objects", of_bytes, bytes)?;
        let retained = "Older versions that are retained";
        gauge("superseded_versions", retained, None, superseded)?;
        let retained = "Bytes of the older versions that are retained";
        gauge("superseded", retained, of_bytes, superseded_bytes)?;
        let watchers = "Watches of the store, those of the hub itself included";
        gauge("watchers", watchers, None, store.watchers() as u64)?;
        match store.stored_bytes() {
            Some(size) => gauge("file", "Bytes of the store's file", of_bytes, size),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_store::{Collection, Draft, Embedded, Options, Txn};

    use super::*;

    #[tokio::test]
    async fn what_happens_is_counted() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let metrics = Metrics::default();
        let options = Options {
            metrics: metrics.store.clone(),
            ..Options::default()
        };
        let store = Embedded::open(directory.path(), options).expect("made");
        let mut registry = Registry::default();
        metrics.register(&mut registry, &store);
        let first = metrics.listener.connection();
        let _second = metrics.listener.connection();
        drop(first);
        metrics.listener.handshake_failures.inc();
        let maps = Collection::new("t", "maps").expect("legal");
        for body in ["four", "seven.."] {
            let key = maps.key("", "a").expect("legal");
            let put = store.commit(Txn::put(key, Draft::opaque(body)));
            put.await.expect("stored");
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("memory");
        for line in [
            "listener_open_connections 1",
            "listener_connections_total 2",
            "listener_handshake_failures_total 1",
            "listener_refused_connections_total 0",
            "store_revision 2",
            "store_oldest_revision 0",
            "store_objects 1",
            "store_object_bytes 7",
            "store_superseded_versions 1",
            "store_superseded_bytes 4",
            "store_watchers 0",
            "store_commit_failures_total 0",
            "store_commit_duration_seconds_count 2",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
        let size = |line: &str| line.strip_prefix("store_file_bytes ")?.parse::<u64>().ok();
        assert!(text.lines().find_map(size) > Some(0), "{text}");
    }
}
