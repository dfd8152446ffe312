//! How it stands with one kind of a stream: what is delivered, and what is not.

use super::{Sent, Stream};
use crate::counts::{Counts, Reasons};
use crate::names::{ObjectName, SyncKind};
use crate::sender::{Exception, Held, Presence, Undelivered, View, known};
use crate::version::Version;
use crate::wire::{Revision, Verdict};

// === impl Stream ===

impl Stream {
    /// All up to here is delivered.
    pub(in crate::sender) fn through(&self, view: &dyn View) -> Revision {
        let flight = self.flight.iter().flat_map(|flight| &flight.objects);
        let flight = flight.filter(|(name, _)| !self.frozen.contains_key(name));
        let open = self.updates.values().chain(self.removals.values());
        let open = open.chain(self.quarantined.values().map(|one| &one.open));
        let open = open.chain(flight.map(|(_, sent)| &sent.open));
        let open = open.filter(|open| !open.own);
        match open.map(|open| open.since).min() {
            Some(first) => first.saturating_sub(1),
            None => view.at().revision,
        }
    }

    pub(in crate::sender) fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    pub(in crate::sender) fn rejected(&self) -> impl Iterator<Item = (&ObjectName, &str)> {
        let all = self.quarantined.iter();
        all.map(|(name, one)| (name, one.reason.as_str()))
    }

    /// Why an object was rejected, if it was.
    pub(in crate::sender) fn rejection(&self, name: &ObjectName) -> Option<(Verdict, &str)> {
        let one = self.quarantined.get(name)?;
        Some((one.verdict, &one.reason))
    }

    fn judged(&self, so: fn(Verdict) -> bool) -> impl Iterator<Item = (&ObjectName, &str)> {
        let all = self.quarantined.iter();
        let judged = all.filter(move |(_, one)| so(one.verdict));
        judged.map(|(name, one)| (name, one.reason.as_str()))
    }

    /// What is under way and did not change since.
    fn under_way(&self) -> impl Iterator<Item = (&ObjectName, &Sent)> {
        let flight = self.flight.iter().flat_map(|flight| &flight.objects);
        flight.filter(|(name, _)| {
            let queued = self.updates.contains(name) || self.removals.contains(name);
            !queued && !self.frozen.contains_key(name)
        })
    }

    /// What the receiver may not have as it should.
    pub(in crate::sender) fn exceptions(
        &self,
    ) -> impl Iterator<Item = (&ObjectName, Exception<'_>)> {
        let queued = self.updates.iter();
        let queued = queued.map(|(name, open)| (name, open, Undelivered::Queued));
        let surplus = self.removals.iter();
        let surplus = surplus.map(|(name, open)| (name, open, Undelivered::Surplus));
        let rejected = self.quarantined.iter().map(|(name, one)| {
            let (verdict, reason) = (one.verdict, one.reason.as_str());
            (name, &one.open, Undelivered::Rejected { verdict, reason })
        });
        let under_way = self.under_way();
        let under_way = under_way.map(|(name, sent)| (name, &sent.open, Undelivered::UnderWay));
        let all = queued.chain(surplus).chain(rejected).chain(under_way);
        all.map(|(name, open, state)| {
            let held = known(open.held);
            (name, Exception { held, state })
        })
    }

    pub(in crate::sender) fn frozen(&self) -> impl Iterator<Item = &ObjectName> {
        self.frozen.keys()
    }

    /// The version that the receiver holds of an object that is frozen.
    pub(in crate::sender) fn frozen_version(&self, name: &ObjectName) -> Option<Version> {
        let open = self.frozen.get(name);
        open.map_or(self.unknown, |open| open.held)
    }

    /// How it stands.
    pub(in crate::sender) fn counts(&self, kind: &SyncKind, view: &dyn View) -> Counts {
        let applies = |(_, sent): &(_, &Sent)| sent.becomes.is_some();
        let coming = self.under_way().filter(applies).count();
        let going = self.under_way().count() - coming;
        let is_wanted =
            |name: &&ObjectName| matches!(view.presence(kind, name), Presence::Wanted(_));
        let failing = self.quarantined.keys().filter(is_wanted).count();
        let kept = self.quarantined.len() - failing;
        let wanted = view.count(kind);
        let lacking = (self.updates.len() + failing + coming) as u64;
        let acknowledged = wanted.saturating_sub(lacking);
        let own = Reasons::of(self.judged(|one| one == Verdict::Own));
        let surplus = (self.removals.len() + kept + going) as u64;
        let refused = self.judged(|one| one == Verdict::Held).next();
        let refused = refused.map(|(_, reason)| reason.to_owned());
        Counts {
            wanted,
            sent: acknowledged + coming as u64,
            acknowledged,
            open: (lacking + surplus).saturating_sub(own.count()),
            rejected: Reasons::of(
                self.judged(|one| matches!(one, Verdict::Failed | Verdict::Foreign)),
            ),
            own,
            surplus,
            held: self.held.as_ref().map(ToString::to_string).or(refused),
            unread: None,
        }
    }

    pub(in crate::sender) fn open(&self) -> usize {
        let flight = self
            .flight
            .as_ref()
            .map_or(0, |flight| flight.objects.len());
        self.updates.len() + self.removals.len() + self.quarantined.len() + flight
    }

    /// Returns false if the receiver is known not to have an object, whatever it should have.
    pub(in crate::sender) fn may_hold(
        &self,
        kind: &SyncKind,
        name: &ObjectName,
        view: &dyn View,
    ) -> bool {
        let keeps_own = self.quarantined.get(name).is_some_and(|one| one.open.own);
        keeps_own
            || match (self.exception(name), view.presence(kind, name)) {
                (Some(held), _) => held.is_some(),
                (None, Presence::Wanted(_)) => true,
                (None, Presence::Frozen) => self.unknown.is_some(),
                (None, Presence::Withdrawn(_) | Presence::Gone) => false,
            }
    }

    /// Returns the version that the receiver holds of an object, if it may not hold the one that it
    /// should, or if that is not decided.
    pub(in crate::sender) fn exception(&self, name: &ObjectName) -> Option<Option<Version>> {
        let flight = self.flight.as_ref();
        let sent = flight.and_then(|flight| flight.objects.get(name));
        let quarantined = self.quarantined.get(name).map(|one| &one.open);
        let open = self.updates.get(name).or_else(|| self.removals.get(name));
        let open = open.or(quarantined).or_else(|| self.frozen.get(name));
        let open = open.or(sent.map(|sent| &sent.open));
        open.map(|open| open.held)
    }
}
