//! Whether what was left to whoever is here is still as it was left. Pure.
//!
//! It may be taken back as long as nobody changed it: as long as it is what it was, or as the
//! fields that sync applied are still sync's. Either is enough: an autoscaler changes what it is,
//! and who changes something and changes it back takes the field over.

use serde_json::{Value, json};

use crate::crossing::{Crossing, crosses};
use crate::ownership::{is_managed_entry, synced_keys};
use crate::version::Version;

/// The annotation of an object that was left, with how it was then.
pub const ORPHANED_AS: &str = "deltaplane.io/orphaned-as";

/// How an object is.
struct Likeness {
    content: String,
    /// What of it is sync's.
    share: String,
}

/// How an object is, to be written on it when it is left.
pub fn likeness(object: &Value) -> String {
    let Likeness { content, share } = Likeness::of(object);
    format!("{content}.{share}")
}

/// The version in which sync applied an object.
pub fn applied_version(object: &Value) -> Option<&str> {
    let mut applied = applied(object);
    applied.next()?["apiVersion"].as_str()
}

/// Whether the content of an object is what it was when it was left.
pub fn has_its_content(object: &Value) -> bool {
    let was = Likeness::was(object);
    was.is_some_and(|was| was.content == Likeness::of(object).content)
}

/// Whether somebody changed an object since it was left. One that does not say how it was is
/// taken for what it was.
pub(crate) fn is_changed(object: &Value) -> bool {
    if object["metadata"]["annotations"].get(ORPHANED_AS).is_none() {
        return false;
    }
    let now = Likeness::of(object);
    Likeness::was(object).is_none_or(|was| was.content != now.content && was.share != now.share)
}

// === impl Likeness ===

impl Likeness {
    fn of(object: &Value) -> Self {
        let content = Crossing::of(object).map_or_else(|_| Version::altered(), |one| one.version());
        let share = Version::of(share(object).to_string().as_bytes());
        Self {
            content: content.short(),
            share: share.short(),
        }
    }

    /// As an object says that it was.
    fn was(object: &Value) -> Option<Self> {
        let was = object["metadata"]["annotations"][ORPHANED_AS].as_str()?;
        let (content, share) = was.split_once('.')?;
        let (content, share) = (content.to_owned(), share.to_owned());
        Some(Self { content, share })
    }
}

/// What is said of the fields that sync applied.
fn applied(object: &Value) -> impl Iterator<Item = &Value> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    entries.filter(|entry| is_managed_entry(entry) && entry["operation"] == "Apply")
}

/// The fields that sync applied and nobody took over, but for its own marks.
fn share(object: &Value) -> Value {
    // Nothing is said any more of who applied nothing but marks.
    let fields = applied(object).filter_map(|entry| {
        let mut fields = entry["fieldsV1"].as_object()?.clone();
        fields.remove("f:metadata");
        (!fields.is_empty()).then_some(fields)
    });
    let keys = |place: &str| {
        let mut keys = synced_keys(object, place);
        keys.retain(|key| crosses(key));
        keys.sort();
        keys
    };
    json!({
        "fields": fields.collect::<Vec<_>>(),
        "labels": keys("labels"),
        "annotations": keys("annotations"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object that sync applied, and left.
    fn left() -> Value {
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a", "labels": {"app": "web"},
                "managedFields": [{
                    "manager": "deltaplane-sync", "operation": "Apply",
                    "fieldsV1": {
                        "f:data": {"f:a": {}, "f:b": {}},
                        "f:metadata": {
                            "f:labels": {"f:app": {}, "f:deltaplane.io/origin": {}},
                            "f:annotations": {"f:deltaplane.io/version": {}},
                        },
                    },
                }],
            },
            "data": {"a": "1", "b": "1"},
        });
        object["metadata"]["annotations"] = json!({ORPHANED_AS: likeness(&object)});
        let metadata = &mut object["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"];
        *metadata = json!({"f:labels": {"f:app": {}}});
        object
    }

    fn taken_over(object: &mut Value, place: &str, field: &str) {
        let fields = &mut object["metadata"]["managedFields"][0]["fieldsV1"];
        let fields = fields.pointer_mut(place).and_then(Value::as_object_mut);
        let taken = fields.and_then(|fields| fields.remove(field));
        assert!(taken.is_some(), "sync's at first");
    }

    #[test]
    fn what_was_left_is_known_again() {
        let check = |what: &str, changed: bool, change: &dyn Fn(&mut Value)| {
            let mut object = left();
            change(&mut object);
            assert_eq!(is_changed(&object), changed, "{what}");
        };
        check("nothing", false, &|_| {});
        check("the server's notes", false, &|object| {
            object["metadata"]["resourceVersion"] = "7".into();
            object["status"] = json!({"ready": true});
        });
        check("a field that is not sync's", false, &|object| {
            object["data"]["c"] = "1".into();
        });
        check("a value", true, &|object| {
            object["data"]["a"] = "2".into();
            taken_over(object, "/f:data", "f:a");
        });
        check("a value, and back", false, &|object| {
            taken_over(object, "/f:data", "f:a");
        });
        check("a field that is gone", true, &|object| {
            object["data"] = json!({"a": "1"});
            taken_over(object, "/f:data", "f:b");
        });
        check("a label", true, &|object| {
            object["metadata"]["labels"]["app"] = "shop".into();
            taken_over(object, "/f:metadata/f:labels", "f:app");
        });
        check("how it was", false, &|object| {
            object["metadata"]["annotations"] = Value::Null;
            object["data"]["a"] = "2".into();
        });
        check(
            "what sync did not say, of one that has nothing",
            false,
            &|object| {
                let mut empty = left();
                empty["data"] = json!({});
                empty["metadata"]["labels"] = json!({});
                let entry = &mut empty["metadata"]["managedFields"][0];
                entry["fieldsV1"] =
                    json!({"f:metadata": {"f:labels": {"f:deltaplane.io/origin": {}}}});
                empty["metadata"]["annotations"] = json!({ORPHANED_AS: likeness(&empty)});
                empty["metadata"]["managedFields"] = json!([]);
                empty["metadata"]["labels"] = json!({"noted": "here"});
                *object = empty;
            },
        );
        check("what says how it was", true, &|object| {
            object["metadata"]["annotations"][ORPHANED_AS] = "?".into();
        });
    }
}
