//! Makes the type pack: one data file with everything the API server knows about Kubernetes' own
//! kinds, from one published release.
//!
//! Inputs: discovery and OpenAPI v3 documents (inside the Go module `k8s.io/kubernetes`), the Go
//! types with their struct tags, the `.proto` files they must agree with, and, for Table columns
//! and the values of enumerations, a kube-apiserver of the same release. The output is JSON with one entry per line, sorted, so
//! that a new release is a readable diff; what reads it is `typepack` in the API server.

mod columns;
mod discovery;
mod enums;
mod messages;
mod openapi;
mod proto;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::golang::{self, KUBERNETES};
use crate::paths;

/// `cargo xtask typepack`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Do not write: fail when the committed file differs from what would be written.
    #[arg(long)]
    check: bool,
}

/// A list of JSON values or of named JSON values, printed one per line.
enum Section {
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

/// The groups that the pack covers, each with the versions that are generally available, newest first.
/// Beta and alpha versions are left out on purpose, as are kinds that exist only to be computed
/// (`ComponentStatus`) and the aggregation layer.
const SERVED: [(&str, &[&str]); 20] = [
    ("", &["v1"]),
    ("admissionregistration.k8s.io", &["v1"]),
    ("apiextensions.k8s.io", &["v1"]),
    ("apps", &["v1"]),
    ("authentication.k8s.io", &["v1"]),
    ("authorization.k8s.io", &["v1"]),
    ("autoscaling", &["v2", "v1"]),
    ("batch", &["v1"]),
    ("certificates.k8s.io", &["v1"]),
    ("coordination.k8s.io", &["v1"]),
    ("discovery.k8s.io", &["v1"]),
    ("events.k8s.io", &["v1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1"]),
    ("networking.k8s.io", &["v1"]),
    ("node.k8s.io", &["v1"]),
    ("policy", &["v1"]),
    ("rbac.authorization.k8s.io", &["v1"]),
    ("resource.k8s.io", &["v1"]),
    ("scheduling.k8s.io", &["v1"]),
    ("storage.k8s.io", &["v1"]),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let text = generate()?;
    let path = file();
    if args.check {
        let committed =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        anyhow::ensure!(
            committed == text,
            "{} is out of date\nhint: cargo xtask typepack",
            path.display()
        );
        println!("{} is what {KUBERNETES} gives", path.display());
        return Ok(());
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    }
    fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    println!("{}: {} bytes", path.display(), text.len());
    Ok(())
}

/// Where the pack is committed.
fn file() -> PathBuf {
    let mut parts = KUBERNETES.rsplitn(2, '.');
    let minor = parts.nth(1).unwrap_or(KUBERNETES);
    paths::workspace().join(format!("crates/apiserver/data/kubernetes-{minor}.json"))
}

fn generate() -> Result<String> {
    let release = golang::download(&format!("k8s.io/kubernetes@v{KUBERNETES}"))?.join("api");
    let mut definitions = openapi::definitions(&release.join("openapi-spec/v3"))?;
    let mut kinds = discovery::kinds(&release.join("discovery"), &definitions)?;
    let cluster = Cluster::start()?;
    enums::add(&mut definitions, &cluster)?;
    let columns = columns::read(&kinds, &cluster)?;
    for kind in &mut kinds {
        kind.columns = columns.get(&kind.key()).cloned().unwrap_or_default();
    }
    openapi::keep_reachable(&mut definitions, &discovery::roots(&kinds));
    let (objects, messages) = messages::tables()?;
    let kinds = kinds
        .into_iter()
        .map(serde_json::to_value)
        .collect::<Result<Vec<_>, _>>()?;
    let groups = discovery::groups(&release.join("discovery"))?;
    Ok(document(&[
        ("release", None, Some(json!(KUBERNETES))),
        ("groups", Some(Section::List(groups)), None),
        ("kinds", Some(Section::List(kinds)), None),
        (
            "definitions",
            Some(Section::Map(definitions.into_iter().collect())),
            None,
        ),
        ("objects", Some(Section::Map(objects)), None),
        ("messages", Some(Section::Map(messages)), None),
    ]))
}

/// One JSON object; every entry of a section is on a line of its own.
fn document(parts: &[(&str, Option<Section>, Option<Value>)]) -> String {
    let mut out = String::from("{\n");
    for (index, (name, section, value)) in parts.iter().enumerate() {
        let _ = write!(out, "\"{name}\":");
        match (section, value) {
            (Some(Section::List(items)), _) => {
                lines(&mut out, '[', ']', items.iter().map(Value::to_string))
            }
            (Some(Section::Map(items)), _) => {
                lines(
                    &mut out,
                    '{',
                    '}',
                    items
                        .iter()
                        .map(|(key, value)| format!("{}:{value}", json!(key))),
                );
            }
            (None, value) => {
                let _ = write!(out, "{}", value.clone().unwrap_or_default());
            }
        }
        out.push_str(if index + 1 < parts.len() { ",\n" } else { "\n" });
    }
    out.push_str("}\n");
    out
}

fn lines(out: &mut String, open: char, close: char, items: impl Iterator<Item = String>) {
    out.push(open);
    for (index, item) in items.enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.push_str(&item);
    }
    out.push('\n');
    out.push(close);
}

/// Is this group and version in the pack?
fn served(group: &str, version: &str) -> bool {
    SERVED
        .iter()
        .any(|(name, versions)| *name == group && versions.contains(&version))
}
