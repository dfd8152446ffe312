//! Values for absent fields that depend on nothing else.
//!
//! Beside real defaults these are the zeros that Go prints and that the real server accepts
//! although the published schema requires the field: what the schema still misses after this, the
//! real server misses too.

use serde_json::Value;

/// A value, as it can be written in a table.
#[derive(Clone, Copy)]
enum Fixed {
    Text(&'static str),
    Number(i64),
    Flag(bool),
    /// An empty object, which its own defaults then fill.
    Empty,
    /// An empty list, where the published schema requires one but the real server does not.
    EmptyList,
}

use Fixed::{Empty, EmptyList, Flag, Number, Text};

/// Message (without `k8s.io.api.`), then fields and their values. One line per message where it fits.
#[rustfmt::skip]
const FIXED: &[(&str, &[(&str, Fixed)])] = &[
    ("admissionregistration.v1.MatchResources", &[
        ("matchPolicy", Text("Equivalent")), ("namespaceSelector", Empty), ("objectSelector", Empty),
    ]),
    ("admissionregistration.v1.MutatingAdmissionPolicySpec", &[("failurePolicy", Text("Fail"))]),
    ("admissionregistration.v1.MutatingWebhook", &[
        ("failurePolicy", Text("Fail")), ("matchPolicy", Text("Equivalent")), ("namespaceSelector", Empty),
        ("objectSelector", Empty), ("timeoutSeconds", Number(10)), ("reinvocationPolicy", Text("Never")),
    ]),
    ("admissionregistration.v1.Rule", &[("scope", Text("*"))]),
    ("admissionregistration.v1.ServiceReference", &[("port", Number(443))]),
    ("admissionregistration.v1.ValidatingAdmissionPolicySpec", &[("failurePolicy", Text("Fail"))]),
    ("admissionregistration.v1.ValidatingWebhook", &[
        ("failurePolicy", Text("Fail")), ("matchPolicy", Text("Equivalent")), ("namespaceSelector", Empty),
        ("objectSelector", Empty), ("timeoutSeconds", Number(10)),
    ]),
    ("apps.v1.ControllerRevision", &[("revision", Number(0))]),
    ("apps.v1.DaemonSetSpec", &[("revisionHistoryLimit", Number(10))]),
    ("apps.v1.DaemonSetUpdateStrategy", &[("type", Text("RollingUpdate"))]),
    ("apps.v1.DeploymentSpec", &[
        ("replicas", Number(1)), ("revisionHistoryLimit", Number(10)), ("progressDeadlineSeconds", Number(600)),
    ]),
    ("apps.v1.DeploymentStrategy", &[("type", Text("RollingUpdate"))]),
    ("apps.v1.ReplicaSetSpec", &[("replicas", Number(1))]),
    ("apps.v1.StatefulSetOrdinals", &[("start", Number(0))]),
    ("apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy", &[
        ("whenDeleted", Text("Retain")), ("whenScaled", Text("Retain")),
    ]),
    ("apps.v1.StatefulSetSpec", &[
        ("podManagementPolicy", Text("OrderedReady")), ("replicas", Number(1)), ("revisionHistoryLimit", Number(10)),
        ("persistentVolumeClaimRetentionPolicy", Empty), ("serviceName", Text("")),
    ]),
    ("authentication.v1.TokenRequestSpec", &[("expirationSeconds", Number(3600))]),
    ("autoscaling.v1.HorizontalPodAutoscalerSpec", &[("minReplicas", Number(1))]),
    ("autoscaling.v2.HorizontalPodAutoscalerSpec", &[("minReplicas", Number(1))]),
    ("batch.v1.CronJobSpec", &[
        ("concurrencyPolicy", Text("Allow")), ("suspend", Flag(false)), ("successfulJobsHistoryLimit", Number(3)),
        ("failedJobsHistoryLimit", Number(1)),
    ]),
    ("batch.v1.PodFailurePolicy", &[("rules", EmptyList)]),
    ("batch.v1.PodFailurePolicyOnPodConditionsPattern", &[("status", Text("True"))]),
    ("core.v1.AzureDiskVolumeSource", &[
        ("cachingMode", Text("ReadWrite")), ("fsType", Text("ext4")), ("kind", Text("Shared")), ("readOnly", Flag(false)),
    ]),
    ("core.v1.ConfigMapVolumeSource", &[("defaultMode", Number(0o644))]),
    ("core.v1.Container", &[
        ("terminationMessagePath", Text("/dev/termination-log")), ("terminationMessagePolicy", Text("File")),
    ]),
    ("core.v1.ContainerPort", &[("protocol", Text("TCP"))]),
    ("core.v1.DownwardAPIVolumeSource", &[("defaultMode", Number(0o644))]),
    ("core.v1.EndpointPort", &[("protocol", Text("TCP"))]),
    ("core.v1.EphemeralContainerCommon", &[
        ("terminationMessagePath", Text("/dev/termination-log")), ("terminationMessagePolicy", Text("File")),
    ]),
    ("core.v1.Event", &[("reportingComponent", Text("")), ("reportingInstance", Text(""))]),
    ("core.v1.FileKeySelector", &[("optional", Flag(false))]),
    ("core.v1.GRPCAction", &[("service", Text(""))]),
    ("core.v1.HTTPGetAction", &[("path", Text("/")), ("scheme", Text("HTTP"))]),
    ("core.v1.HostPathVolumeSource", &[("type", Text(""))]),
    ("core.v1.ISCSIPersistentVolumeSource", &[("iscsiInterface", Text("default")), ("lun", Number(0))]),
    ("core.v1.ISCSIVolumeSource", &[("iscsiInterface", Text("default")), ("lun", Number(0))]),
    ("core.v1.LimitRangeSpec", &[("limits", EmptyList)]),
    ("core.v1.NamespaceStatus", &[("phase", Text("Active"))]),
    ("core.v1.ObjectFieldSelector", &[("apiVersion", Text("v1"))]),
    ("core.v1.PersistentVolumeClaimSpec", &[("volumeMode", Text("Filesystem"))]),
    ("core.v1.PersistentVolumeClaimStatus", &[("phase", Text("Pending"))]),
    ("core.v1.PersistentVolumeSpec", &[
        ("persistentVolumeReclaimPolicy", Text("Retain")), ("volumeMode", Text("Filesystem")),
    ]),
    ("core.v1.PersistentVolumeStatus", &[("phase", Text("Pending"))]),
    ("core.v1.PodSpec", &[
        ("dnsPolicy", Text("ClusterFirst")), ("restartPolicy", Text("Always")), ("securityContext", Empty),
        ("terminationGracePeriodSeconds", Number(30)), ("schedulerName", Text("default-scheduler")),
    ]),
    ("core.v1.Probe", &[
        ("timeoutSeconds", Number(1)), ("periodSeconds", Number(10)), ("successThreshold", Number(1)),
        ("failureThreshold", Number(3)),
    ]),
    ("core.v1.ProjectedVolumeSource", &[("defaultMode", Number(0o644))]),
    ("core.v1.RBDPersistentVolumeSource", &[
        ("keyring", Text("/etc/ceph/keyring")), ("pool", Text("rbd")), ("user", Text("admin")),
    ]),
    ("core.v1.RBDVolumeSource", &[
        ("keyring", Text("/etc/ceph/keyring")), ("pool", Text("rbd")), ("user", Text("admin")),
    ]),
    ("core.v1.ReplicationControllerSpec", &[("replicas", Number(1))]),
    ("core.v1.ScaleIOPersistentVolumeSource", &[("fsType", Text("xfs")), ("storageMode", Text("ThinProvisioned"))]),
    ("core.v1.ScaleIOVolumeSource", &[("fsType", Text("xfs")), ("storageMode", Text("ThinProvisioned"))]),
    ("core.v1.Secret", &[("type", Text("Opaque"))]),
    ("core.v1.SecretVolumeSource", &[("defaultMode", Number(0o644))]),
    ("core.v1.ServiceAccountTokenProjection", &[("expirationSeconds", Number(3600))]),
    ("core.v1.ServicePort", &[("protocol", Text("TCP"))]),
    ("core.v1.ServiceSpec", &[("sessionAffinity", Text("None")), ("type", Text("ClusterIP"))]),
    ("discovery.v1.EndpointPort", &[("name", Text("")), ("protocol", Text("TCP"))]),
    ("flowcontrol.v1.ExemptPriorityLevelConfiguration", &[
        ("nominalConcurrencyShares", Number(0)), ("lendablePercent", Number(0)),
    ]),
    ("flowcontrol.v1.FlowSchemaSpec", &[("matchingPrecedence", Number(1000))]),
    ("flowcontrol.v1.LimitedPriorityLevelConfiguration", &[
        ("nominalConcurrencyShares", Number(30)), ("lendablePercent", Number(0)),
    ]),
    ("flowcontrol.v1.QueuingConfiguration", &[
        ("handSize", Number(8)), ("queues", Number(64)), ("queueLengthLimit", Number(50)),
    ]),
    ("networking.v1.IngressClassParametersReference", &[("scope", Text("Cluster"))]),
    ("networking.v1.NetworkPolicyPort", &[("protocol", Text("TCP"))]),
    ("rbac.v1.RoleRef", &[("apiGroup", Text("rbac.authorization.k8s.io"))]),
    ("resource.v1.DeviceSubRequest", &[("allocationMode", Text("ExactCount"))]),
    ("resource.v1.DeviceToleration", &[("operator", Text("Equal"))]),
    ("resource.v1.ExactDeviceRequest", &[("allocationMode", Text("ExactCount"))]),
    ("resource.v1.ResourcePool", &[("generation", Number(0))]),
    ("scheduling.v1.PriorityClass", &[("preemptionPolicy", Text("PreemptLowerPriority")), ("value", Number(0))]),
    ("storage.v1.CSIDriverSpec", &[
        ("attachRequired", Flag(true)), ("podInfoOnMount", Flag(false)), ("storageCapacity", Flag(false)),
        ("fsGroupPolicy", Text("ReadWriteOnceWithFSType")), ("requiresRepublish", Flag(false)),
        ("seLinuxMount", Flag(false)),
    ]),
    ("storage.v1.CSINodeSpec", &[("drivers", EmptyList)]),
    ("storage.v1.StorageClass", &[("reclaimPolicy", Text("Delete")), ("volumeBindingMode", Text("Immediate"))]),
    ("storage.v1.TokenRequest", &[("audience", Text(""))]),
];

/// The same for the kinds of `apiextensions.k8s.io`, which live in another package.
const DEFINITIONS: &[(&str, &[(&str, Fixed)])] = &[
    ("CustomResourceConversion", &[("strategy", Text("None"))]),
    ("CustomResourceDefinitionSpec", &[("conversion", Empty)]),
    (
        "CustomResourceDefinitionVersion",
        &[("served", Flag(false))],
    ),
    ("ServiceReference", &[("port", Number(443))]),
];

pub(super) const API: &str = "k8s.io.api.";
pub(super) const APIEXTENSIONS: &str = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.";

/// The fixed defaults of a message.
pub(super) fn of(message: &str) -> Vec<(&'static str, Value)> {
    let (table, name) = match (
        message.strip_prefix(API),
        message.strip_prefix(APIEXTENSIONS),
    ) {
        (Some(name), _) => (FIXED, name),
        (None, Some(name)) => (DEFINITIONS, name),
        (None, None) => return Vec::new(),
    };
    let entries = table
        .iter()
        .filter(|(known, _)| *known == name)
        .flat_map(|(_, fields)| *fields);
    entries
        .map(|(field, value)| (*field, value.to_value()))
        .collect()
}

#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = String> {
    let fixed = FIXED.iter().map(|(name, _)| format!("{API}{name}"));
    fixed.chain(
        DEFINITIONS
            .iter()
            .map(|(name, _)| format!("{APIEXTENSIONS}{name}")),
    )
}

// === impl Fixed ===

impl Fixed {
    fn to_value(self) -> Value {
        match self {
            Text(text) => Value::from(text),
            Number(number) => Value::from(number),
            Flag(flag) => Value::Bool(flag),
            Empty => Value::Object(serde_json::Map::new()),
            EmptyList => Value::Array(Vec::new()),
        }
    }
}
