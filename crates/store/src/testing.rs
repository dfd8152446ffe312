//! For tests of this crate, of other drivers and of what uses a store: a disk
//! that fails on demand, a store in memory, and the contract of a driver.

pub mod contract;
pub mod disk;
pub mod model;

use crate::{
    embedded::{Embedded, Options},
    store::Store,
};

/// A store in memory, gone with its last handle.
///
/// # Panics
///
/// Never: an empty disk in memory can always be filled.
#[must_use]
pub fn memory_store() -> Store {
    Embedded::open_on(Box::new(disk::MemoryDisk::new()), Options::default())
        .expect("an empty disk in memory can be filled")
}
