//! Reading a definition, and saying all that is wrong with its shape.

use std::collections::BTreeMap;

use deltaplane_api::field::Path;
use deltaplane_api::names;
use deltaplane_propagation::stages::BudgetSpec;
use serde_json::{Map, Value as Json};

use super::{Body, Definition, GateText, Instance, Metadata, Reference, Resource, Target};
use crate::problem::{Problem, Problems};

/// As much as the API takes in one request.
const MAX_BYTES: usize = 3 * 1024 * 1024;
const MAX_RESOURCES: usize = 1000;
/// Conditions of one resource, iterators, gates, …
const MAX_LIST: usize = 1000;

const GROUP: &str = "kro.run";

pub(super) fn definition(object: &Json) -> Result<Definition, Problems> {
    let mut reader = Reader::default();
    if let Some(problem) = unfit(object) {
        reader.problems.push(problem);
        return Err(reader.problems);
    }
    let definition = reader.definition(object);
    match definition {
        Some(definition) => reader.problems.unless(|| definition),
        None => Err(reader.problems.sorted()),
    }
}

/// What is too large is not looked at any further.
fn unfit(object: &Json) -> Option<Problem> {
    let root = Path::root();
    if deltaplane_schema::too_deep(object) {
        let most = deltaplane_schema::MAX_DEPTH;
        let message = format!("it is nested deeper than {most} levels");
        return Some(Problem::new(&root, message));
    }
    if bytes(object) > MAX_BYTES {
        let message = format!("it is larger than {MAX_BYTES} bytes");
        return Some(Problem::new(&root, message));
    }
    None
}

/// About how much text it is.
fn bytes(value: &Json) -> usize {
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => 4,
        Json::String(text) => text.len() + 2,
        Json::Array(items) => items.iter().map(|item| bytes(item) + 1).sum::<usize>() + 2,
        Json::Object(map) => {
            let entry = |(key, value): (&String, &Json)| key.len() + bytes(value) + 4;
            map.iter().map(entry).sum::<usize>() + 2
        }
    }
}

#[derive(Default)]
struct Reader {
    problems: Problems,
}

/// An object and where it is.
struct At<'v> {
    map: &'v Map<String, Json>,
    path: Path,
}

impl<'v> At<'v> {
    /// A field that is there and not null.
    fn get(&self, name: &str) -> Option<(&'v Json, Path)> {
        let value = self.map.get(name).filter(|value| !value.is_null())?;
        Some((value, self.path.child(name)))
    }

    fn json(&self, name: &str) -> Json {
        self.get(name)
            .map_or(Json::Null, |(value, _)| value.clone())
    }
}

impl Reader {
    fn problem(&mut self, path: &Path, message: impl Into<String>) {
        self.problems.push(Problem::new(path, message));
    }

    fn object<'v>(&mut self, value: &'v Json, path: Path) -> Option<At<'v>> {
        let Json::Object(map) = value else {
            self.wrong(&path, "an object", value);
            return None;
        };
        Some(At { map, path })
    }

    fn wrong(&mut self, path: &Path, wanted: &str, found: &Json) {
        let found = crate::compile::word(found);
        self.problem(path, format!("expected {wanted}, got {found}"));
    }

    /// Fields that nobody knows are most likely mistyped.
    fn only(&mut self, at: &At<'_>, known: &[&str]) {
        for key in at.map.keys() {
            if !known.contains(&&**key) {
                let make = || Problem::new(&at.path.child(key), "there is no such field");
                self.problems.unknown(key, || known.iter().copied(), make);
            }
        }
    }

    fn text(&mut self, at: &At<'_>, name: &str) -> Option<String> {
        let (value, path) = at.get(name)?;
        match value.as_str() {
            Some(text) => Some(text.to_owned()),
            None => {
                self.wrong(&path, "a string", value);
                None
            }
        }
    }

    fn required(&mut self, at: &At<'_>, name: &str) -> Option<String> {
        if at.get(name).is_none() {
            self.problem(&at.path.child(name), "it is required");
        }
        self.text(at, name)
    }

    fn items<'v>(&mut self, at: &At<'v>, name: &str, most: usize) -> Vec<(&'v Json, Path)> {
        let Some((value, path)) = at.get(name) else {
            return Vec::new();
        };
        let Json::Array(items) = value else {
            self.wrong(&path, "a list", value);
            return Vec::new();
        };
        if items.len() > most {
            let count = items.len();
            self.problem(
                &path,
                format!("there are {count} of them, and {most} at most may be"),
            );
            return Vec::new();
        }
        let placed = |(index, item)| (item, path.index(index));
        items.iter().enumerate().map(placed).collect()
    }

    fn texts(&mut self, at: &At<'_>, name: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for (item, path) in self.items(at, name, MAX_LIST) {
            match item.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => self.wrong(&path, "a string", item),
            }
        }
        texts
    }

    fn text_map(&mut self, at: &At<'_>, name: &str) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let Some((value, path)) = at.get(name) else {
            return found;
        };
        let Some(map) = self.object(value, path) else {
            return found;
        };
        for (key, value) in map.map {
            match value.as_str() {
                Some(text) => drop(found.insert(key.clone(), text.to_owned())),
                None => self.wrong(&map.path.key(key), "a string", value),
            }
        }
        found
    }

    fn definition(&mut self, object: &Json) -> Option<Definition> {
        let root = self.object(object, Path::root())?;
        let name = match root.get("metadata") {
            Some((metadata, path)) => {
                let metadata = self.object(metadata, path)?;
                self.text(&metadata, "name").unwrap_or_default()
            }
            None => String::new(),
        };
        let Some((spec, path)) = root.get("spec") else {
            self.problem(&Path::new("spec"), "it is required");
            return None;
        };
        let at = self.object(spec, path)?;
        let fields = [
            "schema",
            "resources",
            "serviceAccountName",
            "deletionBudget",
            "propagateWhen",
            "orderBy",
        ];
        self.only(&at, &fields);
        let schema = match at.get("schema") {
            Some((schema, path)) => self.instance(schema, path),
            None => {
                self.problem(&at.path.child("schema"), "it is required");
                None
            }
        };
        let resources = self.items(&at, "resources", MAX_RESOURCES);
        let resources: Vec<Option<Resource>> = resources
            .into_iter()
            .map(|(resource, path)| self.resource(resource, path))
            .collect();
        let gate = self.gate(&at);
        let service_account = self.service_account(&at);
        let deletion_budget = self.deletion_budget(&at);
        Some(Definition {
            name,
            schema: schema?,
            resources: resources.into_iter().collect::<Option<_>>()?,
            gate,
            service_account,
            deletion_budget,
            spec: spec.clone(),
        })
    }

    /// An empty name is that of the default account, as in a Pod.
    fn service_account(&mut self, at: &At<'_>) -> Option<String> {
        let name = self.text(at, "serviceAccountName")?;
        if name.is_empty() {
            return None;
        }
        let wrong = names::dns_subdomain(&name);
        if !wrong.is_empty() {
            let path = at.path.child("serviceAccountName");
            let message = format!(
                "{name:?} is no name of a ServiceAccount: {}",
                wrong.join("; ")
            );
            let hint =
                "write the name of a ServiceAccount; it is no expression, and has no namespace";
            self.problems.push(Problem::new(&path, message).hint(hint));
        }
        Some(name)
    }

    fn deletion_budget(&mut self, at: &At<'_>) -> BudgetSpec {
        let Some((budget, path)) = at.get("deletionBudget") else {
            return BudgetSpec::default();
        };
        let Some(at) = self.object(budget, path) else {
            return BudgetSpec::default();
        };
        self.only(&at, &["max", "percent"]);
        let percent = self.count(&at, "percent", 100);
        BudgetSpec {
            max: self.count(&at, "max", i64::MAX as u64),
            percent: percent.and_then(|percent| percent.try_into().ok()),
        }
    }

    /// An integer from nought to `most`.
    fn count(&mut self, at: &At<'_>, name: &str, most: u64) -> Option<u64> {
        let (value, path) = at.get(name)?;
        let Some(count) = value.as_i64() else {
            self.wrong(&path, "an integer", value);
            return None;
        };
        let count = u64::try_from(count).ok().filter(|count| *count <= most);
        if count.is_none() {
            let message = match most {
                100 => "it is not between 0 and 100",
                _ => "it is less than 0",
            };
            self.problem(&path, message);
        }
        count
    }

    fn gate(&mut self, at: &At<'_>) -> GateText {
        GateText {
            when: at
                .get("propagateWhen")
                .map(|_| self.texts(at, "propagateWhen")),
            order_by: self.text(at, "orderBy"),
        }
    }

    fn instance(&mut self, schema: &Json, path: Path) -> Option<Instance> {
        let at = self.object(schema, path)?;
        let fields = [
            "kind",
            "apiVersion",
            "group",
            "scope",
            "spec",
            "types",
            "status",
            "additionalPrinterColumns",
            "shortNames",
            "categories",
            "metadata",
        ];
        self.only(&at, &fields);
        let kind = self.required(&at, "kind");
        let version = self.required(&at, "apiVersion");
        let group = self.text(&at, "group").filter(|group| !group.is_empty());
        let columns = self.items(&at, "additionalPrinterColumns", MAX_LIST);
        for (column, path) in &columns {
            self.column(column, path.clone());
        }
        let metadata = match at.get("metadata") {
            Some((metadata, path)) => self.metadata(metadata, path),
            None => None,
        };
        Some(Instance {
            kind: kind?,
            version: version?,
            group: group.unwrap_or_else(|| GROUP.to_owned()),
            plural: None,
            namespaced: self.namespaced(&at),
            spec: at.json("spec"),
            types: at.json("types"),
            status: at.json("status"),
            columns: columns
                .into_iter()
                .map(|(column, _)| column.clone())
                .collect(),
            short_names: self.texts(&at, "shortNames"),
            categories: self.texts(&at, "categories"),
            metadata,
        })
    }

    fn column(&mut self, column: &Json, path: Path) {
        let Some(at) = self.object(column, path) else {
            return;
        };
        let required = ["name", "type", "jsonPath"];
        let optional = ["format", "description"];
        let known = [&required[..], &optional[..], &["priority"]].concat();
        self.only(&at, &known);
        for field in required {
            self.required(&at, field);
        }
        for field in optional {
            self.text(&at, field);
        }
        if let Some((priority, path)) = at.get("priority")
            && !priority.is_i64()
        {
            self.wrong(&path, "an integer", priority);
        }
    }

    fn metadata(&mut self, metadata: &Json, path: Path) -> Option<Metadata> {
        let at = self.object(metadata, path)?;
        self.only(&at, &["labels", "annotations"]);
        Some(Metadata {
            labels: self.text_map(&at, "labels"),
            annotations: self.text_map(&at, "annotations"),
        })
    }

    fn namespaced(&mut self, at: &At<'_>) -> bool {
        match self.text(at, "scope").as_deref() {
            None | Some("Namespaced") => true,
            Some("Cluster") => false,
            Some(other) => {
                let message = format!("{other:?} is not a scope");
                let problem = Problem::new(&at.path.child("scope"), message);
                self.problems
                    .push(problem.hint("it is `Namespaced` or `Cluster`"));
                true
            }
        }
    }

    fn resource(&mut self, resource: &Json, path: Path) -> Option<Resource> {
        let at = self.object(resource, path)?;
        let fields = [
            "id",
            "template",
            "externalRef",
            "readyWhen",
            "includeWhen",
            "forEach",
            "propagateWhen",
            "orderBy",
        ];
        self.only(&at, &fields);
        let id = self.required(&at, "id");
        let for_each = self.for_each(&at);
        let body = self.body(&at, !for_each.is_empty());
        let ready_when = self.texts(&at, "readyWhen");
        let include_when = self.texts(&at, "includeWhen");
        let gate = self.gate(&at);
        Some(Resource {
            id: id?,
            body: body?,
            ready_when,
            include_when,
            for_each,
            gate,
        })
    }

    fn body(&mut self, at: &At<'_>, many: bool) -> Option<Body> {
        match (at.get("template"), at.get("externalRef")) {
            (Some((template, path)), None) => {
                self.object(template, path)?;
                Some(Body::Template(template.clone()))
            }
            (None, Some((reference, path))) => {
                if many {
                    let message = "cannot use externalRef with forEach";
                    self.problem(&at.path.child("forEach"), message);
                }
                self.reference(reference, path).map(Body::External)
            }
            (Some(_), Some((_, path))) => {
                self.problem(&path, "cannot use externalRef with template");
                None
            }
            (None, None) => {
                let message = "exactly one of template or externalRef must be provided";
                self.problem(&at.path, message);
                None
            }
        }
    }

    fn reference(&mut self, reference: &Json, path: Path) -> Option<Reference> {
        let at = self.object(reference, path)?;
        self.only(&at, &["apiVersion", "kind", "metadata"]);
        let api_version = self.required(&at, "apiVersion");
        let kind = self.required(&at, "kind");
        let Some((metadata, path)) = at.get("metadata") else {
            self.problem(&at.path.child("metadata"), "it is required");
            return None;
        };
        let metadata = self.object(metadata, path)?;
        self.only(&metadata, &["name", "namespace", "selector"]);
        let name = self.text(&metadata, "name");
        let name = name.filter(|name| !name.trim().is_empty());
        let namespace = self.text(&metadata, "namespace");
        let target = match (name, metadata.get("selector")) {
            (Some(name), None) => Target::Name(name),
            (None, Some((selector, _))) => Target::Selector(selector.clone()),
            (Some(_), Some(_)) | (None, None) => {
                let message = "exactly one of name or selector must be provided";
                self.problem(&metadata.path, message);
                return None;
            }
        };
        Some(Reference {
            api_version: api_version?,
            kind: kind?,
            namespace: namespace.filter(|namespace| !namespace.is_empty()),
            target,
        })
    }

    fn for_each(&mut self, at: &At<'_>) -> Vec<(String, String)> {
        let mut dimensions = Vec::new();
        for (dimension, path) in self.items(at, "forEach", MAX_LIST) {
            let Some(map) = self.object(dimension, path) else {
                continue;
            };
            let mut entries = map.map.iter();
            match (entries.next(), entries.next()) {
                (Some((name, Json::String(list))), None) => {
                    dimensions.push((name.clone(), list.clone()));
                }
                (Some((name, other)), None) => {
                    self.wrong(&map.path.child(name), "a string", other);
                }
                (None | Some(_), _) => {
                    let message = "each dimension is one name with one expression";
                    self.problem(&map.path, message);
                }
            }
        }
        dimensions
    }
}
