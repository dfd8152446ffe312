//! How two values differ.

use serde_json::Value;

use super::{
    Shape, Shapes, TypeErrors, as_list, as_map, check_scalar, entry, in_either, is_atomic_list,
    is_atomic_map, item_element, items,
};
use crate::fieldset::{Filter, PathElement, Set};
use crate::node::Node;
use crate::order;

/// The fields in which two values differ. No field is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub removed: Set,
    pub modified: Set,
    pub added: Set,
}

/// What became of one place, besides of what is below it.
#[derive(Clone, Copy, Default)]
struct Own {
    removed: bool,
    modified: bool,
    added: bool,
}

// === impl Comparison ===

impl Comparison {
    /// Whether nothing changed.
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Only the changes that the filter chooses.
    #[must_use]
    pub fn filter(self, filter: &Filter) -> Self {
        Self {
            removed: filter.apply(self.removed),
            modified: filter.apply(self.modified),
            added: filter.apply(self.added),
        }
    }

    fn put(&mut self, element: PathElement, own: Own, below: Self) {
        let places = [
            (&mut self.removed, own.removed, below.removed),
            (&mut self.modified, own.modified, below.modified),
            (&mut self.added, own.added, below.added),
        ];
        let mut element = Some(element);
        let mut left = places
            .iter()
            .filter(|(_, own, below)| *own || !below.is_empty())
            .count();
        for (set, own, below) in places {
            if !own && below.is_empty() {
                continue;
            }
            left -= 1;
            // The last user takes the element, the others copy it.
            let element = if left == 0 {
                element.take()
            } else {
                element.clone()
            };
            if let Some(element) = element {
                set.put(element, own, below);
            }
        }
    }
}

/// What changed from `left` to `right`.
pub fn compare(left: &Value, right: &Value, node: Node<'_>) -> Result<Comparison, TypeErrors> {
    let mut below = Comparison::default();
    walk(Some(left), Some(right), node, &mut below)?;
    Ok(below)
}

/// Compares one place. At least one side has a value.
fn walk(
    left: Option<&Value>,
    right: Option<&Value>,
    node: Node<'_>,
    out: &mut Comparison,
) -> Result<Own, TypeErrors> {
    let shapes = Shapes::of(node);
    let (left_shapes, right_shapes) = (shapes.deduced(left), shapes.deduced(right));
    let mut own = Own::default();
    let leaf = if right.is_none() {
        visit(left_shapes.first(), left, right, node, out, &mut own)?
    } else if left.is_none() || left_shapes == right_shapes {
        visit(right_shapes.first(), left, right, node, out, &mut own)?
    } else {
        // The type has changed: what was is gone, what is is new.
        visit(left_shapes.first(), left, right, node, out, &mut own)?;
        visit(right_shapes.first(), left, right, node, out, &mut own)?
    };
    if !leaf {
        own.added |= left.is_none();
        own.removed |= left.is_some() && right.is_none();
    }
    Ok(own)
}

/// Compares as one shape. Says whether the place was a leaf.
fn visit(
    shape: Shape,
    left: Option<&Value>,
    right: Option<&Value>,
    node: Node<'_>,
    out: &mut Comparison,
    own: &mut Own,
) -> Result<bool, TypeErrors> {
    let leaf = match shape {
        Shape::Scalar(scalar) => {
            // One valid side is enough: the other may be of a type that the schema once had.
            if let (Err(left), Err(_)) = (check_scalar(scalar, left), check_scalar(scalar, right)) {
                return Err(TypeErrors::one(left));
            }
            true
        }
        Shape::List => {
            is_atomic_list(node) || (as_list(left).is_empty() && as_list(right).is_empty())
        }
        Shape::Map => {
            let empty = |value| as_map(value).is_none_or(serde_json::Map::is_empty);
            is_atomic_map(node) || (empty(left) && empty(right))
        }
    };
    match shape {
        _ if leaf => compare_leaf(left, right, own),
        Shape::List => compare_lists(as_list(left), as_list(right), node, out)?,
        Shape::Map => compare_maps(left, right, node, out)?,
        Shape::Scalar(_) => {}
    }
    Ok(leaf)
}

fn compare_leaf(left: Option<&Value>, right: Option<&Value>, own: &mut Own) {
    match (left, right) {
        (None, _) => own.added = true,
        (Some(_), None) => own.removed = true,
        (Some(left), Some(right)) => own.modified |= !order::equal(left, right),
    }
}

fn compare_maps(
    left: Option<&Value>,
    right: Option<&Value>,
    node: Node<'_>,
    out: &mut Comparison,
) -> Result<(), TypeErrors> {
    let (left, right) = (as_map(left), as_map(right));
    let mut errors = TypeErrors::none();
    let visit = |name: &str, left: Option<&Value>, right: Option<&Value>| {
        // Most of an object does not change.
        if left.is_some() && left == right {
            return;
        }
        let mut below = Comparison::default();
        match walk(left, right, entry(node, name).0, &mut below) {
            Ok(own) => out.put(PathElement::field(name), own, below),
            Err(error) => errors.adopt(&PathElement::field(name), Err(error)),
        }
    };
    in_either(left, right, visit);
    errors.into_result()
}

/// Items with their elements, sorted by element; equal elements in the order of the list.
fn indexed<'v>(
    list: &'v [Value],
    node: Node<'_>,
    errors: &mut TypeErrors,
) -> Vec<(PathElement, &'v Value)> {
    let mut out = Vec::with_capacity(list.len());
    for (index, item) in list.iter().enumerate() {
        match item_element(node, item) {
            Ok(element) => out.push((element, item)),
            Err(error) => errors.push(format!("element {index}: {error}")),
        }
    }
    out.sort_by(|(a, _), (b, _)| a.cmp(b));
    out
}

/// How often an element occurs on one side.
enum Group<'v> {
    None,
    One(&'v Value),
    Many(Vec<&'v Value>),
}

fn compare_lists(
    left: &[Value],
    right: &[Value],
    node: Node<'_>,
    out: &mut Comparison,
) -> Result<(), TypeErrors> {
    let mut errors = TypeErrors::none();
    let left = indexed(left, node, &mut errors);
    let right = indexed(right, node, &mut errors);
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let Some(element) = match (left.peek(), right.peek()) {
        (Some((a, _)), Some((b, _))) => Some(a.min(b).clone()),
        (Some((one, _)), None) | (None, Some((one, _))) => Some(one.clone()),
        (None, None) => None,
    } {
        let old = group(&mut left, &element);
        let new = group(&mut right, &element);
        let mut below = Comparison::default();
        match compare_items(old, new, items(node), &mut below) {
            Ok(own) => out.put(element, own, below),
            Err(error) => errors.adopt(&element, Err(error)),
        }
    }
    errors.into_result()
}

fn group<'v, I>(items: &mut std::iter::Peekable<I>, element: &PathElement) -> Group<'v>
where
    I: Iterator<Item = (PathElement, &'v Value)>,
{
    let mut next = || {
        items
            .next_if(|(own, _)| own == element)
            .map(|(_, item)| item)
    };
    match (next(), next()) {
        (None, _) => Group::None,
        (Some(one), None) => Group::One(one),
        (Some(first), Some(second)) => {
            let mut all = vec![first, second];
            all.extend(std::iter::from_fn(next));
            Group::Many(all)
        }
    }
}

/// Items that occur once are compared; those that occur more than once are one value together.
fn compare_items(
    old: Group<'_>,
    new: Group<'_>,
    node: Node<'_>,
    out: &mut Comparison,
) -> Result<Own, TypeErrors> {
    match (old, new) {
        (Group::None, Group::None) => Ok(Own::default()),
        (Group::One(old), Group::One(new)) => walk(Some(old), Some(new), node, out),
        (Group::One(old), Group::None) => walk(Some(old), None, node, out),
        (Group::None, Group::One(new)) => walk(None, Some(new), node, out),
        (Group::Many(old), Group::Many(new)) => {
            let same = old.len() == new.len()
                && old
                    .iter()
                    .zip(&new)
                    .all(|(old, new)| order::equal(old, new));
            Ok(Own {
                modified: !same,
                ..Own::default()
            })
        }
        (Group::Many(_), Group::None) => Ok(Own {
            removed: true,
            ..Own::default()
        }),
        (Group::None, Group::Many(_)) => Ok(Own {
            added: true,
            ..Own::default()
        }),
        (Group::Many(_), Group::One(new)) => {
            let own = walk(None, Some(new), node, out)?;
            Ok(Own {
                removed: true,
                ..own
            })
        }
        (Group::One(old), Group::Many(_)) => {
            let own = walk(Some(old), None, node, out)?;
            Ok(Own { added: true, ..own })
        }
    }
}
