//! Whether what there is does what it is there for.

use std::sync::Arc;

use super::walk::Walk;
use super::{NotReady, Standing, Unknown, Unready};
use crate::graph::Node;
use crate::observed::Live;

/// Of a node with one object, which expressions see already.
pub(super) fn of_one<'a>(walk: &mut Walk<'a>, node: &'a Node, live: &Live) -> Standing {
    standing(live, unready(walk, node, live))
}

/// Of a node with many objects: all of them.
pub(super) fn of_all<'a>(
    walk: &mut Walk<'a>,
    node: &'a Node,
    objects: &[&'a Arc<Live>],
) -> Standing {
    let Some(each) = node.each() else {
        return Standing::Ready;
    };
    if node.ready_when().is_empty() {
        return Standing::Ready;
    }
    for live in objects {
        // Any object can be bound: it is one.
        let _ = walk.bindings.set_json(node.env(), each, live.json());
        if let Some(why) = unready(walk, node, live) {
            return standing(live, Some(why));
        }
    }
    Standing::Ready
}

fn standing(live: &Live, unready: Option<Unready>) -> Standing {
    match unready {
        None => Standing::Ready,
        Some(why) => Standing::NotReady(NotReady {
            id: live.id.clone(),
            why,
        }),
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
