//! Lines as people type them, and what is said.

use clap::Parser;
use expect_test::{Expect, ExpectFile, expect, expect_file};

use super::{Graph, GraphError};
use crate::said::Said;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    graph: Graph,
}

/// `@x` is an example, `:x` a file of these tests.
fn run(line: &str) -> Result<Said, GraphError> {
    let word = |word: &str| {
        let word = word.replace('@', "../../examples/graphs/");
        match word.strip_prefix(':') {
            Some(file) => format!("src/graph/tests/{file}"),
            None => word,
        }
    };
    let words = line.split_whitespace().map(word);
    let line = Line::try_parse_from(std::iter::once("graph".to_owned()).chain(words));
    line.unwrap_or_else(|error| panic!("{error}")).graph.run()
}

fn said(line: &str) -> String {
    match run(line) {
        Ok(said) => {
            let code = if said.good { "" } else { "[1]\n" };
            format!("{}{}{code}", said.out, said.err)
        }
        Err(error) => format!("error: {error}\nhint: {}\n", error.hint()),
    }
}

fn check(line: &str, expected: Expect) {
    expected.assert_eq(&unversioned(&said(line)));
}

/// The data alone, for what is long.
fn check_file(line: &str, expected: ExpectFile) {
    let said = run(line).unwrap_or_else(|error| panic!("{error}"));
    assert!(said.good, "{}", said.err);
    expected.assert_eq(&unversioned(&said.out));
}

/// So that a release changes nothing here.
fn unversioned(text: &str) -> String {
    text.replace(concat!('"', env!("CARGO_PKG_VERSION"), '"'), "\"VERSION\"")
}

const WEBAPP: &str = "-f @webapp.yaml -f @webapp-instance.yaml";
const TENANTS: &str = "-f @tenants.yaml -f @tenants-instance.yaml";
const SERVICE: &str = "-f :service.yaml -f :service-instance.yaml --crds :database.yaml";

#[test]
fn examples_are_valid() {
    check(
        "validate -f @",
        expect![[r#"
            ok shop: kind Shop, 2 resources, order web → service
            ok tenants: kind Tenants, 2 resources, order namespaces → settings
            ok webapp: kind WebApp, 3 resources, order config → deployment → service
            ok a: instance of Shop
            ok b: instance of Shop
            ok c: instance of Shop
            ok all: instance of Tenants
            ok shop: instance of WebApp
            ../../examples/graphs/shop-instances.yaml#1: not looked at: v1 Namespace is no definition
        "#]],
    );
}

#[test]
fn all_problems_are_said() {
    check(
        "validate -f :problems.yaml",
        expect![[r#"
        ok inner: kind Inner, 1 resource, config
        src/graph/tests/problems.yaml#5: not looked at: v1 Pod is no definition
        src/graph/tests/problems.yaml#2: spec.resources[0].template.spec.sise: there is no such field: schema not found for field sise
          hint: did you mean `size`?
        src/graph/tests/problems.yaml#2: spec.resources[1].template.kind: there is no kind apps/v1beta1 Deployment
          hint: there is Deployment of apps/v1
        src/graph/tests/problems.yaml#2: spec.resources[1].template.metadata.name: undefined field 'uri'
          | ${inner.status.uri}
          |               ^^^^
        src/graph/tests/problems.yaml#2: spec.resources[2].template.kind: there is no kind db.example.com/v1 Database
          hint: give its CustomResourceDefinition with --crds
        src/graph/tests/problems.yaml#3: it is not YAML: line 24: unclosed bracket '['
        src/graph/tests/problems.yaml#4: it is not an object
        6 problems in 3 documents
        [1]
    "#]],
    );
    let problems = run("validate -f :problems.yaml --crds :database.yaml -o json");
    let said = problems.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((said.good, said.err.as_str()), (false, ""));
    expect_file!["tests/problems.json"].assert_eq(&said.out);
}

#[test]
fn kinds_that_need_each_other_are_refused() {
    check(
        "validate -f :each-other.yaml",
        expect![[r#"
            src/graph/tests/each-other.yaml#1: spec.resources[0].template.kind: the kind kro.run/v1alpha1 Egg cannot be looked up: egg uses kinds that need each other
            src/graph/tests/each-other.yaml#2: spec.resources[0].template.kind: the kind kro.run/v1alpha1 Chicken cannot be looked up: chicken has problems
            src/graph/tests/each-other.yaml#3: spec.schema.kind: kro.run/v1alpha1 Egg is defined in src/graph/tests/each-other.yaml#2 too
            3 problems in 3 documents
            [1]
        "#]],
    );
}

#[test]
fn documents_that_expand_are_refused() {
    check(
        "validate -f :bomb.yaml",
        expect![[r#"
        src/graph/tests/bomb.yaml: it is not YAML: line 1: it has more values or aliases than can be read
        1 problem in 1 document
        [1]
    "#]],
    );
}

#[test]
fn nothing_that_was_read_moves_the_cursor() {
    check(
        "validate -f :escapes.yaml -f @webapp.yaml",
        expect![[r#"
        ok webapp: kind WebApp, 3 resources, order config → deployment → service
        src/graph/tests/escapes.yaml: not looked at: v1 �[31mred is no definition
    "#]],
    );
}

#[test]
fn kinds_come_from_definitions_too() {
    check(
        "validate -f :service.yaml --crds :database.yaml",
        expect![[r#"
            ok service: kind Backend, 3 resources, order db → config → shards
        "#]],
    );
    check(
        "validate -f :service.yaml",
        expect![[r#"
        src/graph/tests/service.yaml: spec.resources[0].template.kind: there is no kind db.example.com/v1 Database
          hint: give its CustomResourceDefinition with --crds
        1 problem in 1 document
        [1]
    "#]],
    );
}

#[test]
fn what_is_missing_is_an_error() {
    check(
        "validate -f :nothing.yaml",
        expect![[r#"
        error: failed to read src/graph/tests/nothing.yaml
        hint: check that the file is there and can be read
    "#]],
    );
    check(
        "validate -f :database.yaml",
        expect![[r#"
        error: there is no ResourceGraphDefinition in what was given
        hint: give one with -f: apiVersion kro.run/v1alpha1, kind ResourceGraphDefinition
    "#]],
    );
    check(
        "plan -f @webapp.yaml",
        expect![[r#"
        error: there is no instance in what was given
        hint: give an object of kro.run/v1alpha1 WebApp with -f
    "#]],
    );
    check(
        "tree -f @webapp.yaml --assume-applied",
        expect![[r#"
        error: there is no instance in what was given
        hint: give an object of kro.run/v1alpha1 WebApp with -f
    "#]],
    );
}

#[test]
fn the_kind_is_printed() {
    check_file("crd -f @webapp.yaml", expect_file!["tests/webapp.crd.yaml"]);
    check(
        "crd -f :problems.yaml",
        expect![[r#"
        src/graph/tests/problems.yaml#2: spec.resources[0].template.spec.sise: there is no such field: schema not found for field sise
          hint: did you mean `size`?
        src/graph/tests/problems.yaml#2: spec.resources[1].template.kind: there is no kind apps/v1beta1 Deployment
          hint: there is Deployment of apps/v1
        src/graph/tests/problems.yaml#2: spec.resources[1].template.metadata.name: undefined field 'uri'
          | ${inner.status.uri}
          |               ^^^^
        src/graph/tests/problems.yaml#2: spec.resources[2].template.kind: there is no kind db.example.com/v1 Database
          hint: give its CustomResourceDefinition with --crds
        src/graph/tests/problems.yaml#3: it is not YAML: line 24: unclosed bracket '['
        src/graph/tests/problems.yaml#4: it is not an object
        6 problems in 3 documents
        [1]
    "#]],
    );
}

#[test]
fn what_can_be_applied_now() {
    check(
        &format!("plan {WEBAPP}"),
        expect![[r#"
        WebApp prod/shop

        RESOURCE     STATE     OBJECT                       WHY
        config       apply     ConfigMap prod/shop-config   it is not there
        deployment   blocked                                by config: it is applied first
        service      blocked                                by deployment: config is applied first

        Status:
          address waits for service
          availableReplicas waits for deployment

        To apply now: 1.
    "#]],
    );
    check(
        &format!("plan {TENANTS}"),
        expect![[r#"
            Tenants all

            RESOURCE     STATE     OBJECT                     WHY
            namespaces   apply     Namespace tenant-acme      it is not there
                                   Namespace tenant-initech   it is not there
            settings     blocked                              by namespaces: it is applied first

            Status:
              namespaces: []

            To apply now: 2.
        "#]],
    );
    check_file(
        &format!("plan {TENANTS} --assume-applied -o yaml"),
        expect_file!["tests/tenants.applied.yaml"],
    );
}

#[test]
fn played_forward_until_something_waits() {
    check(
        &format!("plan {WEBAPP} --assume-applied"),
        expect![[r#"
        WebApp prod/shop

        Taken to be applied, pass 1:
          apply ConfigMap prod/shop-config of config (it is not there)

        Taken to be applied, pass 2:
          apply Deployment prod/shop of deployment (it is not there)

        Then:
        RESOURCE     STATE       OBJECT                 WHY
        config       ready
        deployment   not ready   Deployment prod/shop   waits for deployment.status.availableReplicas
        service      blocked                            by deployment: it is not ready: waits for deployment.status.availableReplicas

        deployment is not ready: waits for deployment.status.availableReplicas
          | ${deployment.status.availableReplicas == deployment.spec.replicas}
          at spec.resources[1].readyWhen[0]

        Status:
          address waits for service
          availableReplicas waits for deployment.status.availableReplicas

        Nothing can be applied now; not ready: 2.
    "#]],
    );
    let ready = "--assume-applied --set deployment.status.availableReplicas=2";
    check(
        &format!("plan {WEBAPP} {ready}"),
        expect![[r#"
        WebApp prod/shop

        Taken to be applied, pass 1:
          apply ConfigMap prod/shop-config of config (it is not there)

        Taken to be applied, pass 2:
          apply Deployment prod/shop of deployment (it is not there)

        Taken to be applied, pass 3:
          apply Service prod/shop of service (it is not there)

        Then:
        RESOURCE     STATE   OBJECT   WHY
        config       ready
        deployment   ready
        service      ready

        Status:
          address: shop.prod.svc
          availableReplicas: 2

        Everything is there and ready.
    "#]],
    );
    let fewer = "--assume-applied --set deployment.status.availableReplicas=1";
    check(
        &format!("plan {WEBAPP} {fewer}"),
        expect![[r#"
        WebApp prod/shop

        Taken to be applied, pass 1:
          apply ConfigMap prod/shop-config of config (it is not there)

        Taken to be applied, pass 2:
          apply Deployment prod/shop of deployment (it is not there)

        Then:
        RESOURCE     STATE       OBJECT                 WHY
        config       ready
        deployment   not ready   Deployment prod/shop   a condition does not hold
        service      blocked                            by deployment: it is not ready: a condition does not hold

        deployment is not ready: a condition does not hold
          | ${deployment.status.availableReplicas == deployment.spec.replicas}
          at spec.resources[1].readyWhen

        Status:
          availableReplicas: 1
          address waits for service

        Nothing can be applied now; not ready: 2.
    "#]],
    );
}

#[test]
fn defaults_are_those_of_the_api() {
    let endpoint = "--set db.status.endpoint=10.0.0.1";
    check(
        &format!("plan {SERVICE} --assume-applied {endpoint}"),
        expect![[r#"
            Backend default/api

            Taken to be applied, pass 1:
              apply Database default/api of db (it is not there)
              apply ConfigMap default/shard-b of shards (it is not there)
              apply ConfigMap default/shard-a of shards (it is not there)

            Taken to be applied, pass 2:
              apply ConfigMap default/config of config (it is not there)

            Then:
            RESOURCE   STATE   OBJECT   WHY
            db         ready
            config     ready
            shards     ready

            Status:
              size: 3
              url: https://10.0.0.1/

            Everything is there and ready.
        "#]],
    );
}

#[test]
fn one_of_a_collection_is_changed() {
    let set = "--set namespaces[1].status.phase=Terminating";
    check(
        &format!("plan {TENANTS} --assume-applied {set}"),
        expect![[r#"
            Tenants all

            Taken to be applied, pass 1:
              apply Namespace tenant-acme of namespaces (it is not there)
              apply Namespace tenant-initech of namespaces (it is not there)

            Then:
            RESOURCE     STATE       OBJECT                     WHY
            namespaces   not ready   Namespace tenant-initech   a condition does not hold
            settings     blocked                                by namespaces: it is not ready: a condition does not hold

            namespaces is not ready: a condition does not hold
              | ${each.status.phase == "Active"}
              at spec.resources[0].readyWhen

            Status:
              namespaces:
              - tenant-acme
              - tenant-initech

            Nothing can be applied now; not ready: 2.
        "#]],
    );
}

#[test]
fn what_is_there_is_compared() {
    check(
        &format!("plan {WEBAPP} --observed :there.yaml"),
        expect![[r#"
            WebApp prod/shop

            RESOURCE     STATE     OBJECT                       WHY
            config       apply     ConfigMap prod/shop-config   its content changes
            deployment   blocked                                by config: it is applied first
            service      blocked                                by deployment: config is applied first

            Status:
              address waits for service
              availableReplicas waits for deployment

            To apply now: 1.
        "#]],
    );
    check(
        &format!("plan {WEBAPP} --observed :there.yaml --assume-applied"),
        expect![[r#"
            WebApp prod/shop

            Taken to be applied, pass 1:
              apply ConfigMap prod/shop-config of config (its content changes)

            Then:
            RESOURCE     STATE     OBJECT                 WHY
            config       ready
            deployment   taken     Deployment prod/shop   it belongs to web of the instance other
            service      blocked                          by deployment: it is taken: it belongs to web of the instance other

            Status:
              address waits for service
              availableReplicas waits for deployment

            Nothing can be applied now; not ready: 2.
            [1]
        "#]],
    );
    let less = "--set schema.spec.service.enabled=false --set config.data.GREETING=bye";
    check_file(
        &format!("plan {WEBAPP} --observed :there.yaml {less} -o json"),
        expect_file!["tests/webapp.plan.json"],
    );
}

#[test]
fn what_was_printed_can_be_read_again() {
    let there = "--observed :tenants.applied.yaml --set namespaces.status.phase=Active";
    check(
        &format!("plan {TENANTS} {there}"),
        expect![[r#"
            Tenants all

            RESOURCE     STATE   OBJECT   WHY
            namespaces   ready
            settings     ready

            Status:
              namespaces:
              - tenant-acme
              - tenant-initech

            Everything is there and ready.
        "#]],
    );
    let fewer = "--set schema.spec.tenants=[{\"name\":\"acme\",\"plan\":\"paid\"}]";
    check(
        &format!("plan {TENANTS} {there} {fewer} --assume-applied"),
        expect![[r#"
            Tenants all

            Taken to be applied, pass 1:
              delete ConfigMap tenant-initech/settings of settings

            Taken to be applied, pass 2:
              delete Namespace tenant-initech of namespaces

            Then:
            RESOURCE     STATE   OBJECT   WHY
            namespaces   ready
            settings     ready

            Status:
              namespaces:
              - tenant-acme

            Everything is there and ready.
        "#]],
    );
}

#[test]
fn objects_of_others_are_found_by_name_and_labels() {
    let dense = "plan -f :dense.yaml -f :dense-instance.yaml";
    check(
        &format!("{dense} --assume-applied"),
        expect![[r#"
        Dense default/x

        Taken to be applied, pass 1:
          apply ConfigMap default/a of a (it is not there)

        Taken to be applied, pass 2:
          apply ConfigMap default/b of b (it is not there)
          apply Secret default/d of d (it is not there)

        Taken to be applied, pass 3:
          apply ConfigMap default/c of c (it is not there)

        Then:
        RESOURCE   STATE     OBJECT             WHY
        a          ready
        b          ready
        c          ready
        d          ready
        e          missing   Secret default/x   others have to make it
        f          blocked                      by e: it is missing: others have to make it
        g          ready

        Nothing can be applied now; not ready: 2.
    "#]],
    );
    check(
        &format!("{dense} --assume-applied --set e.data.x=aGk="),
        expect![[r#"
            Dense default/x

            Taken to be applied, pass 1:
              apply ConfigMap default/a of a (it is not there)

            Taken to be applied, pass 2:
              apply ConfigMap default/b of b (it is not there)
              apply Secret default/d of d (it is not there)

            Taken to be applied, pass 3:
              apply ConfigMap default/c of c (it is not there)

            Taken to be applied, pass 4:
              apply ConfigMap default/f of f (it is not there)

            Then:
            RESOURCE   STATE   OBJECT   WHY
            a          ready
            b          ready
            c          ready
            d          ready
            e          ready
            f          ready
            g          ready

            Everything is there and ready.
        "#]],
    );
}

#[test]
fn instances_are_checked_first() {
    let set = "--set schema.spec.replicas=0 --set schema.spec.colour=red";
    check(
        &format!("plan {WEBAPP} {set}"),
        expect![[r#"
        ../../examples/graphs/webapp-instance.yaml: spec.colour: there is no such field
        ../../examples/graphs/webapp-instance.yaml: spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1
        2 problems in 1 document
        [1]
    "#]],
    );
}

#[test]
fn changes_that_change_nothing_are_said() {
    check(
        &format!("plan {WEBAPP} --set service.status.x=1"),
        expect![[r#"
            WebApp prod/shop

            RESOURCE     STATE     OBJECT                       WHY
            config       apply     ConfigMap prod/shop-config   it is not there
            deployment   blocked                                by config: it is applied first
            service      blocked                                by deployment: config is applied first

            Status:
              address waits for service
              availableReplicas waits for deployment

            To apply now: 1.
            note: --set service.status.x=1 changed nothing: there is no such object of service yet
            hint: --assume-applied takes what would be applied to be there
        "#]],
    );
    for wrong in [
        "deploy.x=1",
        "deployment=1",
        "deployment.x",
        "deployment.a[b]=1",
        "config.data.GREETING.x=1",
    ] {
        let said = said(&format!("plan {WEBAPP} --assume-applied --set {wrong}"));
        assert!(said.starts_with("error: --set"), "{wrong}: {said}");
    }
}

#[test]
fn graphs_are_drawn() {
    check(
        "tree -f @webapp.yaml -f @tenants.yaml",
        expect![[r#"
            webapp: WebApp (kro.run/v1alpha1)
            └─ config: v1 ConfigMap
               └─ deployment: apps/v1 Deployment
                  │  ready when deployment.status.availableReplicas == deployment.spec.replicas
                  └─ service: v1 Service
                        included when schema.spec.service.enabled
            status.address: reads service
            status.availableReplicas: reads deployment

            tenants: Tenants (kro.run/v1alpha1)
            └─ namespaces: v1 Namespace
               │  for each tenant in schema.spec.tenants
               │  ready when each.status.phase == "Active"
               └─ settings: v1 ConfigMap
                     for each space in namespaces
            status.namespaces: reads namespaces
        "#]],
    );
    check(
        "tree -f :dense.yaml -f :dense-instance.yaml",
        expect![[r#"
        dense: Dense default/x (kro.run/v1alpha1)
        ├─ a: v1 ConfigMap  [apply]
        │  ├─ b: v1 ConfigMap  [blocked: by a: it is applied first]
        │  │  └─ c: v1 ConfigMap, reads a too  [blocked: by a, b: a is applied first]
        │  └─ d: v1 Secret  [blocked: by a: it is applied first]
        │        propagates when time.now() > timestamp('2026-01-01T00:00:00Z')
        ├─ e: v1 Secret  [missing: others have to make it]
        │  │  made by others
        │  └─ f: v1 ConfigMap, reads a, c, d too  [blocked: by a, c, d, e: a is applied first]
        └─ g: v1 Secret  [ready]
              made by others, selected by labels
    "#]],
    );
    check(
        "tree -f :service.yaml --crds :database.yaml -o mermaid",
        expect![[r#"
            flowchart LR
              subgraph g0["service: Backend (kro.run/v1alpha1)"]
                g0n0["db<br/>db.example.com/v1 Database"]
                g0n1["config<br/>v1 ConfigMap<br/>propagates when db.status.endpoint != ''"]
                g0n2["shards<br/>v1 ConfigMap<br/>for each tag in schema.spec.tags<br/>in the order of tag.metadata.name"]
                g0n0 --> g0n1
              end
        "#]],
    );
    check_file(
        &format!("tree {WEBAPP} -o svg"),
        expect_file!["tests/webapp.svg"],
    );
    check_file(
        "tree -f :dense.yaml -o svg",
        expect_file!["tests/dense.svg"],
    );
}

#[test]
fn definitions_are_compared() {
    check(
        "diff -f @webapp.yaml -f @webapp.yaml",
        expect![[r#"
        from webapp (kro.run/v1alpha1 WebApp, version 07f55fde99)
        to   webapp (kro.run/v1alpha1 WebApp, version 07f55fde99)

        Nothing is different.
    "#]],
    );
    check(
        "diff -f @webapp.yaml -f @changed/webapp.yaml --fail-on-breaking",
        expect![[r#"
            from webapp (kro.run/v1alpha1 WebApp, version 07f55fde99)
            to   webapp (kro.run/v1alpha1 WebApp, version 3f1536bb28)

            Kind:
              spec.color is added
              spec.greeting: default "hello" is removed
            ! spec.replicas: maximum is 10, was 100 (breaking)

            Resources:
            ~ config: v1 ConfigMap: other objects are made, and the old ones deleted
                template.metadata.name: ${schema.metadata.name}-config → ${schema.metadata.name}-settings
            ~ deployment: apps/v1 Deployment
                template.spec.template.spec.containers[web].image: ${schema.spec.image} → ${schema.spec.image}:latest
            ~ service: v1 Service
                template.spec.selector: ${deployment.spec.selector.matchLabels} → {"app":"${schema.metadata.name}"}
                does not read deployment any more

            1 breaking change.
            there are breaking changes
            [1]
        "#]],
    );
}

#[test]
fn gates_and_order_are_compared() {
    let service = "diff --from :service.yaml --to :service-2.yaml --crds :database.yaml";
    check(
        service,
        expect![[r#"
            from service (kro.run/v1alpha1 Backend, version 6b92411f5d)
            to   service (kro.run/v1alpha1 Backend, version 41d773fac6)

            Status:
              status.size: ${db.spec.size} → ${database.spec.size}
              status.url: https://${db.status.endpoint}/ → https://${database.status.endpoint}/

            Gates of instances:
              propagateWhen[0]: ${instances.size() < 3} → ${instances.size() < 5}

            Resources:
            + database: db.example.com/v1 Database
            - db: db.example.com/v1 Database: what it made is deleted
            ~ config: v1 ConfigMap
                template.data.url: ${db.status.endpoint} → ${database.status.endpoint}
                gate propagateWhen[0]: ${db.status.endpoint != ''} → ${database.status.endpoint.startsWith('10.')}
                reads database now
                does not read db any more

            Order:
              was db → config → shards
              is  database → shards → config

            No breaking changes.
        "#]],
    );
    check_file(
        &format!("{service} -o json"),
        expect_file!["tests/service.diff.json"],
    );
}

#[test]
fn different_kinds_are_compared() {
    check(
        "diff -f @webapp.yaml -f @tenants.yaml",
        expect![[r#"
            from webapp (kro.run/v1alpha1 WebApp, version 07f55fde99)
            to   tenants (kro.run/v1alpha1 Tenants, version 8f7fc367e0)

            Kind:
            ! names.kind: "WebApp" → "Tenants" (breaking)
              names.listKind: "WebAppList" → "TenantsList"
            ! names.plural: "webapps" → "tenants" (breaking)
              names.singular: "webapp" → "tenants"
            ! scope: "Namespaced" → "Cluster" (breaking)
              spec.image is not required any more
            ! spec.greeting is removed (breaking)
            ! spec.image is removed (breaking)
            ! spec.replicas is removed (breaking)
            ! spec.service is removed (breaking)
              spec.tenants is added
            ! status.address is removed (breaking)
            ! status.availableReplicas is removed (breaking)
              status.namespaces is added

            Status:
              status.address: ${service.metadata.name}.${service.metadata.namespace}.svc is removed
              status.availableReplicas: ${deployment.status.availableReplicas} is removed
              status.namespaces: ${namespaces.map(one, one.metadata.name)} is added

            Resources:
            + namespaces: v1 Namespace
            + settings: v1 ConfigMap
            - config: v1 ConfigMap: what it made is deleted
            - deployment: apps/v1 Deployment: what it made is deleted
            - service: v1 Service: what it made is deleted

            9 breaking changes.
        "#]],
    );
    check(
        "diff -f @webapp.yaml",
        expect![[r#"
            error: two definitions are compared, and not 1
            hint: give the old and the new one: -f old.yaml -f new.yaml; others with --crds
        "#]],
    );
}
