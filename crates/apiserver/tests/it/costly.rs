//! Requests that take long leave the workers to others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use deltaplane_apiserver::seams::{
    Admission, BoxFuture, Review, SubresourceRequest, VirtualSubresource,
};
use deltaplane_apiserver::{Body, Error};
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::LocalSet;

use crate::harness::{Server, Setup};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Nobody waits so long for what works.
const PATIENCE: Duration = Duration::from_secs(30);

/// Refuses to go on unless the one worker runs another task meanwhile.
struct NeedsAnotherTask;

impl Admission for NeedsAnotherTask {
    fn admit<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<(), Error>> {
        let is_examined = review.user.name == "admin";
        Box::pin(async move {
            if !is_examined {
                return Ok(());
            }
            let (done, other) = mpsc::channel();
            Handle::current().spawn(async move { done.send(()) });
            other
                .recv_timeout(PATIENCE)
                .map_err(|_| Error::bad_request("the request keeps the worker to itself"))
        })
    }
}

/// A large answer to a small request.
struct LargeAnswer;

impl VirtualSubresource for LargeAnswer {
    fn name(&self) -> &str {
        "_large"
    }

    fn needs_object(&self) -> bool {
        false
    }

    fn handle<'a>(
        &'a self,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        let object = large(request.resource.name).to_string().into_bytes();
        let answer = Response::builder().header(CONTENT_TYPE, "application/json");
        let answer = answer.body(Body::from(object)).map_err(Error::internal);
        Box::pin(std::future::ready(answer))
    }
}

fn large(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"value": "x".repeat(64 << 10)}})
}

/// Each way of writing a large object, and small requests that make or change one.
async fn write(server: &Server) {
    let one = format!("{MAPS}/one");
    let dry = format!("{MAPS}?dryRun=All");
    server.post(&dry, &large("one")).await.expect(201);
    server.post(MAPS, &large("one")).await.expect(201);
    server.put(&one, &large("one")).await.expect(200);
    for kind in ["merge", "strategic-merge"] {
        let label = json!({"metadata": {"labels": {"patched-by": kind}}});
        server.patch(&one, kind, &label).await.expect(200);
    }
    let applied = format!("{one}?fieldManager=m&force=true");
    server
        .patch(&applied, "apply", &large("one"))
        .await
        .expect(200);
    let aliases =
        b"{apiVersion: v1, kind: ConfigMap, metadata: {name: two}, data: {a: &x text, b: *x}}";
    let yaml = "application/yaml";
    let created = server.send(Method::POST, MAPS, yaml, aliases).await;
    created.expect(201);
    let two = format!("{MAPS}/two");
    let copies = json!([{"op": "copy", "from": "/data/a", "path": "/data/c"}]);
    server.patch(&two, "json", &copies).await.expect(200);
    let applied = format!("{two}?fieldManager=m&force=true");
    let yaml = "application/apply-patch+yaml";
    let applied = server.send(Method::PATCH, &applied, yaml, aliases).await;
    applied.expect(200);
    server.delete(&one, &json!({})).await.expect(200);
    server.delete(MAPS, &json!({})).await.expect(200);
}

#[test]
fn costly_requests_leave_the_worker_to_other_tasks() {
    let runtime = one_worker();
    let written = runtime.spawn(async {
        let server = Server::start_with(Setup {
            admission: vec![Arc::new(NeedsAnotherTask)],
            ..Setup::default()
        });
        write(&server.await).await;
    });
    runtime.block_on(written).expect("all are carried out");
}

fn one_worker() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Returns true if something hands over the worker on its way: tasks of a [`LocalSet`] cannot, and
/// panic.
fn hands_over(runtime: &Runtime, asked: impl Future) -> bool {
    let asked = AssertUnwindSafe(|| runtime.block_on(LocalSet::new().run_until(asked)));
    match catch_unwind(asked) {
        Ok(_) => false,
        Err(panic) => {
            let why = panic.downcast_ref::<String>().map_or("", String::as_str);
            assert!(why.starts_with("can call blocking only"), "{why}");
            true
        }
    }
}

#[test]
fn reads_and_questions_hand_over_the_worker_if_they_are_costly() {
    let runtime = one_worker();
    let server = runtime.block_on(Server::start_with(Setup {
        subresources: vec![Arc::new(LargeAnswer)],
        ..Setup::default()
    }));
    runtime.block_on(async { server.post(MAPS, &large("one")).await.expect(201) });
    let (json, protobuf) = ("application/json", "application/vnd.kubernetes.protobuf");
    for (path, accept, is_costly) in [
        ("", json, false),
        // All items are measured in protobuf.
        ("", protobuf, true),
        // Fields are read from the bodies of all objects.
        ("?fieldSelector=metadata.name%3Done", json, true),
        ("?watch=1", json, false),
        ("?watch=1&fieldSelector=metadata.name%3Done", json, true),
        // The whole answer is converted.
        ("/any/_large", json, false),
        ("/any/_large", protobuf, true),
    ] {
        let path = format!("{MAPS}{path}");
        let request = Request::get(&path)
            .header("accept", accept)
            .extension(server.user().clone())
            .body(Full::default());
        let asked = server.watch_by(request.expect("legal"));
        assert_eq!(hands_over(&runtime, asked), is_costly, "{path} {accept}");
    }
    for (size, is_costly) in [(1, false), (16 << 10, true)] {
        let question = json!({"apiVersion": "authentication.k8s.io/v1",
            "kind": "SelfSubjectReview", "metadata": {"annotations": {"a": "x".repeat(size)}}});
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let asked = async { server.post(path, &question).await.expect(201) };
        assert_eq!(hands_over(&runtime, asked), is_costly, "{size}");
    }
}
