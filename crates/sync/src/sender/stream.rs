//! One kind of a stream.

mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::queue::{Open, Queue};
use super::{Before, Change, Held, Lineage, Need, Presence, View};
use crate::budget::Excess;
use crate::names::{ObjectName, SyncKind};
use crate::version::Version;
use crate::wire::{
    Known, Position, ProtocolError, Rejection, Response, Revision, Verdict, Withdrawal,
};

/// A response holds no more: state of any size goes in parts.
const MAX_ITEMS: usize = 1000;
const MAX_BYTES: usize = 1 << 20;

/// What was rejected is tried again after this, and after twice as long each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(300);

/// What stayed as it was sent for so long is not contested any more. Longer than it is ever waited
/// before the next try.
const UNCONTESTED: Duration = Duration::from_secs(600);

/// Why an object is not sent again at once that does not stay as it is sent.
const CONTESTED: &str =
    "something there changes or deletes it again and again, behind sync; it is sent again later";

/// Whether something that others need is not delivered yet.
type Missing<'a> = &'a dyn Fn(&Need) -> bool;

/// Whether so many may be deleted.
type Allows<'a> = &'a dyn Fn(u64) -> Result<(), Excess>;

#[derive(Debug, Default)]
pub(super) struct Stream {
    /// To be applied, and not under way.
    updates: Queue,
    /// The updates that wait, by what they need first.
    waiting: BTreeMap<Need, BTreeSet<ObjectName>>,
    /// To be taken away.
    removals: Queue,
    quarantined: BTreeMap<ObjectName, Quarantined>,
    /// Of which it is not decided what the receiver should have, as far as it is known what it has.
    /// Those are in no other queue, but may be under way.
    frozen: BTreeMap<ObjectName, Open>,
    /// What the receiver has of an object of which nothing is known: nothing when it said all that
    /// it had, or perhaps anything.
    unknown: Option<Version>,
    flight: Option<Flight>,
    /// Removals up to here were approved.
    approved: Revision,
    held: Option<Held>,
    /// What somebody changed or deleted lately where the receiver is, behind its back.
    contested: BTreeMap<ObjectName, Contested>,
    /// Something that was to be sent turned out to be there already.
    settled: bool,
}

/// What is to be taken away: left to the receiver, or deleted, with how much goes with it.
#[derive(Debug, Default)]
struct Leaving {
    orphaned: Vec<ObjectName>,
    removed: Vec<(ObjectName, u64)>,
    /// Of which the store knows nothing.
    doubted: Vec<ObjectName>,
}

#[derive(Debug)]
struct Quarantined {
    open: Open,
    reason: String,
    verdict: Verdict,
    until: Duration,
}

/// An object that did not stay as it was sent.
#[derive(Clone, Copy, Debug)]
struct Contested {
    times: u32,
    last: Duration,
}

/// A response that is not answered yet.
#[derive(Debug)]
struct Flight {
    nonce: u64,
    objects: BTreeMap<ObjectName, Sent>,
}

#[derive(Debug)]
struct Sent {
    open: Open,
    /// What the receiver has once it took it.
    becomes: Option<Version>,
    /// How many objects go with it, itself included.
    cost: u64,
    /// The receiver said meanwhile that it has it otherwise: before it took this, or after.
    lost: bool,
}

// === impl Stream ===

impl Stream {
    /// What the receiver does not have, of what it says that it has.
    pub(super) fn begin(
        kind: &SyncKind,
        known: Known,
        view: &dyn View,
        lineage: &dyn Fn(&Position) -> Lineage,
    ) -> Result<Self, ProtocolError> {
        let mut stream = Self::default();
        match known {
            Known::Position { position, beyond } => {
                let known = lineage(&position) == Lineage::Known;
                let since = position.revision;
                let changes = known.then(|| view.since(kind, since)).flatten();
                let changes = changes.ok_or(ProtocolError::TooOld { since })?;
                // What was frozen there may be as it ever was.
                stream.unknown = Some(Version::altered());
                let touched = beyond.into_iter().map(|(name, before)| Change {
                    name,
                    before: before.into(),
                    revision: since + 1,
                });
                // What the receiver knows of itself counts, before what it should have had.
                stream.changed(kind, touched.chain(changes).collect(), view);
            }
            Known::Versions { mut held, sources } => {
                let is_ours = |source: &Position| match lineage(source) {
                    Lineage::Known | Lineage::Settled => true,
                    Lineage::Forked | Lineage::Foreign => false,
                };
                let all_ours = sources.iter().all(is_ours);
                let trusts = held.is_empty() || (!sources.is_empty() && all_ours);
                for (name, version) in view.wanted(kind) {
                    let before = held.remove(&name);
                    if before != Some(version) {
                        stream.updates.insert(name, Open::new(before, 0));
                    }
                }
                stream.surplus(kind, held, view, trusts);
            }
        }
        Ok(stream)
    }

    /// What the receiver has and should not, or of which that is not decided. If it followed another store than this one, only what
    /// went here is known to be deleted.
    fn surplus(
        &mut self,
        kind: &SyncKind,
        held: BTreeMap<ObjectName, Version>,
        view: &dyn View,
        trusts: bool,
    ) {
        let went = match trusts || held.is_empty() {
            true => BTreeSet::new(),
            false => view.remembers(kind),
        };
        // Approvals of before do not count for what is found now.
        let asked = view.at().revision;
        for (name, version) in held {
            let open = Open {
                doubted: !trusts && !went.contains(&name),
                ..Open::new(Some(version), 0).asked(asked)
            };
            match view.presence(kind, &name) {
                Presence::Frozen => drop(self.frozen.insert(name, open)),
                Presence::Wanted(_) | Presence::Withdrawn(_) | Presence::Gone => {
                    self.removals.insert(name, open);
                }
            }
        }
    }

    pub(super) fn changed(&mut self, kind: &SyncKind, changes: Vec<Change>, view: &dyn View) {
        // Of several changes of an object the first knows what the receiver has, and the view what
        // it should have.
        let mut first = BTreeMap::new();
        for change in changes {
            first.entry(change.name.clone()).or_insert(change);
        }
        for change in first.into_values() {
            self.change(kind, change, view);
        }
    }

    /// Decides about frozen objects of which the view says by now what the receiver should have.
    pub(super) fn thaw(&mut self, kind: &SyncKind, view: &dyn View) {
        let frozen = self.frozen.keys();
        let decided = frozen.filter(|name| view.presence(kind, name) != Presence::Frozen);
        let decided: Vec<ObjectName> = decided.cloned().collect();
        let revision = view.at().revision;
        for name in decided {
            // Nobody saw an object go that is not there.
            let before = Before::Nothing;
            let change = Change {
                name,
                before,
                revision,
            };
            self.change(kind, change, view);
        }
    }

    /// Objects of another kind changed. What goes with those that wait to be removed may have.
    pub(super) fn others_changed(&mut self) {
        let alone = self.removals.parked() - self.removals.weightless();
        if self.removals.weight() > alone as u64 {
            self.removals.wake_all();
        }
    }

    fn change(&mut self, kind: &SyncKind, change: Change, view: &dyn View) {
        let Change {
            name,
            before,
            revision,
        } = change;
        let known = self
            .updates
            .remove(&name)
            .or_else(|| self.removals.remove(&name))
            .or_else(|| self.quarantined.remove(&name).map(|one| one.open))
            .or_else(|| self.frozen.remove(&name).map(|open| open.thawed(revision)));
        let in_flight = self
            .flight
            .as_ref()
            .and_then(|flight| flight.objects.get(&name));
        let open = match (known, in_flight) {
            (Some(open), _) => Open {
                attempts: 0,
                // What goes from now on is seen to go, unless it should not have been there before.
                doubted: open.doubted && before == Before::Nothing,
                ..open
            },
            // What it has is known when the answer comes.
            (None, Some(sent)) => Open {
                own: sent.open.own,
                ..Open::new(sent.open.held, revision)
            },
            (None, None) => {
                let held = match before {
                    Before::Version(version) => Some(version),
                    Before::Nothing => None,
                    Before::Unknown => self.unknown,
                };
                Open::new(held, revision)
            }
        };
        let nothing = open.held.is_none() && in_flight.is_none();
        match view.presence(kind, &name) {
            Presence::Wanted(item) if open.held == Some(item.version) && in_flight.is_none() => {}
            Presence::Wanted(_) => {
                self.updates.insert(name, open);
            }
            Presence::Withdrawn(_) | Presence::Gone if nothing => {}
            Presence::Withdrawn(_) | Presence::Gone => {
                self.removals.insert(name, open.asked(revision));
            }
            Presence::Frozen => {
                self.frozen.insert(name, open);
            }
        }
    }

    pub(super) fn approve(&mut self, revision: Revision) {
        self.approved = self.approved.max(revision);
        self.held = None;
        self.removals.wake_all();
        // What the receiver kept from going need not wait for its next turn.
        let held = self.quarantined.values_mut();
        for one in held.filter(|one| one.verdict == Verdict::Held) {
            one.until = Duration::ZERO;
        }
    }

    /// Whether the receiver does not have an object as it should.
    pub(super) fn lacks(&self, name: &ObjectName) -> bool {
        let flight = self.flight.as_ref();
        let sent = flight.and_then(|flight| flight.objects.get(name));
        let quarantined = self.quarantined.get(name).map(|one| &one.open);
        let open = [
            self.updates.get(name),
            quarantined,
            sent.map(|sent| &sent.open),
        ];
        open.into_iter().flatten().any(|open| !open.own)
    }

    /// What to send next, if anything; its nonce is not given yet.
    pub(super) fn batch(
        &mut self,
        kind: &SyncKind,
        view: &dyn View,
        missing: Missing<'_>,
        may: Allows<'_>,
        now: Duration,
    ) -> Option<Response> {
        self.release(kind, view, now);
        if self.flight.is_some() {
            return None;
        }
        let mut response = Response {
            kind: kind.clone(),
            nonce: 0,
            at: view.at(),
            complete: false,
            items: Vec::new(),
            orphaned: Vec::new(),
            removed: Vec::new(),
            approved: false,
            releases: BTreeMap::new(),
        };
        self.wake(missing);
        self.add_items(&mut response, view, missing);
        self.add_removals(&mut response, view, may);
        let releases = response.names().filter_map(|name| view.release(kind, name));
        response.releases = releases.collect();
        (!response.is_empty()).then_some(response)
    }

    /// Returns true if a look would change nothing, whatever the view says: nothing is open, but for
    /// removals in doubt, which wait for an approval however often they are looked at.
    pub(super) fn is_idle(&self) -> bool {
        let unseen = self.updates.fresh().chain(self.removals.fresh()).next();
        let parked = !self.waiting.is_empty() || self.removals.weight() > 0;
        let doubts = self.removals.doubts();
        unseen.is_none() && !parked && self.quarantined.is_empty() && self.held == doubts
    }

    /// Whether something turned out to be there already, since this was asked last.
    pub(super) fn has_settled(&mut self) -> bool {
        std::mem::take(&mut self.settled)
    }

    /// Lets those go on that wait for what is there now.
    fn wake(&mut self, missing: Missing<'_>) {
        let there = self.waiting.extract_if(.., |need, _| !missing(need));
        for name in there.flat_map(|(_, names)| names) {
            self.updates.wake(&name);
        }
    }

    fn add_items(&mut self, response: &mut Response, view: &dyn View, missing: Missing<'_>) {
        let mut bytes = 0;
        let (mut settled, mut waiting) = (Vec::new(), Vec::new());
        for (name, open) in self.updates.fresh() {
            if response.items.len() >= MAX_ITEMS || bytes >= MAX_BYTES {
                break;
            }
            let mut needs = view.needs(&response.kind, name).into_iter();
            if let Some(need) = needs.find(|need| missing(need)) {
                waiting.push((need, name.clone()));
                continue;
            }
            match view.presence(&response.kind, name) {
                Presence::Wanted(item) if open.held == Some(item.version) => {
                    settled.push(name.clone());
                }
                Presence::Wanted(item) => {
                    bytes += item.body.len();
                    response.items.push((name.clone(), item));
                }
                // It is told as a change.
                Presence::Withdrawn(_) | Presence::Gone | Presence::Frozen => {}
            }
        }
        self.settled |= !settled.is_empty();
        for name in settled {
            self.updates.remove(&name);
        }
        for (need, name) in waiting {
            self.updates.park(name.clone(), 0);
            self.waiting.entry(need).or_default().insert(name);
        }
    }

    /// Adds the removals that may be made: those that were approved, or all that are not in doubt
    /// if the budget allows.
    fn add_removals(&mut self, response: &mut Response, view: &dyn View, may: Allows<'_>) {
        // None of those that wait was: an approval looks at all.
        let mut fresh = self.removals.fresh();
        let kind = &response.kind;
        let any_approved = fresh.any(|(name, open)| self.is_approved((kind, name), open, view));
        drop(fresh);
        let mut leaving = self.look(&response.kind, view, any_approved);
        let mut excess = match any_approved {
            true => None,
            false => self.excess(&leaving, may),
        };
        let others = !any_approved && self.removals.weight() > 0;
        if others && (excess.is_none() || !leaving.orphaned.is_empty()) {
            // They may go now, unless more goes with them by now; or they, too, are to stay, since
            // the whole kind was withdrawn.
            self.removals.wake_all();
            leaving = self.look(&response.kind, view, false);
            excess = self.excess(&leaving, may);
        }
        let Leaving {
            mut orphaned,
            removed,
            doubted,
        } = leaving;
        for name in doubted {
            self.removals.park(name, 0);
        }
        match excess {
            Some(_) => self.park(removed),
            None => {
                let removed = removed.into_iter().map(|(name, _)| name);
                response.removed = removed.take(MAX_ITEMS).collect();
            }
        }
        self.held = excess.map(Held::Budget).or(self.removals.doubts());
        response.approved = any_approved && !response.removed.is_empty();
        orphaned.truncate(MAX_ITEMS);
        response.orphaned = orphaned;
    }

    /// Whether somebody said that it may go: of all of a revision, or of this object. Who agreed
    /// that an object goes did not know of one that another store left there.
    fn is_approved(&self, of: (&SyncKind, &ObjectName), open: &Open, view: &dyn View) -> bool {
        let all = self.approved > 0 && open.asked <= self.approved;
        all || (!open.doubted && view.is_agreed(of.0, of.1))
    }

    fn park(&mut self, removed: Vec<(ObjectName, u64)>) {
        for (name, weight) in removed {
            self.removals.park(name, weight);
        }
    }

    /// What is to be taken away, and how, of what does not wait: what was approved, or the rest.
    fn look(&self, kind: &SyncKind, view: &dyn View, approved: bool) -> Leaving {
        let mut leaving = Leaving::default();
        let fresh = self.removals.fresh();
        for (name, open) in fresh {
            if self.is_approved((kind, name), open, view) != approved {
                continue;
            }
            if !approved && open.doubted {
                leaving.doubted.push(name.clone());
                continue;
            }
            match view.presence(kind, name) {
                Presence::Withdrawn(Withdrawal::Orphan) => leaving.orphaned.push(name.clone()),
                Presence::Withdrawn(Withdrawal::Delete) | Presence::Gone => {
                    let weight = 1 + view.cascade(kind, name);
                    leaving.removed.push((name.clone(), weight));
                }
                // It is told as a change.
                Presence::Wanted(_) | Presence::Frozen => {}
            }
        }
        leaving
    }

    /// Why these may not be deleted, with those that wait, if they may not.
    fn excess(&self, leaving: &Leaving, may: Allows<'_>) -> Option<Excess> {
        let weight = leaving.removed.iter().map(|(_, weight)| weight);
        match weight.sum::<u64>() + self.removals.weight() {
            0 => None,
            weight => may(weight).err(),
        }
    }

    /// A response goes out. Whether nothing is left once it is done.
    pub(super) fn sent(&mut self, response: &Response, view: &dyn View) -> bool {
        let mut objects = BTreeMap::new();
        let mut add = |name: &ObjectName, open: Option<Open>, becomes, cost| {
            let sent = open.map(|open| Sent::new(open, becomes, cost));
            objects.extend(sent.map(|sent| (name.clone(), sent)));
        };
        for (name, item) in &response.items {
            add(name, self.updates.remove(name), Some(item.version), 0);
        }
        for name in &response.orphaned {
            add(name, self.removals.remove(name), None, 0);
        }
        for name in &response.removed {
            let cost = 1 + view.cascade(&response.kind, name);
            add(name, self.removals.remove(name), None, cost);
        }
        self.flight = Some(Flight {
            nonce: response.nonce,
            objects,
        });
        let mut quarantined = self.quarantined.values();
        let all_own = quarantined.all(|one| one.open.own);
        self.updates.is_empty() && self.removals.is_empty() && all_own
    }

    /// The cost of what is under way.
    pub(super) fn cost(&self) -> u64 {
        let flight = self.flight.iter();
        let objects = flight.flat_map(|flight| flight.objects.values());
        objects.map(|sent| sent.cost).sum()
    }

    /// What is under way is answered. The cost of what was not done.
    pub(super) fn answered(
        &mut self,
        nonce: u64,
        rejected: Vec<Rejection>,
        now: Duration,
        unexpected: impl Fn() -> ProtocolError,
    ) -> Result<u64, ProtocolError> {
        let mut refused = 0;
        self.calm(now);
        let flight = self.flight.take_if(|flight| flight.nonce == nonce);
        let Flight { mut objects, .. } = flight.ok_or_else(unexpected)?;
        for rejection in rejected {
            let Some(sent) = objects.remove(&rejection.name) else {
                let text = format!("{} was rejected, and not sent", rejection.name);
                return Err(ProtocolError::Malformed(text));
            };
            refused += sent.cost;
            self.rejects(rejection, sent.open, now);
        }
        for (name, sent) in objects {
            self.took(name, &sent, now);
        }
        Ok(refused)
    }

    /// What is known of an object that changed again while it was under way.
    fn later(&mut self, name: &ObjectName) -> Option<&mut Open> {
        let queued = self.updates.get_mut(name);
        let queued = queued.or(self.removals.get_mut(name));
        queued.or(self.frozen.get_mut(name))
    }

    /// The receiver took what it was sent.
    fn took(&mut self, name: ObjectName, sent: &Sent, now: Duration) {
        let held = match sent.lost {
            true => Some(Version::altered()),
            false => sent.becomes,
        };
        // It may have changed again meanwhile.
        let changed = self.later(&name).map(|open| {
            open.held = held;
            open.own = false;
        });
        let later = changed.is_some();
        let nothing_left = |open: &Open| open.held.is_none();
        if self.removals.get(&name).is_some_and(nothing_left) {
            self.removals.remove(&name);
        }
        if sent.lost && !later {
            self.lost(name, now);
        }
    }

    /// The receiver does not have an object any more as it said. Only what it should have is sent
    /// again: what was removed or left to it is its own business.
    pub(super) fn repair(
        &mut self,
        kind: &SyncKind,
        name: ObjectName,
        view: &dyn View,
        now: Duration,
    ) {
        let quarantined = self.quarantined.get_mut(&name).map(|one| {
            // The receiver's own is gone, for which this one waited.
            if one.verdict == Verdict::Own {
                one.until = Duration::ZERO;
            }
            &mut one.open
        });
        let waiting = self.updates.get_mut(&name).or(quarantined);
        let waiting = waiting.or(self.removals.get_mut(&name));
        let waiting = waiting.or(self.frozen.get_mut(&name));
        let known = waiting.is_some();
        waiting.into_iter().for_each(Open::lose);
        let flight = self.flight.as_mut();
        let sent = flight.and_then(|flight| flight.objects.get_mut(&name));
        match sent {
            Some(sent) => sent.lose(),
            None if known => {}
            None => match view.presence(kind, &name) {
                Presence::Wanted(_) => self.lost(name, now),
                // It is sent again, or taken away, when that is decided.
                Presence::Frozen => {
                    let mut open = Open::new(None, 0);
                    open.lose();
                    self.frozen.insert(name, open);
                }
                Presence::Withdrawn(_) | Presence::Gone => {}
            },
        }
    }

    /// Forgets what nobody contests any more.
    pub(super) fn calm(&mut self, now: Duration) {
        let recent = |one: &Contested| one.last + UNCONTESTED > now;
        self.contested.retain(|_, one| recent(one));
    }

    /// Sends an object again: at once, or after longer and longer pauses when somebody there does
    /// not leave it as it is. Two who fight must not keep everybody busy.
    fn lost(&mut self, name: ObjectName, now: Duration) {
        let mut open = Open::new(None, 0);
        open.lose();
        let contested = self.contested.entry(name.clone());
        let contested = contested.or_insert(Contested {
            times: 0,
            last: now,
        });
        contested.last = now;
        contested.times = contested.times.saturating_add(1);
        match contested.times {
            1 => {
                self.updates.insert(name, open);
            }
            times => {
                let until = now + retry_after(times - 1);
                let reason = CONTESTED.to_owned();
                let quarantined = Quarantined {
                    open,
                    reason,
                    verdict: Verdict::Failed,
                    until,
                };
                self.quarantined.insert(name, quarantined);
            }
        }
    }

    fn rejects(&mut self, rejection: Rejection, open: Open, now: Duration) {
        let Rejection {
            name,
            reason,
            verdict,
        } = rejection;
        let own = verdict == Verdict::Own;
        let held = match verdict {
            // Something may be left of it, which has to go when the object does.
            Verdict::Failed => open.held.or(Some(Version::altered())),
            Verdict::Held | Verdict::Own | Verdict::Foreign => open.held,
        };
        if let Some(later) = self.later(&name) {
            later.held = held;
            later.since = open.since;
            later.own = own;
            // What it has instead is its own, and nothing of ours is to be taken away.
            let nothing = (own || verdict == Verdict::Foreign) && later.held.is_none();
            if nothing {
                self.removals.remove(&name);
            }
            return;
        }
        let open = Open {
            held,
            attempts: open.attempts + 1,
            own,
            ..open
        };
        let pause = match verdict {
            Verdict::Failed | Verdict::Foreign => retry_after(open.attempts),
            // Somebody has to say so first, or much time to pass; and nobody waits for what the
            // receiver has of its own, which may go some day.
            Verdict::Held | Verdict::Own => LAST_RETRY,
        };
        let quarantined = Quarantined {
            open,
            reason,
            verdict,
            until: now + pause,
        };
        self.quarantined.insert(name, quarantined);
    }

    /// Lets out what has waited long enough.
    fn release(&mut self, kind: &SyncKind, view: &dyn View, now: Duration) {
        let over = self.quarantined.extract_if(.., |_, one| one.until <= now);
        let over: Vec<(ObjectName, Quarantined)> = over.collect();
        for (name, Quarantined { open, .. }) in over {
            match view.presence(kind, &name) {
                Presence::Wanted(_) => self.updates.insert(name, open),
                Presence::Withdrawn(_) | Presence::Gone => self.removals.insert(name, open),
                Presence::Frozen => drop(self.frozen.insert(name, open)),
            }
        }
    }

    /// When something that was rejected is tried again.
    pub(super) fn retry_at(&self) -> Option<Duration> {
        self.quarantined.values().map(|one| one.until).min()
    }
}

// === impl Sent ===

impl Sent {
    fn new(open: Open, becomes: Option<Version>, cost: u64) -> Self {
        Self {
            open,
            becomes,
            cost,
            lost: false,
        }
    }

    /// What is taken away is gone once that is done, however it was before.
    fn lose(&mut self) {
        self.open.lose();
        self.lost = self.becomes.is_some();
    }
}

fn retry_after(attempts: u32) -> Duration {
    let doubled = 1_u32
        .checked_shl(attempts.saturating_sub(1))
        .unwrap_or(u32::MAX);
    FIRST_RETRY.saturating_mul(doubled).min(LAST_RETRY)
}
