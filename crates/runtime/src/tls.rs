//! The keys and certificates of one control plane, in a directory of its own.
//!
//! Made at the first start: a certificate authority, a certificate for the server, one for the
//! administrator, and the keys that sign service-account tokens and zones' tokens. Loaded at later
//! starts. Server and administrator certificates are issued again when they come close to their
//! end, or when the server's addresses change; the authority stays, so that nobody has to be told.
//!
//! Not here: verifying clients beyond their certificate (the API server), certificates that the
//! operator brings along ([`ServerConfig`] takes either), those of zones (`identity`).
//!
//! Invariants: a file is whole or absent, and for its owner only; a key and its certificate are
//! one file, so that they cannot disagree (the authority's are two, its key first); a file that
//! this code did not write, or that is damaged, is refused and left as it is.

pub(crate) mod check;
pub(crate) mod issue;
mod server;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::files::{self, FileError};

pub(crate) use server::certificates;
pub use server::{ConfigError, ServerConfig};

use check::Verdict;

/// Everything in the directory, loaded and checked.
#[derive(Clone, Debug)]
pub struct Material {
    /// The authority's certificate, PEM. Clients trust what it signed.
    pub ca: String,
    /// For the listener. The authority's certificate is part of the chain, because a zone that
    /// joins knows no more of it than its fingerprint.
    pub server: Leaf,
    /// For the administrator: name `admin`, group `system:masters`.
    pub admin: Leaf,
    /// Signs service-account tokens: EC P-256, PKCS#8, PEM.
    pub service_account_key: SecretPem,
    /// Signs zones' tokens: EC P-256, PKCS#8, PEM.
    pub zone_key: SecretPem,
    /// When to call [`Material::open`] again, because something is to be renewed then.
    pub renew_at: SystemTime,
    /// What was not there and has been made.
    pub made: Made,
    pub(crate) authority: Arc<issue::Authority>,
}

/// What was made by [`Material::open`]. Beside an existing store it means that something was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// The authority: certificates that an earlier one signed are worth nothing now.
    pub authority: bool,
    /// The key of service accounts: tokens that an earlier one signed are worth nothing now.
    pub service_account_key: bool,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The certificate, PEM; others of its chain may follow.
    pub chain: String,
    /// Its key, PKCS#8, PEM.
    pub key: SecretPem,
}

/// A private key, PEM. Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretPem(pub String);

/// A file of the material is not usable.
#[derive(Debug, thiserror::Error)]
pub enum MaterialError {
    /// It could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its content is not what belongs there.
    #[error("refusing to use {path:?}: {problem}")]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: Problem,
    },
    /// A new certificate or key could not be made.
    #[error("failed to make a certificate")]
    Issue(#[from] rcgen::Error),
}

/// What can be wrong with a file of the material.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// No certificate can be read from it.
    NoCertificate,
    /// No private key of the expected sort can be read from it.
    NoKey,
    /// Its certificate and key do not belong together.
    Mismatch,
    /// It was not signed by the authority beside it.
    Foreign,
    /// The certificate is not an authority's.
    NotAnAuthority,
    /// The authority's time is over.
    Expired,
    /// The authority's certificate is there, its key is not.
    KeyMissing,
}

/// What a leaf certificate is for.
#[derive(Clone, Copy)]
enum Purpose<'a> {
    /// Serving under all of these host names and addresses.
    Server(&'a [String]),
    Admin,
}

/// How long certificates live.
pub(crate) const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
const LEAF_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);
/// A leaf is renewed when this much of its time is left: long enough for an operator to notice
/// that it did not happen.
const RENEW_BEFORE: Duration = Duration::from_secs(120 * 24 * 3600);
/// A leaf that could not be kept for lack of room is issued again after this.
const KEEP_AGAIN: Duration = Duration::from_secs(3600);
/// Certificates are valid from a little before now, for clients whose clock is late.
const SKEW: Duration = Duration::from_secs(3600);

const AUTHORITY_KEY: &str = "ca.key";
const AUTHORITY: &str = "ca.crt";
const SERVER: &str = "server.pem";
const ADMIN: &str = "admin.pem";
const ACCOUNTS: &str = "service-accounts.key";
const ZONES: &str = "zones.key";

// === impl Material ===

impl Material {
    /// The files with private keys in a directory, whether there or not.
    pub fn secrets(directory: &Path) -> [PathBuf; 5] {
        [AUTHORITY_KEY, SERVER, ADMIN, ACCOUNTS, ZONES].map(|name| directory.join(name))
    }

    /// Loads what is in `directory`, and makes what is missing or due.
    ///
    /// `names` are the host names and addresses that clients reach the server by.
    pub fn open(
        directory: &Path,
        names: &[String],
        now: SystemTime,
    ) -> Result<Self, MaterialError> {
        let now = whole_seconds(now);
        files::create_private_dir(directory)?;
        let made = Made {
            authority: !directory.join(AUTHORITY).exists(),
            service_account_key: !directory.join(ACCOUNTS).exists(),
        };
        let authority = open_authority(directory, now)?;
        let (mut server, server_due) = open_leaf(
            &directory.join(SERVER),
            &authority,
            Purpose::Server(names),
            now,
        )?;
        server.chain.push_str(&authority.pem);
        let (admin, admin_due) =
            open_leaf(&directory.join(ADMIN), &authority, Purpose::Admin, now)?;
        Ok(Self {
            ca: authority.pem.clone(),
            server,
            admin,
            service_account_key: open_key(&directory.join(ACCOUNTS))?,
            zone_key: open_key(&directory.join(ZONES))?,
            renew_at: server_due.min(admin_due),
            made,
            authority: Arc::new(authority),
        })
    }
}

/// Certificates know no fractions.
fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

fn open_authority(directory: &Path, now: SystemTime) -> Result<issue::Authority, MaterialError> {
    let key_path = directory.join(AUTHORITY_KEY);
    let path = directory.join(AUTHORITY);
    let key = files::read_if_exists(&key_path)?;
    match (files::read_if_exists(&path)?, key) {
        (Some(pem), Some(key)) => {
            let key = check::key(&key).map_err(unusable(&key_path))?;
            check::authority(&pem, &key, now).map_err(unusable(&path))?;
            Ok(issue::Authority { pem, key })
        }
        (Some(_), None) => Err(unusable(&path)(Problem::KeyMissing)),
        // The key is written first: alone, it is from a start that broke off before it signed
        // anything.
        (None, key) => {
            let key = match key {
                Some(pem) => check::key(&pem).map_err(unusable(&key_path))?,
                None => {
                    let key = issue::key()?;
                    files::write_private(&key_path, key.serialize_pem().as_bytes())?;
                    key
                }
            };
            let authority = issue::authority(key, now)?;
            files::write_private(&path, authority.pem.as_bytes())?;
            Ok(authority)
        }
    }
}

fn open_leaf(
    path: &Path,
    authority: &issue::Authority,
    purpose: Purpose<'_>,
    now: SystemTime,
) -> Result<(Leaf, SystemTime), MaterialError> {
    if let Some(content) = files::read_if_exists(path)? {
        let verdict = check::leaf(&content, authority, purpose, now);
        match verdict.map_err(unusable(path))? {
            Verdict::Good { leaf, renew_at } => return Ok((leaf, renew_at)),
            Verdict::Renew(why) => {
                tracing::info!(path = %path.display(), %why, "issuing the certificate anew");
            }
        }
    }
    let leaf = issue::leaf(authority, purpose, now)?;
    let content = format!("{}{}", leaf.chain, leaf.key.0);
    match files::write_private(path, content.as_bytes()) {
        // It works without being kept: the next start issues another one.
        Err(error) if error.is_full() => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "the disk is full; a certificate is not kept");
            Ok((leaf, now + KEEP_AGAIN))
        }
        Err(error) => Err(error.into()),
        Ok(()) => Ok((leaf, now + LEAF_LIFETIME - RENEW_BEFORE)),
    }
}

fn open_key(path: &Path) -> Result<SecretPem, MaterialError> {
    if let Some(pem) = files::read_if_exists(path)? {
        check::key(&pem).map_err(unusable(path))?;
        return Ok(SecretPem(pem));
    }
    let pem = issue::key()?.serialize_pem();
    files::write_private(path, pem.as_bytes())?;
    Ok(SecretPem(pem))
}

fn unusable(path: &Path) -> impl FnOnce(Problem) -> MaterialError {
    let path = path.to_owned();
    move |problem| MaterialError::Unusable { path, problem }
}

// === impl MaterialError ===

impl MaterialError {
    /// What the operator can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::File(error) => format!(
                "check that this user may read and write {}",
                error.path.display()
            ),
            Self::Unusable { path, problem: _ } => {
                let name = path.file_name().unwrap_or_default();
                if name == SERVER || name == ADMIN {
                    format!("move {} away to have it made anew", path.display())
                } else if name == ACCOUNTS {
                    format!(
                        "restore {} from a backup, or move it away to have it made anew; \
                         service-account tokens issued so far then stop working",
                        path.display()
                    )
                } else if name == ZONES {
                    format!(
                        "restore {} from a backup, or move it away to have it made anew; join \
                         strings that were not used yet then stop working",
                        path.display()
                    )
                } else {
                    let directory = path.parent().unwrap_or(path);
                    format!(
                        "restore {AUTHORITY} and {AUTHORITY_KEY} from a backup, or move {} away \
                         to start with a new authority; credentials issued so far then stop \
                         working",
                        directory.display()
                    )
                }
            }
            Self::Issue(_) => "this should not happen; please report it".to_owned(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCertificate => "no certificate can be read from it",
            Self::NoKey => "no ECDSA P-256 private key can be read from it",
            Self::Mismatch => "its certificate and its key do not belong together",
            Self::Foreign => "it was not signed by the authority beside it",
            Self::NotAnAuthority => "its certificate is not an authority's",
            Self::Expired => "its time is over",
            Self::KeyMissing => "its key is missing",
        })
    }
}

impl fmt::Debug for SecretPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretPem(..)")
    }
}

#[cfg(test)]
mod tests;
