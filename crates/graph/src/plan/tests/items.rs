//! Gates of the items of collections.

use super::*;

/// Rooms one after the other. What is applied is not ready until somebody opens it.
const ROOMS: &str = r#"
schema: {kind: Hotel, apiVersion: v1, spec: {names: "[]string", size: string}}
resources:
- id: rooms
  forEach: [{room: "${schema.spec.names}"}]
  propagateWhen: ["linearlyReady(room, rooms, 1)"]
  readyWhen: ["${each.data.open == 'yes'}"]
  template:
    {apiVersion: v1, kind: ConfigMap, metadata: {name: "${room}"}, data: {open: "no", size: "${schema.spec.size}"}}
- id: list
  template:
    {apiVersion: v1, kind: ConfigMap, metadata: {name: list}, data: {count: "${string(size(rooms))}"}}
"#;

pub(super) fn hotel(names: &[&str]) -> Json {
    json!({"spec": {"names": names, "size": "1"}})
}

/// The rooms, with another gate and without the list.
pub(super) fn rooms(gate: &str) -> String {
    let (rooms, _) = ROOMS.split_once("- id: list").unwrap();
    rooms.replace("propagateWhen: [\"linearlyReady(room, rooms, 1)\"]", gate)
}

/// Items are made one after the other, each when the one before is ready; what reads the collection
/// waits for all of them. Then they change one after the other, and what reads them goes on.
#[test]
fn items_go_one_after_the_other() {
    check(
        ROOMS,
        hotel(&["b", "a", "c"]),
        "pass
         set rooms/a data.open=\"yes\"
         pass
         set rooms/b data.open=\"yes\"
         pass
         set rooms/c data.open=\"yes\"
         pass
         set schema spec.size=\"2\"
         pass
         set rooms/a data.open=\"yes\"
         pass
         set rooms/b data.open=\"yes\"
         pass
         set rooms/c data.open=\"yes\"
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            rooms: 2 not made yet
              gated ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
            list: blocked by rooms
            status {}
            > set rooms/a data.open="yes"
            > pass
            apply ConfigMap team/b (Absent)
            rooms: 1 not made yet
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 1 of 3 updated and ready
            list: blocked by rooms
            status {}
            > set rooms/b data.open="yes"
            > pass
            apply ConfigMap team/c (Absent)
            rooms: ConfigMap team/c is not ready: Condition { source: "${each.data.open == 'yes'}" }
            list: blocked by rooms
            status {}
            > set rooms/c data.open="yes"
            > pass
            apply ConfigMap team/list (Absent)
            rooms: Ready
            list: Ready
            status {}
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/a (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
              frozen ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
            list: blocked by rooms
            status {}
            > set rooms/a data.open="yes"
            > pass
            apply ConfigMap team/b (Changed)
            rooms: ConfigMap team/b is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 1 of 3 updated and ready
            list: blocked by rooms
            status {}
            > set rooms/b data.open="yes"
            > pass
            apply ConfigMap team/c (Changed)
            rooms: ConfigMap team/c is not ready: Condition { source: "${each.data.open == 'yes'}" }
            list: blocked by rooms
            status {}
            > set rooms/c data.open="yes"
            > pass
            rooms: Ready
            list: Ready
            status {}
        "#]],
    );
}

/// The number in flight follows what is proven: 1, 1, 2, 4.
#[test]
fn items_go_in_growing_waves() {
    let definition = rooms("propagateWhen: [\"${exponentiallyReady(room, rooms)}\"]");
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    check(
        &definition,
        hotel(&names),
        "pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            rooms: 7 not made yet
              gated ConfigMap team/b: closed: exponentiallyReady(room, rooms): 1 in flight (team/a); 0 of 8 updated and ready
              gated ConfigMap team/c: closed: exponentiallyReady(room, rooms): 1 in flight (team/a); 0 of 8 updated and ready
              gated ConfigMap team/d: closed: exponentiallyReady(room, rooms): 1 in flight (team/a); 0 of 8 updated and ready
              gated ConfigMap team/e: closed: exponentiallyReady(room, rooms): 1 in flight (team/a); 0 of 8 updated and ready
              gated ConfigMap team/f: closed: exponentiallyReady(room, rooms): 1 in flight (team/a); 0 of 8 updated and ready
              gated ConfigMap team/g: closed: exponentiallyReady(room, rooms): 1 in flight (team/a); 0 of 8 updated and ready
              gated ConfigMap team/h: closed: exponentiallyReady(room, rooms): 1 in flight (team/a); 0 of 8 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/b (Absent)
            rooms: 6 not made yet
              gated ConfigMap team/c: closed: exponentiallyReady(room, rooms): 1 in flight (team/b); 1 of 8 updated and ready
              gated ConfigMap team/d: closed: exponentiallyReady(room, rooms): 1 in flight (team/b); 1 of 8 updated and ready
              gated ConfigMap team/e: closed: exponentiallyReady(room, rooms): 1 in flight (team/b); 1 of 8 updated and ready
              gated ConfigMap team/f: closed: exponentiallyReady(room, rooms): 1 in flight (team/b); 1 of 8 updated and ready
              gated ConfigMap team/g: closed: exponentiallyReady(room, rooms): 1 in flight (team/b); 1 of 8 updated and ready
              gated ConfigMap team/h: closed: exponentiallyReady(room, rooms): 1 in flight (team/b); 1 of 8 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/c (Absent)
            apply ConfigMap team/d (Absent)
            rooms: 4 not made yet
              gated ConfigMap team/e: closed: exponentiallyReady(room, rooms): 2 in flight (team/c, team/d); 2 of 8 updated and ready
              gated ConfigMap team/f: closed: exponentiallyReady(room, rooms): 2 in flight (team/c, team/d); 2 of 8 updated and ready
              gated ConfigMap team/g: closed: exponentiallyReady(room, rooms): 2 in flight (team/c, team/d); 2 of 8 updated and ready
              gated ConfigMap team/h: closed: exponentiallyReady(room, rooms): 2 in flight (team/c, team/d); 2 of 8 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/e (Absent)
            apply ConfigMap team/f (Absent)
            apply ConfigMap team/g (Absent)
            apply ConfigMap team/h (Absent)
            rooms: ConfigMap team/e is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
            > set rooms data.open="yes"
            > pass
            rooms: Ready
            status {}
        "#]],
    );
}

/// An item that does not come up halts all that come after it, also when it is the first.
#[test]
fn an_item_that_fails_halts_the_others() {
    check(
        &rooms("propagateWhen: [\"linearlyReady(room, rooms, 1)\"]"),
        hotel(&["a", "b"]),
        "pass
         set rooms data.open=\"failed\"
         pass
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            rooms: 1 not made yet
              gated ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
            > set rooms data.open="failed"
            > pass
            rooms: 1 not made yet
              gated ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
            > pass
            rooms: 1 not made yet
              gated ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
        "#]],
    );
}

/// A gate that is never open for anybody.
#[test]
fn a_closed_gate_makes_no_item() {
    check(
        &rooms("propagateWhen: [\"schema.spec.size == '2'\"]"),
        hotel(&["a", "b"]),
        "pass
         set schema spec.size=\"2\"
         pass
         set schema spec.size=\"3\"
         pass",
        expect![[r#"
            > pass
            rooms: 2 not made yet
              gated ConfigMap team/a: closed: schema.spec.size == '2': schema.spec.size: "1"
              gated ConfigMap team/b: closed: schema.spec.size == '2': schema.spec.size: "1"
            status {}
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/a (Absent)
            apply ConfigMap team/b (Absent)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
            > set schema spec.size="3"
            > pass
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/a: closed: schema.spec.size == '2': schema.spec.size: "3"
              frozen ConfigMap team/b: closed: schema.spec.size == '2': schema.spec.size: "3"
            status {}
        "#]],
    );
}

/// Each item has its own answer; what cannot be evaluated for one says nothing of the others.
#[test]
fn a_gate_is_asked_of_each_item() {
    check(
        &rooms("propagateWhen: [\"room.metadata.name != 'b' && int(room.data.size) > 0\"]"),
        hotel(&["a", "b", "c"]),
        "pass
         set rooms/a data.size=\"x\"
         set schema spec.size=\"2\"
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            apply ConfigMap team/c (Absent)
            rooms: 1 not made yet
              gated ConfigMap team/b: closed: room.metadata.name != 'b' && int(room.data.size) > 0: room.metadata.name: "b", int(room.data.size): 1
            status {}
            > set rooms/a data.size="x"
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/c (Changed)
            rooms: 1 not made yet
              frozen ConfigMap team/a: error: room.metadata.name != 'b' && int(room.data.size) > 0: type conversion error from 'string' to 'int'
              gated ConfigMap team/b: closed: room.metadata.name != 'b' && int(room.data.size) > 0: room.metadata.name: "b", int(room.data.size): 2
            status {}
        "#]],
    );
}

/// Deletion asks no gate, and what is gone is not counted.
#[test]
fn items_go_while_the_gate_is_closed() {
    check(
        &rooms("propagateWhen: [\"linearlyReady(room, rooms, 1)\"]"),
        hotel(&["a", "b", "c"]),
        "pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         set schema spec.size=\"2\"
         pass
         set schema spec.names=[\"b\",\"d\"]
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            rooms: 2 not made yet
              gated ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/b (Absent)
            rooms: 1 not made yet
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 1 of 3 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/c (Absent)
            rooms: ConfigMap team/c is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
            > set rooms data.open="yes"
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/a (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
              frozen ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
            status {}
            > set schema spec.names=["b","d"]
            > pass
            apply ConfigMap team/b (Changed)
            delete ConfigMap team/c of rooms
            rooms: 1 not made yet
              gated ConfigMap team/d: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 0 of 2 updated and ready
            status {}
        "#]],
    );
}

/// The order does not depend on how the list is written, nor on what was done before.
#[test]
fn the_order_is_stable() {
    let definition = rooms("propagateWhen: [\"linearlyReady(room, rooms, 1)\"]");
    let order = |names: &[&str]| {
        let mut world = World::new(&definition, hotel(names));
        for _ in names {
            world.step("pass");
            world.step("set rooms data.open=\"yes\"");
        }
        let lines = world.said.lines().filter(|line| line.starts_with("apply"));
        lines.map(str::to_owned).collect::<Vec<String>>()
    };
    let first = order(&["a", "b", "c", "d"]);
    assert_eq!(first.len(), 4);
    assert_eq!(order(&["d", "b", "a", "c"]), first);
}

/// `orderBy` comes first, for what is made as for what changes; what it gives no place comes last.
#[test]
fn items_are_ordered_by_what_they_are() {
    let gate = "propagateWhen: [\"linearlyReady(room, rooms, 1)\"]
  orderBy: \"room.metadata.name == 'b' ? 1 : room.metadata.name == 'd' ? int('x') : 2\"";
    check(
        &rooms(gate),
        hotel(&["d", "c", "b", "a"]),
        "pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         set schema spec.size=\"2\"
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/b (Absent)
            rooms: 3 not made yet
              gated ConfigMap team/d: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 0 of 4 updated and ready
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 0 of 4 updated and ready
              gated ConfigMap team/a: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 0 of 4 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/a (Absent)
            rooms: 2 not made yet
              gated ConfigMap team/d: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 1 of 4 updated and ready
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 1 of 4 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/c (Absent)
            rooms: 1 not made yet
              gated ConfigMap team/d: closed: linearlyReady(room, rooms, 1): 1 in flight (team/c); 2 of 4 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/d (Absent)
            rooms: ConfigMap team/d is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
            > set rooms data.open="yes"
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/b (Changed)
            rooms: ConfigMap team/b is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/d: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 0 of 4 updated and ready
              frozen ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 0 of 4 updated and ready
              frozen ConfigMap team/a: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 0 of 4 updated and ready
            status {}
        "#]],
    );
}

/// What was broken before counts as nothing: it does not keep the others back, and comes last.
#[test]
fn what_was_broken_before_is_not_in_flight() {
    check(
        &rooms("propagateWhen: [\"linearlyReady(room, rooms, 1)\"]"),
        hotel(&["a", "b", "c"]),
        "pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         pass
         set rooms/a data.open=\"broken\"
         pass
         set schema spec.size=\"2\"
         pass
         set rooms/b data.open=\"yes\"
         pass
         set rooms/c data.open=\"yes\"
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            rooms: 2 not made yet
              gated ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/b (Absent)
            rooms: 1 not made yet
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 1 of 3 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/c (Absent)
            rooms: ConfigMap team/c is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
            > set rooms data.open="yes"
            > pass
            rooms: Ready
            status {}
            > set rooms/a data.open="broken"
            > pass
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/b (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/a: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 0 of 3 updated and ready
              frozen ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 0 of 3 updated and ready
            status {}
            > set rooms/b data.open="yes"
            > pass
            apply ConfigMap team/c (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/a: closed: linearlyReady(room, rooms, 1): 1 in flight (team/c); 1 of 3 updated and ready
            status {}
            > set rooms/c data.open="yes"
            > pass
            apply ConfigMap team/a (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
        "#]],
    );
}

/// What is on its way when something else is wanted goes there first, and takes no second place.
#[test]
fn what_is_overtaken_goes_on_to_the_newest() {
    check(
        &rooms("propagateWhen: [\"linearlyReady(room, rooms, 1)\"]"),
        hotel(&["a", "b"]),
        "pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         set schema spec.size=\"2\"
         pass
         set schema spec.size=\"3\"
         pass
         set rooms/a data.open=\"yes\"
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            rooms: 1 not made yet
              gated ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/b (Absent)
            rooms: ConfigMap team/b is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
            > set rooms data.open="yes"
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/a (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
            > set schema spec.size="3"
            > pass
            apply ConfigMap team/a (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
            > set rooms/a data.open="yes"
            > pass
            apply ConfigMap team/b (Changed)
            rooms: ConfigMap team/b is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
        "#]],
    );
}

/// To go back is a change like any other, through the same gate.
#[test]
fn going_back_goes_through_the_gate() {
    check(
        &rooms("propagateWhen: [\"linearlyReady(room, rooms, 1)\"]"),
        hotel(&["a", "b", "c"]),
        "pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         set schema spec.size=\"2\"
         pass
         set rooms data.open=\"yes\"
         pass
         set schema spec.size=\"1\"
         pass
         set rooms data.open=\"yes\"
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            rooms: 2 not made yet
              gated ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/b (Absent)
            rooms: 1 not made yet
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 1 of 3 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/c (Absent)
            rooms: ConfigMap team/c is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
            > set rooms data.open="yes"
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/a (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
              frozen ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 3 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/b (Changed)
            rooms: ConfigMap team/b is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 1 of 3 updated and ready
            status {}
            > set schema spec.size="1"
            > pass
            apply ConfigMap team/b (Changed)
            rooms: ConfigMap team/b is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/a: closed: linearlyReady(room, rooms, 1): 1 in flight (team/b); 1 of 3 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/a (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
        "#]],
    );
}

/// A frozen item that somebody changes is what it was before again, and not what it should be.
#[test]
fn a_frozen_item_does_not_drift() {
    check(
        &rooms("propagateWhen: [\"linearlyReady(room, rooms, 1)\"]"),
        hotel(&["a", "b"]),
        "pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         set schema spec.size=\"2\"
         pass
         set rooms/b data.size=\"9\"
         drift rooms/b
         pass
         show rooms data.size",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            rooms: 1 not made yet
              gated ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/b (Absent)
            rooms: ConfigMap team/b is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
            > set rooms data.open="yes"
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/a (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
            > set rooms/b data.size="9"
            > drift rooms/b
            > pass
            apply ConfigMap team/b (Drifted)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
            > show rooms data.size
            ConfigMap team/a: "2"
            ConfigMap team/b: "1"
        "#]],
    );
}

/// The gate of one collection reads another.
#[test]
fn a_collection_follows_another() {
    let definition = r#"
schema: {kind: Hotel, apiVersion: v1, spec: {names: "[]string", size: string}}
resources:
- id: keys
  forEach: [{key: "${schema.spec.names}"}]
  propagateWhen: ["rooms.all(room, room.updated() && room.ready())"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${key}-key"}, data: {size: "${schema.spec.size}"}}
- id: rooms
  forEach: [{room: "${schema.spec.names}"}]
  readyWhen: ["${each.data.open == 'yes'}"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${room}"}, data: {open: "no", size: "${schema.spec.size}"}}
"#;
    check(
        definition,
        hotel(&["a", "b"]),
        "pass
         set rooms/a data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         pass
         set schema spec.size=\"2\"
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            apply ConfigMap team/b (Absent)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
            keys: 2 not made yet
              gated ConfigMap team/a-key: closed: rooms.all(room, room.updated() && room.ready()): false
              gated ConfigMap team/b-key: closed: rooms.all(room, room.updated() && room.ready()): false
            status {}
            > set rooms/a data.open="yes"
            > pass
            rooms: ConfigMap team/b is not ready: Condition { source: "${each.data.open == 'yes'}" }
            keys: 2 not made yet
              gated ConfigMap team/a-key: closed: rooms.all(room, room.updated() && room.ready()): false
              gated ConfigMap team/b-key: closed: rooms.all(room, room.updated() && room.ready()): false
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/a-key (Absent)
            apply ConfigMap team/b-key (Absent)
            rooms: Ready
            keys: Ready
            status {}
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/a (Changed)
            apply ConfigMap team/b (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
            keys: Ready
              frozen ConfigMap team/a-key: closed: rooms.all(room, room.updated() && room.ready()): false
              frozen ConfigMap team/b-key: closed: rooms.all(room, room.updated() && room.ready()): false
            status {}
        "#]],
    );
}

/// A thousand items are no trouble.
#[test]
fn a_gate_is_asked_of_many_items() {
    let names: Vec<String> = (0..1000).map(|n| format!("r{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let gate = "propagateWhen: [\"linearlyReady(room, rooms, 10)\", \"rooms.filter(r, r.updated() && !r.ready()).size() < 5\"]\n  orderBy: room.metadata.name";
    let mut world = World::new(&rooms(gate), hotel(&names));
    world.step("pass");
    let plan = world.plan();
    assert_eq!(plan.in_flight.len(), 5);
    let Standing::Gated { objects, .. } = &plan.nodes[0] else {
        panic!("{:?}", plan.nodes[0]);
    };
    assert_eq!(objects.len(), 995);
    assert_eq!(objects[0].verdict.reason(), "GateClosed");
}

const RENAMED: &str = r#"
schema: {kind: Hotel, apiVersion: v1, spec: {names: "[]string", size: string}}
resources:
- id: rooms
  forEach: [{room: "${schema.spec.names}"}]
  propagateWhen: ["schema.spec.size == '1' || linearlyReady(room, rooms, 1)"]
  readyWhen: ["${each.data.open == 'yes'}"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${room}-${schema.spec.size}"}}
"#;

/// Items that have other names come one by one, and each takes the place of one that there was.
#[test]
fn items_with_other_names_take_the_places_of_the_old() {
    check(
        RENAMED,
        hotel(&["a", "b", "c"]),
        "pass
         set rooms data.open=\"yes\"
         set schema spec.size=\"2\"
         pass
         pass
         set rooms data.open=\"yes\"
         pass
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a-1 (Absent)
            apply ConfigMap team/b-1 (Absent)
            apply ConfigMap team/c-1 (Absent)
            rooms: ConfigMap team/a-1 is not ready: Waiting(Wait { path: Path { root: "each", steps: [Field("data")] }, source: "${each.data.open == 'yes'}", place: "spec.resources[0].readyWhen[0]" })
            status {}
            > set rooms data.open="yes"
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/a-2 (Absent)
            delete ConfigMap team/a-1 of rooms
            rooms: 2 not made yet
              gated ConfigMap team/b-2: closed: schema.spec.size == '1' || linearlyReady(room, rooms, 1): schema.spec.size: "2", linearlyReady(room, rooms, 1): 1 in flight (team/a-2); 0 of 3 updated and ready
              gated ConfigMap team/c-2: closed: schema.spec.size == '1' || linearlyReady(room, rooms, 1): schema.spec.size: "2", linearlyReady(room, rooms, 1): 1 in flight (team/a-2); 0 of 3 updated and ready
            status {}
            > pass
            rooms: 2 not made yet
              gated ConfigMap team/b-2: closed: schema.spec.size == '1' || linearlyReady(room, rooms, 1): schema.spec.size: "2", linearlyReady(room, rooms, 1): 1 in flight (team/a-2); 0 of 3 updated and ready
              gated ConfigMap team/c-2: closed: schema.spec.size == '1' || linearlyReady(room, rooms, 1): schema.spec.size: "2", linearlyReady(room, rooms, 1): 1 in flight (team/a-2); 0 of 3 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/b-2 (Absent)
            delete ConfigMap team/b-1 of rooms
            rooms: 1 not made yet
              gated ConfigMap team/c-2: closed: schema.spec.size == '1' || linearlyReady(room, rooms, 1): schema.spec.size: "2", linearlyReady(room, rooms, 1): 1 in flight (team/b-2); 1 of 3 updated and ready
            status {}
            > pass
            rooms: 1 not made yet
              gated ConfigMap team/c-2: closed: schema.spec.size == '1' || linearlyReady(room, rooms, 1): schema.spec.size: "2", linearlyReady(room, rooms, 1): 1 in flight (team/b-2); 1 of 3 updated and ready
            status {}
        "#]],
    );
}
