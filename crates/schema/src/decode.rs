//! Refuses wrong JSON types where Kubernetes decodes into typed fields, and does with nulls what
//! that decoding does.
//!
//! All of a built-in kind is typed; of a custom kind `apiVersion`, `kind` and `metadata` are, of
//! the object and of embedded ones. The rest of a custom object is checked by `validate`.

mod words;

use deltaplane_api::quantity::{self, ParseQuantityError};
use deltaplane_api::time::Time;
use serde_json::{Map, Value};

use crate::depth::{self, TooDeep};
use crate::node::{Kind, Node, Schema};

/// A value that does not fit its field. The request is malformed (400). The words are those of
/// Go, which clients of Kubernetes know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The value has another JSON type, or does not fit the number's type.
    #[error("json: cannot unmarshal {found} into Go {place} of type {expected}")]
    WrongType {
        /// The JSON type; of numbers that do not fit, the number too.
        found: String,
        /// `struct field ConfigMap.data`, or `value`.
        place: String,
        /// A Go type, such as `map[string]string`.
        expected: String,
    },
    /// The text is not base64, from this byte on.
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
    /// The text is not a time.
    #[error("parsing time {0}")]
    Time(String),
    /// The text is not a quantity.
    #[error(transparent)]
    Quantity(#[from] ParseQuantityError),
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

/// Where in the document we are: a list on the stack, turned into words only for an error. Go
/// names fields alone, and neither the keys of maps nor the indices of lists.
#[derive(Clone, Copy)]
struct At<'a> {
    parent: Option<&'a At<'a>>,
    /// The struct that has the field.
    owner: Option<&'a str>,
    field: &'a str,
}

impl Schema {
    /// Checks the JSON types of typed fields. Nulls in them become what Go makes of them: absent
    /// for fields, the zero value for entries of maps and lists.
    pub fn decode(&self, object: &mut Value) -> Result<(), DecodeError> {
        depth::check(object)?;
        check(object, self.root(), None)
    }
}

fn check(value: &mut Value, node: Node<'_>, at: Option<&At<'_>>) -> Result<(), DecodeError> {
    if node.is_untyped() {
        return Ok(());
    }
    if node.flags().decoded {
        check_type(value, node, at)?;
    }
    match value {
        Value::Object(map) => check_fields(map, node, at),
        Value::Array(list) => {
            let Some(items) = node.items() else {
                return Ok(());
            };
            for item in list {
                fill_null(item, items);
                // Scalars of the right type need no visit.
                if needs_visit(item, items) {
                    check(item, items, at)?;
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
    at: Option<&At<'_>>,
) -> Result<(), DecodeError> {
    if node.flags().decoded && map.values().any(Value::is_null) {
        map.retain(|name, value| {
            !value.is_null() || node.property(name).is_none_or(Node::is_untyped)
        });
    }
    for (name, value) in map.iter_mut() {
        if let Some(property) = node.property(name) {
            if needs_visit(value, property) {
                let field = At {
                    parent: at,
                    owner: node.data().title.as_deref(),
                    field: name,
                };
                // Where the typed part of a custom object begins, there is no struct around it.
                check(
                    value,
                    property,
                    Some(&field).filter(|_| node.flags().decoded),
                )?;
            }
        } else if let Some(entry) = node.child(name) {
            fill_null(value, entry);
            if needs_visit(value, entry) {
                check(value, entry, at)?;
            }
        }
    }
    Ok(())
}

/// False for what is certainly right.
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

fn check_type(value: &Value, node: Node<'_>, at: Option<&At<'_>>) -> Result<(), DecodeError> {
    if value.is_null() {
        return Ok(());
    }
    let fits = match node.kind() {
        Kind::Any => true,
        Kind::Object => value.is_object(),
        Kind::Array => value.is_array(),
        Kind::String => return check_text(value, node, at),
        Kind::Integer => words::integer_fits(value, node),
        Kind::Number => value.is_number(),
        Kind::Boolean => value.is_boolean(),
        Kind::IntOrString => value.is_string() || words::is_integer(value),
        Kind::Quantity => return Ok(check_quantity(value)?),
    };
    match fits {
        true => Ok(()),
        false => Err(words::wrong_type(value, node, at)),
    }
}

fn check_text(value: &Value, node: Node<'_>, at: Option<&At<'_>>) -> Result<(), DecodeError> {
    let Value::String(text) = value else {
        return Err(words::wrong_type(value, node, at));
    };
    match node.format() {
        Some("date-time") if text.parse::<Time>().is_err() => {
            Err(DecodeError::Time(words::time(text)))
        }
        Some("byte") => {
            words::illegal_base64(text).map_or(Ok(()), |at| Err(DecodeError::Base64(at)))
        }
        Some(_) | None => Ok(()),
    }
}

/// Go looks at the text between the quotes, or at the JSON itself.
fn check_quantity(value: &Value) -> Result<(), ParseQuantityError> {
    match value.as_str() {
        Some(text) => quantity::canonical(text.trim()).map(|_| ()),
        None => quantity::canonical(&value.to_string()).map(|_| ()),
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
            "inner": {"type": "array", "items": {"$ref": "#/components/schemas/io.k8s.v1.Inner"}},
        }});
        let inner = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        let any = json!({"type": "object"});
        let port =
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]});
        let schemas = [
            ("io.k8s.v1.Thing", &thing),
            ("io.k8s.v1.Inner", &inner),
            ("IntOrString", &port),
            ("Quantity", &any),
            ("RawExtension", &any),
        ];
        Definitions::from_openapi(schemas)
            .unwrap()
            .get("io.k8s.v1.Thing")
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
        let wrong = |found: &str, field: &str, expected: &str| {
            format!(
                "json: cannot unmarshal {found} into Go struct field {field} of type {expected}"
            )
        };
        let check_wrong = |value, found, field, expected| {
            check(value, Err(&wrong(found, field, expected)));
        };
        check(
            json!([]),
            Err("json: cannot unmarshal array into Go value of type v1.Thing"),
        );
        check_wrong(json!({"count": "1"}), "string", "Thing.count", "int32");
        check_wrong(json!({"count": 1.5}), "number 1.5", "Thing.count", "int32");
        let large = json!({"count": 3_000_000_000_i64});
        check_wrong(large, "number 3000000000", "Thing.count", "int32");
        check_wrong(json!({"port": true}), "bool", "Thing.port", "int32");
        check_wrong(json!({"list": [true, "x"]}), "string", "Thing.list", "bool");
        check_wrong(json!({"list": {}}), "object", "Thing.list", "[]bool");
        let data = json!({"data": "x"});
        check_wrong(data, "string", "Thing.data", "map[string][]uint8");
        check_wrong(json!({"when": 1}), "number", "Thing.when", "string");
        let inner = json!({"inner": [{"text": []}]});
        check_wrong(inner, "array", "Inner.inner.text", "string");
        check_wrong(json!({"inner": 7}), "number", "Thing.inner", "[]v1.Inner");
        check_wrong(json!({"inner": [7]}), "number", "Thing.inner", "v1.Inner");
        check(
            json!({"when": "now"}),
            Err(
                "parsing time \"now\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"now\" as \"2006\"",
            ),
        );
        check(
            json!({"data": {"k": "??"}}),
            Err("illegal base64 data at input byte 0"),
        );
        let quantities = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        check(json!({"size": []}), Err(quantities));
        check(json!({"size": "100MB"}), Err(quantities));
        check(
            json!({"size": "1kk"}),
            Err("unable to parse quantity's suffix"),
        );
    }

    #[test]
    fn of_custom_objects_the_metadata_is_typed() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
        let path = deltaplane_api::field::Path::root();
        let schema = crate::crd::compile(&schema, &path, crate::crd::Options::default()).unwrap();
        let check = |metadata: Value, expected: &str| {
            let mut object = json!({"metadata": metadata, "spec": "anything"});
            let error = schema.decode(&mut object).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            json!(1),
            "json: cannot unmarshal number into Go value of type v1.ObjectMeta",
        );
        check(
            json!({"labels": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        );
        check(
            json!({"ownerReferences": [{"name": 1}]}),
            "json: cannot unmarshal number into Go struct field OwnerReference.ownerReferences.name of type string",
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
