//! What holds resources and instances back: `propagateWhen` and `orderBy`.
//!
//! Here their names are checked, and that no two wait for each other; then `propagation`, which
//! knows what they mean, compiles them ([`compiled`]).

mod compiled;

use std::collections::BTreeSet;
use std::sync::Arc;

use deltaplane_api::field::Path;
use deltaplane_expr::{Absent, Decl, Env, Span, check, env, syntax};
use deltaplane_propagation as propagation;

use crate::compile::order::sorted;
use crate::compile::scope::{Context, Names, Roots, Scope};
use crate::definition::{Body, Definition, GateText, Resource};
use crate::graph::GraphKind;
use crate::problem::{Problem, Problems};

pub(crate) use compiled::{of_instances, of_resources};

/// What holds something back.
#[derive(Debug, Default)]
pub struct Gate {
    written: Written,
    /// Nothing when all goes at once.
    when: Option<propagation::Gate>,
    order: Option<propagation::Order>,
}

/// An expression of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateExpression {
    /// The expression alone, without `${` and `}`.
    pub source: Arc<str>,
    /// Where it is in the definition.
    pub path: Path,
    /// The ids of the resources that it reads, its own among them.
    pub reads: BTreeSet<String>,
}

/// The expressions of a gate.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// All of them must hold. Nothing was said when this is nothing.
    when: Option<Vec<GateExpression>>,
    /// In which order items go through.
    order_by: Option<GateExpression>,
}

/// The gates of a definition.
pub(crate) struct Gates {
    /// Of instances.
    pub(crate) graph: Written,
    /// Of resources, in the order of the definition.
    pub(crate) nodes: Vec<Written>,
    /// What each of them waits for, by places in the definition, itself left out. Where some wait
    /// for each other, which was reported, nothing is said.
    pub(crate) waits: Vec<BTreeSet<usize>>,
}

/// What gates may call that is no function of the language.
const TIME: &str = "time";

// === impl Gate ===

impl Gate {
    /// The expressions all of which must hold. Nothing was said when this is nothing.
    pub fn when(&self) -> Option<&[GateExpression]> {
        self.written.when.as_deref()
    }

    /// By what items are ordered.
    pub fn order_by(&self) -> Option<&GateExpression> {
        self.written.order_by.as_ref()
    }

    /// What is asked before something changes; nothing when all goes at once.
    pub fn compiled(&self) -> Option<&propagation::Gate> {
        self.when.as_ref()
    }

    /// The order in which it is asked; nothing when that is the usual one.
    pub fn order(&self) -> Option<&propagation::Order> {
        self.order.as_ref()
    }
}

impl Gate {
    /// Returns the expressions that are false whatever there is.
    pub(crate) fn never_true(&self) -> impl Iterator<Item = &GateExpression> {
        let written = self.when().unwrap_or_default();
        let places = self.when.iter().flat_map(propagation::Gate::never_true);
        places.filter_map(|place| written.get(place))
    }

    /// The ids of the resources that it reads.
    pub(crate) fn read(&self) -> impl Iterator<Item = &str> {
        let expressions = self.written.expressions();
        expressions.flat_map(|one| one.reads.iter().map(String::as_str))
    }
}

// === impl Written ===

impl Written {
    fn expressions(&self) -> impl Iterator<Item = &GateExpression> {
        self.when.iter().flatten().chain(&self.order_by)
    }

    fn is_empty(&self) -> bool {
        self.expressions().next().is_none()
    }
}

pub(crate) fn read(
    definition: &Definition,
    names: &Names<'_>,
    kind: &GraphKind,
    problems: &mut Problems,
) -> Gates {
    let spec = Path::new("spec");
    let variables = [&*kind.singular, &*kind.plural, "instance", "instances"];
    let any = || Decl::dynamic(Absent::Waits).clone();
    let instance_env = syntax_env().with_variables(variables.map(|name| (name.to_owned(), any())));
    let instances = |ast: &syntax::Ast, _: &mut BTreeSet<usize>| Wrong {
        unknown: unknown_names(ast, &instance_env),
        unfit: Vec::new(),
        allowed: Box::new(|| variables.to_vec()),
    };
    let (graph, _) = gate(definition.gate(), &spec, definition, &instances, problems);
    let mut nodes = Vec::new();
    let mut waits = Vec::new();
    for (index, resource) in definition.resources().iter().enumerate() {
        if resource.gate == GateText::default() {
            nodes.push(Written::default());
            waits.push(BTreeSet::new());
            continue;
        }
        let path = spec.child("resources").index(index);
        external(resource, &path, problems);
        let scope = names.scope(Some(index), &resource.for_each);
        let of =
            |ast: &syntax::Ast, reads: &mut BTreeSet<usize>| resource_names(ast, &scope, reads);
        let (gate, mut on) = gate(&resource.gate, &path, definition, &of, problems);
        on.remove(&index);
        nodes.push(gate);
        waits.push(on);
    }
    if cycles(definition, &waits, problems) {
        waits.fill(BTreeSet::new());
    }
    Gates {
        graph,
        nodes,
        waits,
    }
}

/// What is not changed is not held back.
fn external(resource: &Resource, path: &Path, problems: &mut Problems) {
    let Body::External(_) = &resource.body else {
        return;
    };
    let message = "objects of others are not changed: nothing holds them back";
    if resource.gate.when.iter().flatten().next().is_some() {
        problems.push(Problem::new(&path.child("propagateWhen"), message));
    }
    if resource.gate.order_by.is_some() {
        problems.push(Problem::new(&path.child("orderBy"), message));
    }
}

/// Only for parsing: what is called is not looked up.
fn syntax_env() -> Env {
    static ENV: std::sync::OnceLock<Env> = std::sync::OnceLock::new();
    ENV.get_or_init(|| env::gate().build()).clone()
}

/// What is wrong with the names in an expression.
struct Wrong<'n> {
    unknown: Vec<(Span, Arc<str>)>,
    /// Names that are known, and not to gates.
    unfit: Vec<(Span, String)>,
    /// Those that are.
    allowed: Box<dyn Fn() -> Vec<&'n str> + 'n>,
}

fn gate<'n>(
    text: &GateText,
    path: &Path,
    definition: &Definition,
    names: &dyn Fn(&syntax::Ast, &mut BTreeSet<usize>) -> Wrong<'n>,
    problems: &mut Problems,
) -> (Written, BTreeSet<usize>) {
    let mut waits = BTreeSet::new();
    let mut one = |text: &str, path: Path| {
        let mut reads = BTreeSet::new();
        let source = alone(text, &path, problems)?;
        let before = problems.count();
        match deltaplane_expr::parse(source, &syntax_env()) {
            Err(wrong) => problems.expression(&path, &wrong),
            Ok(ast) => {
                names(&ast, &mut reads).report(&path, source, problems);
            }
        }
        waits.extend(&reads);
        let id = |index: &usize| definition.resources()[*index].id.clone();
        let sound = before == problems.count();
        sound.then(|| GateExpression {
            source: source.into(),
            path,
            reads: reads.iter().map(id).collect(),
        })
    };
    let when = text.when.as_ref().map(|when| {
        let path = path.child("propagateWhen");
        let all = when.iter().enumerate();
        all.filter_map(|(index, text)| one(text, path.index(index)))
            .collect()
    });
    let order_by = text.order_by.as_ref();
    let order_by = order_by.and_then(|text| one(text, path.child("orderBy")));
    (Written { when, order_by }, waits)
}

/// Gates are written bare, or as `${…}`.
fn alone<'t>(text: &'t str, path: &Path, problems: &mut Problems) -> Option<&'t str> {
    if !text.trim_start().starts_with("${") {
        return Some(text);
    }
    let text = text.trim();
    match syntax::expressions(text) {
        Ok(found) if found.len() == 1 && found[0].len() + 3 == text.len() => Some(found[0]),
        Ok(_) => {
            problems.push(Problem::new(
                path,
                "only standalone expressions are allowed",
            ));
            None
        }
        Err(wrong) => {
            problems.expression(path, &wrong);
            None
        }
    }
}

fn unknown_names(ast: &syntax::Ast, env: &Env) -> Vec<(Span, Arc<str>)> {
    let unknown = check::names(ast, env).unknown.into_iter();
    unknown.filter(|(_, name)| &**name != TIME).collect()
}

fn resource_names<'s>(
    ast: &syntax::Ast,
    scope: &'s Scope<'s>,
    reads: &mut BTreeSet<usize>,
) -> Wrong<'s> {
    let mut unfit = Vec::new();
    let mut roots = Roots::default();
    for reference in check::references(ast, &scope.env) {
        match scope.note(&reference, Context::Gate, &mut roots) {
            Ok(()) => reads.extend(scope.names.ids.get(&*reference.path.root)),
            Err(_) => {
                let message = format!("`{}` cannot be used in a gate", reference.path.root);
                unfit.push((reference.span, message));
            }
        }
    }
    Wrong {
        unknown: unknown_names(ast, &scope.env),
        unfit,
        allowed: Box::new(|| scope.allowed(Context::Gate)),
    }
}

// === impl Wrong ===

impl Wrong<'_> {
    fn report(self, path: &Path, source: &str, problems: &mut Problems) {
        for (span, name) in self.unknown {
            let make = || Problem::new(path, format!("there is no `{name}`")).at(source, span);
            problems.unknown(&name, &self.allowed, make);
        }
        for (span, message) in self.unfit {
            problems.lazily(|| Problem::new(path, message).at(source, span));
        }
    }
}

/// Two gates that wait for each other never open. Whether some do.
fn cycles(definition: &Definition, waits: &[BTreeSet<usize>], problems: &mut Problems) -> bool {
    let ids: Vec<&str> = definition.resources().iter().map(|one| &*one.id).collect();
    let cycles = sorted(waits).err().unwrap_or_default();
    for cycle in &cycles {
        let names: Vec<&str> = cycle
            .iter()
            .chain(cycle.first())
            .map(|at| ids[*at])
            .collect();
        let message = format!("gates wait for each other: {}", names.join(" -> "));
        let path = Path::new("spec").child("resources").index(cycle[0]);
        problems.push(Problem::new(&path.child("propagateWhen"), message));
    }
    !cycles.is_empty()
}
