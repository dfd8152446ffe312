//! Ginkgo's report of a suite: which specs ran, and how they ended.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Report;

/// The results of one suite.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    spec_reports: Option<Vec<Spec>>,
}

/// One spec's result.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Spec {
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
    #[serde(default)]
    failure: Option<Failure>,
    run_time: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

/// Reads the specs of a report.
pub(super) fn read(report: &Path) -> Result<Vec<Spec>> {
    let text = fs::read(report).with_context(|| format!("reading {}", report.display()))?;
    let suites: Vec<Suite> = serde_json::from_slice(&text).context("reading ginkgo's report")?;
    let specs = suites.into_iter().filter_map(|suite| suite.spec_reports);
    Ok(specs.flatten().collect())
}

/// Prints a line for each spec that ran, and counts it; `variant` tells runs of one spec apart.
pub(super) fn count(specs: &[Spec], variant: &str, report: &mut Report) {
    for spec in specs.iter().filter(|spec| spec.ran()) {
        let outcome = spec.outcome();
        let verdict = if outcome.is_ok() { "PASS" } else { "FAIL" };
        let title = spec.title();
        println!("{verdict} {variant:8} {:6.1} s  {title}", spec.seconds());
        if let Err(why) = &outcome {
            println!("     {why}");
        }
        report.case(&title, outcome.map_err(|why| format!("({variant}) {why}")));
    }
}

// === impl Spec ===

impl Spec {
    /// Returns true if the spec was selected: ginkgo reports specs outside of the focus as skipped,
    /// without a message.
    pub(super) fn ran(&self) -> bool {
        let silent = self
            .failure
            .as_ref()
            .is_none_or(|failure| failure.message.is_empty());
        let left_out = self.state == "pending" || (self.state == "skipped" && silent);
        let passed_set_up = self.leaf_node_type != "It" && self.state == "passed";
        !left_out && !passed_set_up
    }

    pub(super) fn title(&self) -> String {
        let mut words = self.container_hierarchy_texts.clone().unwrap_or_default();
        words.push(match self.leaf_node_text.as_str() {
            "" => format!("[{}]", self.leaf_node_type),
            text => text.to_owned(),
        });
        words.join(" ")
    }

    /// The first line says why it failed; the rest is a dump of objects.
    pub(super) fn outcome(&self) -> Result<(), String> {
        if self.state == "passed" {
            return Ok(());
        }
        let message = self
            .failure
            .as_ref()
            .map_or("", |failure| failure.message.as_str());
        let line = message
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("no message");
        Err(format!("{}: {}", self.state, line.trim()))
    }

    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    pub(super) fn seconds(&self) -> f64 {
        self.run_time as f64 / 1e9
    }
}
