//! `kill -9` of the hub and of a zone while both are written to: what was acknowledged arrives, and
//! nothing else.

use std::collections::BTreeMap;

use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::world::{Apart, delete, objects, put, until};

/// How many writes were acknowledged, by whomever.
type Progress = watch::Sender<u32>;

type Contents = BTreeMap<String, String>;

/// Writers at each end; none touches what another writes.
const WRITERS: u32 = 3;
/// Between one kill and the next.
const WRITES: u32 = 60;

/// Creates, changes and deletes its objects until it is told to stop; each write is tried until it
/// is acknowledged. What must be there then.
async fn write(
    client: Client,
    writer: String,
    progress: Progress,
    stop: watch::Receiver<bool>,
) -> Contents {
    let mut expected = Contents::new();
    for number in 0_u32.. {
        if *stop.borrow() {
            break;
        }
        let name = format!("{writer}-{}", number * 7 % 10);
        match number % 4 {
            3 => {
                delete(&client, &name).await;
                expected.remove(&name);
            }
            _ => {
                let content = number.to_string();
                put(&client, &name, &content).await;
                expected.insert(name, content);
            }
        }
        progress.send_modify(|done| *done += 1);
    }
    expected
}

/// Waits until so many more were acknowledged.
async fn more(progress: &Progress, writes: u32) {
    let mut done = progress.subscribe();
    let target = *done.borrow() + writes;
    let reached = done.wait_for(|done| *done >= target);
    reached.await.expect("the sender is here");
}

/// All that these writers left.
async fn gather(mut writers: JoinSet<Contents>) -> Contents {
    let mut all = Contents::new();
    while let Some(contents) = writers.join_next().await {
        all.extend(contents.expect("no panic"));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_comes_back_when_either_is_killed_while_it_is_written_to() {
    let mut apart = Apart::start(&["hub"]).await;
    let clients = [apart.hub_client().clone(), apart.zone_client().clone()];
    // The namespace is there.
    apart.put("first", "1").await;
    until(apart.zone_client(), "first", |seen| {
        seen.contains_key("first")
    })
    .await;
    let (progress, (end, stop)) = (Progress::new(0), watch::channel(false));
    let (mut at_hub, mut in_zone) = (JoinSet::new(), JoinSet::new());
    for number in 0..WRITERS {
        for (writers, client, letter) in [
            (&mut at_hub, &clients[0], "h"),
            (&mut in_zone, &clients[1], "z"),
        ] {
            let writer = format!("{letter}{number}");
            let (progress, stop) = (progress.clone(), stop.clone());
            writers.spawn(write(client.clone(), writer, progress, stop));
        }
    }
    for _ in 0..3 {
        more(&progress, WRITES).await;
        apart.kill_hub().await;
        more(&progress, WRITERS).await;
        apart.start_hub().await;
        more(&progress, WRITES).await;
        apart.kill_zone().await;
        more(&progress, WRITERS).await;
        apart.start_zone().await;
    }
    more(&progress, WRITES).await;
    end.send(true).expect("writers listen");
    let (mut hubs, zones) = (gather(at_hub).await, gather(in_zone).await);
    // These are the last, each way.
    put(apart.hub_client(), "first", "2").await;
    put(apart.zone_client(), "last", "2").await;
    hubs.insert("first".to_owned(), "2".to_owned());
    let mut zones = zones;
    zones.insert("last".to_owned(), "2".to_owned());
    let names_at_hub = zones
        .iter()
        .map(|(name, content)| (format!("eu-1.{name}"), content.clone()));
    let all_at_hub: Contents = hubs.clone().into_iter().chain(names_at_hub).collect();
    let all_in_zone: Contents = hubs.into_iter().chain(zones).collect();
    until(apart.hub_client(), "hub", |seen| *seen == all_at_hub).await;
    until(apart.zone_client(), "zone", |seen| *seen == all_in_zone).await;
    // Nor do they come back when both start with what they left on disk.
    apart.kill_zone().await;
    apart.kill_hub().await;
    apart.start_hub().await;
    apart.start_zone().await;
    apart.shows("lag         none").await;
    assert_eq!(objects(apart.hub_client()).await, all_at_hub);
    assert_eq!(objects(apart.zone_client()).await, all_in_zone);
}
