//! One change among many objects and many zones costs that change, and nothing else.

use anyhow::{Context, Result, ensure};
use deltaplane_client::request;
use deltaplane_sync::Crossing;
use kube::Client;
use serde_json::Value;

use super::embedded::EmbeddedHub;
use super::{Line, Size};
use crate::fleet::{Memory, Zones, authored};

/// What a hub has sent to all zones since they connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    responses: u64,
    objects: u64,
    bytes: u64,
}

pub(super) async fn run(size: Size) -> Result<Vec<Line>> {
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let hub = EmbeddedHub::start(directory.path()).await?;
    let client = &hub.client;
    authored::objects(client, 0..size.objects).await?;
    // One zone gets everything; the others begin with what it has then.
    let nothing = Memory::default();
    let first = Zones::start(client, 0..1, directory.path(), &nothing).await?;
    first.complete(size.objects as u64).await?;
    let memory = first.stop().await?;
    let numbers = 1..size.zones + 1;
    let zones = Zones::start(client, numbers.clone(), directory.path(), &memory).await?;
    zones.complete(0).await?;
    let number = size.objects / 2;
    // Whoever has this one follows.
    zones.spread(client, number, 1).await?;
    authored::settled(client).await?;
    let before = sent(client, numbers.clone()).await?;
    let spread = zones.spread(client, number, 2).await?;
    let after = sent(client, numbers).await?;
    let count = size.zones as u64;
    let bytes = count * length(client, number).await?;
    let cost = Sent {
        responses: after.responses - before.responses,
        objects: after.objects - before.objects,
        bytes: after.bytes - before.bytes,
    };
    let expected = Sent {
        responses: count,
        objects: count,
        bytes,
    };
    ensure!(cost == expected, "it cost {cost:?}, and not {expected:?}");
    let came = (zones.arrivals().objects(), zones.arrivals().bytes());
    ensure!(
        came == (2 * count, 2 * bytes),
        "the zones got {came:?} objects and bytes"
    );
    zones.stop().await?;
    hub.stop().await?;
    let what = format!(
        "one change among {} objects and {count} zones",
        size.objects
    );
    let measured = format!("{count} responses, {count} objects, {bytes} bytes");
    Ok(vec![
        Line::new(what.clone(), measured, "exactly these (asserted)"),
        Line::time(format!("{what}, to the last zone"), spread.longest(), ""),
    ])
}

async fn sent(hub: &Client, zones: std::ops::Range<usize>) -> Result<Sent> {
    let mut all = Sent {
        responses: 0,
        objects: 0,
        bytes: 0,
    };
    for number in zones {
        let state = authored::sync_of(hub, &authored::zone(number)).await?;
        let count = |what: &str| state["sent"][what].as_u64().context("a zone never came");
        all.responses += count("responses")?;
        all.objects += count("objects")?;
        all.bytes += count("bytes")?;
    }
    Ok(all)
}

/// How long an object is when it crosses.
async fn length(hub: &Client, number: usize) -> Result<u64> {
    let name = authored::name(number)?;
    let path = format!(
        "/api/v1/namespaces/{}/configmaps/{}",
        name.namespace(),
        name.name()
    );
    let object: Value = request::get(hub, &path)
        .await
        .context("reading an object")?;
    let crossing = Crossing::of(&object)?;
    Ok(serde_json::to_vec(crossing.object())?.len() as u64)
}
