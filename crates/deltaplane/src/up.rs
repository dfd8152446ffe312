//! A hub and zones in one process, to try things out: each with a store of its own, connected as
//! zones elsewhere would be.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use kube::Client;
use serde_json::{Value, json};

use deltaplane_client::{ObjectKey, RequestError, Resource, request};
use deltaplane_fleet::kinds::{GROUP, VERSION};
use deltaplane_hub::{Hub, HubConfig, HubError};
use deltaplane_plane::PlaneConfig;
use deltaplane_runtime::{Stop, Trigger};
use deltaplane_sync::ZoneName;
use deltaplane_zone::{
    GraphOptions, LinkConfig, SimulatorConfig, Zone, ZoneConfig, ZoneError, has_joined,
};

/// A hub and its zones, all ready.
pub(crate) struct Up {
    hub: Hub,
    zones: Vec<Zone>,
}

/// Why it did not start, or broke.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpError {
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error("zone {zone} did not start, or broke")]
    Zone {
        zone: ZoneName,
        source: Box<ZoneError>,
    },
    #[error("failed to make a zone")]
    Request(#[from] RequestError),
}

/// How long zones have to connect before the rest is used without them: one may be disabled.
const PATIENCE: Duration = Duration::from_secs(5);

// === impl Up ===

impl Up {
    pub(crate) async fn start(plane: PlaneConfig, zones: &[ZoneName]) -> Result<Self, UpError> {
        let directory = plane.data_dir.join("zones");
        let contexts = zones.iter();
        let contexts = contexts.map(|zone| (zone.to_string(), format!("/zones/{zone}")));
        let commit = plane.commit;
        let plane = PlaneConfig {
            contexts: contexts.collect(),
            ..plane
        };
        let hub = Hub::start(HubConfig::new(plane)).await?;
        let starting = zones
            .iter()
            .map(|zone| start_zone(&hub, &directory, zone, commit));
        let started = try_join_all(starting).await?;
        for zone in &started {
            hub.add_local(zone.name().clone(), zone.api().clone());
        }
        let connected = join_all(zones.iter().map(|zone| hub.fleet().connected(zone)));
        if tokio::time::timeout(PATIENCE, connected).await.is_err() {
            tracing::warn!("not all zones are connected; deltaplane zones says which");
        }
        Ok(Self {
            hub,
            zones: started,
        })
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Runs until `stop` or until something breaks: then the zones end, and after them the hub.
    pub(crate) async fn run(self, stop: Stop) -> Result<(), UpError> {
        let (trigger, end) = Trigger::new();
        let (last, hub_end) = Trigger::new();
        let zones = self.zones.into_iter().map(|zone| {
            let (name, end, trigger) = (zone.name().clone(), end.clone(), trigger.clone());
            async move {
                let ended = zone.run(end).await;
                trigger.stop();
                ended.map_err(|error| UpError::zone(&name, error))
            }
        });
        let zones = async {
            let ended = join_all(zones).await;
            end.wait().await;
            last.stop();
            ended.into_iter().collect::<Result<(), _>>()
        };
        let hub = async {
            let ended = self.hub.run(hub_end).await;
            trigger.stop();
            ended.map_err(UpError::from)
        };
        let asked = async {
            tokio::select! {
                () = stop.wait() => trigger.stop(),
                () = end.wait() => {}
            }
        };
        let (zones, hub, ()) = tokio::join!(zones, hub, asked);
        zones.and(hub)
    }
}

async fn start_zone(
    hub: &Hub,
    directory: &Path,
    zone: &ZoneName,
    commit: &'static str,
) -> Result<Zone, UpError> {
    let data_dir = directory.join(zone.as_str());
    let client = hub.controllers();
    let made = make_zone(&client, zone).await?;
    let join = match made || !has_joined(&data_dir) {
        true => Some(token(&client, zone).await?),
        false => None,
    };
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let config = ZoneConfig {
        simulate: Some(SimulatorConfig::default()),
        graphs: GraphOptions::default(),
        plane: PlaneConfig {
            commit,
            ..PlaneConfig::new(data_dir, listen)
        },
        join: join.and_then(|join| join.parse().ok()),
        hub: hub.url().parse().ok(),
        link: LinkConfig {
            // It does not leave the machine.
            compress: false,
            ..LinkConfig::default()
        },
    };
    let started = Zone::start(config).await;
    started.map_err(|error| UpError::zone(zone, error))
}

fn path(zone: &ZoneName) -> String {
    let zones = Resource::cluster(GROUP, VERSION, "zones", "Zone");
    zones.object_path(&ObjectKey::cluster(zone.as_str()))
}

/// Makes the zone's object. Whether it was not there.
async fn make_zone(client: &Client, zone: &ZoneName) -> Result<bool, RequestError> {
    match request::get::<Value>(client, &path(zone)).await {
        Err(error) if error.is_not_found() => {}
        found => return found.map(|_| false),
    }
    let object = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "Zone",
        "metadata": {"name": zone.as_str()}, "spec": {},
    });
    let zones = Resource::cluster(GROUP, VERSION, "zones", "Zone").collection_path(None);
    request::create::<Value>(client, &zones, &object).await?;
    Ok(true)
}

/// A join string for the zone.
async fn token(client: &Client, zone: &ZoneName) -> Result<String, RequestError> {
    let path = format!("{}/_token", path(zone));
    let answer: Value = request::create(client, &path, &json!({})).await?;
    Ok(answer["join"].as_str().unwrap_or_default().to_owned())
}

// === impl UpError ===

impl UpError {
    fn zone(zone: &ZoneName, error: ZoneError) -> Self {
        Self::Zone {
            zone: zone.clone(),
            source: Box::new(error),
        }
    }

    /// What the operator can do about it.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Hub(error) => error.hint(),
            Self::Zone { source, .. } => source.hint(),
            Self::Request(_) => "this should not happen; please report it".to_owned(),
        }
    }
}
