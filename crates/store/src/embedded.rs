//! The embedded driver: a log in redb, one committer thread, no other process.
//!
//! - `engine` keeps redb usable, `disk` is what it stands on.
//! - `format` is what is on disk; `log` reads it.
//! - `plan` decides a batch; `committer` makes it durable and shows it.
//!
//! Files in the data directory: `store.redb`, and `store.lock`, which a live
//! process holds. A file that is not a store, is damaged, or is of a newer
//! format is refused and left as it is, byte for byte.

mod committer;
mod crowd;
mod disk;
mod engine;
mod format;
mod lock;
mod log;
mod plan;
#[cfg(feature = "sabotage")]
pub(crate) mod sabotage;

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot};

pub use self::disk::{Fill, Medium};
use self::{
    committer::{Committer, Request, Start, Waiting},
    disk::{Disk, FileMedium},
    engine::{Engine, Fault, Opened},
    lock::{Lock, LockError},
    log::{BadStore, Loaded},
};
use crate::{
    driver::{BoxFuture, CloseError, CompactError, Driver, Epoch, Replay, Replayed, Version},
    feed::RingLimits,
    header::{Header, HeaderFn},
    list::ReadError,
    memory::Memory,
    metrics::Metrics,
    object::Object,
    revision::Revision,
    store::Store,
    txn::{CommitError, Committed, Prepared},
};

/// How an embedded store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Parses bodies into headers.
    pub header: HeaderFn,
    /// How much of the recent history is kept in memory for watchers.
    pub ring: RingLimits,
    /// The cache of the storage library. Reads come from the store's own
    /// memory, so that this need only hold the inner pages of the log.
    pub cache_bytes: usize,
    /// How many bytes of transactions may wait; more make writers wait.
    pub queue_bytes: usize,
    /// The identity of the store, if it has to be created.
    pub new_epoch: Epoch,
    /// Where commits are counted.
    pub metrics: Metrics,
    /// For how long a write may go unnoticed into a file that was moved or
    /// deleted, if others came shortly before it.
    pub look_every: Duration,
}

/// Why a store was not opened. Nothing was written to what is there.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("the store in {path} is in use by {holder}")]
    Locked {
        /// The data directory.
        path: String,
        /// Who holds it.
        holder: String,
    },
    /// It is something else.
    #[error("{path} is not a deltaplane store")]
    Foreign {
        /// The file.
        path: String,
    },
    /// It was written by a newer program.
    #[error("{path} has store format {found}, and this program knows formats up to {newest}")]
    Newer {
        /// The file.
        path: String,
        /// Its format.
        found: u32,
        /// The newest format that is known.
        newest: u32,
    },
    /// It is damaged.
    #[error("{path} is damaged ({detail})")]
    Corrupt {
        /// The file.
        path: String,
        /// What was found.
        detail: String,
    },
    /// The file system refused.
    #[error("failed to open the store in {path}")]
    Io {
        /// The file or directory.
        path: String,
        /// What it said.
        source: io::Error,
    },
}

/// The driver. [`Embedded::open`] and its like return it as a [`Store`].
pub struct Embedded {
    memory: Arc<Memory>,
    engine: Arc<Engine>,
    epoch: Epoch,
    /// `Some` until the driver is dropped.
    requests: Option<mpsc::Sender<Request>>,
    /// A transaction holds one permit per KiB while it waits.
    queue: Arc<Semaphore>,
    queue_kib: u32,
    /// How many reads of the log run at once.
    readers: Semaphore,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

const FILE: &str = "store.redb";
/// More would only make each other wait for the disk.
const READERS: usize = 4;
/// The first bytes of every redb file.
const REDB_MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            header: Header::parse,
            ring: RingLimits::default(),
            cache_bytes: 8 << 20,
            queue_bytes: 64 << 20,
            new_epoch: Epoch::random(),
            metrics: Metrics::default(),
            look_every: Duration::from_millis(10),
        }
    }
}

// === impl Embedded ===

impl Embedded {
    /// Opens the store in a directory, or creates it. Blocks while the log is
    /// read.
    pub fn open(dir: &Path, options: Options) -> Result<Store, OpenError> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |source| OpenError::Io { path, source }
        };
        // For its owner only: a store holds secrets.
        let mut builder = fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(dir);
        made.map_err(failed(dir))?;
        let path = dir.join("store.lock");
        let lock = Lock::take(&path).map_err(|error| match error {
            LockError::Held { holder } => OpenError::Locked {
                path: dir.display().to_string(),
                holder,
            },
            LockError::Io(source) => failed(&path)(source),
        })?;
        let medium = FileMedium::new(Self::file(dir));
        Self::start(Disk::new(Box::new(medium)), options, Some(lock))
    }

    /// Whether a directory has a store, sound or not. What cannot be looked at counts as one, so
    /// that opening it says why.
    #[must_use]
    pub fn exists(dir: &Path) -> bool {
        Self::file(dir).try_exists().unwrap_or(true)
    }

    /// The file in this directory that a store's content is in.
    #[must_use]
    pub fn file(dir: &Path) -> PathBuf {
        dir.join(FILE)
    }

    /// Opens a store on any medium, for tests.
    pub fn open_on(medium: Box<dyn Medium>, options: Options) -> Result<Store, OpenError> {
        Self::start(Disk::new(medium), options, None)
    }

    fn start(disk: Disk, options: Options, lock: Option<Lock>) -> Result<Store, OpenError> {
        let path = disk.medium().name();
        let opened = match open_checked(&disk, &options)? {
            Some(opened) => opened,
            None => {
                let failed = |source| OpenError::Io {
                    path: path.clone(),
                    source,
                };
                engine::create(&disk, options.new_epoch).map_err(failed)?;
                open_checked(&disk, &options)?
                    .ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?
            }
        };
        let (loaded, database) = opened;
        let engine = Arc::new(Engine::new(disk, options.cache_bytes, database));
        Self::spawn(loaded, engine, &options, lock).map_err(|source| OpenError::Io { path, source })
    }

    fn spawn(
        loaded: Loaded,
        engine: Arc<Engine>,
        options: &Options,
        lock: Option<Lock>,
    ) -> io::Result<Store> {
        let queue_kib = u32::try_from(options.queue_bytes >> 10)
            .unwrap_or(u32::MAX)
            .max(1);
        let memory = Arc::new(loaded.memory);
        // As many requests as the smallest transactions can fill the queue with.
        let (sender, requests) = mpsc::channel(queue_kib.min(65_536) as usize);
        let start = Start {
            memory: Arc::clone(&memory),
            engine: Arc::clone(&engine),
            meta: loaded.meta,
            leftovers: loaded.leftovers,
            lock,
            metrics: options.metrics.clone(),
            look_every: options.look_every,
        };
        let committer = Committer::new(start, requests);
        let thread = thread::Builder::new()
            .name("store-committer".to_owned())
            .spawn(move || committer.run())?;
        Ok(Store::new(Arc::new(Self {
            memory,
            engine,
            epoch: loaded.meta.epoch,
            requests: Some(sender),
            queue: Arc::new(Semaphore::new(queue_kib as usize)),
            queue_kib,
            readers: Semaphore::new(READERS),
            thread: Mutex::new(Some(thread)),
        })))
    }

    async fn enqueue(&self, txn: Prepared) -> Result<Committed, CommitError> {
        let kib = u32::try_from(txn.len() >> 10)
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let queue = Arc::clone(&self.queue);
        let permit = queue.acquire_many_owned(kib.min(self.queue_kib)).await;
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting {
            txn,
            answer,
            permit: permit.map_err(|_| CommitError::Closed)?,
        };
        let sent = self.sender().send(Request::Commit(waiting)).await;
        sent.map_err(|_| CommitError::Closed)?;
        // Closing answers everybody: the thread panicked, perhaps after the append.
        let unanswered = || CommitError::Unknown {
            reason: "the thread that writes ended before it answered".into(),
        };
        answered.await.unwrap_or_else(|_| Err(unanswered()))
    }

    /// Reads the log on a thread that may wait for the disk.
    async fn read_log<T: Send + 'static>(
        &self,
        read: impl FnOnce(&redb::Database, HeaderFn) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, ReadError> {
        let _turn = self
            .readers
            .acquire()
            .await
            .map_err(|_| ReadError::Closed)?;
        let (engine, header) = (Arc::clone(&self.engine), self.memory.header());
        let read = move || engine.read(|database| read(database, header));
        let done = tokio::task::spawn_blocking(read).await;
        let done = done.unwrap_or_else(|error| Err(Fault::new(error.to_string())));
        done.map_err(|fault| self.read_failed(&fault))
    }

    fn read_failed(&self, fault: &Fault) -> ReadError {
        if self.engine.is_closed() {
            return ReadError::Closed;
        }
        if self.engine.is_tainted() {
            self.heal();
        }
        ReadError::Storage {
            reason: fault.reason(),
        }
    }

    fn sender(&self) -> &mpsc::Sender<Request> {
        self.requests
            .as_ref()
            .expect("the sender is only taken by drop")
    }
}

impl Driver for Embedded {
    fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn commit(&self, txn: Prepared) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(self.enqueue(txn))
    }

    fn barrier(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        // Whatever was acknowledged is in memory already.
        Box::pin(async { Ok(self.memory.revision()) })
    }

    fn load(&self, wanted: Vec<Version>) -> BoxFuture<'_, Result<Vec<Arc<Object>>, ReadError>> {
        Box::pin(self.read_log(move |database, header| log::versions(database, header, &wanted)))
    }

    fn replay(&self, request: Replay) -> BoxFuture<'_, Result<Replayed, ReadError>> {
        Box::pin(async move {
            let read = move |database: &_, header| log::replay(database, header, &request);
            self.read_log(read).await?
        })
    }

    fn compact(&self, to: Revision) -> BoxFuture<'_, Result<Revision, CompactError>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let sent = self.sender().send(Request::Compact(to, answer)).await;
            sent.map_err(|_| CompactError::Closed)?;
            answered.await.unwrap_or(Err(CompactError::Closed))
        })
    }

    fn heal(&self) {
        // A full queue has a write in it, which does the same.
        let _ = self.sender().try_send(Request::Heal);
    }

    fn stored_bytes(&self) -> Option<u64> {
        self.engine.size().ok()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), CloseError>> {
        Box::pin(async move {
            let thread = self.thread.lock().take().ok_or(CloseError::Closed)?;
            // A committer that is gone already has nothing to be told.
            let _ = self.sender().send(Request::Close).await;
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the store's committer panicked");
            }
            Ok(())
        })
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.lock().take() {
            // Its end releases the lock, which whoever opens the store next
            // relies on. A panic has been reported by its own message.
            let _ = thread.join();
        }
    }
}

/// Opens and reads what is on a disk, writing nothing.
fn open_checked(disk: &Disk, options: &Options) -> Result<Option<(Loaded, Opened)>, OpenError> {
    let path = disk.medium().name();
    let failed = |source| OpenError::Io {
        path: path.clone(),
        source,
    };
    let Some(gate) = disk.open().map_err(failed)? else {
        return Ok(None);
    };
    if gate.is_empty().map_err(failed)? {
        // What a bad copy or a repaired file system leaves. A store is never made so.
        let detail = "it is empty".to_owned();
        return Err(OpenError::Corrupt { path, detail });
    }
    if !gate.begins_with(REDB_MAGIC).map_err(failed)? {
        return Err(OpenError::Foreign { path });
    }
    let corrupt = |fault: Fault| OpenError::Corrupt {
        path: path.clone(),
        detail: fault.to_string(),
    };
    let opened = engine::open_gate(gate, options.cache_bytes).map_err(corrupt)?;
    let read = || Ok(log::load(&opened.database, options.header, options.ring));
    match engine::catch(read).map_err(corrupt)? {
        Ok(loaded) => Ok(Some((loaded, opened))),
        Err(BadStore::Foreign) => Err(OpenError::Foreign { path }),
        Err(BadStore::Newer { found }) => Err(OpenError::Newer {
            path,
            found,
            newest: format::FORMAT,
        }),
        Err(BadStore::Corrupt(detail)) => Err(OpenError::Corrupt { path, detail }),
    }
}
