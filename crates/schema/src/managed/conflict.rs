//! Conflicts in Kubernetes' words.

use super::entries::{Infos, ManagerInfo, Operation};
use crate::updater::Conflict;

/// Owners and the fields that they own, sorted by what identifies the owner.
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
        let mut lines = Vec::new();
        for conflicts in self.0.chunk_by(|(a, _), (b, _)| a == b) {
            lines.push(format!("conflicts with {}:", conflicts[0].0));
            lines.extend(conflicts.iter().map(|(_, path)| format!("- {path}")));
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
