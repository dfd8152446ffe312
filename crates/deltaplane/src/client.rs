//! Commands that ask a hub something, as any client could.

mod token;
mod wait;
mod zones;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use kube::Client;
use serde_json::Value;

use deltaplane_client::{ConnectError, ObjectKey, RequestError, Resource, remote_merged, request};
use deltaplane_fleet::kinds::{GROUP, VERSION};
use deltaplane_runtime::signals::Signal;
use deltaplane_sync::ZoneName;

use crate::args::Environment;
use crate::said::Said;

pub(crate) use token::Token;
pub(crate) use wait::Wait;
pub(crate) use zones::Zones;

/// Which hub to ask.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Hub {
    /// The hub's kubeconfig [default: the files of $KUBECONFIG, merged, or else that of the hub on
    /// this machine]
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,
}

/// How answers look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    #[default]
    Table,
    Json,
    Yaml,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("it is not known where the hub is")]
    NoKubeconfig,
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("a request to the hub failed")]
    Request(#[source] Box<RequestError>),
    #[error("there is no zone {0}")]
    NoZone(ZoneName),
    #[error("zone {0} has not diverged: it follows the hub")]
    NotDiverged(ZoneName),
    #[error(
        "zone {0} has not connected since the hub was started: the hub does not know whether it has diverged"
    )]
    NotConnected(ZoneName),
    #[error("it was changed at the hub since it was listed")]
    ChangedMeanwhile,
    #[error("the command was interrupted by {0}")]
    Interrupted(Signal),
    #[error("the hub does not know any more what revision {0} wrote")]
    Compacted(u64, #[source] Box<RequestError>),
    #[error("{needed} zones are asked for, but the fleet has {enabled} enabled zones")]
    TooFewZones { needed: usize, enabled: usize },
    #[error("the answer cannot be shown")]
    Show(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Any of the commands.
#[derive(Debug)]
pub(crate) enum Ask {
    Zones(Zones),
    Token(Token),
    Wait(Wait),
}

// === impl Ask ===

impl Ask {
    pub(crate) async fn run(self, environment: &Environment) -> Result<Said, ClientError> {
        match self {
            Self::Zones(zones) => zones.run(environment).await,
            Self::Token(token) => token.run(environment).await,
            Self::Wait(wait) => wait.run(environment).await,
        }
    }
}

// === impl Hub ===

impl Hub {
    /// The flag again, for commands that ask the same hub.
    pub(crate) fn flag(&self) -> String {
        let file = self.kubeconfig.as_ref();
        file.map_or_else(String::new, |file| {
            format!(" --kubeconfig {}", file.display())
        })
    }

    async fn client(&self, environment: &Environment) -> Result<Client, ClientError> {
        self.client_of(None, environment).await
    }

    /// Of a zone, through its hub; without one of the API that the kubeconfig names.
    pub(crate) async fn client_of(
        &self,
        zone: Option<&ZoneName>,
        environment: &Environment,
    ) -> Result<Client, ClientError> {
        let given = self.kubeconfig.clone().map(|path| vec![path]);
        let own = || {
            let path = environment.data_dir()?.join("kubeconfig");
            path.exists().then(|| vec![path])
        };
        let paths = given.or_else(|| environment.kubeconfigs()).or_else(own);
        let paths = paths.ok_or(ClientError::NoKubeconfig)?;
        let below = zone.map_or_else(String::new, |zone| format!("/zones/{zone}"));
        Ok(remote_merged(&paths, &below).await?)
    }
}

// === impl Output ===

impl Output {
    /// The value, unless a table is wanted.
    pub(crate) fn show(self, value: &Value) -> Result<Option<String>, ClientError> {
        match self {
            Self::Table => Ok(None),
            Self::Json => {
                let text = serde_json::to_string_pretty(value);
                let text = text.map_err(|error| ClientError::Show(error.into()))?;
                Ok(Some(format!("{text}\n")))
            }
            Self::Yaml => {
                let text = serde_saphyr::to_string(value);
                Ok(Some(text.map_err(|error| ClientError::Show(error.into()))?))
            }
        }
    }
}

/// Where a zone's object is.
fn zone_path(zone: &ZoneName) -> String {
    zone_resource().object_path(&ObjectKey::cluster(zone.as_str()))
}

fn zone_resource() -> Resource {
    Resource::cluster(GROUP, VERSION, "zones", "Zone")
}

/// The names of all zones, in order.
pub(crate) async fn zone_objects(client: &Client) -> Result<Vec<Value>, ClientError> {
    let list: Value = request::get(client, &zone_resource().collection_path(None)).await?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    Ok(items)
}

pub(crate) fn name_of(zone: &Value) -> Option<ZoneName> {
    zone["metadata"]["name"].as_str()?.parse().ok()
}

// === impl ClientError ===

impl From<RequestError> for ClientError {
    fn from(error: RequestError) -> Self {
        Self::Request(Box::new(error))
    }
}

impl ClientError {
    /// As a shell reports it if the command was interrupted.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted(signal) => signal.exit_code(),
            Self::NoKubeconfig
            | Self::Connect(_)
            | Self::Request(_)
            | Self::NoZone(_)
            | Self::NotDiverged(_)
            | Self::NotConnected(_)
            | Self::ChangedMeanwhile
            | Self::Compacted(..)
            | Self::TooFewZones { .. }
            | Self::Show(_) => 1,
        }
    }

    /// What the user can do about it.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::NoKubeconfig => {
                "say where with --kubeconfig, or set KUBECONFIG; a hub writes one into its data directory".to_owned()
            }
            Self::Connect(_) => "check the kubeconfig that is used".to_owned(),
            Self::Request(error) => match error.code() {
                None => "check that the hub runs, and that the kubeconfig is its own".to_owned(),
                Some(401 | 403) => "use a kubeconfig of a user who may do this".to_owned(),
                Some(404) => "check that the kubeconfig is that of a hub".to_owned(),
                Some(_) => "what the hub said is above".to_owned(),
            },
            Self::NoZone(_) => "deltaplane zones lists them".to_owned(),
            Self::NotDiverged(zone) => {
                format!("run: deltaplane zones show {zone}")
            }
            Self::NotConnected(zone) => {
                format!("start zone {zone}, and reconcile it then")
            }
            Self::Interrupted(_) => "what was written until then stays; see what differs now with --dry-run, and repeat the command".to_owned(),
            Self::ChangedMeanwhile => "see what differs now, and reconcile again".to_owned(),
            Self::Compacted(..) => {
                "wait for a newer revision: the object's current resourceVersion".to_owned()
            }
            Self::TooFewZones { enabled, .. } => {
                format!("give --zones a number up to {enabled}, or a share such as 95%")
            }
            Self::Show(_) => "this should not happen; please report it".to_owned(),
        }
    }
}

/// The commands of `zones`.
#[derive(Debug, Subcommand)]
pub(crate) enum ZonesCommand {
    /// How it stands with one zone: its connection, and each kind with what is open or rejected
    Show {
        /// The zone's name
        zone: ZoneName,
        /// How the answer looks
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Let the zone delete what is held back because it is more than its deletion budget allows
    ApproveDeletions {
        /// The zone's name
        zone: ZoneName,
    },
    /// Settle which side is right after the hub was restored to an earlier state than zones followed
    Reconcile(zones::Reconcile),
}
