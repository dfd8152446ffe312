//! Conditions that the author of a graph writes.

use super::*;

fn definition(conditions: &str) -> String {
    format!(
        r#"
schema:
  kind: Shop
  apiVersion: v1
  spec: {{key: string, name: "string | default=demo"}}
  status:
    conditions: {conditions}
resources:
- id: config
  readyWhen: ["${{config.data['ready'] == 'true'}}"]
  template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{phase: "x", ready: "false"}}}}
- id: rooms
  forEach: [{{room: "${{['a', 'b']}}"}}]
  template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: "room-${{room}}"}}}}
"#
    )
}

/// What an author says, once everything is there.
fn check(conditions: &str, expected: Expect) {
    let mut world = World::new(
        &definition(conditions),
        json!({"spec": {"key": "phase", "name": "demo"}}),
    );
    world.pass();
    let plan = world.plan();
    let own = json!([{"type": "ResourcesReady", "status": "False", "reason": "NotReady"}]);
    let instance = Instance::new(&world.instance);
    let authored = author_conditions(&world.graph, instance, &plan, &own);
    let mut said = String::new();
    for one in &authored.conditions {
        let AuthoredCondition {
            r#type,
            status,
            reason,
            message,
        } = one;
        writeln!(said, "{type} {status} {reason}: {message}").expect("a string");
    }
    if authored.is_partial {
        writeln!(said, "partial").expect("a string");
    }
    for wrong in &authored.wrong {
        writeln!(said, "wrong: {wrong}").expect("a string");
    }
    expected.assert_eq(&said);
}

#[test]
fn conditions_are_made_of_the_instance_and_its_resources() {
    check(
        r#"
    - "${runtime.newCondition({type: 'A', status: schema.spec.key == 'phase' ? 'True' : 'False'})}"
    - "${runtime.newCondition({type: 'B', status: config.data['ready'] == 'true' ? 'True' : 'False', reason: 'Data', message: 'as it is'})}"
    - "${rooms.map(room, runtime.newCondition({type: room.metadata.name, status: 'True'}))}"
"#,
        expect![[r#"
            A True : 
            B False Data: as it is
            room-a True : 
            room-b True : 
        "#]],
    );
}

/// Whatever the author says of it.
#[test]
fn conditions_read_those_that_the_instance_has() {
    check(
        r#"
    - "${runtime.newCondition({type: 'ResourcesReady', status: 'True'})}"
    - "${runtime.newCondition({type: 'Derived', status: runtime.condition(schema, 'ResourcesReady').status})}"
"#,
        expect![[r#"
            ResourcesReady True : 
            Derived False : 
        "#]],
    );
}

#[test]
fn what_waits_is_left_out_and_what_is_wrong_is_told() {
    check(
        r#"
    - "${runtime.newCondition({type: 'Waits', status: config.data['nothing'] == 'x' ? 'True' : 'False'})}"
    - "${runtime.newCondition({type: 'Wrong', status: schema.spec.key})}"
    - "${runtime.newCondition({type: 'Same-' + schema.spec.name, status: 'True'})}"
    - "${runtime.newCondition({type: 'Same-' + schema.spec.name, status: 'False'})}"
    - "${runtime.condition(config, 'Nothing')}"
    - "${runtime.newCondition({type: 'Sound', status: 'Unknown'})}"
"#,
        expect![[r#"
            Sound Unknown : 
            partial
            wrong: spec.schema.status.conditions[1]: a condition's status cannot be "phase"
            wrong: spec.schema.status.conditions[4]: it is no condition
            wrong: condition types are made twice: Same-demo
        "#]],
    );
}
