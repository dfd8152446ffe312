//! What needs no server: compiling a definition, planning an instance of which nothing changed, and
//! a pass of a gate.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use deltaplane_apiserver::typepack;
use deltaplane_expr::{Absent, Decl, Timestamp};
use deltaplane_graph::observed::{Applied, Live, Observed};
use deltaplane_graph::plan::{Apply, Inputs, Instance, Plan, Rendering, plan};
use deltaplane_graph::{Definition, Graph, Gvk, Known, Lookup, compile};
use deltaplane_propagation::{
    Gate, Health, Hold, Limits, Scope, Standing, Subject, Surroundings, Terms, Window, pass,
};
use serde_json::{Map, Value, json};

use super::run::definition;
use crate::bench::cpu;

/// Others use this machine, too: the best of so many rounds is what it takes.
const ROUNDS: u32 = 2000;
/// A round is so short that often nobody interrupts it.
const ROUND: Duration = Duration::from_millis(1);
/// What takes longer than that is measured in processor time, of so many together.
const PASSES: u32 = 20;
/// How many nodes the instance has that is planned.
const NODES: usize = 10;
/// How many items a gate is asked of.
const ITEMS: usize = 100_000;

const GATES: [&str; 3] = [
    "linearlyReady(app, apps, 1)",
    "exponentiallyReady(app, apps)",
    "app.spec.tier == 'gold' && linearlyReady(app, apps, 50000)",
];

/// A table for `docs/benchmarks.md`.
pub(super) fn run() -> Result<()> {
    let kinds = kinds();
    let lookup = |gvk: &Gvk| match kinds.get(gvk) {
        Some(known) => Lookup::Known(known.clone()),
        None => Lookup::Absent,
    };
    println!("| what | measured | aim |\n|---|---|---|");
    let five = definition("one")?;
    let text = serde_json::to_vec(&five)?;
    let read = each(|| {
        let json: Value = serde_json::from_slice(black_box(&text)).unwrap_or_default();
        let definition = Definition::read(&json).map(|definition| compile(&definition, &lookup));
        black_box(definition.is_ok());
    });
    let compiled = each(|| {
        let definition = Definition::read(black_box(&five));
        let graph = definition.map(|definition| compile(&definition, &lookup));
        black_box(graph.is_ok());
    });
    println!(
        "| compile a definition of 5 nodes | {} | 300 µs |",
        micros(compiled)
    );
    println!("| the same, parsed from JSON first | {} |  |", micros(read));
    let definition = Definition::read(&ten())?;
    let graph = compile(&definition, &lookup)?;
    let instance = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "Chain",
        "metadata": {"name": "chain", "namespace": "team", "uid": "u-1", "generation": 1},
        "spec": {"image": "registry.example.com/site:1", "replicas": 2},
    });
    let observed = settled(&graph, &instance)?;
    let planned = each(|| {
        black_box(planned(&graph, black_box(&instance), &observed).apply.len());
    });
    println!(
        "| plan of an instance of {NODES} nodes, nothing changed | {} | 20 µs |",
        micros(planned)
    );
    for gate in GATES {
        let took = passed(gate)?;
        println!(
            "| a gate over {ITEMS} items, `{gate}` | {:.1} ms | 100 ms |",
            took.as_secs_f64() * 1e3
        );
    }
    println!();
    Ok(())
}

/// The kinds that the definitions are made of.
fn kinds() -> BTreeMap<Gvk, Arc<Known>> {
    let pack = typepack::load();
    let wanted = [
        ("", "ConfigMap"),
        ("", "ServiceAccount"),
        ("", "Service"),
        ("apps", "Deployment"),
    ];
    let found = wanted.into_iter().filter_map(|(group, kind)| {
        let gvk = Gvk::new(group, "v1", kind);
        let kind = pack.kind(group, "v1", kind)?;
        let known = Known::new(gvk.clone(), kind.plural, kind.namespaced, pack.schema(kind));
        Some((gvk, Arc::new(known)))
    });
    found.collect()
}

/// Twice what the other is made of: two chains.
fn ten() -> Value {
    let mut nodes = Vec::new();
    for half in ["a", "b"] {
        let name = |part: &str| format!("${{schema.metadata.name}}-{half}-{part}");
        nodes.push(json!({"id": format!("{half}settings"), "template": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name("settings")},
            "data": {"image": "${schema.spec.image}", "revision": "one"},
        }}));
        nodes.push(json!({"id": format!("{half}account"), "template": {
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name("account")},
        }}));
        nodes.push(json!({"id": format!("{half}app"), "template": {
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name("app")},
            "spec": {
                "replicas": "${schema.spec.replicas}",
                "selector": {"matchLabels": {"app": name("app")}},
                "template": {
                    "metadata": {"labels": {"app": name("app")}},
                    "spec": {
                        "serviceAccountName": format!("${{{half}account.metadata.name}}"),
                        "containers": [{
                            "name": "site",
                            "image": format!("${{{half}settings.data.image}}"),
                            "env": [{
                                "name": "REVISION",
                                "value": format!("${{{half}settings.data.revision}}"),
                            }],
                        }],
                    },
                },
            },
        }}));
        nodes.push(json!({
            "id": format!("{half}door"),
            "readyWhen": [format!("${{{half}door.spec.clusterIP == 'None'}}")],
            "template": {
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": format!("${{{half}app.metadata.name}}")},
                "spec": {
                    "clusterIP": "None", "ports": [{"port": 80}],
                    "selector": {"app": format!("${{{half}app.metadata.name}}")},
                },
            },
        }));
        nodes.push(json!({"id": format!("{half}summary"), "template": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("${{{half}door.metadata.name}}-summary")},
            "data": {
                "address": format!("${{{half}door.metadata.name}}.${{{half}door.metadata.namespace}}.svc"),
            },
        }}));
    }
    json!({"metadata": {"name": "chain"}, "spec": {
        "schema": {
            "kind": "Chain", "apiVersion": "v1alpha1",
            "spec": {"image": "string", "replicas": "integer"},
            "status": {"address": "${asummary.data.address}", "other": "${bsummary.data.address}"},
        },
        "resources": nodes,
    }})
}

/// What there is when everything was applied.
fn settled(graph: &Graph, instance: &Value) -> Result<Observed> {
    let mut observed = Observed::default();
    for _ in 0..NODES {
        let plan = planned(graph, instance, &observed);
        for apply in &plan.apply {
            observed.insert(graph.node(apply.node).id(), Arc::new(live(apply)));
        }
        if plan.apply.is_empty() {
            ensure!(plan.is_ready(), "{:?}", plan.nodes);
            return Ok(observed);
        }
    }
    anyhow::bail!("it does not come to an end")
}

fn live(apply: &Apply) -> Live {
    let mut live = Live::parsed(apply.id.clone(), apply.object.clone());
    live.uid = apply.id.to_string();
    live.applied = Some(Applied {
        content: apply.content.clone(),
        intact: true,
    });
    live
}

fn planned(graph: &Graph, instance: &Value, observed: &Observed) -> Plan {
    let nothing = BTreeMap::new();
    plan(Inputs {
        graph,
        instance: Instance::new(instance),
        observed,
        unseen: &|_| false,
        taken: &|_| None,
        product: "bench",
        now: now(),
        frozen: &|_| None,
        unsure: &nothing,
        in_flight: &nothing,
        rendering: Rendering::whole(),
    })
}

fn now() -> Timestamp {
    Timestamp::parse("2026-03-01T12:00:00Z").expect("a time")
}

/// The processor time of a pass of a gate over many items, of which a tenth are where they should be.
fn passed(gate: &str) -> Result<Duration> {
    let objects: Vec<(String, Map<String, Value>)> = (0..ITEMS).map(object).collect();
    let subjects: Vec<Subject<'_>> = objects
        .iter()
        .enumerate()
        .map(|(index, (key, object))| Subject {
            key,
            object: Some(object),
            standing: match index % 10 {
                0 => Standing::Current { since: now() },
                _ => Standing::Behind {
                    health: Health::Ready { since: now() },
                    hold: Hold::Free,
                },
            },
        })
        .collect();
    let scope = Scope::new(Decl::dynamic(Absent::Waits).clone(), &["app"]);
    let gate = Gate::compile(&[gate], scope.collection(&["apps"]))?;
    let given = Surroundings::new();
    let terms = Terms {
        gate: &gate,
        order: None,
        given: &given,
        now: now(),
        windows: &|_, _| Window {
            open: false,
            edge: None,
        },
        limits: Limits::default(),
    };
    let this = [std::process::id()];
    let before = cpu::time(&this)?;
    for _ in 0..PASSES {
        black_box(pass(&subjects, terms).admitted.len());
    }
    Ok((cpu::time(&this)? - before) / PASSES)
}

fn object(index: usize) -> (String, Map<String, Value>) {
    let (namespace, name) = (format!("team-{}", index % 100), format!("app-{index}"));
    let tier = if index.is_multiple_of(3) {
        "gold"
    } else {
        "silver"
    };
    let object = json!({
        "metadata": {
            "name": name, "namespace": namespace,
            "creationTimestamp": format!("2026-02-{:02}T10:00:00Z", index % 28 + 1),
        },
        "spec": {"tier": tier},
    });
    let object = object.as_object().cloned().unwrap_or_default();
    (format!("{namespace}/{name}"), object)
}

/// The time of one run, in the best of many rounds.
fn each(mut run: impl FnMut()) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut count = 0_u32;
        let took = loop {
            run();
            count += 1;
            let took = start.elapsed();
            if took >= ROUND {
                break took;
            }
        };
        best = best.min(took / count);
    }
    best
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}
