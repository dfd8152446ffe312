//! Published definitions with one thing changed: mistakes that people make, and some that they do
//! not.

mod expressions;
pub(super) mod places;

use serde_json::{Value, json};

use super::Case;
use places::{Place, Shape};

/// Of the many places of a definition these are changed, spread over all of it.
const MOST_EXPRESSIONS: usize = 3;
const MOST_LITERALS: usize = 3;

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

    /// Several values, each at its place below another.
    fn set_each<'t>(
        &mut self,
        below: &str,
        changes: impl IntoIterator<Item = (&'t str, &'t str, Value)>,
    ) {
        for (what, place, value) in changes {
            self.set(what, &format!("{below}{place}"), value);
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
            self.remove(
                &format!("without schema.{field}"),
                &format!("{schema}/{field}"),
            );
        }
        self.remove("without schema", schema);
        self.remove("without resources", "/spec/resources");
        let changes = [
            ("kind in small letters", "/kind", json!("app")),
            ("kind with a dash", "/kind", json!("My-App")),
            ("group in apiVersion", "/apiVersion", json!("kro.run/v1")),
            ("scope of the cluster", "/scope", json!("Cluster")),
            ("scope of nothing", "/scope", json!("Global")),
            ("an unknown field", "/specs", json!({})),
            ("a field of no type", "/spec/mutated", json!("strin")),
            (
                "a field with a default",
                "/spec/mutated",
                json!("integer | default=3"),
            ),
            (
                "a wrong default",
                "/spec/mutated",
                json!("integer | default=three"),
            ),
        ];
        self.set_each(schema, changes);
        let fields = self.case.object["spec"]["schema"]["spec"].as_object();
        let first = fields.and_then(|fields| fields.keys().next());
        if let Some(first) = first {
            let field = format!("{schema}/spec/{}", places::escaped(first));
            self.remove("without the first field", &field);
            self.set("the first field is a list", &field, json!("[]string"));
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
            (
                "status of what is not there",
                json!("${nowhere.metadata.name}"),
            ),
            (
                "status of labels",
                json!(format!("${{{id}.metadata.labels}}")),
            ),
            ("status of the status", json!("${schema.status}")),
            (
                "status with a text",
                json!(format!("at ${{string({id}.metadata.name)}}")),
            ),
            (
                "status in a list",
                json!([{"a": "${schema.metadata.name}"}]),
            ),
            (
                "status with omit",
                json!("${schema.metadata.name == '' ? omit() : schema.metadata.name}"),
            ),
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
        self.set(
            "an unknown field of a resource",
            "/spec/resources/0/dependsOn",
            json!([]),
        );
        self.set(
            "two bodies",
            "/spec/resources/0/externalRef",
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            }),
        );
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
        let named = |id: &str| text(&format!("{id}.metadata.name != ''"));
        let (ready, include) = ("/readyWhen", "/includeWhen");
        let changes = [
            ("ready when true", ready, text("true")),
            ("ready when named", ready, named(first)),
            (
                "ready when text",
                ready,
                text(&format!("{first}.metadata.name")),
            ),
            ("ready when another is", ready, named(last)),
            ("ready when asked", ready, named("schema")),
            ("ready without an expression", ready, json!(["true"])),
            ("ready with a text", ready, json!(["is ${true}"])),
            ("included when asked", include, named("schema")),
            ("included when it is there", include, named(first)),
            ("included when the last is", include, named(last)),
            ("included when a number", include, text("1")),
            ("included when perhaps", include, text("optional.of(true)")),
        ];
        self.set_each("/spec/resources/0", changes);
        let selected = &self.case.object["spec"]["resources"][0]["externalRef"]["metadata"];
        // Of those that are selected it can be said, unlike in kro.
        if selected.get("selector").is_none() {
            self.set(
                "ready when each is",
                "/spec/resources/0/readyWhen",
                named("each"),
            );
        }
        self.for_each(first);
    }

    fn for_each(&mut self, id: &str) {
        let changes = [
            (
                "for each without a name",
                "",
                json!([{"one": "${['a', 'b']}"}]),
            ),
            (
                "for each of two in one",
                "",
                json!([{"one": "${['a']}", "two": "${['b']}"}]),
            ),
            (
                "for each of no list",
                "",
                json!([{"one": "${schema.metadata.name}"}]),
            ),
            (
                "for each that is reserved",
                "",
                json!([{"item": "${['a']}"}]),
            ),
            ("for each that is an id", "", json!([{id: "${['a']}"}])),
        ];
        self.set_each("/spec/resources/0/forEach", changes);
    }

    fn template(&mut self, resource: &Value) {
        let template = "/spec/resources/0/template";
        for field in ["/apiVersion", "/kind", "/metadata", "/metadata/name"] {
            self.remove(
                &format!("template without {field}"),
                &format!("{template}{field}"),
            );
        }
        let label = "/metadata/labels/mutated";
        let changes = [
            ("another version", "/apiVersion", json!("v9")),
            ("an unknown kind", "/kind", json!("Nothing")),
            ("a computed kind", "/kind", json!("${schema.metadata.name}")),
            ("an unknown field of an object", "/mutated", json!(1)),
            (
                "an unknown field of metadata",
                "/metadata/mutated",
                json!("a"),
            ),
            ("an unknown field of a spec", "/spec/mutated", json!("a")),
            ("a namespace", "/metadata/namespace", json!("default")),
            (
                "a label of kro",
                "/metadata/labels/kro.run~1owned",
                json!("a"),
            ),
            (
                "an annotation of kro",
                "/metadata/annotations/internal.kro.run~1a",
                json!("a"),
            ),
            ("a label that is a number", label, json!(1)),
            ("a label that is null", label, Value::Null),
            (
                "a name that is left out",
                "/metadata/name",
                json!("${omit()}"),
            ),
            ("a label that is left out", label, json!("${omit()}")),
        ];
        self.set_each(template, changes);
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
        let label =
            |at: usize| format!("/spec/resources/{at}/template/metadata/annotations/mutated");
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
                (
                    "a number of the schema",
                    json!("${schema.metadata.generation}"),
                ),
                ("labels of the schema", json!("${schema.metadata.labels}")),
            ] {
                self.set(
                    &format!("{} is {what}", place.pointer),
                    &place.pointer,
                    value,
                );
            }
        }
    }
}

/// Some of them, from all parts.
fn spread(places: Vec<Place>, most: usize) -> Vec<Place> {
    let step = places.len().div_ceil(most).max(1);
    places.into_iter().step_by(step).collect()
}
