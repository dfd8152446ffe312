//! `deltaplane zones`: which zones there are, and how it stands with them.

mod left;
mod reconcile;
mod shown;

use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use serde_json::{Value, json};

use deltaplane_client::request::{self, Patch};
use deltaplane_fleet::kinds::APPROVED;
use deltaplane_sync::ZoneName;

pub(crate) use self::reconcile::Reconcile;
use self::shown::{connection, since, text};
use super::{ClientError, Hub, Output, Said, ZonesCommand, name_of, zone_objects, zone_path};
use crate::args::Environment;
use crate::table::Table;

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
        let (out, err) = match self.command {
            None => (
                list(&client, self.output).await?,
                left::words(&client).await,
            ),
            Some(ZonesCommand::Show { zone, output }) => {
                (show(&client, &zone, output).await?, String::new())
            }
            Some(ZonesCommand::ApproveDeletions { zone }) => return approve(&client, &zone).await,
            Some(ZonesCommand::Reconcile(reconcile)) => {
                return reconcile.run(&self.hub, environment).await;
            }
        };
        let good = true;
        Ok(Said { out, err, good })
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
    Ok(overview(&states))
}

/// One line for each zone.
fn overview(states: &[Value]) -> String {
    let mut table = Table::new(&[
        "ZONE",
        "CONNECTION",
        "SINCE",
        "VERSION",
        "OPEN",
        "REJECTED",
        "HELD",
        "UNREAD",
    ]);
    for state in states {
        table.add(vec![
            text(&state["zone"]),
            connection(state).to_owned(),
            since(state),
            text(&state["product"]),
            total(state, |kind| kind["open"].as_u64()),
            total(state, |kind| shown::count(kind, "rejected")),
            total(state, held),
            total(state, unread),
        ]);
    }
    table.text()
}

async fn show(client: &Client, zone: &ZoneName, output: Output) -> Result<String, ClientError> {
    let state = sync_of(client, zone).await?;
    if let Some(text) = output.show(&state)? {
        return Ok(text);
    }
    Ok(shown::zone(&state))
}

/// All that may go now may go.
async fn approve(client: &Client, zone: &ZoneName) -> Result<Said, ClientError> {
    let revision = sync_of(client, zone).await?["revision"].clone();
    let change = json!({"metadata": {"annotations": {APPROVED: revision.to_string()}}});
    request::patch::<Value>(client, &zone_path(zone), Patch::Merge, &change).await?;
    Ok(Said {
        err: format!(
            "what was to be deleted in zone {zone}, or here because of it, may go (as of revision {revision})\n"
        ),
        good: true,
        ..Said::default()
    })
}

/// How many objects stay because somebody has to approve that they go.
fn held(kind: &Value) -> Option<u64> {
    let surplus = kind["surplus"].as_u64()?;
    Some(if kind["held"].is_null() { 0 } else { surplus })
}

/// Counts a kind whose objects the zone cannot read.
fn unread(kind: &Value) -> Option<u64> {
    // Nothing is said of a kind before the zone has reported.
    kind.get("unread")
        .map(|unread| u64::from(!unread.is_null()))
}

/// In both directions.
fn total(state: &Value, of: impl Fn(&Value) -> Option<u64>) -> String {
    let kinds = [&state["kinds"], &state["fromZone"]["kinds"]].map(Value::as_array);
    let kinds = kinds.into_iter().flatten().flatten();
    let counts: Vec<u64> = kinds.filter_map(of).collect();
    match counts.is_empty() {
        true => "-".to_owned(),
        false => counts.iter().sum::<u64>().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_counts_the_kinds_that_a_zone_cannot_read() {
        let kind = |unread: Value| json!({"kind": "Widget", "open": 0, "rejected": [], "surplus": 0, "unread": unread});
        let zone = |name: &str, kinds: Value| {
            json!({
                "zone": name, "connected": true, "since": "1", "product": "0.1.0",
                "kinds": [kind(Value::Null)], "fromZone": {"kinds": kinds},
            })
        };
        let unserved = json!("the zone does not serve this kind");
        let away = json!({
            "zone": "c", "connected": false,
            "kinds": [{"kind": "Widget"}], "fromZone": {"kinds": []},
        });
        let states = [
            zone("a", json!([kind(Value::Null)])),
            zone("b", json!([kind(unserved), kind(Value::Null)])),
            away,
        ];
        let expected = "\
ZONE   CONNECTION   SINCE   VERSION   OPEN   REJECTED   HELD   UNREAD
a      connected    1       0.1.0     0      0          0      0
b      connected    1       0.1.0     0      0          0      1
c      away         -       -         -      -          -      -
";
        assert_eq!(overview(&states), expected);
    }
}
