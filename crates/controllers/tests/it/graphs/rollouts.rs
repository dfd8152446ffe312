//! What may happen while instances move.

use super::*;
use crate::world::definitions_kind;

impl Graphs {
    /// Three instances at the first revision; the first moves to the second, and is not ready there.
    pub(super) async fn midway() -> Self {
        let graphs = Self::start().await;
        graphs.define(gated("!")).await;
        for name in ["a", "b", "c"] {
            graphs.world.create(&shops(), shop(name)).await;
            graphs.approve(name, "hi!").await;
            graphs.until_state(name, "ACTIVE").await;
        }
        graphs
            .until_propagation(json!({"revision": 1, "current": 3}))
            .await;
        graphs.redefine(&gated("?")).await;
        graphs.until_says("a", "hi?").await;
        let wanted = json!({"revision": 2, "updating": 1, "pending": 2});
        graphs.until_propagation(wanted).await;
        graphs
    }

    pub(super) async fn until_says(&self, name: &str, greeting: &str) {
        let second = key(&format!("{name}-second"));
        let says = |object: &Value| object["data"]["greeting"] == greeting;
        self.world.until(&config_maps(), &second, says).await;
    }

    async fn until_admitted(&self, name: &str, admission: &str) {
        let is = |object: &Value| admission_of(object) == admission;
        self.world.until(&shops(), &key(name), is).await;
    }
}

#[tokio::test]
async fn a_newer_revision_takes_over_where_the_other_is() {
    let graphs = Graphs::midway().await;
    graphs.redefine(&gated(".")).await;
    // The one under way goes there, and keeps its place.
    graphs.until_says("a", "hi.").await;
    let wanted = json!({"revision": 3, "updating": 1, "pending": 2});
    graphs.until_propagation(wanted).await;
    assert_eq!(graphs.greetings().await, ["hi.", "hi!", "hi!"]);
    for name in ["a", "b", "c"] {
        graphs.approve(name, "hi.").await;
    }
    graphs.until_propagation(json!({"current": 3})).await;
    graphs.end().await;
}

#[tokio::test]
async fn what_was_wrong_is_undone_through_the_same_gate() {
    let graphs = Graphs::midway().await;
    graphs.redefine(&gated("!")).await;
    graphs.until_says("a", "hi!").await;
    // It is said to be right what the others are at.
    graphs.approve("a", "hi!").await;
    graphs
        .until_propagation(json!({"revision": 3, "current": 3}))
        .await;
    for name in ["a", "b", "c"] {
        graphs.until_admitted(name, "arrived/3").await;
    }
    assert_eq!(graphs.greetings().await, ["hi!", "hi!", "hi!"]);
    graphs.end().await;
}

#[tokio::test]
async fn what_a_bad_revision_added_stays_served_when_it_is_undone() {
    let graphs = Graphs::midway().await;
    let mut more = gated(".");
    more["spec"]["schema"]["spec"]["color"] = json!("string | default=red");
    more["spec"]["schema"]["status"]["color"] = json!("${schema.spec.color}");
    graphs.redefine(&more).await;
    graphs.until_says("a", "hi.").await;
    let mut before = gated("!");
    before["spec"]["schema"]["spec"]["color"] = Value::Null;
    before["spec"]["schema"]["status"]["color"] = Value::Null;
    graphs.redefine(&before).await;
    // It is gone back one by one.
    graphs.until_says("a", "hi!").await;
    graphs.approve("a", "hi!").await;
    graphs
        .until_propagation(json!({"revision": 4, "current": 3}))
        .await;
    graphs.until_definition("Ready", "True").await;
    // Nobody loses what was written meanwhile.
    let kind = graphs
        .world
        .get(&definitions_kind(), &ObjectKey::cluster("shops.kro.run"))
        .await;
    let schema = &kind.expect("served")["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for part in ["spec", "status"] {
        let color = &schema["properties"][part]["properties"]["color"];
        assert_eq!(color["type"], "string", "{part}");
    }
    let a = graphs.until_state("a", "ACTIVE").await;
    assert_eq!(a["spec"]["color"], "red");
    assert_eq!(a["status"]["color"], Value::Null);
    // What comes next goes on from there.
    let mut next = gated(";");
    next["spec"]["schema"]["spec"]["size"] = json!("integer | default=1");
    graphs.redefine(&next).await;
    graphs.until_says("a", "hi;").await;
    let b = graphs.world.get(&shops(), &key("b")).await.expect("there");
    assert_eq!(
        (&b["spec"]["color"], &b["spec"]["size"]),
        (&json!("red"), &json!(1))
    );
    graphs.end().await;
}

#[tokio::test]
async fn one_that_is_deleted_on_its_way_makes_room() {
    let graphs = Graphs::midway().await;
    graphs.world.delete(&shops(), &key("a"), "Background").await;
    graphs.until_says("b", "hi?").await;
    // One of the same name is another: it begins with what all had reached.
    graphs.world.until_gone(&shops(), &key("a")).await;
    graphs.world.create(&shops(), shop("a")).await;
    graphs.until_admitted("a", "started/1").await;
    graphs.approve("a", "hi!").await;
    graphs.until_state("a", "ACTIVE").await;
    assert_eq!(graphs.greetings().await, ["hi!", "hi?", "hi!"]);
    graphs.approve("b", "hi?").await;
    // Which of them is older may not show.
    tokio::join!(graphs.approve("c", "hi?"), graphs.approve("a", "hi?"));
    graphs
        .until_propagation(json!({"current": 3, "revision": 2}))
        .await;
    graphs.end().await;
}

#[tokio::test]
async fn one_that_waits_for_its_turn_still_follows_its_owner() {
    let graphs = Graphs::midway().await;
    let change = json!({"spec": {"greeting": "hello"}});
    graphs.change(&shops(), &key("b"), change).await;
    graphs.until_says("b", "hello!").await;
    let forged = json!({"data": {"greeting": "forged"}});
    graphs
        .change(&config_maps(), &key("c-second"), forged)
        .await;
    graphs.until_says("c", "hi!").await;
    assert_eq!(graphs.greetings().await, ["hi?", "hello!", "hi!"]);
    graphs.end().await;
}

#[tokio::test]
async fn a_gate_that_is_edited_is_another_at_once() {
    let graphs = Graphs::midway().await;
    let mut open = gated("?");
    open["spec"]["propagateWhen"] = json!([]);
    graphs.redefine(&open).await;
    for name in ["b", "c"] {
        graphs.until_says(name, "hi?").await;
    }
    graphs.end().await;
}

#[tokio::test]
async fn one_whose_revision_is_gone_keeps_no_other_from_moving() {
    let mut graphs = Graphs::start().await;
    graphs.define(gated("!")).await;
    for name in ["a", "b"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    let forged = json!({"metadata": {"annotations": {"deltaplane.io/admission": "arrived/99"}}});
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    graphs.change(&shops(), &key("a"), forged).await;
    (graphs.tasks, graphs.requests) = run(&graphs.world);
    graphs.until_state("a", "ERROR").await;
    graphs.redefine(&gated("?")).await;
    tokio::join!(graphs.approve("a", "hi?"), graphs.approve("b", "hi?"));
    let wanted = json!({"revision": 2, "current": 2});
    graphs.until_propagation(wanted).await;
    graphs.end().await;
}

#[tokio::test]
async fn a_new_one_begins_where_others_were_ready_while_all_are_on_their_way() {
    let graphs = Graphs::start().await;
    let two = |mark: &str| {
        let mut definition = gated(mark);
        definition["spec"]["propagateWhen"] = json!(["linearlyReady(shop, shops, 2)"]);
        definition
    };
    graphs.define(two("!")).await;
    for name in ["a", "b"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    graphs.redefine(&two("?")).await;
    for name in ["a", "b"] {
        graphs.until_says(name, "hi?").await;
    }
    graphs.world.create(&shops(), shop("c")).await;
    graphs.until_says("c", "hi!").await;
    graphs.until_admitted("c", "started/1").await;
    graphs.end().await;
}

#[tokio::test]
async fn one_that_is_held_does_not_keep_new_ones_at_what_was() {
    let graphs = Graphs::start().await;
    graphs.define(gated("!")).await;
    for name in ["a", "b"] {
        graphs.world.create(&shops(), shop(name)).await;
        graphs.approve(name, "hi!").await;
        graphs.until_state(name, "ACTIVE").await;
    }
    let held = json!({"metadata": {"annotations": {"deltaplane.io/hold": "true"}}});
    graphs.change(&shops(), &key("a"), held).await;
    graphs.redefine(&gated("?")).await;
    graphs.approve("b", "hi?").await;
    graphs.until_admitted("b", "arrived/2").await;
    graphs.world.create(&shops(), shop("c")).await;
    graphs.until_says("c", "hi?").await;
    graphs.until_admitted("c", "started/2").await;
    graphs.end().await;
}

#[tokio::test]
async fn what_a_gate_said_goes_with_it_also_when_nobody_looked() {
    let mut graphs = Graphs::start().await;
    graphs.define(gated("!")).await;
    graphs.world.create(&shops(), shop("a")).await;
    graphs
        .until_propagation(json!({"revision": 1, "instances": 1}))
        .await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    graphs
        .redefine(&json!({"spec": {"propagateWhen": null}}))
        .await;
    (graphs.tasks, graphs.requests) = run(&graphs.world);
    let gone = |object: &Value| object["status"]["propagation"].is_null();
    graphs.world.until(&api::definitions(), &rgd(), gone).await;
    graphs.end().await;
}

#[tokio::test]
async fn an_object_that_lost_its_labels_gets_them_back() {
    let graphs = Graphs::start().await;
    graphs.define(definition()).await;
    graphs.active("a").await;
    let lost = json!({"metadata": {"labels": {"kro.run/instance-id": null}}});
    graphs.change(&config_maps(), &key("a-first"), lost).await;
    let again = |object: &Value| object["metadata"]["labels"]["kro.run/instance-id"].is_string();
    graphs
        .world
        .until(&config_maps(), &key("a-first"), again)
        .await;
    graphs.end().await;
}
