//! A new zone, and what is sent to one that comes back.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::embedded::{EmbeddedHub, EmbeddedZone, Objects, PATIENCE};
use super::{Line, Size};
use crate::bench::cpu;
use crate::fleet::authored;

const LOOK: Duration = Duration::from_millis(10);

pub(super) async fn run(size: Size) -> Result<Vec<Line>> {
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let mut hub = EmbeddedHub::start(directory.path()).await?;
    authored::objects(&hub.client, 0..size.initial).await?;
    let pids = [std::process::id()];
    let (started, busy) = (Instant::now(), cpu::time(&pids)?);
    let mut zone = EmbeddedZone::start(&hub, 0, directory.path()).await?;
    let ready = started.elapsed();
    let mut objects = zone.objects()?;
    zone.holds(&mut objects, size.initial).await?;
    let (initial, busy) = (started.elapsed(), cpu::time(&pids)? - busy);
    let what = format!("initial sync of {} objects", size.initial);
    let mut lines = vec![
        Line::time(format!("{what}, from the zone's start"), initial, "2 s"),
        Line::time("of which until the zone's own API is ready", ready, ""),
        Line::time(format!("{what}, CPU of hub and zone together"), busy, ""),
    ];

    let nothing = |how| Line::new(format!("objects sent again {how}"), "0", "0 (asserted)");
    authored::enable(&hub.client, &zone.name, false).await?;
    connected(&hub, &zone, false).await?;
    authored::enable(&hub.client, &zone.name, true).await?;
    nothing_again(&hub, &zone, &mut objects, (1, 0)).await?;
    lines.push(nothing("to a zone that reconnects"));

    drop(objects);
    zone = zone.restart().await?;
    let mut objects = zone.objects()?;
    // Which kinds cross is told anew: a zone does not keep that.
    let kinds = authored::kinds(&hub.client).await?;
    nothing_again(&hub, &zone, &mut objects, (2, kinds)).await?;
    lines.push(nothing("to a zone that is started again"));

    hub = hub.restart().await?;
    nothing_again(&hub, &zone, &mut objects, (3, 0)).await?;
    lines.push(nothing("after a restart of the hub"));
    drop(objects);
    zone.stop().await?;
    hub.stop().await?;
    Ok(lines)
}

/// Waits until the zone is back, which shows in a change that comes, and asserts that it came
/// alone, but for `kinds` objects that say what crosses.
async fn nothing_again(
    hub: &EmbeddedHub,
    zone: &EmbeddedZone,
    objects: &mut Objects,
    (turn, kinds): (usize, usize),
) -> Result<()> {
    connected(hub, zone, true).await?;
    authored::change(&hub.client, 0, turn).await?;
    let came = objects.come().await?;
    let sent = authored::sync_of(&hub.client, &zone.name).await?["sent"].clone();
    ensure!(
        came == 1 && sent["objects"] == 1 + kinds,
        "{came} objects came, and the hub has sent {sent}"
    );
    Ok(())
}

async fn connected(hub: &EmbeddedHub, zone: &EmbeddedZone, expected: bool) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let state = authored::sync_of(&hub.client, &zone.name).await?;
        if state["connected"] == expected {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "the zone did not come or go: {state}"
        );
        tokio::time::sleep(LOOK).await;
    }
}
