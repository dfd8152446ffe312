//! Writes at the hub, as the caller: on the objects that were listed, or not at all.

use std::collections::BTreeMap;

use kube::Client;
use serde_json::{Value, json};

use deltaplane_border::{ServedKind, served_kind};
use deltaplane_client::request;
use deltaplane_sync::SyncKind;

use super::super::super::ClientError;
use super::plan::{self, HubWrite, ObjectId, ObjectVersion};
use super::{path_of, resource_of};

/// Writes an object at the hub. `listed` is the hub's as it was when people saw what would be done.
pub(super) async fn write_at_hub(
    client: &Client,
    plurals: &BTreeMap<SyncKind, String>,
    (id, listed): (&ObjectId, Option<&ObjectVersion>),
    write: &HubWrite,
) -> Result<(), ClientError> {
    let plural = plurals.get(&id.kind).map(String::as_str);
    let plural = plural.unwrap_or_default();
    let served = served_kind(client, &id.kind, plural).await;
    let served = served.map_err(|reason| ClientError::Show(reason.into()))?;
    let served = served.unwrap_or_else(|| ServedKind {
        plural: plural.to_owned(),
        version: String::new(),
    });
    let path = path_of(id, &served.version, &served.plural);
    let written = match write {
        HubWrite::Put(content) => {
            let found = match request::get::<Value>(client, &path).await {
                Err(error) if error.is_not_found() => None,
                found => Some(found?),
            };
            match found {
                found if version_of(found.as_ref()).as_ref() != listed => {
                    return Err(ClientError::ChangedMeanwhile);
                }
                Some(found) => {
                    let object = plan::replaced(&found, content);
                    request::replace::<Value>(client, &path, &object).await
                }
                None => {
                    let resource = resource_of(id, &served.version, &served.plural);
                    let namespace = Some(id.namespace.as_str()).filter(|one| !one.is_empty());
                    let path = resource.collection_path(namespace);
                    request::create::<Value>(client, &path, content).await
                }
            }
            .map(drop)
        }
        HubWrite::Delete => {
            let options = listed.map(|listed| {
                let ObjectVersion {
                    uid,
                    resource_version,
                } = listed;
                json!({"preconditions": {"uid": uid, "resourceVersion": resource_version}})
            });
            let options = options.unwrap_or_else(|| json!({}));
            match request::delete(client, &path, &options).await {
                Err(error) if error.is_not_found() => Ok(()),
                deleted => deleted,
            }
        }
    };
    match written {
        Err(error) if error.code() == Some(409) => Err(ClientError::ChangedMeanwhile),
        written => Ok(written?),
    }
}

fn version_of(object: Option<&Value>) -> Option<ObjectVersion> {
    ObjectVersion::read(&object?["metadata"])
}
