//! Statuses that an API server stores otherwise than they are written.

use proptest::prelude::*;
use serde_json::Map;

use super::*;

/// An API server that changes what is written to it, in the same way each time.
#[derive(Clone, Debug)]
struct Api {
    drops_nulls: bool,
    /// Lists come back in an order of its own.
    sorts: bool,
    /// A field that the schema of the kind does not have.
    prunes: Option<String>,
    /// A field that objects get, unless they have it.
    defaults: Option<String>,
}

impl Api {
    fn stored(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(name, value)| {
                    let dropped = self.drops_nulls && value.is_null();
                    !dropped && self.prunes.as_ref() != Some(*name)
                });
                let kept = kept.map(|(name, value)| (name.clone(), self.stored(value)));
                let mut kept: Map<String, Value> = kept.collect();
                if let Some(name) = &self.defaults {
                    kept.entry(name.clone()).or_insert_with(|| json!("default"));
                }
                Value::Object(kept)
            }
            Value::Array(items) => {
                let mut items: Vec<Value> = items.iter().map(|item| self.stored(item)).collect();
                if self.sorts {
                    items.sort_by_key(Value::to_string);
                }
                Value::Array(items)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        }
    }
}

/// Names of fields that mean something, and others.
const NAMES: [&str; 10] = [
    "state",
    "conditions",
    "type",
    "status",
    "reason",
    "message",
    "lastTransitionTime",
    "observedGeneration",
    "parts",
    "a",
];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(&NAMES[..]).prop_map(str::to_owned)
}

fn api() -> impl Strategy<Value = Api> {
    let field = || prop::option::of(name());
    (any::<bool>(), any::<bool>(), field(), field()).prop_map(
        |(drops_nulls, sorts, prunes, defaults)| Api {
            drops_nulls,
            sorts,
            // What is added is not taken away.
            prunes: prunes.filter(|prunes| defaults.as_ref() != Some(prunes)),
            defaults,
        },
    )
}

fn json() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(&["True", "False", "Ready", "ResourcesReady", "ACTIVE"][..]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..4_i64).prop_map(Value::from),
        text.prop_map(Value::from),
        text_of_author().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Types of conditions that are there beside those of an author.
fn text_of_author() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["deltaplane.io/Ready", "AppReady"][..])
}

/// Writes as long as there is something to write, at another time each.
fn settle(latest: &Latest, instance: &mut Value, api: &Api, ended: &Ended<'_>) -> Option<usize> {
    settle_from(1000, latest, instance, api, ended)
}

fn settle_from(
    begin: i64,
    latest: &Latest,
    instance: &mut Value,
    api: &Api,
    ended: &Ended<'_>,
) -> Option<usize> {
    for writes in 0..5 {
        let now = Time::from_unix(begin + writes);
        let Some(status) = latest.status_to_write(instance, ended, now) else {
            return usize::try_from(writes).ok();
        };
        instance["status"] = api.stored(&status);
        let again = Time::from_unix(begin + 100);
        latest.status_written("u-1", status, &instance["status"], again);
    }
    None
}

proptest! {
    /// From any state and with any status that an API can return, there is an end of writing, and
    /// after a restart, too.
    #[test]
    fn statuses_come_to_rest(before in json(), api in api(), why in "[a-z]{0,3}") {
        let waits_for = [];
        let undeleted = BTreeMap::new();
        for ended in [
            Ended::Unresolved { why: &why },
            Ended::Unseen { why: &why },
            Ended::Unreleased { why: &why },
            Ended::Suspended,
            Ended::Deleting { waits_for: &waits_for, undeleted: &undeleted },
        ] {
            let mut instance = json!({
                "metadata": {"uid": "u-1", "generation": 2}, "status": before,
            });
            for _start in 0..2 {
                let latest = Latest::default();
                let settled = settle(&latest, &mut instance, &api, &ended);
                prop_assert!(settled.is_some(), "{instance}");
                prop_assert_eq!(settle(&latest, &mut instance, &api, &ended), Some(0));
                // What was dropped is written once more, and never again.
                let later = settle_from(2000, &latest, &mut instance, &api, &ended);
                prop_assert!(later.is_some_and(|writes| writes <= 1), "{instance}");
                let later = settle_from(3000, &latest, &mut instance, &api, &ended);
                prop_assert_eq!(later, Some(0));
            }
        }
    }
}

/// The status of a Deployment has conditions without a value.
#[test]
fn a_status_with_nulls_is_written_once() {
    let drops = Api {
        drops_nulls: true,
        sorts: false,
        prunes: Some("lastTransitionTime".to_owned()),
        defaults: None,
    };
    let status = json!({"parts": [{"size": null, "a": 1}]});
    let mut instance = json!({"metadata": {"uid": "u-1", "generation": 2}, "status": status});
    let latest = Latest::default();
    let settled = settle(&latest, &mut instance, &drops, &Ended::Suspended);
    assert_eq!(settled, Some(1));
    assert_eq!(instance["status"]["parts"], json!([{"a": 1}]));
}

/// An API server drops a field of a schema that it does not serve yet, and tells nobody when it does.
#[test]
fn a_field_that_was_dropped_is_written_once_more() {
    let drops = Api {
        drops_nulls: false,
        sorts: false,
        prunes: Some("parts".to_owned()),
        defaults: None,
    };
    let knows = Api {
        prunes: None,
        ..drops.clone()
    };
    let status = json!({"parts": [1], "state": "ACTIVE"});
    let mut instance = json!({"metadata": {"uid": "u-1", "generation": 2}, "status": status});
    let latest = Latest::default();
    let settled = settle(&latest, &mut instance, &drops, &Ended::Suspended);
    assert_eq!(settled, Some(1));
    assert_eq!(instance["status"].get("parts"), None);
    let settled = settle_from(2000, &latest, &mut instance, &knows, &Ended::Suspended);
    assert_eq!(settled, Some(1));
    assert_eq!(instance["status"]["parts"], json!([1]));
}
