//! A plan as people read it, and as programs do.

use deltaplane_graph::observed::ObjectId;
use deltaplane_graph::plan::{
    Apply, Cause, Exclusion, Missing, NotReady, Plan, Standing, Unready, Wait, Wrong,
};
use deltaplane_graph::{Graph, NodeIndex};
use serde_json::{Value, json};

use super::play::{Pass, Played};
use crate::graph::GraphError;
use crate::table::Table;

/// How a node stands, in words.
pub(in crate::graph) struct State {
    /// One or two words.
    pub(in crate::graph) word: &'static str,
    /// The rest of the sentence; empty if there is nothing to say.
    pub(in crate::graph) why: String,
    /// The expression that it is about, and where that is in the definition.
    expression: Option<(String, String)>,
}

/// So many objects of a node are listed.
const LISTED: usize = 20;

/// The whole plan: what was done, how every node stands, and the status.
pub(super) fn text(graph: &Graph, played: &Played) -> Result<String, GraphError> {
    let metadata = &played.instance["metadata"];
    let word = |field: &str| metadata[field].as_str().unwrap_or_default();
    let mut text = match word("namespace") {
        "" => format!("{} {}\n", graph.kind().kind, word("name")),
        namespace => format!("{} {namespace}/{}\n", graph.kind().kind, word("name")),
    };
    for (index, pass) in played.passes.iter().enumerate() {
        text.push_str(&format!("\nTaken to be applied, pass {}:\n", index + 1));
        text.push_str(&pass_text(graph, pass));
    }
    let mut table = Table::new(&["RESOURCE", "STATE", "OBJECT", "WHY"]);
    for (index, node) in graph.indexed() {
        let State { word, why, .. } = state(graph, &played.plan, index);
        let mut rows = objects(&played.plan, index).into_iter();
        let (first, cause) = rows.next().unwrap_or_default();
        let why = match cause.is_empty() {
            true => why,
            false => cause,
        };
        table.add(vec![node.id().to_owned(), word.to_owned(), first, why]);
        for (object, cause) in rows {
            table.add(vec![String::new(), String::new(), object, cause]);
        }
    }
    text.push_str(match played.assumed {
        true => "\nThen:\n",
        false => "\n",
    });
    text.push_str(&table.text());
    for prune in &played.plan.prune {
        text.push_str(&format!("delete {} of {}\n", prune.id, prune.node));
    }
    text.push_str(&expressions(graph, &played.plan));
    text.push_str(&status(&played.plan)?);
    text.push_str(&format!("\n{}\n", verdict(played)));
    Ok(text)
}

/// In a word, how it ends.
fn verdict(played: &Played) -> String {
    let plan = &played.plan;
    let (apply, delete) = (plan.apply.len(), plan.prune.len());
    let done = |node: &&Standing| matches!(node, Standing::Ready | Standing::Excluded(_));
    let left = plan.nodes.iter().filter(|node| !done(node)).count();
    match (apply, delete, left) {
        (0, 0, 0) if !plan.frozen.is_empty() => {
            format!("Gates keep back: {}.", plan.frozen.len())
        }
        (0, 0, 0) => "Everything is there and ready.".to_owned(),
        (0, 0, left) => format!("Nothing can be applied now; not ready: {left}."),
        (apply, 0, _) => format!("To apply now: {apply}."),
        (apply, delete, _) => format!("To apply now: {apply}; to delete: {delete}."),
    }
}

fn pass_text(graph: &Graph, pass: &Pass) -> String {
    let line = |apply: &Apply| {
        let node = graph.node(apply.node).id();
        format!("  apply {} of {node} ({})\n", apply.id, cause(apply.why))
    };
    let mut text: String = pass.applied.iter().take(LISTED).map(line).collect();
    if pass.applied.len() > LISTED {
        text.push_str(&format!("  and {} more\n", pass.applied.len() - LISTED));
    }
    for (node, id) in &pass.deleted {
        text.push_str(&format!("  delete {id} of {node}\n"));
    }
    text
}

/// What a node's row, and those below it, say of objects.
fn objects(plan: &Plan, index: NodeIndex) -> Vec<(String, String)> {
    let applied: Vec<&Apply> = plan.apply.iter().filter(|one| one.node == index).collect();
    let row = |apply: &&Apply| (apply.id.to_string(), cause(apply.why).to_owned());
    let mut rows: Vec<(String, String)> = applied.iter().take(LISTED).map(row).collect();
    if applied.len() > LISTED {
        let more = format!("and {} more", applied.len() - LISTED);
        rows.push((more, String::new()));
    }
    if rows.is_empty() {
        let id = id(&plan.nodes[index.get()]);
        rows.extend(id.map(|id| (id.to_string(), String::new())));
    }
    rows
}

/// The object that a standing is about.
fn id(standing: &Standing) -> Option<&ObjectId> {
    match standing {
        Standing::Taken { id, .. } | Standing::Ending { id, .. } | Standing::Missing { id } => {
            Some(id)
        }
        Standing::NotReady(NotReady { id, .. }) => Some(id),
        Standing::Excluded(_)
        | Standing::Blocked { .. }
        | Standing::Waiting(_)
        | Standing::Failed(_)
        | Standing::Applying { .. }
        | Standing::Gated { .. }
        | Standing::Unseen
        | Standing::Ready => None,
    }
}

pub(in crate::graph) fn cause(why: Cause) -> &'static str {
    match why {
        Cause::Absent => "it is not there",
        Cause::Changed => "its content changes",
        Cause::Drifted => "somebody changed it",
    }
}

/// How a node stands.
pub(in crate::graph) fn state(graph: &Graph, plan: &Plan, index: NodeIndex) -> State {
    let is = State::new;
    match &plan.nodes[index.get()] {
        Standing::Excluded(Exclusion::Condition { source }) => {
            is("excluded", UNMET).about(source, &conditions(graph, index, "includeWhen"))
        }
        Standing::Excluded(Exclusion::With(other)) => {
            is("excluded", &format!("with {}", graph.node(*other).id()))
        }
        Standing::Blocked { on } => is("blocked", &blocked(graph, plan, index, on)),
        Standing::Waiting(wait) => is("waiting", "").waiting(wait),
        Standing::Failed(wrong) => is("failed", "").failing(wrong),
        Standing::Taken { owner, .. } => is("taken", &format!("it belongs to {}", owner.0)),
        // What failed does not come right by waiting, whatever else it waits for.
        Standing::NotReady(NotReady {
            broken: Some(why), ..
        })
        | Standing::Gated {
            broken: Some(NotReady {
                broken: Some(why), ..
            }),
            ..
        }
        | Standing::Ending {
            broken: Some(NotReady {
                broken: Some(why), ..
            }),
            ..
        } => is("failed", why),
        Standing::Ending { .. } => is("ending", "it is being deleted, and made anew then"),
        Standing::Applying { objects: 1 } => is("apply", ""),
        Standing::Applying { objects } => is("apply", &format!("{objects} objects")),
        Standing::Gated { .. } => is("gated", &gated(plan, index).unwrap_or_default()),
        Standing::Missing { .. } => is("missing", "others have to make it"),
        Standing::Unseen => is("unseen", "which objects are there is not known"),
        Standing::NotReady(NotReady { why, .. }) => match why {
            Unready::Condition { source } => {
                is("not ready", UNMET).about(source, &conditions(graph, index, "readyWhen"))
            }
            Unready::Waiting(wait) => is("not ready", "").waiting(wait),
            Unready::Failed(wrong) => is("not ready", "").failing(wrong),
            Unready::Stale {
                observed,
                generation,
            } => is(
                "not ready",
                &format!("its status is of generation {observed}, and it is at {generation}"),
            ),
        },
        Standing::Ready => match gated(plan, index) {
            Some(why) => is("frozen", &why),
            None => is("ready", ""),
        },
    }
}

/// What the gate says of the first object of a node that it keeps back.
fn gated(plan: &Plan, index: NodeIndex) -> Option<String> {
    let gated = plan.gated(index).next()?;
    let verdict = gated.verdict.predicate();
    Some(format!("the gate of {} {verdict}", gated.id))
}

const UNMET: &str = "a condition does not hold";

/// Where the conditions of a node are.
fn conditions(graph: &Graph, index: NodeIndex, field: &str) -> String {
    let source = graph.node(index).source();
    format!("spec.resources[{source}].{field}")
}

// === impl State ===

impl State {
    /// The expression that it is about, on one line.
    pub(in crate::graph) fn expression(&self) -> Option<&str> {
        let (source, _) = self.expression.as_ref()?;
        Some(source)
    }

    fn new(word: &'static str, why: &str) -> Self {
        Self {
            word,
            why: why.to_owned(),
            expression: None,
        }
    }

    fn about(self, source: &str, place: &str) -> Self {
        let expression = Some((one_line(source), place.to_owned()));
        Self { expression, ..self }
    }

    fn waiting(self, wait: &Wait) -> Self {
        let why = format!("waits for {}", wait.path);
        Self { why, ..self }.about(&wait.source, &wait.place)
    }

    fn failing(self, wrong: &Wrong) -> Self {
        match &wrong.source {
            Some(source) => {
                let why = wrong.message.clone();
                Self { why, ..self }.about(source, &wrong.place)
            }
            None => {
                let why = format!("{}, at {}", wrong.message, wrong.place);
                Self { why, ..self }
            }
        }
    }
}

/// By which others, and what these wait for.
fn blocked(graph: &Graph, plan: &Plan, index: NodeIndex, on: &[NodeIndex]) -> String {
    let names: Vec<&str> = on.iter().map(|on| graph.node(*on).id()).collect();
    let by = format!("by {}", names.join(", "));
    let Some(&root) = plan.chain(index).last().filter(|root| **root != index) else {
        return by;
    };
    // What holds it up is not always the first that it reads.
    let who = match on {
        [only] if *only == root => "it".to_owned(),
        _ => graph.node(root).id().to_owned(),
    };
    let State { word, why, .. } = state(graph, plan, root);
    match (&plan.nodes[root.get()], why.as_str()) {
        (Standing::Applying { .. }, _) => format!("{by}: {who} is applied first"),
        (_, why) if word == "failed" => format!("{by}: {who} failed: {why}"),
        (_, "") => format!("{by}: {who} is {word}"),
        (_, why) => format!("{by}: {who} is {word}: {why}"),
    }
}

/// An expression on one line, and not too long.
fn one_line(source: &str) -> String {
    const MOST: usize = 160;
    let line = source.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The expressions that nodes wait for, with the places where they are.
fn expressions(graph: &Graph, plan: &Plan) -> String {
    let mut text = String::new();
    for (index, node) in graph.indexed() {
        let State {
            word,
            why,
            expression,
        } = state(graph, plan, index);
        if let Some((source, place)) = expression {
            text.push_str(&format!("\n{} is {word}: {why}\n", node.id()));
            text.push_str(&format!("  | {source}\n  at {place}\n"));
        }
    }
    text
}

/// What the status says, and what it does not say yet.
fn status(plan: &Plan) -> Result<String, GraphError> {
    let projected = &plan.status;
    let empty = projected.value.as_object().is_none_or(|map| map.is_empty());
    if empty && projected.missing.is_empty() {
        return Ok(String::new());
    }
    let mut text = "\nStatus:\n".to_owned();
    if !empty {
        for line in serde_saphyr::to_string(&projected.value)?.lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    for missing in &projected.missing {
        text.push_str(&match missing {
            Missing::Waiting(wait) => {
                format!("  {} waits for {}\n", field(&wait.place), wait.path)
            }
            Missing::Failed(wrong) => {
                format!("  {} fails: {}\n", field(&wrong.place), wrong.message)
            }
        });
    }
    Ok(text)
}

/// The field of a status, as instances have it.
fn field(place: &str) -> &str {
    place.strip_prefix("spec.schema.status.").unwrap_or(place)
}

/// What is not to be applied, and why, a line each.
pub(super) fn waiting(graph: &Graph, played: &Played) -> String {
    let mut text = String::new();
    for (index, node) in graph.indexed() {
        match &played.plan.nodes[index.get()] {
            Standing::Ready | Standing::Applying { .. } => {}
            Standing::Excluded(_)
            | Standing::Blocked { .. }
            | Standing::Waiting(_)
            | Standing::Failed(_)
            | Standing::Taken { .. }
            | Standing::Ending { .. }
            | Standing::Gated { .. }
            | Standing::Missing { .. }
            | Standing::Unseen
            | Standing::NotReady(_) => {
                let State { word, why, .. } = state(graph, &played.plan, index);
                text.push_str(&format!("{} is {word}: {why}\n", node.id()));
            }
        }
    }
    text
}

/// All that is known.
pub(super) fn json(graph: &Graph, played: &Played) -> Value {
    let plan = &played.plan;
    let nodes = graph.indexed();
    let nodes: Vec<Value> = nodes
        .map(|(index, _)| node_json(graph, plan, index))
        .collect();
    let apply = |apply: &Apply| apply_json(graph, apply);
    let pass = |pass: &Pass| {
        let deleted = pass.deleted.iter();
        let deleted: Vec<Value> = deleted.map(|(node, id)| object_json(node, id)).collect();
        let applied: Vec<Value> = pass.applied.iter().map(apply).collect();
        json!({"applied": applied, "deleted": deleted})
    };
    let prune = plan.prune.iter().map(|one| object_json(&one.node, &one.id));
    let missing = plan.status.missing.iter().map(|missing| match missing {
        Missing::Waiting(wait) => {
            json!({"field": field(&wait.place), "waitingFor": wait.path.to_string()})
        }
        Missing::Failed(wrong) => json!({"field": field(&wrong.place), "error": wrong.message}),
    });
    json!({
        "instance": played.instance,
        "ready": plan.is_ready(),
        "passes": played.passes.iter().map(pass).collect::<Vec<_>>(),
        "resources": nodes,
        "apply": plan.apply.iter().map(apply).collect::<Vec<_>>(),
        "delete": prune.collect::<Vec<_>>(),
        "status": plan.status.value,
        "statusMissing": missing.collect::<Vec<_>>(),
    })
}

fn node_json(graph: &Graph, plan: &Plan, index: NodeIndex) -> Value {
    let node = graph.node(index);
    let State {
        word,
        why,
        expression,
    } = state(graph, plan, index);
    let mut json = json!({
        "id": node.id(),
        "apiVersion": node.gvk().api_version(),
        "kind": node.gvk().kind,
        "state": word,
    });
    if !why.is_empty() {
        json["why"] = why.into();
    }
    let wait = match &plan.nodes[index.get()] {
        Standing::Blocked { on } => {
            let on: Vec<&str> = on.iter().map(|on| graph.node(*on).id()).collect();
            json["blockedBy"] = on.into();
            None
        }
        Standing::Waiting(wait) => Some(wait),
        Standing::NotReady(NotReady {
            why: Unready::Waiting(wait),
            ..
        }) => Some(wait),
        Standing::NotReady(_)
        | Standing::Excluded(_)
        | Standing::Failed(_)
        | Standing::Taken { .. }
        | Standing::Ending { .. }
        | Standing::Applying { .. }
        | Standing::Gated { .. }
        | Standing::Missing { .. }
        | Standing::Unseen
        | Standing::Ready => None,
    };
    if let Some(wait) = wait {
        json["waitingFor"] = wait.path.to_string().into();
    }
    if let Some((source, place)) = expression {
        json["expression"] = source.into();
        json["path"] = place.into();
    }
    json
}

fn apply_json(graph: &Graph, apply: &Apply) -> Value {
    let why = match apply.why {
        Cause::Absent => "absent",
        Cause::Changed => "changed",
        Cause::Drifted => "drifted",
    };
    json!({"resource": graph.node(apply.node).id(), "why": why, "object": apply.object})
}

fn object_json(node: &str, id: &ObjectId) -> Value {
    json!({
        "resource": node,
        "apiVersion": id.gvk.api_version(),
        "kind": id.gvk.kind,
        "namespace": id.namespace,
        "name": id.name,
    })
}
