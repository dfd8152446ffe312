//! What there is to know of a graph, for people to compare.

use std::fmt::Write;

use serde_json::Value as Json;

use crate::template::path;
use crate::{Graph, Node, Role, Template};

pub(super) fn of(graph: &Graph) -> String {
    let mut out = String::new();
    let kind = graph.kind();
    let scope = if kind.namespaced {
        "namespaced"
    } else {
        "cluster"
    };
    let _ = writeln!(
        out,
        "{}.{}/{} {} ({scope})",
        kind.plural, kind.group, kind.version, kind.kind
    );
    for node in graph.nodes() {
        one(&mut out, graph, node);
    }
    let root = &graph.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    schema(&mut out, 0, "spec", &root["spec"]);
    if graph.status().holes().is_empty() {
        return out;
    }
    let mut status = root["status"].clone();
    if let Some(properties) = status["properties"].as_object_mut() {
        properties.remove("conditions");
        properties.remove("state");
    }
    schema(&mut out, 0, "status", &status);
    template(&mut out, graph.status());
    out
}

fn one(out: &mut String, graph: &Graph, node: &Node) {
    let role = match node.role() {
        Role::One(_) => "one",
        Role::Each { .. } => "each",
        Role::External(_) => "external",
        Role::Selected(_) => "selected",
    };
    let _ = write!(
        out,
        "{} {}: {role} {}",
        node.apply_order(),
        node.id(),
        node.gvk()
    );
    let on: Vec<&str> = node
        .depends_on()
        .iter()
        .map(|on| graph.node(*on).id())
        .collect();
    match on.is_empty() {
        true => out.push('\n'),
        false => {
            let _ = writeln!(out, " <- {}", on.join(", "));
        }
    }
    if let Role::Each { dimensions, .. } = node.role() {
        for dimension in dimensions {
            let _ = writeln!(
                out,
                "    for {} in {}",
                dimension.name(),
                dimension.list().source()
            );
        }
    }
    for (word, conditions) in [
        ("include", node.include_when()),
        ("ready", node.ready_when()),
    ] {
        for condition in conditions {
            let _ = writeln!(out, "    {word} when {}", condition.source());
        }
    }
    for gate in node.gate().when().into_iter().flatten() {
        let _ = writeln!(out, "    propagate when {}", gate.source);
    }
    template(out, node.template());
}

fn template(out: &mut String, template: &Template) {
    for hole in template.holes() {
        let place = path(&deltaplane_api::field::Path::root(), hole.steps());
        let item = if hole.reads().item { " (item)" } else { "" };
        let _ = writeln!(out, "    {} = {}{item}", place.as_str(), hole.source());
    }
}

/// A schema, one field to a line.
fn schema(out: &mut String, depth: usize, name: &str, schema: &Json) {
    let mut rest = schema.clone();
    let below: Vec<(String, Json)> = match &mut rest {
        Json::Object(map) => {
            let properties = map.remove("properties");
            let items = map.remove("items").map(|items| ("[]".to_owned(), items));
            let values = map.remove("additionalProperties");
            let values = values.map(|values| ("{}".to_owned(), values));
            let properties = properties.and_then(|all| all.as_object().cloned());
            let properties = properties.into_iter().flatten();
            properties.chain(items).chain(values).collect()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Vec::new()
        }
    };
    let _ = writeln!(out, "{}{name} {rest}", "  ".repeat(depth));
    for (name, child) in below {
        self::schema(out, depth + 1, &name, &child);
    }
}
