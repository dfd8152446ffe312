//! `cargo xtask bench instances`: instances of a graph, run by us and by kro, each on a
//! kube-apiserver with etcd of its own, in one run.
//!
//! Requests are counted by what kube-apiserver writes down of the controller's user, so that nobody
//! else's are among them. What must hold exactly is asserted: then the benchmark fails.

mod contender;
mod pure;
mod run;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::{golang, hub, peers};
use contender::{Contender, Which};
use run::Figures;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// So many instances for us.
    #[arg(long, default_value_t = 1000)]
    instances: usize,
    /// As many for kro; it gets 100, and 300 when it is tuned, unless this says so.
    #[arg(long)]
    whole: bool,
    /// A tenth of it, to see that the benchmark works.
    #[arg(long)]
    quick: bool,
    /// Measure these alone.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Use this binary instead of building one.
    #[arg(long)]
    binary: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Ours.
    Deltaplane,
    /// Ours with `--graph-identity=controller`, as kro does it; only if it is asked for.
    Controller,
    /// kro as it comes.
    Kro,
    /// kro with more workers and a wider rate limit.
    KroTuned,
    /// What needs no server: compiling, planning, gates.
    Pure,
}

/// What kro is given: it takes a second for three to ten instances.
const FOR_KRO: usize = 100;
const FOR_TUNED_KRO: usize = 300;
/// No instance may cost more requests.
const MOST_REQUESTS: usize = 10;

pub(super) async fn run(args: &Args) -> Result<()> {
    let wanted = |part: Part| {
        let is_usual = args.only.is_empty() && part != Part::Controller;
        is_usual || args.only.contains(&part)
    };
    if wanted(Part::Pure) {
        pure::run()?;
    }
    let count = |most: usize| {
        let all = match args.whole {
            true => args.instances,
            false => args.instances.min(most),
        };
        if args.quick { all.div_ceil(10) } else { all }
    };
    let mut all = Vec::new();
    for (part, which) in [
        (Part::Deltaplane, Which::Deltaplane),
        (Part::Controller, Which::Controller),
    ] {
        if wanted(part) {
            let binary = match &args.binary {
                Some(binary) => binary.clone(),
                None => tokio::task::block_in_place(hub::binary)?,
            };
            all.push((which, binary, count(args.instances)));
        }
    }
    for (part, which, most) in [
        (Part::Kro, Which::Kro, FOR_KRO),
        (Part::KroTuned, Which::TunedKro, FOR_TUNED_KRO),
    ] {
        if wanted(part) {
            let binary = tokio::task::block_in_place(|| peers::path("kro"))?;
            all.push((which, binary, count(most)));
        }
    }
    let mut figures = Vec::new();
    for (which, binary, instances) in all {
        eprintln!("{}: {instances} instances", which.name());
        let contender = Contender { which, binary };
        let measured = run::measure(&contender, instances).await;
        figures.push((which, measured.with_context(|| which.name())?));
    }
    if !figures.is_empty() {
        print(&figures);
    }
    for (which, figures) in &figures {
        if matches!(which, Which::Deltaplane | Which::Controller) {
            assert(figures)?;
        }
    }
    Ok(())
}

/// What is promised.
fn assert(figures: &Figures) -> Result<()> {
    for (what, phase) in [("new", &figures.made), ("changed", &figures.changed)] {
        let most = MOST_REQUESTS * figures.instances;
        let (found, all) = (phase.count(), &phase.requests);
        ensure!(found <= most, "{what}: {found} requests, {all:?}");
    }
    for (what, requests) in [
        ("the same definition", &figures.same),
        ("annotations", &figures.annotated),
    ] {
        ensure!(requests.is_empty(), "{what}: {requests:?}");
    }
    Ok(())
}

/// A table for `docs/benchmarks.md`: ours first, and how many times the others it is.
fn print(all: &[(Which, Figures)]) {
    let beside = all.len() > 1 && all[0].0 == Which::Deltaplane;
    let mut head = String::from("| what |");
    for (at, (which, _)) in all.iter().enumerate() {
        head += &format!(" {} |", which.name());
        if beside && at > 0 {
            head += " ratio |";
        }
    }
    println!("{head}");
    let columns = head.matches('|').count() - 1;
    println!("|{}", "---|".repeat(columns));
    let lines: Vec<Vec<run::Line>> = all.iter().map(|(_, figures)| figures.lines()).collect();
    for at in 0..lines[0].len() {
        let ours = &lines[0][at];
        let mut row = format!("| {} |", ours.what);
        for (column, lines) in lines.iter().enumerate() {
            row += &format!(" {} |", lines[at].text());
            if beside && column > 0 {
                row += &format!(" {} |", ours.ratio(&lines[at]));
            }
        }
        println!("{row}");
    }
    println!("\nkro {}", golang::KRO);
}
