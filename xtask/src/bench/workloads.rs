//! The loads, one after the other on one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::future::try_join_all;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::cpu;
use super::load::Client;
use super::target::Target;

/// How much of each load.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    clients: usize,
    creates: usize,
    gets: usize,
    lists: usize,
    watchers: usize,
    events: usize,
    /// Objects in all when memory is measured.
    objects: usize,
}

/// One of the loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Load {
    Create,
    Get,
    List,
    Events,
    Memory,
}

/// What was measured.
#[derive(Default)]
pub(crate) struct Figures {
    create: Cost,
    get: Cost,
    list_500: Cost,
    list_5000: Cost,
    event: Cost,
    memory: u64,
    /// From the start of the process to ready, with all objects.
    pub(crate) restart: Option<Duration>,
}

/// The cost of one operation.
#[derive(Clone, Copy, Default)]
struct Cost {
    per_second: f64,
    cpu_micros: f64,
}

/// One line of the table.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    value: Option<f64>,
    unit: &'static str,
    /// Whether more is better.
    more: bool,
}

const PATH: &str = "/api/v1/namespaces/bench/configmaps";

// === impl Size ===

impl Size {
    pub(crate) fn full() -> Self {
        Self {
            clients: 64,
            creates: 20_000,
            gets: 40_000,
            lists: 100,
            watchers: 500,
            events: 300,
            objects: 100_000,
        }
    }

    pub(crate) fn short() -> Self {
        Self {
            creates: 6_000,
            gets: 4_000,
            lists: 10,
            events: 30,
            objects: 10_000,
            ..Self::full()
        }
    }
}

// === impl Line ===

impl Line {
    pub(crate) fn text(&self) -> String {
        match self.value {
            Some(value) if value >= 100.0 => format!("{value:.0} {}", self.unit),
            Some(value) => format!("{value:.1} {}", self.unit),
            None => "-".to_owned(),
        }
    }

    /// How many times better the first is.
    pub(crate) fn ratio(&self, other: &Self) -> String {
        match (self.value, other.value) {
            (Some(ours), Some(theirs)) if self.more => format!("{:.1}", ours / theirs),
            (Some(ours), Some(theirs)) => format!("{:.1}", theirs / ours),
            _ => "-".to_owned(),
        }
    }
}

// === impl Figures ===

impl Figures {
    pub(crate) fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let costs: [(&'static str, &'static str, Cost); 5] = [
            ("create, 64 clients", "create, server CPU", self.create),
            ("get, 64 clients", "get, server CPU", self.get),
            ("list of 500", "list of 500, server CPU", self.list_500),
            ("list of 5,000", "list of 5,000, server CPU", self.list_5000),
            (
                "events delivered to 500 watchers",
                "event, server CPU per delivery",
                self.event,
            ),
        ];
        for (rate, cpu, cost) in costs {
            lines.push(Line {
                name: rate,
                value: Some(cost.per_second),
                unit: "/s",
                more: true,
            });
            lines.push(Line {
                name: cpu,
                value: Some(cost.cpu_micros),
                unit: "µs",
                more: false,
            });
        }
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let memory = self.memory as f64 / 1e6;
        let name = "memory with 100,000 ConfigMaps";
        lines.push(Line {
            name,
            value: Some(memory),
            unit: "MB",
            more: false,
        });
        let restart = self.restart.map(|time| time.as_secs_f64() * 1e3);
        let name = "start to ready with 100,000 ConfigMaps";
        lines.push(Line {
            name,
            value: restart,
            unit: "ms",
            more: false,
        });
        lines
    }
}

/// Puts a server under all loads.
pub(crate) async fn run(target: &Target, size: Size, only: &[Load]) -> Result<Figures> {
    let mut first = Client::connect(target).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}});
    let body = Bytes::from(namespace.to_string());
    first
        .call(
            Method::POST,
            "/api/v1/namespaces",
            body,
            StatusCode::CREATED,
        )
        .await?;
    let mut figures = Figures::default();
    let next = Arc::new(AtomicUsize::new(0));
    eprintln!("creating {} ConfigMaps", size.creates);
    figures.create = create(target, size, size.creates, &next).await?;
    let wanted = |load| only.is_empty() || only.contains(&load);
    if wanted(Load::Get) {
        eprintln!("getting them {} times", size.gets);
        figures.get = get(target, size).await?;
    }
    if wanted(Load::List) {
        eprintln!("listing 500 and 5,000 of them");
        figures.list_500 = list(target, 500, size.lists * 5).await?;
        figures.list_5000 = list(target, 5_000, size.lists / 2).await?;
    }
    if wanted(Load::Events) {
        eprintln!("{} events to {} watchers", size.events, size.watchers);
        figures.event = events(target, size).await?;
    }
    if wanted(Load::Memory) {
        let more = size.objects.saturating_sub(size.creates);
        eprintln!("creating {more} more");
        create(target, size, more, &next).await?;
    }
    figures.memory = cpu::memory(&target.pids)?;
    Ok(figures)
}

/// A ConfigMap of about one kibibyte.
fn config_map(name: &str) -> Bytes {
    let data: Value = json!({"content": "x".repeat(900)});
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "bench", "labels": {"app": "bench"}},
        "data": data,
    });
    Bytes::from(map.to_string())
}

/// Runs `work` and says what one of `count` operations took.
async fn cost(
    target: &Target,
    count: usize,
    work: impl Future<Output = Result<()>>,
) -> Result<Cost> {
    let (cpu, started) = (cpu::time(&target.pids)?, Instant::now());
    work.await?;
    let (took, cpu) = (started.elapsed(), cpu::time(&target.pids)? - cpu);
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let count = count as f64;
    Ok(Cost {
        per_second: count / took.as_secs_f64(),
        cpu_micros: cpu.as_secs_f64() * 1e6 / count,
    })
}

async fn clients(target: &Target, count: usize) -> Result<Vec<Client>> {
    try_join_all((0..count).map(|_| Client::connect(target))).await
}

async fn create(
    target: &Target,
    size: Size,
    count: usize,
    next: &Arc<AtomicUsize>,
) -> Result<Cost> {
    let clients = clients(target, size.clients).await?;
    let end = next.load(Ordering::Relaxed) + count;
    let work = clients.into_iter().map(|mut client| {
        let next = Arc::clone(next);
        spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= end {
                    return Ok(());
                }
                let body = config_map(&format!("map-{index:06}"));
                client
                    .call(Method::POST, PATH, body, StatusCode::CREATED)
                    .await?;
            }
        })
    });
    let measured = cost(target, count, async { join(work.collect()).await }).await;
    next.store(end, Ordering::Relaxed);
    measured
}

async fn get(target: &Target, size: Size) -> Result<Cost> {
    let clients = clients(target, size.clients).await?;
    let each = size.gets / size.clients;
    let names = size.creates;
    let work = clients.into_iter().enumerate().map(|(number, mut client)| {
        spawn(async move {
            for turn in 0..each {
                // Spread over all objects, the same ones in every run.
                let index = (number * 7_919 + turn * 104_729) % names;
                let path = format!("{PATH}/map-{index:06}");
                client
                    .call(Method::GET, &path, Bytes::new(), StatusCode::OK)
                    .await?;
            }
            Ok(())
        })
    });
    cost(target, each * size.clients, async {
        join(work.collect()).await
    })
    .await
}

async fn list(target: &Target, page: usize, count: usize) -> Result<Cost> {
    const CLIENTS: usize = 4;
    let clients = clients(target, CLIENTS).await?;
    let each = count.div_ceil(CLIENTS);
    let path = format!("{PATH}?limit={page}");
    let work = clients.into_iter().map(|mut client| {
        let path = path.clone();
        spawn(async move {
            for _ in 0..each {
                client
                    .call(Method::GET, &path, Bytes::new(), StatusCode::OK)
                    .await?;
            }
            Ok(())
        })
    });
    cost(target, each * CLIENTS, async { join(work.collect()).await }).await
}

/// One writer, many watchers: every watcher must see every event.
async fn events(target: &Target, size: Size) -> Result<Cost> {
    let mut writer = Client::connect(target).await?;
    let listed = writer.get(&format!("{PATH}?limit=1")).await?;
    let listed: Value = serde_json::from_slice(&listed).context("reading a list")?;
    let from = listed["metadata"]["resourceVersion"]
        .as_str()
        .context("a list's revision")?;
    let path = format!("{PATH}?watch=1&resourceVersion={from}");
    let seen = Arc::new(AtomicUsize::new(0));
    let mut watching = Vec::new();
    for client in clients(target, size.watchers).await? {
        let mut body = client.watch(&path).await?;
        let seen = Arc::clone(&seen);
        let wanted = size.events;
        watching.push(spawn(async move {
            let mut own = 0;
            while own < wanted {
                let frame = body
                    .frame()
                    .await
                    .context("a watch ended")?
                    .context("a watch broke")?;
                let lines = frame.data_ref().map_or(0, |data| count_lines(data));
                own += lines;
                seen.fetch_add(lines, Ordering::Relaxed);
            }
            Ok(())
        }));
    }
    let deliveries = size.events * size.watchers;
    let work = async {
        for index in 0..size.events {
            let body = config_map(&format!("event-{index:06}"));
            writer
                .call(Method::POST, PATH, body, StatusCode::CREATED)
                .await?;
        }
        join(watching).await
    };
    cost(target, deliveries, work).await
}

fn count_lines(data: &[u8]) -> usize {
    data.iter().filter(|byte| **byte == b'\n').count()
}

/// A part of the load, on any core, from now on.
fn spawn(work: impl Future<Output = Result<()>> + Send + 'static) -> JoinHandle<Result<()>> {
    #[expect(clippy::disallowed_methods, reason = "the load ends with the process")]
    tokio::spawn(work)
}

async fn join(parts: Vec<JoinHandle<Result<()>>>) -> Result<()> {
    for part in try_join_all(parts)
        .await
        .context("a part of the load ended early")?
    {
        part?;
    }
    Ok(())
}
