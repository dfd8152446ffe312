//! What is said of a definition that was just written: whether it is taken.

use std::time::Duration;

use deltaplane_client::{Event, Feed, Pace, Query};
use deltaplane_controllers::graphs::api;
use futures::StreamExt;
use kube::Client;
use serde_json::Value;

use super::DefinitionName;
use super::seen::{conditions, is_looked_at};

/// What is said of what a definition says now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nobody said anything yet.
    Open,
    Taken,
    /// It is not in force, and why.
    Refused(String),
}

/// It is looked at in a moment, if somebody looks at all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until it is said of this generation of a definition whether it is taken.
pub(super) async fn wait(client: &Client, name: &DefinitionName, generation: i64) -> Verdict {
    let query = Query::all(api::definitions());
    let query = query.with_fields(&format!("metadata.name={}", name.as_str()));
    let mut events = Feed::new(client.clone(), query, Pace::system()).events();
    let told = async {
        while let Some(event) = events.next().await {
            let Event::Applied(item) = event else {
                continue;
            };
            let definition: Option<Value> = item.parse().ok();
            let verdict = definition.map_or(Verdict::Open, |one| of(&one, generation));
            if verdict != Verdict::Open {
                return verdict;
            }
        }
        Verdict::Open
    };
    let told = tokio::time::timeout(PATIENCE, told).await;
    told.unwrap_or(Verdict::Open)
}

/// What a definition says of itself, if it is of this generation or a later one.
pub(super) fn of(definition: &Value, generation: i64) -> Verdict {
    let current = definition["metadata"]["generation"].as_i64() >= Some(generation);
    if !current || !is_looked_at(definition) {
        return Verdict::Open;
    }
    let conditions = conditions(definition);
    let mut parts = ["GraphAccepted", "KindReady"].map(|name| {
        let one = conditions.iter().find(|one| one.name == name);
        match one.map(|one| (&*one.status, &one.message)) {
            Some(("True", _)) => Verdict::Taken,
            Some(("False", why)) => Verdict::Refused(why.clone()),
            Some(_) | None => Verdict::Open,
        }
    });
    // What is refused is so whatever else may come.
    parts.sort_by_key(|part| match part {
        Verdict::Refused(_) => 0,
        Verdict::Open => 1,
        Verdict::Taken => 2,
    });
    let [first, _] = parts;
    first
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is said of generation 2, given what the conditions of a generation say.
    fn said(generation: i64, accepted: &str, kind: &str) -> Verdict {
        let condition = |name: &str, status: &str| {
            let message = format!("{name} is {status}");
            json!({"type": name, "status": status, "message": message, "observedGeneration": generation})
        };
        let definition = json!({
            "metadata": {"generation": 2},
            "status": {"conditions": [
                condition("GraphAccepted", accepted), condition("KindReady", kind),
                condition("Ready", kind),
            ]},
        });
        of(&definition, 2)
    }

    #[test]
    fn what_is_refused_is_not_taken_for_done() {
        assert_eq!(said(2, "True", "True"), Verdict::Taken);
        // That is said of what it was.
        assert_eq!(said(1, "True", "True"), Verdict::Open);
        assert_eq!(said(2, "True", "Unknown"), Verdict::Open);
        let refused = |why: &str| Verdict::Refused(why.to_owned());
        assert_eq!(said(2, "True", "False"), refused("KindReady is False"));
        assert_eq!(said(2, "False", "True"), refused("GraphAccepted is False"));
    }
}
