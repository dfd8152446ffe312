//! Kubernetes' own samples: every kind of every group in JSON and protobuf, all fields set.
//!
//! For every kind in the pack the `.pb` must decode to the `.json`, and the `.json` must encode to
//! the very bytes of the `.pb`. The sample of a CRD sets each field once; one with a realistic
//! schema is read from a real server in both encodings.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use deltaplane_api::kind::ApiVersion;
use deltaplane_apiserver::{protobuf, typepack};
use serde_json::Value;

use super::Report;
use crate::cluster::Cluster;
use crate::golang::{self, STAGING};
use crate::proxy::{JSON, PROTOBUF};

const KNOWN: [(&str, &str); 0] = [];

pub(crate) fn run(short: bool) -> Result<Report> {
    let mut report = Report::new("protobuf", &KNOWN);
    let mut samples: Vec<PathBuf> = Vec::new();
    for (module, path) in [
        ("api", "testdata/HEAD"),
        ("apiextensions-apiserver", "pkg/apis/testdata/HEAD"),
    ] {
        let dir = golang::download(&format!("k8s.io/{module}@v{STAGING}"))?.join(path);
        for entry in fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
            samples.push(entry?.path());
        }
    }
    samples.retain(|path| path.extension().is_some_and(|extension| extension == "pb"));
    samples.sort();
    for path in samples {
        sample(&mut report, &path)?;
    }
    match short {
        true => report.skip("a real server is left out"),
        false => definition(&mut report)?,
    }
    Ok(report)
}

fn sample(report: &mut Report, path: &Path) -> Result<()> {
    let name = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let bytes = fs::read(path).with_context(|| format!("reading {name}"))?;
    let text = fs::read(path.with_extension("json")).with_context(|| format!("reading {name}"))?;
    let json: Value = serde_json::from_slice(&text).with_context(|| format!("parsing {name}"))?;
    match is_in_pack(&json) {
        true => both_ways(report, &name, &bytes, &json),
        false => report.skip("the kind's group or version is not served"),
    }
    Ok(())
}

/// A kind of a served group, or one of metav1's.
fn is_in_pack(object: &Value) -> bool {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let Ok(version) = text("apiVersion").parse::<ApiVersion>() else {
        return false;
    };
    let pack = typepack::load();
    let group = pack
        .groups()
        .iter()
        .find(|group| group.name == version.group);
    let served = group.is_some_and(|group| group.versions.contains(&version.version.as_str()));
    served && pack.tables().knows(&version, text("kind"))
}

fn both_ways(report: &mut Report, name: &str, bytes: &[u8], json: &Value) {
    let tables = typepack::load().tables();
    let decoded = protobuf::decode(tables, bytes, None).map_err(|error| error.to_string());
    let same = decoded.and_then(|decoded| match difference(json, &decoded.value, "") {
        None => Ok(()),
        Some(where_) => Err(where_),
    });
    report.case(&format!("{name} decoded"), same);
    let encoded = protobuf::encode(tables, json).map_err(|error| error.to_string());
    let same = encoded.and_then(|encoded| match encoded == bytes {
        true => Ok(()),
        false => Err(format!(
            "{} bytes that differ from the {} published",
            encoded.len(),
            bytes.len()
        )),
    });
    report.case(&format!("{name} encoded"), same);
}

/// A CRD with every part of a schema, through a real server.
fn definition(report: &mut Report) -> Result<()> {
    let cluster = Cluster::start()?;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let crd: Value =
        serde_json::from_str(include_str!("protobuf/crd.json")).context("parsing our CRD")?;
    cluster.post(path, &crd)?.ok().context("creating our CRD")?;
    let item = format!(
        "{path}/{}",
        crd["metadata"]["name"].as_str().unwrap_or_default()
    );
    // The conditions are written asynchronously: take two answers of the same revision.
    loop {
        let json = cluster.get(&item, JSON)?.ok()?;
        let (_, bytes) = cluster.get_bytes(&item, PROTOBUF)?;
        let decoded = protobuf::decode(typepack::load().tables(), &bytes, None)?;
        let version = |value: &Value| value.pointer("/metadata/resourceVersion").cloned();
        let conditions = json.pointer("/status/conditions");
        // Before there are some, JSON shows a null that protobuf cannot say.
        if version(&decoded.value) == version(&json) && conditions.is_some_and(Value::is_array) {
            both_ways(
                report,
                "a CustomResourceDefinition from a real server",
                &bytes,
                &json,
            );
            return Ok(());
        }
    }
}

/// The first path at which two values differ, with both.
pub(super) fn difference(expected: &Value, actual: &Value, at: &str) -> Option<String> {
    match (expected, actual) {
        (Value::Object(left), Value::Object(right)) => {
            let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            keys.into_iter()
                .find_map(|key| match (left.get(key), right.get(key)) {
                    (Some(left), Some(right)) => difference(left, right, &format!("{at}.{key}")),
                    (Some(left), None) => Some(format!("{at}.{key} is missing, expected {left}")),
                    (None, right) => Some(format!(
                        "{at}.{key} is unexpected: {}",
                        right.unwrap_or(&Value::Null)
                    )),
                })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let mut pairs = left.iter().zip(right).enumerate();
            pairs.find_map(|(index, (left, right))| {
                difference(left, right, &format!("{at}[{index}]"))
            })
        }
        (left, right) if left == right => None,
        (left, right) => Some(format!("{at} is {right}, expected {left}")),
    }
}
