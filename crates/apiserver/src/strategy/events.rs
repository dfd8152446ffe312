//! Events: one collection, two groups that name the same things differently.
//!
//! Stored as core `v1`.

use deltaplane_api::field::{Error, Path};
use deltaplane_api::names;
use serde_json::Value;

use super::{GENERIC, Strategy, immutable};
use crate::kinds::Kind;
use crate::value;

pub(crate) static STRATEGY: Strategy = Strategy {
    create_on_update: true,
    validate: Some(validate),
    from_stored: Some(|kind, event| {
        if kind.group == MODERN {
            rename(event, |(core, modern)| (core, modern));
        }
    }),
    to_stored: Some(|kind: &Kind, event| {
        if kind.group == MODERN {
            rename(event, |(core, modern)| (modern, core));
        }
    }),
    ..GENERIC
};

/// The group with names of its own, and stricter rules.
const MODERN: &str = "events.k8s.io";

/// Core name, `events.k8s.io` name.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

type Pair = (&'static str, &'static str);

fn rename(event: &mut Value, direction: fn(Pair) -> Pair) {
    for pair in NAMES {
        let (from, to) = direction(pair);
        let moved = value::take(event, from);
        if !moved.is_null() {
            value::set(event, to, moved);
        }
    }
}

/// The rules, whatever group the event comes through; errors name the core group's fields, as the
/// real server's do.
fn validate(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let modern = value::text(new, "apiVersion").starts_with(MODERN);
    let core = |event: &Value| {
        let mut event = event.clone();
        if modern {
            rename(&mut event, |(core, modern)| (modern, core));
        }
        event
    };
    let (new, old) = (core(new), old.map(core));
    let mut errors = Vec::new();
    match new["eventTime"].is_null() {
        true => validate_namespace(&new, &mut errors),
        false => validate_reported(&new, modern, &mut errors),
    }
    // Old clients may write what they always wrote.
    if modern {
        match old {
            None => validate_modern(&new, &mut errors),
            Some(old) => validate_change(&new, &old, &mut errors),
        }
    }
    errors
}

fn validate_namespace(event: &Value, errors: &mut Vec<Error>) {
    let namespace = value::text(event, "metadata.namespace");
    // Events about cluster-scoped objects live in `default`.
    let fits = match value::text(event, "involvedObject.namespace") {
        "" => namespace == "default",
        about => about == namespace,
    };
    if !fits {
        errors.push(other_namespace(event));
    }
}

fn other_namespace(event: &Value) -> Error {
    let path = Path::new("involvedObject").child("namespace");
    let about = value::text(event, "involvedObject.namespace");
    Error::invalid(path, about, "does not match event.namespace")
}

/// An event with a time says who reports what.
fn validate_reported(event: &Value, modern: bool, errors: &mut Vec<Error>) {
    let namespace = value::text(event, "metadata.namespace");
    let about = value::text(event, "involvedObject.namespace");
    if about.is_empty() && !matches!(namespace, "default" | "kube-system") {
        errors.push(other_namespace(event));
    }
    let reporter = value::text(event, "reportingComponent");
    let path = Path::new(match modern {
        true => "reportingController",
        false => "reportingComponent",
    });
    if reporter.is_empty() {
        errors.push(Error::required(path.clone(), ""));
    }
    let faults = names::qualified_name(reporter).into_iter();
    errors.extend(faults.map(|fault| Error::invalid(path.clone(), reporter, fault)));
    for (field, max, required) in [
        ("reportingInstance", 128, true),
        ("action", 128, true),
        ("reason", 128, true),
        ("message", 1024, false),
    ] {
        let text = value::text(event, field);
        if text.is_empty() && required {
            errors.push(Error::required(Path::new(field), ""));
        }
        if text.len() > max {
            let detail = format!("can have at most {max} characters");
            errors.push(Error::invalid(Path::new(field), "", detail));
        }
    }
}

fn validate_modern(event: &Value, errors: &mut Vec<Error>) {
    validate_series(event, errors);
    if event["eventTime"].is_null() {
        errors.push(Error::required(Path::new("eventTime"), ""));
    }
    let kind = value::text(event, "type");
    if !matches!(kind, "Normal" | "Warning") {
        let detail = format!("has invalid value: {kind}");
        errors.push(Error::invalid(Path::new("type"), "", detail));
    }
    let source = ["component", "host"]
        .iter()
        .any(|field| !value::text(&event["source"], field).is_empty());
    let set = [
        ("firstTimestamp", !event["firstTimestamp"].is_null()),
        ("lastTimestamp", !event["lastTimestamp"].is_null()),
        ("count", event["count"].as_i64().unwrap_or(0) != 0),
        ("source", source),
    ];
    for (field, _) in set.iter().filter(|(_, set)| *set) {
        errors.push(Error::invalid(Path::new(field), "", "needs to be unset"));
    }
}

fn validate_series(event: &Value, errors: &mut Vec<Error>) {
    let series = &event["series"];
    if series.is_null() {
        return;
    }
    if series["count"].as_i64().unwrap_or(0) < 2 {
        let detail = "should be at least 2";
        errors.push(Error::invalid(Path::new("series.count"), "", detail));
    }
    if series["lastObservedTime"].is_null() {
        errors.push(Error::required(Path::new("series.lastObservedTime"), ""));
    }
}

/// What happened once stays as it was told.
fn validate_change(new: &Value, old: &Value, errors: &mut Vec<Error>) {
    if new["series"] != old["series"] {
        validate_series(new, errors);
    }
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ] {
        immutable(field, new, old, errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_groups_names_are_translated_both_ways() {
        let core =
            json!({"involvedObject": {"name": "a"}, "message": "m", "reason": "R", "count": 2});
        let mut event = core.clone();
        rename(&mut event, |(core, modern)| (core, modern));
        assert_eq!(
            event,
            json!({"regarding": {"name": "a"}, "note": "m", "reason": "R", "deprecatedCount": 2})
        );
        rename(&mut event, |(core, modern)| (modern, core));
        assert_eq!(event, core);
    }

    fn check(api_version: &str, namespace: &str, fields: Value, expected: &[&str]) {
        let mut event = fields;
        event["apiVersion"] = json!(api_version);
        event["metadata"] = json!({"name": "e", "namespace": namespace});
        let errors = validate(&event, None);
        let texts: Vec<String> = errors.iter().map(Error::to_string).collect();
        assert_eq!(texts, expected, "{event}");
    }

    #[test]
    fn faults_are_those_that_the_real_server_finds() {
        let namespace =
            "involvedObject.namespace: Invalid value: \"\": does not match event.namespace";
        let time = "eventTime: Required value";
        let kind = "type: Invalid value: \"\": has invalid value: ";
        let modern = "events.k8s.io/v1";
        check(modern, "default", json!({}), &[time, kind]);
        check(modern, "kube-system", json!({}), &[namespace, time, kind]);
        check("v1", "default", json!({}), &[]);
        check("v1", "other", json!({}), &[namespace]);
        check(
            "v1",
            "other",
            json!({"involvedObject": {"namespace": "other"}}),
            &[],
        );
        let when = "2026-01-01T00:00:00.000000Z";
        let part = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        check(
            "v1",
            "default",
            json!({"eventTime": when}),
            &[
                "reportingComponent: Required value",
                "reportingComponent: Invalid value: \"\": name part must be non-empty",
                &format!("reportingComponent: Invalid value: \"\": {part}"),
                "reportingInstance: Required value",
                "action: Required value",
                "reason: Required value",
            ],
        );
        let complete = json!({
            "eventTime": when, "type": "Normal", "regarding": {"namespace": "other"}, "reason": "R",
            "action": "a", "reportingController": "c", "reportingInstance": "i",
        });
        check(modern, "other", complete.clone(), &[]);
        let mut odd = complete;
        odd["deprecatedCount"] = json!(1);
        odd["series"] = json!({"count": 1});
        check(
            modern,
            "other",
            odd,
            &[
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
                "count: Invalid value: \"\": needs to be unset",
            ],
        );
    }

    #[test]
    fn what_happened_stays_as_it_was_told() {
        let old = json!({"apiVersion": "events.k8s.io/v1", "reason": "R", "note": "n",
            "metadata": {"namespace": "default"}});
        let mut new = old.clone();
        new["note"] = json!("m");
        let texts = |new: &Value| -> Vec<String> {
            validate(new, Some(&old))
                .iter()
                .map(Error::to_string)
                .collect()
        };
        assert_eq!(
            texts(&new),
            ["message: Invalid value: \"m\": field is immutable"]
        );
        new["note"] = json!("n");
        new["series"] = json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"});
        assert_eq!(texts(&new), Vec::<String>::new());
    }
}
