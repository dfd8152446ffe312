//! What is kept of objects is what their graphs need, and a graph that needs more gets it.

use super::*;

/// An object that the graph itself reads little of.
fn reading(status: &Value) -> Value {
    json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {
                "kind": "Shop", "apiVersion": "v1", "spec": {"name": "string"}, "status": status,
            },
            "resources": [
                {"id": "first", "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.spec.name}-first"},
                    "data": {"greeting": "hi"},
                }},
            ],
        },
    })
}

#[tokio::test]
async fn a_graph_that_reads_more_gets_it_without_a_write() {
    let mut graphs = Graphs::start().await;
    graphs
        .define(reading(&json!({"says": "${first.data.greeting}"})))
        .await;
    let names = ["a", "b", "c"];
    for name in names {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.until_state(name, "ACTIVE").await;
        // Somebody writes what nobody reads yet.
        let change = json!({"data": {"more": format!("of {name}")}});
        let first = key(&format!("{name}-first"));
        graphs.change(&config_maps(), &first, change).await;
    }
    let versions = async |graphs: &Graphs| {
        let mut versions = Vec::new();
        for name in names {
            let first = key(&format!("{name}-first"));
            let first = graphs.world.get(&config_maps(), &first).await;
            versions.push(first.expect("there")["metadata"]["resourceVersion"].clone());
        }
        versions
    };
    let before = versions(&graphs).await;
    for (expression, added) in [
        ("first.data.more", ""),
        ("first.data.more + string(size(first.data))", "2"),
    ] {
        let status = json!({"says": format!("${{{expression}}}")});
        graphs.redefine(&reading(&status)).await;
        for name in names {
            let wanted = format!("of {name}{added}");
            let says = |object: &Value| object["status"]["says"] == wanted.as_str();
            graphs.world.until(&shops(), &key(name), says).await;
        }
    }
    // Who begins anew finds out by the managed fields that all of it is as it was applied.
    graphs.restart().await;
    graphs.mend("a", 1).await;
    let after = versions(&graphs).await;
    assert_eq!(after[1..], before[1..]);
    graphs.end().await;
}
