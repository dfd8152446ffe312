//! What holds for every definition, those of bad intent too.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::{cases, lookup};
use crate::{Definition, Graph, Problems, compile};

fn of(spec: Json) -> Result<Graph, Problems> {
    compile(&Definition::read(&json!({"spec": spec}))?, &lookup)
}

fn problems(spec: Json) -> String {
    match of(spec) {
        Ok(_) => "accepted".to_owned(),
        Err(problems) => problems.to_string(),
    }
}

fn schema() -> Json {
    json!({"kind": "App", "apiVersion": "v1", "spec": {"name": "string"}})
}

fn config(id: &str, name: &str) -> Json {
    json!({"id": id, "template": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
    }})
}

/// Texts that mean something somewhere.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "v1",
            "ConfigMap",
            "Deployment",
            "apps/v1",
            "App",
            "string",
            "a",
            "b",
            "${a.data.x}",
            "${schema.spec.name}",
            "${b.metadata.name}-${a.metadata.name}",
            "${",
            "${omit()}",
            "${each}",
            "${[1,2].map(x, x)}",
            "${x}",
            "kro.run/a",
            "integer | default=1",
            "linearlyReady(a, b)",
            "${{'a': {}}}",
            "Cluster",
        ])
        .prop_map(str::to_owned),
        ".{0,8}",
    ]
}

/// Keys that mean something somewhere.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "spec", "schema", "resources", "id", "template", "externalRef", "readyWhen",
            "includeWhen", "forEach", "propagateWhen", "orderBy", "kind", "apiVersion", "group",
            "scope", "types", "status", "metadata", "name", "namespace", "labels", "selector",
            "matchLabels", "data", "a", "conditions", "additionalPrinterColumns",
        ])
        .prop_map(str::to_owned),
        1 => ".{0,8}",
    ]
}

fn json_value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        text().prop_map(Json::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::btree_map(key(), inner, 0..8)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

/// Resources that read those before them.
fn resources() -> impl Strategy<Value = Vec<Json>> {
    let links = prop::collection::vec(
        prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        1..12,
    );
    links.prop_map(|links| {
        let resource = |(at, links): (usize, &Vec<prop::sample::Index>)| {
            let on = links.iter().filter(|_| at > 0).map(|link| link.index(at));
            let name: String = on.map(|on| format!("${{n{on}.metadata.name}}")).collect();
            config(&format!("n{at}"), &format!("x{name}"))
        };
        links.iter().enumerate().map(resource).collect()
    })
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn no_json_makes_it_panic(spec in json_value(), resource in json_value(), status in json_value()) {
        let _ = of(spec.clone());
        let _ = Definition::read(&spec);
        let mut schema = schema();
        schema["status"] = status;
        schema["spec"] = resource.clone();
        let mut given = config("a", "b");
        given["template"]["data"] = spec.clone();
        let external = json!({"id": "e", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": spec}});
        let resources = json!([given, config("b", "${a.data.x}"), external, resource]);
        let _ = of(json!({"schema": schema, "resources": resources}));
    }

    #[test]
    fn the_order_respects_dependencies_and_is_the_same_again(resources in resources().prop_shuffle()) {
        let spec = json!({"schema": schema(), "resources": resources});
        let graph = of(spec.clone()).expect("nothing is wrong with it");
        for (index, node) in graph.indexed() {
            for on in node.depends_on() {
                prop_assert!(*on < index);
                prop_assert!(graph.node(*on).apply_order() < node.apply_order());
            }
        }
        let again = of(spec).expect("nothing is wrong with it");
        prop_assert_eq!(super::summary::of(&graph), super::summary::of(&again));
        prop_assert_eq!(graph.version(), again.version());
        let mut sorted = resources;
        sorted.reverse();
        let other = of(json!({"schema": schema(), "resources": sorted})).expect("still nothing");
        prop_assert_eq!(graph.revision_hash(), other.revision_hash());
        prop_assert_eq!(graph.crd(), other.crd());
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let mut deep = json!("${schema.spec.name}");
    for _ in 0..200 {
        deep = json!({"a": deep});
    }
    let template = |data: Json| {
        let mut config = config("a", "${schema.spec.name}");
        config["template"]["data"] = data;
        json!({"schema": schema(), "resources": [config]})
    };
    let many = |count: usize| {
        let one = |at| config(&format!("n{at}"), "x");
        json!({"schema": schema(), "resources": (0..count).map(one).collect::<Vec<_>>()})
    };
    let expressions: serde_json::Map<String, Json> = (0..30_000)
        .map(|at| (format!("k{at}"), json!("${schema.spec.name}")))
        .collect();
    // Of gates each counts, with `${` or without.
    let gated = |count: usize| {
        let mut spec = many(5);
        for resource in spec["resources"].as_array_mut().into_iter().flatten() {
            resource["propagateWhen"] = vec!["n1.ready()"; count].into();
        }
        spec
    };
    for (spec, why) in [
        (
            gated(500),
            "spec: there are 2500 expressions of gates, and 2000 at most may be",
        ),
        (
            template(json!("x".repeat(10 << 20))),
            ": it is larger than 3145728 bytes",
        ),
        (template(deep), ": it is nested deeper than 120 levels"),
        (
            many(10_000),
            "spec.resources: there are 10000 of them, and 1000 at most may be",
        ),
        (
            template(expressions.into()),
            "spec: there are 30001 texts with expressions, and 20000 at most may be",
        ),
    ] {
        assert_eq!(problems(spec), why);
    }
}

/// Whoever makes very many mistakes is not told what was meant by each, nor shown all of it each
/// time.
#[test]
fn many_mistakes_are_as_much_work_as_some() {
    let unknown: String = (0..6_000).map(|at| format!("${{x{at}}}")).collect();
    let mut resources: Vec<Json> = (0..1_000)
        .map(|at| config(&format!("n{at}"), "x"))
        .collect();
    resources[0]["template"]["data"] = json!({ "text": unknown });
    resources[1]["propagateWhen"] = json!(["x1 + x2"]);
    let problems = of(json!({"schema": schema(), "resources": resources})).expect_err("mistakes");
    assert_eq!(problems.count(), 6_002);
    let hinted = problems.iter().filter(|one| one.hint.is_some()).count();
    assert!(hinted <= 20, "{hinted}");
    let excerpts = problems.iter().filter_map(|one| one.excerpt.as_ref());
    assert!(excerpts.map(|one| one.text.len()).max() <= Some(6 << 10));
    // The mark is still under the name.
    let drawn = problems.iter().last().map(|one| one.drawn());
    assert!(drawn.is_some_and(|drawn| drawn.contains("x98") && drawn.contains('^')));
}

/// Layers in which every resource reads all of the layer before: many ways, little work.
#[test]
fn diamonds_are_no_more_work_than_their_size() {
    let mut resources = Vec::new();
    for layer in 0..40 {
        for at in 0..8 {
            let before = (0..8).filter(|_| layer > 0);
            let before = before.map(|other| format!("${{n{}x{other}.metadata.name}}", layer - 1));
            resources.push(config(
                &format!("n{layer}x{at}"),
                &format!("x{}", before.collect::<String>()),
            ));
        }
    }
    let graph = of(json!({"schema": schema(), "resources": resources})).expect("it is sound");
    assert_eq!(
        graph.nodes().last().map(|node| node.apply_order()),
        Some(40)
    );
}

/// A thousand problems are counted; a hundred are kept.
#[test]
fn problems_are_bounded() {
    let one = |at| config(&format!("n{at}"), "${nowhere}");
    let resources: Vec<Json> = (0..1000).map(one).collect();
    let problems = of(json!({"schema": schema(), "resources": resources})).unwrap_err();
    assert_eq!((problems.iter().count(), problems.more()), (100, 900));
    assert!(problems.to_string().ends_with("and 900 more"));
}

/// Collections by the hundred share one environment.
#[test]
fn a_thousand_collections_compile() {
    let one = |at: usize| {
        let mut config = config(&format!("n{at}"), "${a}-${b}");
        config["forEach"] = json!([{"a": "${['x']}"}, {"b": "${['y']}"}]);
        config
    };
    let resources: Vec<Json> = (0..1000).map(one).collect();
    let graph = of(json!({"schema": schema(), "resources": resources})).expect("it is sound");
    assert_eq!(graph.nodes().len(), 1000);
}

/// Types that contain themselves are compared so far, and have no schema.
#[test]
fn recursive_types_come_to_an_end() {
    let endless = |id: &str, kind: &str, spec: &str| json!({"id": id, "template": {"apiVersion": "v1", "kind": kind, "spec": spec, "metadata": {}}});
    let mut schema = schema();
    let resources = json!([
        endless("a", "EndlessOne", "${b.spec.list[0].a}"),
        endless("b", "EndlessTwo", "${c.spec.a.b}"),
        endless("c", "EndlessTwo", "${schema.spec.?name}"),
    ]);
    schema["status"] = json!({"all": "${a.spec}"});
    let found = problems(json!({"schema": schema, "resources": resources}));
    expect_test::expect![[r#"
        spec.resources[2].template.spec: type mismatch: an object (v1.EndlessTwo.spec) is expected here, and this is optional_type(string)
        spec.schema.status.all: its type contains itself, or is too large, so that it has no schema"#]].assert_eq(&found);
}
