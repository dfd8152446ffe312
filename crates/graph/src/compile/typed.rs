//! Expressions checked and compiled in the environment of the graph.

use std::collections::BTreeSet;

use deltaplane_expr::{Absent, CONDITION, Decl, Env, Slot, Type};
use serde_json::{Value as Json, json};

use super::draft::Draft;
use super::expected::{conversion, expected, expected_in_reference, is_bool, named};
use super::expression::Expression;
use super::fits::fits;
use super::infer;
use super::needs;
use super::order::Order;
use super::scope::{EACH, Roots, SCHEMA, base};
use super::status::StatusDraft;
use crate::definition::{Body, Target};
use crate::gates::Gate;
use crate::graph::{Condition, Dimension, Node, NodeIndex, Role};
use crate::mask::FieldMask;
use crate::problem::Problems;
use crate::stored::ObjectNeeds;
use crate::template::{Form, Hole, Reads, Step, Template};

/// The environment of a graph: `schema`, and the nodes in topological order.
pub(crate) struct Typed<'o> {
    pub(crate) env: Env,
    order: &'o Order,
    /// Whether all types are known. Where one is not, which was reported, nothing more is said of
    /// what comes of it.
    certain: bool,
}

/// The variables of one node.
struct Local {
    env: Env,
    /// The object, or one of the collection.
    object: Decl,
    collection: bool,
}

// === impl Typed ===

impl<'o> Typed<'o> {
    pub(crate) fn new(drafts: &[Draft<'_>], order: &'o Order, schema: Option<Decl>) -> Self {
        let certain = schema.is_some() && drafts.iter().all(|draft| draft.known.is_some());
        let schema = schema.unwrap_or_else(|| Decl::dynamic(Absent::Waits).clone());
        let nodes = order.topological.iter().map(|index| {
            let draft = &drafts[*index];
            let object = draft.object();
            let decl = match draft.is_collection() {
                true => Decl::of_type(Type::list(object.ty().clone()), Absent::Waits),
                false => object,
            };
            (draft.resource.id.clone(), decl)
        });
        let schema = (SCHEMA.to_owned(), schema);
        Self {
            env: base().with_variables([schema].into_iter().chain(nodes)),
            order,
            certain,
        }
    }

    pub(crate) fn schema_slot(&self) -> Slot {
        self.slot(&self.env, SCHEMA)
    }

    fn slot(&self, env: &Env, name: &str) -> Slot {
        env.slot(name).expect("the environment was made with it")
    }

    /// The environment with the most variables.
    pub(crate) fn widest(&self, nodes: &[Node]) -> Env {
        let most = nodes.iter().max_by_key(|node| node.locals());
        most.map_or(&self.env, |node| &node.env).clone()
    }

    /// The nodes in topological order, as far as they have no problems.
    pub(crate) fn nodes(
        &self,
        drafts: Vec<Draft<'_>>,
        gates: Vec<Gate>,
        mut masks: Vec<FieldMask>,
        problems: &mut Problems,
    ) -> Vec<Node> {
        let mut nodes: Vec<Option<Node>> = Vec::with_capacity(drafts.len());
        for (index, (draft, gate)) in drafts.into_iter().zip(gates).enumerate() {
            nodes.push(self.node(index, draft, gate, problems));
        }
        let mut sorted: Vec<Node> = nodes.into_iter().flatten().collect();
        let watched: BTreeSet<String> = {
            let others = sorted.iter().flat_map(|node| {
                let read = node.gate.read();
                read.filter(|id| *id != node.id)
            });
            others.map(str::to_owned).collect()
        };
        for node in &mut sorted {
            node.watched = watched.contains(&node.id);
            let mask = std::mem::replace(&mut masks[node.source], FieldMask::empty());
            node.needs = needs::of_node(node, mask);
        }
        sorted.sort_by_key(|node| self.order.position[node.source]);
        sorted
    }

    fn node(
        &self,
        index: usize,
        mut draft: Draft<'_>,
        gate: Gate,
        problems: &mut Problems,
    ) -> Option<Node> {
        let (lists, local) = self.local(&draft, problems);
        let literal = std::mem::take(&mut draft.literal);
        let template = Template::new(literal, self.holes(&draft, &local, problems));
        let include_when = self.conditions(&draft.include_when, &local.env, problems);
        let ready_when = self.conditions(&draft.ready_when, &local.env, problems);
        let env = local.env;
        let role = match &draft.resource.body {
            Body::Template(_) if draft.resource.for_each.is_empty() => Role::One(template),
            Body::Template(_) => {
                let dimension = |(name, condition): (String, Condition)| Dimension {
                    slot: self.slot(&env, &name),
                    name,
                    condition,
                };
                Role::Each {
                    dimensions: lists.into_iter().map(dimension).collect(),
                    template,
                }
            }
            Body::External(reference) => match reference.target {
                Target::Name(_) => Role::External(template),
                Target::Selector(_) => Role::Selected(template),
            },
        };
        Some(Node {
            id: draft.resource.id.clone(),
            source: index,
            known: draft.known?,
            role,
            depends_on: self.indices(self.order.depends[index].iter().copied()),
            include_when,
            ready_when,
            gate,
            watched: false,
            needs: ObjectNeeds::default(),
            apply_order: self.order.waves[index],
            slot: self.slot(&self.env, &draft.resource.id),
            each: local.collection.then(|| self.slot(&env, EACH)),
            env,
        })
    }

    fn indices(&self, sources: impl Iterator<Item = usize>) -> Vec<NodeIndex> {
        let mut indices: Vec<NodeIndex> = sources
            .map(|source| NodeIndex::of(self.order.position[source]))
            .collect();
        indices.sort();
        indices
    }

    fn reads(&self, roots: &Roots) -> Reads {
        Reads {
            schema: roots.schema,
            nodes: self.indices(roots.nodes.iter().copied()),
            item: roots.each || !roots.iterators.is_empty(),
        }
    }

    /// The lists that a collection goes through, and the environment with its iterators.
    fn local(
        &self,
        draft: &Draft<'_>,
        problems: &mut Problems,
    ) -> (Vec<(String, Condition)>, Local) {
        let object = draft.object();
        let collection = draft.is_collection();
        let mut lists = Vec::new();
        let mut locals = Vec::new();
        let names = draft.resource.for_each.iter().map(|(name, _)| name);
        for (name, expression) in names.zip(draft.iterated()) {
            let mut item = Type::Dyn;
            if let Some(expression) = expression
                && let Some((condition, ty)) = self.alone(expression, &self.env, problems)
            {
                if let Type::List(inner) = ty {
                    item = (*inner).clone();
                } else if self.tells(&ty) {
                    let message = format!("a list is expected here, and this is {ty}");
                    problems.push(expression.problem(message));
                }
                lists.push((name.clone(), condition));
            }
            locals.push((name.clone(), Decl::of_type(item, Absent::Waits)));
        }
        if collection {
            locals.push((EACH.to_owned(), object.clone()));
        }
        let env = match locals.is_empty() {
            true => self.env.clone(),
            false => self.env.with_locals(locals),
        };
        let local = Local {
            env,
            object,
            collection,
        };
        (lists, local)
    }

    /// Whether a type says something: `dyn` may come of what was reported already.
    fn tells(&self, ty: &Type) -> bool {
        self.certain || *ty != Type::Dyn
    }

    fn alone(
        &self,
        expression: &Expression,
        env: &Env,
        problems: &mut Problems,
    ) -> Option<(Condition, Type)> {
        let (program, ty) = expression.compile(env, problems)?;
        let condition = Condition {
            program,
            source: expression.ast.source().clone(),
            spot: expression.spot.clone(),
            reads: self.reads(&expression.roots),
        };
        Some((condition, ty))
    }

    fn conditions(
        &self,
        expressions: &[Expression],
        env: &Env,
        problems: &mut Problems,
    ) -> Vec<Condition> {
        let mut conditions = Vec::with_capacity(expressions.len());
        for expression in expressions {
            let Some((condition, ty)) = self.alone(expression, env, problems) else {
                continue;
            };
            if !is_bool(&ty) && self.tells(&ty) {
                let message = format!("a condition is bool or optional(bool), and this is {ty}");
                let problem = expression.problem(message);
                let hint = "nothing is known of it: compare it, `… == true`";
                problems.push(problem.hinted((ty == Type::Dyn).then(|| hint.to_owned())));
            }
            conditions.push(condition);
        }
        conditions
    }

    fn holes(&self, draft: &Draft<'_>, local: &Local, problems: &mut Problems) -> Vec<Hole> {
        let mut holes = Vec::with_capacity(draft.holes.len());
        for expression in &draft.holes {
            let Some((program, ty)) = expression.compile(&local.env, problems) else {
                continue;
            };
            let steps = &expression.spot.steps;
            let expected = match (expression.form, &draft.resource.body) {
                (Form::Value, Body::Template(_)) => expected(local.object.ty(), steps),
                (Form::Value, Body::External(_)) => expected_in_reference(steps),
                // Texts were compared with the schema already.
                (Form::Joined, _) => Type::Dyn,
            };
            if let Err(mismatch) = fits(&ty, &expected) {
                let expected_name = named(&expected);
                let message =
                    format!("type mismatch: {expected_name} is expected here, and this is {ty}");
                let problem = expression.problem(message);
                problems
                    .push(problem.hinted(mismatch.inner().or_else(|| conversion(&ty, &expected))));
            }
            holes.push(self.hole(expression, program));
        }
        holes
    }

    fn hole(&self, expression: &Expression, program: deltaplane_expr::Program) -> Hole {
        Hole {
            spot: expression.spot.clone(),
            program,
            form: expression.form,
            source: expression.ast.source().clone(),
            reads: self.reads(&expression.roots),
        }
    }

    /// What the author says of conditions.
    pub(crate) fn author_conditions(
        &self,
        drafts: &[Expression],
        problems: &mut Problems,
    ) -> Vec<Condition> {
        let is_condition = |ty: &Type| *ty == Type::Dyn || *ty == Type::opaque(CONDITION);
        let mut conditions = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let Some((condition, ty)) = self.alone(draft, &self.env, problems) else {
                continue;
            };
            let sound = if let Type::List(item) = &ty {
                is_condition(item)
            } else {
                is_condition(&ty)
            };
            if !sound {
                let message = format!(
                    "a condition is runtime.newCondition(...) or a list of them, and this is {ty}"
                );
                problems.push(draft.problem(message));
            }
            conditions.push(condition);
        }
        conditions
    }

    /// The template of the status, and its schema.
    pub(crate) fn status(&self, draft: StatusDraft, problems: &mut Problems) -> (Template, Json) {
        let mut schema = json!({"type": "object"});
        let mut holes = Vec::with_capacity(draft.holes.len());
        for expression in &draft.holes {
            let Some((program, ty)) = expression.compile(&self.env, problems) else {
                continue;
            };
            match infer::schema_of(&ty) {
                Ok(leaf) => infer::put(&mut schema, &expression.spot.steps, leaf),
                Err(endless) => problems.push(expression.problem(endless.to_string())),
            }
            holes.push(self.hole(expression, program));
        }
        (Template::new(draft.literal, holes), schema)
    }
}

// === impl Node ===

impl Node {
    /// How many variables it has of its own.
    fn locals(&self) -> usize {
        match &self.role {
            Role::Each { dimensions, .. } => dimensions.len() + 1,
            Role::Selected(_) => 1,
            Role::One(_) | Role::External(_) => 0,
        }
    }
}

// === impl Draft ===

impl Draft<'_> {
    /// What expressions see of an object.
    pub(crate) fn object(&self) -> Decl {
        let decl = self.known.as_deref().map(crate::kinds::Known::decl);
        decl.unwrap_or_else(|| Decl::dynamic(Absent::Waits)).clone()
    }

    pub(crate) fn is_collection(&self) -> bool {
        match &self.resource.body {
            Body::Template(_) => !self.resource.for_each.is_empty(),
            Body::External(reference) => matches!(reference.target, Target::Selector(_)),
        }
    }

    /// The expression of each dimension, if it was readable.
    fn iterated(&self) -> impl Iterator<Item = Option<&Expression>> {
        (0..self.resource.for_each.len()).map(|index| {
            let of = |one: &&Expression| one.spot.steps.first() == Some(&Step::Index(index));
            self.for_each.iter().find(of)
        })
    }
}
