//! Why a hub did not start or went down, and what the operator can do about it.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use deltaplane_apiserver::StartError;
use deltaplane_client::RequestError;
use deltaplane_runtime::files::FileError;
use deltaplane_runtime::limits;
use deltaplane_runtime::tasks::TaskError;
use deltaplane_runtime::tls::{ConfigError, MaterialError};
use deltaplane_store::{CloseError, OpenError};

use crate::layout::Role;

/// Why a hub did not start, or went down.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// The data directory cannot be used.
    #[error("cannot use the data directory {path:?}")]
    DataDir {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: FileError,
    },
    /// The data directory holds something else.
    #[error("{path:?} is not empty, and not a data directory of deltaplane (there is {found:?})")]
    ForeignDir {
        /// Which one.
        path: PathBuf,
        /// Something in it.
        found: String,
    },
    /// The data directory is used for something else.
    #[error("{path:?} is the data directory of a {role}")]
    OtherRole {
        /// Which one.
        path: PathBuf,
        /// What it is used for.
        role: Role,
    },
    /// There are keys of an earlier hub, and no store.
    #[error("the store is missing: there are keys of a hub in {path:?}, but no objects")]
    StoreMissing {
        /// The data directory.
        path: PathBuf,
    },
    /// The store in it cannot be used.
    #[error("cannot open the store")]
    Store(#[from] OpenError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which one.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The hub's own certificates cannot be used.
    #[error("cannot use the certificates of the data directory")]
    Material(#[from] MaterialError),
    /// The operator's certificates cannot be read.
    #[error("cannot read the file that {flag} names")]
    CertificateFile {
        /// The flag that names it.
        flag: &'static str,
        /// Why.
        source: FileError,
    },
    /// They can be read, but not used.
    #[error("cannot serve TLS with these certificates")]
    Certificates(#[from] ConfigError),
    /// The API server did not start.
    #[error("cannot start the API server")]
    Api(#[from] StartError),
    /// What must be there first could not be made.
    #[error("failed to make what must be there first")]
    Beginning(#[source] Box<RequestError>),
    /// The kubeconfig cannot be written.
    #[error("cannot write the kubeconfig")]
    Kubeconfig(#[source] FileError),
    /// A part of the hub broke while it ran.
    #[error("the hub broke down")]
    Task(#[from] TaskError),
    /// The store was not closed as it should.
    #[error("the store was not closed cleanly")]
    Close(#[from] CloseError),
    /// The runtime gave up a blocking task.
    #[error("a start-up step was lost")]
    Lost(#[from] tokio::task::JoinError),
}

/// What sort of failure it is, for exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The data directory, or what is in it.
    Data,
    /// The address.
    Address,
    /// Certificates.
    Certificates,
    /// Anything else.
    Other,
}

// === impl PlaneError ===

impl PlaneError {
    /// What sort of failure it is.
    pub fn sort(&self) -> Sort {
        match self {
            Self::DataDir { .. }
            | Self::ForeignDir { .. }
            | Self::OtherRole { .. }
            | Self::StoreMissing { .. }
            | Self::Store(_) => Sort::Data,
            Self::Listen { .. } => Sort::Address,
            Self::Material(_) | Self::CertificateFile { .. } | Self::Certificates(_) => {
                Sort::Certificates
            }
            Self::Api(_)
            | Self::Beginning(_)
            | Self::Kubeconfig(_)
            | Self::Task(_)
            | Self::Close(_)
            | Self::Lost(_) => Sort::Other,
        }
    }

    /// What the operator can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::DataDir { path, source } => directory_hint(path, &source.source),
            Self::StoreMissing { path } => format!(
                "mount or restore what belongs to {}; to begin with an empty store, which clients \
                 may take for everything having been deleted, start with --start-empty",
                path.display()
            ),
            Self::ForeignDir { .. } | Self::OtherRole { .. } => {
                "choose an empty or a new directory with --data-dir".to_owned()
            }
            Self::Store(error) => store_hint(error),
            Self::Listen { address, source } => listen_hint(*address, source),
            Self::Material(error) => error.hint(),
            Self::CertificateFile { flag, source } => file_hint(flag, source),
            Self::Certificates(_) => {
                "check --tls-cert, --tls-key and --client-ca: PEM, and the key to the certificate"
                    .to_owned()
            }
            Self::Kubeconfig(error) => io_hint(&error.path, &error.source).unwrap_or_else(|| {
                format!("check that this user may write {}", error.path.display())
            }),
            Self::Api(_) | Self::Beginning(_) | Self::Task(_) | Self::Close(_) | Self::Lost(_) => {
                "start it again; what was acknowledged is kept. If it happens again, run with \
                 --log-level debug and report what it says"
                    .to_owned()
            }
        }
    }
}

/// What to do about the causes that are the same whatever was tried.
fn io_hint(path: &Path, error: &io::Error) -> Option<String> {
    let path = path.display();
    if limits::out_of_files(error) {
        let hint = "allow this process more open files (ulimit -n, or LimitNOFILE= of its service)";
        return Some(hint.to_owned());
    }
    let is = |kind: io::ErrorKind| error.kind() == kind;
    if is(io::ErrorKind::IsADirectory) {
        return Some(format!(
            "{path} is a directory where a file belongs: move it away"
        ));
    }
    if is(io::ErrorKind::StorageFull) || is(io::ErrorKind::QuotaExceeded) {
        return Some(format!("free some room on the file system of {path}"));
    }
    if is(io::ErrorKind::ReadOnlyFilesystem) {
        return Some(format!(
            "the file system of {path} is read-only: mount it for writing"
        ));
    }
    None
}

fn directory_hint(path: &Path, error: &io::Error) -> String {
    let file = [io::ErrorKind::NotADirectory, io::ErrorKind::AlreadyExists];
    if file.contains(&error.kind()) {
        return format!(
            "{}, or what is above it, is a file: name a directory with --data-dir",
            path.display()
        );
    }
    io_hint(path, error).unwrap_or_else(|| {
        format!(
            "check that this user may write to {}, or choose another with --data-dir",
            path.display()
        )
    })
}

fn file_hint(flag: &str, error: &FileError) -> String {
    let path = error.path.display();
    match error.source.kind() == io::ErrorKind::NotFound {
        true => format!("there is no file {path}: name an existing PEM file with {flag}"),
        false => io_hint(&error.path, &error.source).unwrap_or_else(|| {
            format!("check that this user may read {path}, or name another file with {flag}")
        }),
    }
}

fn store_hint(error: &OpenError) -> String {
    match error {
        OpenError::Locked { .. } => {
            "another deltaplane process runs on this data directory: use it, stop it, \
            or choose another with --data-dir"
                .to_owned()
        }
        OpenError::Foreign { .. } => "choose another directory with --data-dir, or, if you know \
            what the file is, move it away and start with --start-empty"
            .to_owned(),
        OpenError::Newer { .. } => "use the newer version of deltaplane".to_owned(),
        OpenError::Corrupt { .. } => {
            "restore it from a backup; if there is none, move it away and \
            start with --start-empty, without any objects"
                .to_owned()
        }
        OpenError::Io { path, source } => io_hint(Path::new(path), source).unwrap_or_else(|| {
            format!("check that this user may read and write {path}, and that the disk is not full")
        }),
    }
}

fn listen_hint(address: SocketAddr, error: &io::Error) -> String {
    let is = |kind: io::ErrorKind| error.kind() == kind;
    if is(io::ErrorKind::AddrInUse) {
        format!(
            "another program listens there: stop it, or choose another address with --listen, \
             such as --listen {} for a free port",
            SocketAddr::new(address.ip(), 0)
        )
    } else if is(io::ErrorKind::AddrNotAvailable) {
        "this machine does not have that address: choose another with --listen".to_owned()
    } else if is(io::ErrorKind::PermissionDenied) {
        "ports below 1024 need privileges: choose another with --listen".to_owned()
    } else {
        "choose another address with --listen".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_fit_the_cause() {
        let check = |source: io::Error, expected: &str| {
            let path = "DIR/store.redb".to_owned();
            let hint = PlaneError::Store(OpenError::Io { path, source }).hint();
            assert!(hint.contains(expected), "{hint}");
        };
        check(too_many_files(), "ulimit -n");
        check(
            io::ErrorKind::IsADirectory.into(),
            "DIR/store.redb is a directory",
        );
        check(io::ErrorKind::StorageFull.into(), "free some room");
        check(io::ErrorKind::ReadOnlyFilesystem.into(), "is read-only");
        let denied = io::ErrorKind::PermissionDenied;
        check(denied.into(), "check that this user may read and write DIR");
    }

    #[test]
    fn a_file_is_no_data_directory() {
        let check = |source: io::Error, expected: &str| {
            let path = PathBuf::from("DIR");
            let source = FileError::reading(&path, source);
            let hint = PlaneError::DataDir { path, source }.hint();
            assert!(hint.contains(expected), "{hint}");
        };
        check(io::ErrorKind::NotADirectory.into(), "is a file");
        check(io::ErrorKind::AlreadyExists.into(), "is a file");
        check(too_many_files(), "ulimit -n");
        check(io::ErrorKind::PermissionDenied.into(), "may write to DIR");
    }

    fn too_many_files() -> io::Error {
        // EMFILE, on every system that we run on.
        io::Error::from_raw_os_error(24)
    }
}
