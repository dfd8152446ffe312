//! Two definitions, and all that is different.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_api::field::Path;
use deltaplane_graph::{Body, Definition, Graph, Node, Resource};
use deltaplane_schema::compat;
use serde_json::{Map, Value};

/// A definition to compare.
pub(super) struct Side<'s> {
    pub(super) title: String,
    pub(super) definition: &'s Definition,
    pub(super) graph: &'s Graph,
}

/// What is different.
pub(super) struct Diff {
    pub(super) from: Named,
    pub(super) to: Named,
    /// Of the kind: its names and its schema.
    pub(super) kind: Vec<KindChange>,
    /// Where the status comes from.
    pub(super) status: Vec<ValueChange>,
    /// Gates of instances.
    pub(super) gates: Vec<ValueChange>,
    pub(super) added: Vec<Whole>,
    pub(super) removed: Vec<Whole>,
    pub(super) changed: Vec<NodeChange>,
    /// The nodes before and now, if those that stay come in another order.
    pub(super) order: Option<(Vec<String>, Vec<String>)>,
}

/// What a definition is called, and its version.
pub(super) struct Named {
    pub(super) title: String,
    pub(super) kind: String,
    pub(super) version: String,
}

/// A node that only one side has.
pub(super) struct Whole {
    pub(super) id: String,
    pub(super) kind: String,
    /// Its objects are those of others.
    pub(super) external: bool,
}

pub(super) struct KindChange {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) breaking: bool,
}

/// A value in a document.
#[derive(Debug, PartialEq)]
pub(super) struct ValueChange {
    pub(super) path: String,
    pub(super) old: Option<Value>,
    pub(super) new: Option<Value>,
}

/// A node that stays and is different.
pub(super) struct NodeChange {
    pub(super) id: String,
    pub(super) kind: String,
    /// Its objects may be others: the old ones are deleted.
    pub(super) replaced: bool,
    pub(super) values: Vec<ValueChange>,
    pub(super) gates: Vec<ValueChange>,
    /// Nodes that it reads now, or does not read any more.
    pub(super) reads: Vec<String>,
    pub(super) reads_not: Vec<String>,
}

const GATES: [&str; 3] = ["propagateWhen", "orderBy", "deletionBudget"];
/// Names whose change makes it another kind.
const IDENTITY: [&str; 4] = ["group", "scope", "names.kind", "names.plural"];

// === impl Diff ===

impl Diff {
    /// Whether instances that were valid may not be so any more.
    pub(super) fn is_breaking(&self) -> bool {
        self.kind.iter().any(|change| change.breaking)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kind.is_empty()
            && self.status.is_empty()
            && self.gates.is_empty()
            && self.added.is_empty()
            && self.removed.is_empty()
            && self.changed.is_empty()
            && self.order.is_none()
    }
}

pub(super) fn compare(old: Side<'_>, new: Side<'_>) -> Diff {
    let (old_spec, new_spec) = (old.definition.spec(), new.definition.spec());
    let old_nodes: BTreeMap<&str, &Node> = by_id(old.graph);
    let new_nodes: BTreeMap<&str, &Node> = by_id(new.graph);
    let whole = |node: &Node| Whole {
        id: node.id().to_owned(),
        kind: node.gvk().to_string(),
        external: node.is_external(),
    };
    let added = new.graph.nodes().iter();
    let added = added.filter(|node| !old_nodes.contains_key(node.id()));
    let removed = old.graph.nodes().iter();
    let removed = removed.filter(|node| !new_nodes.contains_key(node.id()));
    let kept = new.graph.nodes().iter();
    let kept = kept.filter_map(|node| Some((*old_nodes.get(node.id())?, node)));
    let changed = kept
        .filter_map(|pair| node_change(&old, &new, pair))
        .collect();
    let gates = (pick(old_spec, &GATES), pick(new_spec, &GATES));
    Diff {
        kind: kind_changes(old.graph.crd(), new.graph.crd()),
        status: values(
            &old_spec["schema"]["status"],
            &new_spec["schema"]["status"],
            "status",
        ),
        gates: values(&gates.0, &gates.1, ""),
        added: added.map(whole).collect(),
        removed: removed.map(whole).collect(),
        changed,
        order: order(old.graph, new.graph),
        from: named(&old),
        to: named(&new),
    }
}

fn named(side: &Side<'_>) -> Named {
    let kind = side.graph.kind();
    Named {
        title: side.title.clone(),
        kind: format!("{}/{} {}", kind.group, kind.version, kind.kind),
        version: side.graph.version().short().to_owned(),
    }
}

fn by_id(graph: &Graph) -> BTreeMap<&str, &Node> {
    graph.nodes().iter().map(|node| (node.id(), node)).collect()
}

fn kind_changes(old: &Value, new: &Value) -> Vec<KindChange> {
    let names = ["group", "scope", "names"];
    let names = values(&pick(&old["spec"], &names), &pick(&new["spec"], &names), "");
    let mut changes: Vec<KindChange> = names
        .into_iter()
        .map(|change| KindChange {
            breaking: IDENTITY.contains(&change.path.as_str()),
            text: change.to_string(),
            path: change.path,
        })
        .collect();
    let version = |crd: &Value| crd["spec"]["versions"][0].clone();
    let schema = compat::version_changes(&version(old), &version(new));
    changes.extend(schema.into_iter().map(|change| KindChange {
        path: change.path.as_str().to_owned(),
        text: change.to_string(),
        breaking: change.is_breaking(),
    }));
    changes
}

fn node_change(
    old: &Side<'_>,
    new: &Side<'_>,
    (before, now): (&Node, &Node),
) -> Option<NodeChange> {
    let raw =
        |side: &Side<'_>, node: &Node| side.definition.spec()["resources"][node.source()].clone();
    let (old_raw, new_raw) = (raw(old, before), raw(new, now));
    let (all, gates): (Vec<ValueChange>, Vec<ValueChange>) = values(&old_raw, &new_raw, "")
        .into_iter()
        .partition(|change| !GATES.iter().any(|gate| change.path.starts_with(gate)));
    let ids = |side: &Side<'_>, node: &Node| -> BTreeSet<String> {
        let on = node.depends_on().iter();
        on.map(|on| side.graph.node(*on).id().to_owned()).collect()
    };
    let (old_ids, new_ids) = (ids(old, before), ids(new, now));
    let bodies = (
        &old.definition.resources()[before.source()],
        &new.definition.resources()[now.source()],
    );
    let change = NodeChange {
        id: now.id().to_owned(),
        kind: now.gvk().to_string(),
        replaced: is_replaced(bodies.0, bodies.1),
        values: all,
        gates,
        reads: new_ids.difference(&old_ids).cloned().collect(),
        reads_not: old_ids.difference(&new_ids).cloned().collect(),
    };
    let same = change.values.is_empty()
        && change.gates.is_empty()
        && change.reads.is_empty()
        && change.reads_not.is_empty();
    (!same).then_some(change)
}

/// Whether the objects of a node may be others than before.
fn is_replaced(old: &Resource, new: &Resource) -> bool {
    let identity = |resource: &Resource| match &resource.body {
        Body::Template(template) => Some([
            template["apiVersion"].clone(),
            template["kind"].clone(),
            template["metadata"]["name"].clone(),
            template["metadata"]["namespace"].clone(),
        ]),
        Body::External(_) => None,
    };
    match (identity(old), identity(new)) {
        (Some(old), Some(new)) => old != new,
        // What was made is deleted.
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// The order of all nodes, if those that are in both come in another.
fn order(old: &Graph, new: &Graph) -> Option<(Vec<String>, Vec<String>)> {
    let ids = |graph: &Graph, other: &Graph| -> Vec<String> {
        let kept = graph.order().filter(|id| other.find(id).is_some());
        kept.map(str::to_owned).collect()
    };
    let (before, now) = (ids(old, new), ids(new, old));
    let all = |graph: &Graph| graph.order().map(str::to_owned).collect();
    (before != now).then(|| (all(old), all(new)))
}

/// Only these fields.
fn pick(object: &Value, fields: &[&str]) -> Value {
    let pairs = fields.iter().filter_map(|field| {
        let value = object.get(field)?;
        Some(((*field).to_owned(), value.clone()))
    });
    Value::Object(pairs.collect())
}

/// All values that are different, in the order of the fields.
fn values(old: &Value, new: &Value, at: &str) -> Vec<ValueChange> {
    let mut changes = Vec::new();
    let path = match at {
        "" => Path::root(),
        at => Path::new(at),
    };
    walk(Some(old), Some(new), &path, &mut changes);
    changes
}

/// Documents bound how deep this goes.
fn walk(old: Option<&Value>, new: Option<&Value>, path: &Path, changes: &mut Vec<ValueChange>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            for key in keys(old, new) {
                let path = match key.contains(['.', '/', '[']) || key.is_empty() {
                    true => path.key(key),
                    false => path.child(key),
                };
                walk(old.get(key), new.get(key), &path, changes);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => lists(old, new, path, changes),
        (old, new) => changes.push(ValueChange {
            path: path.as_str().to_owned(),
            old: old.cloned(),
            new: new.cloned(),
        }),
    }
}

/// Items that all have names are compared by these; others by their places.
fn lists(old: &[Value], new: &[Value], path: &Path, changes: &mut Vec<ValueChange>) {
    if let (Some(old), Some(new)) = (named_items(old), named_items(new)) {
        let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
        for name in names {
            let path = path.key(name);
            walk(
                old.get(name).copied(),
                new.get(name).copied(),
                &path,
                changes,
            );
        }
        return;
    }
    for index in 0..old.len().max(new.len()) {
        walk(old.get(index), new.get(index), &path.index(index), changes);
    }
}

fn named_items(items: &[Value]) -> Option<BTreeMap<&str, &Value>> {
    let named = items
        .iter()
        .map(|item| Some((item["name"].as_str()?, item)));
    let named: BTreeMap<&str, &Value> = named.collect::<Option<_>>()?;
    (named.len() == items.len() && !items.is_empty()).then_some(named)
}

fn keys<'v>(old: &'v Map<String, Value>, new: &'v Map<String, Value>) -> BTreeSet<&'v String> {
    old.keys().chain(new.keys()).collect()
}
