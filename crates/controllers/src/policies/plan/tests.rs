use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_propagation::Hold;
use deltaplane_propagation::stages::{
    Admitted, Class, ContentFacts, Fared, HeadFacts, Link, Phase, ROLLBACK, Release, ReportFacts,
    Target, ZoneFacts,
};
use serde_json::json;

use super::*;

fn now() -> Timestamp {
    Timestamp::parse("2026-03-01T12:00:00Z").expect("a time")
}

fn release(number: u64, restores: Option<u64>) -> Release {
    Release {
        number,
        authors: Vec::new(),
        restores,
        overrides: Vec::new(),
        removes: BTreeMap::new(),
        data: json!({"number": number}),
    }
}

/// A policy with releases up to `newest`, of which each has other content, and one zone that is
/// ready at the newest.
fn facts(newest: u64) -> PolicyFacts {
    let target = |release| Target {
        release,
        class: Class::default(),
    };
    let mut record = Record::default();
    let admitted = Admitted {
        target: target(newest),
        at: now(),
        phase: Phase::Arrived,
    };
    let mut zones = vec![ZoneFacts {
        name: "eu".to_owned(),
        object: Arc::new(
            json!({"metadata": {"name": "eu"}})
                .as_object()
                .unwrap()
                .clone(),
        ),
        link: Link::Connected { since: now() },
        hold: Hold::Free,
        released_at: None,
        report: None,
    }];
    if newest > 0 {
        record.zones.insert("eu".to_owned(), admitted);
        zones[0].report = Some(ReportFacts {
            at: target(newest),
            state: Fared::Ready { since: now() },
        });
    }
    let content = |number: u64| ContentFacts {
        digest: format!("content-{number}"),
        objects: 1,
    };
    PolicyFacts {
        object: Arc::new(json!({
            "metadata": {"name": "web", "generation": 3},
            "spec": {"targets": [{"kind": "ConfigMap"}]},
        })),
        record,
        head: HeadFacts {
            digest: format!("content-{newest}"),
            objects: 1,
            problems: Vec::new(),
        },
        releases: (1..=newest).map(|number| release(number, None)).collect(),
        contents: (1..=newest)
            .map(|number| (number, content(number)))
            .collect::<BTreeMap<_, _>>(),
        zones,
        approvals: Vec::new(),
        again: None,
    }
}

fn change(facts: &mut PolicyFacts, change: impl FnOnce(&mut Value)) {
    change(Arc::make_mut(&mut facts.object));
}

#[track_caller]
fn check(facts: &PolicyFacts, expected: Option<(u64, Option<u64>)>) {
    let wanted = plan(facts, now()).wanted;
    let wanted = wanted.map(|wanted| (wanted.number, wanted.restores));
    assert_eq!(wanted, expected);
}

#[test]
fn what_is_there_is_released_once() {
    check(&facts(0), Some((1, None)));
    check(&facts(2), None);
    let mut changed = facts(2);
    changed.head.digest = "other".to_owned();
    check(&changed, Some((3, None)));
    // What cannot be released says why instead.
    changed.head.problems = vec!["spec.overrides[0]: no".to_owned()];
    check(&changed, None);
    let told = plan(&changed, now()).status.expect("news");
    assert_eq!(
        told["conditions"][1]["message"],
        "what is there cannot be released: spec.overrides[0]: no"
    );
    let mut nothing = facts(0);
    nothing.head.objects = 0;
    check(&nothing, None);
}

#[test]
fn numbers_are_never_used_twice() {
    let mut facts = facts(2);
    facts.head.digest = "other".to_owned();
    change(&mut facts, |object| object["status"]["release"] = 7.into());
    check(&facts, Some((8, None)));
}

#[test]
fn what_was_asked_for_is_brought_back_once() {
    let asked = |text: &str| {
        let mut facts = facts(3);
        change(&mut facts, |object| {
            object["metadata"]["annotations"][ROLLBACK] = text.into();
        });
        facts
    };
    check(&asked("1 instead of 3"), Some((4, Some(1))));
    // It was done, or it is not kept, or makes no sense.
    check(&asked("1 instead of 2"), None);
    check(&asked("9 instead of 3"), None);
    check(&asked("1"), None);
    let mut paused = asked("1 instead of 3");
    change(&mut paused, |object| object["spec"]["paused"] = true.into());
    check(&paused, None);
}

#[test]
fn what_was_brought_back_is_not_released_again_by_what_is_there() {
    let mut facts = facts(2);
    facts.releases.push(release(3, Some(1)));
    facts.contents.insert(
        3,
        ContentFacts {
            digest: "content-1".to_owned(),
            objects: 1,
        },
    );
    check(&facts, None);
    facts.head.digest = "other".to_owned();
    check(&facts, Some((4, None)));
}

#[test]
fn nothing_is_written_when_there_is_nothing_to_tell() {
    let mut facts = facts(2);
    for _ in 0..4 {
        let Some(told) = plan(&facts, now()).status else {
            return;
        };
        facts.record = Record::read(&told["decisions"]).expect("ours");
        change(&mut facts, |object| object["status"] = told);
    }
    panic!("it never comes to rest");
}

#[test]
fn a_policy_that_makes_no_sense_moves_nobody_and_forgets_nothing() {
    let mut facts = facts(2);
    let told = plan(&facts, now()).status.expect("news");
    change(&mut facts, |object| object["status"] = told);
    change(&mut facts, |object| {
        object["spec"]["stages"] = json!([{"name": "a", "propagateWhen": ["nonsense("]}]);
    });
    facts.head.digest = "other".to_owned();
    let plan = plan(&facts, now());
    assert!(plan.wanted.is_none());
    let told = plan.status.expect("news");
    assert_eq!(told["decisions"], facts.object["status"]["decisions"]);
    assert_eq!(told["conditions"][0]["status"], "False");
    assert_eq!(told["conditions"][1]["reason"], "Invalid");
}

#[test]
fn releases_are_kept_that_are_used_or_among_the_last() {
    let mut facts = facts(20);
    assert_eq!(
        plan(&facts, now()).surplus,
        (1..=10).rev().collect::<Vec<_>>()
    );
    let mut away = facts.zones[0].clone();
    away.name = "us".to_owned();
    let since = Timestamp::parse("2026-03-01T11:00:00Z").expect("a time");
    away.link = Link::Lost { since };
    away.report = None;
    facts.zones.push(away);
    let held = Admitted {
        target: Target {
            release: 4,
            class: Class::default(),
        },
        at: since,
        phase: Phase::Arrived,
    };
    facts.record.zones.insert("us".to_owned(), held);
    assert!(!plan(&facts, now()).surplus.contains(&4));
}
