//! Definitions that are deleted and made again, and names and kinds that others have.

use super::*;
use crate::world::{definition as custom_definition, definitions_kind};

impl Graphs {
    /// Three instances that are ready, of a gated definition that is gone, as are its revisions.
    async fn left() -> Self {
        let graphs = Self::start().await;
        graphs.define(gated("!")).await;
        for name in ["a", "b", "c"] {
            graphs.world.create(&shops(), shop(name)).await;
            graphs.approve(name, "hi!").await;
            graphs.until_state(name, "ACTIVE").await;
        }
        graphs.remove_definition().await;
        graphs
    }

    async fn remove_definition(&self) {
        let world = &self.world;
        world
            .delete(&api::definitions(), &rgd(), "Background")
            .await;
        world.until_gone(&api::definitions(), &rgd()).await;
        let first = ObjectKey::cluster("shop-r00001");
        world.until_gone(&api::revisions(), &first).await;
    }
}

#[tokio::test]
async fn a_definition_that_is_made_again_is_not_taken_for_what_it_was() {
    let graphs = Graphs::left().await;
    // Its first revision has the number that the instances have, and says something else.
    graphs.define(gated("?")).await;
    graphs.until_says("a", "hi?").await;
    let wanted = json!({"revision": 1, "updating": 1, "pending": 2});
    graphs.until_propagation(wanted).await;
    assert_eq!(graphs.greetings().await, ["hi?", "hi!", "hi!"]);
    for name in ["a", "b", "c"] {
        graphs.approve(name, "hi?").await;
    }
    let wanted = json!({"revision": 1, "current": 3});
    graphs.until_propagation(wanted).await;
    graphs.end().await;
}

#[tokio::test]
async fn what_a_definition_said_before_it_was_made_again_counts() {
    let graphs = Graphs::left().await;
    graphs.define(gated("!")).await;
    let wanted = json!({"revision": 1, "current": 3, "updating": 0});
    graphs.until_propagation(wanted).await;
    graphs.redefine(&gated("?")).await;
    graphs.until_says("a", "hi?").await;
    graphs.remove_definition().await;
    // Where the others are has another number now.
    graphs.define(gated("?")).await;
    graphs.redefine(&gated("!")).await;
    graphs.until_says("a", "hi!").await;
    graphs.approve("a", "hi!").await;
    let wanted = json!({"revision": 2, "current": 3, "updating": 0});
    graphs.until_propagation(wanted).await;
    let b = graphs.until_state("b", "ACTIVE").await;
    assert_eq!(admission_of(&b), "started/2");
    graphs.end().await;
}

#[tokio::test]
async fn instances_of_a_kind_that_a_definition_made_before_can_be_deleted() {
    let mut graphs = Graphs::start().await;
    graphs.define(definition()).await;
    for name in ["a", "b"] {
        graphs.active(name).await;
    }
    graphs.remove_definition().await;
    let mut other = definition();
    other["spec"]["schema"]["kind"] = json!("Stall");
    graphs.define(other).await;
    let stalls = Resource::namespaced("kro.run", "v1", "stalls", "Stall");
    let world = &graphs.world;
    world.create(&stalls, shop("s")).await;
    graphs.open("s").await;
    let active = |object: &Value| object["status"]["state"] == "ACTIVE";
    world.until(&stalls, &key("s"), active).await;
    let left = graphs.until_state("a", "ERROR").await;
    let shown = left["status"]["conditions"].to_string();
    assert!(shown.contains("has no graph for this kind"), "{shown}");
    world.delete(&shops(), &key("a"), "Background").await;
    world.until_gone(&shops(), &key("a")).await;
    graphs.restart().await;
    let world = &graphs.world;
    world.delete(&shops(), &key("b"), "Background").await;
    world.until_gone(&shops(), &key("b")).await;
    let made = world.get(&config_maps(), &key("b-first")).await;
    assert_eq!(made, None);
    graphs.end().await;
}

#[tokio::test]
async fn a_kind_of_somebody_else_is_left_alone() {
    let graphs = Graphs::start().await;
    let world = &graphs.world;
    world
        .create(&definitions_kind(), custom_definition("shops", "Shop", &[]))
        .await;
    let foreign = ObjectKey::cluster("shops.example.com");
    let before = world.get(&definitions_kind(), &foreign).await;
    let mut graph = definition();
    graph["spec"]["schema"]["group"] = json!("example.com");
    world.create(&api::definitions(), graph).await;
    let told = graphs.until_definition("KindReady", "False").await;
    let shown = told["status"]["conditions"].to_string();
    assert!(shown.contains("is there already"), "{shown}");
    let now = graphs.world.get(&definitions_kind(), &foreign).await;
    let spec = |object: Option<Value>| object.map(|object| object["spec"].clone());
    assert_eq!(spec(now.clone()), spec(before));
    let labels = now.map(|now| now["metadata"]["labels"].clone());
    assert_eq!(labels, Some(Value::Null));
    graphs.end().await;
}

#[tokio::test]
async fn names_may_be_longer_than_labels() {
    let mut graphs = Graphs::start().await;
    let name = ObjectKey::cluster(&"long.".repeat(30).replace("g.l", "g-l").replace("g.", "g"));
    let mut graph = definition();
    graph["metadata"]["name"] = json!(name.name);
    let world = &graphs.world;
    world.create(&api::definitions(), graph).await;
    let ready = |object: &Value| condition(object, "Ready", "True");
    world.until(&api::definitions(), &name, ready).await;
    graphs.active("a").await;
    graphs.restart().await;
    graphs.active("b").await;
    // The kind says whose it is in a label.
    let note = json!({"metadata": {"annotations": {"note": "mine"}}});
    let kind = ObjectKey::cluster("shops.kro.run");
    graphs.change(&definitions_kind(), &kind, note).await;
    graphs.active("c").await;
    let world = &graphs.world;
    world.delete(&shops(), &key("a"), "Background").await;
    world.until_gone(&shops(), &key("a")).await;
    graphs.end().await;
}
