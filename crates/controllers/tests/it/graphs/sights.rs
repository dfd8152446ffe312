//! What cannot be seen stops those whom it concerns, and no others.

use deltaplane_api::keys::HOLD;

use super::*;

/// With a Secret beside the others.
fn with_secret(mark: &str) -> Value {
    let mut definition = gated(mark);
    let secret = json!({"id": "secret", "template": {
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.spec.name}-secret"},
    }});
    let resources = definition["spec"]["resources"].as_array_mut();
    resources.expect("a list").push(secret);
    definition
}

/// With a Deployment in place of the Service.
fn with_deployment() -> Value {
    let mut graph = definition();
    graph["spec"]["resources"][2]["template"] = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "${second.metadata.name}"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "x", "image": "x"}]},
        }},
    });
    graph
}

#[tokio::test]
async fn a_kind_that_may_not_be_followed_stops_who_needs_it() {
    let mut graphs = Graphs::start().await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let forbidden = Arc::new(AtomicBool::new(true));
    let client = forbidding(graphs.world.client.clone(), "/secrets", forbidden.clone());
    (graphs.tasks, graphs.requests) = run_with(client);
    graphs.define(gated("!")).await;
    for name in ["a", "b", "c"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    graphs.redefine(&with_secret("?")).await;
    let wanted = json!({"revision": 2, "failed": 1, "pending": 2});
    graphs.until_propagation(wanted).await;
    let a = graphs.until_state("a", "ERROR").await;
    let shown = a["status"]["conditions"].to_string();
    assert!(shown.contains("cannot follow /api/v1/secrets"), "{shown}");
    // Those that have not moved go on where they are, and can be deleted.
    let forged = json!({"data": {"greeting": "forged"}});
    graphs
        .change(&config_maps(), &key("b-second"), forged)
        .await;
    graphs.until_says("b", "hi!").await;
    graphs.world.delete(&shops(), &key("c"), "Background").await;
    graphs.world.until_gone(&shops(), &key("c")).await;
    // What does not need it takes over.
    graphs.redefine(&gated(".")).await;
    graphs.approve("a", "hi.").await;
    graphs.approve("b", "hi.").await;
    let wanted = json!({"revision": 3, "current": 2});
    graphs.until_propagation(wanted).await;
    graphs.end().await;
}

#[tokio::test]
async fn a_group_that_does_not_answer_keeps_the_end_of_those_with_objects_of_it() {
    let mut graphs = Graphs::start().await;
    graphs.define(with_deployment()).await;
    let deployments = Resource::namespaced("apps", "v1", "deployments", "Deployment");
    graphs.world.create(&shops(), shop("a")).await;
    graphs.open("a").await;
    let world = &graphs.world;
    world.until(&deployments, &key("a-second"), |_| true).await;
    world
        .delete(&api::definitions(), &rgd(), "Background")
        .await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let forbidden = Arc::new(AtomicBool::new(true));
    let client = forbidding(graphs.world.client.clone(), "/apps/v1", forbidden.clone());
    (graphs.tasks, graphs.requests) = run_with(client);
    graphs.world.delete(&shops(), &key("a"), "Background").await;
    // Before it is seen that it goes, it is told that its definition is gone.
    let told = |object: &Value| {
        let shown = object["status"]["conditions"].to_string();
        object["status"]["state"] == "ERROR" && shown.contains("kind Deployment")
    };
    graphs.world.until(&shops(), &key("a"), told).await;
    forbidden.store(false, Ordering::SeqCst);
    graphs.world.until_gone(&shops(), &key("a")).await;
    let left = graphs.world.get(&deployments, &key("a-second")).await;
    assert_eq!(left, None);
    graphs.end().await;
}

/// What was on its way when the process ended, and cannot be seen after it, keeps its place and
/// nobody else.
#[tokio::test]
async fn one_that_was_on_its_way_and_cannot_be_seen_stops_no_other() {
    let three = |mut definition: Value| {
        definition["spec"]["propagateWhen"] = json!(["linearlyReady(shop, shops, 3)"]);
        definition
    };
    let mut graphs = Graphs::start().await;
    graphs.define(three(gated("!"))).await;
    for name in ["a", "b", "c"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    graphs.annotate("c", HOLD, json!("true")).await;
    graphs.redefine(&three(with_secret("?"))).await;
    let wanted = json!({"revision": 2, "updating": 2, "held": 1});
    graphs.until_propagation(wanted).await;
    for name in ["a", "b"] {
        let secret = key(&format!("{name}-secret"));
        graphs.world.until(&secrets(), &secret, |_| true).await;
    }
    let follows = |method: &Method, path: &str| method == Method::GET && path.ends_with("/secrets");
    // Nobody looks before there is something newer.
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    graphs.redefine(&three(gated("."))).await;
    graphs.restart_refused(follows).await;
    graphs.annotate("c", HOLD, Value::Null).await;
    graphs.approve("c", "hi.").await;
    let wanted = json!({"revision": 3, "failed": 2, "current": 1});
    graphs.until_propagation(wanted).await;
    graphs.end().await;
}

/// What a definition was judged to be is not in force when nothing runs.
#[tokio::test]
async fn a_definition_whose_kind_cannot_be_looked_at_after_a_restart_is_not_ready() {
    let mut graphs = Graphs::start().await;
    graphs.define(with_deployment()).await;
    let away = |_: &Method, path: &str| path.ends_with("/apps/v1");
    let refused = graphs.restart_refused(away).await;
    graphs.until_definition("GraphAccepted", "Unknown").await;
    refused.store(false, Ordering::SeqCst);
    graphs.until_definition("Ready", "True").await;
    graphs.end().await;
}
