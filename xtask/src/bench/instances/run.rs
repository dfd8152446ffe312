//! One contender: instances are made, their definition is changed, and then nothing is.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use deltaplane_client::request::{self, Patch};
use deltaplane_client::{Event, Feed, ObjectKey, Pace, Query, RequestError, Resource, remote};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use kube::Client;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::contender::{Contender, Running};
use crate::audit::{Audit, Requests};
use crate::bench::cpu;
use crate::cluster::Cluster;

/// The graph, as both run it.
const DEFINITION: &str = include_str!("definition.yaml");
const NAMESPACE: &str = "bench";
/// So many instances are created at once.
const AT_ONCE: usize = 16;
/// Whoever has asked for nothing for so long is done.
const QUIET: Duration = Duration::from_secs(4);
/// No phase takes longer.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What was measured of one.
pub(super) struct Figures {
    pub(super) instances: usize,
    pub(super) made: Phase,
    pub(super) changed: Phase,
    /// Requests after the same definition was applied again, and nothing was touched.
    pub(super) same: Requests,
    /// Requests after the definition and all instances got an annotation that means nothing.
    pub(super) annotated: Requests,
    memory: u64,
}

pub(super) struct Phase {
    took: Duration,
    pub(super) requests: Requests,
    cpu: Duration,
    server_cpu: Duration,
}

/// A line of the table: a figure, and what it is.
pub(super) struct Line {
    pub(super) what: &'static str,
    value: f64,
    unit: Unit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// How many there are; nothing to compare.
    Count,
    /// More is better.
    PerSecond,
    /// Less is better.
    Requests,
    Milliseconds,
    Megabytes,
}

/// What is asked of a cluster.
struct Bench {
    cluster: Cluster,
    client: Client,
    controller: Running,
    audit: Audit,
    instances: usize,
    feed: BoxStream<'static, Event>,
}

pub(super) async fn measure(contender: &Contender, instances: usize) -> Result<Figures> {
    let mut bench = Bench::start(contender, instances).await?;
    let made = bench
        .phase("one", create_all)
        .await
        .context("new instances")?;
    let changed = bench.phase("two", change).await;
    let changed = changed.context("a changed definition")?;
    bench.apply(&definition("two")?).await?;
    let same = bench.settled().await?;
    bench.annotate().await?;
    let annotated = bench.settled().await?;
    Ok(Figures {
        instances,
        made,
        changed,
        same,
        annotated,
        memory: cpu::memory(&[bench.controller.pid()])?,
    })
}

/// The definition, whose settings say this.
pub(super) fn definition(revision: &str) -> Result<Value> {
    let text = DEFINITION.replace("revision: one", &format!("revision: {revision}"));
    serde_saphyr::from_str(&text).context("reading the definition")
}

fn definitions() -> Resource {
    let (plural, kind) = ("resourcegraphdefinitions", "ResourceGraphDefinition");
    Resource::cluster("kro.run", "v1alpha1", plural, kind)
}

fn sites() -> Resource {
    Resource::namespaced("kro.run", "v1alpha1", "sites", "Site")
}

fn name(at: usize) -> String {
    format!("site-{at:05}")
}

async fn create_all(client: Client, instances: usize) -> Result<()> {
    let path = sites().collection_path(Some(NAMESPACE));
    let creating = (0..instances).map(|at| {
        let object = json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "Site",
            "metadata": {"name": name(at), "namespace": NAMESPACE}, "spec": {},
        });
        let (client, path) = (client.clone(), path.clone());
        async move { request::create::<IgnoredAny>(&client, &path, &object).await }
    });
    let all = stream::iter(creating).buffer_unordered(AT_ONCE);
    all.try_collect::<Vec<_>>().await.context("creating")?;
    Ok(())
}

async fn change(client: Client, _: usize) -> Result<()> {
    apply(&client, &definition("two")?).await?;
    Ok(())
}

async fn apply(client: &Client, definition: &Value) -> Result<(), RequestError> {
    let path = definitions().object_path(&ObjectKey::cluster("site"));
    let path = format!("{path}?fieldManager=bench&force=true");
    request::apply::<IgnoredAny>(client, &path, definition).await?;
    Ok(())
}

/// Whether an instance is ready, and what it says came all the way.
fn is_ready(site: &Value, revision: &str) -> bool {
    let status = &site["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let ready = conditions
        .into_iter()
        .any(|one| one["type"] == "Ready" && one["status"] == "True");
    ready && status["state"] == "ACTIVE" && status["revision"] == revision
}

// === impl Bench ===

impl Bench {
    async fn start(contender: &Contender, instances: usize) -> Result<Self> {
        let cluster = tokio::task::block_in_place(Cluster::start_audited)?;
        let client = remote(cluster.kubeconfig()).await?;
        let controller = tokio::task::block_in_place(|| contender.start(&cluster))?;
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        request::create::<IgnoredAny>(&client, "/api/v1/namespaces", &namespace).await?;
        let feed = Feed::new(client.clone(), Query::all(sites()), Pace::system());
        let mut bench = Self {
            audit: Audit::new(cluster.audit()),
            cluster,
            client,
            controller,
            instances,
            feed: feed.events(),
        };
        bench.define().await?;
        bench.settled().await?;
        Ok(bench)
    }

    /// Applies the definition, as soon as its kind is served, and waits until it is ready.
    async fn define(&mut self) -> Result<()> {
        let started = Instant::now();
        let definition = definition("one")?;
        while let Err(error) = apply(&self.client, &definition).await {
            ensure!(started.elapsed() < PATIENCE, "{error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let path = definitions().object_path(&ObjectKey::cluster("site"));
        loop {
            let found: Value = request::get(&self.client, &path).await?;
            if found["status"]["state"] == "Active" {
                return Ok(());
            }
            if started.elapsed() > Duration::from_secs(60) {
                bail!("the definition is not ready: {}", found["status"]);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn apply(&self, definition: &Value) -> Result<()> {
        apply(&self.client, definition).await?;
        Ok(())
    }

    /// Does something, and waits until all instances are ready at a revision.
    async fn phase<F>(
        &mut self,
        revision: &str,
        act: impl FnOnce(Client, usize) -> F,
    ) -> Result<Phase>
    where
        F: Future<Output = Result<()>>,
    {
        let controller = [self.controller.pid()];
        let server = self.cluster.pids();
        let before = (cpu::time(&controller)?, cpu::time(&server)?);
        let started = Instant::now();
        let acting = act(self.client.clone(), self.instances);
        let waiting = until_ready(&mut self.feed, self.instances, revision);
        let both = async { tokio::try_join!(acting, waiting) };
        let done = tokio::time::timeout(PATIENCE, both).await;
        done.context("not all became ready")??;
        let took = started.elapsed();
        let requests = self.settled().await?;
        Ok(Phase {
            took,
            requests,
            cpu: cpu::time(&controller)?.saturating_sub(before.0),
            server_cpu: cpu::time(&server)?.saturating_sub(before.1),
        })
    }

    /// All requests until the controller asks for nothing any more.
    async fn settled(&mut self) -> Result<Requests> {
        let mut all = Requests::new();
        let mut last = Instant::now();
        while last.elapsed() < QUIET {
            let news = self.audit.news()?;
            if !news.is_empty() {
                last = Instant::now();
            }
            for (what, times) in news {
                *all.entry(what).or_default() += times;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(all)
    }

    /// Puts a word on the definition and on all instances that means nothing to anybody.
    async fn annotate(&self) -> Result<()> {
        let note = json!({"metadata": {"annotations": {"bench": "note"}}});
        let mut paths = vec![definitions().object_path(&ObjectKey::cluster("site"))];
        let keys = (0..self.instances).map(|at| ObjectKey::new(NAMESPACE, &name(at)));
        paths.extend(keys.map(|key| sites().object_path(&key)));
        let patching = paths
            .iter()
            .map(|path| request::patch::<IgnoredAny>(&self.client, path, Patch::Merge, &note));
        let all = stream::iter(patching).buffer_unordered(AT_ONCE);
        all.try_collect::<Vec<_>>().await.context("annotating")?;
        Ok(())
    }
}

async fn until_ready(
    feed: &mut BoxStream<'static, Event>,
    instances: usize,
    revision: &str,
) -> Result<()> {
    let mut ready = BTreeSet::new();
    while ready.len() < instances {
        let event = feed.next().await.context("a feed never ends")?;
        if let Event::Applied(item) = event {
            let site: Value = item.parse().context("reading an instance")?;
            match is_ready(&site, revision) {
                true => ready.insert(item.header.name.clone()),
                false => ready.remove(&item.header.name),
            };
        }
    }
    Ok(())
}

// === impl Phase ===

impl Phase {
    pub(super) fn count(&self) -> usize {
        self.requests.values().sum()
    }
}

// === impl Figures ===

impl Figures {
    pub(super) fn lines(&self) -> Vec<Line> {
        #[expect(clippy::cast_precision_loss, reason = "there are not so many")]
        let number = |count: usize| count as f64;
        let instances = number(self.instances);
        let rate = |phase: &Phase| instances / phase.took.as_secs_f64();
        let each = |time: Duration| time.as_secs_f64() * 1e3 / instances;
        let requests = |phase: &Phase| number(phase.count()) / instances;
        let total = |requests: &Requests| number(requests.values().sum());
        let line = |what, value, unit| Line { what, value, unit };
        let (made, changed) = (&self.made, &self.changed);
        #[expect(clippy::cast_precision_loss, reason = "there is not so much")]
        let memory = self.memory as f64 / 1e6;
        vec![
            line("instances", instances, Unit::Count),
            line("new instances to Ready", rate(made), Unit::PerSecond),
            line("requests for each", requests(made), Unit::Requests),
            line(
                "controller CPU for each",
                each(made.cpu),
                Unit::Milliseconds,
            ),
            line(
                "API server CPU for each",
                each(made.server_cpu),
                Unit::Milliseconds,
            ),
            line(
                "instances to a changed definition",
                rate(changed),
                Unit::PerSecond,
            ),
            line("requests for each", requests(changed), Unit::Requests),
            line(
                "controller CPU for each",
                each(changed.cpu),
                Unit::Milliseconds,
            ),
            line(
                "API server CPU for each",
                each(changed.server_cpu),
                Unit::Milliseconds,
            ),
            line(
                "the same definition again, requests in all",
                total(&self.same),
                Unit::Requests,
            ),
            line(
                "annotations on definition and instances, requests in all",
                total(&self.annotated),
                Unit::Requests,
            ),
            line("controller memory at the end", memory, Unit::Megabytes),
        ]
    }
}

// === impl Line ===

impl Line {
    pub(super) fn text(&self) -> String {
        let value = self.value;
        match self.unit {
            Unit::Count => format!("{value}"),
            Unit::PerSecond => format!("{value:.1} /s"),
            Unit::Requests if value.fract() == 0.0 => format!("{value}"),
            Unit::Requests => format!("{value:.2}"),
            Unit::Milliseconds => format!("{value:.2} ms"),
            Unit::Megabytes => format!("{value:.0} MB"),
        }
    }

    /// How many times better it is than another's.
    pub(super) fn ratio(&self, other: &Self) -> String {
        let ratio = match self.unit {
            Unit::Count => return "-".to_owned(),
            Unit::PerSecond => self.value / other.value,
            Unit::Requests | Unit::Milliseconds | Unit::Megabytes => other.value / self.value,
        };
        match ratio.is_finite() {
            true => format!("{ratio:.1}"),
            false => "-".to_owned(),
        }
    }
}
