//! `cargo xtask bench sync`: from a commit at the hub to the zones, what a new zone costs, and what
//! one that comes back.
//!
//! Hub and zones are the product's own, with stores on disk, in this process; they speak gRPC over
//! TLS on loopback. What must hold exactly is asserted: then the benchmark fails.

mod delta;
mod embedded;
mod latency;
mod resume;

use std::time::Duration;

use anyhow::{Context, Result};
use deltaplane_runtime::limits;

use crate::fleet::millis;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A tenth of it, to see that the benchmark works.
    #[arg(long)]
    short: bool,
    /// Measure these parts alone.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// One zone, one object at a time.
    One,
    /// Many zones, one object at a time.
    Many,
    /// A new zone, and zones that come back.
    Resume,
    /// One change among many objects and zones.
    Delta,
}

/// How much of each.
#[derive(Clone, Copy)]
struct Size {
    writes: usize,
    zones: usize,
    writes_to_many: usize,
    initial: usize,
    objects: usize,
}

/// A line of the table.
struct Line {
    what: String,
    measured: String,
    aim: &'static str,
}

const FULL: Size = Size {
    writes: 1000,
    zones: 100,
    writes_to_many: 50,
    initial: 10_000,
    objects: 100_000,
};

const SHORT: Size = Size {
    writes: 100,
    zones: 10,
    writes_to_many: 10,
    initial: 1000,
    objects: 10_000,
};

pub(crate) async fn run(args: &Args) -> Result<()> {
    limits::raise_open_files();
    let size = if args.short { SHORT } else { FULL };
    let wanted = |part: Part| args.only.is_empty() || args.only.contains(&part);
    let mut lines = Vec::new();
    if wanted(Part::One) {
        lines.extend(latency::one(size).await.context("one zone")?);
    }
    if wanted(Part::Many) {
        lines.extend(latency::many(size).await.context("many zones")?);
    }
    if wanted(Part::Resume) {
        lines.extend(resume::run(size).await.context("zones that come back")?);
    }
    if wanted(Part::Delta) {
        lines.extend(delta::run(size).await.context("one change")?);
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

    fn time(what: impl Into<String>, measured: Duration, aim: &'static str) -> Self {
        Self::new(what, millis(measured), aim)
    }
}
