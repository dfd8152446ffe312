//! Control planes that are started on a disk that takes no writes: what is stored can be read, and
//! all that could not be written is written when there is room again.

use std::collections::BTreeMap;
use std::path::Path;

use deltaplane_client::request;
use deltaplane_e2e::ports::Port;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::fleet::world::{
    Apart, FLEET, client, objects, settled, start, start_on_full_disk, until_done, until_there,
};

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/edit";
const SYNCED_KIND: &str =
    "/apis/fleet.deltaplane.io/v1alpha1/syncedkinds/resourcegraphdefinitions.kro.run";
const NAMESPACES: &str = "/api/v1/namespaces";

fn contents(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    let entry = |(name, content): &(&str, &str)| ((*name).to_owned(), (*content).to_owned());
    entries.iter().map(entry).collect()
}

/// Takes away what a new version could bring: a role, and a kind that crosses.
async fn take_back_an_upgrade(hub: &Client) {
    let options = json!({});
    for path in [ROLE, SYNCED_KIND] {
        until_done(|| request::delete(hub, path, &options)).await;
    }
}

/// The status of an answer, by a client that does not ask again.
async fn status(kubeconfig: &Path, request: http::Request<Vec<u8>>) -> u16 {
    let config = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &options).await;
    let mut config = config.expect("usable");
    config.default_retry = false;
    let client = Client::try_from(config).expect("a client");
    let answer = client.send(request.map(kube::client::Body::from)).await;
    answer.expect("it answers").status().as_u16()
}

/// The status of the answer to a write.
async fn written(kubeconfig: &Path, namespace: &str) -> u16 {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let request = http::Request::post(NAMESPACES).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes());
    status(kubeconfig, request.expect("legal")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_serves_reads_on_a_full_disk_and_goes_on_when_there_is_room() {
    let mut apart = Apart::start(&["hub"]).await;
    apart.put("before", "1").await;
    settled(&apart, &contents(&[("before", "1")])).await;
    take_back_an_upgrade(apart.hub_client()).await;
    apart.stop_hub().await;
    // Under another name: neither its certificate nor the kubeconfig can be kept.
    let named = ["--advertise-address", "hub.example"];
    apart.start_hub_on_full_disk(&named).await;
    let (hub, kubeconfig) = (apart.hub_client(), apart.hub_dir().join("kubeconfig"));
    assert_eq!(objects(hub).await, contents(&[("before", "1")]));
    assert_eq!(written(&kubeconfig, "new").await, 503);
    assert_eq!(written(&kubeconfig, "default").await, 409);
    // A client that asks as the command line does is told why, too.
    let token = format!("{FLEET}/zones/eu-1/_token");
    let refused = request::create::<Value>(hub, &token, &json!({})).await;
    let refused = refused.expect_err("nothing can be written");
    let why = refused.refusal().map(|refusal| refusal.message.as_str());
    let expected = "the write could not be stored: I/O error: File too large (os error 27)";
    assert_eq!(why, Some(expected), "{refused}");
    for path in [ROLE, SYNCED_KIND] {
        let missing = request::get::<Value>(hub, path).await;
        assert!(missing.is_err_and(|error| error.is_not_found()), "{path}");
    }
    // It would not know of this opening if it were restored to an earlier state.
    let through = http::Request::get("/zones/eu-1/version").body(Vec::new());
    assert_eq!(status(&kubeconfig, through.expect("legal")).await, 503);

    apart.hub().free_disk();
    apart.put("after", "2").await;
    settled(&apart, &contents(&[("after", "2"), ("before", "1")])).await;
    until_there(apart.hub_client(), ROLE, |role| role["rules"].is_array()).await;
    until_there(apart.hub_client(), SYNCED_KIND, |kind| {
        kind["spec"].is_object()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_serves_reads_on_a_full_disk_and_goes_on_when_there_is_room() {
    let mut apart = Apart::start(&["hub"]).await;
    apart.put("before", "1").await;
    settled(&apart, &contents(&[("before", "1")])).await;
    apart.kill_zone().await;
    apart.start_zone_on_full_disk().await;
    assert_eq!(
        objects(apart.zone_client()).await,
        contents(&[("before", "1")])
    );
    let kubeconfig = apart.zone_dir().join("kubeconfig");
    assert_eq!(written(&kubeconfig, "new").await, 503);
    apart.put("after", "2").await;
    apart.zone().free_disk();
    settled(&apart, &contents(&[("after", "2"), ("before", "1")])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_and_zones_in_one_process_serve_reads_on_a_full_disk() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("up");
    let port = Port::reserve();
    let address = port.address().to_string();
    let words = ["up", "--zones", "a", "--listen", &address];
    let words = words.map(str::to_owned).to_vec();
    let up = start(words.clone(), data.clone()).await;
    let ended = tokio::task::spawn_blocking(|| up.terminate()).await;
    assert!(ended.expect("no panic").status.success());
    let up = start_on_full_disk(words, data).await;
    let hub = client(up.kubeconfig()).await;
    let _: Value = request::get(&hub, "/zones/a/api/v1/namespaces/default")
        .await
        .expect("the zone can be read through the hub");
    assert_eq!(written(up.kubeconfig(), "new").await, 503);
    let sync = format!("{FLEET}/zones/a/_sync");
    let before: Value = until_done(|| request::get(&hub, &sync)).await;
    assert!(before["protocol"].is_null(), "{before:#}");
    up.free_disk();
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}});
    for path in [NAMESPACES, "/zones/a/api/v1/namespaces"] {
        let _: Value = until_done(|| request::create(&hub, path, &object)).await;
    }
    let connected = |sync: &Value| sync["protocol"].is_number();
    until_there(&hub, &sync, connected).await;
}
