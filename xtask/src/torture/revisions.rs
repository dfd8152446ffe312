//! Whether revisions are what they must be: given out once, and never going back.
//!
//! Revisions are of the whole store, so this looks at all keys at once. A revision that somebody
//! saw, in an answer or an event, is a fact from that moment on: a write that begins later gets a
//! greater one, and a list of the newest state that begins later is not older.

use std::collections::BTreeMap;

use super::history::{Answer, History, Op, Revision, Tick, Version};

/// A revision that somebody saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sighting {
    pub(crate) tick: Tick,
    pub(crate) revision: Revision,
}

/// What is wrong, for people.
pub(crate) type Findings = Vec<String>;

/// Checks a history; `watched` is what was seen in watches.
pub(crate) fn check(history: &History, watched: &[Sighting]) -> Findings {
    let mut findings = given_once(history);
    findings.extend(never_back(history, watched));
    findings
}

/// Two objects never share a revision, nor do two contents of one.
fn given_once(history: &History) -> Findings {
    let mut writers: BTreeMap<Revision, &Op> = BTreeMap::new();
    let mut findings = Findings::new();
    for op in &history.ops {
        let Some(Version { revision, .. }) = op.wrote() else {
            continue;
        };
        if let Some(other) = writers.insert(revision, op) {
            findings.push(format!(
                "revision {revision} was given out twice:\n  {}: {other}\n  {}: {op}",
                other.key, op.key
            ));
        }
    }
    findings
}

fn never_back(history: &History, watched: &[Sighting]) -> Findings {
    let seen = sightings(history, watched);
    let known = |before: Tick| {
        let count = seen.partition_point(|sighting| sighting.tick < before);
        seen[..count].last().copied()
    };
    let mut findings = Findings::new();
    for op in &history.ops {
        if let (Some(version), Some(known)) = (op.wrote(), known(op.began))
            && version.revision <= known.revision
        {
            findings.push(format!(
                "a write went back: revision {} was seen at {} and then\n  {}: {op}",
                known.revision, known.tick, op.key
            ));
        }
    }
    for list in history.lists.iter().filter(|list| list.live) {
        if let Some(known) = known(list.began)
            && list.revision < known.revision
        {
            findings.push(format!(
                "a list went back: revision {} was seen at {}, and a list from {} to {} is of revision {}",
                known.revision, known.tick, list.began, list.ended, list.revision
            ));
        }
    }
    findings
}

/// The greatest revision that was seen until each moment.
fn sightings(history: &History, watched: &[Sighting]) -> Vec<Sighting> {
    let answers = history.ops.iter().filter_map(|op| match op.ended {
        Some((tick, Answer::Object(Version { revision, .. }))) => Some(Sighting { tick, revision }),
        Some((_, Answer::Deleted | Answer::Absent | Answer::Exists | Answer::Conflict)) | None => {
            None
        }
    });
    let lists = history.lists.iter().map(|list| Sighting {
        tick: list.ended,
        revision: list.revision,
    });
    let mut all: Vec<Sighting> = answers
        .chain(lists)
        .chain(watched.iter().copied())
        .collect();
    all.sort_unstable();
    let mut greatest = Revision(0);
    for sighting in &mut all {
        greatest = greatest.max(sighting.revision);
        sighting.revision = greatest;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::history::{Listing, notation};

    /// Lists are `began-ended=revision`, sightings in watches `tick=revision`.
    fn check(ops: &str, lists: &str, watched: &str, findings: &[&str]) {
        let pair = |text: &str| {
            let (tick, revision) = text.split_once('=').unwrap();
            (tick.to_owned(), Revision(revision.parse().unwrap()))
        };
        let list = |text: &str| {
            let (span, revision) = pair(text);
            let (began, ended) = span.split_once('-').unwrap();
            Listing {
                client: 0,
                namespace: None,
                began: Tick(began.parse().unwrap()),
                ended: Tick(ended.parse().unwrap()),
                revision,
                live: true,
                objects: Vec::new(),
            }
        };
        let history = History {
            ops: notation::ops(ops),
            lists: lists.split_whitespace().map(list).collect(),
            oddities: Vec::new(),
        };
        let watched: Vec<Sighting> = watched
            .split_whitespace()
            .map(|text| {
                let (tick, revision) = pair(text);
                let tick = Tick(tick.parse().unwrap());
                Sighting { tick, revision }
            })
            .collect();
        let found = super::check(&history, &watched);
        let starts: Vec<&str> = found
            .iter()
            .map(|finding| finding.split(':').next().unwrap())
            .collect();
        assert_eq!(starts, findings, "{found:#?}");
    }

    #[test]
    fn growing_revisions_are_fine() {
        check(
            "0-1 1 create 5:1\n 0-3 2 create 4:2\n 2-5 3 replace 7:3\n 2-4 4 replace 8:4",
            "2-3=5 6-7=8 6-7=9",
            "1=4 5=7",
            &[],
        );
    }

    #[test]
    fn a_revision_is_given_out_once() {
        check(
            "0-1 1 create 5:1\n 0-1 2 create 5:2",
            "",
            "",
            &["revision 5 was given out twice"],
        );
    }

    #[test]
    fn writes_do_not_go_back() {
        let back = &["a write went back"];
        check("0-1 1 create 5:1\n 2-3 2 create 4:2", "", "", back);
        check("2-3 2 create 4:2", "0-1=4", "", back);
        check("2-3 2 create 4:2", "", "1=9", back);
        check("2-3 2 create 4:2", "", "2=9", &[]);
    }

    #[test]
    fn lists_do_not_go_back() {
        let back = &["a list went back"];
        check("0-1 1 create 5:1", "2-3=4", "", back);
        check("", "0-1=4 2-3=3", "", back);
        check("", "2-3=4", "1=5", back);
        check("", "1-3=4", "1=5", &[]);
    }
}
