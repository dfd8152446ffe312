//! CustomResourceDefinitions: defaults and rules.

use std::collections::BTreeSet;

use deltaplane_api::approval::{self, Approval};
use deltaplane_api::field::{Error, Path};
use deltaplane_api::{computed, finalizers, names};
use deltaplane_expr::rules;
use deltaplane_schema::{Kind as NodeKind, crd};
use serde_json::{Value, json};

use super::{GENERIC, Strategy, immutable};
use crate::jsonpath::JsonPath;
use crate::kinds::custom;
use crate::value;

const MAX_SELECTABLE: usize = 8;
const NOT_SIMPLE: &str = "must be a simple json path starting with .";

pub(crate) static STRATEGY: Strategy = Strategy {
    generation: true,
    unconditional_update: false,
    qualified_finalizers: false,
    prepare_create: Some(prepare_create),
    prepare_update: Some(prepare_update),
    validate: Some(validate),
    mark_deleted: Some(mark_deleted),
    ..GENERIC
};

fn prepare_create(definition: &mut Value) {
    default(definition);
    let stored: Vec<&str> = custom::storage_version(definition).into_iter().collect();
    let status = json!({
        "conditions": [],
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": stored,
    });
    value::set(definition, "status", status);
}

/// Whoever changes the storage version leaves objects behind in the old one: remember both.
fn prepare_update(definition: &mut Value, _old: &Value) {
    default(definition);
    let Some(storage) = custom::storage_version(definition).map(str::to_owned) else {
        return;
    };
    let mut stored = value::list(definition, "status.storedVersions").to_vec();
    if !stored.iter().any(|version| *version == storage.as_str()) {
        stored.push(json!(storage));
        value::set_at(definition, "status.storedVersions", json!(stored));
    }
}

fn default(definition: &mut Value) {
    let kind = value::text(definition, "spec.names.kind").to_owned();
    let defaults = [
        ("spec.names.singular", json!(kind.to_lowercase())),
        ("spec.names.listKind", json!(format!("{kind}List"))),
        ("spec.conversion", json!({"strategy": "None"})),
    ];
    for (path, default) in defaults {
        let unset = matches!(value::at(definition, path), Value::Null)
            || value::at(definition, path) == &json!("");
        if unset && definition["spec"].is_object() {
            value::set_at(definition, path, default);
        }
    }
}

fn mark_deleted(definition: &mut Value) {
    let mut finalizers = value::list(definition, "metadata.finalizers").to_vec();
    if !finalizers
        .iter()
        .any(|one| one == finalizers::CUSTOM_RESOURCES)
    {
        finalizers.push(json!(finalizers::CUSTOM_RESOURCES));
    }
    value::set_at(definition, "metadata.finalizers", json!(finalizers));
}

fn validate(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    validate_group_and_scope(new, &mut errors);
    let shared = Shared::of(value::list(new, "spec.versions"));
    let accepted = |version: &Value| old.is_some_and(|old| is_unchanged(version, old));
    validate_versions(new, &shared, &accepted, &mut errors);
    validate_spec_names(
        value::at(new, "spec.names"),
        &Path::new("spec").child("names"),
        &mut errors,
    );
    if let Some(first) = value::list(new, "spec.versions").first() {
        let status = value::list(new, "spec.versions").iter().any(has_status);
        let part = |part: &Part| shared.has(*part);
        let spec = Path::new("spec");
        let known = Known {
            status,
            accepted: accepted(first),
        };
        validate_parts(first, &spec, &part, known, &mut errors);
    }
    validate_conversion(new, &mut errors);
    validate_approval(new, old, &mut errors);
    validate_computed(new, &mut errors);
    if let Some(old) = old {
        validate_change(new, old, &mut errors);
    }
    errors
}

/// A definition that is as it was in this stays as it is.
fn validate_approval(new: &Value, old: Option<&Value>, errors: &mut Vec<Error>) {
    let said = |definition: &Value| {
        let annotation = &definition["metadata"]["annotations"][approval::ANNOTATION];
        Approval::of(annotation.as_str())
    };
    let approval = said(new);
    let same = old.is_some_and(|old| said(old) == approval);
    let needed = approval::is_needed(value::text(new, "spec.group"));
    let Some(fault) = approval.fault().filter(|_| needed && !same) else {
        return;
    };
    let annotations = Path::new("metadata").child("annotations");
    let path = annotations.key(approval::ANNOTATION);
    errors.push(match approval {
        Approval::Missing => Error::required(path, fault),
        Approval::Senseless | Approval::Given | Approval::Waived => {
            let said = new["metadata"]["annotations"][approval::ANNOTATION].clone();
            Error::invalid(path, said, fault)
        }
    });
}

/// Computed fields are fields of every version: whoever writes through one that has not got them
/// would take them away.
fn validate_computed(definition: &Value, errors: &mut Vec<Error>) {
    let Some(annotation) = custom::computed_annotation(definition).as_str() else {
        return;
    };
    let annotations = Path::new("metadata").child("annotations");
    for path in computed::paths(annotation) {
        let versions = value::list(definition, "spec.versions").iter();
        let without = versions.filter(|version| !has_field(version, path));
        let without: Vec<&str> = without.map(|one| value::text(one, "name")).collect();
        let fault = match (computed::is_legal(path), without.as_slice()) {
            (true, []) => continue,
            (true, versions) => format!("names no field in the schema of {}", versions.join(", ")),
            (false, _) => "must be a path of fields below spec, such as spec.state".to_owned(),
        };
        errors.push(Error::invalid(
            annotations.key(computed::ANNOTATION),
            path,
            fault,
        ));
    }
}

/// Whether the schema of a version names this field.
fn has_field(version: &Value, path: &str) -> bool {
    let schema = value::at(version, "schema.openAPIV3Schema");
    let mut fields = path.split('.');
    fields
        .try_fold(schema, |node, field| node.get("properties")?.get(field))
        .is_some()
}

/// What versions may say differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Schema,
    Subresources,
    Columns,
    Selectable,
}

/// What all versions say alike. Kubernetes speaks of it as if the definition said it once, in the
/// place where the first version of its API had it.
struct Shared(Vec<Part>);

// === impl Shared ===

impl Shared {
    fn of(versions: &[Value]) -> Self {
        let parts = [
            (Part::Schema, "schema"),
            (Part::Subresources, "subresources"),
            (Part::Columns, "additionalPrinterColumns"),
            (Part::Selectable, "selectableFields"),
        ];
        let alike = |field: &str| {
            versions
                .iter()
                .all(|version| version[field] == versions[0][field])
        };
        let shared = parts.into_iter().filter(|(_, field)| alike(field));
        Self(shared.map(|(part, _)| part).collect())
    }

    fn has(&self, part: Part) -> bool {
        self.0.contains(&part)
    }
}

fn has_status(version: &Value) -> bool {
    !value::at(version, "subresources.status").is_null()
}

fn validate_group_and_scope(definition: &Value, errors: &mut Vec<Error>) {
    let spec = Path::new("spec");
    let (group, plural) = (
        value::text(definition, "spec.group"),
        value::text(definition, "spec.names.plural"),
    );
    let name = value::text(definition, "metadata.name");
    if name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(Error::invalid(
            Path::new("metadata").child("name"),
            name,
            detail,
        ));
    }
    let path = spec.child("group");
    match group {
        "" => errors.push(Error::required(path, "")),
        group if !names::dns_subdomain(group).is_empty() => {
            let faults = names::dns_subdomain(group).join(",");
            errors.push(Error::invalid(path, group, faults));
        }
        group if !group.contains('.') => {
            let detail = "should be a domain with at least one dot";
            errors.push(Error::invalid(path, group, detail));
        }
        _ => {}
    }
    match value::text(definition, "spec.scope") {
        "" => errors.push(Error::required(spec.child("scope"), "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let scopes = ["Cluster", "Namespaced"];
            errors.push(Error::not_supported(spec.child("scope"), other, &scopes));
        }
    }
    if value::at(definition, "spec.preserveUnknownFields") == &json!(true) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(Error::invalid(
            spec.child("preserveUnknownFields"),
            true,
            detail,
        ));
    }
}

fn validate_spec_names(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    for field in ["plural", "singular", "kind", "listKind"] {
        let text = value::text(spec, field);
        if text.is_empty() {
            errors.push(Error::required(path.child(field), ""));
            continue;
        }
        let lowered = match field {
            "kind" | "listKind" => text.to_lowercase(),
            _ => text.to_owned(),
        };
        let faults = names::dns_1035(&lowered);
        if !faults.is_empty() {
            errors.push(Error::invalid(path.child(field), text, faults.join(",")));
        }
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in value::texts(spec, field).enumerate() {
            let faults = names::dns_1035(name);
            if !faults.is_empty() {
                let path = path.child(field).index(index);
                errors.push(Error::invalid(path, name, faults.join(",")));
            }
        }
    }
    if !value::text(spec, "kind").is_empty() && spec["kind"] == spec["listKind"] {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(
            path.child("listKind"),
            spec["listKind"].clone(),
            detail,
        ));
    }
}

/// Whether a definition had this version with this schema before.
fn is_unchanged(version: &Value, old: &Value) -> bool {
    let before = value::list(old, "spec.versions")
        .iter()
        .find(|before| before["name"] == version["name"]);
    before.is_some_and(|before| before["schema"] == version["schema"])
}

fn validate_versions(
    definition: &Value,
    shared: &Shared,
    accepted: &dyn Fn(&Value) -> bool,
    errors: &mut Vec<Error>,
) {
    let path = Path::new("spec").child("versions");
    let versions = value::list(definition, "spec.versions");
    for (index, version) in versions.iter().enumerate() {
        if value::at(version, "schema.openAPIV3Schema").is_null() {
            let path = path.index(index).child("schema").child("openAPIV3Schema");
            errors.push(Error::required(path, ""));
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        let name = value::text(version, "name");
        if !names::dns_1035(name).is_empty() {
            let faults = names::dns_1035(name).join(",");
            errors.push(Error::invalid(path.child("name"), name, faults));
        }
        validate_deprecation(version, &path.child("deprecationWarning"), errors);
        let own = |part: &Part| !shared.has(*part);
        let known = Known {
            status: has_status(version),
            accepted: accepted(version),
        };
        validate_parts(version, &path, &own, known, errors);
    }
    let all = || Value::Array(versions.to_vec());
    let distinct: BTreeSet<&str> = versions
        .iter()
        .map(|one| value::text(one, "name"))
        .collect();
    if distinct.len() < versions.len() {
        let detail = "must contain unique version names";
        errors.push(Error::invalid(path.clone(), all(), detail));
    }
    let storage = versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count();
    if storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(Error::invalid(path, all(), detail));
    }
}

fn validate_deprecation(version: &Value, path: &Path, errors: &mut Vec<Error>) {
    const MAX: usize = 256;
    let Some(text) = version["deprecationWarning"].as_str() else {
        return;
    };
    let mut refuse = |why: String| errors.push(Error::invalid(path.clone(), text, why));
    if version["deprecated"] != true {
        return refuse("can only be set for deprecated versions".to_owned());
    }
    if text.len() > MAX {
        refuse(format!("must be <= {MAX} characters long"));
    }
    if text.is_empty() {
        refuse("must not be an empty string".to_owned());
    }
    if let Some(index) = text.find(char::is_control) {
        refuse(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

/// What the parts of a version do not say themselves.
#[derive(Clone, Copy)]
struct Known {
    /// Whether there is a status subresource.
    status: bool,
    /// Whether the schema was accepted before.
    accepted: bool,
}

/// Those parts of a version that stand at `path`: all versions' common ones, or its own.
fn validate_parts(
    version: &Value,
    path: &Path,
    here: &dyn Fn(&Part) -> bool,
    known: Known,
    errors: &mut Vec<Error>,
) {
    let document = value::at(version, "schema.openAPIV3Schema");
    let schema_path = match path.as_str() {
        "spec" => path.child("validation"),
        _ => path.child("schema"),
    };
    let options = crd::Options {
        status_subresource: known.status,
        accepted: known.accepted,
    };
    let schema_path = schema_path.child("openAPIV3Schema");
    let selects = here(&Part::Selectable) && !version["selectableFields"].is_null();
    let compiled = (!document.is_null() && (here(&Part::Schema) || selects))
        .then(|| crd::compile(document, &schema_path, options));
    match (here(&Part::Schema), &compiled) {
        (true, Some(Err(faults))) => errors.extend(faults.iter().cloned()),
        // What was accepted once is not held against the definition when something else changes.
        (true, Some(Ok(schema))) if !known.accepted => {
            errors.extend(rules::check(schema, &schema_path));
        }
        (true, Some(Ok(_))) => {}
        (true, None) | (false, _) => {}
    }
    if here(&Part::Subresources) {
        validate_scale(version, &path.child("subresources").child("scale"), errors);
    }
    if here(&Part::Columns) {
        validate_columns(version, &path.child("additionalPrinterColumns"), errors);
    }
    if let (true, Some(Ok(schema))) = (selects, &compiled) {
        validate_selectable(version, schema, &path.child("selectableFields"), errors);
    }
}

fn validate_columns(version: &Value, path: &Path, errors: &mut Vec<Error>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    for (index, column) in value::list(version, "additionalPrinterColumns")
        .iter()
        .enumerate()
    {
        let path = path.index(index);
        if value::text(column, "name").is_empty() {
            errors.push(Error::required(path.child("name"), ""));
        }
        match value::text(column, "type") {
            "" => errors.push(Error::required(
                path.child("type"),
                "must be one of boolean,date,integer,number,string",
            )),
            kind if !TYPES.contains(&kind) => {
                let detail = "must be one of boolean,date,integer,number,string";
                errors.push(Error::invalid(path.child("type"), kind, detail));
            }
            _ => {}
        }
        let format = value::text(column, "format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let detail = format!("must be one of {}", FORMATS.join(","));
            errors.push(Error::invalid(path.child("format"), format, detail));
        }
        let path = path.child("JSONPath");
        let text = value::text(column, "jsonPath");
        if text.is_empty() {
            errors.push(Error::required(path, ""));
        } else if !text.starts_with('.') {
            errors.push(Error::invalid(path, text, NOT_SIMPLE));
        } else if let Err(fault) = JsonPath::parse(text) {
            let detail = format!("is an invalid JSON path: {fault}");
            errors.push(Error::invalid(path, text, detail));
        }
    }
}

fn validate_scale(version: &Value, path: &Path, errors: &mut Vec<Error>) {
    let scale = value::at(version, "subresources.scale");
    if scale.is_null() {
        return;
    }
    let rows: [(&str, &[&str], &str, bool); 3] = [
        ("specReplicasPath", &[".spec."], ".spec", true),
        ("statusReplicasPath", &[".status."], ".status", true),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "either .spec or .status",
            false,
        ),
    ];
    for (field, prefixes, place, required) in rows {
        let path = path.child(field);
        let text = value::text(scale, field);
        if text.is_empty() {
            if required {
                errors.push(Error::required(path, ""));
            }
        } else if !text.starts_with('.') {
            errors.push(Error::invalid(path, text, NOT_SIMPLE));
        } else if !prefixes.iter().any(|prefix| text.starts_with(prefix)) {
            let detail = format!("should be a json path under {place}");
            errors.push(Error::invalid(path, text, detail));
        }
    }
}

fn validate_selectable(
    version: &Value,
    schema: &deltaplane_schema::Schema,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let fields = value::list(version, "selectableFields");
    if fields.len() > MAX_SELECTABLE {
        errors.push(Error::too_many(path.clone(), fields.len(), MAX_SELECTABLE));
    }
    let mut seen = BTreeSet::new();
    for (index, one) in fields.iter().enumerate() {
        let path = path.index(index).child("jsonPath");
        let text = value::text(one, "jsonPath");
        if text.is_empty() {
            errors.push(Error::required(path, ""));
            continue;
        }
        if !seen.insert(text) {
            errors.push(Error::duplicate(path.clone(), text));
        }
        let simple = JsonPath::parse(text).is_ok_and(|path| path.fields().is_some());
        let node = schema.root().at(text).map(deltaplane_schema::Node::kind);
        let fault = match (simple, node) {
            (false, _) => "is an invalid path: must be a simple path of fields",
            (true, None) => "is an invalid path: does not refer to a valid field",
            (true, Some(NodeKind::String | NodeKind::Integer | NodeKind::Boolean)) => {
                match text.starts_with(".metadata.") {
                    true => "must not point to fields in metadata",
                    false => continue,
                }
            }
            (true, Some(_)) => {
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
            }
        };
        errors.push(Error::invalid(path, text, fault));
    }
}

fn validate_conversion(definition: &Value, errors: &mut Vec<Error>) {
    let path = Path::new("spec").child("conversion");
    let webhook = value::at(definition, "spec.conversion.webhook");
    let strategy = value::text(definition, "spec.conversion.strategy");
    if strategy == "None" {
        let detail = "should not be set when strategy is not set to Webhook";
        let mut forbid = |field: &str| errors.push(Error::forbidden(path.child(field), detail));
        if !webhook["clientConfig"].is_null() {
            forbid("webhookClientConfig");
        }
        if !value::list(webhook, "conversionReviewVersions").is_empty() {
            forbid("conversionReviewVersions");
        }
    }
    let path = path.child("strategy");
    match strategy {
        "None" | "" => {}
        "Webhook" => errors.push(Error::invalid(
            path,
            "Webhook",
            "conversion webhooks are not supported by this server: use None",
        )),
        other => errors.push(Error::not_supported(path, other, &["None"])),
    }
}

fn validate_change(new: &Value, old: &Value, errors: &mut Vec<Error>) {
    if custom::has_rows(old) {
        for path in [
            "spec.group",
            "spec.scope",
            "spec.names.plural",
            "spec.names.kind",
        ] {
            immutable(path, new, old, errors);
        }
    }
    let path = Path::new("status").child("storedVersions");
    let versions: Vec<&str> = value::list(new, "spec.versions")
        .iter()
        .map(|one| value::text(one, "name"))
        .collect();
    for (index, stored) in value::texts(new, "status.storedVersions").enumerate() {
        if !versions.contains(&stored) {
            let detail = "must appear in spec.versions";
            errors.push(Error::invalid(path.index(index), stored, detail));
        }
    }
}

#[cfg(test)]
mod tests;
