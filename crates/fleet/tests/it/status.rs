//! What is written about zones that came or went.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use deltaplane_api::identity::Identity;
use deltaplane_client::in_process;
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::world::{World, object};

/// An API that lists these zones, though not at the first times, and passes on what is patched.
pub(crate) fn api(
    failures: u32,
    zones: Vec<Value>,
) -> (kube::Client, mpsc::UnboundedReceiver<Value>) {
    let (patched, patches) = mpsc::unbounded_channel();
    let asked = Arc::new(AtomicU32::new(0));
    let server = tower::service_fn(move |request: Request<Body>| {
        let (patched, asked, zones) = (patched.clone(), asked.clone(), zones.clone());
        async move {
            let is_list = request.method() == Method::GET;
            let is_about_zones = request.uri().path().contains("/zones");
            let (code, said) = match is_list {
                // Others ask what is served.
                true if !is_about_zones => (404, json!({})),
                true if asked.fetch_add(1, Ordering::Relaxed) < failures => (500, json!({})),
                true => (
                    200,
                    json!({"metadata": {"resourceVersion": "1"}, "items": zones}),
                ),
                false => {
                    let body = request.into_body().collect_bytes().await.expect("read");
                    let change: Value = serde_json::from_slice(&body).expect("JSON");
                    patched.send(change.clone()).expect("somebody listens");
                    (200, change)
                }
            };
            let answer = Response::builder().status(code).body(said.to_string());
            Ok::<_, Infallible>(answer.expect("a response"))
        }
    });
    let client = in_process(server, Identity::authenticated("controllers", &[]));
    (client, patches)
}

pub(crate) fn zone(name: &str, uid: &str) -> Value {
    let mut zone = object("Zone", "", name);
    zone["metadata"]["uid"] = uid.into();
    zone["status"] = json!({"connection": "Connected"});
    zone
}

#[tokio::test(start_paused = true)]
async fn zones_that_did_not_come_back_are_found_however_often_that_fails() {
    let world = World::new().await;
    let zones = [zone("a", "1"), zone("b", "1")];
    for zone in &zones {
        world.put("fleet.deltaplane.io/zones", zone).await;
    }
    // Made anew since it was listed: what was connected is not what is there.
    world
        .put("fleet.deltaplane.io/zones", &zone("a", "2"))
        .await;
    let (client, mut patches) = api(3, zones.to_vec());
    world.attach(client);
    let patch = patches.recv().await.expect("one was lost");
    assert_eq!(patch["status"]["connection"], "Disconnected");
    assert_eq!(
        patch["status"]["message"],
        "it did not come back after the hub was restarted"
    );
    // That the hub was restarted says nothing of how far the zone followed it.
    assert_eq!(patch["status"].get("conditions"), None, "{patch}");
    assert!(patches.try_recv().is_err(), "of one zone only");
}
