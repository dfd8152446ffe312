//! `deltaplane plan`: what a change would do to which zones, in which order, before anything is
//! written.
//!
//! The hub says what objects would be (a dry run) and what its policies would do with them
//! (`…/_plan`), be they there or not; `fleet` knows who governs what, and `shown` is how it looks:
//! both are pure.

mod cascade;
mod change;
mod error;
mod fleet;
mod shown;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use clap::Args;
use deltaplane_client::{ObjectKey, Query, Resource, request};
use deltaplane_fleet::kinds::{GROUP, VERSION};
use deltaplane_fleet::stays_at_hub;
use kube::Client;
use serde_json::{Value, json};

use crate::args::Environment;
use crate::client::{Hub, Output};
use crate::rollout::objects;
use crate::said::Said;
use change::{Changed, Deleted};
pub(crate) use error::PlanError;
use fleet::Fleet;

/// For `plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    hub: Hub,
    /// What would be applied: files or directories; `-` is standard input
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "FILE",
        required_unless_present = "delete"
    )]
    files: Vec<String>,
    /// What would be deleted: kind/name, or kind.group/name
    #[arg(long, value_name = "KIND/NAME")]
    delete: Vec<String>,
    /// The namespace of what does not say one
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// How the answer looks
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  deltaplane plan -f change.yaml
  deltaplane plan -f policy.yaml -f graphs/ -o json
  deltaplane plan --delete configmap/web -n shop

Exit codes:
  0  it can be done, perhaps after somebody approves
  1  something would keep it from being done, or it is not known
  2  the command line is wrong, or files cannot be read";

// === impl Plan ===

impl Plan {
    pub(crate) async fn run(self, environment: &Environment) -> Result<Said, PlanError> {
        let documents = crate::graph::objects(&self.files)?.map_err(|wrong| {
            let wrong = wrong.trim_end().to_owned();
            PlanError::Documents { wrong }
        })?;
        let client = self.hub.client_of(None, environment).await?;
        let changes = change::read(&client, documents, &self.namespace).await?;
        let deletions = change::deletions(&client, &self.delete, &self.namespace).await?;
        let planned = plan(&client, &changes, &deletions).await?;
        let good = shown::is_good(&planned);
        let out = match self.output.show(&planned)? {
            Some(out) => out,
            None => shown::text(&planned),
        };
        Ok(Said {
            out,
            err: String::new(),
            good,
        })
    }
}

/// What all policies would do, and what no policy has to do with.
async fn plan(
    client: &Client,
    changes: &[Changed],
    deletions: &[Deleted],
) -> Result<Value, PlanError> {
    let fleet = fleet(client).await?;
    let own: BTreeMap<&str, &Changed> = changes
        .iter()
        .filter(|change| change.is_policy())
        .map(|change| (change.name(), change))
        .collect();
    let mut policies = Vec::new();
    for policy in fleet.concerned(changes, deletions, &own) {
        let deleted = fleet.deletions(&policy, deletions);
        let body = json!({
            "objects": fleet.objects(changes),
            "deletions": deleted.objects,
            "policy": own.get(policy.as_str()).map(|change| &change.stored),
        });
        let path = resource("propagationpolicies", "PropagationPolicy");
        let path = format!("{}/_plan", path.object_path(&ObjectKey::cluster(&policy)));
        let planned: Result<Value, _> = request::create(client, &path, &body).await;
        let mut planned = planned.map_err(|source| PlanError::Ask(Box::new(source)))?;
        if deleted.has_more {
            planned["partial"] = json!({"deletions": deleted.objects.len()});
        }
        policies.push(planned);
    }
    Ok(json!({
        "policies": policies,
        "others": fleet.others(changes, deletions, &own),
        "warnings": warnings(changes, deletions),
    }))
}

/// The warnings of the hub, each with the object that it is about.
fn warnings(changes: &[Changed], deletions: &[Deleted]) -> Vec<Value> {
    let changed = changes.iter();
    let changed = changed.map(|change| (&change.stored, &change.warnings));
    let deleted = deletions.iter();
    let deleted = deleted.map(|deletion| (&deletion.live, &deletion.warnings));
    let all = changed.chain(deleted).flat_map(|(object, warnings)| {
        let about = change::identity(object);
        warnings.iter().map(move |warning| {
            let mut said = about.clone();
            said["message"] = warning.as_str().into();
            said["stays"] = stays_at_hub(warning).is_some().into();
            said
        })
    });
    all.collect()
}

fn resource(plural: &str, kind: &str) -> Resource {
    Resource::cluster(GROUP, VERSION, plural, kind)
}

/// What the hub has of its own kinds.
async fn fleet(client: &Client) -> Result<Fleet, PlanError> {
    let list = async |plural, kind| objects(client, &Query::all(resource(plural, kind))).await;
    Ok(Fleet::new(
        list("propagationpolicies", "PropagationPolicy").await?,
        &list("syncedkinds", "SyncedKind").await?,
        list("zones", "Zone").await?,
    ))
}
