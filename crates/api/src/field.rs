//! Errors about one field of an object, in the shapes and words Kubernetes uses.
//!
//! Clients compare these texts (conformance does), so the wording is part of the wire contract.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// A path into an object, such as `spec.containers[0].name` or `metadata.labels[app]`.
///
/// Built from the outside in; cheap to clone for the depths that objects have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(String);

/// What is wrong with the field. The names on the wire are those of `metav1.CauseType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Internal,
    TypeInvalid,
}

/// One field's error. `Display` gives the text that goes into `Status.message`.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Where; empty for the object itself.
    pub path: Path,
    /// The offending value, where the text shows it.
    pub value: Option<Value>,
    /// The rest of the sentence.
    pub detail: String,
}

// === impl Path ===

impl Path {
    /// The object itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// A path that starts at a top-level field.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The field `name` below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        let name = shortened(name, MAX_NAME);
        if self.0.is_empty() {
            return Self(name.into_owned());
        }
        Self(format!("{}.{name}", self.0))
    }

    /// The item `index` of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The entry `key` of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{}]", self.0, shortened(key, MAX_NAME)))
    }

    /// The text form; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

// === impl ErrorKind ===

impl ErrorKind {
    /// The name on the wire (`Status.details.causes[].reason`).
    pub fn cause(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

// === impl Error ===

impl Error {
    /// The value is not acceptable; `detail` says what would be.
    pub fn invalid(path: Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Invalid,
            path,
            value: Some(shown(value.into())),
            detail: detail.into(),
        }
    }

    /// The value has the wrong JSON type.
    pub fn type_invalid(path: Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::TypeInvalid,
            ..Self::invalid(path, value, detail)
        }
    }

    /// A field that must be there is not.
    pub fn required(path: Path, detail: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Required,
            path,
            value: None,
            detail: detail.into(),
        }
    }

    /// The field may not be set, or not changed, here.
    pub fn forbidden(path: Path, detail: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Forbidden,
            path,
            value: None,
            detail: detail.into(),
        }
    }

    /// The value occurs twice where it may occur once.
    pub fn duplicate(path: Path, value: impl Into<Value>) -> Self {
        Self {
            kind: ErrorKind::Duplicate,
            path,
            value: Some(shown(value.into())),
            detail: String::new(),
        }
    }

    /// What the field refers to does not exist.
    pub fn not_found(path: Path, value: impl Into<Value>) -> Self {
        Self {
            kind: ErrorKind::NotFound,
            path,
            value: Some(shown(value.into())),
            detail: String::new(),
        }
    }

    /// The value is not one of the supported ones.
    pub fn not_supported<S: AsRef<str>>(
        path: Path,
        value: impl Into<Value>,
        supported: &[S],
    ) -> Self {
        let quoted: Vec<String> = supported
            .iter()
            .map(|one| Value::from(one.as_ref()).to_string())
            .collect();
        let detail = match quoted.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", quoted.join(", ")),
        };
        Self {
            kind: ErrorKind::NotSupported,
            path,
            value: Some(shown(value.into())),
            detail,
        }
    }

    /// The value is longer than `max` bytes.
    pub fn too_long(path: Path, max: usize) -> Self {
        let detail = format!("may not be more than {}", counted(max, "byte"));
        Self {
            kind: ErrorKind::TooLong,
            path,
            value: None,
            detail,
        }
    }

    /// The list or map has more than `max` entries.
    pub fn too_many(path: Path, actual: usize, max: usize) -> Self {
        let detail = format!("must have at most {}", counted(max, "item"));
        Self {
            kind: ErrorKind::TooMany,
            path,
            value: Some(actual.into()),
            detail,
        }
    }

    /// The text without the path, as `Status.details.causes[].message` has it.
    pub fn body(&self) -> String {
        let words = self.kind.words();
        let head = match &self.value {
            Some(value) => format!("{words}: {}", Shown(value)),
            None => words.to_owned(),
        };
        match self.detail.is_empty() {
            true => head,
            false => format!("{head}: {}", self.detail),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

impl std::error::Error for Error {}

/// `1 byte`, `2 bytes`.
fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// Several errors in one line, each text once, as Kubernetes writes them; of very many, as many as
/// somebody can read.
pub fn aggregate(errors: &[Error]) -> String {
    let told = readable(errors);
    let mut seen = BTreeSet::new();
    let texts = told.iter().map(ToString::to_string);
    let mut texts: Vec<String> = texts.filter(|text| seen.insert(text.clone())).collect();
    let more = errors.len() - told.len();
    if more > 0 {
        texts.push(format!("and {more} more errors"));
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Those of many errors that are told: the first, and others while there is room.
pub fn readable(errors: &[Error]) -> &[Error] {
    let mut room = MAX_TOLD;
    let fits = |error: &&Error| {
        let size = error.path.as_str().len() + error.detail.len() + size(error.value.as_ref());
        room = room.saturating_sub(size + 32);
        room > 0
    };
    let count = errors.iter().take_while(fits).count();
    &errors[..count.max(1).min(errors.len())]
}

/// All errors of an answer take no more bytes than this, about.
const MAX_TOLD: usize = 512 << 10;
/// Longer names and values are shown in part.
const MAX_NAME: usize = 1 << 10;
const MAX_VALUE: usize = 4 << 10;

/// A text, or its beginning.
fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}… ({} bytes)", &text[..end], text.len()))
}

/// A value as errors show it: all of it, unless it is large.
pub fn shown(value: Value) -> Value {
    if size(Some(&value)) <= MAX_VALUE {
        return value;
    }
    match &value {
        Value::String(text) => shortened(text, MAX_VALUE).into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// How large a value is, about; of a large one, that it is.
fn size(value: Option<&Value>) -> usize {
    let mut left = vec![value];
    let mut size = 0;
    while let Some(value) = left.pop() {
        match value {
            Some(Value::String(text)) => size += text.len(),
            Some(Value::Array(items)) => left.extend(items.iter().map(Some)),
            Some(Value::Object(map)) => {
                size += map.keys().map(String::len).sum::<usize>();
                left.extend(map.values().map(Some));
            }
            Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => size += 4,
        }
        if size > MAX_VALUE {
            break;
        }
    }
    size
}

/// A value as Kubernetes prints it in an error: as JSON.
struct Shown<'a>(&'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_is_told_in_part() {
        let large = "é".repeat(1 << 20);
        let errors: Vec<Error> = (0..2_000)
            .map(|index| {
                Error::invalid(Path::root().key(&large).index(index), large.as_str(), "no")
            })
            .collect();
        let text = errors[0].to_string();
        assert!(text.len() < 6_000, "{}", text.len());
        assert!(text.contains("… (2097152 bytes)\": no"), "{text}");
        let all = aggregate(&errors);
        assert!(all.len() < 600_000, "{}", all.len());
        let told = readable(&errors).len();
        assert!(all.ends_with(&format!("and {} more errors]", 2_000 - told)));
        let object = serde_json::json!({"a": [large]});
        assert_eq!(shown(object), Value::from("object"));
    }

    #[test]
    fn texts_are_those_of_kubernetes() {
        let path = Path::new("spec").child("bars").index(0).child("name");
        let check = |error: Error, text: &str| assert_eq!(error.to_string(), text);
        check(
            Error::required(path.clone(), ""),
            "spec.bars[0].name: Required value",
        );
        check(
            Error::invalid(path.clone(), "X", "must be lower case"),
            r#"spec.bars[0].name: Invalid value: "X": must be lower case"#,
        );
        check(
            Error::not_supported(path.clone(), "c", &["b", "a"]),
            r#"spec.bars[0].name: Unsupported value: "c": supported values: "b", "a""#,
        );
        check(
            Error::duplicate(path, "x"),
            r#"spec.bars[0].name: Duplicate value: "x""#,
        );
        let data = Path::new("data");
        check(
            Error::too_long(data.clone(), 1),
            "data: Too long: may not be more than 1 byte",
        );
        check(
            Error::too_long(data.clone(), 2),
            "data: Too long: may not be more than 2 bytes",
        );
        check(
            Error::too_many(data.clone(), 2, 1),
            "data: Too many: 2: must have at most 1 item",
        );
        check(
            Error::too_many(data, 3, 2),
            "data: Too many: 3: must have at most 2 items",
        );
    }
}
