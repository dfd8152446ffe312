//! What comes from the hub: subscribing to it, and taking it.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_border::{
    Receiving, ServedKind, Subscriptions, definitions, namespaces, served_kind,
};
use deltaplane_fleet::synced_kinds;
use deltaplane_runtime::Stop;
use deltaplane_sync::{
    DeletionBudget, Known, OWN, REPAIR, Receiver, Request, SenderRole, SyncKind,
};
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::Welcome;
use deltaplane_sync_grpc::{
    MAX_MESSAGE, decode_response, encode_request, receiving, size_of_subscription,
};
use futures::future::ready;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{Agent, LinkError, Lost, OUTBOX, with_session};
use crate::kinds_file::{Kind, Kinds};
use crate::link::Client;

/// A synced kind that the zone serves under another plural.
struct Misnamed {
    kind: SyncKind,
    plural: String,
    /// It was not followed under another plural before.
    is_new: bool,
}

// === impl Agent ===

impl Agent {
    /// Takes what the hub has for us.
    pub(super) async fn down(
        &self,
        client: Client,
        welcome: &Welcome,
        stop: &Stop,
    ) -> Result<(), LinkError> {
        let mut client = self.membership.link().compress_received(client);
        let knows = |what: &str| welcome.features.iter().any(|feature| feature == what);
        let (knows_own, repairs) = (knows(OWN), knows(REPAIR));
        let (out, requests) = mpsc::channel(OUTBOX);
        let requests = receiving(requests).map(move |request: Request| match knows_own {
            true => encode_request(&request),
            false => encode_request(&request.without_own()),
        });
        let requests = with_session(requests, welcome.session);
        let answer = client.hub_to_zone(requests).await?;
        let lost = Lost::default();
        let responses = lost.until(answer.into_inner()).map(decode_response);
        let unsaved = Mutex::new(None);
        // Written down before anything is done about it.
        let responses = responses.scan((), |(), response| {
            let followed = match &response {
                Ok(response) => self.followed.lock().follow(response),
                Err(_) => Ok(()),
            };
            let followed = followed.map_err(|error| *unsaved.lock() = Some(error));
            ready(followed.ok().map(|()| response))
        });
        let ledger = self.kept.lock().deleted.clone();
        let mut receiver = Receiver::new(SenderRole::Hub, budget(welcome), ledger);
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
                    self.target.drift.settle(&kind, beyond);
                    kept.resume.insert(kind, (position.clone(), beyond.clone()));
                }
                None => {
                    kept.resume.remove(&kind);
                }
            }
        }
        drop(kept);
        received?;
        let unsaved = unsaved.into_inner();
        unsaved.map_or(Ok(()), Err)?;
        self.followed.lock().save()?;
        Err(lost.why())
    }

    /// Subscribes to what crosses, the kinds to come included.
    async fn subscribe(&self, to: Subscriptions, subscribed: &Mutex<BTreeSet<SyncKind>>) {
        let mut begun = BTreeSet::from([synced_kinds(), definitions(), namespaces()]);
        for kind in [synced_kinds(), definitions(), namespaces()] {
            self.subscribe_to(&to, kind, subscribed).await;
        }
        let mut kinds = self.target.kinds();
        // SyncedKinds that have the plural of another kind: nothing of theirs crosses.
        let mut misnamed = BTreeMap::new();
        // Side by side: a kind that cannot be listed, such as one that a cluster does not let us
        // read, must not keep the others waiting.
        let mut subscribing = FuturesUnordered::new();
        for (kind, plural) in self.current_plurals(&kinds.borrow()) {
            self.target.mirror.learn(&kind, &plural);
            if begun.insert(kind.clone()) {
                let subscribe = self.subscribe_to(&to, kind, subscribed);
                subscribing.push(subscribe.map(|()| None).boxed());
            }
        }
        loop {
            let now = kinds.borrow_and_update().clone();
            for kind in now.values().filter(|kind| kind.comes()) {
                let (kind, plural) = (kind.synced.kind.clone(), kind.synced.plural.clone());
                if misnamed.get(&kind) == Some(&plural) {
                    continue;
                }
                let is_new = begun.insert(kind.clone());
                // A SyncedKind that had a wrong name is made again with the right one.
                let is_renamed = self.remembered.lock().kinds().get(&kind) != Some(&plural);
                if is_new {
                    subscribing.push(self.begin(&to, kind, plural, subscribed).boxed());
                } else if is_renamed {
                    subscribing.push(self.rename(kind, plural).boxed());
                }
            }
            tokio::select! {
                Some(ended) = subscribing.next(), if !subscribing.is_empty() => {
                    if let Some(Misnamed { kind, plural, is_new }) = ended {
                        if is_new {
                            begun.remove(&kind);
                        }
                        misnamed.insert(kind, plural);
                    }
                }
                changed = kinds.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
            }
        }
    }

    /// Subscribes to a kind that was not known before, unless its plural is that of another kind.
    async fn begin(
        &self,
        to: &Subscriptions,
        kind: SyncKind,
        plural: String,
        subscribed: &Mutex<BTreeSet<SyncKind>>,
    ) -> Option<Misnamed> {
        if self.is_misnamed(&kind, &plural).await {
            let is_new = true;
            return Some(Misnamed {
                kind,
                plural,
                is_new,
            });
        }
        self.remember(kind.clone(), plural).await;
        self.subscribe_to(to, kind, subscribed).await;
        None
    }

    /// Writes down another plural of a kind, unless it is that of another kind.
    async fn rename(&self, kind: SyncKind, plural: String) -> Option<Misnamed> {
        if self.is_misnamed(&kind, &plural).await {
            let is_new = false;
            return Some(Misnamed {
                kind,
                plural,
                is_new,
            });
        }
        self.remember(kind, plural).await;
        None
    }

    /// Returns true if the zone serves a kind under another plural. One that is not served yet may be
    /// served under any; an API that does not say what it serves is asked again when the kind is
    /// listed.
    async fn is_misnamed(&self, kind: &SyncKind, plural: &str) -> bool {
        let served = served_kind(&self.client, kind, plural).await;
        let other = served.ok().flatten();
        let other = other.filter(|served| served.plural != plural);
        if let Some(ServedKind { plural: served, .. }) = &other {
            tracing::warn!(%kind, plural, served, "a SyncedKind has a wrong name; nothing of its kind is taken from the hub");
        }
        other.is_some()
    }

    /// The kinds that came from the hub ever, and what they are called in paths: the synced kinds
    /// know that best.
    fn current_plurals(&self, synced: &Kinds) -> BTreeMap<SyncKind, String> {
        let mut plurals = self.remembered.lock().kinds().clone();
        for Kind { synced, .. } in synced.values() {
            if let Some(plural) = plurals.get_mut(&synced.kind) {
                plural.clone_from(&synced.plural);
            }
        }
        plurals
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
        let size = size_of_subscription(&known);
        if size > MAX_MESSAGE {
            // The others can be taken.
            tracing::error!(%kind, size, limit = MAX_MESSAGE, "there are too many objects of this kind here to say which; nothing of it is taken from the hub");
            return;
        }
        to.add(kind.clone(), known).await;
        subscribed.lock().insert(kind);
        self.target.drift.subscribed();
    }

    /// Writes down that a kind comes. Nothing of it is taken before: a process that starts while
    /// the hub sends nothing would not know to say what it holds of it.
    async fn remember(&self, kind: SyncKind, plural: String) {
        let mut failures = 0_u32;
        loop {
            let written = self.remembered.lock().add(&kind, &plural);
            let Err(error) = written else {
                return;
            };
            failures += 1;
            if failures.is_power_of_two() {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, %kind, failures, "failed to save kinds.json; no object of the kind is applied until it is saved");
            }
            self.pace.rest(failures, None).await;
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
}

/// What may be deleted here, as the hub says.
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
