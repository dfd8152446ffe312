//! The built-in kinds: rows of the type pack, and which of them are served.

use std::sync::{Arc, LazyLock};

use deltaplane_schema::{Definitions, Schema};
use serde_json::Value;

use super::{Kind, Scale, ScaleSelector, Source};
use crate::{strategy, typepack};

/// Kinds of the pack that are not served, because serving them would promise what nothing here
/// keeps: quota and limits, admission, flow control, certificate signing; and what is an older
/// shape of a kind that is served.
const WITHHELD: [(&str, &str, &str); 7] = [
    ("", "", "resourcequotas"),
    ("", "", "limitranges"),
    ("", "", "componentstatuses"),
    ("admissionregistration.k8s.io", "", ""),
    ("certificates.k8s.io", "", ""),
    ("flowcontrol.apiserver.k8s.io", "", ""),
    ("autoscaling", "v1", ""),
];

/// Fields that the published schemas leave to the reader's judgement and the real server asks for.
const REQUIRED: [(&str, &str); 9] = [
    ("io.k8s.api.core.v1.ConfigMapProjection", "name"),
    ("io.k8s.api.core.v1.ConfigMapVolumeSource", "name"),
    ("io.k8s.api.core.v1.Container", "image"),
    ("io.k8s.api.core.v1.EphemeralContainer", "image"),
    (
        "io.k8s.api.core.v1.EphemeralVolumeSource",
        "volumeClaimTemplate",
    ),
    ("io.k8s.api.core.v1.PersistentVolumeSpec", "accessModes"),
    ("io.k8s.api.core.v1.PersistentVolumeSpec", "capacity"),
    ("io.k8s.api.core.v1.SecretVolumeSource", "secretName"),
    ("io.k8s.api.networking.v1.IngressClassSpec", "controller"),
];

/// What is checked elsewhere, in words of its own.
const CHECKED_ELSEWHERE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference";

/// Definitions whose enumerations the real server does not insist on: what it drops because a
/// feature is not enabled, and what it checks in other words elsewhere. Nor does it in statuses.
const UNCHECKED: [&str; 3] = [
    "io.k8s.api.core.v1.Lifecycle",
    "io.k8s.api.resource.v1.DeviceAllocationConfiguration",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ValidationRule",
];

/// The schemas of all definitions of the pack, sharing one arena.
pub(crate) fn definitions() -> &'static Definitions {
    static DEFINITIONS: LazyLock<Definitions> = LazyLock::new(|| {
        let parsed: Vec<(&str, Value)> = typepack::load()
            .definitions()
            .map(|(name, text)| {
                let schema = serde_json::from_str(text);
                let schema = schema.expect("the type pack is made by our own tool");
                (name, as_checked(name, schema))
            })
            .collect();
        Definitions::from_openapi(parsed.iter().map(|(name, value)| (*name, value)))
            .expect("the type pack's definitions are complete")
    });
    &DEFINITIONS
}

/// A definition as objects are checked by it.
fn as_checked(name: &str, mut schema: Value) -> Value {
    for (_, field) in REQUIRED.iter().filter(|(of, _)| *of == name) {
        let mut required = crate::value::list(&schema, "required").to_vec();
        required.push(Value::from(*field));
        schema["required"] = Value::Array(required);
    }
    if name == CHECKED_ELSEWHERE {
        crate::value::take(&mut schema, "required");
    }
    if name.ends_with("Status") || UNCHECKED.contains(&name) {
        without_enumerations(&mut schema);
    }
    schema
}

/// References are left alone: what they lead to is a definition of its own.
fn without_enumerations(schema: &mut Value) {
    crate::value::take(schema, "enum");
    for field in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(field) {
            without_enumerations(inner);
        }
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(|all| all.values_mut()) {
        without_enumerations(property);
    }
}

/// The schema of one definition of the pack.
pub(crate) fn schema(definition: &str) -> Schema {
    definitions()
        .get(definition)
        .unwrap_or_else(Schema::deduced)
}

/// Whether objects of this row are kept and served.
pub(crate) fn is_served(row: &typepack::Kind) -> bool {
    let stored = row.stored.is_some() && row.verbs.contains(&"list");
    let withheld = WITHHELD.iter().any(|(group, version, plural)| {
        *group == row.group
            && (version.is_empty() || *version == row.version)
            && (plural.is_empty() || *plural == row.plural)
    });
    stored && !withheld
}

/// All built-in kinds that are served.
pub(crate) fn kinds() -> Vec<Arc<Kind>> {
    let rows = typepack::load().kinds().iter().filter(|row| is_served(row));
    rows.filter_map(|row| Some(Arc::new(kind(row, row.stored?))))
        .collect()
}

fn kind(row: &'static typepack::Kind, stored: typepack::Gvk) -> Kind {
    let api_version = api_version(row.group, row.version);
    let has = |name: &str| row.subresources.iter().any(|one| one.name == name);
    Kind {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        plural: row.plural.to_owned(),
        singular: row.singular.to_owned(),
        short_names: owned(&row.short_names),
        categories: owned(&row.categories),
        namespaced: row.namespaced,
        api_version: api_version.clone(),
        collection: collection(stored.group, row.plural),
        stored_as: self::api_version(stored.group, stored.version),
        tag: crate::fingerprint(&[&api_version]),
        schema: schema(row.definition),
        rules: None,
        status: has("status"),
        scale: has("scale").then(|| scale(row)),
        computed: Vec::new(),
        selectable: owned(selectable(row)),
        storage_hash: row.storage_hash.to_owned(),
        deprecation: deprecation(row).map(str::to_owned),
        strategy: strategy::of(row.group, row.plural),
        source: Source::BuiltIn(row),
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

/// `v1`, `apps/v1`.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

/// The store's name of a kind's objects.
pub(crate) fn collection(group: &str, plural: &str) -> String {
    match group {
        "" => plural.to_owned(),
        group => format!("{group}/{plural}"),
    }
}

fn scale(row: &typepack::Kind) -> Scale {
    let selector = "spec.selector".to_owned();
    Scale {
        spec_replicas: "spec.replicas".to_owned(),
        status_replicas: "status.replicas".to_owned(),
        selector: Some(match row.plural {
            "replicationcontrollers" => ScaleSelector::Labels(selector),
            _ => ScaleSelector::Object(selector),
        }),
    }
}

/// What the real server says of versions that are not to be used any more.
fn deprecation(row: &typepack::Kind) -> Option<&'static str> {
    match (row.group, row.plural) {
        ("", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        _ => None,
    }
}

/// What selectors may name, as the real server has it.
fn selectable(row: &typepack::Kind) -> &'static [&'static str] {
    match (row.group, row.plural) {
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "secrets") => &["type"],
        ("", "namespaces") => &["status.phase", "name"],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") | ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_api::field::Error;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_checked_where_the_real_server_checks_them() {
        let check = |object: Value, expected: &[&str]| {
            let errors = schema("io.k8s.api.core.v1.Pod").validate(&object, None);
            let texts: Vec<String> = errors.iter().map(Error::to_string).collect();
            assert_eq!(texts, expected, "{object}");
        };
        let pod = |field: &str, text: &str| {
            let mut pod = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
            pod["spec"][field] = json!(text);
            pod
        };
        check(pod("restartPolicy", "Never"), &[]);
        check(
            pod("restartPolicy", "Sometimes"),
            &[
                "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"Never\", \"OnFailure\"",
            ],
        );
        let mut odd = pod("restartPolicy", "Never");
        odd["status"] = json!({"phase": "Dreaming"});
        check(odd, &[]);
        let bare = json!({"spec": {"containers": [{"name": "c"}]}});
        check(bare, &["spec.containers[0].image: Required value"]);
    }

    #[test]
    fn what_is_adjusted_is_there() {
        let names: Vec<&str> = definitions().names().collect();
        for name in REQUIRED.iter().map(|(name, _)| *name).chain(UNCHECKED) {
            assert!(names.contains(&name), "{name}");
        }
    }
}
