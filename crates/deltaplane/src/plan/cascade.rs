//! The objects that go along with a deletion: those in a namespace, and those of a kind.
//!
//! A kind that cannot be listed is named, and does not keep the rest from being told.

use std::collections::BTreeSet;

use deltaplane_client::discovery::Served;
use deltaplane_client::{Catalog, Query, Resource, feed};
use futures::{StreamExt, stream};
use kube::Client;
use serde_json::Value;

use super::change::group;
use crate::rollout::whole;

/// The objects that go along with a deletion.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CascadedObjects {
    /// With their kinds and metadata alone; [`MAX_CASCADED`] at most.
    pub(super) objects: Vec<Value>,
    /// There are more than these.
    pub(super) has_more: bool,
    /// The kinds of which it is not known whether there are any.
    pub(super) unlisted: Vec<String>,
}

/// Further objects are not counted.
pub(super) const MAX_CASCADED: usize = 5_000;
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
) -> Option<CascadedObjects> {
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
        (_, _) => return None,
    };
    Some(list_all(client, queries).await)
}

async fn list_all(client: &Client, queries: Vec<Query>) -> CascadedObjects {
    let mut cascade = CascadedObjects::default();
    let mut seen = BTreeSet::new();
    let listed = queries.into_iter().map(|query| list(client, query));
    let mut listed = stream::iter(listed).buffered(PARALLEL);
    while let Some(listed) = listed.next().await {
        match listed {
            Listed::Objects(objects) => {
                // Some are served in several groups.
                let new = objects
                    .into_iter()
                    .filter(|one| seen.insert(one["metadata"]["uid"].to_string()));
                cascade
                    .objects
                    .extend(new.filter(|one| !is_made_everywhere(one)));
                cascade.has_more |= cascade.objects.len() > MAX_CASCADED;
                cascade.objects.truncate(MAX_CASCADED);
            }
            Listed::Unlisted(resource) => cascade.unlisted.push(resource.kind),
        }
    }
    cascade
}

enum Listed {
    /// One more than is told, at most, and those that are made everywhere.
    Objects(Vec<Value>),
    /// The user may not list them, or the hub failed to.
    Unlisted(Resource),
}

async fn list(client: &Client, query: Query) -> Listed {
    let most = MAX_CASCADED + 1 + MADE_EVERYWHERE.len();
    let mut objects = Vec::new();
    let listed = feed::list(client, &query, |item| {
        if objects.len() < most {
            let object: Option<Value> = item.parse().ok();
            objects.extend(object.map(|object| whole(object, &query.resource)));
        }
    })
    .await;
    match listed {
        Ok(()) => Listed::Objects(objects),
        // The kind went meanwhile.
        Err(error) if error.is_not_found() => Listed::Objects(Vec::new()),
        Err(error) => {
            let (kind, error) = (&query.resource.kind, &error as &dyn std::error::Error);
            tracing::debug!(%kind, error, "failed to list a kind");
            Listed::Unlisted(query.resource)
        }
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
