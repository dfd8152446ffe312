//! What plays: a real cluster, a hub, and the agent between them, each a process of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::hub::Hub;
use crate::kubectl::{Kubectl, await_that};
use crate::process;
use crate::program::Program;

/// The name of the zone.
pub(super) const ZONE: &str = "eu-1";

/// Everything that runs; it ends with this value.
pub(super) struct Stage {
    // Dropped in this order: the agent first.
    pub(super) agent: Program,
    /// A zone with an API of its own.
    pub(super) canary: Program,
    pub(super) cluster: Cluster,
    pub(super) hub: Hub,
    binary: PathBuf,
    dir: TempDir,
}

// === impl Stage ===

impl Stage {
    pub(super) fn start(binary: &Path) -> Result<Self> {
        let dir = tempfile::tempdir().context("making a temporary directory")?;
        Ok(Self {
            agent: Program::new(binary, dir.path().join("zone.log")),
            canary: Program::new(binary, dir.path().join("canary.log")),
            cluster: Cluster::start()?,
            hub: Hub::start(binary)?,
            binary: binary.to_owned(),
            dir,
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
        match join {
            Some(join) => self.start_agent_with(&["--join", join]),
            None => self.start_agent_with(&[]),
        }
    }

    /// Starts the agent with more words.
    pub(super) fn start_agent_with(&mut self, more: &[&str]) -> Result<()> {
        let word = |path: PathBuf| path.display().to_string();
        let mut words = vec!["zone".to_owned()];
        words.extend(["--kubeconfig".to_owned(), word(self.credential())]);
        words.extend(["--data-dir".to_owned(), word(self.dir.path().join("zone"))]);
        words.extend(more.iter().map(|&word| word.to_owned()));
        self.agent.start(&words)
    }

    /// Starts a zone with an API of its own.
    pub(super) fn start_canary(&mut self, more: &[&str]) -> Result<()> {
        let data = self.dir.path().join("canary").display().to_string();
        let mut words = vec!["zone".to_owned(), "--data-dir".to_owned(), data];
        words.extend(more.iter().map(|&word| word.to_owned()));
        self.canary.start(&words)
    }

    /// An administrator of that zone.
    pub(super) fn canary(&self) -> Kubectl {
        Kubectl::new(&self.dir.path().join("canary/kubeconfig"))
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
