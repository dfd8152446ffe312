//! What single kinds do beyond the generic path: a row of hooks each.
//!
//! Hooks are pure functions of objects. What needs the caller's rights (RBAC escalation) is in
//! `auth::escalation`.

use deltaplane_api::field;
use deltaplane_api::names::NameRule;
use serde_json::Value;

use crate::kinds::Kind;
use crate::seams::Operation;

pub(crate) mod config;
mod cron;
pub(crate) mod definitions;
pub(crate) mod events;
mod jobs;
pub(crate) mod namespaces;
mod networking;
mod pods;
mod qos;
pub(crate) mod rbac;
mod scheduling;
pub(crate) mod workloads;

type Validate = fn(&Value, Option<&Value>) -> Vec<field::Error>;
type Refuse = fn(Operation, &str, &str) -> Option<&'static str>;

/// How one kind differs from the generic path.
pub(crate) struct Strategy {
    pub(crate) name: NameRule,
    /// Whether `metadata.generation` counts changes of what users ask for.
    pub(crate) generation: bool,
    /// Whether PUT may create.
    pub(crate) create_on_update: bool,
    /// Whether PUT may leave out the resource version.
    pub(crate) unconditional_update: bool,
    /// Whether finalizers must say whose they are, as in `example.com/mine`.
    pub(crate) qualified_finalizers: bool,
    /// Whether DELETE answers with the object instead of a `Status`.
    pub(crate) returns_deleted: bool,
    /// Brings a new object into the shape it is stored in, before validation.
    pub(crate) prepare_create: Option<fn(&mut Value)>,
    /// The same for a change; the second is the stored object.
    pub(crate) prepare_update: Option<fn(&mut Value, &Value)>,
    /// Adds to a new object what the server generates of it, once its defaults are filled in.
    pub(crate) generate: Option<fn(&mut Value)>,
    /// All that is wrong with the object; the second is the stored one, on a change.
    pub(crate) validate: Option<Validate>,
    /// Why nobody but the server itself may do this to the object of this namespace and name.
    pub(crate) refuse: Option<Refuse>,
    /// Marks an object that begins to be deleted.
    pub(crate) mark_deleted: Option<fn(&mut Value)>,
    /// Why the object may not go away yet, besides `metadata.finalizers`.
    pub(crate) lingers: Option<fn(&Value) -> bool>,
    /// Between the stored form and this kind's, where the two differ by more than `apiVersion`.
    pub(crate) from_stored: Option<fn(&Kind, &mut Value)>,
    pub(crate) to_stored: Option<fn(&Kind, &mut Value)>,
}

/// A kind without peculiarities.
pub(crate) const GENERIC: Strategy = Strategy {
    name: NameRule::Subdomain,
    generation: false,
    create_on_update: false,
    unconditional_update: true,
    qualified_finalizers: true,
    returns_deleted: false,
    prepare_create: None,
    prepare_update: None,
    generate: None,
    validate: None,
    refuse: None,
    mark_deleted: None,
    lingers: None,
    from_stored: None,
    to_stored: None,
};

/// Custom resources.
pub(crate) static CUSTOM: Strategy = Strategy {
    generation: true,
    unconditional_update: false,
    qualified_finalizers: false,
    ..GENERIC
};

static PLAIN: Strategy = GENERIC;
static COUNTED: Strategy = Strategy {
    generation: true,
    ..GENERIC
};
static RETURNED: Strategy = Strategy {
    returns_deleted: true,
    ..GENERIC
};

/// The hooks of a built-in kind.
pub(crate) fn of(group: &str, plural: &str) -> &'static Strategy {
    match (group, plural) {
        ("", "namespaces") => &namespaces::STRATEGY,
        ("", "configmaps") => &config::CONFIG_MAP,
        ("", "secrets") => &config::SECRET,
        ("", "events") | ("events.k8s.io", "events") => &events::STRATEGY,
        ("", "services") => &workloads::SERVICE,
        ("", "pods") => &workloads::POD,
        ("", "podtemplates") => &workloads::POD_TEMPLATE,
        ("", "serviceaccounts" | "persistentvolumes" | "persistentvolumeclaims") => &RETURNED,
        ("", "endpoints") => &workloads::ENDPOINTS,
        ("", "replicationcontrollers") => &workloads::REPLICATION_CONTROLLER,
        ("apps", "deployments" | "statefulsets" | "daemonsets" | "replicasets") => {
            &workloads::WORKLOAD
        }
        ("batch", "jobs") => &workloads::JOB,
        ("batch", "cronjobs") => &workloads::CRON_JOB,
        ("networking.k8s.io", "networkpolicies") => &networking::NETWORK_POLICY,
        ("scheduling.k8s.io", "priorityclasses") => &scheduling::PRIORITY_CLASS,
        ("batch" | "networking.k8s.io" | "policy" | "scheduling.k8s.io", _) => &COUNTED,
        ("coordination.k8s.io", "leases") => &config::LEASE,
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => &rbac::ROLE,
        ("rbac.authorization.k8s.io", _) => &rbac::BINDING,
        ("apiextensions.k8s.io", _) => &definitions::STRATEGY,
        _ => &PLAIN,
    }
}

/// A field that never changes once it is set.
pub(crate) fn immutable(path: &str, new: &Value, old: &Value, errors: &mut Vec<field::Error>) {
    let (after, before) = (crate::value::at(new, path), crate::value::at(old, path));
    if after != before {
        errors.push(field::Error::invalid(
            field::Path::new(path),
            after.clone(),
            "field is immutable",
        ));
    }
}
