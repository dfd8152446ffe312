//! What is deleted only when somebody says so: much at once, and what a restored hub never knew.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::world::{Apart, objects, settled, until};

type Contents = BTreeMap<String, String>;

fn contents(entries: &[(&str, &str)]) -> Contents {
    let entry = |(name, content): &(&str, &str)| ((*name).to_owned(), (*content).to_owned());
    entries.iter().map(entry).collect()
}

/// A copy as an administrator makes it.
fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    command.arg("-a").arg(from).arg(to);
    assert!(command.status().expect("cp").success());
}

async fn approve(apart: &Apart) {
    let words = ["zones", "approve-deletions", "eu-1"];
    apart.deltaplane(&words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_the_budget_is_deleted_when_somebody_approves() {
    let mut apart = Apart::start(&["hub"]).await;
    apart.budget(3).await;
    let mut expected = Contents::new();
    for number in 0..10 {
        let name = format!("c{number}");
        apart.put(&name, "1").await;
        expected.insert(name, "1".to_owned());
    }
    settled(&apart, &expected).await;
    // Found missing at once when the zone is back.
    apart.kill_zone().await;
    for name in expected.keys() {
        apart.delete(name).await;
    }
    apart.start_zone().await;
    let held = apart.shows("held").await;
    let why = "10 objects would be deleted (0 lately), and 3 may be without approval";
    assert!(held.contains(why), "{held}");
    // The rest goes on.
    apart.put("other", "1").await;
    expected.insert("other".to_owned(), "1".to_owned());
    until(apart.zone_client(), "all", |seen| *seen == expected).await;
    approve(&apart).await;
    settled(&apart, &contents(&[("other", "1")])).await;
    // What comes later was not approved.
    let mut expected = contents(&[("other", "1")]);
    for number in 0..5 {
        let name = format!("d{number}");
        apart.put(&name, "1").await;
        expected.insert(name, "1".to_owned());
    }
    settled(&apart, &expected).await;
    apart.kill_zone().await;
    for number in 0..5 {
        apart.delete(&format!("d{number}")).await;
    }
    apart.start_zone().await;
    apart.shows("held").await;
    assert_eq!(objects(apart.zone_client()).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_hub_takes_nothing_away_unless_somebody_approves() {
    let mut apart = Apart::start(&["hub"]).await;
    apart.put("kept", "1").await;
    apart.put("changed", "1").await;
    apart.put("deleted", "1").await;
    let before = contents(&[("changed", "1"), ("deleted", "1"), ("kept", "1")]);
    settled(&apart, &before).await;
    let backup = apart.other_dir("backup");
    apart.stop_hub().await;
    copy(&apart.hub_dir(), &backup);
    apart.start_hub().await;
    apart.put("changed", "2").await;
    apart.put("new", "1").await;
    apart.delete("deleted").await;
    let after = contents(&[("changed", "2"), ("kept", "1"), ("new", "1")]);
    settled(&apart, &after).await;
    apart.kill_hub().await;
    std::fs::remove_dir_all(apart.hub_dir()).expect("removed");
    copy(&backup, &apart.hub_dir());
    apart.start_hub().await;
    // What the hub has counts; of what it does not have it cannot know.
    let held = apart.shows("held").await;
    assert!(held.contains("1 objects are unknown to"), "{held}");
    let mut there = before.clone();
    there.insert("new".to_owned(), "1".to_owned());
    until(apart.zone_client(), "all", |seen| *seen == there).await;
    assert_eq!(objects(apart.hub_client()).await, before);
    // What it deletes now it knows, whether the zone is there or not.
    apart.kill_zone().await;
    apart.delete("kept").await;
    apart.start_zone().await;
    there.remove("kept");
    until(apart.zone_client(), "without", |seen| *seen == there).await;
    apart.delete("deleted").await;
    there.remove("deleted");
    until(apart.zone_client(), "without both", |seen| *seen == there).await;
    apart.shows("held").await;
    assert_eq!(objects(apart.zone_client()).await, there);
    approve(&apart).await;
    settled(&apart, &contents(&[("changed", "1")])).await;
}
