//! Conflicts in Kubernetes' words.

use std::collections::BTreeMap;

use super::entries::{Infos, ManagerInfo, Operation};
use crate::updater::Conflict;

/// Fields that others own, sorted by owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(Vec<(String, String)>);

/// One cause of a `Status`; its reason is `FieldManagerConflict`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub field: String,
    pub message: String,
}

// === impl Conflicts ===

impl Conflicts {
    pub(super) fn new(infos: &Infos, conflicts: Vec<Conflict>) -> Self {
        let owner = |id: &str| {
            infos
                .get(id)
                .map_or_else(|| format!("{id:?}"), |(info, _)| describe(info))
        };
        Self(
            conflicts
                .into_iter()
                .map(|one| (owner(&one.manager), one.path.to_string()))
                .collect(),
        )
    }

    /// The message of the `Status`.
    pub fn message(&self) -> String {
        if let [(owner, path)] = self.0.as_slice() {
            return format!("Apply failed with 1 conflict: conflict with {owner}: {path}");
        }
        let mut by_owner: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (owner, path) in &self.0 {
            by_owner.entry(owner).or_default().push(path);
        }
        let mut lines = Vec::new();
        for (owner, paths) in by_owner {
            lines.push(format!("conflicts with {owner}:"));
            lines.extend(paths.iter().map(|path| format!("- {path}")));
        }
        format!(
            "Apply failed with {} conflicts: {}",
            self.0.len(),
            lines.join("\n")
        )
    }

    /// The causes of the `Status`, one for each field.
    pub fn causes(&self) -> impl Iterator<Item = Cause> {
        let cause = |(owner, path): &(String, String)| Cause {
            field: path.clone(),
            message: format!("conflict with {owner}"),
        };
        self.0.iter().map(cause)
    }
}

fn describe(info: &ManagerInfo) -> String {
    let mut text = format!("{:?}", info.manager);
    if !info.subresource.is_empty() {
        text.push_str(&format!(" with subresource {:?}", info.subresource));
    }
    match info.operation {
        Operation::Apply => text,
        Operation::Update => format!("{text} using {}", info.api_version),
    }
}
