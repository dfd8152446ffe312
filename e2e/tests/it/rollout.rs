//! Rollouts: the commands, while instances of a gated graph move in a zone.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use deltaplane_api::keys;
use deltaplane_client::feed::{Event, Feed, Query};
use deltaplane_client::{ObjectKey, Pace, Resource, remote, remote_below, request};
use deltaplane_e2e::{Answer, PATIENCE, Server, programs};
use futures::StreamExt;
use kube::Client;
use serde_json::{Value, json};

/// The command line, for one hub.
struct Cli<'s> {
    kubeconfig: &'s Path,
}

/// `rollout watch`; killed when dropped.
struct Watching(Child);

// === impl Cli ===

impl Cli<'_> {
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(programs::deltaplane());
        command
            .args(line.split_whitespace())
            .env_clear()
            .env("KUBECONFIG", self.kubeconfig);
        command
    }

    fn run(&self, line: &str) -> Answer {
        let output = self.command(line).output().expect("deltaplane starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Answer {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    fn ok(&self, line: &str) -> String {
        let answer = self.run(line);
        assert_eq!(answer.code, 0, "{line}: {answer:?}");
        answer.stdout
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{line} -o json"))).expect("JSON")
    }

    /// Watches until it is complete.
    fn completes(&self, line: &str) -> String {
        self.ok(&format!("rollout watch {line} --timeout 60s"))
    }

    /// Watches until a line says this.
    fn says(&self, line: &str, expected: &str) {
        let mut command = self.command(&format!("rollout watch {line} --timeout 60s"));
        let child = command.stdout(Stdio::piped()).spawn();
        let mut watching = Watching(child.expect("deltaplane starts"));
        let stdout = watching.0.stdout.take().expect("piped");
        let mut said = String::new();
        for line in BufReader::new(stdout).lines() {
            let line = line.expect("text");
            if line.contains(expected) {
                return;
            }
            said.push_str(&line);
            said.push('\n');
        }
        panic!("it never said {expected:?}, but:\n{said}");
    }

    /// How an instance stands in the zone.
    fn state(&self, instance: &str) -> String {
        let status = self.json("rollout status shop --zone zone-a");
        let mut rows = status["instances"].as_array().into_iter().flatten();
        let row = rows.find(|row| row["instance"] == instance);
        row.expect("there")["state"]
            .as_str()
            .expect("a word")
            .to_owned()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // Fails only if it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn definitions() -> Resource {
    let (plural, kind) = ("resourcegraphdefinitions", "ResourceGraphDefinition");
    Resource::cluster("kro.run", "v1alpha1", plural, kind)
}

fn shops() -> Resource {
    Resource::namespaced("kro.run", "v1alpha1", "shops", "Shop")
}

/// Instances move one after the other; with the second image they may have trouble.
fn definition(image: &str) -> Value {
    let mut metadata = json!({"name": "${schema.metadata.name}"});
    if image == "shop:2" {
        metadata["annotations"] = json!({"deltaplane.io/simulate": "${schema.spec.trouble}"});
    }
    let app = json!({"app": "${schema.metadata.name}"});
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "shop"},
        "spec": {
            "propagateWhen": ["linearlyReady(shop, shops, 1)"],
            "schema": {
                "apiVersion": "v1alpha1", "kind": "Shop",
                "spec": {"trouble": "string | default=\"delay=0s\""},
            },
            "resources": [
                {
                    "id": "web",
                    "readyWhen": ["${web.status.availableReplicas == web.spec.replicas}"],
                    "template": {
                        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                        "spec": {
                            "replicas": 2,
                            "selector": {"matchLabels": app},
                            "template": {
                                "metadata": {"labels": app},
                                "spec": {"containers": [{"name": "web", "image": image}]},
                            },
                        },
                    },
                },
                {
                    "id": "service",
                    "template": {
                        "apiVersion": "v1", "kind": "Service",
                        "metadata": {"name": "${web.metadata.name}"},
                        "spec": {
                            "selector": "${web.spec.selector.matchLabels}",
                            "ports": [{"port": 80}],
                        },
                    },
                },
            ],
        },
    })
}

async fn apply(client: &Client, resource: &Resource, key: &ObjectKey, object: &Value) -> String {
    let path = resource.object_path(key);
    let path = format!("{path}?fieldManager=test&force=true");
    let applied: Value = request::apply(client, &path, object)
        .await
        .expect("applied");
    let version = applied["metadata"]["resourceVersion"].as_str();
    version.expect("a version").to_owned()
}

async fn define(client: &Client, image: &str) {
    let key = ObjectKey::cluster("shop");
    apply(client, &definitions(), &key, &definition(image)).await;
}

/// The revision at which all three are there.
async fn instances(client: &Client) -> String {
    let mut last = String::new();
    for (name, spec) in [
        ("a", json!({})),
        ("b", json!({"trouble": "fail"})),
        ("c", json!({})),
    ] {
        let object = json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "Shop",
            "metadata": {"name": name, "namespace": "default"}, "spec": spec,
        });
        last = apply(client, &shops(), &ObjectKey::new("default", name), &object).await;
    }
    last
}

/// Watches until an object is like this.
async fn until(client: &Client, resource: Resource, name: &str, done: impl Fn(&Value) -> bool) {
    let query = Query::all(resource).with_fields(&format!("metadata.name={name}"));
    let mut events = Feed::new(client.clone(), query, Pace::system()).events();
    let watching = async {
        while let Some(event) = events.next().await {
            if let Event::Applied(item) = event
                && item.parse().is_ok_and(|json| done(&json))
            {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, watching)
        .await
        .expect("in time");
}

/// The deployment has given up.
async fn given_up(zone: &Client) {
    let deployments = Resource::namespaced("apps", "v1", "deployments", "Deployment");
    until(zone, deployments, "b", |json| {
        let conditions = json["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let mut reasons = conditions.map(|one| &one["reason"]);
        reasons.any(|reason| reason == "ProgressDeadlineExceeded")
    })
    .await;
}

const TREE: &str = "\
shop revision 2: Shop default/b (kro.run/v1alpha1)
│  propagates when linearlyReady(shop, shops, 1)
└─ web: apps/v1 Deployment  [failed: ProgressDeadlineExceeded: simulated: ReplicaSet \"b-r9cwfwwk8m\" has timed out progressing. (deltaplane.io/simulate: fail)]
   │  ready when web.status.availableReplicas == web.spec.replicas
   └─ service: v1 Service  [blocked: by web: it failed: ProgressDeadlineExceeded: simulated: ReplicaSet \"b-r9cwfwwk8m\" has timed out progressing. (deltaplane.io/simulate: fail)]
";

#[tokio::test(flavor = "multi_thread")]
async fn instances_move_stop_and_go_back() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().to_owned();
    let server = tokio::task::spawn_blocking(move || {
        Server::start(&["up", "--zones", "zone-a"], &data).expect("ready")
    });
    let server = server.await.expect("no panic");
    let cli = Cli {
        kubeconfig: server.kubeconfig(),
    };
    let hub = remote(cli.kubeconfig).await.expect("usable");
    let zone = remote_below(cli.kubeconfig, "/zones/zone-a").await;
    let zone = zone.expect("usable");

    define(&hub, "shop:1").await;
    cli.completes("shop");
    let revision = instances(&hub).await;
    cli.ok(&format!("wait --propagated {revision} --timeout 60s"));
    let said = cli.completes("shop --zone zone-a");
    assert!(
        said.ends_with("complete: all 3 are at revision 1 (3 current)\n"),
        "{said}"
    );
    let why = cli.ok("rollout why shop --zone zone-a");
    assert_eq!(
        why,
        "nothing holds shop; complete: all 3 are at revision 1\n"
    );

    define(&hub, "shop:2").await;
    cli.says("shop", "zone-a: default/c: pending at revision 1: the gate is closed: linearlyReady(shop, shops, 1): 1 in flight (default/b)");
    given_up(&zone).await;
    stops(&cli);
    pauses_and_holds(&cli, &zone).await;
    goes_back(&cli);
}

/// One of them does not become ready, and another waits for that.
fn stops(cli: &Cli<'_>) {
    let states = ["a", "b", "c"].map(|name| cli.state(&format!("default/{name}")));
    assert_eq!(states, ["current", "failed", "pending"]);
    let status = cli.run("rollout status shop");
    assert!(
        status
            .stdout
            .starts_with("shop: stopped: complete in 0 of 1 zones\n"),
        "{status:?}"
    );
    let why = cli.ok("rollout why shop --zone zone-a");
    assert!(why.contains("\ndefault/c: kept back by the gate\n  closed: linearlyReady(shop, shops, 1): 1 in flight (default/b); 1 of 3 updated and ready\n"), "{why}");
    let why = cli.ok("rollout why shop b --zone zone-a");
    let expected = "\nin its graph\n  web failed: ProgressDeadlineExceeded: simulated: ReplicaSet \"b-r9cwfwwk8m\" has timed out progressing. (deltaplane.io/simulate: fail); service waits for it\n    Deployment b: Available is False";
    assert!(why.contains(expected), "{why}");
    let tree = cli.ok("graph tree shop/b --live --zone zone-a");
    assert!(tree.starts_with(TREE), "{tree}");
    let history = cli.json("rollout history shop --zone zone-a");
    let revisions = history["revisions"].as_array().expect("a list");
    let told = revisions
        .iter()
        .map(|one| (&one["revision"], &one["instances"], &one["target"]));
    let told: Vec<_> = told.map(|one| json!([one.0, one.1, one.2])).collect();
    assert_eq!(told, [json!([1, 1, false]), json!([2, 2, true])]);
    let then = cli.ok("rollout history shop --revision 1 --zone zone-a");
    assert!(then.contains("image: shop:1\n"), "{then}");
    for (line, error) in [
        (
            "rollout status shp",
            "error: there is no PropagationPolicy and no ResourceGraphDefinition shp\nhint: did you mean `shop`?\n",
        ),
        (
            "rollout status shop --zone zone-b",
            "error: there is no zone zone-b\nhint: deltaplane zones lists them\n",
        ),
        (
            "rollout why shop d --zone zone-a",
            "error: shop has no instance d\nhint: there are default/a, default/b, default/c\n",
        ),
        (
            "rollout undo shop --to-revision 9",
            "error: shop has no revision 9\nhint: there are 1, 2\n",
        ),
        (
            "graph tree shoe/b --live",
            "error: there is no kind shoe of a graph\nhint: there are shop\n",
        ),
    ] {
        let answer = cli.run(line);
        assert_eq!((answer.code, answer.stderr.as_str()), (1, error), "{line}");
    }
}

async fn pauses_and_holds(cli: &Cli<'_>, zone: &Client) {
    let headline = || {
        let status = cli.ok("rollout status shop --zone zone-a");
        status.lines().nth(1).expect("a second line").to_owned()
    };
    // It is said where it is from, and crosses.
    let paused = |value: Value| async move {
        let is = |object: &Value| object["metadata"]["annotations"][keys::PAUSED] == value;
        until(zone, definitions(), "shop", is).await;
    };
    cli.ok("rollout pause shop");
    paused(json!("true")).await;
    assert!(headline().starts_with("paused: "), "{}", headline());
    cli.ok("rollout resume shop");
    paused(Value::Null).await;
    assert!(headline().starts_with("stopped: "), "{}", headline());
    let held = |value: Value| async move {
        let is = |object: &Value| object["metadata"]["annotations"][keys::HOLD] == value;
        until(zone, shops(), "c", is).await;
    };
    cli.ok("rollout hold shop c -n default");
    held(json!("true")).await;
    assert_eq!(cli.state("default/c"), "held");
    cli.ok("rollout hold shop default/c --until 2999-01-01T00:00:00Z");
    held(json!("2999-01-01T00:00:00Z")).await;
    cli.ok("rollout release shop c");
    held(Value::Null).await;
    assert_eq!(cli.state("default/c"), "pending");
    // Or to a zone, for that alone.
    cli.ok("rollout pause shop --zone zone-a");
    assert!(headline().starts_with("paused: "), "{}", headline());
    cli.ok("rollout resume shop --zone zone-a");
    paused(Value::Null).await;
}

/// A definition is taken back where it is from.
fn goes_back(cli: &Cli<'_>) {
    let refused = cli.run("rollout undo shop --zone zone-a");
    assert_eq!(refused.code, 1, "{refused:?}");
    for said in [
        "the object is managed by the hub and read-only here",
        "hint: it came from the hub; with the hub's kubeconfig, and without --zone: deltaplane rollout undo graph/shop\n",
    ] {
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
    let difference = cli.ok("rollout undo shop --dry-run");
    assert!(
        difference.contains("\"shop:2\" → \"shop:1\""),
        "{difference}"
    );
    cli.ok("rollout undo shop");
    let said = cli.completes("shop");
    assert!(said.ends_with("complete in its zone\n"), "{said}");
    let status = cli.json("rollout status shop --zone zone-a");
    assert_eq!(
        (&status["state"], &status["revision"]),
        (&json!("complete"), &json!(3))
    );
    let again = cli.run("rollout undo shop --to-revision 1");
    assert_eq!(again.stderr, "shop says what revision 1 says already\n");
}
