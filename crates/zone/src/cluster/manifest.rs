//! What must be in a cluster before it can be a zone, as objects: pure.
//!
//! Invariant: no rule names `*`, and every right is one that the agent uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use deltaplane_api::names;
use deltaplane_controllers::graphs;
use deltaplane_controllers::graphs::accounts::policy::POLICY;
use deltaplane_controllers::graphs::accounts::{SYSTEM_NAMESPACE, roles};
use serde_json::{Value, json};

use super::policies::{COMPUTED, OWNERSHIP, ZONE_LABEL};

/// The least that an agent needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Of the service account.
    pub namespace: String,
    /// The kinds that cross.
    pub kinds: Vec<KindName>,
    /// What graphs need that run in the cluster; nothing if none do.
    pub graphs: Option<GraphRights>,
    /// Whether users of the hub may act in the cluster through the zone, each as himself.
    pub impersonate: bool,
}

/// What graphs are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphRights {
    /// The kinds that graphs define.
    pub instances: Vec<KindName>,
    /// The kinds of the objects that they make, or refer to.
    pub objects: Vec<KindName>,
    /// The accounts that they act as; none if they act as the agent.
    pub accounts: Vec<String>,
}

/// A kind as RBAC names it: `widgets.example.com`, `configmaps`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindName {
    group: String,
    plural: String,
}

/// A text that names no kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not <plural>.<group>, such as widgets.example.com, deployments.apps or configmaps"
)]
pub struct NotAKindName(String);

/// What the service account and its rights are called.
const NAME: &str = "deltaplane-zone";
/// What is done with objects that cross, or that graphs make: looked for and followed, applied, and
/// deleted.
const SYNCED: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];
/// What the agent does with objects that graphs make as an account: it follows them, and deletes
/// those that graphs created when the account has no rights any more.
const FOLLOWED: [&str; 4] = ["get", "list", "watch", "delete"];
const RBAC: &str = "rbac.authorization.k8s.io";

// === impl Manifest ===

impl Manifest {
    /// In the order in which they are made.
    pub fn objects(&self) -> Vec<Value> {
        let metadata =
            |name: &str| json!({"name": name, "labels": {"app.kubernetes.io/name": NAME}});
        let mut account = metadata(NAME);
        account["namespace"] = self.namespace.as_str().into();
        let mut objects = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(&self.namespace)}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}),
            json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
                "metadata": metadata(NAME), "rules": self.rules(),
            }),
            json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
                "metadata": metadata(NAME),
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": NAME},
                "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": self.namespace}],
            }),
        ];
        if let Some(graphs) = self.graphs.as_ref().filter(|graphs| graphs.has_accounts()) {
            objects.extend(graphs.account_objects());
            if self.namespace == SYSTEM_NAMESPACE {
                // It is the first of all.
                let mut namespaces = 0;
                objects.retain(|object| {
                    namespaces += usize::from(object["kind"] == "Namespace");
                    object["kind"] != "Namespace" || namespaces == 1
                });
            }
        }
        objects
    }

    /// What is needed for whatever crosses, then what crosses, then what was asked for.
    fn rules(&self) -> Vec<Value> {
        let mut policies = vec![OWNERSHIP, ZONE_LABEL, COMPUTED];
        if self.graphs.is_some() {
            policies.push(POLICY);
        }
        let mut rules = vec![json!({
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
            "resourceNames": policies,
            "verbs": ["create", "patch", "delete"],
        })];
        rules.push(rule(
            "authentication.k8s.io",
            &["selfsubjectreviews"],
            &["create"],
        ));
        let mut shared: BTreeMap<KindName, BTreeSet<&str>> = BTreeMap::from([
            (
                KindName::new("", "namespaces"),
                BTreeSet::from(["get", "list", "watch", "create", "patch"]),
            ),
            (
                KindName::new("apiextensions.k8s.io", "customresourcedefinitions"),
                BTreeSet::from(["get", "list", "watch", "create", "patch"]),
            ),
        ]);
        let mut synced: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let graphs = self.graphs.as_ref();
        let of_graphs = graphs.map(GraphRights::written).unwrap_or_default();
        let followed = graphs.map(GraphRights::followed).unwrap_or_default();
        for kind in self.kinds.iter().chain(&of_graphs) {
            match shared.get_mut(kind) {
                Some(verbs) => verbs.extend(SYNCED),
                None => {
                    let plurals = synced.entry(&kind.group).or_default();
                    plurals.insert(&kind.plural);
                }
            }
        }
        for kind in followed {
            let is_synced = synced.get(&*kind.group);
            if !is_synced.is_some_and(|plurals| plurals.contains(&*kind.plural)) {
                shared.entry(kind.clone()).or_default().extend(FOLLOWED);
            }
        }
        rules.extend(shared.iter().map(|(kind, verbs)| {
            let verbs: Vec<&str> = SYNCED
                .into_iter()
                .filter(|verb| verbs.contains(verb))
                .collect();
            rule(&kind.group, &[&kind.plural], &verbs)
        }));
        rules.extend(synced.iter().map(|(group, plurals)| {
            let plurals: Vec<&str> = plurals.iter().copied().collect();
            rule(group, &plurals, &SYNCED)
        }));
        rules.extend(graphs.into_iter().flat_map(GraphRights::further));
        if self.impersonate {
            rules.push(rule("", &["groups", "users"], &["impersonate"]));
        }
        rules
    }
}

// === impl GraphRights ===

impl GraphRights {
    /// Whether graphs act as accounts, and not as the agent.
    fn has_accounts(&self) -> bool {
        !self.accounts.is_empty()
    }

    /// All that the agent applies.
    fn written(&self) -> Vec<KindName> {
        let objects = self.objects.iter().filter(|_| !self.has_accounts());
        let all = self.instances.iter().chain(objects).cloned();
        own().into_iter().chain(all).collect()
    }

    /// The objects that the agent follows, and that accounts apply.
    fn followed(&self) -> &[KindName] {
        if self.has_accounts() {
            &self.objects
        } else {
            &[]
        }
    }

    /// The roles that graphs act with, and the account of instances in no namespace.
    fn account_objects(&self) -> Vec<Value> {
        let kinds = self.instances.iter();
        let kinds = kinds.map(|kind| (kind.group.clone(), kind.plural.clone()));
        let mut objects = roles::cluster_roles();
        objects.push(roles::served_kinds(&kinds.collect()));
        objects.extend(roles::of_account(SYSTEM_NAMESPACE, true));
        objects
    }

    /// What it takes to act as accounts, to provide the default one, and to ask what they may do.
    fn for_accounts(&self) -> Vec<Value> {
        let definitions = graphs::api::definitions();
        let named = |group: &str, resource: &str, names: &[&str], verbs: &[&str]| {
            json!({
                "apiGroups": [group], "resources": [resource], "resourceNames": names,
                "verbs": verbs,
            })
        };
        let accounts: Vec<&str> = self.accounts.iter().map(String::as_str).collect();
        vec![
            named("", "serviceaccounts", &accounts, &["impersonate"]),
            rule("", &["serviceaccounts"], &["get", "create"]),
            rule(RBAC, &["rolebindings"], &["get", "list", "watch", "create"]),
            rule(
                RBAC,
                &["clusterrolebindings", "clusterroles", "roles"],
                &["get", "list", "watch"],
            ),
            named(RBAC, "clusterroles", &[roles::NAMESPACED], &["bind"]),
            named(
                RBAC,
                "clusterroles",
                &[roles::SERVED_KINDS],
                &["create", "patch"],
            ),
            rule(
                "authorization.k8s.io",
                &["subjectaccessreviews"],
                &["create"],
            ),
            // The hub's word that deletions were approved crosses with definitions.
            rule(&definitions.group, &[&definitions.plural], &["approve"]),
        ]
    }

    /// What is done beside that: statuses and events are written, and gates remember what they
    /// decided.
    fn further(&self) -> Vec<Value> {
        let mut rules: Vec<Value> = {
            let kinds: BTreeSet<KindName> =
                own().into_iter().chain(self.instances.clone()).collect();
            let status = |kind: &KindName| format!("{}/status", kind.plural);
            let rule = |kind: &KindName| rule(&kind.group, &[&status(kind)], &["patch"]);
            kinds.iter().map(rule).collect()
        };
        if !self.objects.contains(&KindName::new("", "secrets")) {
            let verbs = ["list", "create", "patch", "delete"];
            rules.push(rule("", &["secrets"], &verbs));
        }
        rules.push(rule("", &["events"], &["create"]));
        if self.has_accounts() {
            rules.extend(self.for_accounts());
        }
        rules
    }
}

/// The kinds that graphs are written in.
fn own() -> [KindName; 2] {
    let kinds = [graphs::api::revisions(), graphs::api::definitions()];
    kinds.map(|kind| KindName::new(&kind.group, &kind.plural))
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

// === impl KindName ===

impl KindName {
    fn new(group: &str, plural: &str) -> Self {
        Self {
            group: group.to_owned(),
            plural: plural.to_owned(),
        }
    }
}

impl FromStr for KindName {
    type Err = NotAKindName;

    fn from_str(text: &str) -> Result<Self, NotAKindName> {
        let (plural, group) = text.split_once('.').unwrap_or((text, ""));
        let fine = names::dns_label(plural).is_empty()
            && (!text.contains('.') || names::dns_subdomain(group).is_empty());
        match fine {
            true => Ok(Self::new(group, plural)),
            false => Err(NotAKindName(text.to_owned())),
        }
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_as_rbac_names_them() {
        for good in ["configmaps", "deployments.apps", "widgets.example.com"] {
            let kind: Result<KindName, _> = good.parse();
            assert_eq!(kind.map(|kind| kind.to_string()), Ok(good.to_owned()));
        }
        for wrong in [
            "",
            "*",
            "*.apps",
            "widgets.*",
            "widgets.",
            "pods/status",
            "Pods",
            "a b",
        ] {
            assert!(wrong.parse::<KindName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rights_are_those_that_are_used() {
        let verbs = |kinds: &[&str], plural: &str| {
            let kinds = kinds.iter().map(|kind| kind.parse().expect("legal"));
            let manifest = Manifest {
                namespace: "deltaplane-system".to_owned(),
                kinds: kinds.collect(),
                graphs: None,
                impersonate: false,
            };
            let rules = manifest.rules();
            let text = serde_json::to_string(&rules).expect("JSON");
            assert!(
                !text.contains('*') && !text.contains("impersonate"),
                "{text}"
            );
            let names = |rule: &&Value| {
                rule["resources"]
                    .as_array()
                    .is_some_and(|all| all.contains(&plural.into()))
            };
            let mut found = rules
                .iter()
                .filter(names)
                .map(|rule| rule["verbs"].to_string());
            let verbs = found.next().unwrap_or_default();
            assert_eq!(found.next(), None, "one rule for a kind");
            verbs
        };
        let few = r#"["get","list","watch","create","patch"]"#;
        assert_eq!(verbs(&[], "namespaces"), few);
        assert_eq!(verbs(&["configmaps"], "namespaces"), few);
        assert_eq!(verbs(&[], "widgets"), "");
        let synced = r#"["get","list","watch","create","patch","delete"]"#;
        assert_eq!(verbs(&["namespaces", "namespaces"], "namespaces"), synced);
        assert_eq!(
            verbs(&["widgets.example.com", "gadgets.example.com"], "widgets"),
            synced
        );
    }

    #[test]
    fn graphs_need_their_kinds_and_what_they_make() {
        let kinds = |names: &[&str]| {
            names
                .iter()
                .map(|name| name.parse().expect("legal"))
                .collect()
        };
        let rights = GraphRights {
            instances: kinds(&["shops.kro.run"]),
            objects: kinds(&["configmaps"]),
            accounts: Vec::new(),
        };
        let as_accounts = GraphRights {
            accounts: vec!["deltaplane-graphs".to_owned()],
            ..rights.clone()
        };
        let manifest = Manifest {
            namespace: "deltaplane-system".to_owned(),
            kinds: Vec::new(),
            graphs: Some(rights),
            impersonate: false,
        };
        let rules = manifest.rules();
        let has = |group: &str, resource: &str, verb: &str| {
            rules.iter().any(|rule| {
                let lists = |key: &str, value: &str| {
                    let all = rule[key].as_array();
                    all.is_some_and(|all| all.contains(&value.into()))
                };
                lists("apiGroups", group) && lists("resources", resource) && lists("verbs", verb)
            })
        };
        assert!(has("kro.run", "resourcegraphdefinitions", "watch"));
        assert!(has("kro.run", "resourcegraphdefinitions/status", "patch"));
        assert!(has("internal.kro.run", "graphrevisions", "create"));
        assert!(has("internal.kro.run", "graphrevisions/status", "patch"));
        assert!(has("", "events", "create"));
        assert!(has("kro.run", "shops", "patch") && has("kro.run", "shops/status", "patch"));
        assert!(has("", "configmaps", "delete") && !has("", "configmaps/status", "patch"));
        assert!(has("", "secrets", "list") && !has("", "secrets", "watch"));
        // What graphs do as accounts, the agent cannot do itself.
        let manifest = Manifest {
            graphs: Some(as_accounts),
            ..manifest
        };
        let rules = manifest.rules();
        let grants = |group: &str, resource: &str, verb: &str| -> Option<Value> {
            let lists = |rule: &Value, key: &str, value: &str| {
                let all = rule[key].as_array();
                all.is_some_and(|all| all.contains(&value.into()))
            };
            let rule = rules.iter().find(|rule| {
                lists(rule, "apiGroups", group)
                    && lists(rule, "resources", resource)
                    && lists(rule, "verbs", verb)
            })?;
            Some(rule["resourceNames"].clone())
        };
        assert_eq!(grants("", "configmaps", "patch"), None);
        assert_eq!(grants("", "configmaps", "delete"), Some(Value::Null));
        assert_eq!(grants("kro.run", "shops", "patch"), Some(Value::Null));
        let named = Some(json!(["deltaplane-graphs"]));
        assert_eq!(grants("", "serviceaccounts", "impersonate"), named);
        assert_eq!(grants(RBAC, "clusterroles", "bind"), named);
        assert_eq!(grants(RBAC, "clusterroles", "escalate"), None);
        let objects = manifest.objects();
        let namespaces = objects.iter().filter(|one| one["kind"] == "Namespace");
        assert_eq!(namespaces.count(), 1);
    }
}
