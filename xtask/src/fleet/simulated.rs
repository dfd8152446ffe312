//! A zone that is nothing but its end of the connection: it joins, connects, follows what crosses
//! and comes back like a zone, and keeps versions instead of objects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use deltaplane_border::{
    Catalog, Openings, Receiving, Sending, Shared, Subscriptions, definitions, namespaces,
};
use deltaplane_client::Pace;
use deltaplane_fleet::synced_kinds;
use deltaplane_runtime::{Stop, TaskGroup};
use deltaplane_sync::{
    DeletionBudget, Epoch, FEATURES, Ledger, PROTOCOLS, ProtocolError, Receiver, SenderRole,
    SyncKind,
};
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::{Hello, ReportSeen, ZoneReport};
use deltaplane_sync_grpc::{
    SESSION, decode_asked, decode_request, decode_response, encode_fared, encode_request,
    encode_response, receiving, wants_versions,
};
use deltaplane_zone::{Membership, REPORT, SyncClient};
use futures::{StreamExt, stream};
use tokio::sync::{mpsc, watch};
use tonic::Status;
use tonic::metadata::MetadataValue;

use super::faring::telling;
use super::versions::{Memory, Versions};

/// One zone.
pub(super) struct Simulated {
    membership: Membership,
    versions: Arc<Versions>,
    /// It authors nothing.
    catalog: Arc<Shared>,
    pace: Pace,
    group: TaskGroup,
    connected: Arc<AtomicUsize>,
}

/// A zone is counted as connected while it lives.
struct Counted<'a>(&'a AtomicUsize);

/// As zones do.
const OUTBOX: usize = 16;

// === impl Simulated ===

impl Simulated {
    pub(super) fn new(
        membership: Membership,
        versions: Versions,
        group: TaskGroup,
        connected: Arc<AtomicUsize>,
    ) -> Self {
        let epoch = Epoch(membership.zone().as_str().into());
        let catalog = Catalog::new(Openings::only(epoch), 1);
        Self {
            membership,
            versions: Arc::new(versions),
            catalog: Arc::new(Shared::new(catalog)),
            pace: Pace::system(),
            group,
            connected,
        }
    }

    /// What it has; as of its last connection, as far as resuming is concerned.
    pub(super) fn memory(&self) -> Memory {
        self.versions.memory().clone()
    }

    /// Stays connected until told to stop.
    pub(super) async fn run(self: Arc<Self>, stop: Stop) {
        let mut failures = 0;
        while !stop.is_requested() {
            let began = self.pace.clock.elapsed();
            let Err(error) = self.connection(&stop).await else {
                return;
            };
            let lasted = self.pace.clock.elapsed().saturating_sub(began);
            failures = match lasted > Duration::from_secs(10) {
                true => 1,
                false => failures + 1,
            };
            if let Some(ProtocolError::Behind) = error.downcast_ref() {
                self.versions.memory().resume.clear();
            }
            tracing::debug!(?error, failures, "lost the hub");
            stop.unless(self.pace.rest(failures, None)).await;
        }
    }

    /// Ends without an error when told to stop.
    async fn connection(&self, stop: &Stop) -> Result<()> {
        let mut client = self.membership.connect().await?;
        let hello = Hello {
            zone: self.membership.zone().to_string(),
            product: "simulated".to_owned(),
            oldest_protocol: *PROTOCOLS.start(),
            newest_protocol: *PROTOCOLS.end(),
            features: FEATURES.map(str::to_owned).into(),
            epoch: self.membership.zone().to_string(),
            ..Hello::default()
        };
        let welcome = client.handshake(hello).await?.into_inner();
        let session = welcome.session;
        self.versions.memory().follow(&welcome.epoch);
        tokio::select! {
            ended = self.down(client.clone(), session, stop) => ended,
            ended = self.up(client.clone(), session, stop) => ended,
            ended = self.report(client, session) => ended,
        }
    }

    async fn down(&self, mut client: SyncClient, session: u64, stop: &Stop) -> Result<()> {
        let (out, requests) = mpsc::channel(OUTBOX);
        let requests = receiving(requests).map(|request| encode_request(&request));
        let answer = client.hub_to_zone(with_session(requests, session)).await?;
        let _counted = Counted::new(&self.connected);
        let responses = answer.into_inner().map(|response| match response {
            Ok(response) => decode_response(response),
            Err(status) => Err(lost(&status)),
        });
        let mut receiver = Receiver::new(
            SenderRole::Hub,
            DeletionBudget::default(),
            Ledger::default(),
        );
        let clock = self.pace.clock.clone();
        let (receiving, subscriptions) =
            Receiving::new(self.versions.clone(), self.group.clone(), clock);
        let mut subscribed = BTreeSet::new();
        let received = tokio::select! {
            received = receiving.run(&mut receiver, responses, out, stop) => received,
            () = self.subscribe(subscriptions, &mut subscribed) => Ok(()),
        };
        let mut memory = self.versions.memory();
        for kind in subscribed {
            match receiver.position(&kind) {
                Some((position, beyond)) => {
                    let resume = (position.clone(), beyond.clone());
                    memory.resume.insert(kind, resume);
                }
                None => drop(memory.resume.remove(&kind)),
            }
        }
        drop(memory);
        received?;
        ended(stop)
    }

    async fn subscribe(&self, to: Subscriptions, subscribed: &mut BTreeSet<SyncKind>) {
        let mut kinds = self.versions.kinds();
        let implied = [synced_kinds(), definitions(), namespaces()];
        let mut next: Vec<SyncKind> = implied.into();
        loop {
            for kind in next {
                if subscribed.insert(kind.clone()) {
                    let known = self.versions.known(&kind);
                    to.add(kind, known).await;
                }
            }
            next = kinds.borrow_and_update().iter().cloned().collect();
            if next.iter().all(|kind| subscribed.contains(kind)) && kinds.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn up(&self, mut client: SyncClient, session: u64, stop: &Stop) -> Result<()> {
        let (out, responses) = mpsc::channel(OUTBOX);
        let responses = receiving(responses).map(|response| encode_response(&response));
        let answer = client.zone_to_hub(with_session(responses, session)).await?;
        let requests = answer.into_inner().map(|request| match request {
            Ok(request) => decode_request(request),
            Err(status) => Err(lost(&status)),
        });
        let kept = (DeletionBudget::default(), Ledger::default());
        let clock = self.pace.clock.clone();
        let sending = Sending::new(self.catalog.clone(), None, kept, clock);
        sending.run(requests, out, stop, || true).await?;
        ended(stop)
    }

    /// Says that it is there, and how that fares which the hub asks for.
    async fn report(&self, mut client: SyncClient, session: u64) -> Result<()> {
        let clock = self.pace.clock.clone();
        let reports = stream::unfold(Duration::ZERO, move |pause| {
            let clock = clock.clone();
            async move {
                clock.sleep(pause).await;
                Some((ZoneReport::default(), REPORT))
            }
        });
        let (ask, asked) = watch::channel(None);
        let fared = telling(&self.versions, asked, &self.pace.clock);
        let fared = fared.map(|fared| ZoneReport {
            at: fared.at / 1000,
            fared: Some(encode_fared(&fared)),
            ..ZoneReport::default()
        });
        let reports = stream::select(reports, fared);
        let answer = client.report(with_session(reports, session)).await?;
        let mut seen = answer.into_inner();
        while let Some(ReportSeen { asked, .. }) = seen.message().await? {
            if let Some(asked) = asked {
                ask.send_replace(Some(decode_asked(asked)));
            }
        }
        Err(anyhow!("the hub ended the connection"))
    }
}

fn ended(stop: &Stop) -> Result<()> {
    let told = stop.is_requested().then_some(());
    told.context("the hub ended the connection")
}

/// An error of the connection ends a stream like one of the protocol; only whether it can be
/// resumed matters.
fn lost(status: &Status) -> ProtocolError {
    match wants_versions(status) {
        true => ProtocolError::Behind,
        false => ProtocolError::Malformed(status.message().to_owned()),
    }
}

fn with_session<T>(messages: T, session: u64) -> tonic::Request<T> {
    let mut request = tonic::Request::new(messages);
    let session = MetadataValue::from(session);
    request.metadata_mut().insert(SESSION, session);
    request
}

// === impl Counted ===

impl<'a> Counted<'a> {
    fn new(connected: &'a AtomicUsize) -> Self {
        connected.fetch_add(1, Ordering::Relaxed);
        Self(connected)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
