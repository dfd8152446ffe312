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
    #[arg(long, value_name = "REVISION", value_parser = revision)]
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

const TOO_MANY_REQUESTS: u16 = 429;

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

fn revision(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "write a revision, such as 347".to_owned())
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
    /// Returns how many of the enabled zones must have the revision.
    fn of(self, enabled: usize) -> Result<usize, ClientError> {
        match self {
            Self::Number(needed) if needed > enabled => {
                Err(ClientError::TooFewZones { needed, enabled })
            }
            Self::Number(needed) => Ok(needed),
            Self::Percent(percent) => Ok((enabled * percent).div_ceil(100)),
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
        self.wait(&client, &mut note).await
    }

    /// Waits, and tells the user meanwhile what it waits for.
    async fn wait(
        &self,
        client: &Client,
        note: &mut impl FnMut(&str),
    ) -> Result<Said, ClientError> {
        let zones = zone_objects(client).await?;
        let enabled = zones.iter().filter(|zone| zone["spec"]["enabled"] != false);
        let zones: Vec<ZoneName> = enabled.filter_map(name_of).collect();
        let total = zones.len();
        let needed = self.zones.of(total)?;
        // What holds the revision back from each zone that does not have it.
        let mut missing: BTreeMap<ZoneName, String> = zones
            .iter()
            .map(|zone| (zone.clone(), String::new()))
            .collect();
        let mut polls: FuturesUnordered<_> = zones
            .into_iter()
            .map(|zone| self.poll(client, zone, FIRST_POLL))
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
            if crosses && !is_sent {
                let revision = self.propagated;
                note(&format!(
                    "warning: revision {revision} wrote nothing that zones are sent; a SyncedKind must select it: kubectl get syncedkinds\n"
                ));
            }
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
                    polls.push(self.poll(client, zone, POLL));
                }
            }
        }
        let mut said = self.said((have, needed, total), &missing);
        if said.good && !crosses {
            said.out = format!(
                "revision {} wrote nothing that zones are sent\n",
                self.propagated
            );
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
        // The wait ends when there are enough: others may have it, and were not waited for.
        let count = match good && have < total {
            true => format!("at least {have} of {total}"),
            false => format!("{have}/{total}"),
        };
        Said {
            out: match self.goal {
                Goal::Applied => format!("{count} zones have revision {revision}\n"),
                Goal::Released => format!("revision {revision} is released to {count} zones\n"),
            },
            err,
            good,
        }
    }

    /// Where the hub says whether a zone has the revision.
    fn path(&self, zone: &ZoneName, seconds: u64) -> String {
        let (revision, goal) = (self.propagated, self.goal.word());
        format!(
            "{}/_propagated?revision={revision}&for={goal}&timeoutSeconds={seconds}",
            zone_path(zone)
        )
    }

    /// Returns what holds the revision back from a zone, after some seconds at most; none when
    /// nothing does.
    async fn poll(
        &self,
        client: &Client,
        zone: ZoneName,
        seconds: u64,
    ) -> Result<ZoneAnswer, ClientError> {
        let revision = self.propagated;
        let path = self.path(&zone, seconds);
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
            Err(error) if error.code().is_some_and(is_final) => Err(error.into()),
            // The hub may be back, or have a place for the request, before the time is over.
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

/// Returns true if asking again would be answered in the same way.
fn is_final(code: u16) -> bool {
    code < 500 && code != TOO_MANY_REQUESTS
}

/// Tells the user something while the command goes on.
fn note(text: &str) {
    let text = printable(text.to_owned());
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::fake;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        wait: Wait,
    }

    /// Waits at a hub with two zones, whose answers about revision 7 are given by zone and by how
    /// often it was asked before.
    async fn wait(
        words: &[&str],
        answer: impl FnMut(&str, usize) -> (u16, Value) + Send + Sync + 'static,
    ) -> Result<Said, ClientError> {
        noted(words, answer).await.0
    }

    /// As [`wait`], with what the user is told meanwhile.
    async fn noted(
        words: &[&str],
        mut answer: impl FnMut(&str, usize) -> (u16, Value) + Send + Sync + 'static,
    ) -> (Result<Said, ClientError>, Vec<String>) {
        let mut asked: BTreeMap<String, usize> = BTreeMap::new();
        let client = fake::api(move |what, _| {
            let zones = "GET /apis/fleet.deltaplane.io/v1alpha1/zones";
            let Some(path) = what.strip_prefix(&format!("{zones}/")) else {
                let zone = |name| json!({"metadata": {"name": name}, "spec": {}});
                return (200, json!({"items": [zone("a"), zone("b")]}));
            };
            let zone = path.trim_end_matches("/_propagated");
            let times = asked.entry(zone.to_owned()).or_default();
            *times += 1;
            answer(zone, *times - 1)
        });
        let line = Line::parse_from([&["wait", "--propagated", "7"], words].concat());
        let mut notes = Vec::new();
        let mut note = |text: &str| notes.push(text.to_owned());
        let said = line.wait.wait(&client, &mut note).await;
        (said, notes)
    }

    fn propagated(is_there: bool) -> (u16, Value) {
        let reason = "policy web has released release 1 to the zone";
        (200, json!({"propagated": is_there, "reason": reason}))
    }

    #[tokio::test]
    async fn the_wait_ends_when_enough_zones_have_the_revision() {
        let said = wait(&[], |_, times| propagated(times > 0)).await;
        let said = said.expect("an answer");
        assert_eq!(
            (said.out.as_str(), said.good),
            ("2/2 zones have revision 7\n", true)
        );
        let said = wait(&["--for", "released", "--zones", "1"], |zone, _| {
            propagated(zone == "b")
        });
        let said = said.await.expect("an answer");
        let out = "revision 7 is released to at least 1 of 2 zones\n";
        assert_eq!((said.out.as_str(), said.good), (out, true));
    }

    #[tokio::test]
    async fn the_user_is_told_first_that_nothing_crosses() {
        let (said, notes) = noted(&[], |_, times| {
            let is_there = times > 0;
            let reason = "the zone has not acknowledged it yet";
            let answer = json!({"propagated": is_there, "crosses": false, "reason": reason});
            (200, answer)
        })
        .await;
        let said = said.expect("an answer");
        assert_eq!((said.err.as_str(), said.good), ("", true));
        let out = "revision 7 wrote nothing that zones are sent\n";
        assert_eq!(said.out, out, "zones do not have it");
        let warning = "warning: revision 7 wrote nothing that zones are sent; a SyncedKind must select it: kubectl get syncedkinds\n";
        assert_eq!(notes[0], warning);
        let warnings = notes.iter().filter(|note| *note == warning);
        assert_eq!(warnings.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_in_vain_names_the_zones() {
        // A hub that answers at once is asked again and again until the time is over.
        let said = wait(&["--timeout", "1s"], |zone, _| match zone {
            "a" => propagated(true),
            _ => fake::refusal(503),
        });
        let said = said.await.expect("an answer");
        assert!(!said.good);
        assert_eq!(said.out, "1/2 zones have revision 7\n");
        assert!(said.err.contains("not applied in time: b"), "{}", said.err);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hub_without_a_place_is_asked_again() {
        let said = wait(&[], |_, times| match times {
            0 => fake::refusal(TOO_MANY_REQUESTS),
            _ => propagated(true),
        });
        assert!(said.await.expect("an answer").good);
    }

    #[tokio::test]
    async fn a_revision_that_is_compacted_is_an_error_with_a_hint() {
        let error = wait(&[], |_, _| fake::refusal(410)).await;
        let error = error.expect_err("an error");
        assert_eq!(
            error.to_string(),
            "the hub does not know any more what revision 7 wrote"
        );
        assert!(error.hint().contains("current resourceVersion"));
        let refused = wait(&[], |_, _| fake::refusal(403)).await;
        assert!(refused.is_err());
    }

    #[test]
    fn the_hub_is_asked_for_the_wanted_state() {
        for (words, goal) in [(&[][..], "applied"), (&["--for", "released"], "released")] {
            let line = Line::parse_from([&["wait", "--propagated", "7"], words].concat());
            let path = line.wait.path(&"a".parse().expect("legal"), 20);
            let query = format!("zones/a/_propagated?revision=7&for={goal}&timeoutSeconds=20");
            assert!(path.ends_with(&query), "{path}");
        }
    }

    #[test]
    fn a_revision_is_a_number() {
        assert_eq!(revision("347"), Ok(347));
        let error = Line::try_parse_from(["wait", "--propagated", "abc"]);
        let error = error.err().expect("no revision").to_string();
        assert!(error.contains("write a revision, such as 347"), "{error}");
    }

    #[test]
    fn how_many_are_enough() {
        for (text, zones, expected) in [("95%", 20, 19), ("95%", 3, 3), ("0%", 3, 0), ("2", 9, 2)] {
            let needed = quorum(text).expect("a quorum").of(zones);
            assert_eq!(needed.expect("enough zones"), expected, "{text}");
        }
        for wrong in ["", "%", "101%", "-1", "x"] {
            assert!(quorum(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn more_zones_than_the_fleet_has_are_an_error() {
        let error = Quorum::Number(9).of(3).expect_err("the fleet has three");
        assert_eq!(
            error.to_string(),
            "9 zones are asked for, but the fleet has 3 enabled zones"
        );
        assert_eq!(
            error.hint(),
            "give --zones a number up to 3, or a share such as 95%"
        );
    }
}
