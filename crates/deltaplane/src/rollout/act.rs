//! What changes a rollout: pausing, holding, and taking back.

use std::str::FromStr;
use std::time::Duration;

use deltaplane_api::keys;
use deltaplane_api::time::Time;
use deltaplane_client::request::{self, Patch};
use deltaplane_client::{RequestError, Resource};
use deltaplane_sync::Origin;
use kube::Client;
use serde_json::{Value, json};

use super::ask::{Api, find_revision};
use super::seen::{Revision, Seen, key};
use super::verdict::{self, Verdict};
use super::{DefinitionName, InstanceName, RolloutError, history, now, read};
use crate::args::duration;
use crate::graph::live;
use crate::said::Said;

/// Until when an instance is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    At(Time),
    In(Duration),
}

/// Whether instances move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    On,
    Off,
}

/// Pauses or resumes.
pub(super) async fn turn(
    api: &Api<'_>,
    name: &DefinitionName,
    turn: Turn,
) -> Result<Said, RolloutError> {
    let definition = read::definition(&api.client, name).await?;
    let (value, done, command) = match turn {
        Turn::Off => ("true".into(), "paused", "pause"),
        Turn::On => (Value::Null, "resumed", "resume"),
    };
    let change = json!({"metadata": {"annotations": {keys::PAUSED: value}}});
    let path = read::definition_path(name);
    let command = format!("deltaplane rollout {command} graph/{}", name.as_str());
    patch(&api.client, &path, &change)
        .await
        .map_err(|error| refused(error, &definition, &command))?;
    Ok(said(format!("{} is {done}\n", name.as_str())))
}

/// Keeps an instance where it is, until a time or until it is released.
pub(super) async fn hold(
    api: &Api<'_>,
    definition: &DefinitionName,
    name: &InstanceName,
    until: Option<Until>,
) -> Result<Said, RolloutError> {
    let now = now();
    let (value, done) = match until.map(|until| until.after(now)) {
        Some(until) if until <= now => return Err(RolloutError::Over { until }),
        Some(until) => (until.to_string(), format!("held until {until}")),
        None => ("true".to_owned(), "held until it is released".to_owned()),
    };
    mark(api, (definition, name), value.into(), &done).await
}

pub(super) async fn release(
    api: &Api<'_>,
    definition: &DefinitionName,
    name: &InstanceName,
) -> Result<Said, RolloutError> {
    mark(api, (definition, name), Value::Null, "released").await
}

/// Writes on an instance whether it is held.
async fn mark(
    api: &Api<'_>,
    (definition, name): (&DefinitionName, &InstanceName),
    value: Value,
    done: &str,
) -> Result<Said, RolloutError> {
    let seen = read::seen(&api.client, definition).await?;
    let instance = name.find(&seen)?;
    let key = key(instance);
    let place = read::served(&api.client, &seen.definition).await?;
    let path = place.map(|place: Resource| place.object_path(&key));
    let change = json!({"metadata": {"annotations": {keys::HOLD: value}}});
    let verb = if value.is_null() { "release" } else { "hold" };
    let command = format!(
        "deltaplane rollout {verb} graph/{} {key}",
        definition.as_str()
    );
    patch(&api.client, &path.unwrap_or_default(), &change)
        .await
        .map_err(|error| refused(error, instance, &command))?;
    Ok(said(format!("{key} is {done}\n")))
}

async fn patch(client: &Client, path: &str, change: &Value) -> Result<Value, RequestError> {
    request::patch(client, path, Patch::Merge, change).await
}

/// It was done.
fn said(done: String) -> Said {
    Said {
        out: String::new(),
        err: done,
        good: true,
    }
}

/// What to do about a write that was refused, by where the object is from.
pub(super) fn refused(error: RequestError, object: &Value, command: &str) -> RolloutError {
    let origin = Origin::of(object).filter(|_| error.code() == Some(403));
    let instead = origin.map(|origin| match origin {
        Origin::Hub => format!(
            "it came from the hub; with the hub's kubeconfig, and without --zone: {command}"
        ),
        Origin::Zone(zone) => {
            format!("it came from zone {zone}; with that zone's kubeconfig: {command}")
        }
    });
    RolloutError::Write {
        source: Box::new(error),
        instead,
    }
}

pub(super) async fn undo(
    api: &Api<'_>,
    name: &DefinitionName,
    number: Option<i64>,
    dry_run: bool,
) -> Result<Said, RolloutError> {
    let seen = read::seen(&api.client, name).await?;
    let revision = match number {
        Some(number) => find_revision(&seen, number)?,
        None => {
            let nothing = || RolloutError::NothingBefore(seen.name().to_owned());
            history::previous(&seen).ok_or_else(nothing)?
        }
    };
    if revision.spec == seen.definition["spec"] {
        let err = format!(
            "{} says what revision {} says already\n",
            seen.name(),
            revision.number
        );
        let (out, good) = (String::new(), true);
        return Ok(Said { out, err, good });
    }
    if dry_run {
        return difference(&api.client, &seen, revision).await;
    }
    let mut object = seen.definition.clone();
    object["spec"] = revision.spec.clone();
    let path = format!(
        "{}?fieldManager=deltaplane-rollout",
        read::definition_path(name)
    );
    let written = request::replace::<Value>(&api.client, &path, &object).await;
    let command = format!(
        "deltaplane rollout undo graph/{}{}",
        name.as_str(),
        number.map_or_else(String::new, |number| format!(" --to-revision {number}"))
    );
    let written = written.map_err(|error| refused(error, &seen.definition, &command))?;
    let generation = written["metadata"]["generation"].as_i64();
    let verdict = verdict::wait(&api.client, name, generation.unwrap_or(0)).await;
    let again = format!(
        "{} says again what revision {} said",
        seen.name(),
        revision.number
    );
    if let Verdict::Refused(why) = &verdict {
        let why = format!("{again}, and that is refused; what was in force stays: {why}\n");
        return Ok(Said {
            err: why,
            ..Said::default()
        });
    }
    let what = match (seen.target() == Some(revision.number), verdict) {
        // It was never replaced: the definition was not valid, or not looked at.
        (true, _) => "it is in force again",
        (false, Verdict::Open) => "nobody has looked at it yet",
        (false, Verdict::Taken | Verdict::Refused(_)) => {
            "a new revision, which moves through the same gates"
        }
    };
    Ok(said(format!(
        "{again}: {what}\nnote: whoever applies the definition from a file brings back what is there; change that too\nhint: {} follows it\n",
        api.command(&format!("watch graph/{}", seen.name()))
    )))
}

/// What undoing would change.
async fn difference(
    client: &Client,
    seen: &Seen,
    revision: &Revision,
) -> Result<Said, RolloutError> {
    let out = live::difference(client, seen, revision).await?;
    let err = format!(
        "nothing was changed; without --dry-run revision {} is written back\n",
        revision.number
    );
    let good = true;
    Ok(Said { out, err, good })
}

// === impl Until ===

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text.parse::<Time>(), duration(text)) {
            (Ok(time), _) => Ok(Self::At(time)),
            (Err(_), Ok(time)) => Ok(Self::In(time)),
            (Err(_), Err(_)) => Err("write it as 2026-03-01T12:00:00Z, or as 2h".to_owned()),
        }
    }
}

impl Until {
    pub(super) fn after(self, now: Time) -> Time {
        match self {
            Self::At(time) => time,
            Self::In(time) => now.plus(i64::try_from(time.as_secs()).unwrap_or(i64::MAX)),
        }
    }
}
