//! `cargo xtask bench expr`: our evaluator and cel-go on the same expressions and the same object,
//! in one run.
//!
//! Evaluation includes binding the object. Ours always counts costs; cel-go is measured as it is and
//! as Kubernetes runs it, counting costs within a limit. Compilation is parsing and checking on both
//! sides. Each figure is the best of many short rounds.

use std::hint::black_box;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use deltaplane_expr::{Absent, Bindings, Budget, Env, Eval, check, compile, env, parse};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{golang, paths, process};

const MAIN: &str = include_str!("../../go/celbench/main.go");

const ROUNDS: u32 = 15;

/// How many compiled expressions are kept in memory at once.
const PROGRAMS: usize = 10_000;

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Measure ours alone.
    #[arg(long)]
    without_peer: bool,
    /// How long each figure is measured.
    #[arg(long, default_value_t = 300)]
    milliseconds: u64,
}

/// The kinds of expressions that graphs and rules are made of.
const EXPRESSIONS: [(&str, &str); 10] = [
    ("field access", "object.metadata.namespace == 'production'"),
    (
        "two fields and a prefix",
        "object.metadata.name.startsWith('web') && object.spec.replicas > 1",
    ),
    (
        "index",
        "object.spec.template.spec.containers[0].image == 'registry.example.com/web:1.2.3'",
    ),
    (
        "labels",
        "'app' in object.metadata.labels && object.metadata.labels['app'] == 'web'",
    ),
    (
        "all over containers",
        "object.spec.template.spec.containers.all(c, has(c.resources) && c.image.contains(':') && !c.image.endsWith(':latest'))",
    ),
    (
        "exists over conditions",
        "object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')",
    ),
    (
        "readiness",
        "object.status.readyReplicas == object.spec.replicas && object.status.observedGeneration >= object.metadata.generation",
    ),
    (
        "string building",
        "object.metadata.namespace + '/' + object.metadata.name + '-' + string(object.spec.replicas)",
    ),
    (
        "filter and map",
        "object.spec.template.spec.containers.filter(c, c.ports.exists(p, p.containerPort > 80)).map(c, c.name + ':' + c.image)",
    ),
    (
        "optional",
        "object.?spec.?strategy.?rollingUpdate.?maxSurge.orValue('25%') == '25%'",
    ),
];

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Figures {
    compile_ns: f64,
    eval_ns: f64,
    /// Evaluation that counts its cost.
    bounded_ns: f64,
    bytes: u64,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let object = object();
    let ours = measure(&object, args.milliseconds)?;
    let theirs = if args.without_peer {
        Vec::new()
    } else {
        peer(&object, args.milliseconds)?
    };
    print(&ours, &theirs);
    Ok(())
}

/// A Deployment as clusters have them.
fn object() -> Value {
    let container = |name: &str, port: u16| {
        json!({
            "name": name, "image": format!("registry.example.com/{name}:1.2.3"), "imagePullPolicy": "IfNotPresent",
            "ports": [{"containerPort": port, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
        })
    };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web-frontend", "namespace": "production", "generation": 4, "labels": {"app": "web", "tier": "front"}},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container("web", 8080), container("proxy", 80), container("metrics", 9090)]},
            },
        },
        "status": {
            "observedGeneration": 4, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "conditions": [
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
                {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
            ],
        },
    })
}

fn environment() -> Env {
    env::kro().build().with_dynamic(&["object"], Absent::Fails)
}

fn measure(object: &Value, milliseconds: u64) -> Result<Vec<Figures>> {
    let env = environment();
    let slot = env.slot("object").context("not declared")?;
    let mut figures = Vec::new();
    for (name, expression) in EXPRESSIONS {
        let program = compile(expression, &env).with_context(|| name.to_owned())?;
        let mut bindings = Bindings::new(&env);
        bindings
            .set_json(&env, slot, object)
            .map_err(|fault| *fault)?;
        if !matches!(program.eval(&bindings, Budget::default()), Eval::Value(_)) {
            bail!("{name} does not evaluate");
        }
        let compile_ns = each(milliseconds, || {
            let checked = parse(expression, &env).and_then(|ast| check::check(&ast, &env));
            black_box(checked.is_ok());
        });
        let eval_ns = each(milliseconds, || {
            let mut bindings = Bindings::new(&env);
            let bound = bindings.set_json(&env, slot, black_box(object)).is_ok();
            black_box((bound, program.eval(&bindings, Budget::default())));
        });
        figures.push(Figures {
            compile_ns,
            eval_ns,
            bounded_ns: eval_ns,
            bytes: 0,
        });
    }
    figures.push(Figures {
        bytes: memory(&env)?,
        ..Figures::default()
    });
    Ok(figures)
}

/// How much the process grows when it holds many programs.
fn memory(env: &Env) -> Result<u64> {
    let before = resident()?;
    let mut programs = Vec::with_capacity(PROGRAMS);
    for (_, expression) in EXPRESSIONS.iter().cycle().take(PROGRAMS) {
        programs.push(compile(expression, env)?);
    }
    let after = resident()?;
    drop(black_box(programs));
    Ok(after.saturating_sub(before))
}

/// The resident memory of this process, in bytes.
fn resident() -> Result<u64> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("reading the memory in use")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024)
}

/// The time of one run, in the best of many rounds: others use this machine, too.
fn each(milliseconds: u64, mut run: impl FnMut()) -> f64 {
    let round = Duration::from_millis(milliseconds) / ROUNDS;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut count = 0_u32;
        while start.elapsed() < round {
            for _ in 0..100 {
                run();
            }
            count += 100;
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(count));
    }
    best
}

/// cel-go's figures, from a Go program of ours that is built outside the tree.
fn peer(object: &Value, milliseconds: u64) -> Result<Vec<Figures>> {
    let module = golang::cel_module(MAIN)?;
    let program = paths::cache()?.join("bin").join("cel-bench");
    process::run(
        module
            .go()?
            .args(["build", "-o"])
            .arg(&program)
            .arg("./bench"),
    )?;
    let expressions: Vec<&str> = EXPRESSIONS
        .iter()
        .map(|(_, expression)| *expression)
        .collect();
    let input = json!({
        "object": object, "expressions": expressions, "milliseconds": milliseconds, "programs": PROGRAMS,
    });
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting cel-go")?;
    child
        .stdin
        .take()
        .context("no standard input")?
        .write_all(input.to_string().as_bytes())?;
    let output = child.wait_with_output()?;
    let figures: Vec<Figures> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    if figures.len() != EXPRESSIONS.len() + 1 {
        bail!("cel-go gave {} figures", figures.len());
    }
    Ok(figures)
}

/// A table for `docs/benchmarks.md`.
fn print(ours: &[Figures], theirs: &[Figures]) {
    println!(
        "| expression | eval, ns | cel-go | ratio | cel-go, bounded | ratio | parse + check, ns | cel-go | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (index, (name, _)) in EXPRESSIONS.iter().enumerate() {
        let (a, b) = (ours[index], theirs.get(index).copied().unwrap_or_default());
        println!(
            "| {name} | {:.0} | {:.0} | {:.1} | {:.0} | {:.1} | {:.0} | {:.0} | {:.1} |",
            a.eval_ns,
            b.eval_ns,
            b.eval_ns / a.eval_ns,
            b.bounded_ns,
            b.bounded_ns / a.bounded_ns,
            a.compile_ns,
            b.compile_ns,
            b.compile_ns / a.compile_ns
        );
    }
    let ratios = |value: fn(&Figures) -> f64| {
        let pairs = ours.iter().zip(theirs).take(EXPRESSIONS.len());
        pairs
            .map(|(a, b)| value(b) / value(a))
            .fold(f64::INFINITY, f64::min)
    };
    let bytes = |figures: &[Figures]| figures.last().map_or(0, |figures| figures.bytes);
    println!();
    println!(
        "smallest ratio: evaluation {:.1}, bounded evaluation {:.1}, parse + check {:.1}",
        ratios(|one| one.eval_ns),
        ratios(|one| one.bounded_ns),
        ratios(|one| one.compile_ns)
    );
    println!(
        "{PROGRAMS} compiled expressions: {} KiB, cel-go {} KiB",
        bytes(ours) / 1024,
        bytes(theirs) / 1024
    );
}
