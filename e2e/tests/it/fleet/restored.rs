//! What is deleted only when somebody says so.

use std::collections::BTreeMap;

use super::world::{Apart, objects, settled, until};

type Contents = BTreeMap<String, String>;

fn contents(entries: &[(&str, &str)]) -> Contents {
    let entry = |(name, content): &(&str, &str)| ((*name).to_owned(), (*content).to_owned());
    entries.iter().map(entry).collect()
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
