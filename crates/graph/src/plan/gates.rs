//! Which of the objects that should change may do so now.

use std::sync::Arc;

use super::Cause;
use super::content::Wanted;
use super::walk::Walk;
use crate::graph::Node;
use crate::observed::Live;

/// Asks the gates of a node.
pub(super) struct Gates;

impl Gates {
    /// Why the object is to be applied now, if it is.
    pub(super) fn one(
        _walk: &mut Walk<'_>,
        _node: &Node,
        wanted: &Wanted,
        live: Option<&Arc<Live>>,
    ) -> Option<Cause> {
        cause(wanted, live)
    }

    /// The same for each item of a collection.
    pub(super) fn each(
        _walk: &mut Walk<'_>,
        _node: &Node,
        wanted: &[Wanted],
        live: &[Option<&Arc<Live>>],
    ) -> Vec<Option<Cause>> {
        let items = wanted.iter().zip(live);
        items.map(|(wanted, live)| cause(wanted, *live)).collect()
    }
}

/// Why the object is not as it should be, if it is not.
fn cause(wanted: &Wanted, live: Option<&Arc<Live>>) -> Option<Cause> {
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
