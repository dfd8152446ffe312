//! `deltaplane zone leave`: a zone keeps what came from its hub, and the hub need not be there.

use std::process::Command;

use deltaplane_client::request::{self, Patch};
use deltaplane_e2e::programs;
use serde_json::{Value, json};

use super::world::{Apart, objects, settled, until_done};

const OBJECT: &str = "/api/v1/namespaces/team/configmaps/a";

/// Runs `deltaplane zone leave` with the zone's data directory.
async fn leave(apart: &Apart) -> (Option<i32>, String) {
    let directory = apart.zone_dir();
    let ran = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(programs::deltaplane());
        command.args(["zone", "leave", "--data-dir"]).arg(directory);
        command.output().expect("it runs")
    });
    let ran = ran.await.expect("no panic");
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    (ran.status.code(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_leaves_keeps_what_it_has_as_its_own() {
    let mut apart = Apart::start(&["hub"]).await;
    apart.put("a", "1").await;
    let expected = [("a".to_owned(), "1".to_owned())].into();
    settled(&apart, &expected).await;
    let change = json!({"data": {"content": "mine"}});
    let refused = request::patch::<Value>(apart.zone_client(), OBJECT, Patch::Merge, &change).await;
    assert_eq!(refused.err().and_then(|error| error.code()), Some(403));

    // While it runs, nobody else may open its store.
    let (code, said) = leave(&apart).await;
    assert!(code == Some(3) && said.contains("stop the zone"), "{said}");

    apart.delete_zone().await;
    apart.kill_hub().await;
    apart.kill_zone().await;
    let (code, said) = leave(&apart).await;
    assert!(
        code == Some(0) && said.starts_with("zone eu-1 left its fleet: "),
        "{said}"
    );
    // It can be repeated.
    let (code, said) = leave(&apart).await;
    assert!(code == Some(0) && said.contains(": 0 objects"), "{said}");

    apart.start_zone().await;
    let object: Value = until_done(|| request::get(apart.zone_client(), OBJECT)).await;
    let labels = object["metadata"]["labels"].to_string();
    assert!(!labels.contains("deltaplane.io/origin"), "{labels}");
    let changed = || request::patch(apart.zone_client(), OBJECT, Patch::Merge, &change);
    let _: Value = until_done(changed).await;
    let kept = objects(apart.zone_client()).await;
    assert_eq!(kept, [("a".to_owned(), "mine".to_owned())].into());
}
