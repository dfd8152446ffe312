//! A hub and a zone in one process.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use deltaplane_client::{remote, request};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::Outcome;
use super::account::{Account, Server};
use super::stage::{self, FLEET, RBAC, Stage, appears, create, free_address};
use crate::program::Program;

const ZONE: &str = "zone-a";
const READY: Duration = Duration::from_secs(60);
const WAIT: Duration = Duration::from_secs(3);

struct Up {
    kubeconfig: PathBuf,
    admin: Client,
    _program: Program,
}

impl Up {
    async fn start(stage: &Stage, name: &str) -> Result<Self> {
        let data = stage.directory(name);
        let words = [
            "up".to_owned(),
            "--listen".to_owned(),
            free_address()?,
            "--data-dir".to_owned(),
            data.display().to_string(),
            "--zones".to_owned(),
            ZONE.to_owned(),
        ];
        let log = stage.directory(&format!("{name}.log"));
        let mut program = Program::new(&stage.binary, log);
        program.start(&words)?;
        let kubeconfig = data.join("kubeconfig");
        let path = format!("{FLEET}/zones/{ZONE}");
        let admin = appears(READY, async || {
            program.process()?;
            if !kubeconfig.is_file() {
                return Ok(None);
            }
            let admin = remote(&kubeconfig).await?;
            let zone = request::get::<Value>(&admin, &path).await.ok();
            let connected = zone.is_some_and(|zone| zone["status"]["connection"] == "Connected");
            Ok(connected.then_some(admin))
        });
        let Some(admin) = admin.await? else {
            bail!("it did not become ready:\n{}", program.log());
        };
        Ok(Self {
            kubeconfig,
            admin,
            _program: program,
        })
    }

    /// The administrator, in the zone.
    async fn zone(&self) -> Result<Client> {
        let config = Kubeconfig::read_from(&self.kubeconfig)?;
        let options = KubeConfigOptions {
            context: Some(ZONE.to_owned()),
            ..KubeConfigOptions::default()
        };
        let config = kube::Config::from_custom_kubeconfig(config, &options).await?;
        Ok(Client::try_from(config)?)
    }
}

/// An account of the hub asks the zone, where an account of the same name may do everything.
pub(super) async fn account_of_the_same_name(stage: &Stage) -> Result<Outcome> {
    let up = Up::start(stage, "up-accounts").await?;
    let zone = up.zone().await?;
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    stage::account(&zone, "web", &everything).await?;
    let account = Account {
        server: Server::of(&up.kubeconfig)?,
        prefix: format!("/zones/{ZONE}"),
        token: stage::account(&up.admin, "web", &json!([])).await?,
    };
    let answer = account.get("/api/v1/secrets").await?;
    Ok(match answer.status.is_success() {
        true => Outcome::Succeeded("it reads the zone's Secrets".to_owned()),
        false => Outcome::Refused(answer.brief()),
    })
}

/// An account of the hub asks a zone as the zone's administrator.
pub(super) async fn impersonation_of_the_zone(stage: &Stage) -> Result<Outcome> {
    let up = Up::start(stage, "up-impersonation").await?;
    let account = Account {
        server: Server::of(&up.kubeconfig)?,
        prefix: format!("/zones/{ZONE}"),
        token: stage::account(&up.admin, "actor", &json!([])).await?,
    };
    let headers = [
        ("impersonate-user", "admin"),
        ("impersonate-group", "system:masters"),
    ];
    let answer = account.get_with("/api/v1/secrets", &headers).await?;
    Ok(match answer.status.is_success() {
        true => Outcome::Succeeded("it reads the zone's Secrets".to_owned()),
        false => Outcome::Refused(answer.brief()),
    })
}

pub(super) async fn deleted_zone_answers(stage: &Stage) -> Result<Outcome> {
    let up = Up::start(stage, "up-deleted").await?;
    let zone = up.zone().await?;
    create(
        &zone,
        &format!("{RBAC}/clusterroles"),
        &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "there"}, "rules": []}),
    )
    .await?;
    let path = format!("{FLEET}/zones/{ZONE}");
    request::delete(&up.admin, &path, &json!({})).await?;
    let gone = appears(WAIT, async || {
        let found = request::get::<Value>(&up.admin, &path).await;
        Ok(found.is_err().then_some(()))
    });
    gone.await?.context("the zone stays")?;
    let refused = appears(WAIT, async || {
        let path = format!("{RBAC}/clusterroles/there");
        let answer = request::get::<Value>(&zone, &path).await;
        Ok(answer.err().map(|error| error.to_string()))
    });
    let refused = refused.await?;
    ensure!(refused.as_deref() != Some(""), "an error without words");
    Ok(match refused {
        Some(why) => Outcome::Refused(format!("{why:.80}")),
        None => Outcome::Succeeded("it answers".to_owned()),
    })
}
