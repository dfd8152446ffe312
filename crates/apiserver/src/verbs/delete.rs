//! DELETE of one object and of many.

use std::sync::Arc;

use deltaplane_store::{CommitError, Expect, Key, Object, Op, Txn};
use http::StatusCode;
use serde_json::{Value, json};

use super::update::is_gone;
use super::write::{self, Written};
use crate::context::{Answer, Cx, json as answer};
use crate::error::Error;
use crate::filter::Filter;
use crate::kinds::Kind;
use crate::options::{self, ListOptions};
use crate::present;
use crate::seams::Operation;
use crate::{decode, encode, value};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a deletion asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DeleteOptions {
    uid: Option<String>,
    resource_version: Option<String>,
    propagation: Option<Propagation>,
    dry_run: bool,
}

/// What happens to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// How one deletion ended.
enum Deleted {
    /// It is gone.
    Gone(Written),
    /// It is marked, and goes when its finalizers do.
    Marked(Written),
}

pub(crate) async fn delete(cx: &mut Cx) -> Result<Answer, Error> {
    let options = DeleteOptions::parse(cx)?;
    let name = cx.target.name.clone();
    let namespace = cx.target.namespace.clone();
    match delete_one(cx, &namespace, &name, &options).await? {
        Deleted::Marked(written) => super::create::respond(cx, &written, StatusCode::OK),
        Deleted::Gone(written) if cx.kind.strategy.returns_deleted => {
            super::create::respond(cx, &written, StatusCode::OK)
        }
        Deleted::Gone(written) => {
            let status = success(&cx.kind, &name, &written);
            Ok(answer(StatusCode::OK, encode::bytes(&status)))
        }
    }
}

fn success(kind: &Kind, name: &str, written: &Written) -> Value {
    let uid = match written {
        Written::Stored(object) => {
            value::text(&present::value(kind, object), "metadata.uid").to_owned()
        }
        Written::DryRun(object) => value::text(object, "metadata.uid").to_owned(),
    };
    let mut details = json!({"name": name, "kind": kind.plural, "uid": uid});
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details,
    })
}

/// Deletes everything that the selectors match, one by one, each with its own rules.
pub(crate) async fn delete_collection(cx: &mut Cx) -> Result<Answer, Error> {
    let options = DeleteOptions::parse(cx)?;
    let list = ListOptions::parse(&cx.query)?;
    let filter = Filter::new(&cx.kind, &list)?;
    let query = super::list::query(cx, &filter)?;
    let kind = Arc::clone(&cx.kind);
    let page = cx
        .server
        .store
        .list_where(&query, &|object: &Object| filter.matches(&kind, object))
        .await
        .map_err(|error| Error::unavailable(error.to_string()))?;
    let mut deleted = Vec::with_capacity(page.items.len());
    for object in page.items {
        let key = object.key();
        match delete_one(cx, key.namespace(), key.name(), &options).await {
            Ok(_) => deleted.push(present::value(&kind, &object)),
            // Someone else was faster.
            Err(error) if error.code == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    let body = json!({
        "kind": kind.list_kind,
        "apiVersion": kind.api_version,
        "metadata": {"resourceVersion": cx.server.store.revision().get().to_string()},
        "items": deleted,
    });
    Ok(answer(StatusCode::OK, encode::bytes(&body)))
}

async fn delete_one(
    cx: &mut Cx,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted, Error> {
    let kind = Arc::clone(&cx.kind);
    let key = cx.server.key(&kind, namespace, name)?;
    for _ in 0..write::MAX_ATTEMPTS {
        let stored = cx.server.store.get(&key);
        let stored = stored.ok_or_else(|| Error::not_found(kind.about(name)))?;
        let live = present::value(&kind, &stored);
        options.check(&kind, name, &live)?;
        write::admit(
            cx,
            Operation::Delete,
            &mut Value::Null,
            Some(&live),
            options.dry_run,
        )
        .await?;
        let step = step(cx, &live, options);
        if let Some(deleted) = carry_out(cx, &key, stored, step, options.dry_run).await? {
            return Ok(deleted);
        }
    }
    Err(Error::modified(kind.about(name)))
}

/// What is to be done about an object that shall be deleted.
#[derive(Debug, PartialEq)]
enum Step {
    /// Store it in this form.
    Mark(Value),
    /// Nothing: it is being deleted already.
    Wait,
    /// Remove it; this is its last form.
    Remove(Value),
}

fn step(cx: &Cx, live: &Value, options: &DeleteOptions) -> Step {
    let kind = &cx.kind;
    let mut object = live.clone();
    set_finalizers(&mut object, options.propagation);
    let marked = !value::at(live, "metadata.deletionTimestamp").is_null();
    if !marked {
        object["metadata"]["deletionTimestamp"] = cx.now.to_value();
        object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        if let Some(mark) = kind.strategy.mark_deleted {
            mark(&mut object);
        }
    }
    if is_gone(kind, &object) {
        // What never waited is shown as it was.
        return Step::Remove(if marked { object } else { live.clone() });
    }
    if object == *live {
        return Step::Wait;
    }
    if let Some(generation) = value::at(live, "metadata.generation")
        .as_i64()
        .filter(|_| !marked)
    {
        object["metadata"]["generation"] = json!(generation + 1);
    }
    Step::Mark(object)
}

/// The policy for dependents is kept as a finalizer, for the garbage collector to act on.
fn set_finalizers(object: &mut Value, propagation: Option<Propagation>) {
    let wanted = match propagation {
        // Nothing said: what was said before stays.
        None => return,
        Some(Propagation::Background) => None,
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
    };
    let mut finalizers = value::list(object, "metadata.finalizers").to_vec();
    finalizers.retain(|one| *one != ORPHAN && *one != FOREGROUND);
    finalizers.extend(wanted.map(|one| json!(one)));
    let finalizers = match finalizers.is_empty() {
        true => Value::Null,
        false => Value::Array(finalizers),
    };
    value::set(&mut object["metadata"], "finalizers", finalizers);
}

/// None if the stored object changed meanwhile.
async fn carry_out(
    cx: &Cx,
    key: &Key,
    stored: Arc<Object>,
    step: Step,
    dry_run: bool,
) -> Result<Option<Deleted>, Error> {
    let kind = &cx.kind;
    let (op, gone) = match step {
        Step::Wait => return Ok(Some(Deleted::Marked(Written::Stored(stored)))),
        Step::Mark(object) if dry_run => return Ok(Some(Deleted::Marked(Written::DryRun(object)))),
        Step::Remove(object) if dry_run => return Ok(Some(Deleted::Gone(Written::DryRun(object)))),
        Step::Mark(object) => (Op::Put(key.clone(), write::draft(kind, &object)), false),
        Step::Remove(object) => (
            Op::Delete(key.clone(), Some(write::draft(kind, &object))),
            true,
        ),
    };
    let guards = vec![(key.clone(), Expect::At(stored.revision()))];
    match write::commit(
        &cx.server,
        kind,
        Txn {
            guards,
            ops: vec![op],
        },
    )
    .await
    {
        Ok(committed) => Ok(committed
            .objects
            .into_iter()
            .next()
            .map(|object| match gone {
                true => Deleted::Gone(Written::Stored(object)),
                false => Deleted::Marked(Written::Stored(object)),
            })),
        Err(CommitError::Conflict { .. } | CommitError::Missing { .. }) => Ok(None),
        Err(error) => Err(write::storage_error(&error)),
    }
}

// === impl DeleteOptions ===

impl DeleteOptions {
    /// From the body, or from the query.
    fn parse(cx: &Cx) -> Result<Self, Error> {
        let body = decode::optional(cx.content_type(), &cx.body)?.unwrap_or_default();
        let text = |path: &str| Some(value::text(&body, path).to_owned()).filter(|t| !t.is_empty());
        let orphan = body["orphanDependents"].as_bool().or_else(|| {
            let said = cx.query.get("orphanDependents");
            (!said.is_empty()).then(|| cx.query.flag("orphanDependents"))
        });
        let policy = text("propagationPolicy")
            .unwrap_or_else(|| cx.query.get("propagationPolicy").to_owned());
        let propagation = match (policy.as_str(), orphan) {
            ("", None) => None,
            ("", Some(true)) => Some(Propagation::Orphan),
            ("", Some(false)) | ("Background", None) => Some(Propagation::Background),
            ("Foreground", None) => Some(Propagation::Foreground),
            ("Orphan", None) => Some(Propagation::Orphan),
            (_, Some(_)) => {
                return Err(invalid(
                    "propagationPolicy: Invalid value: orphanDependents and deletionPropagation cannot be both set",
                ));
            }
            (other, None) => {
                return Err(invalid(&format!(
                    "propagationPolicy: Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                )));
            }
        };
        let dry = options::dry_run(value::texts(&body, "dryRun"))?;
        Ok(Self {
            uid: text("preconditions.uid"),
            resource_version: text("preconditions.resourceVersion"),
            propagation,
            dry_run: dry || cx.query.dry_run()?,
        })
    }

    fn check(&self, kind: &Kind, name: &str, live: &Value) -> Result<(), Error> {
        let uid = value::text(live, "metadata.uid");
        if let Some(wanted) = self.uid.as_deref().filter(|wanted| *wanted != uid) {
            let why = format!(
                "Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
            );
            return Err(Error::conflict(kind.about(name), &why));
        }
        let version = value::text(live, "metadata.resourceVersion");
        if let Some(wanted) = self
            .resource_version
            .as_deref()
            .filter(|one| *one != version)
        {
            let why = format!(
                "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {version}"
            );
            return Err(Error::conflict(kind.about(name), &why));
        }
        Ok(())
    }
}

fn invalid(what: &str) -> Error {
    Error::unprocessable(format!("DeleteOptions.meta.k8s.io \"\" is invalid: {what}"))
}
