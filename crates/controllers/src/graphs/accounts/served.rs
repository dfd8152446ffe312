//! Keeps the roles that graphs act with, and the policy for their authors: one of the roles follows
//! the kinds that graphs define.

use std::collections::BTreeSet;
use std::sync::Arc;

use deltaplane_client::request::Refusal;
use deltaplane_client::{ObjectKey, RequestError, Resource, request};
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::sync::watch;

use super::{policy, roles};
use crate::Context;

/// The kinds that graphs define here. Cheap to clone.
#[derive(Clone)]
pub(in super::super) struct ServedKinds(Arc<watch::Sender<Option<KindNames>>>);

/// Kinds, by group and plural.
type KindNames = BTreeSet<(String, String)>;

/// The field manager of roles.
const MANAGER: &str = "deltaplane";

impl Default for ServedKinds {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

// === impl ServedKinds ===

impl ServedKinds {
    /// Sets the kinds, given their CustomResourceDefinitions.
    pub(in super::super) fn set<'k>(&self, kinds: impl Iterator<Item = &'k Value>) {
        let named = |kind: &Value| {
            let names = [&kind["spec"]["group"], &kind["spec"]["names"]["plural"]];
            let [group, plural] = names.map(|name| name.as_str().map(str::to_owned));
            Some((group?, plural?))
        };
        let kinds: KindNames = kinds.filter_map(named).collect();
        self.0.send_if_modified(|known| {
            let is_other = known.as_ref() != Some(&kinds);
            if is_other {
                *known = Some(kinds);
            }
            is_other
        });
    }

    /// Makes the roles of graphs be there, and that of these kinds follow them, for ever.
    pub(in super::super) async fn grant(&self, context: &Context) {
        let mut kinds = self.0.subscribe();
        let mut failures = 0;
        let mut are_there = false;
        loop {
            let granted = async {
                if !are_there {
                    create_roles(context).await?;
                    apply_policy(context).await?;
                }
                let known = kinds.borrow_and_update().clone();
                match known {
                    Some(known) => apply(context, &roles::served_kinds(&known)).await,
                    None => Ok(()),
                }
            };
            match granted.await {
                Ok(()) => {
                    are_there = true;
                    failures = 0;
                    if kinds.changed().await.is_err() {
                        return std::future::pending().await;
                    }
                }
                Err(error) => {
                    failures += 1;
                    if failures == 1 {
                        warn(&error);
                    }
                    context.pace.rest(failures, error.retry_after()).await;
                }
            }
        }
    }
}

/// Roles that are there stay as they are: an administrator may have changed them, and aggregated
/// ones have the rules of others by now.
async fn create_roles(context: &Context) -> Result<(), RequestError> {
    for role in roles::cluster_roles() {
        let path = path(&role);
        match request::get::<IgnoredAny>(&context.client, &path).await {
            Err(error) if error.is_not_found() => apply(context, &role).await?,
            found => {
                found?;
            }
        }
    }
    Ok(())
}

/// An API server of ours checks authors by itself, and has no such policies.
async fn apply_policy(context: &Context) -> Result<(), RequestError> {
    for object in policy::objects() {
        let kind = object["kind"].as_str().unwrap_or_default();
        let plural = match kind {
            "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
            _ => "validatingadmissionpolicybindings",
        };
        let resource = Resource::cluster("admissionregistration.k8s.io", "v1", plural, kind);
        let path = resource.object_path(&ObjectKey::cluster(policy::POLICY));
        let path = format!("{path}?fieldManager={MANAGER}&force=true");
        match request::apply::<IgnoredAny>(&context.client, &path, &object).await {
            Err(error) if error.refusal().is_some_and(Refusal::is_kind_not_served) => {}
            applied => {
                applied?;
            }
        }
    }
    Ok(())
}

async fn apply(context: &Context, role: &Value) -> Result<(), RequestError> {
    let path = format!("{}?fieldManager={MANAGER}&force=true", path(role));
    request::apply::<IgnoredAny>(&context.client, &path, role).await?;
    Ok(())
}

fn path(role: &Value) -> String {
    let name = role["metadata"]["name"].as_str().unwrap_or_default();
    roles::resource("ClusterRole").object_path(&ObjectKey::cluster(name))
}

fn warn(error: &RequestError) {
    let hint = match error.code() {
        Some(403) => {
            "apply what `deltaplane zone manifest --graphs` prints, as an administrator of the cluster"
        }
        Some(_) | None => "the controller tries again",
    };
    let error = error as &dyn std::error::Error;
    tracing::warn!(
        error,
        hint,
        "failed to apply the ClusterRoles that graphs act with, or the policy for their authors"
    );
}
