//! What one user may take, through the front door.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use deltaplane_apiserver::seams::{BoxFuture, SubresourceRequest, VirtualSubresource};
use deltaplane_apiserver::{Body, Error, Limits};
use deltaplane_runtime::Clock;
use futures::FutureExt;
use http::{Method, Request, Response};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::custom;
use crate::harness::{Reply, Server, Setup, endless, grant};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1";
/// Ends soon, so that one too many is an answer and not a wait.
const BRIEF: &str = "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=2";

/// A server with these limits, and a user who may do all to ConfigMaps.
async fn limited(limits: Limits) -> (Server, Server) {
    let setup = Setup {
        limits,
        subresources: vec![
            Arc::new(Never("_busy", LongPoll(false))),
            Arc::new(Never("_awaited", LongPoll(true))),
        ],
        ..Setup::default()
    };
    let server = Server::start_with(setup).await;
    grant(&server, "eve", all_of_maps()).await;
    let eve = server.as_user("eve", &[]);
    (server, eve)
}

fn all_of_maps() -> Value {
    let resources = ["configmaps", "configmaps/_busy", "configmaps/_awaited"];
    json!([{"apiGroups": [""], "resources": resources, "verbs": ["*"]}])
}

/// A subresource that answers only when nobody waits any more.
struct Never(&'static str, LongPoll);

#[derive(Clone, Copy)]
struct LongPoll(bool);

impl VirtualSubresource for Never {
    fn name(&self) -> &str {
        self.0
    }

    fn needs_object(&self) -> bool {
        false
    }

    fn is_long_poll(&self) -> bool {
        let LongPoll(is_long_poll) = self.1;
        is_long_poll
    }

    fn handle<'a>(
        &'a self,
        _request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        std::future::pending().boxed()
    }
}

fn map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"name": name}})
}

#[track_caller]
fn told_to_come_back(reply: &Reply) {
    reply.refused(429);
    assert_eq!(reply.headers["retry-after"], "1");
}

#[tokio::test]
async fn a_user_waits_for_a_turn_and_beyond_that_comes_back_later() {
    let (server, eve) = limited(Limits {
        in_flight: 2,
        queued_per_user: 1,
        ..Limits::default()
    })
    .await;
    let busy = format!("{MAPS}/any/_busy");
    let mut slow = Box::pin(eve.get(&busy));
    assert!(slow.as_mut().now_or_never().is_none());
    let mut watch = Box::pin(eve.watch(WATCH));
    assert!(
        watch.as_mut().now_or_never().is_none(),
        "a watch needs a turn to begin"
    );
    told_to_come_back(&eve.get(MAPS).await);
    server.get(MAPS).await.expect(200);
    drop(slow);
    let _open = watch.await;
    eve.get(MAPS).await.expect(200);
}

/// Two accounts with half-sent bodies used to hold all places.
#[tokio::test]
async fn unfinished_uploads_hold_no_place() {
    let (server, eve) = limited(Limits {
        in_flight: 2,
        queued_per_user: 1,
        ..Limits::default()
    })
    .await;
    for user in ["mallory", "bob"] {
        grant(&server, user, all_of_maps()).await;
    }
    let mallory = server.as_user("mallory", &[]);
    let mut uploads = Vec::new();
    for user in [&eve, &mallory] {
        for _ in 0..20 {
            let upload = endless(user, MAPS, b"{");
            let mut upload = Box::pin(server.api.clone().oneshot(upload));
            assert!(upload.as_mut().now_or_never().is_none());
            uploads.push(upload);
        }
    }
    let bob = server.as_user("bob", &[]);
    bob.post(MAPS, &map("bobs")).await.expect(201);
    eve.get(MAPS).await.expect(200);
}

/// However much some users upload at once, another one can upload something.
#[tokio::test]
async fn unfinished_uploads_leave_memory_to_others() {
    let (server, eve) = limited(Limits {
        bodies: 1 << 20,
        ..Limits::default()
    })
    .await;
    for user in ["mallory", "bob"] {
        grant(&server, user, all_of_maps()).await;
    }
    let mallory = server.as_user("mallory", &[]);
    let mut uploads = Vec::new();
    let mut refused = 0;
    for _ in 0..20 {
        for user in [&eve, &mallory] {
            let upload = endless(user, MAPS, &[b' '; 50_000]);
            let mut upload = Box::pin(server.api.clone().oneshot(upload));
            // The rest of a refused body is awaited for a while, so that its answer is not lost.
            refused += usize::from(upload.as_mut().now_or_never().is_some());
            uploads.push(upload);
        }
    }
    let bob = server.as_user("bob", &[]);
    let mut large = map("large");
    large["data"] = json!({"k": "v".repeat(90_000)});
    bob.post(MAPS, &large).await.expect(201);
    told_to_come_back(&eve.post(MAPS, &large).await);
    assert_eq!(refused, 0);
}

#[tokio::test]
async fn long_polls_count_as_watches_and_hold_no_place() {
    let (_server, eve) = limited(Limits {
        in_flight: 2,
        queued_per_user: 0,
        watches_per_user: 3,
        ..Limits::default()
    })
    .await;
    let awaited = format!("{MAPS}/any/_awaited");
    let mut polls: Vec<_> = (0..3).map(|_| Box::pin(eve.get(&awaited))).collect();
    for poll in &mut polls {
        assert!(poll.as_mut().now_or_never().is_none());
    }
    eve.get(MAPS).await.expect(200);
    told_to_come_back(&eve.get(&awaited).await);
    told_to_come_back(&eve.get(BRIEF).await);
    drop(polls.pop());
    assert!(eve.get(&awaited).now_or_never().is_none());
}

#[tokio::test]
async fn watches_are_counted_for_each_user_and_for_all() {
    let (server, eve) = limited(Limits {
        watches: 3,
        watches_per_user: 2,
        ..Limits::default()
    })
    .await;
    let open = [eve.watch(WATCH).await, eve.watch(WATCH).await];
    told_to_come_back(&eve.get(BRIEF).await);
    grant(&server, "bob", all_of_maps()).await;
    let bob = server.as_user("bob", &[]);
    let _other = bob.watch(WATCH).await;
    told_to_come_back(&bob.get(BRIEF).await);
    // Administrators need no share.
    let _administrators = [server.watch(WATCH).await, server.watch(WATCH).await];
    drop(open);
    let _again = eve.watch(WATCH).await;
}

#[tokio::test]
async fn large_bodies_share_a_budget() {
    let (server, eve) = limited(Limits {
        bodies: 230_000,
        ..Limits::default()
    })
    .await;
    let large = endless(&eve, MAPS, &[b' '; 90_000]);
    let mut large = Box::pin(server.api.clone().oneshot(large));
    assert!(large.as_mut().now_or_never().is_none());
    let mut second = map("second");
    second["data"] = json!({"k": "v".repeat(90_000)});
    told_to_come_back(&eve.post(MAPS, &second).await);
    eve.post(MAPS, &map("small")).await.expect(201);
    server.post(MAPS, &second).await.expect(201);
    drop(large);
    second["metadata"]["name"] = json!("third");
    eve.post(MAPS, &second).await.expect(201);
}

#[tokio::test]
async fn a_watch_ends_with_the_right_to_it() {
    let (server, eve) = limited(Limits::default()).await;
    grant(&server, "bob", all_of_maps()).await;
    server.post(MAPS, &map("before")).await.expect(201);
    let current = server.get(MAPS).await.expect(200);
    let current = current["metadata"]["resourceVersion"].as_str();
    let live = format!("{WATCH}&resourceVersion={}", current.expect("a revision"));
    let bob = server.as_user("bob", &[]);
    let by_name = format!("{live}&fieldSelector=metadata.name%3Dafter");
    let mut lost = [
        eve.watch(WATCH).await,
        eve.watch(&live).await,
        eve.watch(&by_name).await,
    ];
    let mut kept = [bob.watch(&live).await, server.watch(&live).await];
    let mut idle = Box::pin(lost[1].next());
    assert!(idle.as_mut().now_or_never().is_none());
    let binding = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/eve";
    server.delete(binding, &json!({})).await.expect(200);
    let ended = tokio::time::timeout(Duration::from_secs(20), idle).await;
    assert_eq!(ended, Ok(None), "although nothing happens");
    server.post(MAPS, &map("after")).await.expect(201);
    for watch in [0, 2] {
        assert_eq!(lost[watch].next().await, None);
    }
    for watch in &mut kept {
        assert_eq!(watch.brief().await, "ADDED after");
    }
}

#[tokio::test]
async fn a_watch_ends_with_the_token_that_opened_it() {
    let (clock, hand) = Clock::manual(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let setup = Setup {
        clock,
        ..Setup::default()
    };
    let server = Server::start_with(setup).await;
    let user = "system:serviceaccount:default:web";
    grant(&server, user, all_of_maps()).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"kind": "ServiceAccount", "metadata": {"name": "web"}});
    server.post(accounts, &account).await.expect(201);
    let wanted = json!({"spec": {"expirationSeconds": 900}});
    let issued = server.post(&format!("{accounts}/web/token"), &wanted).await;
    let token = issued.expect(201)["status"]["token"].clone();
    let token = token.as_str().expect("a token");
    let request = Request::get(WATCH)
        .header("authorization", format!("Bearer {token}"))
        .body(Default::default());
    let mut watch = server.watch_by(request.expect("a request")).await;
    assert!(watch.next().now_or_never().is_none());
    hand.advance(Duration::from_secs(899));
    assert!(watch.next().now_or_never().is_none());
    hand.advance(Duration::from_secs(1));
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn what_is_stored_can_be_read_again_however_deep_it_is() {
    let server = Server::start().await;
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": anything}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    server.post(definitions, &definition).await.expect(201);
    custom::establish(&server, "things.example.com").await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    let thing = |name: &str, depth: usize| {
        let (open, close) = ("{\"a\":".repeat(depth - 1), "}".repeat(depth - 1));
        format!(
            "{{\"apiVersion\":\"example.com/v1\",\"kind\":\"Thing\",\"metadata\":{{\"name\":\"{name}\"}},\"spec\":{open}1{close}}}"
        )
    };
    let create = async |name: &str, depth: usize| {
        let body = thing(name, depth);
        let json = "application/json";
        server
            .send(Method::POST, things, json, body.as_bytes())
            .await
    };
    let apply = async |name: &str, depth: usize| {
        let (path, body) = (
            format!("{things}/{name}?fieldManager=m"),
            thing(name, depth),
        );
        let yaml = "application/apply-patch+yaml";
        server
            .send(Method::PATCH, &path, yaml, body.as_bytes())
            .await
    };
    create("created", 120).await.expect(201);
    apply("applied", 120).await.expect(201);
    for name in ["created", "applied"] {
        let path = format!("{things}/{name}");
        server.get(&path).await.expect(200);
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        let labelled = server.patch(&path, "merge", &label).await.expect(200);
        server.put(&path, &labelled).await.expect(200);
    }
    let words = "the object is nested deeper than 120 levels";
    for depth in [121, 127, 128, 1000] {
        for refused in [create("deep", depth).await, apply("deep", depth).await] {
            let message = refused.refused(400);
            assert!(message.contains(words), "{depth} {message}");
        }
    }
}
