//! Namespaces: they end in two steps, content first.

use deltaplane_api::finalizers;
use deltaplane_api::names::NameRule;
use serde_json::{Value, json};

use super::{GENERIC, Strategy};
use crate::seams::Operation;
use crate::value;

/// Set on every namespace, so that selectors can name one.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(crate) static STRATEGY: Strategy = Strategy {
    name: NameRule::Label,
    prepare_create: Some(prepare_create),
    prepare_update: Some(prepare_update),
    mark_deleted: Some(|namespace| {
        value::set_at(namespace, "status.phase", json!("Terminating"));
    }),
    lingers: Some(|namespace| !value::list(namespace, "spec.finalizers").is_empty()),
    returns_deleted: true,
    refuse: Some(|operation, _, name| {
        let kept = ["default", "kube-system", "kube-public"].contains(&name);
        (kept && operation == Operation::Delete).then_some("this namespace may not be deleted")
    }),
    ..GENERIC
};

fn prepare_create(namespace: &mut Value) {
    let mut finalizers = value::list(namespace, "spec.finalizers").to_vec();
    if !finalizers.iter().any(|one| one == finalizers::KUBERNETES) {
        finalizers.push(json!(finalizers::KUBERNETES));
    }
    value::set_at(namespace, "spec.finalizers", json!(finalizers));
    value::set(namespace, "status", json!({"phase": "Active"}));
    label(namespace);
}

fn prepare_update(namespace: &mut Value, old: &Value) {
    value::set(namespace, "spec", old["spec"].clone());
    label(namespace);
}

fn label(namespace: &mut Value) {
    let name = value::text(namespace, "metadata.name").to_owned();
    if let Some(labels) = value::map_mut(&mut namespace["metadata"], "labels") {
        labels.insert(NAME_LABEL.to_owned(), json!(name));
    }
}
