//! Whether what came across the border is still as it was applied, by what a watch tells of it.
//!
//! Compared is what sync itself manages, as the API's managed fields say it, and the marks of where
//! an object is from. What others add, an autoscaler's number or a status, is no concern of ours;
//! what they take over is.

use std::hash::{DefaultHasher, Hash, Hasher};

use deltaplane_client::Item;
use deltaplane_sync::{MANAGER, ORIGIN, ObjectName, Revision, SyncKind, Version};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Held, Mirror, State};

/// How an object was when it was applied here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The API's, and not the sender's.
    revision: Revision,
    /// A hash of what of it is sync's. The same for all where the API lets nobody else change that.
    fields: u64,
}

/// What a watch tells of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    There(Stamp),
    /// It is there, and does not say that it came from elsewhere.
    Unmarked(Revision),
    Gone(Revision),
}

/// As much of an object as tells whether it is still as it was applied.
#[derive(Deserialize)]
pub(super) struct Marked {
    metadata: Marks,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Marks {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(default)]
    labels: Option<Labels>,
    #[serde(default)]
    annotations: Option<Annotations>,
    #[serde(default)]
    managed_fields: Option<Vec<Managed>>,
}

#[derive(Default, Deserialize, Hash)]
struct Labels {
    #[serde(default, rename = "deltaplane.io/origin")]
    origin: Option<String>,
    #[serde(default, rename = "deltaplane.io/zone")]
    zone: Option<String>,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(default, rename = "deltaplane.io/version")]
    version: Option<String>,
    #[serde(default, rename = "deltaplane.io/orphaned-from")]
    orphaned: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Managed {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    fields_v1: Option<Box<RawValue>>,
}

/// What is to be thought of what was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// As it should be, or older than what is known.
    Fine,
    /// Nothing was known of how it was: it was here before this process.
    First(Stamp),
    Altered,
    Lost,
}

// === impl Mirror ===

impl Mirror {
    /// A watch told this of an object, of which nothing is being written. Whether it is not any
    /// more as it should be, and was before: somebody must bring it back.
    pub fn told(&self, kind: &SyncKind, name: &ObjectName, told: Told) -> bool {
        self.state.lock().told(kind, name, told)
    }

    /// What an event of a watch says of an object that is there.
    pub fn there(&self, item: &Item) -> Told {
        let revision = item.header.resource_version.parse().unwrap_or(0);
        if !item.header.labels.contains_key(ORIGIN) {
            return Told::Unmarked(revision);
        }
        let fields = match self.config.guarded {
            true => 0,
            false => item.parse::<Marked>().map_or(0, |marked| marked.fields()),
        };
        Told::There(Stamp { revision, fields })
    }

    /// The objects of a kind that a watch is to tell of: those that came, and those that were here
    /// already and do as well.
    pub fn watched(&self, kind: &SyncKind) -> Vec<ObjectName> {
        let state = self.state.lock();
        let held = state
            .held
            .get(kind)
            .into_iter()
            .flat_map(|held| held.keys());
        let yielded = state.yielded.get(kind).into_iter().flatten();
        held.chain(yielded).cloned().collect()
    }
}

// === impl State ===

impl State {
    fn told(&mut self, kind: &SyncKind, name: &ObjectName, told: Told) -> bool {
        let yielded = self.yielded.get_mut(kind);
        if matches!(told, Told::Gone(_)) && yielded.is_some_and(|names| names.remove(name)) {
            return true;
        }
        let Some(of_kind) = self.held.get_mut(kind) else {
            return false;
        };
        let Some(held) = of_kind.get_mut(name) else {
            return false;
        };
        match judge(held, told) {
            Verdict::Fine => false,
            Verdict::First(stamp) => {
                held.stamp = Some(stamp);
                false
            }
            Verdict::Altered => {
                held.version = Version::altered();
                true
            }
            Verdict::Lost => {
                of_kind.remove(name);
                true
            }
        }
    }
}

fn judge(held: &Held, told: Told) -> Verdict {
    let newer = |revision: Revision| held.stamp.is_none_or(|stamp| revision >= stamp.revision);
    match told {
        Told::Gone(revision) | Told::Unmarked(revision) if newer(revision) => Verdict::Lost,
        Told::Gone(_) | Told::Unmarked(_) => Verdict::Fine,
        // It is known that it is not.
        Told::There(_) if held.version == Version::altered() => Verdict::Fine,
        Told::There(stamp) => match held.stamp {
            None => Verdict::First(stamp),
            Some(known) if stamp.revision < known.revision => Verdict::Fine,
            Some(known) if stamp.fields == known.fields => Verdict::Fine,
            Some(_) => Verdict::Altered,
        },
    }
}

// === impl Marked ===

impl Marked {
    /// How an object is that was just applied.
    pub(super) fn stamp(&self, guarded: bool) -> Stamp {
        Stamp {
            revision: self.metadata.resource_version.parse().unwrap_or(0),
            fields: match guarded {
                true => 0,
                false => self.fields(),
            },
        }
    }

    pub(super) fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it says that sync left it to whoever is here.
    pub(super) fn is_left(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.orphaned.is_some())
    }

    /// A hash of what is sync's. The fields are read, because the same ones may be written
    /// differently; when and in which version they were applied does not matter.
    fn fields(&self) -> u64 {
        let Marks {
            labels,
            annotations,
            managed_fields,
            ..
        } = &self.metadata;
        let mut hasher = DefaultHasher::new();
        labels.hash(&mut hasher);
        let version = annotations.as_ref().map(|one| &one.version);
        version.hash(&mut hasher);
        let managed = managed_fields.iter().flatten();
        for managed in managed.filter(|one| one.manager == MANAGER && one.operation == "Apply") {
            let fields = managed.fields_v1.as_ref().map(|fields| fields.get());
            let fields: Value = serde_json::from_str(fields.unwrap_or("null")).unwrap_or_default();
            fields.to_string().hash(&mut hasher);
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_sync::{VERSION, ZONE};
    use serde_json::json;

    use super::*;

    fn stamp(revision: Revision, fields: u64) -> Stamp {
        Stamp { revision, fields }
    }

    fn held(stamp: Option<Stamp>) -> Held {
        Held {
            version: "1f".repeat(32).parse().expect("a version"),
            source: None,
            stamp,
        }
    }

    /// What is thought of an object that was applied at revision 5.
    #[test]
    fn what_differs_from_what_was_applied_is_told_from_what_is_old() {
        let there = |revision, fields| Told::There(stamp(revision, fields));
        let check = |told: Told, expected: Verdict| {
            assert_eq!(judge(&held(Some(stamp(5, 1))), told), expected, "{told:?}");
        };
        check(there(5, 1), Verdict::Fine);
        check(there(6, 1), Verdict::Fine);
        check(there(6, 2), Verdict::Altered);
        check(there(4, 2), Verdict::Fine);
        check(Told::Gone(6), Verdict::Lost);
        check(Told::Gone(4), Verdict::Fine);
        check(Told::Unmarked(6), Verdict::Lost);
        check(Told::Unmarked(4), Verdict::Fine);
    }

    #[test]
    fn what_was_here_before_is_taken_as_it_is() {
        let told = Told::There(stamp(3, 7));
        assert_eq!(judge(&held(None), told), Verdict::First(stamp(3, 7)));
        assert_eq!(judge(&held(None), Told::Gone(3)), Verdict::Lost);
    }

    #[test]
    fn what_is_altered_is_found_once_and_may_still_go() {
        let altered = Held {
            version: Version::altered(),
            ..held(Some(stamp(5, 1)))
        };
        let told = Told::There(stamp(7, 3));
        assert_eq!(judge(&altered, told), Verdict::Fine);
        assert_eq!(judge(&altered, Told::Gone(8)), Verdict::Lost);
    }

    type Change = fn(&mut Value);

    /// What is sync's of an object that sync applied, as others left its metadata.
    fn fields(change: Change) -> u64 {
        let mut metadata = json!({
            "name": "a", "resourceVersion": "7",
            "labels": {ORIGIN: "hub", "app": "web"},
            "annotations": {VERSION: "1f"},
            "managedFields": [
                {"manager": MANAGER, "operation": "Apply", "time": "2026-01-01T00:00:00Z",
                 "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}},
                {"manager": "scaler", "operation": "Update", "fieldsV1": {"f:x": {}}},
            ],
        });
        change(&mut metadata);
        let text = json!({"metadata": metadata}).to_string();
        let marked: Marked = serde_json::from_str(&text).expect("marks");
        marked.fields()
    }

    #[test]
    fn what_others_add_does_not_count() {
        let changes: [(&str, Change); 5] = [
            ("label", |it| it["labels"]["app"] = "other".into()),
            ("annotation", |it| it["annotations"]["note"] = "mine".into()),
            ("time", |it| it["managedFields"][0]["time"] = "2027".into()),
            ("others' fields", |it| {
                it["managedFields"][1]["fieldsV1"] = json!({"f:y": {}});
            }),
            ("another manager", |it| {
                let other = json!({"manager": "x", "operation": "Apply", "fieldsV1": {"f:z": {}}});
                let managed = it["managedFields"].as_array_mut();
                managed.expect("a list").push(other);
            }),
        ];
        let same = fields(|_| {});
        for (what, change) in changes {
            assert_eq!(fields(change), same, "{what}");
        }
    }

    #[test]
    fn what_others_take_over_counts() {
        let changes: [(&str, Change); 6] = [
            ("origin", |it| it["labels"][ORIGIN] = "zone".into()),
            ("zone", |it| it["labels"][ZONE] = "eu-1".into()),
            ("version", |it| it["annotations"][VERSION] = "2f".into()),
            ("no version", |it| it["annotations"] = Value::Null),
            ("a field", |it| {
                it["managedFields"][0]["fieldsV1"] = json!({"f:data": {"f:a": {}}});
            }),
            ("all fields", |it| it["managedFields"] = Value::Null),
        ];
        let same = fields(|_| {});
        for (what, change) in changes {
            assert_ne!(fields(change), same, "{what}");
        }
    }
}
