//! Decisions about approvals and zones, from situations as data.

use serde_json::{Map, Value as Json, json};

use super::*;
use crate::stages::{Approved, Class, ContentId, PolicySpec, Removes, State, Zone, ZoneReport};
use crate::subject::Hold;

fn now() -> Timestamp {
    Timestamp::parse("2026-03-01T12:00:00Z").expect("a time")
}

fn policy() -> Policy {
    let spec = json!({
        "targets": [{"kind": "ConfigMap"}],
        "stages": [{"name": "all", "approval": "RequiredByOther"}],
    });
    let spec: PolicySpec = serde_json::from_value(spec).expect("a spec");
    Policy::compile(&spec).expect("valid")
}

/// A release with this manifest, and overrides for zones of one tier each.
fn release(number: u64, manifest: &str, overrides: &[(&str, &str)]) -> Release {
    let selector = |tier: &str| {
        let selector = json!({"matchLabels": {"tier": tier}});
        deltaplane_api::selector::LabelSelector::from_object(&selector).expect("a selector")
    };
    Release {
        number,
        authors: vec!["ann".to_owned()],
        restores: None,
        overrides: overrides.iter().map(|(tier, _)| selector(tier)).collect(),
        removes: (1..number)
            .map(|older| (older, Removes::default()))
            .collect(),
        data: Json::Null,
        content: ContentId {
            manifest: Some(manifest.to_owned()),
            patches: overrides
                .iter()
                .map(|(_, does)| (*does).to_owned())
                .collect(),
        },
    }
}

fn object(tier: &str) -> Map<String, Json> {
    let object = json!({"metadata": {"labels": {"tier": tier}}});
    object.as_object().cloned().unwrap_or_default()
}

fn zone<'a>(
    name: &'a str,
    object: &'a Map<String, Json>,
    link: Link,
    at: Option<Target>,
) -> Zone<'a> {
    Zone {
        name,
        object,
        diverged: false,
        holds: None,
        link,
        hold: Hold::Free,
        released_at: None,
        report: at.map(|at| ZoneReport {
            at,
            state: State::Ready { since: now() },
        }),
    }
}

/// What a stage with one zone of a tier waits for, which is ready at the first of two releases.
fn waits(releases: &[Release], tier: &str) -> Option<String> {
    let object = object(tier);
    let at = Target {
        release: 1,
        class: releases[0].class(&object),
    };
    let mut record = Record::default();
    let phase = Phase::Arrived;
    let admitted = Admitted {
        target: at,
        at: now(),
        phase,
    };
    record.zones.insert("eu".to_owned(), admitted);
    let mark = Some(Mark {
        release: 1,
        at: now(),
    });
    let progress = Progress {
        taken: mark,
        completed: mark,
        failed: None,
    };
    record.stages.insert("all".to_owned(), progress);
    let connected = Link::Connected { since: now() };
    let unjoined = Map::new();
    let zones = [
        zone("eu", &object, connected, Some(at)),
        zone("new", &unjoined, Link::Never, None),
    ];
    let situation = Situation {
        releases,
        record: &record,
        zones: &zones,
        approvals: &[],
        resumed: None,
        left: &[],
        zones_as_of: None,
        now: now(),
    };
    let outcome = decide(&policy(), situation);
    let stage = &outcome.stages[0];
    let first = stage.waiting.first();
    first.map(|one| one.reason().to_owned())
}

#[test]
fn approval_is_asked_for_what_changes_something() {
    let asked = Some("ApprovalRequired".to_owned());
    let one = |manifest: &str, overrides: &[(&str, &str)]| release(1, manifest, overrides);
    let two = |manifest: &str, overrides: &[(&str, &str)]| release(2, manifest, overrides);
    assert_eq!(waits(&[one("a", &[]), two("b", &[])], "rest"), asked);
    assert_eq!(waits(&[one("a", &[]), two("a", &[])], "rest"), None);
    // An override is a change where it applies, wherever it is in the list.
    let canary = &[("canary", "x")];
    assert_eq!(waits(&[one("a", &[]), two("a", canary)], "canary"), asked);
    assert_eq!(waits(&[one("a", &[]), two("a", canary)], "rest"), None);
    let both = &[("rest", "y"), ("canary", "x")];
    assert_eq!(waits(&[one("a", canary), two("a", both)], "canary"), None);
    assert_eq!(waits(&[one("a", canary), two("a", both)], "rest"), asked);
    // What is not known is asked for.
    let mut unknown = [one("a", &[]), two("a", &[])];
    unknown
        .iter_mut()
        .for_each(|one| one.content = ContentId::default());
    assert_eq!(waits(&unknown, "rest"), asked);
}

#[test]
fn a_zone_that_never_joined_holds_no_stage() {
    let (here, there) = (object("rest"), object("rest"));
    let releases = [release(1, "a", &[])];
    let at = Target {
        release: 1,
        class: Class::default(),
    };
    let approvals = [Approved {
        stage: Some("all".to_owned()),
        release: 1,
        by: "bob".to_owned(),
    }];
    let completed = |link: Link| {
        let mut record = Record::default();
        for _ in 0..4 {
            let connected = Link::Connected { since: now() };
            let report = record.zones.contains_key("eu").then_some(at);
            let zones = [
                zone("eu", &here, connected, report),
                zone("new", &there, link, None),
            ];
            let situation = Situation {
                releases: &releases,
                record: &record,
                zones: &zones,
                approvals: &approvals,
                resumed: None,
                left: &[],
                zones_as_of: None,
                now: now(),
            };
            record = decide(&policy(), situation).record;
        }
        let stage = record.stages["all"];
        stage.completed.map(|mark| mark.release)
    };
    assert_eq!(completed(Link::Never), Some(1));
    // One that was lost is waited for until its deadline.
    assert_eq!(completed(Link::Lost { since: now() }), None);
}

/// Another zone of the same name has been let in nowhere.
#[test]
fn what_was_decided_is_of_the_zones_of_then() {
    let mut record = Record {
        zones_as_of: Some(10),
        ..Record::default()
    };
    let admitted = Admitted {
        target: Target {
            release: 1,
            class: Class::default(),
        },
        at: now(),
        phase: Phase::Arrived,
    };
    for name in ["old", "renewed", "gone"] {
        record.zones.insert(name.to_owned(), admitted);
    }
    let read = Record::read(&record.write());
    assert_eq!(read.as_ref(), Some(&record));
    record.forget_renewed(|name| match name {
        "old" => Some(10),
        "renewed" => Some(11),
        _ => None,
    });
    let names: Vec<&String> = record.zones.keys().collect();
    assert_eq!(names, ["gone", "old"]);
}

#[test]
fn approvals_of_authors_do_not_count() {
    let releases = [release(1, "a", &[]), release(2, "b", &[])];
    let mut record = Record::default();
    let mark = |release| Some(Mark { release, at: now() });
    let progress = Progress {
        taken: mark(2),
        completed: mark(2),
        failed: None,
    };
    record.stages.insert("all".to_owned(), progress);
    let situation = Situation {
        releases: &releases,
        record: &record,
        zones: &[],
        approvals: &[],
        resumed: None,
        left: &[],
        zones_as_of: None,
        now: now(),
    };
    let by = |by: &str, stage: Option<&str>| {
        let approved = Approved {
            stage: stage.map(str::to_owned),
            release: 2,
            by: by.to_owned(),
        };
        counts(&policy(), situation, &approved)
    };
    assert!(!by("ann", Some("all")), "she is the author");
    assert!(by("bob", Some("all")));
    assert!(by("ann", None), "of what is taken away");
    assert!(!by("bob", Some("nowhere")));
}

/// Zones may have the objects of a policy before it is made.
#[test]
fn approval_is_not_asked_for_what_zones_hold() {
    let object = object("rest");
    let releases = [release(1, "a", &[])];
    let waits = |holds: Option<u64>| {
        let connected = Link::Connected { since: now() };
        let zones = [Zone {
            holds,
            ..zone("eu", &object, connected, None)
        }];
        let record = Record::default();
        let situation = Situation {
            releases: &releases,
            record: &record,
            zones: &zones,
            approvals: &[],
            resumed: None,
            left: &[],
            zones_as_of: None,
            now: now(),
        };
        let outcome = decide(&policy(), situation);
        let mut waiting = outcome.stages[0].waiting.iter();
        waiting.any(|one| one.reason() == "ApprovalRequired")
    };
    assert!(waits(None));
    assert!(!waits(Some(1)));
}

#[test]
fn a_diverged_zone_is_told_apart_from_an_offline_one() {
    let object = object("rest");
    let releases = [release(1, "a", &[])];
    let approvals = [Approved {
        stage: Some("all".to_owned()),
        release: 1,
        by: "bob".to_owned(),
    }];
    let told = |diverged: bool| {
        let lost = Link::Lost { since: now() };
        let zones = [Zone {
            diverged,
            ..zone("eu", &object, lost, None)
        }];
        let record = Record::default();
        let situation = Situation {
            releases: &releases,
            record: &record,
            zones: &zones,
            approvals: &approvals,
            resumed: None,
            left: &[],
            zones_as_of: None,
            now: now(),
        };
        let policy = policy();
        let outcome = decide(&policy, situation);
        let situation = Situation {
            record: &outcome.record,
            ..situation
        };
        let standing = super::super::standing::zones(&policy, situation)[0].standing;
        let waiting = &outcome.stages[0].waiting[0];
        (standing.word(), waiting.reason(), waiting.to_string())
    };
    let (word, reason, _) = told(false);
    assert_eq!((word, reason), ("offline", "ZoneOffline"));
    let (word, reason, message) = told(true);
    assert_eq!((word, reason), ("diverged", "ZoneDiverged"));
    assert_eq!(
        message,
        "eu followed a state that the hub lost, and is sent nothing; settle it with: deltaplane zones reconcile eu --keep hub|zone"
    );
}
