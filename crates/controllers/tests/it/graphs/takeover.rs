//! A cluster that kro ran before, and options that kro has.

use super::*;
use crate::world::{definition as custom_definition, definitions_kind};

const FINALIZER: &str = "kro.run/finalizer";

fn shops_kind() -> ObjectKey {
    ObjectKey::cluster("shops.kro.run")
}

impl Graphs {
    async fn restart_as(&mut self, options: GraphOptions) {
        self.tasks.shutdown(GRACE).await.expect("a clean end");
        let context = Context {
            client: self.world.client.clone(),
            pace: deltaplane_client::Pace::system(),
        };
        (self.tasks, self.requests) = run_as(context, options, Metrics::default());
    }
}

#[tokio::test]
async fn definitions_and_revisions_with_finalizers_of_kro_can_be_deleted() {
    let graphs = Graphs::start().await;
    graphs.define(definition()).await;
    let world = &graphs.world;
    let revision = ObjectKey::cluster("shop-r00001");
    let kept = json!({"metadata": {"finalizers": [FINALIZER]}});
    graphs
        .change(&api::definitions(), &rgd(), kept.clone())
        .await;
    graphs.change(&api::revisions(), &revision, kept).await;
    world
        .delete(&api::definitions(), &rgd(), "Background")
        .await;
    world.until_gone(&api::definitions(), &rgd()).await;
    // The revision goes with its definition.
    world.until_gone(&api::revisions(), &revision).await;
    graphs.end().await;
}

#[tokio::test]
async fn finalizers_of_others_are_kept() {
    let graphs = Graphs::start().await;
    graphs.define(definition()).await;
    let world = &graphs.world;
    let kept = json!({"metadata": {"finalizers": [FINALIZER, "test.io/hold"]}});
    graphs.change(&api::definitions(), &rgd(), kept).await;
    world
        .delete(&api::definitions(), &rgd(), "Background")
        .await;
    let released = |object: &Value| object["metadata"]["finalizers"] == json!(["test.io/hold"]);
    world.until(&api::definitions(), &rgd(), released).await;
    graphs.end().await;
}

#[tokio::test]
async fn a_kind_goes_with_its_definition_where_that_is_asked_for() {
    let mut graphs = Graphs::start().await;
    let options = GraphOptions {
        delete_kinds: true,
        ..GraphOptions::default()
    };
    graphs.restart_as(options).await;
    graphs.define(definition()).await;
    graphs.active("a").await;
    let world = &graphs.world;
    world
        .delete(&api::definitions(), &rgd(), "Background")
        .await;
    world.until_gone(&definitions_kind(), &shops_kind()).await;
    // What its instances made is gone as well.
    for name in ["a-first", "a-second"] {
        let left = world.get(&config_maps(), &key(name)).await;
        assert!(left.is_none(), "{left:?}");
    }
    graphs.end().await;
}

#[tokio::test]
async fn a_kind_stays_without_its_definition_otherwise() {
    let graphs = Graphs::start().await;
    graphs.define(definition()).await;
    graphs.active("a").await;
    let world = &graphs.world;
    world
        .delete(&api::definitions(), &rgd(), "Background")
        .await;
    let unresolved = |object: &Value| condition(object, "GraphResolved", "False");
    world.until(&shops(), &key("a"), unresolved).await;
    let kind = world.get(&definitions_kind(), &shops_kind()).await;
    assert!(kind.expect("it stays")["metadata"]["deletionTimestamp"].is_null());
    graphs.end().await;
}

#[tokio::test]
async fn as_many_revisions_are_kept_as_is_asked_for() {
    let mut graphs = Graphs::start().await;
    let options = GraphOptions {
        revisions: 2,
        ..GraphOptions::default()
    };
    graphs.restart_as(options).await;
    graphs.define(definition()).await;
    for number in 2..=5 {
        let mut changed = definition();
        let greeting = json!(format!("${{schema.spec.greeting}} {number}"));
        changed["spec"]["resources"][0]["template"]["data"]["greeting"] = greeting;
        graphs.redefine(&changed).await;
        let issued = |object: &Value| object["status"]["lastIssuedRevision"] == number;
        graphs
            .world
            .until(&api::definitions(), &rgd(), issued)
            .await;
    }
    let oldest = ObjectKey::cluster("shop-r00003");
    graphs.world.until_gone(&api::revisions(), &oldest).await;
    let left = graphs.world.list(&api::revisions()).await;
    let mut numbers: Vec<i64> = left
        .iter()
        .filter_map(|one| one["spec"]["revision"].as_i64())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [4, 5]);
    graphs.end().await;
}

/// A graph of a kind that has an unusual plural.
fn videos() -> Value {
    json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {"kind": "Video", "apiVersion": "v1", "spec": {"name": "string"}},
            "resources": [{"id": "first", "template": {
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "${schema.spec.name}-first"}, "data": {"a": "b"},
            }}],
        },
    })
}

/// The kind as another program serves it, for the graph or not.
fn served_kind(plural: &str, owned: bool) -> Value {
    let mut kind = custom_definition(plural, "Video", &[]);
    kind["metadata"]["name"] = format!("{plural}.kro.run").into();
    kind["spec"]["group"] = "kro.run".into();
    if owned {
        kind["metadata"]["labels"] = json!({
            "kro.run/owned": "true", "kro.run/resource-graph-definition-name": "shop",
        });
    }
    kind
}

impl Graphs {
    async fn serve_videos(&self, plural: &str, owned: bool) {
        let world = &self.world;
        let kind = served_kind(plural, owned);
        world.create(&definitions_kind(), kind).await;
        let name = ObjectKey::cluster(&format!("{plural}.kro.run"));
        let established = |object: &Value| condition(object, "Established", "True");
        world.until(&definitions_kind(), &name, established).await;
    }

    /// The kinds of the group that are there.
    async fn video_kinds(&self) -> Vec<String> {
        let all = self.world.list(&definitions_kind()).await;
        let videos = all
            .iter()
            .filter(|one| one["spec"]["names"]["kind"] == "Video");
        let names = videos.filter_map(|one| one["metadata"]["name"].as_str());
        names.map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_kind_keeps_the_plural_under_which_it_is_served() {
    let graphs = Graphs::start().await;
    graphs.serve_videos("videographs", true).await;
    graphs.define(videos()).await;
    assert_eq!(graphs.video_kinds().await, ["videographs.kro.run"]);
    let kind = Resource::namespaced("kro.run", "v1", "videographs", "Video");
    graphs.world.create(&kind, shop("a")).await;
    let active = |object: &Value| object["status"]["state"] == "ACTIVE";
    graphs.world.until(&kind, &key("a"), active).await;
    graphs.end().await;
}

#[tokio::test]
async fn a_new_kind_has_the_plural_that_kro_gives_it() {
    let graphs = Graphs::start().await;
    graphs.define(videos()).await;
    assert_eq!(graphs.video_kinds().await, ["videoes.kro.run"]);
    graphs.end().await;
}

#[tokio::test]
async fn a_kind_whose_names_are_others_says_so() {
    let graphs = Graphs::start().await;
    graphs.serve_videos("videographs", false).await;
    graphs.world.create(&api::definitions(), videos()).await;
    let told = graphs.until_definition("KindReady", "False").await;
    let conditions = told["status"]["conditions"].as_array().expect("a list");
    let said = conditions.iter().find(|one| one["type"] == "KindReady");
    let said = said
        .and_then(|one| one["message"].as_str())
        .expect("a message");
    assert!(
        said.contains("videoes.kro.run is not served: NamesAccepted is False"),
        "{said}"
    );
    // It is served as soon as the names are free.
    let other = ObjectKey::cluster("videographs.kro.run");
    graphs
        .world
        .delete(&definitions_kind(), &other, "Background")
        .await;
    graphs.until_definition("Ready", "True").await;
    graphs.end().await;
}

/// A ConfigMap in another namespace, and a Service that is there if the instance says so.
fn spread() -> Value {
    json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {
                "kind": "Shop", "apiVersion": "v1",
                "spec": {"name": "string", "door": "boolean | default=true"},
            },
            "resources": [
                {"id": "remote", "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.spec.name}-remote", "namespace": "kube-system"},
                }},
                {"id": "door", "includeWhen": ["${schema.spec.door}"], "template": {
                    "apiVersion": "v1", "kind": "Service",
                    "metadata": {"name": "${schema.spec.name}-door"},
                    "spec": {"ports": [{"port": 80}]},
                }},
            ],
        },
    })
}

#[tokio::test]
async fn the_inventory_of_an_instance_grows_and_shrinks() {
    let graphs = Graphs::start().await;
    graphs.trust().await;
    graphs.define(spread()).await;
    graphs.world.create(&shops(), shop("a")).await;
    let active = graphs.until_state("a", "ACTIVE").await;
    let annotation = |object: &Value, key: &str| {
        let key = format!("applyset.kubernetes.io/{key}");
        object["metadata"]["annotations"][key].clone()
    };
    assert_eq!(
        annotation(&active, "contains-group-kinds"),
        "ConfigMap,Service"
    );
    assert_eq!(annotation(&active, "additional-namespaces"), "kube-system");
    let tooling = annotation(&active, "tooling");
    assert!(tooling.as_str().is_some_and(|one| one.starts_with("kro/")));
    let closed = json!({"spec": {"door": false}});
    graphs.change(&shops(), &key("a"), closed).await;
    let shrunk = |object: &Value| annotation(object, "contains-group-kinds") == "ConfigMap";
    graphs.world.until(&shops(), &key("a"), shrunk).await;
    assert!(
        graphs
            .world
            .get(&services(), &key("a-door"))
            .await
            .is_none()
    );
    graphs.end().await;
}
