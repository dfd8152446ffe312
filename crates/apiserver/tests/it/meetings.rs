//! Writes that meet each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deltaplane_apiserver::Error;
use deltaplane_apiserver::seams::{Admission, BoxFuture, Operation, Review};
use serde_json::json;
use tokio::sync::{Barrier, Semaphore};

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
