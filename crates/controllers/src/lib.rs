//! Controllers: each observes, plans, and acts, as a client of the API like any other.
//!
//! - [`accounts`]: what every namespace has
//! - [`definitions`]: custom kinds
//! - [`events`]: the end of events
//! - [`garbage`]: objects and their owners
//! - [`graphs`]: definitions of graphs, and their instances
//! - [`namespaces`]: the end of namespaces
//! - [`policies`]: releases that go from zone to zone
//! - [`roles`]: roles that gather others' rules
//! - [`simulator`]: workloads that seem to run where nothing runs them
//!
//! Not here: serving the API, deciding who may do what.
//!
//! Invariants: what a controller does depends on the present state alone, whatever led to it, and
//! can be repeated; nothing is written when nothing is to be changed; nothing is done while nothing
//! happens; what is deleted is deleted by uid, and never because something could not be seen.
//!
//! ```
//! use deltaplane_client::Pace;
//! use deltaplane_controllers::{Context, events};
//! use deltaplane_runtime::Tasks;
//! use std::time::Duration;
//!
//! /// Events of the API behind `client` live for an hour.
//! fn start(client: kube::Client, tasks: &Tasks) {
//!     let context = Context { client, pace: Pace::system() };
//!     tasks.spawn("events", |stop| events::run(context, Duration::from_secs(3600), stop));
//! }
//! ```

pub mod accounts;
mod condition;
mod content;
pub mod definitions;
pub mod events;
pub mod garbage;
pub mod graphs;
pub mod namespaces;
pub mod policies;
mod queue;
pub mod roles;
pub mod simulator;

use deltaplane_client::Pace;
use kube::Client;

/// What every controller needs.
#[derive(Clone)]
pub struct Context {
    /// The API that it is a client of.
    pub client: Client,
    /// When to try again.
    pub pace: Pace,
}
