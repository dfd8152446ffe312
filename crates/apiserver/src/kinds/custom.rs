//! Custom kinds: from a CustomResourceDefinition to the rows that are served. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_api::computed;
use deltaplane_api::conditions;
use deltaplane_api::field::Path;
use deltaplane_api::kind::compare_versions;
use deltaplane_expr::rules::Rules;
use deltaplane_runtime::Trigger;
use deltaplane_schema::{Schema, crd};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Kind, Scale, ScaleSelector, Source};
use crate::jsonpath::JsonPath;
use crate::kinds::builtin;
use crate::{meta, strategy, value};

/// What all versions of a custom kind have in common.
pub(crate) struct Definition {
    /// The definition's name, `<plural>.<group>`.
    pub(crate) name: String,
    /// What this was made of.
    pub(crate) inputs: Inputs,
    /// By version, served or not: managed fields may speak of any.
    pub(crate) schemas: BTreeMap<String, Schema>,
    /// By version.
    pub(crate) columns: BTreeMap<String, Vec<Column>>,
    /// Pulled when the definition changes or goes.
    pub(crate) retired: Trigger,
    /// By version: the schema as written, for OpenAPI.
    pub(crate) documents: BTreeMap<String, Value>,
}

/// All that the rows of a definition depend on, as a digest. Definitions with equal inputs have
/// equal rows, whatever their labels and conditions say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inputs([u8; 32]);

/// A printer column of a custom kind.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    pub(crate) path: JsonPath,
}

/// Whether objects of this kind can be written and read.
pub(crate) fn has_rows(definition: &Value) -> bool {
    let conditions = value::list(definition, "status.conditions").iter();
    let pairs = conditions.map(|one| (value::text(one, "type"), value::text(one, "status")));
    conditions::are_of_a_served_definition(pairs)
}

/// The rows of a definition of which these are the inputs.
pub(crate) fn kinds(definition: &Value, inputs: Inputs) -> Vec<Arc<Kind>> {
    let versions = value::list(definition, "spec.versions");
    let shared = Arc::new(Definition {
        name: value::text(definition, "metadata.name").to_owned(),
        inputs,
        retired: Trigger::new().0,
        schemas: by_version(versions, schema),
        columns: by_version(versions, columns),
        documents: by_version(versions, |version| {
            value::at(version, "schema.openAPIV3Schema").clone()
        }),
    });
    let last_resort = last_resort(definition);
    let served = versions
        .iter()
        .filter(|version| is_served(version) || (last_resort && version["storage"] == true));
    served
        .filter_map(|version| kind(definition, version, &shared).map(Arc::new))
        .collect()
}

fn is_served(version: &Value) -> bool {
    version["served"] == true
}

/// Whether to serve what is not to be served: the objects of a definition that is going must be
/// reachable until they are gone.
fn last_resort(definition: &Value) -> bool {
    meta::is_going(definition)
        && !value::list(definition, "spec.versions")
            .iter()
            .any(is_served)
}

fn by_version<T>(versions: &[Value], make: impl Fn(&Value) -> T) -> BTreeMap<String, T> {
    versions
        .iter()
        .map(|one| (value::text(one, "name").to_owned(), make(one)))
        .collect()
}

fn schema(version: &Value) -> Schema {
    let options = crd::Options {
        status_subresource: has_status(version),
        accepted: true,
    };
    let text = value::at(version, "schema.openAPIV3Schema");
    // A definition whose schema does not compile is refused when it is written. One that was
    // accepted by an older release and no longer compiles is served without a schema.
    crd::compile(text, &Path::root(), options).unwrap_or_else(|_| Schema::deduced())
}

fn has_status(version: &Value) -> bool {
    !value::at(version, "subresources.status").is_null()
}

fn kind(definition: &Value, version: &Value, shared: &Arc<Definition>) -> Option<Kind> {
    let names = accepted_names(definition);
    let name = value::text(version, "name");
    let group = value::text(definition, "spec.group");
    let storage = storage_version(definition)?;
    let api_version = format!("{group}/{name}");
    let kind = value::text(names, "kind");
    let plural = value::text(names, "plural");
    let uid = value::text(definition, "metadata.uid");
    let document = shared.documents.get(name)?.to_string();
    let schema = shared.schemas.get(name)?;
    Some(Kind {
        group: group.to_owned(),
        version: name.to_owned(),
        kind: kind.to_owned(),
        list_kind: value::text(names, "listKind").to_owned(),
        plural: plural.to_owned(),
        singular: value::text(names, "singular").to_owned(),
        short_names: value::texts(names, "shortNames")
            .map(str::to_owned)
            .collect(),
        categories: value::texts(names, "categories")
            .map(str::to_owned)
            .collect(),
        namespaced: value::text(definition, "spec.scope") == "Namespaced",
        stored_as: format!("{group}/{storage}"),
        collection: builtin::collection(group, plural),
        tag: crate::fingerprint(&[uid, &api_version, &document]),
        schema: schema.clone(),
        rules: Rules::of_resource(schema),
        status: has_status(version),
        scale: scale(version),
        computed: computed_fields(definition),
        selectable: selectable(version),
        storage_hash: crate::discovery::storage_version_hash(group, storage, kind),
        deprecation: deprecation(definition, version),
        strategy: &strategy::CUSTOM,
        source: Source::Custom(Arc::clone(shared)),
        api_version,
    })
}

/// What clients of a deprecated version are told: the definition's own words, or which version to
/// use instead, if there is a better one.
fn deprecation(definition: &Value, version: &Value) -> Option<String> {
    let is_deprecated = |version: &Value| version["deprecated"] == true;
    if !is_deprecated(version) {
        return None;
    }
    if let Some(words) = version["deprecationWarning"].as_str() {
        return Some(words.to_owned());
    }
    let group = value::text(definition, "spec.group");
    let kind = value::text(definition, "spec.names.kind");
    let name = value::text(version, "name");
    let candidates = value::list(definition, "spec.versions").iter();
    let better = candidates
        .filter(|one| one["served"] == true && !is_deprecated(one))
        .map(|one| value::text(one, "name"))
        .filter(|one| compare_versions(one, name).is_lt())
        .min_by(|left, right| compare_versions(left, right));
    let warning = format!("{group}/{name} {kind} is deprecated");
    Some(match better {
        Some(better) => format!("{warning}; use {group}/{better} {kind}"),
        None => warning,
    })
}

/// The names that were accepted, or those that were asked for.
fn accepted_names(definition: &Value) -> &Value {
    match value::text(definition, "status.acceptedNames.plural") {
        "" => value::at(definition, "spec.names"),
        _ => value::at(definition, "status.acceptedNames"),
    }
}

/// The version that objects are stored in.
pub(crate) fn storage_version(definition: &Value) -> Option<&str> {
    let versions = value::list(definition, "spec.versions").iter();
    versions
        .filter(|version| version["storage"] == true)
        .find_map(|one| one["name"].as_str())
}

fn scale(version: &Value) -> Option<Scale> {
    let scale = value::at(version, "subresources.scale");
    let path = |field: &str| value::text(scale, field).trim_start_matches('.').to_owned();
    scale.is_object().then(|| Scale {
        spec_replicas: path("specReplicasPath"),
        status_replicas: path("statusReplicasPath"),
        selector: Some(path("labelSelectorPath"))
            .filter(|path| !path.is_empty())
            .map(ScaleSelector::Text),
    })
}

/// What the definition of a kind says of its computed fields.
pub(crate) fn computed_annotation(definition: &Value) -> &Value {
    &definition["metadata"]["annotations"][computed::ANNOTATION]
}

/// Illegal ones are refused when they are written, unless the definition is going already.
fn computed_fields(definition: &Value) -> Vec<String> {
    let paths = computed_annotation(definition)
        .as_str()
        .map(computed::paths);
    let legal = paths
        .into_iter()
        .flatten()
        .filter(|path| computed::is_legal(path));
    legal.map(str::to_owned).collect()
}

fn selectable(version: &Value) -> Vec<String> {
    let fields = value::list(version, "selectableFields").iter();
    fields
        .map(|one| {
            value::text(one, "jsonPath")
                .trim_start_matches('.')
                .to_owned()
        })
        .collect()
}

fn columns(version: &Value) -> Vec<Column> {
    let columns = value::list(version, "additionalPrinterColumns").iter();
    columns.filter_map(column).collect()
}

fn column(column: &Value) -> Option<Column> {
    let text = |field: &str| value::text(column, field).to_owned();
    Some(Column {
        name: text("name"),
        kind: text("type"),
        format: text("format"),
        description: text("description"),
        priority: column["priority"].as_i64().unwrap_or(0),
        path: JsonPath::parse(value::text(column, "jsonPath")).ok()?,
    })
}

// === impl Inputs ===

impl Inputs {
    /// None while the definition has no rows.
    pub(crate) fn of(definition: &Value) -> Option<Self> {
        has_rows(definition).then(|| {
            let texts = [
                &definition["metadata"]["uid"],
                &definition["spec"],
                computed_annotation(definition),
                accepted_names(definition),
                &Value::Bool(last_resort(definition)),
            ];
            let mut hash = Sha256::new();
            for text in texts.map(Value::to_string) {
                hash.update(text.len().to_le_bytes());
                hash.update(text);
            }
            Self(hash.finalize().into())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(versions: Value) -> Value {
        json!({
            "metadata": {"name": "gears.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Cluster",
                "names": {"plural": "gears", "kind": "Gear", "listKind": "GearList"},
                "versions": versions,
            },
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        })
    }

    fn rows(definition: &Value) -> Vec<Arc<Kind>> {
        kinds(definition, Inputs::of(definition).expect("established"))
    }

    #[test]
    fn rows_depend_on_little_of_a_definition() {
        let versions = json!([{"name": "v1", "served": true, "storage": true}]);
        let base = definition(versions);
        let check = |path: &str, new: Value, same: bool| {
            let mut other = base.clone();
            *other.pointer_mut(path).expect("a path") = new;
            let inputs = Inputs::of(&other);
            assert!(inputs.is_some(), "{path}");
            assert_eq!(inputs == Inputs::of(&base), same, "{path}");
        };
        let conditions = json!([
            {"type": "NamesAccepted", "status": "True"},
            {"type": "Established", "status": "True", "reason": "Again"},
        ]);
        check("/status/conditions", conditions, true);
        let metadata = json!({"name": "gears.example.com", "labels": {"a": "b"},
            "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        check("/metadata", metadata, true);
        check("/metadata", json!({"uid": "other"}), false);
        let annotations = json!({computed::ANNOTATION: "spec.state"});
        check("/metadata", json!({"annotations": annotations}), false);
        check("/spec/names/kind", json!("Wheel"), false);
        check("/spec/versions/0/name", json!("v2"), false);
        let mut other = base.clone();
        other["status"]["conditions"] = json!([]);
        assert_eq!(Inputs::of(&other), None);
    }

    #[test]
    fn deprecated_versions_say_what_to_use() {
        let versions = json!([
            {"name": "v1alpha1", "served": true, "deprecated": true, "deprecationWarning": "no more"},
            {"name": "v1beta1", "served": true, "deprecated": true},
            {"name": "v1beta2", "served": true},
            {"name": "v1", "served": true, "storage": true},
            {"name": "v2", "served": false},
            {"name": "v3", "served": true, "deprecated": true},
        ]);
        let kinds = rows(&definition(versions));
        let warnings: Vec<Option<&str>> = kinds
            .iter()
            .map(|kind| kind.deprecation.as_deref())
            .collect();
        assert_eq!(
            warnings,
            [
                Some("no more"),
                Some("example.com/v1beta1 Gear is deprecated; use example.com/v1 Gear"),
                None,
                None,
                Some("example.com/v3 Gear is deprecated"),
            ]
        );
    }

    #[test]
    fn what_is_going_is_served_to_the_end() {
        let versions = json!([
            {"name": "v1", "served": false, "storage": false},
            {"name": "v2", "served": false, "storage": true},
        ]);
        let mut definition = definition(versions);
        assert!(rows(&definition).is_empty());
        definition["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let names: Vec<String> = rows(&definition)
            .iter()
            .map(|kind| kind.api_version.clone())
            .collect();
        assert_eq!(names, ["example.com/v2"]);
    }
}
