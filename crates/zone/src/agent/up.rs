//! What goes to the hub.

use deltaplane_border::Sending;
use deltaplane_runtime::Stop;
use deltaplane_sync::{DeletionBudget, Known, OnFork, Request, SyncKind};
use deltaplane_sync_grpc::{decode_request, encode_response, receiving};
use futures::stream::{self, FuturesUnordered};
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;

use super::{Agent, LinkError, Lost, OUTBOX, with_session};
use crate::link::{Client, take_subscriptions};

// === impl Agent ===

impl Agent {
    /// Sends the hub what was authored here.
    pub(super) async fn up(
        &self,
        client: Client,
        session: u64,
        sending: &Sending,
        stop: &Stop,
    ) -> Result<(), LinkError> {
        let client = take_subscriptions(client);
        let mut client = self.membership.link().compress_sent(client);
        let (out, responses) = mpsc::channel(OUTBOX);
        let responses = receiving(responses).map(|response| encode_response(&response));
        let answer = client.zone_to_hub(with_session(responses, session)).await?;
        let lost = Lost::default();
        let requests = lost.until(answer.into_inner()).map(decode_request);
        let requests = self.when_ready(requests);
        let sent = sending.run(requests, out, stop, || true).await;
        self.kept.lock().withdrawn = sending.ledger();
        sent?;
        Err(lost.why())
    }

    /// What goes to the hub on a connection.
    pub(super) fn sending(&self) -> Sending {
        let ledger = self.kept.lock().withdrawn.clone();
        let catalog = self.uploads.catalog().clone();
        // The hub has its own budget, and people there who can approve more.
        let budget = DeletionBudget {
            max: u64::MAX,
            percent: 100,
        };
        let sending = Sending::new(catalog, None, (budget, ledger), self.pace.clock.clone());
        sending.on_fork(OnFork::GoOn)
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
}
