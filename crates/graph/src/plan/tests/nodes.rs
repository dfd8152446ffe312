//! Gates of nodes.

use super::*;

/// `web` is made of `config` and held back by `switch`, which is somebody else's; `service` is made
/// of `web`, and `side` of nothing.
const GATED: &str = r#"
schema: {kind: Shop, apiVersion: v1, spec: {size: string, name: string, extra: boolean}}
resources:
- id: switch
  externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: switch}}
- id: config
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: config}, data: {size: "${schema.spec.size}"}}
- id: web
  propagateWhen: ["switch.data.web == 'on'"]
  readyWhen: ["${web.data.open == 'yes'}"]
  template:
    {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.name}"}, data: {open: "yes", size: "${config.data.size}"}}
- id: service
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: service}, data: {size: "${web.data.size}"}}
- id: side
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: side}, data: {size: "${schema.spec.size}"}}
"#;

pub(super) fn shop() -> Json {
    json!({"spec": {"size": "1", "name": "web", "extra": true}})
}

/// A world in which the switch is there.
fn switched(definition: &str) -> World {
    let mut world = World::new(definition, shop());
    let id = ObjectId {
        gvk: crate::Gvk::new("", "v1", "ConfigMap"),
        namespace: "team".to_owned(),
        name: "switch".to_owned(),
    };
    let json = json!({"metadata": {"name": "switch"}, "data": {"web": "off"}});
    world
        .observed
        .insert("switch", Arc::new(Live::parsed(id, json)));
    world
}

pub(super) fn check_switched(definition: &str, steps: &str, expected: Expect) {
    let mut world = switched(definition);
    for step in steps.lines().map(str::trim) {
        writeln!(world.said, "> {step}").expect("a string");
        world.step(step);
    }
    expected.assert_eq(&world.said);
}

/// Data goes no further than the gate; what does not read the gated node is not held up.
#[test]
fn a_gate_holds_data_back_and_no_other_branch() {
    check_switched(
        GATED,
        "pass
         set switch data.web=\"on\"
         pass
         set switch data.web=\"off\"
         set schema spec.size=\"2\"
         pass
         show service data.size
         set switch data.web=\"on\"
         pass
         show service data.size",
        expect![[r#"
            > pass
            apply ConfigMap team/config (Absent)
            apply ConfigMap team/side (Absent)
            switch: Ready
            config: Ready
            web: 1 not made yet
              gated ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: blocked by web
            side: Ready
            status {}
            > set switch data.web="on"
            > pass
            apply ConfigMap team/web (Absent)
            apply ConfigMap team/service (Absent)
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
            > set switch data.web="off"
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/config (Changed)
            apply ConfigMap team/side (Changed)
            switch: Ready
            config: Ready
            web: Ready
              frozen ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: Ready
            side: Ready
            status {}
            > show service data.size
            ConfigMap team/service: "1"
            > set switch data.web="on"
            > pass
            apply ConfigMap team/web (Changed)
            apply ConfigMap team/service (Changed)
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
            > show service data.size
            ConfigMap team/service: "2"
        "#]],
    );
}

/// What is frozen is ready or not as it is, and what reads it goes by that.
#[test]
fn what_is_frozen_is_still_looked_at() {
    check_switched(
        GATED,
        "set switch data.web=\"on\"
         pass
         set switch data.web=\"off\"
         set schema spec.size=\"2\"
         set web data.open=\"no\"
         gone service
         pass
         set web data.open=\"yes\"
         pass",
        expect![[r#"
            > set switch data.web="on"
            > pass
            apply ConfigMap team/config (Absent)
            apply ConfigMap team/side (Absent)
            apply ConfigMap team/web (Absent)
            apply ConfigMap team/service (Absent)
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
            > set switch data.web="off"
            > set schema spec.size="2"
            > set web data.open="no"
            > gone service
            > pass
            apply ConfigMap team/config (Changed)
            apply ConfigMap team/side (Changed)
            switch: Ready
            config: Ready
            web: ConfigMap team/web is not ready: Condition { source: "${web.data.open == 'yes'}" }
              frozen ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: blocked by web
            side: Ready
            status {}
            > set web data.open="yes"
            > pass
            apply ConfigMap team/service (Absent)
            switch: Ready
            config: Ready
            web: Ready
              frozen ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: Ready
            side: Ready
            status {}
        "#]],
    );
}

#[test]
fn what_drifts_is_put_right_whatever_the_gate_says() {
    check_switched(
        GATED,
        "set switch data.web=\"on\"
         pass
         set switch data.web=\"off\"
         drift web
         pass
         set schema spec.size=\"2\"
         pass
         set web data.size=\"9\"
         drift web
         pass
         show web data.size
         set switch data.web=\"on\"
         pass
         show web data.size",
        expect![[r#"
            > set switch data.web="on"
            > pass
            apply ConfigMap team/config (Absent)
            apply ConfigMap team/side (Absent)
            apply ConfigMap team/web (Absent)
            apply ConfigMap team/service (Absent)
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
            > set switch data.web="off"
            > drift web
            > pass
            apply ConfigMap team/web (Drifted)
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/config (Changed)
            apply ConfigMap team/side (Changed)
            switch: Ready
            config: Ready
            web: Ready
              frozen ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: Ready
            side: Ready
            status {}
            > set web data.size="9"
            > drift web
            > pass
            apply ConfigMap team/web (Drifted)
            switch: Ready
            config: Ready
            web: Ready
              frozen ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: Ready
            side: Ready
            status {}
            > show web data.size
            ConfigMap team/web: "1"
            > set switch data.web="on"
            > pass
            apply ConfigMap team/web (Changed)
            apply ConfigMap team/service (Changed)
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
            > show web data.size
            ConfigMap team/web: "2"
        "#]],
    );
}

/// What was kept for an object at some time is not what it was last admitted to for ever.
#[test]
fn what_is_kept_of_another_time_is_not_applied() {
    check_switched(
        GATED,
        "set switch data.web=\"on\"
         pass
         set switch data.web=\"off\"
         set schema spec.size=\"2\"
         pass
         crash 0
         set web metadata.annotations={\"deltaplane.io/content\":\"other\"}
         crash 0
         drift web
         pass",
        expect![[r#"
            > set switch data.web="on"
            > pass
            apply ConfigMap team/config (Absent)
            apply ConfigMap team/side (Absent)
            apply ConfigMap team/web (Absent)
            apply ConfigMap team/service (Absent)
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
            > set switch data.web="off"
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/config (Changed)
            apply ConfigMap team/side (Changed)
            switch: Ready
            config: Ready
            web: Ready
              frozen ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: Ready
            side: Ready
            status {}
            > crash 0
            > set web metadata.annotations={"deltaplane.io/content":"other"}
            > crash 0
            > drift web
            > pass
            switch: Ready
            config: Ready
            web: Ready
              frozen ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: Ready
            side: Ready
            status {}
        "#]],
    );
}

/// A gate keeps what is there: somebody who deletes it changes nothing about that.
#[test]
fn what_is_deleted_while_it_is_frozen_is_put_back() {
    check_switched(
        GATED,
        "set switch data.web=\"on\"
         pass
         set switch data.web=\"off\"
         set schema spec.size=\"2\"
         pass
         gone web
         pass
         show web data.size
         gone web
         forget
         pass
         set switch data.web=\"on\"
         pass
         show web data.size",
        expect![[r#"
            > set switch data.web="on"
            > pass
            apply ConfigMap team/config (Absent)
            apply ConfigMap team/side (Absent)
            apply ConfigMap team/web (Absent)
            apply ConfigMap team/service (Absent)
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
            > set switch data.web="off"
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/config (Changed)
            apply ConfigMap team/side (Changed)
            switch: Ready
            config: Ready
            web: Ready
              frozen ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: Ready
            side: Ready
            status {}
            > gone web
            > pass
            apply ConfigMap team/web (Drifted)
            switch: Ready
            config: Ready
            web: Ready
              frozen ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: Ready
            side: Ready
            status {}
            > show web data.size
            ConfigMap team/web: "1"
            > gone web
            > forget
            > pass
            apply ConfigMap team/web (Drifted)
            switch: Ready
            config: Ready
            web: Ready
              frozen ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: Ready
            side: Ready
            status {}
            > set switch data.web="on"
            > pass
            apply ConfigMap team/web (Changed)
            apply ConfigMap team/service (Changed)
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
            > show web data.size
            ConfigMap team/web: "2"
        "#]],
    );
}

/// Nothing says what it was.
#[test]
fn what_is_deleted_and_was_not_frozen_waits_for_its_gate() {
    check_switched(
        GATED,
        "set switch data.web=\"on\"
         pass
         set switch data.web=\"off\"
         gone web
         pass",
        expect![[r#"
            > set switch data.web="on"
            > pass
            apply ConfigMap team/config (Absent)
            apply ConfigMap team/side (Absent)
            apply ConfigMap team/web (Absent)
            apply ConfigMap team/service (Absent)
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
            > set switch data.web="off"
            > gone web
            > pass
            switch: Ready
            config: Ready
            web: 1 not made yet
              gated ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: blocked by web
            side: Ready
            status {}
        "#]],
    );
}

/// Also when nobody saw it happen.
#[test]
fn what_may_have_drifted_is_put_right_while_it_is_frozen() {
    check_switched(
        GATED,
        "set switch data.web=\"on\"
         pass
         set switch data.web=\"off\"
         doubt web
         pass
         set schema spec.size=\"2\"
         pass
         set web data.size=\"9\"
         doubt web
         pass
         show web data.size",
        expect![[r#"
            > set switch data.web="on"
            > pass
            apply ConfigMap team/config (Absent)
            apply ConfigMap team/side (Absent)
            apply ConfigMap team/web (Absent)
            apply ConfigMap team/service (Absent)
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
            > set switch data.web="off"
            > doubt web
            > pass
            apply ConfigMap team/web (Drifted)
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/config (Changed)
            apply ConfigMap team/side (Changed)
            switch: Ready
            config: Ready
            web: Ready
              frozen ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: Ready
            side: Ready
            status {}
            > set web data.size="9"
            > doubt web
            > pass
            apply ConfigMap team/web (Drifted)
            switch: Ready
            config: Ready
            web: Ready
              frozen ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: Ready
            side: Ready
            status {}
            > show web data.size
            ConfigMap team/web: "1"
        "#]],
    );
}

/// While it is not known what a node wants, what was kept for it is still needed.
#[test]
fn what_may_be_frozen_is_kept() {
    let mut world = switched(GATED);
    for step in [
        "set switch data.web=\"on\"",
        "pass",
        "set switch data.web=\"off\"",
        "set schema spec.size=\"2\"",
        "pass",
    ] {
        world.step(step);
    }
    let kept = |world: &World| -> Vec<String> {
        let keep = world.plan().keep;
        keep.iter().map(ToString::to_string).collect()
    };
    assert_eq!(kept(&world), ["ConfigMap team/web"]);
    world.step("ending config");
    assert_eq!(kept(&world), ["ConfigMap team/web"]);
    world.step("gone config");
    world.step("set switch data.web=\"on\"");
    world.step("pass");
    assert_eq!(kept(&world), [""; 0]);
}

/// A node that is to have another name is frozen under its old one, and not deleted.
#[test]
fn a_frozen_node_keeps_its_name() {
    check_switched(
        GATED,
        "set switch data.web=\"on\"
         pass
         set switch data.web=\"off\"
         set schema spec.name=\"new\"
         pass
         set switch data.web=\"on\"
         pass",
        expect![[r#"
            > set switch data.web="on"
            > pass
            apply ConfigMap team/config (Absent)
            apply ConfigMap team/side (Absent)
            apply ConfigMap team/web (Absent)
            apply ConfigMap team/service (Absent)
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
            > set switch data.web="off"
            > set schema spec.name="new"
            > pass
            switch: Ready
            config: Ready
            web: Ready
              frozen ConfigMap team/web: closed: switch.data.web == 'on': switch.data.web: "off"
            service: Ready
            side: Ready
            status {}
            > set switch data.web="on"
            > pass
            apply ConfigMap team/new (Absent)
            delete ConfigMap team/web of web
            switch: Ready
            config: Ready
            web: Ready
            service: Ready
            side: Ready
            status {}
        "#]],
    );
}

/// That data is not there, and that a gate is wrong, is told apart from that it is closed.
#[test]
fn what_cannot_be_evaluated_is_closed() {
    check_switched(
        GATED,
        "set switch data={}
         pass
         set switch data.web=5
         pass
         gone switch
         pass",
        expect![[r#"
            > set switch data={}
            > pass
            apply ConfigMap team/config (Absent)
            apply ConfigMap team/side (Absent)
            switch: Ready
            config: Ready
            web: 1 not made yet
              gated ConfigMap team/web: closed: switch.data.web == 'on': waiting for switch.data.web
            service: blocked by web
            side: Ready
            status {}
            > set switch data.web=5
            > pass
            switch: Ready
            config: Ready
            web: 1 not made yet
              gated ConfigMap team/web: error: switch.data.web == 'on': invalid data, expected string, got a number
            service: blocked by web
            side: Ready
            status {}
            > gone switch
            > pass
            switch: Missing { id: ObjectId { gvk: Gvk { group: "", version: "v1", kind: "ConfigMap" }, namespace: "team", name: "switch" } }
            config: Ready
            web: 1 not made yet
              gated ConfigMap team/web: closed: switch.data.web == 'on': waiting for switch
            service: blocked by web
            side: Ready
            status {}
        "#]],
    );
}

const EXTRA: &str = r#"
schema: {kind: Shop, apiVersion: v1, spec: {size: string, name: string, extra: boolean}}
resources:
- id: extra
  includeWhen: ["${schema.spec.extra}"]
  propagateWhen: ["schema.spec.size == '1'"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: extra}, data: {size: "${schema.spec.size}"}}
- id: after
  propagateWhen: ["!schema.spec.extra || extra.ready()"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: after}, data: {size: "${schema.spec.size}"}}
- id: strict
  propagateWhen: ["extra.updated()"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: strict}, data: {size: "${schema.spec.size}"}}
"#;

/// It is decided first whether a node is there at all: what is excluded goes, gate or no gate, and
/// gates that read it wait.
#[test]
fn include_when_comes_before_propagate_when() {
    check(
        EXTRA,
        shop(),
        "pass
         set schema spec.size=\"2\"
         pass
         set schema spec.extra=false
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/extra (Absent)
            apply ConfigMap team/strict (Absent)
            apply ConfigMap team/after (Absent)
            extra: Ready
            after: Ready
            strict: Ready
            status {}
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/after (Changed)
            extra: Ready
              frozen ConfigMap team/extra: closed: schema.spec.size == '1': schema.spec.size: "2"
            after: Ready
            strict: Ready
              frozen ConfigMap team/strict: closed: extra.updated(): false
            status {}
            > set schema spec.extra=false
            > pass
            delete ConfigMap team/extra of extra
            extra: excluded by ${schema.spec.extra}
            after: Ready
            strict: Ready
              frozen ConfigMap team/strict: closed: extra.updated(): waiting for extra
            status {}
        "#]],
    );
}

/// The extra one reads another that is not ready.
const BLOCKED: &str = r#"
schema: {kind: Shop, apiVersion: v1, spec: {size: string, name: string, extra: boolean}}
resources:
- id: first
  readyWhen: ["${first.data.open == 'yes'}"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {open: "no", size: "${schema.spec.size}"}}
- id: extra
  includeWhen: ["${schema.spec.extra}"]
  propagateWhen: ["first.updated()"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: extra}, data: {size: "${first.data.size}"}}
"#;

/// What is excluded goes, although what it would be made of is not ready.
#[test]
fn what_is_excluded_waits_for_nobody() {
    check(
        BLOCKED,
        shop(),
        "pass
         set first data.open=\"yes\"
         pass
         set schema spec.size=\"2\"
         pass
         set schema spec.extra=false
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/first (Absent)
            first: ConfigMap team/first is not ready: Condition { source: "${first.data.open == 'yes'}" }
            extra: blocked by first
            status {}
            > set first data.open="yes"
            > pass
            apply ConfigMap team/extra (Absent)
            first: Ready
            extra: Ready
            status {}
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/first (Changed)
            first: ConfigMap team/first is not ready: Condition { source: "${first.data.open == 'yes'}" }
            extra: blocked by first
            status {}
            > set schema spec.extra=false
            > pass
            delete ConfigMap team/extra of extra
            first: ConfigMap team/first is not ready: Condition { source: "${first.data.open == 'yes'}" }
            extra: excluded by ${schema.spec.extra}
            status {}
        "#]],
    );
}

/// `propagateWhen` of the second is about the first, which it does not read otherwise.
const STEPS: &str = r#"
schema: {kind: Shop, apiVersion: v1, spec: {size: string, name: string, extra: boolean}}
resources:
- id: second
  propagateWhen: ["first.updated() && first.ready()"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: second}, data: {size: "${schema.spec.size}"}}
- id: first
  readyWhen: ["${first.data.open == 'yes'}"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {open: "no", size: "${schema.spec.size}"}}
- id: third
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: third}, data: {size: "${second.data.size}"}}
"#;

/// A gate on another node gates creation as well, and when it opens all that is behind follows in
/// the same pass.
#[test]
fn a_gate_that_opens_lets_everything_behind_it_go() {
    check(
        STEPS,
        shop(),
        "pass
         set first data.open=\"yes\"
         pass
         set schema spec.size=\"2\"
         pass
         set first data.open=\"yes\"
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/first (Absent)
            first: ConfigMap team/first is not ready: Condition { source: "${first.data.open == 'yes'}" }
            second: 1 not made yet
              gated ConfigMap team/second: closed: first.updated() && first.ready(): first.updated(): true, first.ready(): false
            third: blocked by second
            status {}
            > set first data.open="yes"
            > pass
            apply ConfigMap team/second (Absent)
            apply ConfigMap team/third (Absent)
            first: Ready
            second: Ready
            third: Ready
            status {}
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/first (Changed)
            first: ConfigMap team/first is not ready: Condition { source: "${first.data.open == 'yes'}" }
            second: Ready
              frozen ConfigMap team/second: closed: first.updated() && first.ready(): first.updated(): true, first.ready(): false
            third: Ready
            status {}
            > set first data.open="yes"
            > pass
            apply ConfigMap team/second (Changed)
            apply ConfigMap team/third (Changed)
            first: Ready
            second: Ready
            third: Ready
            status {}
        "#]],
    );
}

/// Ready is what is ready at its own generation.
#[test]
fn a_status_of_an_earlier_generation_opens_nothing() {
    let definition = STEPS.replace("first.data.open == 'yes'", "first.metadata.name == 'first'");
    check(
        &definition,
        shop(),
        "pass
         set first status.observedGeneration=1
         pass
         set schema spec.size=\"2\"
         pass
         set first status.observedGeneration=2
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/first (Absent)
            apply ConfigMap team/second (Absent)
            apply ConfigMap team/third (Absent)
            first: Ready
            second: Ready
            third: Ready
            status {}
            > set first status.observedGeneration=1
            > pass
            first: Ready
            second: Ready
            third: Ready
            status {}
            > set schema spec.size="2"
            > pass
            apply ConfigMap team/first (Changed)
            first: ConfigMap team/first is not ready: Stale { observed: 1, generation: 2 }
            second: Ready
              frozen ConfigMap team/second: closed: first.updated() && first.ready(): first.updated(): true, first.ready(): false
            third: Ready
            status {}
            > set first status.observedGeneration=2
            > pass
            apply ConfigMap team/second (Changed)
            apply ConfigMap team/third (Changed)
            first: Ready
            second: Ready
            third: Ready
            status {}
        "#]],
    );
}

/// To edit a gate changes nothing but the gate.
#[test]
fn another_gate_changes_no_content() {
    let mut world = World::new(STEPS, shop());
    world.step("pass");
    world.step("set first data.open=\"yes\"");
    world.step("pass");
    let open = STEPS.replace("[\"first.updated() && first.ready()\"]", "[]");
    world.graph = compiled(&open).unwrap();
    let plan = world.plan();
    assert_eq!((plan.apply, plan.prune), (vec![], vec![]));
    assert!(world.plan().is_ready() && world.plan().is_propagated());
}

#[test]
fn an_object_in_two_versions_of_its_kind_is_one() {
    check(
        r#"
schema: {kind: App, apiVersion: v1, spec: {}}
resources:
- id: config
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: config}}
"#,
        json!({"spec": {}}),
        "pass
         twin config
         pass",
        expect![[r#"
            > pass
            apply ConfigMap team/config (Absent)
            config: Ready
            status {}
            > twin config
            > pass
            config: Ready
            status {}
        "#]],
    );
}
