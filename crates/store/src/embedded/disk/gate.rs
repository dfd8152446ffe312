//! A storage backend whose writes can be held back.

use std::{
    collections::BTreeMap,
    io,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use redb::{BackendError, StorageBackend};

use super::Writes;

/// The unit in which held writes are kept.
const PAGE: usize = 4096;

/// A backend in one of two states: held, where writes stay in memory and reads
/// see them, and open, where everything goes through.
#[derive(Debug)]
pub(in crate::embedded) struct Gate {
    inner: Box<dyn StorageBackend>,
    writes: Arc<Mutex<Writes>>,
    open: AtomicBool,
    held: RwLock<Held>,
}

/// The backend that redb gets; the driver keeps the gate itself.
#[derive(Debug)]
pub(in crate::embedded) struct Gated(pub(in crate::embedded) Arc<Gate>);

#[derive(Debug)]
struct Held {
    /// What to do on release, in order.
    actions: Vec<Action>,
    /// The pages as they would be.
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    /// The length as it would be.
    len: u64,
    /// Up to where `inner` still counts; beyond it are zeros.
    inner_len: u64,
    /// How long `inner` is.
    inner_end: u64,
}

#[derive(Debug)]
enum Action {
    Write(u64, Box<[u8]>),
    SetLen(u64),
    Sync,
}

// === impl Gate ===

impl Gate {
    pub(in crate::embedded) fn held(
        inner: Box<dyn StorageBackend>,
        writes: Arc<Mutex<Writes>>,
    ) -> io::Result<Self> {
        let len = inner.len()?;
        let held = Held {
            actions: Vec::new(),
            pages: BTreeMap::new(),
            len,
            inner_len: len,
            inner_end: len,
        };
        Ok(Self {
            inner,
            writes,
            open: AtomicBool::new(false),
            held: RwLock::new(held),
        })
    }

    /// Whether there is nothing in the storage.
    pub(in crate::embedded) fn is_empty(&self) -> io::Result<bool> {
        Ok(self.inner.len()? == 0)
    }

    /// Whether the storage begins with `magic`.
    pub(in crate::embedded) fn begins_with(&self, magic: &[u8]) -> io::Result<bool> {
        if self.inner.len()? < magic.len() as u64 {
            return Ok(false);
        }
        let mut found = vec![0; magic.len()];
        self.inner.read(0, &mut found)?;
        Ok(found == magic)
    }

    /// Does what was held back, and lets everything through from now on. After
    /// an error the gate stays held, and this can be called again: the actions
    /// are the same writes in the same order.
    pub(in crate::embedded) fn release(&self) -> io::Result<()> {
        {
            let held = self.held.read();
            for action in &held.actions {
                match action {
                    Action::Write(offset, data) => self.write_through(*offset, data)?,
                    Action::SetLen(len) => self.inner.set_len(*len)?,
                    Action::Sync => self.sync_through()?,
                }
            }
        }
        self.open.store(true, Ordering::Release);
        let mut held = self.held.write();
        held.actions = Vec::new();
        held.pages = BTreeMap::new();
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    fn write_through(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        // Before the write: a part of it may arrive even if it fails.
        self.writes.lock().pending.push((offset, data.len()));
        self.inner.write(offset, data)
    }

    fn sync_through(&self) -> io::Result<()> {
        let synced = self.inner.sync_data();
        let mut writes = self.writes.lock();
        match &synced {
            Ok(()) if !writes.suspect => writes.pending.clear(),
            // A good sync after a bad one proves nothing about what came before.
            Ok(()) => {}
            Err(_) => writes.suspect = true,
        }
        synced
    }
}

// === impl Held ===

impl Held {
    /// Whether a read has to look here at all.
    fn differs(&self) -> bool {
        !self.pages.is_empty() || self.inner_len != self.len || self.inner_len != self.inner_end
    }

    fn read(&self, inner: &dyn StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let within = (at % PAGE as u64) as usize;
            let part = &mut out[done..];
            let len = part.len().min(PAGE - within);
            let part = &mut part[..len];
            match self.pages.get(&(at / PAGE as u64)) {
                Some(page) => part.copy_from_slice(&page[within..within + len]),
                None => self.read_inner(inner, at, part)?,
            }
            done += len;
        }
        Ok(())
    }

    fn read_inner(&self, inner: &dyn StorageBackend, at: u64, out: &mut [u8]) -> io::Result<()> {
        let there = self.inner_len.saturating_sub(at).min(out.len() as u64);
        let (from_inner, zeros) = out.split_at_mut(there as usize);
        zeros.fill(0);
        if from_inner.is_empty() {
            return Ok(());
        }
        inner.read(at, from_inner)
    }

    fn write(&mut self, inner: &dyn StorageBackend, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let number = at / PAGE as u64;
            let within = (at % PAGE as u64) as usize;
            let len = (data.len() - done).min(PAGE - within);
            if !self.pages.contains_key(&number) {
                let mut page = Box::new([0; PAGE]);
                self.read_inner(inner, number * PAGE as u64, &mut page[..])?;
                self.pages.insert(number, page);
            }
            if let Some(page) = self.pages.get_mut(&number) {
                page[within..within + len].copy_from_slice(&data[done..done + len]);
            }
            done += len;
        }
        self.len = self.len.max(offset + data.len() as u64);
        self.actions.push(Action::Write(offset, data.into()));
        Ok(())
    }

    fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.inner_len = self.inner_len.min(len);
            self.pages.split_off(&len.div_ceil(PAGE as u64));
            let within = (len % PAGE as u64) as usize;
            if let Some(page) = self.pages.get_mut(&(len / PAGE as u64)) {
                page[within..].fill(0);
            }
        }
        self.len = len;
        self.actions.push(Action::SetLen(len));
    }
}

// === impl Gated ===

impl StorageBackend for Gated {
    fn len(&self) -> io::Result<u64> {
        if self.0.is_open() {
            return self.0.inner.len();
        }
        Ok(self.0.held.read().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if !self.0.is_open() {
            let held = self.0.held.read();
            // Asked again under the lock: release empties it after opening.
            if !self.0.is_open() && held.differs() {
                return held.read(&*self.0.inner, offset, out);
            }
        }
        self.0.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.0.is_open() {
            return self.0.inner.set_len(len);
        }
        self.0.held.write().set_len(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.0.is_open() {
            return self.0.sync_through();
        }
        self.0.held.write().actions.push(Action::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.0.is_open() {
            return self.0.write_through(offset, data);
        }
        self.0.held.write().write(&*self.0.inner, offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.0.inner.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.inner.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.inner.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.inner.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.inner.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests;
