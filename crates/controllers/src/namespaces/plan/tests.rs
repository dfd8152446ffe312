use std::collections::BTreeSet;

use expect_test::{Expect, expect};

use super::*;

fn namespace(status: Value) -> Namespace {
    serde_json::from_value(json!({
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "7",
            "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"finalizers": ["kubernetes", "example.com/mine"]},
        "status": status,
    }))
    .expect("a namespace")
}

fn left(
    group: &str,
    plural: &str,
    objects: usize,
    finalizers: &[(&str, usize)],
) -> (Resource, Left) {
    let named = finalizers
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count));
    let left = Left {
        objects: (0..objects).map(|uid| uid.to_string()).collect(),
        finalizers: named.collect(),
        namespaces: BTreeSet::new(),
    };
    (Resource::namespaced(group, "v1", plural, "Any"), left)
}

fn check(outcome: &Emptied, expected: Expect) {
    let now = Time::from_unix(0);
    let written = status(&namespace(json!({"phase": "Active"})), outcome, now).expect("changed");
    let conditions = written["conditions"].as_array().expect("a list");
    let line = |condition: &Value| {
        let text = |field: &str| condition[field].as_str().expect("text").to_owned();
        [
            text("type"),
            text("status"),
            text("reason"),
            text("message"),
        ]
        .join(" ")
    };
    let lines: Vec<_> = conditions.iter().map(line).collect();
    expected.assert_eq(&lines.join("\n"));
    assert_eq!(written["phase"], "Terminating");
    assert_eq!(
        status(&namespace(written), outcome, Time::from_unix(9)),
        None,
        "written twice"
    );
}

#[test]
fn it_says_what_is_left() {
    let outcome = Emptied {
        left: vec![
            left("", "pods", 2, &[]),
            left(
                "apps",
                "deployments",
                1,
                &[("example.com/b", 1), ("example.com/a", 1)],
            ),
            left("", "configmaps", 3, &[("example.com/b", 3)]),
        ],
        ..Emptied::default()
    };
    check(
        &outcome,
        expect![[r#"
            NamespaceDeletionDiscoveryFailure False ResourcesDiscovered All resources successfully discovered
            NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions All legacy kube types successfully parsed
            NamespaceDeletionContentFailure False ContentDeleted All content successfully deleted, may be waiting on finalization
            NamespaceContentRemaining True SomeResourcesRemain Some resources are remaining: configmaps. has 3 resource instances, deployments.apps has 1 resource instances, pods. has 2 resource instances
            NamespaceFinalizersRemaining True SomeFinalizersRemain Some content in the namespace has finalizers remaining: example.com/a in 1 resource instances, example.com/b in 4 resource instances"#]],
    );
    assert_eq!((outcome.is_empty(), outcome.failure()), (false, None));
}

#[test]
fn it_says_what_failed() {
    let undiscovered = BTreeMap::from([("example.com/v1".to_owned(), "away".to_owned())]);
    let outcome = Emptied {
        undiscovered,
        failures: vec!["pods: full".to_owned()],
        left: Vec::new(),
    };
    check(
        &outcome,
        expect![[r#"
            NamespaceDeletionDiscoveryFailure True DiscoveryFailed Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: example.com/v1: away
            NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions All legacy kube types successfully parsed
            NamespaceDeletionContentFailure True ContentDeletionFailed Failed to delete all resource types, 1 remaining: pods: full
            NamespaceContentRemaining False ContentRemoved All content successfully removed
            NamespaceFinalizersRemaining False ContentHasNoFinalizers All content-preserving finalizers finished"#]],
    );
    assert!(!outcome.is_empty() && outcome.failure().is_some());
}

#[test]
fn only_our_finalizer_is_removed() {
    let namespace = namespace(Value::Null);
    assert!(namespace.is_to_be_emptied());
    let finalized = namespace.finalized();
    assert_eq!(finalized["spec"]["finalizers"], json!(["example.com/mine"]));
    assert_eq!(finalized["metadata"]["resourceVersion"], "7");
    let mut after = namespace;
    after.spec.finalizers.remove(0);
    assert!(!after.is_to_be_emptied());
    assert!(Emptied::default().is_empty());
}
