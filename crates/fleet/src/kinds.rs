//! The kinds of the fleet, as users write them.

use deltaplane_api::selector::LabelSelector;
use deltaplane_border::graphs;
use deltaplane_sync::{
    Direction, NameError, ObjectName, SYNC_LABEL, StatusWriters, SyncKind, Synced, Withdrawal,
};
use serde::Deserialize;
use serde_json::Value;

use crate::quota::QuotaSpec;

mod definitions;
mod policies;

pub use definitions::definitions;

/// The API group of our own kinds.
pub const GROUP: &str = "fleet.deltaplane.io";
pub const VERSION: &str = "v1alpha1";
/// The tenant that everything belongs to until there are several.
pub(crate) const TENANT: &str = deltaplane_apiserver::TENANT;
/// Who writes what came across the border. Nobody can act as this user from outside the process.
pub const SYNC_USER: &str = "system:deltaplane:sync";
/// Who our own controllers are, in every control plane. Nobody can act as this user, either.
pub const CONTROLLERS: &str = "system:deltaplane:controllers";
/// The annotation of a zone with the revision up to which deletions there are approved.
pub const APPROVED: &str = "fleet.deltaplane.io/approve-deletions";
/// The annotation of a zone with the id of the join token that counts.
pub const TOKEN: &str = "fleet.deltaplane.io/join-token";
/// The label or annotation that keeps a graph at the hub when its value is `false`.
const DISTRIBUTE: &str = "kro.run/distribute";

/// What synced kinds are called on the wire.
pub fn synced_kinds() -> SyncKind {
    SyncKind::new(GROUP, "SyncedKind").expect("a legal name")
}

/// A kind that crosses the border.
#[derive(Clone, Debug)]
pub struct SyncedKind {
    pub kind: SyncKind,
    pub plural: String,
    pub spec: SyncedKindSpec,
    selector: Option<LabelSelector>,
    /// Whether every control plane makes the definition of the kind for itself.
    made_everywhere: bool,
}

/// As its object has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncedKindSpec {
    #[serde(default)]
    pub group: String,
    pub kind: String,
    pub direction: DirectionName,
    #[serde(default)]
    pub across_zones: bool,
    #[serde(default = "yes")]
    pub zone_authored: bool,
    #[serde(default)]
    pub selector: Option<Value>,
    #[serde(default)]
    pub status: Option<StatusName>,
    #[serde(default)]
    pub on_withdraw: WithdrawName,
}

/// A zone, as its object has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneSpec {
    #[serde(default = "yes")]
    pub enabled: bool,
    #[serde(default)]
    pub deletion_budget: Option<Budget>,
    #[serde(default)]
    pub quota: Option<QuotaSpec>,
}

impl ZoneSpec {
    /// The spec of a zone that cannot be read: the zone is there, and may not connect.
    pub(crate) const UNREADABLE: Self = Self {
        enabled: false,
        deletion_budget: None,
        quota: None,
    };
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Budget {
    pub max: Option<u64>,
    pub percent: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum DirectionName {
    HubToZone,
    ZoneToHub,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum StatusName {
    Zones,
    Each,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum WithdrawName {
    #[default]
    Orphan,
    Delete,
}

/// Why an object is no synced kind.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    #[error("spec does not match the schema of SyncedKind; see `kubectl explain syncedkind.spec`")]
    Spec(#[from] serde_json::Error),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("spec.selector is no label selector; write matchLabels or matchExpressions")]
    Selector,
    #[error("metadata.name is {0:?}; name the SyncedKind <plural>.<group>")]
    Called(String),
    #[error(
        "spec.status: the hub itself reads {0} objects and writes their status; write Each, or leave it out"
    )]
    ConsumedByHub(String),
}

/// Namespaces that every control plane has of its own.
pub(crate) fn is_everywhere(namespace: &str) -> bool {
    namespace == "default" || namespace.starts_with("kube-") || namespace == "deltaplane-system"
}

fn yes() -> bool {
    true
}

/// Whether a controller at the hub reads objects of this kind and writes their status there.
fn is_consumed_by_hub(kind: &SyncKind) -> bool {
    matches!(
        (kind.group(), kind.kind()),
        ("apiextensions.k8s.io", "CustomResourceDefinition")
            | ("", "Namespace")
            | ("kro.run", "ResourceGraphDefinition")
            | ("internal.kro.run", "GraphRevision")
    )
}

/// The label of what graphs make: kinds, and that these cross.
pub const OF_GRAPHS: &str = "kro.run/owned";

/// Whether it is for a kind that graphs make: zones make it of the graph.
fn is_of_graphs(object: &Value) -> bool {
    object["metadata"]["labels"][OF_GRAPHS] == "true"
}

// === impl SyncedKind ===

impl SyncedKind {
    /// Of its object. Its plural is in its name.
    pub fn of(object: &Value) -> Result<Self, KindError> {
        let spec: SyncedKindSpec = serde_json::from_value(object["spec"].clone())?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let plural = match spec.group.as_str() {
            "" => Some(name),
            group => name
                .strip_suffix(group)
                .and_then(|name| name.strip_suffix('.')),
        };
        let plural = plural.filter(|plural| !plural.is_empty() && !plural.contains('.'));
        let plural = plural.ok_or_else(|| KindError::Called(name.to_owned()))?;
        let selector = spec.selector.as_ref().map(|selector| {
            let parsed = LabelSelector::from_object(selector);
            parsed.ok_or(KindError::Selector)
        });
        Ok(Self {
            kind: SyncKind::new(&spec.group, &spec.kind)?,
            plural: plural.to_owned(),
            selector: selector.transpose()?,
            made_everywhere: is_of_graphs(object),
            spec,
        })
    }

    /// Checks an object that is about to be stored. One that cannot be read would leave it open what
    /// zones should have; one that is stored already may be written as it is.
    pub(crate) fn check(old: Option<&Value>, new: &Value) -> Result<(), KindError> {
        if old.is_some_and(|old| old["spec"] == new["spec"]) {
            return Ok(());
        }
        let synced = Self::of(new)?;
        let is_zones = |object: &Value| object["spec"]["status"] == "Zones";
        // Earlier versions wrote the default into the object.
        let is_news = is_zones(new) && !old.is_some_and(is_zones);
        if is_news && is_consumed_by_hub(&synced.kind) {
            return Err(KindError::ConsumedByHub(synced.kind.kind().to_owned()));
        }
        Ok(())
    }

    /// What its object is called: `<plural>.<group>`. Its definition has the same name.
    pub fn name(&self) -> String {
        match self.spec.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// Where its objects are in the store.
    pub(crate) fn collection(&self) -> String {
        match self.spec.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{group}/{}", self.plural),
        }
    }

    /// The definition that must be there before its objects; built-in kinds need none, and none
    /// is found for them.
    pub(crate) fn definition(&self) -> Option<ObjectName> {
        match self.spec.group.as_str() {
            "" => None,
            _ if self.made_everywhere => None,
            _ => ObjectName::new("", &self.name()).ok(),
        }
    }

    pub fn goes_down(&self) -> bool {
        match self.spec.direction {
            DirectionName::HubToZone | DirectionName::Both => true,
            DirectionName::ZoneToHub => false,
        }
    }

    pub fn goes_up(&self) -> bool {
        match self.spec.direction {
            DirectionName::ZoneToHub | DirectionName::Both => self.spec.zone_authored,
            DirectionName::HubToZone => false,
        }
    }

    /// What the rules of writing need.
    pub fn synced(&self) -> Synced {
        Synced {
            direction: match (self.spec.direction, self.goes_up()) {
                (DirectionName::HubToZone, _) | (DirectionName::Both, false) => {
                    Direction::HubToZone
                }
                (DirectionName::ZoneToHub, _) => Direction::ZoneToHub,
                (DirectionName::Both, true) => Direction::Both,
            },
            status: match self.spec.status {
                _ if is_consumed_by_hub(&self.kind) => StatusWriters::Each,
                Some(StatusName::Each) => StatusWriters::Each,
                Some(StatusName::Zones) | None => StatusWriters::Zones,
            },
        }
    }

    /// What becomes of objects that zones should not have any more.
    pub fn withdrawal(&self) -> Withdrawal {
        match self.spec.on_withdraw {
            WithdrawName::Orphan => Withdrawal::Orphan,
            WithdrawName::Delete => Withdrawal::Delete,
        }
    }

    /// Returns true if an object is of this kind. A SyncedKind with a wrong name has the plural of
    /// another kind, whose objects are none of its own.
    pub fn is_kind_of(&self, object: &Value) -> bool {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let (group, _) = api_version.split_once('/').unwrap_or_default();
        group == self.kind.group() && object["kind"] == self.kind.kind()
    }

    /// Whether an object of this kind may come from a zone: its labels of ours do not come along,
    /// so that the zone alone knows whether a Secret was marked.
    pub(crate) fn takes(&self, object: &Value) -> bool {
        self.is_selected(object) && !self.is_token(object) && !self.is_made_everywhere(object)
    }

    fn is_selected(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        let label = |key: &str| labels[key].as_str();
        let selector = self.selector.as_ref();
        selector.is_none_or(|selector| selector.matches(label))
    }

    /// Whether an object crosses as one of this kind, wherever it was authored.
    pub fn selects(&self, object: &Value) -> bool {
        let kept = self.is_secret_kept(object)
            || self.is_made_everywhere(object)
            || self.is_undistributed(object);
        self.is_kind_of(object) && self.is_selected(object) && !kept
    }

    /// Returns true if a graph says that it stays at the hub.
    fn is_undistributed(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let mut marks = ["labels", "annotations"].into_iter();
        self.kind == graphs() && marks.any(|marks| metadata[marks][DISTRIBUTE] == "false")
    }

    /// What every control plane makes for itself.
    fn is_made_everywhere(&self, object: &Value) -> bool {
        let name = object["metadata"]["name"].as_str();
        // What runs a control plane is there, whatever its kind.
        let namespace = object["metadata"]["namespace"].as_str();
        if namespace.is_some_and(|namespace| namespace.starts_with("kube-")) {
            return true;
        }
        match (self.kind.group(), self.kind.kind()) {
            ("", "ConfigMap") => name == Some("kube-root-ca.crt"),
            ("", "ServiceAccount") => name == Some("default"),
            ("", "Namespace") => name.is_some_and(is_everywhere),
            (_, _) => false,
        }
    }

    /// Secrets cross only when somebody said so, and those of service accounts never.
    fn is_secret_kept(&self, object: &Value) -> bool {
        let is_secret = self.kind.group().is_empty() && self.kind.kind() == "Secret";
        let wanted = object["metadata"]["labels"][SYNC_LABEL] == "true";
        is_secret && (!wanted || self.is_token(object))
    }

    fn is_token(&self, object: &Value) -> bool {
        let is_secret = self.kind.group().is_empty() && self.kind.kind() == "Secret";
        is_secret && object["type"] == "kubernetes.io/service-account-token"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(group: &str, kind: &str, plural: &str, spec: &Value) -> Value {
        let name = match group {
            "" => plural.to_owned(),
            group => format!("{plural}.{group}"),
        };
        let mut object = json!({
            "metadata": {"name": name},
            "spec": {"group": group, "kind": kind, "direction": "HubToZone"},
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        object
    }

    fn definitions(spec: &Value) -> Value {
        let (group, kind) = ("apiextensions.k8s.io", "CustomResourceDefinition");
        object(group, kind, "customresourcedefinitions", spec)
    }

    #[test]
    fn the_hub_writes_the_status_of_what_it_reads_itself() {
        for (object, expected) in [
            (definitions(&json!({})), StatusWriters::Each),
            // As earlier versions stored it.
            (
                definitions(&json!({"status": "Zones"})),
                StatusWriters::Each,
            ),
            (
                object("", "Namespace", "namespaces", &json!({})),
                StatusWriters::Each,
            ),
            (
                object(
                    "kro.run",
                    "ResourceGraphDefinition",
                    "resourcegraphdefinitions",
                    &json!({}),
                ),
                StatusWriters::Each,
            ),
            (
                object("apps", "Deployment", "deployments", &json!({})),
                StatusWriters::Zones,
            ),
            (
                object(
                    "apps",
                    "Deployment",
                    "deployments",
                    &json!({"status": "Each"}),
                ),
                StatusWriters::Each,
            ),
        ] {
            let synced = SyncedKind::of(&object).expect("well-formed");
            assert_eq!(synced.synced().status, expected, "{object}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_stored() {
        let good = object("", "ConfigMap", "configmaps", &json!({}));
        let selector = json!({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}});
        let bad = object("", "ConfigMap", "configmaps", &selector);
        let said = |old: Option<&Value>, new: &Value| {
            SyncedKind::check(old, new).map_err(|error| error.to_string())
        };
        assert_eq!(said(None, &good), Ok(()));
        let refused = Err(KindError::Selector.to_string());
        assert_eq!(said(None, &bad), refused);
        assert_eq!(said(Some(&good), &bad), refused);
        // Labels of one that a newer version wrote can be changed.
        assert_eq!(said(Some(&bad), &bad), Ok(()));
        let zones = definitions(&json!({"status": "Zones"}));
        let refused = Err("spec.status: the hub itself reads CustomResourceDefinition objects and writes their status; write Each, or leave it out".to_owned());
        assert_eq!(said(None, &zones), refused);
        assert_eq!(
            said(
                Some(&zones),
                &definitions(&json!({"status": "Zones", "onWithdraw": "Delete"}))
            ),
            Ok(())
        );
    }
}
