//! Somebody replaces the kinds that graphs are written in.

use super::*;
use crate::world::definitions_kind;

const KIND: &str = "resourcegraphdefinitions.kro.run";

/// Whether a kind keeps the gate of a definition.
fn keeps_gates(kind: &Value) -> bool {
    let schema = &kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"]["propagateWhen"].is_object()
}

impl Graphs {
    /// The kind of definitions becomes one that knows nothing of gates.
    async fn forget_gates(&self) {
        let name = ObjectKey::cluster(KIND);
        let kinds = definitions_kind();
        let kind = self.world.get(&kinds, &name).await.expect("there");
        let mut versions = kind["spec"]["versions"].clone();
        let spec = versions
            .pointer_mut("/0/schema/openAPIV3Schema/properties/spec/properties")
            .and_then(Value::as_object_mut);
        spec.expect("fields").remove("propagateWhen");
        let change = json!({"spec": {"versions": versions}});
        self.change(&kinds, &name, change).await;
    }

    async fn until_gates_are_kept(&self) {
        let name = ObjectKey::cluster(KIND);
        self.world
            .until(&definitions_kind(), &name, keeps_gates)
            .await;
    }

    /// What a definition that lost its gate says, and that nobody moved by it.
    async fn is_halted(&self) {
        let told = self.until_definition("GraphAccepted", "False").await;
        let shown = told["status"]["conditions"][0].to_string();
        assert!(shown.contains("ForeignSchema"), "{shown}");
        assert!(shown.contains("spec.propagateWhen was lost"), "{shown}");
        assert_eq!(told["status"]["lastIssuedRevision"], 2);
        self.mends("b", "hi!").await;
        assert_eq!(self.greetings().await, ["hi?", "hi!", "hi!"]);
    }
}

#[tokio::test]
async fn a_gate_does_not_vanish_with_the_kind_that_it_is_written_in() {
    let mut graphs = Graphs::midway().await;
    let kept = graphs
        .restart_refused(|method, path| method == Method::PATCH && path.ends_with(KIND))
        .await;
    graphs.forget_gates().await;
    // The next write drops the gate; nobody takes that for a change.
    let note = json!({"metadata": {"annotations": {"note": "mine"}}});
    graphs.change(&api::definitions(), &rgd(), note).await;
    let bare = graphs.world.get(&api::definitions(), &rgd()).await;
    assert!(bare.expect("there")["spec"]["propagateWhen"].is_null());
    graphs.mends("b", "hi!").await;
    kept.store(false, Ordering::SeqCst);
    graphs.until_gates_are_kept().await;
    graphs.is_halted().await;
    // A restart changes nothing about that.
    graphs.restart().await;
    graphs.is_halted().await;
    // It is written again.
    graphs.redefine(&gated("?")).await;
    graphs.until_definition("Ready", "True").await;
    graphs.approve_all("hi?").await;
    graphs
        .until_propagation(json!({"revision": 2, "current": 3}))
        .await;
    graphs.end().await;
}

#[tokio::test]
async fn a_gate_that_vanished_while_nobody_looked_is_missed() {
    let mut graphs = Graphs::midway().await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    graphs.forget_gates().await;
    graphs.redefine(&gated(".")).await;
    graphs::install(&graphs.world.client)
        .await
        .expect("installed");
    graphs.until_gates_are_kept().await;
    (graphs.tasks, graphs.requests) = run(&graphs.world);
    graphs.is_halted().await;
    // Its author says that there is to be none.
    let none = json!({"spec": {"propagateWhen": []}});
    graphs.change(&api::definitions(), &rgd(), none).await;
    graphs.until_definition("Ready", "True").await;
    for name in ["a", "b", "c"] {
        graphs.until_says(name, "hi.").await;
    }
    graphs.end().await;
}
