//! What a namespace or a definition would take with it, were it deleted.

use deltaplane_client::discovery::Catalog;
use deltaplane_client::feed::{self, Query};
use deltaplane_client::{Header, Resource};
use deltaplane_sync::SyncKind;
use kube::Client;

use crate::catalog::namespaces;

/// How many objects go with one that is called `name` here.
pub(super) async fn count(
    client: &Client,
    served: &Catalog,
    kind: &SyncKind,
    name: &str,
) -> Result<u64, String> {
    if let Some((group, reason)) = served.failures.first_key_value() {
        return Err(unknown(kind, &format!("{group} does not answer: {reason}")));
    }
    let is_namespace = *kind == namespaces();
    let mut count = 0;
    for resource in served.with_verbs(&["list", "delete"]) {
        let query = Query::metadata(resource.clone());
        let query = match is_namespace {
            true if resource.namespaced => query.in_namespace(name),
            false if is_defined_by(resource, name) => query,
            true | false => continue,
        };
        let counts = |header: &Header| !is_namespace || is_somebodys(resource, header);
        let listed = feed::list(client, &query, |item| {
            count += u64::from(counts(&item.header));
        });
        match listed.await {
            // It has just ceased to be served.
            Err(error) if error.is_not_found() => {}
            listed => listed.map_err(|error| unknown(kind, &error))?,
        }
    }
    Ok(count)
}

/// What is said when it cannot be known.
pub(super) fn unknown(kind: &SyncKind, why: &dyn std::fmt::Display) -> String {
    let what = match *kind == namespaces() {
        true => "what is in the namespace",
        false => "how many objects the definition has",
    };
    format!(
        "{what} cannot be counted here, and would be deleted with it ({why}): approve it, or give the right to list it"
    )
}

fn is_defined_by(resource: &Resource, definition: &str) -> bool {
    let name = definition.split_once('.');
    name.is_some_and(|(plural, group)| resource.plural == plural && resource.group == group)
}

/// Whether somebody would miss it: not what a control plane makes by itself in every namespace, nor
/// what goes with its owner and is made anew with it.
fn is_somebodys(resource: &Resource, header: &Header) -> bool {
    let made_by_itself = match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "configmaps") => header.name == "kube-root-ca.crt",
        ("", "serviceaccounts") => header.name == "default",
        ("" | "events.k8s.io", "events")
        | ("", "endpoints")
        | ("metrics.k8s.io", _)
        | ("coordination.k8s.io", "leases") => true,
        _ => false,
    };
    !made_by_itself && header.owner_references.is_empty()
}
