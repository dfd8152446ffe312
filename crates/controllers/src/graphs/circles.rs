//! Graphs that make instances of each other, which would go on for ever, and graphs whose gates wait
//! for each other, which would never begin. Pure but for the lock.
//!
//! What counts is all that instances may run: what was admitted last, and every revision that is
//! kept. So the answer does not depend on which definition is looked at first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use deltaplane_graph::{Graph, Node};
use deltaplane_propagation::state_reads;
use parking_lot::Mutex;
use serde_json::Value;

use super::api;
use super::revision::Revision;

/// Which kinds the graphs of definitions make objects of. Cheap to clone.
#[derive(Clone, Default)]
pub struct Circles(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// By the kind of the instances, and by who makes them so.
    makes: BTreeMap<GroupKind, BTreeMap<Source, Edges>>,
    /// The kind of each source.
    kinds: BTreeMap<Source, GroupKind>,
    /// Definitions that led in a circle when they were last looked at.
    refused: BTreeSet<String>,
}

/// What says that a kind makes others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// What was admitted last of the definition of this name.
    Admitted(String),
    /// The revision that is an object of this name, of a definition.
    Kept { definition: String, name: String },
}

struct Makes {
    kind: GroupKind,
    edges: Edges,
}

/// What instances of a kind depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Edges {
    /// The kinds that they make objects of.
    makes: BTreeSet<GroupKind>,
    /// The kinds whose status or readiness the gates of their nodes read.
    waits_for: BTreeSet<GroupKind>,
}

/// How one kind leads to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Makes,
    WaitsFor,
}

/// A kind, and what leads to it.
type Step<'a> = (Option<(&'a Source, Relation)>, &'a GroupKind);
type GroupKind = (String, String);

// === impl Circles ===

impl Circles {
    /// Notes what the graph of a definition makes, unless that leads back to its own kind, or what
    /// it was does: then the way there.
    pub(super) fn admit(&self, definition: &str, graph: &Graph) -> Result<(), String> {
        self.note(definition, Makes::of_graph(graph))
    }

    /// Returns what `admit` would, and changes nothing.
    pub(super) fn would_admit(&self, definition: &str, graph: &Graph) -> Result<(), String> {
        let mut known = self.0.lock();
        let (before, led) = known.replace(definition, Makes::of_graph(graph));
        known.restore(definition, before);
        led
    }

    fn note(&self, definition: &str, makes: Makes) -> Result<(), String> {
        let mut known = self.0.lock();
        let (before, led) = known.replace(definition, makes);
        if led.is_ok() {
            known.refused.remove(definition);
        } else {
            // The definition that was admitted before stays in force.
            known.restore(definition, before);
            known.refused.insert(definition.to_owned());
        }
        led
    }

    /// Whether what is kept of a definition leads in a circle: then the way.
    pub(super) fn check(&self, definition: &str) -> Result<(), String> {
        let known = self.0.lock();
        let way = known.circle(definition);
        way.map_or(Ok(()), |way| Err(told(&way)))
    }

    /// A revision is kept.
    pub(super) fn keep(&self, definition: &str, revision: &Revision) {
        if let Some(makes) = Makes::of_spec(&revision.spec) {
            let source = Source::kept(definition, &revision.name);
            self.0.lock().insert(source, makes);
        }
    }

    /// A revision is gone.
    pub(super) fn drop_revision(&self, definition: &str, name: &str) {
        self.0.lock().remove(&Source::kept(definition, name));
    }

    /// The definition is gone.
    pub(super) fn forget(&self, definition: &str) {
        let mut known = self.0.lock();
        known.remove(&Source::Admitted(definition.to_owned()));
        known.refused.remove(definition);
    }

    /// Definitions that may be admitted now that others make less.
    pub(super) fn refused(&self) -> Vec<String> {
        self.0.lock().refused.iter().cloned().collect()
    }
}

/// Why there must not be such a way.
fn told(way: &[Step<'_>]) -> String {
    let shown = way.iter().map(|(by, (_, kind))| match by {
        None => kind.clone(),
        Some((_, Relation::Makes)) => format!(" makes {kind}"),
        Some((_, Relation::WaitsFor)) => format!(" waits for {kind}"),
    });
    let shown: String = shown.collect();
    let mut steps = way.iter().filter_map(|(by, _)| *by);
    let mut why = match steps.any(|(_, relation)| relation == Relation::WaitsFor) {
        true => format!("gates would wait for each other without end: {shown}"),
        false => format!("its instances would make each other without end: {shown}"),
    };
    let mut old = way.iter().filter_map(|(by, _)| match by {
        Some((Source::Kept { name, .. }, _)) => Some(name.as_str()),
        Some((Source::Admitted(_), _)) | None => None,
    });
    if let Some(old) = old.next() {
        why += &format!(
            "; hint: instances may run the GraphRevision {old}; delete it if none does any more"
        );
    }
    why
}

// === impl Known ===

impl Known {
    /// Admits a definition as it is now. Returns what was admitted before, and the way in a circle
    /// to which it leads.
    fn replace(&mut self, definition: &str, makes: Makes) -> (Option<Makes>, Result<(), String>) {
        let source = Source::Admitted(definition.to_owned());
        let before = self.remove(&source);
        self.insert(source, makes);
        let way = self.circle(definition).map(|way| told(&way));
        (before, way.map_or(Ok(()), Err))
    }

    /// Admits what was before, if there was something.
    fn restore(&mut self, definition: &str, before: Option<Makes>) {
        let source = Source::Admitted(definition.to_owned());
        self.remove(&source);
        if let Some(before) = before {
            self.insert(source, before);
        }
    }

    fn insert(&mut self, source: Source, makes: Makes) {
        self.remove(&source);
        self.kinds.insert(source.clone(), makes.kind.clone());
        let of_kind = self.makes.entry(makes.kind).or_default();
        of_kind.insert(source, makes.edges);
    }

    fn remove(&mut self, source: &Source) -> Option<Makes> {
        let kind = self.kinds.remove(source)?;
        let of_kind = self.makes.get_mut(&kind)?;
        let edges = of_kind.remove(source)?;
        if of_kind.is_empty() {
            self.makes.remove(&kind);
        }
        Some(Makes { kind, edges })
    }

    /// From a kind of a definition over others back to it, if that can be.
    fn circle(&self, definition: &str) -> Option<Vec<Step<'_>>> {
        let ours = self.kinds.iter();
        let ours = ours.filter(|(source, _)| source.definition() == definition);
        let kinds: BTreeSet<&GroupKind> = ours.map(|(_, kind)| kind).collect();
        let back = |waits: bool| {
            let mut kinds = kinds.iter();
            kinds.find_map(|kind| self.way_back(kind, waits))
        };
        back(false).or_else(|| back(true))
    }

    /// The shortest, by what is made or by what gates wait for, too.
    fn way_back<'a>(&'a self, from: &'a GroupKind, waits: bool) -> Option<Vec<Step<'a>>> {
        // Who led to each kind.
        let mut steps: Steps<'a> = BTreeMap::new();
        let mut next = VecDeque::from([from]);
        while let Some(kind) = next.pop_front() {
            let sources = self.makes.get(kind).into_iter().flatten();
            let led = sources.flat_map(|(source, edges)| {
                let to = edges.to(kind, waits);
                to.map(move |(relation, one)| ((source, relation), one))
            });
            for (by, one) in led {
                if steps.contains_key(one) {
                    continue;
                }
                steps.insert(one, (by, kind));
                if one == from {
                    return Some(retraced(&steps, from));
                }
                next.push_back(one);
            }
        }
        None
    }
}

/// What led to each kind, and from which.
type Steps<'a> = BTreeMap<&'a GroupKind, ((&'a Source, Relation), &'a GroupKind)>;

// === impl Edges ===

impl Edges {
    /// Returns the kinds that instances of a kind lead to. One that waits for others of its own
    /// kind may wait for a particular one, which does not wait for it.
    fn to<'a>(
        &'a self,
        kind: &'a GroupKind,
        waits: bool,
    ) -> impl Iterator<Item = (Relation, &'a GroupKind)> {
        let makes = self.makes.iter().map(|one| (Relation::Makes, one));
        let others = self.waits_for.iter();
        let others = others.filter(move |one| waits && *one != kind);
        makes.chain(others.map(|one| (Relation::WaitsFor, one)))
    }
}

/// The way back to a kind, from its beginning.
fn retraced<'a>(steps: &Steps<'a>, to: &'a GroupKind) -> Vec<Step<'a>> {
    let mut way = Vec::new();
    let mut at = to;
    while let Some((by, before)) = steps.get(at) {
        way.push((Some(*by), at));
        at = *before;
        if at == to {
            break;
        }
    }
    way.push((None, to));
    way.reverse();
    way
}

// === impl Source ===

impl Source {
    fn kept(definition: &str, name: &str) -> Self {
        Self::Kept {
            definition: definition.to_owned(),
            name: name.to_owned(),
        }
    }

    fn definition(&self) -> &str {
        match self {
            Self::Admitted(definition) | Self::Kept { definition, .. } => definition,
        }
    }
}

// === impl Makes ===

impl Makes {
    fn of_graph(graph: &Graph) -> Self {
        let kind = graph.kind();
        let made = graph.nodes().iter().filter(|node| !node.is_external());
        let named = |node: &Node| (node.gvk().group.clone(), node.gvk().kind.clone());
        let gated = graph.nodes().iter().flat_map(|node| {
            let when = node.gate().when().unwrap_or_default().iter();
            when.flat_map(|one| {
                let reads = one.reads.iter();
                let state = state_reads(&one.source);
                reads.filter(move |id| state.contains(id.as_str()))
            })
            .filter(|id| *id != node.id())
            .filter_map(|id| graph.find(id))
        });
        Self {
            kind: (kind.group.clone(), kind.kind.clone()),
            edges: Edges {
                makes: made.map(named).collect(),
                waits_for: gated.map(|index| named(graph.node(index))).collect(),
            },
        }
    }

    /// As a definition says it: what was compiled once has kinds that are no expressions.
    fn of_spec(spec: &Value) -> Option<Self> {
        let schema = &spec["schema"];
        let group = schema["group"].as_str().unwrap_or(api::GROUP);
        let resources = spec["resources"].as_array().into_iter().flatten();
        let resources: Vec<&Value> = resources.collect();
        let made = resources.iter();
        let made = made.filter_map(|one| written_kind(&one["template"]));
        Some(Self {
            kind: (group.to_owned(), schema["kind"].as_str()?.to_owned()),
            edges: Edges {
                makes: made.collect(),
                waits_for: waited_for(&resources),
            },
        })
    }
}

/// Returns the kind of a template or an external reference.
fn written_kind(object: &Value) -> Option<GroupKind> {
    let version = object["apiVersion"].as_str()?;
    let group = version.split_once('/').map_or("", |(group, _)| group);
    Some((group.to_owned(), object["kind"].as_str()?.to_owned()))
}

/// Returns the kinds whose state the gates of resources read, as a definition is written.
fn waited_for(resources: &[&Value]) -> BTreeSet<GroupKind> {
    let mut kinds = BTreeSet::new();
    for resource in resources {
        let when = resource["propagateWhen"].as_array().into_iter().flatten();
        let state = when.filter_map(Value::as_str).flat_map(state_reads);
        let state: BTreeSet<Arc<str>> = state.collect();
        let read = resources.iter().filter(|other| {
            let id = other["id"].as_str().unwrap_or_default();
            other["id"] != resource["id"] && state.contains(id)
        });
        let read = read.filter_map(|other| {
            written_kind(&other["template"]).or_else(|| written_kind(&other["externalRef"]))
        });
        kinds.extend(read);
    }
    kinds
}

#[cfg(test)]
mod tests {
    use deltaplane_api::field::Path;
    use deltaplane_graph::{Definition, Gvk, Known, Lookup, compile};
    use deltaplane_schema::crd;
    use serde_json::json;

    use super::*;

    const ENDLESS: &str = "its instances would make each other without end: ";

    /// `Hen: Egg Nest ?Straw`, what a definition of that name makes and what its gates wait for.
    fn note(circles: &Circles, line: &str) -> Result<(), String> {
        let (kind, of) = line.split_once(':').expect("a kind, and what it makes");
        let named = |kind: &str| (api::GROUP.to_owned(), kind.to_owned());
        let (waits, of): (Vec<&str>, Vec<&str>) =
            of.split_whitespace().partition(|one| one.starts_with('?'));
        let waits: Vec<&str> = waits
            .iter()
            .map(|one| one.trim_start_matches('?'))
            .collect();
        let makes = Makes {
            kind: named(kind),
            edges: Edges {
                makes: of.iter().map(|one| named(one)).collect(),
                waits_for: waits.iter().map(|one| named(one)).collect(),
            },
        };
        circles.note(kind, makes)
    }

    /// The same, as a revision that is kept.
    fn keep(circles: &Circles, line: &str) {
        let (kind, of) = line.split_once(':').expect("a kind, and what it makes");
        let resources = of.split_whitespace().map(|kind| {
            let api_version = format!("{}/v1", api::GROUP);
            json!({"template": {"apiVersion": api_version, "kind": kind}})
        });
        let resources: Value = resources.collect();
        let spec = json!({"schema": {"kind": kind}, "resources": resources});
        let revision = Revision {
            name: format!("{}-r00001", kind.to_lowercase()),
            number: 1,
            hash: String::new(),
            spec,
            generation: None,
            status: Value::Null,
            owner: None,
            finalizing: false,
        };
        circles.keep(kind, &revision);
    }

    #[test]
    fn what_leads_back_is_refused() {
        let circles = Circles::default();
        for fine in [
            "Hen: Egg Nest",
            "Nest: Straw",
            "Egg: Shell Nest",
            "Egg: Shell",
        ] {
            assert_eq!(note(&circles, fine), Ok(()), "{fine}");
        }
        let way = note(&circles, "Egg: Shell Hen");
        assert_eq!(way, Err(format!("{ENDLESS}Egg makes Hen makes Egg")));
        let way = note(&circles, "Shell: Shell");
        assert_eq!(way, Err(format!("{ENDLESS}Shell makes Shell")));
        // What was noted before counts.
        assert_eq!(note(&circles, "Straw: Egg"), Ok(()));
        let way = note(&circles, "Shell: Straw");
        let long = format!("{ENDLESS}Shell makes Straw makes Egg makes Shell");
        assert_eq!(way, Err(long));
        assert_eq!(circles.refused(), ["Egg", "Shell"]);
        circles.forget("Straw");
        assert_eq!(note(&circles, "Shell: Straw"), Ok(()));
    }

    #[test]
    fn what_is_kept_counts_before_anything_is_admitted() {
        let circles = Circles::default();
        keep(&circles, "Hen: Egg");
        keep(&circles, "Egg: Shell");
        let way = note(&circles, "Egg: Hen").expect_err("a circle");
        assert!(way.starts_with(&format!("{ENDLESS}Egg makes Hen makes Egg; hint: ")));
        assert!(way.contains("GraphRevision hen-r00001"), "{way}");
        // What it was before is none.
        assert_eq!(circles.check("Egg"), Ok(()));
        assert_eq!(note(&circles, "Hen: Egg"), Ok(()));
        // Nor what it says now, but instances may run what was.
        assert_eq!(note(&circles, "Hen: Nest"), Ok(()));
        assert!(note(&circles, "Egg: Hen").is_err());
        circles.drop_revision("Hen", "hen-r00001");
        assert_eq!(note(&circles, "Egg: Hen"), Ok(()));
    }

    #[test]
    fn gates_that_wait_for_each_other_are_refused() {
        const WAITING: &str = "gates would wait for each other without end: ";
        let circles = Circles::default();
        assert_eq!(note(&circles, "Hen: Nest ?Egg"), Ok(()));
        // One of the same kind may be there already.
        assert_eq!(note(&circles, "Egg: ?Egg"), Ok(()));
        let way = note(&circles, "Egg: Shell ?Hen");
        assert_eq!(
            way,
            Err(format!("{WAITING}Egg waits for Hen waits for Egg"))
        );
        let way = note(&circles, "Egg: Hen");
        assert_eq!(way, Err(format!("{WAITING}Egg makes Hen waits for Egg")));
        assert_eq!(note(&circles, "Hen: Nest"), Ok(()));
        assert_eq!(note(&circles, "Egg: Shell ?Hen"), Ok(()));
    }

    /// Objects of every kind have a spec and a status.
    fn lookup(gvk: &Gvk) -> Lookup {
        let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let fields = json!({"spec": any, "status": any, "data": any});
        let raw = json!({"type": "object", "properties": fields});
        let schema = crd::compile(&raw, &Path::root(), crd::Options::default()).expect("a schema");
        Lookup::Known(Arc::new(Known::new(gvk.clone(), "eggs", true, schema)))
    }

    #[test]
    fn gates_wait_for_the_state_of_others_and_not_for_what_is_written() {
        let gated = |gate: &str| {
            let reference = json!({
                "apiVersion": "kro.run/v1", "kind": "Egg", "metadata": {"name": "e"},
            });
            let template = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"},
            });
            json!({
                "metadata": {"name": "hen"},
                "spec": {
                    "schema": {"kind": "Hen", "apiVersion": "v1", "spec": {"name": "string"}},
                    "resources": [
                        {"id": "egg", "externalRef": reference},
                        {"id": "nest", "template": template, "propagateWhen": [gate]},
                    ],
                },
            })
        };
        let waits = |gate: &str| {
            let definition = gated(gate);
            let written = Makes::of_spec(&definition["spec"]).expect("a kind");
            let compiled = Definition::read(&definition).expect("a definition");
            let compiled = compile(&compiled, &lookup).expect("it compiles");
            let compiled = Makes::of_graph(&compiled);
            assert_eq!(written.edges, compiled.edges, "{gate}");
            !written.edges.waits_for.is_empty()
        };
        assert!(waits("${egg.status.done}"));
        assert!(waits("${egg.ready()}"));
        // Somebody wrote it, and nobody has to wait for that.
        assert!(!waits("${egg.spec.enabled}"));
        assert!(!waits("${egg.spec.alreadyPaid}"));
        assert!(!waits("${egg.spec.enabled && nest.ready()}"));
    }

    #[test]
    fn of_two_that_are_kept_none_runs() {
        let circles = Circles::default();
        keep(&circles, "Hen: Egg");
        keep(&circles, "Egg: Hen");
        for kind in ["Hen", "Egg"] {
            assert!(circles.check(kind).is_err(), "{kind}");
        }
        assert_eq!(circles.check("Nest"), Ok(()));
    }
}
