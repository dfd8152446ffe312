//! A policy as users write it.

use serde::Deserialize;
use serde_json::Value;

/// `spec` of a PropagationPolicy.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    #[serde(default)]
    pub targets: Vec<TargetSpec>,
    #[serde(default)]
    pub zones: Option<Value>,
    #[serde(default)]
    pub overrides: Vec<OverrideSpec>,
    #[serde(default)]
    pub stages: Vec<StageSpec>,
    #[serde(default)]
    pub windows: Vec<WindowSpec>,
    #[serde(default)]
    pub on_failure: OnFailure,
    #[serde(default)]
    pub on_newer: OnNewer,
    #[serde(default)]
    pub deletion_budget: Option<BudgetSpec>,
    #[serde(default)]
    pub paused: bool,
}

/// What is governed.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetSpec {
    #[serde(default)]
    pub group: String,
    pub kind: String,
    /// `name`, in any namespace, or `namespace/name`; all of the kind without it.
    #[serde(default)]
    pub names: Vec<String>,
    #[serde(default)]
    pub selector: Option<Value>,
    #[serde(default)]
    pub ready_when: Vec<String>,
}

/// What is different in some zones.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideSpec {
    #[serde(default)]
    pub zones: Option<Value>,
    /// Of which targets; all of them without it.
    #[serde(default)]
    pub targets: Vec<TargetSpec>,
    pub patch: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageSpec {
    pub name: String,
    #[serde(default)]
    pub zones: Option<Value>,
    #[serde(default)]
    pub propagate_when: Vec<String>,
    #[serde(default)]
    pub ready_when: Vec<String>,
    #[serde(default)]
    pub order_by: Option<String>,
    #[serde(default)]
    pub soak: Option<String>,
    #[serde(default)]
    pub max_failures: Option<Value>,
    #[serde(default)]
    pub progress_deadline: Option<String>,
    #[serde(default)]
    pub approval: ApprovalSpec,
    #[serde(default)]
    pub when_no_evidence: NoEvidence,
    #[serde(default)]
    pub paused: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowSpec {
    pub name: String,
    pub rrule: String,
    pub duration: String,
    #[serde(default)]
    pub time_zone: Option<String>,
    #[serde(default)]
    pub start: Option<String>,
}

/// How many objects a release, or a version of a graph, may take away without approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct BudgetSpec {
    pub max: Option<u64>,
    pub percent: Option<u8>,
}

/// So many objects may be taken away without approval, or so many percent of what there is, if
/// that is more, unless somebody says otherwise.
const REMOVED: u64 = 20;
const REMOVED_PERCENT: u8 = 5;

impl BudgetSpec {
    /// Returns how many of so many may be taken away without approval: the larger of both, where
    /// both are given.
    pub fn allowed(self, of: u64) -> u64 {
        let share = |percent: u8| of.saturating_mul(u64::from(percent)) / 100;
        match (self.max, self.percent) {
            (None, None) => REMOVED.max(share(REMOVED_PERCENT)),
            (Some(max), None) => max,
            (None, Some(percent)) => share(percent),
            (Some(max), Some(percent)) => max.max(share(percent)),
        }
    }
}

/// Whether somebody has to agree before a stage begins with a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ApprovalSpec {
    #[default]
    None,
    Required,
    /// By somebody who did not author what changed.
    RequiredByOther,
}

/// What happens when too many zones of a stage failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum OnFailure {
    /// Nothing moves on to that release in the stage until somebody says so, or there is a newer one.
    #[default]
    Pause,
    /// A new release is made with what had completed before.
    Rollback,
}

/// What happens to a release that is in a stage when a newer one may be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum OnNewer {
    /// The newer one takes over at once.
    #[default]
    Supersede,
    /// The newer one waits until the stage is done with it: it completed, or failed.
    Queue,
}

/// What it means that a zone has nothing that could show whether it works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum NoEvidence {
    #[default]
    Hold,
    Proceed,
}
