//! Who runs the instances, as a process.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::cluster::Cluster;
use crate::golang;
use crate::kubectl::Kubectl;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Deltaplane,
    /// Ours, with the rights of the controller.
    Controller,
    Kro,
    TunedKro,
}

pub(super) struct Contender {
    pub(super) which: Which,
    pub(super) binary: PathBuf,
}

/// It ends with this value.
pub(super) struct Running {
    child: Child,
}

/// What lets kro work on more at once, and ask more often.
const TUNED: [&str; 5] = [
    "--dynamic-controller-concurrent-reconciles=40",
    "--resource-graph-definition-concurrent-reconciles=8",
    "--graph-revision-concurrent-reconciles=8",
    "--client-qps=5000",
    "--client-burst=5000",
];
/// Nobody asks for these, and nothing listens beyond this machine.
const SILENT: [&str; 2] = ["--metrics-bind-address=0", "--health-probe-bind-address=0"];

// === impl Which ===

impl Which {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Deltaplane => "deltaplane",
            Self::Controller => "deltaplane, as the controller",
            Self::Kro => "kro",
            Self::TunedKro => "kro, tuned",
        }
    }
}

// === impl Contender ===

impl Contender {
    /// Starts it as the user whose requests are counted.
    pub(super) fn start(&self, cluster: &Cluster) -> Result<Running> {
        let log = File::create(cluster.dir().join("controller.log"));
        let log = log.context("creating a log file")?;
        let kubeconfig = cluster.watched()?;
        let mut command = Command::new(&self.binary);
        match self.which {
            Which::Deltaplane | Which::Controller => {
                command.args(["zone", "--standalone", "--kubeconfig"]);
                command.arg(kubeconfig);
                if self.which == Which::Controller {
                    command.arg("--graph-identity=controller");
                }
            }
            Which::Kro | Which::TunedKro => {
                let kinds = golang::kro_kinds()?;
                let kinds = kinds.to_str().context("a path that is not text")?;
                let admin = Kubectl::new(cluster.kubeconfig());
                admin.ok(&["apply", "--server-side", "-f", kinds])?;
                command.env("KUBECONFIG", kubeconfig).args(SILENT);
                if self.which == Which::TunedKro {
                    command.args(TUNED);
                }
            }
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", self.which.name()))?;
        Ok(Running { child })
    }
}

// === impl Running ===

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
