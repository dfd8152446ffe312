//! The project's own tool: what a developer and the continuous integration run besides `cargo test`.
//!
//! Every verb is a module with one entry function; this file only parses and dispatches.
//! Data goes to stdout, progress and explanations to stderr.
//! Nothing that a verb fetches or builds is kept in the tree, except what `typepack` writes on purpose.
#![expect(clippy::print_stdout, reason = "a command-line tool reports on stdout")]

mod attack;
mod audit;
mod bench;
mod check;
mod cluster;
mod conformance;
mod fleet;
mod fuzz;
mod golang;
mod graphs;
mod hub;
mod kubectl;
mod manifests;
mod paths;
mod peers;
mod process;
mod program;
mod proxy;
mod rollouts;
mod scale;
mod takeover;
mod tidy;
mod torture;
mod typepack;
mod zone_on_kubernetes;

use clap::{Parser, Subcommand};

/// The product's: what is measured here behaves as it does there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Deltaplane's developer tool.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Attack a hub as users, zones and strangers could, and see that it withstands.
    Attack(attack::Args),
    /// Measure the hub beside its peers, as ratios of one run.
    Bench(bench::Args),
    /// Formatting, lints, documentation, tidiness and licences, as the continuous integration runs them.
    Check,
    /// Rules that compilers and linters do not know: crate edges, purity, file sizes, orphans, artefacts.
    Tidy,
    /// Build the programs that we are compared with (kubectl, kube-apiserver, etcd, e2e.test).
    Peers(peers::Args),
    /// Run an outside suite against our code and print counts.
    Conformance(conformance::Args),
    /// Try inputs that nobody thought of on every parser and decoder.
    Fuzz(fuzz::Args),
    /// Run graphs in zones and in a real cluster, and see that they do what kro's would, and more.
    Graphs(graphs::Args),
    /// Kill a hub while changes move through its fleet, and see that it keeps to its gates.
    Rollouts(rollouts::Args),
    /// Measure a hub with many zones, simulated over real connections.
    Scale(scale::Args),
    /// Take a cluster over whose graphs kro runs, hand it back, and see that nothing is made again.
    Takeover(takeover::Args),
    /// Kill, stop and restart a hub under load, and check that nothing it promised was broken.
    Torture(torture::Args),
    /// Make a real cluster a zone, with the least rights, and see that the rules are kept there.
    ZoneOnKubernetes(zone_on_kubernetes::Args),
    /// Make the data file with Kubernetes' own kinds from a published release.
    Typepack(typepack::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().verb {
        Verb::Attack(args) => attack::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Check => check::run(),
        Verb::Tidy => tidy::run(),
        Verb::Peers(args) => peers::run(&args),
        Verb::Conformance(args) => conformance::run(&args),
        Verb::Fuzz(args) => fuzz::run(&args),
        Verb::Graphs(args) => graphs::run(&args),
        Verb::Rollouts(args) => rollouts::run(&args),
        Verb::Takeover(args) => takeover::run(&args),
        Verb::Scale(args) => scale::run(&args),
        Verb::Torture(args) => torture::run(&args),
        Verb::ZoneOnKubernetes(args) => zone_on_kubernetes::run(&args),
        Verb::Typepack(args) => typepack::run(&args),
    }
}
