//! Caches that follow the store: which kinds there are, and who may do what.
//!
//! A follower applies every change of one collection in order, and says how far it has come, so
//! that a write of a role or a definition is answered when it is in force.

use std::collections::BTreeSet;
use std::sync::Arc;

use deltaplane_runtime::{Stop, Tasks, heavy};
use deltaplane_store::{Collection, Key, ListQuery, Object, Scope, WatchError};
use serde_json::Value;

use crate::auth::rbac::Part;
use crate::server::{Inner, TENANT};

/// Where definitions of custom kinds are.
pub(crate) const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// The collections that are followed.
pub(crate) const FOLLOWED: [(&str, Follows); 5] = [
    (DEFINITIONS, Follows::Definitions),
    ("rbac.authorization.k8s.io/roles", Follows::Rbac(Part::Role)),
    (
        "rbac.authorization.k8s.io/clusterroles",
        Follows::Rbac(Part::Role),
    ),
    (
        "rbac.authorization.k8s.io/rolebindings",
        Follows::Rbac(Part::Binding),
    ),
    (
        "rbac.authorization.k8s.io/clusterrolebindings",
        Follows::Rbac(Part::Binding),
    ),
];

/// What a collection's objects are taken into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    Definitions,
    Rbac(Part),
}

struct Follower {
    server: Arc<Inner>,
    collection: Collection,
    follows: Follows,
    known: BTreeSet<Key>,
}

/// Takes in what is stored, and goes on following it. When this returns, all caches are warm.
pub(crate) async fn start(server: &Arc<Inner>, tasks: &Tasks) -> Result<(), crate::StartError> {
    for (resource, follows) in FOLLOWED {
        let collection = Collection::new(TENANT, resource)
            .map_err(|error| crate::StartError::Store(error.to_string()))?;
        let mut follower = Follower {
            server: Arc::clone(server),
            collection,
            follows,
            known: BTreeSet::new(),
        };
        let mut watch = follower.load().await.map_err(crate::StartError::Store)?;
        tasks.spawn(format!("follow {resource}"), move |stop: Stop| async move {
            loop {
                let batch = tokio::select! {
                    batch = watch.next_batch(256) => batch,
                    () = stop.wait() => return,
                };
                match batch {
                    Ok(batch) => {
                        for event in &batch.events {
                            follower.apply(
                                event.key(),
                                Some(event.object()).filter(|_| !event.is_delete()),
                            );
                        }
                        follower.reach(batch.revision);
                    }
                    // The store is closed last, after everyone was told to stop. If nobody was,
                    // it broke, and a task that ends by itself ends the process.
                    Err(WatchError::Closed) => return,
                    Err(error) => {
                        tracing::warn!(%error, "a cache fell behind and starts over");
                        match follower.load().await {
                            Ok(fresh) => watch = fresh,
                            Err(error) => tracing::error!(%error, "a cache could not be loaded"),
                        }
                    }
                }
            }
        });
    }
    Ok(())
}

// === impl Follower ===

impl Follower {
    /// Takes in everything that is stored, drops what is not, and watches from there.
    async fn load(&mut self) -> Result<deltaplane_store::Watch, String> {
        let store = self.server.store.clone();
        let query = ListQuery::all(self.collection.clone());
        let page = store
            .list(&query)
            .await
            .map_err(|error| error.to_string())?;
        let present: BTreeSet<Key> = page.items.iter().map(|one| one.key().clone()).collect();
        let gone: Vec<Key> = self.known.difference(&present).cloned().collect();
        for key in gone {
            self.apply(&key, None);
        }
        for object in &page.items {
            self.apply(object.key(), Some(object));
        }
        self.reach(page.revision);
        let scope = Scope::collection(&self.collection);
        store
            .watch(scope, page.revision)
            .map_err(|error| error.to_string())
    }

    fn apply(&mut self, key: &Key, object: Option<&Arc<Object>>) {
        match object {
            Some(_) => self.known.insert(key.clone()),
            None => self.known.remove(key),
        };
        let parsed = object.and_then(|one| serde_json::from_slice::<Value>(one.bytes()).ok());
        match self.follows {
            Follows::Rbac(part) => self.server.replace_rights(part, key, parsed.as_ref()),
            // Its rules are compiled.
            Follows::Definitions => {
                heavy(|| self.server.replace_definition(key.name(), parsed.as_ref()));
            }
        }
    }

    fn reach(&self, revision: deltaplane_store::Revision) {
        if let Some(reach) = self.server.reach(self.collection.resource()) {
            reach.advance(revision);
        }
    }
}
