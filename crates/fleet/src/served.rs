//! Whether the hub serves the kinds of SyncedKinds: said when one is written, and in its status.

use deltaplane_api::time::Time;
use deltaplane_client::discovery::{self, Catalog};
use deltaplane_client::feed::{self, Query};
use deltaplane_client::request::{self, Patch, RequestError};
use deltaplane_client::{ObjectKey, Pace, Resource};
use deltaplane_runtime::Stop;
use kube::Client;
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::kinds::{GROUP, SyncedKind, VERSION};

const SERVED: &str = "Served";

fn resource() -> Resource {
    Resource::cluster(GROUP, VERSION, "syncedkinds", "SyncedKind")
}

/// Keeps the condition `Served` of all SyncedKinds until told to stop.
pub(crate) async fn run(fleet: Fleet, client: Client, pace: Pace, stop: Stop) {
    let (mut discovery, follower) = discovery::follow(client.clone(), pace.clone());
    let mut known = fleet.known();
    let keeping = async {
        let mut failures = 0;
        loop {
            known.borrow_and_update();
            let catalog = discovery.current().await;
            match tell_all(&client, &catalog, &pace).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    tracing::debug!(%error, failures, "failed to tell which kinds are served");
                    pace.rest(failures, error.retry_after()).await;
                    continue;
                }
            }
            tokio::select! {
                _ = discovery.changed() => {}
                changed = known.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
            }
        }
    };
    tokio::join!(follower.run(stop.clone()), stop.unless(keeping));
}

/// Writes the conditions that are not so yet.
async fn tell_all(client: &Client, catalog: &Catalog, pace: &Pace) -> Result<(), RequestError> {
    let mut kinds: Vec<Value> = Vec::new();
    let query = Query::all(resource());
    feed::list(client, &query, |item| {
        kinds.extend(item.parse::<Value>().ok())
    })
    .await?;
    let now = Time::from_system(pace.clock.now());
    for kind in kinds {
        let Some(status) = status(&kind, catalog, now) else {
            continue;
        };
        let name = kind["metadata"]["name"].as_str().unwrap_or_default();
        let path = resource().object_path(&ObjectKey::cluster(name));
        let path = format!("{path}/status");
        match request::patch::<Value>(client, &path, Patch::Merge, &status).await {
            Err(error) if error.is_not_found() => {}
            patched => drop(patched?),
        }
    }
    Ok(())
}

/// Returns the status of a SyncedKind, if it says something else now.
fn status(kind: &Value, catalog: &Catalog, now: Time) -> Option<Value> {
    let (holds, reason, message) = match (SyncedKind::of(kind), unserved(kind, catalog)) {
        (Err(error), _) => {
            let message = format!("the SyncedKind cannot be read, and changes nothing: {error}");
            ("False", "Unreadable", message)
        }
        (Ok(_), Some(missing)) => ("False", "NotServed", missing),
        (Ok(_), None) => ("True", "Served", "the hub serves the kind".to_owned()),
    };
    let before = kind["status"]["conditions"].as_array();
    let before: Vec<Value> = before.cloned().unwrap_or_default();
    let own = before.iter().find(|one| one["type"] == SERVED);
    if own.is_some_and(|own| own["status"] == holds && own["message"] == message.as_str()) {
        return None;
    }
    let since = own.filter(|own| own["status"] == holds);
    let since = since.map_or(Value::Null, |own| own["lastTransitionTime"].clone());
    let since = match since.is_string() {
        true => since,
        false => now.to_string().into(),
    };
    let others = before.iter().filter(|one| one["type"] != SERVED).cloned();
    let own = json!({
        "type": SERVED, "status": holds, "reason": reason, "message": message,
        "observedGeneration": kind["metadata"]["generation"], "lastTransitionTime": since,
    });
    let conditions: Vec<Value> = others.chain([own]).collect();
    Some(json!({"status": {"conditions": conditions}}))
}

/// Asks the hub what is missing for objects of a SyncedKind to cross. A definition that was just
/// created is served in a moment.
pub(crate) async fn missing(client: &Client, kind: &Value) -> Option<String> {
    let catalog = discovery::discover(client).await.ok()?;
    let missing = unserved(kind, &catalog)?;
    let definitions = Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    );
    let name = kind["metadata"]["name"].as_str().unwrap_or_default();
    let path = definitions.object_path(&ObjectKey::cluster(name));
    let defined = request::get::<Value>(client, &path).await;
    defined.is_err().then_some(missing)
}

/// Returns what is missing for objects of a SyncedKind to cross; none if the hub serves the kind
/// under the name that the SyncedKind has.
pub(crate) fn unserved(kind: &Value, catalog: &Catalog) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, wanted) = (text(&kind["spec"]["group"]), text(&kind["spec"]["kind"]));
    let name = text(&kind["metadata"]["name"]);
    // While a group does not answer, nobody can tell what it serves.
    if catalog.failure(&group).is_some() {
        return None;
    }
    let Some(served) = catalog.group_kind(&group, &wanted) else {
        let what = match group.as_str() {
            "" => wanted,
            group => format!("{wanted} of group {group}"),
        };
        return Some(format!(
            "the hub does not serve kind {what}; nothing crosses until its CustomResourceDefinition is created"
        ));
    };
    let expected = served.resource.to_string();
    // What cannot be its name at all is refused.
    let may_be_named = group.is_empty() || name.ends_with(&format!(".{group}"));
    (name != expected && may_be_named).then(|| {
        format!("kind {wanted} is served as {expected}; nothing crosses until the SyncedKind has that name")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use deltaplane_client::discovery::Served;

    use super::*;

    fn catalog() -> Catalog {
        let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
        let mut catalog = Catalog::default();
        let served = Served {
            resource: widgets,
            verbs: BTreeSet::new(),
            short_names: BTreeSet::new(),
        };
        let key = ("example.com".to_owned(), "widgets".to_owned());
        catalog.kinds.insert(key, served);
        catalog
    }

    fn synced(name: &str, kind: &str) -> Value {
        json!({
            "metadata": {"name": name, "generation": 3},
            "spec": {"group": "example.com", "kind": kind, "direction": "Both"},
        })
    }

    #[test]
    fn a_synced_kind_that_cannot_be_read_says_so() {
        let mut widgets = synced("widgets.example.com", "Widget");
        widgets["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
        let told = status(&widgets, &catalog(), Time::from_unix(60)).expect("something to say");
        let condition = &told["status"]["conditions"][0];
        assert_eq!(condition["reason"], "Unreadable");
        assert_eq!(
            condition["message"],
            "the SyncedKind cannot be read, and changes nothing: spec.selector is no label selector; write matchLabels or matchExpressions"
        );
    }

    #[test]
    fn a_kind_that_is_not_served_is_told_once() {
        let (catalog, now) = (catalog(), Time::from_unix(60));
        let mut gears = synced("gears.example.com", "Gear");
        let told = status(&gears, &catalog, now).expect("something to say");
        let condition = &told["status"]["conditions"][0];
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("False"), &json!("NotServed"))
        );
        let message = condition["message"].as_str().expect("a text");
        assert!(
            message.starts_with("the hub does not serve kind Gear of group example.com"),
            "{message}"
        );
        gears["status"] = told["status"].clone();
        assert_eq!(status(&gears, &catalog, Time::from_unix(90)), None);
    }

    #[test]
    fn what_is_served_under_another_name_is_told_and_other_conditions_stay() {
        let (catalog, now) = (catalog(), Time::from_unix(60));
        assert_eq!(
            unserved(&synced("widgets.example.com", "Widget"), &catalog),
            None
        );
        let mut misnamed = synced("widget.example.com", "Widget");
        misnamed["status"] = json!({"conditions": [{"type": "Other", "status": "True"}]});
        let told = status(&misnamed, &catalog, now).expect("something to say");
        let conditions = &told["status"]["conditions"];
        assert_eq!(conditions[0], json!({"type": "Other", "status": "True"}));
        let message = conditions[1]["message"].as_str().expect("a text");
        assert!(
            message.contains("is served as widgets.example.com"),
            "{message}"
        );
    }
}
