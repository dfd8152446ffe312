//! What watches saw, and whether each saw every change of its scope once and in order.
//!
//! The judge is the log: all changes that any watch of whole objects saw, by revision. Whether the
//! log itself is complete is checked against the clients' answers (`log`).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use super::history::{Colour, Key, Revision, Tick, Version};
use super::log::Log;
use super::revisions::{Findings, Sighting};

/// What happened to an object, as a watch tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
    pub(crate) version: Version,
}

/// What is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) namespace: Option<u8>,
    pub(crate) name: Option<u8>,
    pub(crate) colour: Option<Colour>,
}

/// Something that a watcher was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// All there is, as of a revision: by a list, or at the beginning of a watch.
    Listed(Revision, Vec<(Key, Version)>),
    Change(Change),
    /// There is nothing more up to this revision.
    Bookmark(Revision),
    /// The history does not reach back so far: a list follows.
    Gone,
}

/// All that one watcher was told, over all its connections.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) seen: Vec<(Tick, Seen)>,
    /// It watched at least until this revision, which is in its scope.
    pub(crate) until: Revision,
    pub(crate) connections: usize,
}

/// A part of what a watcher saw: from a list to the last change before the next one.
struct Stretch<'a> {
    from: Revision,
    listed: &'a [(Key, Version)],
    until: Revision,
    changes: Vec<Change>,
}

/// Changes to show around one that is wrong.
const AROUND: usize = 3;

/// Checks one watcher against the log.
pub(crate) fn check(watched: &Watched, log: &Log) -> Findings {
    let mut findings = in_order(watched);
    if !findings.is_empty() {
        return findings;
    }
    for stretch in stretches(watched) {
        findings.extend(listed(watched, &stretch, log));
        findings.extend(complete(watched, &stretch, log));
    }
    findings
}

/// Every revision that a watcher saw, with the moment.
pub(crate) fn sightings(watched: &Watched) -> impl Iterator<Item = Sighting> {
    watched.seen.iter().filter_map(|(tick, seen)| {
        let revision = match seen {
            Seen::Listed(revision, _) | Seen::Bookmark(revision) => *revision,
            Seen::Change(change) => change.version.revision,
            Seen::Gone => return None,
        };
        Some(Sighting {
            tick: *tick,
            revision,
        })
    })
}

/// Revisions only grow, and a change comes after every bookmark before it.
fn in_order(watched: &Watched) -> Findings {
    let mut cursor = Revision(0);
    for (tick, seen) in &watched.seen {
        let (revision, fine) = match seen {
            Seen::Listed(revision, _) | Seen::Bookmark(revision) => {
                (*revision, *revision >= cursor)
            }
            Seen::Change(change) => (change.version.revision, change.version.revision > cursor),
            Seen::Gone => continue,
        };
        if !fine {
            let what = match seen {
                Seen::Change(change) => change.to_string(),
                Seen::Listed(..) | Seen::Bookmark(_) | Seen::Gone => format!("revision {revision}"),
            };
            return vec![format!(
                "{} saw {what} at {tick}, after revision {cursor}",
                watched.name
            )];
        }
        cursor = revision;
    }
    match cursor < watched.until {
        true => vec![format!(
            "{} came no further than revision {cursor}, and revision {} is in its scope",
            watched.name, watched.until
        )],
        false => Findings::new(),
    }
}

fn stretches(watched: &Watched) -> Vec<Stretch<'_>> {
    let mut stretches: Vec<Stretch<'_>> = Vec::new();
    for (_, seen) in &watched.seen {
        match (seen, stretches.last_mut()) {
            (Seen::Listed(from, listed), _) => stretches.push(Stretch {
                from: *from,
                listed,
                until: *from,
                changes: Vec::new(),
            }),
            (Seen::Change(change), Some(stretch)) => {
                stretch.until = change.version.revision;
                stretch.changes.push(*change);
            }
            (Seen::Bookmark(revision), Some(stretch)) => stretch.until = *revision,
            // Nothing is seen before the first list.
            (Seen::Change(_) | Seen::Bookmark(_), None) | (Seen::Gone, _) => {}
        }
    }
    stretches
}

/// The list that a stretch begins with is the state of its revision.
fn listed(watched: &Watched, stretch: &Stretch<'_>, log: &Log) -> Findings {
    let got: BTreeMap<Key, Version> = stretch.listed.iter().copied().collect();
    let expected = log.state(stretch.from, |key, version| {
        watched.scope.shows(key, &version)
    });
    let wrong = |key: &Key| got.get(key) != expected.get(key);
    let keys = got.keys().chain(expected.keys());
    match keys.copied().find(wrong) {
        Some(key) => vec![format!(
            "{} was given {key} as {} at revision {}, where it is {}",
            watched.name,
            shown(got.get(&key)),
            stretch.from,
            shown(expected.get(&key)),
        )],
        None => Findings::new(),
    }
}

/// The changes of a stretch are those of the log, all of them, each once.
fn complete(watched: &Watched, stretch: &Stretch<'_>, log: &Log) -> Findings {
    let expected = log.changes(watched.scope, stretch.from, stretch.until);
    let got = &stretch.changes;
    let same = got.iter().zip(&expected).take_while(|(a, b)| a == b);
    let place = same.count();
    let wrong = match (got.get(place), expected.get(place)) {
        (None, None) => return Findings::new(),
        (got, expected) => (got, expected),
    };
    let what = match wrong {
        (Some(got), Some(expected)) if got.version.revision == expected.version.revision => {
            format!("saw {got} instead of {expected}")
        }
        (Some(got), Some(expected)) if got.version.revision < expected.version.revision => {
            format!("saw {got}, which the log does not explain")
        }
        (Some(got), None) => format!("saw {got}, which the log does not explain"),
        (_, Some(expected)) => format!("did not see {expected}"),
        (None, None) => return Findings::new(),
    };
    let from = place.saturating_sub(AROUND);
    let around = got[from..].iter().take(2 * AROUND);
    let around: Vec<String> = around.map(|change| format!("\n    {change}")).collect();
    vec![format!(
        "{} {what}; it watches {}, and around this it saw{}",
        watched.name,
        watched.scope,
        around.concat()
    )]
}

fn shown(version: Option<&Version>) -> String {
    version.map_or("absent".to_owned(), Version::to_string)
}

// === impl Scope ===

impl Scope {
    pub(crate) fn contains(&self, key: Key) -> bool {
        key.inside(self.namespace) && self.name.is_none_or(|name| name == key.name)
    }

    /// Whether a list or watch shows this object.
    pub(crate) fn shows(&self, key: Key, version: &Version) -> bool {
        let colour = version.last.colour();
        self.contains(key) && self.colour.is_none_or(|wanted| wanted == colour)
    }

    /// A change as this scope's watch tells it: what comes to match is added, what no longer does
    /// is deleted, at the revision of the change and as it was before.
    pub(crate) fn view(&self, change: Change, before: Option<Version>) -> Option<Change> {
        let Change { key, version, kind } = change;
        let was = before.filter(|before| self.shows(key, before));
        let is = kind != Kind::Deleted && self.shows(key, &version);
        let (kind, version) = match (was, is) {
            (None, false) => return None,
            (None, true) => (Kind::Added, version),
            (Some(_), true) => (Kind::Modified, version),
            (Some(before), false) => {
                let revision = version.revision;
                (Kind::Deleted, Version { revision, ..before })
            }
        };
        Some(Change { kind, key, version })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace {
            Some(namespace) => write!(f, "torture-{namespace}")?,
            None => f.write_str("all namespaces")?,
        }
        if let Some(name) = self.name {
            write!(f, ", map-{name}")?;
        }
        if let Some(colour) = self.colour {
            write!(f, ", {}", colour.label())?;
        }
        Ok(())
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Added => "ADDED",
            Kind::Modified => "MODIFIED",
            Kind::Deleted => "DELETED",
        };
        write!(f, "{kind} {} ({})", self.key, self.version)
    }
}
