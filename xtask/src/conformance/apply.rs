//! structured-merge-diff's own tests, replayed on our engine.
//!
//! A copy of that Go module, outside the tree, is instrumented with a few files of ours
//! (`xtask/go/smd`): its tests then write down every call with inputs and outputs, and which calls
//! form one operation sequence. Here each call is made again, and must have the same outcome.
//!
//! A case is an operation sequence, or one kind of call of one test function.

pub(crate) mod fuzz;
mod replay;
mod schema;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Report;
use replay::{Outcome, Replayer};
use schema::Schemas;

const KNOWN: [(&str, &str); 0] = [];

/// The calls of one sequence, and the test that it belongs to.
#[derive(Default)]
struct Sequence {
    test: String,
    calls: Vec<Value>,
    /// Why the test itself ended early, if it did.
    failure: String,
}

pub(crate) fn run() -> Result<Report> {
    let mut report = Report::new("apply", &KNOWN);
    let recording = source::recording()?;
    let lines = recording
        .lines()
        .map(|line| serde_json::from_str(line).context("reading the recording"));
    let lines: Vec<Value> = lines.collect::<Result<_>>()?;
    let schemas = Schemas::collect(&lines)?;
    let replayer = Replayer::new(&schemas, &lines);
    sequences(&mut report, &replayer, &lines);
    single_calls(&mut report, &replayer, &lines);
    Ok(report)
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn number(line: &Value) -> u64 {
    line.get("sequence")
        .and_then(Value::as_u64)
        .unwrap_or_default()
}

/// Every update and apply, in sequences as the tests make them.
fn sequences(report: &mut Report, replayer: &Replayer<'_>, lines: &[Value]) {
    let mut sequences: BTreeMap<u64, Sequence> = BTreeMap::new();
    for line in lines {
        match text(line, "op") {
            "end" => {
                sequences.entry(number(line)).or_default().failure = text(line, "err").to_owned()
            }
            // Outside of the tests' harness a test function makes one sequence.
            "update" | "apply" => sequences.entry(number(line)).or_default().push(line),
            // What a sequence refuses to begin with is its outcome.
            "validate" if number(line) > 0 && !text(line, "err").is_empty() => {
                sequences.entry(number(line)).or_default().push(line);
            }
            _ => {}
        }
    }
    let mut seen = BTreeSet::new();
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for sequence in sequences.into_values() {
        // Some tests run a sequence many times, to catch dependence on the order of a map.
        if !seen.insert(sequence.content()) {
            continue;
        }
        let count = numbers.entry(sequence.test.clone()).or_default();
        *count += 1;
        let name = format!("sequence {}#{count}", sequence.test);
        match replay(replayer, &sequence.calls) {
            Outcome::Same => report.case(&name, Ok(())),
            Outcome::Differs(why) => report.case(&name, Err(why)),
            Outcome::Unusable(why) => report.skip(&why),
        }
    }
    println!(
        "apply: {} different operation sequences in {} tests",
        seen.len(),
        numbers.len()
    );
}

fn replay(replayer: &Replayer<'_>, calls: &[Value]) -> Outcome {
    for (index, call) in calls.iter().enumerate() {
        match replayer.replay(call) {
            Outcome::Same => {}
            Outcome::Differs(why) => return Outcome::Differs(format!("operation {index}: {why}")),
            unusable @ Outcome::Unusable(_) => return unusable,
        }
    }
    Outcome::Same
}

// === impl Sequence ===

impl Sequence {
    fn push(&mut self, line: &Value) {
        self.test = text(line, "test").to_owned();
        self.calls.push(line.clone());
    }

    /// What the sequence does, without what differs from run to run.
    fn content(&self) -> String {
        let mut calls = self.calls.clone();
        for call in calls.iter_mut().filter_map(Value::as_object_mut) {
            for key in ["sequence", "conversions"] {
                call.remove(key);
            }
        }
        format!("{}{}", Value::Array(calls), self.failure)
    }
}

/// Every other call, by test function and kind.
fn single_calls(report: &mut Report, replayer: &Replayer<'_>, lines: &[Value]) {
    let mut groups: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
    for line in lines {
        if !matches!(
            text(line, "op"),
            "end" | "schema" | "update" | "apply" | "conversion"
        ) {
            groups
                .entry((text(line, "test"), text(line, "op")))
                .or_default()
                .push(line);
        }
    }
    for ((test, op), calls) in groups {
        let mut outcome = Ok(());
        let mut usable = false;
        for call in calls {
            match replayer.replay(call) {
                Outcome::Same => usable = true,
                Outcome::Differs(why) => (usable, outcome) = (true, outcome.and(Err(why))),
                Outcome::Unusable(why) => report.skip(&why),
            }
        }
        if usable {
            report.case(&format!("{op} in {test}"), outcome);
        }
    }
}
