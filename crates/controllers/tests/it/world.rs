//! An API server with controllers, and ways to wait for what they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use deltaplane_api::identity::{Identity, MASTERS};
use deltaplane_apiserver::{ApiServer, Config, Limits};
use deltaplane_client::request::{self, Patch};
use deltaplane_client::{
    Event, Feed, ObjectKey, Pace, Query, RequestError, Resource, discovery, in_process,
};
use deltaplane_controllers::accounts::{self, LegacyToken};
use deltaplane_controllers::{Context, definitions, events, garbage, namespaces, roles};
use deltaplane_runtime::clock::Hand;
use deltaplane_runtime::{Clock, Readiness, Tasks};
use deltaplane_store::{Embedded, Options, Store};
use futures::StreamExt;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server and all its controllers; they end with it.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) store: Store,
    pub(crate) hand: Hand,
    context: Context,
    /// The garbage collector's.
    collector: Client,
    readiness: Readiness,
    controllers: Tasks,
    _server: Tasks,
    _directory: TempDir,
}

/// Nothing here takes long; a failing test should not either.
const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const EVENT_LIFETIME: Duration = Duration::from_secs(3600);

// === impl World ===

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(|client| client).await
    }

    /// A world in which the garbage collector has another client.
    pub(crate) async fn start_with(collector: impl FnOnce(Client) -> Client) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = Embedded::open(directory.path(), Options::default()).expect("opened");
        let server = Tasks::new();
        let key = rcgen::KeyPair::generate().expect("a key").serialize_pem();
        let config = Config {
            address: ([127, 0, 0, 1], 7443).into(),
            service_account_key: key,
            commit: "unknown",
            limits: Limits::default(),
            admission: Vec::new(),
            subresources: Vec::new(),
            columns: Vec::new(),
            clock: Clock::system(),
            readiness: Readiness::new(),
        };
        let api = ApiServer::start(config, store.clone(), &server)
            .await
            .expect("started");
        let client = in_process(api, Identity::authenticated("tester", &[MASTERS]));
        // Only the end of events depends on it.
        let (clock, hand) = Clock::manual(SystemTime::now());
        let pace = Pace {
            clock,
            ..Pace::system()
        };
        let context = Context {
            client: client.clone(),
            pace,
        };
        let mut world = Self {
            collector: collector(client.clone()),
            client,
            store,
            hand,
            context,
            readiness: Readiness::new(),
            controllers: Tasks::new(),
            _server: server,
            _directory: directory,
        };
        world.start_controllers().await;
        world
    }

    async fn start_controllers(&mut self) {
        self.controllers = Tasks::new();
        self.readiness = Readiness::new();
        let (tasks, ready) = (&self.controllers, &self.readiness);
        // Retries and silences by the machine's clock.
        let context = Context {
            pace: Pace::system(),
            ..self.context.clone()
        };
        let (discovery, follower) = discovery::follow(context.client.clone(), context.pace.clone());
        tasks.spawn("discovery", |stop| follower.run(stop));
        let one = Context {
            client: self.collector.clone(),
            ..context.clone()
        };
        tasks.spawn("garbage", |stop| garbage::run(one, discovery, stop));
        let (one, guard) = (context.clone(), ready.guard("namespaces"));
        tasks.spawn("namespaces", |stop| namespaces::run(one, guard, stop));
        let (one, guard) = (context.clone(), ready.guard("definitions"));
        tasks.spawn("definitions", |stop| definitions::run(one, guard, stop));
        let (one, guard) = (context.clone(), ready.guard("roles"));
        tasks.spawn("roles", |stop| roles::run(one, guard, stop));
        let one = self.context.clone();
        tasks.spawn("events", |stop| events::run(one, EVENT_LIFETIME, stop));
        let config = accounts::Config {
            ca: "CA".to_owned(),
            mint: Arc::new(|token: &LegacyToken| Ok(format!("token of {}", token.account))),
        };
        let guard = ready.guard("accounts");
        tasks.spawn("accounts", |stop| {
            accounts::run(context, config, guard, stop)
        });
        tokio::time::timeout(PATIENCE, ready.wait())
            .await
            .expect("ready in time");
    }

    /// For a controller by the clock that `hand` moves.
    pub(crate) fn context(&self) -> Context {
        self.context.clone()
    }

    /// Ends the controllers, and starts others.
    pub(crate) async fn restart_controllers(&mut self) {
        self.controllers
            .shutdown(PATIENCE)
            .await
            .expect("a clean end");
        self.start_controllers().await;
    }

    pub(crate) async fn create(&self, kind: &Resource, object: Value) -> Value {
        let namespace = object["metadata"]["namespace"].as_str();
        let path = kind.collection_path(namespace);
        let mut object = object;
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        request::create(&self.client, &path, &object)
            .await
            .expect("created")
    }

    pub(crate) async fn get(&self, kind: &Resource, key: &ObjectKey) -> Option<Value> {
        match request::get(&self.client, &kind.object_path(key)).await {
            Ok(object) => Some(object),
            Err(error) if error.is_not_found() => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// All of a kind, in all namespaces.
    pub(crate) async fn list(&self, kind: &Resource) -> Vec<Value> {
        let list = request::get(&self.client, &kind.collection_path(None)).await;
        let mut list: Value = list.expect("listed");
        serde_json::from_value(list["items"].take()).expect("items")
    }

    pub(crate) async fn patch(&self, kind: &Resource, key: &ObjectKey, change: Value) {
        let path = kind.object_path(key);
        let patched = request::patch::<Value>(&self.client, &path, Patch::Merge, &change).await;
        patched.expect("patched");
    }

    pub(crate) async fn delete(&self, kind: &Resource, key: &ObjectKey, policy: &str) {
        let options = json!({"propagationPolicy": policy});
        let deleted: Result<(), RequestError> =
            request::delete(&self.client, &kind.object_path(key), &options).await;
        deleted.expect("deleted");
    }

    /// Waits until the object is as wanted.
    pub(crate) async fn until(
        &self,
        kind: &Resource,
        key: &ObjectKey,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let found = self.watch(kind, key, |object| {
            object.filter(|object| wanted(object)).cloned()
        });
        found.await
    }

    /// Waits until the object is not there.
    pub(crate) async fn until_gone(&self, kind: &Resource, key: &ObjectKey) {
        self.watch(kind, key, |object| object.is_none().then_some(()))
            .await;
    }

    async fn watch<T>(
        &self,
        kind: &Resource,
        key: &ObjectKey,
        mut found: impl FnMut(Option<&Value>) -> Option<T>,
    ) -> T {
        let mut query =
            Query::all(kind.clone()).with_fields(&format!("metadata.name={}", key.name));
        if kind.namespaced {
            query = query.in_namespace(&key.namespace);
        }
        let mut events = Feed::new(self.client.clone(), query, Pace::system()).events();
        let mut last = None;
        let waiting = async {
            loop {
                let told = match events.next().await.expect("a feed never ends") {
                    Event::Restarted => continue,
                    Event::Applied(item) => Some(item.parse::<Value>().expect("an object")),
                    Event::Deleted(_) => None,
                    Event::InSync if last.is_some() => continue,
                    Event::InSync => None,
                };
                last = told;
                if let Some(result) = found(last.as_ref()) {
                    return result;
                }
            }
        };
        let result = tokio::time::timeout(PATIENCE, waiting).await;
        result.unwrap_or_else(|_| panic!("{kind} {key} is still {:?}", last))
    }
}

pub(crate) fn namespaces_kind() -> Resource {
    Resource::cluster("", "v1", "namespaces", "Namespace")
}

pub(crate) fn config_maps() -> Resource {
    Resource::namespaced("", "v1", "configmaps", "ConfigMap")
}

pub(crate) fn secrets() -> Resource {
    Resource::namespaced("", "v1", "secrets", "Secret")
}

pub(crate) fn accounts_kind() -> Resource {
    Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount")
}

pub(crate) fn definitions_kind() -> Resource {
    let group = "apiextensions.k8s.io";
    Resource::cluster(
        group,
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    )
}

/// A definition of `plural` in `example.com`.
pub(crate) fn definition(plural: &str, kind: &str, short: &[&str]) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind,
                "listKind": format!("{kind}List"), "shortNames": short},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

pub(crate) fn custom(plural: &str, kind: &str) -> Resource {
    Resource::namespaced("example.com", "v1", plural, kind)
}

/// Whether a condition has this status.
pub(crate) fn condition(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let is = |condition: &Value| condition["type"] == kind && condition["status"] == status;
    conditions.is_some_and(|conditions| conditions.iter().any(is))
}

pub(crate) fn owner(kind: &Resource, owner: &Value, blocks: bool) -> Value {
    json!({"apiVersion": kind.api_version(), "kind": kind.kind,
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocks})
}

/// A client like this one, and how many requests it has made.
pub(crate) fn counting(client: Client) -> (Client, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let service = tower::service_fn(move |request: Request<Body>| {
        counter.fetch_add(1, Ordering::SeqCst);
        let client = client.clone();
        async move { client.send(request).await }
    });
    (Client::new(service, "default"), count)
}

/// A client like this one, that may not follow objects of some kind while `forbidden` says so.
pub(crate) fn forbidding(
    client: Client,
    plural: &'static str,
    forbidden: Arc<AtomicBool>,
) -> Client {
    let following =
        move |method: &Method, path: &str| method == Method::GET && path.ends_with(plural);
    refusing(client, following, forbidden)
}

/// A client like this one, that may not do something while `forbidden` says so.
pub(crate) fn refusing(
    client: Client,
    what: impl Fn(&Method, &str) -> bool + Clone + Send + 'static,
    forbidden: Arc<AtomicBool>,
) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let refused = what(request.method(), request.uri().path());
        let (client, forbidden) = (client.clone(), forbidden.clone());
        async move {
            if refused && forbidden.load(Ordering::SeqCst) {
                let status = json!({"code": 403, "reason": "Forbidden", "message": "no"});
                let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
                *answer.status_mut() = http::StatusCode::FORBIDDEN;
                return Ok(answer);
            }
            client.send(request).await
        }
    });
    Client::new(service, "default")
}
