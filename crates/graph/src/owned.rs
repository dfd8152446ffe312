//! Whether a manager still owns what it applied, by the managed fields of an object.

use serde_json::{Map, Value as Json};

/// Whether all that was applied is among the fields: what somebody else changed or removed is not.
pub(crate) fn holds(fields: &Json, applied: &Json) -> bool {
    let (Some(fields), Some(applied)) = (fields.as_object(), applied.as_object()) else {
        return false;
    };
    applied.iter().all(|(key, value)| match key.as_str() {
        // These belong to nobody.
        "apiVersion" | "kind" => true,
        "metadata" => metadata(fields, value),
        key => field(fields, key, value),
    })
}

fn metadata(fields: &Map<String, Json>, applied: &Json) -> bool {
    let Some(fields) = fields.get("f:metadata").and_then(Json::as_object) else {
        return false;
    };
    let mut applied = applied.as_object().into_iter().flatten();
    applied.all(|(key, value)| {
        matches!(key.as_str(), "name" | "namespace") || field(fields, key, value)
    })
}

fn field(fields: &Map<String, Json>, key: &str, value: &Json) -> bool {
    match fields.get(&format!("f:{key}")) {
        Some(fields) => value_holds(fields, value),
        // There is nothing in it to own.
        None => is_empty(value),
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Array(items) => items.is_empty(),
        Json::Object(map) => map.values().all(is_empty),
        Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    }
}

/// What is nested is bounded by what objects may be.
fn value_holds(fields: &Json, value: &Json) -> bool {
    let Some(fields) = fields.as_object().filter(|fields| !fields.is_empty()) else {
        // It is owned as a whole.
        return true;
    };
    match value {
        Json::Object(map) => map.iter().all(|(key, value)| field(fields, key, value)),
        Json::Array(items) => items.iter().all(|item| item_holds(fields, item)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => true,
    }
}

/// An item of a list is found by its keys (`k:{"name":"web"}`), or by its value (`v:"web"`).
fn item_holds(fields: &Map<String, Json>, item: &Json) -> bool {
    if !item.is_object() {
        return fields.contains_key(&format!("v:{item}"));
    }
    fields.iter().any(|(name, fields)| {
        let keys = name.strip_prefix("k:");
        let keys = keys.and_then(|keys| serde_json::from_str::<Map<String, Json>>(keys).ok());
        let same = |(key, value): (&String, &Json)| item.get(key).is_none_or(|own| own == value);
        keys.is_some_and(|keys| keys.iter().all(same)) && value_holds(fields, item)
    })
}

/// What the manager applied to an object, which is as it was applied: of every field that it owns,
/// what is there.
pub fn extract(fields: &Json, object: &Json) -> Json {
    let mut applied = part(fields, object);
    for key in ["apiVersion", "kind"] {
        applied[key] = object[key].clone();
    }
    for key in ["name", "namespace"] {
        if let Some(value) = object["metadata"].get(key) {
            applied["metadata"][key] = value.clone();
        }
    }
    applied
}

fn part(fields: &Json, value: &Json) -> Json {
    let Some(fields) = fields.as_object().filter(|fields| !fields.is_empty()) else {
        // It is owned as a whole.
        return value.clone();
    };
    match value {
        Json::Object(map) => {
            let owned = |(key, value): (&String, &Json)| {
                let fields = fields.get(&format!("f:{key}"))?;
                Some((key.clone(), part(fields, value)))
            };
            Json::Object(map.iter().filter_map(owned).collect())
        }
        Json::Array(items) => items
            .iter()
            .filter_map(|item| item_part(fields, item))
            .collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value.clone(),
    }
}

/// What is owned of an item of a list. What finds it belongs to it.
fn item_part(fields: &Map<String, Json>, item: &Json) -> Option<Json> {
    if !item.is_object() {
        return fields
            .contains_key(&format!("v:{item}"))
            .then(|| item.clone());
    }
    fields.iter().find_map(|(name, fields)| {
        let keys: Map<String, Json> = serde_json::from_str(name.strip_prefix("k:")?).ok()?;
        let same = keys.iter().all(|(key, value)| item.get(key) == Some(value));
        same.then(|| {
            let mut part = part(fields, item);
            for (key, value) in keys {
                part[key] = value;
            }
            part
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(fields: Json, expected: bool) {
        let applied = json!({
            "apiVersion": "v1", "kind": "Thing",
            "metadata": {"name": "a", "labels": {"app": "a"}},
            "spec": {
                "replicas": 2, "empty": {}, "args": ["x"],
                "containers": [{"name": "web", "image": "nginx", "ports": [{"port": 80}]}],
                "tags": ["t"],
            },
        });
        assert_eq!(holds(&fields, &applied), expected);
    }

    #[test]
    fn what_somebody_else_changed_is_not_owned_any_more() {
        let all = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:replicas": {}, "f:args": {},
                "f:containers": {"k:{\"name\":\"web\"}": {
                    ".": {}, "f:name": {}, "f:image": {},
                    "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
                }},
                "f:tags": {"v:\"t\"": {}, "v:\"u\"": {}},
            },
        });
        check(all.clone(), true);
        for gone in [
            "/f:metadata/f:labels/f:app",
            "/f:spec/f:replicas",
            "/f:spec/f:containers/k:{\"name\":\"web\"}/f:image",
            "/f:spec/f:tags/v:\"t\"",
        ] {
            let mut less = all.clone();
            let (parent, key) = gone.rsplit_once('/').expect("a path");
            let parent = less.pointer_mut(parent).and_then(Json::as_object_mut);
            parent.expect("there").remove(key).expect("there");
            check(less, false);
        }
        check(json!({}), false);
        check(Json::Null, false);
    }

    #[test]
    fn what_was_applied_is_found_in_what_is_there() {
        let object = json!({
            "apiVersion": "v1", "kind": "Thing",
            "metadata": {"name": "a", "uid": "1", "labels": {"ours": "1", "theirs": "2"}},
            "spec": {
                "replicas": 2, "defaulted": true, "set": ["x", "y"], "whole": {"a": [1]},
                "ports": [{"name": "web", "port": 80, "theirs": 1}, {"name": "other"}],
            },
            "status": {"ready": true},
        });
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:ours": {}}},
            "f:spec": {
                "f:replicas": {}, "f:set": {"v:\"y\"": {}}, "f:whole": {}, "f:gone": {},
                "f:ports": {"k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:port": {}}},
            },
        });
        let applied = json!({
            "apiVersion": "v1", "kind": "Thing",
            "metadata": {"name": "a", "labels": {"ours": "1"}},
            "spec": {
                "replicas": 2, "set": ["y"], "whole": {"a": [1]},
                "ports": [{"name": "web", "port": 80}],
            },
        });
        assert_eq!(extract(&fields, &object), applied);
        let left: Json = json!({"f:metadata": fields["f:metadata"], "f:spec": {"f:replicas": {}}});
        assert!(!holds(&left, &applied));
    }
}
