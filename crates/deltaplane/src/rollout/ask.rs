//! Asking how far a rollout is, what holds it, and what it was.

use deltaplane_sync::{Origin, ZoneName};
use futures::{StreamExt, stream};
use kube::Client;
use serde_json::json;

use super::fleet::{Fleet, InZone};
use super::names::{DefinitionName, InstanceName};
use super::overview::{Overview, Row};
use super::seen::{Revision, Seen, key};
use super::shown::{self, Listed};
use super::{RolloutError, history as past, now, read, why as reasons};
use crate::args::Environment;
use crate::client::{Hub, Output, name_of, zone_objects};
use crate::graph::live;
use crate::said::Said;

/// Who is asked.
pub(super) struct Api<'e> {
    pub(super) client: Client,
    hub: Hub,
    zone: Option<ZoneName>,
    environment: &'e Environment,
}

/// So many zones are asked at once.
pub(super) const AT_ONCE: usize = 16;

// === impl Api ===

impl<'e> Api<'e> {
    pub(super) async fn new(
        hub: Hub,
        zone: Option<ZoneName>,
        environment: &'e Environment,
    ) -> Result<Self, RolloutError> {
        let client = hub.client_of(zone.as_ref(), environment).await?;
        Ok(Self {
            client,
            hub,
            zone,
            environment,
        })
    }

    /// One that is asked without a kubeconfig.
    #[cfg(test)]
    pub(super) fn of_client(client: Client, environment: &'e Environment) -> Self {
        Self {
            client,
            hub: Hub::default(),
            zone: None,
            environment,
        }
    }

    /// The same in a zone.
    #[cfg(test)]
    pub(super) fn of_zone(client: Client, zone: ZoneName, environment: &'e Environment) -> Self {
        let zone = Some(zone);
        let of_hub = Self::of_client(client, environment);
        Self { zone, ..of_hub }
    }

    /// A command that asks the same: `why shop`.
    pub(super) fn command(&self, words: &str) -> String {
        let kubeconfig = self.hub.flag();
        let zone = self.zone.as_ref();
        let zone = zone.map_or_else(String::new, |zone| format!(" --zone {zone}"));
        format!("deltaplane rollout {words}{zone}{kubeconfig}")
    }

    /// A command that asks the hub itself.
    pub(super) fn hub_command(&self, words: &str) -> String {
        format!("deltaplane rollout {words}{}", self.hub.flag())
    }

    /// The hub itself, whichever zone was named.
    pub(super) async fn at_hub(&self) -> Result<Client, RolloutError> {
        match self.zone {
            None => Ok(self.client.clone()),
            Some(_) => Ok(self.hub.client_of(None, self.environment).await?),
        }
    }

    /// The zone that was named.
    pub(super) fn zone(&self) -> Option<&ZoneName> {
        self.zone.as_ref()
    }

    /// The zones that are in use, if this is a hub.
    pub(super) async fn zones(&self) -> Option<Vec<ZoneName>> {
        if self.zone.is_some() {
            return None;
        }
        let zones = zone_objects(&self.client).await.ok()?;
        let enabled = zones.iter().filter(|zone| zone["spec"]["enabled"] != false);
        Some(enabled.filter_map(name_of).collect())
    }

    pub(super) async fn of(&self, zone: &ZoneName) -> Result<Client, RolloutError> {
        let client = self.hub.client_of(Some(zone), self.environment).await;
        Ok(client?)
    }
}

pub(super) async fn status(
    api: &Api<'_>,
    name: &DefinitionName,
    all: bool,
    output: Output,
) -> Result<Said, RolloutError> {
    let seen = read::seen(&api.client, name).await?;
    if let Some(zones) = api.zones().await.filter(|zones| !zones.is_empty()) {
        let fleet = fleet(api, &seen, zones).await;
        if let Some(out) = output.show(&fleet.json())? {
            return Ok(Said::of_data(out));
        }
        let hint = api.command(&format!("status graph/{} --zone <zone>", seen.name()));
        return Ok(Said {
            out: fleet.screen(),
            err: match fleet.holds_deletions() {
                true => format!("{}hint: {hint} lists instances\n", approve_hint(api, &seen)),
                false => format!("hint: {hint} lists instances\n"),
            },
            good: true,
        });
    }
    let overview = Overview::of(&seen, now());
    if let Some(out) = output.show(&overview.json())? {
        return Ok(Said::of_data(out));
    }
    let listed = if all { Listed::All } else { Listed::Screen };
    let err = match overview.is_over() {
        _ if overview.holds_deletions() => approve_hint(api, &seen),
        true => String::new(),
        false => {
            let command = api.command(&format!("why graph/{}", seen.name()));
            format!("hint: {command} says what it waits for\n")
        }
    };
    let (out, good) = (shown::screen(&overview, listed), true);
    Ok(Said { out, err, good })
}

/// What lets deletions go that are held: said where the definition is from.
fn approve_hint(api: &Api<'_>, seen: &Seen) -> String {
    let words = format!("approve graph/{} --deletions", seen.name());
    let command = match Origin::of(&seen.definition) {
        Some(Origin::Hub) => api.hub_command(&words),
        Some(Origin::Zone(_)) | None => api.command(&words),
    };
    format!("hint: {command} lets them be deleted\n")
}

/// How far each zone is.
pub(super) async fn fleet(api: &Api<'_>, seen: &Seen, zones: Vec<ZoneName>) -> Fleet {
    let name = DefinitionName::new(seen.name());
    let name = &name;
    let asked = zones.into_iter().map(|zone| async move {
        let found = match api.of(&zone).await {
            Ok(client) => read::seen(&client, name).await,
            Err(error) => Err(error),
        };
        (zone.to_string(), found)
    });
    let found: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
    let mut fleet = Fleet::new(&seen.definition);
    for (zone, found) in found {
        fleet.insert(zone, InZone::of(found, &seen.definition, now()));
    }
    fleet
}

pub(super) async fn why(
    api: &Api<'_>,
    name: &DefinitionName,
    instance: Option<&InstanceName>,
    output: Output,
) -> Result<Said, RolloutError> {
    let seen = read::seen(&api.client, name).await?;
    if let Some(zones) = api.zones().await.filter(|zones| !zones.is_empty()) {
        return why_fleet(api, &seen, zones, (instance, output)).await;
    }
    match instance {
        None => why_definition(api, &seen, output),
        Some(name) => why_instance(&api.client, &seen, name, output).await,
    }
}

/// What holds it in each zone.
async fn why_fleet(
    api: &Api<'_>,
    seen: &Seen,
    zones: Vec<ZoneName>,
    (instance, output): (Option<&InstanceName>, Output),
) -> Result<Said, RolloutError> {
    let words = match instance {
        Some(instance) => format!("why graph/{} {instance} --zone <zone>", seen.name()),
        None => format!("why graph/{} --zone <zone>", seen.name()),
    };
    let fleet = fleet(api, seen, zones).await;
    if let Some(out) =
        output.show(&json!({"definition": seen.name(), "zones": fleet.why_json()}))?
    {
        return Ok(Said::of_data(out));
    }
    let err = match fleet.is_over() {
        true => String::new(),
        false => format!("hint: {} says more\n", api.command(&words)),
    };
    let (out, good) = (fleet.why(), true);
    Ok(Said { out, err, good })
}

fn why_definition(api: &Api<'_>, seen: &Seen, output: Output) -> Result<Said, RolloutError> {
    let overview = Overview::of(seen, now());
    let found = reasons::of_definition(seen, &overview);
    if let Some(out) = output.show(&reasons::json(&overview, &found, &[]))? {
        return Ok(Said::of_data(out));
    }
    let out = reasons::text(seen.name(), &overview.headline(), &found, &[]);
    let under_way = overview.rows.iter().filter(|row| row.is_under_way());
    let worst = under_way.min_by_key(|row| row.standing);
    let err = worst.map_or_else(String::new, |row| {
        let command = api.command(&format!("why graph/{} {}", seen.name(), row.key));
        format!("hint: {command} goes through its graph\n")
    });
    let good = true;
    Ok(Said { out, err, good })
}

async fn why_instance(
    client: &Client,
    seen: &Seen,
    name: &InstanceName,
    output: Output,
) -> Result<Said, RolloutError> {
    let overview = Overview::of(seen, now());
    let instance = name.find(seen)?;
    let key = key(instance).to_string();
    let row = overview.rows.iter().find(|row| row.key == key);
    let found = row.map_or_else(Vec::new, |row| reasons::of_instance(seen, &overview, row));
    let mut err = String::new();
    let causes = match row.is_some_and(Row::is_under_way) {
        true => match live::causes(client, seen, instance).await {
            Ok(causes) => causes,
            // What its conditions say is worth saying without.
            Err(error) => {
                err = format!("note: its graph cannot be gone through: {error}\n");
                Vec::new()
            }
        },
        false => Vec::new(),
    };
    if let Some(out) = output.show(&reasons::json(&overview, &found, &causes))? {
        return Ok(Said::of_data(out));
    }
    let headline = row.map_or_else(|| overview.headline(), shown::standing);
    let out = reasons::text(&key, &headline, &found, &causes);
    let good = true;
    Ok(Said { out, err, good })
}

pub(super) async fn history(
    api: &Api<'_>,
    name: &DefinitionName,
    revision: Option<i64>,
    output: Output,
) -> Result<Said, RolloutError> {
    let seen = read::seen(&api.client, name).await?;
    let out = match revision {
        Some(number) => {
            let snapshot = past::snapshot(&seen, find_revision(&seen, number)?);
            let output = match output {
                Output::Table | Output::Yaml => Output::Yaml,
                Output::Json => Output::Json,
            };
            output.show(&snapshot)?.unwrap_or_default()
        }
        None => match output.show(&past::json(&seen))? {
            Some(out) => out,
            None => past::text(&seen, now()),
        },
    };
    let err = match (output, revision, api.zones().await) {
        (Output::Table, None, Some(_)) => {
            "note: this is a hub: instances run in zones, each of which counts revisions of its own\n"
        }
        (Output::Table | Output::Json | Output::Yaml, _, _) => "",
    };
    let (err, good) = (err.to_owned(), true);
    Ok(Said { out, err, good })
}

pub(super) fn find_revision(seen: &Seen, number: i64) -> Result<&Revision, RolloutError> {
    let missing = || RolloutError::NoRevision {
        definition: seen.name().to_owned(),
        number,
        known: seen.revisions.iter().map(|one| one.number).collect(),
    };
    seen.revision(number).ok_or_else(missing)
}
