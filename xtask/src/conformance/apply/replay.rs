//! Makes one recorded call again and compares the outcome.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use deltaplane_schema::Schema;
use deltaplane_schema::fieldset::{Filter, Matcher, PathElement, Set};
use deltaplane_schema::typed::{self, Duplicates};
use deltaplane_schema::updater::{
    Change, Conversion, Managers, Owned, UpdateError, Updater, Versions,
};
use serde_json::Value;

use super::schema::Schemas;
use super::text;

pub(super) enum Outcome {
    Same,
    Differs(String),
    /// The call has no meaning for us.
    Unusable(String),
}

const BROKEN_SCHEMA: &str = "the test's schema is broken on purpose";

/// What calls are replayed with.
pub(super) struct Replayer<'a> {
    schemas: &'a Schemas,
    /// All conversions ever made, by converter, target version and object. A converter that is told
    /// which versions there are is not a function of these, and not in here.
    conversions: BTreeMap<(&'a str, &'a str, String), &'a Value>,
}

// === impl Replayer ===

impl<'a> Replayer<'a> {
    pub(super) fn new(schemas: &'a Schemas, lines: &'a [Value]) -> Self {
        let conversions = lines
            .iter()
            .filter(|line| text(line, "op") == "conversion")
            .map(|line| {
                let (converter, call) = (text(line, "converter"), &line["call"]);
                (
                    (converter, text(call, "version"), typed_text(&call["in"])),
                    call,
                )
            });
        let conversions = conversions
            .filter(|((converter, ..), _)| !converter.ends_with("specificVersionConverter"));
        Self {
            schemas,
            conversions: conversions.collect(),
        }
    }

    pub(super) fn replay(&self, call: &Value) -> Outcome {
        if text(call, "err").contains("schema error") {
            return Outcome::Unusable(BROKEN_SCHEMA.to_owned());
        }
        let compared = match text(call, "op") {
            "update" | "apply" => replay_update(self, call),
            _ => replay_typed(self.schemas, call),
        };
        match compared {
            None => Outcome::Unusable(BROKEN_SCHEMA.to_owned()),
            Some(Ok(())) => Outcome::Same,
            Some(Err(why)) => Outcome::Differs(why),
        }
    }
}

/// A recorded value with its type, as text.
fn typed_text(typed: &Value) -> String {
    format!(
        "{}{}{}",
        text(typed, "schema"),
        typed["type"],
        plain(&typed["value"])
    )
}

fn replay_typed(schemas: &Schemas, call: &Value) -> Option<Result<(), String>> {
    let node = schemas.of(&call["in"])?.root();
    let value = &call["in"]["value"];
    let failed = !text(call, "err").is_empty();
    let out = &call["out"];
    Some(match text(call, "op") {
        "validate" => {
            let duplicates = match call["duplicates"] == true {
                true => Duplicates::Allowed,
                false => Duplicates::Refused,
            };
            let checked = typed::check(value, node, duplicates);
            same_failure(failed, checked.err().map(|error| error.to_string()), call)
        }
        "fields" if failed => return None,
        "fields" => same("fields", &typed::fields(value, node), &set(out)),
        "merge" if with_other_type(call) => return None,
        "merge" => match typed::merge(value, &call["with"]["value"], node) {
            Ok(_) if failed => Err(format!("no error, expected {}", text(call, "err"))),
            Ok(merged) => same_value(&merged.unwrap_or_default(), out),
            Err(error) => same_failure(failed, Some(error.to_string()), call),
        },
        "compare" if with_other_type(call) => return None,
        "compare" => match typed::compare(value, &call["with"]["value"], node) {
            Ok(_) if failed => Err(format!("no error, expected {}", text(call, "err"))),
            Ok(changes) => same("removed", &changes.removed, &set(&out["removed"]))
                .and(same("modified", &changes.modified, &set(&out["modified"])))
                .and(same("added", &changes.added, &set(&out["added"]))),
            Err(error) => same_failure(failed, Some(error.to_string()), call),
        },
        "remove" => same_value(&typed::remove_items(value, &set(&call["set"]), node), out),
        "extract" => same_value(&typed::extract_items(value, &set(&call["set"]), node), out),
        "reconcile" => {
            let expected = (!out.is_null()).then(|| set(out));
            let given = set(&call["set"]);
            // Whether "no change" is told apart from "changed to the same" does not matter.
            let (ours, theirs) = (typed::reconcile(&given, node), expected);
            same(
                "set",
                ours.as_ref().unwrap_or(&given),
                theirs.as_ref().unwrap_or(&given),
            )
        }
        other => Err(format!("unknown call {other:?}")),
    })
}

fn with_other_type(call: &Value) -> bool {
    let of = |key: &str| (call[key]["schema"].clone(), call[key]["type"].clone());
    of("in") != of("with")
}

fn set(value: &Value) -> Set {
    Set::from_fields_v1(value).unwrap_or_default()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, ours: &T, theirs: &T) -> Result<(), String> {
    match ours == theirs {
        true => Ok(()),
        false => Err(format!("{what}: got {ours:?}, expected {theirs:?}")),
    }
}

fn same_failure(expected: bool, ours: Option<String>, call: &Value) -> Result<(), String> {
    match (expected, ours) {
        (true, Some(_)) | (false, None) => Ok(()),
        (true, None) => Err(format!("no error, expected {}", text(call, "err"))),
        (false, Some(error)) => Err(format!("unexpected error: {error}")),
    }
}

fn same_value(ours: &Value, theirs: &Value) -> Result<(), String> {
    match plain(ours) == plain(theirs) {
        true => Ok(()),
        false => Err(format!("got {ours}, expected {theirs}")),
    }
}

/// Numbers as floats, because the recording does not tell `1` from `1.0`.
pub(super) fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(list) => list.iter().map(plain).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), plain(value)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

/// The versions of the kind as the recorded call saw them.
struct Recorded<'a> {
    replayer: &'a Replayer<'a>,
    converter: &'a str,
    /// The schema of each version, and its names for schema and type.
    schemas: BTreeMap<&'a str, (&'a Schema, &'a Value)>,
    /// The call's own conversions, by target version and object.
    conversions: BTreeMap<(&'a str, String), &'a Value>,
    /// Target versions to which nothing was ever changed by conversion.
    unchanging: BTreeSet<&'a str>,
}

// === impl Recorded ===

impl<'a> Recorded<'a> {
    fn of(replayer: &'a Replayer<'a>, call: &'a Value) -> Option<Self> {
        let mut out = Self {
            replayer,
            converter: text(call, "converter"),
            schemas: BTreeMap::new(),
            conversions: BTreeMap::new(),
            unchanging: BTreeSet::new(),
        };
        let mut changing = BTreeSet::new();
        for conversion in call["conversions"].as_array().into_iter().flatten() {
            let version = text(conversion, "version");
            let input = &conversion["in"];
            out.conversions
                .insert((version, typed_text(input)), conversion);
            if let Some(converted) = conversion.get("out") {
                out.schemas
                    .insert(version, (replayer.schemas.of(converted)?, converted));
                if typed_text(converted) != typed_text(input) {
                    changing.insert(version);
                }
                out.unchanging.insert(version);
            }
        }
        out.unchanging.retain(|version| !changing.contains(version));
        let live = &call["live"];
        out.schemas
            .insert(text(call, "version"), (replayer.schemas.of(live)?, live));
        Some(out)
    }

    /// What the conversion made of the object when the tests ran.
    fn recorded(&self, object: &Value, from: &str, to: &str) -> Option<&'a Value> {
        let (_, typed) = self.schemas.get(from)?;
        let input = format!(
            "{}{}{}",
            text(typed, "schema"),
            typed["type"],
            plain(object)
        );
        let own = self
            .conversions
            .iter()
            .find(|((version, one), _)| *version == to && *one == input);
        let any = || {
            let all = self.replayer.conversions.iter();
            all.filter(|((converter, version, one), _)| {
                (*converter, *version, one) == (self.converter, to, &input)
            })
            .map(|(_, conversion)| *conversion)
            .next()
        };
        own.map(|(_, conversion)| *conversion).or_else(any)
    }
}

impl Versions for Recorded<'_> {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        self.schemas.get(api_version).map(|(schema, _)| *schema)
    }

    fn convert<'o>(
        &self,
        object: &'o Value,
        from: &str,
        to: &str,
    ) -> Result<Cow<'o, Value>, Conversion> {
        match self.recorded(object, from, to) {
            Some(conversion) if conversion["gone"] == true => Err(Conversion::Gone),
            Some(conversion) => match conversion.get("out") {
                Some(out) => Ok(Cow::Owned(out["value"].clone())),
                None => Err(Conversion::Failed(text(conversion, "err").to_owned())),
            },
            None if from == to || self.unchanging.contains(to) => Ok(Cow::Borrowed(object)),
            None => Err(Conversion::Failed(format!(
                "no conversion of {object} to {to} was recorded"
            ))),
        }
    }
}

fn managers(value: &Value) -> Managers {
    let entries = value.as_object().into_iter().flatten();
    let owned = |one: &Value| Owned {
        set: set(&one["set"]),
        api_version: text(one, "version").into(),
        applied: one["applied"] == true,
    };
    entries
        .map(|(name, one)| (name.clone(), owned(one)))
        .collect()
}

fn filters(value: &Value) -> BTreeMap<String, Filter> {
    let filter = |raw: &Value| match (raw.get("exclude"), raw.get("include")) {
        (Some(excluded), _) => Filter::Exclude(set(excluded)),
        (None, Some(included)) => Filter::Include(matcher(included)),
        (None, None) => Filter::All,
    };
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(version, raw)| (version.clone(), filter(raw)))
        .collect()
}

fn matcher(raw: &Value) -> Matcher {
    let mut out: Option<Matcher> = None;
    prefixes(raw, &mut Vec::new(), &mut |prefix| {
        let one = Matcher::prefix(prefix.to_vec());
        out = Some(match out.take() {
            Some(all) => all.or(one),
            None => one,
        });
    });
    out.unwrap_or_default()
}

/// All paths through a recorded matcher, down to its wildcards.
fn prefixes(
    raw: &Value,
    path: &mut Vec<Option<PathElement>>,
    found: &mut dyn FnMut(&[Option<PathElement>]),
) {
    let Some(steps) = raw.as_array() else {
        return found(path);
    };
    for step in steps {
        let element = step.get("element").and_then(Value::as_str);
        path.push(element.and_then(|element| PathElement::from_key(element).ok().flatten()));
        prefixes(&step["below"], path, found);
        path.pop();
    }
}

fn replay_update(replayer: &Replayer<'_>, call: &Value) -> Option<Result<(), String>> {
    let versions = Recorded::of(replayer, call)?;
    let filters = filters(&call["filters"]);
    let filter = |version: &str| filters.get(version).unwrap_or(&Filter::All);
    let updater = Updater {
        versions: &versions,
        filter: &filter,
    };
    let (live, new) = (&call["live"]["value"], &call["new"]["value"]);
    let change = Change {
        live,
        new,
        api_version: text(call, "version"),
        manager: text(call, "manager"),
    };
    let before = managers(&call["managers"]);
    let outcome = match text(call, "op") {
        "update" => updater
            .update(change, before)
            .map(|after| (Some(new.clone()), after)),
        _ => updater.apply(change, before, call["force"] == true),
    };
    Some(match outcome {
        Ok((object, after)) => match (call.get("after"), text(call, "err")) {
            (Some(expected), _) => same_outcome(call, object, &after, expected),
            (None, "") => Err(format!("no conflicts, expected {}", call["conflicts"])),
            (None, error) => Err(format!("no error, expected {error}")),
        },
        Err(UpdateError::Conflicts(conflicts)) => {
            let ours = conflicts
                .iter()
                .map(|one| (one.manager.clone(), one.path.elements().to_vec()));
            same(
                "conflicts",
                &ours.collect::<BTreeSet<_>>(),
                &recorded_conflicts(&call["conflicts"]),
            )
        }
        Err(error) => same_failure(!text(call, "err").is_empty(), Some(error.to_string()), call),
    })
}

fn recorded_conflicts(raw: &Value) -> BTreeSet<(String, Vec<PathElement>)> {
    let path = |one: &Value| {
        let elements = one["path"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        elements
            .filter_map(|element| PathElement::from_key(element).ok().flatten())
            .collect()
    };
    raw.as_array()
        .into_iter()
        .flatten()
        .map(|one| (text(one, "manager").to_owned(), path(one)))
        .collect()
}

fn same_outcome(
    call: &Value,
    object: Option<Value>,
    after: &Managers,
    expected: &Value,
) -> Result<(), String> {
    same("managers", after, &managers(expected))?;
    // Asked to, the original gives the object back even if nothing changed.
    let kept = (call["keepsInput"] == true).then(|| call["live"]["value"].clone());
    match (object.or(kept), call.get("out")) {
        (Some(ours), Some(theirs)) => same_value(&ours, &theirs["value"]),
        (None, None) => Ok(()),
        (Some(ours), None) => Err(format!("changed to {ours}, expected no change")),
        (None, Some(theirs)) => Err(format!("no change, expected {}", theirs["value"])),
    }
}
