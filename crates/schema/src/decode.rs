//! Refuses wrong JSON types where Kubernetes decodes into typed fields, and does with nulls what
//! that decoding does.
//!
//! All of a built-in kind is typed; of a custom kind `apiVersion`, `kind` and `metadata` are, of
//! the object and of embedded ones. The rest of a custom object is checked by `validate`.

use std::fmt;

use deltaplane_api::field::Path;
use deltaplane_api::time::Time;
use serde_json::{Map, Value};

use crate::depth::{self, TooDeep};
use crate::node::{Kind, Node, Schema};

/// A value of the wrong type. The request is malformed (400).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// `path: expected integer, found string`.
    #[error("{path}: expected {expected}, found {found}")]
    WrongType {
        path: Path,
        expected: Expected,
        found: &'static str,
    },
    /// The number does not fit the field.
    #[error("{path}: {value} does not fit {format}")]
    OutOfRange {
        path: Path,
        value: String,
        format: &'static str,
    },
    /// The text is not what the field's format asks for.
    #[error("{path}: {value:?} is not {format}")]
    Malformed {
        path: Path,
        value: String,
        format: &'static str,
    },
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

/// What a field holds, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected(Kind);

impl Schema {
    /// Checks the JSON types of typed fields. Nulls in them become what Go makes of them: absent
    /// for fields, the zero value for entries of maps and lists.
    pub fn decode(&self, object: &mut Value) -> Result<(), DecodeError> {
        depth::check(object)?;
        let path = Path::root();
        check(object, self.root(), &path)
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Any => "any value",
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::IntOrString => "integer or string",
            Kind::Quantity => "quantity (string or number)",
        })
    }
}

fn check(value: &mut Value, node: Node<'_>, path: &Path) -> Result<(), DecodeError> {
    if node.is_untyped() {
        return Ok(());
    }
    if node.flags().decoded {
        check_type(value, node, path)?;
    }
    match value {
        Value::Object(map) => check_fields(map, node, path),
        Value::Array(list) => {
            let Some(items) = node.items() else {
                return Ok(());
            };
            for (index, item) in list.iter_mut().enumerate() {
                fill_null(item, items);
                // Scalars of the right type need no path.
                if needs_visit(item, items) {
                    check(item, items, &path.index(index))?;
                }
            }
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn check_fields(
    map: &mut Map<String, Value>,
    node: Node<'_>,
    path: &Path,
) -> Result<(), DecodeError> {
    if node.flags().decoded && map.values().any(Value::is_null) {
        map.retain(|name, value| {
            !value.is_null() || node.property(name).is_none_or(Node::is_untyped)
        });
    }
    for (name, value) in map.iter_mut() {
        if let Some(property) = node.property(name) {
            if needs_visit(value, property) {
                check(value, property, &path.child(name))?;
            }
        } else if let Some(entry) = node.child(name) {
            fill_null(value, entry);
            if needs_visit(value, entry) {
                check(value, entry, &path.key(name))?;
            }
        }
    }
    Ok(())
}

/// False for what is certainly right, so that its path need not be built.
fn needs_visit(value: &Value, node: Node<'_>) -> bool {
    match value {
        Value::Object(_) | Value::Array(_) => true,
        Value::String(_) => node.kind() != Kind::String || node.format().is_some(),
        Value::Bool(_) => node.kind() != Kind::Boolean,
        Value::Null | Value::Number(_) => true,
    }
}

/// Go decodes a null entry of a map or list into the zero value.
fn fill_null(value: &mut Value, node: Node<'_>) {
    if value.is_null() && node.flags().decoded && !node.nullable() {
        *value = match node.kind() {
            Kind::Any => return,
            Kind::Object => Value::Object(Map::new()),
            Kind::Array => Value::Array(Vec::new()),
            // The zero time is written as null again.
            Kind::String if node.format() == Some("date-time") => return,
            Kind::String => Value::String(String::new()),
            Kind::Integer | Kind::Number | Kind::IntOrString => Value::from(0),
            Kind::Boolean => Value::Bool(false),
            Kind::Quantity => Value::String("0".to_owned()),
        };
    }
}

fn check_type(value: &Value, node: Node<'_>, path: &Path) -> Result<(), DecodeError> {
    let fits = match node.kind() {
        Kind::Any => true,
        Kind::Object => value.is_object(),
        Kind::Array => value.is_array(),
        Kind::String => return check_text(value, node, path),
        Kind::Integer => return check_integer(value, node, path),
        Kind::Number => value.is_number(),
        Kind::Boolean => value.is_boolean(),
        Kind::IntOrString => value.is_string() || is_integer(value),
        Kind::Quantity => value.is_string() || value.is_number(),
    };
    match fits || value.is_null() {
        true => Ok(()),
        false => Err(wrong_type(value, node, path)),
    }
}

fn check_text(value: &Value, node: Node<'_>, path: &Path) -> Result<(), DecodeError> {
    let text = match value {
        Value::String(text) => text,
        Value::Null => return Ok(()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            return Err(wrong_type(value, node, path));
        }
    };
    let format = match node.format() {
        Some("date-time") if text.parse::<Time>().is_err() => "an RFC 3339 time",
        Some("byte") if !is_base64(text) => "base64",
        Some(_) | None => return Ok(()),
    };
    Err(DecodeError::Malformed {
        path: path.clone(),
        value: text.clone(),
        format,
    })
}

/// Standard base64, in lines or not, possibly empty.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches(['=', '\r', '\n']);
    let length = text.bytes().filter(|c| !matches!(c, b'\r' | b'\n')).count();
    let padding = text[body.len()..].bytes().filter(|&c| c == b'=').count();
    let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/' | b'\r' | b'\n');
    length.is_multiple_of(4) && padding <= 2 && body.bytes().all(legal)
}

fn check_integer(value: &Value, node: Node<'_>, path: &Path) -> Result<(), DecodeError> {
    if value.is_null() {
        return Ok(());
    }
    if !is_integer(value) {
        return Err(wrong_type(value, node, path));
    }
    let format = match node.format() {
        Some("int32") => "int32",
        Some(_) | None => "int64",
    };
    let fits = match (value.as_i64(), format) {
        (Some(number), "int32") => i32::try_from(number).is_ok(),
        (number, _) => number.is_some(),
    };
    match fits {
        true => Ok(()),
        false => Err(DecodeError::OutOfRange {
            path: path.clone(),
            value: value.to_string(),
            format,
        }),
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

fn wrong_type(value: &Value, node: Node<'_>, path: &Path) -> DecodeError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    DecodeError::WrongType {
        path: path.clone(),
        expected: Expected(node.kind()),
        found,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Definitions;

    fn schema() -> Schema {
        let thing = json!({"type": "object", "properties": {
            "count": {"type": "integer", "format": "int32"},
            "when": {"type": "string", "format": "date-time"},
            "data": {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
            "port": {"$ref": "#/components/schemas/IntOrString"},
            "size": {"$ref": "#/components/schemas/Quantity"},
            "raw": {"$ref": "#/components/schemas/RawExtension"},
            "list": {"type": "array", "items": {"type": "boolean"}},
        }});
        let any = json!({"type": "object"});
        let port =
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]});
        let schemas = [
            ("Thing", &thing),
            ("IntOrString", &port),
            ("Quantity", &any),
            ("RawExtension", &any),
        ];
        Definitions::from_openapi(schemas)
            .unwrap()
            .get("Thing")
            .unwrap()
    }

    fn check(mut value: Value, expected: Result<Value, &str>) {
        let outcome = schema()
            .decode(&mut value)
            .map(|()| value)
            .map_err(|error| error.to_string());
        assert_eq!(outcome, expected.map_err(str::to_owned));
    }

    #[test]
    fn wrong_types_are_refused() {
        check(json!([]), Err("<nil>: expected object, found array"));
        check(
            json!({"count": "1"}),
            Err("count: expected integer, found string"),
        );
        check(
            json!({"count": 1.5}),
            Err("count: expected integer, found number"),
        );
        check(
            json!({"count": 3_000_000_000_i64}),
            Err("count: 3000000000 does not fit int32"),
        );
        check(
            json!({"when": "now"}),
            Err("when: \"now\" is not an RFC 3339 time"),
        );
        check(
            json!({"data": {"k": "??"}}),
            Err("data[k]: \"??\" is not base64"),
        );
        check(
            json!({"port": true}),
            Err("port: expected integer or string, found boolean"),
        );
        check(
            json!({"size": []}),
            Err("size: expected quantity (string or number), found array"),
        );
        check(
            json!({"list": [true, "x"]}),
            Err("list[1]: expected boolean, found string"),
        );
    }

    #[test]
    fn right_types_and_nulls_pass() {
        let fine = json!({
            "count": 1, "when": "2024-01-01T00:00:00Z", "data": {"k": "aGk=", "l": ""}, "port": "http",
            "size": 1.5, "raw": {"a": [null]}, "list": [], "unknown": 1,
        });
        check(fine.clone(), Ok(fine));
        check(
            json!({"count": null, "data": {"k": null}, "list": [null], "raw": {"a": null}}),
            Ok(json!({"data": {"k": ""}, "list": [false], "raw": {"a": null}})),
        );
    }
}
