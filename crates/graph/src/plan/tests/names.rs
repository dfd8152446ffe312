//! Names of objects, and their namespaces.

use super::*;

/// An instance in no namespace has none that others could inherit.
#[test]
fn a_namespace_that_an_expression_leaves_empty_is_named() {
    let mut world = World::new(
        r#"
schema: {kind: Shop, apiVersion: v1, scope: Cluster, spec: {target: string}}
resources:
- id: config
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: "${schema.spec.target}"}}
"#,
        json!({"spec": {"target": ""}}),
    );
    if let Some(metadata) = world.instance["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    let plan = world.plan();
    let Standing::Failed(wrong) = &plan.nodes[0] else {
        panic!("{:?}", plan.nodes[0]);
    };
    assert_eq!(wrong.place, "spec.resources[0].template.metadata.namespace");
    assert!(
        wrong.message.starts_with("metadata.namespace is empty"),
        "{wrong:?}"
    );
    world.instance["spec"]["target"] = json!("team");
    assert_eq!(world.plan().apply[0].id.namespace, "team");
}
