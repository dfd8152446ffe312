//! What is different in some zones: overrides, applied to what is the same in all. Pure.

use deltaplane_api::selector::LabelSelector;
use deltaplane_apiserver::apply_json_patch;
use deltaplane_propagation::stages::{Class, Object, Targets};
use deltaplane_sync::{Crossing, Item, ObjectName, SyncKind, is_secret};
use serde_json::Value;

use super::release::selector;
use crate::policing::is_protected;

/// An override of a release.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    pub(crate) zones: LabelSelector,
    targets: Vec<Targets>,
    operations: json_patch::Patch,
}

// === impl Patch ===

impl Patch {
    /// As a release, or a policy, has it.
    pub(crate) fn read(written: &Value) -> Option<Self> {
        let targets = match written.get("targets") {
            None => Vec::new(),
            Some(targets) => Targets::read(targets)?,
        };
        Some(Self {
            zones: selector(&written["zones"])?,
            targets,
            operations: serde_json::from_value(written["patch"].clone()).ok()?,
        })
    }

    /// Returns true if it is for an object, whatever the labels of that are.
    pub(crate) fn may_change(&self, (kind, name): (&SyncKind, &ObjectName)) -> bool {
        let fields = serde_json::Map::new();
        let about = Object {
            group: kind.group(),
            kind: kind.kind(),
            namespace: name.namespace(),
            name: name.name(),
            object: &fields,
        };
        let mut targets = self.targets.iter();
        self.targets.is_empty() || targets.any(|one| one.may_include(&about))
    }

    /// Changes an object. One without targets is for all that it can be applied to; whether that
    /// is so for this one.
    pub(crate) fn apply(
        &self,
        (kind, name): (&SyncKind, &ObjectName),
        object: &mut Value,
    ) -> Result<bool, String> {
        let fields = object.as_object().cloned().unwrap_or_default();
        let about = Object {
            group: kind.group(),
            kind: kind.kind(),
            namespace: name.namespace(),
            name: name.name(),
            object: &fields,
        };
        let meant = self.targets.iter().any(|targets| targets.include(&about));
        if !self.targets.is_empty() && !meant {
            return Ok(false);
        }
        // A policy of before this was refused may still say so.
        if is_protected(kind.group(), kind.kind()) {
            return match meant {
                true => Err(format!(
                    "overrides cannot target objects of kind {}",
                    kind.kind()
                )),
                false => Ok(false),
            };
        }
        let mut patched = object.clone();
        match apply_json_patch(&self.operations, &mut patched) {
            Ok(()) if identity(&patched) != identity(object) => {
                Err("overrides cannot change the name, namespace or kind of an object".to_owned())
            }
            Ok(()) => {
                *object = patched;
                Ok(true)
            }
            Err(_) if !meant => Ok(false),
            // The message may tell what is in it.
            Err(_) if is_secret(kind) => Err("the patch does not fit the Secret".to_owned()),
            Err(error) => Err(error.message),
        }
    }
}

/// What says which object it is.
fn identity(object: &Value) -> [&Value; 4] {
    let metadata = &object["metadata"];
    let [name, namespace] = ["name", "namespace"].map(|field| &metadata[field]);
    [&object["apiVersion"], &object["kind"], name, namespace]
}

/// What zones of a class get of an object.
pub(crate) fn render(
    (kind, name): (&SyncKind, &ObjectName),
    body: &[u8],
    patches: &[Patch],
    class: Class,
) -> Result<Item, String> {
    let mut object: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    for place in class.places() {
        if let Some(patch) = patches.get(place) {
            let applied = patch.apply((kind, name), &mut object);
            applied.map_err(|error| format!("spec.overrides[{place}]: {error}"))?;
        }
    }
    let crossing = Crossing::of(&object).map_err(|error| error.to_string())?;
    let body = serde_json::to_vec(crossing.object()).map_err(|error| error.to_string())?;
    Ok(Item {
        version: crossing.version(),
        body: body.into(),
        relayed: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn copies_of_copies_do_not_grow_without_end() {
        let twice =
            |name: usize| json!({"op": "copy", "from": "/data", "path": format!("/data/{name}")});
        let operations: Vec<Value> = (0..16).map(twice).collect();
        let patch = json!({"targets": [{"kind": "ConfigMap"}], "patch": operations});
        let patch = Patch::read(&patch).expect("a patch");
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        let name: ObjectName = "team/a".parse().expect("legal");
        let before = json!({"metadata": {"name": "a"}, "data": {"text": "x".repeat(1 << 10)}});
        let mut object = before.clone();
        let refused = patch.apply((&kind, &name), &mut object);
        assert!(refused.is_err_and(|why| why.contains("copy")));
        assert_eq!(object, before, "nothing of it is done");
    }

    #[test]
    fn a_patch_that_does_not_fit_quotes_no_secret() {
        let name: ObjectName = "team/a".parse().expect("legal");
        let patch = json!([{"op": "test", "path": "/data/hunter2", "value": "x"}]);
        let patch = json!({"targets": [{"kind": "Secret"}, {"kind": "ConfigMap"}], "patch": patch});
        let patch = Patch::read(&patch).expect("a patch");
        let why = |kind: &str| {
            let of = SyncKind::new("", kind).expect("legal");
            let mut object = json!({"kind": kind, "data": {"hunter2": "y"}});
            patch
                .apply((&of, &name), &mut object)
                .expect_err("it does not fit")
        };
        assert_eq!(why("Secret"), "the patch does not fit the Secret");
        assert!(why("ConfigMap").contains("hunter2"), "{}", why("ConfigMap"));
    }

    #[test]
    fn an_object_is_called_what_it_is_called() {
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        let name: ObjectName = "team/a".parse().expect("legal");
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "team"},
        });
        for patch in [
            json!([{"op": "replace", "path": "/metadata", "value": {}}]),
            json!([{"op": "move", "from": "/metadata/name", "path": "/data"}]),
            json!([{"op": "replace", "path": "/kind", "value": "Secret"}]),
        ] {
            let patch = Patch::read(&json!({ "patch": patch })).expect("a patch");
            let applied = patch.apply((&kind, &name), &mut object.clone());
            let why = "overrides cannot change the name, namespace or kind of an object".to_owned();
            assert_eq!(applied, Err(why));
        }
    }
}
