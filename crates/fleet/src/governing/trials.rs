//! Which overrides can be applied to what a policy governs. What is tried once is kept for as long
//! as neither changes: objects are many, and one of them changes at a time.

use std::collections::BTreeMap;
use std::fmt;

use deltaplane_propagation::stages::Targets;
use deltaplane_sync::Version;
use serde_json::Value;

use super::governor::HeadObject;
use super::release::Id;
use super::releasing::asked_about;
use super::render::Patch;

/// What was tried.
#[derive(Default)]
pub(super) struct Trials {
    /// As they are written.
    overrides: Value,
    /// What the policy governs.
    targets: Vec<Targets>,
    /// Nothing for those that cannot be read.
    patches: Vec<Option<Patch>>,
    objects: BTreeMap<Id, Tried>,
}

/// What became of each override.
struct Tried {
    version: Version,
    applied: Vec<Result<bool, String>>,
}

/// An override that cannot be applied, and why.
pub(super) enum TrialProblem<'a> {
    Unreadable {
        place: usize,
    },
    Refused {
        place: usize,
        id: &'a Id,
        why: &'a str,
    },
    ForNothing {
        place: usize,
    },
}

// === impl TrialProblem ===

impl TrialProblem<'_> {
    /// The object that the problem is about, if it is about one.
    pub(super) fn object(&self) -> Option<&Id> {
        match self {
            Self::Refused { id, .. } => Some(id),
            Self::Unreadable { .. } | Self::ForNothing { .. } => None,
        }
    }
}

impl fmt::Display for TrialProblem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { place } => {
                write!(f, "spec.overrides[{place}]: it cannot be read")
            }
            Self::Refused {
                place,
                id: (kind, name),
                why,
            } => write!(
                f,
                "spec.overrides[{place}].patch cannot be applied to {} {name}: {why}",
                kind.kind()
            ),
            Self::ForNothing { place } => write!(
                f,
                "spec.overrides[{place}].patch can be applied to none of the objects that the policy governs"
            ),
        }
    }
}

// === impl Trials ===

impl Trials {
    /// Overrides that cannot be applied.
    pub(super) fn problems(
        &mut self,
        (overrides, targets): (&Value, &[Targets]),
        head: &BTreeMap<Id, HeadObject>,
    ) -> Vec<TrialProblem<'_>> {
        if self.overrides != *overrides || self.targets != targets {
            let written = overrides.as_array().into_iter().flatten();
            *self = Self {
                overrides: overrides.clone(),
                targets: targets.to_vec(),
                patches: written.map(Patch::read).collect(),
                objects: BTreeMap::new(),
            };
        }
        self.bring_up_to_date(head);
        let mut problems = Vec::new();
        for (place, patch) in self.patches.iter().enumerate() {
            if patch.is_none() {
                problems.push(TrialProblem::Unreadable { place });
                continue;
            }
            let mut applies = false;
            for (id, tried) in &self.objects {
                match &tried.applied[place] {
                    Ok(applied) => applies |= applied,
                    Err(why) => {
                        applies = true;
                        problems.push(TrialProblem::Refused { place, id, why });
                    }
                }
            }
            if !applies && !head.is_empty() {
                problems.push(TrialProblem::ForNothing { place });
            }
        }
        problems
    }

    fn bring_up_to_date(&mut self, head: &BTreeMap<Id, HeadObject>) {
        if self.patches.is_empty() {
            return;
        }
        self.objects.retain(|id, tried| {
            let head = head.get(id);
            head.is_some_and(|head| head.version == tried.version)
        });
        for (id, head) in head {
            let (patches, targets) = (&self.patches, &self.targets);
            let tried = self.objects.entry(id.clone());
            tried.or_insert_with(|| Tried::of((patches, targets), id, head));
        }
    }
}

// === impl Tried ===

impl Tried {
    fn of((patches, targets): (&[Option<Patch>], &[Targets]), id: &Id, head: &HeadObject) -> Self {
        let object: Value = serde_json::from_slice(&head.body).unwrap_or_default();
        let applied = patches.iter().map(|patch| {
            let Some(patch) = patch else {
                return Ok(false);
            };
            let mut patched = object.clone();
            let applied = patch.apply((&id.0, &id.1), &mut patched)?;
            match are_for(targets, id, &object) && !are_for(targets, id, &patched) {
                true => Err(LEAVES.to_owned()),
                false => Ok(applied),
            }
        });
        Self {
            version: head.version,
            applied: applied.collect(),
        }
    }
}

/// Zones are asked about what the policy's targets select, of what they have.
const LEAVES: &str = "in zones no selector of spec.targets would be for it any more, and nobody would say how it fares; leave the labels that they go by";

/// Whether zones would be asked about an object.
fn are_for(targets: &[Targets], (kind, name): &Id, object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    let mut asked = targets.iter().filter_map(asked_about);
    asked.any(|target| target.selects(kind, name, |key| labels[key].as_str()))
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

    fn targets(written: &Value) -> Vec<Targets> {
        Targets::read(written).expect("targets")
    }

    fn replacing(field: &str) -> Value {
        let path = format!("/data/{field}");
        let patch = json!([{"op": "replace", "path": path, "value": "other"}]);
        json!([{"targets": [{"kind": "ConfigMap"}], "patch": patch}])
    }

    #[test]
    fn what_zones_get_is_what_they_are_asked_about() {
        // Not one that is in zones.
        let selector = json!({
            "matchLabels": {"deltaplane.io/sync": "true"},
            "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}],
        });
        let labelled = targets(&json!([{"kind": "ConfigMap", "selector": selector}]));
        let labels = json!([{"op": "add", "path": "/metadata/labels", "value": {"old": "yes"}}]);
        let overrides = json!([{ "patch": labels }]);
        let objects = BTreeMap::from([head("a", "1")]);
        let mut trials = Trials::default();
        let found = trials.problems((&overrides, &labelled), &objects);
        let problem = "spec.overrides[0].patch cannot be applied to ConfigMap shop/a";
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, [format!("{problem}: {LEAVES}")]);
        let all = targets(&json!([{"kind": "ConfigMap"}]));
        assert_eq!(trials.problems((&overrides, &all), &objects).len(), 0);
    }

    #[test]
    fn what_did_not_change_is_not_read_again() {
        let all = targets(&json!([{"kind": "ConfigMap"}]));
        let mut trials = Trials::default();
        let mut problems = |field: &str, objects: &BTreeMap<Id, HeadObject>| {
            let found = trials.problems((&replacing(field), &all), objects);
            found.len()
        };
        let mut objects = BTreeMap::from([head("a", "1"), head("b", "1")]);
        assert_eq!(problems("key", &objects), 0);
        // Nothing could be applied to this, if it were read.
        let body: std::sync::Arc<[u8]> = b"{}".to_vec().into();
        for one in objects.values_mut() {
            one.body = body.clone();
        }
        assert_eq!(problems("key", &objects), 0);
        // One that became another is, and so are all for other overrides.
        let (id, mut changed) = head("a", "2");
        changed.body = body;
        objects.insert(id, changed);
        assert_eq!(problems("key", &objects), 1);
        assert_eq!(problems("other", &objects), 2);
        objects.clear();
        assert_eq!(problems("key", &objects), 0);
    }
}
