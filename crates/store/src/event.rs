//! What changed, as watchers see it.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::{key::Key, object::Object, revision::Revision};

/// One change of one object, shared by all who watch it.
#[derive(Debug)]
pub struct Event {
    change: Change,
    encoded: OnceLock<Bytes>,
    /// What readers found out about it, by what each of them looks for.
    findings: Mutex<Vec<Finding>>,
}

/// What a reader found out, and what it looked for.
type Finding = (u64, Arc<dyn Any + Send + Sync>);

/// More findings of one event are not kept.
const MAX_FINDINGS: usize = 4;

/// What a change did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was created (no previous version) or replaced.
    Put {
        /// The object as it became.
        object: Arc<Object>,
        /// The version that it replaced.
        previous: Option<Arc<Object>>,
    },
    /// The object was deleted.
    Delete {
        /// The final content, at the deletion's revision.
        object: Arc<Object>,
        /// The last version before the deletion.
        previous: Arc<Object>,
    },
}

// === impl Event ===

impl Event {
    /// An event that nobody has encoded yet.
    #[must_use]
    pub fn new(change: Change) -> Self {
        Self {
            change,
            encoded: OnceLock::new(),
            findings: Mutex::default(),
        }
    }

    /// The revision of the transaction that made the change.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.object().revision()
    }

    /// The changed object's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.object().key()
    }

    /// What changed.
    #[must_use]
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// The object as it became, or the final object of a deletion.
    #[must_use]
    pub fn object(&self) -> &Arc<Object> {
        match &self.change {
            Change::Put { object, .. } | Change::Delete { object, .. } => object,
        }
    }

    /// The version before the change.
    #[must_use]
    pub fn previous(&self) -> Option<&Arc<Object>> {
        match &self.change {
            Change::Put { previous, .. } => previous.as_ref(),
            Change::Delete { previous, .. } => Some(previous),
        }
    }

    /// Whether the object is gone after this event.
    #[must_use]
    pub fn is_delete(&self) -> bool {
        matches!(self.change, Change::Delete { .. })
    }

    /// The event in the encoding that most watchers want: made by the first
    /// who asks, and shared by all others.
    pub fn encoded(&self, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        self.encoded.get_or_init(|| encode(self)).clone()
    }

    /// What readers who look for `key` find out about the event: made by the
    /// first who asks, and shared by all others. Finding out may take long, and
    /// nobody waits for it: those who ask meanwhile find out for themselves. It
    /// should be small, since it is kept as long as the event.
    pub fn finding<T: Any + Send + Sync>(&self, key: u64, find: impl FnOnce(&Self) -> T) -> Arc<T> {
        if let Some(known) = known(&self.findings.lock(), key) {
            return known;
        }
        let found = Arc::new(find(self));
        let mut findings = self.findings.lock();
        if let Some(known) = known(&findings, key) {
            return known;
        }
        if findings.len() < MAX_FINDINGS {
            findings.push((key, Arc::<T>::clone(&found)));
        }
        found
    }

    /// What keeping this event costs at most, in bytes.
    pub(crate) fn cost(&self) -> usize {
        /// The structs of an event and its objects, their keys, and findings
        /// of a few hundred bytes each.
        const FIXED: usize = 2048;
        let body = self.object().bytes().len();
        let previous = self.previous().map_or(0, |previous| previous.bytes().len());
        FIXED + 2 * body + previous
    }
}

fn known<T: Any + Send + Sync>(findings: &[Finding], key: u64) -> Option<Arc<T>> {
    let (_, known) = findings.iter().find(|(of, _)| *of == key)?;
    Arc::clone(known).downcast().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::{header::Header, key::Collection, object::Identity, revision::Row};

    /// Nobody waits so long for what works.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn event() -> Event {
        let key = Collection::new("t", "things").and_then(|things| things.key("", "a"));
        let identity = Identity {
            key: key.expect("legal"),
            row: Row::new(Revision::new(1), 0),
            created: Revision::new(1),
            tag: 0,
        };
        let object = Arc::new(Object::new(identity, Header::default(), Box::default()));
        Event::new(Change::Put {
            object,
            previous: None,
        })
    }

    /// Bodies were parsed while the findings were locked.
    #[test]
    fn nobody_waits_for_what_another_reader_finds_out() {
        let event = Arc::new(event());
        let found = event.finding(1, |_| {
            let (done, others) = mpsc::channel();
            let event = Arc::clone(&event);
            std::thread::spawn(move || {
                let (same, other) = (
                    event.finding(1, |_| "second"),
                    event.finding(2, |_| "other"),
                );
                done.send((*same, *other))
            });
            let others = others.recv_timeout(PATIENCE);
            assert_eq!(others, Ok(("second", "other")));
            "first"
        });
        assert_eq!(*found, "second", "what is kept is shared");
    }

    #[test]
    fn what_one_reader_finds_out_others_need_not() {
        let event = event();
        let mut asked = 0;
        let mut find = |key: u64| {
            *event.finding(key, |_| {
                asked += 1;
                asked
            })
        };
        assert_eq!([1, 1, 2, 1, 2].map(&mut find), [1, 1, 2, 1, 2]);
        // More are found, and not kept.
        assert_eq!([3, 4, 5, 5, 1].map(&mut find), [3, 4, 5, 6, 1]);
    }
}
