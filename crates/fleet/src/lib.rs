//! The hub's side of the fleet: which zone should have which version of what, who may write what,
//! and what is known of the zones.
//!
//! Not here: bytes on a connection (`sync-grpc`, wired by `hub`), what a sender or receiver decides
//! (`sync`), how objects are applied (`border`).
//!
//! Invariants: the projector reads the store's ordered log, so that nobody sees an object before
//! the rule that governs it; the newest session of a zone counts, and what an older one says is
//! not heard; heartbeats are never stored.

pub mod difference;
mod divergence;
mod endpoints;
mod fleet;
mod governing;
mod graph_rights;
mod graphs;
pub mod kinds;
mod known;
mod leaving;
mod lineage;
mod losses;
mod made_namespaces;
mod metering;
mod ownership;
mod policing;
mod projector;
mod propagated;
mod quota;
pub mod readiness;
mod rules;
mod served;
mod session;
mod status;
mod uploaded;

pub use endpoints::{
    KindOrigins, ObjectZones, PolicyPlan, PolicyRollout, ZonePropagated, ZoneReconcile, ZoneSync,
};
pub use fleet::{Fleet, FleetConfig, FleetError};
pub use governing::{ContentsError, DraftError};
pub use graph_rights::GraphAuthorRights;
pub use graphs::{DefinitionCheck, DefinitionFindings, DefinitionProblem, stays_at_hub};
pub use kinds::{SYNC_USER, synced_kinds};
pub use known::Known;
pub use lineage::{
    FollowedLineage, LineageError, open as open_lineage,
    open_as_possible as open_lineage_as_possible,
};
pub use metering::UploadQuota;
pub use ownership::Ownership;
pub use policing::Policing;
pub use readiness::Readiness;
pub use rules::follow_definitions;
pub use session::{HandshakeError, Peer, Session, SessionStream, StreamPlace};
