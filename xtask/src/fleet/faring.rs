//! How a simulated zone says that what it holds fares, when the hub asks: ready, some time after
//! it came.
//!
//! It keeps no labels: what is asked for by labels is all that is asked for of the kind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deltaplane_runtime::Clock;
use deltaplane_sync::{
    Asked, AskedTarget, FareState, Fared, FaredPart, Fares, KindFared, ObjectName, SyncKind,
};
use futures::{Stream, stream};
use tokio::sync::watch;

use super::versions::{Held, Versions};

/// What becomes of objects in a zone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// So long after it came an object is ready.
    pub(crate) delay: Duration,
    /// Nothing ever is.
    pub(crate) fails: bool,
}

/// All that is to be said.
type Said = BTreeMap<SyncKind, BTreeMap<ObjectName, Fares>>;

/// What one connection tells.
struct Telling {
    versions: Arc<Versions>,
    asked: watch::Receiver<Option<Asked>>,
    news: watch::Receiver<u64>,
    clock: Clock,
    /// Nothing before all was told.
    told: Option<Said>,
}

/// What a zone tells, once the hub has asked: first all, then changes.
pub(super) fn telling(
    versions: &Arc<Versions>,
    asked: watch::Receiver<Option<Asked>>,
    clock: &Clock,
) -> impl Stream<Item = Fared> + Send + use<> {
    let telling = Telling {
        news: versions.news(),
        versions: versions.clone(),
        asked,
        clock: clock.clone(),
        told: None,
    };
    stream::unfold(telling, |mut telling| async move {
        let fared = telling.next().await?;
        Some((fared, telling))
    })
}

/// Since 1970.
pub(super) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

// === impl Telling ===

impl Telling {
    async fn next(&mut self) -> Option<Fared> {
        self.asked.wait_for(Option::is_some).await.ok()?;
        loop {
            self.news.borrow_and_update();
            let asked = self.asked.borrow_and_update().clone().unwrap_or_default();
            let at = milliseconds(self.clock.now());
            let (said, next) = self.said(&asked, at);
            let fared = match &self.told {
                None => Some((FaredPart::Last, all(&said))),
                Some(told) => changes(told, &said).map(|kinds| (FaredPart::Changes, kinds)),
            };
            self.told = Some(said);
            if let Some((part, kinds)) = fared {
                self.versions.witness(&kinds);
                return Some(Fared { at, part, kinds });
            }
            let ripe = async {
                match next {
                    Some(next) => self.clock.sleep(Duration::from_millis(next - at)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.news.changed() => changed.ok()?,
                changed = self.asked.changed() => changed.ok()?,
                () = ripe => {}
            }
        }
    }

    /// How all that is asked for fares now, and when something of it will fare otherwise.
    fn said(&self, asked: &Asked, now: u64) -> (Said, Option<u64>) {
        let Manner { delay, fails } = self.versions.manner();
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let mut next: Option<u64> = None;
        let mut said = Said::new();
        for target in asked.policies.iter().flat_map(|one| &one.targets) {
            let objects = said.entry(target.kind.clone()).or_default();
            for (name, Held { version, came }) in self.versions.held(&target.kind) {
                if !names(target, &name) {
                    continue;
                }
                let ripe = came.saturating_add(delay);
                let (state, since, reason) = match (fails, ripe <= now) {
                    (true, _) => (FareState::Failed, came, "it is made to fail"),
                    (false, true) => (FareState::Ready, ripe, ""),
                    (false, false) => (FareState::Waiting, came, "it came a moment ago"),
                };
                if state == FareState::Waiting {
                    next = Some(next.map_or(ripe, |next| next.min(ripe)));
                }
                let fares = Fares {
                    version: Some(version),
                    state,
                    since,
                    reason: reason.to_owned(),
                };
                objects.insert(name, fares);
            }
        }
        (said, next)
    }
}

fn names(target: &AskedTarget, name: &ObjectName) -> bool {
    target.names.is_empty()
        || target.names.contains(name.name())
        || target.names.contains(&name.to_string())
}

fn all(said: &Said) -> BTreeMap<SyncKind, KindFared> {
    let kinds = said.iter().map(|(kind, objects)| {
        let objects = objects.iter();
        let objects = objects.map(|(name, fares)| (name.clone(), Some(fares.clone())));
        let fared = KindFared {
            trouble: None,
            objects: objects.collect(),
        };
        (kind.clone(), fared)
    });
    kinds.collect()
}

fn changes(before: &Said, now: &Said) -> Option<BTreeMap<SyncKind, KindFared>> {
    let nothing = BTreeMap::new();
    let mut kinds: BTreeMap<SyncKind, KindFared> = BTreeMap::new();
    for kind in before.keys().chain(now.keys()) {
        let known = before.get(kind).unwrap_or(&nothing);
        let there = now.get(kind).unwrap_or(&nothing);
        let gone = known.keys().filter(|name| !there.contains_key(*name));
        let gone = gone.map(|name| (name.clone(), None));
        let news = there
            .iter()
            .filter(|(name, fares)| known.get(*name) != Some(*fares));
        let news = news.map(|(name, fares)| (name.clone(), Some(fares.clone())));
        let objects: BTreeMap<_, _> = gone.chain(news).collect();
        if !objects.is_empty() {
            let trouble = None;
            kinds.insert(kind.clone(), KindFared { trouble, objects });
        }
    }
    (!kinds.is_empty()).then_some(kinds)
}
