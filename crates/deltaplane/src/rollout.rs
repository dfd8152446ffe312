//! `deltaplane rollout`: how far instances are with a changed definition of their graph, what holds
//! them, and the ways to stop, resume and take back a change.
//!
//! What there is is read at the edge (`read`, `watch`); what it means (`seen`, `overview`,
//! `history`, `why`) and how it looks (`shown`) is pure.

mod act;
mod ask;
mod error;
mod fleet;
mod history;
mod names;
mod overview;
mod read;
mod seen;
mod shown;
#[cfg(test)]
mod tests;
mod watch;
mod why;

use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};

use deltaplane_api::time::Time;
use deltaplane_sync::ZoneName;

use crate::args::{Environment, duration};
use crate::client::{Hub, Output};
use crate::graph::printable;
use crate::said::Said;

pub(crate) use error::RolloutError;
pub(crate) use names::{DefinitionName, InstanceName};
pub(crate) use read::{objects, seen as read_seen, served, whole};
pub(crate) use seen::{Condition, Revision, Seen, conditions, key};
pub(crate) use watch::{Screen, feed};

use act::{Turn, Until};
use ask::Api;

/// For `rollout`.
#[derive(Debug, Args)]
pub(crate) struct Rollout {
    #[command(flatten)]
    hub: Hub,
    /// Ask this zone, through its hub, instead of the API that the kubeconfig names
    #[arg(long, value_name = "NAME", global = true)]
    zone: Option<ZoneName>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// How far it is, and how each instance stands
    Status {
        /// The ResourceGraphDefinition
        definition: DefinitionName,
        /// List all instances, however many there are
        #[arg(long)]
        all: bool,
        /// How the answer looks
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// The same until it is complete; the exit code is 0 then. Where there is no terminal, a line
    /// for each change
    Watch {
        /// The ResourceGraphDefinition
        definition: DefinitionName,
        /// How long to wait; the exit code is 1 when it is not complete by then [default: for ever]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        timeout: Option<Duration>,
    },
    /// What holds it: gates with their values, and what those under way wait for
    Why {
        /// The ResourceGraphDefinition
        definition: DefinitionName,
        /// One instance: name, or namespace/name
        instance: Option<InstanceName>,
        /// The namespace of the instance
        #[arg(short, long, value_name = "NAME")]
        namespace: Option<String>,
        /// How the answer looks
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// What the definition was, and how many instances run which of it
    History {
        /// The ResourceGraphDefinition
        definition: DefinitionName,
        /// Print the definition as it was then
        #[arg(long, value_name = "NUMBER")]
        revision: Option<i64>,
        /// How the answer looks
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Let no more instances move; those under way arrive
    Pause {
        /// The ResourceGraphDefinition
        definition: DefinitionName,
    },
    /// Let instances move again
    Resume {
        /// The ResourceGraphDefinition
        definition: DefinitionName,
    },
    /// Keep one instance at the revision that it runs; nobody waits for it
    Hold {
        /// The ResourceGraphDefinition
        definition: DefinitionName,
        /// The instance: name, or namespace/name
        instance: InstanceName,
        /// The namespace of the instance
        #[arg(short, long, value_name = "NAME")]
        namespace: Option<String>,
        /// Until this time (2026-03-01T12:00:00Z), or for so long (2h) [default: until it is
        /// released]
        #[arg(long, value_name = "TIME")]
        until: Option<Until>,
    },
    /// Let an instance move again that is held
    Release {
        /// The ResourceGraphDefinition
        definition: DefinitionName,
        /// The instance: name, or namespace/name
        instance: InstanceName,
        /// The namespace of the instance
        #[arg(short, long, value_name = "NAME")]
        namespace: Option<String>,
    },
    /// Write back what the definition was: a new revision, which moves through the same gates
    Undo {
        /// The ResourceGraphDefinition
        definition: DefinitionName,
        /// Which one [default: the newest that says something else than the definition does now]
        #[arg(long, value_name = "NUMBER")]
        to_revision: Option<i64>,
        /// Say what would change, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// The time now, for people.
fn now() -> Time {
    Time::from_system(SystemTime::now())
}

// === impl Rollout ===

impl Rollout {
    pub(crate) async fn run(self, environment: &Environment) -> Result<Said, RolloutError> {
        let Self { hub, zone, verb } = self;
        let api = Api::new(hub, zone, environment).await?;
        let said = match verb {
            Verb::Status {
                definition,
                all,
                output,
            } => ask::status(&api, &definition, all, output).await,
            Verb::Watch {
                definition,
                timeout,
            } => watch::run(&api, &definition, timeout).await,
            Verb::Why {
                definition,
                instance,
                namespace,
                output,
            } => {
                let instance = instance.map(|name| name.within(namespace));
                ask::why(&api, &definition, instance.as_ref(), output).await
            }
            Verb::History {
                definition,
                revision,
                output,
            } => ask::history(&api, &definition, revision, output).await,
            Verb::Pause { definition } => act::turn(&api, &definition, Turn::Off).await,
            Verb::Resume { definition } => act::turn(&api, &definition, Turn::On).await,
            Verb::Hold {
                definition,
                instance,
                namespace,
                until,
            } => act::hold(&api, &definition, &instance.within(namespace), until).await,
            Verb::Release {
                definition,
                instance,
                namespace,
            } => act::release(&api, &definition, &instance.within(namespace)).await,
            Verb::Undo {
                definition,
                to_revision,
                dry_run,
            } => act::undo(&api, &definition, to_revision, dry_run).await,
        }?;
        // What was read may be anybody's.
        Ok(Said {
            out: printable(said.out),
            err: printable(said.err),
            good: said.good,
        })
    }
}
