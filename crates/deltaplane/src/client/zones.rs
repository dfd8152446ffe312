//! `deltaplane zones`: which zones there are, and how it stands with them.

use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use serde_json::{Value, json};

use deltaplane_client::request::{self, Patch};
use deltaplane_fleet::kinds::APPROVED;
use deltaplane_sync::ZoneName;

use super::table::Table;
use super::{ClientError, Hub, Output, Said, ZonesCommand, name_of, zone_objects, zone_path};
use crate::args::Environment;

/// For `zones`.
#[derive(Debug, Args)]
pub(crate) struct Zones {
    #[command(flatten)]
    hub: Hub,
    #[command(subcommand)]
    command: Option<ZonesCommand>,
    /// How the list looks
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// So many zones are asked about at once.
const PARALLEL: usize = 16;

// === impl Zones ===

impl Zones {
    pub(super) async fn run(self, environment: &Environment) -> Result<Said, ClientError> {
        let client = self.hub.client(environment).await?;
        let out = match self.command {
            None => list(&client, self.output).await?,
            Some(ZonesCommand::Show { zone, output }) => show(&client, &zone, output).await?,
            Some(ZonesCommand::ApproveDeletions { zone }) => return approve(&client, &zone).await,
        };
        Ok(Said {
            out,
            good: true,
            ..Said::default()
        })
    }
}

async fn sync_of(client: &Client, zone: &ZoneName) -> Result<Value, ClientError> {
    let path = format!("{}/_sync", zone_path(zone));
    match request::get(client, &path).await {
        Err(error) if error.is_not_found() => Err(ClientError::NoZone(zone.clone())),
        answer => Ok(answer?),
    }
}

async fn list(client: &Client, output: Output) -> Result<String, ClientError> {
    let zones = zone_objects(client).await?;
    let names: Vec<ZoneName> = zones.iter().filter_map(name_of).collect();
    let asked = stream::iter(&names).map(|zone| sync_of(client, zone));
    let states: Vec<Value> = asked.buffered(PARALLEL).try_collect().await?;
    if let Some(text) = output.show(&json!(states))? {
        return Ok(text);
    }
    if names.is_empty() {
        return Ok("no zones; make one with: deltaplane token create --zone <name>\n".to_owned());
    }
    let mut table = Table::new(&["ZONE", "CONNECTION", "SINCE", "VERSION", "OPEN", "REJECTED"]);
    for state in &states {
        table.add(vec![
            text(&state["zone"]),
            connection(state).to_owned(),
            text(&state["since"]),
            text(&state["product"]),
            total(state, |kind| kind["open"].as_u64()),
            total(
                state,
                |kind| Some(kind["rejected"].as_array()?.len() as u64),
            ),
        ]);
    }
    Ok(table.text())
}

async fn show(client: &Client, zone: &ZoneName, output: Output) -> Result<String, ClientError> {
    let state = sync_of(client, zone).await?;
    if let Some(text) = output.show(&state)? {
        return Ok(text);
    }
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        out.push_str(&format!("{name:<12}{value}\n"));
    };
    line("zone", text(&state["zone"]));
    line("connection", connection(&state).to_owned());
    line("since", text(&state["since"]));
    line("last heard", text(&state["heard"]));
    line("version", text(&state["product"]));
    line("protocol", text(&state["protocol"]));
    line("features", list_of(&state["features"]));
    line("lag", lag(&state));
    out.push('\n');
    out.push_str(&kinds(&state));
    Ok(out)
}

/// What of the hub's writes the zone does not have.
fn lag(state: &Value) -> String {
    let (at, through) = (state["revision"].as_u64(), state["through"].as_u64());
    match (at, through) {
        (Some(at), Some(through)) if through >= at => format!("none (revision {at})"),
        (Some(at), Some(through)) => format!("has all up to revision {through} of {at}"),
        (_, _) => "unknown".to_owned(),
    }
}

fn kinds(state: &Value) -> String {
    let mut table = Table::new(&["KIND", "WANTED", "ACKNOWLEDGED", "OPEN", "REJECTED"]);
    let mut notes = String::new();
    for kind in state["kinds"].as_array().into_iter().flatten() {
        let name = match kind["group"].as_str() {
            Some("") | None => text(&kind["kind"]),
            Some(group) => format!("{}.{group}", text(&kind["kind"])),
        };
        let rejected = kind["rejected"].as_array();
        let count = rejected.map_or_else(|| "-".to_owned(), |all| all.len().to_string());
        table.add(vec![
            name.clone(),
            text(&kind["wanted"]),
            text(&kind["acknowledged"]),
            text(&kind["open"]),
            count,
        ]);
        for one in rejected.into_iter().flatten() {
            let (object, reason) = (text(&one["name"]), text(&one["reason"]));
            notes.push_str(&format!("rejected  {name} {object}: {reason}\n"));
        }
        if let Some(reason) = kind["held"].as_str() {
            notes.push_str(&format!("held      {name}: {reason}\n"));
        }
    }
    let mut out = table.text();
    if !notes.is_empty() {
        out.push('\n');
        out.push_str(&notes);
    }
    out
}

/// All that may go now may go.
async fn approve(client: &Client, zone: &ZoneName) -> Result<Said, ClientError> {
    let revision = sync_of(client, zone).await?["revision"].clone();
    let change = json!({"metadata": {"annotations": {APPROVED: revision.to_string()}}});
    request::patch::<Value>(client, &zone_path(zone), Patch::Merge, &change).await?;
    Ok(Said {
        err: format!("zone {zone} may delete what was to be deleted at revision {revision}\n"),
        good: true,
        ..Said::default()
    })
}

fn connection(state: &Value) -> &'static str {
    match state["connected"].as_bool() {
        Some(true) => "connected",
        Some(false) | None => "not connected",
    }
}

fn total(state: &Value, of: impl Fn(&Value) -> Option<u64>) -> String {
    let kinds = state["kinds"].as_array().into_iter().flatten();
    let counts: Vec<u64> = kinds.filter_map(of).collect();
    match counts.is_empty() {
        true => "-".to_owned(),
        false => counts.iter().sum::<u64>().to_string(),
    }
}

fn list_of(value: &Value) -> String {
    let items = value.as_array().into_iter().flatten();
    let items: Vec<&str> = items.filter_map(Value::as_str).collect();
    match items.is_empty() {
        true => "-".to_owned(),
        false => items.join(", "),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
