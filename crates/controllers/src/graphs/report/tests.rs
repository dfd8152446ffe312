//! What instances say of themselves, for what there is of them.

mod authored;

use std::fmt::Write as _;
use std::sync::Arc;

use deltaplane_api::field::Path;
use deltaplane_expr::Timestamp;
use deltaplane_graph::observed::{Live, Observed};
use deltaplane_graph::plan::{self, Inputs, Instance, Rendering};
use deltaplane_graph::{Definition, Gvk, Known, Lookup, compile};
use deltaplane_schema::crd;
use expect_test::{Expect, expect};
use serde_json::json;

use super::super::kept::KeptBy;
use super::*;

/// ConfigMaps are all there is.
fn lookup(gvk: &Gvk) -> Lookup {
    let fields = json!({"data": {"type": "object", "additionalProperties": {"type": "string"}}});
    let raw = json!({"type": "object", "properties": fields});
    let schema = crd::compile(&raw, &Path::root(), crd::Options::default()).expect("a schema");
    Lookup::Known(Arc::new(Known::new(
        gvk.clone(),
        "configmaps",
        true,
        schema,
    )))
}

/// A ConfigMap behind a gate, and one that is made of it.
fn graph(gate: &str) -> Graph {
    let map = |name: &str, text: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name}, "data": {"text": text},
        })
    };
    let definition = json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {"kind": "Shop", "apiVersion": "v1", "spec": {"name": "string"}},
            "resources": [
                {"id": "first", "propagateWhen": [gate], "readyWhen": ["${first.data.text != ''}"],
                 "template": map("first", "${schema.spec.name}")},
                {"id": "second", "template": map("second", "${first.data.text}")},
            ],
        },
    });
    let definition = Definition::read(&definition).expect("a definition");
    compile(&definition, &lookup).unwrap_or_else(|problems| panic!("{problems}"))
}

fn id(name: &str) -> ObjectId {
    ObjectId {
        gvk: Gvk::new("", "v1", "ConfigMap"),
        namespace: "default".to_owned(),
        name: name.to_owned(),
    }
}

fn instance() -> Value {
    let metadata = json!({
        "name": "a", "namespace": "default", "generation": 3, "finalizers": [labels::FINALIZER],
    });
    json!({"metadata": metadata, "spec": {"name": "a"}, "status": {"kept": "yes"}})
}

/// Plans; as often as wanted what a plan says is there for the next.
fn planned(graph: &Graph, passes: usize) -> Plan {
    let instance = instance();
    let mut observed = Observed::default();
    for pass in 0.. {
        let plan = plan::plan(Inputs {
            graph,
            instance: Instance::new(&instance),
            observed: &observed,
            taken: &|_| None,
            product: "test",
            now: Timestamp::parse("2026-03-01T12:00:00Z").expect("a time"),
            frozen: &|_| None,
            unsure: &BTreeMap::new(),
            in_flight: &BTreeMap::new(),
            unseen: &|_| false,
            rendering: Rendering::whole(),
        });
        if pass == passes {
            return plan;
        }
        for apply in &plan.apply {
            let mut live = Live::parsed(apply.id.clone(), apply.object.clone());
            live.applied = Some(deltaplane_graph::observed::Applied {
                content: apply.content.clone(),
                intact: true,
            });
            let node = graph.node(apply.node).id();
            observed.insert(node, Arc::new(live));
        }
    }
    unreachable!("it ends at some pass")
}

/// The state, and the conditions, a line for each.
fn check(ended: &Ended<'_>, expected: &Expect) {
    let now = Time::from_system(std::time::UNIX_EPOCH);
    let status = status(&instance(), ended, now);
    let mut out = format!("{}\n", status["state"].as_str().expect("a state"));
    for one in status["conditions"].as_array().expect("conditions") {
        let text = |key: &str| one[key].as_str().unwrap_or_default();
        assert_eq!(one["observedGeneration"], 3);
        let (name, status) = (text("type"), text("status"));
        let (reason, message) = (text("reason"), text("message"));
        writeln!(out, "{name} {status} {reason}: {message}").expect("a text");
    }
    expected.assert_eq(&out);
}

fn check_planned(graph: &Graph, passes: usize, hindered: &Hindrances, expected: &Expect) {
    let plan = planned(graph, passes);
    let ended = Ended::Planned {
        graph,
        plan: &plan,
        hindered,
        runs: Point::new(7, "ff"),
        behind: None,
    };
    check(&ended, expected);
}

#[test]
fn what_is_ready_says_so() {
    let graph = graph("true");
    let none = Hindrances::default();
    check_planned(
        &graph,
        0,
        &none,
        &expect![[r#"
        IN_PROGRESS
        InstanceManaged True Managed: the finalizer and labels are there
        GraphResolved True Resolved: revision 7/00000000000000ff
        ResourcesReady False NotReady: first: 1 to be applied; second: waits for first
        ResourcesPropagated False Propagating: not all resources are there
        Ready False NotReady: first: 1 to be applied; second: waits for first
    "#]],
    );
    check_planned(
        &graph,
        2,
        &none,
        &expect![[r#"
        ACTIVE
        InstanceManaged True Managed: the finalizer and labels are there
        GraphResolved True Resolved: revision 7/00000000000000ff
        ResourcesReady True AllResourcesReady: all resources are ready
        ResourcesPropagated True AllResourcesPropagated: all resources are what they should be
        Ready True Ready: 
    "#]],
    );
}

/// A gate that is closed, and one that cannot be asked.
#[test]
fn what_a_gate_keeps_back_says_why() {
    let none = Hindrances::default();
    let closed = graph("schema.spec.name == 'b'");
    check_planned(
        &closed,
        1,
        &none,
        &expect![[r#"
        IN_PROGRESS
        InstanceManaged True Managed: the finalizer and labels are there
        GraphResolved True Resolved: revision 7/00000000000000ff
        ResourcesReady False NotReady: first: 1 may not be made yet; first: the gate of ConfigMap default/first is closed: schema.spec.name == 'b': schema.spec.name: "a"; second: waits for first
        ResourcesPropagated False GateClosed: first: the gate of ConfigMap default/first is closed: schema.spec.name == 'b': schema.spec.name: "a"
        Ready False NotReady: first: 1 may not be made yet; first: the gate of ConfigMap default/first is closed: schema.spec.name == 'b': schema.spec.name: "a"; second: waits for first
    "#]],
    );
    let wrong = graph("int(schema.spec.name) > 0");
    check_planned(
        &wrong,
        1,
        &none,
        &expect![[r#"
        IN_PROGRESS
        InstanceManaged True Managed: the finalizer and labels are there
        GraphResolved True Resolved: revision 7/00000000000000ff
        ResourcesReady False NotReady: first: 1 may not be made yet; first: the gate of ConfigMap default/first failed: int(schema.spec.name) > 0: type conversion error from 'string' to 'int'; second: waits for first
        ResourcesPropagated False GateError: first: the gate of ConfigMap default/first failed: int(schema.spec.name) > 0: type conversion error from 'string' to 'int'
        Ready False NotReady: first: 1 may not be made yet; first: the gate of ConfigMap default/first failed: int(schema.spec.name) > 0: type conversion error from 'string' to 'int'; second: waits for first
    "#]],
    );
}

/// What a gate keeps at an earlier content is ready with that.
#[test]
fn what_a_gate_freezes_is_ready_as_it_is() {
    let graph = graph("schema.spec.name == 'b'");
    let mut plan = planned(&graph, 1);
    let Standing::Gated { objects, .. } = plan.nodes[0].clone() else {
        panic!("{:?}", plan.nodes[0]);
    };
    plan.frozen = objects;
    plan.nodes = vec![Standing::Ready, Standing::Ready];
    plan.apply.clear();
    let ended = Ended::Planned {
        graph: &graph,
        plan: &plan,
        hindered: &Hindrances::default(),
        runs: Point::new(7, "ff"),
        behind: None,
    };
    check(
        &ended,
        &expect![[r#"
            ACTIVE
            InstanceManaged True Managed: the finalizer and labels are there
            GraphResolved True Resolved: revision 7/00000000000000ff
            ResourcesReady True AllResourcesReady: all resources are ready
            ResourcesPropagated False GateClosed: first: the gate of ConfigMap default/first is closed: schema.spec.name == 'b': schema.spec.name: "a"
            Ready True Ready: 
        "#]],
    );
}

/// One that its graph's gate keeps where it is may be ready there.
#[test]
fn what_is_behind_is_ready_where_it_is() {
    let graph = graph("true");
    let plan = planned(&graph, 2);
    let behind = Behind::new(7, &graph, KeptBy::Closed);
    let ended = Ended::Planned {
        graph: &graph,
        plan: &plan,
        hindered: &Hindrances::default(),
        runs: Point::new(6, "ff"),
        behind: Some(&behind),
    };
    check(
        &ended,
        &expect![[r#"
            ACTIVE
            InstanceManaged True Managed: the finalizer and labels are there
            GraphResolved True Resolved: revision 6/00000000000000ff
            ResourcesReady True AllResourcesReady: all resources are ready
            ResourcesPropagated False GateClosed: its graph has not let it move to revision 7 yet; see status.propagation of its ResourceGraphDefinition
            Ready True Ready: 
        "#]],
    );
}

#[test]
fn what_the_api_refused_is_wrong_and_what_is_not_known_is_not() {
    let graph = graph("true");
    let refused = Hindrances {
        refused: BTreeMap::from([(id("first"), "no".to_owned())]),
        ..Hindrances::default()
    };
    check_planned(
        &graph,
        0,
        &refused,
        &expect![[r#"
            ERROR
            InstanceManaged True Managed: the finalizer and labels are there
            GraphResolved True Resolved: revision 7/00000000000000ff
            ResourcesReady False NotReady: ConfigMap default/first was refused: no; second: waits for first
            ResourcesPropagated False Propagating: not all resources are there
            Ready False NotReady: ConfigMap default/first was refused: no; second: waits for first
        "#]],
    );
    let unsure = Hindrances {
        unsure: BTreeMap::from([(id("first"), Content::read("x"))]),
        ..Hindrances::default()
    };
    check_planned(
        &graph,
        0,
        &unsure,
        &expect![[r#"
        IN_PROGRESS
        InstanceManaged True Managed: the finalizer and labels are there
        GraphResolved True Resolved: revision 7/00000000000000ff
        ResourcesReady False NotReady: whether ConfigMap default/first was applied is not known; first: 1 to be applied; second: waits for first
        ResourcesPropagated False Propagating: not all resources are there
        Ready False NotReady: whether ConfigMap default/first was applied is not known; first: 1 to be applied; second: waits for first
    "#]],
    );
}

#[test]
fn what_was_not_planned_keeps_its_fields() {
    check(
        &Ended::Unresolved { why: "gone" },
        &expect![[r#"
        ERROR
        InstanceManaged True Managed: the finalizer and labels are there
        GraphResolved False ResolutionFailed: gone
        ResourcesReady Unknown AwaitingReconciliation: 
        Ready False ResolutionFailed: gone
    "#]],
    );
    check(
        &Ended::Unseen { why: "away" },
        &expect![[r#"
        ERROR
        InstanceManaged True Managed: the finalizer and labels are there
        GraphResolved True Resolved: the graph is known
        ResourcesReady Unknown CannotObserve: away
        Ready Unknown CannotObserve: away
    "#]],
    );
    check(
        &Ended::Suspended,
        &expect![[r#"
        ACTIVE
        InstanceManaged True Managed: the finalizer and labels are there
        GraphResolved True Resolved: the graph is known
        ResourcesReady False ReconciliationSuspended: the annotation kro.run/reconcile suspends it
        Ready False ReconciliationSuspended: the annotation kro.run/reconcile suspends it
    "#]],
    );
    let ended = Ended::Deleting {
        waits_for: &[id("first")],
        undeleted: &BTreeMap::new(),
    };
    check(
        &ended,
        &expect![[r#"
        DELETING
        InstanceManaged True Managed: the finalizer and labels are there
        GraphResolved True Resolved: the graph is known
        ResourcesReady Unknown UnderDeletion: waits until these are gone: ConfigMap default/first
        Ready Unknown UnderDeletion: waits until these are gone: ConfigMap default/first
    "#]],
    );
    let now = Time::from_system(std::time::UNIX_EPOCH);
    let status = status(&instance(), &Ended::Suspended, now);
    assert_eq!(status["kept"], "yes");
}

/// One that failed.
fn broken() -> Option<NotReady> {
    Some(NotReady {
        id: id("other"),
        why: Unready::Condition {
            source: "${each.data.text != ''}".to_owned(),
        },
        broken: Some("ProgressDeadlineExceeded".to_owned()),
    })
}

/// Of items one may have failed while others may not be made yet, or are on their way out: whoever
/// waits learns it at once.
#[test]
fn what_failed_is_said_beside_what_keeps_back_others() {
    let graph = graph("schema.spec.name == 'b'");
    let mut plan = planned(&graph, 0);
    let Standing::Gated { objects, .. } = plan.nodes[0].clone() else {
        panic!("{:?}", plan.nodes[0]);
    };
    let gated = Standing::Gated {
        objects,
        broken: broken(),
    };
    let ending = Standing::Ending {
        id: id("first"),
        broken: broken(),
    };
    for standing in [gated, ending] {
        plan.nodes[0] = standing;
        let hindered = Hindrances::default();
        let said = resources(&graph, &plan, &hindered);
        assert_eq!(said.reason, RESOURCE_FAILED);
        let failed = "first: ConfigMap default/other failed: ProgressDeadlineExceeded";
        assert!(said.message.starts_with(failed), "{}", said.message);
        assert!(has_failed(&plan, &hindered));
    }
}
