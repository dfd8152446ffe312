//! All checks of a run, and its figures.

use std::fmt;

use super::history::{History, Key, Op};
use super::linear::{self, Failure, Stuck};
use super::log::{self, Log};
use super::revisions;
use super::trial::Record;
use super::watches::{self, Seen};

/// What is wrong, and which check says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) check: Check,
    pub(crate) text: String,
}

/// The checks, in the order of what they tell most clearly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The hub's process.
    Process,
    /// Each answer by itself.
    Answers,
    Revisions,
    /// Answers against what watches saw.
    Log,
    Watches,
    Linearizability,
}

/// What a run amounts to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    ops: usize,
    ok: usize,
    refused: usize,
    unknown: usize,
    lists: usize,
    changes: usize,
    events: usize,
    resumed: usize,
    relisted: usize,
}

/// Operations to show before the place where no order was found.
const BEFORE: usize = 5;

/// Judges a run.
pub(crate) fn judge(record: &Record) -> (Figures, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut add = |check, texts: Vec<String>| {
        let found = texts.into_iter().map(|text| Finding { check, text });
        findings.extend(found);
    };
    let Record {
        history, watched, ..
    } = record;
    add(Check::Process, record.broken.iter().cloned().collect());
    add(Check::Answers, history.oddities.clone());
    let sightings: Vec<_> = watched.iter().flat_map(watches::sightings).collect();
    add(Check::Revisions, revisions::check(history, &sightings));
    let (log, disagreements) = Log::new(watched);
    add(Check::Watches, disagreements);
    // A run that was broken off has not shown all that it did.
    if record.broken.is_none() {
        add(Check::Log, log::check(&log, history));
        let checked = watched.iter().flat_map(|one| watches::check(one, &log));
        add(Check::Watches, checked.collect());
    }
    let linear = Key::all().filter_map(|key| linearizable(key, history));
    add(Check::Linearizability, linear.collect());
    (Figures::new(record, &log), findings)
}

fn linearizable(key: Key, history: &History) -> Option<String> {
    match linear::check(&history.of(key)) {
        Ok(()) => None,
        Err(Failure::GaveUp) => Some(format!("{key}: the search for an order was given up")),
        Err(Failure::None(Stuck { ordered, next })) => {
            let from = ordered.len().saturating_sub(BEFORE);
            let lines = |ops: &[Op]| -> String {
                let lines = ops.iter().map(|op| format!("\n    {op}"));
                lines.collect()
            };
            Some(format!(
                "{key} is not linearizable: after{}\n  none of these can come next:{}",
                lines(&ordered[from..]),
                lines(&next)
            ))
        }
    }
}

// === impl Check ===

impl Check {
    pub(crate) const ALL: [Self; 6] = [
        Self::Process,
        Self::Answers,
        Self::Revisions,
        Self::Log,
        Self::Watches,
        Self::Linearizability,
    ];
}

// === impl Figures ===

impl Figures {
    fn new(record: &Record, log: &Log) -> Self {
        let Record {
            history, watched, ..
        } = record;
        let mut figures = Self {
            ops: history.ops.len(),
            lists: history.lists.len(),
            changes: log.len(),
            ..Self::default()
        };
        for op in &history.ops {
            match op.is_refused() {
                Some(true) => figures.refused += 1,
                Some(false) => figures.ok += 1,
                None => figures.unknown += 1,
            }
        }
        for watched in watched {
            figures.resumed += watched.connections.saturating_sub(1);
            for (_, seen) in &watched.seen {
                match seen {
                    Seen::Change(_) => figures.events += 1,
                    Seen::Gone => figures.relisted += 1,
                    Seen::Listed(..) | Seen::Bookmark(_) => {}
                }
            }
        }
        figures
    }

    /// The sum of several runs.
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            ops,
            ok,
            refused,
            unknown,
            lists,
            changes,
            events,
            resumed,
            relisted,
        } = other;
        self.ops += ops;
        self.ok += ok;
        self.refused += refused;
        self.unknown += unknown;
        self.lists += lists;
        self.changes += changes;
        self.events += events;
        self.resumed += resumed;
        self.relisted += relisted;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ops,
            ok,
            refused,
            unknown,
            lists,
            changes,
            events,
            resumed,
            relisted,
        } = self;
        write!(
            f,
            "{ops} ops ({ok} ok, {refused} refused, {unknown} unknown), {lists} lists, \
             {changes} changes, {events} watch events ({resumed} resumed, {relisted} relisted)"
        )
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::Answers => "answers",
            Self::Revisions => "revisions",
            Self::Log => "log",
            Self::Watches => "watches",
            Self::Linearizability => "linearizability",
        })
    }
}
