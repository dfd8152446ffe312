//! One instance, and what can be done to it: its finalizer and labels, its objects, its status, its
//! end. What is made of it is in `pass`.
//!
//! Invariants: deleting needs no graph, only what the objects carry; an object is deleted by its
//! uid.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deltaplane_api::admission::{ADMISSION, Admission, Point};
use deltaplane_api::time::Time;
use deltaplane_client::request::{Refusal, Requester};
use deltaplane_client::{Catalog, ObjectKey, RequestError, Resource, request};
use deltaplane_graph::Gvk;
use deltaplane_graph::labels::{self, MANAGER};
use deltaplane_graph::observed::{ObjectId, Observed, Owner};
use deltaplane_graph::plan::{Apply, Cause, Prune};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::accounts::{Accounts, GraphAccount};
use super::admission::{self, Health, Passed};
use super::deletions::Deletions;
use super::externals::Externals;
use super::inventory::Inventory;
use super::memories::{Memories, Whose};
use super::metrics::Counted;
use super::notes::{self, Note};
use super::objects::{Dirty, Objects, Wanting};
use super::passes::Passes;
use super::report::{self, Ended};
use super::rights::{AccountRight, Asker};
use crate::Context;
use crate::queue::{Failure, Next};

/// What a pass needs.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) context: Context,
    pub(super) objects: Objects,
    /// The kind of the instance.
    pub(super) resource: Resource,
    pub(super) key: ObjectKey,
    pub(super) json: Arc<Value>,
    /// The definition, for labels.
    pub(super) definition: Arc<Definition>,
    pub(super) latest: Latest,
    pub(super) passes: Passes,
    pub(super) externals: Externals,
    pub(super) accounts: Accounts,
    /// The account that its objects are written as; none if the controller writes them.
    pub(super) account: Option<GraphAccount>,
    pub(super) memories: Memories,
    /// Who is told when something changes that the instance refers to.
    pub(super) dirty: Arc<Dirty>,
    pub(super) counted: Counted,
    pub(super) deletions: Deletions,
    /// What the API serves, as far as is known.
    pub(super) catalog: Arc<Catalog>,
}

/// Instances as the API answered to what was written, until their feed tells the same: a pass that
/// begins before would write it again. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Latest {
    written: Arc<Mutex<BTreeMap<String, Arc<Value>>>>,
    /// By uid: the last status that the API stored otherwise than it was written.
    normalized: Arc<Mutex<BTreeMap<String, NormalizedStatus>>>,
}

/// A status, and what the API made of it.
struct NormalizedStatus {
    written: Value,
    stored: Value,
    /// When it is written once more, if the API dropped something: it may not have known a new
    /// schema of the kind yet.
    again: Option<Time>,
}

/// Who an instance belongs to.
#[derive(PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) uid: String,
    /// Whether it was authored at the hub and came here.
    pub(super) hub_authored: bool,
}

/// What came of deleting objects.
#[derive(Default)]
pub(super) struct Deleted {
    /// What may not be, and why.
    pub(super) refused: BTreeMap<ObjectId, String>,
    /// Something goes, and nobody tells when it is gone.
    pub(super) untold: bool,
    /// An answer that did not come.
    pub(super) lost: Option<RequestError>,
}

/// What came of deleting one.
enum Deletion {
    /// It goes, and its feed tells when it is gone.
    Asked,
    /// It goes, and no feed tells when it is gone.
    Untold,
    Gone,
    Refused(String),
    /// The answer did not come.
    Lost(RequestError),
}

/// Why an object was not written.
#[derive(Debug)]
pub(super) enum Unwritten {
    MissingRight(AccountRight),
    Refused(String),
    Request(RequestError),
}

/// An API server serves a changed schema a moment after it was told.
const SCHEMA_LAG: Duration = Duration::from_secs(5);
/// So many objects of an instance are written at once.
pub(super) const AT_ONCE: usize = 16;

/// Who writes the finalizer and the labels of instances, and their status.
const LABELLER: &str = "kro.run/labeller";

/// What the instance is told when there is no graph for it.
pub(super) async fn unresolved(subject: Subject, why: String) -> Result<Next, Failure> {
    subject.tell(&Ended::Unresolved { why: &why }).await
}

/// The same, of an instance whose revision is gone while others have theirs: they need not wait until
/// it is known how it stands.
pub(super) async fn lost(subject: Subject, at: Point, why: String) -> Result<Next, Failure> {
    let passed = Passed {
        at,
        generation: admission::generation(&subject.json),
        health: Health::Failed,
    };
    subject.passes.set(subject.uid(), passed);
    unresolved(subject, why).await
}

/// What the instance is told when it cannot be seen what it has.
pub(super) async fn unseen(subject: Subject, why: String) -> Result<Next, Failure> {
    subject.tell(&Ended::Unseen { why: &why }).await
}

/// Deletes what the instance made, the highest wave first, and then lets it go.
pub(super) async fn end(subject: Subject) -> Result<Next, Failure> {
    if !report::is_managed(&subject.json) {
        return Ok(Next::Rest);
    }
    let observed = subject.observed();
    let wave = highest_wave(&observed);
    if wave.is_empty() {
        return match subject.release().await {
            Err(failure) => subject.unreleased(failure).await,
            released => released,
        };
    }
    let deleted = subject.delete(&wave).await;
    let ids: Vec<ObjectId> = wave.into_iter().map(|one| one.id).collect();
    let ended = Ended::Deleting {
        waits_for: &ids,
        undeleted: &deleted.refused,
    };
    // That they are gone is told by their feeds.
    let told = subject.tell(&ended).await?;
    match deleted.lost {
        Some(error) => Err(Failure::to("delete an object")(error)),
        None if !deleted.refused.is_empty() || deleted.untold => Ok(Next::Later),
        None => Ok(told),
    }
}

/// Those of the highest wave, also those that are going already.
fn highest_wave(observed: &Observed) -> Vec<Prune> {
    let all = observed.iter().map(|(node, live)| Prune::of(node, live));
    let mut all: Vec<Prune> = all.collect();
    let highest = all.iter().map(|one| one.wave).max();
    all.retain(|one| Some(one.wave) == highest);
    all
}

/// What objects say that they were made with.
pub(super) const PRODUCT: &str = env!("CARGO_PKG_VERSION");

// === impl Deletion ===

impl From<Result<(), RequestError>> for Deletion {
    fn from(answer: Result<(), RequestError>) -> Self {
        match answer {
            Ok(()) => Self::Asked,
            Err(error) if error.is_not_found() => Self::Gone,
            Err(error) if error.refusal().is_some() => Self::Refused(error.to_string()),
            Err(error) => Self::Lost(error),
        }
    }
}

// === impl Latest ===

impl Latest {
    fn written(&self, now: Value) {
        if let Some(uid) = now["metadata"]["uid"].as_str() {
            self.written.lock().insert(uid.to_owned(), Arc::new(now));
        }
    }

    /// The newest of an instance, of which the feed told this.
    pub(super) fn newest(&self, told: &Arc<Value>) -> Arc<Value> {
        let mut latest = self.written.lock();
        let uid = told["metadata"]["uid"].as_str().unwrap_or_default();
        match latest.get(uid) {
            Some(written) if version(written) > version(told) => written.clone(),
            Some(_) => {
                latest.remove(uid);
                told.clone()
            }
            None => told.clone(),
        }
    }

    /// The feed told this of an instance. What was written before is not kept until the next pass:
    /// that may come after those over all other instances.
    pub(super) fn seen(&self, told: &Value) {
        let uid = told["metadata"]["uid"].as_str().unwrap_or_default();
        let mut latest = self.written.lock();
        if latest
            .get(uid)
            .is_some_and(|written| version(written) <= version(told))
        {
            latest.remove(uid);
        }
    }

    /// Keeps what the API stored of a status, if that is not what was written. Returns true if it
    /// dropped something of it for the first time: then it is written once more, `again`.
    fn status_written(&self, uid: &str, written: Value, stored: &Value, again: Time) -> bool {
        let mut normalized = self.normalized.lock();
        if written == *stored {
            normalized.remove(uid);
            return false;
        }
        let before = normalized.get(uid);
        let is_repeated = before.is_some_and(|before| before.written == written);
        let is_news = !is_repeated && drops(&written, stored);
        let known = NormalizedStatus {
            written,
            stored: stored.clone(),
            again: is_news.then_some(again),
        };
        normalized.insert(uid.to_owned(), known);
        is_news
    }

    /// The status to write on an instance; nothing if the API has it, or has what it makes of it, so
    /// that writing it again would change nothing.
    fn status_to_write(&self, instance: &Value, ended: &Ended<'_>, now: Time) -> Option<Value> {
        let uid = instance["metadata"]["uid"].as_str().unwrap_or_default();
        let stored = &instance["status"];
        let known = {
            let normalized = self.normalized.lock();
            let known = normalized.get(uid);
            let known = known.filter(|known| known.stored == *stored);
            known.map(|known| (known.written.clone(), known.again))
        };
        let Some((written, again)) = known else {
            let wanted = report::status(instance, ended, now);
            return (wanted != *stored).then_some(wanted);
        };
        // Fields that the API did not store, such as transition times, are taken as they were written.
        let mut instance = instance.clone();
        instance["status"] = written;
        let wanted = report::status(&instance, ended, now);
        let is_due = again.is_some_and(|again| again <= now);
        (is_due || wanted != instance["status"]).then_some(wanted)
    }

    /// The instance is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.written.lock().remove(uid);
        self.normalized.lock().remove(uid);
    }
}

/// Returns true if an API stored less than was written: a field is missing.
fn drops(written: &Value, stored: &Value) -> bool {
    match (written, stored) {
        (Value::Object(written), Value::Object(stored)) => {
            let mut fields = written.iter();
            fields.any(|(name, value)| {
                let stored = stored.get(name);
                stored.map_or(!value.is_null(), |stored| drops(value, stored))
            })
        }
        (Value::Array(written), Value::Array(stored)) => {
            let mut items = written.iter().zip(stored);
            items.any(|(written, stored)| drops(written, stored))
        }
        (_, _) => false,
    }
}

fn version(json: &Value) -> Option<u64> {
    json["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

// === impl Subject ===

impl Subject {
    pub(super) fn uid(&self) -> &str {
        self.json["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// The set that its objects are applied with.
    fn set(&self) -> String {
        let Resource { group, kind, .. } = &self.resource;
        labels::apply_set((group, kind), &self.key.namespace, &self.key.name)
    }

    /// What there is for it.
    pub(super) fn observed(&self) -> Observed {
        self.objects.observed(&self.wanting(&self.set()))
    }

    /// Whose an object is, if it is somebody else's.
    pub(super) fn foreign(&self, id: &ObjectId) -> Option<Owner> {
        self.objects.foreign(id, &self.wanting(&self.set()))
    }

    fn wanting<'a>(&'a self, set: &'a str) -> Wanting<'a> {
        Wanting {
            uid: self.uid(),
            set,
            dirty: &self.dirty,
        }
    }

    /// Sees to it that the instance carries what is needed to find its objects, and to end it. What
    /// this pass wrote before is given.
    pub(super) async fn manage(
        &self,
        admission: Admission,
        inventory: &Inventory,
        before: Option<&Inventory>,
    ) -> Result<(), RequestError> {
        if before == Some(inventory) {
            return Ok(());
        }
        let metadata = &self.json["metadata"];
        let set = self.set();
        let mut wanted = json!({
            "labels": {
                labels::OWNED: "true",
                labels::VERSION: PRODUCT,
                labels::DEFINITION: self.definition.uid,
                labels::DEFINITION_NAME: labels::value(&self.definition.name),
                labels::APPLY_SET: set,
            },
            "annotations": {ADMISSION: admission.to_string()},
        });
        for (key, value) in inventory.annotations(&set, PRODUCT) {
            wanted["annotations"][key] = value.into();
        }
        let has = |part: &str| {
            let (wanted, there) = (wanted[part].as_object(), &metadata[part]);
            wanted.is_none_or(|map| map.iter().all(|(key, value)| there[key] == *value))
        };
        let managed = report::is_managed(&self.json);
        if managed && before.is_none() && has("labels") && has("annotations") {
            return Ok(());
        }
        let mut body = self.head();
        for part in ["labels", "annotations"] {
            body["metadata"][part] = wanted[part].clone();
        }
        body["metadata"]["finalizers"] = json!([labels::FINALIZER]);
        if before.is_none() && Admission::read(&self.json) != Some(admission) {
            // The bound of a gate rests on this write: it is made on what was decided about, and on
            // nothing that somebody wrote since, be it another process.
            body["metadata"]["resourceVersion"] = metadata["resourceVersion"].clone();
        }
        let path = self.resource.object_path(&self.key);
        let path = format!("{path}?fieldManager={LABELLER}&force=true");
        let now = request::apply::<Value>(&self.context.client, &path, &body).await?;
        self.latest.written(now);
        Ok(())
    }

    /// Which object it is, and no other of that name.
    fn head(&self) -> Value {
        let mut metadata = json!({"name": self.key.name, "uid": self.uid()});
        if self.resource.namespaced {
            metadata["namespace"] = self.key.namespace.as_str().into();
        }
        json!({
            "apiVersion": self.resource.api_version(),
            "kind": self.resource.kind,
            "metadata": metadata,
        })
    }

    pub(super) async fn apply(&self, one: &Apply) -> Result<(), Unwritten> {
        let path = format!(
            "{}?fieldManager={MANAGER}&force=true",
            self.objects.path(&one.id)
        );
        if let Some(account) = &self.account {
            let provided = self.accounts.provide(account).await;
            provided.map_err(|error| self.unprovided(account, error))?;
        }
        let answer = self.apply_at(&path, one).await;
        match &answer {
            Ok(_) => self.counted.applied(),
            Err(error) if error.refusal().is_some() => self.counted.refused(),
            Err(_) => {}
        }
        match answer {
            Ok(json) => {
                self.objects.written(&one.id.gvk, json);
                Ok(())
            }
            Err(error) => Err(self.unwritten(error, &["patch", "create"], &one.id).await),
        }
    }

    async fn apply_at(&self, path: &str, one: &Apply) -> Result<Value, RequestError> {
        let user = self.account.as_ref().map(GraphAccount::user);
        let requester = self.requester(user.as_deref());
        let applied = requester.apply::<Value>(path, &one.object).await?;
        if applied.created || one.why != Cause::Absent {
            return Ok(applied.object);
        }
        // It was there, unseen: it is not one that a graph created.
        let mut object = one.object.clone();
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.remove(labels::CREATED);
        }
        Ok(requester.apply::<Value>(path, &object).await?.object)
    }

    fn requester<'a>(&'a self, user: Option<&'a str>) -> Requester<'a> {
        let client = &self.context.client;
        match user {
            Some(user) => Requester::impersonating(client, user),
            None => Requester::from(client),
        }
    }

    fn unprovided(&self, account: &GraphAccount, error: RequestError) -> Unwritten {
        match error.refusal() {
            // Nothing is made in a namespace that is going.
            Some(refusal) => {
                self.counted.refused();
                let why = format!("{account} cannot be provided: {refusal}");
                Unwritten::Refused(why)
            }
            None => Unwritten::Request(error),
        }
    }

    /// Why an object was not written: a right that the account lacks, if that is it.
    async fn unwritten(
        &self,
        error: RequestError,
        verbs: &[&'static str],
        id: &ObjectId,
    ) -> Unwritten {
        let Some(account) = self.account.as_ref().filter(|_| error.code() == Some(403)) else {
            return Unwritten::Request(error);
        };
        self.accounts.doubt(account);
        for verb in verbs {
            let right = self.right_to(account, verb, id);
            // Whatever else keeps the API from answering is not a missing right.
            if matches!(self.has(&right).await, Ok(false)) {
                return Unwritten::MissingRight(right);
            }
        }
        Unwritten::Request(error)
    }

    /// The right of the account to do something with an object.
    pub(super) fn right_to(
        &self,
        account: &GraphAccount,
        verb: &'static str,
        id: &ObjectId,
    ) -> AccountRight {
        AccountRight {
            account: account.clone(),
            verb,
            group: id.gvk.group.clone(),
            plural: self.objects.plural(&id.gvk),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
        }
    }

    /// Returns true if an account has a right. The instance is told when that may change.
    pub(super) async fn has(&self, right: &AccountRight) -> Result<bool, RequestError> {
        let asker = Asker {
            uid: self.uid(),
            dirty: &self.dirty,
        };
        self.accounts.rights().has(right, &asker).await
    }

    /// Deletes objects that are not on their way out already.
    pub(super) async fn delete(&self, all: &[Prune]) -> Deleted {
        let deleting: Vec<_> = {
            let all = all.iter().filter(|one| !one.deleting);
            all.map(|one| async move { (one, self.delete_one(one).await) })
                .collect()
        };
        let mut answers = stream::iter(deleting).buffer_unordered(AT_ONCE);
        let mut deleted = Deleted::default();
        while let Some((one, answer)) = answers.next().await {
            match answer {
                Deletion::Asked => self.counted.deleted(),
                Deletion::Untold => deleted.untold = true,
                // The feed may not say so: it ends with its kind.
                Deletion::Gone => self.objects.remove(&one.id, Some(&one.uid)),
                Deletion::Refused(why) => {
                    self.counted.refused();
                    deleted.refused.insert(one.id.clone(), why);
                }
                Deletion::Lost(error) => deleted.lost = Some(error),
            }
        }
        deleted
    }

    async fn delete_one(&self, one: &Prune) -> Deletion {
        match self.delete_at(&self.objects.path(&one.id), one).await {
            Err(error) if error.refusal().is_some_and(Refusal::is_kind_not_served) => {
                self.delete_elsewhere(one).await
            }
            answer => self.deletion(answer, one).await,
        }
    }

    async fn deletion(&self, answer: Result<(), RequestError>, one: &Prune) -> Deletion {
        let Err(error) = answer else {
            return Deletion::Asked;
        };
        match self.unwritten(error, &["delete"], &one.id).await {
            Unwritten::MissingRight(right) => Deletion::Refused(right.to_string()),
            Unwritten::Refused(why) => Deletion::Refused(why),
            Unwritten::Request(error) => Err(error).into(),
        }
    }

    /// Deletes as the account. What a graph created the controller deletes if the account may not:
    /// an account loses its rights before its namespace is gone.
    async fn delete_with_rights(&self, path: &str, one: &Prune) -> Result<(), RequestError> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "propagationPolicy": "Background", "preconditions": {"uid": one.uid},
        });
        let user = self.account.as_ref().map(GraphAccount::user);
        let requester = self.requester(user.as_deref());
        let deleted = requester.delete(path, &options).await;
        let refused = deleted
            .as_ref()
            .is_err_and(|error| error.code() == Some(403));
        let Some(account) = self.account.as_ref().filter(|_| refused) else {
            return deleted;
        };
        let right = self.right_to(account, "delete", &one.id);
        if !matches!(self.has(&right).await, Ok(false)) {
            return deleted;
        }
        if one.created {
            let client = &self.context.client;
            return Requester::from(client).delete(path, &options).await;
        }
        self.accounts.doubt(account);
        match self.accounts.provide(account).await {
            Ok(()) => requester.delete(path, &options).await,
            Err(_) => deleted,
        }
    }

    async fn delete_at(&self, path: &str, one: &Prune) -> Result<(), RequestError> {
        match self.delete_with_rights(path, one).await {
            Err(error) if error.is_conflict() => match self.is_another(one, path).await {
                // Of that one the feed tells, and this one is gone.
                Ok(true) => {
                    self.objects.remove(&one.id, Some(&one.uid));
                    Ok(())
                }
                // Somebody refuses it with these words.
                Ok(false) => Err(error),
                Err(unknown) => Err(unknown),
            },
            answer => answer,
        }
    }

    /// The version of its kind is not served that an object was made in. It lives on if another is:
    /// no feed tells when it is gone, so that it is asked for until it is.
    async fn delete_elsewhere(&self, one: &Prune) -> Deletion {
        let Gvk {
            group,
            version,
            kind,
        } = &one.id.gvk;
        let Some(served) = self.catalog.group_kind(group, kind) else {
            return match self.catalog.failure(group) {
                Some(why) => Deletion::Refused(format!("kind {kind}: {why}")),
                None => Deletion::Gone,
            };
        };
        let resource = &served.resource;
        if resource.version == *version {
            return Deletion::Refused(format!("kind {kind} is not served at the moment"));
        }
        let key = ObjectKey::new(&one.id.namespace, &one.id.name);
        match self.delete_at(&resource.object_path(&key), one).await {
            Ok(()) => Deletion::Untold,
            answer => self.deletion(answer, one).await,
        }
    }

    /// Whether there is another object of that name. Whoever believes that it is gone may let go of
    /// the instance, so that it is looked at.
    async fn is_another(&self, one: &Prune, path: &str) -> Result<bool, RequestError> {
        let there: Value = request::get(&self.context.client, path).await?;
        Ok(there["metadata"]["uid"] != one.uid.as_str())
    }

    /// Writes the status, if it is another.
    pub(super) async fn tell(&self, ended: &Ended<'_>) -> Result<Next, Failure> {
        let now = Time::from_system(self.context.pace.clock.now());
        let Some(status) = self.latest.status_to_write(&self.json, ended, now) else {
            return Ok(Next::Rest);
        };
        let notes = notes::notes(&self.json["status"], &status);
        let mut body = self.head();
        body["status"] = status.clone();
        let path = self.resource.object_path(&self.key);
        let path = format!("{path}/status?fieldManager={LABELLER}&force=true");
        match request::apply::<Value>(&self.context.client, &path, &body).await {
            // It is gone, or another.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(Next::Rest),
            Err(error) => Err(Failure::to("write the status of the instance")(error)),
            Ok(now) => {
                let again = self.context.pace.clock.now() + SCHEMA_LAG;
                let at = Time::from_system(again);
                let latest = &self.latest;
                if latest.status_written(self.uid(), status, &now["status"], at) {
                    self.passes.look_again(self.uid(), again);
                }
                self.latest.written(now);
                self.note(&notes).await;
                Ok(Next::Rest)
            }
        }
    }

    /// Writes events. That one cannot be written changes nothing.
    async fn note(&self, notes: &[Note]) {
        let now = Time::from_system(self.context.pace.clock.now());
        for note in notes {
            let event = note.object(&self.json, now);
            let namespace = event["metadata"]["namespace"].as_str();
            let path = Resource::namespaced("", "v1", "events", "Event").collection_path(namespace);
            let written = request::create::<IgnoredAny>(&self.context.client, &path, &event).await;
            if let Err(error) = written {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(instance = %self.key, error, "an event cannot be written");
            }
        }
    }

    /// What is remembered of it.
    pub(super) fn whose(&self) -> Whose<'_> {
        Whose {
            uid: self.uid(),
            namespace: &self.key.namespace,
            owner: json!({
                "apiVersion": self.resource.api_version(),
                "kind": self.resource.kind,
                "name": self.key.name,
                "uid": self.uid(),
            }),
        }
    }

    async fn unreleased(&self, failure: Failure) -> Result<Next, Failure> {
        if let Some(refusal) = failure.refusal() {
            let why = refusal.to_string();
            self.tell(&Ended::Unreleased { why: &why }).await?;
        }
        Err(failure)
    }

    /// Takes the finalizer away.
    async fn release(&self) -> Result<Next, Failure> {
        self.memories
            .forget(self.uid(), &self.key.namespace)
            .await?;
        let finalizers = self.json["metadata"]["finalizers"].as_array();
        let others: Vec<&Value> = {
            let all = finalizers.into_iter().flatten();
            all.filter(|one| *one != labels::FINALIZER).collect()
        };
        let change = json!({"metadata": {
            "finalizers": others,
            "resourceVersion": self.json["metadata"]["resourceVersion"],
        }});
        let path = self.resource.object_path(&self.key);
        let format = request::Patch::Merge;
        let patched =
            request::patch::<IgnoredAny>(&self.context.client, &path, format, &change).await;
        crate::queue::settled(patched, "take the finalizer off the instance")
    }
}

#[cfg(test)]
mod tests;
