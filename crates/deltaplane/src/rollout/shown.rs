//! A rollout as people read it: a screen of it, and a line for each change. Pure.

use super::overview::{Counts, Overview, Row, Standing, State};
use crate::table::Table;

/// So many instances are on a screen.
pub(super) const ROWS: usize = 20;
/// So wide is a bar.
const BAR: u64 = 30;
/// Of a reason so many characters are shown in a table: of a longer one its beginning, which says
/// what it is about, and its end, which says the cause.
const WHY: usize = 360;
const WHY_BEGINNING: usize = 120;

/// How many instances are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// As many as fit on a screen, those that need attention first.
    Screen,
    All,
}

/// A screen of it.
pub(super) fn screen(overview: &Overview, listed: Listed) -> String {
    let Overview {
        definition,
        kind,
        counts,
        ..
    } = overview;
    let mut text = match overview.target {
        Some(target) => format!("{definition}: {kind}, revision {target}\n"),
        None => format!("{definition}: {kind}\n"),
    };
    text.push_str(&format!("{}\n", overview.headline()));
    if counts.total > 0 {
        let bar = bar(counts.total, &parts(*counts));
        text.push_str(&format!("{bar} {}\n", words(*counts)));
    }
    for line in notes(overview) {
        text.push_str(&format!("{line}\n"));
    }
    if !overview.rows.is_empty() {
        text.push('\n');
        text.push_str(&table(&overview.rows, listed));
    }
    text
}

/// What else there is to know of the whole.
fn notes(overview: &Overview) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(problem) = &overview.problem {
        let problem = shortened(problem);
        notes.push(format!("the definition is not in force: {problem}"));
    }
    if overview.paused && overview.state != State::Paused {
        notes.push("it is paused: the next change will not move".to_owned());
    }
    let held = overview.deletions.iter().filter(|one| one.held > 0);
    notes.extend(held.map(ToString::to_string));
    if let (false, Some(next)) = (overview.is_over(), &overview.look_again) {
        notes.push(format!("time may open the gate at {next}"));
    }
    notes
}

/// Who is there, on the way, and failed.
fn parts(counts: Counts) -> [(u64, char); 3] {
    [
        (counts.current, '#'),
        (counts.updating + counts.starting, '>'),
        (counts.failed, '!'),
    ]
}

/// `[##########>>>>>!!!!!..........]`: there, on their way, failed, and the rest.
pub(super) fn bar(total: u64, parts: &[(u64, char)]) -> String {
    let total = total.max(1);
    let (mut bar, mut sum) = (String::new(), 0);
    for (count, sign) in parts {
        sum += count;
        let end = usize::try_from(sum.min(total) * BAR / total).unwrap_or(0);
        while bar.len() < end {
            bar.push(*sign);
        }
    }
    let width = usize::try_from(BAR).unwrap_or(0);
    format!("[{bar:.<width$}]")
}

fn words(counts: Counts) -> String {
    let words = counts.words().into_iter();
    let words: Vec<String> = words
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    words.join(", ")
}

fn table(rows: &[Row], listed: Listed) -> String {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    // By name among those that stand alike.
    sorted.sort_by_key(|row| row.standing);
    let shown = match listed {
        Listed::Screen => sorted.len().min(ROWS),
        Listed::All => sorted.len(),
    };
    let mut table = Table::new(&["INSTANCE", "REVISION", "STATE", "READY", "WHY"]);
    for row in &sorted[..shown] {
        let revision = row.admission.map(|admission| admission.at.number);
        table.add(vec![
            row.key.clone(),
            revision.map_or_else(|| "-".to_owned(), |number| number.to_string()),
            row.standing.word().to_owned(),
            if row.ready { "yes" } else { "no" }.to_owned(),
            shortened(&row.why),
        ]);
    }
    let mut text = table.text();
    if shown < sorted.len() {
        let more = sorted.len() - shown;
        text.push_str(&format!("and {more} more; --all lists them\n"));
    }
    text
}

/// On one line, and not too long.
pub(super) fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let count = line.chars().count();
    if count <= WHY {
        return line;
    }
    let beginning: String = line.chars().take(WHY_BEGINNING).collect();
    let end = line.chars().skip(count - (WHY - WHY_BEGINNING));
    format!("{beginning}…{}", end.collect::<String>())
}

/// What is another than before, a line each. Without a before it is all of it.
pub(super) fn changes(before: Option<&Overview>, now: &Overview) -> Vec<String> {
    let mut lines = Vec::new();
    let head = |overview: &Overview| match overview.counts.total {
        0 => overview.headline(),
        _ => format!("{} ({})", overview.headline(), words(overview.counts)),
    };
    let find = |key: &str| {
        let rows = before.map_or(&[][..], |before| &before.rows);
        rows.iter().find(|row| row.key == key)
    };
    for row in &now.rows {
        let was = find(&row.key);
        let same = was.is_some_and(|was| {
            was.standing == row.standing && was.admission == row.admission && was.why == row.why
        });
        // Those that are where they should be are news only if they were not.
        if !same && (was.is_some() || row.standing != Standing::Current) {
            lines.push(line(row));
        }
    }
    let gone = before.into_iter().flat_map(|before| &before.rows);
    let gone = gone.filter(|was| now.rows.iter().all(|row| row.key != was.key));
    lines.extend(gone.map(|was| format!("{}: gone", was.key)));
    if before.map(head).as_deref() != Some(&head(now)) || before.map(notes) != Some(notes(now)) {
        lines.push(head(now));
        lines.extend(notes(now));
    }
    lines
}

/// `prod/a: updating at revision 2: …`.
fn line(row: &Row) -> String {
    let mut line = format!("{}: {}", row.key, standing(row));
    if !row.why.is_empty() {
        line.push_str(&format!(": {}", shortened(&row.why)));
    }
    line
}

/// `updating at revision 2`.
pub(super) fn standing(row: &Row) -> String {
    let mut line = row.standing.word().to_owned();
    if let Some(admission) = row.admission {
        line.push_str(&format!(" at revision {}", admission.at.number));
    }
    line
}
