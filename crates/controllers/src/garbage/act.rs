//! Lookups and writes.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use deltaplane_client::feed::list;
use deltaplane_client::header::{Header, OwnerReference};
use deltaplane_client::request::{self, Patch};
use deltaplane_client::{ObjectKey, Query, Resource};

use crate::queue::{Failure, Next, settled};

use super::graph::{Deletion, Fact, Finding, Question, Reference, Uid};
use super::plan::{Leave, Plan, Policy, Target};

/// What an act needs.
pub(super) struct Act {
    pub(super) client: Client,
    pub(super) facts: mpsc::Sender<Fact>,
}

/// An object that some of its owners leave behind.
struct Dependent {
    target: Target,
    left: Vec<Uid>,
    others: Vec<OwnerReference>,
}

/// Requests of one act at one time.
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
                let changes = stream::iter(dependents).map(disown);
                let changed: Vec<_> = changes.buffer_unordered(AT_ONCE).collect().await;
                worst(changed)
            }
            Plan::Release { target, finalizers } => self.set_finalizers(&target, &finalizers).await,
            Plan::Leave(leave) => self.leave(&leave).await,
        }
    }

    /// An owner is released when none names it; a dependent that cannot be changed holds its own
    /// owners only.
    async fn leave(&self, leave: &Leave) -> Result<Next, Failure> {
        let look = |kind: Resource| self.dependents(leave, kind);
        let lists = stream::iter(leave.kinds.clone()).map(look);
        let found: Vec<Vec<Dependent>> = lists.buffer_unordered(AT_ONCE).try_collect().await?;
        let disown = |dependent: Dependent| async move {
            let Dependent {
                target,
                left,
                others,
            } = dependent;
            (left, self.set_owners(&target, &others).await)
        };
        let changes = stream::iter(found.into_iter().flatten()).map(disown);
        let changed: Vec<_> = changes.buffer_unordered(AT_ONCE).collect().await;
        let mut held = BTreeSet::new();
        let mut results = Vec::new();
        for (left, result) in changed {
            if !matches!(result, Ok(Next::Rest)) {
                held.extend(left);
            }
            results.push(result);
        }
        let mut free = leave.owners.clone();
        free.retain(|uid, _| !held.contains(uid));
        let release = |(target, finalizers): (Target, Vec<String>)| async move {
            self.set_finalizers(&target, &finalizers).await
        };
        let releases = stream::iter(free.into_values()).map(release);
        let released: Vec<_> = releases.buffer_unordered(AT_ONCE).collect().await;
        worst(results.into_iter().chain(released))
    }

    /// All objects of this kind that have one of these owners.
    async fn dependents(&self, leave: &Leave, kind: Resource) -> Result<Vec<Dependent>, Failure> {
        let all = Query::metadata(kind.clone());
        let query = match &leave.namespace {
            Some(namespace) => all.in_namespace(namespace),
            None => all,
        };
        let mut found = Vec::new();
        let listed = list(&self.client, &query, |item| {
            if let Some((left, others)) = leave.split(&item.header) {
                let target = Target {
                    resource: kind.clone(),
                    key: item.header.key(),
                    uid: item.header.uid.as_str().into(),
                    revision: item.header.resource_version,
                };
                found.push(Dependent {
                    target,
                    left,
                    others,
                });
            }
        });
        // Not even when the kind is not there: it may come back, with dependents. Once the catalog
        // says that it is gone, it is not asked for.
        listed.await.map_err(Failure::to("look for dependents"))?;
        Ok(found)
    }

    async fn set_finalizers(
        &self,
        target: &Target,
        finalizers: &[String],
    ) -> Result<Next, Failure> {
        let metadata = json!({"finalizers": finalizers});
        self.patch(target, metadata, "remove a finalizer").await
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

/// Of several results the one that matters: a failure, or what is to be looked at soonest.
fn worst(results: impl IntoIterator<Item = Result<Next, Failure>>) -> Result<Next, Failure> {
    results
        .into_iter()
        .try_fold(Next::Rest, |worst, result| Ok(worst.max(result?)))
}
