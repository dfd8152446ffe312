//! The end of a stream that is told: what to do with what comes, and what to answer.
//!
//! It holds no objects. What came is done by the caller, one object at a time, in any order; when
//! all of a response is done it is answered, with those that could not be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::budget::{DeletionBudget, Ledger};
use crate::names::{ObjectName, SyncKind};
use crate::secrets::redact_rejection;
use crate::wire::{Item, Known, Position, ProtocolError, Rejection, Request, Response, Verdict};

/// What the caller is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Apply {
        kind: SyncKind,
        name: ObjectName,
        item: Item,
    },
    /// It is the receiver's own from now on.
    Orphan {
        kind: SyncKind,
        name: ObjectName,
    },
    Delete {
        kind: SyncKind,
        name: ObjectName,
    },
    /// To the sender.
    Send(Request),
}

/// How it went.
pub type Outcome = Result<(), Declined>;

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined {
    pub reason: String,
    pub verdict: Verdict,
}

/// What is at stake where a response is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stake {
    /// How many objects of its kind are there.
    pub held: u64,
    /// How many would go along with those that it removes, whoever made them; a reason when that
    /// cannot be known.
    pub along: Result<u64, String>,
    /// People approved, where the response is to be done, that zones delete more than the budget.
    pub approved: bool,
}

/// The control plane at the other end of a stream. The hub alone says where objects are from and
/// who keeps them; a zone speaks for what it authored and for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderRole {
    Hub,
    Zone,
}

/// One end of a stream.
#[derive(Debug)]
pub struct Receiver {
    sender: SenderRole,
    budget: DeletionBudget,
    ledger: Ledger,
    kinds: BTreeMap<SyncKind, Following>,
}

/// So many names of a kind are remembered until a state is there as a whole. A kind has fewer objects,
/// and a sender that removes what never was would take memory without end.
const MAX_BEYOND: usize = 1_000_000;

/// A kind that is followed.
#[derive(Debug)]
struct Following {
    last: u64,
    /// The stores that what is here may be from, and how far each was seen: the sender's last.
    sources: Vec<Position>,
    /// The last state of the sender's store that was here as a whole.
    whole: Option<Position>,
    /// Objects of which later states may be here.
    beyond: BTreeSet<ObjectName>,
    /// Objects in whose place the receiver keeps its own.
    own: BTreeSet<ObjectName>,
    work: Option<Work>,
}

/// A response that is being done.
#[derive(Debug)]
struct Work {
    nonce: u64,
    left: BTreeSet<ObjectName>,
    rejected: Vec<Rejection>,
    /// What is to be deleted, and is still there.
    deleting: BTreeSet<ObjectName>,
    /// How many they were, and how many objects they cost.
    deletions: u64,
    cost: u64,
    /// What is here when this is done, if that is a whole.
    whole: Option<Position>,
}

// === impl Receiver ===

impl Receiver {
    /// `ledger` is that of the last stream.
    pub fn new(sender: SenderRole, budget: DeletionBudget, ledger: Ledger) -> Self {
        Self {
            sender,
            budget,
            ledger,
            kinds: BTreeMap::new(),
        }
    }

    /// What was deleted lately.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Begins to follow a kind.
    pub fn subscribe(&mut self, kind: SyncKind, known: Known) -> Request {
        let mut following = Following {
            last: 0,
            sources: Vec::new(),
            whole: None,
            beyond: BTreeSet::new(),
            own: BTreeSet::new(),
            work: None,
        };
        match &known {
            Known::Versions { sources, .. } => following.sources.clone_from(sources),
            Known::Position { position, beyond } => {
                following.sources.push(position.clone());
                following.whole = Some(position.clone());
                following.beyond = beyond.keys().cloned().collect();
            }
        }
        self.kinds.insert(kind.clone(), following);
        Request::Subscribe { kind, known }
    }

    /// Some objects are not here any more as the sender was told. Nothing to say unless their kind
    /// is followed: subscribing says what is here.
    pub fn repair(&self, kind: SyncKind, names: BTreeSet<ObjectName>) -> Option<Request> {
        let followed = self.kinds.contains_key(&kind);
        followed.then_some(Request::Repair { kind, names })
    }

    /// Returns true if people approved what a response removes.
    pub fn is_approved(&self, response: &Response, here: bool) -> bool {
        self.sender.is_approved(response, here)
    }

    /// What to do about a response.
    pub fn response(
        &mut self,
        response: Response,
        stake: &Stake,
        now: Duration,
    ) -> Result<Vec<Action>, ProtocolError> {
        let kind = response.kind.clone();
        self.sender.check(&response)?;
        let Some(following) = self.kinds.get_mut(&kind) else {
            return Err(ProtocolError::NotSubscribed { kind });
        };
        if response.nonce <= following.last {
            // It came before.
            return Ok(Vec::new());
        }
        if following.work.is_some() {
            return Err(ProtocolError::Unanswered { kind });
        }
        following.admit(&response)?;
        let mut work = Work {
            nonce: response.nonce,
            left: BTreeSet::new(),
            rejected: Vec::new(),
            deleting: BTreeSet::new(),
            deletions: 0,
            cost: 0,
            whole: response.complete.then(|| response.at.clone()),
        };
        following.remember(&kind, &response)?;
        let mut actions = Vec::new();
        let wanted = stake.wanted(&response);
        let ledger = &mut self.ledger;
        let refusal = match &stake.along {
            _ if response.removed.is_empty() => None,
            _ if self.sender.is_approved(&response, stake.approved) => None,
            Err(reason) => Some(reason.clone()),
            Ok(_) => {
                let excess = ledger.check(&kind, self.budget, (wanted, stake.held), now);
                excess.err().map(|excess| excess.to_string())
            }
        };
        match refusal {
            Some(reason) => work
                .rejected
                .extend(response.removed.into_iter().map(|name| {
                    let (reason, verdict) = (reason.clone(), Verdict::Held);
                    Rejection {
                        name,
                        reason,
                        verdict,
                    }
                })),
            None => {
                ledger.spend(&kind, wanted, now);
                (work.deletions, work.cost) = (response.removed.len() as u64, wanted);
                work.deleting = response.removed.iter().cloned().collect();
                actions.extend(response.removed.into_iter().map(|name| Action::Delete {
                    kind: kind.clone(),
                    name,
                }));
            }
        }
        actions.extend(response.orphaned.into_iter().map(|name| Action::Orphan {
            kind: kind.clone(),
            name,
        }));
        for (name, item) in response.items {
            match self.sender.refuses(&item) {
                Some(reason) => work.rejected.push(Rejection {
                    name,
                    reason,
                    verdict: Verdict::Failed,
                }),
                None => actions.push(Action::Apply {
                    kind: kind.clone(),
                    name,
                    item,
                }),
            }
        }
        work.left = actions.iter().filter_map(Action::name).cloned().collect();
        following.work = Some(work);
        actions.extend(following.finish(&kind));
        Ok(actions)
    }

    /// An action is done, or cannot be.
    pub fn done(
        &mut self,
        kind: &SyncKind,
        name: &ObjectName,
        outcome: Outcome,
    ) -> Option<Request> {
        let following = self.kinds.get_mut(kind)?;
        let work = following.work.as_mut()?;
        if !work.left.remove(name) {
            return None;
        }
        following.own.remove(name);
        match outcome {
            Ok(()) => {
                work.deleting.remove(name);
            }
            Err(Declined { reason, verdict }) => {
                if verdict == Verdict::Own {
                    following.own.insert(name.clone());
                }
                work.rejected.push(Rejection {
                    name: name.clone(),
                    reason: redact_rejection(kind, reason),
                    verdict,
                });
            }
        }
        if work.left.is_empty() {
            self.ledger.refund(kind, work.stayed());
        }
        match following.finish(kind)? {
            Action::Send(request) => Some(request),
            Action::Apply { .. } | Action::Orphan { .. } | Action::Delete { .. } => None,
        }
    }

    /// From where a kind can be resumed by another stream, and of which objects later states may be
    /// here.
    pub fn position(&self, kind: &SyncKind) -> Option<(&Position, &BTreeSet<ObjectName>)> {
        let following = self.kinds.get(kind)?;
        Some((following.whole.as_ref()?, &following.beyond))
    }
}

// === impl SenderRole ===

impl SenderRole {
    /// Returns true if people approved what a response removes: those at the hub, whatever a zone
    /// says.
    fn is_approved(self, response: &Response, here: bool) -> bool {
        match self {
            Self::Hub => response.approved,
            Self::Zone => here,
        }
    }

    /// Returns an error if the response says something that only the hub may say: that an object
    /// loses its origin.
    fn check(self, response: &Response) -> Result<(), ProtocolError> {
        match (self, response.orphaned.first()) {
            (Self::Zone, Some(name)) => Err(ProtocolError::OrphanedByZone { name: name.clone() }),
            (Self::Zone, None) | (Self::Hub, _) => Ok(()),
        }
    }

    /// Returns the reason to reject an object that has another origin than its sender may name.
    fn refuses(self, item: &Item) -> Option<String> {
        let relayed = item.relayed.as_ref()?;
        match self {
            Self::Hub => None,
            Self::Zone => Some(format!(
                "a zone sends its own objects only, and not those of zone {}",
                relayed.zone
            )),
        }
    }
}

// === impl Stake ===

impl Stake {
    /// So many objects, and nothing that depends on them.
    pub fn of(held: u64) -> Self {
        Self {
            held,
            along: Ok(0),
            approved: false,
        }
    }

    /// How many objects would go.
    fn wanted(&self, response: &Response) -> u64 {
        let along = self.along.as_ref().copied().unwrap_or_default();
        match response.removed.len() as u64 {
            0 => 0,
            removed => removed + along,
        }
    }
}

// === impl Following ===

impl Following {
    /// Whether the response can be taken at all.
    fn admit(&mut self, response: &Response) -> Result<(), ProtocolError> {
        let malformed = |text: &str| Err(ProtocolError::Malformed(text.to_owned()));
        let last = self.sources.last();
        let same = last.filter(|last| last.epoch == response.at.epoch);
        if same.is_some_and(|last| response.at.revision < last.revision) {
            return malformed("the sender went back to an older revision");
        }
        if self.last > 0 && same.is_none() {
            return malformed("the sender's store became another one");
        }
        let mut names = BTreeSet::new();
        if !response.names().all(|name| names.insert(name)) {
            return malformed("it names an object twice");
        }
        self.last = response.nonce;
        if same.is_some() {
            self.sources.pop();
        }
        self.sources.push(response.at.clone());
        Ok(())
    }

    /// Notes that later states of these objects may be here.
    fn remember(&mut self, kind: &SyncKind, response: &Response) -> Result<(), ProtocolError> {
        self.beyond.extend(response.names().cloned());
        if self.beyond.len() > MAX_BEYOND {
            return Err(ProtocolError::TooManyChanges {
                kind: kind.clone(),
                most: MAX_BEYOND,
            });
        }
        Ok(())
    }

    /// The answer, when all is done.
    fn finish(&mut self, kind: &SyncKind) -> Option<Action> {
        let work = self.work.take_if(|work| work.left.is_empty())?;
        let is_own = |one: &Rejection| one.verdict == Verdict::Own;
        if let Some(whole) = work.whole.filter(|_| work.rejected.iter().all(is_own)) {
            // Nothing is left that the sender does not know of, but that in place of some objects
            // there are others: the next stream has to be told.
            self.sources = vec![whole.clone()];
            self.whole = Some(whole);
            self.beyond.clone_from(&self.own);
        }
        Some(Action::Send(Request::Ack {
            kind: kind.clone(),
            nonce: work.nonce,
            rejected: work.rejected,
        }))
    }
}

// === impl Work ===

impl Work {
    /// Of what was to be deleted, how much was not.
    fn stayed(&self) -> u64 {
        match self.deleting.len() as u64 {
            stayed if stayed == self.deletions => self.cost,
            // What the others took along is not known one by one.
            stayed => stayed,
        }
    }
}

// === impl Declined ===

impl Declined {
    /// There is one that belongs to the receiver, and will do.
    pub fn own(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            verdict: Verdict::Own,
        }
    }

    /// There is one that belongs to the receiver, and is another.
    pub fn foreign(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            verdict: Verdict::Foreign,
        }
    }
}

impl From<String> for Declined {
    fn from(reason: String) -> Self {
        Self {
            reason,
            verdict: Verdict::Failed,
        }
    }
}

// === impl Action ===

impl Action {
    fn name(&self) -> Option<&ObjectName> {
        match self {
            Self::Apply { name, .. } | Self::Orphan { name, .. } | Self::Delete { name, .. } => {
                Some(name)
            }
            Self::Send(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Epoch;

    /// Names that never were are removed, and the budget refuses that: no state is ever complete.
    #[test]
    fn a_sender_is_remembered_so_many_names_of_at_most() {
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        let mut following = Following {
            last: 0,
            sources: Vec::new(),
            whole: None,
            beyond: BTreeSet::new(),
            own: BTreeSet::new(),
            work: None,
        };
        let removing = |from: usize, to: usize| {
            let names = (from..to).map(|number| format!("n{number}"));
            let names = names.map(|name| ObjectName::new("", &name).expect("legal"));
            Response {
                kind: kind.clone(),
                nonce: 1,
                at: Position {
                    epoch: Epoch::opening("store", "a"),
                    revision: 1,
                },
                complete: false,
                items: Vec::new(),
                orphaned: Vec::new(),
                removed: names.collect(),
                approved: false,
                releases: BTreeMap::new(),
            }
        };
        let most = MAX_BEYOND;
        assert_eq!(following.remember(&kind, &removing(0, most)), Ok(()));
        // The same again is no more.
        assert_eq!(following.remember(&kind, &removing(5, 9)), Ok(()));
        let refused = following.remember(&kind, &removing(most, most + 1));
        assert_eq!(
            refused,
            Err(ProtocolError::TooManyChanges {
                kind: kind.clone(),
                most
            })
        );
    }
}
