//! Keeps what Secrets hold out of the reasons that a plan gives.
//!
//! An instance shows its reasons to everybody who may read it. An expression that reads a Secret may
//! put content of the Secret into the path that it waits for, into a failure, or among the values
//! that close a gate.

use deltaplane_expr::{Path, Step};
use deltaplane_propagation::Verdict;

use super::Unknown;
use crate::graph::{Graph, Node};
use crate::template::Reads;

/// Shown instead of the reason of a failure.
const HIDDEN: &str =
    "the expression failed; the reason is not shown, because the expression reads a Secret";

impl Node {
    fn is_secret(&self) -> bool {
        let gvk = self.gvk();
        gvk.group.is_empty() && gvk.kind == "Secret"
    }
}

impl Graph {
    /// Returns true if the text of an expression may name a Secret.
    fn names_secret(&self, source: &str) -> bool {
        let mut secrets = self.nodes().iter().filter(|node| node.is_secret());
        secrets.any(|secret| source.contains(secret.id()))
    }

    /// Returns a reason that may be shown. Items may be made of what a Secret holds.
    pub(super) fn redact(&self, reads: &Reads, source: &str, unknown: Unknown) -> Unknown {
        let is_item = reads.item && self.nodes().iter().any(Node::is_secret);
        if !is_item && !self.names_secret(source) {
            return unknown;
        }
        match unknown {
            Unknown::Waits(mut wait) => {
                wait.path = redact_path(wait.path, &wait.source);
                Unknown::Waits(wait)
            }
            Unknown::Wrong(mut wrong) => {
                wrong.message = HIDDEN.to_owned();
                Unknown::Wrong(wrong)
            }
        }
    }

    /// Returns a verdict of a node's gate that may be shown.
    pub(super) fn redact_verdict(&self, node: &Node, verdict: Verdict) -> Verdict {
        let text = match &verdict {
            Verdict::Open | Verdict::Limit { .. } => return verdict,
            Verdict::Closed { expression, .. }
            | Verdict::Waiting { expression, .. }
            | Verdict::Error { expression, .. } => expression.text.clone(),
        };
        if !node.is_secret() && !self.names_secret(&text) {
            return verdict;
        }
        match verdict {
            Verdict::Closed { expression, .. } => Verdict::Closed {
                expression,
                values: Vec::new(),
            },
            Verdict::Waiting { expression, .. } => Verdict::Waiting {
                expression,
                path: "data that is not shown, because the expression reads a Secret".to_owned(),
            },
            Verdict::Error { expression, .. } => Verdict::Error {
                expression,
                message: HIDDEN.to_owned(),
            },
            verdict @ (Verdict::Open | Verdict::Limit { .. }) => verdict,
        }
    }
}

/// Returns a path without the steps that data decided: fields that the expression does not name.
fn redact_path(path: Path, source: &str) -> Path {
    let steps = path.steps.into_iter().map(|step| match step {
        Step::Field(field) if !source.contains(&field) => Step::Any,
        Step::Index(_) => Step::Any,
        step @ (Step::Field(_) | Step::Any) => step,
    });
    Path {
        steps: steps.collect(),
        ..path
    }
}
