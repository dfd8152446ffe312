//! `cargo xtask takeover`: a cluster whose graphs kro runs is taken over, and handed back, both ways
//! round; instances are on their way out each time. Nothing is made again, stuck, or left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::audit::Audit;
use crate::cluster::Cluster;
use crate::kubectl::{Kubectl, await_that};
use crate::{golang, hub, peers};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use this binary instead of building one.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Who runs the graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Controller {
    Kro,
    Ours,
}

/// A process that ends with this value.
struct Running(Child);

/// A cluster and the programs that run its graphs.
struct Handover {
    cluster: Cluster,
    admin: Kubectl,
    audit: Audit,
    kro: PathBuf,
    ours: PathBuf,
    running: Option<Running>,
}

/// The uids of objects, by kind, namespace and name.
type Uids = BTreeMap<String, String>;

/// Kinds whose plurals are kro's, and how many instances there are of each.
const KINDS: [(&str, usize); 4] = [("Video", 20), ("Axis", 15), ("GitRepo", 10), ("Lambda", 5)];
const HOME: &str = "home";
const ELSEWHERE: &str = "elsewhere";
/// So many instances of the first kind are on their way out at each handover.
const LEAVING: usize = 4;
/// kro's rate limit is one for requests, not for instances.
const FAST: [&str; 4] = [
    "--metrics-bind-address=0",
    "--health-probe-bind-address=0",
    "--client-qps=5000",
    "--client-burst=5000",
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let ours = match &args.binary {
        Some(binary) => binary.clone(),
        None => hub::binary()?,
    };
    let kro = peers::path("kro")?;
    for first in [Controller::Kro, Controller::Ours] {
        Handover::play(first, &kro, &ours).with_context(|| format!("{} first", first.name()))?;
    }
    println!("2 runs: nothing was made again, stuck or left");
    Ok(())
}

// === impl Controller ===

impl Controller {
    fn name(self) -> &'static str {
        match self {
            Self::Kro => "kro",
            Self::Ours => "deltaplane",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Kro => Self::Ours,
            Self::Ours => Self::Kro,
        }
    }
}

// === impl Running ===

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// === impl Handover ===

impl Handover {
    /// The first makes everything, the other takes it over, and the first takes it back and ends it.
    fn play(first: Controller, kro: &Path, ours: &Path) -> Result<()> {
        let cluster = Cluster::start_audited()?;
        let mut handover = Self {
            admin: Kubectl::new(cluster.kubeconfig()),
            audit: Audit::new(cluster.audit()),
            cluster,
            kro: kro.to_owned(),
            ours: ours.to_owned(),
            running: None,
        };
        for namespace in [HOME, ELSEWHERE] {
            handover.admin.ok(&["create", "namespace", namespace])?;
        }
        let mut there = handover.begin(first)?;
        for (round, controller) in [first.other(), first].into_iter().enumerate() {
            handover.take_over(controller, round, &mut there)?;
        }
        handover.end(first)
    }

    fn start(&mut self, controller: Controller) -> Result<()> {
        let log = self
            .cluster
            .dir()
            .join(format!("{}.log", controller.name()));
        let log = File::options().append(true).create(true).open(log);
        let log = log.context("creating a log file")?;
        let kubeconfig = self.cluster.watched()?;
        let mut command = match controller {
            Controller::Kro => {
                let kinds = golang::kro_kinds()?;
                let kinds = kinds.to_str().context("a path that is not text")?;
                // As helm does when kro is installed.
                let words = ["apply", "--server-side", "--force-conflicts", "-f", kinds];
                self.admin.ok(&words)?;
                let mut command = Command::new(&self.kro);
                command.env("KUBECONFIG", kubeconfig).args(FAST);
                command
            }
            Controller::Ours => {
                let mut command = Command::new(&self.ours);
                command.args(["zone", "--standalone", "--graph-identity=controller"]);
                command.arg("--kubeconfig").arg(kubeconfig);
                command
            }
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", controller.name()))?;
        self.running = Some(Running(child));
        Ok(())
    }

    /// Definitions and instances are made by one.
    fn begin(&mut self, controller: Controller) -> Result<Uids> {
        self.start(controller)?;
        for kind in self.definition_kinds()? {
            let served = format!("crd {kind}");
            await_that(&served, || self.admin.find("crd", &kind, ""))?;
        }
        for (kind, _) in KINDS {
            self.admin.apply(&definition(kind))?;
        }
        for (kind, _) in KINDS {
            await_that(&format!("definition {kind}"), || {
                let name = kind.to_lowercase();
                let definition = self.admin.find("rgd", &name, "")?;
                let state = definition.map(|one| one["status"]["state"].clone());
                Ok((state == Some("Active".into())).then_some(()))
            })?;
        }
        let instances = KINDS.iter().flat_map(|(kind, count)| {
            (0..*count).map(|number| instance(kind, &name_of(kind, number)))
        });
        let list =
            json!({"apiVersion": "v1", "kind": "List", "items": instances.collect::<Vec<_>>()});
        self.admin.apply(&list)?;
        self.until_active(controller)?;
        let there = self.uids()?;
        println!(
            "{}: {} objects of {} instances",
            controller.name(),
            there.len(),
            total(0)
        );
        Ok(there)
    }

    /// Another goes on, while some instances are on their way out.
    fn take_over(&mut self, controller: Controller, round: usize, there: &mut Uids) -> Result<()> {
        self.running = None;
        let (kind, _) = KINDS[0];
        let leaving = (round * LEAVING)..((round + 1) * LEAVING);
        let leaving: Vec<String> = leaving.map(|number| name_of(kind, number)).collect();
        for name in &leaving {
            self.admin
                .ok(&["delete", kind, name, "-n", HOME, "--wait=false"])?;
        }
        self.audit.news()?;
        self.start(controller)?;
        for name in &leaving {
            let gone = format!("the end of {name}");
            await_that(&gone, || {
                Ok(self.admin.find(kind, name, HOME)?.is_none().then_some(()))
            })?;
        }
        self.until_active(controller)?;
        there.retain(|object, _| !leaving.iter().any(|name| belongs_to(object, name)));
        // Whatever is made again has another uid; whatever is left is one more.
        self.until_same(there)?;
        let requests = self.audit.news()?;
        let is_write = |what: &&String| {
            !["get", "list", "watch"]
                .iter()
                .any(|verb| what.starts_with(verb))
        };
        let writes = requests.iter().filter(|(what, _)| is_write(what));
        let writes: Vec<String> = writes
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        println!(
            "{} takes over: uids are equal; it wrote {}",
            controller.name(),
            writes.join(", ")
        );
        self.changes(controller, round)
    }

    /// A changed definition reaches the objects, in both namespaces.
    fn changes(&mut self, controller: Controller, round: usize) -> Result<()> {
        let (kind, _) = KINDS[1];
        let mut changed = definition(kind);
        let mark = format!("round {round}");
        for node in 0..2 {
            changed["spec"]["resources"][node]["template"]["data"]["mark"] = json!(mark);
        }
        self.admin.apply(&changed)?;
        let name = name_of(kind, 0);
        for namespace in [HOME, ELSEWHERE] {
            await_that(&format!("the change in {namespace}"), || {
                let map = self.admin.find("configmap", &name, namespace)?;
                let map = map.unwrap_or_default();
                Ok((map["data"]["mark"] == *mark).then_some(()))
            })?;
        }
        self.until_active(controller)
    }

    /// All instances and definitions end.
    fn end(&mut self, controller: Controller) -> Result<()> {
        for (kind, _) in KINDS {
            self.admin
                .ok(&["delete", kind, "-n", HOME, "--all", "--wait=false"])?;
        }
        await_that("the end of all objects", || {
            let left = self.uids()?;
            Ok(left.is_empty().then_some(()))
        })
        .with_context(|| format!("left are {:?}", self.uids()))?;
        for (kind, _) in KINDS {
            let name = kind.to_lowercase();
            self.admin.ok(&["delete", "rgd", &name, "--wait=false"])?;
        }
        // The garbage collector of a cluster deletes them, which this one does not have.
        self.admin
            .ok(&["delete", "graphrevisions", "--all", "--wait=false"])?;
        for kind in ["rgd", "graphrevisions"] {
            await_that(&format!("the end of all {kind}"), || {
                let left = self.admin.ok(&["get", kind, "-o", "name"])?;
                Ok(left.trim().is_empty().then_some(()))
            })?;
        }
        println!(
            "{}: all of it ended, and nothing is left",
            controller.name()
        );
        Ok(())
    }

    fn definition_kinds(&self) -> Result<Vec<String>> {
        let kinds = [
            "resourcegraphdefinitions.kro.run",
            "graphrevisions.internal.kro.run",
        ];
        Ok(kinds.map(str::to_owned).to_vec())
    }

    fn until_active(&self, controller: Controller) -> Result<()> {
        let mut last = String::new();
        let waited = await_that("all instances to be active", || {
            let mut waiting = Vec::new();
            for (kind, _) in KINDS {
                let list = self.admin.ok(&["get", kind, "-n", HOME, "-o", "json"])?;
                let list: Value = serde_json::from_str(&list).context("reading a list")?;
                let all = list["items"].as_array().into_iter().flatten();
                let others = all.filter(|one| one["status"]["state"] != "ACTIVE");
                waiting.extend(
                    others.map(|one| format!("{}: {}", one["metadata"]["name"], one["status"])),
                );
            }
            last = waiting.join("\n");
            Ok(waiting.is_empty().then_some(()))
        });
        waited.with_context(|| format!("{}: {last}", controller.name()))
    }

    fn until_same(&self, wanted: &Uids) -> Result<()> {
        let mut differ = BTreeSet::new();
        let waited = await_that("the same objects", || {
            let now = self.uids()?;
            let both: BTreeSet<(String, String)> = wanted.clone().into_iter().collect();
            let now: BTreeSet<(String, String)> = now.into_iter().collect();
            differ = both.symmetric_difference(&now).cloned().collect();
            Ok(differ.is_empty().then_some(()))
        });
        waited.with_context(|| format!("these differ: {differ:?}"))
    }

    /// All instances, kinds, and objects that graphs made.
    fn uids(&self) -> Result<Uids> {
        let mut uids = Uids::new();
        let mut add = |words: &[&str]| -> Result<()> {
            let list = self.admin.ok(words)?;
            let list: Value = serde_json::from_str(&list).context("reading a list")?;
            for one in list["items"].as_array().into_iter().flatten() {
                let metadata = &one["metadata"];
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let [kind, namespace, name] =
                    [&one["kind"], &metadata["namespace"], &metadata["name"]].map(text);
                uids.insert(format!("{kind} {namespace}/{name}"), text(&metadata["uid"]));
            }
            Ok(())
        };
        add(&[
            "get",
            "configmaps,services",
            "-A",
            "-l",
            "kro.run/owned=true",
            "-o",
            "json",
        ])?;
        for (kind, _) in KINDS {
            add(&["get", kind, "-A", "-o", "json"])?;
        }
        ensure!(uids.values().all(|uid| !uid.is_empty()), "{uids:?}");
        Ok(uids)
    }
}

fn total(round: usize) -> usize {
    let all: usize = KINDS.iter().map(|(_, count)| count).sum();
    all - round * LEAVING
}

fn name_of(kind: &str, number: usize) -> String {
    format!("{}-{number:02}", kind.to_lowercase())
}

/// Whether an object is an instance of this name, or one that it made.
fn belongs_to(object: &str, name: &str) -> bool {
    object.ends_with(&format!("/{name}"))
}

/// Objects in two namespaces, and a Service that reads one of them.
fn definition(kind: &str) -> Value {
    let map = |id: &str, namespace: &str| {
        json!({"id": id, "template": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "${schema.metadata.name}", "namespace": namespace},
            "data": {"text": "${schema.spec.text}"},
        }})
    };
    let door = json!({"id": "door", "template": {
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "${near.metadata.name}"},
        "spec": {"ports": [{"port": 80}]},
    }});
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": kind.to_lowercase()},
        "spec": {
            "schema": {
                "kind": kind, "apiVersion": "v1alpha1",
                "spec": {"text": "string | default=hi"},
                "status": {"says": "${far.data.text}"},
            },
            "resources": [map("near", HOME), map("far", ELSEWHERE), door],
        },
    })
}

fn instance(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": HOME}, "spec": {},
    })
}
