//! Lookups and writes.

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use deltaplane_client::header::{Header, OwnerReference};
use deltaplane_client::request::{self, Patch};
use deltaplane_client::{ObjectKey, Resource};

use crate::queue::{Failure, Next, settled};

use super::graph::{Deletion, Fact, Finding, Question, Reference};
use super::plan::{Plan, Policy, Target};

/// What an act needs.
pub(super) struct Act {
    pub(super) client: Client,
    pub(super) facts: mpsc::Sender<Fact>,
}

/// Dependents that are left behind at one time, of one owner.
const AT_ONCE: usize = 16;

// === impl Act ===

impl Act {
    pub(super) async fn run(self, plan: Plan) -> Result<Next, Failure> {
        match plan {
            Plan::Look {
                question,
                resource,
                key,
            } => {
                let finding = self.look(&question.reference, &resource, &key).await?;
                self.tell(question, finding).await;
                Ok(Next::Rest)
            }
            Plan::Misplaced {
                question,
                dependent,
            } => {
                self.report(&question.reference, &dependent).await?;
                self.tell(question, Finding::Misplaced).await;
                Ok(Next::Rest)
            }
            Plan::Delete { target, policy } => self.delete(&target, policy).await,
            Plan::Disown(dependents) => {
                let act = &self;
                let disown = |(target, owners): (Target, Vec<OwnerReference>)| async move {
                    act.set_owners(&target, &owners).await
                };
                let all = stream::iter(dependents)
                    .map(disown)
                    .buffer_unordered(AT_ONCE);
                let worst = |one: Next, other: Next| std::future::ready(Ok(one.max(other)));
                all.try_fold(Next::Rest, worst).await
            }
            Plan::Release { target, finalizers } => {
                let metadata = json!({"finalizers": finalizers});
                self.patch(&target, metadata, "remove a finalizer").await
            }
        }
    }

    async fn tell(&self, question: Question, finding: Finding) {
        // Nobody listens only when all is ending.
        let _ = self.facts.send(Fact { question, finding }).await;
    }

    async fn look(
        &self,
        reference: &Reference,
        resource: &Resource,
        key: &ObjectKey,
    ) -> Result<Finding, Failure> {
        #[derive(Deserialize)]
        struct Found {
            metadata: Header,
        }
        let path = resource.object_path(key);
        match request::get::<Found>(&self.client, &path).await {
            Ok(found) if found.metadata.uid == *reference.uid => {
                Ok(Finding::Found(Deletion::of(&found.metadata)))
            }
            Ok(_) => Ok(Finding::NotFound),
            Err(error) => match error.refusal() {
                Some(refusal) if refusal.is_object_not_found() => Ok(Finding::NotFound),
                Some(refusal) if refusal.code == 404 => Ok(Finding::NoKind),
                Some(_) | None => Err(Failure::to("look for an owner")(error)),
            },
        }
    }

    async fn delete(&self, target: &Target, policy: Policy) -> Result<Next, Failure> {
        let options = json!({
            "propagationPolicy": policy.name(),
            "preconditions": {"uid": *target.uid, "resourceVersion": target.revision},
        });
        let path = target.resource.object_path(&target.key);
        let deleted = request::delete(&self.client, &path, &options).await;
        if deleted.is_ok() {
            let (kind, key) = (&target.resource, &target.key);
            tracing::info!(%kind, %key, policy = policy.name(), "deleted what lost its owners");
        }
        settled(deleted, "delete what lost its owners")
    }

    async fn set_owners(
        &self,
        target: &Target,
        owners: &[OwnerReference],
    ) -> Result<Next, Failure> {
        let owner = |owner: &OwnerReference| {
            let mut value = json!({
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
            });
            let optional = [
                ("controller", owner.controller),
                ("blockOwnerDeletion", owner.block_owner_deletion),
            ];
            for (field, set) in optional {
                if let Some(set) = set {
                    value[field] = json!(set);
                }
            }
            value
        };
        let owners: Vec<Value> = owners.iter().map(owner).collect();
        let metadata = json!({"ownerReferences": owners});
        self.patch(target, metadata, "change an object's owners")
            .await
    }

    async fn patch(
        &self,
        target: &Target,
        mut metadata: Value,
        doing: &'static str,
    ) -> Result<Next, Failure> {
        metadata["uid"] = json!(*target.uid);
        metadata["resourceVersion"] = json!(target.revision);
        let path = target.resource.object_path(&target.key);
        let change = json!({"metadata": metadata});
        let patched = request::patch::<IgnoredAny>(&self.client, &path, Patch::Merge, &change);
        settled(patched.await, doing)
    }

    /// An event at the dependent, as Kubernetes reports it.
    async fn report(&self, reference: &Reference, dependent: &Target) -> Result<Next, Failure> {
        let Reference {
            uid,
            api_version,
            kind,
            namespace: _,
            name,
        } = reference;
        let Target {
            resource,
            key,
            uid: dependent_uid,
            revision,
        } = dependent;
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {}, name: {name}, uid: {uid}] does not \
             exist in namespace {:?}",
            key.namespace, key.namespace
        );
        // What lives in no namespace has its events in this one.
        let namespace = "default";
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "owner-reference-", "namespace": namespace},
            "involvedObject": {
                "apiVersion": resource.api_version(),
                "kind": resource.kind,
                "name": key.name,
                "uid": **dependent_uid,
                "resourceVersion": revision,
            },
            "type": "Warning",
            "reason": "OwnerRefInvalidNamespace",
            "message": message,
            "source": {"component": "garbage-collector-controller"},
            "reportingComponent": "garbage-collector-controller",
            "count": 1,
        });
        let path =
            Resource::namespaced("", "v1", "events", "Event").collection_path(Some(namespace));
        let created = request::create::<IgnoredAny>(&self.client, &path, &event).await;
        settled(created, "report an owner that cannot be")
    }
}
