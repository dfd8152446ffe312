//! A link that can be cut: bytes go through it, until they do not.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Listens on a port of its own and passes on what comes; ends with the process.
#[derive(Clone, Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    cut: bool,
    open: Vec<TcpStream>,
}

// === impl Proxy ===

impl Proxy {
    /// To an address on this machine.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let proxy = Self {
            address: listener.local_addr().expect("bound"),
            state: Arc::default(),
        };
        let state = proxy.state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Whoever cannot be passed on is cut off.
                let _ = pass(&state, &stream, target);
            }
        });
        proxy
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections, and lets none begin.
    pub fn cut(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.cut = true;
        for stream in state.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets connections begin again.
    pub fn mend(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.cut = false;
    }
}

fn pass(state: &Mutex<State>, stream: &TcpStream, target: SocketAddr) -> io::Result<()> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if state.cut {
        return stream.shutdown(Shutdown::Both);
    }
    let other = TcpStream::connect(target)?;
    for (from, to) in [(stream, &other), (&other, stream)] {
        state.open.push(from.try_clone()?);
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        thread::spawn(move || copy(from, to));
    }
    Ok(())
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
