//! One run with zones that are processes. This program plays their controllers: an object is ready
//! in a zone when its status there says so, and that is said here.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use deltaplane_client::remote;
use deltaplane_client::request::{self, Patch};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::verdict::{End, Rules, judge};
use crate::bench::runtime;
use crate::fleet::{Happened, Seen};
use crate::hub::Hub;
use crate::kubectl::{Kubectl, await_that};
use crate::program::Program;
use crate::torture::random::Random;

/// A process, and what was seen of it.
struct Zone {
    name: String,
    program: Program,
    kubeconfig: std::path::PathBuf,
    client: Option<kube::Client>,
    has: Option<usize>,
    /// When it is to be ready at what it has, if it is not.
    ripe: Option<Instant>,
}

struct Scene<'a> {
    binary: &'a Path,
    hub: Hub,
    zones: Vec<Zone>,
    random: Random,
    began: Instant,
    seen: Vec<Seen>,
    kills: usize,
    _directory: TempDir,
}

/// The first is the canary.
const ZONES: [&str; 3] = ["canary-1", "rest-1", "rest-2"];
const PATH: &str = "/apis/example.com/v1/namespaces/team/gadgets/web";
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(10);

pub(super) fn run(binary: &Path, seed: u64, changes: usize) -> Result<()> {
    let mut scene = Scene::start(binary, seed)?;
    let runtime = runtime()?;
    runtime.block_on(scene.rollout(0, false))?;
    for turn in 1..=changes {
        scene.change(turn)?;
        // The last one is left alone.
        let dies = turn < changes;
        runtime.block_on(scene.rollout(turn, dies))?;
    }
    let stages = ZONES.iter().enumerate();
    let stages = stages.map(|(number, zone)| ((*zone).to_owned(), number.min(1)));
    let rules = Rules {
        stages: stages.collect(),
        bounds: vec![1, 1],
    };
    let end = End {
        acknowledged: changes,
        found: changes,
    };
    let findings = judge(&rules, &scene.seen, end);
    let (seen, kills) = (scene.seen.len(), scene.kills);
    println!("seed {seed}: {changes} changes, {kills} kills, {seen} events in three processes");
    for finding in &findings {
        println!("  {finding}");
    }
    ensure!(findings.is_empty(), "{} findings", findings.len());
    Ok(())
}

// === impl Scene ===

impl<'a> Scene<'a> {
    fn start(binary: &'a Path, seed: u64) -> Result<Self> {
        let directory = tempfile::tempdir().context("making a temporary directory")?;
        let hub = Hub::start_to_stay(binary)?;
        let kubectl = Kubectl::new(hub.kubeconfig());
        let mut zones = Vec::new();
        for name in ZONES {
            kubectl.make_zone(name)?;
            zones.push(Zone::start(name, binary, directory.path(), &kubectl)?);
        }
        kubectl.ok(&["label", "zone", ZONES[0], "tier=canary"])?;
        kubectl.ok(&["create", "namespace", "team"])?;
        kubectl.apply(&kind())?;
        let established = "--for=condition=Established";
        kubectl.ok(&[
            "wait",
            established,
            "crd/gadgets.example.com",
            "--timeout=60s",
        ])?;
        kubectl.apply(&json!({
            "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
            "metadata": {"name": "gadgets.example.com"},
            "spec": {"group": "example.com", "kind": "Gadget", "direction": "HubToZone"},
        }))?;
        kubectl.apply(&policy())?;
        kubectl.apply(&gadget(0))?;
        Ok(Self {
            binary,
            hub,
            zones,
            random: Random::new(seed, 0),
            began: Instant::now(),
            seen: Vec::new(),
            kills: 0,
            _directory: directory,
        })
    }

    /// Writes with kubectl, which is acknowledged when it is back.
    fn change(&self, turn: usize) -> Result<()> {
        Kubectl::new(self.hub.kubeconfig()).apply(&gadget(turn))
    }

    /// Follows a change until it is everywhere. The hub may die meanwhile.
    async fn rollout(&mut self, turn: usize, dies: bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let after = self.random.millis(0..1500);
        let mut death = dies.then(|| Instant::now() + after);
        while !self.zones.iter().all(|zone| zone.is_done(turn)) {
            if death.is_some_and(|death| death <= Instant::now()) {
                death = None;
                self.kills += 1;
                tokio::task::block_in_place(|| self.hub.restart(self.binary))?;
            }
            for number in 0..self.zones.len() {
                self.look(number).await?;
            }
            ensure!(
                Instant::now() < deadline,
                "turn {turn} is not everywhere; seen {:?}",
                self.seen
            );
            tokio::time::sleep(LOOK).await;
        }
        // Killed in the middle of the next one, or of this one's end.
        if death.is_some() {
            self.kills += 1;
            tokio::task::block_in_place(|| self.hub.restart(self.binary))?;
        }
        let kubeconfig = self.hub.kubeconfig().to_owned();
        let wait = move || {
            let words = [
                "wait",
                "--for=condition=Propagated",
                "propagationpolicy/web",
            ];
            let words = [&words[..], &["--timeout=60s"]].concat();
            Kubectl::new(&kubeconfig).ok(&words)
        };
        tokio::task::block_in_place(wait)?;
        Ok(())
    }

    /// Looks at a zone, and lets it be ready in its time.
    async fn look(&mut self, number: usize) -> Result<()> {
        let zone = &mut self.zones[number];
        let client = zone.client().await?;
        let turn = match request::get::<Value>(&client, PATH).await {
            Ok(object) => object["spec"]["turn"].as_u64(),
            // Its kind may not be served yet.
            Err(_) => None,
        };
        let turn = turn.and_then(|turn| usize::try_from(turn).ok());
        let mut happened = None;
        if turn.is_some() && turn != zone.has {
            zone.has = turn;
            zone.ripe = Some(Instant::now() + self.random.millis(0..300));
            happened = turn.map(Happened::Came);
        } else if let (Some(turn), Some(ripe)) = (zone.has, zone.ripe)
            && ripe <= Instant::now()
        {
            zone.ripe = None;
            happened = Some(Happened::Ready(turn));
        }
        let Some(what) = happened else {
            return Ok(());
        };
        self.seen.push(Seen {
            at: self.began.elapsed(),
            zone: zone.name.clone(),
            what,
        });
        if let Happened::Ready(turn) = what {
            let status = json!({"status": {"turn": turn}});
            let path = format!("{PATH}/status");
            let said = request::patch::<Value>(&client, &path, Patch::Merge, &status).await;
            said.context("saying that it is ready")?;
        }
        Ok(())
    }
}

// === impl Zone ===

impl Zone {
    fn start(name: &str, binary: &Path, directory: &Path, hub: &Kubectl) -> Result<Self> {
        let data = directory.join(name);
        let log = directory.join(format!("{name}.log"));
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let listen = free.context("looking for a free port")?.to_string();
        let (join, word) = (hub.join(name)?, data.display().to_string());
        let words = [
            "zone",
            "--listen",
            &listen,
            "--data-dir",
            &word,
            "--join",
            &join,
        ];
        let mut program = Program::new(binary, log);
        program.start(&words.map(str::to_owned))?;
        let kubeconfig = data.join("kubeconfig");
        await_that("a zone", || {
            program.process()?;
            Ok(kubeconfig.is_file().then_some(()))
        })?;
        Ok(Self {
            name: name.to_owned(),
            program,
            kubeconfig,
            client: None,
            has: None,
            ripe: None,
        })
    }

    async fn client(&mut self) -> Result<kube::Client> {
        self.program.process().context("looking after a zone")?;
        if self.client.is_none() {
            self.client = Some(remote(&self.kubeconfig).await?);
        }
        self.client.clone().context("it was made just now")
    }

    fn is_done(&self, turn: usize) -> bool {
        self.has == Some(turn) && self.ripe.is_none()
    }
}

fn kind() -> Value {
    let turn = json!({"type": "object", "properties": {"turn": {"type": "integer"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": turn, "status": turn},
                }},
            }],
        },
    })
}

fn policy() -> Value {
    let gate = ["linearlyReady(zone, zones, 1)"];
    json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web"},
        "spec": {
            "targets": [{
                "group": "example.com", "kind": "Gadget", "names": ["team/web"],
                "readyWhen": ["object.status.turn == object.spec.turn"],
            }],
            "stages": [
                {
                    "name": "canary", "zones": {"matchLabels": {"tier": "canary"}},
                    "propagateWhen": gate,
                },
                {"name": "rest", "propagateWhen": gate},
            ],
        },
    })
}

fn gadget(turn: usize) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": "web", "namespace": "team"}, "spec": {"turn": turn},
    })
}
