//! What a plan takes is bounded, whatever a collection comes to.

use super::*;

/// A room for each name, of this text.
fn rooms(text: &str, gate: &str) -> World {
    let definition = format!(
        r#"
schema: {{kind: Hotel, apiVersion: v1, spec: {{names: "[]string", more: string}}}}
resources:
- id: rooms
  forEach: [{{room: "${{schema.spec.names}}"}}]
  {gate}
  template:
    {{apiVersion: v1, kind: ConfigMap, metadata: {{name: "${{room}}"}}, data: {{text: "{text}", more: "${{schema.spec.more}}"}}}}
"#
    );
    let names: Vec<String> = (0..100).map(|at| format!("n{at}")).collect();
    World::new(&definition, json!({"spec": {"names": names, "more": ""}}))
}

impl World {
    fn plan_within(&self, most: usize, without: &dyn Fn(&ObjectId) -> bool) -> Plan {
        let nothing = BTreeMap::new();
        plan(Inputs {
            graph: &self.graph,
            instance: Instance::new(&self.instance),
            observed: &self.observed,
            taken: &|_| None,
            product: "test",
            now: self.now,
            frozen: &|_| None,
            unsure: &nothing,
            in_flight: &nothing,
            unseen: &|_| false,
            rendering: Rendering { most, without },
        })
    }
}

/// What is left comes when the others are there.
#[test]
fn a_plan_renders_what_there_is_room_for() {
    let mut world = rooms(&"x".repeat(1000), "");
    let (mut rounds, mut made) = (0, 0);
    loop {
        let plan = world.plan_within(20_000, &|_| false);
        if plan.apply.is_empty() {
            assert_eq!((plan.more, &plan.nodes[0]), (0, &Standing::Ready));
            break;
        }
        let objects = plan.apply.len() + plan.more;
        assert_eq!(plan.nodes[0], Standing::Applying { objects });
        assert!(plan.apply.len() < 20, "{}", plan.apply.len());
        made += plan.apply.len();
        for apply in &plan.apply {
            let (node, live) = world.applied(apply);
            world.observed.insert(&node, Arc::new(live));
        }
        rounds += 1;
    }
    assert_eq!((made, rounds > 5), (100, true));
}

/// One that is larger than all the room is rendered alone, and what is not applied takes none.
#[test]
fn what_is_not_applied_takes_no_room() {
    let world = rooms(&"x".repeat(1000), "");
    let plan = world.plan_within(10, &|id| id.name == "n0");
    let names: Vec<&str> = plan.apply.iter().map(|one| &*one.id.name).collect();
    assert_eq!((names, plan.more), (vec!["n1"], 98));
}

#[test]
fn what_goes_into_items_is_bounded() {
    let mut world = rooms("", "");
    world.instance["spec"]["more"] = "x".repeat(1 << 20).into();
    let plan = world.plan_within(usize::MAX, &|_| false);
    let Standing::Failed(wrong) = &plan.nodes[0] else {
        panic!("{:?}", plan.nodes);
    };
    assert_eq!(wrong.message, "its items are larger than 64 MiB together");
}

/// A gate is shown what is not there yet.
#[test]
fn what_gates_are_shown_is_bounded() {
    let gate = "propagateWhen: [\"linearlyReady(room, rooms, 1)\"]";
    let plan = rooms(&"x".repeat(1 << 20), gate).plan_within(usize::MAX, &|_| false);
    assert!(matches!(&plan.nodes[0], Standing::Failed(_)));
    let plan = rooms(&"x".repeat(1 << 10), gate).plan_within(usize::MAX, &|_| false);
    assert_eq!(plan.apply.len(), 1);
}
