//! All changes of a run by revision, put together from what watches saw, and whether they agree
//! with what clients were told.
//!
//! Pure. With the log every answer can be checked by itself: a write is in it at its revision with
//! its content, a list is its state at the list's revision, and nothing is in it that no client
//! asked for.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use super::history::{Answer, Call, History, Key, Listing, Op, OpId, Revision, Version};
use super::revisions::Findings;
use super::watches::{Change, Kind, Scope, Seen, Watched};

/// Changes by revision.
#[derive(Debug, Default)]
pub(crate) struct Log {
    changes: BTreeMap<Revision, Change>,
    by_key: BTreeMap<Key, Vec<Change>>,
}

/// Changes to show before one that is wrong.
const BEFORE: usize = 4;

// === impl Log ===

impl Log {
    /// From all watches that show changes as they are, and what they disagree about.
    pub(crate) fn new(watched: &[Watched]) -> (Self, Findings) {
        let mut log = Self::default();
        let mut findings = Findings::new();
        let whole = watched.iter().filter(|one| one.scope.colour.is_none());
        for (watched, seen) in whole.flat_map(|one| one.seen.iter().map(move |seen| (one, seen))) {
            let Seen::Change(change) = &seen.1 else {
                continue;
            };
            let known = log.changes.insert(change.version.revision, *change);
            if known.is_some_and(|known| known != *change) {
                let known = known.map(|known| known.to_string()).unwrap_or_default();
                findings.push(format!(
                    "{} saw {change} where another watch saw {known}",
                    watched.name
                ));
            }
        }
        for change in log.changes.values() {
            log.by_key.entry(change.key).or_default().push(*change);
        }
        (log, findings)
    }

    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// An object as it was when a revision was the newest.
    fn at(&self, key: Key, revision: Revision) -> Option<Version> {
        let changes = self.by_key.get(&key)?;
        let count = changes.partition_point(|change| change.version.revision <= revision);
        let last = changes[..count].last()?;
        (last.kind != Kind::Deleted).then_some(last.version)
    }

    /// What there was at a revision, as far as it is shown.
    pub(crate) fn state(
        &self,
        revision: Revision,
        shown: impl Fn(Key, Version) -> bool,
    ) -> BTreeMap<Key, Version> {
        let keys = self.by_key.keys().copied();
        let objects = keys.filter_map(|key| Some((key, self.at(key, revision)?)));
        objects
            .filter(|(key, version)| shown(*key, *version))
            .collect()
    }

    /// The changes after one revision and up to another, as a scope's watch tells them.
    pub(crate) fn changes(&self, scope: Scope, after: Revision, until: Revision) -> Vec<Change> {
        if until <= after {
            return Vec::new();
        }
        let range = (Bound::Excluded(after), Bound::Included(until));
        let changes = self.changes.range(range).map(|(_, change)| *change);
        let inside = changes.filter(|change| scope.contains(change.key));
        let viewed = inside.filter_map(|change| {
            let before = Revision(change.version.revision.0.saturating_sub(1));
            scope.view(change, self.at(change.key, before))
        });
        viewed.collect()
    }

    /// The last changes of a key up to a revision, for people.
    fn story(&self, key: Key, revision: Revision) -> String {
        let changes = self.by_key.get(&key).map_or(&[][..], Vec::as_slice);
        let count = changes.partition_point(|change| change.version.revision <= revision);
        let last = &changes[count.saturating_sub(BEFORE)..count];
        let lines: Vec<String> = last
            .iter()
            .map(|change| format!("\n    {change}"))
            .collect();
        format!("; the watches' log of it until then:{}", lines.concat())
    }
}

/// Checks the log by itself and against what clients were told.
pub(crate) fn check(log: &Log, history: &History) -> Findings {
    let mut findings = transitions(log);
    findings.extend(authors(log, history));
    findings.extend(deletions(log, history));
    findings.extend(history.ops.iter().filter_map(|op| acknowledged(log, op)));
    findings.extend(history.lists.iter().filter_map(|list| snapshot(log, list)));
    findings
}

/// What is added was not there, what is changed or deleted was, and is the same object.
fn transitions(log: &Log) -> Findings {
    let mut findings = Findings::new();
    for changes in log.by_key.values() {
        let mut before: Option<Version> = None;
        for change in changes {
            let Change { kind, version, .. } = change;
            let fits = match (kind, before) {
                (Kind::Added, before) => before.is_none(),
                (Kind::Modified, before) => before.is_some_and(|before| before.uid == version.uid),
                (Kind::Deleted, before) => before.is_some_and(|before| {
                    let revision = version.revision;
                    Version { revision, ..before } == *version
                }),
            };
            if !fits {
                findings.push(format!(
                    "{change} does not follow from what was seen before: a change in between is missing{}",
                    log.story(change.key, version.revision)
                ));
            }
            before = (*kind != Kind::Deleted).then_some(*version);
        }
    }
    findings
}

/// Everything was asked for, by a request that was not refused, and was done once.
fn authors(log: &Log, history: &History) -> Findings {
    let ops: HashMap<OpId, &Op> = history.ops.iter().map(|op| (op.id, op)).collect();
    let mut seen = BTreeSet::new();
    let mut findings = Findings::new();
    let written = log.changes.values();
    for change in written.filter(|change| change.kind != Kind::Deleted) {
        let author = change.version.last;
        let wrong = match ops.get(&author).map(|op| op.answer()) {
            None => Some("which nobody wrote"),
            Some(None) => None,
            Some(Some(Answer::Object(version))) if version == change.version => None,
            Some(Some(Answer::Object(_))) => Some("which is not what its writer was told"),
            Some(Some(Answer::Deleted | Answer::Absent | Answer::Exists | Answer::Conflict)) => {
                Some("whose writer was told that it was refused")
            }
        };
        let twice = (!seen.insert(author)).then_some("which was written before");
        if let Some(wrong) = wrong.or(twice) {
            let op = ops.get(&author);
            let op = op.map_or(String::new(), |op| format!("\n    {op}"));
            findings.push(format!("watches saw {change}, {wrong}{op}"));
        }
    }
    findings
}

/// As many deletions as were acknowledged, and no more than were asked for.
fn deletions(log: &Log, history: &History) -> Findings {
    let mut findings = Findings::new();
    for key in Key::all() {
        let deletes = history
            .ops
            .iter()
            .filter(|op| op.key == key && matches!(op.call, Call::Delete { .. }));
        let (mut sure, mut possible) = (0, 0);
        for op in deletes {
            sure += usize::from(op.answer() == Some(Answer::Deleted));
            possible += usize::from(op.answer().is_none_or(|answer| answer == Answer::Deleted));
        }
        let changes = log.by_key.get(&key).map_or(&[][..], Vec::as_slice);
        let deleted = changes.iter().filter(|change| change.kind == Kind::Deleted);
        let deleted = deleted.count();
        if !(sure..=possible).contains(&deleted) {
            findings.push(format!(
                "{key}: watches saw {deleted} deletions; {sure} were acknowledged and at most {possible} can have happened"
            ));
        }
    }
    findings
}

/// What a client was told of one object is in the log.
fn acknowledged(log: &Log, op: &Op) -> Option<String> {
    let Some(Answer::Object(version)) = op.answer() else {
        return None;
    };
    let logged = log.changes.get(&version.revision);
    let same = |change: &Change| {
        let kind = match op.call {
            Call::Create => change.kind == Kind::Added,
            Call::Replace { .. } | Call::Patch => change.kind == Kind::Modified,
            Call::Read => change.kind != Kind::Deleted,
            Call::Delete { .. } => false,
        };
        kind && change.key == op.key && change.version == version
    };
    if logged.is_some_and(same) {
        return None;
    }
    let what = match op.call.writes() {
        true => "an acknowledged write is missing",
        false => "what was read never was",
    };
    let instead = logged.map_or("nothing".to_owned(), Change::to_string);
    Some(format!(
        "{what}: {}: {op}\n    at that revision is {instead}{}",
        op.key,
        log.story(op.key, version.revision)
    ))
}

/// A list is the state of one revision.
fn snapshot(log: &Log, list: &Listing) -> Option<String> {
    let expected = log.state(list.revision, |key, _| key.inside(list.namespace));
    let got: BTreeMap<Key, Version> = list.objects.iter().copied().collect();
    let wrong = |key: &Key| got.get(key) != expected.get(key);
    let key = got.keys().chain(expected.keys()).copied().find(wrong)?;
    let shown = |version: Option<&Version>| version.map_or("absent".to_owned(), Version::to_string);
    Some(format!(
        "a list of revision {} (from {} to {}) shows {key} as {}, and it is {}{}",
        list.revision,
        list.began,
        list.ended,
        shown(got.get(&key)),
        shown(expected.get(&key)),
        log.story(key, list.revision)
    ))
}
