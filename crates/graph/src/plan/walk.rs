//! One node after the other, in topological order.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_expr::{Bindings, Budget, Eval, Meter, Timestamp, Value};
use deltaplane_propagation::{Limits, Verdict};
use serde_json::{Map, Value as Json};

use super::content::{Wanted, rendered, wanted};
use super::gates::{self, Asked, Fate, Noted};
use super::{
    Apply, Cause, Exclusion, Gated, Inputs, Plan, Reference, Rendering, Shown, Standing, Unknown,
    Wrong, items, prune, ready, reference, status, text,
};
use crate::graph::{Condition, Node, NodeIndex, Role};
use crate::labels;
use crate::observed::{Content, Live, ObjectId};
use crate::template::{Template, Unfilled};

/// What all expressions of a plan may use together.
pub(super) const BUDGET: Budget = Budget {
    cost: 20_000_000,
    steps: 30_000_000,
};

/// A plan that is being made.
pub(super) struct Walk<'a> {
    pub(super) inputs: Inputs<'a>,
    /// The instance, and the objects of the nodes that were looked at.
    pub(super) bindings: Bindings<'a>,
    pub(super) meter: Meter,
    pub(super) standings: Vec<Standing>,
    pub(super) apply: Vec<Apply>,
    /// About how many bytes that is.
    rendered: usize,
    pub(super) more: usize,
    /// What is wanted so far, by whom.
    pub(super) wanted: BTreeMap<ObjectId, NodeIndex>,
    /// What is not wanted, and stays until what comes in its place may be made.
    pub(super) kept: BTreeSet<ObjectId>,
    /// What stays under its old name until it may have its new one.
    pub(super) renamed: BTreeSet<ObjectId>,
    /// What gates keep as it is.
    pub(super) frozen: Vec<Gated>,
    pub(super) in_flight: BTreeMap<ObjectId, Content>,
    pub(super) next: Option<Timestamp>,
    pub(super) references: Vec<(NodeIndex, Reference)>,
    pub(super) limits: Limits,
    /// How nodes that gates read came out.
    pub(super) noted: BTreeMap<&'a str, Vec<Noted<'a>>>,
    /// The objects of this node, if a gate reads it.
    pub(super) shown: Vec<&'a Arc<Live>>,
    /// What expressions see of all nodes, kept if the author has conditions.
    pub(super) all_shown: Shown,
    /// Labels that all objects have, once one is rendered.
    labels: OnceCell<Map<String, Json>>,
}

pub(super) fn walk(inputs: Inputs<'_>) -> Plan {
    let mut walk = Walk::new(inputs);
    for (index, node) in inputs.graph.indexed() {
        let standing = walk.node(index, node);
        if node.is_watched() {
            let frozen = walk.frozen.last().is_some_and(|one| one.node == index);
            walk.note(node, &standing, frozen);
        }
        walk.standings.push(standing);
    }
    let status = status::project(&mut walk);
    let unwanted = prune::unwanted(&walk);
    let prune = prune::highest_wave(unwanted.clone());
    let (undecided, dropped) = (prune::undecided(&walk), prune::dropped(&walk));
    let keep = walk.keep();
    walk.remember();
    Plan {
        nodes: walk.standings,
        apply: walk.apply,
        more: walk.more,
        prune,
        unwanted,
        undecided,
        dropped,
        status,
        frozen: walk.frozen,
        keep,
        in_flight: walk.in_flight,
        next: walk.next,
        references: walk.references,
        shown: walk.all_shown,
    }
}

// === impl Walk ===

impl<'a> Walk<'a> {
    fn new(inputs: Inputs<'a>) -> Self {
        let Inputs {
            graph, instance, ..
        } = inputs;
        let mut bindings = graph.bindings();
        // Any object can be bound: it is one.
        let _ = bindings.set_json(graph.env(), graph.schema_slot(), instance.json());
        Self {
            inputs,
            bindings,
            meter: Meter::new(BUDGET),
            standings: Vec::with_capacity(graph.nodes().len()),
            apply: Vec::new(),
            rendered: 0,
            more: 0,
            wanted: BTreeMap::new(),
            kept: BTreeSet::new(),
            renamed: BTreeSet::new(),
            frozen: Vec::new(),
            in_flight: BTreeMap::new(),
            next: None,
            references: Vec::new(),
            limits: gates::limits(graph),
            noted: BTreeMap::new(),
            shown: Vec::new(),
            all_shown: Shown::new(),
            labels: OnceCell::new(),
        }
    }

    fn node(&mut self, index: NodeIndex, node: &'a Node) -> Standing {
        let by = node.depends_on().iter();
        let mut excluded = by.filter(|by| matches!(self.at(**by), Standing::Excluded(_)));
        if let Some(&by) = excluded.next() {
            return Standing::Excluded(Exclusion::With(by));
        }
        if let Some(standing) = self.excluded(node) {
            return standing;
        }
        if let Some(blocked) = self.blocked(node.depends_on()) {
            self.show_old(node);
            return blocked;
        }
        let standing = match node.role() {
            Role::One(template) => self.one(index, node, template),
            Role::Each {
                dimensions,
                template,
            } => items::each(self, (index, node), dimensions, template),
            Role::External(template) => reference::named(self, (index, node), template),
            Role::Selected(template) => reference::labelled(self, (index, node), template),
        };
        standing.unwrap_or_else(|unknown| {
            self.show_old(node);
            unknown.into()
        })
    }

    fn at(&self, index: NodeIndex) -> &Standing {
        &self.standings[index.get()]
    }

    /// Which of these are not ready, if some are.
    fn blocked(&self, nodes: &[NodeIndex]) -> Option<Standing> {
        let unready = nodes
            .iter()
            .filter(|node| *self.at(**node) != Standing::Ready);
        let on: Vec<NodeIndex> = unready.copied().collect();
        (!on.is_empty()).then_some(Standing::Blocked { on })
    }

    /// How the node stands, if it is not known that it should be there.
    fn excluded(&mut self, node: &'a Node) -> Option<Standing> {
        for condition in node.include_when() {
            if let Some(blocked) = self.blocked(&condition.reads().nodes) {
                self.show_old(node);
                return Some(blocked);
            }
            match self.holds(condition) {
                Ok(true) => {}
                Ok(false) => {
                    let source = condition.source().to_owned();
                    return Some(Standing::Excluded(Exclusion::Condition { source }));
                }
                Err(unknown) => {
                    self.show_old(node);
                    return Some(unknown.into());
                }
            }
        }
        None
    }

    /// Whether a condition holds. An optional without a value does not.
    pub(super) fn holds(&mut self, condition: &'a Condition) -> Result<bool, Unknown> {
        let unfilled = match condition
            .program()
            .eval_metered(&self.bindings, &mut self.meter)
        {
            Eval::Value(Value::Bool(holds)) => return Ok(holds),
            Eval::Value(Value::Optional(None)) => return Ok(false),
            Eval::Value(Value::Optional(Some(value))) => {
                return Ok(value.value.as_bool() == Some(true));
            }
            Eval::Value(_) => {
                let wrong = Wrong::at(condition.path().as_str(), "it is neither true nor false");
                return Err(Unknown::Wrong(wrong));
            }
            Eval::Waiting(path) => Unfilled::Waiting(path),
            Eval::Failed(failure) => Unfilled::Failed(failure),
            Eval::Stopped(stopped) => Unfilled::Stopped(stopped),
        };
        let place = condition.path();
        let unknown = Unknown::of(unfilled, condition.source(), place.as_str());
        Err(self
            .inputs
            .graph
            .redact(condition.reads(), condition.source(), unknown))
    }

    fn one(
        &mut self,
        index: NodeIndex,
        node: &'a Node,
        template: &'a Template,
    ) -> Result<Standing, Unknown> {
        let wanted = wanted(self, node, template)?;
        let live = self.inputs.observed.get(node.id(), &wanted.id);
        if let Some(live) = live {
            self.show(node, live);
        }
        if let Some(hindered) = self.hindered(index, node, &wanted, live) {
            return Ok(hindered);
        }
        let fate = self.fate(node, template, &wanted, live);
        match self.seen_to((node, template), &wanted, (live, None), fate) {
            Fate::Apply(cause) => {
                self.push(index, node, template, wanted, (cause, None));
                Ok(Standing::Applying { objects: 1 })
            }
            Fate::Rest => Ok(live.map_or(Standing::Ready, |live| ready::of_one(self, node, live))),
            Fate::Keep(verdict) => Ok(self.held(index, node, (wanted.id, live), verdict)),
        }
    }

    fn fate(
        &mut self,
        node: &'a Node,
        template: &Template,
        wanted: &Wanted,
        live: Option<&'a Arc<Live>>,
    ) -> Fate {
        let cause = gates::cause(wanted, live);
        if !node.is_gated() {
            return Fate::of(cause);
        }
        let ready = live.is_some_and(|live| ready::of_one(self, node, live) == Standing::Ready);
        let asked = Asked {
            wanted,
            live,
            ready,
            hindered: false,
        };
        let fates = gates::decide(self, node, template, &[asked]);
        fates.into_iter().next().unwrap_or(Fate::of(cause))
    }

    /// A gate keeps the node as it is.
    fn held(
        &mut self,
        index: NodeIndex,
        node: &'a Node,
        (id, live): (ObjectId, Option<&'a Arc<Live>>),
        verdict: Verdict,
    ) -> Standing {
        // One that is to have another name goes on under its old one.
        let before = self.inputs.observed.of(node.id());
        let before = before.filter(|old| live.is_none() && !self.wanted.contains_key(&old.id));
        let before: Vec<&'a Arc<Live>> = before.filter(|old| !old.deleting).collect();
        for old in &before {
            self.wanted.insert(old.id.clone(), index);
            self.renamed.insert(old.id.clone());
        }
        let frozen = match (live, before.as_slice()) {
            (Some(live), _) => live,
            (None, [old]) if old.id.gvk == *node.gvk() => {
                self.show(node, old);
                old
            }
            (None, before) => {
                let node = index;
                if before.is_empty() && self.put_back(node, &id, &verdict) {
                    return Standing::Applying { objects: 1 };
                }
                let objects = vec![Gated { node, id, verdict }];
                let broken = None;
                return Standing::Gated { objects, broken };
            }
        };
        match self.freeze(index, frozen, verdict) {
            true => Standing::Applying { objects: 1 },
            false => ready::of_one(self, node, frozen),
        }
    }

    /// A gate keeps the object as it is: should somebody have changed it, it is to be what it was
    /// admitted to, if that was kept. Whether it is applied.
    pub(super) fn freeze(
        &mut self,
        node: NodeIndex,
        live: &'a Arc<Live>,
        verdict: Verdict,
    ) -> bool {
        let id = live.id.clone();
        self.frozen.push(Gated { node, id, verdict });
        let applied = live.applied.as_ref();
        let Some(applied) = applied.filter(|applied| !(applied.intact && live.sure)) else {
            return false;
        };
        let Some(object) = (self.inputs.frozen)(&live.id) else {
            return false;
        };
        // Only what it was last admitted to, and nothing older.
        let mark = text(&object, &["metadata", "annotations", labels::CONTENT]);
        let same = mark == Some(applied.content.as_str());
        let owned = || live.is_owned(|| object.clone());
        if !same || (applied.intact && owned()) {
            return false;
        }
        self.apply.push(Apply {
            node,
            id: live.id.clone(),
            object,
            content: applied.content.clone(),
            why: Cause::Drifted,
        });
        true
    }

    /// Somebody deleted what a gate keeps as it was: it is to be there again, as it was, if that was
    /// kept. Returns true if it is applied.
    pub(super) fn put_back(&mut self, node: NodeIndex, id: &ObjectId, verdict: &Verdict) -> bool {
        let Some(object) = (self.inputs.frozen)(id) else {
            return false;
        };
        let mark = text(&object, &["metadata", "annotations", labels::CONTENT]);
        let Some(content) = mark.map(Content::read) else {
            return false;
        };
        self.frozen.push(Gated {
            node,
            id: id.clone(),
            verdict: verdict.clone(),
        });
        self.apply.push(Apply {
            node,
            id: id.clone(),
            object,
            content,
            why: Cause::Drifted,
        });
        true
    }

    /// Items of these numbers may not be made yet. As many of what the node had under other names stay
    /// meanwhile, of the same numbers if they had them: a closed gate takes nothing away.
    pub(super) fn keep_old(&mut self, node: &'a Node, absent: &[usize]) {
        let old = self.inputs.observed.of(node.id());
        let old = old.filter(|old| !old.deleting && !self.wanted.contains_key(&old.id));
        let mut old: Vec<(bool, Option<usize>, &ObjectId)> = old
            .map(|old| {
                let number = text(old.json(), &["metadata", "labels", labels::ITEM]);
                let number = number.and_then(|number| number.parse().ok());
                let other = number.is_none_or(|number| !absent.contains(&number));
                (other, number, &old.id)
            })
            .collect();
        old.sort();
        let stay = old.into_iter().take(absent.len());
        self.kept.extend(stay.map(|(.., id)| id.clone()));
    }

    /// What is frozen, and what may be where that is not known now.
    fn keep(&self) -> Vec<ObjectId> {
        let mut keep: Vec<ObjectId> = self.frozen.iter().map(|one| one.id.clone()).collect();
        for (node, standing) in self.inputs.graph.nodes().iter().zip(&self.standings) {
            if node.is_gated() && !is_known(standing) {
                let all = self.inputs.observed.of(node.id());
                keep.extend(all.map(|live| live.id.clone()));
            }
        }
        keep
    }

    /// What was in flight stays so where it is not known now how it stands.
    fn remember(&mut self) {
        let before = self.inputs.in_flight;
        if before.is_empty() {
            return;
        }
        let nodes = self.inputs.graph.nodes().iter().zip(&self.standings);
        let mut gated = nodes.filter(|(node, _)| node.is_gated());
        // What no gated node wants any more is not counted any more.
        let all_known = gated.all(|(_, standing)| is_known(standing));
        for (id, content) in before {
            let lost = match self.wanted.get(id) {
                Some(node) => !is_known(self.at(*node)),
                None => !all_known,
            };
            if lost {
                self.in_flight.insert(id.clone(), content.clone());
            }
        }
    }

    /// Why the object cannot be applied, if it cannot.
    pub(super) fn hindered(
        &mut self,
        index: NodeIndex,
        node: &Node,
        wanted: &Wanted,
        live: Option<&Arc<Live>>,
    ) -> Option<Standing> {
        if let Some(&other) = self.wanted.get(&wanted.id) {
            let other = self.inputs.graph.node(other).id();
            let message = match other == node.id() {
                true => format!("{} is made twice", wanted.id),
                false => format!("{} is made by {other} too", wanted.id),
            };
            let place = format!("spec.resources[{}]", node.source());
            return Some(Standing::Failed(Wrong::at(place, message)));
        }
        self.wanted.insert(wanted.id.clone(), index);
        if let Some(owner) = (self.inputs.taken)(&wanted.id) {
            let id = wanted.id.clone();
            return Some(Standing::Taken { id, owner });
        }
        let ending = live.is_some_and(|live| live.deleting);
        ending.then(|| Standing::Ending {
            id: wanted.id.clone(),
            broken: None,
        })
    }

    /// It is to be applied: now, if there is room.
    pub(super) fn push(
        &mut self,
        index: NodeIndex,
        node: &Node,
        template: &Template,
        wanted: Wanted,
        (why, item): (Cause, Option<labels::Item>),
    ) {
        let Rendering { most, without } = self.inputs.rendering;
        if without(&wanted.id) {
            return;
        }
        let with = self
            .rendered
            .saturating_add(template.weight(&wanted.filled));
        if self.rendered > 0 && with > most {
            self.more += 1;
            return;
        }
        self.rendered = with;
        let object = self.object((node, template), &wanted, item);
        let Wanted { id, content, .. } = wanted;
        self.apply.push(Apply {
            node: index,
            id,
            object,
            content,
            why,
        });
    }

    /// The object, as it is applied.
    fn object(
        &self,
        (node, template): (&Node, &Template),
        wanted: &Wanted,
        item: Option<labels::Item>,
    ) -> Json {
        let mut object = rendered(node, template, wanted);
        let Inputs {
            graph,
            instance,
            product,
            ..
        } = &self.inputs;
        let shared = || labels::of_instance(graph.kind(), instance, product);
        let shared = self.labels.get_or_init(shared);
        let live = self.inputs.observed.get(node.id(), &wanted.id);
        let stamp = labels::Stamp {
            content: &wanted.content,
            created: live.is_none_or(|live| live.is_created()),
        };
        labels::mark(&mut object, shared, node, item, stamp);
        object
    }

    /// Somebody may have changed an object that should rest, and nobody saw it.
    pub(super) fn seen_to(
        &self,
        of: (&Node, &Template),
        wanted: &Wanted,
        (live, item): (Option<&Arc<Live>>, Option<labels::Item>),
        fate: Fate,
    ) -> Fate {
        match (&fate, live) {
            (Fate::Rest, Some(live)) if !live.sure => {
                let owned = live.is_owned(|| self.object(of, wanted, item));
                Fate::of((!owned).then_some(Cause::Drifted))
            }
            _ => fate,
        }
    }

    /// Expressions see the object from now on.
    pub(super) fn show(&mut self, node: &'a Node, live: &'a Arc<Live>) {
        if node.is_watched() {
            self.shown = vec![live];
        }
        self.keep_shown(node, std::slice::from_ref(&live));
        // Any object can be bound: it is one.
        let _ = self.bindings.set_json(node.env(), node.slot(), live.json());
    }

    fn keep_shown(&mut self, node: &Node, objects: &[&Arc<Live>]) {
        if self.inputs.graph.has_author_conditions() {
            let objects = objects.iter().map(|live| Arc::clone(live));
            self.all_shown
                .insert(node.id().to_owned(), objects.collect());
        }
    }

    pub(super) fn show_all(&mut self, node: &'a Node, objects: &[&'a Arc<Live>]) {
        if node.is_watched() {
            self.shown = objects.to_vec();
        }
        self.keep_shown(node, objects);
        let decl = node.known().decl();
        let values = objects.iter();
        let values = values.filter_map(|live| Value::declared(live.json(), decl).ok());
        if let Ok(list) = Value::list(values.collect()) {
            self.bindings.set(node.slot(), list);
        }
    }

    /// What there is of a node that cannot be rendered now: the status may still tell of it.
    fn show_old(&mut self, node: &'a Node) {
        let objects: Vec<&'a Arc<Live>> = {
            let all = self.inputs.observed.of(node.id());
            all.filter(|live| live.id.gvk == *node.gvk()).collect()
        };
        match (node.is_collection(), objects.as_slice()) {
            (true, objects) => self.show_all(node, objects),
            (false, [live]) => self.show(node, live),
            // Which of them it would be is not known.
            (false, _) => {}
        }
    }
}

/// Whether it is known what the node wants.
pub(super) fn is_known(standing: &Standing) -> bool {
    match standing {
        Standing::Excluded(_)
        | Standing::Applying { .. }
        | Standing::Gated { .. }
        | Standing::Missing { .. }
        | Standing::NotReady(_)
        | Standing::Ready => true,
        Standing::Blocked { .. }
        | Standing::Waiting(_)
        | Standing::Failed(_)
        | Standing::Taken { .. }
        | Standing::Ending { .. }
        | Standing::Unseen => false,
    }
}
