//! The messages of a stream, as values. `sync-grpc` writes them as Envoy's delta discovery.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::names::{NameError, ObjectName, SyncKind, ZoneName};
use crate::version::Version;

/// A place in the order of a store's writes.
pub type Revision = u64;

/// Not the identity of any store: those are UUIDs.
const UNPROVEN: &str = "unproven";

/// A store's permanent identity and one of its openings: `<store>.<opening>`. An opening is drawn
/// whenever the store is opened, so that positions after a restore differ from those before it. A
/// store that does not know when it is opened has its identity alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub Arc<str>);

/// How far a store's writes were seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub epoch: Epoch,
    pub revision: Revision,
}

/// The newest position that a zone followed, and the newest release of each policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedPosition {
    pub position: Position,
    pub releases: BTreeMap<String, u64>,
}

/// An object to be applied. Its body is encoded once, whoever gets it.
#[derive(Clone, PartialEq, Eq)]
pub struct Item {
    pub version: Version,
    pub body: Arc<[u8]>,
    /// Set when it is not the sender's own.
    pub relayed: Option<Relayed>,
}

/// An object that the hub passes on from the zone that authored it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relayed {
    pub zone: ZoneName,
    /// What it is called there.
    pub name: Arc<str>,
}

/// What becomes of objects that are not meant for the receiver any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Withdrawal {
    /// They stay, and are the receiver's own.
    #[default]
    Orphan,
    Delete,
}

/// What a sender says. At most one of a kind is not yet answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub kind: SyncKind,
    /// Grows with every response of a stream.
    pub nonce: u64,
    /// How far the sender had seen its store when it wrote this.
    pub at: Position,
    /// Whether the receiver has all of the kind as it is at `at` once it has done this, and nothing
    /// else. Then it can resume from there.
    pub complete: bool,
    pub items: Vec<(ObjectName, Item)>,
    /// To be left to the receiver.
    pub orphaned: Vec<ObjectName>,
    /// To be deleted.
    pub removed: Vec<ObjectName>,
    /// Whether a person said that more may go than the budget allows.
    pub approved: bool,
    /// The releases that the objects named here are of, by policy.
    pub releases: BTreeMap<String, u64>,
}

/// What a receiver says of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// It wants all of it, and says what it has.
    Subscribe { kind: SyncKind, known: Known },
    /// It is done with a response.
    Ack {
        kind: SyncKind,
        nonce: u64,
        rejected: Vec<Rejection>,
    },
    /// It does not have these any more as it said: somebody changed or deleted them behind sync.
    /// No more than [`MAX_REPAIRS`] at once.
    Repair {
        kind: SyncKind,
        names: BTreeSet<ObjectName>,
    },
}

/// So many objects are repaired by one request: what a receiver asks for stays small, however much
/// it lost.
pub const MAX_REPAIRS: usize = 1000;

/// What a receiver has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// These versions, and the stores that they may be from, with how far each was seen.
    Versions {
        held: BTreeMap<ObjectName, Version>,
        sources: Vec<Position>,
    },
    /// All that the sender's store said up to here, and of some objects perhaps more: those have
    /// these versions, if any.
    Position {
        position: Position,
        beyond: BTreeMap<ObjectName, Option<Version>>,
    },
}

/// An object that was not taken as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub name: ObjectName,
    pub reason: String,
    pub verdict: Verdict,
}

/// What a rejection means to whoever sent the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It could not be done. It is tried again, and what needs it waits.
    #[default]
    Failed,
    /// It is a deletion beyond the budget, which somebody has to approve.
    Held,
    /// The receiver has one of its own under this name and keeps it, which is as good for all that
    /// needs it.
    Own,
    /// The receiver has one of its own under this name and keeps it, and what needs this one waits.
    /// Nothing is wrong with either.
    Foreign,
}

/// What ends a stream: the peer does not keep to the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    #[error("an answer for {kind}, of which nothing was sent")]
    UnexpectedAnswer { kind: SyncKind },
    #[error("{kind} was not subscribed to")]
    NotSubscribed { kind: SyncKind },
    #[error("{kind} is subscribed to already")]
    SubscribedTwice { kind: SyncKind },
    #[error("a response for {kind} before the one before it was answered")]
    Unanswered { kind: SyncKind },
    #[error("the changes since revision {since} are not kept any more: resume by versions")]
    TooOld { since: Revision },
    #[error("a zone cannot orphan {name}: only the hub changes the origin of an object")]
    OrphanedByZone { name: ObjectName },
    #[error("too many changes were not read in time: resume by versions")]
    Behind,
    #[error(
        "{kind}: more than {most} objects were changed or removed without a complete state in between"
    )]
    TooManyChanges { kind: SyncKind, most: usize },
    #[error("more than {most} kinds are subscribed to")]
    TooManyKinds { most: usize },
    #[error("more than {most} objects are said to be held")]
    TooManyObjects { most: u64 },
    #[error("{0}")]
    Malformed(String),
}

// === impl Epoch ===

impl Epoch {
    /// One opening of a store.
    pub fn opening(store: &str, opening: &str) -> Self {
        Self(format!("{store}.{opening}").into())
    }

    /// The epoch of positions that nobody knows: a receiver lost its record of how far it followed a
    /// store. `record` tells that record from others.
    pub fn unproven(record: &str) -> Self {
        Self::opening(UNPROVEN, record)
    }

    /// Returns true if a receiver does not know which store it followed, and how far.
    pub fn is_unproven(&self) -> bool {
        self.store() == UNPROVEN
    }

    /// The store's permanent identity.
    pub fn store(&self) -> &str {
        self.0.split_once('.').map_or(&self.0, |(store, _)| store)
    }
}

// === impl Position ===

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.epoch.0, self.revision)
    }
}

impl FromStr for Position {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let parts = text.rsplit_once('@');
        let parts = parts.and_then(|(epoch, revision)| Some((epoch, revision.parse().ok()?)));
        match parts {
            Some((epoch, revision)) if !epoch.is_empty() && !epoch.contains(' ') => Ok(Self {
                epoch: Epoch(epoch.into()),
                revision,
            }),
            Some(_) | None => Err(NameError::Position(text.to_owned())),
        }
    }
}

// === impl Item ===

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({} bytes)", self.version, self.body.len())
    }
}

// === impl Request ===

impl Request {
    /// The same for a sender that does not know [`Verdict::Own`]: it would let wait what needs the
    /// object.
    #[must_use]
    pub fn without_own(mut self) -> Self {
        if let Self::Ack { rejected, .. } = &mut self {
            rejected.retain(|one| one.verdict != Verdict::Own);
        }
        self
    }
}

// === impl Response ===

impl Response {
    /// Every object that it is about.
    pub fn names(&self) -> impl Iterator<Item = &ObjectName> {
        let items = self.items.iter().map(|(name, _)| name);
        items.chain(&self.orphaned).chain(&self.removed)
    }

    pub fn is_empty(&self) -> bool {
        self.names().next().is_none()
    }
}
