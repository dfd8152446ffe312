//! A definition in the zones of a hub. Pure.

use std::collections::BTreeMap;

use deltaplane_api::time::Time;
use serde_json::{Value, json};

use super::error::RolloutError;
use super::overview::{self, Overview, State};
use super::seen::{self, Seen, text};
use super::{shown, why};
use crate::table::Table;

/// How far each zone is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fleet {
    definition: String,
    /// How the definition stands at the hub itself.
    hub: AtHub,
    zones: BTreeMap<String, InZone>,
}

/// Whether a definition is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AtHub {
    Accepted,
    /// Nobody looked at it yet.
    Unseen,
    Refused(String),
}

/// How it stands in a zone.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum InZone {
    /// It has the definition as it is at the hub.
    Has {
        overview: Box<Overview>,
        reasons: Vec<why::Reason>,
    },
    /// It has another one, or none.
    Behind,
    /// It did not answer.
    Lost(String),
}

// === impl InZone ===

impl InZone {
    /// What a zone has of a definition of the hub.
    pub(super) fn of(found: Result<Seen, RolloutError>, hub: &Value, now: Time) -> Self {
        match found {
            Ok(seen) if seen.definition["spec"] == hub["spec"] => {
                let overview = Overview::of(&seen, now);
                let reasons = why::of_definition(&seen, &overview);
                let overview = Box::new(overview);
                Self::Has { overview, reasons }
            }
            Ok(_) | Err(RolloutError::NoDefinition { .. }) => Self::Behind,
            Err(error) => {
                let mut said = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    said = cause.to_string();
                    source = cause.source();
                }
                Self::Lost(said)
            }
        }
    }

    fn state(&self) -> State {
        match self {
            Self::Has { overview, .. } => overview.state,
            Self::Behind | Self::Lost(_) => State::Moving,
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Has { overview, .. } => overview.is_over(),
            Self::Behind | Self::Lost(_) => false,
        }
    }

    /// In a word, and what holds it.
    fn words(&self) -> (&'static str, String) {
        match self {
            Self::Has { overview, reasons } => {
                let first = reasons.first().map_or_else(String::new, why::Reason::line);
                (overview.state.word(), first)
            }
            Self::Behind => (
                "behind",
                "it does not have the definition as it is here".to_owned(),
            ),
            Self::Lost(why) => ("unknown", why.clone()),
        }
    }

    fn row(&self, zone: &str) -> Vec<String> {
        let (word, why) = self.words();
        let (revision, progress) = match self {
            Self::Has { overview, .. } => {
                let revision = overview.target.map(|target| target.to_string());
                let counts = overview.counts;
                let progress = format!("{} of {}", counts.current, counts.total);
                (revision.unwrap_or_else(|| "-".to_owned()), progress)
            }
            Self::Behind | Self::Lost(_) => ("-".to_owned(), "-".to_owned()),
        };
        let why = shown::shortened(&why);
        vec![zone.to_owned(), revision, word.to_owned(), progress, why]
    }

    fn json(&self, zone: &str) -> Value {
        let mut json = match self {
            Self::Has { overview, .. } => overview.json(),
            Self::Behind | Self::Lost(_) => {
                let (word, why) = self.words();
                json!({"state": word, "why": why})
            }
        };
        json["zone"] = zone.into();
        json
    }
}

// === impl AtHub ===

impl AtHub {
    fn of(definition: &Value) -> Self {
        match overview::problem(definition) {
            _ if seen::is_undecided(definition) => Self::Unseen,
            Some(why) => Self::Refused(why),
            None => Self::Accepted,
        }
    }
}

// === impl Fleet ===

impl Fleet {
    pub(super) fn new(hub: &Value) -> Self {
        Self {
            definition: text(&hub["metadata"]["name"]).to_owned(),
            hub: AtHub::of(hub),
            zones: BTreeMap::new(),
        }
    }

    /// The definition is another at the hub.
    pub(super) fn changed(&mut self, hub: &Value) {
        self.hub = AtHub::of(hub);
    }

    pub(super) fn insert(&mut self, zone: String, found: InZone) {
        self.zones.insert(zone, found);
    }

    pub(super) fn is_over(&self) -> bool {
        self.hub == AtHub::Accepted && self.zones.values().all(InZone::is_over)
    }

    /// `moving: complete in 1 of 3 zones`.
    fn headline(&self) -> String {
        match &self.hub {
            AtHub::Accepted => {}
            AtHub::Unseen => return "moving: nobody looked at it at the hub yet".to_owned(),
            AtHub::Refused(why) => {
                let why = shown::shortened(why);
                return format!("stopped: it is not in force at the hub: {why}");
            }
        }
        let over = self.zones.values().filter(|zone| zone.is_over()).count();
        let any = |state: State| self.zones.values().any(|zone| zone.state() == state);
        let total = self.zones.len();
        if over == total {
            let held = self.zones.values();
            let held = held.filter(|zone| zone.state() == State::Held).count();
            let but = match held {
                0 => String::new(),
                held => format!(", but for those that are held in {held}"),
            };
            return match total {
                1 => format!("complete in its zone{but}"),
                total => format!("complete in all {total} zones{but}"),
            };
        }
        let states = [State::Moving, State::Stopped, State::Paused];
        let state = states.into_iter().find(|state| any(*state));
        let word = state.unwrap_or(State::Moving).word();
        format!("{word}: complete in {over} of {total} zones")
    }

    /// Whether deletions wait for approval in some zone.
    pub(super) fn holds_deletions(&self) -> bool {
        self.deletions().next().is_some()
    }

    /// What zones hold.
    fn deletions(&self) -> impl Iterator<Item = String> {
        self.zones.iter().flat_map(|(zone, found)| {
            let held = match found {
                InZone::Has { overview, .. } => overview.deletions.as_slice(),
                InZone::Behind | InZone::Lost(_) => &[],
            };
            let held = held.iter().filter(|one| one.held > 0);
            held.map(move |one| format!("zone {zone}: {one}\n"))
        })
    }

    pub(super) fn screen(&self) -> String {
        let mut table = Table::new(&["ZONE", "REVISION", "STATE", "CURRENT", "WHY"]);
        for (zone, found) in &self.zones {
            table.add(found.row(zone));
        }
        let held: String = self.deletions().collect();
        format!(
            "{}: {}\n{held}\n{}",
            self.definition,
            self.headline(),
            table.text()
        )
    }

    pub(super) fn json(&self) -> Value {
        let zones = self.zones.iter().map(|(zone, found)| found.json(zone));
        json!({"definition": self.definition, "zones": zones.collect::<Vec<_>>()})
    }

    /// What holds it in each zone.
    pub(super) fn why(&self) -> String {
        let mut said = String::new();
        for (zone, found) in self.zones.iter().filter(|(_, found)| !found.is_over()) {
            said.push_str(&match found {
                InZone::Has { overview, reasons } => {
                    let text = why::text(zone, &overview.headline(), reasons, &[]);
                    format!("\n{}", below(&text))
                }
                InZone::Behind | InZone::Lost(_) => {
                    let (word, why) = found.words();
                    format!("\n{zone}: {word}: {why}\n")
                }
            });
        }
        match said.as_str() {
            "" if self.is_over() => {
                format!("nothing holds {}; {}\n", self.definition, self.headline())
            }
            said => format!("{}: {}\n{said}", self.definition, self.headline()),
        }
    }

    pub(super) fn why_json(&self) -> Vec<Value> {
        let zones = self.zones.iter().map(|(zone, found)| {
            let mut json = match found {
                InZone::Has { overview, reasons } => why::json(overview, reasons, &[]),
                InZone::Behind | InZone::Lost(_) => found.json(zone),
            };
            json["zone"] = zone.as_str().into();
            json
        });
        zones.collect()
    }

    /// What is another than before, a line each. Without a before it is all of it.
    pub(super) fn changes(&self, before: Option<&Self>) -> Vec<String> {
        let mut lines = Vec::new();
        for (zone, found) in &self.zones {
            let was = before.and_then(|before| before.zones.get(zone));
            if was == Some(found) {
                continue;
            }
            match found {
                InZone::Has { overview, .. } => {
                    let was = was.and_then(|was| match was {
                        InZone::Has { overview, .. } => Some(&**overview),
                        InZone::Behind | InZone::Lost(_) => None,
                    });
                    let changes = shown::changes(was, overview).into_iter();
                    lines.extend(changes.map(|line| format!("{zone}: {line}")));
                }
                InZone::Behind | InZone::Lost(_) => {
                    let (word, why) = found.words();
                    lines.push(format!("{zone}: {word}: {why}"));
                }
            }
        }
        if before.map(Self::headline).as_ref() != Some(&self.headline()) {
            lines.push(self.headline());
        }
        lines
    }
}

/// The lines of a text, those that follow the first a step further in.
fn below(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.is_empty()).enumerate();
    let lines = lines.map(|(at, line)| match at {
        0 => format!("{line}\n"),
        _ => format!("  {line}\n"),
    });
    lines.collect()
}
