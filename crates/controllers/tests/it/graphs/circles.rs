//! What would not end does not begin.

use super::*;
use crate::world::definitions_kind;

#[tokio::test]
async fn a_definition_that_is_changed_to_make_its_own_kind_is_refused() {
    let graphs = Graphs::start().await;
    graphs.define(definition()).await;
    graphs.active("a").await;
    let mut endless = definition();
    endless["spec"]["resources"][2]["template"] = json!({
        "apiVersion": "kro.run/v1", "kind": "Shop",
        "metadata": {"name": "${schema.spec.name}x"},
        "spec": {"name": "${schema.spec.name}x"},
    });
    graphs.redefine(&endless).await;
    let told = graphs.until_definition("GraphAccepted", "False").await;
    let shown = told["status"]["conditions"].to_string();
    let why = "its instances would make each other without end: Shop makes Shop";
    assert!(shown.contains(why), "{shown}");
    // What was goes on.
    graphs.active("b").await;
    assert_eq!(graphs.world.list(&shops()).await.len(), 2);
    graphs.end().await;
}

#[tokio::test]
async fn the_kinds_of_graphs_are_made_again() {
    let graphs = Graphs::start().await;
    graphs.define(definition()).await;
    graphs.active("a").await;
    for kind in [api::revisions(), api::definitions()] {
        let name = ObjectKey::cluster(&kind.to_string());
        let kinds = definitions_kind();
        let world = &graphs.world;
        let before = world.get(&kinds, &name).await.expect("there");
        world.delete(&kinds, &name, "Background").await;
        let again = |object: &Value| {
            object["metadata"]["uid"] != before["metadata"]["uid"]
                && condition(object, "Established", "True")
        };
        world.until(&kinds, &name, again).await;
    }
    graphs.define(definition()).await;
    graphs.active("b").await;
    graphs.until_state("a", "ACTIVE").await;
    graphs.end().await;
}
