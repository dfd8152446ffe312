//! What zones left at the hub: objects that nobody takes away but a person.

use deltaplane_client::request::{self, RequestError};
use deltaplane_client::{ObjectKey, Resource};
use deltaplane_fleet::kinds::{GROUP, VERSION};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use serde_json::Value;

use super::PARALLEL;
use super::shown::text;

/// Words for each zone and kind of which something was left. Nothing for who may not read which
/// kinds cross: it is a hint, and no part of the list.
pub(super) async fn words(client: &Client) -> String {
    let origins = origins(client).await.unwrap_or_default();
    let kinds = origins.iter();
    kinds.map(|(kind, said)| left(kind, said)).collect()
}

async fn origins(client: &Client) -> Result<Vec<(String, Value)>, RequestError> {
    let resource = Resource::cluster(GROUP, VERSION, "syncedkinds", "SyncedKind");
    let list: Value = request::get(client, &resource.collection_path(None)).await?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let names = items.iter().map(|item| text(&item["metadata"]["name"]));
    let names: Vec<String> = names.collect();
    let asked = stream::iter(names).map(async |name| {
        let path = resource.object_path(&ObjectKey::cluster(&name));
        let said: Value = request::get(client, &format!("{path}/_origins")).await?;
        Ok((name, said))
    });
    asked.buffered(PARALLEL).try_collect().await
}

fn left(kind: &str, said: &Value) -> String {
    let zones = said["zones"].as_array().into_iter().flatten();
    let left = zones.filter(|one| one["left"] == true);
    let words = left.map(|one| {
        let (zone, objects) = (text(&one["zone"]), text(&one["objects"]));
        let with = text(&one["deleteWith"]);
        format!("zone {zone} left {objects} {kind} here; delete what is not needed with: {with}\n")
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_left_is_told() {
        let said = json!({"zones": [
            {"zone": "a", "objects": 2, "left": true, "deleteWith": "kubectl delete x"},
            {"zone": "b", "objects": 3, "left": false, "deleteWith": null},
        ]});
        let expected = "zone a left 2 widgets.example.com here; delete what is not needed with: kubectl delete x\n";
        assert_eq!(left("widgets.example.com", &said), expected);
    }
}
