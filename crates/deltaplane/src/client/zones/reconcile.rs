//! `deltaplane zones reconcile`: settles which side is right after the hub was restored to an earlier
//! state than zones followed.
//!
//! `--keep hub` lets zones follow the hub. `--keep zone` reads what differs from the zone and writes
//! it at the hub, as the caller: rights, admission and audit are those of any write. Not here:
//! raising revision and release numbers, which the hub does (`fleet::divergence`).

mod plan;

use std::time::Duration;

use clap::{Args, ValueEnum};
use kube::Client;
use serde_json::{Value, json};

use deltaplane_border::served_version;
use deltaplane_client::request;
use deltaplane_client::{ObjectKey, Resource};
use deltaplane_sync::ZoneName;

use self::plan::{DifferingObject, Divergence, HubWrite, ObjectId, Plan, ZoneContents};
use super::super::{ClientError, Hub, Said, name_of, zone_objects, zone_path};
use crate::args::Environment;
use crate::table::Table;

/// For `zones reconcile`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Reconcile {
    /// The zone's name
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    zone: Option<ZoneName>,
    /// All zones that have diverged
    #[arg(long)]
    all: bool,
    /// Which side is right: zones follow the hub, or the hub takes over what zones have
    #[arg(long, value_enum)]
    keep: Side,
    /// Show what differs and what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Hub,
    Zone,
}

const EXAMPLES: &str = "\
Examples:
  deltaplane zones reconcile eu-1 --keep hub --dry-run   what differs, and what zone eu-1 would lose
  deltaplane zones reconcile --all --keep zone           the hub takes over what all zones agree on";

/// A zone that has just connected says what it has within moments.
const TRIES: u32 = 20;
const AGAIN: Duration = Duration::from_millis(500);

// === impl Reconcile ===

impl Reconcile {
    pub(super) async fn run(
        self,
        hub: &Hub,
        environment: &Environment,
    ) -> Result<Said, ClientError> {
        let client = hub.client_of(None, environment).await?;
        let mut divergences = self.divergences(&client).await?;
        if divergences.is_empty() {
            return Ok(Said {
                err: "no connected zone has diverged from the hub\n".to_owned(),
                good: true,
                ..Said::default()
            });
        }
        // The furthest first: what is raised for it is enough for the others.
        divergences.sort_by_key(|one| std::cmp::Reverse(one.followed));
        let plan = match self.keep {
            Side::Hub => Plan::default(),
            Side::Zone => {
                let mut contents = Vec::new();
                for divergence in &divergences {
                    let there = hub.client_of(Some(&divergence.zone), environment).await?;
                    contents.push(read_zone(&there, divergence).await?);
                }
                plan::keep_zone(&divergences, &contents)
            }
        };
        let mut said = Said {
            out: shown(&divergences, |id, object| match self.keep {
                Side::Hub => object.follows().to_owned(),
                Side::Zone => plan.says(id).to_owned(),
            }),
            err: plan.problems(),
            good: plan.is_whole(),
        };
        match (self.dry_run, self.keep) {
            (true, _) => said.err.push_str("nothing was done: --dry-run\n"),
            (false, Side::Hub) => settle(&client, &divergences, &mut said).await?,
            (false, Side::Zone) => take_over(&client, &divergences, &plan, &mut said).await?,
        }
        Ok(said)
    }

    async fn divergences(&self, client: &Client) -> Result<Vec<Divergence>, ClientError> {
        let zones = match &self.zone {
            Some(zone) => vec![zone.clone()],
            None => zone_objects(client)
                .await?
                .iter()
                .filter_map(name_of)
                .collect(),
        };
        let mut divergences = Vec::new();
        for zone in zones {
            let answer = complete_answer(client, &zone).await?;
            match Divergence::read(&zone, &answer) {
                Some(divergence) => divergences.push(divergence),
                None if self.zone.is_some() => return Err(ClientError::NotDiverged(zone)),
                None => {}
            }
        }
        Ok(divergences)
    }
}

/// What the hub says of a zone, once the zone has said what it has of all kinds. A zone that does
/// not say it in time is shown as it is; the hub does not settle it then.
async fn complete_answer(client: &Client, zone: &ZoneName) -> Result<Value, ClientError> {
    let path = format!("{}/_reconcile", zone_path(zone));
    let mut tries = 0;
    loop {
        let answer: Value = match request::get(client, &path).await {
            Err(error) if error.is_not_found() => {
                return Err(ClientError::NoZone(zone.clone()));
            }
            answer => answer?,
        };
        let untold = answer["untold"]
            .as_array()
            .is_some_and(|kinds| !kinds.is_empty());
        if !untold || answer["diverged"] != true {
            return Ok(answer);
        }
        tries += 1;
        if tries > TRIES {
            let kind = answer["untold"][0].as_str().unwrap_or_default().to_owned();
            return Err(ClientError::Untold(zone.clone(), kind));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// What a zone has of the objects that differ.
async fn read_zone(zone: &Client, divergence: &Divergence) -> Result<ZoneContents, ClientError> {
    let mut contents = ZoneContents::default();
    for (kind, plural) in &divergence.plurals {
        let version = served_version(zone, kind.group(), plural).await;
        let version = version.map_err(|reason| ClientError::Show(reason.into()))?;
        for id in divergence.objects.keys().filter(|id| id.kind == *kind) {
            let Some(version) = &version else {
                contents.insert_unserved(id.clone());
                continue;
            };
            let path = path_of(id, version, plural);
            let found = match request::get::<Value>(zone, &path).await {
                Err(error) if error.is_not_found() => None,
                found => Some(found?),
            };
            contents.insert(id.clone(), found.as_ref());
        }
    }
    Ok(contents)
}

fn resource_of(id: &ObjectId, version: &str, plural: &str) -> Resource {
    Resource {
        namespaced: !id.namespace.is_empty(),
        ..Resource::cluster(id.kind.group(), version, plural, id.kind.kind())
    }
}

fn path_of(id: &ObjectId, version: &str, plural: &str) -> String {
    let key = ObjectKey::new(&id.namespace, &id.name);
    resource_of(id, version, plural).object_path(&key)
}

async fn step(client: &Client, zone: &ZoneName, step: &str) -> Result<Value, ClientError> {
    let path = format!("{}/_reconcile", zone_path(zone));
    Ok(request::create(client, &path, &json!({"step": step})).await?)
}

/// Lets zones follow the hub.
async fn settle(
    client: &Client,
    divergences: &[Divergence],
    said: &mut Said,
) -> Result<(), ClientError> {
    for Divergence { zone, .. } in divergences {
        let done = step(client, zone, "Settle").await?;
        let revision = &done["revision"];
        let line = format!("zone {zone} follows the hub again, from revision {revision}\n");
        said.err.push_str(&line);
    }
    Ok(())
}

/// Writes at the hub what zones have, and lets those follow it of which nothing is left.
async fn take_over(
    client: &Client,
    divergences: &[Divergence],
    plan: &Plan,
    said: &mut Said,
) -> Result<(), ClientError> {
    if plan.exceeds_budget() {
        return Ok(());
    }
    for Divergence { zone, .. } in divergences {
        step(client, zone, "Raise").await?;
    }
    let mut failed = false;
    for (id, write) in plan.writes() {
        if let Err(error) = write_at_hub(client, divergences, id, write).await {
            let line = format!("{id} was not written at the hub: {}\n", reason(&error));
            said.err.push_str(&line);
            failed = true;
        }
    }
    if failed {
        said.good = false;
        said.err
            .push_str("hint: put it right, and reconcile again; no zone was settled\n");
        return Ok(());
    }
    let whole = divergences.iter().filter(|one| plan.settles(&one.zone));
    settle(client, &whole.cloned().collect::<Vec<_>>(), said).await
}

fn reason(error: &ClientError) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

async fn write_at_hub(
    client: &Client,
    divergences: &[Divergence],
    id: &ObjectId,
    write: &HubWrite,
) -> Result<(), ClientError> {
    let plural = divergences.iter().find_map(|one| one.plurals.get(&id.kind));
    let plural = plural.map(String::as_str).unwrap_or_default();
    let version = served_version(client, id.kind.group(), plural).await;
    let version = version.map_err(|reason| ClientError::Show(reason.into()))?;
    let version = version.unwrap_or_default();
    let path = path_of(id, &version, plural);
    match write {
        HubWrite::Put(content) => {
            let found = match request::get::<Value>(client, &path).await {
                Err(error) if error.is_not_found() => None,
                found => Some(found?),
            };
            match found {
                Some(found) => {
                    let object = plan::replaced(&found, content);
                    request::replace::<Value>(client, &path, &object).await?;
                }
                None => {
                    let resource = resource_of(id, &version, plural);
                    let namespace = Some(id.namespace.as_str()).filter(|one| !one.is_empty());
                    let path = resource.collection_path(namespace);
                    request::create::<Value>(client, &path, content).await?;
                }
            }
        }
        HubWrite::Delete => match request::delete(client, &path, &json!({})).await {
            Err(error) if error.is_not_found() => {}
            deleted => deleted?,
        },
    }
    Ok(())
}

/// What differs, and what becomes of it.
fn shown(
    divergences: &[Divergence],
    becomes: impl Fn(&ObjectId, &DifferingObject) -> String,
) -> String {
    let mut out = String::new();
    for divergence in divergences {
        let Divergence {
            zone,
            followed,
            record_lost,
            revision,
            ..
        } = divergence;
        let followed = if *record_lost {
            "lost its record of how far it followed".to_owned()
        } else {
            format!("followed revision {followed}")
        };
        out.push_str(&format!(
            "zone {zone} {followed}; the hub is at {revision}\n"
        ));
    }
    let mut table = Table::new(&["ZONE", "KIND", "OBJECT", "DIFFERENCE", "POLICY", "BECOMES"]);
    for divergence in divergences {
        for (id, object) in &divergence.objects {
            table.add(vec![
                divergence.zone.to_string(),
                id.kind.kind().to_owned(),
                id.path(),
                object.difference.to_string(),
                object.policy.clone().unwrap_or_else(|| "-".to_owned()),
                becomes(id, object),
            ]);
        }
        if divergence.more > 0 {
            let more = format!("and {} more", divergence.more);
            table.add(vec![divergence.zone.to_string(), String::new(), more]);
        }
    }
    out.push_str(&table.text());
    out
}
