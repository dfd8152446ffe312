//! controllers
pub mod accounts;
mod condition;
mod content;
pub mod definitions;
pub mod events;
pub mod garbage;
pub mod namespaces;
mod queue;

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
