//! Items that cannot be applied, or fail, and those beside them.

use super::items::{hotel, rooms};
use super::*;

/// One that is on its way out counts as on its way, and keeps no other from being put right.
#[test]
fn an_item_that_cannot_be_applied_keeps_no_other_from_being_put_right() {
    check(
        &rooms("propagateWhen: [\"linearlyReady(room, rooms, 3)\"]"),
        hotel(&["a", "b", "c"]),
        "pass
         set rooms data.open=\"yes\"
         pass
         ending rooms/b
         drift rooms/a
         pass
         set schema spec.size=\"2\"
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            apply ConfigMap team/b (Absent)
            apply ConfigMap team/c (Absent)
            rooms: ConfigMap team/a is not ready: Condition { source: "${each.data.open == 'yes'}" }
            status {}
            > set rooms data.open="yes"
            > pass
            rooms: Ready
            status {}
            > ending rooms/b
            > drift rooms/a
            > pass
            apply ConfigMap team/a (Drifted)
            rooms: ConfigMap team/b is being deleted
            status {}
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/a (Changed)
            apply ConfigMap team/c (Changed)
            rooms: ConfigMap team/b is being deleted
            status {}
        "#]],
    );
}

/// Deployments, each of which may say that it failed.
fn webs(gate: &str) -> String {
    format!(
        r#"
schema: {{kind: Crew, apiVersion: v1, spec: {{names: "[]string"}}}}
resources:
- id: webs
  forEach: [{{web: "${{schema.spec.names}}"}}]
  {gate}
  readyWhen: ["${{each.status.availableReplicas > 0}}"]
  template: {{apiVersion: apps/v1, kind: Deployment, metadata: {{name: "${{web}}"}}}}
"#
    )
}

/// Otherwise whoever waits for it would learn that only by waiting for too long.
#[test]
fn one_that_failed_is_told_while_others_may_not_be_made() {
    let late =
        json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    check(
        &webs("propagateWhen: [\"linearlyReady(web, webs, 1)\"]"),
        json!({"spec": {"names": ["a", "b"]}}),
        &format!(
            "pass
             set webs/a status.observedGeneration=1
             set webs/a status.conditions={late}
             pass"
        ),
        expect![[r#"
            > pass
            apply Deployment team/a (Absent)
            webs: 1 not made yet
              gated Deployment team/b: closed: linearlyReady(web, webs, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
            > set webs/a status.observedGeneration=1
            > set webs/a status.conditions=[{"reason":"ProgressDeadlineExceeded","status":"False","type":"Progressing"}]
            > pass
            webs: 1 not made yet, and one failed: ProgressDeadlineExceeded
              gated Deployment team/b: closed: linearlyReady(web, webs, 1): 1 in flight (team/a); 0 of 2 updated and ready
            status {}
        "#]],
    );
}

/// Somebody's finalizer may keep the first for ever, with a gate or without.
#[test]
fn one_that_failed_is_told_while_another_is_on_its_way_out() {
    for gate in ["", "propagateWhen: [\"linearlyReady(web, webs, 2)\"]"] {
        check(
            &webs(gate),
            json!({"spec": {"names": ["a", "b"]}}),
            r#"pass
               set webs status.observedGeneration=1
               set webs/b status.conditions=[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]
               ending webs/a
               pass"#,
            expect![[r#"
                > pass
                apply Deployment team/a (Absent)
                apply Deployment team/b (Absent)
                webs: Deployment team/a is not ready: Waiting(Wait { path: Path { root: "each", steps: [Field("status")] }, source: "${each.status.availableReplicas > 0}", place: "spec.resources[0].readyWhen[0]" })
                status {}
                > set webs status.observedGeneration=1
                > set webs/b status.conditions=[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]
                > ending webs/a
                > pass
                webs: Deployment team/a is being deleted, and one failed: ProgressDeadlineExceeded
                status {}
            "#]],
        );
    }
}

/// It will be made anew, and how it fares until then is no failure of that.
#[test]
fn one_on_its_way_out_did_not_fail() {
    check(
        &webs(""),
        json!({"spec": {"names": ["a", "b"]}}),
        r#"pass
           set webs status.observedGeneration=1
           set webs/a status.conditions=[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]
           ending webs/a
           pass"#,
        expect![[r#"
            > pass
            apply Deployment team/a (Absent)
            apply Deployment team/b (Absent)
            webs: Deployment team/a is not ready: Waiting(Wait { path: Path { root: "each", steps: [Field("status")] }, source: "${each.status.availableReplicas > 0}", place: "spec.resources[0].readyWhen[0]" })
            status {}
            > set webs status.observedGeneration=1
            > set webs/a status.conditions=[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]
            > ending webs/a
            > pass
            webs: Deployment team/a is being deleted
            status {}
        "#]],
    );
}

#[test]
fn what_is_taken_is_told_before_what_is_on_its_way_out() {
    check(
        &webs(""),
        json!({"spec": {"names": ["a", "b"]}}),
        "pass
         ending webs/a
         taken webs/b
         pass",
        expect![[r#"
            > pass
            apply Deployment team/a (Absent)
            apply Deployment team/b (Absent)
            webs: Deployment team/a is not ready: Waiting(Wait { path: Path { root: "each", steps: [Field("status")] }, source: "${each.status.availableReplicas > 0}", place: "spec.resources[0].readyWhen[0]" })
            status {}
            > ending webs/a
            > taken webs/b
            > pass
            webs: Taken { id: ObjectId { gvk: Gvk { group: "apps", version: "v1", kind: "Deployment" }, namespace: "team", name: "b" }, owner: Owner("them") }
            status {}
        "#]],
    );
}

const CHAINED: &str = r#"
schema: {kind: Shop, apiVersion: v1, spec: {items: "[]string", size: string}}
resources:
- id: rooms
  forEach: [{room: "${schema.spec.items}"}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${room}"}}
- id: last
  forEach: [{room: "${rooms}"}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${room.metadata.name}-last"}, data: {size: "${schema.spec.size}"}}
"#;

/// What is refused stays as it was, and what is not wanted goes nonetheless.
#[test]
fn a_refused_update_keeps_nothing_that_is_not_wanted() {
    check(
        CHAINED,
        json!({"spec": {"items": ["a", "b"], "size": "1"}}),
        "pass
         refuse last
         set schema spec={\"items\":[\"a\"],\"size\":\"2\"}
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            apply ConfigMap team/b (Absent)
            apply ConfigMap team/a-last (Absent)
            apply ConfigMap team/b-last (Absent)
            rooms: Ready
            last: Ready
            status {}
            > refuse last
            > set schema spec={"items":["a"],"size":"2"}
            > pass
            delete ConfigMap team/b-last of last
            delete ConfigMap team/b of rooms
            rooms: Ready
            last: Applying { objects: 1 }
            status {}
        "#]],
    );
}

/// As long as something is missing, what is there stays: it may be what others rely on.
#[test]
fn what_is_not_wanted_stays_while_what_is_wanted_is_not_there() {
    check(
        CHAINED,
        json!({"spec": {"items": ["a", "b"], "size": "1"}}),
        "pass
         refuse last
         set schema spec={\"items\":[\"a\"],\"size\":\"2\"}
         gone last/a-last
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/a (Absent)
            apply ConfigMap team/b (Absent)
            apply ConfigMap team/a-last (Absent)
            apply ConfigMap team/b-last (Absent)
            rooms: Ready
            last: Ready
            status {}
            > refuse last
            > set schema spec={"items":["a"],"size":"2"}
            > gone last/a-last
            > pass
            rooms: Ready
            last: Applying { objects: 1 }
            status {}
        "#]],
    );
}
