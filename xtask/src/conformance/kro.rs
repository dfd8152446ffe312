//! Graphs: which definitions are taken, and the kinds that they become, beside kro's own Go code.
//!
//! The answers come from kro, through a program of ours (`xtask/go/graph`) that is built outside
//! the tree and that does what an API server does before. Definitions are those that kro publishes
//! (examples, documentation, fixtures, and what its integration tests create), those of
//! `kro/cases.yaml`, and the published ones with one thing changed.

mod cases;
mod compare;
mod kinds;
mod known;
mod mutate;
mod published;
mod recorded;
mod rounds;

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Report, oracle};
use crate::golang::{self, KRO, KUBERNETES};
use crate::{paths, process};

use compare::Answer;
use kinds::Customs;

const FILES: [(&str, &str); 3] = [
    ("main.go", include_str!("../../go/graph/main.go")),
    ("admission.go", include_str!("../../go/graph/admission.go")),
    ("kinds.go", include_str!("../../go/graph/kinds.go")),
];

/// A definition to be judged.
#[derive(Clone)]
struct Case {
    name: String,
    /// Where it is from: kinds of other definitions are taken from the nearest.
    place: String,
    object: Value,
}

/// The program that answers, and what it is asked with.
struct Oracle {
    program: PathBuf,
    documents: PathBuf,
    definition: PathBuf,
}

/// All definitions, and every n-th of those that are changed: one report.
pub(crate) fn run(every: usize) -> Result<Report> {
    let kro = golang::download(&format!("github.com/kubernetes-sigs/kro@v{KRO}"))?;
    let oracle = Oracle::build(&kro)?;
    let known = known::all();
    let mut report = Report::new("kro", &known);
    let mut published = published::read(&kro)?;
    recorded::read(&kro, &mut published)?;
    for file in &published.unreadable {
        report.skip(&format!("{file} is not YAML"));
    }
    let customs = Customs::new(&published.customs);
    let settled = rounds::judge(&oracle, published.definitions, &customs, &mut report)?;
    let changed = mutate::all(&settled.accepted).into_iter().enumerate();
    let is_known = |case: &Case| known.iter().any(|(name, _)| *name == case.name);
    let changed = changed.filter(|(at, case)| at % every.max(1) == 0 || is_known(case));
    let changed = changed.map(|(_, case)| case).collect();
    rounds::judge_with(&oracle, changed, &settled.made, &mut report)?;
    let (own, kinds) = cases::read()?;
    rounds::judge_with(&oracle, own, &kinds, &mut report)?;
    report.expect_all();
    Ok(report)
}

// === impl Oracle ===

impl Oracle {
    fn build(kro: &std::path::Path) -> Result<Self> {
        let module = golang::kro_module()?;
        for (name, text) in FILES {
            module.file("graph", name, text)?;
        }
        let program = paths::cache()?.join("bin").join("graph-oracle");
        let mut go = module.go()?;
        go.args(["build", "-o"]).arg(&program).arg("./graph");
        process::run(&mut go).with_context(|| format!("building with kro {KRO}"))?;
        let kubernetes = golang::download(&format!("k8s.io/kubernetes@v{KUBERNETES}"))?;
        Ok(Self {
            program,
            documents: kubernetes.join("api/openapi-spec/v3"),
            definition: kro.join("helm/crds/kro.run_resourcegraphdefinitions.yaml"),
        })
    }

    fn ask(&self, questions: &[Value]) -> Result<Vec<Answer>> {
        let arguments = [self.documents.as_os_str(), self.definition.as_os_str()];
        oracle::ask_with(&self.program, &arguments, questions)
    }
}
