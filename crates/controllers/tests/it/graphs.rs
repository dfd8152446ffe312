mod adoption;
mod authored;
mod bound;
mod circles;
mod crashes;
mod deletions;
mod edits;
mod externals;
mod foreign;
mod frozen;
mod items;
mod kinds;
mod metrics;
mod needs;
mod pauses;
mod refusals;
mod remade;
mod rights;
mod rollouts;
mod rules;
mod settling;
mod sights;
mod takeover;
mod time;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deltaplane_api::admission::Admission;
use deltaplane_client::request::{self, Patch};
use deltaplane_client::{ObjectKey, Resource};
use deltaplane_controllers::Context;
use deltaplane_controllers::graphs::{self, Circles, GraphOptions, Metrics, Mode, Running, api};
use deltaplane_runtime::Tasks;
use http::Method;
use serde_json::{Value, json};

use crate::world::{World, condition, config_maps, counting, forbidding, refusing, secrets};

/// Graphs that run in a world.
struct Graphs {
    world: World,
    tasks: Tasks,
    requests: Arc<AtomicUsize>,
}

const RBAC: &str = "rbac.authorization.k8s.io";
const GRACE: Duration = Duration::from_secs(20);

fn shops() -> Resource {
    Resource::namespaced("kro.run", "v1", "shops", "Shop")
}

fn services() -> Resource {
    Resource::namespaced("", "v1", "services", "Service")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// How far an instance is, and with which revision.
fn admission_of(instance: &Value) -> String {
    let admission = Admission::read(instance);
    let said = admission.map(|one| format!("{}/{}", one.stage, one.at.number));
    said.unwrap_or_default()
}

fn rgd() -> ObjectKey {
    ObjectKey::cluster("shop")
}

/// A ConfigMap, another that reads it, and a Service that waits for the second.
fn definition() -> Value {
    json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {
                "kind": "Shop", "apiVersion": "v1",
                "spec": {"name": "string", "greeting": "string | default=hi"},
                "status": {"greets": "${second.data.greeting}"},
            },
            "resources": [
                {"id": "first", "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.spec.name}-first"},
                    "data": {"greeting": "${schema.spec.greeting}"},
                }},
                {"id": "second", "readyWhen": ["${second.data.?open.orValue('') == 'yes'}"],
                 "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.spec.name}-second"},
                    "data": {"greeting": "${first.data.greeting}!"},
                }},
                {"id": "door", "template": {
                    "apiVersion": "v1", "kind": "Service",
                    "metadata": {"name": "${second.metadata.name}"},
                    "spec": {"ports": [{"port": 80}]},
                }},
            ],
        },
    })
}

fn shop(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"name": name}})
}

impl Graphs {
    async fn start() -> Self {
        let world = World::start().await;
        graphs::install(&world.client).await.expect("installed");
        for kind in [api::definitions(), api::revisions()] {
            let crd = Resource::cluster(
                "apiextensions.k8s.io",
                "v1",
                "customresourcedefinitions",
                "CustomResourceDefinition",
            );
            let established = |object: &Value| condition(object, "Established", "True");
            let name = ObjectKey::cluster(&kind.to_string());
            world.until(&crd, &name, established).await;
        }
        let (tasks, requests) = run(&world);
        Self {
            world,
            tasks,
            requests,
        }
    }

    /// Lets the accounts that instances act as do everything.
    async fn trust(&self) {
        let bindings = Resource::cluster(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding");
        let group = "system:serviceaccounts";
        let trusted = json!({
            "metadata": {"name": "trusted"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
        });
        self.world.create(&bindings, trusted).await;
    }

    async fn restart(&mut self) {
        self.tasks.shutdown(GRACE).await.expect("a clean end");
        (self.tasks, self.requests) = run(&self.world);
    }

    /// Goes on with a client that may not do something, for as long as the answer says so.
    async fn restart_refused(
        &mut self,
        what: impl Fn(&Method, &str) -> bool + Clone + Send + 'static,
    ) -> Arc<AtomicBool> {
        self.tasks.shutdown(GRACE).await.expect("a clean end");
        let refused = Arc::new(AtomicBool::new(true));
        let client = refusing(self.world.client.clone(), what, refused.clone());
        (self.tasks, self.requests) = run_with(client);
        refused
    }

    async fn define(&self, definition: Value) {
        self.world.create(&api::definitions(), definition).await;
        self.until_definition("Ready", "True").await;
    }

    async fn until_definition(&self, r#type: &str, status: &str) -> Value {
        let is = |object: &Value| {
            let current = object["status"]["conditions"][0]["observedGeneration"]
                == object["metadata"]["generation"];
            current && condition(object, r#type, status)
        };
        self.world.until(&api::definitions(), &rgd(), is).await
    }

    async fn change(&self, kind: &Resource, key: &ObjectKey, change: Value) {
        let path = kind.object_path(key);
        let changed: Value = request::patch(&self.world.client, &path, Patch::Merge, &change)
            .await
            .expect("changed");
        drop(changed);
    }

    async fn redefine(&self, definition: &Value) {
        let change = json!({"spec": definition["spec"]});
        self.change(&api::definitions(), &rgd(), change).await;
    }

    /// What the second of an instance waits for.
    async fn open(&self, name: &str) {
        let second = key(&format!("{name}-second"));
        self.world.until(&config_maps(), &second, |_| true).await;
        self.change(&config_maps(), &second, json!({"data": {"open": "yes"}}))
            .await;
    }

    async fn until_state(&self, name: &str, state: &str) -> Value {
        let is = |object: &Value| object["status"]["state"] == state;
        self.world.until(&shops(), &key(name), is).await
    }

    /// An instance that is ready.
    async fn active(&self, name: &str) -> Value {
        self.world.create(&shops(), shop(name)).await;
        self.open(name).await;
        self.until_state(name, "ACTIVE").await
    }

    /// Changes an object of an instance, and waits until it is put right.
    async fn mend(&self, name: &str, time: u32) {
        let first = key(&format!("{name}-first"));
        let forged = json!({"data": {"greeting": format!("forged {time}")}});
        self.change(&config_maps(), &first, forged).await;
        let mended = |object: &Value| object["data"]["greeting"] == "hi";
        self.world.until(&config_maps(), &first, mended).await;
    }

    async fn end(self) {
        self.tasks.shutdown(GRACE).await.expect("a clean end");
    }
}

fn run(world: &World) -> (Tasks, Arc<AtomicUsize>) {
    run_with(world.client.clone())
}

fn run_with(client: kube::Client) -> (Tasks, Arc<AtomicUsize>) {
    let pace = deltaplane_client::Pace::system();
    run_in(Context { client, pace })
}

fn run_in(context: Context) -> (Tasks, Arc<AtomicUsize>) {
    run_counted(context, Metrics::default())
}

fn run_counted(context: Context, metrics: Metrics) -> (Tasks, Arc<AtomicUsize>) {
    run_as(context, GraphOptions::default(), metrics)
}

fn run_as(context: Context, options: GraphOptions, metrics: Metrics) -> (Tasks, Arc<AtomicUsize>) {
    let running = Running {
        mode: Mode::Run,
        options,
        metrics,
        circles: Circles::default(),
    };
    run_so(context, running)
}

fn run_so(context: Context, running: Running) -> (Tasks, Arc<AtomicUsize>) {
    let (client, requests) = counting(context.client);
    let context = Context { client, ..context };
    let tasks = Tasks::new();
    let group = tasks.group("graph");
    tasks.spawn("graphs", |stop| graphs::run(context, running, group, stop));
    (tasks, requests)
}

#[tokio::test]
async fn an_instance_becomes_its_objects_in_order_and_goes_in_reverse() {
    let graphs = Graphs::start().await;
    graphs.define(definition()).await;
    graphs.world.create(&shops(), shop("a")).await;
    let waiting = graphs.until_state("a", "IN_PROGRESS").await;
    let message = waiting["status"]["conditions"][2]["message"].as_str();
    assert_eq!(
        message,
        Some(
            "second: ConfigMap default/a-second is not ready: \
             ${second.data.?open.orValue('') == 'yes'} is false; door: waits for second"
        )
    );
    let world = &graphs.world;
    assert!(world.get(&services(), &key("a-second")).await.is_none());
    graphs.open("a").await;
    let active = graphs.until_state("a", "ACTIVE").await;
    assert_eq!(active["status"]["greets"], "hi!");
    let door = world
        .get(&services(), &key("a-second"))
        .await
        .expect("made");
    let labels = &door["metadata"]["labels"];
    assert_eq!(labels["kro.run/instance-name"], "a");
    assert_eq!(labels["kro.run/node-id"], "door");
    assert_eq!(
        door["metadata"]["annotations"]["internal.kro.run/apply-order"],
        "3"
    );
    // The Service holds the others back for as long as it does not go.
    let held = json!({"metadata": {"finalizers": ["test.io/hold"]}});
    graphs.change(&services(), &key("a-second"), held).await;
    world.delete(&shops(), &key("a"), "Background").await;
    graphs.until_state("a", "DELETING").await;
    assert!(world.get(&config_maps(), &key("a-second")).await.is_some());
    let free = json!({"metadata": {"finalizers": []}});
    graphs.change(&services(), &key("a-second"), free).await;
    world.until_gone(&shops(), &key("a")).await;
    for name in ["a-first", "a-second"] {
        assert!(
            world.get(&config_maps(), &key(name)).await.is_none(),
            "{name}"
        );
    }
    graphs.end().await;
}

#[tokio::test]
async fn what_is_changed_or_deleted_comes_back() {
    let graphs = Graphs::start().await;
    graphs.define(definition()).await;
    graphs.active("a").await;
    let first = key("a-first");
    let forged = json!({"data": {"greeting": "forged", "own": "kept"}});
    graphs.change(&config_maps(), &first, forged).await;
    let mended = |object: &Value| object["data"]["greeting"] == "hi";
    let mended = graphs.world.until(&config_maps(), &first, mended).await;
    assert_eq!(mended["data"]["own"], "kept");
    let uid = mended["metadata"]["uid"].clone();
    graphs
        .world
        .delete(&config_maps(), &first, "Background")
        .await;
    let again = |object: &Value| object["metadata"]["uid"] != uid;
    graphs.world.until(&config_maps(), &first, again).await;
    graphs.end().await;
}

#[tokio::test]
async fn nothing_is_asked_or_written_while_nothing_changes() {
    let mut graphs = Graphs::start().await;
    graphs.define(definition()).await;
    graphs.active("first").await;
    let before = graphs.requests.load(Ordering::SeqCst);
    graphs.active("a").await;
    // The finalizer, three objects, and the status twice: it waited for somebody.
    let made = graphs.requests.load(Ordering::SeqCst) - before;
    assert!(made <= 7, "{made} requests");
    // A change of what no expression reads leads to nothing. What is changed after it, and seen
    // after it, is put right: that is one request.
    graphs.mend("first", 1).await;
    let before = graphs.requests.load(Ordering::SeqCst);
    let note = json!({"metadata": {"annotations": {"note": "mine"}}});
    graphs.change(&config_maps(), &key("a-first"), note).await;
    graphs.mend("first", 2).await;
    assert_eq!(graphs.requests.load(Ordering::SeqCst), before + 1);
    // Nor does a restart, but for reading what there is.
    let revision = graphs.world.store.revision();
    graphs.restart().await;
    graphs.active("last").await;
    let since = graphs.world.store.revision().get() - revision.get();
    // The instance, its finalizer, three objects, the word that opens it, and its status twice.
    assert!(since <= 9, "{since} writes");
    graphs.end().await;
}

#[tokio::test]
async fn a_definition_that_is_made_invalid_leaves_in_force_what_was() {
    let mut graphs = Graphs::start().await;
    graphs.define(definition()).await;
    let broken = json!({"spec": {"resources": [{"id": "first", "template": {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${nobody.spec.name}"},
    }}]}});
    graphs.change(&api::definitions(), &rgd(), broken).await;
    let told = graphs.until_definition("GraphAccepted", "False").await;
    let message = told["status"]["conditions"][0]["message"]
        .as_str()
        .unwrap_or_default();
    assert!(message.contains("nobody"), "{message}");
    graphs.active("a").await;
    graphs.restart().await;
    graphs.active("b").await;
    graphs.end().await;
}

#[tokio::test]
async fn revisions_say_whether_they_can_be_run() {
    let graphs = Graphs::start().await;
    graphs.define(definition()).await;
    let first = ObjectKey::cluster("shop-r00001");
    let verified = |object: &Value| condition(object, "GraphVerified", "True");
    let told = graphs
        .world
        .until(&api::revisions(), &first, verified)
        .await;
    assert!(condition(&told, "Ready", "True"));
    let order = json!(["first", "second", "door"]);
    assert_eq!(told["status"]["topologicalOrder"], order);
    // A revision that nobody checked, and that is the last: it is found out when it is needed.
    let mut forged = told.clone();
    forged["metadata"] = json!({
        "name": "shop-r00002",
        "labels": {"kro.run/graph-revision-hash": "f"},
    });
    forged["spec"]["revision"] = json!(2);
    forged["spec"]["snapshot"]["spec"]["resources"][0]["template"]["kind"] = json!("Nothing");
    graphs.world.create(&api::revisions(), forged).await;
    graphs.redefine(&gated("!")).await;
    let second = ObjectKey::cluster("shop-r00002");
    let wrong = |object: &Value| condition(object, "GraphVerified", "False");
    let told = graphs.world.until(&api::revisions(), &second, wrong).await;
    let message = told["status"]["conditions"][0]["message"].as_str();
    assert!(message.is_some_and(|why| why.contains("Nothing")), "{told}");
    graphs.end().await;
}

#[tokio::test]
async fn breaking_changes_are_refused_unless_the_author_says_so() {
    let mut graphs = Graphs::start().await;
    graphs.define(definition()).await;
    graphs.active("a").await;
    let less = json!({"spec": {"schema": {"spec": {"greeting": "integer | default=1"}}, "resources": [
        {"id": "first", "template": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.name}"},
        }},
    ], "schema": {"spec": {"greeting": "integer | default=1"}, "status": null}}});
    graphs.change(&api::definitions(), &rgd(), less).await;
    let told = graphs.until_definition("KindReady", "False").await;
    let shown = told["status"]["conditions"].to_string();
    assert!(shown.contains("breaking changes detected"), "{shown}");
    assert!(shown.contains("kro.run/allow-breaking-changes"), "{shown}");
    // What was in force before is so after a restart, too.
    graphs.restart().await;
    graphs
        .world
        .delete(&config_maps(), &key("a-first"), "Background")
        .await;
    let again = |_: &Value| true;
    graphs
        .world
        .until(&config_maps(), &key("a-first"), again)
        .await;
    let allowed = json!({"metadata": {"annotations": {"kro.run/allow-breaking-changes": "true"}}});
    graphs.change(&api::definitions(), &rgd(), allowed).await;
    graphs.until_definition("Ready", "True").await;
    graphs.end().await;
}

#[tokio::test]
async fn an_instance_can_be_deleted_when_its_definition_is_gone() {
    let mut graphs = Graphs::start().await;
    graphs.define(definition()).await;
    graphs.active("a").await;
    graphs.active("b").await;
    graphs
        .world
        .delete(&api::definitions(), &rgd(), "Background")
        .await;
    graphs.world.delete(&shops(), &key("a"), "Background").await;
    graphs.world.until_gone(&shops(), &key("a")).await;
    graphs.restart().await;
    graphs.world.delete(&shops(), &key("b"), "Background").await;
    graphs.world.until_gone(&shops(), &key("b")).await;
    let maps = graphs.world.get(&config_maps(), &key("b-first")).await;
    assert!(maps.is_none());
    graphs.end().await;
}

#[tokio::test]
async fn a_kind_that_may_not_be_followed_stops_its_graphs_alone_and_they_say_so() {
    let mut graphs = Graphs::start().await;
    let forbidden = Arc::new(AtomicBool::new(true));
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let client = forbidding(graphs.world.client.clone(), "/services", forbidden.clone());
    (graphs.tasks, graphs.requests) = run_with(client);
    let world = &graphs.world;
    world.create(&api::definitions(), definition()).await;
    let told = graphs.until_definition("ControllerReady", "False").await;
    let shown = told["status"]["conditions"].to_string();
    assert!(shown.contains("cannot follow /api/v1/services"), "{shown}");
    assert_eq!(told["status"]["state"], "Inactive");
    world.create(&shops(), shop("a")).await;
    let unseen = graphs.until_state("a", "ERROR").await;
    let message = unseen["status"]["conditions"][2]["message"].as_str();
    assert!(
        message.is_some_and(|why| why.contains("no (403 Forbidden)")),
        "{message:?}"
    );
    let mut other = definition();
    other["metadata"]["name"] = json!("stall");
    other["spec"]["schema"]["kind"] = json!("Stall");
    other["spec"]["resources"]
        .as_array_mut()
        .expect("a list")
        .truncate(2);
    world.create(&api::definitions(), other).await;
    let stalls = Resource::namespaced("kro.run", "v1", "stalls", "Stall");
    let ready = |object: &Value| condition(object, "Ready", "True");
    let name = ObjectKey::cluster("stall");
    world.until(&api::definitions(), &name, ready).await;
    world.create(&stalls, shop("b")).await;
    graphs.open("b").await;
    let active = |object: &Value| object["status"]["state"] == "ACTIVE";
    world.until(&stalls, &key("b"), active).await;
    // Nobody knows whether there is something of it already.
    assert!(world.get(&config_maps(), &key("a-first")).await.is_none());
    forbidden.store(false, Ordering::SeqCst);
    graphs.until_definition("Ready", "True").await;
    graphs.open("a").await;
    graphs.until_state("a", "ACTIVE").await;
    graphs.end().await;
}

/// Like the other one, but an instance is ready when somebody said so of what it says now; and
/// instances move one by one.
fn gated(mark: &str) -> Value {
    let mut definition = definition();
    let ready = "${second.metadata.?annotations[?'said'].orValue('') == second.data.greeting}";
    definition["spec"]["resources"][1]["readyWhen"] = json!([ready]);
    let greeting = format!("${{first.data.greeting}}{mark}");
    definition["spec"]["resources"][1]["template"]["data"]["greeting"] = json!(greeting);
    definition["spec"]["propagateWhen"] = json!(["linearlyReady(shop, shops, 1)"]);
    definition
}

impl Graphs {
    /// Says that an instance is as it should be.
    async fn approve(&self, name: &str, greeting: &str) {
        let second = key(&format!("{name}-second"));
        let says = |object: &Value| object["data"]["greeting"] == greeting;
        self.world.until(&config_maps(), &second, says).await;
        let said = json!({"metadata": {"annotations": {"said": greeting}}});
        self.change(&config_maps(), &second, said).await;
    }

    /// What the instances say, in the order of their names.
    async fn greetings(&self) -> Vec<String> {
        let mut greetings = Vec::new();
        for name in ["a", "b", "c"] {
            let second = key(&format!("{name}-second"));
            let object = self
                .world
                .get(&config_maps(), &second)
                .await
                .expect("there");
            greetings.push(
                object["data"]["greeting"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        greetings
    }

    async fn until_propagation(&self, wanted: Value) -> Value {
        let is = |object: &Value| {
            let told = &object["status"]["propagation"];
            wanted
                .as_object()
                .is_some_and(|all| all.iter().all(|(key, value)| told[key] == *value))
        };
        let object = self.world.until(&api::definitions(), &rgd(), is).await;
        object["status"]["propagation"].clone()
    }
}

#[tokio::test]
async fn instances_move_no_faster_than_the_gate_allows() {
    let mut graphs = Graphs::start().await;
    graphs.define(gated("!")).await;
    for name in ["a", "b", "c"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    graphs
        .until_propagation(json!({"revision": 1, "current": 3}))
        .await;
    graphs
        .change(
            &api::definitions(),
            &rgd(),
            json!({"spec": gated("?")["spec"]}),
        )
        .await;
    // The first stays where it is: nobody says that it is right.
    let told = graphs
        .until_propagation(json!({"revision": 2, "updating": 1, "pending": 2}))
        .await;
    let blocked = told["blocked"][0]["message"].as_str().unwrap_or_default();
    assert_eq!(
        blocked,
        "closed: linearlyReady(shop, shops, 1): 1 in flight (default/a); 0 of 3 updated and ready"
    );
    graphs
        .world
        .until(&config_maps(), &key("a-second"), |object| {
            object["data"]["greeting"] == "hi?"
        })
        .await;
    assert_eq!(graphs.greetings().await, ["hi?", "hi!", "hi!"]);
    // Nor does a restart let anybody past.
    graphs.restart().await;
    graphs
        .change(
            &config_maps(),
            &key("b-second"),
            json!({"data": {"greeting": "forged"}}),
        )
        .await;
    let mended = |object: &Value| object["data"]["greeting"] == "hi!";
    graphs
        .world
        .until(&config_maps(), &key("b-second"), mended)
        .await;
    assert_eq!(graphs.greetings().await, ["hi?", "hi!", "hi!"]);
    graphs.approve("a", "hi?").await;
    graphs.approve("b", "hi?").await;
    graphs.approve("c", "hi?").await;
    graphs
        .until_propagation(json!({"current": 3, "pending": 0, "updating": 0}))
        .await;
    assert_eq!(graphs.greetings().await, ["hi?", "hi?", "hi?"]);
    graphs.end().await;
}
