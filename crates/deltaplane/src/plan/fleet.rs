//! Who governs what, and what crosses: from the hub's own objects. Pure.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_fleet::difference::{Field, difference};
use deltaplane_fleet::kinds::{GROUP, SyncedKind};
use deltaplane_fleet::stays_at_hub;
use deltaplane_propagation::stages::{Object, PolicySpec, Targets};
use serde_json::{Value, json};

use super::cascade::{CascadedObjects, MAX_CASCADED};
use super::change::{Changed, Deleted, group, identity, is_from_zone};

/// What the hub has of its own kinds.
pub(super) struct Fleet {
    /// The oldest first.
    policies: Vec<Governs>,
    synced: Vec<SyncedKind>,
    pub(super) zones: Vec<Value>,
}

/// The deletions that a plan of a policy is made for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedDeletions {
    pub(super) objects: Vec<Value>,
    /// More objects of the policy may be deleted than one plan takes.
    pub(super) has_more: bool,
}

#[derive(Clone)]
struct Governs {
    name: String,
    targets: Vec<Targets>,
}

/// Fields that servers write, which are no news.
const WRITTEN: [&str; 5] = [
    "metadata.generation",
    "metadata.resourceVersion",
    "metadata.managedFields",
    "metadata.creationTimestamp",
    "metadata.uid",
];
const IMPLIED: [(&str, &str); 2] = [
    ("", "Namespace"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
];

// === impl Fleet ===

impl Fleet {
    pub(super) fn new(mut policies: Vec<Value>, synced: &[Value], zones: Vec<Value>) -> Self {
        policies.sort_by_key(|policy| {
            let metadata = &policy["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            (text("creationTimestamp"), text("name"))
        });
        let synced = synced.iter().filter_map(|one| SyncedKind::of(one).ok());
        Self {
            policies: policies.iter().map(Governs::read).collect(),
            synced: synced.collect(),
            zones,
        }
    }

    pub(super) fn has_policy(&self, name: &str) -> bool {
        self.policies.iter().any(|policy| policy.name == name)
    }

    /// The policies as they would be: those that are given as they are written; new ones are the
    /// youngest.
    fn policies_after(&self, own: &BTreeMap<&str, &Changed>) -> Vec<Governs> {
        let given = |change: &&Changed| Governs::read(&change.stored);
        let known = self.policies.iter().map(|policy| {
            let given = own.get(policy.name.as_str()).map(given);
            given.unwrap_or_else(|| policy.clone())
        });
        let new = own
            .values()
            .filter(|change| !self.has_policy(change.name()));
        known.chain(new.map(given)).collect()
    }

    /// The policy that governs an object, if one does.
    fn governor<'p>(&self, policies: &'p [Governs], object: &Value) -> Option<&'p str> {
        if !self.crosses(object) {
            return None;
        }
        let mut policies = policies.iter();
        let policy = policies.find(|policy| includes(&policy.targets, object))?;
        Some(&policy.name)
    }

    /// Whether zones get an object.
    pub(super) fn crosses(&self, object: &Value) -> bool {
        let (group, kind) = (group(object), object["kind"].as_str().unwrap_or_default());
        let mut synced = self.synced.iter();
        synced.any(|one| {
            one.kind.group() == group
                && one.kind.kind() == kind
                && one.goes_down()
                && one.selects(object)
        })
    }

    /// The policies that have to do with a change, in their order: those that govern something of
    /// it, did, or are changed themselves; then those that are new.
    pub(super) fn concerned(
        &self,
        changes: &[Changed],
        deletions: &[Deleted],
        own: &BTreeMap<&str, &Changed>,
    ) -> Vec<String> {
        let before = changes.iter().filter_map(|change| change.live.as_ref());
        let deleted = deletions.iter().flat_map(Deleted::objects);
        let before = before.chain(deleted);
        let before = before.filter_map(|object| self.governor(&self.policies, object));
        let policies = self.policies_after(own);
        let after = changes.iter().map(|change| &change.stored);
        let after = after.filter_map(|object| self.governor(&policies, object));
        let governing = before.chain(after);
        let governing: BTreeSet<&str> = governing.chain(own.keys().copied()).collect();
        let known = self.policies.iter().map(|policy| policy.name.as_str());
        let known = known.filter(|name| governing.contains(name));
        let new = own.keys().copied().filter(|name| !self.has_policy(name));
        known.chain(new).map(str::to_owned).collect()
    }

    /// What is posted to policies.
    pub(super) fn objects<'c>(&self, changes: &'c [Changed]) -> Vec<&'c Value> {
        let objects = changes.iter().map(|change| &change.stored);
        objects.filter(|object| group(object) != GROUP).collect()
    }

    /// What no policy has to do with: where it goes, and what changes at the hub.
    pub(super) fn others(
        &self,
        changes: &[Changed],
        deletions: &[Deleted],
        own: &BTreeMap<&str, &Changed>,
    ) -> Vec<Value> {
        let policies = self.policies_after(own);
        let changed = changes.iter().filter(|change| !change.is_policy());
        let changed = changed.filter(|change| self.governor(&policies, &change.stored).is_none());
        let changed = changed.map(|change| {
            let (live, stored) = (change.live.as_ref(), Some(&change.stored));
            let mut other = self.other(&change.stored, live, stored);
            other["note"] = change.note.as_deref().into();
            let mut warnings = change.warnings.iter();
            if let Some(why) = warnings.find_map(|warning| stays_at_hub(warning)) {
                other["goes"] = format!("stays at the hub, because {why}").into();
            }
            other
        });
        // Who governs it now takes it away.
        let deleted = deletions
            .iter()
            .filter(|one| self.governor(&self.policies, &one.live).is_none());
        let deleted = deleted.map(|Deleted { live, cascade, .. }| {
            let mut other = self.other(live, Some(live), None);
            if is_implied(live) && !self.crosses(live) {
                other["goes"] = "zones that have it keep it".into();
            }
            other["cascade"] = cascade
                .as_ref()
                .map(|cascade| self.tell_cascade(cascade))
                .into();
            other
        });
        changed.chain(deleted).collect()
    }

    /// Counts what goes along with a deletion.
    fn tell_cascade(&self, cascade: &CascadedObjects) -> Value {
        let count =
            |is: &dyn Fn(&Value) -> bool| cascade.objects.iter().filter(|one| is(one)).count();
        let crosses = |one: &Value| !is_from_zone(one) && self.crosses(one);
        json!({
            "objects": cascade.objects.len(),
            // All counts are of the objects that were listed.
            "more": cascade.has_more,
            "crossing": count(&crosses),
            "governed": count(&|one| {
                crosses(one) && self.governor(&self.policies, one).is_some()
            }),
            "fromZones": count(&is_from_zone),
            "unlisted": cascade.unlisted,
        })
    }

    /// The objects of a policy that would be deleted, and those that are deleted by their names.
    pub(super) fn deletions(&self, policy: &str, deletions: &[Deleted]) -> PlannedDeletions {
        let named = deletions.iter().map(Deleted::json);
        let cascade = deletions
            .iter()
            .flat_map(|deletion| deletion.objects().skip(1));
        let mut cascade = cascade
            .filter(|object| self.governor(&self.policies, object) == Some(policy))
            .map(identity);
        let objects: Vec<Value> = named.chain(cascade.by_ref().take(MAX_CASCADED)).collect();
        let is_unlisted = |one: &Deleted| one.cascade.as_ref().is_some_and(|all| all.has_more);
        PlannedDeletions {
            has_more: cascade.next().is_some() || deletions.iter().any(is_unlisted),
            objects,
        }
    }

    fn other(&self, object: &Value, live: Option<&Value>, stored: Option<&Value>) -> Value {
        let mut said = identity(object);
        let mut fields = match stored {
            Some(_) => difference(live, stored),
            None => Vec::new(),
        };
        fields.retain(Field::is_users);
        let change = match (live, stored) {
            (None, _) => "Added",
            (Some(_), None) => "Removed",
            (Some(_), Some(_)) if fields.is_empty() => "Unchanged",
            (Some(_), Some(_)) => "Changed",
        };
        said["change"] = change.into();
        said["fields"] = fields.iter().map(Field::json).collect();
        said["goes"] = self.goes(object).into();
        said
    }

    /// Where an object goes that no policy governs.
    fn goes(&self, object: &Value) -> String {
        if is_implied(object) {
            return "goes where something needs it".to_owned();
        }
        if !self.crosses(object) {
            return "stays at the hub".to_owned();
        }
        let enabled = self.zones.iter();
        let enabled = enabled.filter(|zone| zone["spec"]["enabled"] != false);
        match enabled.count() {
            1 => "goes to the one enabled zone at once".to_owned(),
            count => format!("goes to all {count} enabled zones at once"),
        }
    }
}

fn is_implied(object: &Value) -> bool {
    let kind = (group(object), object["kind"].as_str().unwrap_or_default());
    IMPLIED.contains(&kind)
}

/// Whether an object is among targets.
pub(super) fn includes(targets: &[Targets], object: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let (kind, namespace) = (text(&object["kind"]), text(&metadata["namespace"]));
    let name = text(&metadata["name"]);
    let Some(fields) = object.as_object() else {
        return false;
    };
    let about = Object {
        group: group(object),
        kind: &kind,
        namespace: &namespace,
        name: &name,
        object: fields,
    };
    targets.iter().any(|targets| targets.include(&about))
}

// === impl Governs ===

impl Governs {
    fn read(policy: &Value) -> Self {
        let spec: Result<PolicySpec, _> = serde_json::from_value(policy["spec"].clone());
        let name = policy["metadata"]["name"].as_str().unwrap_or_default();
        Self {
            name: name.to_owned(),
            targets: spec.map_or_else(|_| Vec::new(), |spec| Targets::of(&spec.targets)),
        }
    }
}

/// Tells what people write from what servers do.
trait Users {
    fn is_users(&self) -> bool;
}

impl Users for Field {
    fn is_users(&self) -> bool {
        let of_servers = |prefix: &str| self.path.starts_with(prefix);
        let applied = "metadata.annotations[\"kubectl.kubernetes.io";
        !(WRITTEN.iter().any(|prefix| of_servers(prefix)) || self.path.starts_with(applied))
    }
}
