//! What every process of Deltaplane runs on: supervised tasks, shutdown, readiness, the clock,
//! telemetry, the material for TLS, and how zones prove who they are.
//!
//! Not here: anything that knows objects, stores or protocols.
//!
//! Invariants: a task is spawned here or nowhere, has a name, an owner and an exit policy; what
//! must be prepared before the process is ready is never taken for ready because it broke off;
//! private keys are whole, and for their owner only.
//!
//! ```
//! use std::time::Duration;
//!
//! use deltaplane_runtime::{Readiness, Tasks};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let tasks = Tasks::new();
//! let readiness = Readiness::new();
//! let guard = readiness.guard("lease");
//! tasks.spawn("lease", |stop| async move {
//!     guard.ready();
//!     stop.wait().await;
//! });
//! readiness.wait().await;
//! tasks.request_stop();
//! tasks.run(Duration::from_secs(1)).await.expect("ended as told");
//! # }
//! ```

pub mod clock;
pub mod files;
mod heavy;
pub mod identity;
pub mod kubeconfig;
pub mod limits;
pub mod readiness;
pub mod signals;
pub mod stop;
pub mod tasks;
pub mod telemetry;
pub mod tls;
pub mod transit;

pub use clock::Clock;
pub use heavy::{aside, heavy};
pub use readiness::Readiness;
pub use stop::{Stop, Trigger};
pub use tasks::{TaskGroup, Tasks};
pub use transit::TransitMonitor;
