//! A store, written as the API server writes it, and a fleet that reads it.
//! The disk is in memory, and can be made to fail.

use deltaplane_border::Reader;
use deltaplane_fleet::{Fleet, FleetConfig};
use deltaplane_runtime::{Clock, Tasks};
use deltaplane_store::testing::disk::MemoryDisk;
use deltaplane_store::{Collection, Draft, Embedded, Key, Options, Store, Txn};
use deltaplane_sync::{ObjectName, Presence, SyncKind, View, ZoneName};
use serde_json::{Value, json};

/// A store, which can be opened again.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) fleet: Fleet,
    pub(crate) disk: MemoryDisk,
    tasks: Tasks,
}

pub(crate) fn kind(name: &str) -> SyncKind {
    SyncKind::new("", name).expect("legal")
}

pub(crate) fn name(text: &str) -> ObjectName {
    text.parse().expect("legal")
}

pub(crate) fn zone(text: &str) -> ZoneName {
    text.parse().expect("legal")
}

/// An object of a kind without a group.
pub(crate) fn object(kind: &str, namespace: &str, name: &str) -> Value {
    let mut metadata = json!({"name": name, "uid": "u", "resourceVersion": "1"});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "status": {"a": 1}})
}

pub(crate) fn synced(plural: &str, kind: &str, spec: &Value) -> Value {
    let mut object = object("SyncedKind", "", plural);
    object["apiVersion"] = "fleet.deltaplane.io/v1alpha1".into();
    object["spec"] = json!({"kind": kind});
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

async fn open(disk: &MemoryDisk) -> (Store, Fleet, Tasks) {
    let store = Embedded::open_on(Box::new(disk.clone()), Options::default()).expect("opened");
    let tasks = Tasks::new();
    let config = FleetConfig {
        store: store.clone(),
        clock: Clock::system(),
        product: "0".to_owned(),
    };
    let fleet = Fleet::open(config, &tasks).await.expect("opened");
    (store, fleet, tasks)
}

// === impl World ===

impl World {
    pub(crate) async fn new() -> Self {
        let disk = MemoryDisk::new();
        let (store, fleet, tasks) = open(&disk).await;
        Self {
            store,
            fleet,
            tasks,
            disk,
        }
    }

    /// Lets the fleet write, by one client for all purposes.
    pub(crate) fn attach(&self, client: kube::Client) {
        self.fleet.attach(client.clone(), client, &self.tasks);
    }

    /// Ends the process, and begins another.
    pub(crate) async fn restart(self) -> Self {
        self.restart_after_all(Vec::new()).await
    }

    /// Ends the process, stores an object, and begins another process.
    pub(crate) async fn restart_after(self, collection: &str, object: &Value) -> Self {
        let draft = Draft::opaque(object.to_string());
        let txn = Txn::put(key(collection, object), draft);
        self.restart_after_all(vec![txn]).await
    }

    /// Returns the transaction that deletes an object, which is this in the end.
    pub(crate) fn deletion(&self, collection: &str, last: &Value) -> Txn {
        let key = key(collection, last);
        let stored = self.store.get(&key).expect("it is there");
        let draft = Draft::opaque(last.to_string());
        Txn::delete(key, stored.revision(), Some(draft))
    }

    /// Ends the process, commits transactions that it does not see, and begins another process.
    pub(crate) async fn restart_after_all(self, written: Vec<Txn>) -> Self {
        let Self {
            store,
            fleet,
            tasks,
            disk,
        } = self;
        drop(fleet);
        tasks
            .shutdown(std::time::Duration::from_secs(5))
            .await
            .expect("ended");
        for txn in written {
            store.commit(txn).await.expect("stored");
        }
        store.close().await.expect("closed");
        drop(store);
        let (store, fleet, tasks) = open(&disk).await;
        Self {
            store,
            fleet,
            tasks,
            disk,
        }
    }

    /// Commits a transaction while nothing else runs in this process.
    pub(crate) fn commit_alone(&self, txn: Txn) {
        self.run_alone(async move |store| drop(store.commit(txn).await.expect("stored")));
    }

    /// Commits transactions while nothing else runs in this process, and drops all history before.
    pub(crate) fn commit_and_compact(&self, txns: Vec<Txn>) {
        self.run_alone(async move |store| {
            for txn in txns {
                store.commit(txn).await.expect("stored");
            }
            store.compact(store.revision()).await.expect("compacted");
        });
    }

    fn run_alone(&self, work: impl AsyncFnOnce(Store) + Send + 'static) {
        let store = self.store.clone();
        let committed = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            runtime.expect("a runtime").block_on(work(store));
        });
        committed.join().expect("committed");
    }

    /// Stores an object, and waits until the fleet has taken it in.
    pub(crate) async fn put(&self, collection: &str, object: &Value) {
        let key = key(collection, object);
        let draft = Draft::opaque(serde_json::to_vec(object).expect("JSON"));
        self.store
            .commit(Txn::put(key, draft))
            .await
            .expect("stored");
        self.fleet.caught_up().await;
    }

    pub(crate) async fn delete(&self, collection: &str, object: &Value) {
        self.end(key(collection, object), None).await;
    }

    /// Deletes an object, which is this in the end.
    pub(crate) async fn delete_as(&self, collection: &str, last: &Value) {
        let draft = Draft::opaque(serde_json::to_vec(last).expect("JSON"));
        self.end(key(collection, last), Some(draft)).await;
    }

    async fn end(&self, key: Key, last: Option<Draft>) {
        if let Some(stored) = self.store.get(&key) {
            let txn = Txn::delete(key, stored.revision(), last);
            self.store.commit(txn).await.expect("deleted");
        }
        self.fleet.caught_up().await;
    }

    /// What a zone should have of a kind: names and bodies.
    pub(crate) fn wanted(&self, kind: &SyncKind, zone: &ZoneName) -> Vec<(String, Value)> {
        let catalog = self.fleet.catalog().read();
        let reader = Reader {
            catalog: &catalog,
            zone: Some(zone),
        };
        let entries = catalog.entries(kind);
        let wanted = entries.filter_map(|(name, _)| match reader.presence(kind, name) {
            Presence::Wanted(item) => Some((name, item)),
            Presence::Withdrawn(_) | Presence::Gone | Presence::Frozen => None,
        });
        wanted
            .map(|(name, item)| {
                let body = serde_json::from_slice(&item.body).expect("JSON");
                (name.to_string(), body)
            })
            .collect()
    }

    /// What a zone should have of a ConfigMap.
    pub(crate) fn config_map(&self, of: &str, zone: &str) -> Presence {
        let catalog = self.fleet.catalog().read();
        let zone = self::zone(zone);
        let reader = Reader {
            catalog: &catalog,
            zone: Some(&zone),
        };
        reader.presence(&kind("ConfigMap"), &name(of))
    }

    pub(crate) fn names(&self, kind: &SyncKind, zone: &str) -> Vec<String> {
        let wanted = self.wanted(kind, &self::zone(zone)).into_iter();
        wanted.map(|(name, _)| name).collect()
    }
}

/// Returns the transaction that stores an object.
pub(crate) fn put(collection: &str, object: &Value) -> Txn {
    Txn::put(key(collection, object), Draft::opaque(object.to_string()))
}

pub(crate) fn key(collection: &str, object: &Value) -> Key {
    let collection = Collection::new("default", collection).expect("legal");
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    collection
        .key(text("namespace"), text("name"))
        .expect("legal")
}
