//! The kinds that are simulated.

use deltaplane_client::Resource;
use deltaplane_client::discovery::Catalog;

/// A kind that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Has no status; what StatefulSets and DaemonSets remember their templates by.
    ControllerRevision,
    DaemonSet,
    Deployment,
    Ingress,
    Job,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    Service,
    StatefulSet,
}

/// A group and version that some kind here is of, which could not be asked, and why.
pub(super) fn unanswered(catalog: &Catalog) -> Option<(&str, &str)> {
    let matters = |group: &str| {
        let mut kinds = Kind::ALL.into_iter();
        kinds.any(|kind| kind.resource().api_version() == group)
    };
    let mut failures = catalog.failures.iter();
    let failed = failures.find(|(group, _)| matters(group));
    failed.map(|(group, error)| (group.as_str(), error.as_str()))
}

// === impl Kind ===

impl Kind {
    /// The kinds that workloads make objects of.
    pub(super) const MADE: [Self; 3] = [Self::ControllerRevision, Self::Pod, Self::ReplicaSet];

    /// The kind that a reference to an owner names, if it is one of these.
    pub(super) fn of_owner(api_version: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| {
            let resource = one.resource();
            resource.kind == kind && resource.api_version() == api_version
        })
    }

    pub(super) const ALL: [Self; 10] = [
        Self::ControllerRevision,
        Self::DaemonSet,
        Self::Deployment,
        Self::Ingress,
        Self::Job,
        Self::PersistentVolumeClaim,
        Self::Pod,
        Self::ReplicaSet,
        Self::Service,
        Self::StatefulSet,
    ];

    pub(super) fn resource(self) -> Resource {
        let (group, plural, kind) = match self {
            Self::ControllerRevision => ("apps", "controllerrevisions", "ControllerRevision"),
            Self::DaemonSet => ("apps", "daemonsets", "DaemonSet"),
            Self::Deployment => ("apps", "deployments", "Deployment"),
            Self::Ingress => ("networking.k8s.io", "ingresses", "Ingress"),
            Self::Job => ("batch", "jobs", "Job"),
            Self::PersistentVolumeClaim => ("", "persistentvolumeclaims", "PersistentVolumeClaim"),
            Self::Pod => ("", "pods", "Pod"),
            Self::ReplicaSet => ("apps", "replicasets", "ReplicaSet"),
            Self::Service => ("", "services", "Service"),
            Self::StatefulSet => ("apps", "statefulsets", "StatefulSet"),
        };
        Resource::namespaced(group, "v1", plural, kind)
    }
}
