//! Graphs, end to end, with kubectl and our own commands: what becomes of definitions and
//! instances in the zones of `deltaplane up`, in a zone that joined a hub, and in a real cluster
//! (etcd and kube-apiserver, without controllers).
//!
//! The steps are the same everywhere, but for a few that are about hubs or about rights.
//! That a Deployment is available is said by the steps, so that they can look before.

mod api;
mod author;
mod definitions;
mod examples;
mod fleet;
mod gates;
mod kinds;
mod life;
mod rights;
mod rollout;
mod shapes;
mod stage;
mod steps;
mod told;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::hub;
use stage::{On, Stage};
use steps::{ALL, STEPS, Step};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use this binary instead of building one.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Run graphs there; everywhere if it is not said.
    #[arg(long, value_enum)]
    on: Vec<On>,
}

/// `cargo xtask graphs`
pub(crate) fn run(args: &Args) -> Result<()> {
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => hub::binary()?,
    };
    let stages = match args.on.as_slice() {
        [] => ALL,
        some => some,
    };
    stages.iter().try_for_each(|on| play(*on, &binary))
}

/// All steps of one stage.
fn play(on: On, binary: &Path) -> Result<()> {
    let begun = Instant::now();
    println!("{on}");
    let mut stage = Stage::start(on, binary).with_context(|| format!("starting {on}"))?;
    let steps = STEPS.iter().filter(|step| step.on.contains(&on));
    let mut count = 0;
    for Step { name, run, .. } in steps {
        count += 1;
        let started = Instant::now();
        if let Err(error) = run(&mut stage) {
            eprintln!("the runner said\n{}", stage.log());
            return Err(error.context(format!("{on}: {name}")));
        }
        let seconds = started.elapsed().as_secs_f64();
        println!("ok {count:2}  {name} ({seconds:.1} s)");
    }
    let seconds = begun.elapsed().as_secs();
    println!("{on}: {count} steps passed ({seconds} s)");
    Ok(())
}
