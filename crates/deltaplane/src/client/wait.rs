//! `deltaplane wait --propagated`: waits until zones have what a revision wrote.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use clap::{Args, ValueEnum};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Client;
use serde_json::Value;

use deltaplane_client::request;
use deltaplane_sync::ZoneName;

use super::{ClientError, Hub, Said, name_of, zone_objects, zone_path};
use crate::args::{Environment, duration};
use crate::said::printable;

/// For `wait`.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    hub: Hub,
    /// The revision that a write returned: the resourceVersion of the object, or the header
    /// deltaplane-revision of the answer
    #[arg(long, value_name = "REVISION")]
    propagated: u64,
    /// What to wait for; policies decide whether a zone may have the object, the zone applies it
    #[arg(long = "for", value_name = "STATE", value_enum, default_value_t)]
    goal: Goal,
    /// How many of the enabled zones must have it: a number, or a share such as 95%
    #[arg(long, value_name = "ZONES", default_value = "100%", value_parser = quorum)]
    zones: Quorum,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

/// The state of the written objects that ends the wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Goal {
    /// Policies have released the version, or a newer one, to the zone
    Released,
    /// The zone has applied the version, or a newer one
    #[default]
    Applied,
}

/// The pause before a hub that did not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// The first answer comes soon, so that the user sees what holds the object back.
const FIRST_POLL: u64 = 1;

/// How long the hub may wait before it answers; shorter than the client waits for any answer.
const POLL: u64 = 20;

/// How many are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quorum {
    Number(usize),
    Percent(usize),
}

/// What the hub says of a revision in one zone.
struct ZoneAnswer {
    zone: ZoneName,
    /// What holds the revision back; nothing if the zone has it.
    obstacle: Option<String>,
    /// The revision wrote something that zones are sent.
    is_sent: bool,
}

fn quorum(text: &str) -> Result<Quorum, String> {
    let wrong = || "write a number of zones, or a share such as 95%".to_owned();
    match text.strip_suffix('%') {
        Some(percent) => match percent.parse() {
            Ok(percent @ 0..=100) => Ok(Quorum::Percent(percent)),
            Ok(_) | Err(_) => Err(wrong()),
        },
        None => text.parse().map(Quorum::Number).map_err(|_| wrong()),
    }
}

// === impl Quorum ===

impl Quorum {
    fn of(self, zones: usize) -> usize {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => (zones * percent).div_ceil(100),
        }
    }
}

// === impl Goal ===

impl Goal {
    fn word(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Applied => "applied",
        }
    }
}

// === impl Wait ===

impl Wait {
    pub(super) async fn run(self, environment: &Environment) -> Result<Said, ClientError> {
        let client = self.hub.client(environment).await?;
        let zones = zone_objects(&client).await?;
        let enabled = zones.iter().filter(|zone| zone["spec"]["enabled"] != false);
        let zones: Vec<ZoneName> = enabled.filter_map(name_of).collect();
        let needed = self.zones.of(zones.len());
        let total = zones.len();
        // What holds the revision back from each zone that does not have it.
        let mut missing: BTreeMap<ZoneName, String> = zones
            .iter()
            .map(|zone| (zone.clone(), String::new()))
            .collect();
        let mut polls: FuturesUnordered<_> = zones
            .into_iter()
            .map(|zone| self.poll(&client, zone, FIRST_POLL))
            .collect();
        let mut have = 0;
        let mut crosses = true;
        let deadline = tokio::time::sleep(self.timeout);
        tokio::pin!(deadline);
        while have < needed {
            let next = tokio::select! {
                () = &mut deadline => break,
                next = polls.next() => next,
            };
            let Some(answer) = next else { break };
            let ZoneAnswer {
                zone,
                obstacle,
                is_sent,
            } = answer?;
            crosses &= is_sent;
            match obstacle {
                None => {
                    have += 1;
                    missing.remove(&zone);
                }
                Some(reason) => {
                    if missing.get(&zone) != Some(&reason) {
                        note(&format!("{zone}: {reason}\n"));
                    }
                    missing.insert(zone.clone(), reason);
                    polls.push(self.poll(&client, zone, POLL));
                }
            }
        }
        let mut said = self.said((have, needed, total), &missing);
        if !crosses {
            let revision = self.propagated;
            said.err.push_str(&format!("warning: revision {revision} wrote nothing that zones are sent; a SyncedKind must select it: kubectl get syncedkinds\n"));
        }
        Ok(said)
    }

    fn said(
        &self,
        (have, needed, total): (usize, usize, usize),
        missing: &BTreeMap<ZoneName, String>,
    ) -> Said {
        let (revision, state) = (self.propagated, self.goal.word());
        let good = have >= needed;
        let err = match good {
            true => String::new(),
            false => {
                let names: Vec<&str> = missing.keys().map(ZoneName::as_str).collect();
                format!(
                    "not {state} in time: {}\nhint: deltaplane rollout why policy/<policy> and deltaplane zones show <zone> say more\n",
                    names.join(", ")
                )
            }
        };
        Said {
            out: match self.goal {
                Goal::Applied => format!("{have}/{total} zones have revision {revision}\n"),
                Goal::Released => {
                    format!("revision {revision} is released to {have}/{total} zones\n")
                }
            },
            err,
            good,
        }
    }

    /// Returns what holds the revision back from a zone, after some seconds at most; none when
    /// nothing does.
    async fn poll(
        &self,
        client: &Client,
        zone: ZoneName,
        seconds: u64,
    ) -> Result<ZoneAnswer, ClientError> {
        let (revision, goal) = (self.propagated, self.goal.word());
        let path = format!(
            "{}/_propagated?revision={revision}&for={goal}&timeoutSeconds={seconds}",
            zone_path(&zone)
        );
        match request::get::<Value>(client, &path).await {
            Ok(answer) => {
                let is_there = answer["propagated"] == true;
                let reason = answer["reason"].as_str().unwrap_or("no reason is known");
                Ok(ZoneAnswer {
                    zone,
                    obstacle: (!is_there).then(|| reason.to_owned()),
                    // Hubs of earlier versions do not say.
                    is_sent: answer["crosses"] != false,
                })
            }
            Err(error) if error.code() == Some(410) => {
                Err(ClientError::Compacted(revision, Box::new(error)))
            }
            Err(error) if error.code().is_some_and(|code| code < 500) => Err(error.into()),
            // The hub may be back before the time is over.
            Err(error) => {
                tokio::time::sleep(AGAIN).await;
                Ok(ZoneAnswer {
                    zone,
                    obstacle: Some(format!("the hub does not answer: {error}")),
                    is_sent: true,
                })
            }
        }
    }
}

/// Tells the user something while the command goes on.
fn note(text: &str) {
    let text = printable(text.to_owned());
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_are_enough() {
        for (text, zones, expected) in [("95%", 20, 19), ("95%", 3, 3), ("0%", 3, 0), ("2", 9, 2)] {
            assert_eq!(
                quorum(text).map(|quorum| quorum.of(zones)),
                Ok(expected),
                "{text}"
            );
        }
        for wrong in ["", "%", "101%", "-1", "x"] {
            assert!(quorum(wrong).is_err(), "{wrong}");
        }
    }
}
