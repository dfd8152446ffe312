//! Which overrides can be applied to what a policy governs. What is tried once is kept for as long
//! as neither changes: objects are many, and one of them changes at a time.

use std::collections::BTreeMap;

use deltaplane_sync::Version;
use serde_json::Value;

use super::governor::HeadObject;
use super::release::Id;
use super::render::Patch;

/// What was tried.
#[derive(Default)]
pub(super) struct Trials {
    /// As they are written.
    overrides: Value,
    /// Nothing for those that cannot be read.
    patches: Vec<Option<Patch>>,
    objects: BTreeMap<Id, Tried>,
}

/// What became of each override.
struct Tried {
    version: Version,
    applied: Vec<Result<bool, String>>,
}

// === impl Trials ===

impl Trials {
    /// Overrides that cannot be applied.
    pub(super) fn problems(
        &mut self,
        overrides: &Value,
        head: &BTreeMap<Id, HeadObject>,
    ) -> Vec<String> {
        self.bring_up_to_date(overrides, head);
        let mut problems = Vec::new();
        for (place, patch) in self.patches.iter().enumerate() {
            if patch.is_none() {
                problems.push(format!("spec.overrides[{place}]: it cannot be read"));
                continue;
            }
            let mut applies = false;
            for ((kind, name), tried) in &self.objects {
                match &tried.applied[place] {
                    Ok(applied) => applies |= applied,
                    Err(error) => {
                        applies = true;
                        problems.push(format!(
                            "spec.overrides[{place}].patch cannot be applied to {} {name}: {error}",
                            kind.kind()
                        ));
                    }
                }
            }
            if !applies && !head.is_empty() {
                problems.push(format!(
                    "spec.overrides[{place}].patch can be applied to none of the objects that the policy governs"
                ));
            }
        }
        problems
    }

    fn bring_up_to_date(&mut self, overrides: &Value, head: &BTreeMap<Id, HeadObject>) {
        if self.overrides != *overrides {
            self.overrides = overrides.clone();
            let written = overrides.as_array().into_iter().flatten();
            self.patches = written.map(Patch::read).collect();
            self.objects.clear();
        }
        if self.patches.is_empty() {
            return;
        }
        self.objects.retain(|id, tried| {
            let head = head.get(id);
            head.is_some_and(|head| head.version == tried.version)
        });
        for (id, head) in head {
            let patches = &self.patches;
            let tried = self.objects.entry(id.clone());
            tried.or_insert_with(|| Tried::of(patches, id, head));
        }
    }
}

// === impl Tried ===

impl Tried {
    fn of(patches: &[Option<Patch>], (kind, name): &Id, head: &HeadObject) -> Self {
        let object: Value = serde_json::from_slice(&head.body).unwrap_or_default();
        let applied = patches.iter().map(|patch| match patch {
            Some(patch) => patch.apply((kind, name), &mut object.clone()),
            None => Ok(false),
        });
        Self {
            version: head.version,
            applied: applied.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_sync::SyncKind;
    use serde_json::json;

    use super::*;

    fn head(name: &str, value: &str) -> (Id, HeadObject) {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "shop"}, "data": {"key": value},
        });
        let head = HeadObject::of(&object).expect("nothing is smuggled");
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        let name = format!("shop/{name}").parse().expect("legal");
        ((kind, name), head)
    }

    fn replacing(field: &str) -> Value {
        let path = format!("/data/{field}");
        let patch = json!([{"op": "replace", "path": path, "value": "other"}]);
        json!([{"targets": [{"kind": "ConfigMap"}], "patch": patch}])
    }

    #[test]
    fn what_did_not_change_is_not_read_again() {
        let mut trials = Trials::default();
        let mut objects = BTreeMap::from([head("a", "1"), head("b", "1")]);
        assert_eq!(trials.problems(&replacing("key"), &objects).len(), 0);
        // Nothing could be applied to this, if it were read.
        let body: std::sync::Arc<[u8]> = b"{}".to_vec().into();
        for one in objects.values_mut() {
            one.body = body.clone();
        }
        assert_eq!(trials.problems(&replacing("key"), &objects).len(), 0);
        // One that became another is, and so are all for other overrides.
        let (id, mut changed) = head("a", "2");
        changed.body = body;
        objects.insert(id, changed);
        assert_eq!(trials.problems(&replacing("key"), &objects).len(), 1);
        assert_eq!(trials.problems(&replacing("other"), &objects).len(), 2);
        objects.clear();
        assert_eq!(trials.problems(&replacing("key"), &objects).len(), 0);
    }
}
