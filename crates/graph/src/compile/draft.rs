//! Resources before their expressions are typed.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use deltaplane_api::field::Path;
use deltaplane_api::names;
use deltaplane_api::selector::LabelSelector;
use deltaplane_schema::{Definitions, Schema};
use serde_json::{Value as Json, json};

use super::expression::Expression;
use super::object;
use super::scope::{Context, Names, Scope};
use super::structure::{Found, walk};
use crate::definition::{Body, Definition, Reference, Resource, Target};
use crate::kinds::{Gvk, Known, Lookup};
use crate::problem::{Problem, Problems};
use crate::template::{Spot, Step};

/// A resource whose expressions are parsed.
pub(crate) struct Draft<'d> {
    pub(crate) resource: &'d Resource,
    /// Nothing when that was a problem.
    pub(crate) known: Option<Arc<Known>>,
    /// The template, or the reference.
    pub(crate) literal: Json,
    pub(crate) holes: Vec<Expression>,
    pub(crate) for_each: Vec<Expression>,
    pub(crate) include_when: Vec<Expression>,
    pub(crate) ready_when: Vec<Expression>,
}

/// All resources of a definition.
pub(super) fn all<'d>(
    definition: &'d Definition,
    lookup: &dyn Fn(&Gvk) -> Lookup,
    names: &Names<'_>,
    problems: &mut Problems,
) -> Vec<Draft<'d>> {
    let resources = Path::new("spec").child("resources");
    let mut drafts = Vec::with_capacity(definition.resources().len());
    for (index, resource) in definition.resources().iter().enumerate() {
        let path = resources.index(index);
        let known = known(resource, &path, lookup, problems);
        let drafter = Drafter {
            resource,
            scope: names.scope(Some(index), &resource.for_each),
            namespaced: definition.schema().namespaced,
            path,
            known,
        };
        drafts.push(drafter.draft(problems));
    }
    drafts
}

/// The schema of references, and the types of the expressions in them.
pub(super) fn reference_schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let text = json!({"type": "string"});
        let texts = json!({"type": "array", "items": text});
        let expression = json!({"type": "object", "properties": {
            "key": text, "operator": text, "values": texts,
        }});
        let reference = json!({"type": "object", "properties": {
            "name": text,
            "namespace": text,
            "selector": {"type": "object", "properties": {
                "matchLabels": {"type": "object", "additionalProperties": text},
                "matchExpressions": {"type": "array", "items": expression},
            }},
        }});
        Definitions::from_openapi([("reference", &reference)])
            .ok()
            .and_then(|definitions| definitions.get("reference"))
            .expect("the schema is written above")
    })
}

fn known(
    resource: &Resource,
    path: &Path,
    lookup: &dyn Fn(&Gvk) -> Lookup,
    problems: &mut Problems,
) -> Option<Arc<Known>> {
    let field = match &resource.body {
        Body::Template(_) => "template",
        Body::External(_) => "externalRef",
    };
    let at = || path.child(field);
    if let Body::Template(template) = &resource.body {
        object::shape(template, &at, problems);
    }
    let Some(gvk) = resource.gvk() else {
        if let Body::External(_) = &resource.body {
            problems.push(Problem::new(&at(), "its apiVersion and kind are not valid"));
        }
        return None;
    };
    let message = match lookup(&gvk) {
        Lookup::Known(known) => return Some(known),
        Lookup::Absent => format!("there is no kind {gvk}"),
        Lookup::Unavailable(why) => format!("the kind {gvk} cannot be looked up: {why}"),
    };
    problems.push(Problem::new(&at().child("kind"), message));
    None
}

/// Drafts one resource.
struct Drafter<'d, 's> {
    resource: &'d Resource,
    scope: Scope<'s>,
    /// Whether instances are in namespaces.
    namespaced: bool,
    path: Path,
    known: Option<Arc<Known>>,
}

// === impl Drafter ===

impl<'d> Drafter<'d, '_> {
    fn draft(self, problems: &mut Problems) -> Draft<'d> {
        let resource = self.resource;
        let before = problems.count();
        let (literal, holes) = match &resource.body {
            Body::Template(template) => {
                let template = numbers(template);
                let holes = self.template(&template, problems);
                (template, holes)
            }
            Body::External(reference) => self.reference(reference, problems),
        };
        let ready = match &resource.body {
            Body::External(Reference {
                target: Target::Selector(_),
                ..
            }) => Context::ReadyWhenSelected,
            Body::Template(_) if !resource.for_each.is_empty() => Context::ReadyWhenEach,
            Body::Template(_) | Body::External(_) => Context::ReadyWhen,
        };
        let include_when = self.conditions(
            &resource.include_when,
            "includeWhen",
            Context::IncludeWhen,
            problems,
        );
        let ready_when = self.conditions(&resource.ready_when, "readyWhen", ready, problems);
        let for_each = self.for_each(problems);
        // What could not be read was reported, and may well have used the iterators.
        if before == problems.count() {
            self.unique(&holes, problems);
        }
        self.given(&holes, problems);
        Draft {
            resource,
            known: self.known,
            literal,
            holes,
            for_each,
            include_when,
            ready_when,
        }
    }

    fn conditions(
        &self,
        texts: &[String],
        field: &str,
        context: Context,
        problems: &mut Problems,
    ) -> Vec<Expression> {
        if texts.is_empty() {
            return Vec::new();
        }
        let base = Arc::new(self.path.child(field));
        let one = |(index, text): (usize, &String)| {
            let spot = Spot::new(&base, &[Step::Index(index)]);
            Expression::alone(text, spot, (&self.scope, context), problems)
        };
        texts.iter().enumerate().filter_map(one).collect()
    }

    fn for_each(&self, problems: &mut Problems) -> Vec<Expression> {
        if self.resource.for_each.is_empty() {
            return Vec::new();
        }
        let base = Arc::new(self.path.child("forEach"));
        let one = |(index, (name, text)): (usize, &(String, String))| {
            let steps = [Step::Index(index), Step::Key(name.as_str().into())];
            let spot = Spot::new(&base, &steps);
            Expression::alone(text, spot, (&self.scope, Context::ForEach), problems)
        };
        let for_each = self.resource.for_each.iter().enumerate();
        for_each.filter_map(one).collect()
    }

    fn expressions(&self, found: Vec<Found>, problems: &mut Problems) -> Vec<Expression> {
        let one = |found: Found| {
            let scope = (&self.scope, Context::Template);
            Expression::of((found.ast, found.form), found.spot, scope, problems)
        };
        found.into_iter().filter_map(one).collect()
    }

    fn template(&self, template: &Json, problems: &mut Problems) -> Vec<Expression> {
        let base = Arc::new(self.path.child("template"));
        object::reserved(template, &base, problems);
        let crd = self.known.as_deref().is_some_and(object::is_crd);
        let schema = self.known.as_deref().map(Known::schema);
        let schema = schema.filter(|_| !crd).map(Schema::root);
        let walked = walk(template, &base, schema, problems);
        if let Some(known) = &self.known {
            let namespace = template["metadata"].get("namespace");
            if let Some(problem) = object::namespace(namespace, known, self.namespaced) {
                let path = base.child("metadata").child("namespace");
                problems.push(Problem::new(&path, problem));
            }
        }
        if crd {
            let outside = walked.found.iter();
            for found in outside.filter(|found| found.spot.steps[0] != Step::Key("metadata".into()))
            {
                let message =
                    "expressions in CustomResourceDefinitions are only supported in their metadata";
                problems.push(Problem::new(&found.spot.path(), message));
            }
        }
        self.expressions(walked.found, problems)
    }

    /// A reference is a template too, of what it takes to find the objects.
    fn reference(&self, reference: &Reference, problems: &mut Problems) -> (Json, Vec<Expression>) {
        let base = Arc::new(self.path.child("externalRef").child("metadata"));
        let mut literal = json!({});
        if let Some(namespace) = &reference.namespace {
            literal["namespace"] = namespace.as_str().into();
        }
        let selected = match &reference.target {
            Target::Name(name) => {
                literal["name"] = name.as_str().into();
                false
            }
            Target::Selector(selector) => {
                literal["selector"] = selector.clone();
                true
            }
        };
        if let Some(known) = &self.known {
            // Without a namespace a selector means all of them.
            let anywhere = selected || self.namespaced;
            if let Some(problem) = object::namespace(literal.get("namespace"), known, anywhere) {
                problems.push(Problem::new(&base.child("namespace"), problem));
            }
        }
        let walked = walk(&literal, &base, Some(reference_schema().root()), problems);
        if selected {
            selector(&literal["selector"], &walked.found, &base, problems);
        }
        let holes = self.expressions(walked.found, problems);
        (literal, holes)
    }

    /// All iterators must be part of what tells the objects of a collection apart.
    fn unique(&self, holes: &[Expression], problems: &mut Problems) {
        let own = |hole: &&Expression| is_identity(hole, self.known.as_deref());
        let mut used = BTreeSet::new();
        for hole in holes.iter().filter(own) {
            used.extend(hole.roots.iterators.iter().copied());
        }
        let missing = self.scope.iterators.iter().enumerate();
        let missing: Vec<&str> = missing
            .filter(|(index, _)| !used.contains(index))
            .map(|(_, name)| *name)
            .collect();
        if !missing.is_empty() {
            let message = format!(
                "all forEach dimensions must be used to produce a unique resource identity, \
                 missing: {}",
                missing.join(", ")
            );
            let problem = Problem::new(&self.path.child("forEach"), message);
            problems.push(problem.hint("use them in metadata.name"));
        }
    }

    /// What tells objects apart cannot be left out.
    fn given(&self, holes: &[Expression], problems: &mut Problems) {
        for hole in holes {
            let Some(span) = hole.omits else { continue };
            let field = match &self.resource.body {
                Body::Template(_) => metadata_field(&hole.spot.steps),
                Body::External(_) => reference_field(&hole.spot.steps),
            };
            let needed = match (field, &self.known) {
                (Some("name"), _) => true,
                (Some("namespace"), Some(known)) => known.namespaced() && !self.namespaced,
                (Some(_) | None, _) => false,
            };
            if needed {
                let message = "omit() cannot be used here: the field must have a value";
                let problem = Problem::new(&hole.spot.path(), message);
                problems.push(problem.at(hole.ast.source(), span));
            }
        }
    }
}

/// A template as the API keeps it: whole numbers are integers, however they are written.
fn numbers(value: &Json) -> Json {
    match value {
        Json::Number(number) => {
            let float = number.as_f64().filter(|float| float.fract() == 0.0);
            // Beyond 64 bits it stays what it is.
            let whole = float.and_then(|float| format!("{float:.0}").parse::<i64>().ok());
            match whole.filter(|_| number.is_f64()) {
                Some(whole) => whole.into(),
                None => value.clone(),
            }
        }
        Json::Array(items) => items.iter().map(numbers).collect(),
        Json::Object(map) => {
            let fields = map.iter().map(|(key, value)| (key.clone(), numbers(value)));
            Json::Object(fields.collect())
        }
        Json::Null | Json::Bool(_) | Json::String(_) => value.clone(),
    }
}

/// The field of `metadata` that is directly meant.
fn metadata_field(steps: &[Step]) -> Option<&str> {
    match steps {
        [Step::Key(metadata), Step::Key(field)] if &**metadata == "metadata" => Some(field),
        _ => None,
    }
}

/// The field of a reference that is directly meant: it is metadata as a whole.
fn reference_field(steps: &[Step]) -> Option<&str> {
    match steps {
        [Step::Key(field)] => Some(field),
        _ => None,
    }
}

/// Whether an expression is part of an object's identity.
fn is_identity(hole: &Expression, known: Option<&Known>) -> bool {
    match metadata_field(&hole.spot.steps) {
        Some("name") => true,
        Some("namespace") => known.is_some_and(Known::namespaced),
        Some(_) | None => false,
    }
}

/// A selector without expressions makes sense. Which fields it has, and of which types, is checked by
/// its schema.
fn selector(selector: &Json, found: &[Found], base: &Path, problems: &mut Problems) {
    let within = |found: &Found| found.spot.steps.first() == Some(&Step::Key("selector".into()));
    let literal = selector.is_object() && !found.iter().any(within);
    let mut fields = selector.as_object().cloned().unwrap_or_default();
    fields.retain(|field, value| match field.as_str() {
        "matchLabels" => value.is_object(),
        "matchExpressions" => value.is_array(),
        _ => false,
    });
    if literal && LabelSelector::from_object(&fields.into()).is_none() {
        let hint = "it has matchLabels, and matchExpressions with a key, an operator and values";
        let problem = Problem::new(&base.child("selector"), "invalid label selector");
        problems.push(problem.hint(hint));
    }
    if literal {
        problems.all(&base.child("selector"), unfit_labels(selector));
    }
}

/// What is wrong with the labels that a selector is about: no object can have them.
fn unfit_labels(selector: &Json) -> Vec<String> {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"].as_array();
    let expressions = expressions.into_iter().flatten();
    let keys = labels.clone().map(|(key, _)| key.as_str());
    let keys = keys.chain(expressions.clone().filter_map(|one| one["key"].as_str()));
    let values = expressions.filter_map(|one| one["values"].as_array());
    let values = labels.map(|(_, value)| value).chain(values.flatten());
    let values = values.filter_map(Json::as_str);
    let wrong = keys.flat_map(names::qualified_name);
    wrong.chain(values.flat_map(names::label_value)).collect()
}

// === impl Draft ===

impl Draft<'_> {
    /// The resources that it reads, in the order of the definition.
    pub(crate) fn depends_on(&self) -> BTreeSet<usize> {
        let all = self
            .holes
            .iter()
            .chain(&self.for_each)
            .chain(&self.include_when);
        all.flat_map(|expression| expression.roots.nodes.iter().copied())
            .collect()
    }
}
