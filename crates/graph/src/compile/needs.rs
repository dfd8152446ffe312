//! What is read of the objects of each resource, by all expressions of a definition.

use deltaplane_propagation::readiness;

use super::draft::Draft;
use super::expression::Expression;
use super::scope::{EACH, Names};
use super::status::StatusDraft;
use crate::graph::Node;
use crate::labels;
use crate::mask::FieldMask;
use crate::stored::ObjectNeeds;

/// What planning reads of every object, by whatever expressions.
const ALWAYS: [&[&str]; 14] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "generation"],
    &["metadata", "deletionTimestamp"],
    &["metadata", "labels", labels::OWNED],
    &["metadata", "labels", labels::PART_OF],
    &["metadata", "labels", labels::NODE],
    &["metadata", "labels", labels::ITEM],
    &["metadata", "annotations", labels::CONTENT],
    &["metadata", "annotations", labels::APPLY_ORDER],
    &["metadata", "annotations", labels::CREATED],
    &["status", "observedGeneration"],
];

/// What the expressions of a definition read of the objects of each resource, in the order of the
/// definition.
pub(super) fn masks(
    drafts: &[Draft<'_>],
    status: &StatusDraft,
    names: &Names<'_>,
) -> Vec<FieldMask> {
    let mut always = FieldMask::empty();
    ALWAYS.iter().for_each(|keys| always.add_field(keys));
    let mut masks = vec![always; drafts.len()];
    let mut read = |own: Option<usize>, expression: &Expression| {
        for path in &expression.roots.paths {
            let at = match path.root.as_str() {
                EACH => own,
                root => names.ids.get(root).copied(),
            };
            if let Some(mask) = at.and_then(|at| masks.get_mut(at)) {
                mask.add(&path.steps);
            }
        }
    };
    for (index, draft) in drafts.iter().enumerate() {
        let all = draft.holes.iter().chain(&draft.for_each);
        let all = all.chain(&draft.include_when).chain(&draft.ready_when);
        all.for_each(|expression| read(Some(index), expression));
    }
    let of_status = status.holes.iter().chain(&status.conditions);
    of_status.for_each(|expression| read(None, expression));
    masks
}

/// What planning needs of the objects of a node, given what expressions read of them.
pub(super) fn of_node(node: &Node, mut fields: FieldMask) -> ObjectNeeds {
    let is_gated = node.is_gated();
    if is_gated || node.is_watched() {
        // Gates see the whole object, and count since when it is ready.
        fields = FieldMask::whole();
    }
    if !node.ready_when().is_empty() {
        // What is not ready may be broken, which its status says.
        let read = readiness::FIELDS.iter();
        read.for_each(|keys| fields.add_field(keys));
    }
    ObjectNeeds {
        fields,
        managed: is_gated || node.is_watched(),
    }
}
