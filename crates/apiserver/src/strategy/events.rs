//! Events: one collection, two groups that name the same things differently.
//!
//! Stored as core `v1`.

use deltaplane_api::field::{Error, Path};
use serde_json::Value;

use super::{GENERIC, Strategy};
use crate::kinds::Kind;
use crate::value;

pub(crate) static STRATEGY: Strategy = Strategy {
    create_on_update: true,
    validate: Some(|event, _| validate(event)),
    from_stored: Some(|kind, event| {
        if kind.group == "events.k8s.io" {
            rename(event, |(core, modern)| (core, modern));
        }
    }),
    to_stored: Some(|kind: &Kind, event| {
        if kind.group == "events.k8s.io" {
            rename(event, |(core, modern)| (modern, core));
        }
    }),
    ..GENERIC
};

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

fn validate(event: &Value) -> Vec<Error> {
    let (field, object) = match event["regarding"].is_null() {
        true => ("involvedObject", &event["involvedObject"]),
        false => ("regarding", &event["regarding"]),
    };
    let namespace = value::text(event, "metadata.namespace");
    let path = Path::new(field).child("namespace");
    let about = value::text(object, "namespace");
    // Events about cluster-scoped objects live in `default` (or in `kube-system`).
    let fits = match about {
        "" => matches!(namespace, "default" | "kube-system"),
        about => about == namespace,
    };
    match fits {
        true => Vec::new(),
        false => {
            vec![Error::invalid(
                path,
                about,
                "does not match event.namespace",
            )]
        }
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
}
