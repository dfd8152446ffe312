//! Moves releases through the fleet: what is known goes to the one function that decides, and what
//! it decides is written down, in the status of policies and as releases. It takes effect when the
//! hub reads it from its log.
//!
//! Not here: deciding (`propagation::stages`), knowing zones and content (`fleet`).
//! Invariants: content is kept before the release that has it is written, and that before anything
//! is decided about it; a decision is written on what it was made of, or not at all; what cannot be
//! released keeps nothing else from being decided.

mod gathering;
mod plan;
mod seen;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use deltaplane_client::{ObjectKey, RequestError, Resource, request};
use deltaplane_propagation::Timestamp;
use deltaplane_propagation::stages::{Inputs, PolicyFacts};
use deltaplane_runtime::{Clock, Stop};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::Context;
use gathering::Gathering;
use plan::{Plan, Wanted, plan};
use seen::{Compiled, Seen, Wake};

/// What knows zones and content.
pub trait Fleet: Send + Sync {
    /// Woken by what policies are about.
    fn stirred(&self) -> watch::Receiver<u64>;
    /// The revision of the store that is known.
    fn at(&self) -> u64;
    /// What a policy says of itself is as of this revision, or later.
    fn told(&self, policy: &str, at: u64);
    fn policies(&self) -> Vec<String>;
    /// Of all that a look depends on, beside the time. Nothing when that is not known.
    fn stamp(&self, policy: &str) -> Option<u64>;
    fn look(&self, policy: &str) -> Option<PolicyFacts>;
    /// What a policy cannot do where it is.
    fn troubles(&self, policy: &str) -> Vec<String>;
    /// What is about to be written down was decided by this.
    fn decided(&self, policy: &str, inputs: Inputs);
    /// The spec of a release, but for its number: of what is there, or of what an older one had.
    /// All of its content is kept when this returns.
    fn draft<'a>(
        &'a self,
        policy: &'a str,
        restores: Option<u64>,
    ) -> BoxFuture<'a, Result<Value, String>>;
    /// What was drafted last does not become a release.
    fn forsake(&self, policy: &str);
    /// Drops the content that no release has, if there may be any.
    fn sweep(&self) -> BoxFuture<'_, Result<usize, String>>;
}

/// Why a policy is looked at again later.
#[derive(Debug, thiserror::Error)]
enum PolicyError {
    #[error("failed to {verb}")]
    Request {
        verb: &'static str,
        source: RequestError,
    },
    /// It is said in the status of the policy, too.
    #[error("release {number} cannot be put together: {why}")]
    Draft { number: u64, why: String },
    /// It is said there, too.
    #[error(
        "release {name} is of an earlier policy of this name, and in the way: `kubectl delete release {name}`"
    )]
    Taken { name: String },
    #[error("failed to drop what nobody holds: {0}")]
    Sweep(String),
}

// === impl PolicyError ===

impl PolicyError {
    /// Returns true if a release that could not be written is not there: an API that did not answer
    /// may have stored it.
    fn is_final(&self) -> bool {
        match self {
            Self::Draft { .. } | Self::Taken { .. } => true,
            Self::Request { source, .. } => source.code().is_some_and(|code| code < 500),
            Self::Sweep(_) => false,
        }
    }

    /// With what it came from, for people who do not read logs.
    fn in_full(&self) -> String {
        let source = std::error::Error::source(self);
        match source {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// The group of the kinds.
const GROUP: &str = "fleet.deltaplane.io";
const VERSION: &str = "v1alpha1";
/// What could not be written is tried again after so long.
const AGAIN: Duration = Duration::from_secs(1);
/// More is waited for as long as deciding took the last time, and no longer than this.
const GATHER: Duration = Duration::from_millis(50);

/// Keeps all policies moving, until told to stop.
pub async fn run(context: Context, fleet: Arc<dyn Fleet>, stop: Stop) {
    let mut mover = Mover {
        context,
        fleet,
        written: BTreeMap::new(),
        gathering: Gathering::default(),
        seen: Seen::default(),
        compiled: Compiled::default(),
    };
    let mut stirred = mover.fleet.stirred();
    let clock = mover.context.pace.clock.clone();
    loop {
        stirred.borrow_and_update();
        let began = clock.elapsed();
        let next = mover.pass().await;
        let took = clock.elapsed().saturating_sub(began);
        tokio::select! {
            () = stop.wait() => return,
            changed = stirred.changed() => if changed.is_err() {
                stop.wait().await;
                return;
            },
            () = clock.sleep_until(next.at.unwrap_or(UNIX_EPOCH)), if next.at.is_some() => {}
            () = clock.sleep(left(&clock, next)), if next.after.is_some() => {}
        }
        // What happens together is decided together: a pass looks at all zones, and each of them
        // wakes us several times while a release moves.
        stop.unless(clock.sleep(took.min(GATHER))).await;
    }
}

/// How long it is until something is due by the time that has elapsed.
fn left(clock: &Clock, wake: Wake) -> Duration {
    let after = wake.after.unwrap_or_default();
    after.saturating_sub(clock.elapsed())
}

struct Mover {
    context: Context,
    fleet: Arc<dyn Fleet>,
    /// The revisions of policies that were written last: what is known must be that far.
    written: BTreeMap<String, u64>,
    gathering: Gathering,
    seen: Seen,
    compiled: Compiled,
}

/// How a look at a policy ended.
enum Passed {
    /// All is said. When to look again, if time alone may change something.
    Done(Wake),
    /// Something is not known yet, or was written meanwhile: that wakes us.
    Later,
}

// === impl Mover ===

impl Mover {
    /// Looks at all policies once. When to look again, if time alone may change something.
    async fn pass(&mut self) -> Wake {
        let policies = self.fleet.policies();
        self.written.retain(|name, _| policies.contains(name));
        self.gathering.keep(&policies);
        self.seen.keep(&policies);
        self.compiled.keep(&policies);
        let mut next = Wake::default();
        let at = self.fleet.at();
        if let Err(error) = self.fleet.sweep().await.map_err(PolicyError::Sweep) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "failed to drop content; it is dropped later");
        }
        for policy in policies {
            let stamp = self.fleet.stamp(&policy);
            let clock = &self.context.pace.clock;
            let now = (clock.now(), clock.elapsed());
            if let Some(again) = self.seen.unchanged(&policy, stamp, now) {
                self.fleet.told(&policy, at);
                next = next.or(again);
                continue;
            }
            let again = match self.policy(&policy).await {
                Ok(Passed::Done(again)) => {
                    self.seen.done(&policy, stamp, again);
                    self.fleet.told(&policy, at);
                    again
                }
                Ok(Passed::Later) => Wake::default(),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(policy, error, "failed to move a policy on; trying again");
                    self.retry()
                }
            };
            next = next.or(again);
        }
        next
    }

    async fn policy(&mut self, name: &str) -> Result<Passed, PolicyError> {
        // Whatever is held until a time is so at this one, or free: it is not missed between both.
        let now = Timestamp::from_system(self.context.pace.clock.now());
        let Some(mut facts) = self.fleet.look(name) else {
            return Ok(Passed::Later);
        };
        let seen = revision(&facts.object);
        if self
            .written
            .get(name)
            .is_some_and(|written| seen < *written)
        {
            // What was decided has not taken effect yet; it wakes us when it does.
            return Ok(Passed::Later);
        }
        if facts.is_released() {
            self.gathering.over(name);
        }
        let (plan, again) = self.make_release(name, &mut facts, now).await;
        let Plan {
            wanted: _,
            decided,
            status,
            surplus,
            next,
        } = plan;
        if decided {
            let facts = facts.clone();
            self.fleet.decided(name, Inputs { facts, now });
        }
        if let Some(status) = status
            && !self.tell(name, &facts, status).await?
        {
            return Ok(Passed::Later);
        }
        if !surplus.is_empty() {
            self.collect(name, &surplus).await?;
        }
        let next = Wake {
            at: next.map(Timestamp::to_system),
            after: None,
        };
        Ok(Passed::Done(next.or(again)))
    }

    /// When something that failed is tried again.
    fn retry(&self) -> Wake {
        Wake {
            at: None,
            after: Some(self.context.pace.clock.elapsed() + AGAIN),
        }
    }

    /// Makes the release that is wanted, if one is. What cannot be released stops nothing else: it
    /// is a problem of the policy, and what is wanted instead is made. What is left to be done, and
    /// when to try again.
    async fn make_release(
        &mut self,
        name: &str,
        facts: &mut PolicyFacts,
        now: Timestamp,
    ) -> (Plan, Wake) {
        let troubles = self.fleet.troubles(name);
        let policy = self.compiled.of(name, facts);
        let mut planned = plan(facts, &policy, &troubles, now);
        let (mut tried, mut again) = (None, Wake::default());
        while let Some(wanted) = planned
            .wanted
            .clone()
            .filter(|one| Some(one) != tried.as_ref())
        {
            again.after = self.gather(name, facts, &wanted);
            if again.after.is_some() {
                break;
            }
            let Err(error) = self.release(name, facts, &wanted).await else {
                self.gathering.over(name);
                break;
            };
            if error.is_final() {
                self.fleet.forsake(name);
            }
            facts.head.problems.push(error.in_full());
            let error = &error as &dyn std::error::Error;
            tracing::warn!(policy = name, error, "failed to release; trying again");
            tried = Some(wanted);
            again = self.retry();
            planned = plan(facts, &policy, &troubles, now);
        }
        (planned, again)
    }

    /// Until when more may come that belongs to a release, by the time that has elapsed: a clock
    /// that is put back delays nothing. To go back waits for nothing.
    fn gather(&mut self, name: &str, facts: &PolicyFacts, wanted: &Wanted) -> Option<Duration> {
        if wanted.restores.is_some() {
            return None;
        }
        let now = self.context.pace.clock.elapsed();
        let until = self.gathering.until(name, &facts.head.digest, now);
        Some(until).filter(|until| *until > now)
    }

    /// Writes a release. It is decided about when it is seen.
    async fn release(
        &self,
        policy: &str,
        facts: &PolicyFacts,
        wanted: &Wanted,
    ) -> Result<(), PolicyError> {
        let draft = self.fleet.draft(policy, wanted.restores).await;
        let number = wanted.number;
        let mut spec = draft.map_err(|why| PolicyError::Draft { number, why })?;
        spec["number"] = wanted.number.into();
        if let Some((release, cause)) = &wanted.rolled_back {
            spec["rolledBack"] = cause.write(*release);
        }
        let owner = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "PropagationPolicy",
            "name": policy, "uid": facts.object["metadata"]["uid"],
        });
        let release = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "Release",
            "metadata": {"name": release_name(policy, wanted.number), "ownerReferences": [owner]},
            "spec": spec,
        });
        let path = resource("releases", "Release").collection_path(None);
        match request::create::<serde::de::IgnoredAny>(&self.context.client, &path, &release).await
        {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => self.check_ours(&release).await,
            Err(source) => Err(PolicyError::Request {
                verb: "write a release",
                source,
            }),
        }
    }

    /// Of a release that is there already: it was written before and is seen in a moment, unless it
    /// is one of another policy that had this name.
    async fn check_ours(&self, release: &Value) -> Result<(), PolicyError> {
        let name = release["metadata"]["name"].as_str().unwrap_or_default();
        let path = resource("releases", "Release").object_path(&ObjectKey::cluster(name));
        let there = request::get::<Value>(&self.context.client, &path).await;
        let there = there.map_err(|source| PolicyError::Request {
            verb: "read a release",
            source,
        })?;
        match there["spec"]["policyUID"] == release["spec"]["policyUID"] {
            true => Ok(()),
            false => Err(PolicyError::Taken {
                name: name.to_owned(),
            }),
        }
    }

    /// Writes what was decided, on what it was decided by. Whether it was written.
    async fn tell(
        &mut self,
        policy: &str,
        facts: &PolicyFacts,
        status: Value,
    ) -> Result<bool, PolicyError> {
        let mut object = Value::clone(&facts.object);
        object["status"] = status;
        let key = ObjectKey::cluster(policy);
        let path = resource("propagationpolicies", "PropagationPolicy").object_path(&key);
        let path = format!("{path}/status?fieldManager=deltaplane");
        match request::replace::<Value>(&self.context.client, &path, &object).await {
            Ok(written) => {
                self.written.insert(policy.to_owned(), revision(&written));
                Ok(true)
            }
            // Somebody wrote it meanwhile: that wakes us.
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(false),
            Err(error) => Err(PolicyError::Request {
                verb: "write what was decided",
                source: error,
            }),
        }
    }

    /// Releases that nobody may go back to.
    async fn collect(&self, policy: &str, surplus: &[u64]) -> Result<(), PolicyError> {
        for number in surplus {
            let key = ObjectKey::cluster(&release_name(policy, *number));
            let path = resource("releases", "Release").object_path(&key);
            match request::delete(&self.context.client, &path, &json!({})).await {
                Err(error) if !error.is_not_found() => {
                    return Err(PolicyError::Request {
                        verb: "delete a release",
                        source: error,
                    });
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

fn resource(plural: &str, kind: &str) -> Resource {
    Resource::cluster(GROUP, VERSION, plural, kind)
}

/// What the object of a release is called.
fn release_name(policy: &str, number: u64) -> String {
    format!("{policy}-{number}")
}

fn revision(object: &Value) -> u64 {
    let revision = object["metadata"]["resourceVersion"].as_str();
    revision.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
