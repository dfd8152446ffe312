//! What a definition was, and who runs which of it. Pure.

use deltaplane_api::admission::Admission;
use deltaplane_api::time::{Time, human_duration};
use serde_json::{Value, json};

use super::seen::{Revision, Seen, is_deleting};
use crate::table::Table;

/// The newest first.
pub(super) fn text(seen: &Seen, now: Time) -> String {
    if seen.revisions.is_empty() {
        return format!("{} has no revisions yet\n", seen.name());
    }
    let mut table = Table::new(&["REVISION", "AGE", "HASH", "INSTANCES", "TARGET"]);
    for revision in seen.revisions.iter().rev() {
        let age = revision.made.map(|made| now.seconds_since(made));
        let target = match seen.target() == Some(revision.number) {
            true => "yes",
            false => "",
        };
        table.add(vec![
            revision.number.to_string(),
            age.map_or_else(|| "-".to_owned(), human_duration),
            revision.short().to_owned(),
            running(seen, revision.number).to_string(),
            target.to_owned(),
        ]);
    }
    table.text()
}

pub(super) fn json(seen: &Seen) -> Value {
    let revisions = seen.revisions.iter().map(|revision| {
        json!({
            "revision": revision.number,
            "created": revision.made.map(|made| made.to_string()),
            "hash": revision.hash,
            "target": seen.target() == Some(revision.number),
            "instances": running(seen, revision.number),
        })
    });
    json!({"definition": seen.name(), "revisions": revisions.collect::<Vec<_>>()})
}

/// How many instances were admitted to it last.
fn running(seen: &Seen, number: i64) -> usize {
    let instances = seen.instances.iter();
    let instances = instances.filter(|instance| !is_deleting(instance));
    let runs = |instance: &&Value| {
        let revision = Admission::read(instance).and_then(|one| seen.revision_of(one));
        revision.is_some_and(|one| one.number == number)
    };
    instances.filter(runs).count()
}

/// The definition as it was.
pub(super) fn snapshot(seen: &Seen, revision: &Revision) -> Value {
    json!({
        "apiVersion": seen.definition["apiVersion"],
        "kind": seen.definition["kind"],
        "metadata": {"name": seen.name()},
        "spec": revision.spec,
    })
}

/// The newest that says something else than the definition says now.
pub(super) fn previous(seen: &Seen) -> Option<&Revision> {
    let now = &seen.definition["spec"];
    seen.revisions.iter().rev().find(|one| one.spec != *now)
}
