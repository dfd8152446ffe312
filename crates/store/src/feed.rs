//! The recent events in memory, shared by all watchers.
//!
//! There are no queues per watcher. The main ring holds the last events in
//! order, within a budget; a topic holds those of one scope that somebody
//! watches. A watcher is a cursor on a topic. The committer
//! appends an event once per topic that contains it and wakes the topic's
//! watchers; whoever falls behind the ring reads the log instead.
//!
//! Invariants:
//! - A topic's ring is the main ring, filtered by the topic's scope.
//! - Every event of the scope after `floor` is in the ring.
//! - Events enter after the index shows them, so that nobody who saw an event
//!   can then read an older state.

mod notifier;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use self::notifier::Notifier;
use crate::{
    event::Event,
    key::{Key, Scope},
    object::Object,
    revision::{Revision, Row},
};

/// How much history to keep in memory for watchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimits {
    /// At most this many events.
    pub events: usize,
    /// At most about this many bytes, counting each body twice, since an
    /// event's encoded form may be kept with it.
    pub bytes: usize,
}

pub(crate) struct Feed {
    limits: RingLimits,
    main: Mutex<Main>,
    /// Topics by the prefix of their scope, everything excepted.
    topics: RwLock<HashMap<Box<str>, Arc<Topic>>>,
    everything: Arc<Topic>,
    /// All events up to here are in the rings.
    published: AtomicU64,
    notifier: Notifier,
}

/// The events of one scope.
pub(crate) struct Topic {
    scope: Scope,
    ring: RwLock<Ring>,
    /// Changes with every publication.
    signal: watch::Sender<Signal>,
    /// Whether the notifier has yet to announce something.
    queued: AtomicBool,
    /// Until when the notifier leaves the watchers alone.
    rest_until: Mutex<Option<Instant>>,
}

/// What a topic's watchers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// There may be more events.
    Open,
    /// There will be no more.
    Closed,
}

/// What a topic has for a cursor.
pub(crate) enum Next {
    Events(Vec<Arc<Event>>),
    /// Nothing new.
    Nothing,
    /// The ring begins after the cursor.
    Behind,
}

#[derive(Default)]
struct Main {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    floor: Revision,
}

struct Ring {
    events: VecDeque<Arc<Event>>,
    floor: Revision,
}

// === impl RingLimits ===

impl Default for RingLimits {
    fn default() -> Self {
        Self {
            events: 16_384,
            bytes: 32 << 20,
        }
    }
}

impl RingLimits {
    pub(crate) fn allow(&self, events: usize, bytes: usize) -> bool {
        events <= self.events && bytes <= self.bytes
    }
}

// === impl Feed ===

impl Feed {
    /// A feed without events whose history ended at `revision`.
    pub(crate) fn new(limits: RingLimits, revision: Revision) -> Self {
        let main = Main {
            floor: revision,
            ..Main::default()
        };
        let everything = Topic::new(Scope::everything(), VecDeque::new(), revision);
        Self {
            limits,
            main: Mutex::new(main),
            topics: RwLock::default(),
            everything: Arc::new(everything),
            published: AtomicU64::new(revision.get()),
            notifier: Notifier::default(),
        }
    }

    /// All events up to here are in the rings.
    pub(crate) fn published(&self) -> Revision {
        Revision::new(self.published.load(Ordering::Acquire))
    }

    /// Moves the published revision when revisions passed without an event.
    pub(crate) fn advance(&self, revision: Revision) {
        self.published.fetch_max(revision.get(), Ordering::AcqRel);
    }

    /// Appends events, which are in order and after all earlier ones, and
    /// wakes who watches them.
    pub(crate) fn publish(&self, events: &[Arc<Event>]) {
        #[cfg(feature = "sabotage")]
        let events = &crate::embedded::sabotage::forget(events);
        let Some(last) = events.last() else { return };
        let revision = last.revision();
        // Held throughout, so that a topic is made before or after, never amid.
        let topics = self.topics.read();
        let touched = by_topic(&topics, events);
        let mut main = self.main.lock();
        main.bytes += events.iter().map(|event| event.cost()).sum::<usize>();
        main.events.extend(events.iter().cloned());
        // All at once in each topic: a watcher that saw one event of a revision
        // must have seen them all.
        self.everything.append(events);
        for (topic, events) in &touched {
            topic.append(events);
        }
        self.evict(&mut main, &topics);
        drop(main);
        self.published.store(revision.get(), Ordering::Release);
        let touched = touched.iter().map(|(topic, _)| *topic);
        self.notifier.notify(touched.chain([&self.everything]));
    }

    fn evict(&self, main: &mut Main, topics: &HashMap<Box<str>, Arc<Topic>>) {
        while !self.limits.allow(main.events.len(), main.bytes) {
            let Some(oldest) = main.events.pop_front() else {
                break;
            };
            main.bytes -= oldest.cost();
            main.floor = oldest.revision();
            self.everything.evict(&oldest);
            for topic in topics_of(topics, oldest.key()) {
                topic.evict(&oldest);
            }
        }
    }

    /// The topic of a scope, made on first use, and the signal of its changes.
    ///
    /// `last_change` gives a revision after which nothing in the scope has
    /// changed, so that a quiet scope is not thought to have lost events.
    pub(crate) fn subscribe(
        &self,
        scope: &Scope,
        last_change: impl FnOnce() -> Revision,
    ) -> (Arc<Topic>, watch::Receiver<Signal>) {
        let subscribed = |topic: &Arc<Topic>| (Arc::clone(topic), topic.signal.subscribe());
        let Some(prefix) = scope.prefix() else {
            return subscribed(&self.everything);
        };
        // Subscribed under the lock, or `release` could drop the topic between.
        if let Some(topic) = self.topics.read().get(prefix) {
            return subscribed(topic);
        }
        let mut topics = self.topics.write();
        let main = self.main.lock();
        let made = topics.entry(prefix.into()).or_insert_with(|| {
            let inside = |event: &&Arc<Event>| scope.contains(event.key());
            let events = main.events.iter().filter(inside).cloned().collect();
            // Asked for under the locks: what is published later is in the ring.
            let floor = main.floor.min(last_change());
            Arc::new(Topic::new(scope.clone(), events, floor))
        });
        subscribed(made)
    }

    /// Drops a topic that nobody watches any more.
    pub(crate) fn release(&self, topic: &Arc<Topic>) {
        let Some(prefix) = topic.scope.prefix() else {
            return;
        };
        let mut topics = self.topics.write();
        if topic.signal.receiver_count() == 0 {
            topics.remove(prefix);
        }
    }

    /// How many watch.
    pub(crate) fn watchers(&self) -> usize {
        let topics = self.topics.read();
        let topics = topics.values().chain([&self.everything]);
        topics.map(|topic| topic.signal.receiver_count()).sum()
    }

    /// A version that an event in memory holds.
    pub(crate) fn find(&self, key: &Key, row: Row) -> Option<Arc<Object>> {
        let main = self.main.lock();
        let revision = row.revision();
        let at = main
            .events
            .partition_point(|event| event.revision() < revision);
        let same = main.events.iter().skip(at);
        let mut same = same.take_while(|event| event.revision() == revision);
        let event = same.find(|event| event.key() == key && !event.is_delete())?;
        Some(Arc::clone(event.object()))
    }

    /// Tells all watchers that no more events will come.
    pub(crate) fn close(&self) {
        let topics = self.topics.read();
        for topic in topics.values().chain([&self.everything]) {
            topic.signal.send_replace(Signal::Closed);
        }
    }
}

// === impl Ring ===

impl Ring {
    /// The place of the first event after `cursor`, found from the end, where most cursors are.
    fn after(&self, cursor: Revision) -> usize {
        let seen = |event: &Arc<Event>| event.revision() <= cursor;
        let len = self.events.len();
        let mut step = 1;
        while step <= len && !seen(&self.events[len - step]) {
            step *= 2;
        }
        let from = len.saturating_sub(step);
        let (mut low, mut high) = (from, len - step / 2);
        while low < high {
            let middle = low.midpoint(high);
            match seen(&self.events[middle]) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// The topics that contain a key.
fn topics_of<'a>(
    topics: &'a HashMap<Box<str>, Arc<Topic>>,
    key: &Key,
) -> impl Iterator<Item = &'a Arc<Topic>> {
    (1..=4).filter_map(|parts| topics.get(key.prefix(parts)))
}

/// The events of each topic, in order.
fn by_topic<'a>(
    topics: &'a HashMap<Box<str>, Arc<Topic>>,
    events: &[Arc<Event>],
) -> Vec<(&'a Arc<Topic>, Vec<Arc<Event>>)> {
    let mut places = HashMap::new();
    let mut touched = Vec::new();
    for event in events {
        for topic in topics_of(topics, event.key()) {
            let place = *places.entry(Arc::as_ptr(topic)).or_insert(touched.len());
            if place == touched.len() {
                touched.push((topic, Vec::new()));
            }
            touched[place].1.push(Arc::clone(event));
        }
    }
    touched
}

// === impl Topic ===

impl Topic {
    fn new(scope: Scope, events: VecDeque<Arc<Event>>, floor: Revision) -> Self {
        Self {
            scope,
            ring: RwLock::new(Ring { events, floor }),
            signal: watch::Sender::new(Signal::Open),
            queued: AtomicBool::new(false),
            rest_until: Mutex::new(None),
        }
    }

    /// Wakes all watchers, to look for themselves.
    fn announce(&self) {
        self.signal.send_modify(|_| {});
    }

    fn append(&self, events: &[Arc<Event>]) {
        self.ring.write().events.extend(events.iter().cloned());
    }

    fn evict(&self, event: &Arc<Event>) {
        let mut ring = self.ring.write();
        if ring
            .events
            .front()
            .is_some_and(|front| Arc::ptr_eq(front, event))
        {
            ring.events.pop_front();
        }
        ring.floor = ring.floor.max(event.revision());
    }

    /// About `max` events after `cursor`; a revision is never split.
    pub(crate) fn next(&self, cursor: Revision, max: usize) -> Next {
        let ring = self.ring.read();
        if cursor < ring.floor {
            return Next::Behind;
        }
        let start = ring.after(cursor);
        let mut end = start.saturating_add(max.max(1)).min(ring.events.len());
        if start == end {
            return Next::Nothing;
        }
        let last = ring.events[end - 1].revision();
        while ring
            .events
            .get(end)
            .is_some_and(|event| event.revision() == last)
        {
            end += 1;
        }
        Next::Events(ring.events.range(start..end).cloned().collect())
    }

    /// Whether a cursor has seen all that the topic holds.
    pub(crate) fn caught_up(&self, cursor: Revision) -> bool {
        let ring = self.ring.read();
        let newest = ring
            .events
            .back()
            .map_or(ring.floor, |event| event.revision());
        newest <= cursor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::Change,
        header::Header,
        key::Collection,
        object::{Identity, Object},
    };

    fn event(revision: u64) -> Arc<Event> {
        let collection = Collection::new("t", "g/things").expect("legal");
        let identity = Identity {
            key: collection.key("", "one").expect("legal"),
            row: Row::new(Revision::new(revision), 0),
            created: Revision::new(1),
            tag: 0,
        };
        let object = Object::new(identity, Header::default(), Box::default());
        Arc::new(Event::new(Change::Put {
            object: Arc::new(object),
            previous: None,
        }))
    }

    #[test]
    fn a_cursor_is_found_wherever_it_is() {
        for len in 0..20 {
            // Two events of each even revision.
            let events: VecDeque<_> = (0..len).map(|place| event(place / 2 * 2)).collect();
            let floor = Revision::new(0);
            let ring = Ring { events, floor };
            for cursor in (0..22).map(Revision::new) {
                let expected = ring.events.partition_point(|one| one.revision() <= cursor);
                assert_eq!(ring.after(cursor), expected, "{len} {cursor}");
            }
        }
    }
}
