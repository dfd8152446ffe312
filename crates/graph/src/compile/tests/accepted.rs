//! What is accepted, and what it comes to.

use std::sync::Arc;

use deltaplane_expr::{Bindings, Budget, Meter};
use expect_test::{expect, expect_file};
use serde_json::{Value as Json, json};

use super::{check, compiled, with_resources};
use crate::{Filled, Graph, Node, Owner, Unfilled};

#[test]
fn collections_references_and_conditions() {
    check(
        &with_resources(
            "
- id: pods
  forEach: [{zone: '${schema.spec.zones}'}, {size: '${shared.data.sizes.split(\",\")}'}]
  readyWhen: ['${each.data.ready == \"yes\"}']
  propagateWhen: ['${linearlyReady(zone, pods, 1)}', 'shared.ready()']
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: '${schema.spec.name}-${zone}-${size}'}
    data: {zone: '${zone}', owner: '${schema.metadata.name}'}
- id: shared
  readyWhen: ['${shared.data.sizes != \"\"}']
  externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: 'shared-${schema.spec.name}', namespace: default}}
- id: labelled
  readyWhen: ['${each.data.ready == \"yes\"}', '${labelled.size() > 1}']
  externalRef:
    apiVersion: v1
    kind: ConfigMap
    metadata: {selector: {matchLabels: {app: '${schema.spec.name}'}, matchExpressions: [{key: a, operator: Exists}]}}
- id: computed
  externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: '${schema.spec.options}'}}
- id: summary
  includeWhen: ['${pods.all(pod, has(pod.metadata.uid))}', '${schema.spec.?options.optMap(o, o == 1)}']
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: summary}
    data:
      count: ${string(pods.size() + labelled.size())}
      first: ${pods[0].metadata.name}
      template: \"${labelled.map(l, l.metadata.name).join(',')} of ${computed[0].metadata.name}\"
",
        ),
        expect![[r#"
            apps.kro.run/v1alpha1 App (namespaced)
            1 shared: external v1 ConfigMap
                ready when ${shared.data.sizes != ""}
                name = shared-${schema.spec.name}
            2 pods: each v1 ConfigMap <- shared
                for zone in ${schema.spec.zones}
                for size in ${shared.data.sizes.split(",")}
                ready when ${each.data.ready == "yes"}
                propagate when linearlyReady(zone, pods, 1)
                propagate when shared.ready()
                data.owner = ${schema.metadata.name}
                data.zone = ${zone} (item)
                metadata.name = ${schema.spec.name}-${zone}-${size} (item)
            2 labelled: selected v1 ConfigMap
                ready when ${each.data.ready == "yes"}
                ready when ${labelled.size() > 1}
                selector.matchLabels.app = ${schema.spec.name}
            2 computed: selected v1 ConfigMap
                selector = ${schema.spec.options}
            3 summary: one v1 ConfigMap <- pods, labelled, computed
                include when ${pods.all(pod, has(pod.metadata.uid))}
                include when ${schema.spec.?options.optMap(o, o == 1)}
                data.count = ${string(pods.size() + labelled.size())}
                data.first = ${pods[0].metadata.name}
                data.template = ${labelled.map(l, l.metadata.name).join(',')} of ${computed[0].metadata.name}
            spec {"default":{},"type":"object"}
              name {"type":"string"}
              options {"type":"object","x-kubernetes-preserve-unknown-fields":true}
              replicas {"default":1,"type":"integer"}
              sizes {"type":"array"}
                [] {"type":"integer"}
              zones {"type":"array"}
                [] {"type":"string"}
        "#]],
    );
}

#[test]
fn the_status_has_the_types_of_its_expressions() {
    check(
        "
schema:
  kind: Policy
  apiVersion: v1
  group: example.com
  scope: Cluster
  spec: {name: string | required=true, size: float, deep: {enabled: boolean | default=true}}
  status:
    bool: ${schema.spec.deep.enabled}
    number: ${schema.spec.size}
    text: a ${schema.spec.name}
    list: ['${web.status.replicas}', {b: '${web.metadata.name}'}]
    object: ${web.status}
    map: ${web.metadata.labels}
    time: ${web.metadata.creationTimestamp}
    duration: ${web.metadata.creationTimestamp - web.metadata.creationTimestamp}
    maybe: ${web.status.?replicas}
    any: ${loose.status.x}
    bytes: ${hash.md5(schema.spec.name)}
    nothing: '${schema.spec.name == \"\" ? null : null}'
    state: ${schema.spec.name}
resources:
- id: web
  template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: b}}
- id: loose
  template: {apiVersion: example.com/v1, kind: Loose, metadata: {name: a, namespace: b}}
",
        expect![[r#"
            policies.example.com/v1 Policy (cluster)
            1 web: one apps/v1 Deployment
            1 loose: one example.com/v1 Loose
            spec {"required":["name"],"type":"object"}
              deep {"default":{},"type":"object"}
                enabled {"default":true,"type":"boolean"}
              name {"type":"string"}
              size {"type":"number"}
            status {"type":"object"}
              any {"x-kubernetes-preserve-unknown-fields":true}
              bool {"type":"boolean"}
              bytes {"format":"byte","type":"string"}
              duration {"description":"unknown CEL type: google.protobuf.Duration","x-kubernetes-preserve-unknown-fields":true}
              list {"type":"array"}
                [] {"type":"object"}
                  b {"type":"string"}
              map {"type":"object"}
                {} {"type":"string"}
              maybe {"description":"unknown CEL type: optional_type(int)","x-kubernetes-preserve-unknown-fields":true}
              nothing {"description":"null type - any value allowed","x-kubernetes-preserve-unknown-fields":true}
              number {"type":"number"}
              object {"type":"object"}
                availableReplicas {"type":"integer"}
                load {"type":"number"}
                replicas {"type":"integer"}
                startedAt {"x-kubernetes-preserve-unknown-fields":true}
              text {"type":"string"}
              time {"description":"Timestamp representing a creation time","format":"date-time","type":"string"}
                any = ${loose.status.x}
                bool = ${schema.spec.deep.enabled}
                bytes = ${hash.md5(schema.spec.name)}
                duration = ${web.metadata.creationTimestamp - web.metadata.creationTimestamp}
                list[0] = ${web.status.replicas}
                list[1].b = ${web.metadata.name}
                map = ${web.metadata.labels}
                maybe = ${web.status.?replicas}
                nothing = ${schema.spec.name == "" ? null : null}
                number = ${schema.spec.size}
                object = ${web.status}
                state = ${schema.spec.name}
                text = a ${schema.spec.name}
                time = ${web.metadata.creationTimestamp}
        "#]],
    );
}

#[test]
fn the_generated_definition_is_kros() {
    let graph = compiled(
        "
schema:
  kind: App
  apiVersion: v1
  shortNames: [ap]
  categories: [all]
  metadata: {labels: {team: web}, annotations: {a: b}}
",
    )
    .unwrap();
    let owner = Owner {
        name: "app",
        id: "1-2",
        version: "0.9.4",
    };
    let crd = serde_json::to_string_pretty(&graph.owned_crd(owner)).unwrap();
    expect_file!["app.crd.json"].assert_eq(&(crd + "\n"));
}

/// What the first node's template comes to for an instance and other objects.
fn rendered(graph: &Graph, schema: &Json, others: &[(&str, Json)]) -> String {
    let node = &graph.nodes()[graph.nodes().len() - 1];
    let mut bindings = graph.bindings();
    bindings
        .set_json(graph.env(), graph.schema_slot(), schema)
        .unwrap();
    for (id, object) in others {
        let slot = graph.slot(graph.find(id).unwrap());
        bindings.set_json(graph.env(), slot, object).unwrap();
    }
    match filled(node, &bindings) {
        Ok(filled) => node.template().render(filled).to_string(),
        Err(Unfilled::Waiting(path)) => format!("waiting for {path}"),
        Err(Unfilled::Failed(failure)) => format!("failed: {}", failure.reason),
        Err(Unfilled::Stopped(stopped)) => stopped.to_string(),
    }
}

fn filled<'a>(node: &'a Node, bindings: &Bindings<'a>) -> Result<Vec<Filled>, Unfilled> {
    let mut meter = Meter::new(Budget::default());
    let holes = node.template().holes().iter();
    holes.map(|hole| hole.fill(bindings, &mut meter)).collect()
}

#[test]
fn templates_are_rendered() {
    let graph = compiled(&with_resources(
        "
- id: base
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: base}}
- id: loose
  template:
    apiVersion: example.com/v1
    kind: Loose
    metadata: {name: '${schema.spec.name}-x'}
    spec:
      literal: [1, null, {a: b}]
      count: ${schema.spec.replicas}
      none: ${schema.spec.?zones}
      gone: '${schema.spec.replicas > 1 ? omit() : 1}'
      list: [a, '${omit()}', '${base.data.b}', '${schema.spec.?options}', c]
      computed: \"${{'a': omit(), 'b': [1, omit()]}}\"
",
    ))
    .unwrap();
    let schema = json!({"metadata": {"name": "app"}, "spec": {"name": "app", "replicas": 2}});
    let base = json!({"metadata": {"name": "base"}, "data": {"b": "B"}});
    expect![[r#"{"apiVersion":"example.com/v1","kind":"Loose","metadata":{"name":"app-x"},"spec":{"computed":{"b":[1]},"count":2,"list":["a","B","c"],"literal":[1,null,{"a":"b"}]}}"#]].assert_eq(&rendered(&graph, &schema, &[("base", base)]));
    let early = json!({"metadata": {"name": "base"}});
    expect!["waiting for base.data"].assert_eq(&rendered(&graph, &schema, &[("base", early)]));
    expect!["waiting for base"].assert_eq(&rendered(&graph, &schema, &[]));
}

#[test]
fn graphs_are_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &Arc<T>) {}
    shared(&Arc::new(
        compiled("schema: {kind: App, apiVersion: v1}").unwrap(),
    ));
}

#[test]
fn what_a_gate_reads_comes_first_and_makes_no_waves() {
    let config = |id: &str, gate: &str| {
        format!(
            "- {{id: {id}, {gate} template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {id}}}}}}}\n"
        )
    };
    let gated = compiled(&with_resources(&format!(
        "{}{}",
        config("first", "propagateWhen: ['second.ready()'],"),
        config("second", ""),
    )));
    let gated = gated.unwrap();
    assert_eq!(gated.order().collect::<Vec<_>>(), ["second", "first"]);
    let waves = gated.nodes().iter().map(crate::Node::apply_order);
    assert_eq!(waves.collect::<Vec<_>>(), [1, 1]);
    assert!(gated.nodes()[0].is_watched() && !gated.nodes()[1].is_watched());
}

#[test]
fn gates_are_no_part_of_what_is_made() {
    let graph = |gate: &str, data: &str| {
        let resources = format!(
            "- {{id: rooms, {gate} forEach: [{{zone: '${{schema.spec.zones}}'}}], template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: '${{zone}}'}}, data: {{orderBy: {data}}}}}}}"
        );
        compiled(&with_resources(&resources)).unwrap()
    };
    let open = graph("", "a");
    let gated = graph(
        "propagateWhen: ['linearlyReady(zone, rooms, 1)'], orderBy: zone.metadata.name,",
        "a",
    );
    let other = graph("", "b");
    assert_ne!(open.version(), gated.version());
    assert_eq!(open.content_version(), gated.content_version());
    assert_ne!(open.content_version(), other.content_version());
    let print = |graph: &Graph| *graph.nodes()[0].template().fingerprint();
    assert_eq!(print(&open), print(&gated));
}

#[test]
fn gates_that_never_open_are_warned_about() {
    let graph = compiled(&with_resources(
        "
- id: held
  propagateWhen: ['schema.spec.name != \"\"', '${1 > 2 || false}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: held}}
- id: later
  propagateWhen: [\"time.now() > timestamp('2999-01-01T00:00:00Z')\", 'true', 'held.ready()']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: later}}
",
    ));
    assert_eq!(
        graph.unwrap().warnings(),
        [
            "spec.resources[0].propagateWhen[1]: 1 > 2 || false is never true: no change of the resource is let through"
        ]
    );
}
