//! People who say that something stays as it is.

use deltaplane_api::keys;

use super::*;

fn pause(paused: Option<&str>) -> Value {
    json!({"metadata": {"annotations": {keys::PAUSED: paused}}})
}

fn hold(until: Option<&str>) -> Value {
    json!({"metadata": {"annotations": {keys::HOLD: until}}})
}

/// A definition without a gate, whose instances say this.
fn saying(mark: &str) -> Value {
    let mut definition = gated(mark);
    let spec = definition["spec"].as_object_mut().expect("a spec");
    spec.insert("propagateWhen".to_owned(), json!([]));
    definition
}

impl Graphs {
    async fn behind(&self, name: &str) -> Value {
        let is = |object: &Value| condition(object, "ResourcesPropagated", "False");
        self.world.until(&shops(), &key(name), is).await
    }
}

#[tokio::test]
async fn nobody_moves_while_it_is_paused_although_there_is_no_gate() {
    let mut graphs = Graphs::start().await;
    graphs.define(saying("!")).await;
    for name in ["a", "b"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    graphs
        .change(&api::definitions(), &rgd(), pause(Some("true")))
        .await;
    graphs
        .until_propagation(json!({"paused": true, "current": 2}))
        .await;
    graphs.redefine(&saying("?")).await;
    graphs
        .until_propagation(json!({"revision": 2, "held": 2, "current": 0}))
        .await;
    graphs.behind("a").await;
    graphs.restart().await;
    // A new one begins with what is known to work.
    graphs.world.create(&shops(), shop("c")).await;
    graphs.approve("c", "hi!").await;
    let c = graphs.until_state("c", "ACTIVE").await;
    assert_eq!(admission_of(&c), "started/1");
    assert_eq!(graphs.greetings().await, ["hi!", "hi!", "hi!"]);
    graphs
        .change(&api::definitions(), &rgd(), pause(None))
        .await;
    for name in ["a", "b", "c"] {
        graphs.approve(name, "hi?").await;
    }
    // There is nothing to tell of any more.
    let is = |object: &Value| object["status"]["propagation"].is_null();
    graphs.world.until(&api::definitions(), &rgd(), is).await;
    graphs.end().await;
}

#[tokio::test]
async fn one_that_is_held_stays_although_there_is_no_gate() {
    let graphs = Graphs::start().await;
    graphs.define(saying("!")).await;
    for name in ["a", "b"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    let held = json!({"metadata": {"annotations": {keys::HOLD: "true"}}});
    graphs.change(&shops(), &key("a"), held).await;
    graphs.redefine(&saying("?")).await;
    graphs.approve("b", "hi?").await;
    graphs
        .until_propagation(json!({"revision": 2, "held": 1, "current": 1}))
        .await;
    graphs.until_says("a", "hi!").await;
    // What somebody changes of it is put right where it is.
    let forged = json!({"data": {"greeting": "forged"}});
    graphs
        .change(&config_maps(), &key("a-second"), forged)
        .await;
    graphs.until_says("a", "hi!").await;
    let free = json!({"metadata": {"annotations": {keys::HOLD: null}}});
    graphs.change(&shops(), &key("a"), free).await;
    graphs.until_says("a", "hi?").await;
    let nothing = |object: &Value| object["status"]["propagation"].is_null();
    graphs
        .world
        .until(&api::definitions(), &rgd(), nothing)
        .await;
    graphs.end().await;
}

#[tokio::test]
async fn one_that_is_held_stays_and_lets_others_past() {
    let graphs = Graphs::start().await;
    graphs.define(gated("!")).await;
    for name in ["a", "b", "c"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    graphs.change(&shops(), &key("a"), hold(Some("true"))).await;
    // This time is over.
    graphs
        .change(&shops(), &key("b"), hold(Some("2020-01-01T00:00:00Z")))
        .await;
    graphs.redefine(&gated("?")).await;
    for name in ["b", "c"] {
        graphs.approve(name, "hi?").await;
    }
    graphs
        .until_propagation(json!({"revision": 2, "current": 2, "held": 1}))
        .await;
    let a = graphs.behind("a").await;
    // It is as it was, and that is well.
    assert_eq!(a["status"]["state"], "ACTIVE");
    assert!(condition(&a, "Ready", "True"));
    assert_eq!(graphs.greetings().await, ["hi!", "hi?", "hi?"]);
    let events = Resource::namespaced("", "v1", "events", "Event");
    let events = graphs.world.list(&events).await;
    let about = |one: &&Value| one["involvedObject"]["uid"] == a["metadata"]["uid"];
    let noted: Vec<&Value> = events.iter().filter(about).collect();
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!(noted[0]["reason"], "GateClosed");
    graphs.change(&shops(), &key("a"), hold(None)).await;
    graphs.approve("a", "hi?").await;
    graphs
        .until_propagation(json!({"current": 3, "held": 0}))
        .await;
    graphs.end().await;
}
