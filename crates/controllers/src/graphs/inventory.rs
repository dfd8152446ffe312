//! The kinds and namespaces in which an instance has objects, as its annotations say. Pure.
//!
//! Whoever deletes an instance without its graph looks there, be it kro: the annotations are those
//! of the apply set specification (KEP-3659), with kro's digest of them.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use deltaplane_graph::observed::{ObjectId, Observed};
use deltaplane_graph::plan::{Plan, Standing};
use deltaplane_graph::{Graph, Gvk};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The annotations of an instance.
pub(super) const GROUP_KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
const NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";
const TOOLING: &str = "applyset.kubernetes.io/tooling";
const DIGEST: &str = "internal.kro.run/applyset-inventory-hash";

/// Where the objects of an instance are, and maybe more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    /// `ConfigMap`, `Deployment.apps`.
    group_kinds: BTreeSet<String>,
    /// All namespaces but the instance's own.
    namespaces: BTreeSet<String>,
}

// === impl Inventory ===

impl Inventory {
    /// The inventory of an instance for which a plan is carried out: what is there, what is applied,
    /// and the kinds of nodes that are not excluded, since their objects come later.
    pub(super) fn of_plan(graph: &Graph, plan: &Plan, observed: &Observed, own: &str) -> Self {
        let mut inventory = Self::default();
        for (node, standing) in graph.nodes().iter().zip(&plan.nodes) {
            if !node.is_external() && !matches!(standing, Standing::Excluded(_)) {
                inventory.add_kind(node.gvk());
            }
        }
        let is_own = |node: &str| {
            let node = graph.find(node).map(|index| graph.node(index));
            node.is_none_or(|node| !node.is_external())
        };
        let live = observed.iter().filter(|(node, _)| is_own(node));
        live.for_each(|(_, live)| inventory.add(&live.id, own));
        let applied = plan.apply.iter();
        applied.for_each(|one| inventory.add(&one.id, own));
        inventory
    }

    /// The same with further objects: those that are to be applied and that the API refused. They
    /// are not in a plan that is made after that, and are wanted all the same.
    pub(super) fn with<'i>(mut self, ids: impl Iterator<Item = &'i ObjectId>, own: &str) -> Self {
        ids.for_each(|id| self.add(id, own));
        self
    }

    /// The inventory of an instance of which nothing is planned: what it says, and what is there.
    pub(super) fn of_observed(instance: &Value, observed: &Observed, own: &str) -> Self {
        let annotations = &instance["metadata"]["annotations"];
        let listed = |key: &str| {
            let text = annotations[key].as_str().unwrap_or_default();
            let names = text.split(',').map(str::trim);
            names.filter(|name| !name.is_empty()).map(str::to_owned)
        };
        let mut inventory = Self {
            group_kinds: listed(GROUP_KINDS).collect(),
            namespaces: listed(NAMESPACES).collect(),
        };
        let live = observed.iter();
        live.for_each(|(_, live)| inventory.add(&live.id, own));
        inventory
    }

    fn add(&mut self, id: &ObjectId, own: &str) {
        self.add_kind(&id.gvk);
        if !id.namespace.is_empty() && id.namespace != own {
            self.namespaces.insert(id.namespace.clone());
        }
    }

    fn add_kind(&mut self, gvk: &Gvk) {
        self.group_kinds.insert(match gvk.group.as_str() {
            "" => gvk.kind.clone(),
            group => format!("{}.{group}", gvk.kind),
        });
    }

    /// The annotations of an instance, given the id of its apply set and the program that applies it.
    pub(super) fn annotations(&self, set: &str, product: &str) -> BTreeMap<&'static str, String> {
        let joined = |names: &BTreeSet<String>| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            names.join(",")
        };
        let (kinds, namespaces) = (joined(&self.group_kinds), joined(&self.namespaces));
        let digest = Sha256::digest([set, &kinds, &namespaces].join("\0"));
        let digest = format!("sha256:{}", URL_SAFE_NO_PAD.encode(digest));
        BTreeMap::from([
            (GROUP_KINDS, kinds),
            (NAMESPACES, namespaces),
            // kro deletes only what kro applied.
            (TOOLING, format!("kro/{product}")),
            (DIGEST, digest),
        ])
    }
}

/// Groups and kinds that an instance says it has objects of.
pub(super) fn group_kinds_of(instance: &Value) -> impl Iterator<Item = (&str, &str)> {
    let said = instance["metadata"]["annotations"][GROUP_KINDS].as_str();
    let names = said
        .unwrap_or_default()
        .split(',')
        .filter(|name| !name.is_empty());
    names.map(|name| match name.split_once('.') {
        Some((kind, group)) => (group, kind),
        None => ("", name),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_inventory_is_written_as_kro_writes_it() {
        let mut inventory = Inventory::default();
        inventory.add_kind(&Gvk::new("apps", "v1", "Deployment"));
        let id = |namespace: &str| ObjectId {
            gvk: Gvk::new("", "v1", "ConfigMap"),
            namespace: namespace.to_owned(),
            name: "a".to_owned(),
        };
        for namespace in ["ops", "team", "", "dev"] {
            inventory.add(&id(namespace), "team");
        }
        let written = inventory.annotations("applyset-x-v1", "0.1.0");
        let expected = BTreeMap::from([
            (GROUP_KINDS, "ConfigMap,Deployment.apps".to_owned()),
            (NAMESPACES, "dev,ops".to_owned()),
            (TOOLING, "kro/0.1.0".to_owned()),
            (
                DIGEST,
                "sha256:4qvm-J7Ch3LhlsBXmrLYE6rnsuMpy-Wj4tLbXRLPQjE".to_owned(),
            ),
        ]);
        assert_eq!(written, expected);
        let instance = json!({"metadata": {"annotations": written}});
        let read = Inventory::of_observed(&instance, &Observed::default(), "team");
        assert_eq!(read, inventory);
        let kinds: Vec<(&str, &str)> = group_kinds_of(&instance).collect();
        assert_eq!(kinds, [("", "ConfigMap"), ("apps", "Deployment")]);
    }
}
