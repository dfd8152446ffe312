//! The commands of `rollout`, as they are written.

use std::time::Duration;

use clap::Subcommand;

use super::act::Until;
use super::names::{ContentVersion, DefinitionName, InstanceName, Subject};
use crate::args::duration;
use crate::client::Output;

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// How far it is, and how each zone or instance stands
    #[command(after_help = STATUS_EXAMPLES)]
    Status {
        /// `policy/NAME` or `graph/NAME`; a name alone where only one of both has it
        #[arg(value_name = "NAME")]
        subject: Subject,
        /// List all zones or instances, however many there are
        #[arg(long)]
        all: bool,
        /// The exit code is 1 if this release of a policy was rolled back
        #[arg(long, value_name = "NUMBER")]
        release: Option<u64>,
        /// How the answer looks
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// The same until it is complete; the exit code is 0 then. Where there is no terminal, a line
    /// for each change
    #[command(after_help = WATCH_EXAMPLES)]
    Watch {
        /// `policy/NAME` or `graph/NAME`; a name alone where only one of both has it
        #[arg(value_name = "NAME")]
        subject: Subject,
        /// How long to wait; the exit code is 1 when it is not complete by then [default: for ever]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        timeout: Option<Duration>,
        /// End with exit code 1 when too many zones failed, or when it is rolled back (policies)
        #[arg(long)]
        exit_on_failure: bool,
        /// Watch this release of a policy [default: the newest]
        #[arg(long, value_name = "NUMBER")]
        release: Option<u64>,
    },
    /// What opened or holds each gate: which zone, release and verdict; of a graph, what those
    /// under way wait for
    #[command(after_help = WHY_EXAMPLES)]
    Why {
        /// `policy/NAME` or `graph/NAME`; a name alone where only one of both has it
        #[arg(value_name = "NAME")]
        subject: Subject,
        /// Of a policy one zone; of a graph one instance: name, or namespace/name
        #[arg(value_name = "ZONE_OR_INSTANCE")]
        instance: Option<InstanceName>,
        /// The namespace of the instance
        #[arg(short, long, value_name = "NAME")]
        namespace: Option<String>,
        /// How the answer looks
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// What was released, by whom, and where it is; of a graph, what it was
    #[command(after_help = HISTORY_EXAMPLES)]
    History {
        /// `policy/NAME` or `graph/NAME`; a name alone where only one of both has it
        #[arg(value_name = "NAME")]
        subject: Subject,
        /// Print what is in this release of a policy, and what is not as in the one before
        #[arg(long, value_name = "NUMBER", conflicts_with = "revision")]
        release: Option<u64>,
        /// Print the definition of a graph as it was then
        #[arg(long, value_name = "NUMBER")]
        revision: Option<i64>,
        /// How the answer looks
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Let no more zones or instances move; those under way arrive
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause {
        /// `policy/NAME` or `graph/NAME`; a name alone where only one of both has it
        #[arg(value_name = "NAME")]
        subject: Subject,
        /// Only this stage of a policy
        #[arg(long, value_name = "NAME", conflicts_with = "zone")]
        stage: Option<String>,
    },
    /// Let them move again; of a policy also what stopped because too many zones failed
    #[command(after_help = RESUME_EXAMPLES)]
    Resume {
        /// `policy/NAME` or `graph/NAME`; a name alone where only one of both has it
        #[arg(value_name = "NAME")]
        subject: Subject,
        /// Only this stage of a policy
        #[arg(long, value_name = "NAME", conflicts_with = "zone")]
        stage: Option<String>,
    },
    #[command(flatten)]
    OfPolicy(PolicyVerb),
    #[command(flatten)]
    OfGraph(GraphVerb),
}

/// What only policies have.
#[derive(Debug, Subcommand)]
pub(super) enum PolicyVerb {
    /// Say yes to one stage of a policy at one release, or to what a release takes away; prints
    /// the name of the Approval. Of a graph: to what a version deletes; prints the version
    // `--version` is that of a graph.
    #[command(after_help = APPROVE_EXAMPLES, disable_version_flag = true)]
    Approve {
        /// The PropagationPolicy, or `graph/NAME`
        #[arg(value_name = "NAME")]
        subject: Subject,
        /// Which stage may begin [default: the one that waits]
        #[arg(long, value_name = "NAME", conflicts_with = "deletions")]
        stage: Option<String>,
        /// With which release [default: the one that waits]
        #[arg(long, value_name = "NUMBER")]
        release: Option<u64>,
        /// To what the release takes away, or the version of a graph deletes, which is more than
        /// its deletion budget
        #[arg(long)]
        deletions: bool,
        /// With which version of a graph, whole or its first ten digits [default: the one that
        /// holds deletions]
        #[arg(long = "version", value_name = "VERSION", requires = "deletions", conflicts_with_all = ["stage", "release"])]
        of_version: Option<ContentVersion>,
    },
    /// Bring back what an older release of a policy had: a new release, which moves through the
    /// same gates
    #[command(after_help = ROLLBACK_EXAMPLES)]
    Rollback {
        /// The PropagationPolicy
        #[arg(value_name = "POLICY")]
        subject: Subject,
        /// Which one [default: the newest before it that all stages completed]
        #[arg(long, value_name = "NUMBER")]
        to: Option<u64>,
    },
    /// Decide again, here, what the hub decided last of a policy, from what it knew; the exit code
    /// is 1 when something else comes of it
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay {
        /// The PropagationPolicy
        #[arg(value_name = "POLICY")]
        subject: Subject,
        /// How the answer looks; as JSON with all that was known
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}

/// What only graphs have.
#[derive(Debug, Subcommand)]
pub(super) enum GraphVerb {
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
    /// Write back what the definition of a graph was: a new revision, which moves through the same
    /// gates
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

pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  done; for watch: complete; for replay: the same decisions
  1  it could not be done; for watch: not in time, rolled back, or failed (with
     --exit-on-failure); for status --release: that release was rolled back;
     for replay: something else; for approve: it does not count, or that is not known
  2  the command line is wrong";

const STATUS_EXAMPLES: &str = "\
Examples:
  deltaplane rollout status policy/web
  deltaplane rollout status web --zone eu-1 -o json
  deltaplane rollout status graph/shop --all";

const WATCH_EXAMPLES: &str = "\
Examples:
  deltaplane rollout watch policy/web
  deltaplane rollout watch web --timeout 1h --exit-on-failure

Exit codes:
  0  complete: all stages completed the release that was newest when watching began, or
     the one that --release names
  1  not in time, or that release was rolled back, or with --exit-on-failure: too many
     zones failed";

const WHY_EXAMPLES: &str = "\
Examples:
  deltaplane rollout why policy/web
  deltaplane rollout why policy/web eu-1
  deltaplane rollout why shop prod/a --zone eu-1";

const HISTORY_EXAMPLES: &str = "\
Examples:
  deltaplane rollout history policy/web
  deltaplane rollout history policy/web --release 3";

const PAUSE_EXAMPLES: &str = "\
Examples:
  deltaplane rollout pause policy/web
  deltaplane rollout pause policy/web --stage rest
  deltaplane rollout pause policy/web --zone eu-1    holds the zone, for all policies";

const RESUME_EXAMPLES: &str = "\
Examples:
  deltaplane rollout resume policy/web
  deltaplane rollout resume policy/web --stage rest
  deltaplane rollout resume policy/web --zone eu-1";

const APPROVE_EXAMPLES: &str = "\
Examples:
  deltaplane rollout approve web
  deltaplane rollout approve web --stage rest --release 4
  deltaplane rollout approve web --deletions
  deltaplane rollout approve graph/shop --deletions";

const ROLLBACK_EXAMPLES: &str = "\
Examples:
  deltaplane rollout rollback web
  deltaplane rollout rollback web --to 3";

const REPLAY_EXAMPLES: &str = "\
Examples:
  deltaplane rollout replay web
  deltaplane rollout replay web -o json

Exit codes:
  0  the same decisions
  1  something else";
