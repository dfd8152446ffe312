//! What one object does when operations come one after the other: the specification.
//!
//! Pure. Invariant: a step that returns nothing says that the operation cannot have been answered
//! like that in this state.

use super::history::{Answer, Call, Op, OpId, Revision, Uid, Version};

/// Where an object is between two operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    object: Option<Held>,
}

/// What there is. Whatever came from an operation whose answer nobody saw is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    revision: Option<Revision>,
    uid: Option<Uid>,
    whole: OpId,
    last: OpId,
}

// === impl State ===

impl State {
    /// The state after an operation that was answered like this.
    pub(crate) fn after(self, op: &Op, answer: Answer) -> Option<Self> {
        let state = match (op.call, answer) {
            (Call::Create | Call::Replace { .. } | Call::Patch, Answer::Object(version)) => {
                self.written(op, version)?
            }
            (Call::Delete { .. }, Answer::Deleted) => self.done(op.call, op.id)?,
            (Call::Read, Answer::Object(version)) => {
                self.object.filter(|held| held.shows(&version))?;
                self
            }
            (Call::Create, Answer::Exists) => {
                self.object?;
                self
            }
            (
                Call::Replace { .. } | Call::Patch | Call::Delete { .. } | Call::Read,
                Answer::Absent,
            ) if self.object.is_none() => self,
            (Call::Replace { at }, Answer::Conflict) if self.refuses(at, None) => self,
            (Call::Delete { at, uid }, Answer::Conflict) if self.refuses(at, uid) => self,
            // It met others too often.
            (Call::Patch, Answer::Conflict) => self,
            (
                Call::Create
                | Call::Replace { .. }
                | Call::Patch
                | Call::Delete { .. }
                | Call::Read,
                Answer::Object(_)
                | Answer::Deleted
                | Answer::Absent
                | Answer::Exists
                | Answer::Conflict,
            ) => return None,
        };
        Some(state)
    }

    /// The state after a write that was carried out, as far as it is known without its answer.
    /// Whose it was is known by the number that it put into the object.
    pub(crate) fn done(self, call: Call, writer: OpId) -> Option<Self> {
        let held = Held {
            revision: None,
            uid: self.object.and_then(|held| held.uid),
            whole: writer,
            last: writer,
        };
        let object = match call {
            Call::Create if self.object.is_none() => Some(held),
            Call::Replace { at } => {
                self.object.filter(|before| before.accepts(at, None))?;
                Some(held)
            }
            Call::Patch => Some(Held {
                whole: self.object?.whole,
                ..held
            }),
            Call::Delete { at, uid } => {
                self.object.filter(|before| before.accepts(at, uid))?;
                None
            }
            Call::Create | Call::Read => return None,
        };
        Some(Self { object })
    }

    fn written(self, op: &Op, version: Version) -> Option<Self> {
        let made = self.done(op.call, op.id)?.object?;
        let object = Held {
            revision: Some(version.revision),
            uid: Some(version.uid),
            ..made
        };
        let known = made.uid.is_none_or(|uid| uid == version.uid);
        let shown = made.whole == version.whole && made.last == version.last;
        (known && shown).then_some(Self {
            object: Some(object),
        })
    }

    /// Whether a request that insists on this may be refused. One that insists on nothing may be
    /// too, if it met others too often.
    fn refuses(self, at: Option<Revision>, uid: Option<Uid>) -> bool {
        if at.is_none() && uid.is_none() {
            return true;
        }
        self.object.is_none_or(|held| {
            at.is_some_and(|at| held.revision != Some(at))
                || uid.is_some_and(|uid| held.uid != Some(uid))
        })
    }
}

// === impl Held ===

impl Held {
    /// Nobody can insist on what nobody saw.
    fn accepts(&self, at: Option<Revision>, uid: Option<Uid>) -> bool {
        at.is_none_or(|at| self.revision == Some(at)) && uid.is_none_or(|uid| self.uid == Some(uid))
    }

    fn shows(&self, version: &Version) -> bool {
        self.revision == Some(version.revision)
            && self.uid == Some(version.uid)
            && self.whole == version.whole
            && self.last == version.last
    }
}
