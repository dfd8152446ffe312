use crate::args::Environment;
use crate::fake;

use super::super::names::ContentVersion;
use super::*;

/// A definition that holds so many deletions of these versions.
fn definition(held: &[(&str, u64)]) -> Value {
    let held = held.iter().map(
        |(version, held)| json!({"version": version, "baseline": 60, "deleted": 20, "held": held}),
    );
    json!({
        "metadata": {"name": "shop", "resourceVersion": "7"},
        "spec": {"schema": {"apiVersion": "v1", "kind": "Shop"}},
        "status": {"deletions": held.collect::<Vec<_>>()},
    })
}

/// What becomes of approving, and of what was written.
async fn check(definition: Value, version: Option<&str>, expected: &str) {
    let client = fake::api(move |what, body| match what.split_once(' ') {
        Some(("GET", path)) if path.ends_with("/shop") => (200, definition.clone()),
        Some(("PATCH", path)) if path.ends_with("/shop") => {
            assert_eq!(body["metadata"]["resourceVersion"], "7");
            assert!(body["metadata"]["annotations"][keys::APPROVED_DELETIONS].is_string());
            (200, body.clone())
        }
        Some(_) | None => fake::refusal(404),
    });
    let environment = Environment::default();
    let api = Api::of_client(client, &environment);
    let name = "shop".parse().expect("a name");
    let said = match approve(&api, &name, version).await {
        Ok(said) => format!("{}{}", said.out, said.err),
        Err(error) => format!("{error}\nhint: {}\n", error.hint()),
    };
    assert_eq!(said, expected);
}

#[tokio::test]
async fn the_version_that_holds_deletions_is_approved() {
    let (first, second) = ("07f55fde99", "3f1536bb28");
    check(
        definition(&[(first, 0), (second, 40)]),
        None,
        "3f1536bb28\ndeletions of version 3f1536bb28 of shop are approved\n\
         version 3f1536bb28: 40 deletions are held, 20 of 60 objects are deleted\n",
    )
    .await;
    check(
        definition(&[(second, 40)]),
        Some(first),
        "07f55fde99\ndeletions of version 07f55fde99 of shop are approved\n\
         note: none of them are held now\n",
    )
    .await;
    let several = "several versions of shop hold deletions\n\
        hint: say which with --version: 07f55fde99, 3f1536bb28\n";
    check(definition(&[(first, 1), (second, 1)]), None, several).await;
    let none = definition(&[(first, 0)]);
    let now = current(&none).expect("a definition");
    let expected = format!(
        "no deletions of shop are held\nhint: to approve what it may come to delete: deltaplane \
         rollout approve graph/shop --deletions --version {now}\n"
    );
    check(none, None, &expected).await;
}

#[test]
fn versions_are_whole_or_short() {
    for (text, is_one) in [
        ("07f55fde99", true),
        (&*"0f".repeat(32), true),
        ("07f55fde9", false),
        ("07F55FDE99", false),
        ("revision-2", false),
    ] {
        assert_eq!(text.parse::<ContentVersion>().is_ok(), is_one, "{text}");
    }
}
