//! Random cases, answered by Kubernetes' own Go code and by ours.
//!
//! Three kinds: a CRD's schema with an object (accept, prune, default, validate), a strategic merge
//! patch, and a sequence of updates and applies with their managed fields. The Go side is
//! `xtask/go/smd/oracle`, built outside the tree. A run is determined by its seed.

mod managed;
mod strategic;
mod structural;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::Report;
use crate::conformance::random::Random;
use crate::golang::{self, KUBERNETES, STAGING};
use crate::{paths, process};

const FILES: [(&str, &str); 4] = [
    ("main.go", include_str!("../../../go/smd/oracle/main.go")),
    (
        "structural.go",
        include_str!("../../../go/smd/oracle/structural.go"),
    ),
    (
        "strategic.go",
        include_str!("../../../go/smd/oracle/strategic.go"),
    ),
    (
        "managed.go",
        include_str!("../../../go/smd/oracle/managed.go"),
    ),
];

/// The running Go program.
struct Oracle {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// `cases` of each kind, from `seed`.
pub(crate) fn run(cases: u64, seed: u64) -> Result<Report> {
    let mut report = Report::new("apply --fuzz", &[]);
    let mut oracle = Oracle::start()?;
    let kinds = strategic::Kinds::load(&golang::download(&format!(
        "k8s.io/kubernetes@v{KUBERNETES}"
    ))?)?;
    for number in 0..cases {
        let mut random = Random::new(seed.wrapping_add(number));
        let name = |kind: &str| format!("{kind} seed {}", seed.wrapping_add(number));
        report.case(
            &name("structural"),
            structural::case(&mut oracle, &mut random)?,
        );
        report.case(&name("strategic"), kinds.case(&mut oracle, &mut random)?);
        report.case(&name("managed"), managed::case(&mut oracle, &mut random)?);
    }
    Ok(report)
}

// === impl Oracle ===

impl Oracle {
    fn start() -> Result<Self> {
        let program = build()?;
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let questions = child
            .stdin
            .take()
            .context("the oracle has no standard input")?;
        let answers = BufReader::new(
            child
                .stdout
                .take()
                .context("the oracle has no standard output")?,
        );
        Ok(Self {
            child,
            questions,
            answers,
        })
    }

    fn ask(&mut self, question: &Value) -> Result<Value> {
        writeln!(self.questions, "{question}").context("asking the oracle")?;
        self.questions.flush()?;
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .context("reading the oracle's answer")?;
        serde_json::from_str(&line).with_context(|| format!("parsing the oracle's answer {line:?}"))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It ends by itself when its input does; nothing depends on how.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn build() -> Result<PathBuf> {
    let dir = paths::cache()?.join("go").join(format!("oracle-{STAGING}"));
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    let modules = [
        "api",
        "apiextensions-apiserver",
        "apimachinery",
        "apiserver",
    ];
    let requires: String = modules
        .iter()
        .map(|name| format!("\tk8s.io/{name} v{STAGING}\n"))
        .collect();
    let go_mod = dir.join("go.mod");
    if !go_mod.exists() {
        fs::write(
            &go_mod,
            format!("module deltaplane.io/oracle\n\ngo 1.26\n\nrequire (\n{requires})\n"),
        )?;
    }
    for (name, body) in FILES {
        let path = dir.join(name);
        if fs::read_to_string(&path).ok().as_deref() != Some(body) {
            fs::write(&path, body).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    let program = dir.join("oracle");
    let mut command = Command::new("go");
    command
        .args(["build", "-mod=mod", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(&dir)
        .env("GOWORK", "off");
    process::run(&mut command)?;
    Ok(program)
}

/// Both lists must have the same texts, in any order.
fn same_texts(what: &str, ours: Vec<String>, theirs: &Value) -> Result<(), String> {
    let list = theirs.as_array().into_iter().flatten();
    // The original changes the value that this one shows before it is shown.
    let comparable = |text: &str| match text.strip_suffix("must not have unknown fields") {
        Some(head) => head.split(": ").next().unwrap_or_default().to_owned(),
        None => text.to_owned(),
    };
    let theirs: Vec<String> = list.filter_map(Value::as_str).map(comparable).collect();
    let ours: Vec<String> = ours.iter().map(|text| comparable(text)).collect();
    let missing: Vec<_> = theirs.iter().filter(|one| !ours.contains(one)).collect();
    let surplus: Vec<_> = ours.iter().filter(|one| !theirs.contains(one)).collect();
    match missing.is_empty() && surplus.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{what}: missing {missing:?}, not expected {surplus:?}"
        )),
    }
}

fn same_value(what: &str, ours: &Value, theirs: &Value) -> Result<(), String> {
    match super::replay::plain(ours) == super::replay::plain(theirs) {
        true => Ok(()),
        false => Err(format!("{what}: got {ours}, expected {theirs}")),
    }
}
