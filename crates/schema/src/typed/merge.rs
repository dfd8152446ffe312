//! One value put over another.

use serde_json::{Map, Value};

use super::{
    Shape, Shapes, TypeErrors, as_list, as_map, check_scalar, entry, in_either, is_atomic_list,
    is_atomic_map, item_element, items,
};
use crate::fieldset::PathElement;
use crate::node::Node;

/// `left` with everything that `right` says put over it. Nothing is removed. Items of a list keep
/// the order of `left` unless `right` has them in another.
pub fn merge(left: &Value, right: &Value, node: Node<'_>) -> Result<Option<Value>, TypeErrors> {
    walk(Some(left), Some(right), node)
}

fn walk(
    left: Option<&Value>,
    right: Option<&Value>,
    node: Node<'_>,
) -> Result<Option<Value>, TypeErrors> {
    let (left, right) = match (left, right) {
        (Some(left), Some(right)) => (left, right),
        // One side alone is what comes out.
        (one, None) | (None, one) => return Ok(one.cloned()),
    };
    let shapes = Shapes::of(node);
    let (left_shapes, right_shapes) = (shapes.deduced(Some(left)), shapes.deduced(Some(right)));
    if left_shapes != right_shapes {
        visit(left_shapes.first(), left, right, node)?;
    }
    visit(right_shapes.first(), left, right, node)
}

fn visit(
    shape: Shape,
    left: &Value,
    right: &Value,
    node: Node<'_>,
) -> Result<Option<Value>, TypeErrors> {
    match shape {
        Shape::Scalar(scalar) => match (
            check_scalar(scalar, Some(left)),
            check_scalar(scalar, Some(right)),
        ) {
            (Err(left), Err(_)) => Err(TypeErrors::one(left)),
            (_, _) => Ok(Some(right.clone())),
        },
        Shape::List => {
            let (old, new) = (as_list(Some(left)), as_list(Some(right)));
            match is_atomic_list(node) || (old.is_empty() && new.is_empty()) {
                true => Ok(Some(right.clone())),
                false => merge_lists(old, new, node),
            }
        }
        Shape::Map => {
            let empty = |map: Option<&Map<String, Value>>| map.is_none_or(Map::is_empty);
            let (old, new) = (as_map(Some(left)), as_map(Some(right)));
            match is_atomic_map(node) || (empty(old) && empty(new)) {
                true => Ok(Some(right.clone())),
                false => merge_maps(old, new, node),
            }
        }
    }
}

fn merge_maps(
    left: Option<&Map<String, Value>>,
    right: Option<&Map<String, Value>>,
    node: Node<'_>,
) -> Result<Option<Value>, TypeErrors> {
    let mut out = Map::new();
    let mut errors = TypeErrors::none();
    let visit = |name: &str, left: Option<&Value>, right: Option<&Value>| match walk(
        left,
        right,
        entry(node, name).0,
    ) {
        Ok(merged) => out.extend(merged.map(|merged| (name.to_owned(), merged))),
        Err(error) => errors.adopt(&PathElement::field(name), Err(error)),
    };
    in_either(left, right, visit);
    errors.into_result()?;
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

/// A list with the elements of its items, and where each element stands.
struct Indexed<'v> {
    items: Vec<(PathElement, &'v Value)>,
    /// Positions in `items`, sorted by element; one per element.
    by_element: Vec<usize>,
    /// The elements that occur more than once, sorted.
    repeated: Vec<PathElement>,
}

// === impl Indexed ===

impl<'v> Indexed<'v> {
    fn new(list: &'v [Value], node: Node<'_>, errors: &mut TypeErrors) -> Self {
        let mut items = Vec::with_capacity(list.len());
        for (index, item) in list.iter().enumerate() {
            match item_element(node, item) {
                Ok(element) => items.push((element, item)),
                Err(error) => errors.push(format!("element {index}: {error}")),
            }
        }
        let mut by_element: Vec<usize> = (0..items.len()).collect();
        by_element.sort_by(|&a, &b| items[a].0.cmp(&items[b].0));
        let mut repeated = Vec::new();
        by_element.dedup_by(|later, earlier| {
            let same = items[*later].0 == items[*earlier].0;
            if same {
                repeated.push(items[*earlier].0.clone());
            }
            same
        });
        Self {
            items,
            by_element,
            repeated,
        }
    }

    fn find(&self, element: &PathElement) -> Option<&'v Value> {
        let found = self
            .by_element
            .binary_search_by(|&index| self.items[index].0.cmp(element))
            .ok()?;
        Some(self.items[self.by_element[found]].1)
    }

    /// The item to merge with; null for one that occurs more than once.
    fn mergeable(&self, element: &PathElement) -> Option<&'v Value> {
        static NULL: Value = Value::Null;
        self.find(element).map(|item| {
            if self.repeated.binary_search(element).is_ok() {
                &NULL
            } else {
                item
            }
        })
    }
}

fn merge_lists(
    left: &[Value],
    right: &[Value],
    node: Node<'_>,
) -> Result<Option<Value>, TypeErrors> {
    let mut errors = TypeErrors::none();
    let right = Indexed::new(right, node, &mut errors);
    let left = Indexed::new(left, node, &mut errors);
    for element in &right.repeated {
        errors.push(format!("duplicate entries for key {element}"));
    }
    errors.into_result()?;
    let out = Zipper::new(&left, &right, items(node)).run();
    Ok((!out.is_empty()).then_some(Value::Array(out)))
}

/// Goes through both lists at once, keeping the order of the left one as far as the right one does
/// not ask for another.
struct Zipper<'a, 'v> {
    left: &'a Indexed<'v>,
    right: &'a Indexed<'v>,
    item: Node<'a>,
    left_at: usize,
    right_at: usize,
    /// The right items that are also left, in their order; from the next one that is due.
    shared: std::collections::VecDeque<&'a PathElement>,
    merged: Vec<bool>,
    out: Vec<Value>,
}

// === impl Zipper ===

impl<'a, 'v> Zipper<'a, 'v> {
    fn new(left: &'a Indexed<'v>, right: &'a Indexed<'v>, item: Node<'a>) -> Self {
        let shared = right
            .items
            .iter()
            .map(|(element, _)| element)
            .filter(|element| left.find(element).is_some());
        Self {
            left,
            right,
            item,
            left_at: 0,
            right_at: 0,
            shared: shared.collect(),
            merged: vec![false; right.items.len()],
            out: Vec::with_capacity(left.items.len().max(right.items.len())),
        }
    }

    fn run(mut self) -> Vec<Value> {
        while self.left_at < self.left.items.len() || self.right_at < self.right.items.len() {
            self.step();
        }
        self.out
    }

    fn step(&mut self) {
        let old = self.left.items.get(self.left_at);
        let new = self.right.items.get(self.right_at);
        if let (Some((old, _)), Some((new, _))) = (old, new) {
            if old == new {
                self.take_right();
                self.left_at += 1;
                self.shared.pop_front();
                return;
            }
            let due = self.shared.front();
            if due.is_some_and(|due| *due != old) && self.right.find(old).is_some() {
                // It comes when its turn comes on the right.
                self.left_at += 1;
                return;
            }
        }
        if let Some((old, item)) = old {
            match self.position(old) {
                None => {
                    self.out.push((*item).clone());
                    self.left_at += 1;
                    return;
                }
                Some(position) if self.merged[position] => self.left_at += 1,
                Some(_) => {}
            }
        }
        if let Some((new, _)) = new {
            self.take_right();
            if self.shared.front() == Some(&new) {
                self.shared.pop_front();
            }
        }
    }

    fn position(&self, element: &PathElement) -> Option<usize> {
        let by_element = &self.right.by_element;
        let found = by_element
            .binary_search_by(|&index| self.right.items[index].0.cmp(element))
            .ok()?;
        Some(by_element[found])
    }

    /// Merges the current right item with its left one, if it has one.
    fn take_right(&mut self) {
        let (element, item) = &self.right.items[self.right_at];
        // A right item that cannot be merged was refused when the value came in.
        let merged = walk(self.left.mergeable(element), Some(item), self.item);
        self.out.extend(merged.ok().flatten());
        self.merged[self.right_at] = true;
        self.right_at += 1;
    }
}
