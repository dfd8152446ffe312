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

#[cfg(test)]
mod tests {
    use deltaplane_api::field::Path;
    use serde_json::json;

    use super::*;
    use crate::crd;

    fn check(spec: Value, value: Value, expected: Value, unknown: &[&str]) {
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let schema = crd::compile(&schema, &Path::root(), crd::Options::default()).unwrap();
        let mut object = json!({"metadata": {"name": "a"}, "spec": value});
        assert_eq!(schema.prune_reporting(&mut object), unknown);
        assert_eq!(object["spec"], expected);
    }

    #[test]
    fn paths_are_worded_as_kubernetes_does() {
        let ports = json!({"type": "object", "properties": {"ports": {
            "type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}}});
        check(
            ports,
            json!({"ports": [{"name": "a", "foo": 1}, {"bar": {}}], "x": {"y": 1}}),
            json!({"ports": [{"name": "a"}, {}]}),
            &["spec.ports[0].foo", "spec.ports[1].bar", "spec.x"],
        );
    }

    #[test]
    fn what_is_preserved_is_pruned_where_it_is_declared() {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "declared": {"type": "object", "properties": {"a": {"type": "string"}}}}});
        check(
            open,
            json!({"any": {"x": 1}, "declared": {"a": "b", "x": 1}}),
            json!({"any": {"x": 1}, "declared": {"a": "b"}}),
            &["spec.declared.x"],
        );
        // Without a schema for the values, there is nothing to keep in them.
        let any = json!({"type": "object", "additionalProperties": true});
        check(
            any,
            json!({"a": 1, "b": {"x": 1}}),
            json!({"a": 1, "b": {}}),
            &["spec.b.x"],
        );
    }

    #[test]
    fn metadata_is_that_of_every_object() {
        let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true});
        check(
            embedded,
            json!({"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"a": "b"}, "foo": 1}, "data": {}}),
            json!({"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"a": "b"}}, "data": {}}),
            &["spec.metadata.foo"],
        );
    }
}
