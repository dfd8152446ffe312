//! DELETE of one object and of many.

use std::sync::Arc;

use deltaplane_api::field;
use deltaplane_api::finalizers::{FOREGROUND, ORPHAN};
use deltaplane_store::{Key, Object, Op};
use futures::stream::{self, StreamExt};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::update::is_gone;
use super::write::{self, Written};
use crate::context::{Answer, Cx, json as answer};
use crate::error::{About, Error};
use crate::filter::Filter;
use crate::kinds::Kind;
use crate::meta;
use crate::options::{self, ListOptions, Options};
use crate::present;
use crate::seams::Operation;
use crate::{decode, encode, value};

/// Deletions of one request that go on at one time: enough to fill a commit.
const AT_ONCE: usize = 128;

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
    let (deleted, warnings) = delete_one(cx, &namespace, &name, &options).await?;
    cx.warn_all(warnings);
    cx.visible = deleted.written().visible();
    match deleted {
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

/// Deletes everything that the selectors match, each with its own rules.
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
    let done = delete_all(cx, page.items, &options).await;
    let revision = cx.server.store.revision();
    // Also of a refusal: others may be gone.
    cx.visible = (!options.dry_run).then_some(revision);
    let (deleted, warnings) = done?;
    cx.warn_all(warnings);
    let mut metadata = Map::new();
    let shown = revision.get().to_string();
    metadata.insert("resourceVersion".to_owned(), json!(shown));
    let body = super::list::objects(&kind, deleted, &metadata);
    Ok(answer(StatusCode::OK, body))
}

/// Deletes these side by side, so that they share commits; gives those that were there, and what
/// the client is to be warned of. What must not go keeps nothing else: its refusal is told when all
/// others are gone.
async fn delete_all(
    cx: &Cx,
    objects: Vec<Arc<Object>>,
    options: &DeleteOptions,
) -> Result<(Vec<Arc<Object>>, Vec<String>), Error> {
    let delete = |object: Arc<Object>| async move {
        let key = object.key();
        let deleted = delete_one(cx, key.namespace(), key.name(), options).await;
        (object, deleted)
    };
    let mut deletions = stream::iter(objects).map(delete).buffered(AT_ONCE);
    let (mut gone, mut all_warnings) = (Vec::new(), Vec::new());
    let mut refusal = None;
    while let Some((object, deleted)) = deletions.next().await {
        match deleted {
            Ok((_, warnings)) => {
                gone.push(object);
                all_warnings.extend(warnings);
            }
            // Someone else was faster.
            Err(error) if error.code == StatusCode::NOT_FOUND => {}
            Err(error) => {
                refusal.get_or_insert(error);
            }
        }
    }
    match refusal {
        Some(error) => Err(error),
        None => Ok((gone, all_warnings)),
    }
}

/// Deletes one; gives how it ended, and what the client is to be warned of.
async fn delete_one(
    cx: &Cx,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<(Deleted, Vec<String>), Error> {
    let kind = Arc::clone(&cx.kind);
    let key = cx.server.key(&kind, namespace, name)?;
    for _ in 0..write::MAX_ATTEMPTS {
        let stored = cx.server.store.get(&key);
        let stored = stored.ok_or_else(|| Error::not_found(kind.about(name)))?;
        let live = present::value(&kind, &stored);
        options.check(&kind, name, &live)?;
        let mut last = live.clone();
        let warnings = write::admit(
            cx,
            Operation::Delete,
            &mut last,
            Some(&live),
            options.dry_run,
        )
        .await?;
        let step = step(cx, (&live, last), options);
        if let Some(deleted) = carry_out(cx, &key, stored, step, options.dry_run).await? {
            return Ok((deleted, warnings));
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

/// `last` is what it is stored as last, or marked: what is there, as it was admitted.
fn step(cx: &Cx, (live, last): (&Value, Value), options: &DeleteOptions) -> Step {
    let kind = &cx.kind;
    let mut object = last.clone();
    set_finalizers(&mut object, options.propagation);
    let marked = meta::is_going(live);
    if !marked {
        object["metadata"]["deletionTimestamp"] = cx.now.to_value();
        object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        if let Some(mark) = kind.strategy.mark_deleted {
            mark(&mut object);
        }
    }
    if is_gone(kind, &object) {
        // What never waited is shown as it was.
        return Step::Remove(if marked { object } else { last });
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
        Step::Wait if dry_run => {
            let object = present::value(kind, &stored);
            return Ok(Some(Deleted::Marked(Written::DryRun(object))));
        }
        Step::Wait => {
            write::in_force(&cx.server, kind, stored.revision()).await;
            return Ok(Some(Deleted::Marked(Written::Stored(stored))));
        }
        Step::Mark(object) if dry_run => return Ok(Some(Deleted::Marked(Written::DryRun(object)))),
        Step::Remove(object) if dry_run => return Ok(Some(Deleted::Gone(Written::DryRun(object)))),
        Step::Mark(object) => (Op::Put(key.clone(), write::draft(kind, &object)), false),
        Step::Remove(object) => (
            Op::Delete(key.clone(), Some(write::draft(kind, &object))),
            true,
        ),
    };
    let stored = write::commit_change(&cx.server, kind, &stored, op).await?;
    Ok(stored.map(|object| match gone {
        true => Deleted::Gone(Written::Stored(object)),
        false => Deleted::Marked(Written::Stored(object)),
    }))
}

// === impl Deleted ===

impl Deleted {
    fn written(&self) -> &Written {
        match self {
            Self::Gone(written) | Self::Marked(written) => written,
        }
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
        let mut errors = Vec::new();
        let path = field::Path::new("propagationPolicy");
        if orphan.is_some() && !policy.is_empty() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(field::Error::invalid(path.clone(), policy.as_str(), detail));
        }
        let propagation = match (policy.as_str(), orphan) {
            ("", None) => None,
            ("Background", _) | ("", Some(false)) => Some(Propagation::Background),
            ("Foreground", _) => Some(Propagation::Foreground),
            ("Orphan", _) | ("", Some(true)) => Some(Propagation::Orphan),
            (other, _) => {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(field::Error::not_supported(path, other, &known));
                None
            }
        };
        let dry_run = options::dry_run(
            value::texts(&body, "dryRun").chain(cx.query.all("dryRun")),
            &mut errors,
        );
        Options::Delete.refuse(&errors)?;
        Ok(Self {
            uid: text("preconditions.uid"),
            resource_version: text("preconditions.resourceVersion"),
            propagation,
            dry_run,
        })
    }

    fn check(&self, kind: &Kind, name: &str, live: &Value) -> Result<(), Error> {
        let about = About {
            group: &kind.group,
            resource: &kind.kind,
            name,
        };
        let uid = value::text(live, "metadata.uid");
        if let Some(wanted) = self.uid.as_deref().filter(|wanted| *wanted != uid) {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
            );
            return Err(Error::conflict(about, &why));
        }
        let version = value::text(live, "metadata.resourceVersion");
        let wanted = self.resource_version.as_deref();
        if let Some(wanted) = wanted.filter(|one| *one != version) {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
            );
            return Err(Error::conflict(about, &why));
        }
        Ok(())
    }
}
