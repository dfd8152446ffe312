//! Reading what there is of a definition from the API.

use deltaplane_client::feed::list;
use deltaplane_client::{ObjectKey, Query, RequestError, Resource, request};
use deltaplane_controllers::graphs::api;
use deltaplane_graph::{did_you_mean, labels};
use kube::Client;
use serde_json::Value;

use super::seen::{Revision, Seen, key, text};
use super::{DefinitionName, RolloutError};

/// All of it.
pub(crate) async fn seen(client: &Client, name: &DefinitionName) -> Result<Seen, RolloutError> {
    let definition = definition(client, name).await?;
    let mut kept = Vec::new();
    list(client, &revisions_of(name), |item| {
        let object: Option<Value> = item.parse().ok();
        kept.extend(object.and_then(|object| Revision::read(&object, name.as_str())));
    })
    .await
    .map_err(RolloutError::request)?;
    let instances = match served(client, &definition).await? {
        Some(resource) => objects(client, &Query::all(resource)).await?,
        None => Vec::new(),
    };
    Ok(Seen::new(definition, kept, instances))
}

/// The definition, or which there are.
pub(super) async fn definition(
    client: &Client,
    name: &DefinitionName,
) -> Result<Value, RolloutError> {
    let path = definition_path(name);
    match request::get(client, &path).await {
        Err(error) if error.is_not_found() => Err(missing(client, name, error).await),
        found => found.map_err(RolloutError::request),
    }
}

pub(super) fn definition_path(name: &DefinitionName) -> String {
    api::definitions().object_path(&ObjectKey::cluster(name.as_str()))
}

async fn missing(client: &Client, name: &DefinitionName, error: RequestError) -> RolloutError {
    let known = match objects(client, &Query::all(api::definitions())).await {
        Ok(known) => known,
        // Nobody can ask for graphs there, or not like this.
        Err(_) => return RolloutError::request(error),
    };
    let known: Vec<String> = known.iter().map(|one| key(one).name).collect();
    RolloutError::NoDefinition {
        name: name.as_str().to_owned(),
        near: did_you_mean(name.as_str(), known.iter().map(String::as_str)),
        known,
    }
}

/// The revisions of a definition.
pub(super) fn revisions_of(name: &DefinitionName) -> Query {
    let label = labels::value(name.as_str());
    let selector = format!("{}={label}", labels::DEFINITION_NAME);
    Query::all(api::revisions()).with_labels(&selector)
}

/// Where the instances of a definition are; nothing if their kind is not served.
pub(crate) async fn served(
    client: &Client,
    definition: &Value,
) -> Result<Option<Resource>, RolloutError> {
    let schema = &definition["spec"]["schema"];
    let group = schema["group"].as_str().unwrap_or(api::GROUP);
    let (version, kind) = (text(&schema["apiVersion"]), text(&schema["kind"]));
    let path = format!("/apis/{group}/{version}");
    let found: Value = match request::get(client, &path).await {
        Err(error) if error.is_not_found() => return Ok(None),
        found => found.map_err(RolloutError::request)?,
    };
    let mut resources = found["resources"].as_array().into_iter().flatten();
    let found = resources.find(|one| one["kind"] == kind && !text(&one["name"]).contains('/'));
    Ok(found.map(|one| Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: text(&one["name"]).to_owned(),
        kind: kind.to_owned(),
        namespaced: one["namespaced"] == true,
    }))
}

/// All objects of a query, with the kind that lists leave out.
pub(crate) async fn objects(client: &Client, query: &Query) -> Result<Vec<Value>, RolloutError> {
    let mut objects = Vec::new();
    list(client, query, |item| {
        objects.extend(item.parse().ok().map(|json| whole(json, &query.resource)));
    })
    .await
    .map_err(RolloutError::request)?;
    Ok(objects)
}

/// An object with its kind.
pub(crate) fn whole(mut object: Value, resource: &Resource) -> Value {
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.as_str().into();
    object
}
