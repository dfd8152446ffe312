//! Checks values against a schema, with the errors that Kubernetes gives.
//!
//! The order of checks, the texts, and which branch of an `anyOf` is reported follow the
//! validator that Kubernetes uses for custom resources, because users and tests compare them.
//! Where that one's order depends on a hash map, ours is the order of names.
//!
//! On update, errors in parts that did not change are ignored ("ratcheting"): the stored value at
//! the same place is carried along, through objects by field and through keyed lists by key.
//!
//! Not here: `x-kubernetes-validations`, which need an expression language.

pub(crate) mod embedded;
pub(crate) mod format;
mod lists;
mod number;
pub(crate) mod pattern;

use std::collections::HashSet;
use std::fmt::Write;

use deltaplane_api::field::{Error, ErrorKind, Path};
use serde_json::{Map, Value};

use crate::correlate::Keyed;
use crate::depth;
use crate::node::{Additional, Checks, Kind, Node, NodeId, Schema};
use crate::order;

/// After this many errors the rest is not reported.
const MAX_ERRORS: usize = 1_000;

impl Schema {
    /// All that is wrong with `object`. `old` is the stored object when this is an update.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Error> {
        if let Err(error) = depth::check(object) {
            return vec![Error::invalid(Path::root(), "", error.to_string())];
        }
        let mut errors = self.validate_at(object, old, Path::root());
        embedded::check(object, self.root(), &Path::root(), &mut errors);
        let mut duplicates = lists::duplicates(object, self.root());
        let ratcheted = |old: &Value| !lists::duplicates(old, self.root()).is_empty();
        if !old.is_some_and(ratcheted) {
            errors.append(&mut duplicates);
        }
        errors.truncate(MAX_ERRORS);
        show_as_go(&mut errors);
        errors
    }

    /// The value checks alone, for a value that is at `path` in a larger one.
    fn validate_at(&self, value: &Value, old: Option<&Value>, path: Path) -> Vec<Error> {
        let mut walk = Walk {
            base: path,
            path: String::new(),
            errors: Vec::new(),
            form: Form::OpenApi,
        };
        walk.ratcheted(value, old, self.root());
        walk.errors
    }

    /// The value checks for a default, which stands at `path`.
    pub(crate) fn validate_default(&self, default: &Value, path: Path) -> Vec<Error> {
        let mut walk = Walk {
            base: path,
            path: String::new(),
            errors: Vec::new(),
            form: Form::Structural,
        };
        walk.node(default, None, self.root());
        walk.errors
    }
}

/// One walk down a value. Errors are collected; the result of a step is how much of the schema the
/// value fits, which decides which branch of an `anyOf` is reported.
struct Walk {
    /// Where the walk began.
    base: Path,
    /// Where it is, from there.
    path: String,
    errors: Vec<Error>,
    form: Form,
}

/// The form of the schema that is checked against. Kubernetes turns schemas into one for objects
/// and into another for defaults, and the two do not say quite the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    OpenApi,
    /// "Integer or string" is untyped, and all formats count as formats.
    Structural,
}

// === impl Walk ===

impl Walk {
    fn ratcheted(&mut self, value: &Value, old: Option<&Value>, node: Node<'_>) -> usize {
        let before = self.errors.len();
        let fit = self.node(value, old, node);
        if self.errors.len() > before && old.is_some_and(|old| node.is_unchanged(value, old)) {
            self.errors.truncate(before);
        }
        fit
    }

    fn node(&mut self, value: &Value, old: Option<&Value>, node: Node<'_>) -> usize {
        if node.is_untyped() {
            return 1;
        }
        let checks = node.checks();
        if value.is_null() {
            let fit = self.null(node);
            self.enumeration(value, checks);
            return fit;
        }
        // One for each of the checks that every value passes through, and one for the whole.
        let mut fit = self.kind(value, node, checks) + 3;
        if let Some(checks) = checks {
            fit += self.branches(value, old, node, checks);
        } else {
            fit += 1;
        }
        match value {
            Value::String(text) => fit += self.text(text, checks),
            Value::Number(_) => fit += self.number(value, node.kind(), checks),
            Value::Array(list) => fit += self.list(list, old, node, checks),
            Value::Null | Value::Bool(_) | Value::Object(_) => {}
        }
        self.enumeration(value, checks);
        if let Value::Object(map) = value {
            fit += self.object(map, old, node, checks) + 1;
        }
        fit
    }

    fn push(&mut self, error: Error) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    fn here(&self) -> Path {
        match self.path.is_empty() {
            true => self.base.clone(),
            false => self
                .base
                .child(self.path.strip_prefix('.').unwrap_or(&self.path)),
        }
    }

    /// An error with the value shown and a sentence that repeats the path.
    fn invalid(&mut self, value: Value, words: &str) {
        let detail = format!("{} in body {words}", self.path);
        let error = Error::invalid(self.here(), value, detail);
        self.push(error);
    }

    fn wrong_type(&mut self, expected: &str, found: &str) {
        let detail = format!(
            "{} in body must be of type {expected}: {found:?}",
            self.path
        );
        let error = Error::type_invalid(self.here(), found, detail);
        self.push(error);
    }

    /// An error that Kubernetes gives without a path.
    fn unplaced(&mut self, detail: String) {
        self.push(Error::invalid(self.base.clone(), "", detail));
    }

    fn null(&mut self, node: Node<'_>) -> usize {
        let types = self.types(node.kind());
        if node.nullable() || types.is_empty() {
            return 1;
        }
        self.wrong_type(&types.join(","), "null");
        0
    }

    fn types(&self, kind: Kind) -> &'static [&'static str] {
        match (kind, self.form) {
            (Kind::IntOrString, Form::Structural) => &[],
            (kind, _) => type_names(kind),
        }
    }

    fn kind(&mut self, value: &Value, node: Node<'_>, checks: Option<&Checks>) -> usize {
        let types = self.types(node.kind());
        let format = checks
            .filter(|checks| checks.format.is_some() || self.form == Form::Structural)
            .and_then(|one| one.format_name.as_deref());
        if types.is_empty() && format.is_none() {
            return 0;
        }
        let (found, found_format) = type_of(value);
        let numeric = types.contains(&"number") || types.contains(&"integer");
        let whole = found == "number" && types.contains(&"integer") && number::is_whole(value);
        let fits =
            types.contains(&found) || whole || (found == "integer" && types.contains(&"number"));
        let structured = matches!(value, Value::String(_) | Value::Array(_));
        match format {
            Some(format) if !structured && !fits && found_format != format => {
                self.wrong_type(format, found_format);
                1
            }
            Some(_) if structured && !numeric => 2,
            Some(_) | None if fits => 2,
            Some(_) | None => {
                self.wrong_type(&types.join(","), found);
                1
            }
        }
    }

    fn branches(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        node: Node<'_>,
        checks: &Checks,
    ) -> usize {
        let before = self.errors.len();
        let mut fit = 1;
        if !checks.any_of.is_empty() {
            fit += self.any_of(value, old, node, &checks.any_of);
        }
        if !checks.one_of.is_empty() {
            fit += self.one_of(value, old, node, &checks.one_of);
        }
        if !checks.all_of.is_empty() {
            fit += self.all_of(value, old, node, &checks.all_of);
        }
        if let Some(not) = checks.not
            && self.branch(value, old, node.with(not)).errors.is_empty()
        {
            self.unplaced(format!(
                "{:?} must not validate the schema (not)",
                self.path
            ));
        }
        self.drop_repeated(before);
        fit
    }

    fn branch(&self, value: &Value, old: Option<&Value>, node: Node<'_>) -> Branch {
        let mut walk = Self {
            base: self.base.clone(),
            path: self.path.clone(),
            errors: Vec::new(),
            form: self.form,
        };
        let fit = walk.node(value, old, node);
        Branch {
            fit,
            errors: walk.errors,
        }
    }

    fn any_of(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        node: Node<'_>,
        ids: &[NodeId],
    ) -> usize {
        let mut best: Option<Branch> = None;
        for id in ids {
            let branch = self.branch(value, old, node.with(*id));
            if branch.errors.is_empty() {
                return branch.fit;
            }
            best = Branch::better(best, branch);
        }
        self.unplaced(format!(
            "{:?} must validate at least one schema (anyOf)",
            self.path
        ));
        self.adopt(best)
    }

    fn one_of(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        node: Node<'_>,
        ids: &[NodeId],
    ) -> usize {
        let mut best: Option<Branch> = None;
        let mut first_fit = 0;
        let mut valid = 0;
        for id in ids {
            let branch = self.branch(value, old, node.with(*id));
            match branch.errors.is_empty() {
                true if valid == 0 => (valid, first_fit, best) = (1, branch.fit, None),
                true => valid += 1,
                false if valid == 0 => best = Branch::better(best, branch),
                false => {}
            }
        }
        let found = match valid {
            1 => return first_fit,
            0 => "Found none valid".to_owned(),
            more => format!("Found {more} valid alternatives"),
        };
        self.unplaced(format!(
            "{:?} must validate one and only one schema (oneOf). {found}",
            self.path
        ));
        self.adopt(best)
    }

    fn all_of(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        node: Node<'_>,
        ids: &[NodeId],
    ) -> usize {
        let mut fit = 0;
        let mut valid = 0;
        for id in ids {
            let branch = self.branch(value, old, node.with(*id));
            valid += usize::from(branch.errors.is_empty());
            fit += self.adopt(Some(branch));
        }
        if valid < ids.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            self.unplaced(format!(
                "{:?} must validate all the schemas (allOf){none}",
                self.path
            ));
        }
        fit
    }

    fn adopt(&mut self, branch: Option<Branch>) -> usize {
        let Some(branch) = branch else { return 0 };
        branch.errors.into_iter().for_each(|error| self.push(error));
        branch.fit
    }

    /// Branches report the same fault twice; one is enough.
    fn drop_repeated(&mut self, from: usize) {
        if self.errors.len() > from + 1 {
            let mut seen = HashSet::new();
            let repeated = self.errors.split_off(from);
            self.errors.extend(
                repeated
                    .into_iter()
                    .filter(|error| seen.insert(error.to_string())),
            );
        }
    }

    fn text(&mut self, text: &str, checks: Option<&Checks>) -> usize {
        let Some(checks) = checks else { return 1 };
        let length = || text.chars().count() as u64;
        if let Some(max) = checks
            .max_length
            .filter(|&max| text.len() as u64 > max && length() > max)
        {
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            self.push(Error::too_long(self.here(), max));
        } else if let Some(min) = checks.min_length.filter(|&min| length() < min) {
            self.invalid(text.into(), &format!("should be at least {min} chars long"));
        } else if let Some(pattern) = checks
            .pattern
            .as_ref()
            .filter(|pattern| !pattern.matches(text))
        {
            self.invalid(text.into(), &format!("should match '{}'", pattern.source()));
        }
        let Some(format) = checks.format.filter(|format| format.is_text()) else {
            return 1;
        };
        if !format.accepts(text) {
            let name = checks.format_name.as_deref().unwrap_or_default();
            self.wrong_type(name, text);
        }
        2
    }

    fn number(&mut self, value: &Value, kind: Kind, checks: Option<&Checks>) -> usize {
        let format = checks.and_then(|checks| checks.format);
        if let Some(words) = number::out_of_range(value, kind, format) {
            self.unplaced(format!(
                "Checked value must be of type {words} in {}",
                self.path
            ));
        }
        if let Some(checks) = checks {
            if checks
                .multiple_of
                .is_some_and(|factor| number::is_senseless(value, factor))
            {
                let words = "must be positive: 0";
                let detail = format!("factor MultipleOf declared for {} {words}", self.path);
                let error = Error::invalid(self.here(), 0, detail);
                self.push(error);
            }
            let faults = [
                checks
                    .multiple_of
                    .and_then(|factor| number::not_multiple(value, factor)),
                checks.minimum.and_then(|bound| number::below(value, bound)),
                checks.maximum.and_then(|bound| number::above(value, bound)),
            ];
            for words in faults.into_iter().flatten() {
                self.invalid(value.clone(), &words);
            }
        }
        2
    }

    fn list(
        &mut self,
        list: &[Value],
        old: Option<&Value>,
        node: Node<'_>,
        checks: Option<&Checks>,
    ) -> usize {
        let mut fit = 2;
        if let Some(items) = node.items() {
            let old = old.and_then(Value::as_array);
            let old = old.and_then(|old| Keyed::new(node, old));
            for (index, item) in list.iter().enumerate() {
                let mark = self.path.len();
                // Writing to a string cannot fail.
                let _ = write!(self.path, "[{index}]");
                let old_item = old.as_ref().and_then(|old| old.get(item));
                fit += self.ratcheted(item, old_item, items);
                self.path.truncate(mark);
            }
        }
        let Some(checks) = checks else { return fit };
        if let Some(min) = checks.min_items.filter(|&min| (list.len() as u64) < min) {
            self.invalid(
                list.len().into(),
                &format!("should have at least {min} items"),
            );
        }
        self.at_most(list.len(), checks.max_items);
        if checks.unique_items && !order::all_different(list) {
            self.invalid("".into(), "shouldn't contain duplicates");
        }
        fit
    }

    fn at_most(&mut self, actual: usize, max: Option<u64>) {
        if let Some(max) = max.filter(|&max| actual as u64 > max) {
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            self.push(Error::too_many(self.here(), actual, max));
        }
    }

    fn enumeration(&mut self, value: &Value, checks: Option<&Checks>) {
        let Some(checks) = checks.filter(|checks| !checks.enumeration.is_empty()) else {
            return;
        };
        let listed = |one: &Value| match one.as_i64() {
            // Whole numbers are compared after cutting off a fraction.
            Some(one) => value.as_f64().is_some_and(|value| value as i64 == one),
            None => !value.is_null() && order::equal(one, value),
        };
        if !checks.enumeration.iter().any(listed) {
            let error = not_supported(self.here(), value, &checks.enumeration);
            self.push(error);
        }
    }

    fn object(
        &mut self,
        map: &Map<String, Value>,
        old: Option<&Value>,
        node: Node<'_>,
        checks: Option<&Checks>,
    ) -> usize {
        if let Some(checks) = checks {
            if let Some(min) = checks
                .min_properties
                .filter(|&min| (map.len() as u64) < min)
            {
                self.invalid(
                    map.len().into(),
                    &format!("should have at least {min} properties"),
                );
            }
            self.at_most(map.len(), checks.max_properties);
        }
        let at_root = self.path.is_empty();
        let old = old.and_then(Value::as_object);
        let mut fit = 0;
        for (name, value) in map {
            // An undeclared field of the root has a dot in front, which only texts show.
            let (child, dot) = match (node.property(name), node.additional()) {
                (Some(child), _) => (child, !at_root),
                (None, Additional::Schema(child)) => (child, true),
                (None, Additional::Denied) => {
                    let detail = format!("{}.{name} in body is a forbidden property", self.path);
                    let error = Error::invalid(self.here(), name.as_str(), detail);
                    self.push(error);
                    continue;
                }
                (None, Additional::Any | Additional::Unspecified) => continue,
            };
            let old = old.and_then(|old| old.get(name));
            // What makes an object of another kind is never unchanged enough.
            let old = old.filter(|_| !(at_root && matches!(name.as_str(), "apiVersion" | "kind")));
            let mark = self.path.len();
            if dot {
                self.path.push('.');
            }
            self.path.push_str(name);
            fit += self.ratcheted(value, old, child);
            self.path.truncate(mark);
        }
        let is_missing = |name: &&str| !map.contains_key(*name) && !has_zero(node, name);
        for name in node.required().iter().map(AsRef::as_ref).filter(is_missing) {
            let error = Error::required(self.here().child(name), "");
            self.push(error);
        }
        fit
    }
}

/// Returns true if a field that is left out has a value all the same: a time in a Go type, which
/// clients that have none send as null.
fn has_zero(node: Node<'_>, field: &str) -> bool {
    node.property(field)
        .is_some_and(|node| node.flags().decoded && node.format() == Some("date-time"))
}

/// What came of one branch of an `anyOf` and its like.
struct Branch {
    fit: usize,
    errors: Vec<Error>,
}

// === impl Branch ===

impl Branch {
    /// The branch that fits better; the earlier one when both fit alike.
    fn better(best: Option<Self>, other: Self) -> Option<Self> {
        match best {
            Some(best) if best.fit >= other.fit => Some(best),
            Some(_) | None => Some(other),
        }
    }
}

/// `Unsupported value`, with the values in the order in which the schema lists them.
pub(crate) fn not_supported(path: Path, value: &Value, supported: &[Value]) -> Error {
    let shown = supported.iter().map(|one| match one.is_string() {
        true => one.to_string(),
        false => Value::from(go_json(one).to_string()).to_string(),
    });
    let detail = format!("supported values: {}", shown.collect::<Vec<_>>().join(", "));
    Error {
        kind: ErrorKind::NotSupported,
        path,
        value: Some(value.clone()),
        detail,
    }
}

/// Gives the values that errors show the form in which Go prints them.
pub(crate) fn show_as_go(errors: &mut [Error]) {
    for error in errors {
        error.value = error.value.take().map(|value| go_json(&value));
    }
}

/// Floats without a fraction are printed without one.
pub(crate) fn go_json(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 1e15 => Value::from(float as i64),
            Some(_) | None => value.clone(),
        },
        Value::Array(list) => list.iter().map(go_json).collect(),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), go_json(value)));
            Value::Object(entries.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn type_names(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Any => &[],
        Kind::Object => &["object"],
        Kind::Array => &["array"],
        Kind::String => &["string"],
        Kind::Integer => &["integer"],
        Kind::Number => &["number"],
        Kind::Boolean => &["boolean"],
        Kind::IntOrString => &["integer", "string"],
        Kind::Quantity => &["string", "number"],
    }
}

/// The type of a value and, for numbers, its format.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_f64() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

#[cfg(test)]
mod tests;
