//! What plays: a real cluster, and `deltaplane zone --standalone` with a service account's rights.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::audit::Audit;
use crate::cluster::Cluster;
use crate::kubectl::{Kubectl, await_that};

/// Where instances are.
pub(super) const NAMESPACE: &str = "team";
/// Where the account is.
const SYSTEM: &str = "deltaplane-system";
const ACCOUNT: &str = "graphs";

/// Everything that runs; it ends with this value.
pub(super) struct Stage {
    // Dropped in this order: the runner first.
    runner: Option<Child>,
    pub(super) cluster: Cluster,
    pub(super) audit: Audit,
    binary: PathBuf,
    dir: TempDir,
}

// === impl Stage ===

impl Stage {
    pub(super) fn start(binary: &Path) -> Result<Self> {
        let cluster = Cluster::start_audited()?;
        Ok(Self {
            runner: None,
            audit: Audit::new(cluster.audit()),
            cluster,
            binary: binary.to_owned(),
            dir: tempfile::tempdir().context("making a temporary directory")?,
        })
    }

    /// An administrator.
    pub(super) fn admin(&self) -> Kubectl {
        Kubectl::new(self.cluster.kubeconfig())
    }

    /// Makes the account, with these rights besides those that every runner needs.
    pub(super) fn accredit(&self) -> Result<()> {
        let admin = self.admin();
        for name in [SYSTEM, NAMESPACE] {
            admin.ok(&["create", "namespace", name])?;
        }
        admin.ok(&["create", "serviceaccount", ACCOUNT, "-n", SYSTEM])?;
        self.allow(&[])?;
        admin.apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM}],
        }))?;
        let words = ["create", "token", ACCOUNT, "-n", SYSTEM, "--duration=24h"];
        let token = admin.ok(&words)?;
        self.cluster
            .kubeconfig_with(token.trim(), self.dir.path())?;
        Ok(())
    }

    /// What the account may do: what every runner needs, what the graphs here are made of, and this.
    pub(super) fn allow(&self, further: &[Value]) -> Result<()> {
        let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        let follow = ["get", "list", "watch"];
        let make = ["get", "list", "watch", "create", "patch"];
        let own = ["get", "list", "watch", "create", "patch", "delete"];
        let mut rules = vec![
            rule(
                "apiextensions.k8s.io",
                &["customresourcedefinitions"],
                &make,
            ),
            rule("kro.run", &["resourcegraphdefinitions"], &follow),
            rule("kro.run", &["resourcegraphdefinitions/status"], &["patch"]),
            rule("internal.kro.run", &["graphrevisions"], &make),
            rule("kro.run", &["shops", "pairs", "vaults"], &make),
            rule(
                "kro.run",
                &["shops/status", "pairs/status", "vaults/status"],
                &["patch"],
            ),
            rule("", &["configmaps", "services"], &own),
            rule("apps", &["deployments"], &own),
        ];
        rules.extend_from_slice(further);
        self.admin().apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": ACCOUNT}, "rules": rules,
        }))
    }

    /// Starts the runner.
    pub(super) fn start_runner(&mut self) -> Result<()> {
        let mut log = OpenOptions::new();
        let log = log.create(true).append(true).open(self.log_path());
        let child = Command::new(&self.binary)
            .args(["zone", "--standalone", "--kubeconfig"])
            .arg(self.dir.path().join("agent.kubeconfig"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.context("creating a log file")?)
            .spawn()
            .context("starting the runner")?;
        self.runner = Some(child);
        Ok(())
    }

    /// Kills the runner with no warning.
    pub(super) fn kill_runner(&mut self) -> Result<()> {
        let mut runner = self.runner.take().context("the runner is not running")?;
        runner.kill().context("killing the runner")?;
        runner.wait().context("waiting for the runner's end")?;
        Ok(())
    }

    /// The runner's process, which must be running.
    pub(super) fn runner(&mut self) -> Result<u32> {
        let runner = self.runner.as_mut().context("the runner was not started")?;
        let ended = runner.try_wait().context("looking after the runner")?;
        ensure!(ended.is_none(), "the runner ended: {ended:?}");
        Ok(runner.id())
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("runner.log")
    }

    /// What the runner has logged since its first start.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// An object in the namespace, if it is there.
    pub(super) fn find(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        self.admin().find(kind, name, NAMESPACE)
    }

    /// An object in the namespace, which is there.
    pub(super) fn get(&self, kind: &str, name: &str) -> Result<Value> {
        let found = self.find(kind, name)?;
        found.with_context(|| format!("there is no {kind} {name}"))
    }

    /// Waits until an object is there and as it should be.
    pub(super) fn until(
        &self,
        kind: &str,
        name: &str,
        is_fine: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let mut last = Value::Null;
        let waited = await_that(&format!("{kind} {name}"), || {
            // The kind may not be served yet.
            let found = self.find(kind, name).ok().flatten();
            last = found.clone().unwrap_or_default();
            Ok(found.filter(|object| is_fine(object)))
        });
        waited.with_context(|| format!("the last of it was {last}"))
    }

    pub(super) fn until_gone(&self, kind: &str, name: &str) -> Result<()> {
        await_that(&format!("the end of {kind} {name}"), || {
            Ok(self.find(kind, name)?.is_none().then_some(()))
        })
    }

    pub(super) fn until_state(&self, kind: &str, name: &str, state: &str) -> Result<Value> {
        self.until(kind, name, |object| object["status"]["state"] == state)
    }

    /// Waits until a definition, as it is now, has a condition.
    pub(super) fn until_definition(
        &self,
        name: &str,
        condition: &str,
        status: &str,
    ) -> Result<Value> {
        self.until("rgd", name, |object| {
            let found = self::condition(object, condition);
            found["status"] == status
                && found["observedGeneration"] == object["metadata"]["generation"]
        })
    }

    /// Changes an object.
    pub(super) fn merge(&self, kind: &str, name: &str, change: &Value) -> Result<()> {
        let change = change.to_string();
        let words = [
            "patch",
            kind,
            name,
            "-n",
            NAMESPACE,
            "--type=merge",
            "-p",
            &change,
        ];
        self.admin().ok(&words)?;
        Ok(())
    }

    pub(super) fn delete(&self, kind: &str, name: &str) -> Result<()> {
        let words = ["delete", kind, name, "-n", NAMESPACE, "--wait=false"];
        self.admin().ok(&words)?;
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
        let words = [
            "patch",
            "deployment",
            name,
            "-n",
            NAMESPACE,
            "--subresource=status",
            "--type=merge",
            "-p",
            &change,
        ];
        self.admin().ok(&words)?;
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(runner) = &mut self.runner {
            let _ = runner.kill();
            let _ = runner.wait();
        }
    }
}

/// The condition of a type, or nothing.
pub(super) fn condition<'o>(object: &'o Value, r#type: &str) -> &'o Value {
    let all = object["status"]["conditions"].as_array();
    let found = all.into_iter().flatten().find(|one| one["type"] == r#type);
    found.unwrap_or(&Value::Null)
}
