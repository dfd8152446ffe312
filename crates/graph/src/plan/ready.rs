//! Whether what there is does what it is there for.

use std::sync::Arc;

use deltaplane_expr::Timestamp;
use deltaplane_propagation::readiness::{self, Rules, State};
use serde_json::Value as Json;

use super::walk::Walk;
use super::{NotReady, Standing, Unknown, Unready};
use crate::graph::Node;
use crate::observed::Live;

/// Of a node with one object, which expressions see already.
pub(super) fn of_one<'a>(walk: &mut Walk<'a>, node: &'a Node, live: &Live) -> Standing {
    let why = unready(walk, node, live);
    why.map_or(Standing::Ready, |why| {
        Standing::NotReady(not_ready(live, why))
    })
}

/// Of a node with many objects: the worst of them, if not all are ready.
pub(super) fn of_all<'a>(
    walk: &mut Walk<'a>,
    node: &'a Node,
    objects: &[&'a Arc<Live>],
) -> Option<NotReady> {
    let each = node.each()?;
    if node.ready_when().is_empty() {
        return None;
    }
    worst(objects.iter().filter_map(|live| {
        // Any object can be bound: it is one.
        let _ = walk.bindings.set_json(node.env(), each, live.json());
        unready(walk, node, live).map(|why| not_ready(live, why))
    }))
}

/// What is broken is told before what may come right. What comes after it is not asked.
pub(super) fn worst(mut unready: impl Iterator<Item = NotReady>) -> Option<NotReady> {
    let first = unready.next()?;
    if first.is_broken() {
        return Some(first);
    }
    Some(unready.find(NotReady::is_broken).unwrap_or(first))
}

/// Of each of many objects, why it is not ready, if it is there and is not.
pub(super) fn of_each<'a>(
    walk: &mut Walk<'a>,
    node: &'a Node,
    objects: &[Option<&'a Arc<Live>>],
) -> Vec<Option<NotReady>> {
    let mut one = |live: &'a Arc<Live>| {
        if let Some(each) = node.each() {
            // Any object can be bound: it is one.
            let _ = walk.bindings.set_json(node.env(), each, live.json());
        }
        let why = unready(walk, node, live)?;
        Some(not_ready(live, why))
    };
    let objects = objects.iter();
    objects.map(|live| live.and_then(&mut one)).collect()
}

/// Since when an object that is ready is so at the latest. Nothing says exactly when that was; it
/// was no later than its conditions last changed and its fields were last written. Where nothing is
/// known it is only now.
pub(super) fn since(live: &Live, now: Timestamp) -> Timestamp {
    let json = live.json();
    let time = |text: &Json| Timestamp::parse(text.as_str()?);
    let list = |json: &'_ Json| json.as_array().map_or(0, Vec::len);
    let conditions = &json["status"]["conditions"];
    let changed = (0..list(conditions)).map(|at| &conditions[at]["lastTransitionTime"]);
    // Statuses are written again and again; without conditions they are all there is.
    let written = match list(conditions) {
        0 => live.managed().touched,
        _ => live.managed().written,
    };
    let made = std::iter::once(&json["metadata"]["creationTimestamp"]);
    let times = made.chain(changed).filter_map(time);
    times.chain(written).max().unwrap_or(now)
}

fn not_ready(live: &Live, why: Unready) -> NotReady {
    let judged = readiness::judge(live.json(), &Rules::default());
    let broken = (judged.state == State::Failed).then_some(judged.reason);
    NotReady {
        id: live.id.clone(),
        why,
        broken,
    }
}

/// Why it is not ready, if it is not. What has no conditions is ready when it is there.
fn unready<'a>(walk: &mut Walk<'a>, node: &'a Node, live: &Live) -> Option<Unready> {
    if node.ready_when().is_empty() {
        return None;
    }
    if let Some((observed, generation)) = live.stale() {
        return Some(Unready::Stale {
            observed,
            generation,
        });
    }
    node.ready_when()
        .iter()
        .find_map(|condition| match walk.holds(condition) {
            Ok(true) => None,
            Ok(false) => Some(Unready::Condition {
                source: condition.source().to_owned(),
            }),
            Err(Unknown::Waits(wait)) => Some(Unready::Waiting(wait)),
            Err(Unknown::Wrong(wrong)) => Some(Unready::Failed(wrong)),
        })
}
