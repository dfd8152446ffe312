//! Whether the hub serves the kinds of SyncedKinds: said when one is written, and in its status.

use std::sync::Arc;

use deltaplane_api::time::Time;
use deltaplane_client::discovery::{self, Catalog, PluralCheck};
use deltaplane_client::feed::{self, Query};
use deltaplane_client::request::{self, Patch, RequestError};
use deltaplane_client::{ObjectKey, Pace, Resource};
use deltaplane_runtime::Stop;
use deltaplane_sync::Revision;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::fleet::Fleet;
use crate::kinds::{GROUP, SyncedKind, VERSION};
use crate::known::Known;

const SERVED: &str = "Served";

/// Why no object of a SyncedKind crosses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServedError {
    #[error(
        "the hub does not serve kind {0}; nothing crosses until its CustomResourceDefinition is created"
    )]
    NotServed(String),
    /// The word for the kind is another name of one that is served, such as its plural.
    #[error("the hub does not serve kind {kind}; did you mean {near}? set spec.kind to {near}")]
    Misspelt { kind: String, near: String },
    #[error(
        "kind {kind} is served as {name}; nothing crosses until the SyncedKind has that name: name it {name}"
    )]
    Misnamed { kind: String, name: String },
    #[error(
        "{name} is served as kind {other}, and the hub does not serve kind {kind}; name it <plural>.<group> of {kind}"
    )]
    NameTaken {
        kind: String,
        name: String,
        other: String,
    },
}

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
            let told_at = known.borrow_and_update().synced_at();
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
                () = synced_kinds_changed(&mut known, told_at) => {}
            }
        }
    };
    tokio::join!(follower.run(stop.clone()), stop.unless(keeping));
}

/// Waits for a change of SyncedKinds after a revision. Changes of zones and definitions are none of
/// theirs: what the hub serves is discovered.
async fn synced_kinds_changed(known: &mut watch::Receiver<Arc<Known>>, since: Revision) {
    let changed = known.wait_for(|known| known.synced_at() != since);
    if changed.await.map(drop).is_err() {
        // The process stops.
        std::future::pending().await
    }
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
        (Ok(_), Some(error)) => ("False", error.reason(), error.to_string()),
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

/// Asks the hub why objects of a SyncedKind do not cross. A definition that was just created is served
/// in a moment.
pub(crate) async fn discover_obstacle(client: &Client, kind: &Value) -> Option<ServedError> {
    let catalog = discovery::discover(client).await.ok()?;
    let error = unserved(kind, &catalog)?;
    if error.is_refused() {
        return Some(error);
    }
    let definitions = Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    );
    let name = kind["metadata"]["name"].as_str().unwrap_or_default();
    let path = definitions.object_path(&ObjectKey::cluster(name));
    let defined = request::get::<Value>(client, &path).await;
    defined.is_err().then_some(error)
}

/// Returns why objects of a SyncedKind do not cross; none if the hub serves the kind under the name
/// that the SyncedKind has.
pub(crate) fn unserved(kind: &Value, catalog: &Catalog) -> Option<ServedError> {
    // One that cannot be read is refused for that.
    let synced = SyncedKind::of(kind).ok()?;
    let (group, name) = (synced.kind.group(), synced.name());
    let kind = synced.kind.kind().to_owned();
    let check = catalog.check_plural(group, &kind, &synced.plural);
    let is_missing = matches!(check, PluralCheck::Taken(_) | PluralCheck::NotServed);
    if let Some(near) = similar_kind(catalog, group, &kind).filter(|_| is_missing) {
        return Some(ServedError::Misspelt { kind, near });
    }
    match check {
        // While a group does not answer, nobody can tell what it serves.
        PluralCheck::Matches | PluralCheck::Unknown => None,
        PluralCheck::ServedAs(served) => {
            let name = served.to_string();
            Some(ServedError::Misnamed { kind, name })
        }
        PluralCheck::Taken(other) => {
            let other = other.kind.clone();
            Some(ServedError::NameTaken { kind, name, other })
        }
        PluralCheck::NotServed if group.is_empty() => Some(ServedError::NotServed(kind)),
        PluralCheck::NotServed => Some(ServedError::NotServed(format!("{kind} of group {group}"))),
    }
}

/// Returns the kind of a group that a word means as people call kinds: `configmaps`, `configmap`, `cm`.
fn similar_kind(catalog: &Catalog, group: &str, word: &str) -> Option<String> {
    let lower = word.to_lowercase();
    let mut served = catalog.kinds.values();
    let near = served.find(|one| {
        let Resource { plural, kind, .. } = &one.resource;
        let is_called =
            *plural == lower || kind.to_lowercase() == lower || one.short_names.contains(word);
        one.resource.group == group && is_called
    });
    near.map(|near| near.resource.kind.clone())
}

// === impl ServedError ===

impl ServedError {
    /// Returns true if a SyncedKind like this is not stored: it never becomes right.
    pub(crate) fn is_refused(&self) -> bool {
        match self {
            Self::Misspelt { .. } | Self::Misnamed { .. } | Self::NameTaken { .. } => true,
            Self::NotServed(_) => false,
        }
    }

    /// Of the condition.
    fn reason(&self) -> &'static str {
        match self {
            Self::NotServed(_) | Self::Misspelt { .. } => "NotServed",
            Self::Misnamed { .. } | Self::NameTaken { .. } => "Misnamed",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use deltaplane_client::discovery::Served;
    use futures::FutureExt;

    use super::*;

    fn catalog() -> Catalog {
        let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
        let mut catalog = Catalog::default();
        let served = Served {
            resource: widgets,
            verbs: BTreeSet::new(),
            short_names: BTreeSet::new(),
        };
        catalog.insert_served(served);
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
    fn only_changes_of_synced_kinds_are_looked_at() {
        let (publish, mut known) = watch::channel(Arc::<Known>::default());
        let publish = |at: Revision, synced_at: Revision| {
            let known = Known {
                at,
                synced_at,
                ..Known::default()
            };
            publish.send_replace(Arc::new(known));
        };
        publish(7, 7);
        let mut looks = |since| synced_kinds_changed(&mut known, since).now_or_never();
        assert_eq!(looks(0), Some(()));
        assert_eq!(looks(7), None);
        // A zone was changed.
        publish(8, 7);
        assert_eq!(looks(7), None);
        publish(9, 9);
        assert_eq!(looks(7), Some(()));
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

    #[test]
    fn a_name_of_another_kind_is_refused() {
        for (name, kind, expected) in [
            ("widgets.example.com", "Widget", None),
            ("gears.example.com", "Gear", Some(false)),
            ("gears.example.com", "Widget", Some(true)),
            ("widgets.example.com", "Gear", Some(true)),
        ] {
            let error = unserved(&synced(name, kind), &catalog());
            let is_refused = error.as_ref().map(ServedError::is_refused);
            assert_eq!(is_refused, expected, "{name} {kind}: {error:?}");
        }
        for (name, kind) in [
            ("widgets.example.com", "widgets"),
            ("widgets.example.com", "widget"),
            ("widget.example.com", "WIDGET"),
        ] {
            let error = unserved(&synced(name, kind), &catalog()).expect("no such kind");
            let hint = format!(
                "the hub does not serve kind {kind}; did you mean Widget? set spec.kind to Widget"
            );
            assert_eq!((error.to_string(), error.is_refused()), (hint, true));
        }
        let taken = unserved(&synced("widgets.example.com", "Gear"), &catalog());
        assert_eq!(
            taken.map(|error| error.to_string()).as_deref(),
            Some(
                "widgets.example.com is served as kind Widget, and the hub does not serve kind Gear; name it <plural>.<group> of Gear"
            )
        );
    }
}
