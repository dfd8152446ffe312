//! What is where in the data directory.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use deltaplane_runtime::files::{self, FileError};
use deltaplane_runtime::tls::Material;
use deltaplane_store::Embedded;

use crate::error::PlaneError;

/// The parts of a data directory.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Objects and their history.
    pub(crate) store: PathBuf,
    /// Keys and certificates.
    pub(crate) pki: PathBuf,
    /// For clients; there while the hub is, or was, ready.
    pub(crate) kubeconfig: PathBuf,
    /// The one of the last time, until it is known whether it is the same.
    pub(crate) last_kubeconfig: PathBuf,
}

const STORE: &str = "store";
const PKI: &str = "pki";
const KUBECONFIG: &str = "kubeconfig";
const LAST_KUBECONFIG: &str = ".kubeconfig.last";
/// Of a zone, which joins before it has anything else.
const MEMBERSHIP: &str = "zone";
/// What a zone writes there, of which some may be moved away.
const JOINED: [&str; 4] = ["credential.pem", "hub", "joined", "left"];
/// What file systems put into directories by themselves.
const HARMLESS: &str = "lost+found";

// === impl Layout ===

impl Layout {
    fn new(path: &Path) -> Self {
        Self {
            store: path.join(STORE),
            pki: path.join(PKI),
            kubeconfig: path.join(KUBECONFIG),
            last_kubeconfig: path.join(LAST_KUBECONFIG),
        }
    }

    /// The directory, made if it is not there; refused, and left as it is, if it holds other
    /// things.
    pub(crate) fn open(path: &Path) -> Result<Self, PlaneError> {
        if let Some(found) = foreign(path).map_err(unusable(path))? {
            let path = path.to_owned();
            return Err(PlaneError::ForeignDir { path, found });
        }
        files::create_private_dir(path).map_err(unusable(path))?;
        Ok(Self::new(path))
    }

    /// Whether no hub has begun to use this directory.
    pub(crate) fn is_unused(path: &Path) -> bool {
        !Self::new(path).store.exists()
    }

    /// Whether there are keys, which are made after the store, and no store.
    pub(crate) fn lost_store(&self) -> bool {
        let mut traces = Material::secrets(&self.pki).into_iter();
        let used = self.kubeconfig.exists() || traces.any(|path| path.exists());
        used && !Embedded::exists(&self.store)
    }

    /// Says which secrets others than their owner may read.
    pub(crate) fn warn_of_exposed(&self) {
        let mut secrets = Material::secrets(&self.pki).to_vec();
        secrets.push(Embedded::file(&self.store));
        for (path, mode) in secrets
            .iter()
            .filter_map(|path| Some((path, files::exposed(path)?)))
        {
            let (path, mode) = (path.display(), format!("{mode:o}"));
            let hint = "if that was not meant: chmod 600, and think of what was exposed";
            tracing::warn!(%path, mode, hint, "secrets can be read by other users");
        }
    }
}

/// What a data directory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Hub,
    Zone,
}

// === impl Role ===

impl Role {
    /// Whether a data directory may be used for this: a hub that became a zone would send its
    /// objects to another hub as its own, and a zone that became a hub would be nobody's any more.
    pub fn check(self, data_dir: &Path) -> Result<(), PlaneError> {
        match Self::of(data_dir) {
            Some(role) if role != self => {
                let path = data_dir.to_owned();
                Err(PlaneError::OtherRole { path, role })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What it was used for, if it was.
    fn of(data_dir: &Path) -> Option<Self> {
        let membership = data_dir.join(MEMBERSHIP);
        let joined = JOINED.iter().any(|name| membership.join(name).exists());
        match (joined, Layout::is_unused(data_dir)) {
            (true, _) => Some(Self::Zone),
            (false, false) => Some(Self::Hub),
            (false, true) => None,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hub => "hub",
            Self::Zone => "zone",
        })
    }
}

fn unusable(path: &Path) -> impl FnOnce(FileError) -> PlaneError {
    let path = path.to_owned();
    move |source| PlaneError::DataDir { path, source }
}

/// Something that is not ours, in a directory where nothing is.
fn foreign(path: &Path) -> Result<Option<String>, FileError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::reading(path, error)),
    };
    let mut found = None;
    for entry in entries {
        let entry = entry.map_err(|error| FileError::reading(path, error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.as_str() {
            STORE | PKI | KUBECONFIG | MEMBERSHIP => return Ok(None),
            HARMLESS => {}
            hidden if hidden.starts_with('.') => {}
            _ => found = Some(name),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_directories_are_refused() {
        let check = |content: &[&str], expected: Option<&str>| {
            let directory = tempfile::tempdir().expect("a temporary directory");
            for name in content {
                fs::write(directory.path().join(name), "").expect("written");
            }
            let found = foreign(directory.path()).expect("readable");
            assert_eq!(found.as_deref(), expected, "{content:?}");
            let opened = Layout::open(directory.path()).map(drop);
            assert_eq!(opened.is_ok(), expected.is_none(), "{content:?}");
        };
        check(&[], None);
        check(&["lost+found", ".hidden"], None);
        check(&["photos"], Some("photos"));
        check(&["store", "photos"], None);
    }

    #[test]
    fn a_directory_keeps_its_role() {
        let check = |content: &[&str], hub: bool, zone: bool| {
            let directory = tempfile::tempdir().expect("a temporary directory");
            for name in content {
                let path = directory.path().join(name);
                let parent = path.parent().expect("below the directory");
                fs::create_dir_all(parent).expect("made");
                fs::write(path, "").expect("written");
            }
            assert_eq!(
                Role::Hub.check(directory.path()).is_ok(),
                hub,
                "{content:?}"
            );
            assert_eq!(
                Role::Zone.check(directory.path()).is_ok(),
                zone,
                "{content:?}"
            );
        };
        check(&[], true, true);
        check(&["store/objects"], true, false);
        check(&["zone/credential.pem"], false, true);
        check(&["zone/credential.pem", "store/objects"], false, true);
        check(&["zone/hub", "store/objects"], false, true);
    }

    #[test]
    fn a_new_directory_is_made() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("a/b");
        Layout::open(&path).expect("made");
        assert!(path.is_dir());
        fs::write(directory.path().join("file"), "").expect("written");
        let error = Layout::open(&directory.path().join("file/c")).expect_err("a file");
        assert!(matches!(error, PlaneError::DataDir { .. }), "{error:?}");
    }
}
