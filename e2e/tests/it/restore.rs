//! A hub that is restored to an earlier state than its zones followed: it rewinds nobody, and a person
//! settles which side is right.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Output;

use deltaplane_client::request::{self, Patch};
use deltaplane_e2e::Server;
use deltaplane_e2e::ports::Port;
use kube::Client;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fleet::world::{
    FLEET, NAMESPACE, client, copy, cross, delete, deltaplane, objects, put, run, start, until,
    until_done, until_gone, until_there,
};

/// A hub and three zones, each in a process of its own. `front` is governed by the policy `web`: the
/// zone `a` is its canary, the others wait for an approval.
struct RestoredFleet {
    hub: Option<Server>,
    hub_words: Vec<String>,
    hub_client: Client,
    zones: BTreeMap<&'static str, Client>,
    servers: BTreeMap<&'static str, Server>,
    dir: TempDir,
    _port: Port,
}

const ZONES: [&str; 3] = ["a", "b", "c"];

fn contents(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    let entry = |(name, content): &(&str, &str)| ((*name).to_owned(), (*content).to_owned());
    entries.iter().map(entry).collect()
}

/// What everybody has before the backup, and after all that was done since.
fn before() -> BTreeMap<String, String> {
    contents(&[("deleted", "1"), ("front", "1"), ("plain", "1")])
}

fn after() -> BTreeMap<String, String> {
    contents(&[("front", "2"), ("new", "1"), ("plain", "2")])
}

/// Where the Secret is that is made after the backup.
fn secret_path() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets/tls")
}

fn policy() -> Value {
    json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web"},
        "spec": {
            "targets": [{"kind": "ConfigMap", "names": ["front"]}],
            "stages": [
                {"name": "canary", "zones": {"matchLabels": {"tier": "canary"}}},
                {"name": "rest", "approval": "Required"},
            ],
        },
    })
}

// === impl RestoredFleet ===

impl RestoredFleet {
    async fn start() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let dir = tempfile::tempdir().expect("a temporary directory");
        let port = Port::reserve();
        let address = port.address().to_string();
        let hub_words = ["hub", "--listen", &address].map(str::to_owned).to_vec();
        let hub = start(hub_words.clone(), dir.path().join("hub")).await;
        let hub_client = client(hub.kubeconfig()).await;
        let mut fleet = Self {
            hub: Some(hub),
            hub_words,
            hub_client,
            zones: BTreeMap::new(),
            servers: BTreeMap::new(),
            dir,
            _port: port,
        };
        fleet.author().await;
        for zone in ZONES {
            fleet.join(zone).await;
        }
        fleet
    }

    async fn author(&self) {
        let hub = &self.hub_client;
        cross(hub).await;
        let secrets = json!({
            "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
            "metadata": {"name": "secrets"},
            "spec": {"kind": "Secret", "direction": "HubToZone", "onWithdraw": "Delete"},
        });
        let kinds = format!("{FLEET}/syncedkinds");
        let _: Value = until_done(|| request::create(hub, &kinds, &secrets)).await;
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let _: Value = until_done(|| request::create(hub, "/api/v1/namespaces", &namespace)).await;
        let policies = format!("{FLEET}/propagationpolicies");
        let policy = policy();
        let _: Value = until_done(|| request::create(hub, &policies, &policy)).await;
        for (name, content) in before() {
            put(hub, &name, &content).await;
        }
    }

    async fn join(&mut self, zone: &'static str) {
        let join = self.deltaplane(&["token", "create", "--zone", zone]).await;
        let tier = if zone == "a" { "canary" } else { "rest" };
        let labels = json!({"metadata": {"labels": {"tier": tier}}});
        let path = format!("{FLEET}/zones/{zone}");
        let _: Value =
            until_done(|| request::patch(&self.hub_client, &path, Patch::Merge, &labels)).await;
        let words = ["zone", "--join", join.trim()];
        self.start_zone(zone, &words).await;
    }

    async fn start_zone(&mut self, zone: &'static str, words: &[&str]) {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let server = start(words, self.dir.path().join(zone)).await;
        self.zones.insert(zone, client(server.kubeconfig()).await);
        self.servers.insert(zone, server);
    }

    /// Ends the process of a zone without notice, and starts another.
    async fn restart_zone(&mut self, zone: &'static str) {
        self.servers.remove(zone).expect("it runs").kill();
        self.start_zone(zone, &["zone"]).await;
    }

    fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("hub").join("kubeconfig")
    }

    async fn deltaplane(&self, words: &[&str]) -> String {
        deltaplane(words, &self.kubeconfig()).await
    }

    async fn run(&self, words: &[&str]) -> Output {
        run(words, &self.kubeconfig()).await
    }

    /// Approves a release for the last stage, and waits until all have it.
    async fn approve(&self, release: u64) {
        let path = format!("{FLEET}/releases/web-{release}");
        until_there(&self.hub_client, &path, |_| true).await;
        let release = release.to_string();
        let words = ["rollout", "approve", "web", "--stage", "rest", "--release"];
        let words: Vec<&str> = words.into_iter().chain([release.as_str()]).collect();
        self.deltaplane(&words).await;
    }

    /// Waits until all zones have this, and nothing else.
    async fn all_have(&self, expected: &BTreeMap<String, String>) {
        for (zone, client) in &self.zones {
            until(client, zone, |seen| seen == expected).await;
        }
    }

    async fn condition(&self, path: &str, of: &'static str, reason: &'static str) {
        until_there(&self.hub_client, path, |object| {
            let conditions = object["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|one| one["type"] == of && one["reason"] == reason)
        })
        .await;
    }

    async fn get(&self, path: &str) -> Value {
        until_done(|| request::get(&self.hub_client, path)).await
    }

    /// Makes a backup, goes on, and puts the backup back.
    async fn restore(&mut self) {
        self.approve(1).await;
        self.all_have(&before()).await;
        self.condition(
            &format!("{FLEET}/propagationpolicies/web"),
            "Propagated",
            "Propagated",
        )
        .await;
        self.back_up().await;
        put(&self.hub_client, "front", "2").await;
        self.approve(2).await;
        put(&self.hub_client, "plain", "2").await;
        put(&self.hub_client, "new", "1").await;
        delete(&self.hub_client, "deleted").await;
        self.make_secret().await;
        self.all_have(&after()).await;
        self.condition(
            &format!("{FLEET}/propagationpolicies/web"),
            "Propagated",
            "Propagated",
        )
        .await;
        self.put_backup_back().await;
    }

    /// Makes a backup of the hub, which goes on.
    async fn back_up(&mut self) {
        let hub_dir = self.dir.path().join("hub");
        self.hub.take().expect("it runs").terminate();
        copy(&hub_dir, &self.dir.path().join("backup"));
        self.hub = Some(start(self.hub_words.clone(), hub_dir).await);
    }

    async fn put_backup_back(&mut self) {
        let hub_dir = self.dir.path().join("hub");
        self.hub.take().expect("it runs").terminate();
        std::fs::remove_dir_all(&hub_dir).expect("removed");
        copy(&self.dir.path().join("backup"), &hub_dir);
        self.hub = Some(start(self.hub_words.clone(), hub_dir).await);
    }

    /// Makes a Secret that crosses, and waits until all zones have it.
    async fn make_secret(&self) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": {"key": "1"},
            "metadata": {
                "name": "tls", "namespace": NAMESPACE, "labels": {"deltaplane.io/sync": "true"},
            },
        });
        let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets");
        let _: Value = until_done(|| request::create(&self.hub_client, &path, &secret)).await;
        for client in self.zones.values() {
            until_there(client, &secret_path(), |_| true).await;
        }
    }

    /// Makes an account that may read everything, and settle zones; returns its kubeconfig.
    async fn reader(&self) -> PathBuf {
        const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
        const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "reader"},
            "rules": [
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": ["fleet.deltaplane.io"], "resources": ["zones/_reconcile"], "verbs": ["create"]},
            ],
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
            // At the hub, and as the zones call it.
            "subjects": [
                {"kind": "User", "name": "system:serviceaccount:default:reader"},
                {"kind": "User", "name": "hub:system:serviceaccount:default:reader"},
            ],
        });
        let hub = &self.hub_client;
        for client in self.zones.values().chain([hub]) {
            for (path, object) in [("clusterroles", &role), ("clusterrolebindings", &binding)] {
                let path = format!("{RBAC}/{path}");
                let _: Value = until_done(|| request::create(client, &path, object)).await;
            }
        }
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}});
        let _: Value = until_done(|| request::create(hub, ACCOUNTS, &account)).await;
        let path = format!("{ACCOUNTS}/reader/token");
        let asked =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let issued: Value = until_done(|| request::create(hub, &path, &asked)).await;
        let config = Kubeconfig::read_from(self.kubeconfig()).expect("a kubeconfig");
        let mut config = serde_json::to_value(config).expect("JSON");
        config["users"][0]["user"] = json!({"token": issued["status"]["token"]});
        let path = self.dir.path().join("reader");
        std::fs::write(&path, config.to_string()).expect("written");
        path
    }

    /// Waits until the hub counts the objects that differ in a zone.
    async fn counts(&self, zone: &str, counts: &Value) {
        let path = format!("{FLEET}/zones/{zone}/_reconcile");
        until_there(&self.hub_client, &path, |said| {
            said["diverged"] == true && said["counts"] == *counts
        })
        .await;
    }

    async fn restart_hub(&mut self) {
        self.hub.take().expect("it runs").terminate();
        let hub_dir = self.dir.path().join("hub");
        self.hub = Some(start(self.hub_words.clone(), hub_dir).await);
    }

    /// All zones keep what they have, and everybody says why.
    async fn diverges(&self) {
        for zone in ZONES {
            let counts = json!({"changed": 2, "onlyAtHub": 1, "onlyInZone": 2});
            self.counts(zone, &counts).await;
            let zone_path = format!("{FLEET}/zones/{zone}");
            self.condition(&zone_path, "Diverged", "HubRestored").await;
            let sync = self.get(&format!("{zone_path}/_sync")).await;
            assert_eq!(sync["sent"]["responses"], 0, "{sync:#}");
        }
        let policy = format!("{FLEET}/propagationpolicies/web");
        self.condition(&policy, "Propagated", "Diverged").await;
        let zones = self.deltaplane(&["zones"]).await;
        assert_eq!(zones.matches("diverged").count(), 3, "{zones}");
        for client in self.zones.values() {
            assert_eq!(objects(client).await, after());
        }
        assert_eq!(objects(&self.hub_client).await, before());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn zones_follow_a_restored_hub_once_somebody_settles_it() {
    let mut fleet = RestoredFleet::start().await;
    fleet.restore().await;
    fleet.diverges().await;
    let plan = ["zones", "reconcile", "--all", "--keep", "hub", "--dry-run"];
    let shown = fleet.deltaplane(&plan).await;
    for line in [
        "a      ConfigMap   team/deleted   only at the hub    -        the hub's in the zone",
        "a      ConfigMap   team/front     changed            web      the hub's in the zone, with a new release",
        "a      ConfigMap   team/new       only in the zone   -        deleted in the zone at once, within its budget",
        "a      ConfigMap   team/plain     changed            -        the hub's in the zone",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    fleet.diverges().await;
    fleet.deltaplane(&plan[..5]).await;
    // What no policy governs follows at once; the canary gets the new release, and the others wait.
    let mut canary = before();
    until(&fleet.zones["a"], "a", |seen| *seen == canary).await;
    canary.insert("front".to_owned(), "2".to_owned());
    for zone in ["b", "c"] {
        until(&fleet.zones[zone], zone, |seen| *seen == canary).await;
    }
    let policy = format!("{FLEET}/propagationpolicies/web");
    until_there(&fleet.hub_client, &policy, |policy| {
        let rest = &policy["status"]["stages"][1];
        policy["status"]["release"] == 3 && rest["waiting"][0]["reason"] == "ApprovalRequired"
    })
    .await;
    for zone in ["b", "c"] {
        assert_eq!(objects(&fleet.zones[zone]).await, canary, "{zone}");
    }
    until_gone(&fleet.hub_client, &format!("{FLEET}/releases/web-2")).await;
    fleet.approve(3).await;
    fleet.all_have(&before()).await;
    let zone = fleet.get(&format!("{FLEET}/zones/a")).await;
    let followed = zone["status"]["reconciled"]["revision"].as_u64();
    let followed = followed.expect("what was settled");
    let now = zone["metadata"]["resourceVersion"].as_str();
    let now: u64 = now.and_then(|text| text.parse().ok()).expect("a number");
    assert!(now > followed, "what zones followed is not given out twice");
    // It stays settled.
    put(&fleet.hub_client, "later", "1").await;
    let mut later = before();
    later.insert("later".to_owned(), "1".to_owned());
    fleet.all_have(&later).await;
    let again = fleet
        .run(&["zones", "reconcile", "a", "--keep", "hub"])
        .await;
    assert_eq!(again.status.code(), Some(1), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_hub_takes_over_what_zones_have() {
    let mut fleet = RestoredFleet::start().await;
    fleet.restore().await;
    fleet.diverges().await;
    let words = ["zones", "reconcile", "--all", "--keep", "zone"];
    fleet.deltaplane(&words).await;
    until(&fleet.hub_client, "hub", |seen| *seen == after()).await;
    fleet.all_have(&after()).await;
    let policy = format!("{FLEET}/propagationpolicies/web");
    until_there(&fleet.hub_client, &policy, |policy| {
        policy["status"]["release"].as_u64() >= Some(3)
    })
    .await;
    for zone in ZONES {
        let path = format!("{FLEET}/zones/{zone}/_reconcile");
        until_there(&fleet.hub_client, &path, |said| {
            said["connected"] == true && said["diverged"] == false
        })
        .await;
    }
    // The label that lets it cross does not cross itself.
    let secret = fleet.get(&secret_path()).await;
    assert_eq!(secret["metadata"]["labels"]["deltaplane.io/sync"], "true");
    // Zones follow on, and what they had is not sent again.
    put(&fleet.hub_client, "later", "1").await;
    let mut later = after();
    later.insert("later".to_owned(), "1".to_owned());
    fleet.all_have(&later).await;
    let path = secret_path();
    let sent = fleet.get(&path).await;
    for (zone, client) in &fleet.zones {
        let kept: Value = until_done(|| request::get(client, &path)).await;
        assert_eq!(kept["data"], sent["data"], "{zone}");
    }
}

/// `--keep zone` writes at the hub as its caller, and not with rights of the hub.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_may_not_write_takes_nothing_over() {
    let mut fleet = RestoredFleet::start().await;
    fleet.restore().await;
    fleet.diverges().await;
    let reader = fleet.reader().await;
    let words = ["zones", "reconcile", "--all", "--keep", "zone"];
    let refused = run(&words, &reader).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let told = String::from_utf8_lossy(&refused.stderr);
    for verb in ["create", "delete", "update"] {
        let why = format!("reader\" cannot {verb} resource \"configmaps\"");
        assert!(told.contains(&why), "{told}");
    }
    fleet.diverges().await;
}

/// What the hub got since it was restored, no zone can have deleted. The hub is restarted meanwhile:
/// it does not know by itself which of its openings came after the restore.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_hub_keeps_what_it_got_since_and_names_zones_that_are_away() {
    let mut fleet = RestoredFleet::start().await;
    fleet.restore().await;
    fleet.diverges().await;
    put(&fleet.hub_client, "later", "1").await;
    fleet.servers.remove("c").expect("it runs").terminate();
    fleet.restart_hub().await;
    put(&fleet.hub_client, "latest", "1").await;
    let counts = json!({"changed": 2, "onlyAtHub": 3, "onlyInZone": 2});
    for zone in ["a", "b"] {
        fleet.counts(zone, &counts).await;
    }
    let zones = fleet.deltaplane(&["zones"]).await;
    assert!(zones.contains("away, diverged"), "{zones}");
    let all = ["zones", "reconcile", "--all", "--keep", "zone"];
    let settled = fleet.run(&all).await;
    assert_eq!(settled.status.code(), Some(1), "{settled:?}");
    let told = String::from_utf8_lossy(&settled.stderr);
    let line = "zone c was not settled: it is not connected; start it, and reconcile it then\n";
    assert!(told.contains(line), "{told}");
    let mut expected = after();
    for name in ["later", "latest"] {
        expected.insert(name.to_owned(), "1".to_owned());
    }
    until(&fleet.hub_client, "hub", |seen| *seen == expected).await;
    for zone in ["a", "b"] {
        until(&fleet.zones[zone], zone, |seen| *seen == expected).await;
    }
    // One by one it is no other.
    let one = ["zones", "reconcile", "c", "--keep", "zone"];
    let refused = fleet.run(&one).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    fleet.start_zone("c", &["zone"]).await;
    let counts = json!({"changed": 0, "onlyAtHub": 2, "onlyInZone": 0});
    fleet.counts("c", &counts).await;
    let shown = fleet.deltaplane(&one).await;
    let line = "c      ConfigMap   team/later    only at the hub   -        the hub's in the zone: created there since";
    assert!(shown.contains(line), "{shown}");
    until(&fleet.hub_client, "hub", |seen| *seen == expected).await;
    fleet.all_have(&expected).await;
}

/// The hub refuses to write the governed object, which is immutable there, until it is made anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_hub_takes_over_in_a_second_run_what_it_could_not_write() {
    let mut fleet = RestoredFleet::start().await;
    fleet.restore().await;
    fleet.diverges().await;
    let front = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/front");
    let locked = json!({"immutable": true});
    let _: Value =
        until_done(|| request::patch(&fleet.hub_client, &front, Patch::Merge, &locked)).await;
    let words = ["zones", "reconcile", "--all", "--keep", "zone"];
    let first = fleet.run(&words).await;
    assert_eq!(first.status.code(), Some(1), "{first:?}");
    let told = String::from_utf8_lossy(&first.stderr);
    assert!(
        told.contains("ConfigMap team/front was not written at the hub"),
        "{told}"
    );
    let mut partly = after();
    partly.insert("front".to_owned(), "1".to_owned());
    until(&fleet.hub_client, "hub", |seen| *seen == partly).await;
    delete(&fleet.hub_client, "front").await;
    until(&fleet.hub_client, "hub", |seen| !seen.contains_key("front")).await;
    put(&fleet.hub_client, "front", "1").await;
    // What is left is still listed, and nothing else.
    for zone in ZONES {
        let counts = json!({"changed": 1, "onlyAtHub": 0, "onlyInZone": 0});
        fleet.counts(zone, &counts).await;
        assert_eq!(objects(&fleet.zones[zone]).await, after(), "{zone}");
    }
    let second = fleet.run(&words).await;
    assert_eq!(second.status.code(), Some(0), "{second:?}");
    until(&fleet.hub_client, "hub", |seen| *seen == after()).await;
    // Zones follow on, and keep what they have.
    put(&fleet.hub_client, "later", "1").await;
    let mut later = after();
    later.insert("later".to_owned(), "1".to_owned());
    fleet.all_have(&later).await;
}

/// The stage of the other zones waited for its approval when the hub was lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_only_the_canary_was_sent_keeps_no_other_zone_from_being_settled() {
    let mut fleet = RestoredFleet::start().await;
    let policy = format!("{FLEET}/propagationpolicies/web");
    let targets = json!([{"kind": "ConfigMap", "names": ["front", "born"]}]);
    let change = json!({"spec": {"targets": targets}});
    let _: Value =
        until_done(|| request::patch(&fleet.hub_client, &policy, Patch::Merge, &change)).await;
    fleet.approve(1).await;
    fleet.all_have(&before()).await;
    fleet.condition(&policy, "Propagated", "Propagated").await;
    fleet.back_up().await;
    put(&fleet.hub_client, "born", "1").await;
    put(&fleet.hub_client, "new", "1").await;
    let mut others = before();
    others.insert("new".to_owned(), "1".to_owned());
    let mut canary = others.clone();
    canary.insert("born".to_owned(), "1".to_owned());
    for (zone, client) in &fleet.zones {
        let expected = if *zone == "a" { &canary } else { &others };
        until(client, zone, |seen| seen == expected).await;
    }
    fleet.put_backup_back().await;
    for (zone, only_in_zone) in [("a", 2), ("b", 1), ("c", 1)] {
        let counts = json!({"changed": 0, "onlyAtHub": 0, "onlyInZone": only_in_zone});
        fleet.counts(zone, &counts).await;
    }
    let words = ["zones", "reconcile", "--all", "--keep", "zone"];
    let ran = fleet.run(&words).await;
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    until(&fleet.hub_client, "hub", |seen| *seen == canary).await;
    // The others are sent it when somebody approves that.
    for zone in ["b", "c"] {
        assert_eq!(objects(&fleet.zones[zone]).await, others, "{zone}");
    }
    // The release that has it comes after one that was made when numbers were raised.
    until_there(&fleet.hub_client, &policy, |policy| {
        let newest = policy["status"]["release"].as_u64();
        policy["status"]["objects"] == 2 && newest >= Some(3)
    })
    .await;
    let release = fleet.get(&policy).await["status"]["release"].as_u64();
    fleet.approve(release.expect("a release")).await;
    fleet.all_have(&canary).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zones_that_restart_while_diverged_say_what_they_have_and_upload() {
    let mut fleet = RestoredFleet::start().await;
    fleet.restore().await;
    fleet.diverges().await;
    for zone in ZONES {
        fleet.restart_zone(zone).await;
    }
    let plan = ["zones", "reconcile", "--all", "--keep", "hub", "--dry-run"];
    let shown = fleet.deltaplane(&plan).await;
    for name in ["team/deleted", "team/front", "team/new", "team/plain"] {
        assert_eq!(shown.matches(name).count(), ZONES.len(), "{shown}");
    }
    fleet.diverges().await;
    put(&fleet.zones["a"], "own", "1").await;
    until(&fleet.hub_client, "hub", |seen| seen.contains_key("a.own")).await;
    fleet.deltaplane(&plan[..5]).await;
    let mut canary = before();
    canary.insert("own".to_owned(), "1".to_owned());
    until(&fleet.zones["a"], "a", |seen| *seen == canary).await;
}
