//! A hub and a zone in processes of their own, and ways to wait for what they do.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use deltaplane_client::feed::{Event, Feed, Query};
use deltaplane_client::request::{self, Patch};
use deltaplane_client::{ObjectKey, Pace, RequestError, Resource};
use deltaplane_e2e::ports::Port;
use deltaplane_e2e::proxy::Proxy;
use deltaplane_e2e::server::Ended;
use deltaplane_e2e::{PATIENCE, Server, programs};
use deltaplane_runtime::identity::JoinString;
use futures::StreamExt;
use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Apart {
    hub: Option<Server>,
    zone: Option<Server>,
    proxy: Option<Proxy>,
    hub_words: Vec<String>,
    zone_listen: String,
    hub_client: Client,
    zone_client: Client,
    dir: TempDir,
    /// Of the hub and of the zone, while they are down too.
    _ports: [Port; 2],
}

pub(crate) const NAMESPACE: &str = "team";
const ZONE: &str = "eu-1";
pub(crate) const FLEET: &str = "/apis/fleet.deltaplane.io/v1alpha1";
/// How it stands with the zone.
pub(crate) const SYNC: &str = "/apis/fleet.deltaplane.io/v1alpha1/zones/eu-1/_sync";
const AGAIN: Duration = Duration::from_millis(50);

fn config_maps() -> Resource {
    Resource::namespaced("", "v1", "configmaps", "ConfigMap")
}

fn path(name: &str) -> String {
    config_maps().object_path(&ObjectKey::new(NAMESPACE, name))
}

pub(crate) async fn start(words: Vec<String>, data: PathBuf) -> Server {
    let started = tokio::task::spawn_blocking(move || {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Server::start(&words, &data)
    });
    started.await.expect("no panic").expect("ready")
}

pub(crate) async fn start_on_full_disk(words: Vec<String>, data: PathBuf) -> Server {
    let started = tokio::task::spawn_blocking(move || {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Server::start_on_full_disk(&words, &data)
    });
    started.await.expect("no panic").expect("ready")
}

pub(crate) async fn client(kubeconfig: &Path) -> Client {
    deltaplane_client::remote(kubeconfig).await.expect("usable")
}

/// Does it until it is done: servers are killed meanwhile.
pub(crate) async fn until_done<T, F>(mut act: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, RequestError>>,
{
    let mut last = None;
    let trying = async {
        loop {
            match act().await {
                Ok(done) => return done,
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    match tokio::time::timeout(2 * PATIENCE, trying).await {
        Ok(done) => done,
        // Without an error before, the last try was not answered.
        Err(_) => panic!("not done in time; before: {last:?}"),
    }
}

/// A copy of a directory, as an administrator makes it.
pub(crate) fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    command.arg("-a").arg(from).arg(to);
    assert!(command.status().expect("cp").success());
}

/// Looks until there is something like this.
pub(crate) async fn until_there(client: &Client, path: &str, done: impl Fn(&Value) -> bool) {
    let looking = async {
        loop {
            let found: Value = until_done(|| request::get(client, path)).await;
            if done(&found) {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    let there = tokio::time::timeout(2 * PATIENCE, looking);
    there.await.expect("in time");
}

/// Looks until there is nothing there.
pub(crate) async fn until_gone(client: &Client, path: &str) {
    let looking = async {
        loop {
            match request::get::<Value>(client, path).await {
                Err(error) if error.is_not_found() => return,
                Ok(_) | Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    };
    let gone = tokio::time::timeout(2 * PATIENCE, looking);
    gone.await.expect("in time");
}

fn object(name: &str, content: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"cross": "yes"}},
        "data": {"content": content},
    })
}

/// Names and contents of what crosses.
pub(crate) async fn objects(client: &Client) -> BTreeMap<String, String> {
    let list: Value = until_done(|| async {
        let path = config_maps().collection_path(Some(NAMESPACE));
        request::get(client, &format!("{path}?labelSelector=cross%3Dyes")).await
    })
    .await;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let entry = |item: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            text(&item["metadata"]["name"]),
            text(&item["data"]["content"]),
        )
    };
    items.iter().map(entry).collect()
}

/// Follows what crosses until it is as expected.
pub(crate) async fn until(
    client: &Client,
    what: &str,
    done: impl Fn(&BTreeMap<String, String>) -> bool,
) {
    let query = Query::all(config_maps())
        .in_namespace(NAMESPACE)
        .with_labels("cross=yes");
    let feed = Feed::new(client.clone(), query, Pace::system());
    let mut events = feed.events();
    let mut seen = BTreeMap::new();
    let mut in_sync = false;
    let following = async {
        while let Some(event) = events.next().await {
            match event {
                Event::Restarted => {
                    seen.clear();
                    in_sync = false;
                }
                Event::Applied(item) => {
                    let object: Value = item.parse().expect("JSON");
                    let content = object["data"]["content"].as_str().unwrap_or_default();
                    seen.insert(item.header.name.clone(), content.to_owned());
                }
                Event::Deleted(item) => {
                    seen.remove(&item.header.name);
                }
                Event::InSync => in_sync = true,
            }
            if in_sync && done(&seen) {
                return;
            }
        }
    };
    let in_time = tokio::time::timeout(2 * PATIENCE, following).await;
    assert!(in_time.is_ok(), "{what}: {seen:?}");
}

/// Waits until hub and zone have this, and nothing else.
pub(crate) async fn settled(apart: &Apart, expected: &BTreeMap<String, String>) {
    let own = |seen: &BTreeMap<String, String>| -> BTreeMap<String, String> {
        // Those of zones have a dot.
        let own = seen
            .iter()
            .filter(|(name, _)| !name.contains('.') && *name != "own");
        own.map(|(name, content)| (name.clone(), content.clone()))
            .collect()
    };
    until(&apart.hub_client, "hub", |seen| own(seen) == *expected).await;
    until(&apart.zone_client, "zone", |seen| own(seen) == *expected).await;
}

// === impl Apart ===

impl Apart {
    pub(crate) async fn start(hub: &[&str]) -> Self {
        Self::begin(hub, None).await
    }

    pub(crate) async fn start_behind(hub: &[&str], proxy: fn(SocketAddr) -> Proxy) -> Self {
        Self::begin(hub, Some(proxy)).await
    }

    async fn begin(hub: &[&str], proxy: Option<fn(SocketAddr) -> Proxy>) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let dir = tempfile::tempdir().expect("a temporary directory");
        let ports = [Port::reserve(), Port::reserve()];
        let [hub_address, zone_address] = ports.each_ref().map(Port::address);
        let mut hub_words: Vec<String> = hub.iter().map(|&word| word.to_owned()).collect();
        hub_words.extend(["--listen".to_owned(), hub_address.to_string()]);
        let hub = start(hub_words.clone(), dir.path().join("hub")).await;
        let hub_client = client(hub.kubeconfig()).await;
        let words = ["token", "create", "--zone", ZONE];
        let join = deltaplane(&words, hub.kubeconfig()).await;
        let mut join: JoinString = join.trim().parse().expect("a join string");
        let proxy = proxy.map(|proxy| proxy(hub_address));
        if let Some(proxy) = &proxy {
            let url = format!("https://{}", proxy.address());
            join.url = url.parse().expect("a URL");
        }
        prepare(&hub_client).await;
        let zone_listen = zone_address.to_string();
        let words = [
            "zone",
            "--listen",
            &zone_listen,
            "--join",
            &join.to_string(),
        ];
        let words = words.map(str::to_owned).to_vec();
        let zone = start(words, dir.path().join("zone")).await;
        Self {
            zone_client: client(zone.kubeconfig()).await,
            hub: Some(hub),
            zone: Some(zone),
            proxy,
            hub_words,
            zone_listen,
            hub_client,
            dir,
            _ports: ports,
        }
    }

    pub(crate) fn zone(&mut self) -> &mut Server {
        self.zone.as_mut().expect("it runs")
    }

    pub(crate) fn hub(&self) -> &Server {
        self.hub.as_ref().expect("it runs")
    }

    pub(crate) fn zone_client(&self) -> &Client {
        &self.zone_client
    }

    pub(crate) fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("there is one")
    }

    /// Asks the hub to stop.
    pub(crate) async fn stop_hub(&mut self) -> Ended {
        let hub = self.hub.take().expect("it runs");
        let ended = tokio::task::spawn_blocking(|| hub.terminate());
        ended.await.expect("no panic")
    }

    pub(crate) async fn kill_hub(&mut self) {
        self.hub.take().expect("it runs").kill();
    }

    pub(crate) async fn kill_zone(&mut self) {
        self.zone.take().expect("it runs").kill();
    }

    pub(crate) async fn start_hub(&mut self) {
        self.hub = Some(start(self.hub_words.clone(), self.hub_dir()).await);
    }

    /// Starts the hub, with further flags, where nothing can be written.
    pub(crate) async fn start_hub_on_full_disk(&mut self, more: &[&str]) {
        let (mut words, data) = (self.hub_words.clone(), self.hub_dir());
        words.extend(more.iter().map(|&word| word.to_owned()));
        self.hub = Some(start_on_full_disk(words, data).await);
    }

    /// Starts the zone where nothing can be written.
    pub(crate) async fn start_zone_on_full_disk(&mut self) {
        let words = ["zone", "--listen", &self.zone_listen];
        let words = words.map(str::to_owned).to_vec();
        self.zone = Some(start_on_full_disk(words, self.zone_dir()).await);
    }

    pub(crate) async fn start_zone(&mut self) {
        self.start_zone_with(&[]).await;
    }

    pub(crate) async fn start_zone_with(&mut self, more: &[&str]) {
        let mut words = vec!["zone", "--listen", &self.zone_listen];
        words.extend(more);
        let words = words.into_iter().map(str::to_owned).collect();
        self.zone = Some(start(words, self.zone_dir()).await);
    }

    /// What `deltaplane token create` prints.
    pub(crate) async fn token(&self) -> JoinString {
        let text = self.deltaplane(&["token", "create", "--zone", ZONE]).await;
        text.trim().parse().expect("a join string")
    }

    /// Its data directory.
    pub(crate) fn hub_dir(&self) -> PathBuf {
        self.dir.path().join("hub")
    }

    /// Its data directory.
    pub(crate) fn zone_dir(&self) -> PathBuf {
        self.dir.path().join("zone")
    }

    /// Another directory, which is not there yet.
    pub(crate) fn other_dir(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What `deltaplane` prints, as the hub's administrator.
    pub(crate) async fn deltaplane(&self, words: &[&str]) -> String {
        deltaplane(words, &self.hub_dir().join("kubeconfig")).await
    }

    /// Waits until `deltaplane zones show` has such a line, and gives it.
    pub(crate) async fn shows(&self, beginning: &str) -> String {
        let looking = async {
            loop {
                let shown = self.deltaplane(&["zones", "show", ZONE]).await;
                let mut lines = shown.lines();
                if let Some(line) = lines.find(|line| line.starts_with(beginning)) {
                    return line.to_owned();
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        let shown = tokio::time::timeout(2 * PATIENCE, looking).await;
        shown.expect("it is shown in time")
    }

    /// Changes the zone's object.
    pub(crate) async fn patch_zone(&self, change: &Value) {
        let path = format!("{FLEET}/zones/{ZONE}");
        let patch = || request::patch(&self.hub_client, &path, Patch::Merge, change);
        let _: Value = until_done(patch).await;
    }

    /// Deletes the zone's object.
    pub(crate) async fn delete_zone(&self) {
        let path = format!("{FLEET}/zones/{ZONE}");
        let options = json!({});
        until_done(|| request::delete(&self.hub_client, &path, &options)).await;
    }

    /// The zone loses all objects, but not who it is.
    pub(crate) async fn start_zone_empty(&mut self) {
        let data = self.dir.path().join("zone");
        std::fs::remove_dir_all(data.join("store")).expect("there was one");
        let words = ["zone", "--start-empty", "--listen", &self.zone_listen];
        let words = words.map(str::to_owned).to_vec();
        self.zone = Some(start(words, data).await);
    }

    pub(crate) fn hub_client(&self) -> &Client {
        &self.hub_client
    }

    /// What may be deleted from now on.
    pub(crate) async fn budget(&self, max: u64) {
        let budget = json!({"spec": {"deletionBudget": {"max": max, "percent": 0}}});
        self.patch_zone(&budget).await;
    }

    /// Asks the hub about the zone until it is as expected; then tells what it said.
    pub(crate) async fn until_said(&self, path: &str, done: impl Fn(&Value) -> bool) -> Value {
        let mut said = Value::Null;
        let asking = async {
            while !done(&said) {
                tokio::time::sleep(AGAIN).await;
                said = until_done(|| request::get(&self.hub_client, path)).await;
            }
        };
        let in_time = tokio::time::timeout(2 * PATIENCE, asking).await;
        assert!(in_time.is_ok(), "{path}: {said:#}");
        said
    }

    pub(crate) async fn put(&self, name: &str, content: &str) {
        put(&self.hub_client, name, content).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        delete(&self.hub_client, name).await;
    }

    /// What somebody in the zone notes on an object.
    pub(crate) async fn mark_in_zone(&self, name: &str) {
        let change = json!({"metadata": {"annotations": {"note": "mine"}}});
        let path = path(name);
        let _: Value =
            until_done(|| request::patch(&self.zone_client, &path, Patch::Merge, &change)).await;
    }

    pub(crate) async fn is_marked_in_zone(&self, name: &str) -> bool {
        let path = path(name);
        let object: Value = until_done(|| request::get(&self.zone_client, &path)).await;
        object["metadata"]["annotations"]["note"] == "mine"
    }

    pub(crate) async fn author_in_zone(&self, name: &str, content: &str) {
        let path = config_maps().collection_path(Some(NAMESPACE));
        let object = object(name, content);
        let made = request::create::<Value>(&self.zone_client, &path, &object).await;
        made.expect("the zone takes local changes");
    }

    pub(crate) async fn delete_in_zone(&self, name: &str) {
        delete(&self.zone_client, name).await;
    }

    pub(crate) async fn comes_to_hub(&self, name: &str, content: &str) {
        let name = format!("{ZONE}.{name}");
        let there =
            |seen: &BTreeMap<String, String>| seen.get(&name).map(String::as_str) == Some(content);
        until(&self.hub_client, "from the zone", there).await;
    }

    pub(crate) async fn leaves_hub(&self, name: &str) {
        let name = format!("{ZONE}.{name}");
        until(&self.hub_client, "gone", |seen| !seen.contains_key(&name)).await;
    }
}

pub(crate) async fn put(client: &Client, name: &str, content: &str) {
    let object = object(name, content);
    let path = format!("{}?fieldManager=load&force=true", path(name));
    let _: Value = until_done(|| request::apply(client, &path, &object)).await;
}

pub(crate) async fn delete(client: &Client, name: &str) {
    let path = path(name);
    until_done(|| async {
        match request::delete(client, &path, &json!({})).await {
            Err(error) if error.is_not_found() => Ok(()),
            deleted => deleted,
        }
    })
    .await;
}

/// What crosses, and how much may be deleted.
async fn prepare(hub: &Client) {
    cross(hub).await;
    let budget = json!({"spec": {"deletionBudget": {"max": 10000}}});
    let zone = format!("{FLEET}/zones/{ZONE}");
    let _: Value = until_done(|| request::patch(hub, &zone, Patch::Merge, &budget)).await;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let _: Value = until_done(|| request::create(hub, "/api/v1/namespaces", &namespace)).await;
}

/// Says what crosses.
pub(crate) async fn cross(hub: &Client) {
    let kind = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "configmaps"},
        "spec": {
            "kind": "ConfigMap", "direction": "Both",
            "selector": {"matchLabels": {"cross": "yes"}},
        },
    });
    let kinds = format!("{FLEET}/syncedkinds");
    let _: Value = until_done(|| request::create(hub, &kinds, &kind)).await;
}

/// How a command ended, and all that it said.
pub(crate) async fn run(words: &[&str], kubeconfig: &Path) -> Output {
    let mut command = Command::new(programs::deltaplane());
    command.args(words).arg("--kubeconfig").arg(kubeconfig);
    let output = tokio::task::spawn_blocking(move || command.output());
    output.await.expect("no panic").expect("it runs")
}

/// What it prints; it must succeed.
pub(crate) async fn deltaplane(words: &[&str], kubeconfig: &Path) -> String {
    let output = run(words, kubeconfig).await;
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}
