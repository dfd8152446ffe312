//! Writes that meet each other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deltaplane_apiserver::Error;
use deltaplane_apiserver::seams::{Admission, BoxFuture, Operation, Review};
use deltaplane_store::{Collection, Scope};
use serde_json::json;
use tokio::sync::{Barrier, Semaphore};

use crate::custom::with_widgets_on;
use crate::harness::{Server, Setup};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Nothing here takes long; a failing test should not either.
const PATIENCE: Duration = Duration::from_secs(20);

/// Holds deletions until two of them are there.
struct InPairs(Barrier);

impl Admission for InPairs {
    fn admit<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            if review.operation == Operation::Delete {
                self.0.wait().await;
            }
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_collection_is_deleted_side_by_side() {
    let server = Server::start_with(Setup {
        admission: vec![Arc::new(InPairs(Barrier::new(2)))],
        ..Setup::default()
    })
    .await;
    for name in ["a", "b", "c", "d"] {
        let map = json!({"kind": "ConfigMap", "metadata": {"name": name}});
        server.post(MAPS, &map).await.expect(201);
    }
    let options = json!({});
    let deleting = server.delete(MAPS, &options);
    let deleted = tokio::time::timeout(PATIENCE, deleting).await;
    let deleted = deleted.expect("two at a time").expect(200);
    let names: Vec<_> = deleted["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| item["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    let left = server.get(MAPS).await.expect(200);
    assert_eq!(left["items"], json!([]));
}

/// Holds the first change of `a` until something else was written.
struct Overtaken {
    first: AtomicBool,
    reached: Semaphore,
    go_on: Semaphore,
}

impl Admission for Overtaken {
    fn admit<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let change = review.operation == Operation::Update && review.resource.name == "a";
            if change && self.first.swap(false, Ordering::SeqCst) {
                self.reached.add_permits(1);
                let _permit = self.go_on.acquire().await;
            }
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_patch_that_was_overtaken_is_made_again() {
    let overtaken = Arc::new(Overtaken {
        first: AtomicBool::new(true),
        reached: Semaphore::new(0),
        go_on: Semaphore::new(0),
    });
    let server = Server::start_with(Setup {
        admission: vec![overtaken.clone()],
        ..Setup::default()
    })
    .await;
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
    server.post(MAPS, &map).await.expect(201);
    let path = format!("{MAPS}/a");
    let slow = json!({"data": {"slow": "1"}});
    let slow = server.patch(&path, "merge", &slow);
    let fast = async {
        let _permit = overtaken.reached.acquire().await;
        let fast = json!({"data": {"fast": "1"}});
        server.patch(&path, "merge", &fast).await.expect(200);
        overtaken.go_on.add_permits(1);
    };
    let (slow, ()) = tokio::time::timeout(PATIENCE, async { tokio::join!(slow, fast) })
        .await
        .expect("in time");
    assert_eq!(slow.expect(200)["data"], json!({"fast": "1", "slow": "1"}));
}

/// Changes something whenever something is made.
struct Restless {
    path: &'static str,
    server: OnceLock<Server>,
    made: AtomicUsize,
}

impl Admission for Restless {
    fn admit<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let made = review.operation == Operation::Create;
            if let Some(server) = self.server.get().filter(|_| made) {
                let number = self.made.fetch_add(1, Ordering::SeqCst);
                let label = json!({"metadata": {"labels": {"number": number.to_string()}}});
                server.patch(self.path, "merge", &label).await.expect(200);
            }
            Ok(())
        })
    }
}

/// A server on which this changes from now on.
async fn restless(
    server: fn(Setup) -> BoxFuture<'static, Server>,
    path: &'static str,
) -> (Server, Arc<Restless>) {
    let restless = Arc::new(Restless {
        path,
        server: OnceLock::new(),
        made: AtomicUsize::new(0),
    });
    let server = server(Setup {
        admission: vec![restless.clone()],
        ..Setup::default()
    })
    .await;
    let same = server.as_user("admin", &["system:masters"]);
    assert!(restless.server.set(same).is_ok(), "set once");
    (server, restless)
}

#[tokio::test]
async fn a_namespace_may_change_while_things_are_made_in_it() {
    let start = |setup| -> BoxFuture<'static, Server> { Box::pin(Server::start_with(setup)) };
    let (server, restless) = restless(start, "/api/v1/namespaces/default").await;
    for metadata in [json!({"name": "a"}), json!({"generateName": "b-"})] {
        let map = json!({"kind": "ConfigMap", "metadata": metadata});
        server.post(MAPS, &map).await.expect(201);
    }
    let made = restless.made.load(Ordering::SeqCst);
    assert_eq!(made, 2, "each is made at the first attempt");
}

/// Objects are checked by their definition, so they wait until it stays as it is; nobody is told
/// that they exist.
#[tokio::test]
async fn a_definition_that_keeps_changing_is_said_to() {
    const DEFINITION: &str =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    let start = |setup| -> BoxFuture<'static, Server> {
        Box::pin(async move { with_widgets_on(Server::start_with(setup).await).await })
    };
    let (server, _) = restless(start, DEFINITION).await;
    for metadata in [json!({"name": "a"}), json!({"generateName": "b-"})] {
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": metadata, "spec": {"color": "red"}});
        let widgets = "/apis/example.com/v1/namespaces/default/widgets";
        let refused = server.post(widgets, &widget).await.refused(503);
        assert!(refused.contains("kept changing"), "{refused}");
    }
}

/// Clients that go away between a commit and its answer: what they wrote is there, whole, and in
/// force like everything else.
#[tokio::test]
async fn a_write_whose_client_went_away_is_whole() {
    const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let server = Server::start().await;
    let binding = |name: &str| {
        let group = "rbac.authorization.k8s.io";
        json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": name}]})
    };
    let collection = "rbac.authorization.k8s.io/clusterrolebindings";
    let collection = Collection::new("default", collection).expect("a collection");
    let mut abandoned = None;
    // It may be answered before anybody looks.
    for number in 0..1000 {
        let name = format!("user-{number}");
        let scope = Scope::collection(&collection);
        let watch = server.store.watch(scope, server.store.revision());
        let mut watch = watch.expect("watched");
        let object = binding(&name);
        tokio::select! {
            biased;
            committed = watch.next_batch(1) => {
                assert!(committed.is_ok_and(|batch| batch.events.len() == 1));
                abandoned = Some(name);
                break;
            }
            answered = server.post(BINDINGS, &object) => {
                answered.expect(201);
            }
        }
    }
    let name = abandoned.expect("one that was not waited for");
    let stored = server.get(&format!("{BINDINGS}/{name}")).await.expect(200);
    assert_eq!(stored["subjects"], binding(&name)["subjects"]);
    assert!(stored["metadata"]["uid"].is_string());
    // The caches show what is later, so they show it too.
    server.post(BINDINGS, &binding("later")).await.expect(201);
    for user in [&name, "later"] {
        let user = server.as_user(user, &["system:authenticated"]);
        user.get("/api/v1/nodes").await.expect(200);
    }
    server.post(BINDINGS, &binding(&name)).await.refused(409);
}

/// Ends the namespace when something is about to be made in it.
#[derive(Default)]
struct Ending {
    server: OnceLock<Server>,
}

impl Admission for Ending {
    fn admit<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let made = review.operation == Operation::Create && review.resource.name == "late";
            if let Some(server) = self.server.get().filter(|_| made) {
                let path = "/api/v1/namespaces/going";
                server.delete(path, &json!({})).await.expect(200);
            }
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_namespace_that_goes_meanwhile_takes_nothing_in() {
    let ending = Arc::new(Ending::default());
    let server = Server::start_with(Setup {
        admission: vec![ending.clone()],
        ..Setup::default()
    })
    .await;
    let same = server.as_user("admin", &["system:masters"]);
    assert!(ending.server.set(same).is_ok(), "set once");
    let namespace = json!({"kind": "Namespace", "metadata": {"name": "going"}});
    server
        .post("/api/v1/namespaces", &namespace)
        .await
        .expect(201);
    let maps = "/api/v1/namespaces/going/configmaps";
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "late"}});
    let refused = server.post(maps, &map).await.refused(403);
    assert!(
        refused.contains("because it is being terminated"),
        "{refused}"
    );
    server.get(&format!("{maps}/late")).await.refused(404);
}
