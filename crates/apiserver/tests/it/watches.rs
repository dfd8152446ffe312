//! What a watch holds while its client does not read.

use std::io::IoSlice;

use bytes::Buf;
use deltaplane_apiserver::Body;
use serde_json::{Value, json};

use crate::harness::{Server, Watching};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Two of them are more than belongs into one batch.
const LARGE: usize = 200 << 10;

fn map(name: &str, size: usize) -> Value {
    let metadata = json!({"name": name, "labels": {"stays": "yes"}});
    json!({"kind": "ConfigMap", "metadata": metadata, "data": {"text": "x".repeat(size)}})
}

async fn fill(server: &Server, name: &str, count: usize, size: usize) {
    for i in 0..count {
        let map = map(&format!("{name}-{i:02}"), size);
        server.post(MAPS, &map).await.expect(201);
    }
}

/// What was sent at once.
struct Sent {
    events: usize,
    /// Where in memory its large pieces are.
    large: Vec<*const u8>,
    /// Held, so that nothing else comes to be there.
    _batch: <Body as http_body::Body>::Data,
}

async fn batch(watch: &mut Watching) -> Sent {
    let batch = watch.batch().await.expect("the watch goes on");
    let mut slices = vec![IoSlice::new(&[]); 1000];
    let filled = batch.chunks_vectored(&mut slices);
    let slices = &slices[..filled];
    let held: usize = slices.iter().map(|slice| slice.len()).sum();
    assert_eq!(held, batch.remaining(), "all of it was looked at");
    let bytes = slices.iter().flat_map(|slice| slice.iter());
    let events = bytes.filter(|byte| **byte == b'\n').count();
    let large = slices.iter().filter(|slice| slice.len() > LARGE);
    Sent {
        events,
        large: large.map(|slice| slice.as_ptr()).collect(),
        _batch: batch,
    }
}

async fn revision(server: &Server) -> String {
    let list = server.get(&format!("{MAPS}?limit=1")).await.expect(200);
    let revision = list["metadata"]["resourceVersion"].as_str();
    revision.expect("a revision").to_owned()
}

#[tokio::test]
async fn what_exists_is_sent_in_small_batches_of_shared_objects() {
    let server = Server::start().await;
    fill(&server, "a", 70, 10).await;
    fill(&server, "b", 4, LARGE).await;
    let mut all = Vec::new();
    for query in ["watch=1", "watch=1&labelSelector=stays", "watch=1"] {
        let mut watch = server.watch(&format!("{MAPS}?{query}")).await;
        for expected in [64, 8, 2] {
            let sent = batch(&mut watch).await;
            assert_eq!(sent.events, expected, "{query}");
            all.push(sent);
        }
        server.post(MAPS, &map("c", 1)).await.expect(201);
        assert_eq!(watch.brief().await, "ADDED c");
        let path = format!("{MAPS}/c");
        server.delete(&path, &json!({})).await.expect(200);
    }
    let large: Vec<_> = all.iter().map(|sent| sent.large.as_slice()).collect();
    assert_eq!(large[..3].concat().len(), 4);
    assert_eq!(large[3..6], large[..3]);
    assert_eq!(large[6..], large[..3]);
}

#[tokio::test]
async fn what_begins_to_match_is_shared_too() {
    let server = Server::start().await;
    let from = revision(&server).await;
    let path = format!("{MAPS}?watch=1&labelSelector=stays&resourceVersion={from}");
    let mut watches = [server.watch(&path).await, server.watch(&path).await];
    fill(&server, "a", 1, LARGE).await;
    let [one, other] = &mut watches;
    let (one, other) = (batch(one).await, batch(other).await);
    assert_eq!((one.events, one.large.len()), (1, 1));
    assert_eq!(one.large, other.large);
}

#[tokio::test]
async fn what_is_made_for_one_client_is_made_in_small_batches() {
    let server = Server::start().await;
    fill(&server, "a", 5, LARGE).await;
    let from = revision(&server).await;
    let path = format!("{MAPS}?watch=1&labelSelector=stays&resourceVersion={from}");
    let mut watch = server.watch(&path).await;
    let leave = json!({"metadata": {"labels": {"stays": null}}});
    for i in 0..5 {
        let path = format!("{MAPS}/a-{i:02}");
        server.patch(&path, "merge", &leave).await.expect(200);
    }
    for expected in [2, 2, 1] {
        assert_eq!(batch(&mut watch).await.events, expected);
    }
    server.post(MAPS, &map("b", 1)).await.expect(201);
    assert_eq!(watch.brief().await, "ADDED b");
}
