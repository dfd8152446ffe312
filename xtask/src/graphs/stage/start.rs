//! How each stage begins.

use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::{NAMESPACE, On, Stage};
use crate::audit::Audit;
use crate::cluster::{Cluster, free_ports};
use crate::graphs::api::Api;
use crate::hub::Hub;
use crate::program::Program;

/// The zones of `up`; steps look at the first.
pub(super) const ZONES: [&str; 2] = ["zone-a", "zone-b"];
/// The zone that is a process of its own.
const ZONE: &str = "eu-1";

// === impl Stage ===

impl Stage {
    pub(in super::super) fn start(on: On, binary: &Path) -> Result<Self> {
        let dir = tempfile::tempdir().context("making a temporary directory")?;
        match on {
            On::Up => Self::up(binary, dir),
            On::Zone => Self::zone(binary, dir),
            On::Kubernetes => Self::kubernetes(binary, dir),
        }
    }

    fn up(binary: &Path, dir: TempDir) -> Result<Self> {
        let words = format!("up --zones {}", ZONES.join(","));
        let hub = Api {
            binary: binary.to_owned(),
            kubeconfig: dir.path().join("data/kubeconfig"),
            zone: None,
        };
        let here = Api {
            zone: Some(ZONES[0]),
            ..hub.clone()
        };
        let stage = Self {
            definitions: hub.clone(),
            instances: hub,
            ..Self::with(On::Up, here, dir)
        };
        stage.serving(&words, &ZONES)
    }

    fn zone(binary: &Path, dir: TempDir) -> Result<Self> {
        let hub = Hub::start_to_stay(binary)?;
        let definitions = Api {
            binary: binary.to_owned(),
            kubeconfig: hub.kubeconfig().to_owned(),
            zone: None,
        };
        let admin = definitions.kubectl();
        admin.make_zone(ZONE)?;
        let words = format!("zone --simulate-workloads --join {}", admin.join(ZONE)?);
        let here = Api {
            kubeconfig: dir.path().join("data/kubeconfig"),
            ..definitions.clone()
        };
        let stage = Self {
            definitions,
            hub: Some(hub),
            ..Self::with(On::Zone, here, dir)
        };
        stage.serving(&words, &[ZONE])
    }

    fn kubernetes(binary: &Path, dir: TempDir) -> Result<Self> {
        let cluster = Cluster::start_audited()?;
        let here = Api {
            binary: binary.to_owned(),
            kubeconfig: cluster.kubeconfig().to_owned(),
            zone: None,
        };
        let credential = dir.path().join("agent.kubeconfig");
        let words = ["zone", "--standalone", "--kubeconfig"].map(str::to_owned);
        let words = words.into_iter().chain([credential.display().to_string()]);
        Ok(Self {
            words: words.collect(),
            audit: Some(Audit::new(cluster.audit())),
            cluster: Some(cluster),
            ..Self::with(On::Kubernetes, here, dir)
        })
    }

    /// One API for everything.
    fn with(on: On, here: Api, dir: TempDir) -> Self {
        Self {
            runner: Program::new(&here.binary, dir.path().join("runner.log")),
            words: Vec::new(),
            on,
            hub: None,
            cluster: None,
            audit: None,
            definitions: here.clone(),
            instances: here.clone(),
            here,
            dir,
        }
    }

    /// Starts what serves an API of its own, always at the same address.
    fn serving(mut self, words: &str, zones: &[&str]) -> Result<Self> {
        let [port] = free_ports()?;
        let data = self.dir.path().join("data");
        let words = format!("{words} --listen 127.0.0.1:{port} --data-dir");
        self.words = words.split(' ').map(str::to_owned).collect();
        self.words.push(data.display().to_string());
        self.start_runner()?;
        let kubectl = self.instances.kubectl();
        kubectl.ok(&["create", "namespace", NAMESPACE])?;
        // More is deleted here than anybody would without being asked.
        let budget = r#"{"spec":{"deletionBudget":{"max":100000}}}"#;
        for zone in zones {
            let words = ["patch", "zone", zone, "--type=merge", "-p", budget];
            self.definitions.kubectl().ok(&words)?;
        }
        Ok(self)
    }
}
