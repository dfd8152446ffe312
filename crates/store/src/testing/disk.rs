//! A disk in memory that behaves as a real one may: it can be full, refuse to
//! sync, forget what it did not sync, and lose power.
//!
//! The model: a write goes to the cache; a sync makes the written sectors
//! durable; power loss keeps the durable state plus any subset of the sectors
//! that were written since. A failed sync may leave sectors in the cache that
//! look written and never will be ([`SyncFault::Forgets`]), as Linux does.

use std::{
    collections::{BTreeSet, HashSet},
    io,
    sync::Arc,
};

use parking_lot::Mutex;
use redb::StorageBackend;

use crate::embedded::{Fill, Medium};

/// What is written at once; a larger write can be torn.
const SECTOR: usize = 512;

/// A disk that fails on demand. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<State>>);

/// How a sync fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncFault {
    /// It fails, and what was written still waits to be stored.
    Keeps,
    /// It fails, and what was written stays readable but is never stored.
    Forgets,
    /// It stores everything, and reports a failure all the same.
    Lies,
}

#[derive(Debug, Default)]
struct State {
    /// What a reader sees.
    cache: Vec<u8>,
    /// What survives power loss.
    durable: Vec<u8>,
    /// Sectors in which the two differ and that the next sync stores.
    dirty: BTreeSet<usize>,
    /// Sectors that have storage, for [`MemoryDisk::set_capacity`].
    allocated: HashSet<usize>,
    /// How many sectors there are.
    capacity: Option<usize>,
    sync_faults: Vec<SyncFault>,
    writes_until_fault: Option<u64>,
    reads_fail: bool,
    moves_at_write: bool,
    moved: bool,
    writes: u64,
    syncs: u64,
    /// Handles of before the last power loss are dead.
    generation: u64,
}

#[derive(Debug)]
struct Handle {
    disk: MemoryDisk,
    generation: u64,
}

// === impl MemoryDisk ===

impl MemoryDisk {
    /// An empty disk without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk with this content.
    #[must_use]
    pub fn with_content(content: Vec<u8>) -> Self {
        let disk = Self::new();
        disk.0.lock().allocated = (0..content.len().div_ceil(SECTOR)).collect();
        disk.replace(content);
        disk
    }

    /// What a reader sees on it.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        self.0.lock().cache.clone()
    }

    /// Somebody puts another content in its place.
    pub fn replace(&self, content: Vec<u8>) {
        let mut state = self.0.lock();
        state.durable.clone_from(&content);
        state.cache = content;
        state.dirty.clear();
    }

    /// From now on the disk has no more room than it uses, and `bytes`.
    pub fn fill_up_to(&self, bytes: usize) {
        let mut state = self.0.lock();
        state.capacity = Some(state.allocated.len() + bytes / SECTOR);
    }

    /// There is room again.
    pub fn make_room(&self) {
        self.0.lock().capacity = None;
    }

    /// The next syncs fail in these ways, one after the other.
    pub fn fail_syncs(&self, faults: &[SyncFault]) {
        let mut state = self.0.lock();
        state.sync_faults = faults.iter().rev().copied().collect();
    }

    /// After `count` more writes, every write fails, until `None` is given.
    pub fn fail_writes_after(&self, count: Option<u64>) {
        self.0.lock().writes_until_fault = count;
    }

    /// Whether reads fail.
    pub fn fail_reads(&self, fail: bool) {
        self.0.lock().reads_fail = fail;
    }

    /// Somebody moves the storage away during the next write, which goes to it all the same.
    pub fn move_at_write(&self) {
        self.0.lock().moves_at_write = true;
    }

    /// Somebody moves the storage back.
    pub fn move_back(&self) {
        self.0.lock().moved = false;
    }

    /// Power is lost: open handles die, and of the sectors that were not
    /// synced only those survive for which `survives` says so.
    pub fn lose_power(&self, mut survives: impl FnMut(usize) -> bool) {
        let mut state = self.0.lock();
        let state = &mut *state;
        state.generation += 1;
        let dirty = std::mem::take(&mut state.dirty);
        for sector in dirty.into_iter().filter(|sector| survives(*sector)) {
            store(&state.cache, &mut state.durable, sector);
        }
        state.cache.clone_from(&state.durable);
        state.sync_faults.clear();
        state.writes_until_fault = None;
        state.reads_fail = false;
    }

    /// How many writes there were.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.0.lock().writes
    }

    /// How many syncs there were.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    fn handle(&self) -> Handle {
        Handle {
            disk: self.clone(),
            generation: self.0.lock().generation,
        }
    }
}

impl Medium for MemoryDisk {
    fn open(&self) -> io::Result<Option<Box<dyn StorageBackend>>> {
        if self.0.lock().cache.is_empty() {
            return Ok(None);
        }
        Ok(Some(Box::new(self.handle())))
    }

    fn create(&self, fill: &mut Fill<'_>) -> io::Result<()> {
        fill(Box::new(self.handle()))?;
        let mut state = self.0.lock();
        state.durable = state.cache.clone();
        state.dirty.clear();
        Ok(())
    }

    fn probe(&self, bytes: usize) -> io::Result<()> {
        let mut state = self.0.lock();
        // What is probed is synced, too.
        if state.writes_until_fault == Some(0) || state.sync_faults.pop().is_some() {
            return Err(io::ErrorKind::Other.into());
        }
        let needed = state.allocated.len() + bytes.div_ceil(SECTOR);
        match state.capacity {
            Some(capacity) if needed > capacity => Err(io::ErrorKind::StorageFull.into()),
            Some(_) | None => Ok(()),
        }
    }

    fn in_place(&self) -> bool {
        !self.0.lock().moved
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.lock().cache.len() as u64)
    }

    fn name(&self) -> String {
        "a disk in memory".to_owned()
    }
}

/// Copies one sector to the durable image, which grows as needed.
fn store(cache: &[u8], durable: &mut Vec<u8>, sector: usize) {
    let start = sector * SECTOR;
    let end = (start + SECTOR).min(cache.len());
    if start >= end {
        return;
    }
    if durable.len() < end {
        durable.resize(end, 0);
    }
    durable[start..end].copy_from_slice(&cache[start..end]);
}

fn sectors(offset: usize, len: usize) -> std::ops::Range<usize> {
    offset / SECTOR..(offset + len).div_ceil(SECTOR)
}

fn position(number: u64) -> io::Result<usize> {
    usize::try_from(number).map_err(|_| io::ErrorKind::InvalidInput.into())
}

// === impl State ===

impl State {
    fn write(&mut self, offset: usize, data: &[u8]) -> io::Result<()> {
        self.moved |= std::mem::take(&mut self.moves_at_write);
        self.writes += 1;
        if let Some(left) = &mut self.writes_until_fault {
            *left = left.checked_sub(1).ok_or(io::ErrorKind::Other)?;
        }
        let new = sectors(offset, data.len()).filter(|sector| !self.allocated.contains(sector));
        let used = self.allocated.len() + new.count();
        if self.capacity.is_some_and(|capacity| used > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let end = offset + data.len();
        if self.cache.len() < end {
            self.cache.resize(end, 0);
        }
        self.cache[offset..end].copy_from_slice(data);
        self.allocated.extend(sectors(offset, data.len()));
        self.dirty.extend(sectors(offset, data.len()));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.syncs += 1;
        let fault = self.sync_faults.pop();
        match fault {
            Some(SyncFault::Keeps) => {}
            Some(SyncFault::Forgets) => self.dirty.clear(),
            Some(SyncFault::Lies) | None => {
                for sector in std::mem::take(&mut self.dirty) {
                    store(&self.cache, &mut self.durable, sector);
                }
                self.durable.resize(self.cache.len(), 0);
            }
        }
        match fault {
            Some(_) => Err(io::Error::other("the sync failed")),
            None => Ok(()),
        }
    }

    fn set_len(&mut self, len: usize) {
        if len < self.cache.len() {
            let gone = sectors(len, self.cache.len() - len);
            self.allocated
                .retain(|sector| !gone.contains(sector) || *sector < len.div_ceil(SECTOR));
        }
        self.cache.resize(len, 0);
    }
}

// === impl Handle ===

impl Handle {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.0.lock();
        if state.generation != self.generation {
            return Err(io::Error::other("the power was lost"));
        }
        work(&mut state)
    }
}

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        self.with(|state| Ok(state.cache.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|state| {
            if state.reads_fail {
                return Err(io::Error::other("the read failed"));
            }
            let start = position(offset)?;
            let end = start.checked_add(out.len());
            let found = end.and_then(|end| state.cache.get(start..end));
            out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|state| {
            state.set_len(position(len)?);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(State::sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|state| state.write(position(offset)?, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durable(disk: &MemoryDisk) -> Vec<u8> {
        disk.lose_power(|_| false);
        disk.content()
    }

    #[test]
    fn only_what_was_synced_survives() {
        let disk = MemoryDisk::new();
        let handle = disk.handle();
        handle.write(0, b"a").unwrap();
        handle.sync_data().unwrap();
        handle.write(0, b"b").unwrap();
        assert_eq!(disk.content(), b"b");
        assert_eq!(durable(&disk), b"a");
        assert!(handle.write(0, b"c").is_err());
        disk.handle().write(0, b"d").unwrap();
        disk.lose_power(|_| true);
        assert_eq!(disk.content(), b"d");
    }

    #[test]
    fn syncs_fail_in_three_ways() {
        let check = |fault: SyncFault, after_fault: &[u8], after_next_sync: &[u8]| {
            let disk = MemoryDisk::with_content(b"a".to_vec());
            let handle = disk.handle();
            handle.write(0, b"b").unwrap();
            disk.fail_syncs(&[fault]);
            handle.sync_data().unwrap_err();
            assert_eq!(disk.0.lock().durable, after_fault, "{fault:?}");
            handle.sync_data().unwrap();
            assert_eq!(durable(&disk), after_next_sync, "{fault:?}");
        };
        check(SyncFault::Keeps, b"a", b"b");
        check(SyncFault::Forgets, b"a", b"a");
        check(SyncFault::Lies, b"b", b"b");
    }

    #[test]
    fn a_full_disk_takes_what_it_has_room_for() {
        let disk = MemoryDisk::with_content(vec![0; SECTOR]);
        let handle = disk.handle();
        disk.fill_up_to(0);
        handle.set_len(4 * SECTOR as u64).unwrap();
        handle.write(0, b"old").unwrap();
        let refused = handle.write(SECTOR as u64, b"new").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        disk.make_room();
        handle.write(SECTOR as u64, b"new").unwrap();
    }

    #[test]
    fn writes_fail_from_a_point_on() {
        let disk = MemoryDisk::new();
        let handle = disk.handle();
        disk.fail_writes_after(Some(1));
        handle.write(0, b"a").unwrap();
        handle.write(0, b"b").unwrap_err();
        handle.write(0, b"b").unwrap_err();
        disk.fail_writes_after(None);
        handle.write(0, b"c").unwrap();
    }
}
