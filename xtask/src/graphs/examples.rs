//! kro's own examples, from its package and as they are: those that need no kinds but
//! Kubernetes' own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::rights;
use super::stage::{On, Stage, condition};
use super::steps::{ALL, HUB};
use crate::golang::{self, KRO};
use crate::kubectl::{Kubectl, await_that};
use crate::manifests;

/// A file with an object in it.
struct File {
    path: PathBuf,
    object: Value,
}

/// What a directory has.
#[derive(Default)]
struct Example {
    definitions: Vec<File>,
    instances: Vec<File>,
}

/// What does not run, where, and what the definition says: a zone with an API of its own does not
/// serve everything, and kro refuses the last, too.
const REFUSED: [(&str, &[On], &str); 2] = [
    (
        "kubernetes/saas-multi-tenant",
        HUB,
        "there is no kind v1 ResourceQuota",
    ),
    ("aws/llm", ALL, "string is expected here, and this is bool"),
];

pub(super) fn run(stage: &mut Stage) -> Result<()> {
    rights::allow_all(stage)?;
    if stage.on == On::Kubernetes {
        stage.simulate()?;
    }
    let kro = golang::download(&format!("github.com/kubernetes-sigs/kro@v{KRO}"))?;
    let root = kro.join("examples");
    let mut counts = (0, 0);
    for directory in directories(&root)? {
        let example = Example::read(&directory)?;
        if example.definitions.is_empty() {
            continue;
        }
        let name = directory.strip_prefix(&root).unwrap_or(&directory);
        let name = name.display().to_string();
        let ran = example.run(stage, &name);
        if ran.with_context(|| format!("{name}: {}", directory.display()))? {
            counts.0 += example.definitions.len();
            counts.1 += example.instances.len();
        }
    }
    ensure!(counts.0 > 10 && counts.1 > 5, "too few: {counts:?}");
    println!("    {} definitions and {} instances", counts.0, counts.1);
    Ok(())
}

/// A directory, and those in it.
fn directories(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![root.to_owned()];
    for path in entries(root)? {
        if path.is_dir() {
            found.extend(directories(&path)?);
        }
    }
    Ok(found)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)
        .with_context(|| format!("reading {}", directory.display()))?
        .collect::<Result<Vec<_>, _>>()?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

// === impl Example ===

impl Example {
    fn read(directory: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for path in entries(directory)? {
            if path.extension().is_none_or(|end| end != "yaml") {
                continue;
            }
            let text = fs::read_to_string(&path).context("reading an example")?;
            let documents = manifests::documents(&text).into_iter();
            // Some are templates of something else.
            let objects = documents.filter_map(|text| manifests::parse(&text).ok());
            let mut objects: Vec<Value> = objects.filter(Value::is_object).collect();
            if let (Some(object), true) = (objects.pop(), objects.is_empty()) {
                files.push(File { path, object });
            }
        }
        Ok(Self::of(files))
    }

    /// The definitions that can run, with what they make of each other, and their instances.
    fn of(files: Vec<File>) -> Self {
        let (mut rest, others): (Vec<File>, Vec<File>) = files
            .into_iter()
            .partition(|file| file.object["kind"] == "ResourceGraphDefinition");
        let mut found = Self::default();
        loop {
            let kinds: Vec<String> = found.definitions.iter().map(File::kind).collect();
            let (good, bad): (Vec<File>, Vec<File>) =
                rest.into_iter().partition(|file| file.needs_only(&kinds));
            rest = bad;
            if good.is_empty() {
                break;
            }
            found.definitions.extend(good);
        }
        let kinds: Vec<String> = found.definitions.iter().map(File::kind).collect();
        let is_instance = |file: &File| {
            kinds
                .iter()
                .any(|kind| file.object["kind"] == kind.as_str())
        };
        found.instances = others.into_iter().filter(is_instance).collect();
        found
    }

    /// Whether it runs.
    fn run(&self, stage: &Stage, name: &str) -> Result<bool> {
        for file in &self.definitions {
            let at = stage.definitions.kubectl();
            at.ok(&["apply", "-f", &file.text()])?;
        }
        let mut refused = REFUSED.iter();
        let refused = refused.find(|(at, on, _)| *at == name && on.contains(&stage.on));
        if let Some((_, _, message)) = refused {
            self.is_refused(stage, message)?;
            println!("    {name} does not run: {message}");
            self.undefine(stage)?;
            return Ok(false);
        }
        for file in &self.definitions {
            stage.until_definition(file.name(), "Ready", "True")?;
        }
        for file in &self.instances {
            file.is_run(stage)?;
        }
        for file in &self.instances {
            file.delete(stage, &stage.instances.kubectl())?;
        }
        self.undefine(stage)?;
        Ok(true)
    }

    /// Waits until a definition is refused where it was authored: it does not reach zones.
    fn is_refused(&self, stage: &Stage, expected: &str) -> Result<()> {
        let home = stage.definitions.kubectl();
        await_that("a refusal", || {
            let mut messages = Vec::new();
            for file in &self.definitions {
                let told = home.find("rgd", file.name(), "")?.unwrap_or_default();
                messages.push(condition(&told, "GraphAccepted")["message"].to_string());
            }
            let refused = messages.iter().any(|text| text.contains(expected));
            Ok(refused.then_some(()))
        })
    }

    /// Takes definitions away: others may use the same names.
    fn undefine(&self, stage: &Stage) -> Result<()> {
        for file in self.definitions.iter().rev() {
            file.delete(stage, &stage.definitions.kubectl())?;
        }
        // The kinds are left, as kro leaves them.
        let mut apis = stage.zones();
        apis.push(stage.definitions.clone());
        for file in &self.definitions {
            let label = format!("kro.run/resource-graph-definition-name={}", file.name());
            for api in &apis {
                api.kubectl().ok(&["delete", "crd", "-l", &label])?;
            }
        }
        Ok(())
    }
}

// === impl File ===

impl File {
    fn name(&self) -> &str {
        let name = self.object["metadata"]["name"].as_str();
        name.unwrap_or_default()
    }

    /// The kind that it defines.
    fn kind(&self) -> String {
        let kind = self.object["spec"]["schema"]["kind"].as_str();
        kind.unwrap_or_default().to_owned()
    }

    fn text(&self) -> String {
        self.path.display().to_string()
    }

    /// Whether all that it makes is of kinds of Kubernetes, or of these.
    fn needs_only(&self, kinds: &[String]) -> bool {
        let nodes = self.object["spec"]["resources"].as_array();
        nodes.into_iter().flatten().all(|node| {
            let template = ["template", "externalRef"].map(|body| &node[body]);
            let template = template.into_iter().find(|body| body.is_object());
            let of = |key: &str| template.and_then(|template| template[key].as_str());
            is_builtin(of("apiVersion").unwrap_or_default())
                || of("kind").is_some_and(|kind| kinds.iter().any(|one| one == kind))
        })
    }

    /// As kubectl names it.
    fn words(&self) -> Result<[String; 2]> {
        let of = |value: &Value| value.as_str().map(str::to_owned);
        let kind = of(&self.object["kind"]).context("no kind")?;
        let api = of(&self.object["apiVersion"]).context("no version")?;
        let (group, version) = api.split_once('/').context("no group")?;
        let named = format!("{kind}.{version}.{group}");
        let namespace = of(&self.object["metadata"]["namespace"]);
        Ok([named, namespace.unwrap_or_else(|| "default".to_owned())])
    }

    /// Applies an instance and waits until it is ready.
    fn is_run(&self, stage: &Stage) -> Result<()> {
        let applied = stage.instances.kubectl();
        applied.ok(&["apply", "-f", &self.text()])?;
        let [kind, namespace] = self.words()?;
        let here = stage.here.kubectl();
        let mut last = Value::Null;
        let ready = await_that("the instance", || {
            last = here
                .find(&kind, self.name(), &namespace)?
                .unwrap_or_default();
            let ready = condition(&last, "Ready")["status"] == "True";
            Ok((ready && last["status"]["state"] == "ACTIVE").then_some(()))
        });
        ready.with_context(|| format!("the last of it was {last}"))
    }

    /// Deletes it where it was applied, and waits until it is gone where it was run.
    fn delete(&self, stage: &Stage, at: &Kubectl) -> Result<()> {
        at.ok(&["delete", "--wait=false", "-f", &self.text()])?;
        let [kind, namespace] = self.words()?;
        let here = stage.here.kubectl();
        let mut last = Value::Null;
        let gone = await_that("its end", || {
            stage.end_namespaces()?;
            last = here
                .find(&kind, self.name(), &namespace)?
                .unwrap_or_default();
            Ok(last.is_null().then_some(()))
        });
        gone.with_context(|| format!("the last of it was {last}"))
    }
}

/// Whether a version is of one of Kubernetes' own groups.
fn is_builtin(api_version: &str) -> bool {
    let Some((group, _)) = api_version.split_once('/') else {
        return api_version == "v1";
    };
    match group.strip_suffix(".k8s.io") {
        Some(word) => !word.contains('.') || word == "rbac.authorization",
        None => !group.contains('.'),
    }
}
