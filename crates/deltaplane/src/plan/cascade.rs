//! What goes along with what would be deleted: the objects in a namespace, and those of a kind.

use std::collections::BTreeSet;

use deltaplane_client::discovery::Served;
use deltaplane_client::{Catalog, Query, Resource, feed};
use futures::{StreamExt, stream};
use kube::Client;
use serde_json::Value;

use super::PlanError;
use super::change::group;
use crate::rollout::whole;

/// The objects that go along with a deletion.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CascadedObjects {
    /// With their kinds and metadata alone.
    pub(super) objects: Vec<Value>,
    /// The kinds of which it is not known whether there are any.
    pub(super) unlisted: Vec<String>,
}

/// So many kinds are listed at once.
const PARALLEL: usize = 16;
/// Objects that every namespace has, or that are about others.
const MADE_EVERYWHERE: [(&str, &str); 2] = [
    ("ConfigMap", "kube-root-ca.crt"),
    ("ServiceAccount", "default"),
];

/// Reads what goes along with an object; nothing does with most kinds.
pub(super) async fn read(
    client: &Client,
    catalog: &Catalog,
    live: &Value,
) -> Result<Option<CascadedObjects>, PlanError> {
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let queries: Vec<Query> = match (group(live), live["kind"].as_str()) {
        ("", Some("Namespace")) => {
            let kinds = catalog.kinds.values().filter(|one| is_in_namespaces(one));
            let queries = kinds.map(|one| Query::metadata(one.resource.clone()));
            queries.map(|query| query.in_namespace(name)).collect()
        }
        ("apiextensions.k8s.io", Some("CustomResourceDefinition")) => {
            let names = name.split_once('.').unwrap_or((name, ""));
            let kind = (names.1.to_owned(), names.0.to_owned());
            let kind = catalog.kinds.get(&kind);
            kind.map(|one| Query::metadata(one.resource.clone()))
                .into_iter()
                .collect()
        }
        (_, _) => return Ok(None),
    };
    let mut cascade = CascadedObjects::default();
    let mut seen = BTreeSet::new();
    let listed = queries.into_iter().map(|query| list(client, query));
    let mut listed = stream::iter(listed).buffered(PARALLEL);
    while let Some(listed) = listed.next().await {
        match listed? {
            Listed::Objects(objects) => {
                // Some are served in several groups.
                let new = objects
                    .into_iter()
                    .filter(|one| seen.insert(one["metadata"]["uid"].to_string()));
                cascade
                    .objects
                    .extend(new.filter(|one| !is_made_everywhere(one)));
            }
            Listed::Hidden(resource) => cascade.unlisted.push(resource.kind),
        }
    }
    Ok(Some(cascade))
}

enum Listed {
    Objects(Vec<Value>),
    /// Who asks may not list them.
    Hidden(Resource),
}

async fn list(client: &Client, query: Query) -> Result<Listed, PlanError> {
    let mut objects = Vec::new();
    let listed = feed::list(client, &query, |item| {
        let object: Option<Value> = item.parse().ok();
        objects.extend(object.map(|object| whole(object, &query.resource)));
    })
    .await;
    match listed {
        Ok(()) => Ok(Listed::Objects(objects)),
        Err(error) if matches!(error.code(), Some(401 | 403)) => Ok(Listed::Hidden(query.resource)),
        // The kind went meanwhile.
        Err(error) if error.is_not_found() => Ok(Listed::Objects(Vec::new())),
        Err(error) => Err(PlanError::Ask(Box::new(error))),
    }
}

fn is_in_namespaces(served: &Served) -> bool {
    let Served {
        resource, verbs, ..
    } = served;
    resource.namespaced && verbs.contains("list") && resource.kind != "Event"
}

fn is_made_everywhere(object: &Value) -> bool {
    let is = |kind: &str, name: &str| object["kind"] == kind && object["metadata"]["name"] == name;
    MADE_EVERYWHERE.iter().any(|(kind, name)| is(kind, name))
}
