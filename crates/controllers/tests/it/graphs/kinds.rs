//! Kinds that graphs are made of come, go and change.

use tokio::sync::Notify;

use super::*;
use crate::world::{custom, definition as custom_definition, definitions_kind};

/// The kind that others own, with these fields beside `name`.
fn widgets(fields: Value) -> Value {
    let mut kind = custom_definition("widgets", "Widget", &[]);
    let mut spec = json!({"name": {"type": "string"}});
    let more = fields.as_object().cloned().unwrap_or_default();
    spec.as_object_mut().expect("an object").extend(more);
    kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": spec}},
    });
    kind
}

impl Graphs {
    async fn serve_widgets(&self, fields: Value) {
        let world = &self.world;
        world.create(&definitions_kind(), widgets(fields)).await;
        let established = |object: &Value| condition(object, "Established", "True");
        let name = ObjectKey::cluster("widgets.example.com");
        world.until(&definitions_kind(), &name, established).await;
    }
}

/// With a Widget beside the others.
fn with_widget() -> Value {
    let mut definition = definition();
    let widget = json!({"id": "widget", "template": {
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "${schema.spec.name}-widget"},
        "spec": {"name": "${schema.spec.name}"},
    }});
    let resources = definition["spec"]["resources"].as_array_mut();
    resources.expect("a list").push(widget);
    definition
}

#[tokio::test]
async fn nobody_goes_back_because_a_kind_is_away_when_all_begins_again() {
    let mut graphs = Graphs::start().await;
    graphs.trust().await;
    graphs.define(definition()).await;
    graphs.serve_widgets(json!({})).await;
    let mut later = with_widget();
    let secret = json!({"id": "secret", "template": {
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.spec.name}-secret"},
    }});
    later["spec"]["resources"]
        .as_array_mut()
        .expect("a list")
        .push(secret);
    graphs.redefine(&later).await;
    graphs.until_definition("Ready", "True").await;
    graphs.active("a").await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let kind = ObjectKey::cluster("widgets.example.com");
    graphs
        .world
        .delete(&definitions_kind(), &kind, "Background")
        .await;
    graphs.world.until_gone(&definitions_kind(), &kind).await;
    (graphs.tasks, graphs.requests) = run(&graphs.world);
    let a = graphs.until_state("a", "ERROR").await;
    let shown = a["status"]["conditions"].to_string();
    assert!(
        shown.contains("revision 2 of the graph cannot be run now"),
        "{shown}"
    );
    assert_eq!(admission_of(&a), "started/2");
    let secret = graphs.world.get(&secrets(), &key("a-secret")).await;
    assert!(secret.is_some(), "pruned");
    graphs.serve_widgets(json!({})).await;
    graphs.until_definition("Ready", "True").await;
    graphs.until_state("a", "ACTIVE").await;
    graphs.end().await;
}

#[tokio::test]
async fn a_definition_is_looked_at_again_when_a_kind_looks_otherwise() {
    let mut graphs = Graphs::start().await;
    graphs.trust().await;
    graphs.serve_widgets(json!({})).await;
    let mut graph = with_widget();
    graph["spec"]["resources"][3]["template"]["spec"]["color"] = json!("red");
    graphs.world.create(&api::definitions(), graph).await;
    // The kind may be found a moment later.
    let wrong = |object: &Value| object["status"]["conditions"].to_string().contains("color");
    graphs.world.until(&api::definitions(), &rgd(), wrong).await;
    // All that makes for another look is over.
    let seen = Arc::new(Notify::new());
    let tells = seen.clone();
    let looks = move |_: &Method, path: &str| {
        if path == "/openapi/v3" {
            tells.notify_one();
        }
        false
    };
    let client = refusing(graphs.world.client.clone(), looks, Arc::default());
    graphs.by_hand_with(client).await;
    seen.notified().await;
    graphs.world.hand.advance(Duration::from_secs(5));
    seen.notified().await;
    let schema = &widgets(json!({"color": {"type": "string"}}))["spec"]["versions"];
    let kind = ObjectKey::cluster("widgets.example.com");
    let change = json!({"spec": {"versions": schema}});
    graphs.change(&definitions_kind(), &kind, change).await;
    graphs.until_definition("Ready", "True").await;
    graphs.world.create(&shops(), shop("a")).await;
    let there = |object: &Value| object["spec"]["color"] == "red";
    let widgets = custom("widgets", "Widget");
    graphs.world.until(&widgets, &key("a-widget"), there).await;
    graphs.end().await;
}

#[tokio::test]
async fn what_is_taken_from_a_definition_goes_from_its_kind() {
    let graphs = Graphs::start().await;
    let mut graph = definition();
    graph["spec"]["schema"]["spec"]["size"] = json!("integer | default=1 maximum=5");
    graphs.define(graph.clone()).await;
    let kind = ObjectKey::cluster("shops.kro.run");
    let size = |object: &Value| {
        let schema = &object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"]["properties"]["size"].clone()
    };
    let bounded = |object: &Value| size(object)["maximum"] == 5;
    graphs
        .world
        .until(&definitions_kind(), &kind, bounded)
        .await;
    graph["spec"]["schema"]["spec"]["size"] = json!("integer | default=1");
    graphs.redefine(&graph).await;
    let free = |object: &Value| size(object)["maximum"].is_null();
    let now = graphs.world.until(&definitions_kind(), &kind, free).await;
    assert_eq!(size(&now)["default"], 1);
    graphs.until_definition("Ready", "True").await;
    graphs.end().await;
}

#[tokio::test]
async fn a_kind_that_is_refused_is_tried_again() {
    /// More than there are reasons to look at it otherwise.
    const OFTEN: usize = 6;
    let mut graphs = Graphs::start().await;
    let (tried, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (count, told) = (tried.clone(), enough.clone());
    let refused = graphs
        .restart_refused(move |method, path| {
            let ours = method == Method::PATCH && path.ends_with("/shops.kro.run");
            if ours && count.fetch_add(1, Ordering::SeqCst) + 1 == OFTEN {
                told.notify_one();
            }
            ours
        })
        .await;
    graphs.world.create(&api::definitions(), definition()).await;
    let told = graphs.until_definition("KindReady", "False").await;
    let shown = told["status"]["conditions"].to_string();
    assert!(shown.contains("no (403 Forbidden)"), "{shown}");
    let again = tokio::time::timeout(GRACE, enough.notified()).await;
    assert!(again.is_ok(), "tried {tried:?} times");
    refused.store(false, Ordering::SeqCst);
    graphs.until_definition("Ready", "True").await;
    graphs.end().await;
}

#[tokio::test]
async fn an_instance_ends_when_a_kind_of_its_objects_is_gone() {
    let graphs = Graphs::start().await;
    graphs.trust().await;
    graphs.serve_widgets(json!({})).await;
    graphs.define(with_widget()).await;
    graphs.active("a").await;
    let kind = ObjectKey::cluster("widgets.example.com");
    graphs
        .world
        .delete(&definitions_kind(), &kind, "Background")
        .await;
    graphs.world.until_gone(&definitions_kind(), &kind).await;
    graphs.world.delete(&shops(), &key("a"), "Background").await;
    graphs.world.until_gone(&shops(), &key("a")).await;
    graphs.end().await;
}

#[tokio::test]
async fn kinds_that_nobody_describes_keep_no_other_graph_waiting() {
    let mut graphs = Graphs::start().await;
    graphs.serve_widgets(json!({})).await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let (client, asked) = (graphs.world.client.clone(), Arc::new(Notify::new()));
    let told = asked.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, told) = (client.clone(), told.clone());
        async move {
            let path = request.uri().path();
            if path.starts_with("/openapi/v3/apis/example.com") {
                told.notify_one();
                std::future::pending::<()>().await;
            }
            client.send(request).await
        }
    });
    let client = kube::Client::new(service, "default");
    (graphs.tasks, graphs.requests) = run_with(client);
    for number in 0..8 {
        let mut stall = with_widget();
        stall["metadata"]["name"] = json!(format!("stall{number}"));
        stall["spec"]["schema"]["kind"] = json!(format!("Stall{number}"));
        graphs.world.create(&api::definitions(), stall).await;
    }
    asked.notified().await;
    graphs.define(definition()).await;
    graphs.active("a").await;
    graphs.end().await;
}

/// What was seen of a kind in a version that nobody follows any more is forgotten.
#[tokio::test]
async fn another_version_of_a_kind_leaves_nothing_of_the_one_before() {
    let graphs = Graphs::start().await;
    graphs.trust().await;
    let mut kind = widgets(json!({}));
    let mut second = kind["spec"]["versions"][0].clone();
    (second["name"], second["storage"]) = (json!("v2"), json!(false));
    let versions = kind["spec"]["versions"].as_array_mut();
    versions.expect("a list").push(second);
    let world = &graphs.world;
    world.create(&definitions_kind(), kind).await;
    let established = |object: &Value| condition(object, "Established", "True");
    let name = ObjectKey::cluster("widgets.example.com");
    world.until(&definitions_kind(), &name, established).await;
    let mut graph = with_widget();
    graphs.define(graph.clone()).await;
    graphs.active("a").await;
    let (widget, of_widgets) = (key("a-widget"), custom("widgets", "Widget"));
    let first = world.until(&of_widgets, &widget, |_| true).await;
    graph["spec"]["resources"][3]["template"]["apiVersion"] = json!("example.com/v2");
    graphs.redefine(&graph).await;
    let applied = |object: &Value| {
        let marked =
            |object: &Value| object["metadata"]["annotations"]["deltaplane.io/content"].clone();
        marked(object) != marked(&first)
    };
    world.until(&of_widgets, &widget, applied).await;
    let moved = |object: &Value| {
        let shown = object["status"]["conditions"].to_string();
        object["status"]["state"] == "ACTIVE" && shown.contains("revision 2")
    };
    world.until(&shops(), &key("a"), moved).await;
    world.delete(&of_widgets, &widget, "Background").await;
    let another = |object: &Value| object["metadata"]["uid"] != first["metadata"]["uid"];
    world.until(&of_widgets, &widget, another).await;
    // Whoever took the old one for there would wait for its end.
    graphs
        .change(&shops(), &key("a"), json!({"spec": {"greeting": "ho"}}))
        .await;
    graphs.until_says("a", "ho!").await;
    let active = |object: &Value| {
        let ready = &object["status"]["conditions"][2];
        let now = ready["observedGeneration"] == object["metadata"]["generation"];
        now && object["status"]["state"] == "ACTIVE"
    };
    world.until(&shops(), &key("a"), active).await;
    world.delete(&shops(), &key("a"), "Background").await;
    world.until_gone(&shops(), &key("a")).await;
    assert_eq!(world.get(&of_widgets, &widget).await, None);
    graphs.end().await;
}

/// A revision that needs a kind which is not served is there, and says what is wrong with it.
#[tokio::test]
async fn an_older_revision_whose_kind_is_gone_says_so() {
    let graphs = Graphs::start().await;
    graphs.trust().await;
    graphs.serve_widgets(json!({})).await;
    graphs.define(with_widget()).await;
    graphs.active("a").await;
    let held = json!("true");
    graphs.annotate("a", deltaplane_api::keys::HOLD, held).await;
    graphs.redefine(&definition()).await;
    graphs
        .until_propagation(json!({"revision": 2, "held": 1}))
        .await;
    let name = ObjectKey::cluster("widgets.example.com");
    let world = &graphs.world;
    world.delete(&definitions_kind(), &name, "Background").await;
    let told = |object: &Value| {
        let said = object["status"]["conditions"][1]["message"].as_str();
        said.is_some_and(|said| {
            said.starts_with("revision 1 of the graph cannot be run now: ")
                && said.contains("Widget")
        })
    };
    world.until(&shops(), &key("a"), told).await;
    graphs.end().await;
}

/// Whoever serves another version of a kind by now has what was made in the one before.
#[tokio::test]
async fn what_was_made_in_a_version_that_is_not_served_any_more_goes_with_its_instance() {
    let graphs = Graphs::start().await;
    graphs.trust().await;
    let mut kind = widgets(json!({}));
    let mut second = kind["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    let versions = kind["spec"]["versions"].as_array_mut();
    versions.expect("a list").push(second);
    graphs.world.create(&definitions_kind(), kind.clone()).await;
    let name = ObjectKey::cluster("widgets.example.com");
    let established = |object: &Value| condition(object, "Established", "True");
    graphs
        .world
        .until(&definitions_kind(), &name, established)
        .await;
    graphs.define(with_widget()).await;
    graphs.active("a").await;
    kind["spec"]["versions"][0]["served"] = json!(false);
    let change = json!({"spec": {"versions": kind["spec"]["versions"]}});
    graphs.change(&definitions_kind(), &name, change).await;
    graphs.until_definition("GraphAccepted", "False").await;
    let held = json!({"metadata": {"finalizers": ["test.io/hold"]}});
    let widgets = Resource::namespaced("example.com", "v2", "widgets", "Widget");
    graphs.change(&widgets, &key("a-widget"), held).await;
    graphs.world.delete(&shops(), &key("a"), "Background").await;
    let going = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    graphs.world.until(&widgets, &key("a-widget"), going).await;
    let waits = "waits until these are gone: Widget default/a-widget";
    graphs
        .until_told("a", "ResourcesReady", "UnderDeletion", waits)
        .await;
    let free = json!({"metadata": {"finalizers": []}});
    graphs.change(&widgets, &key("a-widget"), free).await;
    graphs.world.until_gone(&shops(), &key("a")).await;
    graphs.world.until_gone(&widgets, &key("a-widget")).await;
    graphs.end().await;
}

/// A kind may be made again with another scope.
#[tokio::test]
async fn a_kind_that_comes_back_in_namespaces_is_found_where_it_is() {
    let graphs = Graphs::start().await;
    graphs.trust().await;
    let world = &graphs.world;
    let mut kind = widgets(json!({}));
    kind["spec"]["scope"] = json!("Cluster");
    world.create(&definitions_kind(), kind).await;
    let established = |object: &Value| condition(object, "Established", "True");
    let name = ObjectKey::cluster("widgets.example.com");
    world.until(&definitions_kind(), &name, established).await;
    graphs.define(with_widget()).await;
    graphs.active("a").await;
    world.delete(&definitions_kind(), &name, "Background").await;
    world.until_gone(&definitions_kind(), &name).await;
    graphs.serve_widgets(json!({})).await;
    let (widget, of_widgets) = (key("a-widget"), custom("widgets", "Widget"));
    world.until(&of_widgets, &widget, |_| true).await;
    graphs.until_state("a", "ACTIVE").await;
    world.delete(&shops(), &key("a"), "Background").await;
    world.until_gone(&shops(), &key("a")).await;
    assert_eq!(world.get(&of_widgets, &widget).await, None);
    graphs.end().await;
}

/// So is what is referred to by labels, which say nothing of where it is.
#[tokio::test]
async fn a_kind_that_comes_back_under_another_name_is_referred_to_where_it_is() {
    let graphs = Graphs::start().await;
    graphs.trust().await;
    graphs.serve_widgets(json!({})).await;
    let mut counting = definition();
    counting["spec"]["schema"]["status"] = json!({"widgets": "${string(widgets.size())}"});
    counting["spec"]["resources"] = json!([
        {"id": "widgets", "externalRef": {
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"selector": {"matchLabels": {"a": "b"}}},
        }},
        {"id": "count", "template": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "${schema.spec.name}-count"},
            "data": {"widgets": "${string(widgets.size())}"},
        }},
    ]);
    graphs.define(counting).await;
    let world = &graphs.world;
    world.create(&shops(), shop("a")).await;
    let counted = |count: &'static str| move |object: &Value| object["status"]["widgets"] == count;
    world.until(&shops(), &key("a"), counted("0")).await;
    let name = ObjectKey::cluster("widgets.example.com");
    world.delete(&definitions_kind(), &name, "Background").await;
    world.until_gone(&definitions_kind(), &name).await;
    let mut kind = widgets(json!({}));
    kind["metadata"]["name"] = json!("gadgets.example.com");
    kind["spec"]["names"]["plural"] = json!("gadgets");
    world.create(&definitions_kind(), kind).await;
    let established = |object: &Value| condition(object, "Established", "True");
    let name = ObjectKey::cluster("gadgets.example.com");
    world.until(&definitions_kind(), &name, established).await;
    let metadata = json!({"name": "one", "namespace": "default", "labels": {"a": "b"}});
    let gadgets = custom("gadgets", "Widget");
    world.create(&gadgets, json!({"metadata": metadata})).await;
    world.until(&shops(), &key("a"), counted("1")).await;
    graphs.end().await;
}
