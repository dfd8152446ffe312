//! Kubernetes' own end-to-end tests (`e2e.test`) against our server, spec by spec.
//!
//! Only specs that need no nodes; each is run with JSON and with protobuf clients. With `--peer`
//! the same specs run against a real kube-apiserver without controllers, which tells a fault of
//! ours from one of the set-up (specs that need a controller fail there too).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::Report;
use super::ginkgo::{self, Spec};
use crate::cluster::Cluster;
use crate::hub::{self, Hub};
use crate::peers;
use crate::proxy::{JSON, PROTOBUF};

/// Which server, which encodings, which specs.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use this server instead of starting one.
    #[arg(long, conflicts_with = "peer")]
    kubeconfig: Option<PathBuf>,
    /// Run against a real kube-apiserver without controllers.
    #[arg(long)]
    peer: bool,
    /// One encoding instead of both.
    #[arg(long, value_enum)]
    encoding: Option<Encoding>,
    /// A regular expression of ginkgo's instead of our list of specs.
    #[arg(long)]
    focus: Option<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Encoding {
    Json,
    Protobuf,
}

/// The server under test; it lives as long as this value.
enum Server {
    Ours(Hub),
    Peer(Cluster),
    Given(PathBuf),
}

/// Specs that need no node, as regular expressions.
const FOCUS: [&str; 23] = [
    r"\[sig-api-machinery\] Watchers",
    r"\[sig-api-machinery\] CustomResourceDefinition resources",
    r"\[sig-api-machinery\] CustomResourceDefinition Watch",
    r"\[sig-api-machinery\] CustomResourceFieldSelectors",
    r"\[sig-api-machinery\] CustomResourceValidationRules",
    r"\[sig-api-machinery\] CRDValidationRatcheting",
    r"\[sig-api-machinery\] FieldValidation should .* CR ",
    r"\[sig-api-machinery\] FieldValidation should .* of a CR",
    r"\[sig-api-machinery\] Namespaces \[Serial\] should (apply|patch)",
    r"\[sig-api-machinery\] Namespaces \[Serial\] should ensure that all services",
    r"\[sig-api-machinery\] ServerSideApply",
    r"\[sig-api-machinery\] API Streaming",
    r"\[sig-node\] ConfigMap should fail to create ConfigMap with empty key",
    r"\[sig-node\] ConfigMap should run through a ConfigMap lifecycle",
    r"\[sig-node\] ConfigMap should update ConfigMap successfully",
    r"\[sig-storage\] ConfigMap should be immutable",
    r"\[sig-node\] Secrets should (fail to create|patch)",
    r"\[sig-storage\] Secrets should be immutable",
    r"\[sig-node\] Lease lease API should be available",
    r"\[sig-instrumentation\] Events",
    r"\[sig-auth\] ServiceAccounts should guarantee kube-root-ca",
    r"\[sig-auth\] ServiceAccounts should run through the lifecycle",
    r"\[sig-auth\] ServiceAccounts should update",
];

/// Specs that are known to fail on our server, with the reason; in both encodings.
const KNOWN: [(&str, &str); 1] = [(
    "[sig-api-machinery] CustomResourceFieldSelectors [Privileged:ClusterAdmin] CustomResourceFieldSelectors \
     MUST list and watch custom resources matching the field selector [Conformance]",
    "needs a node: it deploys a conversion webhook as a pod",
)];

pub(crate) fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("kubernetes", &KNOWN);
    let encodings = match args.encoding {
        Some(Encoding::Json) => vec![("json", JSON)],
        Some(Encoding::Protobuf) => vec![("protobuf", PROTOBUF)],
        None => vec![("json", JSON), ("protobuf", PROTOBUF)],
    };
    let focus = args.focus.clone().unwrap_or_else(|| FOCUS.join("|"));
    for (name, content_type) in encodings {
        let server = Server::start(args)?;
        let specs = execute(&server, content_type, &focus)?;
        ginkgo::count(&specs, name, &mut report);
    }
    Ok(report)
}

/// Runs the specs and reads ginkgo's report; its own output goes to a file beside it.
fn execute(server: &Server, content_type: &str, focus: &str) -> Result<Vec<Spec>> {
    let dir = tempfile::tempdir().context("making a temporary directory")?;
    let file = dir.path().join("report.json");
    let log = fs::File::create(dir.path().join("e2e.log")).context("creating a log file")?;
    let mut command = Command::new(peers::path("e2e.test")?);
    command
        .arg("--provider=skeleton")
        .arg(format!("--kubeconfig={}", server.kubeconfig().display()))
        .arg(format!("--kube-api-content-type={content_type}"))
        .args([
            "--allowed-not-ready-nodes=-1",
            "--minStartupPods=-1",
            "--num-nodes=1",
        ])
        .args([
            "--e2e-verify-service-account=false",
            "--dump-logs-on-failure=false",
        ])
        .args(["--ginkgo.no-color", "--ginkgo.succinct"])
        .arg(format!("--ginkgo.focus={focus}"))
        .arg(format!("--ginkgo.json-report={}", file.display()));
    if server.leaves_namespaces() {
        command.arg("--delete-namespace=false");
    }
    command
        .current_dir(dir.path())
        .env("PATH", path_with_kubectl()?);
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    eprintln!("running e2e.test with {content_type} (minutes)");
    // It exits with 1 when a spec fails; only a missing report is an error.
    command.status().context("starting e2e.test")?;
    ginkgo::read(&file).with_context(|| {
        let log = fs::read_to_string(dir.path().join("e2e.log")).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(20).collect();
        format!(
            "e2e.test wrote no report; its output ends with\n{}",
            tail.join("\n")
        )
    })
}

/// Specs that shell out must find our kubectl first.
fn path_with_kubectl() -> Result<std::ffi::OsString> {
    let kubectl = peers::path("kubectl")?;
    let mut paths: Vec<PathBuf> = kubectl
        .parent()
        .map(Path::to_path_buf)
        .into_iter()
        .collect();
    paths.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    Ok(env::join_paths(paths)?)
}

// === impl Server ===

impl Server {
    fn start(args: &Args) -> Result<Self> {
        match &args.kubeconfig {
            Some(path) => Ok(Self::Given(path.clone())),
            None if args.peer => Ok(Self::Peer(Cluster::start()?)),
            None => Ok(Self::Ours(Hub::start(&hub::binary()?)?)),
        }
    }

    fn kubeconfig(&self) -> &Path {
        match self {
            Self::Ours(hub) => hub.kubeconfig(),
            Self::Peer(cluster) => cluster.kubeconfig(),
            Self::Given(path) => path,
        }
    }

    /// Nobody empties a namespace where no controller runs.
    fn leaves_namespaces(&self) -> bool {
        match self {
            Self::Peer(_) => true,
            Self::Ours(_) | Self::Given(_) => false,
        }
    }
}
