//! Rollouts as scenarios: what happens in, decisions out.

use std::fmt::Write as _;

use deltaplane_expr::Duration;
use deltaplane_propagation::{Decision, Hold, Report};
use expect_test::{Expect, expect};

use crate::fleet::{Fleet, Version};

fn told(decision: &Decision<Version>) -> String {
    let mut out = String::new();
    for change in &decision.starts {
        writeln!(out, "start {} at {}", change.key, change.to).expect("a text takes it");
    }
    for change in &decision.admissions {
        let from = change
            .from
            .map_or("nothing".to_owned(), |from| from.to_string());
        writeln!(out, "admit {} from {from} to {}", change.key, change.to)
            .expect("a text takes it");
    }
    writeln!(out, "{}", decision.summary).expect("a text takes it");
    out
}

/// Runs lines; `step` decides, and all that it says is expected.
fn check(text: &str, expected: &Expect) {
    let mut fleet = Fleet::new(&[]);
    let mut out = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let keys = || rest.split(' ');
        match word {
            "gate" if rest.is_empty() => fleet.edit(&[]),
            "gate" => fleet.edit(&rest.split(" ; ").collect::<Vec<&str>>()),
            "target" => fleet.target = rest.parse().expect("a version"),
            "completed" => fleet.completed = Some(rest.parse().expect("a version")),
            "new" => keys().for_each(|key| fleet.add(key)),
            "at" => {
                let version = rest.split(' ').next().expect("a version");
                let version = version.parse().expect("a version");
                keys().skip(1).for_each(|key| fleet.add_at(key, version));
            }
            "ready" => keys().for_each(|key| fleet.ready(key)),
            "broken" => keys().for_each(|key| fleet.record(key).report = Report::Unready),
            "report" => {
                let (key, at) = rest.split_once(' ').expect("an item and a version");
                let (at, since) = (at.parse().expect("a version"), fleet.now);
                fleet.record(key).report = Report::Ready { at, since };
            }
            "failed" => keys().for_each(|key| fleet.record(key).report = Report::Failed),
            "hold" => keys().for_each(|key| fleet.record(key).hold = Hold::Held),
            "release" => keys().for_each(|key| fleet.record(key).hold = Hold::Free),
            "delete" => keys().for_each(|key| fleet.record(key).deleting = true),
            "gone" => keys().for_each(|key| drop(fleet.items.remove(key))),
            "clock" => {
                let passed = Duration::parse(rest).expect("a duration");
                fleet.now = fleet.now.plus(passed).expect("a time");
            }
            "step" => write!(out, "{}", told(&fleet.step())).expect("a text takes it"),
            other => panic!("no such line: {other}"),
        }
    }
    expected.assert_eq(&out);
}

#[test]
fn one_after_the_other() {
    check(
        "at 1 a b c
         target 2
         gate linearlyReady(app, apps, 1)
         step
         step
         ready a
         step
         ready b
         step
         ready c
         step",
        &expect![[r#"
            admit a from 1 to 2
            2: 0 of 3 current, 1 updating, 2 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
              c: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
            2: 0 of 3 current, 1 updating, 2 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
              c: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
            admit b from 1 to 2
            2: 1 of 3 current, 1 updating, 1 pending
              c: closed: linearlyReady(app, apps, 1): 1 in flight (b); 1 of 3 updated and ready
            admit c from 1 to 2
            2: 2 of 3 current, 1 updating
            2: 3 of 3 current
        "#]],
    );
}

#[test]
fn waves_grow_with_what_is_proven() {
    check(
        "at 1 a b c d e f g h
         target 2
         gate exponentiallyReady(app, apps)
         step
         ready a
         step
         ready b
         step
         ready c d
         step
         ready e f g h
         step",
        &expect![[r#"
            admit a from 1 to 2
            2: 0 of 8 current, 1 updating, 7 pending
              b: closed: exponentiallyReady(app, apps): 1 in flight (a); 0 of 8 updated and ready
              c: closed: exponentiallyReady(app, apps): 1 in flight (a); 0 of 8 updated and ready
              d: closed: exponentiallyReady(app, apps): 1 in flight (a); 0 of 8 updated and ready
              e: closed: exponentiallyReady(app, apps): 1 in flight (a); 0 of 8 updated and ready
              f: closed: exponentiallyReady(app, apps): 1 in flight (a); 0 of 8 updated and ready
              g: closed: exponentiallyReady(app, apps): 1 in flight (a); 0 of 8 updated and ready
              h: closed: exponentiallyReady(app, apps): 1 in flight (a); 0 of 8 updated and ready
            admit b from 1 to 2
            2: 1 of 8 current, 1 updating, 6 pending
              c: closed: exponentiallyReady(app, apps): 1 in flight (b); 1 of 8 updated and ready
              d: closed: exponentiallyReady(app, apps): 1 in flight (b); 1 of 8 updated and ready
              e: closed: exponentiallyReady(app, apps): 1 in flight (b); 1 of 8 updated and ready
              f: closed: exponentiallyReady(app, apps): 1 in flight (b); 1 of 8 updated and ready
              g: closed: exponentiallyReady(app, apps): 1 in flight (b); 1 of 8 updated and ready
              h: closed: exponentiallyReady(app, apps): 1 in flight (b); 1 of 8 updated and ready
            admit c from 1 to 2
            admit d from 1 to 2
            2: 2 of 8 current, 2 updating, 4 pending
              e: closed: exponentiallyReady(app, apps): 2 in flight (c, d); 2 of 8 updated and ready
              f: closed: exponentiallyReady(app, apps): 2 in flight (c, d); 2 of 8 updated and ready
              g: closed: exponentiallyReady(app, apps): 2 in flight (c, d); 2 of 8 updated and ready
              h: closed: exponentiallyReady(app, apps): 2 in flight (c, d); 2 of 8 updated and ready
            admit e from 1 to 2
            admit f from 1 to 2
            admit g from 1 to 2
            admit h from 1 to 2
            2: 4 of 8 current, 4 updating
            2: 8 of 8 current
        "#]],
    );
}

#[test]
fn a_failure_keeps_its_place() {
    check(
        "at 1 a b c
         broken b
         target 2
         gate linearlyReady(app, apps, 1)
         step
         failed a
         step",
        &expect![[r#"
            admit a from 1 to 2
            2: 0 of 3 current, 1 updating, 2 pending
              c: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
            2: 0 of 3 current, 1 failed, 2 pending
              c: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
        "#]],
    );
}

#[test]
fn what_relapses_takes_a_place_again() {
    check(
        "at 1 a b c
         target 2
         gate linearlyReady(app, apps, 1)
         step
         ready a
         broken a
         step
         ready a
         step",
        &expect![[r#"
            admit a from 1 to 2
            2: 0 of 3 current, 1 updating, 2 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
              c: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
            2: 0 of 3 current, 1 updating, 2 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
              c: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
            admit b from 1 to 2
            2: 1 of 3 current, 1 updating, 1 pending
              c: closed: linearlyReady(app, apps, 1): 1 in flight (b); 1 of 3 updated and ready
        "#]],
    );
}

#[test]
fn what_relapses_after_it_arrived_takes_a_place_again() {
    check(
        "at 1 a b c
         target 2
         gate linearlyReady(app, apps, 1)
         step
         ready a
         step
         broken a
         ready b
         step
         ready a
         step",
        &expect![[r#"
            admit a from 1 to 2
            2: 0 of 3 current, 1 updating, 2 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
              c: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
            admit b from 1 to 2
            2: 1 of 3 current, 1 updating, 1 pending
              c: closed: linearlyReady(app, apps, 1): 1 in flight (b); 1 of 3 updated and ready
            2: 1 of 3 current, 1 updating, 1 pending
              c: closed: linearlyReady(app, apps, 1): 1 in flight (a); 1 of 3 updated and ready
            admit c from 1 to 2
            2: 2 of 3 current, 1 updating
        "#]],
    );
}

/// That it is ready at what it had before says nothing.
#[test]
fn a_report_of_another_version_opens_nothing() {
    check(
        "at 1 a b c
         target 2
         gate linearlyReady(app, apps, 1)
         step
         report a 1
         step
         report a 3
         step
         report a 2
         step
         target 3
         report a 3
         step",
        &expect![[r#"
            admit a from 1 to 2
            2: 0 of 3 current, 1 updating, 2 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
              c: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
            2: 0 of 3 current, 1 updating, 2 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
              c: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
            2: 0 of 3 current, 1 updating, 2 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
              c: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
            admit b from 1 to 2
            2: 1 of 3 current, 1 updating, 1 pending
              c: closed: linearlyReady(app, apps, 1): 1 in flight (b); 1 of 3 updated and ready
            admit b from 2 to 3
            3: 0 of 3 current, 1 updating, 2 pending
              c: closed: linearlyReady(app, apps, 1): 1 in flight (b); 0 of 3 updated and ready
              a: closed: linearlyReady(app, apps, 1): 1 in flight (b); 0 of 3 updated and ready
        "#]],
    );
}

#[test]
fn a_newer_target_takes_over_what_is_on_its_way() {
    check(
        "at 1 a b c d
         target 2
         gate linearlyReady(app, apps, 2)
         step
         ready a
         target 3
         step
         ready b
         step
         ready c
         step
         ready a
         step",
        &expect![[r#"
            admit a from 1 to 2
            admit b from 1 to 2
            2: 0 of 4 current, 2 updating, 2 pending
              c: closed: linearlyReady(app, apps, 2): 2 in flight (a, b); 0 of 4 updated and ready
              d: closed: linearlyReady(app, apps, 2): 2 in flight (a, b); 0 of 4 updated and ready
            admit b from 2 to 3
            admit a from 2 to 3
            3: 0 of 4 current, 2 updating, 2 pending
              c: closed: linearlyReady(app, apps, 2): 2 in flight (a, b); 0 of 4 updated and ready
              d: closed: linearlyReady(app, apps, 2): 2 in flight (a, b); 0 of 4 updated and ready
            admit c from 1 to 3
            3: 1 of 4 current, 2 updating, 1 pending
              d: closed: linearlyReady(app, apps, 2): 2 in flight (a, c); 1 of 4 updated and ready
            admit d from 1 to 3
            3: 2 of 4 current, 2 updating
            3: 3 of 4 current, 1 updating
        "#]],
    );
}

#[test]
fn the_way_back_is_a_way_like_any_other() {
    check(
        "at 1 a b c
         target 2
         gate linearlyReady(app, apps, 1)
         step
         failed a
         target 1
         step
         ready a
         step",
        &expect![[r#"
            admit a from 1 to 2
            2: 0 of 3 current, 1 updating, 2 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
              c: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
            admit a from 2 to 1
            1: 2 of 3 current, 1 updating
            1: 3 of 3 current
        "#]],
    );
}

#[test]
fn there_and_back_again_it_is_still_on_its_way() {
    check(
        "at 1 a b
         target 2
         gate linearlyReady(app, apps, 1)
         step
         target 1
         step
         target 2
         step",
        &expect![[r#"
            admit a from 1 to 2
            2: 0 of 2 current, 1 updating, 1 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 2 updated and ready
            admit a from 2 to 1
            1: 1 of 2 current, 1 updating
            admit a from 1 to 2
            2: 0 of 2 current, 1 updating, 1 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 2 updated and ready
        "#]],
    );
}

#[test]
fn what_is_new_starts_with_what_has_completed() {
    check(
        "at 1 a b
         completed 1
         target 2
         gate linearlyReady(app, apps, 1)
         step
         new c d
         step
         ready a c d
         step
         ready b
         step
         ready c
         step
         ready d
         step
         new e f
         step
         ready e f
         step",
        &expect![[r#"
            admit a from 1 to 2
            2: 0 of 2 current, 1 updating, 1 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 2 updated and ready
            start c at 1
            start d at 1
            2: 0 of 4 current, 1 updating, 1 pending, 2 starting
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 2 updated and ready
            admit b from 1 to 2
            2: 1 of 4 current, 1 updating, 2 pending
              c: closed: linearlyReady(app, apps, 1): 1 in flight (b); 1 of 4 updated and ready
              d: closed: linearlyReady(app, apps, 1): 1 in flight (b); 1 of 4 updated and ready
            admit c from 1 to 2
            2: 2 of 4 current, 1 updating, 1 pending
              d: closed: linearlyReady(app, apps, 1): 1 in flight (c); 2 of 4 updated and ready
            admit d from 1 to 2
            2: 3 of 4 current, 1 updating
            2: 4 of 4 current
            start e at 2
            start f at 2
            2: 4 of 6 current, 2 starting
            2: 6 of 6 current
        "#]],
    );
}

#[test]
fn without_anything_completed_what_is_new_is_gated() {
    check(
        "gate linearlyReady(app, apps, 1)
         new a b
         step
         ready a
         step",
        &expect![[r#"
            admit a from nothing to 1
            1: 0 of 2 current, 1 updating, 1 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 2 updated and ready
            admit b from nothing to 1
            1: 1 of 2 current, 1 updating
        "#]],
    );
}

#[test]
fn holding_keeps_back_one_and_no_other() {
    check(
        "at 1 a b c
         hold a
         target 2
         gate linearlyReady(app, apps, 1)
         step
         hold b
         step
         ready b
         step
         ready c
         step
         release a
         step",
        &expect![[r#"
            admit b from 1 to 2
            2: 0 of 3 current, 1 updating, 1 pending, 1 held
              c: closed: linearlyReady(app, apps, 1): 1 in flight (b); 0 of 3 updated and ready
            2: 0 of 3 current, 1 updating, 1 pending, 1 held
              c: closed: linearlyReady(app, apps, 1): 1 in flight (b); 0 of 3 updated and ready
            admit c from 1 to 2
            2: 1 of 3 current, 1 updating, 1 held
            2: 2 of 3 current, 1 held
            admit a from 1 to 2
            2: 2 of 3 current, 1 updating
        "#]],
    );
}

/// What is held is waited for by nobody: the others have completed.
#[test]
fn what_is_new_starts_past_those_that_are_held() {
    check(
        "at 1 a b
         completed 1
         hold a
         target 2
         gate linearlyReady(app, apps, 1)
         step
         new c
         step
         ready b c
         step
         ready c
         step
         new d
         step",
        &expect![[r#"
            admit b from 1 to 2
            2: 0 of 2 current, 1 updating, 1 held
            start c at 1
            2: 0 of 3 current, 1 updating, 1 held, 1 starting
            admit c from 1 to 2
            2: 1 of 3 current, 1 updating, 1 held
            2: 2 of 3 current, 1 held
            start d at 2
            2: 2 of 4 current, 1 held, 1 starting
        "#]],
    );
}

#[test]
fn what_goes_is_not_counted_and_what_comes_again_is_new() {
    check(
        "at 1 a b
         completed 1
         target 2
         gate linearlyReady(app, apps, 1)
         step
         delete a
         step
         gone a
         new a
         step
         ready a b
         step",
        &expect![[r#"
            admit a from 1 to 2
            2: 0 of 2 current, 1 updating, 1 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 2 updated and ready
            admit b from 1 to 2
            2: 0 of 1 current, 1 updating
            start a at 1
            2: 0 of 2 current, 1 updating, 1 starting
            admit a from 1 to 2
            2: 1 of 2 current, 1 updating
        "#]],
    );
}

#[test]
fn editing_a_gate_takes_effect_at_once() {
    check(
        "at 1 a b c
         target 2
         gate false
         step
         gate linearlyReady(app, apps, 1)
         step
         gate
         step",
        &expect![[r#"
            2: 0 of 3 current, 3 pending
              a: closed: false
              b: closed: false
              c: closed: false
            admit a from 1 to 2
            2: 0 of 3 current, 1 updating, 2 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
              c: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 3 updated and ready
            admit b from 1 to 2
            admit c from 1 to 2
            2: 0 of 3 current, 3 updating
        "#]],
    );
}

#[test]
fn soaking_is_a_matter_of_time() {
    check(
        "at 1 a b
         target 2
         gate linearlyReady(app, apps, 1) ; apps.all(a, !a.updated() || readyFor(a, '10m'))
         step
         ready a
         clock 4m
         step
         clock 6m
         step",
        &expect![[r#"
            admit a from 1 to 2
            2: 0 of 2 current, 1 updating, 1 pending
              b: closed: linearlyReady(app, apps, 1): 1 in flight (a); 0 of 2 updated and ready
            2: 1 of 2 current, 1 pending
              b: closed: apps.all(a, !a.updated() || readyFor(a, '10m')): false
              next at 2026-03-01T12:10:00Z
            admit b from 1 to 2
            2: 1 of 2 current, 1 updating
        "#]],
    );
}
