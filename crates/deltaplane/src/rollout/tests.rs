//! Rollouts as data: revisions, what the definition says, and a line for each instance.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::fleet::{Fleet, InZone};
use super::history;
use super::overview::{Overview, State};
use super::seen::{Revision, Seen};
use super::shown::{self, Listed};
use super::why;
use super::{DefinitionName, InstanceName, RolloutError};
use crate::graph::live::Cause;
use deltaplane_api::time::Time;

fn now() -> Time {
    "2026-03-01T12:00:00Z".parse().expect("a time")
}

/// Revisions differ in their images, but for those that differ in their gates alone.
fn revision(number: i64, image: &str, gate: &str) -> Revision {
    Revision {
        number,
        hash: format!("{number}{}", "0123456789abcdef"),
        made: Some(now().plus(-3600 * (10 - number))),
        spec: spec(image, gate),
    }
}

fn spec(image: &str, gate: &str) -> Value {
    let mut spec = json!({
        "schema": {"apiVersion": "v1alpha1", "kind": "WebApp", "group": "kro.run"},
        "resources": [{"id": "web", "template": {"image": image}}],
    });
    if !gate.is_empty() {
        spec["propagateWhen"] = json!([gate]);
    }
    spec
}

const GATE: &str = "linearlyReady(webapp, webapps, 1)";

/// `prod/a arrived/2 ready`, `prod/b admitted/2 error web: it crashes`, `prod/c - hold=true waits`.
fn instance(line: &str) -> Value {
    let mut words = line.split_whitespace();
    let (key, admission) = (words.next().expect("a key"), words.next().expect("where"));
    let (namespace, name) = key.split_once('/').expect("a namespace and a name");
    let mut json = json!({
        "metadata": {"namespace": namespace, "name": name, "generation": 1, "annotations": {}},
    });
    if admission != "-" {
        json["metadata"]["annotations"]["deltaplane.io/admission"] = admission.into();
    }
    let mut state = words.next().expect("a state");
    if let Some(until) = state.strip_prefix("hold=") {
        json["metadata"]["annotations"]["deltaplane.io/hold"] = until.into();
        state = words.next().expect("a state");
    }
    let message = words.collect::<Vec<_>>().join(" ");
    let condition = |name: &str, status: &str| json!({"type": name, "status": status, "reason": "NotReady", "message": message, "observedGeneration": 1});
    match state {
        "ready" => {
            json["status"] = json!({"state": "ACTIVE", "conditions": [condition("Ready", "True")]});
        }
        "deleting" => json["metadata"]["deletionTimestamp"] = "2026-03-01T11:59:00Z".into(),
        state => {
            let kro = if state == "error" {
                "ERROR"
            } else {
                "IN_PROGRESS"
            };
            let conditions = ["ResourcesReady", "Ready"].map(|name| condition(name, "False"));
            json["status"] = json!({"state": kro, "conditions": conditions});
        }
    }
    json
}

fn seen(revisions: Vec<Revision>, propagation: Value, instances: &str) -> Seen {
    let newest = revisions.last().expect("a revision").clone();
    let mut definition = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "webapp", "generation": 2, "annotations": {}},
        "spec": newest.spec,
        "status": {
            "lastIssuedRevision": newest.number,
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}],
        },
    });
    if !propagation.is_null() {
        definition["status"]["propagation"] = propagation;
    }
    let lines = instances
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    Seen::new(definition, revisions, lines.map(instance).collect())
}

/// Two revisions with a gate.
fn gated(propagation: Value, instances: &str) -> Seen {
    let revisions = vec![revision(1, "web:1", GATE), revision(2, "web:2", GATE)];
    seen(revisions, propagation, instances)
}

fn counts(all: [u64; 6]) -> Value {
    let [current, updating, failed, pending, held, starting] = all;
    json!({
        "revision": 2, "instances": all.iter().sum::<u64>(), "current": current,
        "updating": updating, "failed": failed, "pending": pending, "held": held,
        "starting": starting, "blocked": [], "lookAgainAt": null,
    })
}

fn check(seen: &Seen, expected: Expect) {
    let overview = Overview::of(seen, now());
    expected.assert_eq(&shown::screen(&overview, Listed::Screen));
}

fn check_why(seen: &Seen, expected: Expect) {
    let overview = Overview::of(seen, now());
    let reasons = why::of_definition(seen, &overview);
    expected.assert_eq(&why::text("webapp", &overview.headline(), &reasons, &[]));
}

fn blocked(instance: &str) -> Value {
    let message = format!("closed: {GATE}: 1 in flight (prod/b); 1 of 3 updated and ready");
    json!({"instance": instance, "reason": "GateClosed", "message": message})
}

fn stopped() -> Seen {
    let mut told = counts([1, 0, 1, 1, 0, 0]);
    told["blocked"] = json!([blocked("prod/c")]);
    gated(
        told,
        "prod/a arrived/2 ready
         prod/b admitted/2 error web: Deployment prod/b is not ready: it crashes
         prod/c arrived/1 ready",
    )
}

#[test]
fn a_failure_stops_it() {
    check(
        &stopped(),
        expect![[r#"
            webapp: WebApp (kro.run/v1alpha1), revision 2
            stopped: 1 of 3 at revision 2
            [##########!!!!!!!!!!..........] 1 current, 1 failed, 1 pending

            INSTANCE   REVISION   STATE     READY   WHY
            prod/b     2          failed    no      web: Deployment prod/b is not ready: it crashes
            prod/c     1          pending   yes     the gate is closed: linearlyReady(webapp, webapps, 1): 1 in flight (prod/b); 1 of 3 updated and ready
            prod/a     2          current   yes
        "#]],
    );
    check_why(
        &stopped(),
        expect![[r#"
            webapp: stopped: 1 of 3 at revision 2

            prod/b: failed at revision 2
              ResourcesReady is False (NotReady): web: Deployment prod/b is not ready: it crashes

            prod/c: kept back by the gate
              closed: linearlyReady(webapp, webapps, 1): 1 in flight (prod/b); 1 of 3 updated and ready
        "#]],
    );
}

#[test]
fn it_is_complete_when_everything_arrived() {
    let seen = gated(
        counts([2, 0, 0, 0, 0, 0]),
        "prod/a arrived/2 ready\nprod/b started/2 ready\nprod/z arrived/1 deleting",
    );
    check(
        &seen,
        expect![[r#"
            webapp: WebApp (kro.run/v1alpha1), revision 2
            complete: all 2 are at revision 2
            [##############################] 2 current

            INSTANCE   REVISION   STATE      READY   WHY
            prod/z     1          deleting   no
            prod/a     2          current    yes
            prod/b     2          current    yes
        "#]],
    );
    check_why(
        &seen,
        expect![[r#"
            nothing holds webapp; complete: all 2 are at revision 2
        "#]],
    );
}

#[test]
fn what_is_ready_where_it_comes_from_has_not_arrived() {
    let seen = gated(
        counts([1, 1, 0, 0, 0, 0]),
        "prod/a arrived/2 ready\nprod/b admitted/2 ready",
    );
    check(
        &seen,
        expect![[r#"
            webapp: WebApp (kro.run/v1alpha1), revision 2
            moving: 1 of 2 at revision 2
            [###############>>>>>>>>>>>>>>>] 1 current, 1 updating

            INSTANCE   REVISION   STATE      READY   WHY
            prod/b     2          updating   yes
            prod/a     2          current    yes
        "#]],
    );
}

#[test]
fn nobody_waits_for_what_is_held() {
    let seen = gated(
        counts([1, 0, 0, 0, 2, 0]),
        "prod/a arrived/2 ready
         prod/b arrived/1 hold=2026-03-01T14:00:00Z ready
         prod/c arrived/1 hold=true ready",
    );
    check(
        &seen,
        expect![[r#"
            webapp: WebApp (kro.run/v1alpha1), revision 2
            held: 1 of 3 at revision 2
            [##########....................] 1 current, 2 held

            INSTANCE   REVISION   STATE     READY   WHY
            prod/b     1          held      yes     until 2026-03-01T14:00:00Z
            prod/c     1          held      yes     until it is released
            prod/a     2          current   yes
        "#]],
    );
    assert!(Overview::of(&seen, now()).is_over());
    // The first hold is over by then.
    assert!(!Overview::of(&seen, now().plus(3 * 3600)).is_over());
}

#[test]
fn a_pause_is_said_before_and_after_the_end() {
    let mut seen = stopped();
    seen.definition["metadata"]["annotations"]["deltaplane.io/paused"] = "true".into();
    let headline = |seen: &Seen| Overview::of(seen, now()).headline();
    assert_eq!(headline(&seen), "paused: 1 of 3 at revision 2");
    let mut seen = gated(counts([1, 0, 0, 0, 0, 0]), "prod/a arrived/2 ready");
    seen.definition["metadata"]["annotations"]["deltaplane.io/paused"] = "true".into();
    check(
        &seen,
        expect![[r#"
            webapp: WebApp (kro.run/v1alpha1), revision 2
            complete: its instance is at revision 2
            [##############################] 1 current
            it is paused: the next change will not move

            INSTANCE   REVISION   STATE     READY   WHY
            prod/a     2          current   yes
        "#]],
    );
}

#[test]
fn without_a_gate_instances_are_counted() {
    let revisions = vec![revision(1, "web:1", ""), revision(2, "web:2", "")];
    let instances = "prod/a admitted/2 ready\nprod/b admitted/2 waits db: waits for it\nprod/c admitted/1 ready\nprod/d - waits";
    check(
        &seen(revisions, Value::Null, instances),
        expect![[r#"
            webapp: WebApp (kro.run/v1alpha1), revision 2
            moving: 1 of 4 at revision 2
            [#######>>>>>>>>>>>>>>>........] 1 current, 1 updating, 1 starting, 1 pending

            INSTANCE   REVISION   STATE      READY   WHY
            prod/b     2          updating   no      db: waits for it
            prod/d     -          starting   no
            prod/c     1          pending    yes
            prod/a     2          current    yes
        "#]],
    );
}

#[test]
fn revisions_that_differ_in_their_gates_alone_are_one() {
    let all = || vec![revision(1, "web:1", ""), revision(2, "web:1", GATE)];
    let complete = seen(all(), Value::Null, "prod/a arrived/1 ready");
    assert!(Overview::of(&complete, now()).is_over());
    // What lies between them counts.
    let mut revisions = all();
    revisions.insert(1, revision(2, "web:2", ""));
    revisions[2].number = 3;
    let behind = seen(revisions, Value::Null, "prod/a arrived/1 ready");
    assert!(!Overview::of(&behind, now()).is_over());
}

#[test]
fn what_was_told_before_is_not_believed() {
    let mut other = counts([1, 0, 0, 0, 0, 0]);
    other["revision"] = 1.into();
    // Of another revision, of other instances, before one was admitted, before anybody looked.
    for (told, instance, generation) in [
        (other, "prod/a admitted/2 waits", 2),
        (counts([2, 0, 0, 0, 0, 0]), "prod/a admitted/2 waits", 2),
        (counts([1, 0, 0, 0, 0, 0]), "prod/a admitted/2 ready", 2),
        (counts([0, 1, 0, 0, 0, 0]), "prod/a arrived/2 ready", 2),
        (counts([1, 0, 0, 0, 0, 0]), "prod/a arrived/2 ready", 3),
    ] {
        let mut seen = gated(told, instance);
        seen.definition["metadata"]["generation"] = generation.into();
        let overview = Overview::of(&seen, now());
        assert_eq!(overview.state, State::Moving, "{}", overview.json());
    }
    // A gate that is gone tells nothing any more.
    let revisions = vec![revision(1, "web:1", GATE), revision(2, "web:2", "")];
    let told = counts([0, 1, 0, 0, 0, 0]);
    let overview = Overview::of(&seen(revisions, told, "prod/a admitted/2 ready"), now());
    assert_eq!(overview.state, State::Complete);
}

#[test]
fn a_definition_that_is_not_in_force_says_so() {
    let mut seen = gated(Value::Null, "prod/a arrived/2 ready");
    seen.definition["status"]["conditions"][0] = json!({
        "type": "Ready", "status": "False", "observedGeneration": 2,
        "reason": "InvalidResourceGraph", "message": "spec.resources[0].id: it is required\nspec.schema: too",
    });
    check_why(
        &seen,
        expect![[r#"
            webapp: stopped: 1 of 1 at revision 2

            the definition is not in force
              spec.resources[0].id: it is required
              spec.schema: too
        "#]],
    );
}

/// One that is ready is on its way for as long as deletions of it are held.
#[test]
fn deletions_that_are_held_are_shown() {
    let mut seen = gated(
        Value::Null,
        "prod/a arrived/2 ready\nprod/b arrived/2 ready",
    );
    seen.definition["status"]["deletions"] = json!([
        {"version": "07f55fde99", "baseline": 0, "deleted": 0, "held": 0},
        {"version": "3f1536bb28", "baseline": 60, "deleted": 20, "held": 40},
    ]);
    let conditions = seen.instances[0]["status"]["conditions"].as_array_mut();
    conditions.expect("conditions").push(json!({
        "type": "ResourcesPropagated", "status": "False", "reason": "DeletionsHeld",
        "message": "40 deletions are held",
    }));
    check(
        &seen,
        expect![[r#"
        webapp: WebApp (kro.run/v1alpha1), revision 2
        moving: 1 of 2 at revision 2
        [###############>>>>>>>>>>>>>>>] 1 current, 1 updating
        version 3f1536bb28: 40 deletions are held, 20 of 60 objects are deleted

        INSTANCE   REVISION   STATE      READY   WHY
        prod/a     2          updating   yes     40 deletions are held
        prod/b     2          current    yes
    "#]],
    );
}

/// What was in force before goes on to move, and can be paused.
#[test]
fn a_definition_that_is_not_in_force_is_not_said_to_be_stopped_while_it_moves() {
    let told = counts([0, 1, 0, 1, 0, 0]);
    let mut seen = gated(told, "prod/a admitted/2 waits\nprod/b arrived/1 ready");
    seen.definition["status"]["conditions"][0] = json!({
        "type": "Ready", "status": "False", "observedGeneration": 2,
        "reason": "InvalidResourceGraph", "message": "spec.schema: too",
    });
    let state = |seen: &Seen| Overview::of(seen, now()).state;
    assert_eq!(state(&seen), State::Moving);
    seen.definition["metadata"]["annotations"]["deltaplane.io/paused"] = "true".into();
    assert_eq!(state(&seen), State::Paused);
}

#[test]
fn a_definition_that_nobody_judged_is_waited_for() {
    let mut seen = gated(Value::Null, "");
    let overview = |seen: &Seen| Overview::of(seen, now());
    assert_eq!(
        overview(&seen).headline(),
        "complete: revision 2 has no instances"
    );
    seen.definition["status"]["conditions"][0]["status"] = "Unknown".into();
    assert_eq!(overview(&seen).headline(), "moving: 0 of 0 at revision 2");
    seen.definition["status"] = Value::Null;
    seen.revisions.clear();
    assert_eq!(overview(&seen).headline(), "moving: it has no revision yet");
}

#[test]
fn many_instances_are_a_screen_and_named_by_the_first() {
    let mut told = counts([0, 0, 0, 30, 0, 0]);
    told["blocked"] = (0..8)
        .map(|at| blocked(&format!("prod/i{at:02}")))
        .collect();
    told["lookAgainAt"] = "2026-03-01T13:00:00Z".into();
    let lines: Vec<String> = (0..30)
        .map(|at| format!("prod/i{at:02} arrived/1 ready"))
        .collect();
    let seen = gated(told, &lines.join("\n"));
    let overview = Overview::of(&seen, now());
    let screen = shown::screen(&overview, Listed::Screen);
    assert!(
        screen.contains("\ntime may open the gate at 2026-03-01T13:00:00Z\n"),
        "{screen}"
    );
    assert!(
        screen.ends_with("and 10 more; --all lists them\n"),
        "{screen}"
    );
    assert_eq!(shown::screen(&overview, Listed::All).lines().count(), 36);
    check_why(
        &seen,
        expect![[r#"
            webapp: stopped: 0 of 30 at revision 2

            prod/i00, prod/i01, prod/i02, prod/i03, prod/i04 and 3 more: kept back by the gate
              closed: linearlyReady(webapp, webapps, 1): 1 in flight (prod/b); 1 of 3 updated and ready

            prod/i08, prod/i09, prod/i10, prod/i11, prod/i12 and 17 more: kept back by the gate, too
        "#]],
    );
}

#[test]
fn changes_are_lines() {
    let steps = [
        gated(
            counts([2, 0, 0, 0, 0, 0]),
            "prod/a arrived/2 ready\nprod/b arrived/2 ready",
        ),
        gated(
            counts([1, 1, 0, 0, 0, 0]),
            "prod/a arrived/2 ready\nprod/b admitted/2 waits web: waits",
        ),
        gated(
            counts([1, 1, 0, 0, 0, 0]),
            "prod/a arrived/2 ready\nprod/b admitted/2 waits web: starts",
        ),
        gated(
            counts([2, 0, 0, 0, 0, 0]),
            "prod/a arrived/2 ready\nprod/b arrived/2 ready",
        ),
        gated(counts([1, 0, 0, 0, 0, 0]), "prod/b arrived/2 ready"),
    ];
    let (mut last, mut lines) = (None, Vec::new());
    for step in steps {
        let overview = Overview::of(&step, now());
        lines.extend(shown::changes(last.as_ref(), &overview));
        lines.push("--".to_owned());
        last = Some(overview);
    }
    expect![[r#"
        complete: all 2 are at revision 2 (2 current)
        --
        prod/b: updating at revision 2: web: waits
        moving: 1 of 2 at revision 2 (1 current, 1 updating)
        --
        prod/b: updating at revision 2: web: starts
        --
        prod/b: current at revision 2
        complete: all 2 are at revision 2 (2 current)
        --
        prod/a: gone
        complete: its instance is at revision 2 (1 current)
        --
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn what_a_definition_was() {
    let seen = gated(
        Value::Null,
        "prod/a arrived/2 ready\nprod/b arrived/1 ready",
    );
    expect![[r#"
        REVISION   AGE   HASH         INSTANCES   TARGET
        2          8h    2012345678   1           yes
        1          9h    1012345678   1
    "#]]
    .assert_eq(&history::text(&seen, now()));
    let previous = |seen: &Seen| history::previous(seen).map(|one| one.number);
    assert_eq!(previous(&seen), Some(1));
    // What was taken back and is in force again is not gone back to.
    let all = [(1, "web:1"), (2, "web:2"), (3, "web:1")];
    let all = all.map(|(number, image)| revision(number, image, GATE));
    assert_eq!(
        previous(&self::seen(all.to_vec(), Value::Null, "")),
        Some(2)
    );
    let only = vec![revision(1, "web:1", GATE)];
    assert_eq!(previous(&self::seen(only, Value::Null, "")), None);
}

#[test]
fn an_instance_is_held_by_its_graph() {
    let seen = stopped();
    let overview = Overview::of(&seen, now());
    let said = |key: &str, causes: &[Cause]| {
        let row = overview
            .rows
            .iter()
            .find(|row| row.key == key)
            .expect("there");
        let reasons = why::of_instance(&seen, &overview, row);
        why::text(key, &shown::standing(row), &reasons, causes)
    };
    let cause = Cause {
        nodes: ["web", "service"].map(str::to_owned).to_vec(),
        state: "not ready: a condition does not hold".to_owned(),
        said: vec!["Deployment b: Available is False (Crashing): it crashes".to_owned()],
    };
    expect![[r#"
        prod/b: failed at revision 2

        its conditions say
          ResourcesReady is False (NotReady): web: Deployment prod/b is not ready: it crashes

        in its graph
          web is not ready: a condition does not hold; service waits for it
            Deployment b: Available is False (Crashing): it crashes
    "#]]
    .assert_eq(&said("prod/b", &[cause]));
    expect![[r#"
        prod/c: pending at revision 1

        kept back by the gate
          closed: linearlyReady(webapp, webapps, 1): 1 in flight (prod/b); 1 of 3 updated and ready
    "#]]
    .assert_eq(&said("prod/c", &[]));
    expect![[r#"
        nothing holds prod/a; current at revision 2
    "#]]
    .assert_eq(&said("prod/a", &[]));
}

#[test]
fn a_fleet_is_as_far_as_its_zones() {
    let done = || gated(counts([1, 0, 0, 0, 0, 0]), "prod/a arrived/2 ready");
    let hub = done().definition;
    let mut older = done();
    older.definition["spec"] = spec("web:1", GATE);
    let lost = RolloutError::NothingBefore("webapp".to_owned());
    let zones = [
        ("a", Ok(done())),
        ("b", Ok(stopped())),
        ("c", Ok(older)),
        ("d", Err(lost)),
    ];
    let mut fleet = Fleet::new(&hub);
    for (zone, found) in zones {
        fleet.insert(zone.to_owned(), InZone::of(found, &hub, now()));
    }
    expect![[r#"
        webapp: moving: complete in 1 of 4 zones

        ZONE   REVISION   STATE      CURRENT   WHY
        a      2          complete   1 of 1
        b      2          stopped    1 of 3    prod/b: failed at revision 2: ResourcesReady is False (NotReady): web: Deployment prod/b is not ready: it crashes
        c      -          behind     -         it does not have the definition as it is here
        d      -          unknown    -         webapp was nothing else before
    "#]].assert_eq(&fleet.screen());
    expect![[r#"
        webapp: moving: complete in 1 of 4 zones

        b: stopped: 1 of 3 at revision 2
          prod/b: failed at revision 2
            ResourcesReady is False (NotReady): web: Deployment prod/b is not ready: it crashes
          prod/c: kept back by the gate
            closed: linearlyReady(webapp, webapps, 1): 1 in flight (prod/b); 1 of 3 updated and ready

        c: behind: it does not have the definition as it is here

        d: unknown: webapp was nothing else before
    "#]]
    .assert_eq(&fleet.why());
    let before = fleet.clone();
    fleet.insert("b".to_owned(), InZone::of(Ok(done()), &hub, now()));
    expect![[r#"
        b: prod/b: gone
        b: prod/c: gone
        b: complete: its instance is at revision 2 (1 current)
        moving: complete in 2 of 4 zones"#]]
    .assert_eq(&fleet.changes(Some(&before)).join("\n"));
    for zone in ["c", "d"] {
        fleet.insert(zone.to_owned(), InZone::of(Ok(done()), &hub, now()));
    }
    assert!(fleet.is_over());
    assert_eq!(
        fleet.why(),
        "nothing holds webapp; complete in all 4 zones\n"
    );
}

#[test]
fn names_are_found_or_others_are_told() {
    let seen = gated(
        Value::Null,
        "prod/a arrived/2 ready\ntest/a arrived/2 ready\nprod/b arrived/2 ready",
    );
    let hint = |name: &str| {
        let name: InstanceName = name.parse().expect("a name");
        match name.find(&seen) {
            Ok(found) => super::key(found).to_string(),
            Err(error) => format!("{error}; {}", error.hint()),
        }
    };
    assert_eq!(hint("b"), "prod/b");
    assert_eq!(hint("test/a"), "test/a");
    assert_eq!(
        hint("a"),
        "webapp has several instances a; say which with -n <namespace>: prod/a, test/a"
    );
    assert_eq!(
        hint("c"),
        "webapp has no instance c; there are prod/a, prod/b, test/a"
    );
    for (text, expected) in [
        ("webapp", Ok("webapp")),
        ("rgd/webapp", Ok("webapp")),
        ("pod/webapp", Err("pod is no ResourceGraphDefinition")),
        ("", Err("it is empty")),
    ] {
        let name = text.parse::<DefinitionName>();
        let name = name
            .as_ref()
            .map(DefinitionName::as_str)
            .map_err(|error| &**error);
        assert_eq!(name, expected, "{text}");
    }
    let near = Some("did you mean `webapp`?".to_owned());
    let missing = |near| RolloutError::NoDefinition {
        name: "webap".to_owned(),
        near,
        known: vec!["webapp".to_owned()],
    };
    assert_eq!(missing(near).hint(), "did you mean `webapp`?");
    assert_eq!(missing(None).hint(), "there are webapp");
    let error = super::ask::find_revision(&seen, 7).expect_err("not there");
    assert_eq!(
        format!("{error}; {}", error.hint()),
        "webapp has no revision 7; there are 1, 2"
    );
}

#[test]
fn holds_end_at_a_time_or_after_one() {
    let check = |text: &str, expected: Result<&str, &str>| {
        let until = text.parse::<super::act::Until>();
        let until = until.map(|until| until.after(now()).to_string());
        assert_eq!(
            until.as_deref().map_err(|error| &**error),
            expected,
            "{text}"
        );
    };
    check("2026-05-01T00:00:00Z", Ok("2026-05-01T00:00:00Z"));
    check("2026-05-01T02:00:00+02:00", Ok("2026-05-01T00:00:00Z"));
    check("2h", Ok("2026-03-01T14:00:00Z"));
    check(
        "tomorrow",
        Err("write it as 2026-03-01T12:00:00Z, or as 2h"),
    );
}

#[test]
fn a_long_reason_keeps_its_cause() {
    let short = "é".repeat(360);
    assert_eq!(shown::shortened(&short), short);
    let long = format!(
        "zone eu-1 rejected ConfigMap shop/web: {}: quota  exceeded\n",
        "admission webhook policy.example.com denied the request: ".repeat(10)
    );
    let shown = shown::shortened(&long);
    assert_eq!(shown.chars().count(), 361);
    assert!(
        shown.starts_with("zone eu-1 rejected ConfigMap shop/web: admission"),
        "{shown}"
    );
    assert!(
        shown.ends_with("denied the request: : quota exceeded"),
        "{shown}"
    );
}
