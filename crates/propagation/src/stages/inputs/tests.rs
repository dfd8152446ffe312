//! What was written can be read, and leads to the same.

use serde_json::json;

use super::*;
use crate::stages::{Class, Removes, RollbackCause, Target};

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

fn zone(name: &str, link: Link, state: Option<Fared>) -> ZoneFacts {
    let object = json!({"metadata": {"name": name, "labels": {"tier": "rest"}}});
    let target = Target {
        release: 1,
        class: Class::of([0]),
    };
    ZoneFacts {
        name: name.to_owned(),
        object: Arc::new(object.as_object().expect("an object").clone()),
        link,
        holds: Some(3),
        hold: if name == "held" {
            Hold::Held
        } else {
            Hold::Free
        },
        released_at: (name == "held").then(|| at("2026-03-02T00:00:00.25Z")),
        report: state.map(|state| ReportFacts { at: target, state }),
    }
}

fn inputs() -> Inputs {
    let since = at("2026-03-01T11:00:00.123456789Z");
    let connected = Link::Connected { since };
    let overrides = json!({
        "matchLabels": {"tier": "rest"},
        "matchExpressions": [
            {"key": "a", "operator": "NotIn", "values": ["x", "y"]},
            {"key": "b", "operator": "DoesNotExist"},
        ],
    });
    let release = |number: u64| Release {
        number,
        authors: vec!["ann".to_owned()],
        restores: (number == 2).then_some(1),
        overrides: vec![LabelSelector::from_object(&overrides).expect("a selector")],
        removes: [(1, Removes { objects: 1, of: 7 })].into(),
        data: json!({"number": number, "changes": {"added": 1}}),
        content: ContentId {
            manifest: Some(number.to_string()),
            patches: vec!["p".to_owned()],
        },
    };
    let content = |number: u64| {
        let facts = ContentFacts {
            digest: format!("d{number}"),
            objects: 2,
            removes: 1,
        };
        (number, facts)
    };
    let policy = json!({
        "metadata": {"name": "web", "annotations": {"fleet.deltaplane.io/resume": "1"}},
        "spec": {
            "targets": [{"kind": "ConfigMap"}],
            "stages": [{"name": "all", "propagateWhen": ["linearlyReady(zone, zones, 3)"], "soak": "1m"}],
        },
    });
    let facts = PolicyFacts {
        diverged: Vec::new(),
        left: Vec::new(),
        zones_as_of: Some(7),
        settled_release: 0,
        again: None,
        object: Arc::new(policy),
        record: Record::default(),
        unreadable: None,
        head: HeadFacts {
            digest: "d2".to_owned(),
            objects: 2,
            problems: vec!["one".to_owned()],
            rolled_back: Some(RolledBack {
                release: 2,
                cause: RollbackCause {
                    zone: Some("a".to_owned()),
                    reason: "it broke".to_owned(),
                },
                objects: vec!["ConfigMap team/a".to_owned()],
            }),
        },
        releases: vec![release(1), release(2)],
        contents: BTreeMap::from([content(1), content(2)]),
        zones: vec![
            zone("a", connected, Some(Fared::Ready { since })),
            zone("b", connected, Some(Fared::Waiting("not yet".to_owned()))),
            zone(
                "c",
                Link::Lost { since },
                Some(Fared::Failed("no".to_owned())),
            ),
            zone("held", connected, None),
        ],
        approvals: vec![Approved {
            stage: None,
            release: 2,
            by: "bob".to_owned(),
        }],
    };
    Inputs {
        facts,
        now: at("2026-03-01T12:00:00.5Z"),
    }
}

/// Decides as long as something becomes of it, each time from what was written.
#[test]
fn decisions_are_the_same_from_what_was_written() {
    let mut inputs = inputs();
    for step in 0..10 {
        let written = inputs.write();
        let read = Inputs::read(&written).expect("readable");
        assert_eq!(read.write(), written, "step {step}");
        let (here, there) = (inputs.decide(), read.decide());
        let (here, there) = (here.expect("valid"), there.expect("valid"));
        assert_eq!(here, there, "step {step}");
        assert_eq!(here.write(), there.write(), "step {step}");
        if here.record == inputs.facts.record {
            assert!(step > 0, "nothing was decided");
            return;
        }
        inputs.facts.record = here.record;
    }
    panic!("it never settles");
}

#[test]
fn what_somebody_else_wrote_is_not_read() {
    let mut written = inputs().write();
    written["zones"][0]["report"]["state"] = "Happy".into();
    assert!(Inputs::read(&written).is_none());
    assert!(Inputs::read(&json!({})).is_none());
}
