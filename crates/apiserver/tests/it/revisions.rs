//! Answers to writes say from which revision on they are visible.

use serde_json::json;

use crate::harness::{Reply, Server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn said(reply: &Reply) -> Option<u64> {
    let header = reply.headers.get("deltaplane-revision")?;
    header.to_str().ok()?.parse().ok()
}

/// Every way of writing is tried in `admission`.
#[tokio::test]
async fn what_changes_nothing_was_visible_before() {
    let server = Server::start().await;
    let map = json!({"metadata": {"name": "m", "finalizers": ["example.com/held"]}});
    let made = said(&server.post(MAPS, &map).await);
    assert_eq!(made, Some(server.store.revision().get()));
    let other = json!({"metadata": {"name": "other"}});
    server.post(MAPS, &other).await.expect(201);
    let one = &format!("{MAPS}/m");
    let (nothing, dry) = (json!({}), format!("{one}?dryRun=All"));
    assert_eq!(said(&server.patch(one, "merge", &nothing).await), made);
    assert_eq!(said(&server.patch(&dry, "merge", &nothing).await), None);

    let marked = said(&server.delete(one, &nothing).await);
    assert!(marked > made);
    server
        .delete(&format!("{MAPS}/other"), &nothing)
        .await
        .expect(200);
    assert_eq!(said(&server.delete(one, &nothing).await), marked);
    assert_eq!(said(&server.delete(&dry, &nothing).await), None);
}

#[tokio::test]
async fn what_writes_nothing_says_nothing() {
    let server = Server::start().await;
    let map = json!({"metadata": {"name": "m"}});
    server.post(MAPS, &map).await.expect(201);
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let replies = [
        server.get(MAPS).await,
        server.get(&format!("{MAPS}/m")).await,
        server.post(MAPS, &map).await,
        server.delete(&format!("{MAPS}/none"), &json!({})).await,
        server.post(review, &json!({})).await,
    ];
    for reply in replies {
        assert_eq!(said(&reply), None, "{:?}", reply.bytes);
    }
}
