//! The simple JSON paths of CRDs: printer columns, selectable fields, scale. Pure.
//!
//! `.spec.replicas`, `.metadata.labels['a/b']`, `.items[0]`, `.items[*].name`,
//! `.conditions[?(@.type=="Ready")].status`. No recursion, no slices, no scripts.

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// Items whose field at the path equals the value, or differs from it.
    Filter {
        path: JsonPath,
        equal: bool,
        value: Value,
    },
}

/// The path cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct JsonPathError(&'static str);

/// Longer paths are nobody's.
const MAX_STEPS: usize = 64;

// === impl JsonPath ===

impl JsonPath {
    /// Reads `.a.b[0]`, with or without braces around it.
    pub(crate) fn parse(text: &str) -> Result<Self, JsonPathError> {
        let text = text.trim();
        let text = text
            .strip_prefix('{')
            .and_then(|t| t.strip_suffix('}'))
            .unwrap_or(text);
        let text = text.strip_prefix('$').unwrap_or(text);
        let (path, rest) = steps(text, false)?;
        match rest.is_empty() {
            true => Ok(path),
            false => Err(JsonPathError("unexpected text in path")),
        }
    }

    /// The first value that the path finds.
    pub(crate) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        find(&self.0, value)
    }

    /// The fields of a path that is nothing but fields, such as `spec.replicas`.
    pub(crate) fn fields<'a>(&'a self) -> Option<Vec<&'a str>> {
        let field = |step: &'a Step| match step {
            Step::Field(name) => Some(name.as_str()),
            Step::Index(_) | Step::All | Step::Filter { .. } => None,
        };
        self.0.iter().map(field).collect()
    }
}

fn find<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    match step {
        Step::Field(name) => find(rest, value.get(name)?),
        Step::Index(index) => {
            let items = value.as_array()?;
            let length = i64::try_from(items.len()).ok()?;
            let index = if *index < 0 { length + index } else { *index };
            find(rest, items.get(usize::try_from(index).ok()?)?)
        }
        Step::All => children(value).find_map(|child| find(rest, child)),
        Step::Filter {
            path,
            equal,
            value: wanted,
        } => children(value)
            .filter(|child| (path.first(child) == Some(wanted)) == *equal)
            .find_map(|child| find(rest, child)),
    }
}

fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let items = value.as_array().into_iter().flatten();
    items.chain(
        value
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::values),
    )
}

/// Steps up to the end, or inside a filter up to an operator.
fn steps(mut text: &str, in_filter: bool) -> Result<(JsonPath, &str), JsonPathError> {
    let mut steps = Vec::new();
    let ends = |text: &str| text.is_empty() || in_filter && text.starts_with(['=', '!', ' ']);
    while !ends(text) {
        if steps.len() >= MAX_STEPS {
            return Err(JsonPathError("path is too long"));
        }
        let (step, rest) = match text.strip_prefix('.') {
            Some(rest) if rest.starts_with('[') => bracket(rest, in_filter)?,
            Some(rest) if rest.starts_with('.') => {
                return Err(JsonPathError("recursive descent is not supported"));
            }
            Some(rest) => field(rest)?,
            None if text.starts_with('[') => bracket(text, in_filter)?,
            None if steps.is_empty() => field(text)?,
            None => return Err(JsonPathError("expected '.' or '['")),
        };
        steps.push(step);
        text = rest;
    }
    match steps.is_empty() {
        true => Err(JsonPathError("path is empty")),
        false => Ok((JsonPath(steps), text)),
    }
}

/// A name up to the next step; a backslash keeps a dot in it.
fn field(text: &str) -> Result<(Step, &str), JsonPathError> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            '.' | '[' | '=' | '!' | ' ' => {
                end = at;
                break;
            }
            c => name.push(c),
        }
    }
    match name.as_str() {
        "" => Err(JsonPathError("a field has no name")),
        "*" => Ok((Step::All, &text[end..])),
        _ => Ok((Step::Field(name), &text[end..])),
    }
}

fn bracket(text: &str, in_filter: bool) -> Result<(Step, &str), JsonPathError> {
    if let Some(filter) = text.strip_prefix("[?(") {
        if in_filter {
            return Err(JsonPathError("filters do not nest"));
        }
        return parse_filter(filter);
    }
    for quote in ['\'', '"'] {
        if let Some(rest) = text.strip_prefix(&format!("[{quote}")) {
            let (name, rest) = rest
                .split_once(quote)
                .ok_or(JsonPathError("unclosed quote"))?;
            let rest = rest
                .strip_prefix(']')
                .ok_or(JsonPathError("unclosed bracket"))?;
            return Ok((Step::Field(name.to_owned()), rest));
        }
    }
    let (inside, rest) = text[1..]
        .split_once(']')
        .ok_or(JsonPathError("unclosed bracket"))?;
    match inside {
        "*" => Ok((Step::All, rest)),
        number => {
            let index = number
                .parse()
                .map_err(|_| JsonPathError("expected an index"))?;
            Ok((Step::Index(index), rest))
        }
    }
}

fn parse_filter(text: &str) -> Result<(Step, &str), JsonPathError> {
    let text = text.trim_start();
    let text = text
        .strip_prefix('@')
        .ok_or(JsonPathError("a filter begins with '@'"))?;
    let (path, rest) = steps(text, true)?;
    let rest = rest.trim_start();
    let (equal, rest) = match (rest.strip_prefix("=="), rest.strip_prefix("!=")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        (None, None) => return Err(JsonPathError("expected '==' or '!='")),
    };
    let (value, rest) = rest
        .split_once(")]")
        .ok_or(JsonPathError("unclosed filter"))?;
    let value = literal(value.trim()).ok_or(JsonPathError("expected a text, number or boolean"))?;
    Ok((Step::Filter { path, equal, value }, rest))
}

fn literal(text: &str) -> Option<Value> {
    let single = text
        .strip_prefix('\'')
        .and_then(|text| text.strip_suffix('\''));
    match single {
        Some(inside) => Some(Value::from(inside)),
        None => serde_json::from_str(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(path: &str) -> Option<Value> {
        let object = json!({
            "spec": {"replicas": 3, "items": [{"name": "a"}, {"name": "b"}]},
            "metadata": {"labels": {"a.b/c": "x"}},
            "status": {"conditions": [
                {"type": "Other", "status": "True"},
                {"type": "Ready", "status": "False"},
            ]},
        });
        JsonPath::parse(path)
            .ok()
            .map(|path| path.first(&object).cloned().unwrap_or(Value::Null))
    }

    #[test]
    fn paths_find_the_first_value() {
        let cases = [
            (".spec.replicas", Some(json!(3))),
            ("{.spec.replicas}", Some(json!(3))),
            (".spec.items[1].name", Some(json!("b"))),
            (".spec.items[-1].name", Some(json!("b"))),
            (".spec.items[*].name", Some(json!("a"))),
            (".spec.items[9].name", Some(Value::Null)),
            (r".metadata.labels.a\.b/c", Some(json!("x"))),
            (".metadata.labels['a.b/c']", Some(json!("x"))),
            (
                r#".status.conditions[?(@.type=="Ready")].status"#,
                Some(json!("False")),
            ),
            (
                ".status.conditions[?(@.type == 'Ready')].status",
                Some(json!("False")),
            ),
            (
                ".status.conditions[?(@.type!='Ready')].status",
                Some(json!("True")),
            ),
            (".missing.deeply", Some(Value::Null)),
            ("", None),
            ("..name", None),
            (".a[", None),
            (".a['b", None),
            (".a[?(@.b)]", None),
            (".a[x]", None),
        ];
        for (path, expected) in cases {
            assert_eq!(check(path), expected, "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_path_or_an_error(text in r#"[.\[\]?(@a='"*0!{}\\]{0,30}"#) {
            let _ = JsonPath::parse(&text);
        }
    }
}
