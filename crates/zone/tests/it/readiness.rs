//! How what came from the hub fares in a zone, as the hub hears of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::SystemTime;

use deltaplane_client::request::{self, Patch};
use deltaplane_fleet::readiness::Verdict;
use deltaplane_sync::{
    Asked, AskedPolicy, AskedSelector, AskedTarget, ObjectName, READINESS, SyncKind, VERSION,
    Version, ZoneName,
};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::world::{PATIENCE, World, ZONE, get};

const MAPS: &str = "/api/v1/namespaces/team/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/team/deployments";
const GRAPHS: &str = "/apis/kro.run/v1alpha1/resourcegraphdefinitions";
const SHOPS: &str = "/apis/kro.run/v1alpha1/namespaces/team/shops";

const SECRETS: &str = "/api/v1/namespaces/team/secrets";

/// The log of one thread.
#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

fn zone() -> ZoneName {
    ZONE.parse().expect("legal")
}

fn kind(group: &str, kind: &str) -> SyncKind {
    SyncKind::new(group, kind).expect("legal")
}

fn name(text: &str) -> ObjectName {
    text.parse().expect("legal")
}

fn target(kind: &SyncKind, ready_when: &[&str]) -> AskedTarget {
    AskedTarget {
        kind: kind.clone(),
        names: BTreeSet::new(),
        selector: AskedSelector::everything(),
        ready_when: ready_when.iter().map(|one| (*one).to_owned()).collect(),
    }
}

async fn create(client: &Client, path: &str, object: Value) {
    let made = request::create::<Value>(client, path, &object).await;
    made.expect("made");
}

async fn change(client: &Client, path: &str, change: Value) {
    let changed = request::patch::<Value>(client, path, Patch::Merge, &change).await;
    changed.expect("changed");
}

async fn delete(client: &Client, path: &str) {
    let deleted = request::delete(client, path, &json!({})).await;
    deleted.expect("deleted");
}

fn map(name: &str) -> Value {
    let metadata = json!({"name": name});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}})
}

fn deployment(image: &str) -> Value {
    let app = json!({"app": "web"});
    let containers = json!([{"name": "web", "image": image}]);
    let template = json!({"metadata": {"labels": app}, "spec": {"containers": containers}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": app}, "template": template},
    })
}

/// A graph of one Deployment.
fn graph(image: &str) -> Value {
    let app = json!({"app": "${schema.metadata.name}"});
    let containers = json!([{"name": "web", "image": image}]);
    let template = json!({"metadata": {"labels": app}, "spec": {"containers": containers}});
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "${schema.metadata.name}"},
        "spec": {"replicas": 1, "selector": {"matchLabels": app}, "template": template},
    });
    let ready = "${web.status.availableReplicas == web.spec.replicas}";
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "Shop", "spec": {"name": "string"}},
            "resources": [{"id": "web", "readyWhen": [ready], "template": web}],
        },
    })
}

fn shop(name: &str) -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "Shop",
        "metadata": {"name": name}, "spec": {"name": name},
    })
}

impl World {
    fn ask(&self, targets: Vec<AskedTarget>) {
        let policies = vec![AskedPolicy {
            name: "test".to_owned(),
            targets,
        }];
        let asked = Arc::new(Asked { policies });
        self.fleet.ask(&BTreeMap::from([(zone(), asked)]));
    }

    /// Objects of this kind cross, into a namespace that is there.
    async fn crosses(&self, group: &str, kind: &str, plural: &str) {
        let name = match group {
            "" => plural.to_owned(),
            group => format!("{plural}.{group}"),
        };
        let synced = json!({
            "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
            "metadata": {"name": name},
            "spec": {"group": group, "kind": kind, "direction": "HubToZone"},
        });
        let kinds = "/apis/fleet.deltaplane.io/v1alpha1/syncedkinds";
        create(&self.here, kinds, synced).await;
    }

    async fn team(&self) {
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
        create(&self.here, "/api/v1/namespaces", team).await;
    }

    /// The version that an object has in the zone.
    async fn version(&self, path: &str) -> Option<Version> {
        let (_, object) = get(&self.there, path).await;
        let version = object["metadata"]["annotations"][VERSION].as_str()?;
        version.parse().ok()
    }

    /// Waits until an object is in the zone at another version than this.
    async fn arrived(&self, path: &str, before: Option<Version>) -> Version {
        let arrived = async {
            loop {
                let version = self.version(path).await;
                if let Some(version) = version.filter(|one| Some(*one) != before) {
                    return version;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        let arrived = tokio::time::timeout(PATIENCE, arrived).await;
        arrived.unwrap_or_else(|_| panic!("{path} did not come"))
    }

    fn verdict(&self, kind: &SyncKind, object: &str, version: Version) -> Verdict {
        let readiness = self.fleet.readiness();
        readiness.with(&zone(), |zone| zone.verdict(kind, &name(object), version))
    }

    /// Waits until the hub hears this, and nothing but the hub is asked.
    async fn until(
        &self,
        (kind, object): (&SyncKind, &str),
        version: Version,
        is: impl Fn(&Verdict) -> bool,
    ) -> Verdict {
        let mut changes = self.fleet.readiness().changes();
        let heard = async {
            loop {
                let verdict = self.verdict(kind, object, version);
                if is(&verdict) {
                    return verdict;
                }
                changes.changed().await.expect("the hub goes on");
            }
        };
        let heard = tokio::time::timeout(PATIENCE, heard).await;
        heard.unwrap_or_else(|_| panic!("{object}: {:?}", self.verdict(kind, object, version)))
    }

    /// The zone connects again.
    async fn reconnect(&self) {
        let before = self.fleet.session_of(&zone()).expect("connected").id;
        let path = format!("/apis/fleet.deltaplane.io/v1alpha1/zones/{ZONE}");
        let budget = json!({"spec": {"deletionBudget": {"max": 77}}});
        change(&self.here, &path, budget).await;
        let again = async {
            loop {
                let session = self.fleet.session_of(&zone()).expect("connected");
                if session.id != before && session.is_open() {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, again).await;
        in_time.expect("connected again");
    }
}

fn is_ready(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Ready { .. })
}

fn waits(with: &str) -> impl Fn(&Verdict) -> bool {
    move |verdict| matches!(verdict, Verdict::Waiting(why) if why.contains(with))
}

fn failed(with: &str) -> impl Fn(&Verdict) -> bool {
    move |verdict| matches!(verdict, Verdict::Failed { reason, .. } if reason.contains(with))
}

fn since(verdict: &Verdict) -> SystemTime {
    let Verdict::Ready { since } = verdict else {
        panic!("{verdict:?}");
    };
    *since
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_are_ready_when_they_run_as_released() {
    let world = World::simulated().await;
    let deployments = kind("apps", "Deployment");
    world.ask(vec![target(&deployments, &[])]);
    world.crosses("apps", "Deployment", "deployments").await;
    world.team().await;
    create(&world.here, DEPLOYMENTS, deployment("web:1")).await;
    let path = format!("{DEPLOYMENTS}/web");
    let first = world.arrived(&path, None).await;
    let web = (&deployments, "team/web");
    world.until(web, first, is_ready).await;
    // An image with this tag fails.
    let broken = deployment("web:broken");
    change(&world.here, &path, json!({"spec": broken["spec"]})).await;
    let second = world.arrived(&path, Some(first)).await;
    world
        .until(web, second, failed("ProgressDeadlineExceeded"))
        .await;
    assert!(waits("speaks of version")(&world.verdict(
        &deployments,
        "team/web",
        first
    )));
    change(
        &world.here,
        &path,
        json!({"spec": deployment("web:3")["spec"]}),
    )
    .await;
    let third = world.arrived(&path, Some(second)).await;
    world.until(web, third, is_ready).await;
    delete(&world.here, &path).await;
    world.until(web, third, waits("has not said")).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_is_told_as_it_changes_and_all_of_it_to_a_new_connection() {
    let world = World::on_cluster().await;
    let maps = kind("", "ConfigMap");
    let nowhere = kind("example.com", "Nowhere");
    world.ask(vec![
        target(&maps, &["object.data.ready == 'yes'"]),
        target(&nowhere, &[]),
    ]);
    world.crosses("", "ConfigMap", "configmaps").await;
    world.team().await;
    create(&world.here, MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    let version = world.arrived(&path, None).await;
    let a = (&maps, "team/a");
    world
        .until(a, version, waits("waiting for object.data.ready"))
        .await;
    // A kind that is not there says so, and keeps nobody waiting.
    world
        .until(
            (&nowhere, "b"),
            version,
            waits("its kind is not served here"),
        )
        .await;
    // What somebody else adds here is not the hub's to change.
    change(&world.there, &path, json!({"data": {"ready": "yes"}})).await;
    let ready = world.until(a, version, is_ready).await;
    let heard = SystemTime::now();
    world.reconnect().await;
    // What was known while the zone was away stays until all was told again.
    assert!(is_ready(&world.verdict(&maps, "team/a", version)));
    create(&world.here, MAPS, map("b")).await;
    let b = world.arrived(&format!("{MAPS}/b"), None).await;
    world
        .until((&maps, "team/b"), b, waits("waiting for object.data.ready"))
        .await;
    let again = world.verdict(&maps, "team/a", version);
    assert_eq!(since(&again), since(&ready));
    assert!(since(&again) <= heard);
    // By other rules.
    world.ask(vec![target(&maps, &[])]);
    world.until((&maps, "team/b"), b, is_ready).await;
    world.ask(Vec::new());
    world.until(a, version, waits("has not said")).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_ready_when_all_its_instances_run_it_and_are() {
    let world = World::simulated().await;
    let session = world.fleet.session_of(&zone()).expect("connected");
    assert!(session.peer.features.contains(READINESS));
    let graphs = kind("kro.run", "ResourceGraphDefinition");
    world.ask(vec![target(&graphs, &[])]);
    world.team().await;
    create(&world.here, GRAPHS, graph("shop:1")).await;
    let path = format!("{GRAPHS}/shop");
    let first = world.arrived(&path, None).await;
    let shop_graph = (&graphs, "shop");
    let none =
        |verdict: &Verdict| *verdict == Verdict::NoEvidence("it has no instances here".into());
    world.until(shop_graph, first, none).await;
    let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    // The zone's own, unless the hub's has come.
    let _ = request::create::<Value>(&world.there, "/api/v1/namespaces", &team).await;
    for one in ["a", "b"] {
        create(&world.there, SHOPS, shop(one)).await;
    }
    world.until(shop_graph, first, is_ready).await;
    // What they are to become is broken; that they were ready before does not count.
    change(
        &world.here,
        &path,
        json!({"spec": graph("shop:broken")["spec"]}),
    )
    .await;
    let second = world.arrived(&path, Some(first)).await;
    world
        .until(
            shop_graph,
            second,
            waits("0 of 2 instances run it and are ready; first: team/a"),
        )
        .await;
    change(&world.here, &path, json!({"spec": graph("shop:3")["spec"]})).await;
    let third = world.arrived(&path, Some(second)).await;
    let ready = world.until(shop_graph, third, is_ready).await;
    for one in ["a", "b"] {
        let (_, web) = get(&world.there, &format!("{DEPLOYMENTS}/{one}")).await;
        let image = &web["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!((image.as_str(), &ready), (Some("shop:3"), &ready));
    }
    // One that makes no sense says so, and does not leave the hub.
    let mut wrong = graph("shop:4");
    wrong["spec"]["resources"][0]["template"]["spec"]["replicas"] = "${nothing.at.all}".into();
    let changed = request::patch::<Value>(
        &world.here,
        &path,
        Patch::Merge,
        &json!({"spec": wrong["spec"]}),
    )
    .await;
    changed.expect("definitions are judged after they are stored");
    let refused = async {
        loop {
            let (_, graph) = get(&world.here, &path).await;
            let conditions = graph["status"]["conditions"].as_array().cloned();
            let is_refused = |condition: &Value| {
                condition["type"] == "GraphAccepted" && condition["status"] == "False"
            };
            if conditions.iter().flatten().any(is_refused) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let refused = tokio::time::timeout(PATIENCE, refused).await;
    refused.expect("refused in time");
    let (_, there) = get(&world.there, &path).await;
    let replicas = &there["spec"]["resources"][0]["template"]["spec"]["replicas"];
    assert_ne!(replicas, "${nothing.at.all}");
    world.until(shop_graph, third, is_ready).await;
    world.stop().await;
}

// === impl CapturedLog ===

impl CapturedLog {
    /// Captures all that the workspace logs from now on, on every thread and at every level. A
    /// process has one subscriber for all threads, so that this is asked for once.
    fn begin() -> Self {
        let log = Self::default();
        let writer = log.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .with_filter(EnvFilter::new("deltaplane=trace"));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::set_global_default(subscriber).expect("nobody else captures");
        log
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_log_shows_nothing_of_a_secret_that_is_not_ready() {
    const PROBE: &str = "object.metadata[string(base64.decode(object.data.password))] == ''";
    let log = CapturedLog::begin();
    let world = World::start().await;
    let secrets = kind("", "Secret");
    world.ask(vec![target(&secrets, &[PROBE])]);
    world.crosses("", "Secret", "secrets").await;
    world.team().await;
    let labels = json!({"deltaplane.io/sync": "true"});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "labels": labels},
        "stringData": {"password": "hunter2"},
    });
    create(&world.here, SECRETS, secret).await;
    let version = world.arrived(&format!("{SECRETS}/a"), None).await;
    let verdict = world
        .until((&secrets, "team/a"), version, waits("Secret"))
        .await;
    assert!(!format!("{verdict:?}").contains("hunter2"), "{verdict:?}");
    world.stop().await;
    let text = log.text();
    assert!(
        text.contains("object=team/a"),
        "requests are logged:\n{text}"
    );
    // As it is written, and as it is stored.
    for value in ["hunter2", "aHVudGVyMg"] {
        assert!(!text.contains(value), "{text}");
    }
}
