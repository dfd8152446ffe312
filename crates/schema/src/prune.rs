//! Drops the fields that a schema does not know.

use std::fmt::Write;

use serde_json::Value;

use crate::node::{Additional, Node, Schema};

impl Schema {
    /// Drops undeclared fields.
    pub fn prune(&self, object: &mut Value) {
        prune(object, Some(self.root()), false, &mut Quiet);
    }

    /// Drops undeclared fields, but none of metadata, whose fields are not for schemas to declare.
    pub(crate) fn prune_values(&self, value: &mut Value) {
        prune(value, Some(self.root()), false, &mut Values);
    }

    /// Drops undeclared fields and says which: sorted paths such as `spec.ports[0].foo`.
    pub fn prune_reporting(&self, object: &mut Value) -> Vec<String> {
        let mut report = Report::default();
        prune(object, Some(self.root()), false, &mut report);
        report.unknown.sort();
        report.unknown
    }
}

/// Who follows the walk, so that the plain walk builds no paths.
trait Trail {
    /// Whether typed metadata is left alone.
    const SKIPS_METADATA: bool = false;

    fn enter_field(&mut self, name: &str) -> usize;
    fn enter_item(&mut self, index: usize) -> usize;
    fn leave(&mut self, mark: usize);
    fn dropped(&mut self, name: &str);
}

struct Quiet;

struct Values;

#[derive(Default)]
struct Report {
    path: String,
    unknown: Vec<String>,
}

// === impl Quiet ===

impl Trail for Quiet {
    fn enter_field(&mut self, _: &str) -> usize {
        0
    }

    fn enter_item(&mut self, _: usize) -> usize {
        0
    }

    fn leave(&mut self, _: usize) {}

    fn dropped(&mut self, _: &str) {}
}

// === impl Values ===

impl Trail for Values {
    const SKIPS_METADATA: bool = true;

    fn enter_field(&mut self, _: &str) -> usize {
        0
    }

    fn enter_item(&mut self, _: usize) -> usize {
        0
    }

    fn leave(&mut self, _: usize) {}

    fn dropped(&mut self, _: &str) {}
}

// === impl Report ===

impl Trail for Report {
    fn enter_field(&mut self, name: &str) -> usize {
        let mark = self.path.len();
        if mark > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        mark
    }

    fn enter_item(&mut self, index: usize) -> usize {
        let mark = self.path.len();
        // Writing to a string cannot fail.
        let _ = write!(self.path, "[{index}]");
        mark
    }

    fn leave(&mut self, mark: usize) {
        self.path.truncate(mark);
    }

    fn dropped(&mut self, name: &str) {
        let mark = self.enter_field(name);
        self.unknown.push(self.path.clone());
        self.leave(mark);
    }
}

/// `keep`: undeclared fields of `value` itself are kept, whatever its own schema says, because it
/// is an item of a list that preserves them.
fn prune<T: Trail>(value: &mut Value, node: Option<Node<'_>>, keep: bool, trail: &mut T) {
    let skipped = |node: Node<'_>| node.is_untyped() || (T::SKIPS_METADATA && node.flags().decoded);
    if node.is_some_and(skipped) {
        return;
    }
    let keep = keep || node.is_some_and(Node::preserves_unknown);
    match value {
        Value::Object(map) => map.retain(|name, value| match field(node, name, keep) {
            Field::Unknown => {
                trail.dropped(name);
                false
            }
            Field::Kept => true,
            Field::Known(node) => {
                let mark = trail.enter_field(name);
                prune(value, node, false, trail);
                trail.leave(mark);
                true
            }
        }),
        Value::Array(list) => {
            let items = node.and_then(Node::items);
            if keep && items.is_none() {
                return;
            }
            for (index, item) in list.iter_mut().enumerate() {
                let mark = trail.enter_item(index);
                prune(item, items, keep, trail);
                trail.leave(mark);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

enum Field<'a> {
    Unknown,
    /// Undeclared, where undeclared fields are preserved.
    Kept,
    /// With its schema; `None` below `additionalProperties: true`, where objects are emptied.
    Known(Option<Node<'a>>),
}

fn field<'a>(node: Option<Node<'a>>, name: &str, keep: bool) -> Field<'a> {
    let Some(node) = node else {
        return Field::Unknown;
    };
    if let Some(property) = node.property(name) {
        return Field::Known(Some(property));
    }
    match node.additional() {
        Additional::Schema(node) => Field::Known(Some(node)),
        Additional::Any | Additional::Denied => Field::Known(None),
        Additional::Unspecified if keep => Field::Kept,
        Additional::Unspecified => Field::Unknown,
    }
}
