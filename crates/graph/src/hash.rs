//! By what definitions are told apart: our version, and kro's hash.

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::definition::{Body, Definition, GateText, Instance, Reference, Resource, Target};
use crate::digest::hex;
use crate::gojson;
use crate::graph::Version;

/// A digest of the whole spec, the order of fields does not count; and the same without gates and
/// without the deletion budget.
pub(crate) fn versions(definition: &Definition) -> (Version, Version) {
    let whole = digest(&definition.spec);
    let bounded = definition.spec.get(DELETION_BUDGET).is_some();
    let content = match bounded || has_gates(&definition.spec) {
        true => digest(&ungated(&definition.spec)),
        false => whole.clone(),
    };
    (whole, content)
}

const DELETION_BUDGET: &str = "deletionBudget";

fn is_gate(key: &str) -> bool {
    key == "propagateWhen" || key == "orderBy"
}

fn has_gates(spec: &Json) -> bool {
    let gated = |json: &Json| {
        let map = json.as_object();
        map.is_some_and(|map| map.keys().any(|key| is_gate(key)))
    };
    let resources = spec.get("resources").and_then(Json::as_array);
    gated(spec) || resources.into_iter().flatten().any(gated)
}

fn ungated(spec: &Json) -> Json {
    let mut spec = spec.clone();
    let ungate = |json: &mut Json| {
        if let Json::Object(map) = json {
            map.retain(|key, _| !is_gate(key));
        }
    };
    ungate(&mut spec);
    if let Json::Object(map) = &mut spec {
        map.remove(DELETION_BUDGET);
    }
    let resources = spec.get_mut("resources").and_then(Json::as_array_mut);
    resources.into_iter().flatten().for_each(ungate);
    spec
}

fn digest(spec: &Json) -> Version {
    let mut text = String::new();
    gojson::write(&mut text, spec);
    let digest = Sha256::digest(text.as_bytes());
    Version(hex(&digest))
}

/// kro's hash: of the spec as its types would write it, with resources by id and conditions
/// sorted. What kro does not know is written behind, so that definitions without it have the hash
/// that kro gives them.
pub(crate) fn revision(definition: &Definition) -> String {
    let mut writer = Writer::default();
    writer.spec(definition);
    format!("{:016x}", fnv64a(writer.out.as_bytes()))
}

fn fnv64a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Writes objects field by field, in the order of kro's structs.
#[derive(Default)]
struct Writer {
    out: String,
}

impl Writer {
    fn open(&mut self) {
        self.out.push('{');
    }

    fn close(&mut self) {
        self.out.push('}');
    }

    fn key(&mut self, key: &str) {
        if !self.out.ends_with(['{', '[']) {
            self.out.push(',');
        }
        gojson::write_text(&mut self.out, key);
        self.out.push(':');
    }

    fn text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.key(key);
            gojson::write_text(&mut self.out, text);
        }
    }

    /// What kro keeps as it is: null when there is nothing.
    fn raw(&mut self, key: &str, value: &Json) {
        self.key(key);
        gojson::write(&mut self.out, value);
    }

    fn json(&mut self, key: &str, value: impl Into<Json>) {
        let value = value.into();
        let empty = match &value {
            Json::Array(items) => items.is_empty(),
            Json::Object(map) => map.is_empty(),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
        };
        if !empty {
            self.raw(key, &value);
        }
    }

    fn spec(&mut self, definition: &Definition) {
        self.open();
        self.key("schema");
        self.instance(&definition.schema);
        let mut resources: Vec<&Resource> = definition.resources.iter().collect();
        resources.sort_by(|a, b| a.id.cmp(&b.id));
        if !resources.is_empty() {
            self.key("resources");
            self.out.push('[');
            for (index, resource) in resources.into_iter().enumerate() {
                if index > 0 {
                    self.out.push(',');
                }
                self.resource(resource);
            }
            self.out.push(']');
        }
        self.gate(&definition.gate);
        let account = definition.service_account.as_deref();
        self.text("serviceAccountName", account.unwrap_or_default());
        let budget = definition.spec.get(DELETION_BUDGET);
        if let Some(budget) = budget.filter(|budget| !budget.is_null()) {
            self.json(DELETION_BUDGET, budget.clone());
        }
        self.close();
    }

    fn instance(&mut self, schema: &Instance) {
        self.open();
        self.text("kind", &schema.kind);
        self.text("apiVersion", &schema.version);
        self.text("group", &schema.group);
        self.raw("spec", &schema.spec);
        self.raw("types", &schema.types);
        self.raw("status", &schema.status);
        let scope = if schema.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        };
        self.text("scope", scope);
        if !schema.columns.is_empty() {
            self.key("additionalPrinterColumns");
            self.out.push('[');
            for (index, column) in schema.columns.iter().enumerate() {
                if index > 0 {
                    self.out.push(',');
                }
                self.column(column);
            }
            self.out.push(']');
        }
        self.json("shortNames", schema.short_names.clone());
        self.json("categories", schema.categories.clone());
        if let Some(metadata) = &schema.metadata {
            self.key("metadata");
            self.open();
            self.json("labels", object(metadata.labels.iter()));
            self.json("annotations", object(metadata.annotations.iter()));
            self.close();
        }
        self.close();
    }

    fn column(&mut self, column: &Json) {
        self.open();
        for key in [
            "name",
            "type",
            "format",
            "description",
            "priority",
            "jsonPath",
        ] {
            let always = matches!(key, "name" | "type" | "jsonPath");
            match column.get(key) {
                Some(Json::String(text)) if always || !text.is_empty() => {
                    self.key(key);
                    gojson::write_text(&mut self.out, text);
                }
                Some(Json::Number(number)) if number.as_f64() != Some(0.0) => {
                    self.raw(key, &Json::Number(number.clone()));
                }
                Some(_) | None if always => {
                    self.key(key);
                    self.out.push_str("\"\"");
                }
                Some(_) | None => {}
            }
        }
        self.close();
    }

    fn resource(&mut self, resource: &Resource) {
        self.open();
        self.text("id", &resource.id);
        match &resource.body {
            Body::Template(template) => self.raw("template", template),
            Body::External(reference) => {
                self.raw("template", &Json::Null);
                self.key("externalRef");
                self.reference(reference);
            }
        }
        self.json("readyWhen", sorted(&resource.ready_when));
        self.json("includeWhen", sorted(&resource.include_when));
        let dimension = |(name, list): &(String, String)| object([(name, list)]);
        let for_each: Vec<Json> = resource.for_each.iter().map(dimension).collect();
        self.json("forEach", for_each);
        self.gate(&resource.gate);
        self.close();
    }

    fn reference(&mut self, reference: &Reference) {
        self.open();
        self.raw("apiVersion", &reference.api_version.as_str().into());
        self.raw("kind", &reference.kind.as_str().into());
        self.key("metadata");
        self.open();
        let (name, selector) = match &reference.target {
            Target::Name(name) => (name.as_str(), &Json::Null),
            Target::Selector(selector) => ("", selector),
        };
        self.text("name", name);
        self.text(
            "namespace",
            reference.namespace.as_deref().unwrap_or_default(),
        );
        self.raw("selector", selector);
        self.close();
        self.close();
    }

    fn gate(&mut self, gate: &GateText) {
        if let Some(when) = &gate.when {
            self.raw("propagateWhen", &Json::from(sorted(when)));
        }
        self.text("orderBy", gate.order_by.as_deref().unwrap_or_default());
    }
}

fn sorted(texts: &[String]) -> Vec<String> {
    let mut texts = texts.to_vec();
    texts.sort();
    texts
}

fn object<'t>(entries: impl IntoIterator<Item = (&'t String, &'t String)>) -> Json {
    let entries = entries.into_iter();
    Json::Object(
        entries
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hashed(spec: Json) -> String {
        revision(&Definition::read(&json!({"spec": spec})).unwrap())
    }

    /// The hashes are what kro 0.9.4 gives for the same definitions, with their keys in order as the
    /// API keeps them.
    #[test]
    fn revisions_have_kros_hash() {
        let small = json!({"schema": {"kind": "App", "apiVersion": "v1"}});
        assert_eq!(hashed(small), "6945382de5a35326");
        let large = json!({
            "schema": {
                "kind": "App", "apiVersion": "v1", "group": "example.com", "scope": "Cluster",
                "spec": {"b": "string", "a": "integer | default=1"},
                "types": {"T": {"x": "string"}},
                "status": {"s": "${a.b < 'c' && true}"},
                "additionalPrinterColumns": [
                    {"name": "N", "type": "string", "jsonPath": ".x", "priority": 1, "description": "d"},
                    {"name": "M", "type": "date", "jsonPath": ".y", "format": "f", "priority": 0},
                ],
                "shortNames": ["b", "a"], "categories": ["all"],
                "metadata": {"labels": {"z": "1", "a": "2"}},
            },
            "resources": [
                {
                    "id": "z",
                    "template": {"kind": "K", "apiVersion": "v1", "spec": {
                        "f": 1.5, "i": 10_000_000, "e": 1e30, "s": "<&>é\u{2028}", "n": null, "l": [true, {}],
                    }},
                    "readyWhen": ["${b}", "${a}"],
                    "includeWhen": ["${d}", "${c}"],
                    "forEach": [{"y": "${1}"}, {"x": "${2}"}],
                },
                {"id": "a", "externalRef": {"apiVersion": "v1", "kind": "C", "metadata": {"name": "n", "namespace": "m"}}},
                {"id": "m", "externalRef": {"apiVersion": "v1", "kind": "C", "metadata": {"selector": {"matchLabels": {"b": "1", "a": "${x}"}}}}},
            ],
        });
        assert_eq!(hashed(large.clone()), "0f8984ceff8b554a");
        let empty = json!({"schema": {"kind": "App", "apiVersion": "v1", "metadata": {}, "spec": {}}, "resources": []});
        assert_eq!(hashed(empty), "5e3a6650525a3c6c");
        let mut gated = large.clone();
        gated["resources"][0]["propagateWhen"] = json!([]);
        assert_ne!(hashed(gated), hashed(large));
    }

    #[test]
    fn the_deletion_budget_is_no_content() {
        let read = |spec: Json| Definition::read(&json!({"spec": spec})).unwrap();
        let plain = json!({"schema": {"kind": "App", "apiVersion": "v1"}, "resources": []});
        let mut bounded = plain.clone();
        bounded["deletionBudget"] = json!({"max": 3, "percent": 0});
        assert_ne!(hashed(bounded.clone()), hashed(plain.clone()));
        let [(whole, content), (plain_whole, plain_content)] =
            [bounded, plain].map(|spec| versions(&read(spec)));
        assert_ne!(whole, plain_whole);
        assert_eq!(content, plain_content);
    }
}
