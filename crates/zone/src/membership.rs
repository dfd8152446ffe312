//! Being a member of a fleet: the hub's address, and the credential that proves who we are.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deltaplane_api::time::Time;
use deltaplane_client::Pace;
use deltaplane_runtime::files::{self, FileError};
use deltaplane_runtime::identity::{
    Credential, CredentialError, Fingerprint, Flaw, HubUrl, JoinString, NotAHubUrl, ZoneKey,
    client_config, joining_config,
};
use deltaplane_runtime::tls::ConfigError;
use deltaplane_runtime::{Clock, Stop};
use deltaplane_sync::{NameError, ZoneName};
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::CertificateRequest;
use parking_lot::Mutex;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status};

use crate::link::{self, LinkConfig};

/// A zone that joined.
pub struct Membership {
    directory: PathBuf,
    url: HubUrl,
    zone: ZoneName,
    credential: Mutex<Arc<Credential>>,
    link: LinkConfig,
}

/// Why a zone is not a member.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("this zone has not joined a hub yet")]
    NotJoined,
    #[error("this is zone {was}, and the join string is for zone {now}")]
    OtherZone { was: String, now: String },
    #[error("the zone's certificate expired at {at}: it was away for too long")]
    Expired { at: Time },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Credential(#[from] CredentialError),
    #[error("the address of the hub that is kept cannot be used")]
    Url(#[from] NotAHubUrl),
    #[error("cannot speak TLS with the zone's certificate")]
    Tls(#[from] ConfigError),
    #[error("failed to make a key")]
    Key(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("failed to reach the hub at {url}")]
    Unreachable {
        url: HubUrl,
        source: tonic::transport::Error,
    },
    #[error("the hub refused: {}", .0.message())]
    Refused(Box<Status>),
    #[error("the certificate that the hub gave cannot be used: {0}")]
    Flaw(Flaw),
    #[error("the hub showed no authority")]
    NoAuthority,
    #[error(transparent)]
    Name(#[from] NameError),
}

pub(crate) const HUB: &str = "hub";
/// The fingerprint of the token that was used.
pub(crate) const JOINED: &str = "joined";
/// How long to wait after a renewal that failed; there is much time left when it is due.
const RETRY: Duration = Duration::from_secs(60);

// === impl Membership ===

impl Membership {
    /// What is in `directory`, or what `join` gives.
    pub async fn open(
        directory: &Path,
        join: Option<&JoinString>,
        link: LinkConfig,
        clock: &Clock,
    ) -> Result<Self, JoinError> {
        files::create_private_dir(directory)?;
        let kept = Credential::load(directory)?;
        let expired = kept.as_ref().filter(|kept| kept.is_expired(clock.now()));
        let expired = expired.map(|kept| JoinError::Expired {
            at: Time::from_system(kept.expires()),
        });
        let was = kept.as_ref().map(|kept| kept.zone().zone.clone());
        let usable = kept.filter(|kept| !kept.is_expired(clock.now()));
        let url = files::read_if_exists(&directory.join(HUB))?;
        let joined = files::read_if_exists(&directory.join(JOINED))?;
        // Another join string than the one that was used means that somebody wants to join anew.
        let token = join.map(|join| Fingerprint::of(join.token.as_bytes()).to_string());
        let usable = usable.filter(|_| token.is_none() || joined == token);
        let (credential, url) = match (usable, url, join) {
            (Some(kept), Some(url), _) => (kept, url.trim().parse()?),
            (Some(_) | None, _, Some(join)) => {
                let key = joining_key(directory)?;
                let credential = request(join, &key, link).await?;
                let now = &credential.zone().zone;
                if let Some(was) = was.filter(|was| was != now) {
                    let now = now.clone();
                    return Err(JoinError::OtherZone { was, now });
                }
                files::write_private(&directory.join(HUB), join.url.as_str().as_bytes())?;
                credential.save(directory)?;
                let token = token.unwrap_or_default();
                files::write_private(&directory.join(JOINED), token.as_bytes())?;
                ZoneKey::forget_joining(directory)?;
                (credential, join.url.clone())
            }
            (Some(_) | None, _, None) => return Err(expired.unwrap_or(JoinError::NotJoined)),
        };
        Ok(Self {
            directory: directory.to_owned(),
            url,
            zone: credential.zone().zone.parse()?,
            credential: Mutex::new(Arc::new(credential)),
            link,
        })
    }

    pub fn zone(&self) -> &ZoneName {
        &self.zone
    }

    /// The same zone, when the hub is elsewhere by now.
    #[must_use]
    pub fn at(self, url: HubUrl) -> Self {
        Self { url, ..self }
    }

    /// Where it is kept.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn url(&self) -> &HubUrl {
        &self.url
    }

    /// How connections to the hub behave.
    pub(crate) fn link(&self) -> LinkConfig {
        self.link
    }

    /// A new connection to the hub.
    pub async fn connect(&self) -> Result<link::Client, JoinError> {
        let credential = self.credential.lock().clone();
        let tls = client_config(&credential)?;
        let url = self.url.clone();
        let connected = link::connect(&self.url, tls, self.link).await;
        connected.map_err(|source| JoinError::Unreachable { url, source })
    }

    /// Renews the credential whenever it is time.
    pub(crate) async fn renew(&self, clock: Clock, pace: Pace, stop: Stop) {
        loop {
            let credential = self.credential.lock().clone();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "chance is from 0 to 1"
            )]
            let jitter = ((pace.chance)() * f64::from(u16::MAX)) as u16;
            let due = credential.renew_at(jitter);
            if stop.unless(clock.sleep_until(due)).await.is_none() {
                return;
            }
            match self.renew_now(&credential).await {
                Ok(()) => tracing::info!("the zone's certificate was renewed"),
                Err(error) => {
                    warn_of(&error, &credential);
                    if stop.unless(clock.sleep(RETRY)).await.is_none() {
                        return;
                    }
                }
            }
        }
    }

    async fn renew_now(&self, credential: &Credential) -> Result<(), JoinError> {
        let key = new_key()?;
        let mut client = self.connect().await?;
        let request = CertificateRequest {
            zone: self.zone.to_string(),
            csr: key.csr().to_owned(),
        };
        let answer = client.renew(request).await.map_err(refused)?;
        let renewed = key.certified(credential.ca(), &answer.into_inner().chain);
        let renewed = renewed.map_err(JoinError::Flaw)?;
        renewed.save(&self.directory)?;
        *self.credential.lock() = Arc::new(renewed);
        Ok(())
    }
}

fn warn_of(error: &JoinError, credential: &Credential) {
    let error = error as &dyn std::error::Error;
    let expires = Time::from_system(credential.expires());
    tracing::warn!(error, %expires, "failed to renew the zone's certificate");
}

fn new_key() -> Result<ZoneKey, JoinError> {
    ZoneKey::generate().map_err(|error| JoinError::Key(error.into()))
}

fn refused(status: Status) -> JoinError {
    JoinError::Refused(Box::new(status))
}

/// The key to join with: one that has asked before, or a new one. It is kept before anybody is
/// asked.
fn joining_key(directory: &Path) -> Result<ZoneKey, JoinError> {
    if let Some(key) = ZoneKey::load_joining(directory)? {
        return Ok(key);
    }
    let key = new_key()?;
    key.save_joining(directory)?;
    Ok(key)
}

/// Trades the token of a join string for a credential.
async fn request(
    join: &JoinString,
    key: &ZoneKey,
    link: LinkConfig,
) -> Result<Credential, JoinError> {
    let (tls, learned) = joining_config(join.ca);
    let url = join.url.clone();
    let connected = link::connect(&url, tls, link).await;
    let mut client = connected.map_err(|source| JoinError::Unreachable { url, source })?;
    let mut request = Request::new(CertificateRequest {
        zone: String::new(),
        csr: key.csr().to_owned(),
    });
    let token = MetadataValue::try_from(format!("Bearer {}", join.token));
    let token = token.map_err(|_| refused(Status::new(Code::InvalidArgument, "no token")))?;
    request.metadata_mut().insert("authorization", token);
    let answer = client.join(request).await.map_err(refused)?;
    let ca = learned.pem().ok_or(JoinError::NoAuthority)?;
    let credential = key.certified(ca, &answer.into_inner().chain);
    credential.map_err(JoinError::Flaw)
}

// === impl JoinError ===

impl JoinError {
    /// What the operator can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Expired { .. } | Self::NotJoined => "make a join string at the hub with: deltaplane token create --zone <name>; and give it with --join".to_owned(),
            Self::OtherZone { was, .. } => format!("give zone {was} a join string of its own, or another zone another directory with --data-dir"),
            Self::Unreachable { .. } => "check that the hub runs and can be reached from here, and that the join string is of this hub".to_owned(),
            Self::Refused(status) if status.code() == Code::Unauthenticated => {
                "make a new join string at the hub with: deltaplane token create --zone <name>".to_owned()
            }
            Self::File(error) => format!("check that this user may read and write {}", error.path.display()),
            Self::Credential(_) => "move the zone's credential away, and join again".to_owned(),
            Self::Refused(_) | Self::Url(_) | Self::Tls(_) | Self::Key(_) | Self::Flaw(_)
            | Self::NoAuthority | Self::Name(_) => "join again with a new join string".to_owned(),
        }
    }
}
