//! What would not end does not begin.

use deltaplane_client::Pace;
use deltaplane_controllers::graphs::{DefinitionChecker, DefinitionError};

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

/// A definition of a kind whose instances make one object of another.
fn maker(kind: &str, of: &str) -> Value {
    let (api_version, spec) = match of {
        "ConfigMap" => ("v1", Value::Null),
        _ => (
            "kro.run/v1",
            json!({"name": format!("${{schema.spec.name}}-{}", kind.to_lowercase())}),
        ),
    };
    let mut template = json!({
        "apiVersion": api_version, "kind": of,
        "metadata": {"name": format!("${{schema.spec.name}}-{}", kind.to_lowercase())},
    });
    if !spec.is_null() {
        template["spec"] = spec;
    }
    json!({
        "metadata": {"name": kind.to_lowercase()},
        "spec": {
            "schema": {"kind": kind, "apiVersion": "v1", "spec": {"name": "string"}},
            "resources": [{"id": "made", "template": template}],
        },
    })
}

impl Graphs {
    async fn until_one(&self, name: &str, r#type: &str, status: &str) {
        let is = |object: &Value| condition(object, r#type, status);
        let name = ObjectKey::cluster(name);
        self.world.until(&api::definitions(), &name, is).await;
    }
}

#[tokio::test]
async fn a_definition_that_is_not_stored_is_judged_by_where_it_would_lead() {
    let mut graphs = Graphs::start().await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let client = graphs.world.client.clone();
    let circles = Circles::default();
    let running = Running {
        mode: Mode::Run,
        options: GraphOptions::default(),
        metrics: Metrics::default(),
        circles: circles.clone(),
    };
    let context = Context {
        client: client.clone(),
        pace: Pace::system(),
    };
    (graphs.tasks, graphs.requests) = run_so(context, running);
    for (kind, of) in [("Egg", "ConfigMap"), ("Hen", "Egg")] {
        let definition = maker(kind, of);
        graphs.world.create(&api::definitions(), definition).await;
        graphs
            .until_one(&kind.to_lowercase(), "Ready", "True")
            .await;
    }
    let checker = DefinitionChecker::new(client, circles);
    let judge = async |definition: &Value| {
        let judged = checker.compile(definition).await.expect("a judgement");
        judged.map(drop)
    };
    let why = "its instances would make each other without end: Egg makes Hen makes Egg";
    let refused = judge(&maker("Egg", "Hen")).await.expect_err("a circle");
    assert!(
        matches!(&refused, DefinitionError::Circle(way) if way.starts_with(why)),
        "{refused}"
    );
    // Nothing was admitted by that.
    assert_eq!(judge(&maker("Hen", "Egg")).await, Ok(()));
    assert_eq!(judge(&maker("Egg", "ConfigMap")).await, Ok(()));
    graphs.end().await;
}

#[tokio::test]
async fn who_is_looked_at_first_after_a_restart_decides_nothing() {
    // Names decide who is looked at first.
    for (hen, egg) in [("Ahen", "Zegg"), ("Zhen", "Aegg")] {
        let mut graphs = Graphs::start().await;
        let world = &graphs.world;
        let [hens, eggs] = [hen, egg].map(|kind| {
            let name = kind.to_lowercase();
            (
                ObjectKey::cluster(&name),
                Resource::namespaced("kro.run", "v1", &format!("{name}s"), kind),
            )
        });
        let ready = |object: &Value| condition(object, "Ready", "True");
        world
            .create(&api::definitions(), maker(egg, "ConfigMap"))
            .await;
        world.until(&api::definitions(), &eggs.0, ready).await;
        world.create(&api::definitions(), maker(hen, egg)).await;
        world.until(&api::definitions(), &hens.0, ready).await;
        let endless = json!({"spec": maker(egg, hen)["spec"]});
        graphs.change(&api::definitions(), &eggs.0, endless).await;
        let refused = |object: &Value| condition(object, "GraphAccepted", "False");
        graphs
            .world
            .until(&api::definitions(), &eggs.0, refused)
            .await;
        graphs.restart().await;
        let world = &graphs.world;
        world.create(&hens.1, shop("a")).await;
        let active = |object: &Value| object["status"]["state"] == "ACTIVE";
        world.until(&hens.1, &key("a"), active).await;
        for (name, ok) in [(&hens.0, "True"), (&eggs.0, "False")] {
            let told = world.get(&api::definitions(), name).await.expect("there");
            assert!(condition(&told, "GraphAccepted", ok), "{told}");
        }
        // One of each, and what the last of them made before.
        let count = (
            world.list(&hens.1).await.len(),
            world.list(&eggs.1).await.len(),
        );
        assert_eq!(count, (1, 1));
        graphs.end().await;
    }
}

/// It never had a revision, whose end would tell: its kind is that of another.
#[tokio::test]
async fn one_that_is_refused_is_let_in_when_the_other_is_deleted() {
    let mut graphs = Graphs::start().await;
    for kind in ["Egg", "Hen"] {
        let made = maker(kind, "ConfigMap");
        graphs.world.create(&api::definitions(), made).await;
        let name = kind.to_lowercase();
        graphs.until_one(&name, "Ready", "True").await;
    }
    graphs.by_hand().await;
    let mut other = maker("Hen", "Egg");
    other["metadata"]["name"] = "other".into();
    graphs.world.create(&api::definitions(), other).await;
    graphs.until_one("other", "KindReady", "False").await;
    let (egg, other) = (ObjectKey::cluster("egg"), ObjectKey::cluster("other"));
    let endless = json!({"spec": maker("Egg", "Hen")["spec"]});
    graphs.change(&api::definitions(), &egg, endless).await;
    graphs.until_one("egg", "GraphAccepted", "False").await;
    // All are looked at again a while after there were new kinds: that is over.
    graphs.world.hand.advance(Duration::from_secs(60));
    let world = &graphs.world;
    world
        .delete(&api::definitions(), &other, "Background")
        .await;
    graphs.until_one("egg", "GraphAccepted", "True").await;
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
