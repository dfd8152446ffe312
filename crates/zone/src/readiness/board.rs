//! What is known of what the hub asks for, and what of it the hub was not told yet.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_propagation::readiness::{Judgement, State};
use deltaplane_sync::{
    FareState, Fared, FaredPart, Fares, KindFared, ObjectName, SyncKind, Version, redact_readiness,
};
use deltaplane_sync_grpc::cut;

/// Invariant: of kinds that are not here nothing is taken.
#[derive(Debug, Default)]
pub(super) struct Board {
    kinds: BTreeMap<SyncKind, Kind>,
    /// What the hub was not told: these objects, and what keeps their kinds from being followed.
    unsaid: BTreeMap<SyncKind, BTreeSet<ObjectName>>,
    /// The last question all of whose kinds are here.
    follows: u64,
}

#[derive(Debug, Default)]
struct Kind {
    /// Whether all that is there was judged by what is asked now.
    seen: bool,
    trouble: Option<String>,
    objects: BTreeMap<ObjectName, Fares>,
}

/// What was found of an object.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) version: Option<Version>,
    pub(super) judgement: Judgement,
    /// Since when it is so at least, as the object itself proves.
    pub(super) proven: Option<u64>,
    pub(super) now: u64,
}

/// So many objects are told of in one message.
const TOGETHER: usize = 1000;
/// Reasons are for people.
const MAX_REASON: usize = 256;

// === impl Board ===

// Each says whether there is something to tell, or to wait no longer for.
impl Board {
    /// All that is asked in a question is here.
    pub(super) fn follows(&mut self, number: u64) -> bool {
        std::mem::replace(&mut self.follows, number) != number
    }

    /// A kind is asked for, or is asked for in another way: what is known of it stays until it is
    /// judged again.
    pub(super) fn begin(&mut self, kind: &SyncKind) -> bool {
        self.kinds.entry(kind.clone()).or_default().seen = false;
        false
    }

    /// A kind is not asked for any more.
    pub(super) fn end(&mut self, kind: &SyncKind) -> bool {
        let cleared = self.clear(kind);
        let known = self.kinds.remove(kind);
        let trouble = known.is_some_and(|known| known.trouble.is_some());
        if trouble {
            self.unsaid.entry(kind.clone()).or_default();
        }
        cleared || trouble
    }

    /// Nothing is known of the objects of a kind.
    pub(super) fn clear(&mut self, kind: &SyncKind) -> bool {
        self.retain(kind, |_| false)
    }

    /// Something keeps a kind from being followed, or does no more.
    pub(super) fn trouble(&mut self, kind: &SyncKind, trouble: Option<String>) -> bool {
        let Some(known) = self.kinds.get_mut(kind) else {
            return false;
        };
        let trouble = trouble.map(|why| cut(why, MAX_REASON));
        if known.trouble == trouble {
            return false;
        }
        known.trouble = trouble;
        self.unsaid.entry(kind.clone()).or_default();
        true
    }

    /// All objects of a kind were judged; those that are not among these are gone.
    pub(super) fn seen(&mut self, kind: &SyncKind, there: &BTreeSet<ObjectName>) -> bool {
        self.retain(kind, |name| there.contains(name));
        if let Some(known) = self.kinds.get_mut(kind) {
            known.seen = true;
        }
        true
    }

    fn retain(&mut self, kind: &SyncKind, stays: impl Fn(&ObjectName) -> bool) -> bool {
        let Some(known) = self.kinds.get_mut(kind) else {
            return false;
        };
        let gone = known.objects.extract_if(.., |name, _| !stays(name));
        let gone: Vec<ObjectName> = gone.map(|(name, _)| name).collect();
        if gone.is_empty() {
            return false;
        }
        self.unsaid.entry(kind.clone()).or_default().extend(gone);
        true
    }

    /// An object is gone, or not asked for.
    pub(super) fn forget(&mut self, kind: &SyncKind, name: &ObjectName) -> bool {
        let known = self.kinds.get_mut(kind);
        let known = known.and_then(|known| known.objects.remove(name));
        if known.is_none() {
            return false;
        }
        self.say(kind, name);
        true
    }

    /// An object was judged.
    pub(super) fn set(&mut self, kind: &SyncKind, name: &ObjectName, found: Found) -> bool {
        let Some(known) = self.kinds.get_mut(kind) else {
            return false;
        };
        let before = known.objects.get(name);
        let mut fares = found.fares(before);
        fares.reason = redact_readiness(kind, fares.state, fares.reason);
        if before == Some(&fares) {
            return false;
        }
        known.objects.insert(name.clone(), fares);
        self.say(kind, name);
        true
    }

    fn say(&mut self, kind: &SyncKind, name: &ObjectName) {
        let unsaid = self.unsaid.entry(kind.clone()).or_default();
        unsaid.insert(name.clone());
    }

    /// Whether all that a question asks is known, or will not be soon.
    pub(super) fn is_settled(&self, number: u64) -> bool {
        let mut kinds = self.kinds.values();
        self.follows >= number && kinds.all(|kind| kind.seen || kind.trouble.is_some())
    }

    /// All that is known, in parts, at least one. The hub was told it then.
    pub(super) fn whole(&mut self, at: u64) -> Vec<Fared> {
        self.unsaid.clear();
        let mut parts = vec![Fared {
            at,
            part: FaredPart::More,
            ..Fared::default()
        }];
        let mut count = 0;
        for (kind, known) in &self.kinds {
            let said = || KindFared {
                trouble: known.trouble.clone(),
                ..KindFared::default()
            };
            let last = parts.last_mut().expect("one from the beginning");
            last.kinds.insert(kind.clone(), said());
            for (name, fares) in &known.objects {
                if count == TOGETHER {
                    count = 0;
                    parts.push(Fared {
                        at,
                        part: FaredPart::More,
                        ..Fared::default()
                    });
                }
                count += 1;
                let last = parts.last_mut().expect("one from the beginning");
                let said = last.kinds.entry(kind.clone()).or_insert_with(said);
                said.objects.insert(name.clone(), Some(fares.clone()));
            }
        }
        if let Some(last) = parts.last_mut() {
            last.part = FaredPart::Last;
        }
        parts
    }

    /// What the hub was not told, or some of it if that is much. It was told it then.
    pub(super) fn changes(&mut self, at: u64) -> Option<Fared> {
        let mut room = TOGETHER;
        let mut kinds = BTreeMap::new();
        while room > 0 {
            let Some((kind, mut names)) = self.unsaid.pop_first() else {
                break;
            };
            let known = self.kinds.get(&kind);
            let mut said = KindFared {
                trouble: known.and_then(|known| known.trouble.clone()),
                ..KindFared::default()
            };
            while let Some(name) = names.pop_first() {
                let fares = known.and_then(|known| known.objects.get(&name)).cloned();
                said.objects.insert(name, fares);
                room -= 1;
                if room == 0 {
                    break;
                }
            }
            if !names.is_empty() {
                self.unsaid.insert(kind.clone(), names);
            }
            kinds.insert(kind, said);
        }
        (!kinds.is_empty()).then_some(Fared {
            at,
            part: FaredPart::Changes,
            kinds,
        })
    }
}

// === impl Found ===

impl Found {
    /// Since when it is so: for as long as was known, or since now. What an object proves counts
    /// only when nothing was known of it, as after a start.
    fn fares(self, before: Option<&Fares>) -> Fares {
        let state = match self.judgement.state {
            State::Ready => FareState::Ready,
            State::Waiting => FareState::Waiting,
            State::Failed => FareState::Failed,
            State::NoEvidence => FareState::NoEvidence,
        };
        let since = match before {
            Some(before) if (before.version, before.state) == (self.version, state) => before.since,
            Some(_) => self.now,
            None => self.proven.unwrap_or(self.now).min(self.now),
        };
        Fares {
            version: self.version,
            state,
            since,
            reason: cut(self.judgement.reason, MAX_REASON),
        }
    }
}

#[cfg(test)]
mod tests;
