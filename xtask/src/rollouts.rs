//! `cargo xtask rollouts`: a hub that is killed at random while changes move through its fleet in
//! stages, and the proof, from the side of the zones, that it kept to its gates.
//!
//! The hub is a real process on a directory of its own. The zones are in this process, simulated
//! from the border on, over connections of their own; they live through all deaths of the hub.
//! What comes to them and what they say is written down and then judged (`verdict`) by pure code.
//!
//! With `--bug` the policy lets through more than it is judged by, and the run must fail.
//! With `--real` zones are processes, too, and are looked at through their APIs.

mod real;
mod trial;
mod verdict;

use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};
use clap::ValueEnum;

use crate::bench::runtime;
use crate::hub;
use trial::{Figures, Plan};

/// How often and how hard.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many runs, each on a hub of its own.
    #[arg(long, default_value_t = 50)]
    seeds: u64,
    /// The first run's seed; each later run has the next one. Repeats choices, not timing.
    #[arg(long)]
    seed: Option<u64>,
    /// Zones, of which a quarter are canaries.
    #[arg(long, default_value_t = 12)]
    zones: usize,
    /// Changes that follow one another in each run.
    #[arg(long, default_value_t = 6)]
    changes: usize,
    /// Use this binary instead of building one.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Write a policy that breaks what is judged, and expect that to be found.
    #[arg(long)]
    bug: Option<Bug>,
    /// One run with three zones that are processes.
    #[arg(long)]
    real: bool,
}

/// What a policy does that it should not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Bug {
    /// It lets more zones in at once.
    Bound,
    /// It does not wait for the canaries.
    Order,
}

/// Findings to print of a run: the first ones tell most.
const SHOWN: usize = 5;

pub(crate) fn run(args: &Args) -> Result<()> {
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => hub::binary()?,
    };
    let seed = args.seed.unwrap_or_else(any_seed);
    if args.real {
        return real::run(&binary, seed, args.changes);
    }
    runtime()?.block_on(all(args, &binary, seed))
}

async fn all(args: &Args, binary: &std::path::Path, first: u64) -> Result<()> {
    let began = Instant::now();
    let mut total = Figures::default();
    let mut failed = Vec::new();
    for seed in (0..args.seeds).map(|run| first.wrapping_add(run)) {
        let plan = Plan {
            binary,
            seed,
            zones: args.zones,
            changes: args.changes,
            bug: args.bug,
        };
        let (figures, findings) = plan.play().await?;
        println!("seed {seed}: {figures}, {} findings", findings.len());
        for finding in findings.iter().take(SHOWN) {
            println!("  {finding}");
        }
        total.add(&figures);
        if !findings.is_empty() {
            failed.push(seed);
        }
    }
    let seconds = began.elapsed().as_secs();
    println!("{} runs ({seconds} s): {total}", args.seeds);
    match args.bug {
        None if failed.is_empty() => Ok(()),
        None => bail!("violations with the seeds {failed:?}"),
        Some(bug) => {
            ensure!(!failed.is_empty(), "{bug:?} was not found");
            println!(
                "{bug:?} was found with {} of {} seeds",
                failed.len(),
                args.seeds
            );
            Ok(())
        }
    }
}

fn any_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
