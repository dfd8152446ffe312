//! The rollout of a policy as people read it: a screen of it, and a line for each change. Pure.

use super::super::shown::{Listed, ROWS, bar, shortened};
use super::told::{Counts, Member, Stage, State, Told};
use crate::table::{Table, whole_seconds};

/// The states of zones, what needs attention first.
const ORDER: [&str; 11] = [
    "failed", "refused", "diverged", "updating", "starting", "offline", "pending", "held",
    "deferred", "ahead", "current",
];

/// A screen of it.
pub(super) fn screen(told: &Told, listed: Listed) -> String {
    let mut text = match told.release {
        Some(release) => format!("{}: PropagationPolicy, release {release}\n", told.policy),
        None => format!("{}: PropagationPolicy\n", told.policy),
    };
    text.push_str(&format!("{}\n", told.headline()));
    for line in notes(told) {
        text.push_str(&format!("{line}\n"));
    }
    if !told.stages.is_empty() {
        text.push_str(&format!("\n{}", stages(told)));
    }
    if told.members().next().is_some() {
        text.push_str(&format!("\n{}", zones(told, listed)));
    }
    text
}

/// What else there is to know of the whole.
fn notes(told: &Told) -> Vec<String> {
    let mut notes = Vec::new();
    if told.state() != State::Complete {
        notes.push(shortened(&told.message));
    }
    let problems = told.problems.iter();
    notes.extend(problems.map(|problem| format!("problem: {}", shortened(problem))));
    if told.paused && told.state() != State::Paused {
        notes.push("it is paused: the next release will not move".to_owned());
    }
    if let (false, Some(next)) = (told.is_over(), &told.next) {
        let next = whole_seconds(next);
        notes.push(format!("time may change that at {next}"));
    }
    notes
}

fn stages(told: &Told) -> String {
    let mut table = Table::new(&["STAGE", "RELEASE", "COMPLETED", "PROGRESS", "WAITS FOR"]);
    for stage in &told.stages {
        let Counts { total, .. } = stage.zones;
        let progress = format!(
            "{} {}",
            bar(total, &parts(stage.zones)),
            stage.zones.words()
        );
        let waits = stage.waiting.first().map(|one| shortened(&one.message));
        table.add(vec![
            stage.name.clone(),
            number(stage.release),
            number(stage.completed),
            progress,
            waits.unwrap_or_default(),
        ]);
    }
    table.text()
}

fn parts(counts: Counts) -> [(u64, char); 3] {
    [
        (counts.current + counts.ahead, '#'),
        (counts.updating + counts.starting, '>'),
        (counts.failed, '!'),
    ]
}

pub(super) fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn zones(told: &Told, listed: Listed) -> String {
    let mut sorted: Vec<(&Stage, &Member)> = told.members().collect();
    // By stage and name among those that stand alike.
    sorted.sort_by_key(|(_, member)| ORDER.iter().position(|state| *state == member.state));
    let shown = match listed {
        Listed::Screen => sorted.len().min(ROWS),
        Listed::All => sorted.len(),
    };
    let mut table = Table::new(&["ZONE", "STAGE", "RELEASE", "STATE", "WHY"]);
    for (stage, member) in &sorted[..shown] {
        table.add(vec![
            member.zone.clone(),
            stage.name.clone(),
            number(member.release),
            member.state.clone(),
            shortened(&reason(stage, member)),
        ]);
    }
    let mut text = table.text();
    if shown < sorted.len() {
        let more = sorted.len() - shown;
        text.push_str(&format!("and {more} more; --all lists them\n"));
    }
    text
}

/// Why a zone is not further, in a few words.
pub(super) fn reason(stage: &Stage, member: &Member) -> String {
    let offline = member.link.as_ref().filter(|link| !link.connected);
    match (member.state.as_str(), offline) {
        ("current" | "ahead", _) => String::new(),
        (_, Some(_)) if !member.reason.is_empty() => member.reason.clone(),
        (_, Some(link)) if link.since == "never" => "never joined".to_owned(),
        (_, Some(link)) => format!("offline since {}", whole_seconds(&link.since)),
        ("held", None) => match &member.held_until {
            Some(until) => format!("until {until}"),
            None => format!("until it is resumed with --zone {}", member.zone),
        },
        (_, None) if !member.reason.is_empty() => member.reason.clone(),
        ("pending", None) => {
            let first = stage.waiting.first();
            first.map_or_else(String::new, |one| one.message.clone())
        }
        (_, None) => String::new(),
    }
}

/// What is another than before, a line each. Without a before it is all of it.
pub(super) fn changes(before: Option<&Told>, now: &Told) -> Vec<String> {
    let mut lines = Vec::new();
    for (stage, member) in now.members() {
        let was = before.and_then(|before| find(before, &member.zone));
        let line = line(stage, member);
        let is_news = was.as_ref() != Some(&line);
        // Those that are where they should be are news only if they were not.
        if is_news && (was.is_some() || member.state != "current") {
            lines.push(format!("{}: {line}", member.zone));
        }
    }
    let gone = before.into_iter().flat_map(Told::members);
    let gone = gone.filter(|(_, was)| find(now, &was.zone).is_none());
    lines.extend(gone.map(|(_, was)| format!("{}: gone", was.zone)));
    for stage in &now.stages {
        let was = before.and_then(|before| before.stage(&stage.name).ok().map(stage_line));
        let line = stage_line(stage);
        if was.as_ref() != Some(&line) {
            lines.push(line);
        }
    }
    if before.map(head) != Some(head(now)) {
        lines.extend(head(now));
    }
    lines
}

fn head(told: &Told) -> Vec<String> {
    let mut head = vec![told.headline()];
    head.extend(notes(told));
    head
}

fn find(told: &Told, zone: &str) -> Option<String> {
    let mut members = told.members();
    let (stage, member) = members.find(|(_, member)| member.zone == zone)?;
    Some(line(stage, member))
}

/// `updating at release 2: …`.
fn line(stage: &Stage, member: &Member) -> String {
    let mut line = member.state.clone();
    if let Some(release) = member.release {
        line.push_str(&format!(" at release {release}"));
    }
    let reason = reason(stage, member);
    if !reason.is_empty() {
        line.push_str(&format!(": {}", shortened(&reason)));
    }
    line
}

/// `stage canary: release 2: 1 current; completed 2`.
fn stage_line(stage: &Stage) -> String {
    let mut line = format!(
        "stage {}: release {}: {}",
        stage.name,
        number(stage.release),
        stage.zones.words()
    );
    if let Some(completed) = stage.completed {
        line.push_str(&format!("; completed {completed}"));
    }
    line
}
