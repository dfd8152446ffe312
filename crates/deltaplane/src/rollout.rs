//! `deltaplane rollout`: how far a change is, what holds it, and the ways to stop, resume and take it
//! back: of what a policy governs, on its way through zones (`policy`), or of the definition of a
//! graph, on its way through its instances.
//!
//! Of graphs, what there is is read at the edge (`read`, `watch`); what it means (`seen`, `overview`,
//! `history`, `why`) and how it looks (`shown`) is pure.

mod act;
mod ask;
mod deletions;
mod error;
mod fleet;
mod history;
mod names;
mod overview;
mod policy;
mod read;
mod seen;
mod shown;
#[cfg(test)]
mod tests;
mod verbs;
mod verdict;
mod watch;
mod why;

use std::time::SystemTime;

use clap::Args;

use deltaplane_api::time::Time;
use deltaplane_sync::ZoneName;

use crate::args::Environment;
use crate::client::Hub;
use crate::said::Said;

pub(crate) use error::RolloutError;
pub(crate) use names::{DefinitionName, InstanceName};
pub(crate) use read::{objects, seen as read_seen, served, whole};
pub(crate) use seen::{Condition, Revision, Seen, conditions, key};
pub(crate) use watch::{Screen, feed};

use act::Turn;
use ask::Api;
use names::{ContentVersion, Subject};
use policy::{Ends, Found, Policies, PolicyError, Yes};
use verbs::{GraphVerb, PolicyVerb, Verb};

/// For `rollout`.
#[derive(Debug, Args)]
#[command(after_help = verbs::EXIT_CODES)]
pub(crate) struct Rollout {
    #[command(flatten)]
    hub: Hub,
    /// Of graphs: ask this zone, through its hub, instead of the API that the kubeconfig names; of
    /// policies: only this zone
    #[arg(long, value_name = "NAME", global = true)]
    zone: Option<ZoneName>,
    #[command(subcommand)]
    verb: Verb,
}

/// Returns the time, for commands.
pub(crate) fn clock() -> SystemTime {
    SystemTime::now()
}

/// Returns the time, for people.
fn now() -> Time {
    Time::from_system(clock())
}

// === impl Rollout ===

impl Rollout {
    pub(crate) async fn run(self, environment: &Environment) -> Result<Said, RolloutError> {
        let Self { hub, zone, verb } = self;
        let api = Api::new(hub, zone, environment).await?;
        verb.run(&api).await
    }
}

// === impl Verb ===

impl Verb {
    async fn run(self, api: &Api<'_>) -> Result<Said, RolloutError> {
        match self {
            Self::Status {
                subject,
                all,
                release,
                output,
            } => match Policies::find(api, subject).await? {
                Found::Policy(policy) => policy::status(&policy, (all, release), output).await,
                Found::Graph(_) if release.is_some() => Err(not_for_graphs("--release")),
                Found::Graph(name) => ask::status(api, &name, all, output).await,
            },
            Self::Watch {
                subject,
                timeout,
                exit_on_failure: on_failure,
                release,
            } => match Policies::find(api, subject).await? {
                Found::Policy(policy) => {
                    policy::watch(
                        &policy,
                        Ends {
                            timeout,
                            on_failure,
                            release,
                        },
                    )
                    .await
                }
                Found::Graph(_) if on_failure => Err(not_for_graphs("--exit-on-failure")),
                Found::Graph(_) if release.is_some() => Err(not_for_graphs("--release")),
                Found::Graph(name) => watch::run(api, &name, timeout).await,
            },
            Self::Why {
                subject,
                instance,
                namespace,
                output,
            } => match Policies::find(api, subject).await? {
                Found::Policy(policy) => {
                    let zone = instance.map(|name| name.to_string());
                    policy::why(&policy, zone.as_deref(), output).await
                }
                Found::Graph(name) => {
                    let instance = instance.map(|name| name.within(namespace));
                    ask::why(api, &name, instance.as_ref(), output).await
                }
            },
            Self::History {
                subject,
                release,
                revision,
                output,
            } => match Policies::find(api, subject).await? {
                Found::Policy(policy) => policy::history(&policy, release, output).await,
                Found::Graph(_) if release.is_some() => Err(not_for_graphs("--release")),
                Found::Graph(name) => ask::history(api, &name, revision, output).await,
            },
            Self::Pause { subject, stage } => match Policies::find(api, subject).await? {
                Found::Policy(policy) => policy::pause(&policy, stage.as_deref()).await,
                Found::Graph(_) if stage.is_some() => Err(not_for_graphs("--stage")),
                Found::Graph(name) => act::turn(api, &name, Turn::Off).await,
            },
            Self::Resume { subject, stage } => match Policies::find(api, subject).await? {
                Found::Policy(policy) => policy::resume(&policy, stage.as_deref()).await,
                Found::Graph(_) if stage.is_some() => Err(not_for_graphs("--stage")),
                Found::Graph(name) => act::turn(api, &name, Turn::On).await,
            },
            Self::OfPolicy(verb) => verb.run(api).await,
            Self::OfGraph(verb) => verb.run(api).await,
        }
    }
}

fn not_for_graphs(what: &'static str) -> RolloutError {
    PolicyError::NotForGraphs(what).into()
}

// === impl PolicyVerb ===

impl PolicyVerb {
    async fn run(self, api: &Api<'_>) -> Result<Said, RolloutError> {
        if let Self::Approve {
            subject: Subject::Graph(name),
            stage: None,
            release: None,
            deletions: true,
            of_version,
        } = &self
        {
            let version = of_version.as_ref().map(ContentVersion::as_str);
            return deletions::approve(api, name, version).await;
        }
        let policy = Policies::named(api, self.policy()?).await?;
        match self {
            Self::Approve {
                of_version: Some(_),
                ..
            } => Err(PolicyError::NotForPolicies("--version").into()),
            Self::Approve {
                subject: _,
                stage,
                release,
                deletions,
                of_version: None,
            } => {
                let stage = stage.as_deref();
                let yes = Yes {
                    stage,
                    release,
                    deletions,
                };
                policy::approve(&policy, yes).await
            }
            Self::Rollback { subject: _, to } => policy::rollback(&policy, to).await,
            Self::Replay { subject: _, output } => policy::replay(&policy, output).await,
        }
    }

    /// The name of the policy that is meant.
    fn policy(&self) -> Result<String, PolicyError> {
        let (subject, verb) = match self {
            Self::Approve { subject, .. } => (subject, "rollout approve without --deletions"),
            Self::Rollback { subject, .. } => (subject, "rollout rollback"),
            Self::Replay { subject, .. } => (subject, "rollout replay"),
        };
        match subject {
            Subject::Policy(name) | Subject::Either(name) => Ok(name.clone()),
            Subject::Graph(_) => Err(PolicyError::NotForGraphs(verb)),
        }
    }
}

// === impl GraphVerb ===

impl GraphVerb {
    async fn run(self, api: &Api<'_>) -> Result<Said, RolloutError> {
        match self {
            Self::Hold {
                definition,
                instance,
                namespace,
                until,
            } => act::hold(api, &definition, &instance.within(namespace), until).await,
            Self::Release {
                definition,
                instance,
                namespace,
            } => act::release(api, &definition, &instance.within(namespace)).await,
            Self::Undo {
                definition,
                to_revision,
                dry_run,
            } => act::undo(api, &definition, to_revision, dry_run).await,
        }
    }
}
