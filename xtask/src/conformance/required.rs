//! Required fields of built-in kinds: does the published schema refuse what a real server refuses?
//!
//! Built-in kinds are validated by hand-written code in Kubernetes and by their published schema
//! here. For every sample and every field that the schema requires, the sample without that field
//! is sent to a real server (dry run); it must be refused exactly when something required is still
//! missing after our defaults.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use deltaplane_apiserver::typepack;
use serde_json::Value;

use super::samples::{self, Sample};
use super::{Report, defaults};

const REFERENCE: &str = "#/components/schemas/";

/// A struct is never missing in Go, and so becomes `{}`; what must be in it no schema says.
const CONTENT: &str = "an empty object there is refused by a rule about its content";
const NAME: &str = "an object without a name is refused before its fields are looked at";

/// Refused by the real server for what a schema cannot say.
const KNOWN: [(&str, &str); 10] = [
    (
        "v1 Pod/full without /spec/volumes/9/ephemeral/volumeClaimTemplate/spec",
        CONTENT,
    ),
    ("v1 Event/core without /metadata", NAME),
    ("v1 Event/core without /involvedObject", CONTENT),
    ("v1 Event/series without /metadata", NAME),
    ("v1 Event/series without /involvedObject", CONTENT),
    (
        "apps/v1 Deployment/full without /spec/template/spec/volumes/9/ephemeral/volumeClaimTemplate/spec",
        CONTENT,
    ),
    (
        "networking.k8s.io/v1 Ingress/full without /spec/rules/0/http/paths/0/backend",
        CONTENT,
    ),
    (
        "storage.k8s.io/v1 VolumeAttachment/minimal without /spec/source",
        CONTENT,
    ),
    (
        "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration/minimal without /webhooks/0/clientConfig",
        CONTENT,
    ),
    (
        "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration/minimal without /webhooks/0/clientConfig",
        CONTENT,
    ),
];

/// The published schemas.
struct Schemas(BTreeMap<&'static str, Value>);

pub(crate) fn run() -> Result<Report> {
    let mut report = Report::new("required", &KNOWN);
    let schemas = Schemas::read()?;
    let cluster = samples::server()?;
    for sample in samples::all()? {
        let object = defaults::without_status(&sample);
        let mut paths = Vec::new();
        schemas.required(sample.kind.definition, &object, "", &mut paths);
        for path in paths.iter().filter(|path| object.pointer(path).is_some()) {
            let mut object = object.clone();
            remove(&mut object, path);
            let reply = cluster.post(&format!("{}?dryRun=All", sample.path()), &object)?;
            let missing = schemas.missing(&sample, object);
            let outcome = match (reply.status >= 300, missing) {
                (true, Some(_)) | (false, None) => Ok(()),
                (true, None) => Err(format!("nothing is missing, but {}", reply.message())),
                (false, Some(missing)) => Err(format!("{missing} is missing, but it was accepted")),
            };
            report.case(&format!("{} without {path}", sample.name), outcome);
        }
    }
    Ok(report)
}

fn remove(object: &mut Value, path: &str) {
    if let Some((parent, name)) = path.rsplit_once('/')
        && let Some(Value::Object(parent)) = object.pointer_mut(parent)
    {
        parent.remove(name);
    }
}

// === impl Schemas ===

impl Schemas {
    fn read() -> Result<Self> {
        let parsed = typepack::load()
            .definitions()
            .map(|(name, text)| Ok((name, serde_json::from_str(text)?)));
        Ok(Self(
            parsed
                .collect::<Result<_>>()
                .context("parsing the pack's definitions")?,
        ))
    }

    /// The first required field that is missing after our defaults.
    fn missing(&self, sample: &Sample, mut object: Value) -> Option<String> {
        typepack::defaults::apply(typepack::load(), sample.kind, &mut object);
        let mut paths = Vec::new();
        self.required(sample.kind.definition, &object, "", &mut paths);
        paths
            .into_iter()
            .find(|path| object.pointer(path).is_none())
    }

    /// The paths of everything that the schema requires of this object, there or not.
    fn required(&self, definition: &str, object: &Value, at: &str, paths: &mut Vec<String>) {
        let (Some(schema), Value::Object(fields)) = (self.0.get(definition), object) else {
            return;
        };
        let required = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        paths.extend(
            required
                .filter_map(Value::as_str)
                .map(|name| format!("{at}/{}", escaped(name))),
        );
        for (name, value) in fields {
            if let Some(property) = schema
                .get("properties")
                .and_then(|properties| properties.get(name))
            {
                self.inside(property, value, &format!("{at}/{}", escaped(name)), paths);
            }
        }
    }

    fn inside(&self, property: &Value, value: &Value, at: &str, paths: &mut Vec<String>) {
        let target = |schema: &Value| {
            let direct = schema
                .get("$ref")
                .or_else(|| schema.pointer("/allOf/0/$ref"));
            direct
                .and_then(Value::as_str)
                .and_then(|target| target.strip_prefix(REFERENCE))
                .map(str::to_owned)
        };
        if let Some(definition) = target(property) {
            return self.required(&definition, value, at, paths);
        }
        match value {
            Value::Array(list) => {
                if let Some(definition) = property.get("items").and_then(target) {
                    for (index, item) in list.iter().enumerate() {
                        self.required(&definition, item, &format!("{at}/{index}"), paths);
                    }
                }
            }
            Value::Object(map) => {
                if let Some(definition) = property.get("additionalProperties").and_then(target) {
                    for (key, item) in map {
                        self.required(&definition, item, &format!("{at}/{}", escaped(key)), paths);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// A name as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
