//! Answers that are rendered for one client and not read.

use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use deltaplane_apiserver::seams::{BoxFuture, SubresourceRequest, VirtualSubresource};
use deltaplane_apiserver::{Body, BrokenOff, Error, Limits, Pieces};
use futures::FutureExt;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::custom;
use crate::harness::{Server, Setup, grant};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";
/// One user has 14 MiB of these.
const ANSWERS: usize = 32 << 20;
/// As many answers are not refused that cost nothing.
const MANY: usize = 40;

/// What a client that does not read is asked by the connection: one frame, and what is left.
struct Unread {
    frame: Option<Pieces>,
    body: Body,
}

/// A subresource with a large answer.
struct Large {
    name: &'static str,
    writes: bool,
}

impl VirtualSubresource for Large {
    fn name(&self) -> &str {
        self.name
    }

    fn needs_object(&self) -> bool {
        false
    }

    fn writes(&self) -> bool {
        self.writes
    }

    fn handle<'a>(
        &'a self,
        _request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        let text = json!("x".repeat(600_000)).to_string();
        ready(Ok(Response::new(Body::from(text.into_bytes())))).boxed()
    }
}

/// A server whose users have so many bytes for answers, and one of them.
async fn start(answers: usize) -> (Server, Server) {
    let large = |name, writes| Arc::new(Large { name, writes }) as Arc<dyn VirtualSubresource>;
    let setup = Setup {
        subresources: vec![large("_shown", false), large("_made", true)],
        limits: Limits {
            answers,
            ..Limits::default()
        },
        ..Setup::default()
    };
    let server = Server::start_with(setup).await;
    let rules = json!([
        {"apiGroups": ["", "example.com"], "resources": ["*"], "verbs": ["*"]}
    ]);
    grant(&server, "eve", rules).await;
    let eve = server.as_user("eve", &[]);
    (server, eve)
}

fn map(name: &str, size: usize) -> Value {
    let annotation = "x".repeat(size.min(200_000));
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "x".repeat(size)},
        "metadata": {"name": name, "annotations": {"a": annotation}}})
}

fn request(user: &Server, method: Method, path: &str, accept: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("accept", accept)
        .extension(user.user().clone())
}

/// Asks, and reads nothing of the answer; its status if it is refused.
async fn unread(server: &Server, request: Request<Full<Bytes>>) -> Result<Unread, StatusCode> {
    let answer = server.api.clone().oneshot(request).await;
    let answer = answer.expect("it never fails");
    if !answer.status().is_success() {
        return Err(answer.status());
    }
    let mut body = answer.into_body();
    let frame = body.frame().await.and_then(Result::ok);
    let frame = frame.and_then(|frame| frame.into_data().ok());
    Ok(Unread { frame, body })
}

/// How many such answers there can be, up to [`MANY`].
async fn possible(server: &Server, request: impl Fn() -> Request<Full<Bytes>>) -> usize {
    let mut held = Vec::new();
    while held.len() < MANY {
        match unread(server, request()).await {
            Ok(one) => held.push(one),
            Err(code) => {
                assert_eq!(code, StatusCode::TOO_MANY_REQUESTS);
                break;
            }
        }
    }
    held.len()
}

/// Each of these grew the server's memory by its size, without bound.
#[tokio::test]
async fn unread_answers_are_bounded_in_every_form() {
    let (server, eve) = start(ANSWERS).await;
    server.post(MAPS, &map("large", 900_000)).await.expect(201);
    let large = format!("{MAPS}/large");
    let (table, dry) = (
        format!("{large}?includeObject=Object"),
        format!("{large}?dryRun=All"),
    );
    let list = format!("{MAPS}?includeObject=Object");
    let get = Method::GET;
    for (method, path, accept, most) in [
        (get.clone(), &table, TABLE, 14),
        (get.clone(), &large, PROTOBUF, 14),
        (get.clone(), &large, METADATA, 80),
        (get.clone(), &list, TABLE, 14),
        (get.clone(), &list, PROTOBUF, 14),
        (get.clone(), &list, METADATA_LIST, 80),
        (Method::PATCH, &dry, JSON, 14),
        (Method::PATCH, &table, TABLE, 14),
        (Method::PATCH, &large, PROTOBUF, 14),
        (get.clone(), &large, JSON, usize::MAX),
        (get.clone(), &list, JSON, usize::MAX),
        (Method::PATCH, &large, JSON, usize::MAX),
    ] {
        let ask = || {
            let request = request(&eve, method.clone(), path, accept);
            let request = request.header("content-type", "application/merge-patch+json");
            request
                .body(Full::new(Bytes::from_static(b"{}")))
                .expect("legal")
        };
        let possible = possible(&server, ask).await;
        let expected = most.min(MANY);
        let least = expected - expected / 4;
        assert!(
            (least..=expected).contains(&possible),
            "{method} {path} {accept}: {possible}"
        );
    }
    assert_eq!(possible(&server, || gzip(&eve, &large)).await, MANY);
}

fn gzip(user: &Server, path: &str) -> Request<Full<Bytes>> {
    let request = request(user, Method::GET, path, JSON).header("accept-encoding", "gzip");
    request.body(Full::default()).expect("legal")
}

/// Compressing takes memory, too; without it the answer is the same, and larger.
#[tokio::test]
async fn answers_are_compressed_while_there_is_memory_for_it() {
    let (server, eve) = start(2 << 20).await;
    server.post(MAPS, &map("large", 300_000)).await.expect(201);
    let large = format!("{MAPS}/large");
    let mut held = Vec::new();
    let mut compressed = 0;
    for _ in 0..10 {
        let answer = server.api.clone().oneshot(gzip(&eve, &large)).await;
        let answer = answer.expect("it never fails");
        assert_eq!(answer.status(), StatusCode::OK);
        compressed += usize::from(answer.headers().contains_key("content-encoding"));
        held.push(answer);
    }
    assert_eq!(compressed, 2);
    drop(held);
    let again = server.raw(gzip(&eve, &large)).await;
    assert_eq!(again.headers["content-encoding"], "gzip");
}

#[tokio::test]
async fn events_that_are_rendered_for_a_watch_are_bounded() {
    let (server, eve) = start(ANSWERS).await;
    server.post(MAPS, &map("large", 900_000)).await.expect(201);
    let watch = format!("{MAPS}?watch=1&includeObject=Object");
    for (accept, most) in [(TABLE, 14), (PROTOBUF, 14), (JSON, MANY)] {
        let mut watches = Vec::new();
        for _ in 0..MANY {
            let request = request(&eve, Method::GET, &watch, accept);
            let request = request.body(Full::default()).expect("legal");
            let answer = server.api.clone().oneshot(request).await;
            let mut body = answer.expect("it never fails").into_body();
            if let Ok(frame) = body.frame().await.expect("the large one, or the end") {
                watches.push((frame, body));
            }
        }
        let least = most - most / 4;
        assert!(
            (least..=most).contains(&watches.len()),
            "{accept}: {}",
            watches.len()
        );
    }
}

/// What is rendered after the client has begun to read was not counted.
#[tokio::test]
async fn the_rest_of_a_list_is_bounded_too() {
    let (server, eve) = start(ANSWERS).await;
    for number in 0..150 {
        server
            .post(MAPS, &map(&format!("a-{number}"), 1_000))
            .await
            .expect(201);
    }
    server.post(MAPS, &map("large", 900_000)).await.expect(201);
    let list = || {
        let request = request(
            &eve,
            Method::GET,
            &format!("{MAPS}?includeObject=Object"),
            TABLE,
        );
        request.body(Full::default()).expect("legal")
    };
    let mut stopped = Vec::new();
    let mut broken_off = 0;
    for _ in 0..MANY {
        let mut answer = unread(&server, list()).await.expect("it begins");
        let outcome = loop {
            answer.frame = None;
            match answer.body.frame().await {
                Some(Ok(frame)) => {
                    let frame = frame.into_data().ok().expect("data");
                    let is_large = bytes::Buf::remaining(&frame) > 900_000;
                    answer.frame = Some(frame);
                    if is_large {
                        break Ok(());
                    }
                }
                Some(Err(error)) => break Err(error),
                None => panic!("it looks complete"),
            }
        };
        match outcome {
            Ok(()) => stopped.push(answer),
            Err(BrokenOff) => broken_off += 1,
        }
    }
    assert!((10..=14).contains(&stopped.len()), "{}", stopped.len());
    assert_eq!(broken_off, MANY - stopped.len());
    drop(stopped);
    assert_eq!(
        eve.accept(&format!("{MAPS}?includeObject=Object"), TABLE)
            .await
            .code,
        200
    );
}

/// Things in two versions, of which the first is stored.
async fn define_things(server: &Server) {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": anything}})
    };
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", true), version("v2", false)]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    server.post(definitions, &definition).await.expect(201);
    custom::establish(server, "things.example.com").await;
}

const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
const OTHER_THINGS: &str = "/apis/example.com/v2/namespaces/default/things";

fn thing(name: &str, size: usize) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": name}, "spec": "x".repeat(size)})
}

/// A write whose answer is too large for the user's share was refused after it was done.
#[tokio::test]
async fn a_write_is_refused_before_it_is_done_or_not_at_all() {
    let (server, eve) = start(1 << 20).await;
    define_things(&server).await;
    let (stored, other) = (THINGS, OTHER_THINGS);
    let thing = thing("large", 600_000);
    server.post(stored, &thing).await.expect(201);
    // Its answer is larger than all that the user can have, and it is complete.
    let deleted = eve.delete(other, &json!({})).await.expect(200);
    assert_eq!(deleted["items"].as_array().map(Vec::len), Some(1));
    server.get(&format!("{stored}/large")).await.refused(404);
    // One that is refused has done nothing.
    server.post(stored, &thing).await.expect(201);
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    eve.patch(&format!("{other}/large"), "merge", &patch)
        .await
        .refused(429);
    let kept = server.get(&format!("{stored}/large")).await.expect(200);
    assert_eq!(kept["metadata"].get("labels"), None);
    eve.patch(&format!("{stored}/large"), "merge", &patch)
        .await
        .expect(200);
}

/// Answers to what writes nothing were owed like those of writes, and took more memory than there is.
#[tokio::test]
async fn what_writes_nothing_is_refused_as_reads_are() {
    let (server, eve) = start(1 << 20).await;
    define_things(&server).await;
    let thing = thing("large", 600_000);
    server.post(THINGS, &thing).await.expect(201);
    let nothing = json!({});
    let by_query = format!("{OTHER_THINGS}?dryRun=All");
    eve.delete(&by_query, &nothing).await.refused(429);
    let by_body = json!({"dryRun": ["All"]});
    eve.delete(OTHER_THINGS, &by_body).await.refused(429);
    server.delete(&by_query, &nothing).await.expect(200);
    server.get(&format!("{THINGS}/large")).await.expect(200);
    let shown = format!("{MAPS}/any/_shown");
    eve.post(&shown, &nothing).await.refused(429);
    server.post(&shown, &nothing).await.expect(200);
    let made = format!("{MAPS}/any/_made");
    eve.get(&made).await.refused(429);
    eve.post(&made, &nothing).await.expect(200);
}

/// The part of an answer that is rendered while the client reads was broken off, although the write
/// was done.
#[tokio::test]
async fn the_answer_to_a_write_is_not_broken_off() {
    let (server, eve) = start(1 << 20).await;
    define_things(&server).await;
    for name in ["a", "b", "c"] {
        server.post(THINGS, &thing(name, 600_000)).await.expect(201);
    }
    let deleted = eve.delete(OTHER_THINGS, &json!({})).await.expect(200);
    assert_eq!(deleted["items"].as_array().map(Vec::len), Some(3));
    // Nor is one that is laid out for people, while the user leaves another answer unread.
    server.post(MAPS, &map("large", 150_000)).await.expect(201);
    let table = format!("{MAPS}/large?includeObject=Object");
    let table = request(&eve, Method::GET, &table, TABLE).body(Full::default());
    let _unread = unread(&server, table.expect("legal")).await.expect("shown");
    let patch = json!({"data": {"other": "1"}});
    let pretty = format!("{MAPS}/large?pretty=true");
    let patched = eve.patch(&pretty, "merge", &patch).await.expect(200);
    assert_eq!(patched["data"]["other"], "1");
}
