//! `deltaplane token`: what a zone joins with.

use std::time::Duration;

use clap::{Args, Subcommand};
use kube::Client;
use serde_json::{Value, json};

use deltaplane_client::request::{self, Patch};
use deltaplane_fleet::kinds::{GROUP, TOKEN, VERSION};
use deltaplane_sync::ZoneName;

use super::{ClientError, Hub, Said, zone_path, zone_resource};
use crate::args::{Environment, duration};

/// For `token`.
#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(flatten)]
    hub: Hub,
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Print a join string for a zone, which is made if it is not there. Earlier ones of the zone
    /// stop working
    Create {
        /// The zone's name
        #[arg(long, value_name = "NAME")]
        zone: ZoneName,
        /// How long it can be used
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
        ttl: Duration,
        /// Labels of the zone's object, if it is made: env=prod,region=eu
        #[arg(long, value_name = "LABELS", value_delimiter = ',', value_parser = label)]
        labels: Vec<(String, String)>,
    },
    /// Make the join string of a zone stop working; a zone that has joined stays
    Revoke {
        /// The zone's name
        #[arg(long, value_name = "NAME")]
        zone: ZoneName,
    },
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as key=value".to_owned()),
    }
}

// === impl Token ===

impl Token {
    pub(super) async fn run(self, environment: &Environment) -> Result<Said, ClientError> {
        let client = self.hub.client(environment).await?;
        match self.command {
            TokenCommand::Create { zone, ttl, labels } => create(&client, &zone, ttl, labels).await,
            TokenCommand::Revoke { zone } => revoke(&client, &zone).await,
        }
    }
}

async fn create(
    client: &Client,
    zone: &ZoneName,
    ttl: Duration,
    labels: Vec<(String, String)>,
) -> Result<Said, ClientError> {
    let labels: serde_json::Map<String, Value> = labels
        .into_iter()
        .map(|(key, value)| (key, value.into()))
        .collect();
    let object = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "Zone",
        "metadata": {"name": zone.as_str(), "labels": labels}, "spec": {},
    });
    let zones = zone_resource().collection_path(None);
    let mut err = String::new();
    match request::create::<Value>(client, &zones, &object).await {
        Ok(_) => err.push_str(&format!("zone {zone} was made\n")),
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error.into()),
    }
    let path = format!("{}/_token", zone_path(zone));
    let body = json!({"lifetimeSeconds": ttl.as_secs()});
    let answer: Value = request::create(client, &path, &body).await?;
    let join = answer["join"].as_str().unwrap_or_default();
    let lasts = match ttl.as_secs() {
        seconds if seconds.is_multiple_of(60) => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    };
    err.push_str(&format!(
        "good for {lasts}; on the zone's machine:\n  deltaplane zone --join <the line below>\n",
    ));
    Ok(Said {
        out: format!("{join}\n"),
        err,
        good: true,
    })
}

async fn revoke(client: &Client, zone: &ZoneName) -> Result<Said, ClientError> {
    let change = json!({"metadata": {"annotations": {TOKEN: null}}});
    let changed = request::patch::<Value>(client, &zone_path(zone), Patch::Merge, &change).await;
    match changed {
        Ok(_) => Ok(Said {
            err: format!("the join string of zone {zone} does not work any more\n"),
            good: true,
            ..Said::default()
        }),
        Err(error) if error.is_not_found() => Err(ClientError::NoZone(zone.clone())),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_api::identity::{Identity, MASTERS};
    use deltaplane_hub::{Hub, HubConfig};
    use deltaplane_plane::PlaneConfig;
    use deltaplane_runtime::Trigger;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_bad_name_of_a_zone_is_told_with_its_field() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let directory = tempfile::tempdir().expect("a directory");
        let config = PlaneConfig::new(directory.path().to_owned(), ([127, 0, 0, 1], 0).into());
        let hub = Hub::start(HubConfig::new(config)).await;
        let hub = hub.expect("started");
        let client = hub.client(Identity::authenticated("ann", &[MASTERS]));
        let (trigger, stop) = Trigger::new();
        let refused = async {
            let object = json!({
                "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "Zone",
                "metadata": {"name": "a.b"}, "spec": {},
            });
            let path = zone_resource().collection_path(None);
            let refused = request::create::<Value>(&client, &path, &object).await;
            let refused = refused.expect_err("a bad name").to_string();
            let why = "metadata.name: Invalid value: a zone's name must be a DNS label";
            assert!(refused.contains(why), "{refused}");
            trigger.stop();
        };
        let (ended, ()) = tokio::join!(hub.run(stop), refused);
        ended.expect("a clean end");
    }
}
