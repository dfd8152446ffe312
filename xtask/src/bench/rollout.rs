//! `cargo xtask bench rollout`: what it costs to move a change through a large fleet in stages.
//!
//! Decisions are measured alone, and with all that is around them: a hub that is a process, and
//! zones that are simulated from the border on, over connections of their own. What must hold
//! exactly is asserted: then the benchmark fails.

mod decisions;
mod fleet;
mod followed;

use std::path::PathBuf;

use anyhow::{Context, Result};
use deltaplane_runtime::limits;

use crate::hub;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Zones of which is decided.
    #[arg(long, default_value_t = 10_000)]
    decided: usize,
    /// Simulated zones that a change moves through.
    #[arg(long, default_value_t = 1000)]
    zones: usize,
    /// How long after it came a change is ready in a zone, in milliseconds.
    #[arg(long, default_value_t = 20)]
    delay: u64,
    /// How long the idle hub is watched, in seconds.
    #[arg(long, default_value_t = 30)]
    idle: u64,
    /// Measure these parts alone.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Use this binary instead of building one.
    #[arg(long)]
    binary: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The function that decides, and what is written down of it.
    Decisions,
    /// A change that moves through a fleet, a plan of one, and a fleet that rests.
    Fleet,
}

/// A line of the table.
struct Line {
    what: String,
    measured: String,
    aim: &'static str,
}

pub(super) async fn run(args: &Args) -> Result<()> {
    limits::raise_open_files();
    let wanted = |part: Part| args.only.is_empty() || args.only.contains(&part);
    let mut lines = Vec::new();
    if wanted(Part::Decisions) {
        lines.extend(decisions::run(args.decided).context("decisions")?);
    }
    if wanted(Part::Fleet) {
        let binary = match &args.binary {
            Some(binary) => binary.clone(),
            None => tokio::task::block_in_place(hub::binary)?,
        };
        lines.extend(fleet::run(args, &binary).await.context("a fleet")?);
    }
    println!("| what | measured | aim |\n|---|---|---|");
    for Line {
        what,
        measured,
        aim,
    } in lines
    {
        println!("| {what} | {measured} | {aim} |");
    }
    Ok(())
}

// === impl Line ===

impl Line {
    fn new(what: impl Into<String>, measured: impl Into<String>, aim: &'static str) -> Self {
        Self {
            what: what.into(),
            measured: measured.into(),
            aim,
        }
    }
}
