//! A policy as it would be: with objects that are not written yet, or another spec.

use std::collections::BTreeMap;

use deltaplane_border::{Audience, Catalog, Entry};
use deltaplane_sync::{Item, ObjectName, SyncKind};
use serde_json::{Map, Value, json};

use super::PlanError;
use crate::governing::Governing;
use crate::governing::departures::selectable;
use crate::governing::governor::{Governor, HeadObject};
use crate::governing::release::Id;
use crate::known::Known;
use crate::projector::place::audience;

/// What would be.
pub(super) struct Supposed {
    pub(super) governor: Governor,
    /// The other policies, as far as they say which objects they would govern.
    others: Vec<Governor>,
    /// What is said of each object.
    pub(super) told: Vec<(Id, Value)>,
    /// Whether the policy itself would be another.
    changed: bool,
}

// === impl Supposed ===

impl Supposed {
    pub(super) fn new(
        governing: &Governing,
        policy: &str,
        object: Option<Value>,
    ) -> Result<Self, PlanError> {
        if let Some(object) = &object
            && object["metadata"]["name"] != policy
        {
            let why = format!("the policy that is posted is not {policy}");
            return Err(PlanError::Policy(why));
        }
        let changed = object.is_some();
        let governor = match (governing.policies.get(policy), object) {
            (Some(governor), Some(object)) => governor.supposed(object),
            (Some(governor), None) => governor.supposed(Value::clone(&governor.object)),
            (None, Some(object)) => Governor::new(object),
            (None, None) => return Err(PlanError::Unknown),
        };
        let others = governing.policies.values();
        let others = others.filter(|other| other.id != governor.id);
        Ok(Self {
            others: others.map(Governor::selecting).collect(),
            governor,
            told: Vec::new(),
            changed,
        })
    }

    /// The objects that another spec may take: those of its kinds that all zones have.
    pub(super) fn candidates(&self, catalog: &Catalog) -> Vec<(Id, Item)> {
        let mut candidates = Vec::new();
        if !self.changed {
            return candidates;
        }
        for kind in self.governor.kinds() {
            for (name, entry) in catalog.entries(&kind) {
                if let Entry::Shared { item, audience } = entry
                    && *audience == Audience::Everyone
                {
                    candidates.push(((kind.clone(), name.clone()), item.clone()));
                }
            }
        }
        candidates
    }

    /// Returns true if the policy itself would be another.
    pub(super) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Takes what another spec selects of the candidates, and lets go what it does not.
    pub(super) fn adopt(&mut self, candidates: Vec<(Id, Item)>) {
        if !self.changed {
            return;
        }
        let governor = &mut self.governor;
        let at = governor.changed + 1;
        let head = governor.head.clone();
        for (id, object) in head {
            if !governor.includes(&object.about(&id)) {
                governor.let_go(&id, at);
                self.told.push(told(&id, "LetGo", None, true));
            }
        }
        for (id, item) in candidates {
            let head = HeadObject::of_item(&item);
            if governor.includes(&head.about(&id)) {
                let by = governor.id.as_str();
                self.told.push(told(&id, "Taken", Some(by), true));
                governor.put(id, head, at);
            }
        }
    }

    /// An object would be there.
    pub(super) fn put(
        &mut self,
        known: &Known,
        object: &Value,
        refused: &BTreeMap<Id, String>,
    ) -> Result<(), PlanError> {
        let id = id_of(object)?;
        let mut synced = known.synced.values().filter(|synced| synced.kind == id.0);
        let crosses = synced.any(|synced| audience(synced, object) == Audience::Everyone);
        let governor = &mut self.governor;
        let crossing = object.as_object().filter(|_| crosses);
        let departs = governor.departs(&id, crossing);
        let by = governed_by(&self.others, governor, &id, crossing);
        let was = governor.head.get(&id).map(|head| head.version);
        let at = governor.changed + 1;
        let head = HeadObject::of(object).map_err(|error| PlanError::Object(error.to_string()))?;
        // Its status is of before the change.
        let head = HeadObject {
            blocked: refused.get(&id).map(|why| why.as_str().into()),
            ..head
        };
        let change = match was {
            _ if departs => "Departing",
            None => "Added",
            Some(was) if was == head.version => "Unchanged",
            Some(_) => "Changed",
        };
        self.told.push(told(&id, change, by.as_deref(), crosses));
        if departs {
            governor.departing.insert(id.clone());
        }
        match by.as_deref() == Some(governor.id.as_str()) {
            true => governor.put(id, head, at),
            false => governor.let_go(&id, at),
        }
        Ok(())
    }

    /// An object would be gone.
    pub(super) fn delete(&mut self, id: Id) {
        let governor = &mut self.governor;
        let by = governor
            .head
            .contains_key(&id)
            .then(|| governor.id.as_str());
        self.told.push(told(&id, "Removed", by, by.is_some()));
        let at = governor.changed + 1;
        governor.deleted(&id, None, at);
    }
}

fn told(id: &Id, change: &str, by: Option<&str>, crosses: bool) -> (Id, Value) {
    let (kind, name) = id;
    let said = json!({
        "group": kind.group(), "kind": kind.kind(),
        "namespace": name.namespace(), "name": name.name(),
        "change": change, "governedBy": by, "crosses": crosses,
    });
    (id.clone(), said)
}

pub(super) fn id_of(object: &Value) -> Result<Id, PlanError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let kind = SyncKind::new(group, &text(&object["kind"]));
    let metadata = &object["metadata"];
    let name = ObjectName::new(&text(&metadata["namespace"]), &text(&metadata["name"]));
    match (kind, name) {
        (Ok(kind), Ok(name)) => Ok((kind, name)),
        (Err(error), _) | (_, Err(error)) => Err(PlanError::Object(error.to_string())),
    }
}

/// The policy that would govern an object: the one that it would depart from, or the first of those
/// that include it. Nothing is given of an object that would not cross.
fn governed_by(
    others: &[Governor],
    supposed: &Governor,
    id: &Id,
    crossing: Option<&Map<String, Value>>,
) -> Option<String> {
    let all = || [supposed].into_iter().chain(others);
    let includes = |governor: &&Governor| {
        crossing.is_some_and(|object| governor.includes(&selectable(id, object)))
    };
    let departing = all().find(|governor| governor.departs(id, crossing));
    let first = || {
        let matching = all().filter(includes);
        matching.min_by_key(|governor| governor.precedence(id))
    };
    let governor = departing.or_else(first)?;
    Some(governor.id.as_str().to_owned())
}
