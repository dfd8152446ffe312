//! The kinds that are simulated.

use deltaplane_client::Resource;
use deltaplane_client::discovery::Catalog;

/// A kind that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
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
    pub(super) const ALL: [Self; 9] = [
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
