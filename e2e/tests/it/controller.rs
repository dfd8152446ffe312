//! Programs on kube-rs as people write them: a controller, and an election; over TLS with the
//! kubeconfig, and in the hub's own process without a socket.

mod election;
mod teams;

use std::future::Future;
use std::time::Duration;

use deltaplane_api::identity::{Identity, MASTERS};
use deltaplane_e2e::server::Shared;
use deltaplane_e2e::{PATIENCE, Server};
use deltaplane_plane::{Plane as Hub, PlaneConfig as HubConfig};
use deltaplane_runtime::Trigger;
use kube::Client;

static SERVER: Shared = Shared::new(Server::up);

/// Runs a program against the real binary.
async fn over_tls<F: Future>(program: impl FnOnce(Client) -> F) {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let shared = tokio::task::spawn_blocking(|| SERVER.get());
    let shared = shared.await.expect("started");
    let kubeconfig = shared.server.kubeconfig();
    let client = deltaplane_client::remote(kubeconfig)
        .await
        .expect("a usable kubeconfig");
    in_time(program(client)).await;
}

/// Runs a program in the process of a hub.
async fn in_process<F: Future>(program: impl FnOnce(Client) -> F) {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = HubConfig::new(dir.path().join("data"), ([127, 0, 0, 1], 0).into());
    let hub = Hub::start(config).await.expect("started");
    let client = hub.client(Identity::authenticated("tester", &[MASTERS]));
    let (trigger, stop) = Trigger::new();
    let work = async {
        in_time(program(client)).await;
        trigger.stop();
    };
    let (ended, ()) = futures::join!(hub.run(stop), work);
    ended.expect("a clean end");
}

async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(2 * PATIENCE, future)
        .await
        .expect("in time")
}

/// How long to wait before something is tried again that failed for a reason that passes.
const AGAIN: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_over_tls() {
    over_tls(teams::scenario).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_in_process() {
    in_process(teams::scenario).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_election_over_tls() {
    over_tls(election::scenario).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_election_in_process() {
    in_process(election::scenario).await;
}
