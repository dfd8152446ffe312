//! Field sets that were recorded under an earlier schema.

use super::{Scalar, Shape, Shapes, element, is_atomic_list, is_atomic_map, items};
use crate::fieldset::{PathElement, Set};
use crate::node::{AdditionalId, Node, NodeId};

/// `set` as it would have been recorded under the schema of today, where containers may have become
/// atomic: whoever owned something in one owns all of it. `None` if nothing changes.
pub fn reconcile(set: &Set, node: Node<'_>) -> Option<Set> {
    match walk(set, node, Owned::Part) {
        // The object as a whole is never owned.
        Outcome::Same | Outcome::Changed(true, _) => None,
        Outcome::Changed(false, changed) => Some(changed),
    }
}

/// How a place is owned by the set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owned {
    /// Itself, and nothing below it.
    Whole,
    /// What is below it, or both.
    Part,
}

enum Outcome {
    Same,
    /// Whether the place is now itself a member, and what is below it.
    Changed(bool, Set),
}

fn walk(set: &Set, node: Node<'_>, owned: Owned) -> Outcome {
    match Shapes::of(node).first() {
        Shape::Scalar(_) => Outcome::Same,
        Shape::List if owned == Owned::Part && is_atomic_list(node) => {
            Outcome::Changed(true, Set::new())
        }
        Shape::List => walk_entries(set, |_| Some(items(node))),
        Shape::Map if is_untyped(node) => Outcome::Same,
        Shape::Map if owned == Owned::Part && is_atomic_map(node) => match set.is_empty() {
            true => Outcome::Same,
            false => Outcome::Changed(true, Set::new()),
        },
        Shape::Map => walk_entries(set, |step| {
            let declared = step.as_field().and_then(|name| node.property(name));
            declared.or_else(|| element(node))
        }),
    }
}

fn walk_entries<'a>(set: &Set, child: impl Fn(&PathElement) -> Option<Node<'a>>) -> Outcome {
    // Hardly ever does anything change, so nothing is copied before it does.
    let mut out: Option<Set> = None;
    for (index, entry) in set.entries().iter().enumerate() {
        let owned = match entry.member && entry.children.is_empty() {
            true => Owned::Whole,
            false => Owned::Part,
        };
        // Fields that the schema no longer knows stay as they are.
        let outcome = child(&entry.element)
            .map_or(Outcome::Same, |child| walk(&entry.children, child, owned));
        match (outcome, &mut out) {
            (Outcome::Same, None) => {}
            (Outcome::Same, Some(out)) => {
                out.put(entry.element.clone(), entry.member, entry.children.clone())
            }
            (Outcome::Changed(own, below), out) => {
                let out = out.get_or_insert_with(|| set.first(index));
                out.put(entry.element.clone(), own || entry.member, below);
            }
        }
    }
    out.map_or(Outcome::Same, |out| Outcome::Changed(false, out))
}

/// A map of which nothing is declared but that its entries are anything; its structure is never reconsidered.
fn is_untyped(node: Node<'_>) -> bool {
    let data = node.data();
    let open = match data.additional {
        AdditionalId::Schema(NodeId::DEDUCED) => true,
        AdditionalId::Schema(id) => {
            let entries = node.with(id);
            !entries.flags().decoded && Shapes::of(entries).scalar == Some(Scalar::Untyped)
        }
        AdditionalId::Any | AdditionalId::Unspecified => true,
        AdditionalId::Denied => false,
    };
    open && data.properties.is_empty()
}
