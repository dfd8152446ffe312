//! A hub and a zone in processes of their own.

mod along;
mod held;
mod killed;
mod leave;
mod mistakes;
mod restored;
pub(crate) mod world;

use std::collections::BTreeMap;

use deltaplane_e2e::Server;
use deltaplane_e2e::proxy::Proxy;

use world::{Apart, objects, settled};

/// Creates, changes and deletes objects, in an order that is the same each time.
struct Load {
    next: u32,
    /// What the hub acknowledged.
    expected: BTreeMap<String, String>,
}

// === impl Load ===

impl Load {
    fn new() -> Self {
        Self {
            next: 0,
            expected: BTreeMap::new(),
        }
    }

    /// Makes so many writes, whatever happens meanwhile.
    async fn run(&mut self, apart: &Apart, writes: u32) {
        for _ in 0..writes {
            let number = self.next;
            self.next += 1;
            let name = format!("c{}", number * 7 % 40);
            match number % 5 {
                4 => {
                    apart.delete(&name).await;
                    self.expected.remove(&name);
                }
                _ => {
                    let content = number.to_string();
                    apart.put(&name, &content).await;
                    self.expected.insert(name, content);
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_comes_back_when_either_side_is_killed() {
    let mut apart = Apart::start(&["hub"]).await;
    let mut load = Load::new();
    load.run(&apart, 30).await;
    settled(&apart, &load.expected).await;
    apart.mark_in_zone("c7").await;
    for round in 0..4 {
        let (kill_hub, kill_zone) = (round % 2 == 0, round != 2);
        if kill_zone {
            apart.kill_zone().await;
        }
        let writing = load.run(&apart, 20);
        match kill_hub {
            true => {
                // Killed between writes, of which each is tried until it is acknowledged.
                writing.await;
                apart.kill_hub().await;
                apart.start_hub().await;
            }
            false => writing.await,
        }
        load.run(&apart, 10).await;
        if kill_zone {
            apart.start_zone().await;
        }
        load.run(&apart, 10).await;
        settled(&apart, &load.expected).await;
    }
    // What the zone's own noted stays, too.
    assert!(apart.is_marked_in_zone("c7").await);
    assert_eq!(objects(apart.zone_client()).await, load.expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_goes_on_when_its_link_is_cut() {
    let mut apart = Apart::start_behind(&["hub"], Proxy::to).await;
    let mut load = Load::new();
    load.run(&apart, 10).await;
    settled(&apart, &load.expected).await;
    apart.proxy().cut();
    load.run(&apart, 15).await;
    apart.author_in_zone("own", "1").await;
    apart.zone().says("lost the hub; the zone goes on");
    apart.proxy().mend();
    settled(&apart, &load.expected).await;
    apart.comes_to_hub("own", "1").await;
    // Gone at its origin, it goes everywhere.
    apart.proxy().cut();
    apart.delete_in_zone("own").await;
    apart.proxy().mend();
    apart.leaves_hub("own").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_falls_silent_is_left_and_found_again() {
    let mut apart = Apart::start(&["hub"]).await;
    let mut load = Load::new();
    load.run(&apart, 10).await;
    settled(&apart, &load.expected).await;
    // Its connections stay open, and nobody answers.
    apart.hub().freeze();
    apart.zone().says("lost the hub; the zone goes on");
    apart.author_in_zone("own", "1").await;
    assert_eq!(
        objects(apart.zone_client()).await.len(),
        load.expected.len() + 1
    );
    apart.hub().thaw();
    load.run(&apart, 10).await;
    settled(&apart, &load.expected).await;
    apart.comes_to_hub("own", "1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_renews_its_certificate() {
    let mut apart = Apart::start(&["hub", "--zone-certificate-ttl", "4s"]).await;
    apart.zone().says("the zone's certificate was renewed");
    // The first one ends, and the connection with it.
    apart.zone().says("connected to the hub");
    apart.put("later", "1").await;
    let expected = BTreeMap::from([("later".to_owned(), "1".to_owned())]);
    settled(&apart, &expected).await;
}

#[test]
fn a_zone_that_did_not_join_says_so() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let ended = Server::start(&["zone"], &dir.path().join("data")).expect_err("not joined");
    assert_eq!(ended.status.code(), Some(6), "{ended:?}");
    let expected = "error: this zone has not joined a hub yet\nhint: make a join string at the hub with: deltaplane token create --zone <name>; and give it with --join\n";
    assert!(ended.stderr.ends_with(expected), "{ended:?}");
    // It is a secret, also when it is not whole.
    let cut = "deltaplane-join-v1.c2VjcmV0";
    let ended = Server::start(&["zone", "--join", cut], &dir.path().join("data"));
    let ended = ended.expect_err("no join string");
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    let expected = "error: --join cannot be used\n  because: the join string is cut off, or was altered on the way\nhint: give the whole line that deltaplane token create printed at the hub\n";
    assert_eq!(ended.stderr, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_does_not_wait_for_its_zones_when_it_stops() {
    let mut apart = Apart::start(&["hub"]).await;
    apart.put("a", "1").await;
    settled(&apart, &BTreeMap::from([("a".to_owned(), "1".to_owned())])).await;
    let ended = apart.stop_hub().await;
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(!ended.stderr.contains("gave up waiting"), "{ended:?}");
    apart.zone().says("lost the hub; the zone goes on");
}
