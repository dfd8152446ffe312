//! Crashes between applies, and answers that are lost.

use super::*;

const ROOMS: &str = r#"
schema: {kind: Hotel, apiVersion: v1, spec: {names: "[]string", size: string}}
resources:
- id: rooms
  forEach: [{room: "${schema.spec.names}"}]
  propagateWhen: ["linearlyReady(room, rooms, 2)"]
  readyWhen: ["${each.data.open == 'yes'}"]
  template:
    {apiVersion: v1, kind: ConfigMap, metadata: {name: "${room}"}, data: {open: "no", size: "${schema.spec.size}"}}
"#;

fn hotel(names: &[&str]) -> Json {
    json!({"spec": {"names": names, "size": "1"}})
}

/// Who was admitted is known from the objects alone.
#[test]
fn after_a_crash_it_goes_on_where_it_stopped() {
    check(
        ROOMS,
        hotel(&["a", "b", "c"]),
        "crash 1
         pass
         crash 0
         pass
         set rooms data.open=\"yes\"
         crash 1
         pass",
        expect![[r#"
            > crash 1
            apply ConfigMap team/a (Absent)
            > pass
            apply ConfigMap team/b (Absent)
            rooms: 1 not made yet
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 3 updated and ready
            status {}
            > crash 0
            > pass
            rooms: 1 not made yet
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 3 updated and ready
            status {}
            > set rooms data.open="yes"
            > crash 1
            apply ConfigMap team/c (Absent)
            > pass
            rooms: ConfigMap team/c is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
        "#]],
    );
}

/// What was sent may be there: it counts, and may be sent again.
#[test]
fn what_was_sent_counts_until_it_is_seen() {
    check(
        ROOMS,
        hotel(&["a", "b", "c", "d"]),
        "lose answers
         pass
         look
         pass",
        expect![[r#"
            > lose answers
            apply ConfigMap team/a (Absent)
            apply ConfigMap team/b (Absent)
            > pass
            apply ConfigMap team/a (Absent)
            apply ConfigMap team/b (Absent)
            rooms: 2 not made yet
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 4 updated and ready
              gated ConfigMap team/d: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 4 updated and ready
            status {}
            > look
            > pass
            rooms: 2 not made yet
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 4 updated and ready
              gated ConfigMap team/d: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 4 updated and ready
            status {}
        "#]],
    );
}

/// What was sent and never came keeps its place until somebody looks, and then too: it is the
/// first to be sent again.
#[test]
fn what_was_sent_and_did_not_come_is_sent_again() {
    check(
        ROOMS,
        hotel(&["a", "b", "c", "d"]),
        "lose all
         look
         pass",
        expect![[r#"
            > lose all
            apply ConfigMap team/a (Absent)
            apply ConfigMap team/b (Absent)
            > look
            > pass
            apply ConfigMap team/a (Absent)
            apply ConfigMap team/b (Absent)
            rooms: 2 not made yet
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 4 updated and ready
              gated ConfigMap team/d: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 4 updated and ready
            status {}
        "#]],
    );
}

/// What was admitted to something that is not wanted any more, and is not known to have come, still
/// counts: only the record of it tells.
#[test]
fn what_was_sent_counts_when_something_else_is_wanted() {
    check(
        ROOMS,
        hotel(&["a", "b", "c", "d"]),
        "pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         set schema spec.size=\"2\"
         lose answers
         set schema spec.size=\"3\"
         pass
         look
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            apply ConfigMap team/b (Absent)
            rooms: 2 not made yet
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 4 updated and ready
              gated ConfigMap team/d: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 4 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/c (Absent)
            apply ConfigMap team/d (Absent)
            rooms: ConfigMap team/c is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
            > set rooms data.open="yes"
            > set schema spec.size="2"
            > lose answers
            apply ConfigMap team/a (Changed)
            apply ConfigMap team/b (Changed)
            > set schema spec.size="3"
            > pass
            apply ConfigMap team/a (Changed)
            apply ConfigMap team/b (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/c: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 4 updated and ready
              frozen ConfigMap team/d: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 4 updated and ready
            status {}
            > look
            > pass
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/c: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 4 updated and ready
              frozen ConfigMap team/d: closed: linearlyReady(room, rooms, 2): 2 in flight (team/a, team/b); 0 of 4 updated and ready
            status {}
        "#]],
    );
}

/// Two rooms that are ready, one after the other.
fn check_two(steps: &str, expected: Expect) {
    let definition = ROOMS.replace("rooms, 2)", "rooms, 1)");
    let mut world = World::new(&definition, hotel(&["a", "b"]));
    for step in ["pass", "set rooms data.open=\"yes\""].repeat(3) {
        world.step(step);
    }
    world.said.clear();
    for step in steps.lines().map(str::trim) {
        writeln!(world.said, "> {step}").expect("a string");
        world.step(step);
    }
    expected.assert_eq(&world.said);
}

/// That it is last in order does not let another go before it.
#[test]
fn what_was_sent_has_its_place_without_a_record() {
    check_two(
        "set schema spec.size=\"2\"
         lose answers
         forget
         set rooms/a data.open=\"no\"
         pass",
        expect![[r#"
            > set schema spec.size="2"
            > lose answers
            apply ConfigMap team/a (Changed)
            > forget
            > set rooms/a data.open="no"
            > pass
            apply ConfigMap team/a (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
        "#]],
    );
}

/// What was sent may come after it is not wanted any more.
#[test]
fn what_was_sent_counts_when_it_was_taken_back() {
    check_two(
        "set schema spec.size=\"2\"
         lose answers
         set schema spec.size=\"1\"
         set schema spec.names=[\"a\",\"b\",\"c\"]
         pass",
        expect![[r#"
            > set schema spec.size="2"
            > lose answers
            apply ConfigMap team/a (Changed)
            > set schema spec.size="1"
            > set schema spec.names=["a","b","c"]
            > pass
            rooms: 1 not made yet
              gated ConfigMap team/c: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 1 of 3 updated and ready
            status {}
        "#]],
    );
}

/// That it is ready at what it was before says nothing of what it was admitted to.
#[test]
fn what_was_recorded_counts_until_it_is_ready_there() {
    check_two(
        "set schema spec.size=\"2\"
         lose all
         look
         set schema spec.size=\"3\"
         set rooms/b metadata.creationTimestamp=\"2026-01-01T00:00:00Z\"
         pass",
        expect![[r#"
            > set schema spec.size="2"
            > lose all
            apply ConfigMap team/a (Changed)
            > look
            > set schema spec.size="3"
            > set rooms/b metadata.creationTimestamp="2026-01-01T00:00:00Z"
            > pass
            apply ConfigMap team/a (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
        "#]],
    );
}

const HOUSE: &str = r#"
schema: {kind: Hotel, apiVersion: v1, spec: {names: "[]string", size: string}}
resources:
- id: house
  readyWhen: ["${house.data.open == 'yes'}"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: house}, data: {open: "yes"}}
- id: rooms
  forEach: [{room: "${schema.spec.names}"}]
  propagateWhen: ["linearlyReady(room, rooms, 1)"]
  readyWhen: ["${each.data.open == 'yes'}"]
  template:
    {apiVersion: v1, kind: ConfigMap, metadata: {name: "${room}"}, data: {open: "no", size: "${schema.spec.size}", of: "${house.metadata.name}"}}
"#;

/// While it cannot be told how items stand, who was under way is: another content makes no room.
#[test]
fn what_is_under_way_stays_so_while_nothing_is_known() {
    check(
        HOUSE,
        hotel(&["a", "b"]),
        "pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         set schema spec.size=\"2\"
         pass
         set house data.open=\"no\"
         pass
         set schema spec.size=\"3\"
         pass
         set house data.open=\"yes\"
         set rooms/b metadata.creationTimestamp=\"2026-01-01T00:00:00Z\"
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/house (Absent)
            apply ConfigMap team/a (Absent)
            house: Ready
            rooms: 1 not made yet
              gated ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
            > set rooms data.open="yes"
            > pass
            apply ConfigMap team/b (Absent)
            house: Ready
            rooms: ConfigMap team/b is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
            > set rooms data.open="yes"
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/a (Changed)
            house: Ready
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
            > set house data.open="no"
            > pass
            house: ConfigMap team/house is not ready: Condition { source: "${house.data.open == 'yes'}" }
            rooms: blocked by house
            status {}
            > set schema spec.size="3"
            > pass
            house: ConfigMap team/house is not ready: Condition { source: "${house.data.open == 'yes'}" }
            rooms: blocked by house
            status {}
            > set house data.open="yes"
            > set rooms/b metadata.creationTimestamp="2026-01-01T00:00:00Z"
            > pass
            apply ConfigMap team/a (Changed)
            house: Ready
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
        "#]],
    );
}

const BARRED: &str = r#"
schema: {kind: Hotel, apiVersion: v1, spec: {names: "[]string", size: string, bar: "boolean | default=false"}}
resources:
- id: rooms
  forEach: [{room: "${schema.spec.names}"}]
  propagateWhen: ["linearlyReady(room, rooms, 1)", "!schema.spec.bar"]
  readyWhen: ["${each.data.open == 'yes'}"]
  template:
    {apiVersion: v1, kind: ConfigMap, metadata: {name: "${room}"}, data: {open: "no", size: "${schema.spec.size}"}}
"#;

/// What a gate keeps from going on is under way for as long as it keeps it.
#[test]
fn what_is_under_way_stays_so_while_its_gate_is_closed() {
    let mut instance = hotel(&["a", "b"]);
    instance["spec"]["bar"] = false.into();
    check(
        BARRED,
        instance,
        "pass
         set rooms data.open=\"yes\"
         pass
         set rooms data.open=\"yes\"
         set schema spec.size=\"2\"
         pass
         set schema spec.bar=true
         set schema spec.size=\"3\"
         pass
         set schema spec.bar=false
         set rooms/b metadata.creationTimestamp=\"2026-01-01T00:00:00Z\"
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
            > set schema spec.bar=true
            > set schema spec.size="3"
            > pass
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/a: closed: !schema.spec.bar: schema.spec.bar: true
              frozen ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a), 0 of them to this; 0 of 2 updated and ready
            status {}
            > set schema spec.bar=false
            > set rooms/b metadata.creationTimestamp="2026-01-01T00:00:00Z"
            > pass
            apply ConfigMap team/a (Changed)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
              frozen ConfigMap team/b: closed: linearlyReady(room, rooms, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
        "#]],
    );
}
