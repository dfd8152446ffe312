//! What would happen, as data: zones with how they stand, and the waves that are foreseen.

use std::collections::BTreeMap;

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::stages::{Admitted, Class, ContentId, PolicySpec, Target};

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

fn policy(stages: &Json) -> Policy {
    let spec = json!({"targets": [{"kind": "ConfigMap"}], "stages": stages});
    let spec: PolicySpec = serde_json::from_value(spec).expect("a spec");
    Policy::compile(&spec).expect("valid")
}

fn release(number: u64) -> Release {
    Release {
        number,
        authors: Vec::new(),
        restores: None,
        overrides: Vec::new(),
        removes: BTreeMap::new(),
        data: json!({"number": number}),
        content: ContentId::default(),
    }
}

/// `a canary`, `b rest offline`, `c rest held`, `d rest unproven`: zones that have release 1.
fn check(policy: &Policy, fleet: &str, expected: Expect) {
    let now = at("2026-03-01T12:00:00Z");
    let before = at("2026-03-01T11:00:00Z");
    let lines = fleet.lines().map(|line| line.split_whitespace().collect());
    let lines: Vec<Vec<&str>> = lines.collect();
    let objects: Vec<Arc<Map<String, Json>>> = lines
        .iter()
        .map(|words| {
            let object = json!({"metadata": {"name": words[0], "labels": {"tier": words[1]}}});
            Arc::new(object.as_object().expect("an object").clone())
        })
        .collect();
    let target = Target {
        release: 1,
        class: Class::default(),
    };
    let mut record = Record::default();
    let zones: Vec<Zone<'_>> = lines
        .iter()
        .zip(&objects)
        .map(|(words, object)| {
            let is = |word: &str| words.contains(&word);
            let phase = Phase::Arrived;
            let at = before;
            record
                .zones
                .insert(words[0].to_owned(), Admitted { target, at, phase });
            Zone {
                name: words[0],
                object,
                diverged: false,
                holds: None,
                link: match is("offline") {
                    true => Link::Lost { since: before },
                    false => Link::Connected { since: before },
                },
                hold: if is("held") { Hold::Held } else { Hold::Free },
                released_at: None,
                report: Some(ZoneReport {
                    at: target,
                    state: State::Ready { since: before },
                }),
            }
        })
        .collect();
    let unproven = lines.iter().filter(|words| words.contains(&"unproven"));
    let beginning = Beginning {
        record: &record,
        releases: &[release(1), release(2)],
        zones: &zones,
        unproven: &unproven.map(|words| words[0]).collect(),
        resumed: None,
        now,
    };
    expected.assert_eq(&foresee(policy, beginning).to_string());
}

impl std::fmt::Display for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for wave in &self.waves {
            let approval = if wave.after_approval {
                ", approved"
            } else {
                ""
            };
            let zones = wave.zones.join(" ");
            writeln!(f, "{} {}: {zones}{approval}", wave.at, wave.stage)?;
        }
        for (stage, at) in &self.completed {
            writeln!(f, "{at} {stage} is complete")?;
        }
        match &self.stuck {
            Some((stage, why)) => writeln!(f, "stuck in {stage}: {why}"),
            None => writeln!(f, "done {}", self.done.is_some()),
        }
    }
}

fn canary_and_rest() -> Policy {
    policy(&json!([
        {"name": "canary", "zones": {"matchLabels": {"tier": "canary"}}, "soak": "10m"},
        {"name": "rest", "propagateWhen": ["linearlyReady(zone, zones, 2)"], "approval": "Required"},
    ]))
}

#[test]
fn waves_go_on_from_what_is_recorded() {
    check(
        &canary_and_rest(),
        "a canary\nb rest\nc rest\nd rest\ne rest",
        expect![[r#"
            2026-03-01T12:00:00Z canary: a
            2026-03-01T12:10:00Z rest: b c, approved
            2026-03-01T12:10:00Z rest: d e
            2026-03-01T12:10:00Z canary is complete
            2026-03-01T12:10:00Z rest is complete
            done true
        "#]],
    );
}

#[test]
fn who_is_away_or_held_is_not_waited_for() {
    check(
        &canary_and_rest(),
        "a canary\nb rest offline\nc rest held\nd rest",
        expect![[r#"
            2026-03-01T12:00:00Z canary: a
            2026-03-01T12:10:00Z rest: d, approved
            2026-03-01T12:10:00Z canary is complete
            2026-03-01T12:10:00Z rest is complete
            done true
        "#]],
    );
}

#[test]
fn nothing_shows_whether_it_works() {
    check(
        &canary_and_rest(),
        "a canary unproven\nb rest",
        expect![[r#"
            2026-03-01T12:00:00Z canary: a
            stuck in canary: nothing shows that it works: a: nothing there shows whether it works
        "#]],
    );
}

#[test]
fn one_after_the_other_of_very_many() {
    let policy = policy(&json!([
        {"name": "all", "propagateWhen": ["linearlyReady(zone, zones, 1)"]},
    ]));
    let objects: Vec<(String, Map<String, Json>)> = (0..300)
        .map(|n| (format!("zone-{n}"), Map::new()))
        .collect();
    let zones: Vec<(&str, &Map<String, Json>)> = objects
        .iter()
        .map(|(name, object)| (name.as_str(), object))
        .collect();
    let simulation = simulate(&policy, &zones, &release(1), at("2026-03-01T12:00:00Z"));
    assert_eq!(
        (simulation.waves.len(), simulation.done.is_some()),
        (300, true)
    );
}
