//! Whether a hub kept to its gates, by what happened in its zones. Pure.
//!
//! A zone is in flight, as far as can be seen there, from the moment at which a change comes until
//! it says that it is ready. The hub counts from earlier until later, so that what is seen here
//! must never be more than what the gate allows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::fleet::{Happened, Seen};

/// What a policy promises.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// The stage of each zone.
    pub(super) stages: BTreeMap<String, usize>,
    /// How many zones of each stage may be in flight at once.
    pub(super) bounds: Vec<usize>,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// More zones are in flight than may be.
    TooMany {
        stage: usize,
        turn: usize,
        zones: Vec<String>,
    },
    /// A change came to a zone before a zone of the stage before was ready at it.
    TooEarly {
        zone: String,
        turn: usize,
        before: String,
    },
    /// A zone got an older change than it had.
    Back {
        zone: String,
        from: usize,
        to: usize,
    },
    /// At the end a zone has something else than the hub.
    Astray {
        zone: String,
        has: Option<usize>,
        wanted: usize,
    },
    /// The hub forgot what it had acknowledged.
    Lost { acknowledged: usize, found: usize },
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// The last turn that the hub acknowledged.
    pub(super) acknowledged: usize,
    /// The turn that it has.
    pub(super) found: usize,
}

/// What one zone has been through.
#[derive(Default)]
struct Zone {
    has: Option<usize>,
    ready: BTreeSet<usize>,
}

/// Judges all that happened.
pub(super) fn judge(rules: &Rules, seen: &[Seen], end: End) -> Vec<Finding> {
    let mut zones: BTreeMap<&str, Zone> = BTreeMap::new();
    let names = rules.stages.keys();
    zones.extend(names.map(|name| (name.as_str(), Zone::default())));
    let mut findings = Vec::new();
    for one in seen {
        let Some(zone) = zones.get_mut(one.zone.as_str()) else {
            continue;
        };
        match one.what {
            Happened::Ready(turn) => drop(zone.ready.insert(turn)),
            Happened::Came(turn) => {
                let before = zone.has.replace(turn);
                if let Some(from) = before.filter(|from| *from > turn) {
                    let (zone, to) = (one.zone.clone(), turn);
                    findings.push(Finding::Back { zone, from, to });
                }
                // What comes again is nothing new.
                if before != Some(turn) {
                    findings.extend(rules.admission(&zones, &one.zone, turn));
                }
            }
        }
    }
    let End {
        acknowledged,
        found,
    } = end;
    if found < acknowledged {
        findings.push(Finding::Lost {
            acknowledged,
            found,
        });
    }
    for (name, zone) in zones {
        if zone.has != Some(found) {
            findings.push(Finding::Astray {
                zone: name.to_owned(),
                has: zone.has,
                wanted: found,
            });
        }
    }
    findings
}

// === impl Rules ===

impl Rules {
    /// What is wrong with a change that has just come to a zone.
    fn admission(&self, zones: &BTreeMap<&str, Zone>, zone: &str, turn: usize) -> Vec<Finding> {
        let stage = self.stages[zone];
        let of_stage = |wanted: usize| {
            let all = zones.iter();
            all.filter(move |(name, _)| self.stages[**name] == wanted)
        };
        let mut findings = Vec::new();
        let before = stage.checked_sub(1);
        let mut behind = before
            .into_iter()
            .flat_map(of_stage)
            .filter(|(_, other)| !other.ready.contains(&turn));
        if let Some((before, _)) = behind.next() {
            findings.push(Finding::TooEarly {
                zone: zone.to_owned(),
                turn,
                before: (*before).to_owned(),
            });
        }
        let in_flight = of_stage(stage)
            .filter(|(_, other)| other.has.is_some_and(|has| !other.ready.contains(&has)));
        let zones: Vec<String> = in_flight.map(|(name, _)| (*name).to_owned()).collect();
        if zones.len() > self.bounds[stage] {
            findings.push(Finding::TooMany { stage, turn, zones });
        }
        findings
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { stage, turn, zones } => write!(
                f,
                "with turn {turn}, {} zones of stage {stage} are in flight: {}",
                zones.len(),
                zones.join(", ")
            ),
            Self::TooEarly { zone, turn, before } => {
                write!(
                    f,
                    "turn {turn} came to {zone} before {before} was ready at it"
                )
            }
            Self::Back { zone, from, to } => {
                write!(f, "{zone} went back from turn {from} to {to}")
            }
            Self::Astray { zone, has, wanted } => {
                write!(f, "{zone} ended with turn {has:?} instead of {wanted}")
            }
            Self::Lost {
                acknowledged,
                found,
            } => {
                write!(
                    f,
                    "turn {acknowledged} was acknowledged, and {found} is there"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Zones `a` and `b` are canaries, one at a time; `p`, `q` and `r` the rest, two at a time.
    /// `a1` means that turn 1 came to zone `a`, `a1!` that it is ready there.
    fn check(history: &str, expected: &[&str]) {
        let stages = ["a", "b"].map(|zone| (zone.to_owned(), 0));
        let stages = stages.into_iter();
        let rules = Rules {
            stages: stages
                .chain(["p", "q", "r"].map(|zone| (zone.to_owned(), 1)))
                .collect(),
            bounds: vec![1, 2],
        };
        let seen = history.split_whitespace().map(|word| {
            let (zone, turn) = word.split_at(1);
            let what = match turn.strip_suffix('!') {
                Some(turn) => Happened::Ready(turn.parse().expect("a turn")),
                None => Happened::Came(turn.parse().expect("a turn")),
            };
            Seen {
                at: Duration::ZERO,
                zone: zone.to_owned(),
                what,
            }
        });
        let seen: Vec<Seen> = seen.collect();
        let end = End {
            acknowledged: 1,
            found: 1,
        };
        let findings = judge(&rules, &seen, end);
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{history}");
    }

    #[test]
    fn what_keeps_to_the_rules_is_fine() {
        check("a1 a1! b1 b1! p1 q1 q1! r1 p1! r1!", &[]);
        // It comes again, and is said again, after a restart.
        check("a1 a1! a1 a1! b1 b1! p1 q1 p1 q1! r1 p1! r1!", &[]);
    }

    #[test]
    fn each_promise_can_be_broken() {
        check(
            "a1 b1 a1! b1! p1 q1 p1! q1! r1 r1!",
            &["with turn 1, 2 zones of stage 0 are in flight: a, b"],
        );
        check(
            "a1 a1! b1 b1! p1 q1 r1 p1! q1! r1!",
            &["with turn 1, 3 zones of stage 1 are in flight: p, q, r"],
        );
        check(
            "a1 a1! b1 p1 b1! p1! q1 q1! r1 r1!",
            &["turn 1 came to p before b was ready at it"],
        );
        // Ready at something else does not count.
        check(
            "a0 a0! b0 b0! a1 p1 p1! a1! b1 b1! q1 q1! r1 r1!",
            &["turn 1 came to p before a was ready at it"],
        );
        check(
            "a2 a2! a1 a1! b1 b1! p1 p1! q1 q1! r1 r1!",
            &["a went back from turn 2 to 1"],
        );
        check(
            "a1 a1! b1 b1! p1 p1! q1 q1!",
            &["r ended with turn None instead of 1"],
        );
    }

    /// A zone that is overtaken by a newer change is still in flight.
    #[test]
    fn in_flight_is_whoever_is_not_ready_at_what_it_has() {
        check(
            "a0 a0! b0 b0! p0 q0 a1 a1! b1 b1! r1 p0! q0! p1 p1! q1 q1! r1!",
            &["with turn 1, 3 zones of stage 1 are in flight: p, q, r"],
        );
    }

    #[test]
    fn an_acknowledged_write_is_there() {
        let rules = Rules {
            stages: BTreeMap::new(),
            bounds: Vec::new(),
        };
        let end = End {
            acknowledged: 2,
            found: 1,
        };
        let lost = Finding::Lost {
            acknowledged: 2,
            found: 1,
        };
        assert_eq!(judge(&rules, &[], end), [lost]);
    }
}
