//! What a policy released, and where it is. Pure.

use deltaplane_api::time::{Time, human_duration};
use serde_json::{Value, json};

use super::super::shown::shortened;
use super::told::{Changes, Release, Settles, Told};
use crate::hunks;
use crate::table::{Table, counted};

/// The newest first.
pub(super) fn text(told: &Told, now: Time) -> String {
    if told.releases.is_empty() {
        return format!("{} has released nothing yet\n", told.policy);
    }
    let mut table = Table::new(&[
        "RELEASE", "AGE", "DIGEST", "BY", "CHANGES", "OBJECTS", "PASSED", "ZONES",
    ]);
    for release in told.releases.iter().rev() {
        let made = release.created_at.as_deref();
        let made: Option<Time> = made.and_then(|made| made.parse().ok());
        let age = made.map(|made| human_duration(now.seconds_since(made)));
        table.add(vec![
            release.release.to_string(),
            age.unwrap_or_else(|| "-".to_owned()),
            release.digest.clone().unwrap_or_default(),
            by(told, release),
            changes(release),
            super::shown::number(release.objects),
            passed(release),
            match release.zones.count {
                0 => "-".to_owned(),
                count => format!("{count}: {}", shortened(&release.zones.names)),
            },
        ]);
    }
    table.text()
}

/// Those who wrote what is new in it, and those whose approval counted.
fn by(told: &Told, release: &Release) -> String {
    let writers = release.writers.as_ref().unwrap_or(&release.authors);
    let mut said = match writers.as_slice() {
        [] => "-".to_owned(),
        authors => authors.join(", "),
    };
    let approved = told.approvals.iter();
    let mut approved: Vec<&str> = approved
        .filter(|one| one.release == release.release && one.counts != Some(false))
        .map(|one| one.by.as_str())
        .collect();
    approved.sort_unstable();
    approved.dedup();
    if !approved.is_empty() {
        said.push_str(&format!("; approved by {}", approved.join(", ")));
    }
    said
}

fn changes(release: &Release) -> String {
    let Some(changes) = release.changes else {
        return "-".to_owned();
    };
    let Changes {
        added,
        changed,
        removed,
        departing,
        overrides,
    } = changes;
    let all = [
        (added, "added"),
        (changed, "changed"),
        (removed, "removed"),
        (departing, "leaving the policy"),
    ];
    let some = all.into_iter().filter(|(count, _)| *count > 0);
    let words = some.map(|(count, word)| format!("{count} {word}"));
    let overrides = overrides.then(|| "overrides".to_owned());
    let settles = release.settles.as_ref().map(settles);
    let words: Vec<String> = words.chain(overrides).chain(settles).collect();
    let words = match words.is_empty() {
        true => "nothing changed".to_owned(),
        false => words.join(", "),
    };
    match release.restores {
        Some(restores) => format!("brings back {restores} ({words})"),
        None => words,
    }
}

/// Zones had something else than the hub, although nothing changed there.
fn settles(settles: &Settles) -> String {
    if settles.zones.is_empty() {
        return "settles a divergence".to_owned();
    }
    let zones = settles.zones.iter().map(|one| {
        let differ = if one.objects == 1 {
            "differs"
        } else {
            "differ"
        };
        let objects = counted(usize::try_from(one.objects).unwrap_or(usize::MAX), "object");
        format!("{} ({objects} {differ})", one.zone)
    });
    let zones: Vec<String> = zones.collect();
    format!("settles the divergence of {}", zones.join(", "))
}

fn passed(release: &Release) -> String {
    let failed = release.failed.iter();
    let failed = failed.filter(|stage| !release.passed.contains(stage));
    let failed = failed.map(|stage| format!("{stage} failed"));
    let passed: Vec<String> = release.passed.iter().cloned().chain(failed).collect();
    match passed.is_empty() {
        true => "-".to_owned(),
        false => passed.join(", "),
    }
}

pub(super) fn json(answer: &Value) -> Value {
    json!({"policy": answer["policy"], "releases": answer["releases"], "approvals": answer["approvals"]})
}

/// What is in one, and what is not as it was in the one before.
pub(super) fn one(shown: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let objects = shown["objects"].as_array().into_iter().flatten();
    let objects: Vec<&Value> = objects.collect();
    let count = objects.len();
    let mut said = format!(
        "release {}: {}, digest {}\n\n",
        shown["release"],
        counted(count, "object"),
        text(&shown["digest"])
    );
    let mut table = Table::new(&["KIND", "OBJECT", "VERSION"]);
    for object in objects {
        let version = text(&object["version"]);
        table.add(vec![
            hunks::kind(object),
            hunks::name(object),
            version.chars().take(12).collect(),
        ]);
    }
    said.push_str(&table.text());
    let overrides = shown["overrides"].as_array().map_or(0, Vec::len);
    if overrides > 0 {
        said.push_str(&format!(
            "\n{}; -o json has them\n",
            counted(overrides, "override")
        ));
    }
    said.push_str(&match shown["before"].as_u64() {
        Some(before) => format!("\nwhat is not as in release {before}:\n"),
        None => "\nnothing is known of one before it:\n".to_owned(),
    });
    let changed = shown["hunks"].as_array().map_or(&[][..], Vec::as_slice);
    match changed.is_empty() {
        true => said.push_str("nothing, but for overrides\n"),
        false => changed
            .iter()
            .for_each(|hunk| said.push_str(&hunks::text(hunk))),
    }
    said
}
