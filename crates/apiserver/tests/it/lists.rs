//! Lists in pages and at revisions; watches with initial events and bookmarks.

use serde_json::{Value, json};

use crate::harness::Server;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn with_maps(count: usize) -> Server {
    let server = Server::start().await;
    for index in 0..count {
        let labels = json!({"parity": if index % 2 == 0 { "even" } else { "odd" }});
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("m{index:02}"), "labels": labels},
        });
        server.post(MAPS, &map).await.expect(201);
    }
    server
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("a list").iter();
    items
        .map(|one| {
            one["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

#[tokio::test]
async fn pages_are_consistent_whatever_happens_between_them() {
    let server = with_maps(5).await;
    let first = server.get(&format!("{MAPS}?limit=2")).await.expect(200);
    assert_eq!(names(&first), ["m00", "m01"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    server
        .delete(&format!("{MAPS}/m02"), &json!({}))
        .await
        .expect(200);
    server
        .patch(
            &format!("{MAPS}/m03"),
            "merge",
            &json!({"data": {"k": "new"}}),
        )
        .await
        .expect(200);
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let second = server
        .get(&format!("{MAPS}?limit=9&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&second), ["m02", "m03", "m04"]);
    assert!(
        second["items"][1].get("data").is_none(),
        "it is shown as it was"
    );
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    assert!(second["metadata"].get("continue").is_none());
}

#[tokio::test]
async fn an_expired_page_says_so_and_offers_to_go_on() {
    let server = with_maps(4).await;
    let first = server.get(&format!("{MAPS}?limit=2")).await.expect(200);
    let token = first["metadata"]["continue"]
        .as_str()
        .expect("a token")
        .to_owned();
    server
        .delete(&format!("{MAPS}/m03"), &json!({}))
        .await
        .expect(200);
    server
        .store
        .compact(server.store.revision())
        .await
        .expect("it compacts");
    let expired = server
        .get(&format!("{MAPS}?limit=2&continue={token}"))
        .await
        .expect(410);
    assert_eq!(expired["reason"], "Expired");
    let fresh = expired["metadata"]["continue"].as_str().expect("a token");
    let rest = server
        .get(&format!("{MAPS}?limit=2&continue={fresh}"))
        .await
        .expect(200);
    assert_eq!(names(&rest), ["m02"]);
    let old = first["metadata"]["resourceVersion"].as_str().expect("text");
    let path = format!("{MAPS}?resourceVersion={old}&resourceVersionMatch=Exact");
    assert_eq!(server.get(&path).await.expect(410)["reason"], "Expired");
    let mut watch = server
        .watch(&format!("{MAPS}?watch=1&resourceVersion={old}"))
        .await;
    let event = watch.next().await.expect("an event");
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
}

#[tokio::test]
async fn selectors_select() {
    let server = with_maps(4).await;
    let odd = server
        .get(&format!("{MAPS}?labelSelector=parity%3Dodd"))
        .await
        .expect(200);
    assert_eq!(names(&odd), ["m01", "m03"]);
    let one = server
        .get(&format!("{MAPS}?fieldSelector=metadata.name%3Dm02"))
        .await
        .expect(200);
    assert_eq!(names(&one), ["m02"]);
    let page = server
        .get(&format!("{MAPS}?labelSelector=parity%3Deven&limit=1"))
        .await
        .expect(200);
    assert_eq!(names(&page), ["m00"]);
    assert!(
        page["metadata"].get("remainingItemCount").is_none(),
        "nobody counted"
    );
    let all = server
        .get("/api/v1/configmaps?labelSelector=parity")
        .await
        .expect(200);
    assert_eq!(names(&all).len(), 4);
}

#[tokio::test]
async fn a_watch_shows_what_enters_and_leaves_its_selection() {
    let server = with_maps(2).await;
    let mut watch = server
        .watch(&format!("{MAPS}?watch=1&labelSelector=parity%3Dodd"))
        .await;
    assert_eq!(watch.brief().await, "ADDED m01");
    let parity = |to: &str| json!({"metadata": {"labels": {"parity": to}}});
    server
        .patch(&format!("{MAPS}/m00"), "merge", &parity("odd"))
        .await
        .expect(200);
    let left = server
        .patch(&format!("{MAPS}/m01"), "merge", &parity("even"))
        .await
        .expect(200);
    assert_eq!(watch.brief().await, "ADDED m00");
    let event = watch.next().await.expect("an event");
    assert_eq!(event["type"], "DELETED");
    let object = &event["object"]["metadata"];
    assert_eq!(
        object["labels"]["parity"], "odd",
        "as it was when it still matched"
    );
    assert_eq!(
        object["resourceVersion"],
        left["metadata"]["resourceVersion"]
    );
}

#[tokio::test]
async fn a_streaming_list_ends_in_a_bookmark_and_goes_on() {
    let server = with_maps(2).await;
    let query =
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = server.watch(&format!("{MAPS}?{query}")).await;
    assert_eq!(watch.brief().await, "ADDED m00");
    assert_eq!(watch.brief().await, "ADDED m01");
    let bookmark = watch.next().await.expect("an event");
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(
        bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    server
        .delete(&format!("{MAPS}/m00"), &json!({}))
        .await
        .expect(200);
    assert_eq!(watch.brief().await, "DELETED m00");
}

#[tokio::test]
async fn revisions_that_have_not_happened_are_waited_for_by_nobody() {
    let server = with_maps(1).await;
    for path in [
        format!("{MAPS}?resourceVersion=999999"),
        format!("{MAPS}?watch=1&resourceVersion=999999"),
        format!("{MAPS}/m00?resourceVersion=999999"),
    ] {
        let refused = server.get(&path).await;
        let status = refused.expect(504);
        assert_eq!(
            status["details"]["causes"][0]["reason"],
            "ResourceVersionTooLarge"
        );
        assert_eq!(refused.headers["retry-after"], "1");
    }
}

#[tokio::test]
async fn a_watch_begins_with_what_was_there_however_late_it_is_read() {
    let server = with_maps(90).await;
    let mut watch = server.watch(&format!("{MAPS}?watch=1")).await;
    server
        .delete(&format!("{MAPS}/m89"), &json!({}))
        .await
        .expect(200);
    let late = json!({"kind": "ConfigMap", "metadata": {"name": "a-late-one"}});
    server.post(MAPS, &late).await.expect(201);
    for i in 0..90 {
        assert_eq!(watch.brief().await, format!("ADDED m{i:02}"));
    }
    assert_eq!(watch.brief().await, "DELETED m89");
    assert_eq!(watch.brief().await, "ADDED a-late-one");
}

#[tokio::test]
async fn one_name_is_looked_up_now_and_then() {
    let server = with_maps(3).await;
    let named = |more: &str| format!("{MAPS}?fieldSelector=metadata.name%3Dm01{more}");
    let list = server.get(&named("")).await.expect(200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let before = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    server
        .delete(&format!("{MAPS}/m01"), &json!({}))
        .await
        .expect(200);
    let now = server.get(&named("")).await.expect(200);
    assert_eq!(now["items"], json!([]));
    let then = named(&format!(
        "&resourceVersion={before}&resourceVersionMatch=Exact"
    ));
    let then = server.get(&then).await.expect(200);
    assert_eq!(then["items"][0]["metadata"]["name"], "m01");
    let other = server
        .get(&named("&labelSelector=no%3Dsuch"))
        .await
        .expect(200);
    assert_eq!(other["items"], json!([]));
    let mut watch = server.watch(&named("&watch=1")).await;
    for name in ["m03", "m01"] {
        let map = json!({"kind": "ConfigMap", "metadata": {"name": name}});
        server.post(MAPS, &map).await;
    }
    assert_eq!(watch.brief().await, "ADDED m01");
    let everywhere = "/api/v1/configmaps?fieldSelector=metadata.name%3Dm00";
    let everywhere = server.get(everywhere).await.expect(200);
    assert_eq!(everywhere["items"].as_array().map(Vec::len), Some(1));
}
