//! The hub's end of the stream on which a zone sends.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_sync::{
    Epoch, Hello, PROTOCOLS, ProtocolError, Request, Response, SyncKind, ZoneName,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Hub;

/// The hub's end of a zone's stream, which the zone feeds.
pub(super) struct Stream {
    responses: mpsc::Sender<Result<Response, ProtocolError>>,
    requests: mpsc::Receiver<Request>,
    /// The kinds that the hub asks for.
    pub(super) subscribed: BTreeSet<SyncKind>,
    /// The last of each kind that was answered.
    answered: BTreeMap<SyncKind, u64>,
    task: JoinHandle<Result<(), ProtocolError>>,
}

/// What became of a response.
#[derive(Debug)]
pub(super) enum Fate {
    Answered,
    /// It came before: nobody says anything.
    Ignored,
    /// The stream ended.
    Ended,
}

// === impl Stream ===

impl Stream {
    /// Connects a zone, which authors the kinds that the hub asks for.
    #[expect(
        clippy::disallowed_methods,
        reason = "it ends with the schedule, which waits for it"
    )]
    pub(super) async fn open(
        hub: &Hub,
        (zone, uid): (&ZoneName, &str),
        upward: BTreeSet<SyncKind>,
    ) -> Self {
        let fleet = hub.world.fleet.clone();
        let hello = Hello {
            zone: zone.clone(),
            product: "0".to_owned(),
            protocols: PROTOCOLS,
            features: BTreeSet::new(),
            epoch: Epoch("e".into()),
            followed: None,
            mirrored_kinds: BTreeSet::new(),
        };
        let (session, _) = fleet
            .handshake((zone, uid), &hello)
            .expect("it may connect");
        let (responses, mut to_take) = mpsc::channel(8);
        let (out, requests) = mpsc::channel(64);
        let task = tokio::spawn(async move {
            let responses = futures::stream::poll_fn(move |context| to_take.poll_recv(context));
            fleet.zone_to_hub(&session, responses, out).await
        });
        let mut stream = Self {
            responses,
            requests,
            subscribed: BTreeSet::new(),
            answered: BTreeMap::new(),
            task,
        };
        while !stream.subscribed.is_superset(&upward) {
            let request = stream.requests.recv().await;
            stream.note(request.expect("it has just begun"));
        }
        stream
    }

    /// Takes what the hub has said meanwhile. Returns false if the stream ended.
    pub(super) fn is_open(&mut self) -> bool {
        while let Ok(request) = self.requests.try_recv() {
            self.note(request);
        }
        !self.requests.is_closed()
    }

    fn note(&mut self, request: Request) {
        match request {
            Request::Subscribe { kind, .. } => drop(self.subscribed.insert(kind)),
            Request::Ack { kind, nonce, .. } => drop(self.answered.insert(kind, nonce)),
            Request::Repair { .. } => {}
        }
    }

    /// Sends something, and waits until the hub has done it.
    pub(super) async fn send(&mut self, response: Response) -> Fate {
        let (kind, nonce) = (response.kind.clone(), response.nonce);
        let before = self.answered.get(&kind).copied().unwrap_or(0);
        if self.responses.send(Ok(response)).await.is_err() {
            return self.ended().await;
        }
        if nonce <= before {
            return Fate::Ignored;
        }
        while self.answered.get(&kind).copied().unwrap_or(0) < nonce {
            match self.requests.recv().await {
                Some(request) => self.note(request),
                None => return self.ended().await,
            }
        }
        Fate::Answered
    }

    async fn ended(&mut self) -> Fate {
        let ended = (&mut self.task).await;
        // Why is for the zone to know.
        let _ = ended.expect("it does not panic");
        Fate::Ended
    }

    /// Ends the stream, after all that was sent is done.
    pub(super) async fn close(self) {
        let Self {
            responses,
            mut requests,
            task,
            ..
        } = self;
        drop(responses);
        while requests.recv().await.is_some() {}
        let _ = task.await;
    }
}
