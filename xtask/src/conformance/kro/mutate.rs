//! Published definitions with one thing changed: mistakes that people make, and some that they do
//! not.

mod expressions;
pub(super) mod places;

use serde_json::{Value, json};

use super::Case;
use places::{Place, Shape};

/// Of the many places of a definition these are changed, spread over all of it.
const MOST_EXPRESSIONS: usize = 5;
const MOST_LITERALS: usize = 6;

/// Every definition with each change that fits.
pub(super) fn all(cases: &[Case]) -> Vec<Case> {
    cases.iter().flat_map(changed).collect()
}

fn changed(case: &Case) -> Vec<Case> {
    let mut made = Changes {
        case,
        cases: Vec::new(),
    };
    made.schema();
    made.status();
    made.resources();
    made.cycle();
    made.expressions();
    made.literals();
    made.cases
}

/// The changes of one definition.
struct Changes<'c> {
    case: &'c Case,
    cases: Vec<Case>,
}

// === impl Changes ===

impl Changes<'_> {
    fn push(&mut self, what: &str, object: Value) {
        self.cases.push(Case {
            name: format!("{}: {what}", self.case.name),
            place: self.case.name.clone(),
            object,
        });
    }

    /// With something else at a place, which is made if it is not there.
    fn set(&mut self, what: &str, place: &str, value: Value) {
        let mut object = self.case.object.clone();
        if places::set(&mut object, place, value) {
            self.push(what, object);
        }
    }

    fn remove(&mut self, what: &str, place: &str) {
        let mut object = self.case.object.clone();
        if places::remove(&mut object, place) {
            self.push(what, object);
        }
    }

    fn schema(&mut self) {
        let schema = "/spec/schema";
        for field in ["kind", "apiVersion", "spec", "status", "types", "group"] {
            self.remove(&format!("without schema.{field}"), &format!("{schema}/{field}"));
        }
        self.remove("without schema", schema);
        self.remove("without resources", "/spec/resources");
        self.set("kind in small letters", &format!("{schema}/kind"), json!("app"));
        self.set("kind with a dash", &format!("{schema}/kind"), json!("My-App"));
        self.set("group in apiVersion", &format!("{schema}/apiVersion"), json!("kro.run/v1"));
        self.set("scope of the cluster", &format!("{schema}/scope"), json!("Cluster"));
        self.set("scope of nothing", &format!("{schema}/scope"), json!("Global"));
        self.set("an unknown field", &format!("{schema}/specs"), json!({}));
        self.set("a field of no type", &format!("{schema}/spec/mutated"), json!("strin"));
        self.set("a field with a default", &format!("{schema}/spec/mutated"), json!("integer | default=3"));
        self.set("a wrong default", &format!("{schema}/spec/mutated"), json!("integer | default=three"));
        let fields = self.case.object["spec"]["schema"]["spec"].as_object();
        let first = fields.and_then(|fields| fields.keys().next()).cloned();
        if let Some(field) = first {
            let field = places::escaped(&field);
            self.remove("without the first field", &format!("{schema}/spec/{field}"));
            self.set("the first field is a list", &format!("{schema}/spec/{field}"), json!("[]string"));
        }
    }

    fn status(&mut self) {
        let field = "/spec/schema/status/mutated";
        let first = &self.case.object["spec"]["resources"][0];
        let id = first["id"].as_str().unwrap_or("schema").to_owned();
        for (what, value) in [
            ("status without an expression", json!("text")),
            ("status with a number", json!(1)),
            ("status of nothing", json!("${1 + 1}")),
            ("status of what is not there", json!("${nowhere.metadata.name}")),
            ("status of a resource", json!(format!("${{{id}}}"))),
            ("status of metadata", json!(format!("${{{id}.metadata}}"))),
            ("status of the spec", json!("${schema.spec}")),
            ("status of the status", json!("${schema.status}")),
            ("status with a text", json!(format!("at ${{string({id}.metadata.name)}}"))),
            ("status in a list", json!([{"a": "${schema.metadata.name}"}, "${schema.metadata.uid}"])),
            ("status with omit", json!("${schema.metadata.name == '' ? omit() : schema.metadata.name}")),
        ] {
            self.set(what, field, value);
        }
    }

    fn resources(&mut self) {
        let Some(resources) = self.case.object["spec"]["resources"].as_array() else {
            return;
        };
        let Some(first) = resources.first().cloned() else {
            return;
        };
        let ids: Vec<String> = resources
            .iter()
            .filter_map(|one| one["id"].as_str().map(str::to_owned))
            .collect();
        for (what, id) in [
            ("another id", "mutated"),
            ("a reserved id", "instance"),
            ("an id of the language", "package"),
            ("an id with a dash", "my-id"),
            ("a capital id", "Mutated"),
        ] {
            self.set(what, "/spec/resources/0/id", json!(id));
        }
        self.set("an id twice", "/spec/resources/-", first.clone());
        self.remove("without an id", "/spec/resources/0/id");
        self.set("an unknown field of a resource", "/spec/resources/0/dependsOn", json!([]));
        self.set("two bodies", "/spec/resources/0/externalRef", json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        }));
        self.conditions(&ids);
        if first.get("template").is_some() {
            self.template(&first);
        }
    }

    fn conditions(&mut self, ids: &[String]) {
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else {
            return;
        };
        let text = |expression: &str| json!([format!("${{{expression}}}")]);
        let ready = "/spec/resources/0/readyWhen";
        self.set("ready when true", ready, text("true"));
        self.set("ready when named", ready, text(&format!("{first}.metadata.name != ''")));
        self.set("ready when each is", ready, text("each.metadata.name != ''"));
        self.set("ready when text", ready, text(&format!("{first}.metadata.name")));
        self.set("ready when another is", ready, text(&format!("{last}.metadata.name != ''")));
        self.set("ready when asked", ready, text("schema.metadata.name != ''"));
        self.set("ready without an expression", ready, json!(["true"]));
        self.set("ready with a text", ready, json!(["is ${true}"]));
        let include = "/spec/resources/0/includeWhen";
        self.set("included when asked", include, text("schema.metadata.name != ''"));
        self.set("included when it is there", include, text(&format!("{first}.metadata.name != ''")));
        self.set("included when the last is", include, text(&format!("{last}.metadata.name != ''")));
        self.set("included when a number", include, text("1"));
        self.set("included when perhaps", include, text("optional.of(true)"));
        let each = "/spec/resources/0/forEach";
        self.set("for each without a name", each, json!([{"one": "${['a', 'b']}"}]));
        self.set("for each of two in one", each, json!([{"one": "${['a']}", "two": "${['b']}"}]));
        self.set("for each of no list", each, json!([{"one": "${schema.metadata.name}"}]));
        self.set("for each that is reserved", each, json!([{"item": "${['a']}"}]));
        self.set("for each that is an id", each, json!([{first: "${['a']}"}]));
    }

    fn template(&mut self, resource: &Value) {
        let template = "/spec/resources/0/template";
        for field in ["apiVersion", "kind", "metadata", "metadata/name"] {
            self.remove(&format!("template without {field}"), &format!("{template}/{field}"));
        }
        self.set("another version", &format!("{template}/apiVersion"), json!("v9"));
        self.set("an unknown kind", &format!("{template}/kind"), json!("Nothing"));
        self.set("a computed kind", &format!("{template}/kind"), json!("${schema.metadata.name}"));
        self.set("an unknown field of an object", &format!("{template}/mutated"), json!(1));
        self.set("an unknown field of metadata", &format!("{template}/metadata/mutated"), json!("a"));
        self.set("an unknown field of a spec", &format!("{template}/spec/mutated"), json!("a"));
        self.set("a namespace", &format!("{template}/metadata/namespace"), json!("default"));
        self.set("a label of kro", &format!("{template}/metadata/labels/kro.run~1owned"), json!("a"));
        self.set("an annotation of kro", &format!("{template}/metadata/annotations/internal.kro.run~1a"), json!("a"));
        self.set("a label that is a number", &format!("{template}/metadata/labels/mutated"), json!(1));
        self.set("a label that is null", &format!("{template}/metadata/labels/mutated"), Value::Null);
        self.set("a name that is left out", &format!("{template}/metadata/name"), json!("${omit()}"));
        self.set("a label that is left out", &format!("{template}/metadata/labels/mutated"), json!("${omit()}"));
        if resource.get("forEach").is_none() {
            let mut each = self.case.object.clone();
            let name = json!("${schema.metadata.name}-${one}");
            let list = json!([{"one": "${['a', 'b']}"}]);
            if places::set(&mut each, &format!("{template}/metadata/name"), name)
                && places::set(&mut each, "/spec/resources/0/forEach", list)
            {
                self.push("many", each);
            }
        }
    }

    fn cycle(&mut self) {
        let resources = self.case.object["spec"]["resources"].as_array();
        let ids: Vec<&str> = resources
            .into_iter()
            .flatten()
            .filter_map(|one| one["id"].as_str())
            .collect();
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else {
            return;
        };
        let reading = |id: &str| json!(format!("${{string({id}.metadata.name)}}"));
        let label = |at: usize| format!("/spec/resources/{at}/template/metadata/annotations/mutated");
        let mut object = self.case.object.clone();
        let last_at = ids.len() - 1;
        if places::set(&mut object, &label(0), reading(last)) {
            self.push("the first reads the last", object.clone());
            if places::set(&mut object, &label(last_at), reading(first)) {
                self.push("a cycle", object);
            }
        }
    }

    fn expressions(&mut self) {
        let found = places::all(&self.case.object, Shape::Expression);
        for place in spread(found, MOST_EXPRESSIONS) {
            let Place { pointer, value } = place;
            for (what, text) in expressions::changed(&value) {
                self.set(&format!("{pointer} {what}"), &pointer, json!(text));
            }
        }
    }

    fn literals(&mut self) {
        let found = places::all(&self.case.object, Shape::Literal);
        for place in spread(found, MOST_LITERALS) {
            for (what, value) in [
                ("a text", json!("text")),
                ("a number", json!(7)),
                ("a fraction", json!(7.5)),
                ("a truth", json!(true)),
                ("null", Value::Null),
                ("a list", json!(["text"])),
                ("an object", json!({"mutated": "text"})),
                ("a text of the schema", json!("${schema.metadata.name}")),
                ("a number of the schema", json!("${schema.metadata.generation}")),
                ("labels of the schema", json!("${schema.metadata.labels}")),
            ] {
                self.set(&format!("{} is {what}", place.pointer), &place.pointer, value);
            }
        }
    }
}

/// Some of them, from all parts.
fn spread(places: Vec<Place>, most: usize) -> Vec<Place> {
    let step = places.len().div_ceil(most).max(1);
    places.into_iter().step_by(step).collect()
}
