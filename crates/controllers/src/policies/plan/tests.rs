use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_propagation::Hold;
use deltaplane_propagation::stages::{
    Admitted, Class, ContentFacts, ContentId, Fared, HeadFacts, Link, Mark, Phase, Progress,
    ROLLBACK, Release, Removes, ReportFacts, RolledBack, Target, UnreadableInput, ZoneFacts,
};
use serde_json::json;

use super::*;

pub(in crate::policies) fn now() -> Timestamp {
    Timestamp::parse("2026-03-01T12:00:00Z").expect("a time")
}

fn release(number: u64, restores: Option<u64>) -> Release {
    Release {
        number,
        authors: Vec::new(),
        restores,
        overrides: Vec::new(),
        removes: (1..number)
            .map(|older| (older, Removes::default()))
            .collect(),
        data: json!({"number": number}),
        content: ContentId::default(),
    }
}

/// A policy with releases up to `newest`, of which each has other content, and one zone that is
/// ready at the newest.
fn plan(facts: &PolicyFacts, troubles: &[String], now: Timestamp) -> Plan {
    super::plan(facts, &facts.policy(), troubles, now)
}

pub(in crate::policies) fn facts(newest: u64) -> PolicyFacts {
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
        holds: None,
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
        removes: 0,
    };
    PolicyFacts {
        diverged: Vec::new(),
        object: Arc::new(json!({
            "metadata": {"name": "web", "generation": 3},
            "spec": {"targets": [{"kind": "ConfigMap"}]},
        })),
        record,
        unreadable: None,
        head: HeadFacts {
            digest: format!("content-{newest}"),
            objects: 1,
            problems: Vec::new(),
            rolled_back: None,
        },
        releases: (1..=newest).map(|number| release(number, None)).collect(),
        contents: (1..=newest)
            .map(|number| (number, content(number)))
            .collect::<BTreeMap<_, _>>(),
        zones,
        approvals: Vec::new(),
        left: Vec::new(),
        zones_as_of: None,
        settled_release: 0,
        again: None,
    }
}

fn change(facts: &mut PolicyFacts, change: impl FnOnce(&mut Value)) {
    change(Arc::make_mut(&mut facts.object));
}

#[track_caller]
fn check(facts: &PolicyFacts, expected: Option<(u64, Option<u64>)>) {
    let wanted = plan(facts, &[], now()).wanted;
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
    let told = plan(&changed, &[], now()).status.expect("news");
    assert_eq!(
        told["conditions"][1]["message"],
        "what is there cannot be released: spec.overrides[0]: no"
    );
    let mut nothing = facts(0);
    nothing.head.objects = 0;
    check(&nothing, None);
}

/// Not all zones have what is there if some are in no stage.
#[test]
fn a_zone_in_no_stage_is_not_passed_over() {
    let propagated = |facts: &mut PolicyFacts| {
        for _ in 0..3 {
            let Some(told) = plan(facts, &[], now()).status else {
                break;
            };
            facts.record = Record::read(&told["decisions"]).expect("ours");
            change(facts, |object| object["status"] = told);
        }
        let condition = &facts.object["status"]["conditions"][1];
        (condition["status"].clone(), condition["reason"].clone())
    };
    let mut facts = facts(2);
    change(&mut facts, |object| {
        let zones = json!({"matchLabels": {"tier": "a"}});
        object["spec"]["stages"] = json!([{"name": "a", "zones": zones}]);
    });
    let labels = json!({"name": "eu", "labels": {"tier": "a"}});
    let object = Arc::make_mut(&mut facts.zones[0].object);
    object.insert("metadata".to_owned(), labels);
    let mut us = facts.zones[0].clone();
    assert_eq!(propagated(&mut facts), ("True".into(), "Propagated".into()));
    us.name = "us".to_owned();
    let object = Arc::make_mut(&mut us.object);
    object.insert("metadata".to_owned(), json!({"name": "us"}));
    facts.zones.push(us);
    assert_eq!(
        propagated(&mut facts),
        ("False".into(), "ZonesInNoStage".into())
    );
}

#[test]
fn what_another_policy_governs_is_said() {
    let both = "spec.targets: ConfigMap a is governed by policy first".to_owned();
    let told = plan(&facts(2), std::slice::from_ref(&both), now())
        .status
        .expect("news");
    assert_eq!(told["problems"][0], both);
    assert_eq!(told["conditions"][0]["status"], "False");
}

/// Somebody who asks for an older release does not wait for what cannot be released.
#[test]
fn going_back_does_not_wait_for_what_cannot_be_released() {
    let mut facts = facts(3);
    change(&mut facts, |object| {
        object["metadata"]["annotations"][ROLLBACK] = "1 instead of 3".into();
    });
    facts.head.digest = "other".to_owned();
    check(&facts, Some((4, None)));
    facts.head.problems = vec!["release 4 cannot be put together: too large".to_owned()];
    check(&facts, Some((4, Some(1))));
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
    let said = |facts: &PolicyFacts| {
        let told = plan(facts, &[], now()).status.expect("news");
        told["problems"][0].as_str().unwrap_or_default().to_owned()
    };
    check(&asked("1 instead of 3"), Some((4, Some(1))));
    assert_eq!(said(&asked("1 instead of 3")), "");
    // It came too late, or it is not kept, or makes no sense, which is said.
    for (text, why) in [
        (
            "1 instead of 2",
            "release 1 was asked for instead of 2, and 3 is the newest by now: ask again",
        ),
        ("1 instead of 4", "there is no release 4: 3 is the newest"),
        ("9 instead of 3", "release 9 is not kept"),
        (
            "1",
            "\"1\" names no releases: write such as \"1 instead of 3\"",
        ),
    ] {
        check(&asked(text), None);
        let why = format!("metadata.annotations[fleet.deltaplane.io/rollback]: {why}");
        assert_eq!(said(&asked(text)), why);
    }
    // It was done.
    let mut done = asked("1 instead of 2");
    done.releases[2].restores = Some(1);
    done.contents.insert(2, done.contents[&3].clone());
    assert_eq!(said(&done), "");
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
            removes: 0,
        },
    );
    facts.head.digest = "content-1".to_owned();
    check(&facts, None);
    facts.head.digest = "other".to_owned();
    check(&facts, Some((4, None)));
}

/// A stage of one zone that completed release 1, while release 2 fails in it.
fn failing() -> PolicyFacts {
    let mut facts = facts(2);
    change(&mut facts, |object| {
        object["metadata"]["annotations"] = json!({"deltaplane.io/author": "ann"});
        object["spec"]["onFailure"] = "Rollback".into();
    });
    let mark = |release| Some(Mark { release, at: now() });
    let progress = Progress {
        taken: mark(2),
        completed: mark(1),
        failed: None,
    };
    facts.record.stages.insert("all".to_owned(), progress);
    facts.zones[0].report = Some(ReportFacts {
        at: Target {
            release: 2,
            class: Class::default(),
        },
        state: Fared::Failed("ConfigMap team/a: it broke".to_owned()),
    });
    facts
}

#[test]
fn a_rollback_says_which_release_failed_where_and_why() {
    let wanted = plan(&failing(), &[], now()).wanted.expect("a release");
    assert_eq!((wanted.number, wanted.restores), (3, Some(1)));
    let (failed, cause) = wanted.rolled_back.expect("why");
    assert_eq!(failed, 2);
    assert_eq!(cause.zone.as_deref(), Some("eu"));
    assert_eq!(cause.reason, "ConfigMap team/a: it broke");
    let mut asked = facts(2);
    change(&mut asked, |object| {
        let annotations = json!({ROLLBACK: "1 instead of 2", "deltaplane.io/author": "ann"});
        object["metadata"]["annotations"] = annotations;
    });
    let wanted = plan(&asked, &[], now()).wanted.expect("a release");
    let (instead, cause) = wanted.rolled_back.expect("why");
    assert_eq!((instead, cause.zone), (2, None));
    assert_eq!(cause.reason, "ann asked for release 1");
}

#[test]
fn a_failure_is_told_although_zones_have_diverged() {
    let conditions = |facts: &PolicyFacts| {
        let status = plan(facts, &[], now()).status;
        let status = status.expect("it is written");
        let conditions = status["conditions"].as_array().expect("some").clone();
        let mut conditions = conditions.into_iter();
        let found = conditions.find(|one| one["type"] == "Propagated");
        let found = found.expect("it is told");
        let message = found["message"].as_str().expect("a text").to_owned();
        (
            found["reason"].as_str().expect("a text").to_owned(),
            message,
        )
    };
    let mut failed = failing();
    change(&mut failed, |object| {
        object["spec"]["onFailure"] = "Pause".into()
    });
    failed.diverged = vec!["us".to_owned()];
    let (reason, message) = conditions(&failed);
    assert_eq!(reason, "TooManyFailures", "{message}");
    assert!(
        message.contains("earlier state than us followed"),
        "{message}"
    );
    let mut fine = facts(2);
    fine.diverged = vec!["us".to_owned()];
    assert_eq!(conditions(&fine).0, "Diverged");
}

#[test]
fn what_was_rolled_back_has_not_propagated() {
    let mut facts = facts(3);
    facts.releases[2].restores = Some(1);
    let completed = Some(Mark {
        release: 3,
        at: now(),
    });
    let progress = Progress {
        taken: completed,
        completed,
        failed: None,
    };
    facts.record.stages.insert("all".to_owned(), progress);
    let conditions = |facts: &PolicyFacts| {
        let told = plan(facts, &[], now()).status.expect("news");
        let one = |name: &str| {
            let all = told["conditions"].as_array().expect("a list");
            let found = all.iter().find(|one| one["type"] == name);
            let found = found.expect("a condition");
            let part = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
            (part("status"), part("reason"), part("message"))
        };
        (one("Propagated"), one("RolledBack"))
    };
    facts.head.rolled_back = Some(RolledBack {
        release: 2,
        cause: RollbackCause {
            zone: Some("eu".to_owned()),
            reason: "ConfigMap team/a: it broke".to_owned(),
        },
        objects: vec!["ConfigMap team/a".to_owned()],
    });
    let why = "release 2 failed in zone eu and was rolled back: ConfigMap team/a: it broke; not released as at the hub: ConfigMap team/a";
    let said = |status: &str, reason: &str, message: &str| {
        (status.to_owned(), reason.to_owned(), message.to_owned())
    };
    let (propagated, rolled_back) = conditions(&facts);
    assert_eq!(propagated, said("False", "RolledBack", why));
    assert_eq!(rolled_back, said("True", "RolledBack", why));
    facts.head.rolled_back = None;
    let (propagated, rolled_back) = conditions(&facts);
    assert_eq!(
        (propagated.0.as_str(), rolled_back.0.as_str()),
        ("True", "False")
    );
}

#[test]
fn nothing_is_written_when_there_is_nothing_to_tell() {
    let mut facts = facts(2);
    for _ in 0..4 {
        let Some(told) = plan(&facts, &[], now()).status else {
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
    let told = plan(&facts, &[], now()).status.expect("news");
    change(&mut facts, |object| object["status"] = told);
    change(&mut facts, |object| {
        object["spec"]["stages"] = json!([{"name": "a", "propagateWhen": ["nonsense("]}]);
    });
    facts.head.digest = "other".to_owned();
    let plan = plan(&facts, &[], now());
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
        plan(&facts, &[], now()).surplus,
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
    assert!(!plan(&facts, &[], now()).surplus.contains(&4));
}

/// Numbers that look random, and are the same in every run.
fn random(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 8
}

/// Names as people or machines give them, without a number to count on.
fn name(number: u64) -> String {
    let places = ["berlin-mitte", "hamburg", "koeln-sued", "paris", "wien"];
    let place = places[usize::try_from(random(number) % 5).expect("few")];
    let letters = (0..6).map(|at| {
        let letters = b"bcdfghjklmnpqrstvwxz2456789";
        let letter = random(number * 7 + at) % 27;
        char::from(letters[usize::try_from(letter).expect("few")])
    });
    let letters: String = letters.collect();
    format!("store-{place}-{letters}x")
}

type Naming = fn(u64) -> String;

/// Names that have nothing in common.
fn uuid(number: u64) -> String {
    let [a, b, c] = [0, 1, 2].map(|more| random(number * 3 + more));
    let (b, c, d) = (b & 0xffff_ffff, c & 0xffff, c >> 8 & 0xffff_ffff_ffff);
    format!(
        "{:08x}-{:04x}-{:04x}-{c:04x}-{d:012x}",
        a & 0xffff_ffff,
        b >> 16,
        b & 0xffff
    )
}

/// Zones that stand in all ways at once, and say much about it.
fn crowd(stages: usize, zones: u64, name: Naming) -> PolicyFacts {
    let mut facts = facts(2);
    facts.record.zones.clear();
    facts.zones.clear();
    let long = "a reason with very many words ".repeat(40);
    for number in 0..zones {
        let of = number % u64::try_from(stages).expect("few");
        let labels = json!({"of": format!("s{of}"), "out": (number % 50 == 0).to_string()});
        let object = json!({"metadata": {"name": name(number), "labels": labels}});
        let (release, phase, state) = match number % 10 {
            0 => (2, Phase::Failed, Fared::Failed(long.clone())),
            1 => (2, Phase::Admitted, Fared::Waiting(long.clone())),
            2 => (2, Phase::Admitted, Fared::NoEvidence(long.clone())),
            3 => (2, Phase::Started, Fared::Refused(long.clone())),
            4..=6 => (2, Phase::Arrived, Fared::Ready { since: now() }),
            _ => (1, Phase::Arrived, Fared::Ready { since: now() }),
        };
        let target = Target {
            release,
            class: Class::default(),
        };
        let seconds = i64::try_from(number % 60).expect("few");
        let at = Timestamp::new(now().seconds() - seconds, 0).expect("a time");
        facts
            .record
            .zones
            .insert(name(number), Admitted { target, at, phase });
        facts.zones.push(ZoneFacts {
            name: name(number),
            object: Arc::new(object.as_object().expect("an object").clone()),
            link: match number % 7 {
                0 => Link::Lost { since: at },
                _ => Link::Connected { since: at },
            },
            holds: None,
            hold: Hold::Free,
            released_at: None,
            report: Some(ReportFacts { at: target, state }),
        });
    }
    let stages = (0..stages).map(|number| {
        let labels = json!({"of": format!("s{number}"), "out": "false"});
        json!({
            "name": format!("stage-number-{number}"), "zones": {"matchLabels": labels},
            "propagateWhen": ["linearlyReady(zone, zones, 3) && zone.metadata.labels.of != ''"],
            "maxFailures": "50%",
        })
    });
    let stages: Vec<Value> = stages.collect();
    change(&mut facts, |object| {
        object["spec"]["stages"] = stages.into()
    });
    facts
}

#[test]
fn the_status_of_thousands_of_zones_stays_small() {
    let fleets: [(u64, Naming); 2] = [(5000, name), (2000, uuid)];
    let fleets = fleets
        .into_iter()
        .flat_map(|fleet| [1, 3, 64].map(|stages| (stages, fleet)));
    for (stages, (zones, name)) in fleets {
        let mut facts = crowd(stages, zones, name);
        let mut largest = 0;
        for _ in 0..40 {
            let plan = plan(&facts, &[], now());
            let Some(told) = plan.status else {
                break;
            };
            largest = largest.max(told.to_string().len());
            facts.record = Record::read(&told["decisions"]).expect("ours");
            change(&mut facts, |object| object["status"] = told);
        }
        println!("{stages} stages: {largest} bytes");
        assert!(largest < 100_000, "{stages} stages: {largest} bytes");
    }
}

#[test]
fn what_was_decided_and_cannot_be_read_is_not_overwritten() {
    let mut facts = facts(1);
    facts.unreadable = Some(UnreadableInput::Decisions);
    facts.head.digest = "other".to_owned();
    let decisions = serde_json::json!({"zones": [{"release": "later"}]});
    let mut object = Value::clone(&facts.object);
    object["status"] = serde_json::json!({"decisions": decisions});
    facts.object = object.into();
    let plan = plan(&facts, &[], now());
    assert!(plan.wanted.is_none() && !plan.decided && plan.surplus.is_empty());
    let status = plan.status.expect("it is said");
    assert_eq!(status["decisions"], decisions);
    let problem = status["problems"][0].as_str().expect("a problem");
    assert!(problem.starts_with("status.decisions: what was decided cannot be read"));
}

/// The hub was restored to a state before releases that zones followed: numbers are never used
/// twice, and the same content passes all gates again.
#[test]
fn a_release_below_the_floor_is_made_again() {
    let mut facts = facts(2);
    assert_eq!(plan(&facts, &[], now()).wanted, None);
    let mut object = Value::clone(&facts.object);
    object["status"]["releaseFloor"] = json!({"number": 7, "lost": 60});
    facts.object = Arc::new(object);
    let planned = plan(&facts, &[], now());
    let wanted = Wanted {
        number: 7,
        restores: None,
        rolled_back: None,
    };
    assert_eq!(planned.wanted, Some(wanted));
    // The floor outlives what is told.
    let status = planned.status.expect("news");
    assert_eq!(status["releaseFloor"]["number"], 7);
    let propagated = &status["conditions"][1];
    assert_eq!(propagated["reason"], "NotReleased", "{status:#}");
}
