//! One reader of a catalog, and the loop that sends it what it should have.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use deltaplane_runtime::{Clock, Stop};
use deltaplane_sync::{
    Counts, DeletionBudget, Difference, Exception, Item, Ledger, ObjectName, OnFork, Position,
    Presence, ProtocolError, Request, Response, Revision, Sender, SyncKind, Undelivered, Verdict,
    Version, View, ZoneName,
};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use crate::catalog::{Catalog, Reader};
use crate::shared::{Behind, Shared};

/// What one reader was sent and has acknowledged. It goes on to be true when the reader is away.
#[derive(Debug)]
pub struct Sending {
    catalog: Arc<Shared>,
    zone: Option<ZoneName>,
    clock: Clock,
    state: Mutex<State>,
    /// Counts what the reader said.
    progress: watch::Sender<u64>,
}

/// What was sent since the stream began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub responses: u64,
    /// Applied, orphaned or removed.
    pub objects: u64,
    /// Of the objects.
    pub bytes: u64,
}

#[derive(Debug)]
struct State {
    sender: Sender,
    /// The changes up to here are known to the sender.
    cursor: u64,
    /// The same of changes that no log has.
    absence_changes: u64,
    sent: Sent,
}

/// What a reader has of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectState {
    /// Nothing when it should have none.
    pub wanted: Option<Version>,
    pub acknowledged: Option<Version>,
    /// What it said when it did not take it, and what that means.
    pub rejected: Option<(Verdict, String)>,
    /// Whether it is not decided yet what it should have.
    pub frozen: bool,
}

/// What a reader does not have as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// As of which revision.
    pub at: Revision,
    /// Of the kinds that are asked about, those that it did not ask for: what it has of them is not
    /// known.
    pub unsubscribed: Vec<SyncKind>,
    /// The first of those that it lacks, or has and should not.
    pub lacking: Vec<Lacking>,
    /// How many these are in all.
    pub count: u64,
    /// Those in whose place it keeps others, and what it says of that. They are not counted.
    pub foreign: BTreeMap<(SyncKind, ObjectName), String>,
}

/// An object that a reader does not have as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    pub kind: SyncKind,
    pub name: ObjectName,
    pub acknowledged: Option<Version>,
    /// What it said when it did not take it, and what that means.
    pub rejected: Option<(Verdict, String)>,
}

/// The versions that a reader holds of objects of which it is not decided what it should have.
pub type UndecidedObjects = BTreeMap<(SyncKind, ObjectName), Option<Version>>;

/// So many are listed of what a reader lacks.
const LISTED: usize = 20;

// === impl Sending ===

impl Sending {
    /// `ledger` is that of the reader's last stream.
    pub fn new(
        catalog: Arc<Shared>,
        zone: Option<ZoneName>,
        (budget, ledger): (DeletionBudget, Ledger),
        clock: Clock,
    ) -> Self {
        let (cursor, absence_changes) = {
            let catalog = catalog.read();
            (catalog.end(), catalog.absence_changes())
        };
        let sender = Sender::new(budget, ledger);
        let sent = Sent::default();
        let state = Mutex::new(State {
            sender,
            cursor,
            absence_changes,
            sent,
        });
        Self {
            catalog,
            zone,
            clock,
            state,
            progress: watch::Sender::new(0),
        }
    }

    /// What to do when the store was restored to an earlier state.
    #[must_use]
    pub fn on_fork(self, on_fork: OnFork) -> Self {
        self.state.lock().sender.on_fork(on_fork);
        self
    }

    /// The reader says how far it followed this store. A lost future counts as settled up to a
    /// revision.
    #[must_use]
    pub fn following(self, followed: Option<&Position>, settled: Revision) -> Self {
        let catalog = self.catalog.read();
        let view = Reader {
            catalog: &catalog,
            zone: self.zone.as_ref(),
        };
        let mut state = self.state.lock();
        state.sender.settle(settled);
        if let Some(followed) = followed {
            state.sender.follow(followed, &view);
        }
        drop((state, catalog));
        self
    }

    /// The position of a lost future that the reader followed, while that is not settled: nothing
    /// is sent to it.
    pub fn diverged(&self) -> Option<Position> {
        self.state.lock().sender.diverged().cloned()
    }

    /// The objects that are not the same here and at the reader, by kind, but for those of which it
    /// is not decided what the reader should have; nothing when that is not known any more.
    pub fn differences(&self) -> Option<BTreeMap<SyncKind, BTreeMap<ObjectName, Difference>>> {
        let differences = self.with(|sender, _| {
            let kinds = sender.kinds().cloned();
            let differences = kinds.map(|kind| {
                let names = sender.differences(&kind);
                let names = names.map(|(name, how)| (name.clone(), how)).collect();
                (kind, names)
            });
            let differences =
                differences.filter(|(_, names): &(_, BTreeMap<_, _>)| !names.is_empty());
            differences.collect()
        });
        differences.ok()
    }

    /// The objects of which it is not decided what the reader should have, of the kinds that it asked
    /// for, and the version of each that it holds ([`Version::altered`] when it may hold any);
    /// nothing when that is not known any more.
    pub fn undecided(&self) -> Option<UndecidedObjects> {
        let undecided = self.with(|sender, view| {
            let mut undecided = UndecidedObjects::new();
            for kind in sender.kinds() {
                let entries = view.catalog.entries(kind).map(|(name, _)| name);
                for name in entries.chain(sender.frozen(kind)) {
                    if view.presence(kind, name) == Presence::Frozen {
                        let held = sender.frozen_version(kind, name);
                        undecided.insert((kind.clone(), name.clone()), held);
                    }
                }
            }
            undecided
        });
        undecided.ok()
    }

    /// Those of these kinds that the reader has not said what it has of.
    pub fn unsubscribed(&self, kinds: impl IntoIterator<Item = SyncKind>) -> Vec<SyncKind> {
        let state = self.state.lock();
        let kinds = kinds.into_iter();
        kinds
            .filter(|kind| !state.sender.is_subscribed(kind))
            .collect()
    }

    /// What was deleted lately, for the next stream.
    pub fn ledger(&self) -> Ledger {
        self.state.lock().sender.ledger().clone()
    }

    /// Sends until the requests end, which is no error, or one of them is.
    ///
    /// `is_admitted` tells whether the receiver may still be sent anything. The catalog must show
    /// that a receiver is gone no sooner than `is_admitted` does: what is withdrawn from a zone that
    /// is deleted is never sent to it.
    pub async fn run<S>(
        &self,
        requests: S,
        out: mpsc::Sender<Response>,
        stop: &Stop,
        is_admitted: impl Fn() -> bool,
    ) -> Result<(), ProtocolError>
    where
        S: Stream<Item = Result<Request, ProtocolError>>,
    {
        let mut requests = std::pin::pin!(requests);
        let mut changes = self.catalog.changes(self.zone.as_ref());
        let mut outbox = VecDeque::new();
        loop {
            changes.borrow_and_update();
            let (responses, wake) = self.step()?;
            // Asked after the catalog was read.
            if !is_admitted() {
                return Ok(());
            }
            outbox.extend(responses);
            // Requests that are there already must not keep others from their turn.
            tokio::task::yield_now().await;
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                place = out.reserve(), if !outbox.is_empty() => match (place, outbox.pop_front()) {
                    (Ok(place), Some(response)) => place.send(response),
                    (Ok(_) | Err(_), _) => return Ok(()),
                },
                request = requests.next() => match request {
                    Some(request) => self.request(request?)?,
                    None => return Ok(()),
                },
                changed = changes.changed() => if changed.is_err() {
                    return Ok(());
                },
                () = self.until(wake) => {}
            }
        }
    }

    /// What is to be sent now, and when to look again.
    fn step(&self) -> Result<(Vec<Response>, Option<Duration>), ProtocolError> {
        let now = self.clock.elapsed();
        let step = self.with(|sender, view| (sender.poll(view, now), sender.wake_at(now)))?;
        if !step.0.is_empty() {
            let mut state = self.state.lock();
            step.0.iter().for_each(|response| state.sent.add(response));
        }
        Ok(step)
    }

    /// Woken by what the reader says, and by what it should be sent.
    pub fn news(&self) -> (watch::Receiver<u64>, watch::Receiver<u64>) {
        let changes = self.catalog.changes(self.zone.as_ref());
        (self.progress.subscribe(), changes)
    }

    /// How often the reader said something.
    pub fn progress(&self) -> u64 {
        *self.progress.borrow()
    }

    /// Woken when the reader said something.
    pub fn said(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    /// What was sent since the stream began.
    pub fn sent(&self) -> Sent {
        self.state.lock().sent
    }

    fn request(&self, request: Request) -> Result<(), ProtocolError> {
        let now = self.clock.elapsed();
        self.with(|sender, view| sender.request(request, view, now))??;
        self.progress.send_modify(|said| *said += 1);
        Ok(())
    }

    async fn until(&self, wake: Option<Duration>) {
        match wake {
            Some(at) => {
                let left = at.saturating_sub(self.clock.elapsed());
                self.clock.sleep(left).await;
            }
            None => std::future::pending().await,
        }
    }

    /// Lets the sender know of all changes first.
    fn with<T>(&self, act: impl FnOnce(&mut Sender, &Reader<'_>) -> T) -> Result<T, ProtocolError> {
        let catalog = self.catalog.read();
        let view = Reader {
            catalog: &catalog,
            zone: self.zone.as_ref(),
        };
        let mut state = self.state.lock();
        let behind = |Behind| ProtocolError::Behind;
        state.catch_up(&catalog, &view).map_err(behind)?;
        Ok(act(&mut state.sender, &view))
    }

    /// Somebody said that all may go that was to go at this revision.
    pub fn approve(&self, revision: Revision) {
        self.state.lock().sender.approve(revision);
        self.catalog.wake(self.zone.as_ref());
    }

    /// The reader has all up to here, but for what it rejected or what is held; nothing when that
    /// is not known any more.
    pub fn through(&self) -> Option<Revision> {
        self.with(|sender, view| sender.through(view)).ok()
    }

    /// How it stands with a kind; nothing when that is not known any more.
    pub fn counts(&self, kind: &SyncKind) -> Option<Counts> {
        self.with(|sender, view| sender.counts(kind, view)).ok()
    }

    /// How it stands with all that the reader asked for, as of which revision; nothing when that
    /// is not known any more.
    pub fn all_counts(&self) -> Option<(Revision, BTreeMap<SyncKind, Counts>)> {
        let counts = self.with(|sender, view| {
            let kinds = sender.kinds().cloned();
            let counts = kinds.map(|kind| {
                let counts = sender.counts(&kind, view);
                (kind, counts)
            });
            (view.at().revision, counts.collect())
        });
        counts.ok()
    }

    /// What the reader has of an object; nothing when that is not known any more.
    pub fn object(&self, kind: &SyncKind, name: &ObjectName) -> Option<ObjectState> {
        let state = self.with(|sender, view| {
            let presence = view.presence(kind, name);
            ObjectState {
                frozen: presence == Presence::Frozen,
                wanted: match presence {
                    Presence::Wanted(Item { version, .. }) => Some(version),
                    Presence::Withdrawn(_) | Presence::Gone | Presence::Frozen => None,
                },
                acknowledged: sender.acknowledged(kind, name, view),
                rejected: sender
                    .rejection(kind, name)
                    .map(|(verdict, reason)| (verdict, reason.to_owned())),
            }
        });
        state.ok()
    }

    /// What the reader does not have as it should, of the objects that are asked about and their
    /// kinds; nothing when that is not known any more. The cost is what it lacks, however much
    /// there is.
    pub fn standing(
        &self,
        kinds: &BTreeSet<SyncKind>,
        asked: impl Fn(&SyncKind, &ObjectName) -> bool,
    ) -> Option<Standing> {
        let standing = self.with(|sender, view| {
            let unsubscribed = kinds.iter();
            let unsubscribed = unsubscribed.filter(|kind| !sender.is_subscribed(kind));
            let mut standing = Standing {
                at: view.at().revision,
                unsubscribed: unsubscribed.cloned().collect(),
                lacking: Vec::new(),
                count: 0,
                foreign: BTreeMap::new(),
            };
            for kind in sender.kinds() {
                let lacking = sender
                    .exceptions(kind)
                    .filter(|(name, _)| asked(kind, name));
                lacking.for_each(|(name, exception)| standing.add(kind, name, &exception));
            }
            standing
        });
        standing.ok()
    }
}

// === impl Sent ===

impl Sent {
    fn add(&mut self, response: &Response) {
        let bytes = response.items.iter().map(|(_, item)| item.body.len());
        self.responses += 1;
        self.objects += response.names().count() as u64;
        self.bytes += bytes.sum::<usize>() as u64;
    }
}

// === impl Standing ===

impl Standing {
    fn add(&mut self, kind: &SyncKind, name: &ObjectName, exception: &Exception<'_>) {
        if let Undelivered::Rejected {
            verdict: Verdict::Foreign,
            reason,
        } = exception.state
        {
            let id = (kind.clone(), name.clone());
            self.foreign.insert(id, reason.to_owned());
            return;
        }
        self.count += 1;
        let lacking = Lacking {
            kind: kind.clone(),
            name: name.clone(),
            acknowledged: exception.held,
            rejected: match exception.state {
                Undelivered::Rejected { verdict, reason } => Some((verdict, reason.to_owned())),
                Undelivered::Queued | Undelivered::UnderWay | Undelivered::Surplus => None,
            },
        };
        if self.lacking.len() < LISTED {
            self.lacking.push(lacking);
        } else if lacking.is_refused() && !self.lacking.iter().any(Lacking::is_refused) {
            // What waits must not hide what does not come by waiting.
            self.lacking.pop();
            self.lacking.push(lacking);
        }
    }

    /// Whether it has all of it as it should, as far as it asked.
    pub fn is_current(&self) -> bool {
        self.count == 0 && self.foreign.is_empty()
    }
}

// === impl Lacking ===

impl Lacking {
    /// Whether the reader did not take it, and not for want of leave.
    fn is_refused(&self) -> bool {
        match &self.rejected {
            Some((Verdict::Failed | Verdict::Own | Verdict::Foreign, _)) => true,
            Some((Verdict::Held, _)) | None => false,
        }
    }
}

// === impl ObjectState ===

impl ObjectState {
    /// Whether the reader has it as it should.
    pub fn is_current(&self) -> bool {
        self.wanted.is_some() && self.wanted == self.acknowledged && self.rejected.is_none()
    }
}

// === impl State ===

impl State {
    fn catch_up(&mut self, catalog: &Catalog, view: &Reader<'_>) -> Result<(), Behind> {
        let end = catalog.end();
        if self.cursor != end {
            if !catalog.reaches(self.cursor) {
                return Err(Behind);
            }
            for (kind, changes) in catalog.after(self.cursor, view.zone) {
                self.sender.changed(&kind, changes, view);
            }
            self.cursor = end;
        }
        if self.absence_changes != catalog.absence_changes() {
            self.absence_changes = catalog.absence_changes();
            self.sender.thaw(view);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
