//! What a definition's status should say. Pure; types, reasons and messages are Kubernetes' own,
//! since clients wait for them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use deltaplane_api::approval::{self, Approval};
use deltaplane_api::conditions::{self, ESTABLISHED, NAMES_ACCEPTED};
use deltaplane_api::finalizers;
use deltaplane_api::time::Time;
use deltaplane_client::header::{Header, null_as_default};
use deltaplane_client::{Item, Resource};

use crate::condition::{self, Condition, Wanted};

/// A definition, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    header: Header,
    pub(super) group: String,
    names: Names,
    pub(super) accepted: Names,
    namespaced: bool,
    versions: Vec<Version>,
    conditions: Vec<Condition>,
    /// What `api-approved.kubernetes.io` says.
    approval: Option<String>,
}

/// The names of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Names {
    plural: String,
    singular: String,
    #[serde(deserialize_with = "null_as_default")]
    short_names: Vec<String>,
    kind: String,
    list_kind: String,
    #[serde(deserialize_with = "null_as_default")]
    categories: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Version {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
}

/// The names that others in the group have: in paths, and in objects.
#[derive(Debug, Default)]
pub(super) struct Used {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Nothing,
    /// Write this status, which gives it these names.
    Write {
        status: Value,
        names: Names,
    },
    /// It is to go: say so if it does not, then delete these objects, then let it go.
    End {
        status: Option<Value>,
        objects: Option<Resource>,
    },
}

const TERMINATING: &str = "Terminating";

pub(super) fn plan(definition: &Definition, used: &Used, now: Time) -> Plan {
    let ours = definition
        .header
        .has_finalizer(finalizers::CUSTOM_RESOURCES);
    match (definition.header.is_deleting(), ours) {
        (true, true) => end(definition, now),
        // Others keep it; its names stay taken until it is gone.
        (true, false) => Plan::Nothing,
        (false, _) => names(definition, used, now),
    }
}

fn end(definition: &Definition, now: Time) -> Plan {
    let mut conditions = definition.conditions.clone();
    let wanted = Wanted {
        r#type: TERMINATING,
        holds: true,
        reason: "InstanceDeletionInProgress",
        message: "CustomResource deletion is in progress".to_owned(),
    };
    condition::set(&mut conditions, wanted, now);
    let changed = conditions != definition.conditions;
    Plan::End {
        status: changed.then(|| definition.status(&definition.accepted, &conditions)),
        objects: definition.objects(),
    }
}

fn names(definition: &Definition, used: &Used, now: Time) -> Plan {
    let (names, verdict) = accept(&definition.names, &definition.accepted, used);
    let accepted = verdict.holds;
    let mut conditions = definition.conditions.clone();
    condition::set(&mut conditions, verdict, now);
    // Once established, always established: its objects exist.
    if !condition::holds(&conditions, ESTABLISHED) {
        // The kind is served when it has its names, which are written first: whoever reads that it
        // is established finds it served.
        let served = condition::holds(&definition.conditions, NAMES_ACCEPTED);
        let initial = "the initial names have been accepted";
        let (reason, message) = match (accepted, served) {
            (true, true) => ("InitialNamesAccepted", initial),
            (true, false) => ("Installing", initial),
            (false, _) => ("NotAccepted", "not all names are accepted"),
        };
        let wanted = Wanted {
            r#type: ESTABLISHED,
            holds: accepted && served,
            reason,
            message: message.to_owned(),
        };
        condition::set(&mut conditions, wanted, now);
    }
    if let Some(wanted) = approval(&definition.group, definition.approval.as_deref()) {
        condition::set(&mut conditions, wanted, now);
    }
    if conditions == definition.conditions && names == definition.accepted {
        return Plan::Nothing;
    }
    let status = definition.status(&names, &conditions);
    Plan::Write { status, names }
}

/// The names that the definition may have, and what to say about those that it may not.
fn accept(wanted: &Names, accepted: &Names, used: &Used) -> (Names, Wanted) {
    let mut names = accepted.clone();
    let mut conflict = None;
    let taken = |name: &str, has: &str, used: &BTreeSet<String>| {
        (name != has && used.contains(name)).then(|| format!("{name:?} is already in use"))
    };
    match taken(&wanted.plural, &accepted.plural, &used.resources) {
        Some(message) => conflict = Some(("PluralConflict", message)),
        None => names.plural.clone_from(&wanted.plural),
    }
    match taken(&wanted.singular, &accepted.singular, &used.resources) {
        Some(message) => conflict = Some(("SingularConflict", message)),
        None => names.singular.clone_from(&wanted.singular),
    }
    let short = wanted
        .short_names
        .iter()
        .filter(|name| !accepted.short_names.contains(name));
    let short: Vec<_> = short
        .filter_map(|name| taken(name, "", &used.resources))
        .collect();
    match short.as_slice() {
        [] => names.short_names.clone_from(&wanted.short_names),
        [message] => conflict = Some(("ShortNamesConflict", message.clone())),
        messages => {
            conflict = Some(("ShortNamesConflict", format!("[{}]", messages.join(", "))));
        }
    }
    match taken(&wanted.kind, &accepted.kind, &used.kinds) {
        Some(message) => conflict = Some(("KindConflict", message)),
        None => names.kind.clone_from(&wanted.kind),
    }
    match taken(&wanted.list_kind, &accepted.list_kind, &used.kinds) {
        Some(message) => conflict = Some(("ListKindConflict", message)),
        None => names.list_kind.clone_from(&wanted.list_kind),
    }
    names.categories.clone_from(&wanted.categories);
    let holds = conflict.is_none();
    let (reason, message) =
        conflict.unwrap_or_else(|| ("NoConflicts", "no conflicts found".to_owned()));
    let verdict = Wanted {
        r#type: NAMES_ACCEPTED,
        holds,
        reason,
        message,
    };
    (names, verdict)
}

/// Groups of the Kubernetes project need its approval, or say that they have none.
fn approval(group: &str, annotation: Option<&str>) -> Option<Wanted> {
    if !approval::is_needed(group) {
        return None;
    }
    let said = annotation.unwrap_or_default();
    let approval = Approval::of(annotation);
    let (reason, message) = match approval {
        Approval::Missing => ("MissingAnnotation", None),
        Approval::Waived => (
            "UnapprovedAnnotation",
            Some(format!("not approved: {said:?}")),
        ),
        Approval::Given => ("ApprovedAnnotation", Some(format!("approved in {said}"))),
        Approval::Senseless => ("InvalidAnnotation", None),
    };
    let holds = approval == Approval::Given;
    let message = message.or_else(|| approval.fault()).unwrap_or_default();
    Some(Wanted {
        r#type: "KubernetesAPIApprovalPolicyConformant",
        holds,
        reason,
        message,
    })
}

// === impl Definition ===

impl Definition {
    pub(super) fn of(item: &Item) -> Option<Self> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
            spec: Spec,
            #[serde(default, deserialize_with = "null_as_default")]
            status: Status,
        }
        #[derive(Deserialize)]
        struct Metadata {
            #[serde(default, deserialize_with = "null_as_default")]
            annotations: BTreeMap<String, String>,
        }
        #[derive(Deserialize)]
        struct Spec {
            group: String,
            names: Names,
            scope: String,
            #[serde(default, deserialize_with = "null_as_default")]
            versions: Vec<Version>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Status {
            #[serde(deserialize_with = "null_as_default")]
            accepted_names: Names,
            #[serde(deserialize_with = "null_as_default")]
            conditions: Vec<Condition>,
        }
        let Object {
            mut metadata,
            spec,
            status,
        } = item.parse().ok()?;
        Some(Self {
            header: item.header.clone(),
            group: spec.group,
            names: spec.names,
            accepted: status.accepted_names,
            namespaced: spec.scope == "Namespaced",
            versions: spec.versions,
            conditions: status.conditions,
            approval: metadata.annotations.remove(approval::ANNOTATION),
        })
    }

    /// Whether there are names that it does not have.
    pub(super) fn wants_names(&self) -> bool {
        self.names != self.accepted
    }

    /// Metadata for a change that removes our finalizer, from this very state.
    pub(super) fn without_finalizer(&self) -> Value {
        let others = self
            .header
            .finalizers
            .iter()
            .filter(|finalizer| *finalizer != finalizers::CUSTOM_RESOURCES);
        let others: Vec<_> = others.collect();
        json!({
            "uid": self.header.uid,
            "resourceVersion": self.header.resource_version,
            "finalizers": others,
        })
    }

    /// A change of status, from this very state.
    fn status(&self, names: &Names, conditions: &[Condition]) -> Value {
        let or_null = |list: &[String]| match list.is_empty() {
            // In a merge, leaving it out would keep what was there.
            true => Value::Null,
            false => json!(list),
        };
        json!({
            "metadata": {
                "uid": self.header.uid,
                "resourceVersion": self.header.resource_version,
            },
            "status": {
                "acceptedNames": {
                    "plural": names.plural,
                    "singular": names.singular,
                    "shortNames": or_null(&names.short_names),
                    "kind": names.kind,
                    "listKind": names.list_kind,
                    "categories": or_null(&names.categories),
                },
                "conditions": conditions,
            },
        })
    }

    /// Where its objects are, if there can be any.
    fn objects(&self) -> Option<Resource> {
        let conditions = condition::pairs(&self.conditions);
        if !conditions::are_of_a_served_definition(conditions) {
            return None;
        }
        let served = self.versions.iter().filter(|version| version.served);
        let stored = self.versions.iter().find(|version| version.storage);
        // The API serves what is stored to the end if nothing else is served.
        let version = served.max_by_key(|version| version.storage).or(stored)?;
        Some(Resource {
            group: self.group.clone(),
            version: version.name.clone(),
            plural: self.accepted.plural.clone(),
            kind: self.accepted.kind.clone(),
            namespaced: self.namespaced,
        })
    }
}

// === impl Used ===

impl Used {
    pub(super) fn add(&mut self, names: &Names) {
        let Names {
            plural,
            singular,
            short_names,
            kind,
            list_kind,
            categories: _,
        } = names;
        let filled = |name: &&String| !name.is_empty();
        let resources = [plural, singular]
            .into_iter()
            .chain(short_names)
            .filter(filled);
        self.resources.extend(resources.cloned());
        self.kinds
            .extend([kind, list_kind].into_iter().filter(filled).cloned());
    }
}

#[cfg(test)]
mod tests;
