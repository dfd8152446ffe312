//! What operators can count.

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::*;

/// The lines of a registry that count something of graphs.
fn lines(registry: &Registry) -> Vec<String> {
    let mut all = String::new();
    text::encode(&mut all, registry).expect("written");
    let counted = all.lines().filter(|line| !line.starts_with('#'));
    let mut counted: Vec<String> = counted.map(str::to_owned).collect();
    counted.sort();
    counted
}

#[tokio::test]
async fn what_is_done_for_instances_is_counted() {
    let mut graphs = Graphs::start().await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let metrics = Metrics::default();
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let context = Context {
        client: graphs.world.client.clone(),
        pace: deltaplane_client::Pace::system(),
    };
    (graphs.tasks, graphs.requests) = run_counted(context, metrics);
    graphs.define(gated("!")).await;
    for name in ["a", "b"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    graphs.redefine(&gated("?")).await;
    let wanted = json!({"revision": 2, "updating": 1, "pending": 1});
    graphs.until_propagation(wanted).await;
    graphs.until_says("a", "hi?").await;
    // It is told when the answer was seen.
    graphs.until_state("a", "IN_PROGRESS").await;
    let counted = lines(&registry);
    for wanted in [
        r#"graphs_instances{definition="shop",kind="Shop"} 2"#,
        r#"graphs_instances_in_flight{definition="shop",kind="Shop"} 1"#,
        r#"graphs_instances_waiting{definition="shop",kind="Shop"} 1"#,
        r#"graphs_applied_objects_total{definition="shop",kind="Shop"} 7"#,
    ] {
        assert!(counted.iter().any(|line| line == wanted), "{counted:#?}");
    }
    for name in ["a", "b"] {
        graphs
            .world
            .delete(&shops(), &key(name), "Background")
            .await;
        graphs.world.until_gone(&shops(), &key(name)).await;
    }
    let deleted = r#"graphs_deleted_objects_total{definition="shop",kind="Shop"} 6"#;
    let counted = lines(&registry);
    assert!(counted.iter().any(|line| line == deleted), "{counted:#?}");
    graphs.end().await;
}
