//! Leaving a fleet: the zone keeps all that came from its hub as its own. The hub need not be there.
//!
//! Whatever was done is done again without harm: leaving can be repeated until it succeeds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltaplane_client::discovery::{Served, discover};
use deltaplane_client::feed::{self, Query};
use deltaplane_client::request::{self, Patch, RequestError};
use deltaplane_client::{ConnectError, ObjectKey, remote};
use deltaplane_fleet::{Ownership, open_lineage};
use deltaplane_plane::{Extensions, Opened, PlaneConfig, Role};
use deltaplane_runtime::Trigger;
use deltaplane_runtime::files::{self, FileError};
use deltaplane_runtime::identity::{Credential, CredentialError};
use deltaplane_sync::{
    DISPLAY_NAME, ORIGIN, ORPHANED, ORPHANED_AS, SOURCE, VERSION, ZONE, ZoneName, likeness,
};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::cluster::take_policies_away;
use crate::kinds_file::KindsFile;
use crate::membership::{HUB, JOINED};
use crate::{ZoneError, followed, membership_dir, remembered, sync_client};

/// What came of leaving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftFleet {
    pub zone: ZoneName,
    /// How many objects are the zone's own now.
    pub orphaned: usize,
}

/// Why a zone could not leave.
#[derive(Debug, thiserror::Error)]
pub enum LeaveError {
    #[error("{} is not the data directory of a zone that has joined a hub", .0.display())]
    NotJoined(PathBuf),
    #[error("a request to the zone's API failed")]
    Request(#[source] Box<RequestError>),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Credential(#[from] CredentialError),
    #[error(transparent)]
    Zone(#[from] Box<ZoneError>),
}

/// The name of a zone that left its fleet.
const LEFT: &str = "left";

/// Makes a cluster that was a zone nobody's: takes the admission policies away, and then orphans what
/// came from the hub. The agent must not run, which would install them again.
pub async fn leave_cluster(kubeconfig: &Path, data_dir: &Path) -> Result<LeftFleet, LeaveError> {
    let zone = member(data_dir)?;
    let client = remote(kubeconfig).await?;
    take_policies_away(&client).await?;
    let orphaned = orphan_all(&client).await?;
    forget(data_dir, &zone)?;
    Ok(LeftFleet { zone, orphaned })
}

/// Makes a zone with an API of its own nobody's. It must not run: its store is opened here.
pub async fn leave_embedded(plane: PlaneConfig) -> Result<LeftFleet, LeaveError> {
    let data_dir = plane.data_dir.clone();
    let failed = |error: ZoneError| LeaveError::Zone(Box::new(error));
    let zone = member(&data_dir)?;
    Role::Zone
        .check(&data_dir)
        .map_err(|error| failed(error.into()))?;
    let plane = PlaneConfig {
        name: zone.to_string(),
        ..plane
    };
    let opened = Opened::new(plane).await;
    let opened = opened.map_err(|error| failed(error.into()))?;
    let openings = open_lineage(opened.store()).await;
    openings.map_err(|error| failed(error.into()))?;
    let (_definitions, known) = watch::channel(Arc::default());
    let extensions = Extensions {
        admission: vec![Arc::new(Ownership::in_zone(zone.clone(), known))],
        ..Extensions::default()
    };
    let plane = opened.start(extensions).await;
    let plane = plane.map_err(|error| failed(error.into()))?;
    let orphaned = orphan_all(&sync_client(plane.api())).await;
    // Whatever came of it, the store is closed in order.
    let (trigger, stop) = Trigger::new();
    trigger.stop();
    let closed = plane.run(stop).await;
    let orphaned = orphaned?;
    closed.map_err(|error| failed(error.into()))?;
    forget(&data_dir, &zone)?;
    Ok(LeftFleet { zone, orphaned })
}

/// Returns the name of a zone that left its fleet, if that is what a directory says.
pub(crate) fn left(membership: &Path) -> Result<Option<ZoneName>, FileError> {
    let name = files::read_if_exists(&membership.join(LEFT))?;
    Ok(name.and_then(|name| name.trim().parse().ok()))
}

/// Returns the zone that a data directory belongs to; its certificate may have expired.
fn member(data_dir: &Path) -> Result<ZoneName, LeaveError> {
    let directory = membership_dir(data_dir);
    let not_joined = || LeaveError::NotJoined(data_dir.to_owned());
    if let Some(credential) = Credential::load(&directory)? {
        return credential.zone().zone.parse().map_err(|_| not_joined());
    }
    // It may have been interrupted.
    left(&directory)?.ok_or_else(not_joined)
}

/// Forgets the hub, and how far it was followed: nothing here is of it any more. What the zone is
/// called is kept, for its API.
fn forget(data_dir: &Path, zone: &ZoneName) -> Result<(), FileError> {
    let directory = membership_dir(data_dir);
    files::write_private(&directory.join(LEFT), zone.as_str().as_bytes())?;
    for file in [
        Credential::FILE,
        HUB,
        JOINED,
        KindsFile::NAME,
        // Before the record of how far: without that, kinds mean that it was lost.
        remembered::FILE,
        followed::FILE,
    ] {
        files::remove_if_exists(&directory.join(file))?;
    }
    Ok(())
}

/// Leaves all objects to the zone that came from elsewhere, whatever their kind.
async fn orphan_all(client: &Client) -> Result<usize, RequestError> {
    let catalog = discover(client).await?;
    let mut orphaned = 0;
    for served in catalog.kinds.values().filter(|one| is_readable(one)) {
        let mut mirrored: Vec<Value> = Vec::new();
        let query = Query::all(served.resource.clone()).with_labels(ORIGIN);
        feed::list(client, &query, |item| {
            mirrored.extend(item.parse::<Value>().ok())
        })
        .await?;
        for object in mirrored {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let key = ObjectKey::new(text("namespace"), text("name"));
            let path = served.resource.object_path(&key);
            match request::patch::<Value>(client, &path, Patch::Merge, &orphan(&object)).await {
                // Somebody deleted it meanwhile.
                Err(error) if error.is_not_found() => {}
                patched => {
                    patched?;
                    orphaned += 1;
                }
            }
        }
    }
    Ok(orphaned)
}

fn is_readable(served: &Served) -> bool {
    ["list", "patch"]
        .iter()
        .all(|verb| served.verbs.contains(*verb))
}

/// Returns the change that leaves an object to the zone, in a way that a hub can take it back when
/// the zone joins again.
fn orphan(object: &Value) -> Value {
    json!({"metadata": {
        "labels": {ORIGIN: null, ZONE: null},
        "annotations": {
            VERSION: null, SOURCE: null, DISPLAY_NAME: null,
            ORPHANED: object["metadata"]["labels"][ORIGIN],
            ORPHANED_AS: likeness(object),
        },
    }})
}

// === impl LeaveError ===

impl From<RequestError> for LeaveError {
    fn from(error: RequestError) -> Self {
        Self::Request(Box::new(error))
    }
}

impl LeaveError {
    /// What the operator can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NotJoined(_) => {
                "give the zone's data directory with --data-dir, as it was started with".to_owned()
            }
            Self::Request(error) => match error.code() {
                Some(401 | 403) => "use a kubeconfig of an administrator of the cluster".to_owned(),
                Some(_) | None => "try again: what was done stays done".to_owned(),
            },
            Self::Connect(_) => {
                "give with --kubeconfig a file with which kubectl reaches the cluster".to_owned()
            }
            Self::File(_) | Self::Credential(_) => {
                "check that the files in the data directory can be read and written".to_owned()
            }
            Self::Zone(error) => format!("{}; stop the zone before it leaves", error.hint()),
        }
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_sync::SyncKind;

    use super::*;
    use crate::followed::FollowedHub;
    use crate::remembered::Remembered;

    #[test]
    fn a_zone_that_left_knows_of_no_hub_that_it_followed() {
        let data_dir = tempfile::tempdir().expect("a directory");
        let directory = membership_dir(data_dir.path());
        std::fs::create_dir_all(&directory).expect("made");
        let record = r#"{"position": "s.a@5", "releases": {"web": 20000}}"#;
        std::fs::write(directory.join(followed::FILE), record).expect("written");
        let mut kinds = Remembered::open(&directory).expect("readable");
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        kinds.add(&kind, "configmaps").expect("written");
        let zone: ZoneName = "eu-1".parse().expect("legal");
        forget(data_dir.path(), &zone).expect("forgotten");
        let kinds = Remembered::open(&directory).expect("readable");
        let followed = FollowedHub::open(&directory, &kinds).expect("readable");
        assert_eq!(followed.newest(), None);
        assert_eq!(left(&directory).expect("readable"), Some(zone));
    }
}
