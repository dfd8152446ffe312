//! Columns that others add to Tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use deltaplane_apiserver::Body;
use deltaplane_apiserver::seams::{Resource, TableColumn, TableColumns};
use deltaplane_runtime::Clock;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::custom::with_widgets_on;
use crate::harness::{Server, Setup};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
/// As kubectl asks.
const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

/// Says where config maps and widgets are, and says too little or too much if told so.
struct Places;

impl TableColumns for Places {
    fn columns(&self, group: &str, plural: &str) -> &[TableColumn] {
        const PLACE: TableColumn = TableColumn {
            name: "Place",
            r#type: "string",
            description: "Where it is.",
            priority: 0,
        };
        const KEYS: TableColumn = TableColumn {
            name: "Keys",
            r#type: "integer",
            description: "",
            priority: 1,
        };
        match (group, plural) {
            ("", "configmaps") | ("example.com", "widgets") => &[PLACE, KEYS],
            _ => &[],
        }
    }

    fn cells(&self, resource: Resource<'_>, object: &Value) -> Vec<Value> {
        let keys = object["data"].as_object().map_or(0, |data| data.len());
        let place = format!(
            "{}/{}/{}/{}",
            resource.group, resource.plural, resource.namespace, resource.name
        );
        let mut cells = vec![json!(place), json!(keys), json!("too much")];
        if resource.name == "short" {
            cells.truncate(1);
        }
        cells
    }
}

async fn with(columns: Vec<Arc<dyn TableColumns>>) -> Server {
    let (clock, _) = Clock::manual(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    Server::start_with(Setup {
        columns,
        clock,
        ..Setup::default()
    })
    .await
}

async fn with_places() -> Server {
    with(vec![Arc::new(Places)]).await
}

#[tokio::test]
async fn columns_are_added_to_every_table_of_a_kind() {
    let server = with_places().await;
    for name in ["long", "short"] {
        let map = json!({"metadata": {"name": name}, "data": {"k": "1"}});
        server.post(MAPS, &map).await.expect(201);
    }
    let list = server.accept(MAPS, ACCEPT).await.expect(200);
    let long = json!(["long", 1, "0s", "/configmaps/default/long", 1]);
    assert_eq!(list["rows"][0]["cells"], long);
    let short = json!(["short", 1, "0s", "/configmaps/default/short", null]);
    assert_eq!(list["rows"][1]["cells"], short);
    let columns = list["columnDefinitions"].as_array().expect("columns");
    let expected = [
        json!({"name": "Place", "type": "string", "format": "", "description": "Where it is.", "priority": 0}),
        json!({"name": "Keys", "type": "integer", "format": "", "description": "", "priority": 1}),
    ];
    assert_eq!(columns[3..], expected);

    let one = &format!("{MAPS}/long");
    let got = server.accept(one, ACCEPT).await.expect(200);
    assert_eq!(got["columnDefinitions"], list["columnDefinitions"]);
    assert_eq!(got["rows"][0]["cells"], long);

    let patch = Request::builder()
        .method(Method::PATCH)
        .uri(one)
        .header("accept", ACCEPT)
        .header("content-type", "application/merge-patch+json")
        .extension(server.user().clone())
        .body(r#"{"data": {"l": "2"}}"#.to_owned().into());
    let patched = server.raw(patch.expect("a request")).await.expect(200);
    let longer = json!(["long", 2, "0s", "/configmaps/default/long", 2]);
    assert_eq!(patched["rows"][0]["cells"], longer);
}

#[tokio::test]
async fn watched_tables_have_them_too() {
    let server = with_places().await;
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "1"}});
    server.post(MAPS, &map).await.expect(201);
    let path = format!(
        "{MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    );
    let request = Request::get(path)
        .header("accept", ACCEPT)
        .extension(server.user().clone())
        .body(Default::default());
    let mut watch = server.watch_by(request.expect("a request")).await;
    let first = watch.next().await.expect("an event");
    let columns = first["object"]["columnDefinitions"].as_array();
    assert_eq!(columns.map(Vec::len), Some(5));
    let row = json!(["a", 1, "0s", "/configmaps/default/a", 1]);
    assert_eq!(first["object"]["rows"][0]["cells"], row);
    let bookmark = watch.next().await.expect("an event");
    assert_eq!(bookmark["type"], "BOOKMARK");
    let bookmarked = bookmark["object"]["rows"][0]["cells"].as_array();
    let bookmarked = bookmarked.expect("cells");
    assert_eq!(bookmarked[3..], [Value::Null, Value::Null]);
    let path = format!("{MAPS}/a");
    server.delete(&path, &json!({})).await.expect(200);
    let deleted = watch.next().await.expect("an event");
    assert_eq!(deleted["object"]["columnDefinitions"], Value::Null);
    assert_eq!(deleted["object"]["rows"][0]["cells"], row);
}

#[tokio::test]
async fn custom_kinds_can_have_them_and_others_stay_as_they_are() {
    let server = with_widgets_on(with_places().await).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w"}, "spec": {"color": "red"}});
    server.post(WIDGETS, &widget).await.expect(201);
    let table = server.accept(WIDGETS, ACCEPT).await.expect(200);
    let row = json!(["w", "red", 3, "example.com/widgets/default/w", 0]);
    assert_eq!(table["rows"][0]["cells"], row);

    let (server, plain) = (with_places().await, with(Vec::new()).await);
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles?includeObject=None";
    let there = server.accept(roles, ACCEPT).await;
    assert_eq!(there.bytes, plain.accept(roles, ACCEPT).await.bytes);
}

/// Counts the rows that were rendered.
#[derive(Default)]
struct RowCounter(AtomicUsize);

impl TableColumns for RowCounter {
    fn columns(&self, _: &str, plural: &str) -> &[TableColumn] {
        const COUNTED: TableColumn = TableColumn {
            name: "Counted",
            r#type: "string",
            description: "",
            priority: 0,
        };
        match plural {
            "configmaps" => &[COUNTED],
            _ => &[],
        }
    }

    fn cells(&self, _: Resource<'_>, _: &Value) -> Vec<Value> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    }
}

impl RowCounter {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// An answer whose body is read by the test.
async fn unread(server: &Server, path: &str, encoding: &str) -> Body {
    let request = Request::get(path)
        .header("accept", ACCEPT)
        .header("accept-encoding", encoding)
        .extension(server.user().clone())
        .body(Full::new(Bytes::new()));
    let request = request.expect("a request");
    let answer = server.api.clone().oneshot(request).await;
    answer.expect("it never fails").into_body()
}

#[tokio::test]
async fn rows_are_rendered_as_the_client_reads() {
    const OBJECTS: usize = 400;
    let counter = Arc::new(RowCounter::default());
    let server = with(vec![counter.clone()]).await;
    for index in 0..OBJECTS {
        let data = json!({"k": "v".repeat(8 << 10)});
        let map = json!({"metadata": {"name": format!("m{index:03}")}, "data": data});
        server.post(MAPS, &map).await.expect(201);
    }
    let path = format!("{MAPS}?includeObject=Object");
    counter.take();
    // 8 KiB each: the first 64 KiB are rendered ahead, then as many for each frame that is read.
    for encoding in ["identity", "gzip"] {
        let mut body = unread(&server, &path, encoding).await;
        assert_eq!(
            counter.take(),
            8,
            "{encoding}: rendered before anybody reads"
        );
        body.frame().await.expect("it goes on").expect("data");
        drop(body);
        counter.take();
    }
    let mut body = unread(&server, &path, "identity").await;
    let first = body.frame().await.expect("it goes on").expect("data");
    counter.take();
    body.frame().await.expect("it goes on").expect("data");
    assert_eq!(counter.take(), 8, "as many as one frame takes");
    drop((first, body));
    let whole = server.accept(&path, ACCEPT).await;
    assert_eq!(counter.take(), OBJECTS);
    let table = whole.expect(200);
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(OBJECTS));
    assert_eq!(table["rows"][399]["object"]["metadata"]["name"], "m399");
}
