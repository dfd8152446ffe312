//! `--set`: a path into an object and the value that goes there.

use std::str::FromStr;

use serde_json::{Map, Value};

use crate::graph::GraphError;

/// A change of an object.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::graph) struct Change {
    text: String,
    /// The id of a resource, or `schema`.
    pub(super) node: String,
    /// Which of a collection.
    pub(super) item: Option<usize>,
    steps: Vec<Step>,
    value: Value,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Key(String),
    Index(usize),
}

/// The name of the instance.
const INSTANCE: &str = "schema";
/// Paths have no more steps.
const MAX_STEPS: usize = 64;

impl FromStr for Change {
    type Err = GraphError;

    fn from_str(text: &str) -> Result<Self, GraphError> {
        let wrong = |why: String| GraphError::Set {
            text: text.to_owned(),
            why,
        };
        let (path, value) = split(text).ok_or_else(|| wrong("there is no =".to_owned()))?;
        let mut steps = steps(path).map_err(wrong)?.into_iter().peekable();
        let node = match steps.next() {
            Some(Step::Key(node)) => node,
            Some(Step::Index(_)) | None => return Err(wrong("it has no id".to_owned())),
        };
        let item = match steps.peek() {
            Some(Step::Index(item)) => Some(*item),
            Some(Step::Key(_)) | None => None,
        };
        if item.is_some() {
            steps.next();
        }
        let steps: Vec<Step> = steps.collect();
        if steps.is_empty() {
            return Err(wrong("it has no path behind the id".to_owned()));
        }
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_depth: MAX_STEPS },
            legacy_octal_numbers: true,
        };
        let value = match value {
            "" => Value::String(String::new()),
            text => serde_saphyr::from_str_with_options(text, options)
                .map_err(|_| wrong("the value is not YAML".to_owned()))?,
        };
        Ok(Self {
            text: text.to_owned(),
            node,
            item,
            steps,
            value,
        })
    }
}

// === impl Change ===

impl Change {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_of_instance(&self) -> bool {
        self.node == INSTANCE
    }

    pub(super) fn apply(&self, object: &mut Value) -> Result<(), GraphError> {
        let wrong = |why: String| GraphError::Set {
            text: self.text.clone(),
            why,
        };
        let place = self
            .steps
            .iter()
            .try_fold(object, |value, step| into(value, step));
        *place.map_err(wrong)? = self.value.clone();
        Ok(())
    }
}

/// One step further; what is not there is made.
fn into<'v>(value: &'v mut Value, step: &Step) -> Result<&'v mut Value, String> {
    if value.is_null() {
        *value = match step {
            Step::Key(_) => Value::Object(Map::new()),
            Step::Index(_) => Value::Array(Vec::new()),
        };
    }
    match (step, value) {
        (Step::Key(key), Value::Object(map)) => Ok(map.entry(key.as_str()).or_insert(Value::Null)),
        (Step::Index(index), Value::Array(items)) => {
            if *index == items.len() {
                items.push(Value::Null);
            }
            let count = items.len();
            items
                .get_mut(*index)
                .ok_or_else(|| format!("[{index}] is beyond the {count} items there are"))
        }
        (Step::Key(key), _) => Err(format!("{key:?} is not in an object")),
        (Step::Index(index), _) => Err(format!("[{index}] is not in a list")),
    }
}

/// At the first `=` that is not in brackets.
fn split(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '=' if depth == 0 => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

/// `a.b[0]["c.d"]`.
fn steps(path: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if steps.len() == MAX_STEPS {
            return Err(format!("the path has more than {MAX_STEPS} steps"));
        }
        if let Some(inside) = rest.strip_prefix('[') {
            let (inside, behind) = inside.split_once(']').ok_or("a ] is missing")?;
            let quoted = ['"', '\''].into_iter().find_map(|quote| {
                let text = inside.strip_prefix(quote)?.strip_suffix(quote)?;
                Some(Step::Key(text.to_owned()))
            });
            steps.push(match (quoted, inside.parse()) {
                (Some(key), _) => key,
                (None, Ok(index)) => Step::Index(index),
                (None, Err(_)) => return Err(format!("[{inside}] is neither a number nor quoted")),
            });
            rest = behind;
            continue;
        }
        let name = rest.strip_prefix('.').unwrap_or(rest);
        let end = name.find(['.', '[']).unwrap_or(name.len());
        if end == 0 {
            return Err("the path has an empty name in it".to_owned());
        }
        steps.push(Step::Key(name[..end].to_owned()));
        rest = &name[end..];
    }
    Ok(steps)
}
