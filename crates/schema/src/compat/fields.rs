//! Schemas inside schemas: fields, items, values of maps; and the lists of a schema.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_api::field::Path;
use serde_json::{Map, Value};

use super::{Added, Change, Effect, What, keywords};

/// What `additionalProperties` says.
#[derive(Clone, Copy)]
enum Others<'v> {
    /// Nothing, or `false`: other fields are not kept.
    Dropped,
    Any,
    Schema(&'v Value),
}

struct Comparison<'v, 'c> {
    old: &'v Map<String, Value>,
    new: &'v Map<String, Value>,
    path: &'c Path,
    changes: &'c mut Vec<Change>,
}

/// Compares two schemas of the field at `path`. What is no object has nothing in it.
pub(super) fn compare(old: &Value, new: &Value, path: &Path, changes: &mut Vec<Change>) {
    let empty = Map::new();
    let mut comparison = Comparison {
        old: old.as_object().unwrap_or(&empty),
        new: new.as_object().unwrap_or(&empty),
        path,
        changes,
    };
    comparison.run();
}

// === impl Comparison ===

impl<'v> Comparison<'v, '_> {
    fn run(&mut self) {
        if text(self.old, "type") != text(self.new, "type") {
            // Nothing else can be said of what is another thing now.
            keywords::compare_words(self.old, self.new, self.path, self.changes);
            return;
        }
        keywords::compare(self.old, self.new, self.path, self.changes);
        self.choices();
        self.rules();
        self.required();
        self.properties();
        self.items();
        self.others();
    }

    fn push(&mut self, path: Path, what: What) {
        self.changes.push(Change { path, what });
    }

    fn keyword(&mut self, keyword: &str, effect: Effect) {
        let (old, new) = (self.old.get(keyword), self.new.get(keyword));
        let change = keywords::change(keyword, old, new, effect, self.path);
        self.changes.extend(change);
    }

    fn choices(&mut self) {
        let (old, new) = (choices(self.old), choices(self.new));
        match (old.is_empty(), new.is_empty()) {
            (true, true) => {}
            (true, false) => self.keyword("enum", Effect::Restricts),
            (false, true) => self.keyword("enum", Effect::Relaxes),
            (false, false) => {
                let gone = old.iter().filter(|(text, _)| !new.contains_key(*text));
                let come = new.iter().filter(|(text, _)| !old.contains_key(*text));
                for (_, value) in gone {
                    self.push(self.path.clone(), What::ChoiceRemoved((*value).clone()));
                }
                for (_, value) in come {
                    self.push(self.path.clone(), What::ChoiceAdded((*value).clone()));
                }
            }
        }
    }

    fn rules(&mut self) {
        let (old, new) = (rules(self.old), rules(self.new));
        let all: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
        for rule in all {
            let text = rule.to_owned();
            let what = match (old.get(rule), new.get(rule)) {
                (Some(old), Some(new)) if old == new => continue,
                (Some(old), Some(new)) => What::RuleChanged(text, rule_effect(old, new)),
                (None, _) => What::RuleAdded(text),
                (Some(_), None) => What::RuleRemoved(text),
            };
            self.push(self.path.clone(), what);
        }
    }

    /// Of fields that were there. New ones are judged with their defaults, see `properties`.
    fn required(&mut self) {
        let (old, new) = (names(self.old), names(self.new));
        for name in old.union(&new).copied() {
            let (before, after) = (property(self.old, name), property(self.new, name));
            let what = match (old.contains(name), new.contains(name)) {
                (true, false) => What::RequiredRemoved,
                (false, _) if before.is_none() && after.is_some() => continue,
                (false, _) => What::RequiredAdded,
                (true, true) => {
                    let had = before.is_some_and(has_default);
                    match had && !after.is_some_and(has_default) {
                        true => What::RequiredDefaultRemoved,
                        false => continue,
                    }
                }
            };
            self.push(self.path.child(name), what);
        }
    }

    fn properties(&mut self) {
        let (old, new) = (properties(self.old), properties(self.new));
        let needed = names(self.new);
        let open = self.keeps_unknown();
        for name in old
            .keys()
            .chain(new.keys())
            .copied()
            .collect::<BTreeSet<_>>()
        {
            let path = self.path.child(name);
            match (old.get(name), new.get(name)) {
                (Some(old), Some(new)) => compare(old, new, &path, self.changes),
                (Some(_), None) => self.push(path, What::FieldRemoved),
                (None, Some(new)) => {
                    let added = match needed.contains(name) && !has_default(new) {
                        true => Added::Required,
                        false if open => Added::Narrowing,
                        false => Added::Optional,
                    };
                    self.push(path, What::FieldAdded(added));
                }
                (None, None) => {}
            }
        }
    }

    /// Whether fields without a schema were kept.
    fn keeps_unknown(&self) -> bool {
        let flag = self.old.get("x-kubernetes-preserve-unknown-fields");
        flag == Some(&Value::Bool(true)) || !matches!(others(self.old), Others::Dropped)
    }

    fn items(&mut self) {
        match (self.old.get("items"), self.new.get("items")) {
            (Some(old @ Value::Object(_)), Some(new @ Value::Object(_))) => {
                compare(old, new, &self.path.key("*"), self.changes);
            }
            // Without a schema, what is in items is not kept.
            _ => self.keyword("items", Effect::Restricts),
        }
    }

    fn others(&mut self) {
        let effect = match (others(self.old), others(self.new)) {
            (Others::Schema(old), Others::Schema(new)) => {
                compare(old, new, &self.path.key("*"), self.changes);
                return;
            }
            (Others::Dropped, Others::Dropped) | (Others::Any, Others::Any) => Effect::Neither,
            (Others::Dropped, _) | (Others::Schema(_), Others::Any) => Effect::Relaxes,
            (Others::Any | Others::Schema(_), _) => Effect::Restricts,
        };
        self.keyword("additionalProperties", effect);
    }
}

fn text<'v>(schema: &'v Map<String, Value>, keyword: &str) -> &'v str {
    schema.get(keyword).and_then(Value::as_str).unwrap_or("")
}

fn list<'v>(schema: &'v Map<String, Value>, keyword: &str) -> impl Iterator<Item = &'v Value> {
    let list = schema.get(keyword).and_then(Value::as_array);
    list.into_iter().flatten()
}

fn properties(schema: &Map<String, Value>) -> BTreeMap<&str, &Value> {
    let map = schema.get("properties").and_then(Value::as_object);
    let fields = map.into_iter().flatten();
    fields.map(|(name, field)| (name.as_str(), field)).collect()
}

fn property<'v>(schema: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    schema.get("properties")?.get(name)
}

fn has_default(schema: &Value) -> bool {
    schema.get("default").is_some_and(|value| !value.is_null())
}

fn names(schema: &Map<String, Value>) -> BTreeSet<&str> {
    list(schema, "required").filter_map(Value::as_str).collect()
}

/// The values of `enum`, by their text.
fn choices(schema: &Map<String, Value>) -> BTreeMap<String, &Value> {
    list(schema, "enum")
        .map(|value| (canonical(value), value))
        .collect()
}

/// Equal for `1` and `1.0`.
fn canonical(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if !value.is_i64() => number.to_string(),
        Some(_) | None => value.to_string(),
    }
}

/// The rules by their expressions, each with all that is said of it.
fn rules(schema: &Map<String, Value>) -> BTreeMap<&str, Vec<&Value>> {
    let mut rules: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for rule in list(schema, "x-kubernetes-validations") {
        let text = rule.get("rule").and_then(Value::as_str).unwrap_or("");
        rules.entry(text).or_default().push(rule);
    }
    rules
}

/// A rule about transitions is checked more often when it can do without the old value.
fn rule_effect(old: &[&Value], new: &[&Value]) -> Effect {
    let always = |rules: &[&Value]| {
        let flag = |rule: &&Value| rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        rules.iter().any(flag)
    };
    match (always(old), always(new)) {
        (false, true) => Effect::Restricts,
        (true, false) => Effect::Relaxes,
        (true, true) | (false, false) => Effect::Neither,
    }
}

fn others(schema: &Map<String, Value>) -> Others<'_> {
    match schema.get("additionalProperties") {
        None | Some(Value::Null | Value::Bool(false)) => Others::Dropped,
        Some(schema @ Value::Object(_)) => Others::Schema(schema),
        Some(Value::Bool(true) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Others::Any
        }
    }
}
