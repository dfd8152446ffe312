//! Gates that depend on the time.

use super::*;

const TIMED: &str = r#"
schema: {kind: Shop, apiVersion: v1, spec: {size: string}}
resources:
- id: early
  propagateWhen: ["time.now() >= timestamp('2026-03-01T12:30:00Z')"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: early}, data: {size: "${schema.spec.size}"}}
- id: late
  propagateWhen: ["readyFor(early, '10m')"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: late}, data: {size: "${schema.spec.size}"}}
- id: last
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: last}, data: {size: "${late.data.size}"}}
"#;

/// It is said exactly when to look again.
#[test]
fn a_gate_opens_when_its_time_has_come() {
    check(
        TIMED,
        json!({"spec": {"size": "1"}}),
        "pass
         now 2026-03-01T12:29:59Z
         pass
         now 2026-03-01T12:30:00Z
         pass
         set early metadata.creationTimestamp=\"2026-03-01T12:30:00Z\"
         pass
         now 2026-03-01T12:40:00Z
         pass",
        expect![[r#"
            > pass
            early: 1 not made yet
              gated ConfigMap team/early: closed: time.now() >= timestamp('2026-03-01T12:30:00Z'): timestamp('2026-03-01T12:30:00Z'): 2026-03-01T12:30:00Z
            late: 1 not made yet
              gated ConfigMap team/late: closed: readyFor(early, '10m'): not ready
            last: blocked by late
            next 2026-03-01T12:30:00Z
            status {}
            > now 2026-03-01T12:29:59Z
            > pass
            early: 1 not made yet
              gated ConfigMap team/early: closed: time.now() >= timestamp('2026-03-01T12:30:00Z'): timestamp('2026-03-01T12:30:00Z'): 2026-03-01T12:30:00Z
            late: 1 not made yet
              gated ConfigMap team/late: closed: readyFor(early, '10m'): not ready
            last: blocked by late
            next 2026-03-01T12:30:00Z
            status {}
            > now 2026-03-01T12:30:00Z
            > pass
            apply ConfigMap team/early (Absent)
            early: Ready
            late: 1 not made yet
              gated ConfigMap team/late: closed: readyFor(early, '10m'): ready since 2026-03-01T12:30:00Z
            last: blocked by late
            next 2026-03-01T12:40:00Z
            status {}
            > set early metadata.creationTimestamp="2026-03-01T12:30:00Z"
            > pass
            early: Ready
            late: 1 not made yet
              gated ConfigMap team/late: closed: readyFor(early, '10m'): ready since 2026-03-01T12:30:00Z
            last: blocked by late
            next 2026-03-01T12:40:00Z
            status {}
            > now 2026-03-01T12:40:00Z
            > pass
            apply ConfigMap team/late (Absent)
            apply ConfigMap team/last (Absent)
            early: Ready
            late: Ready
            last: Ready
            status {}
        "#]],
    );
}

const THREE: &str = r#"
schema: {kind: Shop, apiVersion: v1, spec: {size: string}}
resources:
- id: late
  propagateWhen: ["time.now() >= timestamp('2026-03-01T13:00:00Z')"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: late}}
- id: early
  propagateWhen: ["time.now() >= timestamp('2026-03-01T12:30:00Z')"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: early}}
- id: later
  propagateWhen: ["time.now() >= timestamp('2026-03-01T14:00:00Z')"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: later}}
"#;

#[test]
fn the_first_instant_of_all_gates_counts() {
    let next = |now: &str| {
        let mut world = World::new(THREE, json!({"spec": {"size": "1"}}));
        world.step(&format!("now {now}"));
        let next = world.plan().next;
        next.map(|next| next.to_string())
    };
    let expected = |time: &str| Some(time.to_owned());
    assert_eq!(
        next("2026-03-01T12:00:00Z"),
        expected("2026-03-01T12:30:00Z")
    );
    assert_eq!(
        next("2026-03-01T12:30:00Z"),
        expected("2026-03-01T13:00:00Z")
    );
    assert_eq!(
        next("2026-03-01T13:30:00Z"),
        expected("2026-03-01T14:00:00Z")
    );
    assert_eq!(next("2026-03-01T14:00:00Z"), None);
}

/// Since when something is ready is what its conditions say, or when it was last written.
#[test]
fn readiness_lasts_from_the_last_change() {
    let id = ObjectId {
        gvk: crate::Gvk::new("", "v1", "ConfigMap"),
        namespace: String::new(),
        name: "a".to_owned(),
    };
    let now = Timestamp::parse("2026-03-01T12:00:00Z").unwrap();
    let since = |json: Json| {
        let live = Live::parsed(id.clone(), json);
        super::super::ready::since(&live, now).to_string()
    };
    assert_eq!(since(json!({})), "2026-03-01T12:00:00Z");
    let fields = json!([
        {"time": "2026-02-02T00:00:00Z"},
        {"time": "2026-02-04T00:00:00Z", "subresource": "status"},
    ]);
    let metadata = json!({"creationTimestamp": "2026-02-01T00:00:00Z", "managedFields": fields});
    let condition = |time: &str| json!({"conditions": [{"lastTransitionTime": time}]});
    let mut json = json!({"metadata": metadata});
    assert_eq!(since(json.clone()), "2026-02-04T00:00:00Z");
    json["status"] = condition("2026-02-01T01:00:00Z");
    assert_eq!(since(json.clone()), "2026-02-02T00:00:00Z");
    json["status"] = condition("2026-02-03T00:00:00Z");
    assert_eq!(since(json), "2026-02-03T00:00:00Z");
}
