//! What a zone said, as it is kept.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, SystemTime};

use deltaplane_sync::{FareState, Fares, KindFared, ObjectName, SyncKind, Version};

/// What is known of a zone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ZoneReadiness {
    pub voice: Voice,
    pub kinds: BTreeMap<SyncKind, KindReadiness>,
}

/// Whether a zone says how things fare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Voice {
    /// It has not yet, since the hub started or since the zone was made.
    #[default]
    Silent,
    /// It is too old to.
    Mute,
    /// It said all that there is to say, and this is when something was last heard of it.
    Heard { at: SystemTime },
}

/// What is known of the objects of a kind in a zone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KindReadiness {
    /// Why nothing newer is known, if so.
    pub trouble: Option<String>,
    pub objects: BTreeMap<ObjectName, Standing>,
}

/// How an object stands in a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// What this is about; nothing if the object does not say.
    pub version: Option<Version>,
    pub state: FareState,
    /// Since when, by the hub's clock.
    pub since: SystemTime,
    pub reason: Box<str>,
    /// Since when, as the zone said.
    said: u64,
}

/// How an object stands at one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// By the hub's clock.
    Ready { since: SystemTime },
    /// Not yet, or not known.
    Waiting(String),
    /// It will not come right by waiting.
    Failed { since: SystemTime, reason: String },
    /// Nothing is there that could tell.
    NoEvidence(String),
}

// === impl ZoneReadiness ===

impl ZoneReadiness {
    pub(super) fn new(voice: Voice) -> Self {
        Self {
            voice,
            ..Self::default()
        }
    }

    pub(super) fn is_heard(&self) -> bool {
        matches!(self.voice, Voice::Heard { .. })
    }

    /// How an object stands at exactly this version.
    pub fn verdict(&self, kind: &SyncKind, name: &ObjectName, version: Version) -> Verdict {
        match self.voice {
            Voice::Mute => {
                let why = "the zone's deltaplane is too old to say how objects fare";
                return Verdict::NoEvidence(why.to_owned());
            }
            Voice::Silent => {
                return Verdict::Waiting("the zone has not said how it fares yet".to_owned());
            }
            Voice::Heard { .. } => {}
        }
        let known = self.kinds.get(kind);
        if let Some(trouble) = known.and_then(|known| known.trouble.clone()) {
            return Verdict::Waiting(trouble);
        }
        let standing = known.and_then(|known| known.objects.get(name));
        let Some(standing) = standing else {
            return Verdict::Waiting("the zone has not said how it fares yet".to_owned());
        };
        standing.verdict(version)
    }
}

// === impl KindReadiness ===

impl KindReadiness {
    /// Takes what a zone said at some time by its own clock, which is heard now, and no more than
    /// so many objects. Whether something else is known.
    pub(super) fn take(&mut self, said: KindFared, times: (u64, SystemTime), most: usize) -> bool {
        let mut changed = self.trouble != said.trouble;
        self.trouble = said.trouble;
        for (name, fares) in said.objects {
            let Some(fares) = fares else {
                changed |= self.objects.remove(&name).is_some();
                continue;
            };
            let room = self.objects.len() < most;
            let mut standing = Standing::of(fares, times);
            match self.objects.entry(name) {
                Entry::Occupied(mut before) => {
                    standing.keep_time(before.get());
                    changed |= *before.get() != standing;
                    before.insert(standing);
                }
                Entry::Vacant(vacant) if room => {
                    vacant.insert(standing);
                    changed = true;
                }
                Entry::Vacant(_) => {}
            }
        }
        changed
    }

    /// What stands as it did has stood so for as long as was known.
    pub(super) fn keep_times(&mut self, before: Option<&Self>) {
        let Some(before) = before else { return };
        for (name, standing) in &mut self.objects {
            if let Some(before) = before.objects.get(name) {
                standing.keep_time(before);
            }
        }
    }
}

// === impl Standing ===

impl Standing {
    /// How long ago it was is known by the zone's clock alone; when, by ours. On its way it only
    /// becomes later.
    fn of(fares: Fares, (at, now): (u64, SystemTime)) -> Self {
        let Fares {
            version,
            state,
            since,
            reason,
        } = fares;
        let ago = Duration::from_millis(at.saturating_sub(since));
        Self {
            version,
            state,
            since: now.checked_sub(ago).unwrap_or(now),
            reason: reason.into(),
            said: since,
        }
    }

    fn keep_time(&mut self, before: &Self) {
        let same = (before.version, before.state, before.said);
        if same == (self.version, self.state, self.said) {
            self.since = before.since;
        }
    }

    /// How it stands at exactly this version.
    pub fn verdict(&self, version: Version) -> Verdict {
        if self.version != Some(version) {
            return Verdict::Waiting(match self.version {
                Some(other) => format!("the zone speaks of version {}", other.short()),
                None => "the zone cannot say which version it has".to_owned(),
            });
        }
        let since = self.since;
        let reason = self.reason.to_string();
        match self.state {
            FareState::Ready => Verdict::Ready { since },
            FareState::Waiting => Verdict::Waiting(reason),
            FareState::Failed => Verdict::Failed { since, reason },
            FareState::NoEvidence => Verdict::NoEvidence(reason),
        }
    }
}
