//! kro's own integration suite with our process as the controller, on a real kube-apiserver.
//!
//! The suite's package `environment` is replaced by a file of ours (`xtask/go/suite`) when the tests
//! are compiled, so that it starts `deltaplane zone --standalone` instead of kro's controllers.
//! Nothing of the suite is kept in the tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::Report;
use super::ginkgo;
use crate::golang::{self, KRO};
use crate::{hub, paths, peers, process};

/// Which specs, and how.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use this binary instead of building one.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// A regular expression of ginkgo's: only the specs that match it.
    #[arg(long, value_name = "REGEX")]
    focus: Option<String>,
    /// Let specs expect our version where they expect kro's development version.
    #[arg(long)]
    our_version: bool,
    /// How many specs run at once.
    #[arg(long, default_value_t = 4)]
    at_once: usize,
    /// Keep the logs of our process in this directory.
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
}

const SETUP: &str = include_str!("../../go/suite/setup.go");
const ENVIRONMENT: &str = "test/integration/environment/setup.go";
/// What the suite is made of.
const PARTS: [&str; 6] = [
    "go.mod",
    "go.sum",
    "api",
    "pkg",
    "test/integration",
    "helm/crds",
];
const SUITE: &str = "test/integration/suites/core";
/// The specs that compare versions, and the version that they expect.
const VERSIONED: [&str; 2] = ["annotation_label_test.go", "applyset_test.go"];
const DEVELOPMENT: &str = "devel\"";

/// The variable of a module of kro's that says which version it is.
const VERSION: &str = "sigs.k8s.io/release-utils/version.gitVersion";

/// Specs that are known to fail, with the reason (`docs/kro-compatibility.md`).
const KNOWN: [(&str, &str); 2] = [
    (
        "ApplySet Collection Labels should prune collection items when collection shrinks",
        "the labels index and size of an item are not written again when others come or go",
    ),
    (
        "GraphRevision Integration should warm the registry on controller restart and continue issuing from the recovered watermark",
        "GraphRevisionsResolved names the revision with its hash, by which rollouts know it",
    ),
];

/// Why the specs of [`DEVEL_SPECS`] fail as they are.
const DEVEL: &str = "it asks for the version of a kro that was built without one";
/// Specs that fail unless they may expect our version.
const DEVEL_SPECS: [&str; 7] = [
    "ApplySet ApplySet Isolation should not prune resources from different instances of the same RGD",
    "ApplySet Collection Labels should apply correct collection-specific labels to forEach resources",
    "ApplySet Label Preservation should preserve user-defined labels and annotations on instance after reconciliation",
    "ApplySet Multi-GVK Apply should apply resources with correct KEP applyset labels and annotations",
    "ApplySet Pruning should prune resources when includeWhen becomes false",
    "DeploymentService should handle complete lifecycle of ResourceGraphDefinition and Instance",
    "Labels and Annotations should have correct conditions when ResourceGraphDefinition is created",
];

pub(crate) fn run(args: &Args) -> Result<Report> {
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => hub::binary()?,
    };
    let dir = tempfile::tempdir().context("making a temporary directory")?;
    let kro = module()?;
    let tests = compile(&kro, args.our_version, dir.path())?;
    let logs = args.logs.clone().unwrap_or_else(|| dir.path().join("logs"));
    fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;
    let file = dir.path().join("report.json");
    let mut command = Command::new(ginkgo_program()?);
    command
        .args(["run", "--no-color", "--succinct", "--timeout=60m"])
        .arg(format!("--procs={}", args.at_once))
        .arg(format!("--json-report={}", file.display()));
    if let Some(focus) = &args.focus {
        command.arg(format!("--focus={focus}"));
    }
    let output = fs::File::create(logs.join("suite.log")).context("creating a log file")?;
    command
        .arg(&tests)
        .current_dir(kro.join(SUITE))
        .env("KUBEBUILDER_ASSETS", assets(dir.path())?)
        .env("DELTAPLANE_PROGRAM", &binary)
        .env("DELTAPLANE_LOGS", &logs)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    eprintln!("running kro's suite (minutes)");
    // It exits with 1 when a spec fails; only a missing report is an error.
    command.status().context("starting kro's suite")?;
    let mut known = KNOWN.to_vec();
    if !args.our_version {
        known.extend(DEVEL_SPECS.map(|name| (name, DEVEL)));
    }
    let mut report = Report::new("kro-suite", &known);
    ginkgo::count(&ginkgo::read(&file)?, "", &mut report);
    if args.focus.is_none() {
        report.expect_all();
    }
    Ok(report)
}

/// Copies what the suite is made of into the cache: Go replaces no files of its own module cache.
fn module() -> Result<PathBuf> {
    let copy = paths::cache()?
        .join("conformance")
        .join(format!("kro-suite-{KRO}"));
    let complete = copy.join("complete");
    if !complete.exists() {
        let kro = golang::download(&format!("github.com/kubernetes-sigs/kro@v{KRO}"))?;
        for part in PARTS {
            golang::copy(&kro.join(part), &copy.join(part))?;
        }
        fs::write(&complete, KRO).context("writing that the copy is complete")?;
    }
    Ok(copy)
}

/// Compiles the suite with our environment package.
fn compile(kro: &Path, our_version: bool, dir: &Path) -> Result<PathBuf> {
    let mut replaced = serde_json::Map::new();
    let mut replace = |path: &Path, name: &str, text: &str| -> Result<()> {
        let file = dir.join(name);
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        replaced.insert(path.display().to_string(), json!(file));
        Ok(())
    };
    replace(&kro.join(ENVIRONMENT), "environment.go", SETUP)?;
    if our_version {
        for name in VERSIONED {
            let path = kro.join(SUITE).join(name);
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            ensure!(text.contains(DEVELOPMENT), "{name} expects no version");
            let ours = format!("{}\"", env!("CARGO_PKG_VERSION"));
            replace(&path, name, &text.replace(DEVELOPMENT, &ours))?;
        }
    }
    let version = match our_version {
        true => format!("-X {VERSION}={}", env!("CARGO_PKG_VERSION")),
        false => String::new(),
    };
    let overlay = dir.join("overlay.json");
    fs::write(&overlay, json!({ "Replace": replaced }).to_string())
        .context("writing an overlay")?;
    // Ginkgo knows a compiled suite by the end of its name, and runs it in its directory.
    let tests = kro.join(SUITE).join("core.test");
    let mut go = golang::go_in(kro)?;
    go.env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .args(["test", "-c", "-overlay"])
        .arg(&overlay)
        .args(["-ldflags", &version])
        .arg("-o")
        .arg(&tests)
        .arg(format!("./{SUITE}"));
    process::run(&mut go).context("compiling kro's suite")?;
    Ok(tests)
}

/// Ginkgo's own command, of the version that the suite uses.
fn ginkgo_program() -> Result<PathBuf> {
    let module = golang::kro_module()?;
    let program = paths::cache()?.join("bin").join("ginkgo");
    let mut go = module.go()?;
    go.args(["build", "-o"])
        .arg(&program)
        .arg("github.com/onsi/ginkgo/v2/ginkgo");
    process::run(&mut go).context("building ginkgo")?;
    Ok(program)
}

/// A directory with the programs that the suite starts, under the names that it looks for.
fn assets(dir: &Path) -> Result<PathBuf> {
    let assets = dir.join("assets");
    fs::create_dir_all(&assets).context("creating a directory")?;
    for name in ["etcd", "kube-apiserver", "kubectl"] {
        std::os::unix::fs::symlink(peers::path(name)?, assets.join(name))
            .with_context(|| format!("linking {name}"))?;
    }
    Ok(assets)
}
