//! What changes between two schemas of a kind, and what of it breaks objects or clients.
//!
//! [`changes`] compares the schemas of two versions of a definition keyword by keyword, and
//! [`version_changes`] the whole versions. All that kro calls breaking is breaking here (also in
//! the schema of `status`); and so is what kro does not look at: rules, types of lists, values of
//! maps, formats, choices where there were none.
//!
//! A change is breaking when an object, a write or a request that was valid may not be so any more,
//! or when fields that were kept are dropped. Whether one really breaks depends on the objects that
//! exist, of which nothing is known here: a pattern that is written another way is a change that
//! may break.
//!
//! Invariants: nothing changes between equal schemas; all changes are listed, in the order of
//! fields; only leaving out what constrains values is never breaking.
//!
//! ```
//! use deltaplane_schema::compat;
//! use serde_json::json;
//!
//! let spec = |count| json!({"type": "object", "properties": {"count": count}});
//! let changes = compat::changes(
//!     &spec(json!({"type": "integer", "minimum": 1})),
//!     &spec(json!({"type": "integer", "minimum": 2, "default": 3})),
//! );
//! assert_eq!(changes[0].to_string(), "count: default 3 is added");
//! assert!(!changes[0].is_breaking());
//! assert_eq!(changes[1].to_string(), "count: minimum is 2, was 1");
//! assert!(changes[1].is_breaking());
//! ```

mod fields;
mod keywords;

use std::fmt;

use deltaplane_api::field::Path;
use serde_json::Value;

use crate::depth;

/// How much of a value is shown, in characters.
const MAX_SHOWN: usize = 80;

/// One change of a schema. `Display` is a sentence without a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The field of the object, such as `spec.ports[*].name`; empty for the object itself.
    pub path: Path,
    pub what: What,
}

/// What changed about a field.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    FieldAdded(Added),
    FieldRemoved,
    /// It was there before, and is required now.
    RequiredAdded,
    RequiredRemoved,
    /// It is required as before, but has no default any more.
    RequiredDefaultRemoved,
    /// A value of its `enum`.
    ChoiceAdded(Value),
    ChoiceRemoved(Value),
    /// One of its `x-kubernetes-validations`.
    RuleAdded(String),
    RuleRemoved(String),
    /// The same expression, with something else around it.
    RuleChanged(String, Effect),
    /// Any other keyword, as it was and is.
    Keyword {
        keyword: String,
        old: Option<Value>,
        new: Option<Value>,
        effect: Effect,
    },
    /// The schemas are nested too deeply to be compared.
    TooDeep,
}

/// How a field is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// Objects can do without it.
    Optional,
    /// They cannot: it has no default.
    Required,
    /// Any value was kept under its name before.
    Narrowing,
}

/// What a change means for values that were valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// They may not be valid any more, or not be kept.
    Restricts,
    /// They stay valid, as do more.
    Relaxes,
    /// Nothing.
    Neither,
}

/// All changes from `old` to `new`, each an `openAPIV3Schema`.
pub fn changes(old: &Value, new: &Value) -> Vec<Change> {
    if depth::too_deep_at(0, old) || depth::too_deep_at(0, new) {
        return vec![Change {
            path: Path::root(),
            what: What::TooDeep,
        }];
    }
    let mut changes = Vec::new();
    fields::compare(old, new, &Path::root(), &mut changes);
    changes
}

/// All changes from `old` to `new`, each an entry of a definition's `spec.versions`. Versions of
/// different names have nothing else to compare.
pub fn version_changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut all = Vec::new();
    keywords::compare_versions(old, new, &mut all);
    if old.get("name") != new.get("name") {
        return all;
    }
    let place = "/schema/openAPIV3Schema";
    let schema = |version| Value::pointer(version, place).unwrap_or(&Value::Null);
    all.extend(changes(schema(old), schema(new)));
    all
}

// === impl Change ===

impl Change {
    /// Whether it may make what was valid invalid, or drop what was kept.
    pub fn is_breaking(&self) -> bool {
        match &self.what {
            What::FieldRemoved | What::RequiredAdded | What::RequiredDefaultRemoved => true,
            What::ChoiceRemoved(_) | What::RuleAdded(_) | What::TooDeep => true,
            What::FieldAdded(added) => *added != Added::Optional,
            What::RequiredRemoved | What::ChoiceAdded(_) | What::RuleRemoved(_) => false,
            What::RuleChanged(_, effect) | What::Keyword { effect, .. } => {
                *effect == Effect::Restricts
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = match self.path.as_str() {
            "" => "the object",
            path => path,
        };
        match &self.what {
            What::FieldAdded(Added::Optional) => write!(f, "{at} is added"),
            What::FieldAdded(Added::Required) => {
                write!(f, "{at} is added, is required and has no default")
            }
            What::FieldAdded(Added::Narrowing) => {
                write!(f, "{at} is added where any value was kept before")
            }
            What::FieldRemoved => write!(f, "{at} is removed"),
            What::RequiredAdded => write!(f, "{at} is required now"),
            What::RequiredRemoved => write!(f, "{at} is not required any more"),
            What::RequiredDefaultRemoved => {
                write!(f, "{at} is required and has no default any more")
            }
            What::ChoiceAdded(value) => write!(f, "{at}: {} is allowed now", shown(value)),
            What::ChoiceRemoved(value) => {
                write!(f, "{at}: {} is not allowed any more", shown(value))
            }
            What::RuleAdded(rule) => write!(f, "{at}: rule `{}` is added", short(rule)),
            What::RuleRemoved(rule) => write!(f, "{at}: rule `{}` is removed", short(rule)),
            What::RuleChanged(rule, _) => {
                write!(f, "{at}: what is said with rule `{}` changes", short(rule))
            }
            What::Keyword {
                keyword, old, new, ..
            } => write_keyword(f, &self.path, keyword, old.as_ref(), new.as_ref()),
            What::TooDeep => write!(f, "the schemas are nested too deeply to be compared"),
        }
    }
}

fn write_keyword(
    f: &mut fmt::Formatter<'_>,
    path: &Path,
    keyword: &str,
    old: Option<&Value>,
    new: Option<&Value>,
) -> fmt::Result {
    if !path.as_str().is_empty() {
        write!(f, "{path}: ")?;
    }
    match (old, new) {
        (Some(old), Some(new)) => {
            write!(f, "{keyword} is {}, was {}", shown(new), shown(old))
        }
        (None, Some(Value::Bool(true))) => write!(f, "{keyword} is added"),
        (Some(Value::Bool(true)), None) => write!(f, "{keyword} is removed"),
        (None, Some(new)) => write!(f, "{keyword} {} is added", shown(new)),
        (Some(old), None) => write!(f, "{keyword} {} is removed", shown(old)),
        (None, None) => write!(f, "{keyword} changes"),
    }
}

fn shown(value: &Value) -> String {
    short(&value.to_string())
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
