//! Which of the objects that should change may do so now.
//!
//! A gate is asked of objects that are not there and of those whose content is to be another; that
//! what somebody changed is put right is never asked. Items of a collection are asked together:
//! each admission counts for those that are asked after it.

use std::sync::Arc;

use deltaplane_propagation as propagation;
use deltaplane_propagation::{
    Given, Health, Hold, Limits, Progress, Subject, Surroundings, Terms, Verdict, Window, pass,
};
use serde_json::{Map, Value as Json};

use super::content::{Wanted, rendered};
use super::walk::Walk;
use super::{Cause, Standing, ready};
use crate::compile::scope::SCHEMA;
use crate::graph::{Graph, Node, Role};
use crate::observed::{Content, Live, ObjectId};
use crate::template::Template;

/// What becomes of an object.
#[derive(Debug)]
pub(super) enum Fate {
    /// It is as it should be.
    Rest,
    Apply(Cause),
    /// It may not become what it should be now.
    Keep(Verdict),
}

/// An object of a node, and what is wanted of it.
#[derive(Clone, Copy)]
pub(super) struct Asked<'w, 'a> {
    pub(super) wanted: &'w Wanted,
    pub(super) live: Option<&'a Arc<Live>>,
    /// Whether what there is is ready.
    pub(super) ready: bool,
    /// Whether it cannot be applied now, whatever the gate says.
    pub(super) hindered: bool,
}

/// An object of a node as the gates of others see it.
#[derive(Debug)]
pub(super) struct Noted<'a> {
    key: String,
    object: Option<&'a Map<String, Json>>,
    standing: propagation::Standing,
}

/// Evaluating all gates of a plan takes so many steps, shared equally among them.
const STEPS: u64 = 50_000_000;

/// No definition of a graph declares windows.
const NO_WINDOW: Window = Window {
    open: false,
    edge: None,
};

/// What one gate may do.
pub(super) fn limits(graph: &Graph) -> Limits {
    let gates = graph.nodes().iter().filter(|node| node.is_gated()).count();
    Limits {
        pass: STEPS / gates.max(1) as u64,
        ..Limits::default()
    }
}

/// What becomes of the objects of a node.
pub(super) fn decide<'a>(
    walk: &mut Walk<'a>,
    node: &'a Node,
    template: &Template,
    asked: &[Asked<'_, 'a>],
) -> Vec<Fate> {
    let standings = asked.iter().map(|one| one.standing(walk));
    let mut standings: Vec<propagation::Standing> = standings.collect();
    let fates = asked.iter().map(|one| Fate::of(one.cause()));
    let mut fates: Vec<Fate> = fates.collect();
    if let Some(gate) = node.gate().compiled() {
        if asked.iter().any(Asked::is_asked) {
            ask(
                walk,
                (node, template, gate),
                (asked, &standings),
                &mut fates,
            );
        }
        for ((one, fate), standing) in asked.iter().zip(&fates).zip(&mut standings) {
            if one.hindered {
                // What it was admitted to is what it is on its way to, still.
                let before = walk.inputs.in_flight.get_key_value(&one.wanted.id);
                let before = before.map(|(id, content)| (id.clone(), content.clone()));
                walk.in_flight.extend(before);
                continue;
            }
            let admitted = matches!(fate, Fate::Apply(Cause::Absent | Cause::Changed));
            if admitted {
                let progress = Progress::UnderWay;
                *standing = propagation::Standing::Updating { progress };
            }
            if admitted || walk.inputs.in_flight.contains_key(&one.wanted.id) {
                walk.record(one, *standing);
            }
        }
    }
    if node.is_watched() && node.is_collection() {
        let noted = asked.iter().zip(standings);
        let noted = noted.map(|(one, standing)| Noted {
            key: key(&one.wanted.id),
            object: one.live.and_then(|live| live.json().as_object()),
            standing,
        });
        walk.noted.insert(node.id(), noted.collect());
    }
    fates
}

/// Asks the gate of a node about its objects.
fn ask<'a>(
    walk: &mut Walk<'a>,
    (node, template, gate): (&'a Node, &Template, &'a propagation::Gate),
    (asked, standings): (&[Asked<'_, 'a>], &[propagation::Standing]),
    fates: &mut [Fate],
) {
    let keys: Vec<String> = asked.iter().map(|one| key(&one.wanted.id)).collect();
    // What is not there is seen as it would be, so that it has a place in the order.
    let absent = asked.iter().map(|one| match one.live {
        Some(_) => Json::Null,
        None => rendered(node, template, one.wanted),
    });
    let absent: Vec<Json> = absent.collect();
    let objects = asked.iter().zip(&absent);
    let objects = objects.map(|(one, absent)| one.live.map_or(absent, |live| live.json()));
    let subjects = keys.iter().zip(objects).zip(standings);
    let subjects = subjects.map(|((key, object), standing)| Subject {
        key,
        object: object.as_object(),
        standing: *standing,
    });
    let subjects: Vec<Subject<'_>> = subjects.collect();
    let given = walk.given(node);
    let answer = pass(
        &subjects,
        Terms {
            gate,
            order: node.gate().order(),
            given: &given,
            now: walk.inputs.now,
            windows: &|_, _| NO_WINDOW,
            limits: walk.limits,
        },
    );
    for blocked in answer.blocked {
        let verdict = walk.inputs.graph.redact_verdict(node, blocked.verdict);
        fates[blocked.index] = Fate::Keep(verdict);
    }
    walk.next = match (walk.next, answer.next) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
}

fn key(id: &ObjectId) -> String {
    match id.namespace.as_str() {
        "" => id.name.clone(),
        namespace => format!("{namespace}/{}", id.name),
    }
}

/// Why the object is not as it should be, if it is not.
pub(super) fn cause(wanted: &Wanted, live: Option<&Arc<Live>>) -> Option<Cause> {
    let Some(live) = live else {
        return Some(Cause::Absent);
    };
    match &live.applied {
        Some(applied) if applied.content != wanted.content => Some(Cause::Changed),
        Some(applied) if !applied.intact => Some(Cause::Drifted),
        Some(_) => None,
        // Somebody else applied it, kro perhaps.
        None => Some(Cause::Changed),
    }
}

// === impl Fate ===

impl Fate {
    /// Without a gate.
    pub(super) fn of(cause: Option<Cause>) -> Self {
        cause.map_or(Self::Rest, Self::Apply)
    }
}

// === impl Asked ===

impl Asked<'_, '_> {
    fn cause(&self) -> Option<Cause> {
        cause(self.wanted, self.live)
    }

    /// Whether its content is to be another.
    fn changes(&self) -> bool {
        match self.cause() {
            Some(Cause::Absent | Cause::Changed) => true,
            Some(Cause::Drifted) | None => false,
        }
    }

    /// Whether the gate is asked of it.
    fn is_asked(&self) -> bool {
        self.changes() && !self.hindered
    }

    /// How it stands towards what is wanted.
    fn standing(&self, walk: &Walk<'_>) -> propagation::Standing {
        use propagation::Standing::{Behind, Current, Overtaken, Updating};
        let sent = walk.inputs.unsure.get(&self.wanted.id);
        let unsure = sent.is_some_and(|sent| !self.has(sent));
        let (progress, hold) = (Progress::UnderWay, Hold::Free);
        let ready = self.live.filter(|_| self.ready);
        let since = ready.map(|live| ready::since(live, walk.inputs.now));
        match (self.changes(), since) {
            // What will become of it nobody knows: it counts as on its way.
            _ if self.hindered => Updating { progress },
            (false, Some(since)) if !unsure => Current { since },
            (false, _) => Updating { progress },
            (true, _) if unsure || self.flies(walk) => Overtaken { progress, hold },
            (true, Some(since)) => Behind {
                health: Health::Ready { since },
                hold,
            },
            (true, None) => Behind {
                health: Health::Broken,
                hold,
            },
        }
    }

    /// Whether an earlier plan admitted it to something that it has not been ready at since.
    fn flies(&self, walk: &Walk<'_>) -> bool {
        let admitted = walk.inputs.in_flight.get(&self.wanted.id);
        admitted.is_some_and(|admitted| !(self.has(admitted) && self.ready))
    }

    /// Whether this is what it was applied with.
    fn has(&self, content: &Content) -> bool {
        let applied = self.live.and_then(|live| live.applied.as_ref());
        applied.is_some_and(|applied| applied.content == *content)
    }
}

// === impl Walk ===

impl<'a> Walk<'a> {
    /// What was admitted is remembered, with what it was admitted to, until it is ready there. That
    /// it is not ready later on does not count: then it is broken, and not under way.
    fn record(&mut self, one: &Asked<'_, 'a>, standing: propagation::Standing) {
        let id = &one.wanted.id;
        let content = match standing.is_updated() {
            true => Some(&one.wanted.content),
            false => self.inputs.in_flight.get(id),
        };
        if let Some(content) = content.filter(|_| standing.is_in_flight()) {
            self.in_flight.insert(id.clone(), content.clone());
        }
    }

    /// What the gate of a node can read besides the node. What is not known now is not there.
    fn given(&self, node: &'a Node) -> Surroundings<'_> {
        let mut given = Surroundings::new();
        given.insert(SCHEMA, Given::Data(self.inputs.instance.json()));
        for id in node.gate().read() {
            let Some(noted) = self.noted.get(id) else {
                continue;
            };
            let mut subjects = noted.iter().map(Noted::subject);
            let other = self.inputs.graph.find(id);
            let collection = other.is_some_and(|at| self.inputs.graph.node(at).is_collection());
            let seen = match collection {
                true => Some(Given::Subjects(subjects.collect())),
                false => subjects.next().map(Given::Subject),
            };
            given.extend(seen.map(|seen| (id, seen)));
        }
        given
    }

    /// Keeps how a node came out for the gates that read it. Those of collections are kept where
    /// they are decided.
    pub(super) fn note(&mut self, node: &'a Node, standing: &Standing, frozen: bool) {
        let known = match standing {
            Standing::Ready
            | Standing::NotReady(_)
            | Standing::Applying { .. }
            | Standing::Gated { .. } => true,
            Standing::Excluded(_)
            | Standing::Blocked { .. }
            | Standing::Waiting(_)
            | Standing::Failed(_)
            | Standing::Taken { .. }
            | Standing::Ending { .. }
            | Standing::Missing { .. }
            | Standing::Unseen => false,
        };
        let shown = std::mem::take(&mut self.shown);
        let ready = match (node.role(), known) {
            (Role::Each { .. }, _) | (_, false) => return,
            (Role::Selected(_), true) => {
                let shown: Vec<_> = shown.iter().copied().map(Some).collect();
                let unready = ready::of_each(self, node, &shown);
                unready.iter().map(Option::is_none).collect()
            }
            (Role::One(_) | Role::External(_), true) => vec![*standing == Standing::Ready],
        };
        let applying = matches!(standing, Standing::Applying { .. });
        let absent = matches!(standing, Standing::Gated { .. });
        let noted = ready.into_iter().enumerate().map(|(at, ready)| {
            let live = shown.get(at).copied();
            let since = live.map(|live| ready::since(live, self.inputs.now));
            let standing = match since.filter(|_| ready) {
                Some(since) if frozen => behind(Health::Ready { since }),
                Some(since) => propagation::Standing::Current { since },
                None if frozen || absent => behind(Health::Broken),
                // Nobody changes what is others': it is not in flight.
                None if node.is_external() && !applying => propagation::Standing::Starting,
                None => propagation::Standing::Updating {
                    progress: Progress::UnderWay,
                },
            };
            Noted {
                key: live.map_or_else(|| node.id().to_owned(), |live| key(&live.id)),
                object: live.and_then(|live| live.json().as_object()),
                standing,
            }
        });
        let noted: Vec<Noted<'a>> = noted.collect();
        self.noted.insert(node.id(), noted);
    }
}

fn behind(health: Health) -> propagation::Standing {
    let hold = Hold::Free;
    propagation::Standing::Behind { health, hold }
}

// === impl Noted ===

impl Noted<'_> {
    fn subject(&self) -> Subject<'_> {
        Subject {
            key: &self.key,
            object: self.object,
            standing: self.standing,
        }
    }
}
