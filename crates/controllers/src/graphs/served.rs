//! With which schema the kind of a graph is served, given the one that is there. Pure.
//!
//! Invariant: the schema never shrinks under instances, unless the author said that they may break.
//! A definition that says again what it said before, or goes on from there, is no breaking change:
//! what was added in between is served as before, and nobody reads it.

use deltaplane_graph::{Graph, labels};
use deltaplane_schema::compat::{self, Change};
use serde_json::Value;

/// What a definition was before.
pub(super) struct Past {
    /// Whether a revision says what the definition says now.
    pub(super) is_kept: bool,
    /// What the newest revision makes of the kind, if that can be told now.
    pub(super) newest: Option<Value>,
}

/// The author's word that instances may break.
const BREAKING: &str = "kro.run/allow-breaking-changes";
/// A message names no more changes.
const CHANGES: usize = 3;

/// The kind as it is to be served, or why the one that is there may not become that.
pub(super) fn judged(
    definition: &Value,
    there: &Value,
    wanted: Value,
    past: &Past,
) -> Result<Value, String> {
    let crd = there["metadata"]["name"].as_str().unwrap_or_default();
    if let Some(why) = foreign(definition, there, crd) {
        return Err(why);
    }
    if definition["metadata"]["annotations"][BREAKING] == "true" {
        return Ok(wanted);
    }
    let breaking = breaking(there, &wanted);
    if breaking.is_empty() {
        return Ok(wanted);
    }
    if past.allows(&wanted) {
        let mut wide = wanted;
        widen(schema_mut(&mut wide), schema(there));
        if self::breaking(there, &wide).is_empty() {
            return Ok(wide);
        }
    }
    Err(refusal(crd, &breaking))
}

/// Why the kind that is there is not the definition's.
pub(super) fn foreign(definition: &Value, there: &Value, crd: &str) -> Option<String> {
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let marks = &there["metadata"]["labels"];
    if marks[labels::OWNED] != "true" {
        return Some(format!(
            "the kind {crd} is there already and belongs to nobody here; give the graph another kind or group, or delete it"
        ));
    }
    let owner = marks[labels::DEFINITION_NAME].as_str().unwrap_or_default();
    (owner != labels::value(name)).then(|| {
        format!(
            "the kind {crd} belongs to the ResourceGraphDefinition {owner}; give the graph another kind or group"
        )
    })
}

fn breaking(there: &Value, wanted: &Value) -> Vec<Change> {
    let mut changes = compat::changes(schema(there), schema(wanted));
    changes.retain(Change::is_breaking);
    changes
}

fn refusal(crd: &str, breaking: &[Change]) -> String {
    let more = match breaking.len().saturating_sub(CHANGES) {
        0 => String::new(),
        more => format!("; and {more} more changes"),
    };
    let shown: Vec<String> = {
        let first = breaking.iter().take(CHANGES);
        first.map(ToString::to_string).collect()
    };
    format!(
        "cannot update CRD {crd}: breaking changes detected: {}{more}; hint: annotate the definition with {BREAKING}: \"true\" if instances may break",
        shown.join("; ")
    )
}

fn schema(crd: &Value) -> &Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

fn schema_mut(crd: &mut Value) -> &mut Value {
    &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// Adds the fields to a schema that only the other has.
fn widen(schema: &mut Value, other: &Value) {
    let (Some(into), Some(from)) = (schema.as_object_mut(), other.as_object()) else {
        return;
    };
    for part in ["items", "additionalProperties"] {
        if let (Some(into), Some(from)) = (into.get_mut(part), from.get(part)) {
            widen(into, from);
        }
    }
    let Some(from) = from.get("properties").and_then(Value::as_object) else {
        return;
    };
    // A map has no fields.
    if into.contains_key("additionalProperties") {
        return;
    }
    let into = into.entry("properties");
    let into = into.or_insert_with(|| Value::Object(serde_json::Map::new()));
    for (name, from) in from {
        match into.get_mut(name) {
            Some(into) => widen(into, from),
            None => into[name] = from.clone(),
        }
    }
}

// === impl Past ===

impl Past {
    /// Of a definition whose revisions have these hashes.
    pub(super) fn new<'h>(
        now: &Graph,
        mut hashes: impl Iterator<Item = &'h str>,
        newest: Option<&Graph>,
    ) -> Self {
        Self {
            is_kept: hashes.any(|hash| hash == now.revision_hash()),
            newest: newest.map(|newest| newest.crd().clone()),
        }
    }

    /// Whether what is wanted breaks nothing that the definition said last.
    fn allows(&self, wanted: &Value) -> bool {
        let goes_on = |newest: &Value| breaking(newest, wanted).is_empty();
        self.is_kept || self.newest.as_ref().is_some_and(goes_on)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `name:string color:integer`, the kind with these fields.
    fn kind(fields: &str) -> Value {
        let fields = fields.split_whitespace().map(|field| {
            let (name, of) = field.split_once(':').expect("a field and its type");
            (name.to_owned(), json!({"type": of}))
        });
        let fields: serde_json::Map<String, Value> = fields.collect();
        let spec = json!({"type": "object", "properties": fields});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        json!({
            "metadata": {"name": "teas.kro.run", "labels": {
                labels::OWNED: "true", labels::DEFINITION_NAME: "tea",
            }},
            "spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]},
        })
    }

    /// What becomes of the kind that is there.
    fn check(there: &str, wanted: &str, past: Past) -> Result<Value, String> {
        let definition = json!({"metadata": {"name": "tea"}});
        judged(&definition, &kind(there), kind(wanted), &past)
    }

    fn past(is_kept: bool, newest: &str) -> Past {
        Past {
            is_kept,
            newest: Some(kind(newest)),
        }
    }

    #[test]
    fn the_way_back_shrinks_nothing() {
        let (old, new) = ("name:string", "name:string color:string");
        // Somebody drops a field.
        let refused = check(new, old, past(false, new)).expect_err("a breaking change");
        assert!(refused.contains("spec.color is removed"), "{refused}");
        // It is what was before, and what comes after that goes on from there.
        assert_eq!(check(new, old, past(true, new)), Ok(kind(new)));
        let after = check(new, "name:string size:integer", past(false, old));
        assert_eq!(after, Ok(kind("name:string size:integer color:string")));
        // What was added comes back, but not as something else.
        assert_eq!(check(new, new, past(false, old)), Ok(kind(new)));
        let other = check(new, "name:string color:integer", past(false, old));
        assert!(other.is_err(), "{other:?}");
    }

    #[test]
    fn the_way_back_over_a_breaking_change_breaks() {
        let past = past(true, "name:integer");
        assert!(check("name:integer", "name:string", past).is_err());
    }
}
