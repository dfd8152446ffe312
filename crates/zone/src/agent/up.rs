//! What goes to the hub.

use std::collections::BTreeMap;
use std::pin::Pin;

use deltaplane_border::Sending;
use deltaplane_runtime::Stop;
use deltaplane_sync::{DeletionBudget, Known, OnFork, Request, SyncKind};
use deltaplane_sync_grpc::{decode_request, encode_response, receiving};
use futures::future::BoxFuture;
use futures::stream::{self, FuturesUnordered};
use futures::{FutureExt, Stream, StreamExt};
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
        let ready = |kind: SyncKind| async move { self.uploads.ready(&kind).await }.boxed();
        let requests = hold_back(requests, ready);
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
}

/// Holds back a subscription until all of its kind is known (`ready`), and nothing else. Objects that
/// the hub loses meanwhile are taken out of it: nothing can be repaired of a kind that is not
/// subscribed to yet.
fn hold_back<'a, E: 'a>(
    requests: impl Stream<Item = Result<Request, E>> + Send + 'a,
    ready: impl Fn(SyncKind) -> BoxFuture<'a, ()> + Send + 'a,
) -> impl Stream<Item = Result<Request, E>> + Send + 'a {
    let start = HeldBack {
        requests: Box::pin(requests),
        ready,
        waiting: BTreeMap::new(),
        becoming_ready: FuturesUnordered::new(),
    };
    stream::unfold(start, |mut held| async move {
        let request = held.next().await?;
        Some((request, held))
    })
}

/// Requests of the hub, and the subscriptions among them that wait.
struct HeldBack<'a, S, F> {
    requests: Pin<Box<S>>,
    ready: F,
    waiting: BTreeMap<SyncKind, Known>,
    becoming_ready: FuturesUnordered<BoxFuture<'a, SyncKind>>,
}

// === impl HeldBack ===

impl<'a, E, S, F> HeldBack<'a, S, F>
where
    S: Stream<Item = Result<Request, E>>,
    F: Fn(SyncKind) -> BoxFuture<'a, ()>,
{
    async fn next(&mut self) -> Option<Result<Request, E>> {
        loop {
            let request = tokio::select! {
                request = self.requests.next() => request?,
                Some(kind) = self.becoming_ready.next(), if !self.becoming_ready.is_empty() => {
                    let Some(known) = self.waiting.remove(&kind) else {
                        continue;
                    };
                    return Some(Ok(Request::Subscribe { kind, known }));
                }
            };
            match request {
                Ok(Request::Subscribe { kind, known }) => {
                    let ready = (self.ready)(kind.clone());
                    self.waiting.insert(kind.clone(), known);
                    self.becoming_ready.push(ready.map(|()| kind).boxed());
                }
                Ok(Request::Repair { kind, names }) => match self.waiting.get_mut(&kind) {
                    Some(Known::Versions { held, .. }) => {
                        held.retain(|name, _| !names.contains(name));
                    }
                    // The hub says versions, and nothing else, of what it takes from zones.
                    Some(Known::Position { .. }) | None => {
                        return Some(Ok(Request::Repair { kind, names }));
                    }
                },
                other => return Some(other),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use deltaplane_sync::{ObjectName, Version};
    use tokio::sync::watch;

    use super::*;

    fn kind(kind: &str) -> SyncKind {
        SyncKind::new("example.com", kind).expect("legal")
    }

    fn names(names: &[&str]) -> BTreeSet<ObjectName> {
        let names = names.iter().map(|name| name.parse().expect("legal"));
        names.collect()
    }

    fn subscribe(to: &str, held: &[&str]) -> Request {
        let held = names(held).into_iter();
        let known = Known::Versions {
            held: held.map(|name| (name, Version::altered())).collect(),
            sources: Vec::new(),
        };
        let kind = kind(to);
        Request::Subscribe { kind, known }
    }

    fn repair(of: &str, lost: &[&str]) -> Request {
        Request::Repair {
            kind: kind(of),
            names: names(lost),
        }
    }

    #[tokio::test]
    async fn a_repair_does_not_overtake_the_subscription_that_waits() {
        let requests = [
            subscribe("Widget", &["a", "b"]),
            repair("Widget", &["a"]),
            subscribe("Gadget", &["c"]),
            repair("Gadget", &["c"]),
        ];
        let requests = stream::iter(requests.map(Ok::<_, Infallible>)).chain(stream::pending());
        let (serve, served) = watch::channel(BTreeSet::new());
        let ready = move |kind: SyncKind| {
            let mut served = served.clone();
            async move {
                let is_served = served.wait_for(|served| served.contains(&kind)).await;
                is_served.map(drop).expect("more may be served");
            }
            .boxed()
        };
        let mut passed = Box::pin(hold_back(requests, ready));
        let next = passed.next().now_or_never();
        assert!(next.is_none(), "neither kind is served: {next:?}");
        serve.send_modify(|served| served.extend([kind("Gadget")]));
        let next = passed.next().await;
        assert_eq!(next, Some(Ok(subscribe("Gadget", &[]))));
        serve.send_modify(|served| served.extend([kind("Widget")]));
        let next = passed.next().await;
        assert_eq!(next, Some(Ok(subscribe("Widget", &["b"]))));
    }
}
