//! The end of a stream that has the objects: at the hub for what goes to a zone, in the zone for
//! what goes to the hub.
//!
//! What its receiver holds is not remembered object by object: it holds what the view says, but for
//! the few objects that are kept here because they changed, are under way or were rejected. So an
//! idle stream costs the same whatever the number of objects, and a change costs what it costs.

mod queue;
mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::budget::{DeletionBudget, Excess, Ledger};
use crate::counts::Counts;
use crate::names::{ObjectName, SyncKind};
use crate::secrets::redact_rejection;
use crate::version::Version;
use crate::wire::{
    Item, Known, MAX_REPAIRS, Position, ProtocolError, Rejection, Request, Response, Revision,
    Verdict, Withdrawal,
};

use stream::Stream;

/// A receiver subscribes to so many kinds at most.
pub const MOST_KINDS: usize = 2_000;
/// A receiver says of so many objects that it holds them, beside two for each that it should have.
pub const MOST_FURTHER_OBJECTS: u64 = 200_000;

/// What a receiver should have, and how that changed.
pub trait View {
    /// How far the store is seen.
    fn at(&self) -> Position;
    /// Whether a position that a receiver followed is one of this store.
    fn lineage(&self, followed: &Position) -> Lineage;
    /// What the receiver should have under a name.
    fn presence(&self, kind: &SyncKind, name: &ObjectName) -> Presence;
    /// All that it should have of a kind.
    fn wanted(&self, kind: &SyncKind) -> Box<dyn Iterator<Item = (ObjectName, Version)> + '_>;
    /// The kinds of which it should have something.
    fn kinds(&self) -> Vec<SyncKind>;
    /// How many that are.
    fn count(&self, kind: &SyncKind) -> u64;
    /// What changed for it after a revision; nothing when that is not known any more.
    fn since(&self, kind: &SyncKind, revision: Revision) -> Option<Vec<Change>>;
    /// What the receiver should have had at some time, as far back as changes are known.
    fn remembers(&self, kind: &SyncKind) -> BTreeSet<ObjectName>;
    /// What must be there before this object is.
    fn needs(&self, kind: &SyncKind, name: &ObjectName) -> Vec<Need>;
    /// How many other objects go with this one when it is deleted.
    fn cascade(&self, kind: &SyncKind, name: &ObjectName) -> u64;
    /// Whether somebody agreed that the receiver loses this one, however much else goes.
    fn is_agreed(&self, _kind: &SyncKind, _name: &ObjectName) -> bool {
        false
    }
    /// The policy and the release that decide what the receiver should have of an object.
    fn release(&self, _kind: &SyncKind, _name: &ObjectName) -> Option<(String, u64)> {
        None
    }
}

/// What a store knows of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lineage {
    /// It was there.
    Known,
    /// It never was: the store was restored to an earlier state, and went on from there.
    Forked,
    /// The same, and a person settled which side is right.
    Settled,
    /// It is one of another store.
    Foreign,
}

/// What a receiver should have under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    Wanted(Item),
    /// It is there, and not meant for the receiver.
    Withdrawn(Withdrawal),
    /// It was deleted.
    Gone,
    /// It is not decided yet: what the receiver has, or has not, is right for now. Nothing is sent
    /// or taken away, nothing counts as lacking, and nothing waits for it.
    Frozen,
}

/// Something that a receiver may have to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub name: ObjectName,
    pub before: Before,
    pub revision: Revision,
}

/// What a receiver should have had before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Version(Version),
    Nothing,
    /// It was not decided, or is not known any more: the receiver may have anything.
    Unknown,
}

/// An object that a receiver may not have as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception<'a> {
    /// What the receiver acknowledged, as far as is known.
    pub held: Option<Version>,
    pub state: Undelivered<'a>,
}

/// Why a receiver may not have an object as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undelivered<'a> {
    /// To be sent.
    Queued,
    /// Sent, or named to be taken away, and not answered yet.
    UnderWay,
    /// To be taken away.
    Surplus,
    /// The receiver did not take it, or did not let it go.
    Rejected { verdict: Verdict, reason: &'a str },
}

/// An object that another one cannot be without.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    pub kind: SyncKind,
    pub name: ObjectName,
    /// The object waits until the receiver has this one, also while the receiver is not to have
    /// it. Otherwise only their order is kept.
    pub required: bool,
}

/// Why nothing of a kind is removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Held {
    #[error("{0}")]
    Budget(Excess),
    #[error(
        "{count} objects are unknown to the sender's store, which is not the one that they came from"
    )]
    OtherStore { count: usize },
}

/// Reaction to a receiver that followed positions which this store never had, because the store
/// was restored to an earlier state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFork {
    /// Send nothing until a person settles which side is right.
    #[default]
    Ask,
    /// Bring the receiver to what is here, and remove nothing: what is here is what runs.
    GoOn,
}

/// How an object differs between a sender's store and its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Both have it, in different versions.
    Changed,
    OnlySender,
    OnlyReceiver,
}

/// One end of a stream.
#[derive(Debug)]
pub struct Sender {
    on_fork: OnFork,
    /// Lost positions up to this revision were settled.
    settled: Revision,
    /// The furthest position of a lost future that the receiver followed. Nothing is sent while
    /// there is one.
    diverged: Option<Position>,
    budget: DeletionBudget,
    ledger: Ledger,
    nonce: u64,
    /// Removals up to here were approved.
    approved: Revision,
    kinds: BTreeMap<SyncKind, Stream>,
    /// Of so many objects the receiver said that it holds them.
    claimed: u64,
}

// === impl Sender ===

impl Sender {
    /// `ledger` is that of the receiver's last stream.
    pub fn new(budget: DeletionBudget, ledger: Ledger) -> Self {
        Self {
            on_fork: OnFork::Ask,
            settled: 0,
            diverged: None,
            budget,
            ledger,
            nonce: 0,
            approved: 0,
            kinds: BTreeMap::new(),
            claimed: 0,
        }
    }

    /// What to do when this store was restored to an earlier state.
    pub fn on_fork(&mut self, on_fork: OnFork) {
        self.on_fork = on_fork;
    }

    /// A person settled that the receiver follows this store, whatever it followed of a lost future
    /// up to this revision.
    pub fn settle(&mut self, through: Revision) {
        self.settled = through;
    }

    /// The receiver says how far it followed.
    pub fn follow(&mut self, followed: &Position, view: &dyn View) {
        if self.lineage(followed, view) == Lineage::Forked && self.on_fork == OnFork::Ask {
            self.diverge(followed);
        }
    }

    /// The position of a lost future that the receiver followed, while that is not settled.
    pub fn diverged(&self) -> Option<&Position> {
        self.diverged.as_ref()
    }

    fn diverge(&mut self, followed: &Position) {
        let further = |known: &Position| followed.revision > known.revision;
        if self.diverged.as_ref().is_none_or(further) {
            self.diverged = Some(followed.clone());
        }
    }

    fn lineage(&self, followed: &Position, view: &dyn View) -> Lineage {
        let lineage = view.lineage(followed);
        if lineage == Lineage::Forked && followed.revision <= self.settled {
            return Lineage::Settled;
        }
        lineage
    }

    /// What was deleted lately.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What the receiver says.
    pub fn request(
        &mut self,
        request: Request,
        view: &dyn View,
        now: Duration,
    ) -> Result<(), ProtocolError> {
        match request {
            Request::Subscribe { kind, known } => self.subscribe(kind, known, view),
            Request::Ack {
                kind,
                nonce,
                rejected,
            } => self.answered(&kind, nonce, rejected, now),
            Request::Repair { kind, names } => self.repair(kind, names, view, now),
        }
    }

    fn subscribe(
        &mut self,
        kind: SyncKind,
        known: Known,
        view: &dyn View,
    ) -> Result<(), ProtocolError> {
        if self.kinds.contains_key(&kind) {
            return Err(ProtocolError::SubscribedTwice { kind });
        }
        self.bound_claims(&known, view)?;
        match &known {
            Known::Versions { sources, .. } => {
                for source in sources {
                    self.follow(source, view);
                }
            }
            // What differs is only found by what the receiver holds of every object: of those that
            // are not decided a position says nothing.
            Known::Position { position, .. } if self.diverged.is_some() => {
                let since = position.revision;
                return Err(ProtocolError::TooOld { since });
            }
            Known::Position { .. } => {}
        }
        let goes_on = matches!(known, Known::Position { .. });
        let lineage = |position: &Position| self.lineage(position, view);
        let mut stream = Stream::begin(&kind, known, view, &lineage)?;
        // What is found only now was not there to be approved.
        if goes_on {
            stream.approve(self.approved);
        }
        self.kinds.insert(kind, stream);
        Ok(())
    }

    /// Bounds what is kept of the words of one receiver.
    fn bound_claims(&mut self, known: &Known, view: &dyn View) -> Result<(), ProtocolError> {
        if self.kinds.len() >= MOST_KINDS {
            return Err(ProtocolError::TooManyKinds { most: MOST_KINDS });
        }
        let names = match known {
            Known::Versions { held, .. } => held.len(),
            Known::Position { beyond, .. } => beyond.len(),
        };
        self.claimed += names as u64;
        if self.claimed <= MOST_FURTHER_OBJECTS {
            return Ok(());
        }
        let wanted: u64 = view.kinds().iter().map(|kind| view.count(kind)).sum();
        let most = MOST_FURTHER_OBJECTS + 2 * wanted;
        if self.claimed > most {
            return Err(ProtocolError::TooManyObjects { most });
        }
        Ok(())
    }

    fn answered(
        &mut self,
        kind: &SyncKind,
        nonce: u64,
        rejected: Vec<Rejection>,
        now: Duration,
    ) -> Result<(), ProtocolError> {
        let stream = self.kinds.get_mut(kind);
        let unexpected = || ProtocolError::UnexpectedAnswer { kind: kind.clone() };
        let stream = stream.ok_or_else(unexpected)?;
        let rejected = rejected.into_iter().map(|one| Rejection {
            reason: redact_rejection(kind, one.reason),
            ..one
        });
        let refused = stream.answered(nonce, rejected.collect(), now, unexpected)?;
        self.ledger.refund(kind, refused);
        Ok(())
    }

    fn repair(
        &mut self,
        kind: SyncKind,
        names: BTreeSet<ObjectName>,
        view: &dyn View,
        now: Duration,
    ) -> Result<(), ProtocolError> {
        if names.len() > MAX_REPAIRS {
            let text = format!("more than {MAX_REPAIRS} objects to repair at once");
            return Err(ProtocolError::Malformed(text));
        }
        let Some(stream) = self.kinds.get_mut(&kind) else {
            return Err(ProtocolError::NotSubscribed { kind });
        };
        stream.calm(now);
        for name in names {
            stream.repair(&kind, name, view, now);
        }
        Ok(())
    }

    /// Objects of a kind changed, in this order. The view shows it already, and nothing later.
    pub fn changed(&mut self, kind: &SyncKind, changes: Vec<Change>, view: &dyn View) {
        for (other, stream) in &mut self.kinds {
            if other != kind {
                stream.others_changed();
            }
        }
        if let Some(stream) = self.kinds.get_mut(kind) {
            stream.changed(kind, changes, view);
        }
    }

    /// It may be decided what the receiver should have of objects that are not there and that were not
    /// decided about: no change names them.
    pub fn thaw(&mut self, view: &dyn View) {
        for (kind, stream) in &mut self.kinds {
            stream.thaw(kind, view);
        }
    }

    /// Somebody said that all may go that was to go at this revision.
    pub fn approve(&mut self, revision: Revision) {
        self.approved = self.approved.max(revision);
        for stream in self.kinds.values_mut() {
            stream.approve(revision);
        }
    }

    /// What is to be sent now.
    pub fn poll(&mut self, view: &dyn View, now: Duration) -> Vec<Response> {
        let mut responses = Vec::new();
        if self.diverged.is_some() {
            return responses;
        }
        // What turns out to be there already may be what others wait for.
        while self.look(view, now, &mut responses) {}
        responses
    }

    /// Looks once at each kind of which something is open. Returns true if something turned out to
    /// be there already.
    fn look(&mut self, view: &dyn View, now: Duration, responses: &mut Vec<Response>) -> bool {
        let busy = self.kinds.iter().filter(|(_, stream)| !stream.is_idle());
        let kinds: Vec<SyncKind> = busy.map(|(kind, _)| kind.clone()).collect();
        let mut settled = false;
        for kind in kinds {
            // It looks at the others.
            let Some(mut stream) = self.kinds.remove(&kind) else {
                continue;
            };
            responses.extend(self.next(&kind, &mut stream, view, now));
            settled |= stream.has_settled();
            self.kinds.insert(kind, stream);
        }
        settled
    }

    /// What is to be sent of one kind.
    fn next(
        &mut self,
        kind: &SyncKind,
        stream: &mut Stream,
        view: &dyn View,
        now: Duration,
    ) -> Option<Response> {
        let may = |wanted: u64| {
            let there = view.count(kind) + wanted;
            let ledger = &self.ledger;
            ledger.check(kind, self.budget, (wanted, there), now)
        };
        let missing = |need: &Need| self.is_missing(need, view);
        let mut response = stream.batch(kind, view, &missing, &may, now)?;
        self.nonce += 1;
        response.nonce = self.nonce;
        response.complete = stream.sent(&response, view);
        self.ledger.spend(kind, stream.cost(), now);
        Some(response)
    }

    /// Whether something is still to be delivered before another can be.
    fn is_missing(&self, need: &Need, view: &dyn View) -> bool {
        match self.kinds.get(&need.kind) {
            Some(stream) => {
                let may_hold = || stream.may_hold(&need.kind, &need.name, view);
                stream.lacks(&need.name) || need.required && !may_hold()
            }
            None => need.required,
        }
    }

    /// When to poll next, if nothing happens before.
    pub fn wake_at(&self, now: Duration) -> Option<Duration> {
        if self.diverged.is_some() {
            return None;
        }
        let retries = self.kinds.values().filter_map(Stream::retry_at);
        let held = self.kinds.iter();
        let held = held.filter(|(_, stream)| matches!(stream.held(), Some(Held::Budget(_))));
        let eases = held.filter_map(|(kind, _)| self.ledger.eases_at(kind, now));
        retries.chain(eases).min()
    }

    /// The receiver has all up to here, but for what it rejected or what is held.
    pub fn through(&self, view: &dyn View) -> Revision {
        // Of what it did not subscribe to it has nothing.
        if self.diverged.is_some() || !view.kinds().iter().all(|kind| self.is_subscribed(kind)) {
            return 0;
        }
        let through = self.kinds.values().map(|stream| stream.through(view));
        through.min().unwrap_or(0)
    }

    /// The kinds that the receiver asked for.
    pub fn kinds(&self) -> impl Iterator<Item = &SyncKind> {
        self.kinds.keys()
    }

    /// Whether the receiver asked for a kind.
    pub fn is_subscribed(&self, kind: &SyncKind) -> bool {
        self.kinds.contains_key(kind)
    }

    /// Why nothing of a kind is removed.
    pub fn held(&self, kind: &SyncKind) -> Option<&Held> {
        self.kinds.get(kind).and_then(Stream::held)
    }

    /// What was rejected and is tried again later.
    pub fn rejected(&self, kind: &SyncKind) -> impl Iterator<Item = (&ObjectName, &str)> {
        let stream = self.kinds.get(kind).into_iter();
        stream.flat_map(Stream::rejected)
    }

    /// What is not delivered yet: changed, under way or rejected.
    pub fn open(&self, kind: &SyncKind) -> usize {
        self.kinds.get(kind).map_or(0, Stream::open)
    }

    /// The objects of a kind that the receiver may not have as it should, each once. The cost is
    /// their number, however many objects there are.
    pub fn exceptions(
        &self,
        kind: &SyncKind,
    ) -> impl Iterator<Item = (&ObjectName, Exception<'_>)> {
        let stream = self.kinds.get(kind).into_iter();
        stream.flat_map(Stream::exceptions)
    }

    /// The objects of a kind that are not the same here and at the receiver, each once, but for
    /// those of which it is not decided what the receiver should have.
    pub fn differences(&self, kind: &SyncKind) -> impl Iterator<Item = (&ObjectName, Difference)> {
        self.exceptions(kind).map(|(name, exception)| {
            let difference = match (exception.state, exception.held) {
                (Undelivered::Surplus, _) => Difference::OnlyReceiver,
                (_, Some(_)) => Difference::Changed,
                (_, None) => Difference::OnlySender,
            };
            (name, difference)
        })
    }

    /// The objects of a kind of which it is not decided what the receiver should have
    /// ([`Presence::Frozen`]), as far as the receiver named them.
    pub fn frozen(&self, kind: &SyncKind) -> impl Iterator<Item = &ObjectName> {
        let stream = self.kinds.get(kind).into_iter();
        stream.flat_map(Stream::frozen)
    }

    /// The version that the receiver holds of an object of which it is not decided what it should
    /// have; [`Version::altered`] when it may hold any.
    pub fn frozen_version(&self, kind: &SyncKind, name: &ObjectName) -> Option<Version> {
        self.kinds.get(kind)?.frozen_version(name)
    }

    /// Why an object was rejected, if it was.
    pub fn rejection(&self, kind: &SyncKind, name: &ObjectName) -> Option<(Verdict, &str)> {
        self.kinds.get(kind)?.rejection(name)
    }

    /// How it stands with a kind.
    pub fn counts(&self, kind: &SyncKind, view: &dyn View) -> Counts {
        match self.kinds.get(kind) {
            Some(stream) => stream.counts(kind, view),
            // The receiver has not asked for it, or cannot.
            None => Counts {
                wanted: view.count(kind),
                open: view.count(kind),
                ..Counts::default()
            },
        }
    }

    /// The version that the receiver has acknowledged of an object, as far as is known.
    pub fn acknowledged(
        &self,
        kind: &SyncKind,
        name: &ObjectName,
        view: &dyn View,
    ) -> Option<Version> {
        let stream = self.kinds.get(kind)?;
        match (stream.exception(name), view.presence(kind, name)) {
            (Some(held), _) => known(held),
            (None, Presence::Wanted(item)) => Some(item.version),
            (None, Presence::Withdrawn(_) | Presence::Gone | Presence::Frozen) => None,
        }
    }
}

/// What a receiver has for certain.
fn known(held: Option<Version>) -> Option<Version> {
    held.filter(|held| *held != Version::altered())
}

// === impl Before ===

impl From<Option<Version>> for Before {
    fn from(version: Option<Version>) -> Self {
        version.map_or(Self::Nothing, Self::Version)
    }
}
