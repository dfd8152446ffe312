//! The rules of Kubernetes' default roles that others than the API server need, too. Data.

/// A rule: API groups, resources, verbs.
pub type Rule = (
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const CREATE: &[&str] = &["create"];

/// The rules of ClusterRole `view`: what may be seen in a namespace, secrets excepted.
pub const VIEW: &[Rule] = &[
    (
        &[""],
        &[
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "serviceaccounts",
            "services",
            "services/status",
        ],
        READ,
    ),
    (
        &[""],
        &[
            "bindings",
            "limitranges",
            "namespaces/status",
            "pods/log",
            "pods/status",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
        ],
        READ,
    ),
    (&[""], &["namespaces"], READ),
    (&["", "events.k8s.io"], &["events"], READ),
    (&["discovery.k8s.io"], &["endpointslices"], READ),
    (
        &["apps"],
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
        READ,
    ),
    (
        &["autoscaling"],
        &[
            "horizontalpodautoscalers",
            "horizontalpodautoscalers/status",
        ],
        READ,
    ),
    (
        &["batch"],
        &["cronjobs", "cronjobs/status", "jobs", "jobs/status"],
        READ,
    ),
    (
        &["policy"],
        &["poddisruptionbudgets", "poddisruptionbudgets/status"],
        READ,
    ),
    (
        &["networking.k8s.io"],
        &["ingresses", "ingresses/status", "networkpolicies"],
        READ,
    ),
    (
        &["resource.k8s.io"],
        &[
            "resourceclaims",
            "resourceclaims/status",
            "resourceclaimtemplates",
        ],
        READ,
    ),
];

/// The rules of ClusterRole `edit` beside those of `view`.
pub const EDIT: &[Rule] = &[
    (
        &[""],
        &[
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
            "secrets",
            "services/proxy",
        ],
        READ,
    ),
    (&[""], &["serviceaccounts"], &["impersonate"]),
    (
        &[""],
        &[
            "pods",
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
        ],
        WRITE,
    ),
    (&[""], &["pods/eviction"], CREATE),
    (
        &[""],
        &[
            "configmaps",
            "persistentvolumeclaims",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ],
        WRITE,
    ),
    (&[""], &["serviceaccounts/token"], CREATE),
    (&["", "events.k8s.io"], &["events"], WRITE),
    (
        &["apps"],
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
        WRITE,
    ),
    (&["autoscaling"], &["horizontalpodautoscalers"], WRITE),
    (&["batch"], &["cronjobs", "jobs"], WRITE),
    (&["policy"], &["poddisruptionbudgets"], WRITE),
    (
        &["networking.k8s.io"],
        &["ingresses", "networkpolicies"],
        WRITE,
    ),
    (&["coordination.k8s.io"], &["leases"], READ_WRITE),
    (
        &["resource.k8s.io"],
        &["resourceclaims", "resourceclaimtemplates"],
        WRITE,
    ),
];
