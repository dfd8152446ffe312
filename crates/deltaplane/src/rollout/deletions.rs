//! Deletions of a graph that exceed its budget: what is held of them, and approving of it.

use std::fmt;

use deltaplane_api::keys;
use deltaplane_client::request::{self, Patch};
use deltaplane_graph::Definition;
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::act::refused;
use super::ask::{AT_ONCE, Api};
use super::{DefinitionName, RolloutError, read, seen};
use crate::said::Said;

/// What a version of a definition deleted and holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VersionDeletions {
    pub(super) version: String,
    /// The objects that there were when the version came.
    pub(super) baseline: u64,
    pub(super) deleted: u64,
    pub(super) held: u64,
}

/// What is held in all places that were asked.
#[derive(Debug, Default)]
struct Held {
    /// What versions hold, and in which zone; none for what the API itself says.
    found: Vec<(Option<String>, VersionDeletions)>,
    /// Zones that did not answer.
    lost: Vec<String>,
}

/// Approves of the deletions of a version: of the one that is named, or of the one that holds some.
pub(super) async fn approve(
    api: &Api<'_>,
    name: &DefinitionName,
    version: Option<&str>,
) -> Result<Said, RolloutError> {
    let definition = read::definition(&api.client, name).await?;
    let held = held(api, name, &definition).await;
    let now = current(&definition);
    let version = match version {
        Some(version) => version.to_owned(),
        None => held.meant(name, now)?,
    };
    let change = json!({"metadata": {
        "resourceVersion": definition["metadata"]["resourceVersion"],
        "annotations": {keys::APPROVED_DELETIONS: version},
    }});
    let path = read::definition_path(name);
    let name = name.as_str();
    let command =
        format!("deltaplane rollout approve graph/{name} --deletions --version {version}");
    request::patch::<Value>(&api.client, &path, Patch::Merge, &change)
        .await
        .map_err(|error| refused(error, &definition, &command))?;
    let mut err = format!("deletions of version {version} of {name} are approved\n");
    let meant = |one: &VersionDeletions| version.starts_with(&one.version);
    let places = held.found.iter().filter(|(_, one)| meant(one));
    let places: Vec<String> = places
        .map(|(zone, one)| one.told(zone.as_deref()))
        .collect();
    match places.as_slice() {
        [] => err.push_str("note: none of them are held now\n"),
        places => places.iter().for_each(|place| err.push_str(place)),
    }
    for zone in held.lost {
        err.push_str(&format!(
            "note: zone {zone} did not answer; what it holds of this version is approved, too\n"
        ));
    }
    Ok(Said {
        out: format!("{version}\n"),
        err,
        good: true,
    })
}

/// What is held there, and in the zones if it is a hub.
async fn held(api: &Api<'_>, name: &DefinitionName, definition: &Value) -> Held {
    let mut held = Held::default();
    held.add(None, definition);
    let zones = api.zones().await.unwrap_or_default();
    let asked = zones.into_iter().map(|zone| async move {
        let found = match api.of(&zone).await {
            Ok(client) => read::definition(&client, name).await,
            Err(error) => Err(error),
        };
        (zone.to_string(), found)
    });
    let found: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
    for (zone, found) in found {
        match found {
            Ok(definition) => held.add(Some(zone), &definition),
            Err(RolloutError::NoDefinition { .. }) => {}
            Err(_) => held.lost.push(zone),
        }
    }
    held
}

/// The version of a definition as it is now, in short.
fn current(definition: &Value) -> Option<String> {
    let definition = Definition::read(definition).ok()?;
    Some(definition.content_version().short().to_owned())
}

// === impl Held ===

impl Held {
    fn add(&mut self, zone: Option<String>, definition: &Value) {
        let all = VersionDeletions::all(definition).into_iter();
        let held = all.filter(|one| one.held > 0);
        self.found.extend(held.map(|one| (zone.clone(), one)));
    }

    /// The version that holds deletions; the one of now, if several do.
    fn meant(&self, name: &DefinitionName, now: Option<String>) -> Result<String, RolloutError> {
        let mut versions: Vec<&str> = self.found.iter().map(|(_, one)| &*one.version).collect();
        versions.sort_unstable();
        versions.dedup();
        match versions.as_slice() {
            [one] => Ok((*one).to_owned()),
            [] => Err(RolloutError::NothingHeld {
                definition: name.as_str().to_owned(),
                now,
                lost: self.lost.clone(),
            }),
            several => match now.filter(|now| several.contains(&now.as_str())) {
                Some(now) => Ok(now),
                None => Err(RolloutError::SeveralHeld {
                    definition: name.as_str().to_owned(),
                    versions: several.iter().map(|one| (*one).to_owned()).collect(),
                }),
            },
        }
    }
}

// === impl VersionDeletions ===

impl VersionDeletions {
    /// As the status of a definition says.
    pub(super) fn all(definition: &Value) -> Vec<Self> {
        let all = definition["status"]["deletions"].as_array();
        let all = all.into_iter().flatten().map(|one| {
            let count = |field: &str| one[field].as_u64().unwrap_or(0);
            Self {
                version: seen::text(&one["version"]).to_owned(),
                baseline: count("baseline"),
                deleted: count("deleted"),
                held: count("held"),
            }
        });
        all.collect()
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "version": self.version, "baseline": self.baseline, "deleted": self.deleted,
            "held": self.held,
        })
    }

    fn told(&self, zone: Option<&str>) -> String {
        match zone {
            Some(zone) => format!("zone {zone}: {self}\n"),
            None => format!("{self}\n"),
        }
    }
}

impl fmt::Display for VersionDeletions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            version,
            baseline,
            deleted,
            held,
        } = self;
        let held = match held {
            1 => "1 deletion is held".to_owned(),
            held => format!("{held} deletions are held"),
        };
        write!(
            f,
            "version {version}: {held}, {deleted} of {baseline} objects are deleted"
        )
    }
}

#[cfg(test)]
mod tests;
