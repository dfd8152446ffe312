//! Answers in protobuf, for clients that take nothing else.

use bytes::{Buf as _, Bytes};
use deltaplane_apiserver::protobuf::{self, MEDIA_TYPE};
use deltaplane_apiserver::typepack;
use http::{Method, Request};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::custom::with_widgets;
use crate::harness::{Reply, Server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// An object in an answer.
#[track_caller]
fn decoded(reply: &Reply, code: u16) -> Value {
    assert_eq!(reply.code.as_u16(), code, "{:?}", reply.bytes);
    assert_eq!(reply.headers["content-type"], MEDIA_TYPE);
    decode(&reply.bytes)
}

#[track_caller]
fn decode(bytes: &[u8]) -> Value {
    let decoded = protobuf::decode(typepack::load().tables(), bytes, None);
    decoded.expect("it can be decoded").value
}

/// The first varint, and what follows it.
fn varint(bytes: &[u8]) -> (usize, &[u8]) {
    let end = bytes
        .iter()
        .position(|byte| byte & 0x80 == 0)
        .expect("an end");
    let bits = bytes[..=end].iter().rev();
    let number = bits.fold(0, |sum, byte| sum << 7 | usize::from(byte & 0x7f));
    (number, &bytes[end + 1..])
}

/// A field of bytes, and what follows it.
fn field(bytes: &[u8], number: usize) -> (&[u8], &[u8]) {
    let (tag, rest) = varint(bytes);
    assert_eq!(tag, number << 3 | 2);
    let (length, rest) = varint(rest);
    rest.split_at(length)
}

async fn send(server: &Server, method: Method, path: &str, body: &Value) -> Reply {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        Bytes::from(body.to_string())
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", MEDIA_TYPE)
        .header("content-type", "application/json")
        .extension(server.user().clone())
        .body(Full::new(body));
    server.raw(request.expect("a request")).await
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": name}})
}

#[tokio::test]
async fn objects_and_statuses_are_as_in_json() {
    let server = Server::start().await;
    let made = send(&server, Method::POST, MAPS, &map("a")).await;
    let made = decoded(&made, 201);
    let one = format!("{MAPS}/a");
    assert_eq!(made, server.get(&one).await.expect(200));
    let got = send(&server, Method::GET, &one, &Value::Null).await;
    assert_eq!(decoded(&got, 200), made);
    let missing = send(&server, Method::GET, &format!("{MAPS}/b"), &Value::Null).await;
    let missing = decoded(&missing, 404);
    assert_eq!(
        (&missing["kind"], &missing["reason"]),
        (&json!("Status"), &json!("NotFound"))
    );
    assert_eq!(missing["details"]["name"], "b");
    let gone = send(&server, Method::DELETE, &one, &Value::Null).await;
    assert_eq!(decoded(&gone, 200)["status"], "Success");
    let discovered = send(&server, Method::GET, "/api/v1", &Value::Null).await;
    assert_eq!(decoded(&discovered, 200)["groupVersion"], "v1");
    // There is no message for it.
    let version = send(&server, Method::GET, "/version", &Value::Null).await;
    assert_eq!(version.headers["content-type"], "application/json");
    assert_eq!(version.expect(200)["major"], "1");
}

#[tokio::test]
async fn lists_are_rendered_as_they_are_read() {
    let server = Server::start().await;
    for index in 0..100 {
        let mut map = map(&format!("m{index:02}"));
        map["data"]["k"] = json!("v".repeat(4 << 10));
        server.post(MAPS, &map).await.expect(201);
    }
    let path = format!("{MAPS}?limit=90");
    let json = server.get(&path).await.expect(200);
    let list = send(&server, Method::GET, &path, &Value::Null).await;
    assert_eq!(decoded(&list, 200), json);
    let request = Request::get(&path)
        .header("accept", MEDIA_TYPE)
        .extension(server.user().clone())
        .body(Full::new(Bytes::new()));
    let answer = server
        .api
        .clone()
        .oneshot(request.expect("a request"))
        .await;
    let mut body = answer.expect("it never fails").into_body();
    assert_eq!(body.size_hint().exact(), None, "the rest is rendered later");
    let mut frames = 0;
    while body.frame().await.is_some() {
        frames += 1;
    }
    assert!(frames > 3, "{frames} frames");
    let empty = "/api/v1/namespaces/kube-public/secrets";
    let list = send(&server, Method::GET, empty, &Value::Null).await;
    assert_eq!(decoded(&list, 200)["kind"], "SecretList");
}

#[tokio::test]
async fn watches_have_frames_of_events() {
    let server = Server::start().await;
    server.post(MAPS, &map("a")).await.expect(201);
    let request = Request::get(format!("{MAPS}?watch=1"))
        .header("accept", "application/vnd.kubernetes.protobuf;stream=watch")
        .extension(server.user().clone())
        .body(Full::new(Bytes::new()));
    let answer = server
        .api
        .clone()
        .oneshot(request.expect("a request"))
        .await;
    let answer = answer.expect("it never fails");
    let kind = &answer.headers()["content-type"];
    assert_eq!(kind, "application/vnd.kubernetes.protobuf;stream=watch");
    let mut body = answer.into_body();
    let mut seen = Vec::new();
    server.post(MAPS, &map("b")).await.expect(201);
    server
        .delete(&format!("{MAPS}/a"), &json!({}))
        .await
        .expect(200);
    let mut buffer = Vec::new();
    while seen.len() < 3 {
        let frame = body
            .frame()
            .await
            .expect("it goes on")
            .expect("it never fails");
        let mut data = frame.into_data().ok().expect("data");
        buffer.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        while let Some((length, rest)) = buffer.split_first_chunk::<4>()
            && rest.len() >= usize::try_from(u32::from_be_bytes(*length)).expect("small")
        {
            let length = usize::try_from(u32::from_be_bytes(*length)).expect("small");
            let (sort, rest) = field(&rest[..length], 1);
            let (object, rest) = field(rest, 2);
            assert!(rest.is_empty());
            let (raw, _) = field(object, 1);
            let name = decode(raw)["metadata"]["name"].clone();
            let sort = String::from_utf8_lossy(sort);
            seen.push(format!("{sort} {}", name.as_str().unwrap_or_default()));
            buffer.drain(..4 + length);
        }
    }
    assert_eq!(seen, ["ADDED a", "ADDED b", "DELETED a"]);
}

#[tokio::test]
async fn custom_resources_have_metadata_in_protobuf_alone() {
    let server = with_widgets().await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w"}, "spec": {"color": "red"}});
    server.post(widgets, &widget).await.expect(201);
    let refused = decoded(
        &send(&server, Method::GET, widgets, &Value::Null).await,
        406,
    );
    let message = "only the following media types are accepted: application/json";
    assert_eq!(refused["message"], message);
    let refused = send(&server, Method::POST, widgets, &widget).await;
    decoded(&refused, 406);
    let form = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let partial = server.accept(widgets, &format!("{MEDIA_TYPE}{form}")).await;
    let partial = decoded(&partial, 200);
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert_eq!(partial["items"][0]["metadata"]["name"], "w");
    let both = format!("{MEDIA_TYPE},application/json");
    let json = server.accept(widgets, &both).await;
    assert_eq!(json.headers["content-type"], "application/json");
    assert_eq!(json.expect(200)["kind"], "WidgetList");
}
