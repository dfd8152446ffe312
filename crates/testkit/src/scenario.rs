//! Scenarios: what happens, and what is decided, as text.
//!
//! `$ words` says what happens; `< text` lines after it belong to it. Then comes what is said of it.
//! Lines in front of the first step are remarks.
//!
//! | words | what happens |
//! |---|---|
//! | `policy` | the policy is as the text after it says (YAML: the `spec`) |
//! | `zones SET [LABEL=VALUE…] [@ack=1s] [@ready=4s]` | zones join |
//! | `leave SET`, `relabel SET LABEL=VALUE…` | zones leave, or have other labels |
//! | `release [by=NAME,…] [removes=30/100] [restores=1] [bad=SET]` | a release is made |
//! | `release [with=SET] [without=SET] …` | the same, of what it changes or adds, and takes away |
//! | `approve STAGE\|deletions RELEASE NAME` | somebody agrees |
//! | `fail SET`, `stick SET`, `refuse SET`, `unproven SET`, `recover SET` | zones change their nature |
//! | `offline SET`, `online SET`, `disable SET`, `hold SET`, `free SET` | |
//! | `pause [STAGE]`, `resume [STAGE]`, `forgive RELEASE` | |
//! | `step` | what can be decided now is |
//! | `run` | everything takes its course until nothing happens any more |
//! | `advance 10m` | everything takes its course for so long |
//! | `crash [decision\|delivery] [after=5s]` | the hub is killed and back; zones find it after a while |
//! | `status`, `where`, `size` | how stages stand, what zones have, how large the record is |
//! | `objects`, `past` | which zones have which objects; what became of releases in which stage |
//!
//! Nothing is decided but by `step`, `run` and `advance`. What is decided is said as it comes, behind
//! how long it is since everything began.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use deltaplane_expr::{Duration, Timestamp};
use deltaplane_propagation::Hold;
use deltaplane_propagation::stages::{
    Advance, Effect, Evidence, Outcome, Phase, Record, Target, sets,
};
use serde_json::json;

use crate::clock::{elapsed, seconds};
use crate::fleet::{Fleet, Lost, Made};
use crate::node::{Delays, Nature};

/// Plays a scenario, and gives it back with what is said.
///
/// # Panics
///
/// If it says what cannot be, or a rule is broken.
pub fn play(script: &str) -> String {
    let first = script.find("$ ").unwrap_or(script.len());
    let mut out = script[..first].to_owned();
    let mut stage = Stage::new();
    for step in steps(&script[first..]) {
        out.push_str(&step.text());
        let said = stage.step(&step);
        out.push_str(&said.unwrap_or_else(|wrong| panic!("$ {}: {wrong}", step.line)));
    }
    out
}

struct Step {
    line: String,
    input: Vec<String>,
}

/// What a scenario plays on.
struct Stage {
    fleet: Fleet,
    last: Option<Outcome>,
    out: String,
}

/// Nothing takes longer than this.
const LONGEST: i64 = 400 * 86_400;

type Played<T> = Result<T, String>;

fn steps(script: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in script.lines() {
        if let Some(line) = line.strip_prefix("$ ") {
            let (line, input) = (line.to_owned(), Vec::new());
            steps.push(Step { line, input });
        } else if let (Some(text), Some(step)) = (line.strip_prefix('<'), steps.last_mut()) {
            step.input
                .push(text.strip_prefix(' ').unwrap_or(text).to_owned());
        }
    }
    steps
}

// === impl Step ===

impl Step {
    fn text(&self) -> String {
        let mut text = format!("$ {}\n", self.line);
        for line in &self.input {
            text.push_str(format!("< {line}").trim_end());
            text.push('\n');
        }
        text
    }
}

// === impl Stage ===

impl Stage {
    fn new() -> Self {
        Self {
            fleet: Fleet::new(json!({})).expect("nothing is wrong with nothing"),
            last: None,
            out: String::new(),
        }
    }

    fn step(&mut self, step: &Step) -> Played<String> {
        let mut words = step.line.split(' ').filter(|word| !word.is_empty());
        let verb = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        match (verb, words.as_slice()) {
            ("status", []) => self.status(),
            ("where", []) => self.held(),
            ("past", []) => self.past(),
            ("objects", []) => self.objects(),
            ("size", []) => {
                let size = self.fleet.size();
                let _ = writeln!(self.out, "{size} bytes");
            }
            ("crash", words) => self.crash(words)?,
            ("run", []) => self.run(seconds(LONGEST), false)?,
            ("advance", [length]) => self.run(duration(length)?, true)?,
            ("step", []) => self.settle()?,
            ("policy", []) => {
                let yaml = step.input.join("\n");
                let spec = serde_saphyr::from_str(&yaml).map_err(|error| error.to_string())?;
                self.fleet.govern(spec)?;
            }
            (verb, words) => self.happen(verb, words)?,
        }
        Ok(std::mem::take(&mut self.out))
    }

    fn happen(&mut self, verb: &str, words: &[&str]) -> Played<()> {
        let fleet = &mut self.fleet;
        match (verb, words) {
            ("zones", [zones, options @ ..]) => join(fleet, zones, options)?,
            ("release", options) => drop(fleet.release(made(options)?)),
            ("approve", [stage, release, by]) => {
                let stage = Some(*stage).filter(|stage| *stage != "deletions");
                fleet.approve(stage, number(release)?, by);
            }
            ("forgive", [release]) => fleet.forgive(number(release)?)?,
            ("pause" | "resume", stage) => {
                let stages = fleet.policy.stages.iter();
                let mut stages = stages.map(|one| one.name.as_str());
                let stage = stage.first().map(|stage| {
                    let place = stages.position(|one| one == *stage);
                    place.ok_or_else(|| format!("there is no stage {stage}"))
                });
                fleet.pause(stage.transpose()?, verb == "pause");
            }
            (verb, [zones, labels @ ..]) => {
                for zone in names(zones)? {
                    touch(fleet, verb, &zone, labels)?;
                }
            }
            (verb, []) => return Err(format!("there is no {verb}")),
        }
        Ok(())
    }

    fn crash(&mut self, words: &[&str]) -> Played<()> {
        let (mut lost, mut after) = (Lost::Nothing, seconds(5));
        for word in words {
            match (*word, word.strip_prefix("after=")) {
                ("decision", _) => lost = Lost::Decision,
                ("delivery", _) => lost = Lost::Delivery,
                (_, Some(length)) => after = duration(length)?,
                (word, None) => return Err(format!("what is {word}?")),
            }
        }
        self.fleet.crash(lost, after)
    }

    /// Lets everything take its course.
    fn run(&mut self, length: Duration, whole: bool) -> Played<()> {
        let end = self.fleet.now.plus(length).ok_or("that is too long")?;
        self.settle()?;
        while let Some(at) = self.fleet.upcoming().filter(|at| *at <= end) {
            self.fleet.pass_to(at);
            self.settle()?;
        }
        if whole {
            self.fleet.pass_to(end);
            self.settle()?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Played<()> {
        let before = self.fleet.record.clone();
        let outcomes = self.fleet.settle()?;
        let mut before = &before;
        for outcome in &outcomes {
            tell(&mut self.out, self.fleet.now, before, outcome);
            before = &outcome.record;
        }
        self.last = outcomes.last().cloned();
        Ok(())
    }

    fn status(&mut self) {
        for stage in self.last.iter().flat_map(|outcome| &outcome.stages) {
            let _ = writeln!(self.out, "{stage}");
        }
        let left_out = self.last.iter().flat_map(|outcome| &outcome.left_out);
        let left_out = sets::write(left_out.map(String::as_str));
        if !left_out.is_empty() {
            let _ = writeln!(self.out, "in no stage: {left_out}");
        }
        if let Some(next) = self.last.as_ref().and_then(|outcome| outcome.next) {
            let _ = writeln!(self.out, "next at {}", elapsed(next));
        }
    }

    /// Objects that the same zones have together.
    fn objects(&mut self) {
        let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (object, zones) in self.fleet.objects() {
            alike.entry(sets::write(zones)).or_default().push(object);
        }
        for (zones, objects) in alike {
            let _ = writeln!(self.out, "{zones}: {}", objects.join(", "));
        }
    }

    /// What became of the releases that are kept, stage by stage.
    fn past(&mut self) {
        for (stage, past) in &self.fleet.record.past {
            let _ = write!(self.out, "{stage}:");
            for (word, releases) in [("completed", &past.completed), ("failed", &past.failed)] {
                let releases = releases.iter().map(u64::to_string);
                let releases: Vec<String> = releases.collect();
                if !releases.is_empty() {
                    let _ = write!(self.out, " {word} {}", releases.join(","));
                }
            }
            let _ = writeln!(self.out);
        }
    }

    fn held(&mut self) {
        for (target, zones) in self.fleet.held() {
            let target = target.map_or("nothing".to_owned(), |target| target.to_string());
            let _ = writeln!(self.out, "{target}: {}", sets::write(zones));
        }
    }
}

/// What was decided.
fn tell(out: &mut String, now: Timestamp, before: &Record, outcome: &Outcome) {
    let now = elapsed(now);
    let mut changed: BTreeMap<(&str, Target), Vec<&str>> = BTreeMap::new();
    for (zone, one) in &outcome.record.zones {
        let was = before
            .zones
            .get(zone)
            .filter(|was| was.target == one.target);
        let what = match (was.map(|was| was.phase), one.phase) {
            (None, Phase::Started) => "began with",
            (Some(Phase::Admitted | Phase::Failed), Phase::Arrived) => "arrived at",
            (Some(Phase::Arrived), Phase::Admitted) => "fell back at",
            _ => continue,
        };
        changed.entry((what, one.target)).or_default().push(zone);
    }
    for ((what, target), zones) in changed {
        let _ = writeln!(out, "{now} {} {what} {target}", sets::write(zones));
    }
    for one in news(&before.evidence, &outcome.record.evidence) {
        let _ = writeln!(
            out,
            "{now} {}: {} ({})",
            one.stage,
            advance(one),
            one.because
        );
    }
    if let Some(Effect::Rollback { failed, to }) = outcome.effect {
        let _ = writeln!(out, "{now} {failed} is rolled back to {to}");
    }
}

fn advance(one: &Evidence) -> String {
    let zones = |zones: &[String]| {
        let text = sets::write(zones.iter().map(String::as_str));
        match one.more {
            0 => text,
            more => format!("{text} and {more} more"),
        }
    };
    let release = one.release;
    match &one.advance {
        Advance::Taken => format!("takes {release}"),
        Advance::Admitted(named) => format!("lets {} into {release}", zones(named)),
        Advance::Completed => format!("has completed {release}"),
        Advance::Failed(named) => format!("fails {release} in {}", zones(named)),
        Advance::Deferred(named) => format!("waits no more for {}", zones(named)),
    }
}

/// What is new of the evidence, of which only the last is kept.
fn news<'a>(before: &[Evidence], after: &'a [Evidence]) -> &'a [Evidence] {
    let old = (0..=after.len()).rev();
    let mut old = old.filter(|old| before.ends_with(&after[..*old]));
    &after[old.next().unwrap_or(0)..]
}

fn join(fleet: &mut Fleet, zones: &str, options: &[&str]) -> Played<()> {
    let mut labels = BTreeMap::new();
    let mut delays = Delays::default();
    for option in options {
        let (key, value) = setting(option)?;
        match key {
            "@ack" => delays.ack = duration(value)?,
            "@ready" => delays.ready = duration(value)?,
            key => drop(labels.insert(key.to_owned(), value.to_owned())),
        }
    }
    for zone in names(zones)? {
        fleet.join(&zone, &labels, delays);
    }
    Ok(())
}

fn made(options: &[&str]) -> Played<Made> {
    let mut made = Made::default();
    for option in options {
        match setting(option)? {
            ("by", by) => made.authors = by.split(',').map(str::to_owned).collect(),
            ("restores", release) => made.restores = Some(number(release)?),
            ("bad", zones) => made.bad = names(zones)?,
            ("with", objects) => made.changed = names(objects)?,
            ("without", objects) => made.removed = names(objects)?,
            ("removes", removes) => {
                let (removes, of) = removes.split_once('/').ok_or("of how many?")?;
                made.removes = (number(removes)?, number(of)?);
            }
            (key, _) => return Err(format!("what is {key}?")),
        }
    }
    Ok(made)
}

/// Something happens to a zone.
fn touch(fleet: &mut Fleet, verb: &str, zone: &str, labels: &[&str]) -> Played<()> {
    match verb {
        "leave" => fleet.leave(zone),
        "fail" => fleet.turn(zone, Nature::Failing),
        "stick" => fleet.turn(zone, Nature::Stuck),
        "refuse" => fleet.turn(zone, Nature::Refusing),
        "unproven" => fleet.turn(zone, Nature::Unproven),
        "recover" => fleet.turn(zone, Nature::Healthy),
        "offline" => fleet.disconnect(zone),
        "online" => fleet.reconnect(zone),
        "disable" => fleet.disable(zone),
        "hold" => fleet.hold(zone, Hold::Held),
        "free" => fleet.hold(zone, Hold::Free),
        "relabel" => {
            for label in labels {
                let (key, value) = setting(label)?;
                fleet.relabel(zone, key, value);
            }
        }
        verb => return Err(format!("there is no {verb}")),
    }
    Ok(())
}

fn names(set: &str) -> Played<BTreeSet<String>> {
    sets::read(set).ok_or_else(|| format!("{set} names no zones"))
}

fn setting(word: &str) -> Played<(&str, &str)> {
    let found = word.split_once('=');
    found.ok_or_else(|| format!("{word} has no value"))
}

fn number(text: &str) -> Played<u64> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

fn duration(text: &str) -> Played<Duration> {
    Duration::parse(text).ok_or_else(|| format!("{text} is no span of time"))
}
