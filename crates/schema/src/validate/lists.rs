//! Lists of type set and map hold no item twice.

use std::collections::HashMap;

use deltaplane_api::field::{Error, Path};
use serde_json::{Map, Value};

use super::go_json;
use crate::node::{ListType, Node};

/// The second occurrence of every item that occurs more than once.
pub(super) fn duplicates(object: &Value, root: Node<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    walk(object, root, &Path::root(), &mut errors);
    errors
}

fn walk(value: &Value, node: Node<'_>, path: &Path, errors: &mut Vec<Error>) {
    // Built-in types have no such rule beyond what each kind checks itself.
    if node.is_untyped() || node.flags().decoded {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map
                .iter()
                .filter(|(_, value)| value.is_object() || value.is_array())
            {
                if let Some(child) = node.property(name) {
                    walk(value, child, &path.child(name), errors);
                } else if let Some(child) = node.child(name) {
                    walk(value, child, &path.key(name), errors);
                }
            }
        }
        Value::Array(list) => {
            match node.list_type() {
                ListType::Atomic => {}
                ListType::Set => set(list, path, errors),
                ListType::Map(keys) => map(list, keys, path, errors),
            }
            let Some(items) = node.items() else { return };
            for (index, item) in list
                .iter()
                .enumerate()
                .filter(|(_, item)| item.is_object() || item.is_array())
            {
                walk(item, items, &path.index(index), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn set(list: &[Value], path: &Path, errors: &mut Vec<Error>) {
    for index in repeated(list.iter().map(identity)) {
        errors.push(Error::duplicate(path.index(index), list[index].clone()));
    }
}

fn map(list: &[Value], keys: &[Box<str>], path: &Path, errors: &mut Vec<Error>) {
    if let Some(index) = list
        .iter()
        .position(|item| !item.is_object() && !item.is_null())
    {
        let words = "must be an object for an array of list-type map";
        errors.push(Error::invalid(
            path.index(index),
            list[index].clone(),
            words,
        ));
        return;
    }
    let key = |item: &Value| {
        let fields = keys
            .iter()
            .filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    let found: Vec<Value> = list.iter().map(key).collect();
    let same = |found: &Value| match (keys, found) {
        ([key], Value::Object(found)) => found.get(&**key).map(identity).unwrap_or_default(),
        (_, found) => identity(found),
    };
    for index in repeated(found.iter().map(same)) {
        errors.push(Error::duplicate(path.index(index), found[index].clone()));
    }
}

/// A text that equal values share. Scalars are compared as they are, `1` is not `1.0`; everything
/// else as it is printed.
fn identity(value: &Value) -> String {
    match value.is_object() || value.is_array() {
        true => go_json(value).to_string(),
        false => value.to_string(),
    }
}

/// The index of the second of each text that occurs more than once.
fn repeated(texts: impl Iterator<Item = String>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut repeated = Vec::new();
    for (index, text) in texts.enumerate() {
        let times = seen.entry(text).or_default();
        *times += 1;
        if *times == 2 {
            repeated.push(index);
        }
    }
    repeated
}
