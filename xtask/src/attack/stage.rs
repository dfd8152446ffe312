//! The hub that is attacked, a zone that keeps to the rules, and a bystander.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use deltaplane_client::remote;
use deltaplane_client::request::{self, Patch};
use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::PROMPT;
use super::account::{Account, Server};
use crate::fleet::authored;
use crate::hub::Hub;
use crate::program::Program;

pub(super) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
pub(super) const FLEET: &str = "/apis/fleet.deltaplane.io/v1alpha1";
pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The zone that keeps to the rules.
pub(super) const ZONE: &str = "good";
const READY: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

pub(super) struct Stage {
    pub(super) binary: PathBuf,
    pub(super) hub: Hub,
    pub(super) server: Server,
    /// At the hub.
    pub(super) admin: Client,
    /// In the zone that keeps to the rules.
    pub(super) there: Client,
    bystander: Account,
    directory: TempDir,
    _zone: Program,
}

/// Waits until something is there, but not for ever.
pub(super) async fn appears<T>(
    patience: Duration,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        if let Some(found) = look().await? {
            return Ok(Some(found));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(None)
}

pub(super) async fn create(client: &Client, path: &str, object: &Value) -> Result<Value> {
    let made = request::create::<Value>(client, path, object).await;
    made.with_context(|| format!("making {object} at {path}"))
}

/// A free address.
pub(super) fn free_address() -> Result<String> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    Ok(free.context("looking for a free port")?.to_string())
}

/// Makes a service account with these rights everywhere; gives a token of it.
pub(super) async fn account(admin: &Client, name: &str, rules: &Value) -> Result<String> {
    let group = "rbac.authorization.k8s.io";
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let meta = json!({"name": name});
    create(
        admin,
        accounts,
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}),
    )
    .await?;
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole",
        "metadata": meta, "rules": rules});
    create(admin, &format!("{RBAC}/clusterroles"), &role).await?;
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": meta, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": name}]});
    create(admin, &format!("{RBAC}/clusterrolebindings"), &binding).await?;
    let wanted = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {}});
    let issued = create(admin, &format!("{accounts}/{name}/token"), &wanted).await?;
    let token = issued["status"]["token"].as_str();
    Ok(token.context("an answer without a token")?.to_owned())
}

// === impl Stage ===

impl Stage {
    pub(super) async fn start(binary: &Path) -> Result<Self> {
        let hub = Hub::start(binary)?;
        let admin = remote(hub.kubeconfig()).await?;
        let directory = tempfile::tempdir().context("making a temporary directory")?;
        let server = Server::of(hub.kubeconfig())?;
        let kind = json!({"apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
            "metadata": {"name": "configmaps"}, "spec": {"kind": "ConfigMap", "direction": "Both",
                "selector": {"matchLabels": {"cross": "yes"}}}});
        create(&admin, &format!("{FLEET}/syncedkinds"), &kind).await?;
        let join = authored::make_zone(&admin, ZONE).await?;
        let labels = json!({"metadata": {"labels": {"rules": "kept"}}});
        let path = format!("{FLEET}/zones/{ZONE}");
        request::patch::<Value>(&admin, &path, Patch::Merge, &labels).await?;
        let (zone, kubeconfig) = start_zone(binary, directory.path(), &join).await?;
        let there = remote(&kubeconfig).await?;
        let reading = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
        let token = account(&admin, "bystander", &reading).await?;
        let bystander = Account {
            server: server.clone(),
            prefix: String::new(),
            token,
        };
        Ok(Self {
            binary: binary.to_owned(),
            hub,
            server,
            admin,
            there,
            bystander,
            directory,
            _zone: zone,
        })
    }

    /// A new user with these rights.
    pub(super) async fn account(&self, name: &str, rules: &Value) -> Result<Account> {
        Ok(Account {
            server: self.server.clone(),
            prefix: String::new(),
            token: account(&self.admin, name, rules).await?,
        })
    }

    /// A directory that nobody has used.
    pub(super) fn directory(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// How long it takes that somebody else is served, at the hub.
    pub(super) async fn bystander(&self) -> Result<Duration, String> {
        served(&self.bystander, MAPS).await
    }

    /// How long it takes that somebody else is served, by a zone through the hub.
    pub(super) async fn bystander_of_zone(&self) -> Result<Duration, String> {
        served(&self.bystander, &format!("/zones/{ZONE}/version")).await
    }

    pub(super) fn log(&self) -> String {
        let log = self.hub.log();
        let lines: Vec<&str> = log.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

/// Returns how long an account waits for an answer.
pub(super) async fn served(account: &Account, path: &str) -> Result<Duration, String> {
    let began = Instant::now();
    match tokio::time::timeout(PROMPT, account.get(path)).await {
        Ok(Ok(answer)) if answer.status.is_success() => Ok(began.elapsed()),
        Ok(Ok(answer)) => Err(answer.brief()),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(_) => Err("no answer within 1 s".to_owned()),
    }
}

async fn start_zone(binary: &Path, directory: &Path, join: &str) -> Result<(Program, PathBuf)> {
    let data = directory.join(ZONE);
    let words = [
        "zone".to_owned(),
        "--listen".to_owned(),
        free_address()?,
        "--data-dir".to_owned(),
        data.display().to_string(),
        "--join".to_owned(),
        join.to_owned(),
    ];
    let mut program = Program::new(binary, directory.join("zone.log"));
    program.start(&words)?;
    let kubeconfig = data.join("kubeconfig");
    let ready = appears(READY, async || {
        program.process()?;
        Ok(kubeconfig.is_file().then_some(()))
    });
    if ready.await?.is_none() {
        bail!("the zone did not become ready:\n{}", program.log());
    }
    Ok((program, kubeconfig))
}
