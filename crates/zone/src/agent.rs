//! The zone's end of the connection: connects, follows both ways, and begins again when it is lost.
//!
//! With the hub away nothing happens here, and the zone goes on with what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use deltaplane_border::{Receiving, Sending, Subscriptions, definitions, namespaces};
use deltaplane_client::Pace;
use deltaplane_fleet::synced_kinds;
use deltaplane_runtime::{Stop, TaskGroup, Trigger};
use deltaplane_sync::{
    DeletionBudget, FEATURES, Known, Ledger, ObjectName, OnFork, PROTOCOLS, Position, QUERY,
    REPAIR, Receiver, Request, SyncKind,
};
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::{Hello, Welcome, ZoneReport};
use deltaplane_sync_grpc::{
    SESSION, decode_request, decode_response, encode_request, encode_response, wants_versions,
};
use futures::future::ready;
use futures::stream::{self, FuturesUnordered};
use futures::{FutureExt, Stream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::metadata::MetadataValue;
use tonic::{Code, IntoRequest, Status};

use crate::link::Client;
use crate::membership::{JoinError, Membership};
use crate::query::Queries;
use crate::remembered::Remembered;
use crate::target::ZoneTarget;
use crate::uploads::Uploads;

/// Everything that a connection needs, and what is kept from one to the next.
pub(crate) struct Agent {
    pub(crate) membership: Arc<Membership>,
    pub(crate) target: Arc<ZoneTarget>,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) queries: Queries,
    pub(crate) pace: Pace,
    pub(crate) group: TaskGroup,
    pub(crate) remembered: Mutex<Remembered>,
    pub(crate) kept: Mutex<Kept>,
}

/// What is kept from one connection to the next.
#[derive(Default)]
pub(crate) struct Kept {
    /// From where each kind can be resumed, and of which objects later states may be here.
    resume: BTreeMap<SyncKind, (Position, BTreeSet<ObjectName>)>,
    /// What of a kind is here has been looked up.
    listed: BTreeSet<SyncKind>,
    deleted: Ledger,
    withdrawn: Ledger,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error("{}", .0.message())]
    Status(Box<Status>),
    #[error("the hub does not keep to the protocol")]
    Protocol(#[from] deltaplane_sync::ProtocolError),
    #[error("the hub ended the connection")]
    Ended,
}

/// How often the hub is told that the zone is there.
const REPORT: Duration = Duration::from_secs(15);
const OUTBOX: usize = 16;
/// What lasts for longer has not failed again, but for the first time.
const LASTING: Duration = Duration::from_secs(10);

// === impl Agent ===

impl Agent {
    /// Stays connected until told to stop.
    pub(crate) async fn run(self: Arc<Self>, stop: Stop) {
        let mut failures = 0;
        while !stop.is_requested() {
            let began = self.pace.clock.elapsed();
            let Some(ended) = stop.unless(self.connection()).await else {
                return;
            };
            let lasted = self.pace.clock.elapsed().saturating_sub(began);
            failures = match lasted > LASTING {
                true => 1,
                false => failures + 1,
            };
            let Err(error) = ended else {
                continue;
            };
            if let LinkError::Status(status) = &error
                && wants_versions(status)
            {
                self.kept.lock().resume.clear();
            }
            self.log(&error, failures);
            if stop.unless(self.pace.rest(failures, None)).await.is_none() {
                return;
            }
        }
    }

    fn log(&self, error: &LinkError, failures: u32) {
        let hub = self.membership.url().as_str();
        let is_refused = error.is_refusal();
        let error = error as &dyn std::error::Error;
        match failures {
            // Nothing will change until somebody does something.
            _ if is_refused => tracing::warn!(hub, error, "the hub refuses this zone"),
            1 => tracing::info!(hub, error, "lost the hub; the zone goes on"),
            _ => tracing::debug!(hub, error, failures, "the hub is away"),
        }
    }

    async fn connection(&self) -> Result<(), LinkError> {
        let mut client = self.membership.connect().await?;
        let welcome = client.handshake(self.hello()).await?.into_inner();
        let session = welcome.session;
        // A hub that was opened anew knows no changes of before: it would refuse what it is told of
        // them, and another connection would be needed to tell it versions.
        let current = |position: &Position| *position.epoch.0 == *welcome.epoch;
        let resume = |kept: &mut Kept| kept.resume.retain(|_, (position, _)| current(position));
        resume(&mut self.kept.lock());
        tracing::info!(
            hub = self.membership.url().as_str(),
            session,
            "connected to the hub"
        );
        let budget = budget(&welcome);
        // When one part ends, all do, each in its own way: what is being applied must not meet what
        // the next connection brings, and what is kept for that must be true.
        let (trigger, over) = Trigger::new();
        let ends = |ended: Option<Result<(), LinkError>>| {
            trigger.stop();
            ended.unwrap_or(Ok(()))
        };
        let repairs = welcome.features.iter().any(|feature| feature == REPAIR);
        let down = self.down(client.clone(), session, (budget, repairs), &over);
        let up = self.up(client.clone(), session, &over);
        let report = over.unless(self.report(client.clone(), session));
        let answer = over.unless(self.answer(client, &welcome));
        let (down, up, report, _) = futures::join!(
            down.map(|ended| ends(Some(ended))),
            up.map(|ended| ends(Some(ended))),
            report.map(ends),
            answer,
        );
        let ended = [down, up, report].into_iter().filter_map(Result::err);
        let mut ended: Vec<LinkError> = ended.collect();
        // That the rest ended is a consequence.
        let cause = ended
            .iter()
            .position(|error| !matches!(error, LinkError::Ended));
        match ended.is_empty() {
            true => Ok(()),
            false => Err(ended.swap_remove(cause.unwrap_or(0))),
        }
    }

    fn hello(&self) -> Hello {
        Hello {
            zone: self.membership.zone().to_string(),
            product: env!("CARGO_PKG_VERSION").to_owned(),
            oldest_protocol: *PROTOCOLS.start(),
            newest_protocol: *PROTOCOLS.end(),
            features: FEATURES.map(str::to_owned).into(),
            epoch: self.uploads.catalog().read().epoch().0.to_string(),
        }
    }

    /// Takes what the hub has for us.
    async fn down(
        &self,
        mut client: Client,
        session: u64,
        (budget, repairs): (DeletionBudget, bool),
        stop: &Stop,
    ) -> Result<(), LinkError> {
        let (out, requests) = mpsc::channel(OUTBOX);
        let requests = receiving(requests).map(|request| encode_request(&request));
        let answer = client.hub_to_zone(with_session(requests, session)).await?;
        let lost = Mutex::new(None);
        let responses = answer.into_inner().take_while(|response| {
            // An error of the connection is not one of the protocol.
            let fine = response.is_ok();
            if let Err(status) = response {
                *lost.lock() = Some(status.clone());
            }
            ready(fine)
        });
        let responses = responses.filter_map(|response| ready(response.ok().map(decode_response)));
        let ledger = self.kept.lock().deleted.clone();
        let mut receiver = Receiver::new(budget, ledger);
        let clock = self.pace.clock.clone();
        let (receiving, subscriptions) =
            Receiving::new(self.target.clone(), self.group.clone(), clock);
        let subscribed = Mutex::new(BTreeSet::new());
        let received = tokio::select! {
            received = receiving.run(&mut receiver, responses, out, stop) => received,
            () = self.subscribe(subscriptions.clone(), &subscribed) => Ok(()),
            // A hub that does not take it is told when the zone connects again.
            _ = self.target.drift.tell(&subscriptions, &subscribed), if repairs => Ok(()),
        };
        let mut kept = self.kept.lock();
        kept.deleted = receiver.ledger().clone();
        for kind in subscribed.into_inner() {
            match receiver.position(&kind) {
                Some((position, beyond)) => {
                    kept.resume.insert(kind, (position.clone(), beyond.clone()));
                }
                None => {
                    kept.resume.remove(&kind);
                }
            }
        }
        drop(kept);
        received?;
        match lost.into_inner() {
            Some(status) => Err(status.into()),
            None => Err(LinkError::Ended),
        }
    }

    /// Subscribes to what crosses, the kinds to come included.
    async fn subscribe(&self, to: Subscriptions, subscribed: &Mutex<BTreeSet<SyncKind>>) {
        let mut begun = BTreeSet::from([synced_kinds(), definitions(), namespaces()]);
        for kind in [synced_kinds(), definitions(), namespaces()] {
            self.subscribe_to(&to, kind, subscribed).await;
        }
        let mut kinds = self.target.kinds();
        // Side by side: a kind that cannot be listed, such as one that a cluster does not let us
        // read, must not keep the others waiting.
        let mut subscribing = FuturesUnordered::new();
        let remembered = self.remembered.lock().kinds().clone();
        for (kind, plural) in remembered {
            self.target.mirror.learn(&kind, &plural);
            if begun.insert(kind.clone()) {
                subscribing.push(self.subscribe_to(&to, kind, subscribed));
            }
        }
        loop {
            let now = kinds.borrow_and_update().clone();
            for kind in now.values() {
                let comes = kind.synced.goes_down() || kind.synced.spec.across_zones;
                if comes && begun.insert(kind.synced.kind.clone()) {
                    let (kind, plural) = (kind.synced.kind.clone(), &kind.synced.plural);
                    self.remember(&kind, plural);
                    subscribing.push(self.subscribe_to(&to, kind, subscribed));
                }
            }
            tokio::select! {
                Some(()) = subscribing.next(), if !subscribing.is_empty() => {}
                changed = kinds.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
            }
        }
    }

    async fn subscribe_to(
        &self,
        to: &Subscriptions,
        kind: SyncKind,
        subscribed: &Mutex<BTreeSet<SyncKind>>,
    ) {
        if kind != synced_kinds() {
            self.list(&kind).await;
            self.target.drift.watch(&kind);
        }
        let known = self.known(&kind);
        to.add(kind.clone(), known).await;
        subscribed.lock().insert(kind);
        self.target.drift.subscribed();
    }

    /// Writes down that a kind comes. Without it nothing is lost but that leftovers of the kind
    /// may stay when it does not cross any more.
    fn remember(&self, kind: &SyncKind, plural: &str) {
        let written = self.remembered.lock().add(kind, plural);
        if let Err(error) = written {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, %kind, "failed to write down that a kind comes");
        }
    }

    /// Looks once what of a kind is here.
    async fn list(&self, kind: &SyncKind) {
        if self.kept.lock().listed.contains(kind) {
            return;
        }
        let mut failures = 0_u32;
        while let Err(reason) = self.target.mirror.list(kind).await {
            failures += 1;
            // Now and then: a right that is missing may stay so.
            if failures.is_power_of_two() {
                tracing::warn!(%kind, reason, failures, "failed to look what is here; nothing of this kind is taken until then");
            }
            self.pace.rest(failures, None).await;
        }
        self.kept.lock().listed.insert(kind.clone());
    }

    /// What is here of a kind. A position is used once: it is true until something comes.
    fn known(&self, kind: &SyncKind) -> Known {
        let resume = self.kept.lock().resume.remove(kind);
        let lost = self.target.drift.lost(kind);
        let Some((position, beyond)) = resume else {
            return self.target.versions(kind);
        };
        let beyond = beyond.union(&lost);
        Known::Position {
            position,
            beyond: beyond
                .map(|name| (name.clone(), self.target.version(kind, name)))
                .collect(),
        }
    }

    /// Sends the hub what was authored here.
    async fn up(&self, mut client: Client, session: u64, stop: &Stop) -> Result<(), LinkError> {
        let (out, responses) = mpsc::channel(OUTBOX);
        let responses = receiving(responses).map(|response| encode_response(&response));
        let answer = client.zone_to_hub(with_session(responses, session)).await?;
        let lost = Mutex::new(None);
        let requests = answer.into_inner().take_while(|request| {
            let fine = request.is_ok();
            if let Err(status) = request {
                *lost.lock() = Some(status.clone());
            }
            ready(fine)
        });
        let requests = requests.filter_map(|request| ready(request.ok().map(decode_request)));
        let requests = self.when_ready(requests);
        let ledger = self.kept.lock().withdrawn.clone();
        let catalog = self.uploads.catalog().clone();
        let clock = self.pace.clock.clone();
        // The hub has its own budget, and people there who can approve more.
        let budget = DeletionBudget {
            max: u64::MAX,
            percent: 100,
        };
        let sending = Sending::new(catalog, None, (budget, ledger), clock);
        let sending = sending.on_fork(OnFork::GoOn);
        let sent = sending.run(requests, out, stop).await;
        self.kept.lock().withdrawn = sending.ledger();
        sent?;
        match lost.into_inner() {
            Some(status) => Err(status.into()),
            None => Err(LinkError::Ended),
        }
    }

    /// Holds back a subscription until all of its kind is known, and nothing else.
    fn when_ready<E>(
        &self,
        requests: impl Stream<Item = Result<Request, E>>,
    ) -> impl Stream<Item = Result<Request, E>> {
        let waiting = FuturesUnordered::new();
        let requests = Box::pin(requests);
        let start = (requests, waiting);
        stream::unfold(start, move |(mut requests, mut waiting)| async move {
            loop {
                let request = tokio::select! {
                    request = requests.next() => request?,
                    Some(ready) = waiting.next(), if !waiting.is_empty() => {
                        return Some((Ok(ready), (requests, waiting)));
                    }
                };
                match request {
                    Ok(Request::Subscribe { kind, known }) => {
                        waiting.push(self.ready(kind, known));
                    }
                    other => return Some((other, (requests, waiting))),
                }
            }
        })
    }

    async fn ready(&self, kind: SyncKind, known: Known) -> Request {
        self.uploads.ready(&kind).await;
        Request::Subscribe { kind, known }
    }

    /// Answers what the hub asks, if it can ask. That this fails is no reason to end the rest.
    async fn answer(&self, client: Client, welcome: &Welcome) -> Infallible {
        if welcome.features.iter().any(|feature| feature == QUERY) {
            self.answer_while_asked(client, welcome.session).await;
        }
        std::future::pending().await
    }

    /// Ends when the hub says that it cannot ask after all.
    async fn answer_while_asked(&self, client: Client, session: u64) {
        let mut failures = 0;
        loop {
            let began = self.pace.clock.elapsed();
            let ended = self.query(client.clone(), session).await;
            let lasted = self.pace.clock.elapsed().saturating_sub(began);
            failures = match lasted > LASTING {
                true => 1,
                false => failures + 1,
            };
            match ended {
                Err(LinkError::Status(status)) if status.code() == Code::Unimplemented => return,
                Err(error) => log_query(&error, failures),
                Ok(()) => log_query(&LinkError::Ended, failures),
            }
            self.pace.rest(failures, None).await;
        }
    }

    async fn query(&self, mut client: Client, session: u64) -> Result<(), LinkError> {
        let (out, answers) = mpsc::channel(OUTBOX);
        let answer = client.query(with_session(receiving(answers), session));
        let questions = answer.await?.into_inner();
        self.queries.serve(questions, out).await
    }

    /// Says now and then that the zone is there.
    async fn report(&self, mut client: Client, session: u64) -> Result<(), LinkError> {
        let clock = self.pace.clock.clone();
        let reports = stream::unfold(Duration::ZERO, move |pause| {
            let clock = clock.clone();
            async move {
                clock.sleep(pause).await;
                let at = clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let report = ZoneReport { at: at.as_secs() };
                Some((report, REPORT))
            }
        });
        // A request that goes on by itself would keep the connection open after this has ended.
        let (_alive, gone) = Trigger::new();
        let reports = reports.take_until(async move { gone.wait().await });
        let answer = client.report(with_session(reports, session)).await?;
        let mut seen = answer.into_inner();
        while seen.message().await?.is_some() {}
        Err(LinkError::Ended)
    }
}

fn log_query(error: &LinkError, failures: u32) {
    let error = error as &dyn std::error::Error;
    tracing::debug!(
        error,
        failures,
        "the hub asks no more; opening the stream again"
    );
}

fn budget(welcome: &Welcome) -> DeletionBudget {
    let usual = DeletionBudget::default();
    DeletionBudget {
        max: welcome.deletion_max.unwrap_or(usual.max),
        percent: match welcome.deletion_percent {
            Some(percent) => u8::try_from(percent.min(100)).unwrap_or(usual.percent),
            None => usual.percent,
        },
    }
}

fn with_session<T>(messages: T, session: u64) -> tonic::Request<T>
where
    tonic::Request<T>: IntoRequest<T>,
{
    let mut request = tonic::Request::new(messages);
    let session = MetadataValue::from(session);
    request.metadata_mut().insert(SESSION, session);
    request
}

fn receiving<T: Send + 'static>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> + Send {
    stream::unfold(receiver, |mut receiver| async {
        let item = receiver.recv().await?;
        Some((item, receiver))
    })
}

// === impl LinkError ===

impl LinkError {
    fn is_refusal(&self) -> bool {
        let refusals = [
            Code::Unauthenticated,
            Code::PermissionDenied,
            Code::FailedPrecondition,
        ];
        matches!(self, Self::Status(status) if refusals.contains(&status.code()))
    }
}

impl From<Status> for LinkError {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}
