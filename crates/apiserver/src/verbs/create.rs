//! POST: new objects.

use std::sync::Arc;

use deltaplane_schema::managed;
use deltaplane_store::{CommitError, Expect, Op, Txn};
use http::StatusCode;
use serde_json::Value;

use super::write::{self, Section, Written};
use crate::context::{Answer, Cx, json};
use crate::error::Error;
use crate::meta::{self, Birth};
use crate::options::{Options, WriteOptions};
use crate::present::{self, Presented};
use crate::seams::Operation;
use crate::{auth, decode, value};

pub(crate) async fn create(cx: &mut Cx) -> Result<Answer, Error> {
    let options = WriteOptions::parse(Options::Create, &cx.query, cx.user_agent())?;
    let parsed = decode::object(cx.content_type(), &cx.body, &cx.kind.kind)?;
    let object = write::intake(cx, parsed, &options)?;
    let new = New {
        object,
        tracked: false,
    };
    answer_new(cx, new, &options).await
}

/// Stores a new object, and shows it.
pub(crate) async fn answer_new(
    cx: &mut Cx,
    new: New,
    options: &WriteOptions,
) -> Result<Answer, Error> {
    let written = store_new(cx, new, options).await?;
    respond(cx, &written, StatusCode::CREATED)
}

/// The answer to a write.
pub(crate) fn respond(cx: &Cx, written: &Written, code: StatusCode) -> Result<Answer, Error> {
    let presented = match written {
        Written::Stored(object) => Presented::Stored(object),
        Written::DryRun(value) => Presented::Value(value),
    };
    Ok(json(code, present::one(cx, presented)?))
}

/// An object to be.
#[derive(Clone)]
pub(crate) struct New {
    pub(crate) object: Value,
    /// Whether managed fields are up to date already (server-side apply does that itself).
    pub(crate) tracked: bool,
}

/// Stores an object that was checked to be of this kind, under a name of its own.
async fn store_new(
    cx: &mut Cx,
    New {
        mut object,
        tracked,
    }: New,
    options: &WriteOptions,
) -> Result<Written, Error> {
    write::check_address(cx, &mut object)?;
    if !value::text(&object, "metadata.resourceVersion").is_empty() {
        return Err(Error::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let generated = value::text(&object, "metadata.name").is_empty();
    let mut taken = false;
    for _ in 0..write::MAX_ATTEMPTS {
        match attempt(
            cx,
            New {
                object: object.clone(),
                tracked,
            },
            options,
        )
        .await?
        {
            Attempt::Done(written) => {
                cx.visible = written.visible();
                return Ok(written);
            }
            Attempt::Taken(name) if !generated => {
                return Err(Error::already_exists(cx.kind.about(&name)));
            }
            Attempt::Taken(_) => taken = true,
            Attempt::SurroundingsChanged => taken = false,
        }
    }
    let prefix = value::text(&object, "metadata.generateName");
    // Only what is known to exist is said to exist: clients take that for success.
    Err(match taken {
        true => Error::generated_name_taken(cx.kind.about(prefix)),
        false => Error::unavailable("what the object belongs to kept changing while it was made"),
    })
}

enum Attempt {
    Done(Written),
    Taken(String),
    /// The namespace is going, or the definition is not as it was.
    SurroundingsChanged,
}

async fn attempt(cx: &mut Cx, new: New, options: &WriteOptions) -> Result<Attempt, Error> {
    let New {
        mut object,
        tracked,
    } = new;
    let kind = Arc::clone(&cx.kind);
    let namespace = cx.target.namespace.clone();
    complete(cx, &mut object);
    let name = value::text(&object, "metadata.name").to_owned();
    let guards = [
        write::namespace_guard(&cx.server, &kind, kind.about(&name), &namespace)?,
        write::definition_guard(&cx.server, &kind, kind.about(&name))?,
    ];
    let warnings = write::admit(cx, Operation::Create, &mut object, None, options.dry_run).await?;
    cx.warn_all(warnings);
    write::validate(cx, &object, None)?;
    auth::escalation::check(cx, &object, None)?;
    if !tracked {
        write::with_managed(cx, options, Section::Main, |managed| {
            managed::track_update(managed, None, &mut object);
        });
    }
    meta::tidy(&mut object);
    let key = cx.server.key(&kind, &namespace, &name)?;
    if options.dry_run {
        return Ok(match cx.server.store.get(&key) {
            Some(_) => Attempt::Taken(name),
            None => Attempt::Done(Written::DryRun(object)),
        });
    }
    let own = (key.clone(), Expect::Absent);
    let guards = guards.into_iter().flatten().chain([own]).collect();
    let draft = write::draft(&kind, &object);
    write::check_size(&cx.server, &object, &draft)?;
    let ops = vec![Op::Put(key.clone(), draft)];
    match write::commit(
        &cx.server,
        &kind,
        Txn {
            guards,
            ops,
            ..Txn::default()
        },
    )
    .await
    {
        Ok(committed) => {
            let stored = committed.objects.into_iter().next();
            let stored = stored.ok_or_else(|| Error::internal("a write stored nothing"))?;
            Ok(Attempt::Done(Written::Stored(stored)))
        }
        Err(CommitError::Conflict { key: failed, .. }) if failed == key => Ok(Attempt::Taken(name)),
        Err(CommitError::Conflict { .. }) => Ok(Attempt::SurroundingsChanged),
        Err(error) => Err(write::storage_error(&error)),
    }
}

/// What the server fills in before admission control sees the object: metadata, the kind's own fields,
/// defaults.
fn complete(cx: &Cx, object: &mut Value) {
    let kind = &cx.kind;
    let uid = uuid::Uuid::new_v4();
    let birth = Birth {
        namespace: &cx.target.namespace,
        uid: &uid.hyphenated().to_string(),
        suffix: &suffix(uid),
        now: cx.now,
    };
    meta::prepare_create(kind, object, &birth);
    if kind.status {
        value::take(object, "status");
    }
    if let Some(prepare) = kind.strategy.prepare_create {
        prepare(object);
    }
    kind.default_for_admission(object);
    if let Some(generate) = kind.strategy.generate {
        generate(object);
    }
}

/// Five characters that spell no words.
fn suffix(uid: uuid::Uuid) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let bytes = uid.as_bytes().iter().take(5);
    bytes
        .map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]))
        .collect()
}
