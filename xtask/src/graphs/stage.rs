//! What plays: something that runs graphs, and the APIs of those who use it.
//!
//! | stage | definitions | instances | objects |
//! |---|---|---|---|
//! | `up` | at its hub | at its hub | in its first zone |
//! | `zone` | at the hub | in the zone | in the zone |
//! | `kubernetes` | in the cluster | in the cluster | in the cluster |

mod look;
mod start;

pub(super) use look::{condition, ensure_says};

use std::fmt;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use start::ZONES;

use super::api::Api;
use super::definitions::KINDS;
use crate::audit::Audit;
use crate::cluster::Cluster;
use crate::hub::Hub;
use crate::kubectl::{Answer, await_that};
use crate::program::Program;

/// Where instances are.
pub(super) const NAMESPACE: &str = "team";

/// Where graphs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum On {
    /// In the zones of `deltaplane up`.
    Up,
    /// In a zone that is a process of its own, of a hub that is another.
    Zone,
    /// In a real cluster without controllers, by `deltaplane zone --standalone`.
    Kubernetes,
}

/// Everything that runs; it ends with this value.
pub(super) struct Stage {
    // Dropped in this order: the runner first.
    runner: Program,
    words: Vec<String>,
    pub(super) on: On,
    hub: Option<Hub>,
    cluster: Option<Cluster>,
    audit: Option<Audit>,
    /// Where definitions are authored.
    pub(super) definitions: Api,
    /// Where instances are authored.
    pub(super) instances: Api,
    /// Where they are run.
    pub(super) here: Api,
    dir: TempDir,
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Zone => "zone",
            Self::Kubernetes => "kubernetes",
        })
    }
}

// === impl Stage ===

impl Stage {
    /// Starts the runner, which is not running.
    pub(super) fn start_runner(&mut self) -> Result<()> {
        self.runner.start(&self.words)?;
        if self.on == On::Kubernetes {
            return Ok(());
        }
        // Its API has to be there for whoever looks.
        await_that("an API", || {
            self.runner.process()?;
            let ready = ["get", "--raw", "/readyz"];
            Ok(self.here.kubectl().ok(&ready).ok())
        })?;
        Ok(())
    }

    /// Kills the runner with no warning.
    pub(super) fn kill_runner(&mut self) -> Result<()> {
        self.runner.kill().context("killing the runner")
    }

    /// The runner's process, which must be running.
    pub(super) fn runner(&mut self) -> Result<u32> {
        self.runner.process().context("looking after the runner")
    }

    /// What the runner has logged since its first start.
    pub(super) fn log(&self) -> String {
        self.runner.log()
    }

    /// The real cluster, if this is one.
    pub(super) fn cluster(&mut self) -> Result<&mut Cluster> {
        self.cluster.as_mut().context("there is no cluster")
    }

    /// What was asked of the real cluster.
    pub(super) fn audit(&mut self) -> Result<&mut Audit> {
        self.audit.as_mut().context("nothing is written down")
    }

    /// The hub that is a process of its own.
    pub(super) fn hub(&mut self) -> Result<&mut Hub> {
        self.hub.as_mut().context("there is no hub")
    }

    /// Lets the runner in a real cluster be somebody.
    pub(super) fn accredit(&mut self, token: &str) -> Result<()> {
        let dir = self.dir.path().to_owned();
        self.cluster()?.kubeconfig_with(token, &dir)?;
        Ok(())
    }

    /// Starts the runner anew where workloads are not simulated, so that they are.
    pub(super) fn simulate(&mut self) -> Result<()> {
        if self.on == On::Kubernetes {
            self.kill_runner()?;
            self.words.push("--simulate-workloads".to_owned());
            self.start_runner()?;
        }
        Ok(())
    }

    /// All zones of the hub.
    pub(super) fn zones(&self) -> Vec<Api> {
        let others = match self.on {
            On::Up => &ZONES[1..],
            On::Zone | On::Kubernetes => &[],
        };
        let others = others.iter().map(|zone| Api {
            zone: Some(zone),
            ..self.here.clone()
        });
        others.chain([self.here.clone()]).collect()
    }

    /// Where objects of a kind are authored.
    fn home(&self, kind: &str) -> &Api {
        match kind.to_lowercase().as_str() {
            "rgd" | "resourcegraphdefinition" => &self.definitions,
            kind if KINDS.iter().any(|(one, _)| *one == kind) => &self.instances,
            _ => &self.here,
        }
    }

    /// Applies an object, or objects that are authored at one place.
    pub(super) fn apply(&self, object: &Value) -> Result<()> {
        let kind = [&object["items"][0]["kind"], &object["kind"]];
        let kind = kind.into_iter().find_map(Value::as_str);
        let home = self.home(kind.context("no kind")?);
        home.kubectl().apply(object)
    }

    /// Changes an object.
    pub(super) fn merge(&self, kind: &str, name: &str, change: &Value) -> Result<()> {
        let change = change.to_string();
        let words = ["patch", kind, name, "-n", NAMESPACE];
        let words = [&words[..], &["--type=merge", "-p", &change]].concat();
        self.home(kind).kubectl().ok(&words)?;
        Ok(())
    }

    pub(super) fn delete(&self, kind: &str, name: &str) -> Result<()> {
        let words = ["delete", kind, name, "-n", NAMESPACE, "--wait=false"];
        self.home(kind).kubectl().ok(&words)?;
        Ok(())
    }

    /// Says of a Deployment what a cluster's controllers would when all of it runs.
    pub(super) fn make_available(&self, name: &str) -> Result<()> {
        let object = self.get("deployment", name)?;
        let replicas = object["spec"]["replicas"].clone();
        let change = json!({"status": {
            "observedGeneration": object["metadata"]["generation"],
            "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
        }})
        .to_string();
        let words = ["patch", "deployment", name, "-n", NAMESPACE];
        let how = ["--subresource=status", "--type=merge", "-p", &change];
        self.here.kubectl().ok(&[&words[..], &how].concat())?;
        Ok(())
    }

    /// Lets namespaces go that are being deleted, where no controller does.
    pub(super) fn end_namespaces(&self) -> Result<()> {
        if self.on != On::Kubernetes {
            return Ok(());
        }
        let admin = self.here.kubectl();
        let list = admin.raw("/api/v1/namespaces")?;
        let all = list["items"].as_array().into_iter().flatten();
        for one in all.filter(|one| one["status"]["phase"] == "Terminating") {
            let mut ended = one.clone();
            ended["spec"]["finalizers"] = json!([]);
            let name = one["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("/api/v1/namespaces/{name}/finalize");
            admin.reading(&["replace", "--raw", &path, "-f", "-"], &ended.to_string())?;
        }
        Ok(())
    }

    /// What our own command says where graphs run.
    pub(super) fn says(&self, line: &str) -> Result<String> {
        self.here.says(line)
    }

    pub(super) fn answer(&self, line: &str) -> Result<Answer> {
        self.here.answer(line)
    }
}
