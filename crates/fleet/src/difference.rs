//! What is not the same in two objects, field by field, without what nobody may read. Pure.

use serde_json::{Value, json};

/// A field that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    /// Such as `spec.template.spec.containers[0].image`.
    pub path: String,
    pub change: FieldChange,
}

/// What became of it. Values are JSON, on one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldChange {
    Added(String),
    Removed(String),
    Changed(String, String),
    /// A text of several lines: those with a `-` in front go, those with a `+` come.
    Lines(Vec<String>),
    /// What it says is nobody's business.
    Hidden(&'static str),
}

/// Around what changes in a text so many lines stay.
const CONTEXT: usize = 2;
/// Of larger texts all lines are shown as changed.
const COMPARED: usize = 4_000_000;

/// Fields of Secrets whose values are shown.
const OPEN: [&str; 6] = [
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "type",
    "immutable",
];

/// What is said of an object that comes or goes before its fields are.
const IDENTITY: [&str; 4] = ["apiVersion", "kind", "metadata.name", "metadata.namespace"];

/// What is not the same in two versions of an object; one of both may be nothing.
pub fn difference(before: Option<&Value>, after: Option<&Value>) -> Vec<Field> {
    let is_secret = |object: &Value| object["apiVersion"] == "v1" && object["kind"] == "Secret";
    let mut fields = fields(before, after);
    if before.is_some_and(is_secret) || after.is_some_and(is_secret) {
        let closed = fields.iter_mut().filter(|field| !field.is_open());
        closed.for_each(Field::hide);
    }
    fields
}

/// The same of a Secret, whatever it says that it is: whoever asks for it may have written any of it,
/// and have its values copied to where all may read them.
pub fn secret_difference(before: Option<&Value>, after: Option<&Value>) -> Vec<Field> {
    let mut fields = fields(before, after);
    fields.iter_mut().for_each(Field::hide);
    fields
}

fn fields(before: Option<&Value>, after: Option<&Value>) -> Vec<Field> {
    let mut fields = Vec::new();
    compare(String::new(), before, after, &mut fields);
    if before.is_none() || after.is_none() {
        fields.retain(|field| !IDENTITY.contains(&field.path.as_str()));
    }
    fields
}

fn compare(path: String, before: Option<&Value>, after: Option<&Value>, fields: &mut Vec<Field>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            let mut keys: Vec<&String> = old.keys().chain(added).collect();
            keys.sort();
            for key in keys {
                compare(below(&path, key), old.get(key), new.get(key), fields);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for at in 0..old.len().max(new.len()) {
                compare(format!("{path}[{at}]"), old.get(at), new.get(at), fields);
            }
        }
        // Of what comes or goes each field is said.
        (None, Some(Value::Object(new))) if !new.is_empty() => {
            for (key, value) in new {
                compare(below(&path, key), None, Some(value), fields);
            }
        }
        (Some(Value::Object(old)), None) if !old.is_empty() => {
            for (key, value) in old {
                compare(below(&path, key), Some(value), None, fields);
            }
        }
        (before, after) => {
            fields.extend(change(before, after).map(|change| Field { path, change }))
        }
    }
}

fn change(before: Option<&Value>, after: Option<&Value>) -> Option<FieldChange> {
    let several = |value: &Value| value.as_str().is_some_and(|text| text.contains('\n'));
    Some(match (before, after) {
        (Some(Value::String(old)), Some(Value::String(new)))
            if old.contains('\n') || new.contains('\n') =>
        {
            FieldChange::Lines(lines(old, new))
        }
        (None, Some(Value::String(new))) if new.contains('\n') => {
            FieldChange::Lines(lines("", new))
        }
        (Some(old), None) if several(old) => {
            FieldChange::Lines(lines(old.as_str().unwrap_or_default(), ""))
        }
        (Some(old), Some(new)) => FieldChange::Changed(old.to_string(), new.to_string()),
        (None, Some(new)) => FieldChange::Added(new.to_string()),
        (Some(old), None) => FieldChange::Removed(old.to_string()),
        (None, None) => return None,
    })
}

fn below(path: &str, key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match (path.is_empty(), key.chars().all(plain)) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}

/// What changes in a text, with a little around it.
fn lines(before: &str, after: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let all = align(&old, &new);
    let is_near = |at: usize| {
        let near = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(all.len());
        all[near].iter().any(|(sign, _)| *sign != ' ')
    };
    let mut shown = Vec::new();
    let mut skipped = false;
    for (at, (sign, line)) in all.iter().enumerate() {
        if is_near(at) {
            shown.push(format!("{sign}{line}"));
            skipped = false;
        } else if !skipped {
            shown.push("…".to_owned());
            skipped = true;
        }
    }
    shown
}

/// Every line once, with what becomes of it: as many as possible stay.
fn align<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(char, &'t str)> {
    let gone = |line: &&'t str| ('-', *line);
    let come = |line: &&'t str| ('+', *line);
    if old.len().saturating_mul(new.len()) > COMPARED {
        return old.iter().map(gone).chain(new.iter().map(come)).collect();
    }
    // The most lines that the rests, from each place on, have in common.
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = match old[i] == new[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut all = Vec::new();
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            all.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if common[(i + 1) * width + j] >= common[i * width + j + 1] {
            all.push(gone(&old[i]));
            i += 1;
        } else {
            all.push(come(&new[j]));
            j += 1;
        }
    }
    all.extend(old[i..].iter().map(gone));
    all.extend(new[j..].iter().map(come));
    all
}

// === impl Field ===

impl Field {
    /// Whether everybody may know what it says in a Secret.
    fn is_open(&self) -> bool {
        OPEN.contains(&self.path.as_str()) || self.path.starts_with("metadata.labels")
    }

    /// Leaves of a field that it changes.
    fn hide(&mut self) {
        self.change = FieldChange::Hidden(match &self.change {
            FieldChange::Added(_) => "added",
            FieldChange::Removed(_) => "removed",
            FieldChange::Changed(..) | FieldChange::Lines(_) => "changed",
            FieldChange::Hidden(word) => word,
        });
    }

    /// As the API says it.
    pub fn json(&self) -> Value {
        let path = &self.path;
        match &self.change {
            FieldChange::Added(new) => json!({"path": path, "after": new}),
            FieldChange::Removed(old) => json!({"path": path, "before": old}),
            FieldChange::Changed(old, new) => json!({"path": path, "before": old, "after": new}),
            FieldChange::Lines(lines) => json!({"path": path, "lines": lines}),
            FieldChange::Hidden(word) => json!({"path": path, "hidden": word}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &Value, after: &Value, expected: &[&str]) {
        let present = |value: &Value| (!value.is_null()).then(|| value.clone());
        let fields = difference(present(before).as_ref(), present(after).as_ref());
        let said: Vec<String> = fields.iter().map(|one| one.json().to_string()).collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn fields_one_by_one() {
        check(
            &json!({"a": 1, "b": {"x.y": "old"}, "l": [1, 2]}),
            &json!({"b": {"x.y": "new", "z": true}, "l": [1, 3, 4]}),
            &[
                r#"{"before":"1","path":"a"}"#,
                r#"{"after":"\"new\"","before":"\"old\"","path":"b[\"x.y\"]"}"#,
                r#"{"after":"true","path":"b.z"}"#,
                r#"{"after":"3","before":"2","path":"l[1]"}"#,
                r#"{"after":"4","path":"l[2]"}"#,
            ],
        );
        check(&json!({"a": 1}), &json!({"a": 1}), &[]);
    }

    #[test]
    fn texts_line_by_line() {
        let text =
            |middle: &str| json!({"data": {"conf": format!("1\n2\n3\n4\n{middle}\n6\n7\n8\n9\n")}});
        check(
            &text("five"),
            &text("5"),
            &[r#"{"lines":["…"," 3"," 4","-five","+5"," 6"," 7","…"],"path":"data.conf"}"#],
        );
    }

    #[test]
    fn secrets_stay_secret() {
        let secret = |value: &str, extra: Value| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": {"name": "s", "annotations": {"note": value}, "labels": {"a": value}},
                "data": {"key": value, "extra": extra},
            })
        };
        check(
            &secret("b25l", Value::Null),
            &secret("dHdv", json!("more\nlines")),
            &[
                r#"{"hidden":"changed","path":"data.extra"}"#,
                r#"{"hidden":"changed","path":"data.key"}"#,
                r#"{"hidden":"changed","path":"metadata.annotations.note"}"#,
                r#"{"after":"\"dHdv\"","before":"\"b25l\"","path":"metadata.labels.a"}"#,
            ],
        );
        let new = difference(None, Some(&secret("b25l", Value::Null)));
        let said: Vec<String> = new.iter().map(|one| one.json().to_string()).collect();
        assert!(
            !said
                .iter()
                .any(|one| one.contains("b25l") && !one.contains("labels"))
        );
    }
}
