//! What holds a rollout, or one instance of it. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::overview::{Overview, Row, Standing, State};
use super::seen::{self, READY, Seen};
use crate::graph::live::Cause;

/// Something that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    /// Who is held; empty if it is the definition.
    pub(super) who: Vec<String>,
    /// The rest of the sentence.
    pub(super) what: String,
    /// How it is known, a line each.
    pub(super) said: Vec<String>,
}

/// So many of those under way are gone through.
const UNDER_WAY: usize = 10;
/// So many instances are named.
const NAMED: usize = 5;

/// All that holds a rollout.
pub(super) fn of_definition(seen: &Seen, overview: &Overview) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if seen::is_undecided(&seen.definition) {
        reasons.push(Reason::whole("the definition was not looked at yet", []));
    } else if let Some(problem) = &overview.problem {
        let said = problem.lines().map(str::to_owned);
        reasons.push(Reason::whole("the definition is not in force", said));
    }
    if overview.state == State::Paused {
        let said = ["the annotation deltaplane.io/paused is there".to_owned()];
        reasons.push(Reason::whole("the rollout is paused", said));
    }
    // What is under way comes first: gates are closed because of it, most of the time.
    let under_way = overview.rows.iter().filter(|row| row.is_under_way());
    let mut under_way: Vec<&Row> = under_way.collect();
    under_way.sort_by_key(|row| row.standing);
    let shown = under_way.len().min(UNDER_WAY);
    reasons.extend(under_way[..shown].iter().map(|row| of_row(seen, row)));
    if shown < under_way.len() {
        let what = format!("{} more are under way", under_way.len() - shown);
        reasons.push(Reason::whole(&what, []));
    }
    reasons.extend(gates(seen, overview));
    let held = overview
        .rows
        .iter()
        .filter(|row| row.standing == Standing::Held);
    reasons.extend(held.map(|row| of_row(seen, row)));
    reasons
}

/// Those that the gate keeps back: together when it says the same of them.
fn gates(seen: &Seen, overview: &Overview) -> Vec<Reason> {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for blocked in &overview.blocked {
        let group = groups.entry(&blocked.message).or_default();
        group.push(blocked.instance.clone());
    }
    let reason = |(message, who): (&str, Vec<String>)| Reason {
        who,
        what: KEPT.to_owned(),
        said: vec![message.to_owned()],
    };
    let mut reasons: Vec<Reason> = groups.into_iter().map(reason).collect();
    // Only the first few are explained; the gate says the same of the others, or something else.
    let explained: usize = reasons.iter().map(|one| one.who.len()).sum();
    let pending = overview.rows.iter();
    let pending: Vec<String> = pending
        .filter(|row| row.standing == Standing::Pending)
        .filter(|row| reasons.iter().all(|one| !one.who.contains(&row.key)))
        .map(|row| row.key.clone())
        .collect();
    if !pending.is_empty() && overview.state != State::Paused {
        let what = match explained {
            0 if seen.gate().is_empty() => "not at the newest revision yet",
            0 => "not decided about yet",
            _ => "kept back by the gate, too",
        };
        reasons.push(Reason {
            who: pending,
            what: what.to_owned(),
            said: Vec::new(),
        });
    }
    reasons
}

const KEPT: &str = "kept back by the gate";

/// What holds one instance.
pub(super) fn of_instance(seen: &Seen, overview: &Overview, row: &Row) -> Vec<Reason> {
    match row.standing {
        Standing::Current => Vec::new(),
        Standing::Pending => {
            let reasons = of_definition(seen, overview).into_iter();
            let about = |one: &Reason| one.who.is_empty() || one.who.contains(&row.key);
            let alone = |one: Reason| Reason {
                who: Vec::new(),
                ..one
            };
            reasons.filter(about).map(alone).collect()
        }
        Standing::Held => vec![Reason::whole(&format!("held {}", row.why), [])],
        Standing::Failed | Standing::Updating | Standing::Starting | Standing::Deleting => {
            let Reason { said, .. } = of_row(seen, row);
            let what = match said.is_empty() {
                true => "nobody looked at it yet",
                false => "its conditions say",
            };
            vec![Reason::whole(what, said)]
        }
    }
}

/// How an instance stands, and what its conditions say.
fn of_row(seen: &Seen, row: &Row) -> Reason {
    let at = row
        .admission
        .map_or_else(String::new, |one| format!(" at revision {}", one.at.number));
    let what = match row.standing {
        Standing::Failed => format!("failed{at}"),
        Standing::Updating if row.ready && !row.why.is_empty() => {
            format!("waits for approval{at}")
        }
        Standing::Updating if row.ready => format!("on the way{at}, not looked at yet"),
        Standing::Updating => format!("on the way{at}"),
        Standing::Starting => format!("starting{at}"),
        Standing::Held => format!("held{at} {}", row.why),
        Standing::Deleting => "being deleted".to_owned(),
        Standing::Pending | Standing::Current => row.standing.word().to_owned() + &at,
    };
    let instance = seen.instances.iter();
    let instance = instance.map(|one| (seen::key(one).to_string(), one));
    let instance = instance.into_iter().find(|(key, _)| *key == row.key);
    let conditions = instance.map(|(_, one)| seen::conditions(one));
    let conditions = conditions.into_iter().flatten();
    // `Ready` repeats one of the others.
    let open = conditions.filter(|one| one.status != "True" && one.name != READY);
    let said: Vec<String> = match row.standing {
        Standing::Held => Vec::new(),
        Standing::Failed
        | Standing::Updating
        | Standing::Starting
        | Standing::Deleting
        | Standing::Pending
        | Standing::Current => open.map(|one| one.to_string()).collect(),
    };
    Reason {
        who: vec![row.key.clone()],
        what,
        said,
    }
}

/// As people read it. `about` is the definition, or the instance.
pub(super) fn text(about: &str, headline: &str, reasons: &[Reason], causes: &[Cause]) -> String {
    if reasons.is_empty() && causes.is_empty() {
        return format!("nothing holds {about}; {headline}\n");
    }
    let mut text = format!("{about}: {headline}\n");
    for reason in reasons {
        text.push_str(&format!("\n{}\n", reason.head()));
        for line in &reason.said {
            text.push_str(&format!("  {line}\n"));
        }
    }
    if !causes.is_empty() {
        text.push_str("\nin its graph\n");
    }
    for cause in causes {
        text.push_str(&format!("  {}\n", cause.head()));
        for line in &cause.said {
            text.push_str(&format!("    {line}\n"));
        }
    }
    text
}

pub(super) fn json(overview: &Overview, reasons: &[Reason], causes: &[Cause]) -> Value {
    let reasons = reasons
        .iter()
        .map(|one| json!({"instances": one.who, "what": one.what, "said": one.said}));
    let causes = causes.iter().map(Cause::json);
    json!({
        "definition": overview.definition,
        "state": overview.state.word(),
        "revision": overview.target,
        "reasons": reasons.collect::<Vec<_>>(),
        "resources": causes.collect::<Vec<_>>(),
    })
}

// === impl Reason ===

impl Reason {
    fn whole(what: &str, said: impl IntoIterator<Item = String>) -> Self {
        Self {
            who: Vec::new(),
            what: what.to_owned(),
            said: said.into_iter().collect(),
        }
    }

    /// On one line.
    pub(super) fn line(&self) -> String {
        match self.said.first() {
            Some(said) => format!("{}: {said}", self.head()),
            None => self.head(),
        }
    }

    fn head(&self) -> String {
        let Self { who, what, .. } = self;
        match who.as_slice() {
            [] => what.clone(),
            [one] => format!("{one}: {what}"),
            some if some.len() <= NAMED => format!("{}: {what}", some.join(", ")),
            some => {
                let (named, more) = some.split_at(NAMED);
                format!("{} and {} more: {what}", named.join(", "), more.len())
            }
        }
    }
}
