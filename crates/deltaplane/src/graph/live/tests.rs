//! Graphs of instances, as the objects of an API stand.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::Target;
use super::picture::{Cause, Sources};
use crate::graph::tree::Output;
use crate::rollout::{Revision, RolloutError, Seen};

/// What applies a `Deployment`, and a `Service` when that is available.
fn seen(admission: &str) -> Seen {
    let spec = json!({
        "schema": {"apiVersion": "v1alpha1", "kind": "Shop", "spec": {"open": "boolean | default=true"}},
        "resources": [
            {"id": "web", "readyWhen": ["${web.status.availableReplicas == 2}"], "template": {
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "${schema.metadata.name}"},
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": {"app": "a"}},
                    "template": {
                        "metadata": {"labels": {"app": "a"}},
                        "spec": {"containers": [{"name": "web", "image": "shop:1"}]},
                    },
                },
            }},
            {"id": "service", "includeWhen": ["${schema.spec.open}"], "template": {
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "${web.metadata.name}"},
                "spec": {"ports": [{"port": 80}]},
            }},
        ],
    });
    let definition = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "shop"}, "spec": {"schema": {}},
    });
    let instance = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "Shop",
        "metadata": {
            "name": "a", "namespace": "prod", "uid": "u-1",
            "annotations": {"deltaplane.io/admission": admission},
        },
        "spec": {"open": true},
        "status": {"conditions": [
            {"type": "ResourcesReady", "status": "False", "reason": "NotReady", "message": "web"},
            {"type": "Ready", "status": "False", "reason": "NotReady", "message": "web"},
        ]},
    });
    let revision = Revision {
        number: 2,
        hash: String::new(),
        made: None,
        spec,
    };
    Seen::new(definition, vec![revision], vec![instance])
}

/// A Deployment that the graph made, with so many replicas available.
fn deployment(sources: &Sources, seen: &Seen, available: u64) -> Value {
    let mut object = sources.applied(seen.instances[0].clone()).remove(0);
    object["status"] = json!({
        "availableReplicas": available,
        "conditions": [
            {"type": "Available", "status": "False", "reason": "Crashing", "message": "it crashes"},
            {"type": "ReplicaFailure", "status": "False"},
        ],
    });
    object
}

fn check(seen: &Seen, there: Vec<Value>, drawn: Expect, causes: Expect) {
    let sources = Sources::of(Vec::new(), seen, &seen.instances[0]).expect("it compiles");
    let picture = sources.picture(seen.instances[0].clone(), there);
    let picture = picture.expect("a picture");
    drawn.assert_eq(&picture.drawn(Output::Text));
    let all = picture.causes();
    let lines = all.iter().flat_map(|cause| {
        let said = cause.said.iter().map(|line| format!("  {line}\n"));
        std::iter::once(format!("{}\n", Cause::head(cause))).chain(said)
    });
    causes.assert_eq(&lines.collect::<String>());
}

#[test]
fn what_is_not_ready_holds_what_reads_it() {
    let seen = seen("admitted/2");
    let sources = Sources::of(Vec::new(), &seen, &seen.instances[0]).expect("it compiles");
    check(
        &seen,
        Vec::new(),
        expect![[r#"
        shop revision 2: Shop prod/a (kro.run/v1alpha1)
        └─ web: apps/v1 Deployment  [apply]
           │  ready when web.status.availableReplicas == 2
           └─ service: v1 Service  [blocked: by web: it is applied first]
                 included when schema.spec.open
        ResourcesReady is False (NotReady): web
    "#]],
        expect![[r#"
            web is to be applied: it is not there; service waits for it
        "#]],
    );
    let there = vec![deployment(&sources, &seen, 1)];
    check(
        &seen,
        there,
        expect![[r#"
        shop revision 2: Shop prod/a (kro.run/v1alpha1)
        └─ web: apps/v1 Deployment  [not ready: a condition does not hold]
           │  ready when web.status.availableReplicas == 2
           └─ service: v1 Service  [blocked: by web: it is not ready: a condition does not hold]
                 included when schema.spec.open
        ResourcesReady is False (NotReady): web
    "#]],
        expect![[r#"
            web is not ready: a condition does not hold: ${web.status.availableReplicas == 2}; service waits for it
              Deployment a: Available is False (Crashing): it crashes
        "#]],
    );
    let there = vec![deployment(&sources, &seen, 2)];
    check(
        &seen,
        there,
        expect![[r#"
        shop revision 2: Shop prod/a (kro.run/v1alpha1)
        └─ web: apps/v1 Deployment  [ready]
           │  ready when web.status.availableReplicas == 2
           └─ service: v1 Service  [apply]
                 included when schema.spec.open
        ResourcesReady is False (NotReady): web
    "#]],
        expect![[r#"
            service is to be applied: it is not there
        "#]],
    );
    let mut changed = deployment(&sources, &seen, 2);
    changed["metadata"]["managedFields"] = json!([]);
    check(
        &seen,
        vec![changed],
        expect![[r#"
        shop revision 2: Shop prod/a (kro.run/v1alpha1)
        └─ web: apps/v1 Deployment  [apply]
           │  ready when web.status.availableReplicas == 2
           └─ service: v1 Service  [blocked: by web: it is applied first]
                 included when schema.spec.open
        ResourcesReady is False (NotReady): web
    "#]],
        expect![[r#"
            web is to be applied: somebody changed it; service waits for it
              Deployment a: Available is False (Crashing): it crashes
        "#]],
    );
}

#[test]
fn what_failed_is_drawn_as_failed() {
    let seen = seen("admitted/2");
    let sources = Sources::of(Vec::new(), &seen, &seen.instances[0]).expect("it compiles");
    let mut failed = deployment(&sources, &seen, 1);
    failed["status"]["observedGeneration"] = 1.into();
    failed["status"]["conditions"] = json!([{
        "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
        "message": "it has timed out",
    }]);
    check(
        &seen,
        vec![failed],
        expect![[r#"
            shop revision 2: Shop prod/a (kro.run/v1alpha1)
            └─ web: apps/v1 Deployment  [failed: ProgressDeadlineExceeded: it has timed out]
               │  ready when web.status.availableReplicas == 2
               └─ service: v1 Service  [blocked: by web: it failed: ProgressDeadlineExceeded: it has timed out]
                     included when schema.spec.open
            ResourcesReady is False (NotReady): web
        "#]],
        expect![[r#"
            web failed: ProgressDeadlineExceeded: it has timed out; service waits for it
              Deployment a: Progressing is False (ProgressDeadlineExceeded): it has timed out
        "#]],
    );
}

#[test]
fn a_revision_that_is_gone_is_said() {
    let seen = seen("admitted/7");
    let error = Sources::of(Vec::new(), &seen, &seen.instances[0]).map(|_| ());
    let error = error.expect_err("it is not there");
    assert_eq!(error.to_string(), "shop has no revision 7");
    assert!(matches!(error, RolloutError::NoRevision { .. }));
}

#[test]
fn kinds_are_found_by_all_their_names() {
    let crd = json!({
        "metadata": {"labels": {"kro.run/resource-graph-definition-name": "shop"}},
        "spec": {
            "group": "kro.run",
            "names": {"kind": "Shop", "plural": "shops", "singular": "shop", "shortNames": ["sh"]},
        },
    });
    for word in ["shop", "shops", "Shop", "sh", "shops.kro.run"] {
        let target: Target = format!("{word}/a").parse().expect("a target");
        target.definition(std::slice::from_ref(&crd)).expect(word);
    }
    let target: Target = "shoe/prod/a".parse().expect("a target");
    let error = target.definition(&[crd]).expect_err("no such kind");
    assert_eq!(error.to_string(), "there is no kind shoe of a graph");
    assert_eq!(error.hint(), "there are shop");
    assert_eq!(
        "shop".parse::<Target>(),
        Err("write it as kind/name".to_owned())
    );
}
