//! Ports for processes that are started again on them.
//!
//! A port that the system hands out is free only for as long as it is bound: between a process and
//! its successor, any connection of any other test may get it. So these are below those that are
//! handed out, and each belongs to one test until it ends.

use std::fs::{File, create_dir_all};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// A port that is kept; free for others when dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Locked, also against the tests of other processes.
    _lock: File,
}

/// No system hands these out by itself.
const NUMBERS: std::ops::Range<u16> = 21_000..31_000;

// === impl Port ===

impl Port {
    /// One that nobody listens on, nor will.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn reserve() -> Self {
        let directory = std::env::temp_dir().join("deltaplane-e2e-ports");
        create_dir_all(&directory).expect("a temporary directory");
        let port = NUMBERS.into_iter().find_map(|number| {
            let lock = File::create(directory.join(number.to_string())).ok()?;
            lock.try_lock().ok()?;
            TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
            let _lock = lock;
            Some(Self { number, _lock })
        });
        port.expect("a free port")
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_kept_by_one() {
        let (one, other) = (Port::reserve(), Port::reserve());
        assert_ne!(one.number, other.number);
        assert!(NUMBERS.contains(&one.number));
    }
}
