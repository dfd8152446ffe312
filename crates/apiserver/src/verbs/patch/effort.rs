//! The work that the operations of one JSON patch take, and its bound.
//!
//! Inserting into a list, or removing from it, shifts all later items; moving a value walks it to see
//! how deep it is. Thousands of such operations on a large object would take minutes. What is copied,
//! tested and replaced is bounded by the size of the patch and by the bound on copies.

use json_patch::PatchOperation;
use json_patch::jsonptr::Pointer;
use serde_json::Value;

use crate::error::Error;

/// The steps that one JSON patch may take: enough to remove ten thousand items from the front of a
/// list of ten thousand.
const MAX_STEPS: usize = 100_000_000;
/// Walking over a value takes as long as shifting this many items.
const STEPS_PER_VALUE: usize = 8;

/// The steps that are left to a patch.
pub(super) struct PatchEffort {
    steps_left: usize,
}

// === impl PatchEffort ===

impl PatchEffort {
    pub(super) fn new() -> Self {
        Self {
            steps_left: MAX_STEPS,
        }
    }

    /// Counts an operation before it is carried out; refuses one that takes too much.
    pub(super) fn count(
        &mut self,
        operation: &PatchOperation,
        object: &Value,
    ) -> Result<(), Error> {
        let left = match operation {
            PatchOperation::Add(add) => self.shift(object, &add.path),
            PatchOperation::Remove(remove) => self.shift(object, &remove.path),
            PatchOperation::Copy(copy) => self.shift(object, &copy.path),
            PatchOperation::Move(moved) => self.shift_and_walk(object, &moved.from, &moved.path),
            PatchOperation::Replace(_) | PatchOperation::Test(_) => Some(self.steps_left),
        };
        self.steps_left = left.ok_or_else(|| {
            Error::too_large_object(format!(
                "Unable to complete the patch, its operations shift and walk over more than {MAX_STEPS} list items and values; replace the list as a whole"
            ))
        })?;
        Ok(())
    }

    /// The steps that are left when the items behind this path were shifted. None if there are too
    /// few.
    fn shift(&self, object: &Value, path: &Pointer) -> Option<usize> {
        self.steps_left.checked_sub(items_behind(object, path))
    }

    fn shift_and_walk(&self, object: &Value, from: &Pointer, to: &Pointer) -> Option<usize> {
        let shifted = items_behind(object, from) + items_behind(object, to);
        let left = self.steps_left.checked_sub(shifted)?;
        match object.pointer(from.as_str()) {
            Some(value) => walk(value, left),
            None => Some(left),
        }
    }
}

/// The number of list items from this path to the end of the list that it points into.
fn items_behind(object: &Value, path: &Pointer) -> usize {
    let Some((list, item)) = path.split_back() else {
        return 0;
    };
    match object.pointer(list.as_str()) {
        Some(Value::Array(list)) => {
            let index = item.encoded().parse().unwrap_or(list.len());
            list.len().saturating_sub(index)
        }
        Some(_) | None => 0,
    }
}

/// The steps that are left when a value was walked over. None if there are too few.
fn walk(value: &Value, left: usize) -> Option<usize> {
    let left = left.checked_sub(STEPS_PER_VALUE)?;
    match value {
        Value::Array(list) => list.iter().try_fold(left, |left, item| walk(item, left)),
        Value::Object(map) => map.values().try_fold(left, |left, field| walk(field, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(left),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::apply_json_patch;
    use super::*;

    fn check(object: &mut Value, operations: Vec<Value>) -> Result<(), u16> {
        let patch = serde_json::from_value(operations.into()).expect("a JSON patch");
        apply_json_patch(&patch, object).map_err(|error| error.code.as_u16())
    }

    #[test]
    fn operations_that_shift_long_lists_are_bounded() {
        let long = || json!({"list": vec![0; 200_000]});
        let insert = json!({"op": "add", "path": "/list/0", "value": 1});
        let remove = json!({"op": "remove", "path": "/list/0"});
        let rotate = json!({"op": "move", "from": "/list/0", "path": "/list/199999"});
        for operation in [insert, remove, rotate] {
            assert_eq!(check(&mut long(), vec![operation.clone(); 100]), Ok(()));
            assert_eq!(check(&mut long(), vec![operation; 1_000]), Err(413));
        }
        let append = json!({"op": "add", "path": "/list/-", "value": 1});
        assert_eq!(check(&mut long(), vec![append; 10_000]), Ok(()));
    }

    #[test]
    fn moves_of_large_values_are_bounded() {
        let large = || json!({"a": {"x": vec![0; 200_000]}});
        let there_and_back = [
            json!({"op": "move", "from": "/a", "path": "/b"}),
            json!({"op": "move", "from": "/b", "path": "/a"}),
        ];
        let times = |count: usize| {
            let rounds = (0..count).flat_map(|_| there_and_back.clone());
            rounds.collect::<Vec<Value>>()
        };
        assert_eq!(check(&mut large(), times(10)), Ok(()));
        assert_eq!(check(&mut large(), times(100)), Err(413));
        let mut small = json!({"a": {"x": 1}});
        assert_eq!(check(&mut small, times(5_000)), Ok(()));
    }
}
