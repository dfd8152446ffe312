//! PUT, and the path that every change of an existing object takes.

use std::sync::Arc;

use deltaplane_schema::managed;
use deltaplane_store::{Key, Object, Op};
use http::StatusCode;
use serde_json::{Value, json};

use super::create::{self, New};
use super::write::{self, Section, Written};
use crate::context::{Answer, Cx};
use crate::error::Error;
use crate::kinds::Kind;
use crate::options::{Options, WriteOptions};
use crate::request::Verb;
use crate::seams::Operation;
use crate::{auth, decode, meta, present, value};

pub(crate) async fn update(cx: &mut Cx, section: Section) -> Result<Answer, Error> {
    let options = WriteOptions::parse(Options::Update, &cx.query, cx.user_agent())?;
    let parsed = decode::object(cx.content_type(), &cx.body, &cx.kind.kind)?;
    let mut object = write::intake(cx, parsed, &options)?;
    write::check_address(cx, &mut object)?;
    let key = cx
        .server
        .key(&cx.kind, &cx.target.namespace, &cx.target.name)?;
    let absent = cx.server.store.get(&key).is_none();
    if absent && section == Section::Main && cx.kind.strategy.create_on_update {
        auth::authorize_create(cx)?;
        value::take(&mut object["metadata"], "resourceVersion");
        let new = New {
            object,
            tracked: false,
        };
        return create::answer_new(cx, new, &options).await;
    }
    let written = change(cx, section, &options, |_cx, _live| {
        Ok(Changed {
            object: object.clone(),
            tracked: false,
        })
    })
    .await?;
    create::respond(cx, &written, StatusCode::OK)
}

/// A changed object.
pub(crate) struct Changed {
    pub(crate) object: Value,
    /// Whether managed fields are up to date already (server-side apply does that itself).
    pub(crate) tracked: bool,
}

/// Changes the object that the request names: `make` computes the new one from the stored one,
/// again if the stored one changes meanwhile.
pub(crate) async fn change(
    cx: &mut Cx,
    section: Section,
    options: &WriteOptions,
    make: impl Fn(&mut Cx, &Value) -> Result<Changed, Error>,
) -> Result<Written, Error> {
    let key = cx
        .server
        .key(&cx.kind, &cx.target.namespace, &cx.target.name)?;
    for _ in 0..write::MAX_ATTEMPTS {
        let stored = cx.server.store.get(&key);
        let stored = stored.ok_or_else(|| Error::not_found(cx.kind.about(&cx.target.name)))?;
        let live = present::value(&cx.kind, &stored);
        let changed = make(cx, &live)?;
        precondition(cx, &changed.object, &live)?;
        let attempt = Attempt {
            key: &key,
            stored,
            live,
            section,
        };
        if let Some(written) = attempt.run(cx, changed, options).await? {
            cx.visible = written.visible();
            return Ok(written);
        }
    }
    Err(Error::modified(cx.kind.about(&cx.target.name)))
}

/// Checks that the new object builds on the stored one. An object that names the version that it
/// builds on fails here when it is tried again on another one.
fn precondition(cx: &Cx, new: &Value, live: &Value) -> Result<(), Error> {
    let (kind, name) = (&cx.kind, cx.target.name.as_str());
    let about = kind.about(name);
    let (uid, live_uid) = (
        value::text(new, "metadata.uid"),
        value::text(live, "metadata.uid"),
    );
    // Whoever sends the whole object means that one; a patch of it is a change that is refused.
    if cx.target.verb == Verb::Update && !uid.is_empty() && uid != live_uid {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}"
        );
        return Err(Error::conflict(about, &why));
    }
    match value::text(new, "metadata.resourceVersion") {
        "" | "0" if kind.strategy.unconditional_update => Ok(()),
        "" | "0" => {
            let path = deltaplane_api::field::Path::new("metadata").child("resourceVersion");
            let detail = "must be specified for an update";
            let error = deltaplane_api::field::Error::invalid(path, 0, detail);
            Err(Error::invalid(&kind.group, &kind.plural, name, &[error]))
        }
        version if version == value::text(live, "metadata.resourceVersion") => Ok(()),
        version => {
            crate::options::revision(version)?;
            Err(Error::modified(about))
        }
    }
}

struct Attempt<'a> {
    key: &'a Key,
    stored: Arc<Object>,
    live: Value,
    section: Section,
}

// === impl Attempt ===

impl Attempt<'_> {
    /// None if the stored object changed meanwhile.
    async fn run(
        self,
        cx: &mut Cx,
        changed: Changed,
        options: &WriteOptions,
    ) -> Result<Option<Written>, Error> {
        let kind = Arc::clone(&cx.kind);
        let Changed {
            mut object,
            tracked,
        } = changed;
        merge_section(&kind, self.section, &mut object, &self.live);
        kind.default_for_admission(&mut object);
        let warnings = write::admit(
            cx,
            Operation::Update,
            &mut object,
            Some(&self.live),
            options.dry_run,
        )
        .await?;
        cx.warn_all(warnings);
        write::validate(cx, &object, Some(&self.live))?;
        auth::escalation::check(cx, &object, Some(&self.live))?;
        if !tracked {
            write::with_managed(cx, options, self.section, |managed| {
                managed::track_update(managed, Some(&self.live), &mut object);
            });
        }
        managed::keep_timestamps(&self.live, &mut object);
        count_generation(&kind, &mut object, &self.live);
        meta::tidy(&mut object);
        if options.dry_run {
            return Ok(Some(Written::DryRun(object)));
        }
        if object == self.live {
            write::in_force(&cx.server, &kind, self.stored.revision()).await;
            return Ok(Some(Written::Stored(self.stored)));
        }
        self.store(cx, &kind, object).await
    }

    /// Stores the change; what was only waiting for its last finalizer to go, goes.
    async fn store(self, cx: &Cx, kind: &Kind, object: Value) -> Result<Option<Written>, Error> {
        let draft = write::draft(kind, &object);
        write::check_size(&cx.server, &object, &draft)?;
        let op = match is_gone(kind, &object) {
            true => Op::Delete(self.key.clone(), Some(draft)),
            false => Op::Put(self.key.clone(), draft),
        };
        let stored = write::commit_change(&cx.server, kind, &self.stored, op).await?;
        Ok(stored.map(Written::Stored))
    }
}

/// Whether a deleted object has nothing left to wait for.
pub(crate) fn is_gone(kind: &Kind, object: &Value) -> bool {
    let deleting = meta::is_going(object);
    let grace = value::at(object, "metadata.deletionGracePeriodSeconds")
        .as_i64()
        .unwrap_or(0);
    deleting
        && grace == 0
        && value::list(object, "metadata.finalizers").is_empty()
        && !kind.strategy.lingers.is_some_and(|lingers| lingers(object))
}

/// One writer per section: what the request may not touch is taken from the stored object.
fn merge_section(kind: &Kind, section: Section, object: &mut Value, live: &Value) {
    match section {
        Section::Main | Section::Scale => {
            meta::prepare_update(object, live);
            if kind.status {
                value::set(object, "status", live["status"].clone());
            }
            if let Some(prepare) = kind.strategy.prepare_update {
                prepare(object, live);
            }
        }
        Section::Status => {
            let status = value::take(object, "status");
            let mut metadata = value::take(object, "metadata");
            *object = live.clone();
            value::set(object, "status", status);
            let tracked = value::take(&mut metadata, "managedFields");
            if !kind.is_custom() {
                object["metadata"] = metadata;
                meta::prepare_update(object, live);
            }
            value::set(&mut object["metadata"], "managedFields", tracked);
        }
        Section::Computed => {
            let tracked = value::take(&mut object["metadata"], "managedFields");
            let sent = std::mem::replace(object, live.clone());
            for path in &kind.computed {
                value::copy_at(object, &sent, path);
            }
            value::set(&mut object["metadata"], "managedFields", tracked);
        }
        Section::Finalize => {
            let finalizers = value::at(object, "spec.finalizers").clone();
            *object = live.clone();
            value::set(&mut object["spec"], "finalizers", finalizers);
        }
    }
}

/// `generation` counts what users ask for: everything but metadata and status.
fn count_generation(kind: &Kind, object: &mut Value, live: &Value) {
    if !kind.strategy.generation {
        return;
    }
    let counts = |field: &str| field != "metadata" && !(kind.status && field == "status");
    let differs = |one: &Value, other: &Value| {
        let fields = one.as_object().into_iter().flatten();
        fields
            .filter(|(field, _)| counts(field))
            .any(|(field, content)| other[field] != *content)
    };
    if differs(object, live) || differs(live, object) {
        let generation = value::at(live, "metadata.generation").as_i64().unwrap_or(0) + 1;
        object["metadata"]["generation"] = json!(generation);
    }
}
