//! The zone's end of the connection: connects, follows both ways, and begins again when it is lost.
//!
//! With the hub away nothing happens here, and the zone goes on with what it has.

mod answers;
mod down;
mod up;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use deltaplane_border::Sending;
use deltaplane_client::Pace;
use deltaplane_client::discovery::discover;
use deltaplane_runtime::files::FileError;
use deltaplane_runtime::{Stop, TaskGroup, Trigger};
use deltaplane_sync::{
    Asked, FEATURES, Ledger, MOST_MIRRORED_KINDS, ObjectName, PROTOCOLS, Position, READINESS,
    SyncKind,
};
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::{Hello, ReportSeen, Welcome, ZoneReport};
use deltaplane_sync_grpc::{SESSION, decode_asked, encode_fared, wants_versions};
use futures::future::ready;
use futures::{FutureExt, Stream, StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::metadata::MetadataValue;
use tonic::{Code, IntoRequest, Status};

use crate::followed::FollowedHub;
use crate::link::Client;
use crate::membership::{JoinError, Membership};
use crate::query::Queries;
use crate::readiness::Readiness;
use crate::remembered::{FindKindsError, Remembered, find_mirrored_kinds};
use crate::report::Reports;
use crate::target::ZoneTarget;
use crate::uploads::Uploads;

/// Everything that a connection needs, and what is kept from one to the next.
pub(crate) struct Agent {
    pub(crate) membership: Arc<Membership>,
    pub(crate) target: Arc<ZoneTarget>,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) queries: Queries,
    /// Of the zone's API, as sync.
    pub(crate) client: kube::Client,
    pub(crate) pace: Pace,
    pub(crate) group: TaskGroup,
    pub(crate) remembered: Mutex<Remembered>,
    pub(crate) followed: Mutex<FollowedHub>,
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
    /// The plurals of the kinds that came from the hub were compared with what the zone serves.
    are_plurals_checked: bool,
    /// The zone's objects were compared with a record that says that it never followed a hub.
    is_record_true: bool,
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
    #[error(
        "failed to write down how far the hub was followed; nothing is taken from it until then"
    )]
    Follow(#[from] FileError),
    #[error(
        "failed to find out which kinds the zone mirrors; nothing is taken from the hub until then"
    )]
    FindKinds(#[from] FindKindsError),
    #[error("the hub ended the connection")]
    Ended,
}

/// Why a stream was lost, if it was: an error of the connection is not one of the protocol.
#[derive(Default)]
struct Lost(Mutex<Option<Status>>);

const OUTBOX: usize = 16;
/// What lasts for longer has not failed again, but for the first time.
const LASTING: Duration = Duration::from_secs(10);

/// A zone that was deleted or disabled asks again no more often than this.
const REFUSED: Duration = Duration::from_secs(1);

/// A refusal lasts until somebody does something; a hub that is away may be back at once.
fn shortest_rest(error: &LinkError) -> Option<Duration> {
    error.is_refusal().then_some(REFUSED)
}

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
            let rest = self.pace.rest(failures, shortest_rest(&error));
            if stop.unless(rest).await.is_none() {
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
        if self.remembered.lock().is_damaged() {
            self.recover_kinds().await?;
        }
        self.repair_kinds().await?;
        let mut client = self.membership.connect().await?;
        self.find_lost_record().await?;
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
        if welcome.diverged {
            tracing::warn!(
                hint = "at the hub: deltaplane zones reconcile <zone> --dry-run",
                "the zone has diverged: the hub lost a state that the zone followed, and sends nothing until a person settles that"
            );
        }
        let sending = Arc::new(self.sending());
        // When one part ends, all do, each in its own way: what is being applied must not meet what
        // the next connection brings, and what is kept for that must be true.
        let (trigger, over) = Trigger::new();
        let ends = |ended: Option<Result<(), LinkError>>| {
            trigger.stop();
            ended.unwrap_or(Ok(()))
        };
        let down = self.down(client.clone(), &welcome, &over);
        let up = self.up(client.clone(), session, &sending, &over);
        let report = over.unless(self.report(client.clone(), &welcome, &sending));
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
        let followed = self.followed.lock().newest().cloned();
        Hello {
            zone: self.membership.zone().to_string(),
            product: env!("CARGO_PKG_VERSION").to_owned(),
            oldest_protocol: *PROTOCOLS.start(),
            newest_protocol: *PROTOCOLS.end(),
            features: FEATURES.map(str::to_owned).into(),
            epoch: self.uploads.catalog().read().epoch().0.to_string(),
            followed: followed
                .as_ref()
                .map_or_else(String::new, |followed| followed.position.to_string()),
            releases: followed
                .map(|followed| followed.releases.into_iter().collect())
                .unwrap_or_default(),
            mirrored_kinds: self.mirrored_kinds(),
        }
    }

    /// Finds which kinds the zone mirrors: what was written of them is damaged.
    async fn recover_kinds(&self) -> Result<(), LinkError> {
        let kinds = find_mirrored_kinds(&self.client).await?;
        tracing::warn!(
            kinds = kinds.len(),
            "the kinds that came from the hub could not be read; found those that the zone mirrors"
        );
        Ok(self.remembered.lock().recover(kinds)?)
    }

    /// Corrects once what the kinds that came from the hub are called: the zone would say that it
    /// holds objects of one kind as those of another.
    async fn repair_kinds(&self) -> Result<(), LinkError> {
        if self.kept.lock().are_plurals_checked {
            return Ok(());
        }
        let catalog = discover(&self.client).await;
        let catalog = catalog.map_err(FindKindsError::from)?;
        self.remembered.lock().repair(&catalog)?;
        self.kept.lock().are_plurals_checked = true;
        Ok(())
    }

    /// Finds out once whether the zone followed a hub although no record says so: it mirrors objects
    /// then, since the record is written before the first of them.
    async fn find_lost_record(&self) -> Result<(), LinkError> {
        if self.kept.lock().is_record_true || self.followed.lock().newest().is_some() {
            return Ok(());
        }
        let kinds = find_mirrored_kinds(&self.client).await?;
        if !kinds.is_empty() {
            self.remembered.lock().recover(kinds)?;
            self.followed.lock().lose_record(None);
        }
        self.kept.lock().is_record_true = true;
        Ok(())
    }

    /// The kinds that the zone says what it holds of, whatever the hub sends.
    fn mirrored_kinds(&self) -> Vec<String> {
        let remembered = self.remembered.lock().kinds().clone();
        let kinds = self.target.kinds().borrow().clone();
        let come = kinds.values().filter(|kind| kind.comes());
        let come: BTreeSet<SyncKind> = come.map(|kind| kind.synced.kind.clone()).collect();
        let before = remembered.into_keys().filter(|kind| !come.contains(kind));
        // Those that are synced now count first, if there are too many.
        let mirrored = come.iter().cloned().chain(before);
        let mirrored = mirrored.take(MOST_MIRRORED_KINDS);
        mirrored.map(|kind| kind.to_string()).collect()
    }

    /// Says now and then that the zone is there, how it stands with what it sends and, as far as
    /// the hub asks for it, how that fares which came from there.
    async fn report(
        &self,
        client: Client,
        welcome: &Welcome,
        sending: &Arc<Sending>,
    ) -> Result<(), LinkError> {
        let link = self.membership.link();
        let mut client = link.compress_received(link.compress_sent(client));
        if !welcome.features.iter().any(|feature| feature == READINESS) {
            self.readiness.ask(Asked::default());
        }
        let (begin, begun) = watch::channel(false);
        let fared = self.readiness.telling(begun).map(|fared| ZoneReport {
            at: fared.at / 1000,
            fared: Some(encode_fared(&fared)),
            ..ZoneReport::default()
        });
        let unread = self.uploads.unread();
        let synced = self.target.kinds();
        let clock = self.pace.clock.clone();
        let reports = Reports::new(sending.clone(), unread, synced, clock).stream();
        let reports = stream::select(reports, fared);
        // A request that goes on by itself would keep the connection open after this has ended.
        let (_alive, gone) = Trigger::new();
        let reports = reports.take_until(async move { gone.wait().await });
        let answer = client
            .report(with_session(reports, welcome.session))
            .await?;
        let mut seen = answer.into_inner();
        while let Some(ReportSeen {
            at: _,
            approved,
            asked,
        }) = seen.message().await?
        {
            if approved > 0 {
                sending.approve(approved);
            }
            if let Some(asked) = asked {
                self.readiness.ask(decode_asked(asked));
                begin.send_replace(true);
            }
        }
        Err(LinkError::Ended)
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

// === impl Lost ===

impl Lost {
    /// The messages of a stream until it is lost.
    fn until<T>(&self, messages: impl Stream<Item = Result<T, Status>>) -> impl Stream<Item = T> {
        messages.scan((), |(), message| {
            let message = message.map_err(|status| *self.0.lock() = Some(status));
            ready(message.ok())
        })
    }

    fn why(self) -> LinkError {
        match self.0.into_inner() {
            Some(status) => status.into(),
            None => LinkError::Ended,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_that_is_refused_does_not_ask_again_at_once() {
        let check = |status: Status, expected| {
            let error = LinkError::from(status);
            assert_eq!(shortest_rest(&error), expected, "{error}");
        };
        check(Status::failed_precondition("deleted"), Some(REFUSED));
        check(Status::permission_denied("deleted"), Some(REFUSED));
        check(Status::unavailable("away"), None);
    }
}
