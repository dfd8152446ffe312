//! Items and collections as values of expressions. Nothing is copied; what an admission changes
//! is one flag of the item and three counts of the collection.

use std::fmt;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use deltaplane_expr::host::{Host, HostList};
use deltaplane_expr::value::Map;
use deltaplane_expr::{Decl, Fault, Timestamp, Type, Value};
use serde_json::{Map as Object, Value as Json};

use crate::subject::{Progress, Standing, Subject};

/// Names under which host functions ask. No expression can ask for them: fields are the object's.
pub(crate) const UPDATED: &str = "@updated";
pub(crate) const IN_FLIGHT: &str = "@inFlight";
pub(crate) const UPDATING: &str = "@updating";
pub(crate) const SINCE: &str = "@since";
pub(crate) const NOW: &str = "@now";
pub(crate) const KEY: &str = "@key";
pub(crate) const PROVEN: &str = "@proven";

/// An item in a pass.
pub(crate) struct Seen<'a> {
    pub(crate) subject: &'a Subject<'a>,
    object: &'a Object<String, Json>,
    decl: &'a Decl,
    now: Timestamp,
    /// In this pass.
    admitted: AtomicBool,
}

/// All items in a pass.
pub(crate) struct Collection<'a> {
    pub(crate) seen: &'a [Seen<'a>],
    in_flight: AtomicU64,
    updating: AtomicU64,
    proven: AtomicU64,
}

// === impl Seen ===

impl<'a> Seen<'a> {
    pub(crate) fn new(subject: &'a Subject<'a>, decl: &'a Decl, now: Timestamp) -> Self {
        static NOTHING: OnceLock<Object<String, Json>> = OnceLock::new();
        Self {
            subject,
            object: subject
                .object
                .unwrap_or_else(|| NOTHING.get_or_init(Object::new)),
            decl,
            now,
            admitted: AtomicBool::new(false),
        }
    }

    /// Reads the beginning of a field of the object.
    pub(crate) fn fetch(&self, field: &str) {
        let Some(Json::Object(inner)) = self.object.get(field) else {
            return;
        };
        if let Some((key, value)) = inner.iter().next() {
            black_box(key.as_bytes().first());
            black_box(value.as_str().and_then(|text| text.as_bytes().first()));
        }
    }

    /// How it stands, with what this pass has decided.
    pub(crate) fn standing(&self) -> Standing {
        if self.admitted.load(Ordering::Relaxed) {
            let progress = Progress::UnderWay;
            return Standing::Updating { progress };
        }
        self.subject.standing
    }
}

impl fmt::Debug for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.subject.key, self.standing())
    }
}

impl Host for Seen<'_> {
    fn ty(&self) -> Type {
        self.decl.ty().clone()
    }

    fn field(&self, name: &str) -> Result<Option<Value<'_>>, Box<Fault>> {
        let standing = self.standing();
        Ok(match name {
            UPDATED => Some(Value::Bool(standing.is_updated())),
            IN_FLIGHT => Some(Value::Bool(standing.is_in_flight())),
            UPDATING => Some(Value::Bool(standing.is_updating())),
            SINCE => standing.ready_since().map(Value::Timestamp),
            NOW => Some(Value::Timestamp(self.now)),
            KEY => Some(Value::borrowed(self.subject.key)),
            _ => None,
        })
    }

    fn object(&self) -> Option<Map<'_>> {
        Some(Map::Json(self.object, self.decl))
    }
}

// === impl Collection ===

impl<'a> Collection<'a> {
    pub(crate) fn new(seen: &'a [Seen<'a>]) -> Self {
        let count = |wanted: fn(Standing) -> bool| {
            let all = seen.iter().filter(|one| wanted(one.standing()));
            AtomicU64::new(all.count() as u64)
        };
        Self {
            seen,
            in_flight: count(Standing::is_in_flight),
            updating: count(Standing::is_updating),
            proven: count(|standing| standing.is_updated() && standing.ready_since().is_some()),
        }
    }

    /// Admits an item to the target.
    pub(crate) fn admit(&self, index: usize) {
        let seen = &self.seen[index];
        let standing = seen.standing();
        if !standing.is_in_flight() {
            self.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        if !standing.is_updating() {
            self.updating.fetch_add(1, Ordering::Relaxed);
        }
        seen.admitted.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Collection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} items", self.seen.len())
    }
}

impl HostList for Collection<'_> {
    fn len(&self) -> usize {
        self.seen.len()
    }

    fn get(&self, index: usize) -> Option<Value<'_>> {
        self.seen.get(index).map(|seen| Value::Host(seen))
    }

    fn counted(&self, what: &str) -> Option<u64> {
        match what {
            IN_FLIGHT => Some(self.in_flight.load(Ordering::Relaxed)),
            UPDATING => Some(self.updating.load(Ordering::Relaxed)),
            PROVEN => Some(self.proven.load(Ordering::Relaxed)),
            _ => None,
        }
    }
}
