//! Reading the log: the whole of it when a store is opened, parts of it later.

use std::sync::Arc;

use redb::{
    AccessGuard, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata,
};

use super::{
    engine::{Fault, Meta, fault},
    format::{self, BadRecord, Kind, LOG, META, Record},
};
use crate::{
    driver::{Epoch, Replay, Replayed, Version},
    event::{Change, Event},
    feed::RingLimits,
    header::HeaderFn,
    list::ReadError,
    memory::{Loader, Memory},
    object::{Identity, Object},
    revision::{Revision, Row},
};

/// A reader that has gone through this many rows or bytes lets others in.
const REPLAY_ROWS: usize = 16_384;
const REPLAY_BYTES: usize = 8 << 20;

/// What is wrong with a file that redb could open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadStore {
    /// It is a redb database, but not a store.
    #[error("it is not a store")]
    Foreign,
    /// It was written by a newer program.
    #[error("it has format {found}")]
    Newer { found: u32 },
    /// Its content contradicts itself.
    #[error("{0}")]
    Corrupt(String),
}

/// A store that has been read.
pub(super) struct Loaded {
    pub(super) memory: Memory,
    pub(super) meta: Meta,
    /// Rows that an interrupted compaction left.
    pub(super) leftovers: Vec<Row>,
}

/// The state of a load.
struct Load {
    loader: Loader,
    header: HeaderFn,
    compacted: Revision,
    leftovers: Vec<Row>,
}

/// Reads the identity of a store.
pub(super) fn read_meta(database: &Database) -> Result<Meta, BadStore> {
    let txn = database.begin_read().map_err(corrupt)?;
    let table = match txn.open_table(META) {
        Ok(table) => table,
        Err(redb::TableError::Storage(error)) => return Err(corrupt(error)),
        Err(_) => return Err(BadStore::Foreign),
    };
    let get = |name: &str| table.get(name).map_err(corrupt);
    let magic = get(format::META_MAGIC)?;
    if magic.is_none_or(|magic| magic.value() != format::MAGIC) {
        return Err(BadStore::Foreign);
    }
    let format = number(get(format::META_FORMAT)?).map(u32::from_le_bytes);
    match format {
        Some(format::FORMAT) => {}
        Some(found) if found > format::FORMAT => return Err(BadStore::Newer { found }),
        Some(_) | None => return Err(BadStore::Corrupt("its format is not known".to_owned())),
    }
    let epoch = number(get(format::META_EPOCH)?).map(u128::from_le_bytes);
    let epoch = epoch.ok_or_else(|| BadStore::Corrupt("it has no epoch".to_owned()))?;
    let compacted = number(get(format::META_COMPACTED)?).map_or(0, u64::from_le_bytes);
    Ok(Meta {
        epoch: Epoch::new(epoch),
        compacted: Revision::new(compacted),
    })
}

fn number<const N: usize>(value: Option<AccessGuard<'_, &'static [u8]>>) -> Option<[u8; N]> {
    value?.value().try_into().ok()
}

/// Reads all of a store into memory.
pub(super) fn load(
    database: &Database,
    header: HeaderFn,
    limits: RingLimits,
) -> Result<Loaded, BadStore> {
    let meta = read_meta(database)?;
    let mut load = Load {
        loader: Loader::new(header, limits, meta.compacted),
        header,
        compacted: meta.compacted,
        leftovers: Vec::new(),
    };
    let txn = database.begin_read().map_err(corrupt)?;
    let log = txn.open_table(LOG).map_err(corrupt)?;
    let mut rows = 0;
    for entry in log.iter().map_err(corrupt)? {
        rows += 1;
        let (row, bytes) = entry.map_err(corrupt)?;
        let row = Row::from_bits(row.value());
        let added = Record::decode(row, bytes.value()).map_err(|bad| bad_record(row, bad));
        load.add(row, &added?)?;
    }
    // Damage above the records can hide some of them.
    let expected = log.len().map_err(corrupt)?;
    if rows != expected {
        let reason = format!("{rows} of {expected} records are there");
        return Err(BadStore::Corrupt(reason));
    }
    Ok(Loaded {
        memory: load.loader.finish(),
        meta,
        leftovers: load.leftovers,
    })
}

impl Load {
    fn add(&mut self, row: Row, record: &Record<'_>) -> Result<(), BadStore> {
        let object = object(row, record, self.header).map_err(|bad| bad_record(row, bad))?;
        let object = Arc::new(object);
        let key = object.key().clone();
        let previous = match record.kind {
            Kind::Put => self.loader.put(object),
            Kind::Delete => self.loader.delete(&key, row, Some(object)),
            Kind::DeleteAsIs => self.loader.delete(&key, row, None),
        };
        let found = previous.map(|previous| previous.row());
        let dropped = row.revision() <= self.compacted;
        // Versions that a compaction dropped are the only ones that may miss.
        let follows = found == record.previous || (dropped && found.is_none());
        let ends_nothing = record.kind != Kind::Put && record.previous.is_none();
        if !follows || ends_nothing {
            let reason = format!(
                "revision {} does not follow what is before it",
                row.revision()
            );
            return Err(BadStore::Corrupt(reason));
        }
        if dropped {
            self.leftovers.extend(found);
            self.leftovers
                .extend((record.kind != Kind::Put).then_some(row));
        }
        Ok(())
    }
}

/// Checks that a database is the store of an epoch and holds what was
/// acknowledged up to a revision.
pub(super) fn verify(database: &Database, epoch: Epoch, revision: Revision) -> Result<(), Fault> {
    let txn = database.begin_read().map_err(fault)?;
    let meta = txn.open_table(META).map_err(fault)?;
    let found = number(meta.get(format::META_EPOCH).map_err(fault)?);
    if found.map(u128::from_le_bytes) != Some(epoch.get()) {
        return Err(Fault::new("another store has taken its place"));
    }
    let log = txn.open_table(LOG).map_err(fault)?;
    let rows = Row::new(revision, 0).to_bits()..Row::after(revision);
    let there = log.range(rows).map_err(fault)?.next().is_some();
    if !there && revision > compacted(&meta)? {
        return Err(Fault::new(
            "it has lost acknowledged writes; restart to look at it anew",
        ));
    }
    Ok(())
}

fn compacted(meta: &ReadOnlyTable<&'static str, &'static [u8]>) -> Result<Revision, Fault> {
    let compacted = number(meta.get(format::META_COMPACTED).map_err(fault)?);
    Ok(Revision::new(compacted.map_or(0, u64::from_le_bytes)))
}

/// Reads versions. What is not there is left out.
pub(super) fn versions(
    database: &Database,
    header: HeaderFn,
    wanted: &[Version],
) -> Result<Vec<Arc<Object>>, Fault> {
    let txn = database.begin_read().map_err(fault)?;
    let log = txn.open_table(LOG).map_err(fault)?;
    let mut found = Vec::with_capacity(wanted.len());
    for version in wanted {
        found.extend(stored(&log, version.row, header)?);
    }
    Ok(found)
}

/// Reads a part of the log.
pub(super) fn replay(
    database: &Database,
    header: HeaderFn,
    request: &Replay,
) -> Result<Result<Replayed, ReadError>, Fault> {
    let txn = database.begin_read().map_err(fault)?;
    let meta = txn.open_table(META).map_err(fault)?;
    let oldest = compacted(&meta)?;
    if request.after < oldest {
        let requested = request.after;
        return Ok(Err(ReadError::Compacted { requested, oldest }));
    }
    let log = txn.open_table(LOG).map_err(fault)?;
    let mut replayed = Replayed {
        events: Vec::new(),
        through: request.after,
    };
    let (mut rows, mut bytes) = (0, 0);
    let range = Row::after(request.after)..Row::after(request.until);
    for entry in log.range(range).map_err(fault)? {
        let (row, value) = entry.map_err(fault)?;
        let row = Row::from_bits(row.value());
        let full = replayed.events.len() >= request.max.max(1)
            || rows >= REPLAY_ROWS
            || bytes >= REPLAY_BYTES;
        if full && row.revision() > replayed.through {
            return Ok(Ok(replayed));
        }
        rows += 1;
        replayed.through = row.revision();
        let record = Record::decode(row, value.value()).map_err(|bad| unreadable(row, bad))?;
        let key = record.owned_key().map_err(|bad| unreadable(row, bad))?;
        if request.scope.contains(&key) {
            bytes += record.encoded_len();
            replayed
                .events
                .push(Arc::new(event(&log, row, &record, header)?));
        }
    }
    replayed.through = request.until.max(replayed.through);
    Ok(Ok(replayed))
}

type Log = ReadOnlyTable<u64, &'static [u8]>;

fn event(log: &Log, row: Row, record: &Record<'_>, header: HeaderFn) -> Result<Event, Fault> {
    let object = Arc::new(object(row, record, header).map_err(|bad| unreadable(row, bad))?);
    let previous = match record.previous {
        None => None,
        Some(previous) => stored(log, previous, header)?,
    };
    let missing = || {
        Fault::new(format!(
            "the version before revision {} is missing",
            row.revision()
        ))
    };
    if record.previous.is_some() && previous.is_none() {
        return Err(missing());
    }
    let change = change(record.kind, object, previous).ok_or_else(missing)?;
    Ok(Event::new(change))
}

fn stored(log: &Log, row: Row, header: HeaderFn) -> Result<Option<Arc<Object>>, Fault> {
    let Some(value) = log.get(row.to_bits()).map_err(fault)? else {
        return Ok(None);
    };
    let record = Record::decode(row, value.value()).map_err(|bad| unreadable(row, bad))?;
    let object = object(row, &record, header).map_err(|bad| unreadable(row, bad))?;
    Ok(Some(Arc::new(object)))
}

/// `None` for a deletion of nothing, which no sound log has.
fn change(kind: Kind, object: Arc<Object>, previous: Option<Arc<Object>>) -> Option<Change> {
    match kind {
        Kind::Put => Some(Change::Put { object, previous }),
        Kind::Delete => previous.map(|previous| Change::Delete { object, previous }),
        Kind::DeleteAsIs => previous.map(|previous| Change::Delete {
            object: Arc::new(previous.deleted_at(object.row())),
            previous,
        }),
    }
}

fn object(row: Row, record: &Record<'_>, header: HeaderFn) -> Result<Object, BadRecord> {
    let identity = Identity {
        key: record.owned_key()?,
        row,
        created: record.created,
        tag: record.tag,
    };
    Ok(Object::new(
        identity,
        header(record.body),
        record.body.into(),
    ))
}

fn corrupt(error: impl Into<redb::Error>) -> BadStore {
    BadStore::Corrupt(error.into().to_string())
}

fn bad_record(row: Row, bad: BadRecord) -> BadStore {
    BadStore::Corrupt(format!(
        "the record of revision {} is damaged: {bad}",
        row.revision()
    ))
}

fn unreadable(row: Row, bad: BadRecord) -> Fault {
    Fault::new(bad_record(row, bad).to_string())
}
