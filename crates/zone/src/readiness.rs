//! How what came from the hub fares here: what the hub asks for is followed and judged, and what
//! changed is told.
//!
//! Nothing is followed that the hub does not ask for; nothing is asked or told while nothing
//! changes. What is known stays from one connection to the next.
//!
//! Not here: the rules (`propagation::readiness`), the messages (`sync::readiness`).
//!
//! Invariant: a kind that cannot be followed, or an object that cannot be judged, says so, and
//! keeps nobody else from being told.

mod board;
mod following;
mod instances;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deltaplane_client::discovery::{self, Catalog, Discovery};
use deltaplane_client::{Pace, Resource};
use deltaplane_propagation::readiness::Rules;
use deltaplane_runtime::{Stop, TaskGroup, Trigger};
use deltaplane_sync::{Asked, AskedTarget, Fared, SyncKind};
use futures::{Stream, stream};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;

use board::Board;
use following::Following;

/// Follows what the hub asks for.
pub(crate) struct Readiness {
    client: Client,
    pace: Pace,
    group: TaskGroup,
    stop: Stop,
    asked: watch::Sender<Question>,
    shared: Arc<Shared>,
}

/// What the hub asks, and the how manieth it is.
#[derive(Clone, Default)]
struct Question {
    number: u64,
    asked: Arc<Asked>,
}

/// What is known, and whoever waits for something new of it.
#[derive(Default)]
struct Shared {
    board: Mutex<Board>,
    news: watch::Sender<u64>,
}

/// What objects of a kind are judged by: the first that selects an object counts.
type Targets = Arc<[Target]>;

struct Target {
    asked: AskedTarget,
    rules: Rules,
}

/// What is followed now.
#[derive(Default)]
struct Followed {
    kinds: BTreeMap<SyncKind, FollowedKind>,
    /// Which kinds the API serves, while something is asked.
    discovery: Option<Discovering>,
}

struct FollowedKind {
    asked: Vec<AskedTarget>,
    targets: watch::Sender<Targets>,
    /// Where it is followed, if it is served, until this is dropped.
    feed: Option<(Resource, Trigger)>,
}

struct Discovering {
    discovery: Discovery,
    catalog: Option<Arc<Catalog>>,
    _until: Trigger,
}

/// What one connection tells.
struct Telling {
    readiness: Arc<Readiness>,
    /// Whether the hub has asked on it.
    begun: watch::Receiver<bool>,
    news: watch::Receiver<u64>,
    /// Whether all was told, or is about to be.
    whole: bool,
    parts: VecDeque<Fared>,
}

/// What happens together is told together.
const GATHER: Duration = Duration::from_millis(20);
/// All is told when all of it is known, but no later than after so long: some may not be known for
/// ever.
const SETTLE: Duration = Duration::from_secs(5);

// === impl Readiness ===

impl Readiness {
    pub(crate) fn new((client, pace): (Client, Pace), (group, stop): (TaskGroup, Stop)) -> Self {
        Self {
            client,
            pace,
            group,
            stop,
            asked: watch::Sender::default(),
            shared: Arc::default(),
        }
    }

    /// Follows what is asked, until told to stop.
    pub(crate) async fn run(self: Arc<Self>, stop: Stop) {
        stop.unless(self.follow()).await;
    }

    /// The hub asks for this from now on.
    pub(crate) fn ask(&self, asked: Asked) {
        self.asked.send_if_modified(|question| {
            let other = *question.asked != asked;
            if other {
                question.number += 1;
                question.asked = Arc::new(asked);
            }
            other
        });
    }

    /// What is to be told on a connection, once the hub has asked on it: first all, then changes.
    pub(crate) fn telling(
        self: &Arc<Self>,
        begun: watch::Receiver<bool>,
    ) -> impl Stream<Item = Fared> + Send + use<> {
        let telling = Telling {
            readiness: self.clone(),
            begun,
            news: self.shared.news.subscribe(),
            whole: false,
            parts: VecDeque::new(),
        };
        stream::unfold(telling, |mut telling| async move {
            let fared = telling.next().await?;
            Some((fared, telling))
        })
    }

    async fn follow(&self) {
        let mut questions = self.asked.subscribe();
        let mut followed = Followed::default();
        loop {
            let question = questions.borrow_and_update().clone();
            self.discover(&mut followed, &question.asked);
            self.follow_all(&mut followed, &question);
            let served = async {
                match &mut followed.discovery {
                    Some(one) => one.changed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // It ends with the process.
                Ok(()) = questions.changed() => {}
                () = served => {}
            }
        }
    }

    /// Finds out which kinds are served, while something is asked.
    fn discover(&self, followed: &mut Followed, asked: &Asked) {
        if asked.kinds().is_empty() {
            followed.discovery = None;
        } else if followed.discovery.is_none() {
            let (discovery, follower) = discovery::follow(self.client.clone(), self.pace.clone());
            let (until, over) = Trigger::new();
            self.spawn(over, follower.run(self.stop.clone()));
            followed.discovery = Some(Discovering {
                discovery,
                catalog: None,
                _until: until,
            });
        }
    }

    fn follow_all(&self, followed: &mut Followed, question: &Question) {
        let mut asked: BTreeMap<&SyncKind, Vec<AskedTarget>> = BTreeMap::new();
        for target in question.asked.policies.iter().flat_map(|one| &one.targets) {
            asked.entry(&target.kind).or_default().push(target.clone());
        }
        let gone = followed
            .kinds
            .extract_if(.., |kind, _| !asked.contains_key(kind));
        for (kind, _) in gone {
            self.shared.change(|board| board.end(&kind));
        }
        for (kind, targets) in asked {
            let known = followed.kinds.entry(kind.clone()).or_default();
            if known.asked != targets {
                known.ask(targets);
                self.shared.change(|board| board.begin(kind));
            }
            if let Some(discovering) = &followed.discovery {
                self.follow_kind(kind, known, discovering);
            }
        }
        let number = question.number;
        self.shared.change(|board| board.follows(number));
    }

    /// Follows a kind where it is served.
    fn follow_kind(&self, kind: &SyncKind, known: &mut FollowedKind, from: &Discovering) {
        // Before that is known there is nothing to say.
        let Some(catalog) = &from.catalog else { return };
        let served = catalog.group_kind(kind.group(), kind.kind());
        let Some(served) = served.map(|served| &served.resource) else {
            let why = match catalog.failure(kind.group()) {
                Some(why) => format!("it cannot be seen whether its kind is served: {why}"),
                None => "its kind is not served here".to_owned(),
            };
            known.feed = None;
            self.shared.change(|board| {
                let ended = board.clear(kind);
                board.trouble(kind, Some(why)) || ended
            });
            return;
        };
        if known
            .feed
            .as_ref()
            .is_some_and(|(there, _)| there == served)
        {
            return;
        }
        self.shared.change(|board| board.trouble(kind, None));
        let following = Following::new(
            kind.clone(),
            (self.client.clone(), self.pace.clone()),
            served.clone(),
            known.targets.subscribe(),
            (self.shared.clone(), from.discovery.clone()),
        );
        let (until, over) = Trigger::new();
        self.spawn(over, following.run());
        known.feed = Some((served.clone(), until));
    }

    fn spawn(&self, over: Stop, future: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.group.spawn(async move {
            stop.unless(over.unless(future)).await;
        });
    }
}

// === impl FollowedKind ===

impl FollowedKind {
    fn ask(&mut self, asked: Vec<AskedTarget>) {
        let targets = asked.iter().map(|asked| Target {
            asked: asked.clone(),
            rules: Rules::new(&asked.ready_when),
        });
        self.targets.send_replace(targets.collect());
        self.asked = asked;
    }
}

impl Default for FollowedKind {
    fn default() -> Self {
        Self {
            asked: Vec::new(),
            targets: watch::Sender::new(Arc::from([])),
            feed: None,
        }
    }
}

// === impl Discovering ===

impl Discovering {
    async fn changed(&mut self) {
        let catalog = match self.catalog {
            Some(_) => self.discovery.changed().await,
            None => self.discovery.current().await,
        };
        self.catalog = Some(catalog);
    }
}

// === impl Shared ===

impl Shared {
    /// Changes what is known; says whether that is something to tell.
    fn change(&self, change: impl FnOnce(&mut Board) -> bool) {
        let changed = change(&mut self.board.lock());
        if changed {
            self.news.send_modify(|news| *news += 1);
        }
    }
}

// === impl Telling ===

impl Telling {
    async fn next(&mut self) -> Option<Fared> {
        if !self.whole {
            self.begun.wait_for(|begun| *begun).await.ok()?;
            self.settle().await;
            self.whole = true;
            let at = self.at();
            self.parts = self.readiness.shared.board.lock().whole(at).into();
        }
        if let Some(part) = self.parts.pop_front() {
            return Some(part);
        }
        loop {
            self.news.borrow_and_update();
            let at = self.at();
            let changes = self.readiness.shared.board.lock().changes(at);
            if changes.is_some() {
                return changes;
            }
            self.news.changed().await.ok()?;
            self.readiness.pace.clock.sleep(GATHER).await;
        }
    }

    /// Waits until all that is asked for is known.
    async fn settle(&mut self) {
        let Self {
            readiness, news, ..
        } = self;
        let settled = async {
            loop {
                news.borrow_and_update();
                let number = readiness.asked.borrow().number;
                let settled = readiness.shared.board.lock().is_settled(number);
                if settled || news.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = settled => {}
            () = readiness.pace.clock.sleep(SETTLE) => {}
        }
    }

    fn at(&self) -> u64 {
        milliseconds(self.readiness.pace.clock.now())
    }
}

/// Since 1970.
fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
