//! `cargo xtask torture`: a real hub under load, killed, stopped and restarted, and the proof that
//! it kept its word.
//!
//! Each run starts a hub on an empty directory and drives it over TLS. Clients create, replace,
//! patch, delete, read and list a few objects; watchers follow them over all interruptions; the
//! nemesis kills, stops and restarts the process. Everything is written down (`history`) and then
//! judged (`verdict`) by pure code: acknowledged writes are there, each object's history is
//! linearizable, revisions are given out once and never go back, and every watch saw every change
//! of its scope once and in order.
//!
//! With `--bug` the hub is built with a bug that can be turned on, and the run must fail.

mod clients;
mod history;
mod linear;
mod link;
mod log;
mod nemesis;
mod object;
pub(crate) mod random;
mod revisions;
mod trial;
mod verdict;
mod watchers;
mod watches;
mod wire;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};

use crate::hub;
use history::Size;
use nemesis::Counts;
use trial::Plan;
use verdict::{Check, Figures, Finding};

/// How long and how hard.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many runs, each on a hub of its own.
    #[arg(long, default_value_t = 50)]
    runs: u64,
    /// The first run's seed; each later run has the next one. Repeats choices, not timing.
    #[arg(long)]
    seed: Option<u64>,
    /// How long the hub is tortured in each run.
    #[arg(long, default_value_t = 4.0, value_name = "SECONDS")]
    seconds: f64,
    /// Clients that read and write at once.
    #[arg(long, default_value_t = 24)]
    clients: u16,
    /// Build a hub with this bug, and expect it to be found.
    #[arg(long)]
    bug: Option<Bug>,
}

/// The bugs of `deltaplane-store`'s feature `sabotage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Bug {
    /// Writes are acknowledged before they are durable.
    AckEarly,
    /// A change now and then is not told to watches.
    DropEvent,
    /// A revision now and then is given out twice.
    ReuseRevision,
}

/// The sum of several runs.
#[derive(Default)]
struct Total {
    runs: u64,
    failed: Vec<u64>,
    figures: Figures,
    counts: Counts,
}

/// Which bug a sabotaged hub has.
const SABOTAGE: &str = "DELTAPLANE_SABOTAGE";
/// Findings to print of each check: the first ones tell most.
const SHOWN: usize = 2;

pub(crate) fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("starting the load")?;
    let ended = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
        let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
        // The hub is owned by the run, and ends with it.
        tokio::select! {
            ended = torture(args) => ended,
            _ = interrupt.recv() => bail!("interrupted"),
            _ = terminate.recv() => bail!("terminated"),
        }
    });
    // Nobody waits for a verdict on what was interrupted.
    runtime.shutdown_background();
    ended
}

async fn torture(args: &Args) -> Result<()> {
    let seed = args.seed.unwrap_or_else(any_seed);
    let binary = match args.bug {
        None => hub::binary()?,
        Some(_) => hub::sabotaged_binary()?,
    };
    let environment = args.bug.map(|bug| (SABOTAGE.to_owned(), bug.name()));
    let started = Instant::now();
    let mut total = Total::default();
    for run in 0..args.runs {
        let plan = Plan {
            binary: binary.clone(),
            environment: environment.iter().cloned().collect(),
            seed: seed.wrapping_add(run),
            clients: args.clients,
            size: size(seed.wrapping_add(run)),
            time: Duration::from_secs_f64(args.seconds.clamp(0.1, 3_600.0)),
        };
        let findings = total.one(plan, args.bug.is_some()).await?;
        if let Some(bug) = args.bug
            && !findings.is_empty()
        {
            let caught = Check::ALL.into_iter().filter(|check| {
                let mut checks = findings.iter().map(|finding| finding.check);
                checks.any(|found| found == *check)
            });
            let caught: Vec<String> = caught.map(|check| check.to_string()).collect();
            let (bug, run) = (bug.name(), run + 1);
            println!("{bug} was caught in run {run} by: {}", caught.join(", "));
            return Ok(());
        }
    }
    println!(
        "{} runs in {:.0} s, {} kills, {} stops, {} restarts, {}: {}",
        total.runs,
        started.elapsed().as_secs_f64(),
        total.counts.kills,
        total.counts.stops,
        total.counts.ends,
        total.figures,
        if total.failed.is_empty() {
            "ok"
        } else {
            "FAILED"
        }
    );
    match (args.bug, total.failed.as_slice()) {
        (Some(bug), _) => bail!("{} was not caught", bug.name()),
        (None, []) => Ok(()),
        (None, failed) => bail!("runs with these seeds failed: {failed:?}"),
    }
}

/// Every fourth run has large objects.
fn size(seed: u64) -> Size {
    match seed.is_multiple_of(4) {
        true => Size::Large,
        false => Size::Small,
    }
}

fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() * 1_000)
}

// === impl Total ===

impl Total {
    /// Carries out a run, prints its line, and on a failure what shows it.
    async fn one(&mut self, plan: Plan, sabotaged: bool) -> Result<Vec<Finding>> {
        let (seed, size) = (plan.seed, plan.size);
        let started = Instant::now();
        let (record, mut nemesis) = trial::run(plan).await?;
        let took = started.elapsed();
        let counts = record.counts;
        let judged = tokio::task::spawn_blocking(move || verdict::judge(&record));
        let (figures, findings) = judged.await.context("judging")?;
        self.runs += 1;
        self.figures.add(&figures);
        self.counts.add(counts);
        let Counts { kills, stops, ends } = counts;
        println!(
            "seed {seed}{}: {:.1} s, {kills} kills, {stops} stops, {ends} restarts, {figures}, judged in {} ms: {}",
            match size {
                Size::Small => "",
                Size::Large => " (large)",
            },
            took.as_secs_f64(),
            (started.elapsed() - took).as_millis(),
            match findings.len() {
                0 => "ok".to_owned(),
                count => format!("{count} VIOLATIONS"),
            }
        );
        if findings.is_empty() {
            return Ok(findings);
        }
        self.failed.push(seed);
        for check in Check::ALL {
            let of_it = || findings.iter().filter(|finding| finding.check == check);
            for finding in of_it().take(SHOWN) {
                println!("  [{check}] {}", finding.text);
            }
            let more = of_it().count().saturating_sub(SHOWN);
            if more > 0 {
                println!("  [{check}] and {more} more");
            }
        }
        if !sabotaged {
            println!("  data and log: {}", nemesis.keep()?.display());
        }
        Ok(findings)
    }
}

// === impl Bug ===

impl Bug {
    /// As the hub is told.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
