//! What users may send: names of field managers, and managed fields themselves.

use deltaplane_api::field::{Error, Path};
use serde_json::Value;

use super::metadata;

const MAX_MANAGER: usize = 128;
const MAX_SUBRESOURCE: usize = 256;

/// What is wrong with `metadata.managedFields` as a user sent it.
pub fn validate_managed_fields(object: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    let entries = metadata(object, "managedFields").and_then(Value::as_array);
    for (index, entry) in entries.into_iter().flatten().enumerate() {
        let path = Path::new("metadata").child("managedFields").index(index);
        let word = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let operation = word("operation");
        if !matches!(operation, "Apply" | "Update") {
            errors.push(Error::invalid(
                path.child("operation"),
                operation,
                "must be `Apply` or `Update`",
            ));
        }
        let fields_type = word("fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.push(Error::invalid(
                path.child("fieldsType"),
                fields_type,
                "must be `FieldsV1`",
            ));
        }
        errors.extend(validate_field_manager(
            word("manager"),
            &path.child("manager"),
        ));
        if word("subresource").len() > MAX_SUBRESOURCE {
            errors.push(Error::too_long(path.child("subresource"), MAX_SUBRESOURCE));
        }
    }
    errors
}

/// What is wrong with the name of a field manager, which stands at `path`.
pub fn validate_field_manager(name: &str, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    if name.len() > MAX_MANAGER {
        errors.push(Error::too_long(path.clone(), MAX_MANAGER));
    }
    let hidden = name.char_indices().filter(|(_, c)| !is_printable(*c));
    errors.extend(hidden.map(|(at, c)| {
        let number = u32::from(c);
        let detail = format!("invalid character U+{number:04X} (at position {at})");
        Error::invalid(path.clone(), name, detail)
    }));
    errors
}

/// The field manager of a request that names none: the program in its `User-Agent`.
pub fn manager_from_user_agent(user_agent: &str) -> String {
    let mut name = String::new();
    for c in user_agent
        .split('/')
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|&c| is_printable(c))
    {
        if name.len() + c.len_utf8() > MAX_MANAGER {
            break;
        }
        name.push(c);
    }
    name
}

fn is_printable(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace())
}
