//! What a gate judges: an item and how it stands towards the target.

use deltaplane_expr::Timestamp;
use serde_json::{Map, Value as Json};

/// An item of a collection, or a node, as expressions see it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What tells it apart from the others: `namespace/name`, or a name.
    pub key: &'a str,
    /// Nothing as long as it does not exist: then nothing is in it, either.
    pub object: Option<&'a Map<String, Json>>,
    pub standing: Standing,
}

/// How an item stands towards the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not admitted to the target, and nothing is on its way to it.
    Behind { health: Health, hold: Hold },
    /// Admitted to something older and not ready at it yet: it is being changed, and in flight.
    /// Admitting it to the target adds nothing to what is in flight.
    Overtaken { progress: Progress, hold: Hold },
    /// Not ready at the target, and not in flight: new, and begun with what others have proven,
    /// or failed, and its place was given away.
    Starting,
    /// Admitted to the target and not ready at it, not yet or not any more: in flight.
    Updating { progress: Progress },
    /// Admitted to the target and ready at it.
    Current { since: Timestamp },
}

/// Whether an item is ready at its own generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Ready {
        since: Timestamp,
    },
    /// It was so before anything began: it counts as nothing.
    Broken,
    /// It failed on its way to something older, and its place was given away: whoever brings
    /// something better helps it first.
    Failed,
}

/// Whether the owner of an item keeps it from being admitted. What was admitted before stays so
/// and, until it is ready, in flight: otherwise whoever lets go would exceed the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    Free,
    Held,
}

/// How an item that is in flight fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    UnderWay,
    /// It said that it failed. It keeps its place in flight.
    Failed,
}

// === impl Standing ===

impl Standing {
    /// Whether its admitted content is the target's.
    pub fn is_updated(self) -> bool {
        match self {
            Self::Starting | Self::Updating { .. } | Self::Current { .. } => true,
            Self::Behind { .. } | Self::Overtaken { .. } => false,
        }
    }

    /// Since when it is ready at its own generation, if it is.
    pub fn ready_since(self) -> Option<Timestamp> {
        match self {
            Self::Current { since }
            | Self::Behind {
                health: Health::Ready { since },
                ..
            } => Some(since),
            Self::Behind {
                health: Health::Broken | Health::Failed,
                ..
            }
            | Self::Overtaken { .. }
            | Self::Starting
            | Self::Updating { .. } => None,
        }
    }

    pub fn is_in_flight(self) -> bool {
        match self {
            Self::Overtaken { .. } | Self::Updating { .. } => true,
            Self::Behind { .. } | Self::Starting | Self::Current { .. } => false,
        }
    }

    /// Whether it is in flight at the target itself.
    pub fn is_updating(self) -> bool {
        match self {
            Self::Updating { .. } => true,
            Self::Overtaken { .. }
            | Self::Behind { .. }
            | Self::Starting
            | Self::Current { .. } => false,
        }
    }

    /// Whether a gate decides about it.
    pub fn is_candidate(self) -> bool {
        match self {
            Self::Behind { hold, .. } | Self::Overtaken { hold, .. } => hold == Hold::Free,
            Self::Starting | Self::Updating { .. } | Self::Current { .. } => false,
        }
    }

    /// Whether it would be a candidate if its owner let it.
    pub fn is_held(self) -> bool {
        match self {
            Self::Behind { hold, .. } | Self::Overtaken { hold, .. } => hold == Hold::Held,
            Self::Starting | Self::Updating { .. } | Self::Current { .. } => false,
        }
    }
}
