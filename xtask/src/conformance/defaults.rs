//! Defaults of built-in kinds: ours against a real server's.
//!
//! Each sample is created on a real server, and what it answers is compared with what our code
//! makes of the same input. Left out of the comparison is what the server assigns (uid, times,
//! managed fields) and what its registry or admission adds on purpose: [`NOT_DEFAULTS`].

use anyhow::Result;
use deltaplane_apiserver::typepack;
use serde_json::Value;

use super::Report;
use super::protobuf::difference;
use super::samples::{self, Sample};

/// (kind, pointer, why): not a default of the type, but something that the server decides.
/// A `*` stands for every item of a list.
const NOT_DEFAULTS: &[(&str, &str, &str)] = &[
    ("*", "/metadata/uid", "assigned"),
    ("*", "/metadata/resourceVersion", "assigned"),
    ("*", "/metadata/generation", "assigned"),
    ("*", "/metadata/creationTimestamp", "assigned"),
    ("*", "/metadata/managedFields", "assigned"),
    ("CertificateSigningRequest", "/spec/username", "who asked"),
    ("CertificateSigningRequest", "/spec/groups", "who asked"),
    ("CertificateSigningRequest", "/spec/uid", "who asked"),
    ("CertificateSigningRequest", "/spec/extra", "who asked"),
    (
        "DaemonSet",
        "/metadata/annotations",
        "a counter kept for a removed API version",
    ),
    ("Job", "/metadata/labels", "made from the job's uid"),
    ("Job", "/spec/selector", "made from the job's uid"),
    (
        "Job",
        "/spec/template/metadata/labels",
        "made from the job's uid",
    ),
    ("Namespace", "/spec/finalizers", "the registry's"),
    ("Node", "/spec/taints", "admission"),
    ("PersistentVolume", "/metadata/finalizers", "admission"),
    (
        "PersistentVolume",
        "/status/lastPhaseTransitionTime",
        "the registry's",
    ),
    ("PersistentVolumeClaim", "/metadata/finalizers", "admission"),
    ("Pod", "/spec/preemptionPolicy", "admission"),
    ("Pod", "/spec/priority", "admission"),
    ("Pod", "/spec/tolerations", "admission"),
    ("Pod", "/status", "the registry's"),
    ("Service", "/spec/clusterIP", "allocated"),
    ("Service", "/spec/clusterIPs", "allocated"),
    ("Service", "/spec/ipFamilies", "allocated"),
    ("Service", "/spec/ipFamilyPolicy", "allocated"),
    ("Service", "/spec/ports/*/nodePort", "allocated"),
    ("VolumeAttributesClass", "/metadata/finalizers", "admission"),
];

const KNOWN: [(&str, &str); 0] = [];

pub(crate) fn run() -> Result<Report> {
    let mut report = Report::new("defaults", &KNOWN);
    let cluster = samples::server()?;
    for sample in samples::all()? {
        let reply = sample.create(&cluster)?;
        if reply.status >= 300 {
            report.case(
                &sample.name,
                Err(format!("the real server refuses it: {}", reply.message())),
            );
            continue;
        }
        let mut ours = without_status(&sample);
        typepack::defaults::apply(typepack::load(), sample.kind, &mut ours);
        let (expected, ours) = (
            comparable(sample.kind.kind, reply.body),
            comparable(sample.kind.kind, ours),
        );
        report.case(
            &sample.name,
            difference(&expected, &ours, "").map_or(Ok(()), Err),
        );
    }
    Ok(report)
}

/// What the registry starts from: it drops a status on creation, except that nodes register with one.
pub(super) fn without_status(sample: &Sample) -> Value {
    let mut object = sample.object.clone();
    let has_status = sample
        .kind
        .subresources
        .iter()
        .any(|one| one.name == "status");
    if let Value::Object(object) = &mut object
        && has_status
        && sample.kind.kind != "Node"
    {
        object.remove("status");
    }
    object
}

/// The object without what is not a default. Nulls and empty lists do not count: the real server
/// prints a null for either where the type has no `omitempty`.
fn comparable(kind: &str, mut object: Value) -> Value {
    for (of, pointer, _) in NOT_DEFAULTS {
        if *of == "*" || *of == kind {
            remove(&mut object, pointer.trim_start_matches('/'));
        }
    }
    drop_nothings(&mut object);
    object
}

fn remove(value: &mut Value, path: &str) {
    match (value, path.split_once('/')) {
        (Value::Array(list), Some(("*", rest))) => {
            list.iter_mut().for_each(|item| remove(item, rest))
        }
        (Value::Object(object), Some((name, rest))) => {
            if let Some(child) = object.get_mut(name) {
                remove(child, rest);
            }
        }
        (Value::Object(object), None) => {
            object.remove(path);
        }
        _ => {}
    }
}

fn drop_nothings(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| {
                !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
            });
            object.values_mut().for_each(drop_nothings);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nothings),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
