//! What was given: definitions, compiled as far as they can be, and everything else.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_api::field;
use deltaplane_expr::rules::Rules;
use deltaplane_graph::{Definition, Graph, Gvk, Known, Lookup, Problem, Problems, compile};
use serde_json::Value;

use super::documents::{Document, Documents, Place};
use super::found::Found;
use super::kinds::Kinds;
use super::{Files, GraphError};

/// All that was given.
pub(super) struct Set {
    pub(super) kinds: Kinds,
    /// In the order of the files.
    pub(super) definitions: Vec<Compiled>,
    /// What is neither a definition of a graph nor of a kind.
    pub(super) others: Vec<Document>,
    pub(super) wrong: Vec<Found>,
    /// What kubectl warns of, a line each.
    pub(super) warnings: Vec<String>,
}

/// A definition that could be read.
pub(super) struct Compiled {
    pub(super) place: Place,
    pub(super) definition: Definition,
    /// Nothing if something is wrong with it.
    pub(super) graph: Option<Graph>,
    /// Whether it is there only for the sake of its kind.
    aside: bool,
}

/// An object of a graph's kind, as the API would keep it.
pub(super) struct Checked {
    pub(super) json: Value,
    pub(super) wrong: Vec<Problem>,
}

const GROUP: &str = "kro.run/";
const DEFINITION: &str = "ResourceGraphDefinition";
const CUSTOM: &str = "CustomResourceDefinition";
const CUSTOM_GROUP: &str = "apiextensions.k8s.io/";

// === impl Set ===

impl Set {
    pub(super) fn read(files: &Files) -> Result<Self, GraphError> {
        let Documents {
            list,
            wrong,
            warnings,
            ..
        } = Documents::read(&files.files)?;
        let aside = Documents::read(&files.crds)?;
        let mut set = Self {
            kinds: Kinds::default(),
            definitions: Vec::new(),
            others: Vec::new(),
            wrong,
            warnings,
        };
        set.wrong.extend(aside.wrong);
        set.warnings.extend(aside.warnings);
        let aside = aside.list.into_iter().map(|document| (document, true));
        // Those that count come last: they replace others of the same kind.
        for (document, aside) in aside.chain(list.into_iter().map(|document| (document, false))) {
            set.sort(document, aside);
        }
        set.claim();
        set.compile();
        set.warn();
        set.wrong.sort_by(|a, b| a.place.cmp(&b.place));
        Ok(set)
    }

    /// Adds what is most likely not meant.
    fn warn(&mut self) {
        let definitions = self.graphs();
        let found = definitions.into_iter().flat_map(|(one, graph)| {
            let warnings = graph.warnings().into_iter();
            warnings.map(|warning| format!("warning: {}: {warning}\n", one.place))
        });
        let found: Vec<String> = found.collect();
        self.warnings.extend(found);
    }

    /// Those that were asked for.
    pub(super) fn asked(&self) -> impl Iterator<Item = &Compiled> {
        self.definitions.iter().filter(|one| !one.aside)
    }

    /// Those that were asked for and are valid.
    pub(super) fn graphs(&self) -> Vec<(&Compiled, &Graph)> {
        let asked = self.asked();
        asked
            .filter_map(|one| Some((one, one.graph.as_ref()?)))
            .collect()
    }

    fn sort(&mut self, document: Document, aside: bool) {
        let Document { place, json } = &document;
        match (document.api_version(), document.kind()) {
            (version, DEFINITION) if version.starts_with(GROUP) => match Definition::read(json) {
                Ok(definition) => self.definitions.push(Compiled {
                    place: place.clone(),
                    definition,
                    graph: None,
                    aside,
                }),
                Err(problems) => self.report(place, &problems),
            },
            (version, CUSTOM) if version.starts_with(CUSTOM_GROUP) => {
                if !aside {
                    self.wrong
                        .extend(Kinds::faults(json).into_iter().map(|error| Found {
                            place: place.clone(),
                            problem: of_field(&error),
                        }));
                }
                self.kinds.add_definition(json);
            }
            _ if !aside => self.others.push(document),
            _ => {}
        }
    }

    fn report(&mut self, place: &Place, problems: &Problems) {
        let problems = told(problems, &self.kinds);
        self.wrong.extend(problems.into_iter().map(|problem| Found {
            place: place.clone(),
            problem,
        }));
    }

    /// A kind is defined once.
    fn claim(&mut self) {
        let mut claimed: BTreeMap<Gvk, &Place> = BTreeMap::new();
        for one in self.definitions.iter().filter(|one| !one.aside) {
            if let Some(first) = claimed.insert(one.gvk(), &one.place) {
                let path = field::Path::new("spec").child("schema").child("kind");
                let message = format!("{} is defined in {first} too", one.gvk());
                self.wrong.push(Found {
                    place: one.place.clone(),
                    problem: Problem::new(&path, message),
                });
            }
        }
    }

    /// Which definition makes a kind: of several the first that was asked for.
    fn makers(&self) -> BTreeMap<Gvk, usize> {
        let mut makers = BTreeMap::new();
        for (at, one) in self.definitions.iter().enumerate().rev() {
            let other = makers
                .get(&one.gvk())
                .map(|other| &self.definitions[*other]);
            if other.is_none_or(|other: &Compiled| other.aside || !one.aside) {
                makers.insert(one.gvk(), at);
            }
        }
        makers
    }

    /// Compiles all definitions, those first whose kinds others use.
    fn compile(&mut self) {
        let makers = self.makers();
        let uses = |one: &Compiled| -> BTreeSet<usize> {
            let kinds = one.definition.kinds();
            let used = kinds.iter().filter_map(|kind| makers.get(kind));
            used.copied().collect()
        };
        let mut waits: Vec<BTreeSet<usize>> = self.definitions.iter().map(uses).collect();
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); waits.len()];
        for (at, uses) in waits.iter().enumerate() {
            uses.iter().for_each(|used| users[*used].push(at));
        }
        let mut ready: Vec<usize> = (0..waits.len())
            .filter(|at| waits[*at].is_empty())
            .collect();
        ready.reverse();
        let mut left: BTreeSet<usize> = (0..waits.len()).collect();
        while let Some(at) = ready.pop() {
            left.remove(&at);
            self.compile_one(at, &makers);
            for user in &users[at] {
                waits[*user].remove(&at);
                if waits[*user].is_empty() {
                    ready.push(*user);
                }
            }
        }
        // These use each other's kinds, or those of others that do.
        for at in &left {
            let one = &self.definitions[*at];
            let why = format!("{} uses kinds that need each other", one.title());
            self.kinds.add_broken(one.gvk(), why);
        }
        left.into_iter()
            .for_each(|at| self.compile_one(at, &makers));
    }

    fn compile_one(&mut self, at: usize, makers: &BTreeMap<Gvk, usize>) {
        let one = &self.definitions[at];
        let (gvk, place) = (one.gvk(), one.place.clone());
        let makes = makers.get(&gvk) == Some(&at);
        self.kinds.prepare(&one.definition.kinds());
        match compile(&one.definition, &|gvk| self.kinds.look_up(gvk)) {
            Ok(graph) => {
                if makes {
                    self.kinds.add_definition(graph.crd());
                    self.kinds.prepare(&BTreeSet::from([gvk]));
                }
                self.definitions[at].graph = Some(graph);
            }
            Err(problems) => {
                if makes {
                    let why = format!("{} has problems", one.title());
                    self.kinds.add_broken(gvk, why);
                }
                self.report(&place, &problems);
            }
        }
    }

    /// The objects of a graph's kind.
    pub(super) fn instances<'s>(&'s self, graph: &'s Graph) -> impl Iterator<Item = &'s Document> {
        let kind = graph.kind();
        let version = format!("{}/{}", kind.group, kind.version);
        self.others
            .iter()
            .filter(move |other| other.kind() == kind.kind && other.api_version() == version)
    }

    /// An instance as the API would keep it, and all that is wrong with it.
    pub(super) fn check(&self, graph: &Graph, instance: &Value) -> Checked {
        let kind = graph.kind();
        let gvk = Gvk::new(&kind.group, &kind.version, &kind.kind);
        let mut json = instance.clone();
        let mut wrong = Vec::new();
        let metadata = field::Path::new("metadata");
        if !json["metadata"].is_object()
            || json["metadata"]["name"].as_str().is_none_or(str::is_empty)
        {
            let problem = Problem::new(&metadata.child("name"), "it is required");
            wrong.push(problem);
        } else if kind.namespaced && json["metadata"]["namespace"].is_null() {
            json["metadata"]["namespace"] = "default".into();
        }
        if let Lookup::Known(known) = self.kinds.look_up(&gvk) {
            by_schema(&known, &mut json, &mut wrong);
        }
        Checked { json, wrong }
    }
}

fn by_schema(known: &Known, json: &mut Value, wrong: &mut Vec<Problem>) {
    let schema = known.schema();
    for unknown in schema.prune_reporting(json) {
        wrong.push(Problem::new(
            &field::Path::new(&unknown),
            "there is no such field",
        ));
    }
    schema.default(json);
    let errors = schema.validate(json, None);
    let valid = errors.is_empty();
    wrong.extend(errors.iter().map(of_field));
    // Rules look at values of the right types only.
    if let Some(rules) = Rules::of_resource(schema).filter(|_| valid) {
        let verdict = rules.judge(json, None);
        wrong.extend(verdict.errors.iter().map(of_field));
    }
}

// === impl Compiled ===

impl Compiled {
    /// The kind that it defines.
    pub(super) fn gvk(&self) -> Gvk {
        let schema = self.definition.schema();
        Gvk::new(&schema.group, &schema.version, &schema.kind)
    }

    /// What people know it by.
    pub(super) fn title(&self) -> String {
        match self.definition.name() {
            "" => self.place.to_string(),
            name => name.to_owned(),
        }
    }
}

// === impl Document ===

impl Document {
    pub(super) fn gvk(&self) -> Option<Gvk> {
        Gvk::parse(self.api_version(), self.kind())
    }
}

fn of_field(error: &field::Error) -> Problem {
    Problem::new(&error.path, error.body())
}

/// With hints about kinds, and a last one for those that are not listed.
fn told(problems: &Problems, kinds: &Kinds) -> Vec<Problem> {
    let hinted = |problem: &Problem| {
        let hint = match &problem.hint {
            Some(hint) => Some(hint.clone()),
            None => kinds.hint(&problem.message),
        };
        Problem {
            hint,
            ..problem.clone()
        }
    };
    let mut told: Vec<Problem> = problems.iter().map(hinted).collect();
    if problems.more() > 0 {
        let message = format!("there are {} more problems", problems.more());
        told.push(Problem::new(&field::Path::root(), message));
    }
    told
}
