//! What the end-to-end tests need: the real binary in a process of its own, the real kubectl, and
//! transcripts of what it says.
//!
//! Not here: the tests (`tests/it`); anything that looks into the server other than as a user can.
//!
//! Invariants: nothing outlives the value that stands for it, neither processes nor directories;
//! everything is on loopback, on free ports; waiting is for an event with a limit, never a sleep.
//!
//! ```
//! use deltaplane_e2e::script::{Output, Step, parse};
//!
//! let steps = parse("$ get cm -o name\nconfigmap/a\n");
//! let words = ["get", "cm", "-o", "name"].map(str::to_owned).to_vec();
//! let line = "get cm -o name".to_owned();
//! let expected = Step { output: Output::Shown, line, env: vec![], words, stdin: None };
//! assert_eq!(steps, Ok(vec![expected]));
//! ```

pub mod kubectl;
pub mod plain;
pub mod ports;
pub mod programs;
pub mod proxy;
pub mod script;
pub mod server;

pub use kubectl::{Answer, Kubectl};
pub use server::Server;

use std::time::Duration;

/// How long anything may take that should take a moment: a machine may be busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);
