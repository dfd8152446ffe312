//! What goes wrong when zones are set up: refused with a reason, and nothing is harmed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use deltaplane_e2e::Server;
use deltaplane_e2e::server::Ended;

use super::world::{Apart, settled};

/// Starts it where it cannot run, and gives what it says.
async fn refused(words: &[&str], data: PathBuf) -> Ended {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let started = tokio::task::spawn_blocking(move || {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Server::start(&words, &data)
    });
    started.await.expect("no panic").expect_err("refused")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_was_made_again_joins_again() {
    let mut apart = Apart::start(&["hub"]).await;
    let old = apart.token().await.to_string();
    apart.put("a", "1").await;
    let mut expected = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
    settled(&apart, &expected).await;
    apart.author_in_zone("own", "1").await;
    apart.comes_to_hub("own", "1").await;
    apart.delete_zone().await;
    apart
        .zone()
        .says("there is no zone eu-1; make one with: deltaplane token create --zone eu-1");
    let new = apart.token().await;
    apart
        .zone()
        .says("the certificate is for an earlier zone eu-1, which was deleted; join it again");
    // What was made for the earlier one does not count.
    let ended = refused(&["zone", "--join", &old], apart.other_dir("elsewhere")).await;
    assert_eq!(ended.status.code(), Some(6), "{ended:?}");
    assert!(
        ended.stderr.starts_with("error: the hub refused: "),
        "{ended:?}"
    );
    assert!(
        ended.stderr.contains("hint: make a new join string"),
        "{ended:?}"
    );
    // What the zone authored is there all the time, and follows it again.
    apart.comes_to_hub("own", "1").await;
    apart.kill_zone().await;
    apart.start_zone_with(&["--join", &new.to_string()]).await;
    apart.put("b", "1").await;
    expected.insert("b".to_owned(), "1".to_owned());
    settled(&apart, &expected).await;
    apart.delete_in_zone("own").await;
    apart.leaves_hub("own").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_has_its_data_directory_for_itself() {
    let apart = Apart::start(&["hub"]).await;
    let other = ["token", "create", "--zone", "eu-2"];
    let join = apart.deltaplane(&other).await;
    for (words, data, code, expected) in [
        (vec!["zone"], apart.zone_dir(), 3, " is in use by process "),
        (
            vec!["hub"],
            apart.zone_dir(),
            3,
            " is the data directory of a zone\n",
        ),
        (
            vec!["zone", "--join", join.trim()],
            apart.hub_dir(),
            3,
            " is the data directory of a hub\n",
        ),
        (
            vec!["zone", "--join", join.trim()],
            apart.zone_dir(),
            6,
            "this is zone eu-1, and the join string is for zone eu-2\n",
        ),
    ] {
        let ended = refused(&words, data).await;
        assert_eq!(ended.status.code(), Some(code), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{ended:?}");
    }
    // The first one is not disturbed.
    apart.put("a", "1").await;
    settled(&apart, &BTreeMap::from([("a".to_owned(), "1".to_owned())])).await;
}
