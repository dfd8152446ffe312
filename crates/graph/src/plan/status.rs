//! What the instance's status says of its resources.

use serde_json::Value as Json;

use super::Unknown;
use super::content::fill_one;
use super::walk::Walk;
use super::{Wait, Wrong};
use crate::template::Filled;

/// The author's fields of a status, as far as they are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Projected {
    pub value: Json,
    /// Those that are not, and why.
    pub missing: Vec<Missing>,
}

/// A field that has no value.
#[derive(Clone, Debug, PartialEq)]
pub enum Missing {
    Waiting(Wait),
    Failed(Wrong),
}

pub(super) fn project(walk: &mut Walk<'_>) -> Projected {
    let template = walk.inputs.graph.status();
    let mut missing = Vec::new();
    let mut filled = Vec::with_capacity(template.holes().len());
    for hole in template.holes() {
        filled.push(fill_one(walk, hole).unwrap_or_else(|unknown| {
            missing.push(match unknown {
                Unknown::Waits(wait) => Missing::Waiting(wait),
                Unknown::Wrong(wrong) => Missing::Failed(wrong),
            });
            Filled::Omitted
        }));
    }
    let mut value = template.render(filled);
    if !missing.is_empty() {
        drop_empty(&mut value);
    }
    Projected { value, missing }
}

/// Removes objects that nothing is left in. Definitions bound how deep this goes.
fn drop_empty(value: &mut Json) {
    let Json::Object(map) = value else {
        return;
    };
    map.retain(|_, value| {
        drop_empty(value);
        value.as_object().is_none_or(|map| !map.is_empty())
    });
}
