//! Gates and zones, and what is said when the policy is written.

use std::time::Duration as Elapsed;

use expect_test::{Expect, expect};

use super::*;
use crate::stages::PolicySpec;

fn now() -> Timestamp {
    Timestamp::parse("2026-11-17T12:00:00Z").expect("a time")
}

fn policy(spec: Json) -> Policy {
    let mut spec = spec;
    spec["targets"] = json!([{"kind": "ConfigMap"}]);
    let spec: PolicySpec = serde_json::from_value(spec).expect("a spec");
    Policy::compile(&spec).expect("valid")
}

/// Zones of which every third is a canary, and each has a label of its own.
fn fleet(zones: usize) -> Vec<(String, Map<String, Json>)> {
    let one = |n: usize| {
        let name = format!("zone-{n:05}");
        let tier = if n.is_multiple_of(3) {
            "canary"
        } else {
            "rest"
        };
        let object = json!({"metadata": {"name": name, "labels": {"tier": tier, "host": name}}});
        (name, object.as_object().expect("an object").clone())
    };
    (0..zones).map(one).collect()
}

fn found(policy: &Policy, zones: usize) -> String {
    let fleet = fleet(zones);
    let named = fleet.iter().map(|(name, object)| (name.as_str(), object));
    let named: Vec<Named<'_>> = named.collect();
    let problems = stuck(policy, &named, now());
    let problems = problems
        .iter()
        .map(|one| format!("{}: {}\n", one.path, one.message));
    problems.collect()
}

fn check(spec: Json, zones: usize, expected: Expect) {
    expected.assert_eq(&found(&policy(spec), zones));
}

fn gate(text: &str) -> Json {
    json!({"stages": [{"name": "all", "propagateWhen": [text]}]})
}

#[test]
fn what_lets_in_one_after_the_other_opens() {
    for text in [
        "true",
        "linearlyReady(zone, zones, 1)",
        "exponentiallyReady(zone, zones)",
        "linearlyReady(zone, zones, 1) && time.now() > timestamp('2026-12-01T00:00:00Z')",
        // Not with the few that are played with, but with all that there are.
        "zones.size() > 100",
    ] {
        check(gate(text), 300, expect![""]);
    }
}

#[test]
fn what_nobody_can_begin_is_found_among_few_and_many() {
    for zones in [3, 300] {
        check(
            gate("zones.all(z, z.updated())"),
            zones,
            expect![[r#"
                spec.stages[0].propagateWhen: it can never open, though every zone is ready at once: zone-00000: gate closed: zones.all(z, z.updated()): false
            "#]],
        );
    }
    check(
        gate("zones.filter(z, z.ready()).size() >= 60"),
        300,
        expect![[r#"
            spec.stages[0].propagateWhen: it can never open, though every zone is ready at once: zone-00000: gate closed: zones.filter(z, z.ready()).size() >= 60: zones.filter(z, z.ready()).size(): 0
        "#]],
    );
}

#[test]
fn what_only_some_can_pass_is_found() {
    check(
        gate("linearlyReady(zone, zones, 1) && zone.metadata.labels.tier == 'rest'"),
        300,
        expect![[r#"
            spec.stages[0].propagateWhen: it can never open, though every zone is ready at once: zone-00000: gate closed: linearlyReady(zone, zones, 1) && zone.metadata.labels.tier == 'rest': linearlyReady(zone, zones, 1): 0 in flight; 21 of 32 updated and ready, zone.metadata.labels.tier: "canary"
        "#]],
    );
}

#[test]
fn a_window_that_is_past_does_not_come() {
    let spec = |rule: &str| {
        json!({
            "stages": [{"name": "all", "propagateWhen": ["window('w')"]}],
            "windows": [{"name": "w", "rrule": rule, "duration": "1h", "start": "2026-01-01T00:00:00"}],
        })
    };
    check(spec("FREQ=DAILY"), 3, expect![""]);
    check(
        spec("FREQ=DAILY;UNTIL=20260301T000000"),
        3,
        expect![[r#"
        spec.stages[0].propagateWhen: it can never open, though every zone is ready at once: zone-00000: gate closed: window('w'): false
    "#]],
    );
}

#[test]
fn a_stage_that_is_paused_or_empty_hides_none() {
    let closed = "zones.all(z, z.updated())";
    let of = |tier: &str| json!({"matchLabels": {"tier": tier}});
    let stages = json!([
        {"name": "nobody", "zones": of("none"), "propagateWhen": [closed]},
        {"name": "canary", "zones": of("canary"), "paused": true, "propagateWhen": [closed]},
        {"name": "rest", "approval": "Required", "propagateWhen": [closed]},
    ]);
    check(
        json!({"stages": stages, "paused": true}),
        6,
        expect![[r#"
        spec.stages[1].propagateWhen: it can never open, though every zone is ready at once: zone-00000: gate closed: zones.all(z, z.updated()): false
        spec.stages[2].propagateWhen: it can never open, though every zone is ready at once: zone-00001: gate closed: zones.all(z, z.updated()): false
    "#]],
    );
}

/// A gate that is dear for very many is not called impossible.
#[test]
fn what_takes_too_much_to_find_out_is_not_held_against_it() {
    let dear = "zones.exists(z, z.metadata.name == zone.metadata.name) && zones.size() > 100";
    check(gate(dear), 5000, expect![""]);
}

/// Whoever writes a policy waits for this: a pass over all zones for each of them would take
/// minutes. Printed for people; the limit is far off, since the machine may be busy.
#[test]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn it_takes_no_longer_for_ten_thousand() {
    for text in [
        "linearlyReady(zone, zones, 1)",
        "exponentiallyReady(zone, zones)",
        "zones.all(z, z.updated())",
        "zones.exists(z, z.metadata.name == zone.metadata.name) && zones.size() > 100",
    ] {
        let policy = policy(gate(text));
        let fleet = fleet(10_000);
        let named = fleet.iter().map(|(name, object)| (name.as_str(), object));
        let named: Vec<Named<'_>> = named.collect();
        let began = std::time::Instant::now();
        let problems = stuck(&policy, &named, now()).len();
        let took = began.elapsed();
        println!("{text}: {problems} problems in {took:?}");
        assert!(took < Elapsed::from_secs(5), "{text}: {took:?}");
    }
}

#[test]
fn what_depends_on_the_next_release_may_open() {
    for text in [
        "release.changes.removed == 0",
        "time.now() - timestamp(release.createdAt) >= duration('24h')",
        "'bot' in release.authors",
        "release.number > 3",
    ] {
        check(gate(text), 3, expect![""]);
    }
}

#[test]
fn gates_that_are_never_true_are_found_without_zones() {
    let found = |text: &str| constantly_closed(&policy(gate(text)), now());
    assert_eq!(
        found("false"),
        ["spec.stages[0].propagateWhen[0]: false is never true: no zone is let into stage all"]
    );
    assert_eq!(found("1 > 2").len(), 1);
    for text in [
        "true",
        "zone.metadata.labels['go'] == 'yes'",
        "zones.size() > 100",
        "release.number > 3",
        "time.now() > timestamp('2026-12-01T00:00:00Z')",
    ] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
    let both = json!({"stages": [{"name": "all", "propagateWhen": ["linearlyReady(zone, zones, 1)", "false"]}]});
    assert_eq!(constantly_closed(&policy(both), now()).len(), 1);
}

#[test]
fn orders_have_an_order() {
    let fleet = fleet(3);
    let named = fleet.iter().map(|(name, object)| (name.as_str(), object));
    let named: Vec<Named<'_>> = named.collect();
    let found = |text: &str, zones: &[Named<'_>]| {
        let policy = policy(json!({"stages": [{"name": "all", "orderBy": text}]}));
        let found = unordered(&policy, zones, now());
        found.first().map(|one| one.message.clone())
    };
    for text in [
        "zone.metadata.name",
        "zone.metadata.labels['wave']",
        "int(zone.metadata.labels['wave'])",
        "zone.metadata.labels['tier'] == 'rest'",
        "timestamp('2026-12-01T00:00:00Z')",
    ] {
        assert_eq!(found(text, &named), None, "{text}");
        assert_eq!(found(text, &[]), None, "{text}");
    }
    for text in ["zone", "zone.metadata", "zone.metadata.labels"] {
        for zones in [&named[..], &[]] {
            let said = found(text, zones).unwrap_or_default();
            let must = "orderBy must be a number, string, boolean or timestamp, and is of type";
            assert!(said.starts_with(must), "{text}: {said}");
        }
    }
}
