//! Signals from the operator: the first asks to drain, the second ends the process at once.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::pin;

use tokio::signal::unix::{self, SignalKind};

use crate::stop::Trigger;

/// A request to end, from outside the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// What service managers send.
    Terminate,
}

/// Listens for signals from the moment it is installed.
#[derive(Debug)]
pub struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

/// How work under [`Signals::supervise`] ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Supervised<T> {
    /// By itself, or after it was asked to.
    Ended(T),
    /// A second signal came before it had ended.
    Forced(Signal),
}

// === impl Signal ===

impl Signal {
    /// What a shell reports for a process that this signal killed.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 128 + 2,
            Self::Terminate => 128 + 15,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        })
    }
}

// === impl Signals ===

impl Signals {
    /// Takes over the signals; the default action, sudden death, no longer happens.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
        })
    }

    /// The next signal. Cancel safe.
    pub async fn recv(&mut self) -> Signal {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Signal::Interrupt,
            Some(()) = self.terminate.recv() => Signal::Terminate,
            else => std::future::pending().await,
        }
    }

    /// Runs `work`; the first signal is announced and pulls `trigger`, so that `work` drains and
    /// ends, the second gives up on it.
    pub async fn supervise<T>(
        &mut self,
        trigger: &Trigger,
        work: impl Future<Output = T>,
        announce: impl FnOnce(Signal),
    ) -> Supervised<T> {
        let mut work = pin!(work);
        tokio::select! {
            ended = &mut work => return Supervised::Ended(ended),
            signal = self.recv() => announce(signal),
        }
        trigger.stop();
        tokio::select! {
            ended = work => Supervised::Ended(ended),
            signal = self.recv() => Supervised::Forced(signal),
        }
    }
}
