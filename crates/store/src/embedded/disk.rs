//! The storage under redb: how it is opened, and two guarantees that redb
//! leaves to its backend.
//!
//! **Nothing is written before it is known to be ours.** redb writes to a file
//! while it opens it (a flag, the repair after a crash). A [`Gate`] holds such
//! writes back in memory until [`Gate::release`], which the driver calls when
//! it has checked all that it read. The same gate lets a store be read while
//! its disk accepts no writes.
//!
//! **A failed sync is not forgotten.** After one, the kernel may keep the pages
//! in its cache as if they had been written, so that neither reading them back
//! nor a later sync proves anything. The disk remembers what was written since
//! the last good sync, and [`Disk::settle`] writes it again before anything
//! else is believed.

mod gate;

use std::{
    fmt, fs,
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use redb::{StorageBackend, backends::FileBackend};

pub(super) use self::gate::{Gate, Gated};

/// Where a store is kept.
pub trait Medium: fmt::Debug + Send + Sync + 'static {
    /// Opens what is there; `None` if there is nothing yet.
    fn open(&self) -> io::Result<Option<Box<dyn StorageBackend>>>;

    /// Makes the storage: `fill` writes into an empty one, which appears as a
    /// whole or not at all.
    fn create(&self, fill: &mut Fill<'_>) -> io::Result<()>;

    /// Finds out whether about this many bytes can be stored, beside the
    /// storage and without a trace.
    fn probe(&self, bytes: usize) -> io::Result<()>;

    /// Whether what was opened last is still what would be opened: a directory
    /// can be deleted or moved while its files are open.
    fn in_place(&self) -> bool;

    /// How many bytes it takes.
    fn size(&self) -> io::Result<u64>;

    /// What to call it in messages.
    fn name(&self) -> String;
}

/// Writes the initial content of a storage.
pub type Fill<'a> = dyn FnMut(Box<dyn StorageBackend>) -> io::Result<()> + 'a;

/// One file.
#[derive(Debug)]
pub(super) struct FileMedium {
    path: PathBuf,
    /// Device and inode of what was opened last.
    opened: Mutex<Option<(u64, u64)>>,
}

/// A medium, and what is not known to be durable on it.
#[derive(Debug)]
pub(super) struct Disk {
    medium: Box<dyn Medium>,
    writes: Arc<Mutex<Writes>>,
}

/// The writes since the last good sync.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Writes {
    pending: Vec<(u64, usize)>,
    /// A sync failed, so that `pending` may be lost though it can be read.
    suspect: bool,
}

// === impl FileMedium ===

impl FileMedium {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            opened: Mutex::default(),
        }
    }

    /// Where a store is made before it gets its name.
    fn draft(&self) -> PathBuf {
        self.path.with_extension("new")
    }
}

impl Medium for FileMedium {
    fn open(&self) -> io::Result<Option<Box<dyn StorageBackend>>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&self.path);
        match file {
            Ok(file) => {
                *self.opened.lock() = Some(identity(&file.metadata()?));
                let backend = FileBackend::new(file).map_err(io::Error::other)?;
                Ok(Some(Box::new(backend)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, fill: &mut Fill<'_>) -> io::Result<()> {
        let draft = self.draft();
        // A draft that a killed process left was never a store.
        let file = create_private(&draft)?;
        let synced = file.try_clone()?;
        fill(Box::new(FileBackend::new(file).map_err(io::Error::other)?))?;
        synced.sync_all()?;
        fs::rename(&draft, &self.path)?;
        let parent = self.path.parent().unwrap_or(Path::new("."));
        fs::File::open(parent)?.sync_all()
    }

    fn probe(&self, bytes: usize) -> io::Result<()> {
        let path = self.path.with_extension("probe");
        let probed = create_private(&path).and_then(|mut file| {
            // Not zeros, which some file systems need not store.
            file.write_all(&vec![0x5a; bytes])?;
            file.sync_all()
        });
        // Where it could not be made there is nothing to remove.
        let _ = fs::remove_file(&path);
        probed
    }

    fn in_place(&self) -> bool {
        let Some(opened) = *self.opened.lock() else {
            return true;
        };
        match fs::metadata(&self.path) {
            Ok(found) => identity(&found) == opened,
            Err(error) => !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ),
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(fs::metadata(&self.path)?.len())
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Makes an empty file that nobody else can read: a store holds secrets.
fn create_private(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

// === impl Disk ===

impl Disk {
    pub(super) fn new(medium: Box<dyn Medium>) -> Self {
        Self {
            medium,
            writes: Arc::default(),
        }
    }

    pub(super) fn medium(&self) -> &dyn Medium {
        &*self.medium
    }

    /// Opens what is there, with writes held back.
    pub(super) fn open(&self) -> io::Result<Option<Arc<Gate>>> {
        let Some(backend) = self.medium.open()? else {
            return Ok(None);
        };
        Ok(Some(Arc::new(Gate::held(
            backend,
            Arc::clone(&self.writes),
        )?)))
    }

    /// Whether a failed sync left open what is durable.
    pub(super) fn is_suspect(&self) -> bool {
        self.writes.lock().suspect
    }

    /// Makes durable, or finds undone, what a failed sync left open. Only
    /// while no gate is open.
    pub(super) fn settle(&self) -> io::Result<()> {
        let mut writes = self.writes.lock();
        if !writes.suspect {
            return Ok(());
        }
        let Some(backend) = self.medium.open()? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let settled = rewrite(&*backend, &writes.pending);
        backend.close()?;
        settled?;
        *writes = Writes::default();
        Ok(())
    }
}

/// Writes what can be read once more, so that the kernel has to store it.
fn rewrite(backend: &dyn StorageBackend, ranges: &[(u64, usize)]) -> io::Result<()> {
    let len = backend.len()?;
    let mut buffer = Vec::new();
    for &(offset, wanted) in ranges {
        let inside = len.saturating_sub(offset).min(wanted as u64);
        // A range was in memory once, so it fits.
        buffer.resize(usize::try_from(inside).unwrap_or(0), 0);
        if !buffer.is_empty() {
            backend.read(offset, &mut buffer)?;
            backend.write(offset, &buffer)?;
        }
    }
    backend.sync_data()
}
