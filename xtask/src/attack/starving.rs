//! A user or two take what others need.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use deltaplane_client::remote;
use http::StatusCode;
use serde_json::json;
use tokio::task::JoinSet;

use super::Outcome;
use super::account::{Account, Connection, Server, Window};
use super::stage::{self, FLEET, MAPS, RBAC, Stage, ZONE, create};
use crate::bench::cpu;
use crate::fleet::authored;
use crate::hub::Hub;

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// So much may the hub's memory grow by answers that nobody reads.
const CEILING: u64 = 300_000_000;
const SERVICES: &str = "/api/v1/namespaces/default/services";
/// How many of them there are on each connection, and how many connections.
const TABLES: usize = 40;
const READERS: usize = 15;
/// What a process grows and shrinks by itself.
const NOISE: u64 = 5_000_000;
/// How many accounts watch a zone. Eight were enough.
const WATCHERS: usize = 12;
const LOOK: Duration = Duration::from_millis(200);
/// Zones have so long to answer through the hub, and a little more.
const DEADLINE: Duration = Duration::from_secs(31);
/// The hub has its time to notice.
const SETTLE: Duration = Duration::from_secs(2);

/// Opens this many streams, and keeps them for as long as the result lives.
async fn unread(
    connection: &mut Connection,
    path: &str,
    accept: &str,
    count: usize,
) -> Result<Held> {
    let mut held = Held::default();
    for _ in 0..count {
        let answer = connection.begin_get(path, accept).await?;
        held.hold(answer);
    }
    Ok(held)
}

/// Requests that are under way, given up when dropped.
#[derive(Default)]
struct Held {
    tasks: JoinSet<()>,
    /// How many heads of answers have come.
    answered: Arc<AtomicUsize>,
}

impl Held {
    fn hold<T: Send>(&mut self, answer: impl Future<Output = T> + Send + 'static) {
        let answered = Arc::clone(&self.answered);
        self.tasks.spawn(async move {
            // The answer must live, or its stream would be reset.
            let _answer = answer.await;
            answered.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        });
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }
}

fn judged(bystander: Result<Duration, String>) -> Outcome {
    match bystander {
        Ok(took) => Outcome::Refused(format!("others served in {} ms", took.as_millis())),
        Err(why) => Outcome::Succeeded(format!("others not served: {why}")),
    }
}

/// 280 requests through a window that stays closed, on two connections of one account.
pub(super) async fn unread_answers_of_a_zone(stage: &Stage) -> Result<Outcome> {
    let attacker = stage.account("unread", &json!([])).await?;
    stage
        .bystander_of_zone()
        .await
        .map_err(anyhow::Error::msg)
        .context("before the attack")?;
    let mut first = attacker.connect(Window::Closed).await?;
    let mut second = attacker.connect(Window::Closed).await?;
    let path = format!("/zones/{ZONE}/version");
    let held = [
        unread(&mut first, &path, JSON, 140).await?,
        unread(&mut second, &path, JSON, 140).await?,
    ];
    tokio::time::sleep(SETTLE).await;
    let outcome = judged(stage.bystander_of_zone().await);
    drop(held);
    Ok(outcome)
}

/// The same, and the account that does it: answers that nobody reads end in time.
pub(super) async fn unread_answers_after_their_deadline(stage: &Stage) -> Result<Outcome> {
    let attacker = stage.account("patient", &json!([])).await?;
    let mut connection = attacker.connect(Window::Closed).await?;
    let path = format!("/zones/{ZONE}/version");
    let held = unread(&mut connection, &path, JSON, 200).await?;
    tokio::time::sleep(SETTLE).await;
    let full = attacker.get(&path).await?.status;
    ensure!(full == StatusCode::TOO_MANY_REQUESTS || full.is_success());
    tokio::time::sleep(DEADLINE).await;
    let answer = attacker.get(&path).await?;
    let mut more = attacker.connect(Window::Closed).await?;
    let again = unread(&mut more, &path, JSON, 100).await?;
    tokio::time::sleep(SETTLE).await;
    let outcome = match (answer.status.is_success(), stage.bystander_of_zone().await) {
        (true, Ok(_)) => Outcome::Refused("the exchanges were free again".to_owned()),
        (false, _) => Outcome::Succeeded(format!("they stay taken: {}", answer.brief())),
        (true, Err(why)) => Outcome::Succeeded(format!("they stay taken: {why}")),
    };
    drop((held, again));
    Ok(outcome)
}

/// Twelve accounts, each with watches of a zone through a window that stays closed.
pub(super) async fn unread_watches_of_a_zone(stage: &Stage) -> Result<Outcome> {
    let path = format!("/zones/{ZONE}{MAPS}?watch=1");
    let mut held = Vec::new();
    let mut connections = Vec::new();
    for number in 0..WATCHERS {
        let name = format!("watcher-{number}");
        let attacker = stage.account(&name, &json!([])).await?;
        permit_watches(stage, &name).await?;
        let mut connection = attacker.connect(Window::Closed).await?;
        held.push(unread(&mut connection, &path, JSON, 130).await?);
        connections.push(connection);
        tokio::time::sleep(LOOK).await;
    }
    tokio::time::sleep(SETTLE).await;
    let outcome = judged(stage.bystander_of_zone().await);
    drop(held);
    Ok(outcome)
}

/// Lets an account of the hub watch ConfigMaps in the zone that keeps to the rules.
async fn permit_watches(stage: &Stage, name: &str) -> Result<()> {
    let group = "rbac.authorization.k8s.io";
    let meta = json!({"name": name});
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": meta,
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]});
    create(&stage.there, &format!("{RBAC}/clusterroles"), &role).await?;
    let user = format!("hub:system:serviceaccount:default:{name}");
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": meta, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}]});
    create(
        &stage.there,
        &format!("{RBAC}/clusterrolebindings"),
        &binding,
    )
    .await?;
    Ok(())
}

/// Two accounts, each with one connection and 135 bodies that do not end.
pub(super) async fn half_sent_bodies(stage: &Stage) -> Result<Outcome> {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]);
    let mut held = Held::default();
    let mut connections = Vec::new();
    for name in ["half-one", "half-two"] {
        let attacker = stage.account(name, &rules).await?;
        let mut connection = attacker.connect(Window::Usual).await?;
        for _ in 0..135 {
            held.hold(connection.begin_post(MAPS).await?);
        }
        connections.push(connection);
    }
    tokio::time::sleep(SETTLE).await;
    let outcome = judged(stage.bystander().await);
    drop(held);
    Ok(outcome)
}

/// Two accounts wait for what a zone never gets that is not connected.
pub(super) async fn long_polls(stage: &Stage) -> Result<Outcome> {
    let rules = json!([{"apiGroups": ["fleet.deltaplane.io"],
        "resources": ["zones/_propagated"], "verbs": ["get"]}]);
    authored::make_zone(&stage.admin, "absent").await?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "awaited", "labels": {"cross": "yes"}}});
    let written = create(&stage.admin, MAPS, &map).await?;
    let revision = written["metadata"]["resourceVersion"].as_str();
    let revision = revision.context("an object without a revision")?;
    let path = format!("{FLEET}/zones/absent/_propagated?revision={revision}");
    let mut held = Vec::new();
    let mut connections = Vec::new();
    for name in ["poll-one", "poll-two"] {
        let attacker = stage.account(name, &rules).await?;
        let mut connection = attacker.connect(Window::Usual).await?;
        held.push(unread(&mut connection, &path, JSON, 135).await?);
        connections.push(connection);
    }
    tokio::time::sleep(SETTLE).await;
    let outcome = judged(stage.bystander().await);
    drop(held);
    Ok(outcome)
}

/// Forty Tables of all objects on each of fifteen connections, which nobody reads.
pub(super) async fn unread_tables(stage: &Stage) -> Result<Outcome> {
    let path = format!("{MAPS}?includeObject=Object");
    Memory::start(stage).await?.fill(&path).await
}

/// As many single objects, each rendered as a Table.
pub(super) async fn unread_objects(stage: &Stage) -> Result<Outcome> {
    let path = format!("{MAPS}/large-0?includeObject=Object");
    Memory::start(stage).await?.fill(&path).await
}

/// A hub of its own with large objects, an account that reads them, and a bystander.
struct Memory {
    hub: Hub,
    attacker: Account,
    bystander: Account,
}

// === impl Memory ===

impl Memory {
    async fn start(stage: &Stage) -> Result<Self> {
        let hub = Hub::start(&stage.binary)?;
        let admin = remote(hub.kubeconfig()).await?;
        for number in 0..24 {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("large-{number}")},
                "data": {"value": "x".repeat(900_000)}});
            create(&admin, MAPS, &map).await?;
        }
        let server = Server::of(hub.kubeconfig())?;
        let account = async |name: &str, resource: &str| -> Result<Account> {
            let rules = json!([{"apiGroups": [""], "resources": [resource],
                "verbs": ["list", "get"]}]);
            Ok(Account {
                server: server.clone(),
                prefix: String::new(),
                token: stage::account(&admin, name, &rules).await?,
            })
        };
        Ok(Self {
            attacker: account("reader", "configmaps").await?,
            bystander: account("bystander", "services").await?,
            hub,
        })
    }

    /// Asks for Tables without reading them, until the hub has grown too much, or everybody is
    /// answered and it grows no more.
    async fn fill(self, path: &str) -> Result<Outcome> {
        let before = cpu::memory(&[self.hub.pid()])?;
        let (mut connections, mut held) = (Vec::new(), Vec::new());
        for _ in 0..READERS {
            let mut connection = self.attacker.connect(Window::Closed).await?;
            held.push(unread(&mut connection, path, TABLE, TABLES).await?);
            connections.push(connection);
        }
        let answered = || held.iter().map(Held::answered).sum::<usize>();
        let mut most = before;
        let mut quiet = 0;
        for _ in 0..100 {
            tokio::time::sleep(LOOK).await;
            let now = cpu::memory(&[self.hub.pid()])?;
            let is_growing = now > most + NOISE || answered() < READERS * TABLES;
            quiet = if is_growing { 0 } else { quiet + 1 };
            most = most.max(now);
            if most.saturating_sub(before) > CEILING || quiet > 10 {
                break;
            }
        }
        let others = stage::served(&self.bystander, SERVICES).await;
        drop(held);
        let grown = most.saturating_sub(before);
        let megabytes = grown / 1_000_000;
        if grown > CEILING {
            return Ok(Outcome::Succeeded(format!(
                "the hub grew by {megabytes} MB"
            )));
        }
        Ok(match others {
            Ok(took) => Outcome::Refused(format!(
                "the hub grew by {megabytes} MB of 300, others served in {} ms",
                took.as_millis()
            )),
            Err(why) => Outcome::Succeeded(format!("others not served: {why}")),
        })
    }
}
