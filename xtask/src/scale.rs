//! `cargo xtask scale`: a hub with many zones.
//!
//! The hub is a process of its own, a release build. The zones are in this process, simulated from
//! the border on, each with a credential and a connection of its own.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use deltaplane_client::remote;
use deltaplane_runtime::limits;

use crate::bench::{again_in_release, cpu, runtime};
use crate::fleet::{Memory, Spread, Zones, authored, millis};
use crate::hub::{self, Hub};

/// How much of it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Simulated zones.
    #[arg(long, default_value_t = 1000)]
    zones: usize,
    /// Objects that every zone has, of 1 KiB.
    #[arg(long, default_value_t = 100)]
    objects: usize,
    /// How long the idle hub is watched.
    #[arg(long, default_value_t = 1)]
    minutes: u64,
    /// Changes that are followed to every zone.
    #[arg(long, default_value_t = 20)]
    changes: usize,
}

/// A hub, and all zones connected to it.
struct Scene<'a> {
    args: &'a Args,
    hub: Hub,
    client: kube::Client,
    zones: Zones,
}

/// What an idle hub takes.
struct Idle {
    memory: u64,
    /// Of a core.
    share: f64,
}

const MEBIBYTE: u64 = 1 << 20;

pub(crate) fn run(args: &Args) -> Result<()> {
    if cfg!(debug_assertions) {
        return again_in_release();
    }
    limits::raise_open_files();
    let binary = hub::binary()?;
    runtime()?.block_on(measure(args, &binary))
}

async fn measure(args: &Args, binary: &std::path::Path) -> Result<()> {
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let hub = Hub::start_to_stay(binary)?;
    let client = remote(hub.kubeconfig()).await?;
    let empty = cpu::memory(&[hub.pid()])?;
    authored::prepare(&client).await?;
    authored::objects(&client, 0..args.objects).await?;
    let began = Instant::now();
    let memory = Memory::default();
    let zones = Zones::start(&client, 0..args.zones, directory.path(), &memory).await?;
    zones.complete((args.zones * args.objects) as u64).await?;
    let joined = began.elapsed();
    let mut scene = Scene {
        args,
        hub,
        client,
        zones,
    };
    let idle = scene.idle().await?;
    let changes = scene.changes().await?;
    let (ready, back) = scene.restart(binary).await?;
    let again = cpu::memory(&[scene.hub.pid()])?;
    let (zones, objects) = (args.zones, args.objects);
    println!("| {zones} zones, {objects} objects | measured | aim |\n|---|---|---|");
    let line =
        |what: &str, measured: String, aim: &str| println!("| {what} | {measured} | {aim} |");
    let megabytes = |bytes: u64| format!("{} MB", bytes / MEBIBYTE);
    line("all joined, connected and synced", millis(joined), "");
    line("hub's memory without zones", megabytes(empty), "");
    line(
        "hub's memory, all zones idle",
        megabytes(idle.memory),
        "500 MB",
    );
    line(
        "hub's CPU while idle",
        format!("{:.2} % of a core", idle.share),
        "2 %",
    );
    line(
        "writes to the store while idle",
        "0".to_owned(),
        "0 (asserted)",
    );
    line(
        "a change to all zones, p50",
        millis(changes.percentile(50)),
        "",
    );
    line(
        "a change to all zones, p99",
        millis(changes.percentile(99)),
        "1 s",
    );
    line(
        "a change to all zones, longest",
        millis(changes.longest()),
        "",
    );
    line(
        "kill -9 and restart, until the hub is ready",
        millis(ready),
        "",
    );
    line(
        "kill -9 and restart, until all zones follow again",
        millis(back),
        "15 s",
    );
    line(
        "objects sent again after it",
        "0".to_owned(),
        "0 (asserted)",
    );
    line("hub's memory after it", megabytes(again), "");
    Ok(())
}

// === impl Scene ===

impl Scene<'_> {
    /// Watches the hub do nothing.
    async fn idle(&self) -> Result<Idle> {
        let pids = [self.hub.pid()];
        let before = authored::settled(&self.client).await?;
        let (began, busy) = (Instant::now(), cpu::time(&pids)?);
        tokio::time::sleep(Duration::from_secs(60 * self.args.minutes)).await;
        let (took, busy) = (began.elapsed(), cpu::time(&pids)? - busy);
        let memory = cpu::memory(&pids)?;
        let after = authored::revision(&self.client).await?;
        ensure!(
            before == after,
            "the hub went from revision {before} to {after} while idle"
        );
        self.all_connected()?;
        Ok(Idle {
            memory,
            share: 100.0 * busy.as_secs_f64() / took.as_secs_f64(),
        })
    }

    fn all_connected(&self) -> Result<()> {
        let (connected, zones) = (self.zones.connected(), self.args.zones);
        ensure!(
            connected == zones,
            "{connected} of {zones} zones are connected"
        );
        Ok(())
    }

    async fn changes(&self) -> Result<Spread> {
        let mut all = Vec::new();
        for turn in 1..=self.args.changes {
            let spread = self.zones.spread(&self.client, 0, turn).await?;
            all.extend(spread.all());
        }
        Ok(Spread::new(all))
    }

    /// Kills the hub; gives how long it takes until it is ready again, and until all zones are
    /// back, which shows in a change that comes to each of them, and alone.
    async fn restart(&mut self, binary: &std::path::Path) -> Result<(Duration, Duration)> {
        let before = self.zones.arrivals().objects();
        let began = Instant::now();
        let ready = tokio::task::block_in_place(|| self.hub.restart(binary))?;
        self.client = remote(self.hub.kubeconfig()).await?;
        // Never before: all changes so far came to all zones.
        let turn = self.args.changes + 1;
        self.zones.spread(&self.client, 0, turn).await?;
        let back = began.elapsed();
        self.all_connected()?;
        let sent = self.zones.arrivals().objects() - before;
        let zones = self.args.zones as u64;
        ensure!(
            sent == zones,
            "{sent} objects came after the restart, and not {zones}"
        );
        Ok((ready, back))
    }
}
