//! From the hub's answer to a write to the zone's store showing it, one object at a time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::embedded::{EmbeddedHub, EmbeddedZone, Objects};
use super::{Line, Size};
use crate::fleet::{Spread, authored};

/// Between writes, so that each is by itself.
const PAUSE: Duration = Duration::from_millis(5);
/// Starting a zone makes keys, which takes a core for a while.
const AT_ONCE: usize = 4;

pub(super) async fn one(size: Size) -> Result<Vec<Line>> {
    let spread = to_zones(1, size.writes).await?;
    let what = |which| format!("commit to readable in the zone, {which} of {}", size.writes);
    Ok(vec![
        Line::time(what("p50"), spread.percentile(50), "3 ms"),
        Line::time(what("p90"), spread.percentile(90), ""),
        Line::time(what("p99"), spread.percentile(99), "10 ms"),
    ])
}

pub(super) async fn many(size: Size) -> Result<Vec<Line>> {
    let (zones, writes) = (size.zones, size.writes_to_many);
    let spread = to_zones(zones, writes).await?;
    let what = |which| {
        format!("commit to readable in {zones} zones, {which} of {writes} writes and all zones")
    };
    Ok(vec![
        Line::time(what("p50"), spread.percentile(50), ""),
        Line::time(what("p99"), spread.percentile(99), "100 ms"),
    ])
}

async fn to_zones(zones: usize, writes: usize) -> Result<Spread> {
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let hub = EmbeddedHub::start(directory.path()).await?;
    let starting =
        stream::iter(0..zones).map(|number| EmbeddedZone::start(&hub, number, directory.path()));
    let zones: Vec<EmbeddedZone> = starting.buffer_unordered(AT_ONCE).try_collect().await?;
    let mut objects: Vec<Objects> = zones
        .iter()
        .map(EmbeddedZone::objects)
        .collect::<Result<_>>()?;
    authored::objects(&hub.client, 0..1).await?;
    try_join_all(objects.iter_mut().map(Objects::come)).await?;
    // That the zones came is written down meanwhile.
    authored::settled(&hub.client).await?;
    let mut all = Vec::new();
    for turn in 1..=writes {
        tokio::time::sleep(PAUSE).await;
        authored::change(&hub.client, 0, turn).await?;
        let answered = Instant::now();
        let came = objects.iter_mut().map(|objects| async {
            objects.come().await?;
            anyhow::Ok(answered.elapsed())
        });
        all.extend(try_join_all(came).await?);
    }
    drop(objects);
    for zone in zones {
        zone.stop().await?;
    }
    hub.stop().await?;
    Ok(Spread::new(all))
}
