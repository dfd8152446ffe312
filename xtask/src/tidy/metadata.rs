//! What cargo knows about the workspace, reduced to what the rules need.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;

/// The workspace's packages.
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
}

/// One package of the workspace.
pub(super) struct Package {
    /// `api` for `deltaplane-api`; `deltaplane`, `xtask` and `e2e` are themselves.
    pub(super) name: String,
    /// Relative to the workspace.
    pub(super) dir: String,
    /// Roots of module trees, relative to the workspace.
    pub(super) roots: Vec<String>,
    /// Direct dependencies inside the workspace, without dev-dependencies.
    pub(super) edges: Vec<String>,
    /// Every package that is compiled into this one, without dev-dependencies.
    pub(super) closure: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Raw {
    packages: Vec<RawPackage>,
    workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct RawPackage {
    id: String,
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dep>,
}

#[derive(Deserialize)]
struct Dep {
    pkg: String,
    dep_kinds: Vec<DepKind>,
}

#[derive(Deserialize)]
struct DepKind {
    kind: Option<String>,
}

pub(super) fn read(root: &Path) -> Result<Metadata> {
    // For this platform only: nobody has fetched what others need.
    let version = process::text(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not say which platform this is")?;
    let mut command = Command::new("cargo");
    command.current_dir(root).args([
        "metadata",
        "--format-version",
        "1",
        "--filter-platform",
        host,
    ]);
    let raw: Raw = serde_json::from_slice(&process::output(&mut command)?)
        .context("reading cargo's metadata")?;
    Ok(raw.reduce(root))
}

// === impl Raw ===

impl Raw {
    fn reduce(&self, root: &Path) -> Metadata {
        let names: BTreeMap<&str, &str> = self
            .packages
            .iter()
            .map(|package| (package.id.as_str(), package.name.as_str()))
            .collect();
        let direct: BTreeMap<&str, Vec<&str>> = self
            .resolve
            .nodes
            .iter()
            .map(|node| (node.id.as_str(), node.normal().collect()))
            .collect();
        let members = self
            .packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id));
        let packages = members.map(|package| Package {
            name: short(&package.name),
            dir: package
                .manifest_path
                .parent()
                .map(|dir| relative(root, dir))
                .unwrap_or_default(),
            roots: package
                .targets
                .iter()
                .map(|target| relative(root, &target.src_path))
                .collect(),
            edges: direct
                .get(package.id.as_str())
                .into_iter()
                .flatten()
                .filter(|id| self.workspace_members.contains(**id))
                .filter_map(|id| names.get(id).map(|name| short(name)))
                .collect(),
            closure: closure(&package.id, &direct)
                .into_iter()
                .filter_map(|id| names.get(id).map(|name| (*name).to_owned()))
                .collect(),
        });
        Metadata {
            packages: packages.collect(),
        }
    }
}

impl Node {
    /// What this package is built from or with, tests aside.
    fn normal(&self) -> impl Iterator<Item = &str> {
        let is_dev = |dep: &Dep| {
            dep.dep_kinds
                .iter()
                .all(|kind| kind.kind.as_deref() == Some("dev"))
        };
        self.deps
            .iter()
            .filter(move |dep| !is_dev(dep))
            .map(|dep| dep.pkg.as_str())
    }
}

fn closure<'a>(id: &'a str, direct: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut queue = vec![id];
    while let Some(id) = queue.pop() {
        for next in direct.get(id).into_iter().flatten() {
            if reached.insert(*next) {
                queue.push(next);
            }
        }
    }
    reached
}

fn short(name: &str) -> String {
    name.strip_prefix("deltaplane-").unwrap_or(name).to_owned()
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/")
}
