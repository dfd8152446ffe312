//! Keeps the cluster's admission policies as they should be.

use std::sync::Arc;
use std::time::Duration;

use deltaplane_api::identity::MASTERS;
use deltaplane_client::request::{self, RequestError};
use deltaplane_client::{ObjectKey, Pace, Resource};
use deltaplane_controllers::graphs::accounts::policy::POLICY;
use deltaplane_fleet::Known;
use deltaplane_runtime::Stop;
use deltaplane_sync::ZoneName;
use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::policies::{self, COMPUTED, Fields, Keeper, OWNERSHIP, ZONE_LABEL};

/// Installs the policies, and again when somebody took them away.
pub(super) struct Guard {
    pub(super) client: Client,
    pub(super) pace: Pace,
    pub(super) zone: ZoneName,
}

/// Who we are to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct User {
    username: String,
    #[serde(default)]
    groups: Vec<String>,
}

/// The answer to the question who we are.
#[derive(Deserialize)]
struct Reviewed {
    status: Review,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    user_info: User,
}

/// How often is looked; applying what is there already changes nothing.
const AGAIN: Duration = Duration::from_secs(300);
/// The field manager of what is installed.
const MANAGER: &str = "deltaplane";

// === impl Guard ===

impl Guard {
    /// Keeps them until told to stop. `known` has the definitions' computed fields.
    pub(super) async fn keep(self, mut known: watch::Receiver<Arc<Known>>, stop: Stop) {
        let mut fields = None;
        let mut failures = 0;
        let mut said: Option<Result<User, String>> = None;
        loop {
            let Some(installed) = stop.unless(self.install(fields.as_ref())).await else {
                return;
            };
            let pause = match &installed {
                Ok(_) => AGAIN,
                Err(error) => self.pace.delay(failures + 1, error.retry_after()),
            };
            failures = match &installed {
                Ok(_) => 0,
                Err(_) => failures + 1,
            };
            let news = installed.as_ref().cloned().map_err(ToString::to_string);
            if said.as_ref() != Some(&news) {
                tell(&installed);
                said = Some(news);
            }
            tokio::select! {
                () = stop.wait() => return,
                () = self.pace.clock.sleep(pause) => {}
                now = other_fields(&mut known, fields.as_ref()) => fields = Some(now),
            }
        }
    }

    /// Installs them; the computed fields' only when they are known. Who may go on writing.
    async fn install(&self, fields: Option<&Fields>) -> Result<User, RequestError> {
        let user = self.user().await?;
        let keeper = Keeper {
            user: user.username.clone(),
            zone: self.zone.clone(),
        };
        self.put(OWNERSHIP, &keeper.ownership()).await?;
        self.put(ZONE_LABEL, &keeper.zone_label()).await?;
        match fields.map(|fields| keeper.computed(fields)) {
            Some(Some(policy)) => self.put(COMPUTED, &policy).await?,
            Some(None) => self.take_away(COMPUTED).await?,
            None => {}
        }
        Ok(user)
    }

    /// Who we are to the cluster.
    async fn user(&self) -> Result<User, RequestError> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let answer: Reviewed = request::create(&self.client, path, &review).await?;
        Ok(answer.status.user_info)
    }

    async fn put(&self, name: &str, policy: &Value) -> Result<(), RequestError> {
        let applied = |path: String| format!("{path}?fieldManager={MANAGER}&force=true");
        let path = applied(policy_path(name));
        request::apply::<IgnoredAny>(&self.client, &path, policy).await?;
        let (path, binding) = (applied(binding_path(name)), policies::binding(name));
        request::apply::<IgnoredAny>(&self.client, &path, &binding).await?;
        Ok(())
    }

    async fn take_away(&self, name: &str) -> Result<(), RequestError> {
        take_away(&self.client, name).await
    }
}

/// Takes all policies away.
pub(crate) async fn take_policies_away(client: &Client) -> Result<(), RequestError> {
    for name in [OWNERSHIP, ZONE_LABEL, COMPUTED, POLICY] {
        take_away(client, name).await?;
    }
    Ok(())
}

/// The binding first: without it the policy is not in force.
async fn take_away(client: &Client, name: &str) -> Result<(), RequestError> {
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    for path in [binding_path(name), policy_path(name)] {
        match request::delete(client, &path, &options).await {
            Err(error) if error.is_not_found() => {}
            deleted => deleted?,
        }
    }
    Ok(())
}

/// The fields that controllers compute, when they are others than these; the first time when all
/// definitions have been seen. Most changes of definitions are none of these.
async fn other_fields(known: &mut watch::Receiver<Arc<Known>>, than: Option<&Fields>) -> Fields {
    loop {
        if known.changed().await.is_err() {
            return std::future::pending().await;
        }
        let now = known.borrow_and_update().computed_fields().clone();
        if Some(&now) != than {
            return now;
        }
    }
}

fn tell(installed: &Result<User, RequestError>) {
    match installed {
        Ok(user) => {
            let is_shared = user.groups.iter().any(|group| group == MASTERS);
            let user = &user.username;
            tracing::info!(
                user,
                "the cluster's admission policies keep the rules of ownership"
            );
            if is_shared {
                tracing::warn!(
                    user,
                    hint = "use an account of its own, as `deltaplane zone manifest` prints it",
                    "the zone's kubeconfig is an administrator's: whoever else is this user may change what came from the hub"
                );
            }
        }
        Err(error) => {
            let hint = match error.code() {
                Some(403) => "apply what `deltaplane zone manifest` prints",
                Some(404) => "they need Kubernetes 1.30 or later",
                Some(_) | None => "the zone goes on, and tries again",
            };
            let error = error as &dyn std::error::Error;
            tracing::warn!(
                error,
                hint,
                "failed to install admission policies: nothing keeps others in this cluster from changing what came from the hub"
            );
        }
    }
}

fn policy_path(name: &str) -> String {
    path("validatingadmissionpolicies", name)
}

fn binding_path(name: &str) -> String {
    path("validatingadmissionpolicybindings", name)
}

fn path(plural: &str, name: &str) -> String {
    let resource = Resource::cluster("admissionregistration.k8s.io", "v1", plural, "");
    resource.object_path(&ObjectKey::cluster(name))
}
