//! What kro says of a definition and what we say.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_graph::{Definition, Graph, compile};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::kinds::Customs;

/// What kro says.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Answer {
    /// Why it is not taken, if it is not.
    pub(super) refused: String,
    /// Why the API does not take the kind that was made.
    pub(super) unserved: String,
    pub(super) definition: Value,
    hash: String,
    order: Vec<String>,
    waves: BTreeMap<String, u32>,
    depends_on: BTreeMap<String, Option<BTreeSet<String>>>,
}

/// Both agree, and on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Same {
    Accepted,
    Refused,
    /// kro makes a kind that no API takes; we say so at once.
    RefusedAtOnce,
}

// === impl Same ===

impl Same {
    pub(super) fn note(self) -> &'static str {
        match self {
            Self::Accepted => "accepted by both, with the same kind, hash and order",
            Self::Refused => "refused by both",
            Self::RefusedAtOnce => "accepted by kro, but no API server takes its kind",
        }
    }
}

/// How we differ, if we do.
pub(super) fn same(object: &Value, customs: &Customs, theirs: &Answer) -> Result<Same, String> {
    let ours = Definition::read(object)
        .and_then(|definition| compile(&definition, &|gvk| customs.look_up(gvk)));
    match (ours, theirs.refused.is_empty()) {
        (Err(_), false) => Ok(Same::Refused),
        (Err(_), true) if !theirs.unserved.is_empty() => Ok(Same::RefusedAtOnce),
        (Err(problems), true) => {
            let said: Vec<String> = problems.iter().map(|one| one.to_string()).collect();
            Err(format!("refused here: {}", said.join("; ")))
        }
        (Ok(_), false) => Err(format!("refused by kro: {}", theirs.refused)),
        (Ok(_), true) if !theirs.unserved.is_empty() => {
            Err(format!("no API server takes it: {}", theirs.unserved))
        }
        (Ok(graph), true) => same_graph(&graph, theirs).map(|()| Same::Accepted),
    }
}

fn same_graph(graph: &Graph, theirs: &Answer) -> Result<(), String> {
    let (ours, kros) = (plain(graph.crd()), plain(&theirs.definition));
    if let Some(difference) = difference("", &ours, &kros) {
        return Err(format!("another kind: {difference}"));
    }
    let order: Vec<&str> = graph.order().collect();
    if order != theirs.order {
        return Err(format!("the order is {order:?}, kro: {:?}", theirs.order));
    }
    if graph.revision_hash() != theirs.hash {
        let ours = graph.revision_hash();
        return Err(format!("the hash is {ours}, kro: {}", theirs.hash));
    }
    for node in graph.nodes() {
        let on = node.depends_on().iter();
        let on: BTreeSet<String> = on.map(|on| graph.node(*on).id().to_owned()).collect();
        let kros = theirs.depends_on.get(node.id()).cloned().flatten();
        if on != kros.clone().unwrap_or_default() {
            return Err(format!("{} depends on {on:?}, kro: {kros:?}", node.id()));
        }
        let wave = theirs.waves.get(node.id());
        if wave != Some(&node.apply_order()) {
            let ours = node.apply_order();
            return Err(format!("{} is in wave {ours}, kro: {wave:?}", node.id()));
        }
    }
    Ok(())
}

/// The first place where two values differ.
fn difference(path: &str, ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| {
                let (a, b) = (a.get(key), b.get(key));
                let path = format!("{path}.{key}");
                match (a, b) {
                    (Some(a), Some(b)) => difference(&path, a, b),
                    (a, b) => Some(shown(&path, a, b)),
                }
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(at, (a, b))| difference(&format!("{path}[{at}]"), a, b))
        }
        (a, b) => (a != b).then(|| shown(path, Some(a), Some(b))),
    }
}

fn shown(path: &str, ours: Option<&Value>, theirs: Option<&Value>) -> String {
    let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
    format!("{path} is {}, kro: {}", text(ours), text(theirs))
}

/// Numbers as floats, without what Go writes for nothing.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(list) => list.iter().map(plain).collect(),
        Value::Object(map) => {
            let said = |key: &str, value: &Value| match key {
                "creationTimestamp" => !value.is_null(),
                // Of the definition as a whole; it is empty.
                "status" => value.get("conditions") != Some(&Value::Null),
                _ => true,
            };
            let fields = map.iter().filter(|(key, value)| said(key, value));
            let fields = fields.map(|(key, value)| (key.clone(), plain(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        // Types of objects are named after kinds, and in kro after resources.
        Value::String(text) if text.starts_with(UNKNOWN) => UNKNOWN.into(),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

/// How descriptions of values begin that have no schema.
const UNKNOWN: &str = "unknown CEL type: ";
