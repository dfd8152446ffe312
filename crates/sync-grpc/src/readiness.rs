//! What the hub asks of what a zone holds, and what the zone says. Both are cut to a size here,
//! whatever the peer says; what one side does not know of is left out, and nothing else is.

use std::collections::BTreeMap;

use deltaplane_sync::{
    Asked, AskedPolicy, AskedTarget, FareState, Fared, FaredPart, Fares, KindFared, ObjectName,
    SyncKind,
};

use crate::codec::cut;
use crate::proto::deltaplane::sync::v1 as wire;

/// Reasons are for people, and kept at the hub for every object that is asked for.
const MAX_REASON: usize = 256;

/// JSON takes up to twenty times its bytes in memory. No policy with a longer selector is stored:
/// the object would be too large.
const MAX_SELECTOR: usize = 3 << 20;

pub fn encode_asked(asked: &Asked) -> wire::Asked {
    let policies = asked.policies.iter().map(|policy| wire::asked::Policy {
        name: policy.name.clone(),
        targets: policy.targets.iter().map(encode_target).collect(),
    });
    wire::Asked {
        policies: policies.collect(),
    }
}

fn encode_target(target: &AskedTarget) -> wire::asked::Target {
    let AskedTarget {
        kind,
        names,
        selector,
        ready_when,
    } = target;
    let selector = selector.written();
    wire::asked::Target {
        type_url: kind.to_string(),
        names: names.iter().cloned().collect(),
        selector: match selector.is_null() {
            true => String::new(),
            false => selector.to_string(),
        },
        ready_when: ready_when.clone(),
    }
}

/// What this zone can make sense of. Of the rest the hub hears nothing, and waits.
pub fn decode_asked(asked: wire::Asked) -> Asked {
    let policies = asked.policies.into_iter().map(|policy| AskedPolicy {
        name: policy.name,
        targets: policy
            .targets
            .into_iter()
            .filter_map(decode_target)
            .collect(),
    });
    Asked {
        policies: policies.collect(),
    }
}

fn decode_target(target: wire::asked::Target) -> Option<AskedTarget> {
    let written = match target.selector.as_str() {
        "" => serde_json::Value::Null,
        long if long.len() > MAX_SELECTOR => return None,
        text => serde_json::from_str(text).ok()?,
    };
    Some(AskedTarget {
        kind: target.type_url.parse().ok()?,
        names: target.names.into_iter().collect(),
        selector: written.try_into().ok()?,
        ready_when: target.ready_when,
    })
}

pub fn encode_fared(fared: &Fared) -> wire::Fared {
    let part = match fared.part {
        FaredPart::Changes => wire::fared::Part::Changes,
        FaredPart::More => wire::fared::Part::More,
        FaredPart::Last => wire::fared::Part::Last,
    };
    let kinds = fared.kinds.iter().map(|(kind, fared)| wire::KindFared {
        type_url: kind.to_string(),
        trouble: cut(fared.trouble.clone().unwrap_or_default(), MAX_REASON),
        objects: fared.objects.iter().map(encode_object).collect(),
    });
    wire::Fared {
        at: fared.at,
        part: part.into(),
        kinds: kinds.collect(),
    }
}

fn encode_object((name, fares): (&ObjectName, &Option<Fares>)) -> wire::ObjectFared {
    use wire::object_fared::State;
    let name = name.to_string();
    let Some(fares) = fares else {
        return wire::ObjectFared {
            name,
            state: State::Forgotten.into(),
            ..wire::ObjectFared::default()
        };
    };
    let state = match fares.state {
        FareState::Ready => State::Ready,
        FareState::Waiting => State::Waiting,
        FareState::Failed => State::Failed,
        FareState::NoEvidence => State::NoEvidence,
    };
    wire::ObjectFared {
        name,
        version: fares
            .version
            .map_or_else(String::new, |one| one.to_string()),
        state: state.into(),
        since: fares.since,
        reason: cut(fares.reason.clone(), MAX_REASON),
    }
}

/// What makes sense of it.
pub fn decode_fared(fared: wire::Fared) -> Fared {
    let part = match fared.part() {
        wire::fared::Part::Changes => FaredPart::Changes,
        wire::fared::Part::More => FaredPart::More,
        wire::fared::Part::Last => FaredPart::Last,
    };
    let mut kinds: BTreeMap<SyncKind, KindFared> = BTreeMap::new();
    for kind in fared.kinds {
        let Ok(name) = kind.type_url.parse() else {
            continue;
        };
        let said = kinds.entry(name).or_default();
        let trouble = cut(kind.trouble, MAX_REASON);
        said.trouble = (!trouble.is_empty()).then_some(trouble);
        said.objects
            .extend(kind.objects.into_iter().filter_map(decode_object));
    }
    Fared {
        at: fared.at,
        part,
        kinds,
    }
}

fn decode_object(object: wire::ObjectFared) -> Option<(ObjectName, Option<Fares>)> {
    use wire::object_fared::State;
    let name = object.name.parse().ok()?;
    // What a newer zone says with a word of its own is not that the object is ready.
    let state = match State::try_from(object.state).unwrap_or(State::Waiting) {
        State::Ready => FareState::Ready,
        State::Waiting => FareState::Waiting,
        State::Failed => FareState::Failed,
        State::NoEvidence => FareState::NoEvidence,
        State::Forgotten => return Some((name, None)),
    };
    let fares = Fares {
        version: object.version.parse().ok(),
        state,
        since: object.since,
        reason: cut(object.reason, MAX_REASON),
    };
    Some((name, Some(fares)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use deltaplane_sync::AskedSelector;
    use serde_json::json;

    use super::*;

    fn kind(name: &str) -> SyncKind {
        SyncKind::new("apps", name).expect("legal")
    }

    #[test]
    fn what_is_asked_comes_through() {
        let selector = json!({"matchLabels": {"team": "web"}});
        let some = AskedTarget {
            kind: kind("Deployment"),
            names: BTreeSet::from(["a".to_owned(), "prod/b".to_owned()]),
            selector: selector.try_into().expect("legal"),
            ready_when: vec!["object.status.ready".to_owned()],
        };
        let all = AskedTarget {
            kind: kind("DaemonSet"),
            names: BTreeSet::new(),
            selector: AskedSelector::everything(),
            ready_when: Vec::new(),
        };
        let asked = Asked {
            policies: vec![AskedPolicy {
                name: "web".to_owned(),
                targets: vec![some, all],
            }],
        };
        assert_eq!(decode_asked(encode_asked(&asked)), asked);
    }

    /// A newer hub may ask for more than this zone understands.
    #[test]
    fn targets_that_make_no_sense_are_left_out_alone() {
        let target = |type_url: &str, selector: &str| wire::asked::Target {
            type_url: type_url.to_owned(),
            selector: selector.to_owned(),
            ..wire::asked::Target::default()
        };
        let targets = vec![
            target("deltaplane.io/apps/Deployment", ""),
            target("elsewhere", ""),
            target("deltaplane.io/apps/DaemonSet", "{"),
            target("deltaplane.io/apps/DaemonSet", "[]"),
        ];
        let policies = vec![wire::asked::Policy {
            name: "web".to_owned(),
            targets,
        }];
        let asked = decode_asked(wire::Asked { policies });
        let kinds: Vec<&SyncKind> = asked.kinds().into_iter().collect();
        assert_eq!(kinds, [&kind("Deployment")]);
    }

    fn fares(state: FareState, reason: &str) -> Option<Fares> {
        Some(Fares {
            version: "ab".repeat(32).parse().ok(),
            state,
            since: 7,
            reason: reason.to_owned(),
        })
    }

    #[test]
    fn what_is_said_comes_through() {
        let name = |name: &str| name.parse::<ObjectName>().expect("legal");
        let objects = BTreeMap::from([
            (name("prod/a"), fares(FareState::Ready, "")),
            (name("prod/b"), fares(FareState::Waiting, "1 of 2")),
            (name("prod/c"), fares(FareState::Failed, "it broke")),
            (name("d"), fares(FareState::NoEvidence, "no instances")),
            (name("e"), None),
        ]);
        let said = KindFared {
            trouble: None,
            objects,
        };
        let troubled = KindFared {
            trouble: Some("cannot follow it".to_owned()),
            objects: BTreeMap::new(),
        };
        for part in [FaredPart::Changes, FaredPart::More, FaredPart::Last] {
            let kinds = [
                (kind("Deployment"), said.clone()),
                (kind("DaemonSet"), troubled.clone()),
            ];
            let fared = Fared {
                at: 9,
                part,
                kinds: kinds.into(),
            };
            assert_eq!(decode_fared(encode_fared(&fared)), fared);
        }
    }

    /// A zone that does not keep to anything.
    #[test]
    fn what_makes_no_sense_is_left_out_and_what_is_long_is_cut() {
        let object = |name: &str, state: i32| wire::ObjectFared {
            name: name.to_owned(),
            version: "1.2.3".to_owned(),
            state,
            since: u64::MAX,
            reason: "é".repeat(10_000),
        };
        let kind = |type_url: &str| wire::KindFared {
            type_url: type_url.to_owned(),
            trouble: "x".repeat(10_000),
            objects: vec![object("a", 1), object("b", 77), object("a/b/c", 1)],
        };
        let fared = decode_fared(wire::Fared {
            at: 0,
            part: 77,
            kinds: vec![
                kind("deltaplane.io/core/A"),
                kind("deltaplane.io/core/A"),
                kind("?"),
            ],
        });
        assert_eq!(fared.part, FaredPart::Changes);
        assert_eq!(fared.kinds.len(), 1);
        let said = fared.kinds.values().next().expect("one");
        assert!(said.trouble.as_ref().is_some_and(|one| one.len() < 300));
        let states: Vec<FareState> = {
            let all = said.objects.values().flatten();
            assert!(all.clone().all(|one| one.version.is_none()));
            assert!(all.clone().all(|one| one.reason.len() < 300));
            all.map(|one| one.state).collect()
        };
        assert_eq!(states, [FareState::Ready, FareState::Waiting]);
    }
}
