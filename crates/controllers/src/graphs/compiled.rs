//! Graphs that were compiled, for as long as the kinds that they were compiled with are the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_client::Catalog;
use deltaplane_graph::{Definition, Graph, Gvk, Lookup, Problems, compile};
use deltaplane_runtime::aside;
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use super::definition::refused_names;
use super::kinds::Kinds;

/// All of them. Cheap to clone.
#[derive(Clone)]
pub(super) struct Compiled {
    kinds: Arc<Kinds>,
    /// So many are compiled at once.
    places: Arc<Semaphore>,
    /// By the name of the definition, and by what it says.
    graphs: Arc<Mutex<BTreeMap<String, BTreeMap<Said, Entry>>>>,
    /// By the name of the definition: the kinds that are served for it.
    served: Arc<Mutex<BTreeMap<String, Vec<ServedName>>>>,
}

/// The names under which a kind is served.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ServedName {
    group: String,
    kind: String,
    plural: String,
}

type Said = [u8; 32];

/// Whoever compiles takes a processor.
const AT_ONCE: usize = 4;

/// Why there is no graph.
pub(super) enum Uncompiled {
    /// The definition is wrong.
    Wrong(Problems),
    /// It cannot be told now what a kind looks like; why.
    Later(String),
}

struct Entry {
    graph: Arc<Graph>,
    with: BTreeMap<Gvk, Lookup>,
    /// Whether somebody asked for it since it was last swept.
    used: bool,
}

// === impl Compiled ===

impl Compiled {
    pub(super) fn new(kinds: Kinds) -> Self {
        Self {
            kinds: Arc::new(kinds),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            graphs: Arc::default(),
            served: Arc::default(),
        }
    }

    /// Takes note of the kinds that are served for a definition, whoever made them: what is served
    /// under an unusual plural keeps it.
    pub(super) fn see_kinds(&self, name: &str, kinds: &[Arc<Value>]) {
        let mut served = self.served.lock();
        match kinds.is_empty() {
            true => served.remove(name),
            false => served.insert(name.to_owned(), served_names(kinds)),
        };
    }

    /// The plural under which the kind of a definition is served, if it is.
    fn served_plural(&self, name: &str, definition: &Definition) -> Option<String> {
        let schema = definition.schema();
        let served = self.served.lock();
        let mut names = served.get(name)?.iter();
        let same = |one: &&ServedName| one.group == schema.group && one.kind == schema.kind;
        Some(names.find(same)?.plural.clone())
    }

    /// The graph of a definition.
    pub(super) async fn graph(
        &self,
        object: &Value,
        catalog: &Catalog,
    ) -> Result<Arc<Graph>, Uncompiled> {
        let definition = Definition::read(object).map_err(Uncompiled::Wrong)?;
        let with = self.kinds.look_up(definition.kinds(), catalog).await;
        let unavailable = |(gvk, lookup): (&Gvk, &Lookup)| match lookup {
            Lookup::Unavailable(why) => Some(format!("{gvk} cannot be looked at now: {why}")),
            Lookup::Known(_) | Lookup::Absent => None,
        };
        let (name, said) = (name(object), said(object));
        let plural = self.served_plural(name, &definition);
        let definition = definition.served_as(plural);
        let plural = definition.schema().plural();
        if let Some(why) = with.iter().find_map(unavailable) {
            // What it was compiled with may still be so.
            return self.find_any(name, &said).ok_or(Uncompiled::Later(why));
        }
        if let Some(graph) = self.find((name, &said), &with, &plural) {
            return Ok(graph);
        }
        let graph = {
            // It is never closed.
            let _place = self.places.acquire().await.ok();
            compiled(definition, with.clone()).await?
        };
        let entry = Entry {
            graph: graph.clone(),
            with,
            used: true,
        };
        let mut graphs = self.graphs.lock();
        let of_name = graphs.entry(name.to_owned()).or_default();
        of_name.insert(said, entry);
        Ok(graph)
    }

    fn find(
        &self,
        (name, said): (&str, &Said),
        with: &BTreeMap<Gvk, Lookup>,
        plural: &str,
    ) -> Option<Arc<Graph>> {
        let mut graphs = self.graphs.lock();
        let entry = graphs.get_mut(name)?.get_mut(said)?;
        let same = with.len() == entry.with.len()
            && entry.graph.kind().plural == plural
            && with.iter().zip(&entry.with).all(|(a, b)| is_same(a, b));
        entry.used |= same;
        same.then(|| entry.graph.clone())
    }

    fn find_any(&self, name: &str, said: &Said) -> Option<Arc<Graph>> {
        let mut graphs = self.graphs.lock();
        let entry = graphs.get_mut(name)?.get_mut(said)?;
        entry.used = true;
        Some(entry.graph.clone())
    }

    /// Forgets the graphs of a definition that nobody asked for since this was last called.
    pub(super) fn sweep(&self, name: &str) {
        let mut graphs = self.graphs.lock();
        if let Some(of_name) = graphs.get_mut(name) {
            of_name.retain(|_, entry| std::mem::take(&mut entry.used));
            if of_name.is_empty() {
                graphs.remove(name);
            }
        }
    }
}

/// The names of kinds that are there to stay, those that the API accepted first.
fn served_names(kinds: &[Arc<Value>]) -> Vec<ServedName> {
    let going = |kind: &Value| kind["metadata"]["deletionTimestamp"].is_string();
    let mut kinds: Vec<&Value> = kinds.iter().map(|kind| &**kind).collect();
    kinds.retain(|kind| !going(kind));
    let refused = |kind: &Value| refused_names(kind).is_some();
    kinds.sort_by_key(|kind| refused(kind));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = kinds.into_iter().map(|kind| {
        let spec = &kind["spec"];
        ServedName {
            group: text(&spec["group"]),
            kind: text(&spec["names"]["kind"]),
            plural: text(&spec["names"]["plural"]),
        }
    });
    names.collect()
}

/// Compiles beside what else there is to do: a large definition takes long, and others need not wait
/// for it.
async fn compiled(
    definition: Definition,
    with: BTreeMap<Gvk, Lookup>,
) -> Result<Arc<Graph>, Uncompiled> {
    let graph = aside(move || {
        compile(&definition, &|gvk| {
            with.get(gvk).cloned().unwrap_or(Lookup::Absent)
        })
    });
    let ended = || Uncompiled::Later("the process ends".to_owned());
    let graph = graph.await.ok_or_else(ended)?;
    graph.map(Arc::new).map_err(Uncompiled::Wrong)
}

fn is_same((a, one): (&Gvk, &Lookup), (b, other): (&Gvk, &Lookup)) -> bool {
    let same = match (one, other) {
        (Lookup::Known(one), Lookup::Known(other)) => Arc::ptr_eq(one, other),
        (Lookup::Absent, Lookup::Absent) => true,
        // Something else may be found next time.
        (Lookup::Known(_) | Lookup::Absent | Lookup::Unavailable(_), _) => false,
    };
    a == b && same
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// A digest of all that a graph is made of.
fn said(object: &Value) -> Said {
    // A value of JSON can always be written.
    let text = serde_json::to_vec(&object["spec"]).unwrap_or_default();
    Sha256::digest(text).into()
}
