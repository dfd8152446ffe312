//! What is refused, and how it is said.

use expect_test::{Expect, expect};

use super::{check, with_resources};

/// A ConfigMap with these lines under it.
fn config(lines: &str) -> String {
    let indented: String = lines.lines().map(|line| format!("    {line}\n")).collect();
    with_resources(&format!(
        "- id: config\n  template:\n    apiVersion: v1\n    kind: ConfigMap\n{indented}"
    ))
}

#[test]
fn names_are_valid_and_free() {
    check(
        "
schema: {kind: web, apiVersion: example.com/v1, group: Bad_Group, shortNames: [A_B]}
resources:
- {id: schema, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}
- {id: Web-1, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}}
- {id: twice, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}}
- id: twice
  forEach: [{twice: '${[1]}'}, {each: '${[1]}'}, {a: '${[1]}'}, {a: '${[2]}'}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: d}}
",
        expect![[r#"
            spec.resources[0].id: `schema` is a reserved word
            spec.resources[1].id: "Web-1" is not a valid id
              hint: it begins with a small letter and has letters and digits only, as in `webServer`
            spec.resources[3].forEach: all forEach dimensions must be used to produce a unique resource identity, missing: twice, each, a, a
              hint: use them in metadata.name
            spec.resources[3].forEach[0].twice: there is a resource with the id `twice`
            spec.resources[3].forEach[1].each: `each` is a reserved word
            spec.resources[3].forEach[3].a: there is another iterator with the name `a`
            spec.resources[3].id: there is another resource with the id `twice`
            spec.schema.apiVersion: "example.com/v1" is not a version
              hint: the group has a field of its own, `group`
            spec.schema.group: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.schema.group: it should be a domain with at least one dot
            spec.schema.kind: "web" is not a valid kind
              hint: it begins with a capital letter and has letters and digits only, as in `WebApp`
            spec.schema.shortNames[0]: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
        "#]],
    );
}

#[test]
fn fields_are_known_and_go_together() {
    check(
        "
schema: {kind: App, apiVersion: v1, scope: Everywhere, specs: {}}
resource: []
resources:
- {id: none}
- {id: both, template: {}, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}
- {id: many, forEach: [{a: '${[1]}'}], externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}
- {id: neither, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {}}}
- {id: list, template: [], readyWhen: yes, includeWhen: [1], forEach: [{a: b, c: d}]}
- text
",
        expect![[r#"
            spec.resource: there is no such field
              hint: did you mean `resources`?
            spec.resources[0]: exactly one of template or externalRef must be provided
            spec.resources[1].externalRef: cannot use externalRef with template
            spec.resources[2].forEach: cannot use externalRef with forEach
            spec.resources[3].externalRef.metadata: exactly one of name or selector must be provided
            spec.resources[4].forEach[0]: each dimension is one name with one expression
            spec.resources[4].includeWhen[0]: expected a string, got integer
            spec.resources[4].readyWhen: expected a list, got boolean
            spec.resources[4].template: expected an object, got array
            spec.resources[5]: expected an object, got string
            spec.schema.scope: "Everywhere" is not a scope
              hint: it is `Namespaced` or `Cluster`
            spec.schema.specs: there is no such field
              hint: did you mean `spec`?
        "#]],
    );
}

#[test]
fn templates_have_the_structure_of_their_kind() {
    check(
        &with_resources(
            "
- id: web
  template:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web, label: {a: b}}
    spec:
      replica: 1
      replicas: many
      paused: 1
      selector: {matchLabels: {app: 1, tier: null}}
      template:
        spec:
          containers:
          - {name: [a], image: {}}
          - text-${schema.spec.name}
          - name: true
            env: {a: b}
- id: service
  template:
    apiVersion: v1
    kind: Service
    metadata: {name: web}
    spec: {ports: [{port: 'x${schema.spec.name}', targetPort: http}, {port: 1.5, targetPort: true}]}
- id: loose
  template:
    apiVersion: example.com/v1
    kind: Loose
    metadata: {name: loose}
    spec: {anything: [{goes: '${schema.spec.replicas}'}]}
",
        ),
        expect![[r#"
            spec.resources[0].template.metadata.label: there is no such field: schema not found for field label
              hint: did you mean `labels`?
            spec.resources[0].template.spec.paused: expected boolean type for path spec.paused, got integer
            spec.resources[0].template.spec.replica: there is no such field: schema not found for field replica
              hint: did you mean `replicas`?
            spec.resources[0].template.spec.replicas: expected integer type for path spec.replicas, got string
            spec.resources[0].template.spec.selector.matchLabels.app: expected string type for path spec.selector.matchLabels.app, got integer
            spec.resources[0].template.spec.template.spec.containers[0].image: expected string type for path spec.template.spec.containers[0].image, got object
            spec.resources[0].template.spec.template.spec.containers[0].name: expected string type for path spec.template.spec.containers[0].name, got array
            spec.resources[0].template.spec.template.spec.containers[1]: expected object type for path spec.template.spec.containers[1], got string
              hint: write it as one `${…}`, with nothing around it
            spec.resources[0].template.spec.template.spec.containers[2].env: expected array type for path spec.template.spec.containers[2].env, got object
            spec.resources[0].template.spec.template.spec.containers[2].name: expected string type for path spec.template.spec.containers[2].name, got boolean
            spec.resources[1].template.spec.ports[0].port: expected integer type for path spec.ports[0].port, got string
              hint: write it as one `${…}`, with nothing around it
            spec.resources[1].template.spec.ports[1].port: expected integer type for path spec.ports[1].port, got number
            spec.resources[1].template.spec.ports[1].targetPort: expected string or integer type for path spec.ports[1].targetPort, got boolean
        "#]],
    );
}

#[test]
fn expressions_have_the_type_of_their_field() {
    check(
        &with_resources(
            "
- id: web
  template:
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: ${schema.spec.replicas}
      labels: ${schema.spec.zones}
    spec:
      replicas: ${schema.spec.name}
      paused: ${schema.spec.?replicas}
      selector: \"${{'matchLabels': {'a': 1}}}\"
      template:
        metadata: \"${{'labels': {'a': 'b'}}}\"
        spec:
          containers: \"${[{'name': 'a', 'image': 1}]}\"
- id: other
  template:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: 'app-${schema.spec.replicas}'}
    spec: '${web.spec}'
- id: service
  template:
    apiVersion: v1
    kind: Service
    metadata: {name: a}
    spec: '${web.spec}'
- id: secret
  template:
    apiVersion: v1
    kind: Secret
    metadata: {name: a}
    data: {a: '${schema.spec.name}', b: '${schema.spec.options}', c: '${schema.spec.replicas}'}
",
        ),
        expect![[r#"
            spec.resources[0].template.metadata.labels: type mismatch: map(string, string) is expected here, and this is list(string)
              | ${schema.spec.zones}
              |   ^^^^^^^^^^^^^^^^^
            spec.resources[0].template.metadata.name: type mismatch: string is expected here, and this is int
              | ${schema.spec.replicas}
              |   ^^^^^^^^^^^^^^^^^^^^
              hint: write string(…) around it
            spec.resources[0].template.spec.paused: type mismatch: bool is expected here, and this is optional_type(int)
              | ${schema.spec.?replicas}
              |   ^^^^^^^^^^^^^^^^^^^^^
            spec.resources[0].template.spec.replicas: type mismatch: int is expected here, and this is string
              | ${schema.spec.name}
              |   ^^^^^^^^^^^^^^^^
              hint: write int(…) around it
            spec.resources[0].template.spec.selector: type mismatch: an object (apps/v1.Deployment.spec.selector) is expected here, and this is map(string, map(string, int))
              | ${{'matchLabels': {'a': 1}}}
              |   ^^^^^^^^^^^^^^^^^^^^^^^^^
              hint: map value for field "matchLabels": map value: it is int, not string
            spec.resources[1].template.metadata.name: expected type 'string' but found 'int': in a text, write string(…) around it
              | app-${schema.spec.replicas}
              |       ^^^^^^^^^^^^^^^^^^^^
            spec.resources[2].template.spec: type mismatch: an object (v1.Service.spec) is expected here, and this is apps/v1.Deployment.spec
              | ${web.spec}
              |   ^^^^^^^^
              hint: there is no field "paused" in it
            spec.resources[3].template.data.c: type mismatch: bytes is expected here, and this is int
              | ${schema.spec.replicas}
              |   ^^^^^^^^^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn expressions_are_written_well() {
    check(
        &config(
            "
metadata: {name: '${schema.spec.nam}'}
data:
  a: ${schema.spec.name +}
  b: ${shema.spec.name}
  c: ${configg.data.a}
  d: ${config.data.a}
  e: ${each}
  f: ${nothing(1)}
  g: ${schema.status.x}
  h: ${a(${b})}
  i: ${runtime.condition(schema, 'Ready').status}
  j: ${size(1)}
",
        ),
        expect![[r#"
            spec.resources[0].template.data.a: Syntax error: unexpected end of the expression, expecting an expression
              | ${schema.spec.name +}
              |                     ^
            spec.resources[0].template.data.b: there is no `shema`
              | ${shema.spec.name}
              |   ^^^^^
              hint: did you mean `schema`?
            spec.resources[0].template.data.c: there is no `configg`
              | ${configg.data.a}
              |   ^^^^^^^
            spec.resources[0].template.data.d: self references are not allowed
              | ${config.data.a}
              |   ^^^^^^
            spec.resources[0].template.data.e: `each` cannot be used in a template
              | ${each}
              |   ^^^^
              hint: it can use `schema`
            spec.resources[0].template.data.f: undeclared reference to 'nothing'
              | ${nothing(1)}
              |   ^^^^^^^^^^
            spec.resources[0].template.data.g: undefined field 'status'
              | ${schema.status.x}
              |         ^^^^^^^
            spec.resources[0].template.data.h: nested expressions are not allowed unless inside string literals
              | ${a(${b})}
              |     ^^
            spec.resources[0].template.data.i: `runtime` is only available in status.conditions expressions
              | ${runtime.condition(schema, 'Ready').status}
              |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            spec.resources[0].template.data.j: found no matching overload for 'size' applied to '(int)'
              | ${size(1)}
              |   ^^^^^^^
              hint: expected (bytes) -> int, or (list(A)) -> int, or (map(A, B)) -> int, or (string) -> int, or bytes.() -> int, or 3 more
            spec.resources[0].template.metadata.name: undefined field 'nam'
              | ${schema.spec.nam}
              |              ^^^^
        "#]],
    );
}

#[test]
fn conditions_see_what_they_may_and_are_true_or_false() {
    check(
        &with_resources(
            "
- id: config
  includeWhen: ['${config.data.a == 1}', schema.spec.name, '${schema.spec.name}', 'a ${true}', '${omit()}']
  readyWhen: ['${schema.spec.replicas == 1}', '${web.data.a == b}', '${config.data.?a.hasValue()}', '${each.x}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- id: web
  forEach: [{zone: '${schema.spec.zones}'}]
  includeWhen: ['${zone == config.data.zone}']
  readyWhen: ['${web.size() == 1}', '${zone == each.metadata.name}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${zone}'}}
- id: loose
  includeWhen: ['${schema.spec.options.enabled}']
  readyWhen: ['${loose.status.ready}', '${loose.status.?ready.optMap(x, x == true)}']
  template: {apiVersion: example.com/v1, kind: Loose, metadata: {name: '${zone}'}}
",
        ),
        expect![[r#"
            spec.resources[0].includeWhen[0]: self references are not allowed
              | ${config.data.a == 1}
              |   ^^^^^^
            spec.resources[0].includeWhen[1]: only standalone expressions are allowed
              hint: write all of it as one `${…}`
            spec.resources[0].includeWhen[2]: a condition is bool or optional(bool), and this is string
              | ${schema.spec.name}
              |   ^^^^^^^^^^^^^^^^
            spec.resources[0].includeWhen[3]: only standalone expressions are allowed
              hint: write all of it as one `${…}`
            spec.resources[0].includeWhen[4]: omit() can only be used in resource template expressions
              | ${omit()}
              |   ^^^^^^
            spec.resources[0].readyWhen[0]: `schema` cannot be used in readyWhen
              | ${schema.spec.replicas == 1}
              |   ^^^^^^
              hint: it can use `config`
            spec.resources[0].readyWhen[1]: `web` cannot be used in readyWhen
              | ${web.data.a == b}
              |   ^^^
              hint: it can use `config`
            spec.resources[0].readyWhen[1]: there is no `b`
              | ${web.data.a == b}
              |                 ^
            spec.resources[0].readyWhen[3]: `each` cannot be used in readyWhen
              | ${each.x}
              |   ^^^^
              hint: it can use `config`
            spec.resources[1].includeWhen[0]: `zone` cannot be used in includeWhen
              | ${zone == config.data.zone}
              |   ^^^^
              hint: it can use `schema`, `config`, `loose`
            spec.resources[1].readyWhen[0]: `web` cannot be used in readyWhen of a collection
              | ${web.size() == 1}
              |   ^^^
              hint: it can use `each`
            spec.resources[1].readyWhen[1]: `zone` cannot be used in readyWhen of a collection
              | ${zone == each.metadata.name}
              |   ^^^^
              hint: it can use `each`
            spec.resources[2].includeWhen[0]: a condition is bool or optional(bool), and this is dyn
              | ${schema.spec.options.enabled}
              |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^
              hint: nothing is known of it: compare it, `… == true`
            spec.resources[2].readyWhen[0]: a condition is bool or optional(bool), and this is dyn
              | ${loose.status.ready}
              |   ^^^^^^^^^^^^^^^^^^
              hint: nothing is known of it: compare it, `… == true`
            spec.resources[2].template.metadata.name: there is no `zone`
              | ${zone}
              |   ^^^^
        "#]],
    );
}

#[test]
fn collections_go_through_lists_and_tell_their_objects_apart() {
    check(
        &with_resources(
            "
- id: same
  forEach: [{zone: '${schema.spec.zones}'}, {size: '${schema.spec.sizes}'}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${zone}'}}
- id: spaces
  forEach: [{zone: '${schema.spec.zones}'}, {size: '${schema.spec.sizes}'}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${zone}', namespace: 'n-${string(size)}'}}
- id: text
  forEach: [{zone: '${schema.spec.name}'}, {other: '${zone}'}, {third: '${schema.spec.options.list}'}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${zone}'}}
- id: eleven
  forEach: [{a: '${[1]}'}, {b: '${[1]}'}, {c: '${[1]}'}, {d: '${[1]}'}, {e: '${[1]}'}, {f: '${[1]}'}, {g: '${[1]}'}, {h: '${[1]}'}, {i: '${[1]}'}, {j: '${[1]}'}, {k: '${[1]}'}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
",
        ),
        expect![[r#"
            spec.resources[0].forEach: all forEach dimensions must be used to produce a unique resource identity, missing: size
              hint: use them in metadata.name
            spec.resources[2].forEach[0].zone: a list is expected here, and this is string
              | ${schema.spec.name}
              |   ^^^^^^^^^^^^^^^^
            spec.resources[2].forEach[1].other: a dimension cannot be made of another, `zone`: they are independent
              | ${zone}
              |   ^^^^
            spec.resources[2].forEach[2].third: a list is expected here, and this is dyn
              | ${schema.spec.options.list}
              |   ^^^^^^^^^^^^^^^^^^^^^^^^
            spec.resources[3].forEach: all forEach dimensions must be used to produce a unique resource identity, missing: a, b, c, d, e, f, g, h, i, j, k
              hint: use them in metadata.name
            spec.resources[3].forEach: there are 11 dimensions, and 10 at most may be
        "#]],
    );
}

#[test]
fn what_depends_on_itself_is_named() {
    let config = |id: &str, on: &str| {
        format!(
            "- {{id: {id}, template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: '{on}'}}}}}}\n"
        )
    };
    let text = config("free", "a")
        + &config("a", "${b.metadata.name}")
        + &config("b", "${c.metadata.name}")
        + &config("c", "${a.metadata.name}${free.metadata.name}")
        + &config("after", "${c.metadata.name}");
    check(
        &with_resources(&text),
        expect![[r#"
        spec.resources: graph contains a cycle: a -> b -> c -> a
    "#]],
    );
}

#[test]
fn gates_use_known_names_and_do_not_wait_for_each_other() {
    check(
        "
schema: {kind: App, apiVersion: v1}
propagateWhen: ['linearlyReady(app, apps, 1)', '${exponentiallyReady(instance, instances)}', 'a.ready()', '${a} ${b}', 'a +']
orderBy: instance.metadata.name
resources:
- id: a
  propagateWhen: ['b.ready()', \"time.now() > timestamp('2026-01-01T00:00:00Z') && window('x')\"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- id: b
  propagateWhen: ['${a.updated()}', 'zone == 1']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
- id: c
  forEach: [{zone: \"${['x']}\"}]
  propagateWhen: ['linearlyReady(zone, c, 1)', 'each']
  orderBy: zne
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${zone}'}}
",
        expect![[r#"
            spec.propagateWhen[2]: there is no `a`
              | a.ready()
              | ^
            spec.propagateWhen[3]: only standalone expressions are allowed
            spec.propagateWhen[4]: Syntax error: unexpected end of the expression, expecting an expression
              | a +
              |    ^
            spec.resources[0].propagateWhen: gates wait for each other: a -> b -> a
            spec.resources[0].propagateWhen[1]: there is no window 'x': none is declared
              | time.now() > timestamp('2026-01-01T00:00:00Z') && window('x')
              |                                                          ^^^
            spec.resources[1].propagateWhen[1]: there is no `zone`
              | zone == 1
              | ^^^^
            spec.resources[2].orderBy: there is no `zne`
              | zne
              | ^^^
              hint: did you mean `zone`?
            spec.resources[2].propagateWhen[1]: `each` cannot be used in a gate
              | each
              | ^^^^
        "#]],
    );
}

#[test]
fn gates_have_types() {
    check(
        "
schema: {kind: App, apiVersion: v1, spec: {size: integer}}
resources:
- id: web
  propagateWhen: ['web.spec.replicas > schema.spec.size', 'web.data.a == web', 'time.now() > 3']
  template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}
- id: rooms
  forEach: [{room: \"${['x', 'y']}\"}]
  propagateWhen: ['exponentiallyReady(room, rooms)', 'room.data.size()', 'exponentiallyReady(web, rooms)', 'web.ready() && !others.exists(one, !one.updated())']
  orderBy: room
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${room}'}}
- id: others
  propagateWhen: ['web.ready()']
  orderBy: others.metadata.name
  externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: {matchLabels: {a: b}}}}
- id: open
  propagateWhen: []
  externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
",
        expect![[r#"
            spec.resources[0].propagateWhen[1]: undefined field 'data'
              | web.data.a == web
              |    ^^^^^
            spec.resources[0].propagateWhen[2]: found no matching overload for '_>_' applied to '(google.protobuf.Timestamp, int)'
              | time.now() > 3
              | ^^^^^^^^^^^^^^
              hint: expected (int, int) -> bool, or (uint, int) -> bool, or (double, int) -> bool, or (google.protobuf.Timestamp, google.protobuf.Timestamp) -> bool, or (bool, bool) -> bool, or 9 more
            spec.resources[1].orderBy: orderBy must be a number, string, boolean or timestamp, and is of type 'v1.ConfigMap'
              | room
              | ^^^^
            spec.resources[1].propagateWhen[1]: a gate is true or false: expected type 'bool' but found 'int'
              | room.data.size()
              | ^^^^^^^^^^^^^^^^
            spec.resources[1].propagateWhen[2]: found no matching overload for 'exponentiallyReady' applied to '(apps/v1.Deployment, list(v1.ConfigMap))'
              | exponentiallyReady(web, rooms)
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              hint: expected (apps/v1.Deployment, list(apps/v1.Deployment)) -> bool, or (v1.ConfigMap, list(v1.ConfigMap)) -> bool, or (apps/v1.Deployment, list(apps/v1.Deployment), int) -> bool, or (v1.ConfigMap, list(v1.ConfigMap), int) -> bool
            spec.resources[2].orderBy: objects of others are not changed: nothing holds them back
            spec.resources[2].propagateWhen: objects of others are not changed: nothing holds them back
        "#]],
    );
}

#[test]
fn gates_of_instances_have_types() {
    check(
        "
schema: {kind: App, apiVersion: v1, spec: {size: integer}, status: {port: '${web.spec.replicas}'}}
propagateWhen: ['app.spec.size', 'app.spec.sise > 1', \"app.status.port == 'a'\", 'instances.all(one, one.ready())', 'linearlyReady(app, apps, 0)']
orderBy: instance.spec
resources:
- id: web
  template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}
",
        expect![[r#"
            spec.orderBy: orderBy must be a number, string, boolean or timestamp, and is of type 'App.spec'
              | instance.spec
              | ^^^^^^^^^^^^^
            spec.propagateWhen[0]: a gate is true or false: expected type 'bool' but found 'int'
              | app.spec.size
              | ^^^^^^^^^^^^^
            spec.propagateWhen[1]: undefined field 'sise'
              | app.spec.sise > 1
              |         ^^^^^
            spec.propagateWhen[2]: found no matching overload for '_==_' applied to '(int, string)'
              | app.status.port == 'a'
              | ^^^^^^^^^^^^^^^^^^^^^^
              hint: expected (A, A) -> bool
            spec.propagateWhen[4]: n must be 1 or more
              | linearlyReady(app, apps, 0)
              |                          ^
        "#]],
    );
}

#[test]
fn a_gate_does_not_wait_for_what_waits_for_it() {
    check(
        "
schema: {kind: App, apiVersion: v1}
resources:
- id: a
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${b.metadata.name}'}}
- id: b
  propagateWhen: ['${c.ready()}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
- id: c
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${a.metadata.name}'}}
",
        expect![[r#"
            spec.resources[1].propagateWhen: the gate waits for what waits for it: b -> c -> a -> b
        "#]],
    );
}

#[test]
fn metadata_keeps_to_its_scope() {
    check(
        "
schema: {kind: App, apiVersion: v1, scope: Cluster}
resources:
- {id: space, template: {apiVersion: v1, kind: Namespace, metadata: {name: a, namespace: b}}}
- {id: config, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.metadata.namespace}'}}}
- {id: empty, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ' '}}}
- {id: omitted, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${omit()}', namespace: '${true ? omit() : \"a\"}'}}}
- {id: labels, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: a, labels: {kro.run/a: b}, annotations: {internal.kro.run/a: b}}}}
- {id: one, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}
- {id: all, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: {}}}}
- {id: crd, template: {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: '${space.metadata.name}'}, spec: {group: '${space.metadata.name}'}}}
",
        expect![[r#"
            spec.resources[0].template.metadata.namespace: Namespace is cluster-scoped and must not set metadata.namespace
            spec.resources[1].template.metadata.name: undefined field 'namespace'
              | ${schema.metadata.namespace}
              |                  ^^^^^^^^^^
            spec.resources[1].template.metadata.namespace: ConfigMap is namespaced and must set metadata.namespace when the instance is cluster-scoped
            spec.resources[2].template.metadata.namespace: ConfigMap is namespaced and must set metadata.namespace when the instance is cluster-scoped
            spec.resources[3].template.metadata.name: omit() cannot be used here: the field must have a value
              | ${omit()}
              |   ^^^^^^
            spec.resources[3].template.metadata.namespace: omit() cannot be used here: the field must have a value
              | ${true ? omit() : "a"}
              |          ^^^^^^
            spec.resources[4].template.metadata.annotations[internal.kro.run/a]: annotations with prefix "internal.kro.run/" are reserved for internal use
            spec.resources[4].template.metadata.labels[kro.run/a]: labels with prefix "kro.run/" are reserved for internal use
            spec.resources[5].externalRef.metadata.namespace: ConfigMap is namespaced and must set metadata.namespace when the instance is cluster-scoped
            spec.resources[7].template.spec.group: expressions in CustomResourceDefinitions are only supported in their metadata
        "#]],
    );
}

#[test]
fn kinds_are_written_out_and_served() {
    check(
        &with_resources(
            "
- {id: a, template: {apiVersion: '${schema.apiVersion}', kind: ConfigMap, metadata: {name: a}}}
- {id: b, template: {kind: 1, metadata: a}}
- {id: c, includeWhen: ['${b.x}'], forEach: [{x: '${a.x}'}], template: {apiVersion: v1, kind: Unknown, metadata: {name: '${b.x}${x}'}}}
- {id: d, externalRef: {apiVersion: v1, kind: Flaky, metadata: {name: '${b.y.z}'}}}
- {id: e, template: {apiVersion: a/b/c, kind: ConfigMap, metadata: {name: '${d.y.z + 1}'}}}
",
        ),
        expect![[r#"
            spec.resources[0].template.apiVersion: it must be written out, not computed
            spec.resources[1].template.apiVersion: it is required
            spec.resources[1].template.kind: expected string, got integer
            spec.resources[1].template.metadata: expected object, got string
            spec.resources[2].template.kind: there is no kind v1 Unknown
            spec.resources[3].externalRef.kind: the kind v1 Flaky cannot be looked up: the server is away
            spec.resources[4].template.apiVersion: "a/b/c" is not valid
        "#]],
    );
}

#[test]
fn references_are_checked_like_templates() {
    check(
        &with_resources(
            "
- {id: a, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.spec.replicas}'}}}
- {id: b, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: text}}}
- {id: c, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: {matchLabel: {a: b}}}}}
- {id: d, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: {matchLabels: {a: 1, b: '${schema.spec.replicas}'}}}}}
- {id: e, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: {matchExpressions: [{key: a, operator: Near}]}}}}
- {id: f, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: '${schema.spec.zones}'}}}
- {id: g, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: [a]}}}
",
        ),
        expect![[r#"
            spec.resources[0].externalRef.metadata.name: type mismatch: string is expected here, and this is int
              | ${schema.spec.replicas}
              |   ^^^^^^^^^^^^^^^^^^^^
              hint: write string(…) around it
            spec.resources[1].externalRef.metadata.selector: expected object type for path metadata.selector, got string
            spec.resources[2].externalRef.metadata.selector.matchLabel: there is no such field: schema not found for field matchLabel
              hint: did you mean `matchLabels`?
            spec.resources[3].externalRef.metadata.selector.matchLabels.a: expected string type for path metadata.selector.matchLabels.a, got integer
            spec.resources[3].externalRef.metadata.selector.matchLabels.b: type mismatch: string is expected here, and this is int
              | ${schema.spec.replicas}
              |   ^^^^^^^^^^^^^^^^^^^^
              hint: write string(…) around it
            spec.resources[4].externalRef.metadata.selector: invalid label selector
              hint: it has matchLabels, and matchExpressions with a key, an operator and values
            spec.resources[5].externalRef.metadata.selector: type mismatch: map(string, dyn) is expected here, and this is list(string)
              | ${schema.spec.zones}
              |   ^^^^^^^^^^^^^^^^^
            spec.resources[6].externalRef.metadata.selector: expected object type for path metadata.selector, got array
        "#]],
    );
}

#[test]
fn status_fields_are_expressions_about_something() {
    check(
        "
schema:
  kind: App
  apiVersion: v1
  spec: {name: number, list: [string]}
  status:
    plain: text
    number: 1
    nothing: null
    constant: ${1 + 1}
    conditions: ['${runtime.newCondition({type: \"A\", status: \"True\"})}']
    omitted: \"${schema.metadata.name == '' ? omit() : 'a'}\"
    list: ['${schema.metadata.name}', b]
    unknown: ${web.status}
",
        expect![[r#"
            spec.schema.spec.list: must be a type or a map of fields, not a list
            spec.schema.spec.name: unknown type: number
              hint: use float
            spec.schema.status.constant: a status field must refer to a resource or to `schema`
              | ${1 + 1}
              |   ^^^^^
            spec.schema.status.list[1]: status fields without expressions are not supported
              hint: write it as `${…}`
            spec.schema.status.nothing: status fields without expressions are not supported
              hint: write it as `${…}`
            spec.schema.status.number: status fields without expressions are not supported
              hint: write it as `${…}`
            spec.schema.status.omitted: omit() can only be used in resource template expressions
              | ${schema.metadata.name == '' ? omit() : 'a'}
              |                                ^^^^^^
            spec.schema.status.plain: status fields without expressions are not supported
              hint: write it as `${…}`
            spec.schema.status.unknown: there is no `web`
              | ${web.status}
              |   ^^^
        "#]],
    );
    check(
        "{schema: {kind: App, apiVersion: v1, spec: text, status: []}}",
        expect![[r#"
            spec.schema.spec: must be a map, not a text
            spec.schema.status: expected object, got array
        "#]],
    );
}

#[test]
fn conditions_of_an_author_are_expressions_that_make_them() {
    let check_conditions = |conditions: &str, expected: Expect| {
        let schema = "schema:\n  kind: App\n  apiVersion: v1\n  spec: {name: string}\n";
        check(
            &format!("{schema}  status:\n    conditions: {conditions}\n"),
            expected,
        );
    };
    check_conditions(
        "text",
        expect![[r#"
        spec.schema.status.conditions: expected array, got string
    "#]],
    );
    check_conditions(
        "
    - 1
    - text
    - ${schema.spec.name}
    - ${schema.status.state}
    - ${app.status.ready}
    - \"${runtime.newCondition({type: 'A', status: 'True'})}\"
    - \"${runtime.newCondition({type: 'A', status: 'False'})}\"
    - \"${runtime.newCondition({type: 'B', status: 'Yes'})}\"
    - \"${runtime.newCondition({'type': 'C', status: 'True'})}\"
    - \"${runtime.newCondition({type: 'D', status: runtime.condition(schema, 'A').status})}\"
    - \"${[runtime.newCondition({type: 'E', status: 'True'})]}\"",
        expect![[r#"
            spec.schema.status.conditions[0]: expected an expression, got integer
            spec.schema.status.conditions[1]: only standalone expressions are allowed
              hint: write all of it as one `${…}`
            spec.schema.status.conditions[2]: a condition is runtime.newCondition(...) or a list of them, and this is string
              | ${schema.spec.name}
              |   ^^^^^^^^^^^^^^^^
            spec.schema.status.conditions[3]: undefined field 'status'
              | ${schema.status.state}
              |         ^^^^^^^
            spec.schema.status.conditions[4]: there is no `app`
              | ${app.status.ready}
              |   ^^^
            spec.schema.status.conditions[6]: condition type "A" is declared by more than one entry
              | ${runtime.newCondition({type: 'A', status: 'False'})}
              |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            spec.schema.status.conditions[7]: status must be True, False or Unknown
              | ${runtime.newCondition({type: 'B', status: 'Yes'})}
              |                                            ^^^^^
            spec.schema.status.conditions[8]: a condition has the fields type, status, reason and message
              | ${runtime.newCondition({'type': 'C', status: 'True'})}
              |                         ^^^^^^
            spec.schema.status.conditions[9]: of schema, only the conditions InstanceManaged, GraphResolved, ResourcesReady and Ready can be read
              | .newCondition({type: 'D', status: runtime.condition(schema, 'A').status})}
              |                                                             ^^^
        "#]],
    );
}

#[test]
fn expressions_without_an_end_are_refused() {
    check(
        &config(
            "metadata: {name: a}\ndata: {a: '${schema.metadata.name', b: 'x ${schema.metadata.name} ${'}",
        ),
        expect![[r#"
            spec.resources[0].template.data.a: the expression has no end: a `}` is missing
              | ${schema.metadata.name
              | ^^
            spec.resources[0].template.data.b: the expression has no end: a `}` is missing
              | x ${schema.metadata.name} ${
              |                           ^^
        "#]],
    );
}
