//! Where graphs are authored and do not run: what their users make crosses to where they do.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_client::{Resource, request};
use deltaplane_graph::labels;
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::Context;
use crate::queue::Failure;

/// The revisions of definitions whose instances were let cross, by their names. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Crossed(Arc<Mutex<BTreeMap<String, (Resource, i64)>>>);

/// Lets the instances of a revision of a graph cross, unless somebody said already how they do. That
/// is asked once for each: who takes it back means it.
pub(super) async fn cross(
    context: &Context,
    crossed: &Crossed,
    (definition, number): (&str, i64),
    kind: &Resource,
) -> Result<(), Failure> {
    let revision = (kind.clone(), number);
    if crossed.0.lock().get(definition) == Some(&revision) {
        return Ok(());
    }
    let synced = Resource::cluster(
        "fleet.deltaplane.io",
        "v1alpha1",
        "syncedkinds",
        "SyncedKind",
    );
    let object = json!({
        "apiVersion": synced.api_version(),
        "kind": synced.kind,
        "metadata": {"name": kind.to_string(), "labels": {labels::OWNED: "true"}},
        "spec": {"group": kind.group, "kind": kind.kind, "direction": "Both"},
    });
    let path = synced.collection_path(None);
    match request::create::<IgnoredAny>(&context.client, &path, &object).await {
        Err(error) if !error.is_conflict() => {
            Err(Failure::to("let the instances of the graph cross")(error))
        }
        Ok(_) | Err(_) => {
            crossed.0.lock().insert(definition.to_owned(), revision);
            Ok(())
        }
    }
}

// === impl Crossed ===

impl Crossed {
    /// The definition is gone.
    pub(super) fn forget(&self, definition: &str) {
        self.0.lock().remove(definition);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use deltaplane_client::Pace;
    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn nothing_is_asked_while_nothing_changes() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        // Somebody said it already.
        let service = tower::service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::SeqCst);
            let there = Response::builder().status(409).body(Body::empty());
            async move { Ok::<_, Infallible>(there.expect("a response")) }
        });
        let context = Context {
            client: kube::Client::new(service, "default"),
            pace: Pace::system(),
        };
        let (crossed, shops) = (
            Crossed::default(),
            Resource::namespaced("kro.run", "v1", "shops", "Shop"),
        );
        for (number, times) in [(1, 1), (1, 1), (2, 2), (2, 2)] {
            let done = cross(&context, &crossed, ("shop", number), &shops).await;
            assert!(done.is_ok());
            assert_eq!(asked.load(Ordering::SeqCst), times, "{number}");
        }
        crossed.forget("shop");
        let done = cross(&context, &crossed, ("shop", 2), &shops).await;
        assert!(done.is_ok());
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }
}
