//! Our claims against outside suites: each verb fetches one, runs it and prints counts.
//!
//! What fails is listed; what is known to fail is listed with its reason and does not fail the
//! verb; what cannot apply is skipped with a reason. Nothing that is fetched is kept in the tree.

mod apply;
mod cel;
mod defaults;
mod ginkgo;
mod jsonpatch;
mod kro;
mod kro_suite;
mod kubernetes;
mod oracle;
mod protobuf;
mod random;
mod report;
mod required;
mod samples;
mod simple;
mod tables;

use anyhow::Result;
use clap::Subcommand;

pub(crate) use report::Report;

/// Which suite to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// structured-merge-diff's operation sequences: server-side apply.
    Apply,
    /// Random schemas, patches and applies, answered by Kubernetes' own Go code and by ours.
    Fuzz {
        /// How many cases of each kind.
        #[arg(long, default_value_t = 2_000)]
        cases: u64,
        /// Where the randomness starts: the same seed gives the same cases.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Kubernetes' own samples of every kind, decoded from protobuf and encoded again.
    Protobuf {
        /// The published samples alone, without a real server (which is built first: minutes).
        #[arg(long)]
        short: bool,
    },
    /// The expression language's public conformance data.
    Cel(cel::Args),
    /// Kubernetes' CEL libraries and costs, answered by Kubernetes' own Go code and by ours.
    CelKubernetes,
    /// kro's functions and texts with expressions, compared with kro's own code.
    CelKro,
    /// SimpleSchema, plurals and changes of schemas, compared with kro's own code.
    SimpleSchema {
        /// How many sources are made, beside those written by hand.
        #[arg(long, default_value_t = 2_000)]
        cases: u64,
        /// Where the randomness starts: the same seed gives the same cases.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// ResourceGraphDefinitions, published and ours: what is taken and what it becomes, compared
    /// with kro's own code.
    Kro {
        /// Published definitions are also changed, one thing at a time: every so many changes are
        /// made, and all of them with 1.
        #[arg(long, default_value_t = 5)]
        every: usize,
    },
    /// kro's integration suite, with our process as the controller of a real kube-apiserver.
    #[command(name = "kro-suite")]
    KroIntegration(kro_suite::Args),
    /// RFC 6902's test suite.
    Jsonpatch,
    /// Defaults of built-in kinds, compared with a real server's.
    Defaults,
    /// Required fields of built-in kinds, compared with what a real server refuses.
    Required,
    /// Kubernetes' end-to-end tests that need no nodes, one by one.
    Kubernetes(kubernetes::Args),
    /// Cells of Tables of built-in kinds, compared with a real server's.
    Tables,
}

/// `cargo xtask conformance <suite>`: fails when something fails that is not a known exception.
pub(crate) fn run(args: &Args) -> Result<()> {
    let reports = match &args.suite {
        Suite::Apply => vec![apply::run()?],
        Suite::Fuzz { cases, seed } => vec![apply::fuzz::run(*cases, *seed)?],
        Suite::Cel(args) => vec![cel::run(args)?],
        Suite::CelKubernetes => vec![cel::kubernetes::run()?],
        Suite::CelKro => vec![cel::kro::run()?],
        Suite::Protobuf { short } => vec![protobuf::run(*short)?],
        Suite::SimpleSchema { cases, seed } => simple::run(*cases, *seed)?,
        Suite::Kro { every } => vec![kro::run(*every)?],
        Suite::KroIntegration(args) => vec![kro_suite::run(args)?],
        Suite::Jsonpatch => vec![jsonpatch::run()?],
        Suite::Defaults => vec![defaults::run()?],
        Suite::Required => vec![required::run()?],
        Suite::Kubernetes(args) => vec![kubernetes::run(args)?],
        Suite::Tables => vec![tables::run()?],
    };
    reports.iter().for_each(Report::print);
    reports.iter().try_for_each(Report::verdict)
}
