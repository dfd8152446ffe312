//! Both ends of the border between hub and zones, the same code on either side: what there is to
//! send ([`Catalog`]), the loop that sends it ([`Sending`]), the loop that takes what comes
//! ([`Receiving`]), and the [`Mirror`] that applies it to an API.
//!
//! Not here: deciding what crosses (`deltaplane_sync`), bytes (`sync-grpc`), where the objects of a
//! catalog come from (`fleet` at the hub, `zone` in a zone).
//!
//! Invariants: a catalog is read and changed as a whole, so that whoever sends sees it as it was at
//! one revision; an object is encoded once per version, whoever gets it; what a policy governs is
//! frozen wherever it has not decided; nothing is applied to an API but by server-side apply on the
//! main resource.

mod catalog;
mod mirror;
mod openings;
mod receiving;
mod repairs;
mod sending;
mod shared;

pub use catalog::{
    Audience, Catalog, Concerned, Edit, Entry, Governed, GraphClaim, Place, Placement, PolicyId,
    Reader, Slot, definitions, graphs, namespaces,
};
pub use mirror::{Held, Mirror, MirrorConfig, ServedKind, Stamp, Told, served_kind};
pub use openings::Openings;
pub use receiving::{Receiving, Subscriptions, Target};
pub use repairs::{PendingWrites, RepairNames};
pub use sending::{Lacking, ObjectState, Sending, Sent, Standing, UndecidedObjects};
pub use shared::{Behind, Shared};
