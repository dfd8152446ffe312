//! What opened or holds each gate of a policy: which zone, release and verdict. Pure.

use serde_json::{Value, json};

use super::shown::number;
use super::told::{Evidence, Member, Stage, State, Told};
use crate::table::whole_seconds;

/// Of each stage so much of the evidence is shown.
const SHOWN: usize = 6;

/// Of all stages.
pub(super) fn text(told: &Told) -> String {
    let mut text = match told.state() {
        State::Complete => format!("nothing holds {}; {}\n", told.policy, told.headline()),
        State::Moving
        | State::Waiting
        | State::Paused
        | State::Stopped
        | State::RolledBack
        | State::Diverged => {
            format!("{}: {}\n", told.policy, told.headline())
        }
    };
    for problem in &told.problems {
        text.push_str(&format!("problem: {problem}\n"));
    }
    for stage in &told.stages {
        text.push_str(&format!("\n{}\n", title(stage)));
        for waiting in &stage.waiting {
            let reason = &waiting.reason;
            text.push_str(&format!("  holds it: {} ({reason})\n", waiting.message));
        }
        for line in evidence(told, &stage.name) {
            text.push_str(&format!("  {line}\n"));
        }
    }
    if let (false, Some(next)) = (told.is_over(), &told.next) {
        let next = whole_seconds(next);
        text.push_str(&format!("\ntime may change that at {next}\n"));
    }
    text
}

/// `stage rest: at release 1, completed 1`.
fn title(stage: &Stage) -> String {
    let at = match stage.release {
        Some(release) => format!("at release {release}"),
        None => "no release yet".to_owned(),
    };
    let done = match stage.completed {
        Some(completed) => format!(", completed {completed}"),
        None => String::new(),
    };
    format!("stage {}: {at}{done}; {}", stage.name, stage.zones.words())
}

/// What moved a stage on, the newest last.
fn evidence(told: &Told, stage: &str) -> Vec<String> {
    let of_stage = told.evidence.iter().filter(|one| one.stage == stage);
    let of_stage: Vec<&Evidence> = of_stage.collect();
    let skipped = of_stage.len().saturating_sub(SHOWN);
    let shown = of_stage[skipped..].iter().map(|one| line(one));
    let before = (skipped > 0).then(|| format!("… {skipped} earlier; -o json has them"));
    before.into_iter().chain(shown).collect()
}

/// `2026-03-01T12:00:00Z admitted eu-[1-3] to 2, by: … (digest 12ab)`.
fn line(one: &Evidence) -> String {
    let zones = match (one.zones.as_str(), one.more) {
        ("", _) => String::new(),
        (zones, 0) => format!(" {zones}"),
        (zones, more) => format!(" {zones} and {more} more"),
    };
    let digest = match one.digest.as_str() {
        "" => String::new(),
        digest => format!(" (digest {digest})"),
    };
    format!(
        "{} {}{zones}: release {}; {}{digest}",
        whole_seconds(&one.at),
        one.advance.to_lowercase(),
        one.release,
        one.because
    )
}

/// Of one zone.
pub(super) fn zone(told: &Told, stage: &Stage, member: &Member) -> String {
    let Member {
        zone,
        state,
        release,
        ..
    } = member;
    let mut lines = vec![format!(
        "{zone}: {state} at release {} of {}, in stage {}, which is at release {}",
        number(*release),
        told.policy,
        stage.name,
        number(stage.release)
    )];
    if let Some(link) = &member.link {
        let word = match link.connected {
            true => "connected",
            false if state == "diverged" => "diverged",
            false => "offline",
        };
        let since = whole_seconds(&link.since);
        lines.push(format!("  link: {word} since {since}"));
    }
    if let Some(phase) = &member.phase {
        let since = member
            .since
            .as_deref()
            .map_or_else(|| "-".to_owned(), whole_seconds);
        lines.push(format!("  admission: {phase}; {state} since {since}"));
    }
    if let Some(places) = member.overrides.as_ref().filter(|all| !all.is_empty()) {
        let places: Vec<String> = places.iter().map(ToString::to_string).collect();
        lines.push(format!("  overrides that apply: {}", places.join(", ")));
    }
    if let Some(report) = &member.report {
        let detail = report
            .since
            .as_deref()
            .map(|since| format!("since {}", whole_seconds(since)));
        let detail = detail.unwrap_or_else(|| report.reason.clone());
        lines.push(match &report.at {
            Some(at) => format!("  says of release {at}: {}: {detail}", report.state),
            None => format!("  not heard since it connected: {detail}"),
        });
    }
    if member.held {
        let until = member.held_until.clone();
        let until = until.unwrap_or_else(|| format!("it is resumed with --zone {zone}"));
        lines.push(format!("  held until {until}"));
    }
    // What it says itself is said once.
    let said = member.report.as_ref().map(|report| report.reason.as_str());
    if !member.reason.is_empty() && state != "current" && said != Some(&member.reason) {
        lines.push(format!("  why: {}", member.reason));
    }
    let own = format!("{zone}: ");
    let waiting = stage.waiting.iter();
    let waiting = waiting.filter(|one| state != "current" && !one.message.starts_with(&own));
    lines.extend(waiting.map(|one| format!("  its stage: {} ({})", one.message, one.reason)));
    let about = |one: &&Evidence| one.stage == stage.name && names(&one.zones, zone);
    let evidence = told.evidence.iter().filter(about);
    lines.extend(evidence.map(|one| format!("  {}", line(one))));
    lines.push(String::new());
    lines.join("\n")
}

/// Whether a zone is among a set.
fn names(set: &str, zone: &str) -> bool {
    let names = deltaplane_propagation::stages::sets::read(set);
    names.is_some_and(|names| names.contains(zone))
}

/// The parts of the answer that are about it.
pub(super) fn json(answer: &Value) -> Value {
    let stages = answer["stages"].as_array().into_iter().flatten();
    let stages = stages.map(|stage| {
        let evidence = answer["evidence"].as_array().into_iter().flatten();
        let evidence = evidence.filter(|one| one["stage"] == stage["name"]);
        let mut stage = stage.clone();
        stage["evidence"] = evidence.cloned().collect();
        stage
    });
    json!({
        "policy": answer["policy"],
        "release": answer["release"],
        "propagated": answer["propagated"],
        "reason": answer["reason"],
        "message": answer["message"],
        "stages": stages.collect::<Vec<_>>(),
        "problems": answer["problems"],
        "approvals": answer["approvals"],
        "next": answer["next"],
    })
}
