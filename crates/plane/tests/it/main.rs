//! Whole hubs, reached over TLS as users reach them.

mod early;

use std::fs;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use deltaplane_client::{Event, Feed, ObjectKey, Pace, Query, Resource, remote, request};
use deltaplane_plane::{Certificates, Plane, PlaneConfig, PlaneError, Sort};
use deltaplane_runtime::tls::Material;
use deltaplane_runtime::{Tasks, Trigger};
use futures::StreamExt;
use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);

/// A hub that runs until it is told to stop.
struct Running {
    tasks: Tasks,
    trigger: Trigger,
    client: Client,
    url: String,
}

fn directory() -> TempDir {
    // For libraries that ask for the process's provider, as the binary does it.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    tempfile::tempdir().expect("a temporary directory")
}

fn config(data: &Path) -> PlaneConfig {
    PlaneConfig::new(data.to_owned(), ([127, 0, 0, 1], 0).into())
}

async fn start(config: PlaneConfig) -> Running {
    let hub = Plane::start(config).await.expect("started");
    let client = remote(hub.kubeconfig()).await.expect("a usable kubeconfig");
    let url = hub.url().to_owned();
    let (trigger, stop) = Trigger::new();
    let tasks = Tasks::new();
    let ended = tasks.group("hub");
    ended.spawn(async move { hub.run(stop).await.expect("a clean end") });
    Running {
        tasks,
        trigger,
        client,
        url,
    }
}

impl Running {
    async fn stop(self) {
        self.trigger.stop();
        self.tasks.shutdown(PATIENCE).await.expect("ended in time");
    }
}

fn maps() -> Resource {
    Resource::namespaced("", "v1", "configmaps", "ConfigMap")
}

async fn create(client: &Client, name: &str) -> Value {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let path = maps().collection_path(Some("default"));
    request::create(client, &path, &object)
        .await
        .expect("created")
}

async fn get(client: &Client, name: &str) -> Option<Value> {
    let path = maps().object_path(&ObjectKey::new("default", name));
    request::get(client, &path).await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_acknowledged_is_kept_and_watches_resume() {
    let directory = directory();
    let data = directory.path().join("data");
    let first = start(config(&data)).await;
    let address = first
        .url
        .trim_start_matches("https://")
        .parse()
        .expect("an address");
    create(&first.client, "one").await;
    let query = Query::all(maps())
        .in_namespace("default")
        .with_labels("!other");
    let mut events = Feed::new(first.client.clone(), query, Pace::system()).events();
    let mut told = Vec::new();
    let mut until = async |wanted: Option<&str>| {
        loop {
            let next = tokio::time::timeout(PATIENCE, events.next())
                .await
                .expect("in time");
            let shown = match next.expect("a feed never ends") {
                Event::Restarted => "restart".to_owned(),
                Event::Applied(item) => item.header.name,
                Event::Deleted(item) => format!("-{}", item.header.name),
                Event::InSync => "sync".to_owned(),
            };
            told.push(shown);
            let last = told.last().map(String::as_str);
            if last == wanted.or(Some("sync")) {
                return;
            }
        }
    };
    until(None).await;
    first.stop().await;

    fs::write(data.join("kubeconfig"), "stale").expect("written");
    let second = start(PlaneConfig::new(data, address)).await;
    assert!(get(&second.client, "one").await.is_some());
    create(&second.client, "two").await;
    until(Some("two")).await;
    assert_eq!(told, ["restart", "kube-root-ca.crt", "one", "sync", "two"]);
    // With the watch still open.
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_is_for_one_hub() {
    let directory = directory();
    let data = directory.path().join("data");
    let first = start(config(&data)).await;
    let before = fs::read(data.join("kubeconfig")).expect("written");
    let Err(error) = Plane::start(config(&data)).await else {
        panic!("it is in use");
    };
    assert_eq!(error.sort(), Sort::Data);
    assert!(
        error.hint().starts_with("another deltaplane process runs"),
        "{}",
        error.hint()
    );
    assert_eq!(fs::read(data.join("kubeconfig")).expect("kept"), before);
    create(&first.client, "still-there").await;
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_hub_that_is_not_there_yet() {
    let directory = directory();
    let names = ["127.0.0.1".to_owned()];
    let now = std::time::SystemTime::now();
    let own = Material::open(&directory.path().join("own"), &names, now).expect("made");
    // A pipe: the hub, which has its data by then, goes on when it is written to.
    let pipe = directory.path().join("clients.crt");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("run");
    assert!(made.success());
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let data = directory.path().join("data");
    let config = PlaneConfig {
        client_ca: Some(pipe.clone()),
        ..PlaneConfig::new(data, address)
    };
    let operator = std::thread::spawn(move || {
        let mut pipe = fs::File::create(pipe).expect("the hub reads");
        let early = TcpStream::connect(address).map(drop);
        pipe.write_all(own.ca.as_bytes()).expect("read");
        early.map_err(|error| error.kind())
    });
    let hub = start(config).await;
    let early = operator.join().expect("no panic");
    assert_eq!(early, Err(io::ErrorKind::ConnectionRefused));
    create(&hub.client, "later").await;
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_for_one_hub() {
    let directory = directory();
    let first = start(config(&directory.path().join("a"))).await;
    let address = first
        .url
        .trim_start_matches("https://")
        .parse()
        .expect("an address");
    let data = directory.path().join("b");
    let Err(error) = Plane::start(PlaneConfig::new(data.clone(), address)).await else {
        panic!("it is in use");
    };
    assert_eq!(error.sort(), Sort::Address);
    assert!(
        error.hint().contains("--listen 127.0.0.1:0"),
        "{}",
        error.hint()
    );
    assert!(!data.exists(), "a directory was begun in vain");
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_store_is_not_an_empty_one() {
    let directory = directory();
    let data = directory.path().join("data");
    let hub = start(config(&data)).await;
    create(&hub.client, "one").await;
    hub.stop().await;
    fs::rename(data.join("store"), directory.path().join("elsewhere")).expect("moved");
    let Err(error) = Plane::start(config(&data)).await else {
        panic!("its objects are gone");
    };
    assert_eq!(error.sort(), Sort::Data);
    assert!(error.hint().contains("--start-empty"), "{}", error.hint());
    assert!(!data.join("store/store.redb").exists());
    let on_purpose = PlaneConfig {
        start_empty: true,
        ..config(&data)
    };
    let hub = start(on_purpose).await;
    assert!(get(&hub.client, "one").await.is_none());
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_data_directory_is_not_ready_until_it_is_back() {
    let directory = directory();
    let (data, elsewhere) = (directory.path().join("data"), directory.path().join("b"));
    let hub = start(config(&data)).await;
    let ready = async || {
        let answer = hub.client.request_text(
            http::Request::get("/readyz?verbose")
                .body(Vec::new())
                .expect("well-formed"),
        );
        answer.await.map_err(|error| error.to_string())
    };
    assert!(ready().await.expect("ready").contains("[+]store ok"));
    fs::rename(&data, &elsewhere).expect("moved");
    // What is written at once may go into the moved file, until the first is refused; that one the
    // client tries again and again.
    let client = hub.client.clone();
    let write = async {
        for number in 0.. {
            create(&client, &number.to_string()).await;
        }
    };
    let told = async {
        loop {
            if let Err(error) = ready().await {
                return error;
            }
        }
    };
    let told = tokio::select! {
        () = write => panic!("it never ends"),
        told = tokio::time::timeout(PATIENCE, told) => told.expect("in time"),
    };
    assert!(told.contains("moved or deleted"), "{told}");
    let alive = http::Request::get("/livez").body(Vec::new());
    let alive = hub.client.request_text(alive.expect("well-formed")).await;
    assert_eq!(alive.expect("alive"), "ok");
    fs::rename(&elsewhere, &data).expect("moved back");
    create(&hub.client, "last").await;
    assert!(get(&hub.client, "last").await.is_some());
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_certificates_are_refused() {
    let directory = directory();
    let data = directory.path().join("data");
    start(config(&data)).await.stop().await;
    fs::write(data.join("pki/ca.key"), "nonsense").expect("written");
    let Err(error) = Plane::start(config(&data)).await else {
        panic!("its key is damaged");
    };
    assert!(matches!(error, PlaneError::Material(_)), "{error:?}");
    assert!(error.hint().contains("restore"), "{}", error.hint());
    assert!(!data.join("kubeconfig").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_certificates_are_shown() {
    let directory = directory();
    let names = ["hub.example.com".to_owned(), "127.0.0.1".to_owned()];
    let now = std::time::SystemTime::now();
    let own = Material::open(&directory.path().join("own"), &names, now).expect("made");
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).expect("written");
        path
    };
    let config = PlaneConfig {
        certificates: Certificates::Given {
            certificate: file("tls.crt", &own.server.chain),
            key: file("tls.key", &own.server.key.0),
            ca: Some(file("ca.crt", &own.ca)),
        },
        client_ca: Some(file("clients.crt", &own.ca)),
        ..config(&directory.path().join("data"))
    };
    let hub = start(config).await;
    // The kubeconfig trusts the operator's authority; the hub's own would not do.
    create(&hub.client, "over-it").await;
    let root = maps().object_path(&ObjectKey::new("default", "kube-root-ca.crt"));
    let root: Value = request::get(&hub.client, &root).await.expect("made");
    assert_eq!(root["data"]["ca.crt"], json!(own.ca));
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_see_health_and_version_only() {
    let directory = directory();
    let data = directory.path().join("data");
    let hub = start(config(&data)).await;
    let mut stranger = kube::Config::new(hub.url.parse().expect("a URL"));
    let ca = fs::read_to_string(data.join("pki/ca.crt")).expect("made");
    use rustls_pki_types::pem::PemObject;
    let ca = rustls_pki_types::CertificateDer::from_pem_slice(ca.as_bytes()).expect("PEM");
    stranger.root_cert = Some(vec![ca.to_vec()]);
    let stranger = Client::try_from(stranger).expect("a client");
    let code = async |path: &str| {
        let answer = request::get::<Value>(&stranger, path).await;
        answer.err().and_then(|error| error.code())
    };
    assert_eq!(code("/version").await, None);
    assert_eq!(code("/api/v1/namespaces").await, Some(401));
    hub.stop().await;
}
