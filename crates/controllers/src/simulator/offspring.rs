//! The objects that workloads make: ReplicaSets and revisions of their templates, and Pods. Pure.
//!
//! Names follow from the owner and its template, so that the same objects are made every time. A
//! workload has at most [`MAX_PODS`] Pods; beyond that its status alone counts them.
//!
//! Invariants: only objects that the workload controls are changed or deleted; what is planned for
//! objects that are as they should be is nothing.

mod make;

use serde_json::{Value, json};

use deltaplane_client::{Item, ObjectKey};

use super::digest;
use super::kind::Kind;
use super::object::Object;
use super::order;

/// As many Pods are made of one workload.
pub(super) const MAX_PODS: i64 = 50;
/// Old templates that are kept, unless the workload says how many.
const HISTORY_LIMIT: i64 = 10;
/// The annotation of a ReplicaSet with the number of its template in the Deployment's history.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// The annotation that says why a template was changed.
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// The label of the ReplicaSets and Pods of a Deployment that tells its templates apart.
const TEMPLATE_HASH: &str = "pod-template-hash";
/// The same for StatefulSets and DaemonSets.
const REVISION_HASH: &str = "controller-revision-hash";

/// What is kept of an object that a workload controls, or whose name is taken.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Child {
    /// The workload that controls it.
    pub(super) owner: Option<Owner>,
    uid: String,
    is_going: bool,
    replicas: i64,
    revision: i64,
    /// Which template of a StatefulSet or DaemonSet a Pod was made of.
    revision_hash: String,
    simulate: String,
    cause: String,
}

/// The workload that controls an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) uid: String,
}

/// What is to be done to the objects of a workload.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    Create {
        kind: Kind,
        object: Value,
    },
    Patch {
        kind: Kind,
        name: String,
        change: Value,
    },
    Delete {
        kind: Kind,
        name: String,
        uid: String,
    },
}

/// The objects of the kinds that workloads make, in the workload's namespace.
pub(super) trait Siblings {
    /// Whoever has this name.
    fn named(&self, kind: Kind, name: &str) -> Option<&Child>;
    /// The objects that the workload with this uid controls.
    fn controlled_by(&self, uid: &str, kind: Kind) -> Vec<(&str, &Child)>;
}

/// What is to be done to the objects of this workload.
pub(super) fn plan(kind: Kind, object: &Object, siblings: &impl Siblings) -> Vec<Act> {
    let family = Family {
        kind,
        object,
        siblings,
    };
    match kind {
        Kind::Deployment => family.history(Kind::ReplicaSet),
        Kind::ReplicaSet | Kind::Job => family.pods(),
        Kind::DaemonSet | Kind::StatefulSet => {
            let mut acts = family.history(Kind::ControllerRevision);
            acts.extend(family.pods());
            acts
        }
        Kind::ControllerRevision
        | Kind::Ingress
        | Kind::PersistentVolumeClaim
        | Kind::Pod
        | Kind::Service => Vec::new(),
    }
}

/// A workload, and the objects around it.
struct Family<'a, S> {
    kind: Kind,
    object: &'a Object,
    siblings: &'a S,
}

// === impl Child ===

impl Child {
    pub(super) fn of(kind: Kind, item: &Item) -> Option<Self> {
        let header = &item.header;
        let controller = header
            .owner_references
            .iter()
            .find(|one| one.controller == Some(true));
        let owner = controller.and_then(|one| {
            Some(Owner {
                kind: Kind::of_owner(&one.api_version, &one.kind)?,
                name: one.name.clone(),
                uid: one.uid.clone(),
            })
        });
        let body: Value = item.parse().ok()?;
        let annotations = &body["metadata"]["annotations"];
        let text = |key: &str| annotations[key].as_str().unwrap_or_default().to_owned();
        let revision = if kind == Kind::ControllerRevision {
            body["revision"].as_i64()
        } else {
            text(REVISION).parse().ok()
        };
        Some(Self {
            owner,
            uid: header.uid.clone(),
            is_going: header.is_deleting(),
            replicas: body["spec"]["replicas"].as_i64().unwrap_or(0),
            revision: revision.unwrap_or(0),
            revision_hash: header
                .labels
                .get(REVISION_HASH)
                .cloned()
                .unwrap_or_default(),
            simulate: text(order::ANNOTATION),
            cause: text(CHANGE_CAUSE),
        })
    }

    /// The key of the workload that controls it.
    pub(super) fn owner_key(&self, namespace: &str) -> Option<(Kind, ObjectKey)> {
        let owner = self.owner.as_ref()?;
        Some((owner.kind, ObjectKey::new(namespace, &owner.name)))
    }
}

// === impl Family ===

impl<S: Siblings> Family<'_, S> {
    /// The objects of a kind that the workload controls.
    fn children(&self, kind: Kind) -> Vec<(&str, &Child)> {
        self.siblings.controlled_by(&self.object.uid, kind)
    }

    /// Keeps one object for each template that the workload had, the present one with the highest
    /// number, and no more than it wants to keep.
    fn history(&self, kind: Kind) -> Vec<Act> {
        let mut acts = Vec::new();
        let name = self.object.revision_name();
        let mut old = self.children(kind);
        let newest = old.iter().map(|(_, child)| child.revision).max();
        let newest = newest.unwrap_or(0);
        old.retain(|(one, _)| *one != name);
        let mut number = newest + 1;
        match self.siblings.named(kind, &name) {
            None => acts.push(Act::Create {
                kind,
                object: self.revision_object(kind, number),
            }),
            Some(child) if self.is_own(child) && !child.is_going => {
                let is_newest = child.revision == newest
                    && old.iter().all(|(_, other)| other.revision < newest);
                if is_newest {
                    number = newest;
                }
                acts.extend(self.adjust_revision(kind, &name, child, number));
            }
            Some(_) => {}
        }
        acts.extend(self.annotate(number));
        for (one, child) in &old {
            if kind == Kind::ReplicaSet && child.replicas != 0 && !child.is_going {
                let change = json!({"spec": {"replicas": 0}});
                acts.push(Act::Patch {
                    kind,
                    name: (*one).to_owned(),
                    change,
                });
            }
        }
        acts.extend(self.forget(kind, old));
        acts
    }

    /// Says on a Deployment which of its revisions it is at, as its controller does; kubectl counts
    /// on the annotation.
    fn annotate(&self, number: i64) -> Option<Act> {
        let number = number.to_string();
        let is_told = self.object.annotation(REVISION) == number;
        (self.kind == Kind::Deployment && !is_told).then(|| Act::Patch {
            kind: self.kind,
            name: self.object.name.clone(),
            change: json!({"metadata": {"annotations": {REVISION: number}}}),
        })
    }

    /// Deletes the oldest of those that make nothing any more.
    fn forget(&self, kind: Kind, mut old: Vec<(&str, &Child)>) -> Vec<Act> {
        let limit = self.object.number("revisionHistoryLimit");
        let limit = usize::try_from(limit.unwrap_or(HISTORY_LIMIT)).unwrap_or(0);
        old.retain(|(_, child)| child.replicas == 0 && !child.is_going);
        old.sort_by_key(|(_, child)| child.revision);
        let surplus = old.len().saturating_sub(limit);
        let delete = |(name, child): &(&str, &Child)| Act::Delete {
            kind,
            name: (*name).to_owned(),
            uid: child.uid.clone(),
        };
        old.iter().take(surplus).map(delete).collect()
    }

    /// Brings the object of the present template up to date.
    fn adjust_revision(&self, kind: Kind, name: &str, child: &Child, number: i64) -> Option<Act> {
        let mut change = json!({});
        let (simulate, cause) = (self.object.simulate(), self.object.annotation(CHANGE_CAUSE));
        if child.simulate != simulate {
            change["metadata"]["annotations"][order::ANNOTATION] = or_null(simulate);
        }
        if child.cause != cause {
            change["metadata"]["annotations"][CHANGE_CAUSE] = or_null(cause);
        }
        if kind == Kind::ReplicaSet && child.replicas != self.wanted_replicas() {
            change["spec"]["replicas"] = json!(self.wanted_replicas());
        }
        if child.revision != number {
            if kind == Kind::ControllerRevision {
                change["revision"] = json!(number);
            } else {
                change["metadata"]["annotations"][REVISION] = json!(number.to_string());
            }
        }
        let changes = change.as_object().is_some_and(|change| !change.is_empty());
        changes.then(|| Act::Patch {
            kind,
            name: name.to_owned(),
            change,
        })
    }

    /// Keeps the Pods that the workload wants, and no others.
    fn pods(&self) -> Vec<Act> {
        let Some(wanted) = self.wanted_pods() else {
            return Vec::new();
        };
        let has_revisions = matches!(self.kind, Kind::DaemonSet | Kind::StatefulSet);
        let is_current =
            |child: &Child| !has_revisions || child.revision_hash == self.object.template_hash();
        let names: Vec<String> = (0..wanted).map(|index| self.pod_name(index)).collect();
        let mut acts = Vec::new();
        for (name, child) in self.children(Kind::Pod) {
            let is_wanted = is_current(child) && names.iter().any(|one| one == name);
            if !is_wanted && !child.is_going {
                acts.push(Act::Delete {
                    kind: Kind::Pod,
                    name: name.to_owned(),
                    uid: child.uid.clone(),
                });
            }
        }
        for (index, name) in names.iter().enumerate() {
            match self.siblings.named(Kind::Pod, name) {
                None => acts.push(Act::Create {
                    kind: Kind::Pod,
                    object: self.pod_object(name, index),
                }),
                Some(child) if self.is_own(child) && is_current(child) && !child.is_going => {
                    acts.extend(self.adjust_pod(name, child));
                }
                Some(_) => {}
            }
        }
        acts
    }

    /// Passes on how the simulation is to go.
    fn adjust_pod(&self, name: &str, child: &Child) -> Option<Act> {
        let simulate = self.pod_simulate();
        (child.simulate != simulate).then(|| Act::Patch {
            kind: Kind::Pod,
            name: name.to_owned(),
            change: json!({"metadata": {"annotations": {order::ANNOTATION: or_null(simulate)}}}),
        })
    }

    fn is_own(&self, child: &Child) -> bool {
        let owner = child.owner.as_ref();
        owner.is_some_and(|owner| owner.uid == self.object.uid)
    }

    fn wanted_replicas(&self) -> i64 {
        self.object.number("replicas").unwrap_or(1)
    }

    /// How many Pods there should be; none if those that there are stay.
    fn wanted_pods(&self) -> Option<i64> {
        let is_job = self.kind == Kind::Job;
        if is_job && self.object.is_finished() {
            return None;
        }
        let wanted = if self.kind == Kind::DaemonSet {
            1
        } else if !is_job {
            self.wanted_replicas()
        } else if self.object.spec["suspend"] == true {
            0
        } else {
            self.object.active_pods()
        };
        Some(wanted.clamp(0, MAX_PODS))
    }

    fn pod_name(&self, index: i64) -> String {
        let name = &self.object.name;
        if self.kind == Kind::StatefulSet {
            return format!("{name}-{index}");
        }
        // Workloads of several kinds may have the same name.
        let mut text = format!("{}/{name}/{index}", self.kind.resource().kind);
        if self.kind == Kind::DaemonSet {
            text += &self.object.template_hash();
        }
        format!("{}{}", self.pod_prefix(), digest::letters(&text, 5))
    }
}

/// A text, or null for none, as a patch says that something is to go.
fn or_null(text: &str) -> Value {
    match text {
        "" => Value::Null,
        text => json!(text),
    }
}

#[cfg(test)]
mod tests;
