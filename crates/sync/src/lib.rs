//! The border between hub and zones: what of an object may cross it, who may write which part,
//! and the two ends of a stream of deltas as state machines.
//!
//! One [`Sender`] and one [`Receiver`] make a stream. Hub to zone, the hub sends; zone to hub, the
//! zone does: both directions run the same code. Events go in, effects come out; carrying bytes
//! (`sync-grpc`) and reading and writing objects (`fleet`, `zone`) is done elsewhere.
//! PURE: no clock, environment, files or network.
//!
//! Invariants:
//! - What crosses has no status and nothing that a server writes: [`Crossing`] cannot hold it.
//! - Delivered means acknowledged: a sender takes a version as held only when its receiver said
//!   so, object by object.
//! - Nothing is removed that was not named, and no more than the [`DeletionBudget`] allows,
//!   whatever was lost, repeated or restored.
//! - What is not decided ([`Presence::Frozen`]) is neither sent nor taken away, and nothing waits
//!   for it.
//! - A receiver that followed more of a store than the store knows is sent nothing until a person
//!   settles it ([`Sender::diverged`]).
//! - A zone never changes an object's origin, nor who else receives it: [`SenderRole`].
//! - One object that is rejected delays itself and what needs it, and nothing else.

mod budget;
mod counts;
mod crossing;
mod handshake;
mod left;
mod names;
mod ownership;
mod readiness;
mod receiver;
mod secrets;
mod sender;
mod sessions;
mod version;
mod wire;

pub use budget::{DeletionBudget, Excess, Ledger};
pub use counts::{Counts, Reasons, Uploaded};
pub use crossing::{
    Arrival, COMPUTED_FIELDS, Crossing, DISPLAY_NAME, MADE_FOR, Mirrored, ORIGIN, ORPHANED, Origin,
    SOURCE, Smuggled, VERSION, ZONE, crosses,
};
pub use handshake::{
    FEATURES, Hello, MOST_MIRRORED_KINDS, OWN, PROTOCOLS, QUERY, READINESS, REPAIR, Refused,
    Welcome, welcome,
};
pub use left::{ORPHANED_AS, applied_version, has_its_content, likeness};
pub use names::{NameError, ObjectName, SyncKind, ZoneName, is_named_by_labels, mirrored_name};
pub use ownership::{
    AUTHORED_HERE, CHANGED_HERE, Computed, Direction, MANAGER, Part, Refusal, SYNCS_ANNOTATIONS,
    SYNCS_LABELS, StatusWriters, Synced, Write, Writer, judge, may_take, restore_computed,
};
pub use readiness::{
    Asked, AskedPolicy, AskedSelector, AskedTarget, FareState, Fared, Fares, KindFared,
    NotASelector, Part as FaredPart,
};
pub use receiver::{Action, Declined, Outcome, Receiver, SenderRole, Stake};
pub use secrets::{
    SYNC_LABEL, is_secret, label_crossed_secret, redact_readiness, redact_rejection, salt_secret,
};
pub use sender::{
    Before, Change, Difference, Exception, Held, Lineage, MOST_FURTHER_OBJECTS, MOST_KINDS, Need,
    OnFork, Presence, Sender, Undelivered, View,
};
pub use sessions::{SessionId, Sessions};
pub use version::Version;
pub use wire::{
    Epoch, FollowedPosition, Item, Known, MAX_REPAIRS, Position, ProtocolError, Rejection, Relayed,
    Request, Response, Revision, Verdict, Withdrawal,
};
