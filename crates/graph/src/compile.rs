//! From a definition to a graph.
//!
//! First every resource is drafted: its kind is looked up, its template compared with the kind's
//! schema, its expressions parsed and the names in them found. That gives the dependencies and
//! their order, and with it the environment in which all expressions are then checked and
//! compiled. Nothing stops at the first problem.

pub(crate) mod draft;
mod expected;
mod expression;
mod fits;
mod infer;
mod instance;
mod names;
mod needs;
mod object;
pub(crate) mod order;
pub(crate) mod scope;
mod status;
mod structure;
#[cfg(test)]
pub(crate) mod tests;
mod typed;

use deltaplane_api::field::Path;
use deltaplane_expr::{Absent, Decl};
use serde_json::Value as Json;

use crate::definition::Definition;
use crate::graph::Graph;
use crate::kinds::{Gvk, Lookup};
use crate::problem::{Problem, Problems};
use crate::{crd, gates, hash};

use draft::Draft;
use order::Order;
use scope::Names;
use typed::Typed;

/// All texts of a definition that have expressions in them are no more than these.
const MAX_EXPRESSIONS: usize = 20_000;
/// And all expressions of gates no more than these: each is taken apart, and kept in several forms.
const MAX_GATES: usize = 2_000;

/// Compiles a definition, or says all that is wrong with it.
pub fn compile(
    definition: &Definition,
    lookup: &dyn Fn(&Gvk) -> Lookup,
) -> Result<Graph, Problems> {
    let mut problems = Problems::default();
    let expressions = expressions(definition.spec());
    if expressions > MAX_EXPRESSIONS {
        let message = format!(
            "there are {expressions} texts with expressions, and {MAX_EXPRESSIONS} at most may be"
        );
        problems.push(Problem::new(&Path::new("spec"), message));
        return Err(problems);
    }
    let gates = gate_texts(definition);
    if gates > MAX_GATES {
        let message =
            format!("there are {gates} expressions of gates, and {MAX_GATES} at most may be");
        problems.push(Problem::new(&Path::new("spec"), message));
        return Err(problems);
    }
    names::check(definition, &mut problems);
    let instance = instance::compile(definition.schema(), &mut problems);
    let names = Names::of(definition);
    let drafts: Vec<Draft<'_>> = draft::all(definition, lookup, &names, &mut problems);
    let status = status::draft(definition, &names, &mut problems);
    let gates = gates::read(definition, &names, &instance.kind, &mut problems);
    let order = Order::of(&drafts, &gates.waits, &mut problems);
    let any = || Decl::dynamic(Absent::Waits).clone();
    let schema = instance.decl.clone().unwrap_or_else(any);
    let held = gates::of_resources(gates.nodes, &drafts, &schema, &mut problems);
    let typed = Typed::new(&drafts, &order, instance.decl);
    let masks = needs::masks(&drafts, &status, &names);
    let nodes = typed.nodes(drafts, held, masks, &mut problems);
    let author_conditions = typed.author_conditions(&status.conditions, &mut problems);
    let (status, schema) = typed.status(status, &mut problems);
    let crd = crd::generate(definition.schema(), &instance.kind, instance.spec, schema);
    // What comes of types that are not known, which was reported, is not said.
    let whole = problems.is_empty().then_some(&crd);
    let whole = || whole.and_then(instance::whole).unwrap_or_else(any);
    let whole_instance = match author_conditions.is_empty() {
        true => None,
        false => Some(whole()),
    };
    let gate = gates::of_instances(gates.graph, &instance.kind, whole, &mut problems);
    if !problems.is_empty() {
        return Err(problems.sorted());
    }
    let (version, content_version) = hash::versions(definition);
    Ok(Graph {
        version,
        content_version,
        revision_hash: hash::revision(definition),
        kind: instance.kind,
        crd,
        widest: typed.widest(&nodes),
        nodes,
        status,
        author_conditions,
        whole_instance,
        gate,
        service_account: definition.service_account.clone(),
        deletion_budget: definition.deletion_budget(),
        schema_slot: typed.schema_slot(),
        env: typed.env,
    })
}

fn expressions(value: &Json) -> usize {
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        Json::String(text) => usize::from(text.contains("${")),
        Json::Array(items) => items.iter().map(expressions).sum(),
        Json::Object(map) => map.values().map(expressions).sum(),
    }
}

/// How many texts gates have, written bare or not.
fn gate_texts(definition: &Definition) -> usize {
    let of_resources = definition.resources().iter().map(|one| &one.gate);
    let all = of_resources.chain([definition.gate()]);
    all.map(|gate| gate.when.iter().flatten().count() + usize::from(gate.order_by.is_some()))
        .sum()
}

/// What kind of JSON it is.
pub(crate) fn word(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        // What 64 bits cannot hold is no integer to the API either.
        Json::Number(number) if !number.is_i64() => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}
