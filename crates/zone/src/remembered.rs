//! Which kinds ever came from the hub, kept in the zone's own API: what is here of a kind that does
//! not cross any more must still be let go of, also by a process that never heard of it.

use std::collections::BTreeMap;

use deltaplane_client::request::{self, RequestError};
use deltaplane_client::{ObjectKey, Resource};
use deltaplane_sync::{MANAGER, SyncKind};
use kube::Client;
use serde_json::{Value, json};

/// Kinds, and what they are called in paths.
pub(crate) type Remembered = BTreeMap<SyncKind, String>;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "deltaplane-sync";

fn path() -> String {
    let config_maps = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
    config_maps.object_path(&ObjectKey::new(NAMESPACE, NAME))
}

/// What was written down.
pub(crate) async fn read(client: &Client) -> Result<Remembered, RequestError> {
    let found = match request::get::<Value>(client, &path()).await {
        Err(error) if error.is_not_found() => return Ok(Remembered::new()),
        found => found?,
    };
    let kinds = found["data"].as_object().into_iter().flatten();
    let kinds = kinds.filter_map(|(name, plural)| {
        let (kind, group) = name.split_once('.').unwrap_or((name, ""));
        let kind = SyncKind::new(group, kind).ok()?;
        Some((kind, plural.as_str()?.to_owned()))
    });
    Ok(kinds.collect())
}

/// Writes them down, in place of those before.
pub(crate) async fn write(client: &Client, kinds: &Remembered) -> Result<(), RequestError> {
    let data = kinds.iter().map(|(kind, plural)| {
        let name = match kind.group() {
            "" => kind.kind().to_owned(),
            group => format!("{}.{group}", kind.kind()),
        };
        (name, Value::from(plural.as_str()))
    });
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": data.collect::<serde_json::Map<_, _>>(),
    });
    let path = format!("{}?fieldManager={MANAGER}-agent&force=true", path());
    request::apply(client, &path, &object).await
}
