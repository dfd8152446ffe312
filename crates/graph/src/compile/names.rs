//! Which names a definition may use.

use std::collections::HashSet;

use deltaplane_api::field::Path;
use deltaplane_api::names;
use serde_json::Value as Json;

use crate::definition::{Definition, Instance, Resource};
use crate::problem::{Problem, Problems};

/// Words of the expression language.
const CEL: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Words that kro keeps for itself.
const KRO: [&str; 33] = [
    "apiVersion",
    "context",
    "dependency",
    "dependencies",
    "each",
    "externalRef",
    "externalReference",
    "externalRefs",
    "externalReferences",
    "graph",
    "instance",
    "item",
    "items",
    "kind",
    "kro",
    "metadata",
    "namespace",
    "object",
    "resource",
    "resourcegraphdefinition",
    "resourceGraphDefinition",
    "resources",
    "root",
    "runtime",
    "schema",
    "self",
    "serviceAccountName",
    "spec",
    "status",
    "this",
    "variables",
    "vars",
    "version",
];

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

/// Each makes the collection larger by its factor.
const MAX_DIMENSIONS: usize = 10;
const MAX_KIND: usize = 63;
/// Ids become values of labels.
const MAX_ID: usize = 63;
const MAX_ALIASES: usize = 32;

pub(super) fn check(definition: &Definition, problems: &mut Problems) {
    let spec = Path::new("spec");
    instance(definition.schema(), &spec.child("schema"), problems);
    let all: HashSet<&str> = definition
        .resources()
        .iter()
        .map(|resource| resource.id.as_str())
        .collect();
    let mut seen = HashSet::new();
    for (index, resource) in definition.resources().iter().enumerate() {
        let path = || spec.child("resources").index(index);
        if let Some(problem) = name(&resource.id) {
            problems.push(problem.below(&path().child("id")));
        }
        if !seen.insert(resource.id.as_str()) {
            let message = format!("there is another resource with the id `{}`", resource.id);
            problems.push(Problem::new(&path().child("id"), message));
        }
        if !resource.for_each.is_empty() {
            iterators(resource, &path().child("forEach"), &all, problems);
        }
    }
}

/// What is wrong with a name.
fn name(name: &str) -> Option<Problem> {
    let problem = |message: String| Problem::new(&Path::root(), message);
    if CEL.contains(&name) || KRO.contains(&name) {
        return Some(problem(format!("`{name}` is a reserved word")));
    }
    if !is_camel(name, |first| first.is_ascii_lowercase()) {
        let hint =
            "it begins with a small letter and has letters and digits only, as in `webServer`";
        return Some(problem(format!("{name:?} is not a valid id")).hint(hint));
    }
    (name.len() > MAX_ID).then(|| problem(format!("it is longer than {MAX_ID} characters")))
}

fn is_camel(name: &str, first: fn(char) -> bool) -> bool {
    name.starts_with(first) && name.chars().all(|c| c.is_ascii_alphanumeric())
}

fn iterators(resource: &Resource, path: &Path, ids: &HashSet<&str>, problems: &mut Problems) {
    let count = resource.for_each.len();
    if count > MAX_DIMENSIONS {
        let message = format!("there are {count} dimensions, and {MAX_DIMENSIONS} at most may be");
        problems.push(Problem::new(path, message));
    }
    let mut seen = HashSet::new();
    for (index, (iterator, _)) in resource.for_each.iter().enumerate() {
        let path = path.index(index).child(iterator);
        if let Some(problem) = name(iterator) {
            problems.push(problem.below(&path));
        }
        if ids.contains(iterator.as_str()) {
            let message = format!("there is a resource with the id `{iterator}`");
            problems.push(Problem::new(&path, message));
        }
        if !seen.insert(iterator) {
            let message = format!("there is another iterator with the name `{iterator}`");
            problems.push(Problem::new(&path, message));
        }
    }
}

fn instance(schema: &Instance, path: &Path, problems: &mut Problems) {
    let kind = &schema.kind;
    if !is_camel(kind, |first| first.is_ascii_uppercase()) || kind.len() > MAX_KIND {
        let message = format!("{kind:?} is not a valid kind");
        let hint =
            "it begins with a capital letter and has letters and digits only, as in `WebApp`";
        problems.push(Problem::new(&path.child("kind"), message).hint(hint));
    }
    if !is_version(&schema.version) {
        let message = format!("{:?} is not a version", schema.version);
        let hint = match schema.version.contains('/') {
            true => "the group has a field of its own, `group`",
            false => "write it as `v1`, `v1beta1` or `v1alpha1`",
        };
        problems.push(Problem::new(&path.child("apiVersion"), message).hint(hint));
    }
    problems.all(&path.child("group"), names::dns_subdomain(&schema.group));
    if !schema.group.contains('.') {
        let message = "it should be a domain with at least one dot";
        problems.push(Problem::new(&path.child("group"), message));
    }
    long_names(schema, path, problems);
    columns(
        &schema.columns,
        &path.child("additionalPrinterColumns"),
        problems,
    );
    labels(schema, &path.child("metadata"), problems);
    for (field, list) in [
        ("shortNames", &schema.short_names),
        ("categories", &schema.categories),
    ] {
        let path = path.child(field);
        if list.len() > MAX_ALIASES {
            let message = format!("there are more than {MAX_ALIASES} of them");
            problems.push(Problem::new(&path, message));
        }
        let mut seen = HashSet::new();
        for (index, alias) in list.iter().enumerate() {
            problems.all(&path.index(index), names::dns_1035(alias));
            if !seen.insert(alias) {
                problems.push(Problem::new(&path.index(index), "it is there twice"));
            }
        }
    }
}

/// The plural and the kind of lists are names too.
fn long_names(schema: &Instance, path: &Path, problems: &mut Problems) {
    let plural = schema.plural();
    let list = format!("{}List", schema.kind);
    for (what, name) in [("plural", plural), ("kind of lists", list)] {
        if schema.kind.len() <= MAX_KIND && name.len() > MAX_KIND {
            let message = format!("its {what}, {name}, is longer than {MAX_KIND} characters");
            problems.push(Problem::new(&path.child("kind"), message));
        }
    }
}

/// What a column says of its values.
fn columns(columns: &[Json], path: &Path, problems: &mut Problems) {
    for (index, column) in columns.iter().enumerate() {
        let path = path.index(index);
        let text = |field: &str| column[field].as_str().unwrap_or_default();
        if text("name").is_empty() {
            problems.push(Problem::new(&path.child("name"), "it is required"));
        }
        for (field, known) in [("type", &COLUMN_TYPES[..]), ("format", &COLUMN_FORMATS[..])] {
            let value = text(field);
            let given = field == "type" || !value.is_empty();
            if given && !known.contains(&value) {
                let message = format!("{value:?} is not one of {}", known.join(", "));
                problems.push(Problem::new(&path.child(field), message));
            }
        }
        if !text("jsonPath").starts_with('.') {
            let message = "it must be a simple JSON path that starts with a dot";
            problems.push(Problem::new(&path.child("jsonPath"), message));
        }
    }
}

/// Labels and annotations of the kind's definition.
fn labels(schema: &Instance, path: &Path, problems: &mut Problems) {
    let Some(metadata) = &schema.metadata else {
        return;
    };
    for (key, value) in &metadata.labels {
        let path = path.child("labels").key(key);
        let wrong = [names::qualified_name(key), names::label_value(value)].concat();
        problems.all(&path, wrong);
    }
    for key in metadata.annotations.keys() {
        // Their capitals do not count.
        let wrong = names::qualified_name(&key.to_lowercase());
        problems.all(&path.child("annotations").key(key), wrong);
    }
}

/// `v` and a number, perhaps with `alpha` or `beta` and another.
fn is_version(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(rest) = text.strip_prefix('v') else {
        return false;
    };
    let parts = rest.split_once("alpha").or_else(|| rest.split_once("beta"));
    match parts {
        Some((major, minor)) => digits(major) && digits(minor),
        None => digits(rest),
    }
}
