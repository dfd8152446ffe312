//! `deltaplane wait --propagated`: until zones have what was written.

use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Client;
use serde_json::Value;

use deltaplane_client::request;
use deltaplane_sync::ZoneName;

use super::{ClientError, Hub, Said, name_of, zone_objects, zone_path};
use crate::args::{Environment, duration};

/// For `wait`.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    hub: Hub,
    /// The revision that a write returned: the resourceVersion of the object, or the header
    /// deltaplane-revision of the answer
    #[arg(long, value_name = "REVISION")]
    propagated: u64,
    /// How many of the enabled zones must have it: a number, or a share such as 95%
    #[arg(long, value_name = "ZONES", default_value = "100%", value_parser = quorum)]
    zones: Quorum,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

/// How long to wait before a hub is asked again that did not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// How many are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quorum {
    Number(usize),
    Percent(usize),
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

// === impl Wait ===

impl Wait {
    pub(super) async fn run(self, environment: &Environment) -> Result<Said, ClientError> {
        let client = self.hub.client(environment).await?;
        let zones = zone_objects(&client).await?;
        let enabled = zones.iter().filter(|zone| zone["spec"]["enabled"] != false);
        let zones: Vec<ZoneName> = enabled.filter_map(name_of).collect();
        let needed = self.zones.of(zones.len());
        let (total, revision) = (zones.len(), self.propagated);
        let mut waiting: FuturesUnordered<_> = zones
            .iter()
            .map(|zone| propagated(&client, zone, revision))
            .collect();
        let mut missing: Vec<&ZoneName> = zones.iter().collect();
        let mut have = 0;
        let deadline = tokio::time::sleep(self.timeout);
        tokio::pin!(deadline);
        while have < needed {
            tokio::select! {
                () = &mut deadline => break,
                next = waiting.next() => match next {
                    Some(zone) => {
                        let zone = zone?;
                        have += 1;
                        missing.retain(|one| **one != zone);
                    }
                    None => break,
                },
            }
        }
        let mut err = String::new();
        if have < needed {
            let names: Vec<&str> = missing.iter().map(|zone| zone.as_str()).collect();
            err = format!(
                "not propagated in time: {}\nhint: deltaplane zones show <zone> says what it waits for\n",
                names.join(", ")
            );
        }
        Ok(Said {
            out: format!("{have}/{total} zones have revision {revision}\n"),
            err,
            good: have >= needed,
        })
    }
}

/// The zone, when it has the revision.
async fn propagated(
    client: &Client,
    zone: &ZoneName,
    revision: u64,
) -> Result<ZoneName, ClientError> {
    let path = format!("{}/_propagated?revision={revision}", zone_path(zone));
    loop {
        match request::get::<Value>(client, &path).await {
            Ok(answer) if answer["propagated"] == true => return Ok(zone.clone()),
            Ok(_) => {}
            Err(error) if error.code().is_some_and(|code| code < 500) => return Err(error.into()),
            // The hub may be back before the time is over.
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
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
