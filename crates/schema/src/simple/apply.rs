//! What markers do to a schema.

use serde_json::{Map, Value, json};

use super::Complaint;
use super::marker::{Marker, Topic};
use crate::validate::pattern::PatternBudget;

/// What went wrong, and what to do instead.
type Outcome = Result<(), (String, Option<String>)>;

/// A schema while markers are applied to it, in their order.
pub(super) struct Draft<'s> {
    pub(super) schema: &'s mut Map<String, Value>,
    /// The field is required.
    pub(super) required: bool,
    /// How deep the default is.
    pub(super) nesting: usize,
}

// === impl Draft ===

impl Draft<'_> {
    pub(super) fn apply(
        &mut self,
        marker: &Marker,
        patterns: &mut PatternBudget,
    ) -> Result<(), Complaint> {
        let value = marker.value.as_str();
        let outcome = match marker.topic {
            // What is required once stays so: `required=false` undoes nothing.
            Topic::Required => truth("required", value).map(|yes| self.required |= yes),
            Topic::Default => self.default(value),
            Topic::Description => self.description(value),
            Topic::Minimum => self.bound("minimum", value),
            Topic::Maximum => self.bound("maximum", value),
            Topic::Validation => self.validation(value),
            Topic::Immutable => truth("immutable", value).map(|yes| {
                if yes {
                    self.rule("self == oldSelf", "field is immutable");
                }
            }),
            Topic::Enum => self.choices(value),
            Topic::Pattern => self.pattern(value, patterns),
            Topic::MinLength => self.count("minLength", "string", value),
            Topic::MaxLength => self.count("maxLength", "string", value),
            Topic::MinItems => self.count("minItems", "array", value),
            Topic::MaxItems => self.count("maxItems", "array", value),
            Topic::UniqueItems => self.unique_items(value),
            Topic::ListType => self.list_type(value),
            Topic::ListMapKey => self.list_map_key(value),
        };
        outcome.map_err(|(message, hint)| Complaint {
            span: marker.span.clone(),
            message,
            hint,
        })
    }

    /// What holds for all markers together.
    pub(super) fn check(&self) -> Result<(), String> {
        if !self.schema.contains_key("x-kubernetes-list-map-keys") {
            return Ok(());
        }
        match self.list_kind() {
            Some("map") => Ok(()),
            Some(other) => Err(format!(
                "listMapKey set while listType is set to {other}, listType must be set to map"
            )),
            None => Err(
                "listMapKey set while listType is unset, listType must be set to map".to_owned(),
            ),
        }
    }

    fn set(&mut self, keyword: &str, value: impl Into<Value>) {
        self.schema.insert(keyword.to_owned(), value.into());
    }

    fn push(&mut self, keyword: &str, value: Value) {
        let list = self.schema.entry(keyword).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(value);
        }
    }

    fn kind(&self) -> &str {
        let kind = self.schema.get("type");
        kind.and_then(Value::as_str).unwrap_or_default()
    }

    fn list_kind(&self) -> Option<&str> {
        self.schema.get("x-kubernetes-list-type")?.as_str()
    }

    fn only_for(&self, marker: &str, kind: &str) -> Outcome {
        if self.kind() == kind {
            return Ok(());
        }
        let got = self.kind();
        let other = match (marker, got) {
            ("minLength", "array") => Some("minItems"),
            ("maxLength", "array") => Some("maxItems"),
            ("minItems", "string") => Some("minLength"),
            ("maxItems", "string") => Some("maxLength"),
            ("minLength" | "minItems", "integer" | "number") => Some("minimum"),
            ("maxLength" | "maxItems", "integer" | "number") => Some("maximum"),
            _ => None,
        };
        let message = format!("{marker} marker is only valid for {kind} types, got type: {got}");
        Err((message, other.map(|other| format!("use {other}"))))
    }

    fn description(&mut self, value: &str) -> Outcome {
        // Kubernetes does not write out what is empty.
        match value.is_empty() {
            true => drop(self.schema.remove("description")),
            false => self.set("description", value),
        }
        Ok(())
    }

    fn default(&mut self, value: &str) -> Outcome {
        let default = match self.kind() {
            "string" => text(value),
            "integer" => integer(value).map_err(|hint| {
                let message = format!("default value must be a valid integer, got: {value}");
                (message, hint)
            })?,
            "number" => json_number(value)?,
            "boolean" => boolean(value)?,
            kind => json_value(kind, value)?,
        };
        self.nesting = depth(&default);
        self.set("default", default);
        Ok(())
    }

    fn bound(&mut self, keyword: &str, value: &str) -> Outcome {
        let Some(number) = decimal(value) else {
            return fails(format!("{keyword} must be a number, got: {value}"));
        };
        self.set(keyword, shortest(number));
        Ok(())
    }

    fn count(&mut self, keyword: &str, kind: &str, value: &str) -> Outcome {
        self.only_for(keyword, kind)?;
        match value.parse::<i64>() {
            Ok(count) => self.set(keyword, count),
            Err(_) => return fails(format!("{keyword} must be an integer, got: {value}")),
        }
        Ok(())
    }

    fn validation(&mut self, value: &str) -> Outcome {
        if value.trim().is_empty() {
            return fails("validation must be an expression, and is empty");
        }
        self.rule(value, "validation failed");
        Ok(())
    }

    fn rule(&mut self, rule: &str, message: &str) {
        let rule = json!({"rule": rule, "message": message});
        self.push("x-kubernetes-validations", rule);
    }

    fn choices(&mut self, value: &str) -> Outcome {
        let mut choices = Vec::new();
        for choice in value.split(',').map(str::trim) {
            if choice.is_empty() {
                return fails("empty enum values are not allowed");
            }
            choices.push(match self.kind() {
                "string" => Value::from(choice),
                "integer" => integer(choice).map_err(|hint| {
                    let message = format!("enum value must be a valid integer, got: {choice}");
                    (message, hint)
                })?,
                kind => {
                    let kinds = "enum values only supported for string and integer types";
                    return fails(format!("{kinds}, got type: {kind}"));
                }
            });
        }
        self.set("enum", choices);
        Ok(())
    }

    fn pattern(&mut self, value: &str, patterns: &mut PatternBudget) -> Outcome {
        if value.is_empty() {
            return fails("pattern marker value cannot be empty");
        }
        self.only_for("pattern", "string")?;
        if let Err(why) = patterns.check(value) {
            let why = why.strip_prefix("error: ").unwrap_or(&why);
            return fails(format!("invalid pattern regex: {why}"));
        }
        self.set("pattern", value);
        Ok(())
    }

    fn unique_items(&mut self, value: &str) -> Outcome {
        let unique = truth("uniqueItems", value)?;
        self.only_for("uniqueItems", "array")?;
        match self.list_kind() {
            _ if !unique => {}
            None | Some("set") => self.set("x-kubernetes-list-type", "set"),
            Some(other) => {
                return fails(format!(
                    "cannot set uniqueItems when listType is set to {other}"
                ));
            }
        }
        Ok(())
    }

    fn list_type(&mut self, value: &str) -> Outcome {
        self.only_for("listType", "array")?;
        if !["atomic", "set", "map"].contains(&value) {
            let kinds = "needs to be one of atomic, set, or map";
            return fails(format!("unsupported value for listType {value}, {kinds}"));
        }
        match self.list_kind() {
            Some(other) if other != value => {
                return fails(format!("listType is set to {other} already"));
            }
            Some(_) | None => self.set("x-kubernetes-list-type", value),
        }
        Ok(())
    }

    fn list_map_key(&mut self, value: &str) -> Outcome {
        self.only_for("listMapKey", "array")?;
        let keys = self.schema.get("x-kubernetes-list-map-keys");
        let twice = keys.and_then(Value::as_array);
        if twice.is_some_and(|keys| keys.iter().any(|key| key == value)) {
            return fails(format!("duplicate listMapKey marker, value {value}"));
        }
        self.push("x-kubernetes-list-map-keys", value.into());
        Ok(())
    }
}

fn fails(message: impl Into<String>) -> Outcome {
    Err((message.into(), None))
}

/// A yes or no, in all the ways that Go reads one.
fn truth(marker: &str, value: &str) -> Result<bool, (String, Option<String>)> {
    match value {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => {
            let message = format!("{marker} must be true or false, got: {value}");
            Err((message, None))
        }
    }
}

/// A default of type string.
///
/// kro puts quotes around the value and takes the outcome for JSON, so `\n` is a line break. Where
/// that is no JSON, `a "word"`, kro has no schema; here the value is the text as it is.
fn text(value: &str) -> Value {
    let quoted = serde_json::from_str(&format!("\"{value}\""));
    Value::String(quoted.unwrap_or_else(|_| value.to_owned()))
}

/// An integer as JSON writes it. The error is a hint.
fn integer(value: &str) -> Result<Value, Option<String>> {
    let number = value.parse::<i64>().map_err(|_| None)?;
    let plain = number.to_string();
    match plain == value || value == "-0" {
        true => Ok(number.into()),
        false => Err(Some(format!("write {plain}"))),
    }
}

fn json_number(value: &str) -> Result<Value, (String, Option<String>)> {
    let number = serde_json::from_str(value).ok();
    let number = number.filter(|number: &Value| number.is_number() && value.trim() == value);
    number.ok_or_else(|| {
        let hint = decimal(value).map(|plain| format!("write {}", shortest(plain)));
        let message = format!("default value must be a valid number, got: {value}");
        (message, hint)
    })
}

fn boolean(value: &str) -> Result<Value, (String, Option<String>)> {
    if let "true" | "false" = value {
        return Ok((value == "true").into());
    }
    let hint = truth("default", value).map(|plain| format!("write {plain}"));
    let message = format!("default value must be true or false, got: {value}");
    Err((message, hint.ok()))
}

/// A default of a list or an object.
fn json_value(kind: &str, value: &str) -> Result<Value, (String, Option<String>)> {
    let (fits, example): (fn(&Value) -> bool, _) = match kind {
        "array" => (|value| value.is_array() || value.is_null(), r#"["a", "b"]"#),
        _ => (|value| value.is_object() || value.is_null(), r#"{"a": 1}"#),
    };
    if value.is_empty() {
        // What kro makes of it, which Kubernetes takes for none.
        return Ok(Value::Null);
    }
    let default = serde_json::from_str(value).ok().filter(fits);
    default.ok_or_else(|| {
        let message = format!("default value must be JSON of type {kind}, got: {value}");
        (message, Some(format!("write it as {example}")))
    })
}

/// A finite number, in which `_` may stand between digits, as in Go.
fn decimal(value: &str) -> Option<f64> {
    let digit = |at: usize| value.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let between = |at: usize| at > 0 && digit(at - 1) && digit(at + 1);
    let mut separators = value.match_indices('_');
    if !separators.all(|(at, _)| between(at)) {
        return None;
    }
    let number: f64 = value.replace('_', "").parse().ok()?;
    number.is_finite().then_some(number)
}

/// As an integer where it is one, as Go writes numbers.
fn shortest(number: f64) -> Value {
    let text = format!("{number}");
    serde_json::from_str(&text).unwrap_or_else(|_| number.into())
}

/// How deep a value is, which the parser has bounded.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
