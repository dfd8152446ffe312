//! What a gate keeps as it was.

use super::*;

/// A ConfigMap that changes while the instance says so.
fn gated() -> Value {
    json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {
                "kind": "Shop", "apiVersion": "v1",
                "spec": {
                    "name": "string", "greeting": "string | default=hi",
                    "open": "boolean | default=true",
                },
            },
            "resources": [{
                "id": "first", "propagateWhen": ["${schema.spec.open}"],
                "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.spec.name}-first"},
                    "data": {"greeting": "${schema.spec.greeting}"},
                },
            }],
        },
    })
}

#[tokio::test]
async fn what_somebody_deletes_behind_a_closed_gate_is_put_back_as_it_was() {
    let mut graphs = Graphs::start().await;
    graphs.define(gated()).await;
    graphs.world.create(&shops(), shop("a")).await;
    graphs.until_state("a", "ACTIVE").await;
    let closed = json!({"spec": {"greeting": "ho", "open": false}});
    graphs.change(&shops(), &key("a"), closed).await;
    let kept = |object: &Value| condition(object, "ResourcesPropagated", "False");
    graphs.world.until(&shops(), &key("a"), kept).await;
    for restarts in [false, true] {
        if restarts {
            graphs.restart().await;
        }
        let world = &graphs.world;
        let there = world.get(&config_maps(), &key("a-first")).await;
        let uid = there.expect("it is there")["metadata"]["uid"].clone();
        world
            .delete(&config_maps(), &key("a-first"), "Background")
            .await;
        let again = |object: &Value| object["metadata"]["uid"] != uid;
        let back = world.until(&config_maps(), &key("a-first"), again).await;
        assert_eq!(back["data"]["greeting"], "hi");
    }
    let open = json!({"spec": {"open": true}});
    graphs.change(&shops(), &key("a"), open).await;
    let changed = |object: &Value| object["data"]["greeting"] == "ho";
    graphs
        .world
        .until(&config_maps(), &key("a-first"), changed)
        .await;
    graphs.end().await;
}
