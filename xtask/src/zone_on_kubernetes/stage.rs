//! What plays: a real cluster, a hub, and the agent between them, each a process of its own.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::hub::Hub;
use crate::kubectl::{Kubectl, await_that};
use crate::process;

/// The name of the zone.
pub(super) const ZONE: &str = "eu-1";

/// Everything that runs; it ends with this value.
pub(super) struct Stage {
    // Dropped in this order: the agent first.
    agent: Option<Child>,
    pub(super) cluster: Cluster,
    pub(super) hub: Hub,
    binary: PathBuf,
    dir: TempDir,
}

// === impl Stage ===

impl Stage {
    pub(super) fn start(binary: &Path) -> Result<Self> {
        Ok(Self {
            agent: None,
            cluster: Cluster::start()?,
            hub: Hub::start(binary)?,
            binary: binary.to_owned(),
            dir: tempfile::tempdir().context("making a temporary directory")?,
        })
    }

    /// An administrator of the hub.
    pub(super) fn hub(&self) -> Kubectl {
        Kubectl::new(self.hub.kubeconfig())
    }

    /// An administrator of the cluster.
    pub(super) fn cluster(&self) -> Kubectl {
        Kubectl::new(self.cluster.kubeconfig())
    }

    /// The agent itself, as the cluster knows it.
    pub(super) fn as_agent(&self) -> Kubectl {
        Kubectl::new(&self.credential())
    }

    fn credential(&self) -> PathBuf {
        self.dir.path().join("agent.kubeconfig")
    }

    /// What `deltaplane` with these words prints.
    pub(super) fn deltaplane(&self, words: &[&str]) -> Result<String> {
        process::text(Command::new(&self.binary).args(words))
    }

    /// Makes the agent's kubeconfig of a token.
    pub(super) fn accredit(&self, token: &str) -> Result<()> {
        self.cluster.kubeconfig_with(token, self.dir.path())?;
        Ok(())
    }

    /// Starts the agent.
    pub(super) fn start_agent(&mut self, join: Option<&str>) -> Result<()> {
        let mut log = OpenOptions::new();
        let log = log.create(true).append(true).open(self.log_path());
        let mut command = Command::new(&self.binary);
        command
            .args(["zone", "--kubeconfig"])
            .arg(self.credential());
        command.arg("--data-dir").arg(self.dir.path().join("zone"));
        if let Some(join) = join {
            command.args(["--join", join]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.context("creating a log file")?)
            .spawn()
            .context("starting the agent")?;
        self.agent = Some(child);
        Ok(())
    }

    /// Kills the agent with no warning.
    pub(super) fn kill_agent(&mut self) -> Result<()> {
        let mut agent = self.agent.take().context("the agent is not running")?;
        agent.kill().context("killing the agent")?;
        agent.wait().context("waiting for the agent's end")?;
        Ok(())
    }

    /// The agent's process, which must be running.
    pub(super) fn agent(&mut self) -> Result<u32> {
        let agent = self.agent.as_mut().context("the agent was not started")?;
        let ended = agent.try_wait().context("looking after the agent")?;
        ensure!(ended.is_none(), "the agent ended: {ended:?}");
        Ok(agent.id())
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("zone.log")
    }

    /// What the agent has logged since its first start.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// How it stands with the zone, as the hub sees it.
    pub(super) fn sync(&self) -> Result<Value> {
        self.hub().raw(&format!(
            "/apis/fleet.deltaplane.io/v1alpha1/zones/{ZONE}/_sync"
        ))
    }

    /// Why the zone did not take an object, if it did not.
    pub(super) fn rejected(&self, name: &str) -> Result<Option<Value>> {
        let sync = self.sync()?;
        let kinds = sync["kinds"].as_array().into_iter().flatten();
        let mut rejected = kinds.flat_map(|kind| kind["rejected"].as_array().into_iter().flatten());
        Ok(rejected.find(|one| one["name"] == name).cloned())
    }

    /// A join string of the zone.
    pub(super) fn join(&self) -> Result<String> {
        let path = format!("/apis/fleet.deltaplane.io/v1alpha1/zones/{ZONE}/_token");
        let answer = self
            .hub()
            .reading(&["create", "--raw", &path, "-f", "-"], "{}")?;
        let answer: Value = serde_json::from_str(&answer).context("reading a join string")?;
        let join = answer["join"].as_str();
        Ok(join.context("no join string")?.to_owned())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(agent) = &mut self.agent {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

// === impl Kubectl ===

impl Kubectl {
    /// A widget, if it is there.
    pub(super) fn widget(&self, name: &str) -> Result<Option<Value>> {
        self.find("widget", name, "team")
    }

    /// Waits until a widget is there and as it should be.
    pub(super) fn await_widget(
        &self,
        name: &str,
        is_fine: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        await_that(&format!("widget {name}"), || {
            let found = self.widget(name).ok().flatten();
            Ok(found.filter(|widget| is_fine(widget)))
        })
    }

    /// Waits until a widget is gone.
    pub(super) fn await_gone(&self, name: &str) -> Result<()> {
        await_that(&format!("the end of widget {name}"), || {
            Ok(self.widget(name)?.is_none().then_some(()))
        })
    }
}

pub(super) fn widget(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "team", "labels": {"app": "web"}},
        "spec": spec,
    })
}
