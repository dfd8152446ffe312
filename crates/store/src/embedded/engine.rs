//! redb, kept usable: it appends to the log, reads it, drops rows, and comes
//! back by itself after the disk failed.
//!
//! redb refuses all work after an I/O error until it is opened again. The
//! engine opens it again, held behind a gate, so that reads go on while the
//! disk takes no writes; the gate is released when it does.

use std::{
    any::Any,
    io, panic,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::RwLock;
use redb::{Database, ReadableDatabase};

use super::{
    disk::{Disk, Gate, Gated},
    format::{self, FORMAT, Kind, LOG, META, Record},
};
use crate::{
    driver::Epoch,
    event::{Change, Event},
    revision::{Revision, Row},
};

pub(super) struct Engine {
    disk: Disk,
    cache: usize,
    state: RwLock<State>,
    /// A read failed in the library, which then refuses writes too.
    tainted: AtomicBool,
}

enum State {
    /// Reads and writes.
    Live(Database),
    /// Reads; writes wait for the disk behind the gate.
    Held(Database, Arc<Gate>),
    /// Nothing works; the reason is the last failure.
    Down(Fault),
    /// What is there is not what memory knows, so that nothing may be written.
    Lost(Fault),
    /// Nothing works any more.
    Closed,
}

/// Something that the storage refused to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(super) struct Fault {
    reason: Arc<str>,
    cause: Cause,
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The disk has no room.
    Full,
    /// redb said so, for another reason.
    Library,
    /// The file is not where it was opened.
    Adrift,
    /// What was read, or where we are.
    Ours,
}

/// One operation to append.
#[cfg_attr(feature = "sabotage", derive(Clone))]
pub(super) struct Entry {
    pub(super) event: Arc<Event>,
    /// A deletion that brought no content: what its event shows is not stored.
    pub(super) as_is: bool,
}

/// An opened database, and the gate that holds its writes.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) gate: Arc<Gate>,
}

/// What a store knows about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) epoch: Epoch,
    pub(super) compacted: Revision,
}

// === impl Fault ===

impl Fault {
    pub(super) fn new(reason: impl Into<Arc<str>>) -> Self {
        Self {
            reason: reason.into(),
            cause: Cause::Ours,
        }
    }

    /// The file is not where it was opened.
    pub(super) fn adrift() -> Self {
        Self {
            reason: "the store's file was moved or deleted while it was open".into(),
            cause: Cause::Adrift,
        }
    }

    /// What an operator can do about it.
    pub(super) fn advice(&self) -> &'static str {
        match self.cause {
            Cause::Full => "free some room on that file system; writes then go on by themselves",
            Cause::Library | Cause::Ours => {
                "look after the disk; writes go on by themselves when it works again"
            }
            Cause::Adrift => {
                "move it back, and writes go on; if it was deleted, save what you need through \
                 the API, which can still be read, before you stop this process"
            }
        }
    }

    fn of_library(&self) -> bool {
        match self.cause {
            Cause::Full | Cause::Library => true,
            Cause::Adrift | Cause::Ours => false,
        }
    }

    pub(super) fn reason(&self) -> Arc<str> {
        Arc::clone(&self.reason)
    }
}

// === impl Engine ===

impl Engine {
    /// Takes over a database whose content has been checked.
    pub(super) fn new(disk: Disk, cache: usize, opened: Opened) -> Self {
        let engine = Self {
            disk,
            cache,
            state: RwLock::new(State::Held(opened.database, opened.gate)),
            tainted: AtomicBool::new(false),
        };
        // If it fails, the committer tries again, and tells.
        let _ = engine.release();
        engine
    }

    /// Runs a read. Several may run at once, also during a write.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Database) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let done = match &*self.state.read() {
            State::Live(database) | State::Held(database, _) => catch(|| read(database)),
            State::Down(fault) => {
                // An attempt to recover failed; whoever needs it asks for the next one. Set under
                // the lock, or the end of a recovery could undo it.
                self.tainted.store(true, Ordering::Release);
                return Err(fault.clone());
            }
            State::Lost(fault) => return Err(fault.clone()),
            State::Closed => return Err(Fault::new("the store is closed")),
        };
        if done.as_ref().is_err_and(Fault::of_library) {
            self.tainted.store(true, Ordering::Release);
        }
        done
    }

    /// Appends operations durably, all or none. After an error it is open
    /// whether they are there, until [`Engine::recover`].
    pub(super) fn append(&self, entries: &[Entry]) -> Result<(), Fault> {
        #[cfg(feature = "sabotage")]
        let entries = &super::sabotage::postpone(entries);
        self.write(|database| {
            let txn = database.begin_write().map_err(fault)?;
            {
                let mut log = txn.open_table(LOG).map_err(fault)?;
                for entry in entries {
                    let row = entry.event.object().row();
                    let record = record(entry);
                    let reserved = log.insert_reserve(row.to_bits(), record.encoded_len());
                    record.encode(row, reserved.map_err(fault)?.as_mut());
                }
            }
            txn.commit().map_err(fault)
        })
    }

    /// Removes rows durably, and notes the oldest readable revision, which the
    /// rows themselves no longer tell.
    pub(super) fn remove(&self, rows: &[Row], meta: &Meta) -> Result<(), Fault> {
        self.write(|database| {
            let txn = database.begin_write().map_err(fault)?;
            {
                let mut log = txn.open_table(LOG).map_err(fault)?;
                for row in rows {
                    log.remove(row.to_bits()).map_err(fault)?;
                }
                let mut table = txn.open_table(META).map_err(fault)?;
                let compacted = meta.compacted.get().to_le_bytes();
                let noted = table.insert(format::META_COMPACTED, compacted.as_slice());
                noted.map_err(fault)?;
            }
            txn.commit().map_err(fault)
        })
    }

    fn write(&self, write: impl FnOnce(&Database) -> Result<(), Fault>) -> Result<(), Fault> {
        match &*self.state.read() {
            State::Live(database) => catch(|| write(database)),
            State::Held(..) => Err(Fault::new("the disk does not accept writes yet")),
            State::Down(fault) | State::Lost(fault) => Err(fault.clone()),
            State::Closed => Err(Fault::new("the store is closed")),
        }
    }

    /// Whether the disk has room for about this many bytes, without trying it
    /// on the database.
    pub(super) fn probe(&self, bytes: usize) -> Result<(), Fault> {
        self.disk.medium().probe(bytes).map_err(fault)
    }

    /// Whether the file is where it was opened. Asks the system: some microseconds.
    pub(super) fn in_place(&self) -> bool {
        self.disk.medium().in_place()
    }

    pub(super) fn size(&self) -> io::Result<u64> {
        self.disk.medium().size()
    }

    pub(super) fn name(&self) -> String {
        self.disk.medium().name()
    }

    /// Whether it reads and writes.
    pub(super) fn is_live(&self) -> bool {
        !self.is_tainted() && matches!(&*self.state.read(), State::Live(_))
    }

    /// Whether it has to be recovered before it can read.
    pub(super) fn is_tainted(&self) -> bool {
        self.tainted.load(Ordering::Acquire)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(&*self.state.read(), State::Closed)
    }

    /// Opens the database again after a failure, and lets it write if it can.
    /// `verify` decides whether it is still the store that memory knows.
    pub(super) fn recover(
        &self,
        verify: impl FnOnce(&Database) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut state = self.state.write();
        if let State::Lost(fault) = &*state {
            return Err(fault.clone());
        }
        // The old database goes first: it holds the file.
        *state = State::Down(Fault::new("the storage is being opened again"));
        // Before anything is read: until then it may still change. If it
        // fails, what is there can be read but not built upon.
        if let Err(error) = self.disk.settle() {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "it is not settled what the disk holds");
        }
        *state = match open(&self.disk, self.cache) {
            Ok(Some(opened)) => match catch(|| verify(&opened.database)) {
                Ok(()) => State::Held(opened.database, opened.gate),
                Err(fault) if fault.of_library() => State::Down(fault),
                Err(fault) => State::Lost(fault),
            },
            Ok(None) => State::Down(Fault::new("the storage has been removed")),
            Err(fault) => State::Down(fault),
        };
        if let State::Down(fault) | State::Lost(fault) = &*state {
            tracing::error!(reason = %fault, "the storage cannot be used");
        }
        self.tainted.store(false, Ordering::Release);
        drop(state);
        self.release()
    }

    /// Lets an opened database write, if it does not. After an error it may
    /// have to be recovered first.
    pub(super) fn release(&self) -> Result<(), Fault> {
        let mut state = self.state.write();
        let gate = match &*state {
            State::Live(_) => return Ok(()),
            State::Held(_, gate) => Arc::clone(gate),
            State::Down(fault) | State::Lost(fault) => return Err(fault.clone()),
            State::Closed => return Err(Fault::new("the store is closed")),
        };
        if self.disk.is_suspect() {
            return Err(Fault::new("it is not settled what the disk holds"));
        }
        gate.release().map_err(fault)?;
        let held = std::mem::replace(&mut *state, State::Closed);
        if let State::Held(database, _) = held {
            *state = State::Live(database);
        }
        Ok(())
    }

    /// Whether a row is in the log.
    pub(super) fn contains(&self, row: Row) -> Result<bool, Fault> {
        self.read(|database| {
            let txn = database.begin_read().map_err(fault)?;
            let log = txn.open_table(LOG).map_err(fault)?;
            Ok(log.get(row.to_bits()).map_err(fault)?.is_some())
        })
    }

    /// Closes the database; nothing works afterwards.
    pub(super) fn close(&self) {
        // Dropped outside of the lock: it writes.
        let old = std::mem::replace(&mut *self.state.write(), State::Closed);
        drop(old);
    }
}

/// Opens what is on a disk, with writes held back; `None` if nothing is there.
pub(super) fn open(disk: &Disk, cache: usize) -> Result<Option<Opened>, Fault> {
    match disk.open().map_err(fault)? {
        Some(gate) => open_gate(gate, cache).map(Some),
        None => Ok(None),
    }
}

/// Opens what is behind a gate.
pub(super) fn open_gate(gate: Arc<Gate>, cache: usize) -> Result<Opened, Fault> {
    let database = catch(|| {
        redb::Builder::new()
            .set_cache_size(cache)
            .create_with_backend(Gated(Arc::clone(&gate)))
            .map_err(fault)
    })?;
    Ok(Opened { database, gate })
}

/// Makes an empty store on a disk.
pub(super) fn create(disk: &Disk, epoch: Epoch) -> io::Result<()> {
    disk.medium().create(&mut |backend| {
        let gate = Arc::new(Gate::held(backend, Arc::default())?);
        gate.release()?;
        initialize(Gated(gate), epoch).map_err(|error| io::Error::other(error.to_string()))
    })
}

fn initialize(backend: Gated, epoch: Epoch) -> Result<(), redb::Error> {
    let database = redb::Builder::new().create_with_backend(backend)?;
    let txn = database.begin_write()?;
    {
        let mut meta = txn.open_table(META)?;
        meta.insert(format::META_MAGIC, format::MAGIC)?;
        meta.insert(format::META_FORMAT, FORMAT.to_le_bytes().as_slice())?;
        meta.insert(format::META_EPOCH, epoch.get().to_le_bytes().as_slice())?;
        txn.open_table(LOG)?;
    }
    txn.commit()?;
    Ok(())
}

/// Turns a panic of redb on damaged data into an error.
pub(super) fn catch<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    panic::catch_unwind(panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let reason = panic_message(&*panic);
        Err(Fault {
            reason: format!("the storage library gave up: {reason}").into(),
            cause: Cause::Library,
        })
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown")
}

fn record(entry: &Entry) -> Record<'_> {
    let object = entry.event.object();
    let (kind, body) = match (entry.event.change(), entry.as_is) {
        (Change::Put { .. }, _) => (Kind::Put, object.bytes()),
        (Change::Delete { .. }, false) => (Kind::Delete, object.bytes()),
        (Change::Delete { .. }, true) => (Kind::DeleteAsIs, &[][..]),
    };
    Record {
        kind,
        created: object.created(),
        previous: entry.event.previous().map(|previous| previous.row()),
        tag: object.tag(),
        key: object.key().as_str(),
        body,
    }
}

pub(super) fn fault(error: impl Into<redb::Error>) -> Fault {
    let error = error.into();
    let no_room = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    let cause = if let redb::Error::Io(error) = &error
        && no_room.contains(&error.kind())
    {
        Cause::Full
    } else {
        Cause::Library
    };
    Fault {
        reason: error.to_string().into(),
        cause,
    }
}
