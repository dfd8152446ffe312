//! The loop that takes what comes: many objects at once, each answered for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use deltaplane_runtime::{Clock, Stop, TaskGroup};
use deltaplane_sync::{
    Action, Item, Known, ObjectName, Outcome, Position, ProtocolError, Receiver, Request, Response,
    Stake, SyncKind,
};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc;

/// Where what comes goes.
pub trait Target: Send + Sync + 'static {
    /// Makes the object be there like this. `at` is where the sender's store was.
    fn apply<'a>(
        &'a self,
        kind: &'a SyncKind,
        name: &'a ObjectName,
        item: &'a Item,
        at: &'a Position,
    ) -> BoxFuture<'a, Outcome>;
    /// Leaves the object to whoever is here.
    fn orphan<'a>(&'a self, kind: &'a SyncKind, name: &'a ObjectName) -> BoxFuture<'a, Outcome>;
    fn delete<'a>(&'a self, kind: &'a SyncKind, name: &'a ObjectName) -> BoxFuture<'a, Outcome>;
    /// How many objects of a kind are here that came like this.
    fn count(&self, kind: &SyncKind) -> u64;
    /// How many objects it can do something about at once.
    fn parallel(&self) -> usize;
    /// Returns true if people here approved deletions of the sender beyond its budget.
    fn approves_deletions(&self) -> bool {
        false
    }
    /// How many others would go with these, whoever made them; a reason when that cannot be known.
    fn along<'a>(
        &'a self,
        kind: &'a SyncKind,
        names: &'a [ObjectName],
    ) -> BoxFuture<'a, Result<u64, String>>;
}

/// A response, and how many objects would go along with what it removes.
type Weighed = (Response, Result<u64, String>);

/// One end of a stream, and what it does.
pub struct Receiving<T> {
    target: Arc<T>,
    group: TaskGroup,
    clock: Clock,
    subscriptions: mpsc::Receiver<Wish>,
    /// By kind, in turns: many objects of one kind do not keep the others waiting.
    pending: VecDeque<(SyncKind, VecDeque<Work>)>,
    /// So many objects are applied at once.
    parallel: usize,
    running: usize,
    running_of: BTreeMap<SyncKind, usize>,
    finished: (mpsc::Sender<Finished>, mpsc::Receiver<Finished>),
    /// What is to be removed is looked at first, beside what goes on.
    weighing: FuturesUnordered<BoxFuture<'static, Weighed>>,
    weighing_of: BTreeSet<SyncKind>,
}

/// Where to say what to subscribe to, and what to send again. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Subscriptions(mpsc::Sender<Wish>);

#[derive(Debug)]
enum Wish {
    Subscribe(SyncKind, Known),
    Repair(SyncKind, BTreeSet<ObjectName>),
}

struct Work {
    action: Action,
    at: Position,
}

struct Finished {
    kind: SyncKind,
    name: ObjectName,
    outcome: Outcome,
}

/// Says how a task ended, however it did.
struct Report {
    to: mpsc::Sender<Finished>,
    finished: Option<Finished>,
}

/// Kinds come one by one.
const SUBSCRIPTIONS: usize = 64;

// === impl Receiving ===

impl<T: Target> Receiving<T> {
    /// Tasks that apply objects are of this group.
    pub fn new(target: Arc<T>, group: TaskGroup, clock: Clock) -> (Self, Subscriptions) {
        let (sender, subscriptions) = mpsc::channel(SUBSCRIPTIONS);
        let parallel = target.parallel();
        let receiving = Self {
            target,
            group,
            clock,
            subscriptions,
            pending: VecDeque::new(),
            running: 0,
            running_of: BTreeMap::new(),
            finished: mpsc::channel(parallel),
            parallel,
            weighing: FuturesUnordered::new(),
            weighing_of: BTreeSet::new(),
        };
        (receiving, Subscriptions(sender))
    }

    /// Takes what comes until the responses end, which is no error, or one of them is. What is
    /// being applied then is finished first.
    pub async fn run<S>(
        mut self,
        receiver: &mut Receiver,
        responses: S,
        out: mpsc::Sender<Request>,
        stop: &Stop,
    ) -> Result<(), ProtocolError>
    where
        S: Stream<Item = Result<Response, ProtocolError>>,
    {
        let mut responses = std::pin::pin!(responses);
        let ended = loop {
            self.start();
            let request = tokio::select! {
                () = stop.wait() => break Ok(()),
                Some(finished) = self.finished.1.recv() => self.finish(receiver, finished),
                Some(wish) = self.subscriptions.recv() => match wish {
                    Wish::Subscribe(kind, known) => Some(receiver.subscribe(kind, known)),
                    Wish::Repair(kind, names) => receiver.repair(kind, names),
                },
                response = responses.next() => match response {
                    Some(Ok(response)) => match self.weigh(receiver, response) {
                        Ok(request) => request,
                        Err(error) => break Err(error),
                    },
                    Some(Err(error)) => break Err(error),
                    None => break Ok(()),
                },
                Some(weighed) = self.weighing.next(), if !self.weighing.is_empty() => {
                    match self.take(receiver, weighed) {
                        Ok(request) => request,
                        Err(error) => break Err(error),
                    }
                }
            };
            let Some(request) = request else {
                continue;
            };
            // The peer may not read.
            let sent = stop.unless(out.send(request)).await;
            if !matches!(sent, Some(Ok(()))) {
                break Ok(());
            }
        };
        // Otherwise they could overtake those of the next stream.
        while self.running > 0 {
            match self.finished.1.recv().await {
                Some(finished) => drop(self.finish(receiver, finished)),
                None => break,
            }
        }
        ended
    }

    /// Takes a response, at once if it removes nothing.
    fn weigh(
        &mut self,
        receiver: &mut Receiver,
        response: Response,
    ) -> Result<Option<Request>, ProtocolError> {
        let kind = response.kind.clone();
        if self.weighing_of.contains(&kind) {
            return Err(ProtocolError::Unanswered { kind });
        }
        // What was approved is not counted.
        let here = self.target.approves_deletions();
        if response.removed.is_empty() || receiver.is_approved(&response, here) {
            return self.take(receiver, (response, Ok(0)));
        }
        self.weighing_of.insert(kind);
        let target = self.target.clone();
        let weighing = async move {
            let along = target.along(&response.kind, &response.removed).await;
            (response, along)
        };
        self.weighing.push(weighing.boxed());
        Ok(None)
    }

    fn take(
        &mut self,
        receiver: &mut Receiver,
        (response, along): Weighed,
    ) -> Result<Option<Request>, ProtocolError> {
        let at = response.at.clone();
        let kind = response.kind.clone();
        self.weighing_of.remove(&kind);
        let held = self.target.count(&kind);
        let stake = Stake {
            held,
            along,
            approved: self.target.approves_deletions(),
        };
        let actions = receiver.response(response, &stake, self.clock.elapsed())?;
        let (mut answer, mut works) = (None, VecDeque::new());
        for action in actions {
            match action {
                Action::Send(request) => answer = Some(request),
                action @ (Action::Apply { .. } | Action::Orphan { .. } | Action::Delete { .. }) => {
                    let at = at.clone();
                    works.push_back(Work { action, at });
                }
            }
        }
        if !works.is_empty() {
            self.pending.push_back((kind, works));
        }
        Ok(answer)
    }

    fn finish(&mut self, receiver: &mut Receiver, finished: Finished) -> Option<Request> {
        self.running -= 1;
        if let Some(running) = self.running_of.get_mut(&finished.kind) {
            *running -= 1;
        }
        let Finished {
            kind,
            name,
            outcome,
        } = finished;
        receiver.done(&kind, &name, outcome)
    }

    fn start(&mut self) {
        while self.running < self.parallel
            && let Some(work) = self.next()
        {
            self.running += 1;
            let (target, to) = (self.target.clone(), self.finished.0.clone());
            self.group
                .spawn(async move { work.run(&*target, to).await });
        }
    }

    /// The next object of the next kind that has a place.
    fn next(&mut self) -> Option<Work> {
        // One that waits for its API leaves places for others.
        let of_kind = self.parallel * 3 / 4;
        for _ in 0..self.pending.len() {
            let (kind, mut works) = self.pending.pop_front()?;
            let running = self.running_of.entry(kind.clone()).or_default();
            let work = match *running < of_kind {
                true => works.pop_front(),
                false => None,
            };
            *running += usize::from(work.is_some());
            if !works.is_empty() {
                self.pending.push_back((kind, works));
            }
            if work.is_some() {
                return work;
            }
        }
        None
    }
}

// === impl Work ===

impl Work {
    async fn run(self, target: &impl Target, to: mpsc::Sender<Finished>) {
        let Self { action, at } = self;
        let (kind, name) = match &action {
            Action::Apply { kind, name, .. }
            | Action::Orphan { kind, name }
            | Action::Delete { kind, name } => (kind, name),
            Action::Send(_) => return,
        };
        let mut report = Report::new(to, kind, name);
        let outcome = match &action {
            Action::Apply { kind, name, item } => target.apply(kind, name, item, &at).await,
            Action::Orphan { kind, name } => target.orphan(kind, name).await,
            Action::Delete { kind, name } => target.delete(kind, name).await,
            Action::Send(_) => return,
        };
        report.say(outcome);
    }
}

// === impl Report ===

impl Report {
    fn new(to: mpsc::Sender<Finished>, kind: &SyncKind, name: &ObjectName) -> Self {
        let finished = Finished {
            kind: kind.clone(),
            name: name.clone(),
            outcome: Err("it broke the process that should have applied it"
                .to_owned()
                .into()),
        };
        let finished = Some(finished);
        Self { to, finished }
    }

    fn say(&mut self, outcome: Outcome) {
        if let Some(finished) = &mut self.finished {
            finished.outcome = outcome;
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(finished) = self.finished.take() {
            // There is a place for each that runs; without a receiver nobody wants to know.
            let _ = self.to.try_send(finished);
        }
    }
}

// === impl Subscriptions ===

impl Subscriptions {
    /// Subscribes to a kind, unless the stream is over.
    pub async fn add(&self, kind: SyncKind, known: Known) {
        let _ = self.0.send(Wish::Subscribe(kind, known)).await;
    }

    /// Asks for objects again that somebody changed or deleted here, unless the stream is over.
    /// Their kind was subscribed to before.
    pub async fn repair(&self, kind: SyncKind, names: BTreeSet<ObjectName>) {
        let _ = self.0.send(Wish::Repair(kind, names)).await;
    }
}
