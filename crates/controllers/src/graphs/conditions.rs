//! Conditions as kro writes them: of this generation, and one at the root that follows the others.
//! Pure.

use deltaplane_api::conditions::{OWN, are_authored};
use deltaplane_api::time::Time;
use deltaplane_graph::plan::Authored;
use serde_json::{Value, json};

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) r#type: &'static str,
    pub(super) holds: Holds,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    True,
    False,
    Unknown,
}

/// The reason of a definition that lost something.
pub(super) const FOREIGN: &str = "ForeignSchema";
/// The root of the others.
const READY: &str = "Ready";

/// All conditions with the root, which does not follow those that are `aside`: what changes its
/// status does so now.
pub(super) fn written(
    list: &[Condition],
    aside: &[Condition],
    before: &Value,
    generation: i64,
    now: Time,
) -> Value {
    let root = root(list);
    let list = list.iter().filter(|one| is_new(aside, one));
    let all = list.chain(aside).chain([&root]);
    let written = all.map(|one| {
        let status = one.holds.text();
        let since = since(before, one.r#type, status, now);
        json!({
            "type": one.r#type,
            "status": status,
            "reason": one.reason,
            "message": one.message,
            "observedGeneration": generation,
            "lastTransitionTime": since,
        })
    });
    written.collect()
}

/// The conditions of an instance whose graph's author says which there are: those of the author, and
/// behind them `own`, those that every instance has.
pub(super) fn with_authored(
    authored: &Authored,
    own: Value,
    before: &Value,
    generation: i64,
    now: Time,
) -> Value {
    let written = authored
        .conditions
        .iter()
        .filter(|one| !is_own(&one.r#type));
    let mut all: Vec<Value> = written
        .map(|one| {
            json!({
                "type": one.r#type,
                "status": one.status,
                "reason": one.reason,
                "message": shortened(&one.message),
                "observedGeneration": generation,
                "lastTransitionTime": since(before, &one.r#type, &one.status, now),
            })
        })
        .collect();
    if authored.is_partial {
        let kept = of_author(before);
        let kept = kept.filter(|kept| all.iter().all(|one| one["type"] != kept["type"]));
        let kept: Vec<Value> = kept.cloned().collect();
        all.extend(kept);
    }
    all.extend(marked(own, before));
    all.into()
}

/// The same while nothing can be evaluated: what the author said last stays.
pub(super) fn beside_authored(own: Value, before: &Value) -> Value {
    let author = of_author(before).cloned();
    author.chain(marked(own, before)).collect()
}

/// Returns the conditions of the author that a status held before, if it held any.
fn of_author(before: &Value) -> impl Iterator<Item = &Value> {
    let authored = are_authored(&json!({"conditions": before}));
    let all = before.as_array().into_iter().flatten();
    all.filter(move |one| authored && !one["type"].as_str().is_some_and(is_own))
}

/// The conditions that every instance has, with names that are no author's.
fn marked(own: Value, before: &Value) -> Vec<Value> {
    let Value::Array(mut own) = own else {
        return Vec::new();
    };
    for one in &mut own {
        let name = one["type"].as_str().unwrap_or_default();
        let name = format!("{OWN}{name}");
        let status = one["status"].as_str().unwrap_or_default();
        let before = before.as_array().into_iter().flatten();
        let mut same = before.filter(|was| was["type"] == *name && was["status"] == status);
        if let Some(was) = same.next() {
            one["lastTransitionTime"] = was["lastTransitionTime"].clone();
        }
        one["type"] = name.into();
    }
    own
}

fn is_own(r#type: &str) -> bool {
    r#type.starts_with(OWN)
}

/// It holds if all others do; otherwise it says what one of them says: what is false comes before
/// what is unknown.
fn root(list: &[Condition]) -> Condition {
    let with = |holds: Holds| list.iter().find(|one| one.holds == holds);
    match with(Holds::False).or_else(|| with(Holds::Unknown)) {
        Some(one) => Condition {
            r#type: READY,
            ..one.clone()
        },
        None => Condition::holds(READY, READY, ""),
    }
}

/// What is aside goes before what the list says of the same.
fn is_new(list: &[Condition], one: &Condition) -> bool {
    list.iter().all(|other| other.r#type != one.r#type)
}

fn since(before: &Value, r#type: &str, status: &str, now: Time) -> String {
    let mut before = before.as_array().into_iter().flatten();
    let same = before.find(|one| one["type"] == r#type && one["status"] == status);
    let since = same.and_then(|one| one["lastTransitionTime"].as_str());
    since.map_or_else(|| now.to_string(), str::to_owned)
}

// === impl Condition ===

impl Condition {
    pub(super) fn holds(r#type: &'static str, reason: &'static str, message: &str) -> Self {
        Self::new(r#type, Holds::True, reason, message)
    }

    pub(super) fn fails(r#type: &'static str, reason: &'static str, message: &str) -> Self {
        Self::new(r#type, Holds::False, reason, message)
    }

    pub(super) fn unknown(r#type: &'static str, reason: &'static str, message: &str) -> Self {
        Self::new(r#type, Holds::Unknown, reason, message)
    }

    fn new(r#type: &'static str, holds: Holds, reason: &'static str, message: &str) -> Self {
        Self {
            r#type,
            holds,
            reason,
            message: shortened(message),
        }
    }
}

/// Messages are read by people, and kept with the object.
const LONGEST: usize = 8 << 10;

fn shortened(message: &str) -> String {
    if message.len() <= LONGEST {
        return message.to_owned();
    }
    let mut end = LONGEST;
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &message[..end])
}

// === impl Holds ===

impl Holds {
    fn text(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_says_what_is_wrong() {
        let list = [
            Condition::holds("A", "Fine", ""),
            Condition::unknown("B", "NotYet", "later"),
            Condition::fails("C", "Broken", "it is"),
        ];
        assert_eq!(root(&list[..1]), Condition::holds("Ready", "Ready", ""));
        assert_eq!(root(&list[..2]).reason, "NotYet");
        assert_eq!(root(&list), Condition::fails("Ready", "Broken", "it is"));
    }

    #[test]
    fn the_time_is_that_of_the_last_change_of_status() {
        let list = [Condition::holds("A", "Fine", "")];
        let first = written(&list, &[], &Value::Null, 1, Time::from_unix(0));
        let second = written(&list, &[], &first, 2, Time::from_unix(60));
        assert_eq!(second[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(second[0]["observedGeneration"], 2);
        let failed = [Condition::fails("A", "Broken", "")];
        let third = written(&failed, &[], &second, 2, Time::from_unix(60));
        assert_eq!(third[0]["lastTransitionTime"], "1970-01-01T00:01:00Z");
    }
}
