//! Strategic merge patches of Deployments.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use deltaplane_schema::{Definitions, Schema, strategic};
use serde_json::{Map, Value, json};

use super::{Oracle, same_value};
use crate::conformance::random::Random;

/// The published schemas of the kinds that are patched.
pub(super) struct Kinds {
    deployment: Schema,
}

// === impl Kinds ===

impl Kinds {
    /// From a copy of Kubernetes' source.
    pub(super) fn load(kubernetes: &Path) -> Result<Self> {
        let path = kubernetes.join("api/openapi-spec/v3/apis__apps__v1_openapi.json");
        let text = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let document: Value =
            serde_json::from_slice(&text).context("parsing the OpenAPI document")?;
        let schemas: BTreeMap<String, Value> =
            serde_json::from_value(document["components"]["schemas"].clone())
                .context("reading its schemas")?;
        let definitions = Definitions::from_openapi(
            schemas.iter().map(|(name, schema)| (name.as_str(), schema)),
        )?;
        let deployment = definitions
            .get("io.k8s.api.apps.v1.Deployment")
            .context("there is no Deployment")?;
        Ok(Self { deployment })
    }

    pub(super) fn case(
        &self,
        oracle: &mut Oracle,
        random: &mut Random,
    ) -> Result<Result<(), String>> {
        let object = deployment(random, false);
        let patch = deployment(random, true);
        let answer = oracle.ask(
            &json!({"kind": "strategic", "type": "Deployment", "object": object, "patch": patch}),
        )?;
        let ours = strategic::apply(&self.deployment, &object, &patch);
        let outcome = match (&ours, answer.get("merged")) {
            (Ok(ours), Some(theirs)) => same_value("merged", ours, theirs),
            (Err(_), None) => Ok(()),
            (ours, _) => Err(format!("got {ours:?}, expected {answer}")),
        };
        Ok(outcome.map_err(|why| format!("{why}\n  object {object}\n  patch {patch}")))
    }
}

fn deployment(random: &mut Random, patch: bool) -> Value {
    let mut metadata = Map::new();
    metadata.insert("labels".to_owned(), words(random, patch));
    scalars(random, patch, "finalizers", &mut metadata);
    keyed(
        random,
        patch,
        "ownerReferences",
        "uid",
        &mut metadata,
        |random, _| Map::from_iter([("name".to_owned(), json!(random.word()))]),
    );
    let mut spec = Map::new();
    if random.chance(50) {
        spec.insert(
            "replicas".to_owned(),
            if patch && random.chance(20) {
                Value::Null
            } else {
                json!(random.below(3))
            },
        );
    }
    if random.chance(60) {
        spec.insert("strategy".to_owned(), strategy(random, patch));
    }
    let mut pod = Map::new();
    keyed(random, patch, "containers", "name", &mut pod, container);
    keyed(random, patch, "volumes", "name", &mut pod, |random, _| {
        Map::from_iter([
            ("emptyDir".to_owned(), json!({})),
            ("x".to_owned(), json!(random.below(2))),
        ])
    });
    if random.chance(40) {
        let count = random.below(3);
        let tolerations: Value = (0..count).map(|_| json!({"key": random.word()})).collect();
        pod.insert("tolerations".to_owned(), tolerations);
    }
    pod.insert("nodeSelector".to_owned(), words(random, patch));
    spec.insert("template".to_owned(), json!({"spec": pod}));
    let mut out = json!({"metadata": metadata, "spec": spec});
    if patch && random.chance(5) {
        out["spec"]["$patch"] = json!(random.pick(&["replace", "delete", "merge"]));
    }
    out
}

fn words(random: &mut Random, patch: bool) -> Value {
    let mut out = Map::new();
    for name in random.some(&["a", "b", "c"]) {
        let null = patch && random.chance(25);
        out.insert(
            name.to_owned(),
            if null {
                Value::Null
            } else {
                json!(random.word())
            },
        );
    }
    if patch && random.chance(10) {
        out.insert(
            "$patch".to_owned(),
            json!(random.pick(&["replace", "delete"])),
        );
    }
    Value::Object(out)
}

fn scalars(random: &mut Random, patch: bool, field: &str, out: &mut Map<String, Value>) {
    let items = random.some(&["a", "b", "c", "d"]);
    if !items.is_empty() {
        out.insert(field.to_owned(), json!(items));
    }
    if patch && random.chance(25) {
        // What is both added and deleted is either, by the order of a map.
        let mut gone = random.some(&["a", "b"]);
        gone.retain(|item| !items.contains(item));
        out.insert(format!("$deleteFromPrimitiveList/{field}"), json!(gone));
    }
    if patch && random.chance(25) {
        let mut order = items;
        order.extend(random.some(&["a", "b", "c", "d"]));
        out.insert(format!("$setElementOrder/{field}"), json!(order));
    }
}

fn keyed(
    random: &mut Random,
    patch: bool,
    field: &str,
    key: &str,
    out: &mut Map<String, Value>,
    body: fn(&mut Random, bool) -> Map<String, Value>,
) {
    let names = random.some(&["a", "b", "c", "d"]);
    let mut items = Vec::new();
    for name in &names {
        let mut item = body(random, patch);
        item.insert(key.to_owned(), json!(name));
        if patch && random.chance(15) {
            item = Map::from_iter([
                (key.to_owned(), json!(name)),
                ("$patch".to_owned(), json!("delete")),
            ]);
        }
        if patch && random.chance(2) {
            item.remove(key);
        }
        items.push(Value::Object(item));
    }
    if patch && random.chance(5) {
        items.push(json!({"$patch": "replace"}));
    }
    if !items.is_empty() || random.chance(20) {
        out.insert(field.to_owned(), Value::Array(items));
    }
    if patch && random.chance(30) {
        let mut order = names;
        order.extend(random.some(&["a", "b", "c", "d"]));
        let order: Value = order.iter().map(|name| json!({key: name})).collect();
        out.insert(format!("$setElementOrder/{field}"), order);
    }
}

fn container(random: &mut Random, patch: bool) -> Map<String, Value> {
    let mut out = Map::new();
    if random.chance(60) {
        out.insert("image".to_owned(), json!(random.word()));
    }
    if random.chance(30) {
        out.insert("args".to_owned(), json!(random.some(&["x", "y"])));
    }
    if random.chance(50) {
        keyed(random, patch, "env", "name", &mut out, |random, patch| {
            let null = patch && random.chance(20);
            Map::from_iter([(
                "value".to_owned(),
                if null {
                    Value::Null
                } else {
                    json!(random.word())
                },
            )])
        });
    }
    if random.chance(40) {
        let ports = random.some(&[80, 81]);
        out.insert(
            "ports".to_owned(),
            ports
                .iter()
                .map(|port| json!({"containerPort": port}))
                .collect(),
        );
    }
    out
}

fn strategy(random: &mut Random, patch: bool) -> Value {
    let mut out = Map::new();
    out.insert("type".to_owned(), json!(random.word()));
    if random.chance(50) {
        out.insert(
            "rollingUpdate".to_owned(),
            json!({"maxSurge": random.below(3)}),
        );
    }
    if patch && random.chance(40) {
        out.insert(
            "$retainKeys".to_owned(),
            json!(random.some(&["type", "rollingUpdate"])),
        );
    }
    Value::Object(out)
}
