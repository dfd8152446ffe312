//! Rollouts of policies as data.

use serde_json::{Value, json};

use super::told::{State, Told};

/// A policy with two stages and releases of which each has another content.
fn told(reason: &str, stages: Value, releases: Value) -> Told {
    let answer = json!({
        "policy": "web", "asOf": "2026-03-01T12:00:00Z", "release": 3,
        "propagated": reason == "Propagated", "reason": reason, "message": "", "settled": true,
        "stages": stages, "releases": releases,
    });
    Told::read(&answer).expect("as the hub writes it")
}

fn stage(name: &str, zones: Value, waits: &str) -> Value {
    let waiting = json!([{"reason": waits, "message": "", "release": 3}]);
    json!({"name": name, "release": 3, "completed": 1, "zones": zones, "waiting": waiting})
}

fn release(number: u64, passed: &[&str], failed: &[&str]) -> Value {
    json!({
        "release": number, "digest": format!("d{number}"), "passed": passed, "failed": failed,
        "zones": {"count": 0, "names": ""},
    })
}

/// Right after a hub began, nothing is known of any zone.
#[test]
fn who_was_not_heard_of_can_be_read() {
    let mut canary = stage("canary", json!({"total": 1}), "ZoneNotReady");
    canary["members"] = json!([{
        "zone": "eu-1", "state": "updating", "release": 2,
        "report": {"state": "Unheard", "reason": "it has not asked for ConfigMap yet"},
    }]);
    let told = told("ZoneNotReady", json!([canary]), json!([]));
    let (_, member) = told.members().next().expect("a member");
    assert_eq!(member.report.as_ref().and_then(|one| one.at.as_ref()), None);
}

#[test]
fn states_say_whether_somebody_has_to_do_something() {
    let check = |reason: &str, zones: Value, waits: &str, expected: State| {
        let told = told(reason, json!([stage("canary", zones, waits)]), json!([]));
        assert_eq!(told.state(), expected, "{reason}");
    };
    let one = || json!({"total": 1, "updating": 1});
    check(
        "Propagated",
        json!({"total": 1, "current": 1}),
        "",
        State::Complete,
    );
    check("GateClosed", one(), "GateClosed", State::Moving);
    check(
        "ApprovalRequired",
        one(),
        "ApprovalRequired",
        State::Waiting,
    );
    check(
        "DeletionBudgetExceeded",
        one(),
        "DeletionBudgetExceeded",
        State::Waiting,
    );
    let failed = || json!({"total": 2, "failed": 1, "held": 1});
    check(
        "TooManyFailures",
        failed(),
        "TooManyFailures",
        State::Stopped,
    );
    // It was forgiven, and nobody is left who could show that it works.
    check("NoEvidence", failed(), "NoEvidence", State::Stopped);
    check("NoEvidence", one(), "NoEvidence", State::Moving);
}

#[test]
fn what_is_brought_back_is_what_all_stages_completed() {
    let stages = || json!([stage("canary", json!({}), ""), stage("rest", json!({}), "")]);
    let previous = |releases: Value| {
        let told = told("TooManyFailures", stages(), releases);
        told.previous().map(|one| one.release)
    };
    let first = release(1, &["canary", "rest"], &[]);
    let newest = release(3, &[], &["canary"]);
    // The canary alone shows too little, and what failed anywhere shows the contrary.
    let half = release(2, &["canary"], &[]);
    assert_eq!(previous(json!([first, half, newest])), Some(1));
    let broken = release(2, &["canary", "rest"], &["rest"]);
    assert_eq!(previous(json!([first, broken, newest])), Some(1));
    let whole = release(2, &["canary", "rest"], &[]);
    assert_eq!(previous(json!([first, whole, newest])), Some(2));
    assert_eq!(previous(json!([newest])), None);
}

#[test]
fn what_people_wrote_is_not_what_was_brought_back() {
    let mut restored = release(3, &[], &[]);
    restored["restores"] = 1.into();
    let releases = json!([release(1, &[], &[]), release(2, &[], &[]), restored]);
    let told = told("Progressing", json!([]), releases);
    assert_eq!(told.authored(), Some(2));
}
