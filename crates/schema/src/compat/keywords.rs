//! Keywords that say something about one value, and what their changes mean.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use deltaplane_api::field::Path;
use serde_json::{Map, Value};

use super::{Change, Effect, What};

/// How the change of a keyword is judged.
#[derive(Clone, Copy)]
enum Judge {
    /// Nothing depends on it.
    Irrelevant,
    /// The larger, the fewer values are valid.
    LowerBound,
    /// The smaller, the fewer values are valid.
    UpperBound,
    /// Fewer values are valid when it is set.
    Restriction,
    /// More values are valid, or kept, when it is set.
    Permission,
    /// Values are valid when they fit: another one is taken to fit others.
    Constraint,
    /// A larger one that is a multiple of the smaller one fits fewer values.
    MultipleOf,
    /// How items of a list are told apart.
    ListType,
    /// Any change may break.
    Fixed,
}

/// Unlisted keywords mean nothing to Kubernetes.
const KEYWORDS: [(&str, Judge); 27] = [
    ("allOf", Judge::Constraint),
    ("anyOf", Judge::Constraint),
    ("oneOf", Judge::Constraint),
    ("not", Judge::Constraint),
    ("pattern", Judge::Constraint),
    ("format", Judge::Constraint),
    ("multipleOf", Judge::MultipleOf),
    ("minimum", Judge::LowerBound),
    ("minLength", Judge::LowerBound),
    ("minItems", Judge::LowerBound),
    ("minProperties", Judge::LowerBound),
    ("maximum", Judge::UpperBound),
    ("maxLength", Judge::UpperBound),
    ("maxItems", Judge::UpperBound),
    ("maxProperties", Judge::UpperBound),
    ("exclusiveMinimum", Judge::Restriction),
    ("exclusiveMaximum", Judge::Restriction),
    ("uniqueItems", Judge::Restriction),
    ("nullable", Judge::Permission),
    ("x-kubernetes-preserve-unknown-fields", Judge::Permission),
    ("x-kubernetes-int-or-string", Judge::Permission),
    // It asks for fields, and keeps them.
    ("x-kubernetes-embedded-resource", Judge::Fixed),
    ("x-kubernetes-list-type", Judge::ListType),
    ("$ref", Judge::Fixed),
    ("patternProperties", Judge::Fixed),
    ("additionalItems", Judge::Fixed),
    ("dependencies", Judge::Fixed),
];

/// What `fields` compares.
const ELSEWHERE: [&str; 7] = [
    "type",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "enum",
    "x-kubernetes-validations",
];

/// What may be said of a version, and what it means when it changes.
const VERSION: [(&str, Judge); 7] = [
    ("name", Judge::Fixed),
    ("served", Judge::Permission),
    // Clients write to them.
    ("/subresources/status", Judge::Permission),
    ("/subresources/scale", Judge::Permission),
    ("additionalPrinterColumns", Judge::Irrelevant),
    ("deprecated", Judge::Irrelevant),
    ("deprecationWarning", Judge::Irrelevant),
];

/// Compares the keywords of two schemas, those of [`ELSEWHERE`] apart.
pub(super) fn compare(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    path: &Path,
    changes: &mut Vec<Change>,
) {
    let keywords: BTreeSet<&str> = old.keys().chain(new.keys()).map(String::as_str).collect();
    for keyword in keywords.into_iter().filter(|one| !ELSEWHERE.contains(one)) {
        let listed = KEYWORDS.iter().find(|(listed, _)| *listed == keyword);
        let judge = listed.map_or(Judge::Irrelevant, |(_, judge)| *judge);
        let (before, after) = (old.get(keyword), new.get(keyword));
        let effect = match keyword {
            "x-kubernetes-list-map-keys" => keys_effect(new),
            _ => judge.effect(said(before), said(after)),
        };
        changes.extend(change(keyword, before, after, effect, path));
    }
}

/// Compares only what is said about a value, not which ones are valid: that has another type now.
pub(super) fn compare_words(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    path: &Path,
    changes: &mut Vec<Change>,
) {
    for keyword in ["default", "description", "type"] {
        let effect = match keyword {
            "type" => Effect::Restricts,
            _ => Effect::Neither,
        };
        let (before, after) = (old.get(keyword), new.get(keyword));
        changes.extend(change(keyword, before, after, effect, path));
    }
}

/// Compares what is said of two versions beside their schemas: only the names, if they differ.
pub(super) fn compare_versions(old: &Value, new: &Value, changes: &mut Vec<Change>) {
    for (key, judge) in VERSION {
        let place = format!("/{}", key.trim_start_matches('/'));
        let (before, after) = (old.pointer(&place), new.pointer(&place));
        let effect = judge.effect(said(before), said(after));
        let keyword = key.trim_start_matches('/').replace('/', ".");
        changes.extend(change(&keyword, before, after, effect, &Path::root()));
        if key == "name" && !changes.is_empty() {
            return;
        }
    }
    let (before, after) = (selectable(old), selectable(new));
    let effect = match before.is_subset(&after) {
        true => Effect::Relaxes,
        false => Effect::Restricts,
    };
    let (before, after) = (listed(before), listed(after));
    let (before, after) = (Some(&before), Some(&after));
    changes.extend(change(
        "selectableFields",
        before,
        after,
        effect,
        &Path::root(),
    ));
}

fn selectable(version: &Value) -> BTreeSet<&str> {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let fields = fields.into_iter().flatten();
    fields
        .filter_map(|field| field.get("jsonPath")?.as_str())
        .collect()
}

fn listed(names: BTreeSet<&str>) -> Value {
    names.into_iter().collect()
}

/// A change, if there is one.
pub(super) fn change(
    keyword: &str,
    old: Option<&Value>,
    new: Option<&Value>,
    effect: Effect,
    path: &Path,
) -> Option<Change> {
    let present = |value: Option<&Value>| match keyword {
        // Any value is one.
        "default" => value.is_some_and(|value| !value.is_null()),
        _ => said(value).is_some(),
    };
    let same = match (present(old), present(new)) {
        (true, true) => old.zip(new).is_some_and(|(old, new)| same(old, new)),
        (false, false) => true,
        (true, false) | (false, true) => false,
    };
    (!same).then(|| Change {
        path: path.clone(),
        what: What::Keyword {
            keyword: keyword.to_owned(),
            old: old.cloned(),
            new: new.cloned(),
            effect,
        },
    })
}

/// Nothing when the value says nothing: null, false and what is empty are as good as absent. (An
/// object without fields says something: it may be a schema.)
fn said(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::Object(_) => true,
    })
}

/// Equal, where `1` and `1.0` are.
fn same(a: &Value, b: &Value) -> bool {
    a == b
        || matches!((a, b), (Value::Number(_), Value::Number(_)))
            && order(a, b) == Some(Ordering::Equal)
}

fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// Other keys tell other items apart, as long as the list has keys.
fn keys_effect(new: &Map<String, Value>) -> Effect {
    let kind = new.get("x-kubernetes-list-type").and_then(Value::as_str);
    match kind == Some("map") {
        true => Effect::Restricts,
        false => Effect::Neither,
    }
}

// === impl Judge ===

impl Judge {
    fn effect(self, old: Option<&Value>, new: Option<&Value>) -> Effect {
        match self {
            Self::Irrelevant => Effect::Neither,
            Self::Fixed => Effect::Restricts,
            Self::Constraint | Self::Restriction => match new {
                None => Effect::Relaxes,
                Some(_) => Effect::Restricts,
            },
            Self::Permission => match old {
                None => Effect::Relaxes,
                Some(_) => Effect::Restricts,
            },
            Self::LowerBound => bound(old, new, Ordering::Less),
            Self::UpperBound => bound(old, new, Ordering::Greater),
            Self::MultipleOf => match (old, new) {
                (_, None) => Effect::Relaxes,
                (Some(old), Some(new)) if divides(new, old) => Effect::Relaxes,
                (_, Some(_)) => Effect::Restricts,
            },
            Self::ListType => match new.and_then(Value::as_str) {
                // Which is what a list is when nothing is said.
                None | Some("atomic") => Effect::Relaxes,
                Some(_) => Effect::Restricts,
            },
        }
    }
}

/// A bound relaxes when the new one stands in the relation `looser` to the old one.
fn bound(old: Option<&Value>, new: Option<&Value>, looser: Ordering) -> Effect {
    let Some(new) = new else {
        return Effect::Relaxes;
    };
    match old.and_then(|old| order(new, old)) == Some(looser) {
        true => Effect::Relaxes,
        false => Effect::Restricts,
    }
}

fn divides(divisor: &Value, number: &Value) -> bool {
    match (divisor.as_f64(), number.as_f64()) {
        (Some(divisor), Some(number)) => divisor != 0.0 && number % divisor == 0.0,
        _ => false,
    }
}
