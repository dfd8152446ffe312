//! Gates as `propagation` asks them.

use deltaplane_expr::Decl;
use deltaplane_propagation as propagation;
use deltaplane_propagation::{GateProblem, GateProblems, Scope};

use super::{Gate, GateExpression, Written};
use crate::compile::draft::Draft;
use crate::compile::scope::SCHEMA;
use crate::graph::GraphKind;
use crate::problem::{Problem, Problems};

/// The gates of resources, in the order of the definition. What `schema` is comes from the caller.
pub(crate) fn of_resources(
    written: Vec<Written>,
    drafts: &[Draft<'_>],
    schema: &Decl,
    problems: &mut Problems,
) -> Vec<Gate> {
    let gates = written.into_iter().zip(drafts);
    let gates = gates.map(|(written, draft)| match written.is_empty() {
        true => written.open(),
        false => {
            let scope = written.scope(draft, drafts, schema);
            written.compile(scope, problems)
        }
    });
    gates.collect()
}

/// The gate of instances, which are as declared.
pub(crate) fn of_instances(
    written: Written,
    kind: &GraphKind,
    decl: impl FnOnce() -> Decl,
    problems: &mut Problems,
) -> Gate {
    if written.is_empty() {
        return written.open();
    }
    let scope = Scope::new(decl(), &[&kind.singular, "instance"]);
    let scope = scope.collection(&[&kind.plural, "instances"]);
    written.compile(scope, problems)
}

// === impl Written ===

impl Written {
    fn open(self) -> Gate {
        Gate {
            written: self,
            ..Gate::default()
        }
    }

    /// The names of a resource's gate: the resource itself, or an item by its iterators and the
    /// collection by the id; the instance; and of the other resources those that are read.
    fn scope(&self, own: &Draft<'_>, drafts: &[Draft<'_>], schema: &Decl) -> Scope {
        let id = own.resource.id.as_str();
        let iterators = own.resource.for_each.iter();
        let iterators: Vec<&str> = iterators.map(|(name, _)| name.as_str()).collect();
        let mut scope = match iterators.is_empty() {
            true => Scope::new(own.object(), &[id]),
            false => Scope::new(own.object(), &iterators).collection(&[id]),
        };
        scope = scope.data(SCHEMA, schema.clone());
        for draft in drafts {
            let name = draft.resource.id.as_str();
            let read = |one: &GateExpression| one.reads.contains(name);
            if name == id || !self.expressions().any(read) {
                continue;
            }
            scope = match draft.is_collection() {
                true => scope.subjects(name, draft.object()),
                false => scope.subject(name, draft.object()),
            };
        }
        scope
    }

    fn compile(self, scope: Scope, problems: &mut Problems) -> Gate {
        let order = self.order_by.as_ref().and_then(|order_by| {
            let order = propagation::Order::compile(&order_by.source, &scope);
            order
                .map_err(|wrong| report(&wrong, |_| order_by, problems))
                .ok()
        });
        let when = self.when.as_ref().filter(|when| !when.is_empty());
        let when = when.and_then(|when| {
            let texts: Vec<&str> = when.iter().map(|one| &*one.source).collect();
            let gate = propagation::Gate::compile(&texts, scope);
            gate.map_err(|wrong| report(&wrong, |problem| &when[problem.index], problems))
                .ok()
        });
        Gate {
            written: self,
            when,
            order,
        }
    }
}

/// Says what is wrong where it is written.
fn report<'g>(
    wrong: &GateProblems,
    place: impl Fn(&GateProblem) -> &'g GateExpression,
    problems: &mut Problems,
) {
    for one in &wrong.0 {
        let expression = place(one);
        // Nothing here has a container.
        let message = one.message.trim_end_matches(" (in container '')");
        let problem = Problem::new(&expression.path, message).at(&expression.source, one.span);
        let hint =
            (!one.expected.is_empty()).then(|| format!("expected {}", one.expected.join(", or ")));
        problems.push(problem.hinted(hint));
    }
}
