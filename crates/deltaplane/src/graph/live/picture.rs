//! The graph that an instance runs, its objects, and how it stands with them. Pure, but for reading
//! the objects.

use std::collections::BTreeSet;

use deltaplane_api::admission::Admission;
use deltaplane_api::conditions::OWN;
use deltaplane_client::{Query, Resource};
use deltaplane_graph::plan::{Plan, Standing};
use deltaplane_graph::{Definition, Graph, Node, NodeIndex, compile, labels};
use kube::Client;
use serde_json::{Value, json};

use crate::graph::diff;
use crate::graph::documents::{Document, Place};
use crate::graph::kinds::Kinds;
use crate::graph::plan::{State, cause, planned, state};
use crate::graph::tree::{Drawing, Output};
use crate::rollout::{Condition, Revision, RolloutError, Seen, conditions, objects};

/// What the objects of an instance are found by.
pub(super) struct Sources {
    title: String,
    kinds: Kinds,
    graph: Graph,
    pub(super) queries: Vec<Query>,
}

/// The graph of an instance, and how it stands.
pub(super) struct Picture<'s> {
    drawing: Drawing<'s>,
    there: Vec<Document>,
}

/// What holds a graph: a node that waits for no other, and those that wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The root first.
    pub(crate) nodes: Vec<String>,
    /// How the root stands.
    pub(crate) state: String,
    /// What its objects say of themselves, a line each.
    pub(crate) said: Vec<String>,
}

// === impl Sources ===

impl Sources {
    /// For an instance: of the revision that it runs.
    pub(super) fn of(
        crds: Vec<Value>,
        seen: &Seen,
        instance: &Value,
    ) -> Result<Self, RolloutError> {
        let mut kinds = Kinds::default();
        crds.iter().for_each(|crd| kinds.add_definition(crd));
        let mut definition = seen.definition.clone();
        let admission = Admission::read(instance);
        if let Some(admission) = admission {
            let revision = seen.revision_of(admission);
            let revision = revision.ok_or_else(|| RolloutError::NoRevision {
                definition: seen.name().to_owned(),
                number: admission.at.number,
                known: seen.revisions.iter().map(|one| one.number).collect(),
            })?;
            definition["spec"] = revision.spec.clone();
        }
        let admission = admission.map(|one| one.at.number);
        let number = admission.unwrap_or(0);
        let (_, graph) = compiled(&mut kinds, &definition, (seen.name(), number))?;
        let uid = instance["metadata"]["uid"].as_str().unwrap_or_default();
        let queries: BTreeSet<(Resource, String)> = graph
            .nodes()
            .iter()
            .map(|node| (resource(node), selector(node, uid)))
            .collect();
        let queries = queries.into_iter().map(|(resource, selector)| {
            let query = Query::all(resource);
            match selector.as_str() {
                "" => query,
                selector => query.with_labels(selector),
            }
        });
        Ok(Self {
            title: match admission {
                Some(number) => format!("{} revision {number}", seen.name()),
                None => seen.name().to_owned(),
            },
            queries: queries.collect(),
            kinds,
            graph,
        })
    }

    pub(super) async fn read(&self, client: &Client) -> Result<Vec<Value>, RolloutError> {
        let mut there = Vec::new();
        for query in &self.queries {
            there.extend(objects(client, query).await?);
        }
        Ok(there)
    }

    pub(super) fn picture(
        &self,
        instance: Value,
        there: Vec<Value>,
    ) -> Result<Picture<'_>, RolloutError> {
        let documents = there.into_iter().map(|json| Document {
            place: Place {
                file: String::new(),
                number: 1,
                among_others: false,
            },
            json,
        });
        let there: Vec<Document> = documents.collect();
        let played = planned(&self.kinds, &self.graph, instance, &there)?;
        let drawing = Drawing::of_instance(&self.title, &self.graph, played);
        Ok(Picture { drawing, there })
    }
}

#[cfg(test)]
impl Sources {
    /// What would be applied for an instance of which nothing is there.
    pub(super) fn applied(&self, instance: Value) -> Vec<Value> {
        let played = planned(&self.kinds, &self.graph, instance, &[]);
        let plan = played.expect("a plan").plan;
        plan.apply.into_iter().map(|one| one.object).collect()
    }
}

/// Where the objects of a node are.
fn resource(node: &Node) -> Resource {
    let gvk = node.gvk();
    Resource {
        group: gvk.group.clone(),
        version: gvk.version.clone(),
        plural: node.plural().to_owned(),
        kind: gvk.kind.clone(),
        namespaced: node.namespaced(),
    }
}

/// By which labels: those of others have none that are known.
fn selector(node: &Node, uid: &str) -> String {
    match node.is_external() {
        true => String::new(),
        false => format!("{}={uid}", labels::INSTANCE),
    }
}

/// A definition, with the kinds that are there.
fn compiled(
    kinds: &mut Kinds,
    definition: &Value,
    (name, number): (&str, i64),
) -> Result<(Definition, Graph), RolloutError> {
    let wrong = |problems| RolloutError::Compile {
        definition: name.to_owned(),
        number,
        source: Box::new(problems),
    };
    let read = Definition::read(definition).map_err(wrong)?;
    kinds.prepare(&read.kinds());
    let graph = compile(&read, &|gvk| kinds.look_up(gvk)).map_err(wrong)?;
    Ok((read, graph))
}

/// What is different from a definition as it is to what it was.
pub(super) fn difference(
    crds: &[Value],
    seen: &Seen,
    revision: &Revision,
) -> Result<String, RolloutError> {
    let mut kinds = Kinds::default();
    crds.iter().for_each(|crd| kinds.add_definition(crd));
    let mut then = seen.definition.clone();
    then["spec"] = revision.spec.clone();
    let number = revision.number;
    let (old, old_graph) = compiled(&mut kinds, &then, (seen.name(), number))?;
    let title = format!("{} revision {number}", seen.name());
    let now = compiled(&mut kinds, &seen.definition, (seen.name(), 0));
    Ok(match now {
        Ok((now, now_graph)) => diff::between(
            (seen.name().to_owned(), &now, &now_graph),
            (title, &old, &old_graph),
        ),
        Err(_) => format!(
            "{} is not valid as it is; {title} is (version {})\n",
            seen.name(),
            old_graph.version().short()
        ),
    })
}

// === impl Picture ===

impl Picture<'_> {
    pub(super) fn drawn(&self, output: Output) -> String {
        let text = Drawing::drawn(std::slice::from_ref(&self.drawing), output);
        match output {
            Output::Text => text + &self.conditions(),
            Output::Mermaid | Output::Svg => text,
        }
    }

    /// What the instance says of itself, as far as something is open.
    fn conditions(&self) -> String {
        let Some(played) = self.drawing.played() else {
            return String::new();
        };
        let all = conditions(&played.instance).into_iter();
        // `Ready` repeats one of the others.
        let repeats = |name: &str| name.strip_prefix(OWN).unwrap_or(name) == "Ready";
        let open = all.filter(|one| one.status != "True" && !repeats(&one.name));
        open.map(|one| format!("{one}\n")).collect()
    }

    /// What holds it: each root once, with all that wait for it.
    pub(super) fn causes(&self) -> Vec<Cause> {
        let Some(played) = self.drawing.played() else {
            return Vec::new();
        };
        let (graph, plan) = (self.drawing.graph, &played.plan);
        let mut causes: Vec<(NodeIndex, Cause)> = Vec::new();
        for (index, node) in graph.indexed() {
            match &plan.nodes[index.get()] {
                Standing::Excluded(_) => continue,
                Standing::Ready if plan.gated(index).next().is_none() => continue,
                Standing::Blocked { .. } => {
                    let root = plan.chain(index).last().copied();
                    let found = causes.iter_mut().find(|(at, _)| Some(*at) == root);
                    if let Some((_, cause)) = found {
                        cause.nodes.push(node.id().to_owned());
                    }
                }
                Standing::Ready
                | Standing::Waiting(_)
                | Standing::Failed(_)
                | Standing::Taken { .. }
                | Standing::Ending { .. }
                | Standing::Applying { .. }
                | Standing::Gated { .. }
                | Standing::Missing { .. }
                | Standing::Unseen
                | Standing::NotReady(_) => {
                    let state = told(graph, plan, index);
                    let nodes = vec![node.id().to_owned()];
                    let said = self.said(node);
                    causes.push((index, Cause { nodes, state, said }));
                }
            }
        }
        causes.into_iter().map(|(_, cause)| cause).collect()
    }

    /// What the objects of a node say of themselves, as far as something is open.
    fn said(&self, node: &Node) -> Vec<String> {
        let label = labels::value(node.id());
        let there = self.there.iter().map(|document| &document.json);
        let own = there.filter(|json| json["metadata"]["labels"][labels::NODE] == label);
        own.flat_map(|json| {
            let kind = json["kind"].as_str().unwrap_or_default();
            let name = json["metadata"]["name"].as_str().unwrap_or_default();
            let open = conditions(json).into_iter().filter(is_open);
            open.map(move |one| format!("{kind} {name}: {one}"))
        })
        .collect()
    }
}

/// How a node stands that waits for no other, with the expression that does not hold.
fn told(graph: &Graph, plan: &Plan, index: NodeIndex) -> String {
    if let Standing::Applying { .. } = &plan.nodes[index.get()] {
        let apply = plan.apply.iter().find(|one| one.node == index);
        let why = apply.map_or("", |one| cause(one.why));
        return format!("to be applied: {why}");
    }
    let state = state(graph, plan, index);
    let State { word, why, .. } = &state;
    match (why.as_str(), state.expression()) {
        ("", None) => (*word).to_owned(),
        (why, None) => format!("{word}: {why}"),
        (why, Some(expression)) => format!("{word}: {why}: {expression}"),
    }
}

/// Whether a condition says that something is not as it should be.
fn is_open(condition: &Condition) -> bool {
    let bad = ["Failure", "Failed", "Stalled", "Degraded", "Pressure"];
    let is_bad = bad.iter().any(|word| condition.name.ends_with(word));
    (condition.status == "True") == is_bad
}

// === impl Cause ===

impl Cause {
    /// `deployment is not ready: …; service waits for it`.
    pub(crate) fn head(&self) -> String {
        let (root, others) = match self.nodes.split_first() {
            Some((root, others)) => (root.as_str(), others),
            None => ("", &[][..]),
        };
        let said = match self.state.strip_prefix("failed") {
            Some(why) => format!("{root} failed{why}"),
            None => format!("{root} is {}", self.state),
        };
        match others {
            [] => said,
            [one] => format!("{said}; {one} waits for it"),
            some => format!("{said}; {} wait for it", some.join(", ")),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let waiting: Vec<&String> = self.nodes.iter().skip(1).collect();
        json!({
            "resource": self.nodes.first(),
            "state": self.state,
            "waiting": waiting,
            "said": self.said,
        })
    }
}
