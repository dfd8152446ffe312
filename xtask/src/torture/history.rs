//! What clients did and what they were told, as data.
//!
//! Every write puts the number of its operation into the object, so that whoever reads an object
//! knows which operations made it. Not here: judging any of it.

#[cfg(test)]
pub(crate) mod notation;

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// How many namespaces are written to.
pub(crate) const NAMESPACES: u8 = 3;
/// How many objects there can be in each: few, so that clients meet.
pub(crate) const NAMES: u8 = 4;

/// How large the objects of a run are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// The store's memory holds all of a run's history.
    Small,
    /// It does not, and whoever is behind is served from disk.
    Large,
}

/// The number of an operation; never twice in a run. It says what is written, its size included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OpId(pub(crate) u32);

/// A `resourceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Revision(pub(crate) u64);

/// An object's identity, which a new object of the same name does not share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Uid(pub(crate) u128);

/// A moment: nanoseconds since the run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(pub(crate) u64);

/// Which object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: u8,
    pub(crate) name: u8,
}

/// The label of an object, by which some watches select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Blue,
    Red,
}

/// An object at one revision. For a deleted one: what it was, at the revision of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) revision: Revision,
    pub(crate) uid: Uid,
    /// The operation that wrote all of it.
    pub(crate) whole: OpId,
    /// The operation that wrote last: the same one, or a patch.
    pub(crate) last: OpId,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Create,
    /// A PUT, at a known revision or at whatever is there.
    Replace {
        at: Option<Revision>,
    },
    /// A PATCH of one field.
    Patch,
    Delete {
        at: Option<Revision>,
        uid: Option<Uid>,
    },
    Read,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The object, as it was read or as it is after a write.
    Object(Version),
    Deleted,
    /// There is none: what a read finds, or why a write was refused.
    Absent,
    /// Refused: there is one already.
    Exists,
    /// Refused: it is not what the request insists on, or it kept changing.
    Conflict,
}

/// One operation on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) id: OpId,
    pub(crate) client: u16,
    pub(crate) key: Key,
    pub(crate) call: Call,
    pub(crate) began: Tick,
    /// Nothing if the connection was cut or patience ended: it may have been carried out, and may
    /// yet be, at any later time.
    pub(crate) ended: Option<(Tick, Answer)>,
}

/// A list and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) client: u16,
    pub(crate) namespace: Option<u8>,
    pub(crate) began: Tick,
    pub(crate) ended: Tick,
    /// What the list says that it is as of.
    pub(crate) revision: Revision,
    /// Whether the newest state was asked for, rather than that of an older revision.
    pub(crate) live: bool,
    pub(crate) objects: Vec<(Key, Version)>,
}

/// Everything that one run's clients did.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) ops: Vec<Op>,
    pub(crate) lists: Vec<Listing>,
    /// Answers that nothing here explains.
    pub(crate) oddities: Vec<String>,
}

/// Where clients write down what happens, as it happens.
pub(crate) struct Recorder {
    origin: Instant,
    next: AtomicU32,
    history: Mutex<History>,
}

/// Numbers from here on are those of runs with large objects.
const LARGE: u32 = 1_000_000_000;

// === impl Recorder ===

impl Recorder {
    pub(crate) fn new(size: Size) -> Self {
        let first = match size {
            Size::Small => 1,
            Size::Large => LARGE,
        };
        Self {
            origin: Instant::now(),
            next: AtomicU32::new(first),
            history: Mutex::new(History::default()),
        }
    }

    pub(crate) fn now(&self) -> Tick {
        Tick(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// A number for the next operation.
    pub(crate) fn number(&self) -> OpId {
        OpId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn op(&self, op: Op) {
        self.with(|history| history.ops.push(op));
    }

    pub(crate) fn list(&self, listing: Listing) {
        self.with(|history| history.lists.push(listing));
    }

    pub(crate) fn oddity(&self, what: String) {
        self.with(|history| history.oddities.push(what));
    }

    /// What was written down so far, which is then forgotten here.
    pub(crate) fn take(&self) -> History {
        self.with(std::mem::take)
    }

    fn with<T>(&self, change: impl FnOnce(&mut History) -> T) -> T {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut history)
    }
}

// === impl Key ===

impl Key {
    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..NAMESPACES).flat_map(|namespace| (0..NAMES).map(move |name| Self { namespace, name }))
    }

    /// Whether a list of this namespace, or of all, shows it.
    pub(crate) fn inside(self, namespace: Option<u8>) -> bool {
        namespace.is_none_or(|namespace| namespace == self.namespace)
    }
}

// === impl OpId ===

impl OpId {
    /// No operation has this number.
    pub(crate) const NOBODY: Self = Self(0);

    /// The label of what this operation writes.
    pub(crate) fn colour(self) -> Colour {
        match self.0.is_multiple_of(2) {
            true => Colour::Blue,
            false => Colour::Red,
        }
    }

    /// So many bytes are added to what this operation writes: mostly few, sometimes many.
    pub(crate) fn padding(self) -> usize {
        match self.0 % 16 {
            0..6 if self.0 >= LARGE => 300_000,
            0 => 6_000,
            1..4 => 700,
            _ => 40,
        }
    }
}

// === impl Colour ===

impl Colour {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Blue => "blue",
            Self::Red => "red",
        }
    }
}

// === impl Call ===

impl Call {
    /// Whether it can change something.
    pub(crate) fn writes(self) -> bool {
        match self {
            Self::Create | Self::Replace { .. } | Self::Patch | Self::Delete { .. } => true,
            Self::Read => false,
        }
    }
}

// === impl Op ===

impl Op {
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.ended.map(|(_, answer)| answer)
    }

    /// Whether it was refused; nothing if that is unknown.
    pub(crate) fn is_refused(&self) -> Option<bool> {
        self.answer().map(|answer| match answer {
            Answer::Object(_) | Answer::Deleted => false,
            Answer::Absent => self.call.writes(),
            Answer::Exists | Answer::Conflict => true,
        })
    }

    /// What it wrote, if that was acknowledged.
    pub(crate) fn wrote(&self) -> Option<Version> {
        match self.answer() {
            Some(Answer::Object(version)) if self.call.writes() => Some(version),
            Some(
                Answer::Object(_)
                | Answer::Deleted
                | Answer::Absent
                | Answer::Exists
                | Answer::Conflict,
            )
            | None => None,
        }
    }
}

// === impl History ===

impl History {
    /// All operations on a key, those that are part of a list of the newest state included, in the
    /// order in which they began.
    pub(crate) fn of(&self, key: Key) -> Vec<Op> {
        let lists = self
            .lists
            .iter()
            .filter(|list| list.live && key.inside(list.namespace));
        let reads = lists.map(|list| list.read(key));
        let own = self.ops.iter().filter(|op| op.key == key).copied();
        let mut ops: Vec<Op> = own.chain(reads).collect();
        ops.sort_by_key(|op| (op.began, op.id));
        ops
    }
}

// === impl Listing ===

impl Listing {
    pub(crate) fn get(&self, key: Key) -> Option<Version> {
        let mut found = self.objects.iter().filter(|(listed, _)| *listed == key);
        found.next().map(|(_, version)| *version)
    }

    /// The part of the list that is about one key, as a read of it.
    fn read(&self, key: Key) -> Op {
        let answer = self.get(key).map_or(Answer::Absent, Answer::Object);
        Op {
            id: OpId::NOBODY,
            client: self.client,
            key,
            call: Call::Read,
            began: self.began,
            ended: Some((self.ended, answer)),
        }
    }
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Uid {
    /// As the server writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        let parts = [
            &digits[..8],
            &digits[8..12],
            &digits[12..16],
            &digits[16..20],
            &digits[20..],
        ];
        f.write_str(&parts.join("-"))
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} ms", self.0 / 1_000_000, self.0 / 1_000 % 1_000)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "torture-{}/map-{}", self.namespace, self.name)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}, written by {}", self.revision, self.last)?;
        match self.whole == self.last {
            true => Ok(()),
            false => write!(f, " on top of {}", self.whole),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create => f.write_str("create"),
            Self::Replace { at: None } => f.write_str("replace"),
            Self::Replace { at: Some(at) } => write!(f, "replace at {at}"),
            Self::Patch => f.write_str("patch"),
            Self::Delete { at: Some(at), .. } => write!(f, "delete at {at}"),
            Self::Delete { uid: Some(_), .. } => f.write_str("delete of this uid"),
            Self::Delete { .. } => f.write_str("delete"),
            Self::Read => f.write_str("read"),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.began)?;
        match self.ended {
            Some((ended, _)) => write!(f, " to {ended}")?,
            None => f.write_str(" to ?")?,
        }
        write!(f, ", client {}, {} {}: ", self.client, self.id, self.call)?;
        match self.answer() {
            None => f.write_str("unknown"),
            Some(Answer::Object(version)) => write!(f, "{version}"),
            Some(Answer::Deleted) => f.write_str("deleted"),
            Some(Answer::Absent) => f.write_str("absent"),
            Some(Answer::Exists) => f.write_str("exists already"),
            Some(Answer::Conflict) => f.write_str("conflict"),
        }
    }
}
