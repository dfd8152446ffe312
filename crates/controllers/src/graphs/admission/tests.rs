//! Decisions about instances as scenarios: a line for each of them in, what is written out.
//!
//! `name [stage/number [from=…]] [ready|unready|failed] [deleting] [suspended] [hold=…]
//! [generation=…] [unseen]`: what came of the last pass is of the revision that it is at and of the first
//! generation, unless `at=…` says that it is of another.

use std::fmt::Write as _;

use deltaplane_api::admission::RECONCILE;
use deltaplane_graph::{Definition, Lookup, compile};
use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// A graph that makes this of instances, with a gate.
fn graph(content: &str, gate: &[&str]) -> Arc<Graph> {
    let definition = json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {
                "kind": "Shop", "apiVersion": "v1",
                "spec": {"name": format!("string | default={content}")},
            },
            "resources": [],
            "propagateWhen": gate,
        },
    });
    let definition = Definition::read(&definition).expect("a definition");
    let compiled = compile(&definition, &|_| Lookup::Absent);
    Arc::new(compiled.unwrap_or_else(|problems| panic!("{problems}")))
}

const ONE: &[&str] = &["linearlyReady(shop, shops, 1)"];

/// Two revisions, and the newest lets one move at a time.
fn two() -> Revisions {
    revisions(&[("one", ONE), ("two", ONE)])
}

fn revisions(all: &[(&str, &[&str])]) -> Revisions {
    let all = (1..).zip(all);
    Revisions::new(
        all.map(|(at, (content, gate))| (at, graph(content, gate)))
            .collect(),
    )
}

struct One {
    key: ObjectKey,
    json: Value,
    admission: Option<Admission>,
    passed: Option<Passed>,
    unseen: bool,
}

fn now() -> Timestamp {
    Timestamp::parse("2026-03-01T12:00:00Z").expect("a time")
}

impl One {
    fn new(line: &str, revisions: &Revisions) -> Self {
        let mut words = line.split_whitespace();
        let name = words.next().expect("a name");
        let mut one = Self {
            key: ObjectKey::new("default", name),
            json: json!({"metadata": {"name": name, "generation": 1, "annotations": {}}}),
            admission: None,
            passed: None,
            unseen: false,
        };
        for word in words {
            one.word(word, revisions);
        }
        one
    }

    fn word(&mut self, word: &str, revisions: &Revisions) {
        let metadata = &mut self.json["metadata"];
        match word.split_once(['=', '/']).unwrap_or((word, "")) {
            ("deleting", _) => metadata["deletionTimestamp"] = json!("2026-03-01T11:00:00Z"),
            ("suspended", _) => metadata["annotations"][RECONCILE] = json!("Suspended"),
            ("hold", until) => metadata["annotations"][keys::HOLD] = json!(until),
            ("generation", number) => {
                metadata["generation"] = number.parse::<i64>().expect("a number").into();
            }
            ("from", number) => {
                let from = Some(point(revisions, number));
                self.admission.as_mut().expect("a revision").from = from;
            }
            ("at", number) => {
                let at = point(revisions, number);
                self.passed.as_mut().expect("a pass").at = at;
            }
            ("ready", _) => self.pass(Health::Ready { since: now() }),
            ("unseen", _) => self.unseen = true,
            ("unready", _) => self.pass(Health::Unready),
            ("failed", _) => self.pass(Health::Failed),
            (stage, number) => {
                let stage = match stage {
                    "started" => Stage::Started,
                    "admitted" => Stage::Admitted,
                    "arrived" => Stage::Arrived,
                    other => panic!("no such word: {other}"),
                };
                self.admission = Some(Admission::new(stage, point(revisions, number)));
            }
        }
    }

    fn pass(&mut self, health: Health) {
        self.passed = Some(Passed {
            at: self.admission.expect("it may run something").at,
            generation: 1,
            health,
        });
    }
}

/// A revision; one that is not there any more has a number alone.
fn point(revisions: &Revisions, number: &str) -> Point {
    let number = number.parse().expect("a number");
    let gone = Point { number, hash: None };
    revisions.point(number).unwrap_or(gone)
}

fn check(revisions: &Revisions, text: &str, expected: &Expect) {
    check_with(revisions, false, text, expected);
}

fn check_with(revisions: &Revisions, paused: bool, text: &str, expected: &Expect) {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let all: Vec<One> = lines.map(|line| One::new(line, revisions)).collect();
    let known = all.iter().map(|one| Known {
        key: &one.key,
        json: &one.json,
        admission: one.admission,
        passed: one.passed.as_ref(),
        unseen: one.unseen,
        kept: None,
    });
    let known: Vec<Known<'_>> = known.collect();
    let target = revisions
        .0
        .last_key_value()
        .map_or(0, |(number, _)| *number);
    let rollout = Rollout {
        target,
        revisions,
        paused,
    };
    let mut out = String::new();
    match decide(rollout, &known, now()) {
        None => out.push_str("nothing to decide\n"),
        Some(decided) => {
            for (key, one) in decided.admissions {
                write!(out, "{} {}/{}", key.name, one.stage, one.at.number).expect("a text");
                let from = one.from.map(|from| format!(" from {}", from.number));
                writeln!(out, "{}", from.unwrap_or_default()).expect("a text");
            }
            let told = &decided.told;
            for count in [
                "current", "updating", "failed", "pending", "held", "starting",
            ] {
                if told[count] != 0 {
                    write!(out, "{count} {} ", told[count]).expect("a text");
                }
            }
            writeln!(out, "of {}", told["instances"]).expect("a text");
            for (key, kept) in &decided.kept {
                writeln!(out, "{} {}", key.name, kept.reason()).expect("a text");
            }
            if let Some(next) = decided.next {
                let told = match told["lookAgainAt"].is_null() {
                    true => ", which is not told",
                    false => "",
                };
                writeln!(out, "next {next}{told}").expect("a text");
            }
        }
    }
    expected.assert_eq(&out);
}

#[test]
fn one_after_the_other() {
    check(
        &two(),
        "a arrived/1 ready
         b arrived/1 ready",
        &expect![[r#"
            a admitted/2 from 1
            updating 1 pending 1 of 2
            b GateClosed
        "#]],
    );
    check(
        &two(),
        "a admitted/2 from=1 unready
         b arrived/1 ready",
        &expect![[r#"
            updating 1 pending 1 of 2
            b GateClosed
        "#]],
    );
    check(
        &two(),
        "a admitted/2 from=1 ready
         b arrived/1 ready",
        &expect![[r#"
            a arrived/2
            b admitted/2 from 1
            current 1 updating 1 of 2
        "#]],
    );
}

/// What the last pass found is of another generation, or another revision.
#[test]
fn what_was_found_before_opens_nothing() {
    check(
        &two(),
        "a admitted/2 from=1 ready generation=2
         b arrived/1 ready",
        &expect![[r#"
            updating 1 pending 1 of 2
            b GateClosed
        "#]],
    );
    check(
        &two(),
        "a admitted/2 from=1 ready at=1
         b arrived/1 ready",
        &expect![[r#"
            updating 1 pending 1 of 2
            b GateClosed
        "#]],
    );
}

/// After a restart nobody moves before it is known how all stand, but who is new starts.
#[test]
fn nobody_moves_before_it_is_known_how_all_stand() {
    check(
        &two(),
        "a arrived/1 ready
         b arrived/1
         c",
        &expect![[r#"
            c started/1
            pending 2 starting 1 of 3
            a GateClosed
            b GateClosed
        "#]],
    );
    // Those of which nothing will be known keep nobody waiting.
    check(
        &two(),
        "a arrived/1 ready
         b arrived/1 suspended
         c arrived/1 deleting",
        &expect![[r#"
            a admitted/2 from 1
            updating 1 held 1 of 2
            b Held
            c GateClosed
        "#]],
    );
}

#[test]
fn new_ones_begin_with_what_those_have_reached_that_may_move() {
    check(
        &two(),
        "a",
        &expect![[r#"
        a started/2
        starting 1 of 1
    "#]],
    );
    check(
        &two(),
        "a arrived/2 ready
         b admitted/2 from=1 unready
         c",
        &expect![[r#"
            c started/1
            current 1 updating 1 starting 1 of 3
        "#]],
    );
    check(
        &two(),
        "a arrived/2 ready
         b arrived/1 ready hold=true
         c arrived/1 deleting
         d",
        &expect![[r#"
            d started/2
            current 1 held 1 starting 1 of 3
            b Held
            c GateClosed
        "#]],
    );
    check(
        &two(),
        "a arrived/1 ready hold=true
         b",
        &expect![[r#"
            b started/1
            held 1 starting 1 of 2
            a Held
        "#]],
    );
}

#[test]
fn holds_end_when_it_is_time() {
    check(
        &two(),
        "a arrived/1 ready hold=2026-03-01T13:00:00Z
         b arrived/1 ready hold=2026-03-01T12:30:00Z",
        &expect![[r#"
            held 2 of 2
            a Held
            b Held
            next 2026-03-01T12:30:00Z
        "#]],
    );
    check(
        &two(),
        "a arrived/1 ready hold=2026-03-01T12:00:00Z",
        &expect![[r#"
            a admitted/2 from 1
            updating 1 of 1
        "#]],
    );
    check(
        &two(),
        "a arrived/1 ready hold=whenever",
        &expect![[r#"
            held 1 of 1
            a Held
        "#]],
    );
}

#[test]
fn what_was_compiled_again_is_something_else() {
    let (once, again) = (two(), two());
    assert!(once == once.clone());
    assert!(once != again && once != revisions(&[("one", ONE)]));
}

#[test]
fn who_is_held_stays_without_a_gate_too() {
    check(
        &revisions(&[("one", &[]), ("two", &[])]),
        "a started/1 ready
         b started/1 ready hold=true
         c started/1 failed
         d started/1 ready hold=2026-03-01T13:00:00Z",
        &expect![[r#"
            a admitted/2 from 1
            c admitted/2 from 1
            updating 2 held 2 of 4
            b Held
            d Held
            next 2026-03-01T13:00:00Z
        "#]],
    );
}

#[test]
fn those_that_were_broken_before_there_was_a_gate_are_not_on_their_way() {
    check(
        &revisions(&[("one", &[]), ("two", ONE)]),
        "a started/1 failed
         b started/1 unready
         c started/1 ready
         d started/1 failed",
        &expect![[r#"
            c admitted/2 from 1
            updating 1 pending 3 of 4
            a GateClosed
            b GateClosed
            d GateClosed
        "#]],
    );
}

#[test]
fn a_pause_holds_all_with_a_gate_or_without() {
    let open = revisions(&[("one", &[]), ("two", &[])]);
    let text = "a arrived/1 ready
                b admitted/2 from=1 unready
                c";
    check(
        &open,
        text,
        &expect![[r#"
            a admitted/2 from 1
            c started/1
            updating 2 starting 1 of 3
        "#]],
    );
    check_with(
        &open,
        true,
        text,
        &expect![[r#"
            c started/1
            updating 1 held 1 starting 1 of 3
            a Paused
        "#]],
    );
    check_with(
        &two(),
        true,
        text,
        &expect![[r#"
            c started/1
            updating 1 held 1 starting 1 of 3
            a Paused
        "#]],
    );
}

/// Where the gate alone is another, all are where they should be.
#[test]
fn revisions_that_differ_in_their_gates_are_one() {
    let gated = revisions(&[("one", ONE), ("one", &["false"])]);
    check(
        &gated,
        "a arrived/1 ready
         b",
        &expect![[r#"
            b started/2
            current 1 starting 1 of 2
        "#]],
    );
    // There and back again is a way.
    let back = revisions(&[("one", ONE), ("two", ONE), ("one", ONE)]);
    check(
        &back,
        "a arrived/1 ready
         b admitted/2 from=1 unready",
        &expect![[r#"
            b admitted/3 from 1
            updating 1 pending 1 of 2
            a GateClosed
        "#]],
    );
}

#[test]
fn what_ran_something_that_is_gone_moves_like_any_other() {
    check(
        &two(),
        "a arrived/9 failed
         b arrived/1 ready",
        &expect![[r#"
            b admitted/2 from 1
            updating 1 pending 1 of 2
            a GateClosed
        "#]],
    );
    check(
        &two(),
        "a admitted/9 failed
         b arrived/1 ready",
        &expect![[r#"
            a admitted/2 from 9
            updating 1 pending 1 of 2
            b GateClosed
        "#]],
    );
}

/// Where nobody knows when a gate may open it is looked every minute, and nothing is written for it.
#[test]
fn what_is_looked_at_every_minute_is_not_told() {
    let unsolved: &[&str] = &["string(time.now()).startsWith('2027')"];
    check(
        &revisions(&[("one", unsolved), ("two", unsolved)]),
        "a arrived/1 ready",
        &expect![[r#"
            pending 1 of 1
            a GateClosed
            next 2026-03-01T12:01:00Z, which is not told
        "#]],
    );
    check(
        &two(),
        "a arrived/1 ready hold=2026-03-01T14:00:00Z",
        &expect![[r#"
            held 1 of 1
            a Held
            next 2026-03-01T14:00:00Z
        "#]],
    );
}

/// One that cannot be seen is sent on if there is room for one more, whatever became of it: what is
/// newer may not need what cannot be seen.
#[test]
fn what_is_overtaken_and_cannot_be_seen_is_sent_on_where_there_is_room() {
    let three =
        |gate: &'static [&'static str]| revisions(&[("one", gate), ("two", gate), ("three", gate)]);
    check(
        &three(ONE),
        "a admitted/2 from=1 unseen
         b arrived/1 ready",
        &expect![[r#"
            a admitted/3 from 1
            updating 1 pending 1 of 2
            b GateClosed
        "#]],
    );
    // The place of the one may have been given to the other, which keeps it.
    check(
        &three(ONE),
        "a admitted/2 from=1 unseen
         b admitted/2 from=1 unready",
        &expect![[r#"
            b admitted/3 from 1
            updating 2 of 2
            a GateClosed
        "#]],
    );
    check(
        &three(ONE),
        "a admitted/2 from=1 unseen
         b admitted/2 from=1 unseen",
        &expect![[r#"
            updating 2 of 2
            a GateClosed
            b GateClosed
        "#]],
    );
    check(
        &three(&["linearlyReady(shop, shops, 2)"]),
        "a admitted/2 from=1 unseen
         b admitted/2 from=1 unseen
         c arrived/1 ready",
        &expect![[r#"
            a admitted/3 from 1
            updating 2 pending 1 of 3
            b GateClosed
            c GateClosed
        "#]],
    );
    // Others will be known in a moment.
    check(
        &three(&["linearlyReady(shop, shops, 2)"]),
        "a admitted/2 from=1 unseen
         b admitted/2 from=1",
        &expect![[r#"
            updating 2 of 2
            a GateClosed
            b GateClosed
        "#]],
    );
}
