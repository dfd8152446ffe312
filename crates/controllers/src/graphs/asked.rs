//! What somebody asks for, told from what is said about it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// What objects asked for when they were last seen: all of them but their status.
///
/// Whatever keeps failing is tried less and less often, and may say so in other words each time. That
/// we said it is no reason to try again.
pub(super) struct Asked<K>(BTreeMap<K, u64>);

// === impl Asked ===

impl<K: Ord + Clone> Asked<K> {
    pub(super) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Whether an object asks for something else than before.
    pub(super) fn is_news(&mut self, key: &K, object: &Value) -> bool {
        let now = digest(object);
        self.0.insert(key.clone(), now) != Some(now)
    }

    pub(super) fn forget(&mut self, key: &K) {
        self.0.remove(key);
    }
}

fn digest(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    let fields = object.as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| *name != "status" && *name != "metadata") {
        (name, value).hash(&mut hasher);
    }
    let metadata = object["metadata"].as_object().into_iter().flatten();
    let written = ["resourceVersion", "managedFields"];
    for (name, value) in metadata.filter(|(name, _)| !written.contains(&name.as_str())) {
        (name, value).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_said_about_an_object_is_no_news() {
        let mut asked = Asked::new();
        let mut object = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": 1});
        assert!(asked.is_news(&"a", &object));
        object["status"] = json!("broken");
        object["metadata"]["resourceVersion"] = json!("2");
        assert!(!asked.is_news(&"a", &object));
        object["spec"] = json!(2);
        assert!(asked.is_news(&"a", &object));
        object["metadata"]["deletionTimestamp"] = json!("now");
        assert!(asked.is_news(&"a", &object));
        asked.forget(&"a");
        assert!(asked.is_news(&"a", &object));
    }
}
