//! `cargo xtask bench api`: the hub and kube-apiserver with etcd under the same load, in one run.
//! `cargo xtask bench expr`: expressions, beside cel-go.
//! `cargo xtask bench instances`: instances of graphs, beside kro.
//! `cargo xtask bench rollout`: a change that moves through a fleet in stages; nobody to compare with.
//! `cargo xtask bench sync`: from a hub to its zones; nobody to compare with.
//!
//! Both servers are durable, both speak TLS and HTTP/1.1, both share this machine with the load. The
//! numbers are ratios of one run: absolute ones differ between machines and minutes.

pub(crate) mod cpu;
mod expr;
mod instances;
pub(crate) mod load;
mod rollout;
mod sync;
pub(crate) mod target;
mod workloads;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Subcommand;

use crate::cluster::Cluster;
use crate::{hub, process};
use target::Target;
use workloads::{Figures, Load, Size};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The API server: creates, gets, lists, watch events, memory, time to ready.
    Api(ApiArgs),
    /// The expression language beside cel-go: evaluation, parsing and checking, memory.
    Expr(expr::Args),
    /// Instances of a graph beside kro, on real clusters; and what of graphs needs none.
    Instances(instances::Args),
    /// What it costs to move a change through a large fleet in stages, and to rest.
    Rollout(rollout::Args),
    /// How soon, and at what cost, what is written at a hub is in its zones.
    Sync(sync::Args),
}

#[derive(clap::Args, Clone, Debug)]
struct ApiArgs {
    /// Measure the hub alone.
    #[arg(long)]
    without_peer: bool,
    /// A tenth of the load, to see that the benchmark works.
    #[arg(long)]
    short: bool,
    /// Measure these loads alone; the objects that they need are made first.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Load>,
    /// Measure a server that runs already, by its kubeconfig and process id.
    #[arg(long, requires = "pid")]
    kubeconfig: Option<PathBuf>,
    /// The process id of that server.
    #[arg(long)]
    pid: Option<u32>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if cfg!(debug_assertions) {
        return again_in_release();
    }
    match &args.what {
        What::Api(api) => runtime()?.block_on(measure(api)),
        What::Expr(args) => expr::run(args),
        What::Instances(args) => runtime()?.block_on(instances::run(args)),
        What::Rollout(args) => runtime()?.block_on(rollout::run(args)),
        What::Sync(args) => runtime()?.block_on(sync::run(args)),
    }
}

/// What the load runs on.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("starting the load")
}

/// A load that is built without optimisation measures itself.
pub(crate) fn again_in_release() -> Result<()> {
    let arguments = std::env::args_os().skip(1);
    let mut command = Command::new("cargo");
    command
        .args(["run", "--quiet", "--release", "--package", "xtask", "--"])
        .args(arguments);
    process::run(&mut command)
}

async fn measure(args: &ApiArgs) -> Result<()> {
    let size = if args.short {
        Size::short()
    } else {
        Size::full()
    };
    let only = &args.only;
    if let (Some(kubeconfig), Some(pid)) = (&args.kubeconfig, args.pid) {
        let figures = workloads::run(&Target::load(kubeconfig, vec![pid])?, size, only).await?;
        print(&[("server", figures)]);
        return Ok(());
    }
    let mut rows = Vec::new();
    let binary = hub::binary()?;
    let mut hub = hub::Hub::start(&binary)?;
    let mut figures = workloads::run(
        &Target::load(hub.kubeconfig(), vec![hub.pid()])?,
        size,
        only,
    )
    .await?;
    figures.restart = Some(hub.restart(&binary)?);
    rows.push(("deltaplane", figures));
    if !args.without_peer {
        let cluster = tokio::task::block_in_place(Cluster::start)?;
        let target = Target::load(cluster.kubeconfig(), cluster.pids())?;
        rows.push((
            "kube-apiserver + etcd",
            workloads::run(&target, size, only).await?,
        ));
    }
    print(&rows);
    Ok(())
}

/// A table for `docs/benchmarks.md`.
fn print(rows: &[(&str, Figures)]) {
    let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
    let ratio = if rows.len() == 2 { " ratio |" } else { "" };
    println!("| what | {} |{ratio}", names.join(" | "));
    println!(
        "|---|{}{}",
        "---|".repeat(rows.len()),
        if ratio.is_empty() { "" } else { "---|" }
    );
    let all: Vec<Vec<workloads::Line>> = rows.iter().map(|(_, figures)| figures.lines()).collect();
    for index in 0..all[0].len() {
        let cells: Vec<String> = all.iter().map(|lines| lines[index].text()).collect();
        let ratio = match all.as_slice() {
            [ours, theirs] => format!(" {} |", ours[index].ratio(&theirs[index])),
            _ => String::new(),
        };
        println!("| {} | {} |{ratio}", all[0][index].name, cells.join(" | "));
    }
}
