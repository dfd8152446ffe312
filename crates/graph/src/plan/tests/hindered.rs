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
            rooms: Ending { id: ObjectId { gvk: Gvk { group: "", version: "v1", kind: "ConfigMap" }, namespace: "team", name: "b" } }
            status {}
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/a (Changed)
            apply ConfigMap team/c (Changed)
            rooms: Ending { id: ObjectId { gvk: Gvk { group: "", version: "v1", kind: "ConfigMap" }, namespace: "team", name: "b" } }
            status {}
        "#]],
    );
}

/// Otherwise whoever waits for it would learn that only by waiting for too long.
#[test]
fn one_that_failed_is_told_while_others_may_not_be_made() {
    let late =
        json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    check(
        r#"
schema: {kind: Crew, apiVersion: v1, spec: {names: "[]string"}}
resources:
- id: webs
  forEach: [{web: "${schema.spec.names}"}]
  propagateWhen: ["linearlyReady(web, webs, 1)"]
  readyWhen: ["${each.status.availableReplicas > 0}"]
  template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: "${web}"}}
"#,
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
