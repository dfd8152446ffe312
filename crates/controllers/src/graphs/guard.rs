//! The kinds that definitions and their revisions are written in: put right when somebody replaces
//! them by ones that would drop fields of ours, so that no gate vanishes unseen.
//!
//! Invariants: while a kind drops fields, no definition becomes a revision, and nothing is written
//! to one, since every write would drop them for good; a definition that lost a gate that way is
//! not followed until somebody writes it again.

mod judge;

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_client::{Event, Feed, ObjectKey, Query, RequestError, request};
use futures::{StreamExt, stream};
use kube::Client;
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::sync::watch;

use super::api;
use super::definition::is_judged;
use super::revision::Revision;
use crate::Context;
use crate::queue::Failure;

/// How it stands with these kinds. Cheap to clone.
#[derive(Clone)]
pub(super) struct Guard(Arc<Shared>);

struct Shared {
    found: watch::Sender<Found>,
    /// Definitions that were written while their kind dropped fields, and their generations then.
    written: Mutex<BTreeMap<String, i64>>,
}

/// How the kinds were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// What each would drop, by its name.
    drops: BTreeMap<String, String>,
    /// The version at which one was put right last.
    restored: Option<u64>,
}

/// Makes the kinds that graphs are written in be there, as they must be.
pub(super) async fn install(client: &Client) -> Result<(), RequestError> {
    for kind in api::kinds() {
        restore(client, kind).await?;
    }
    Ok(())
}

async fn restore(client: &Client, ours: Value) -> Result<(), RequestError> {
    let path = path(&ours);
    let there = match request::get::<Value>(client, &path).await {
        Err(error) if error.is_not_found() => None,
        found => Some(found?),
    };
    let wanted = judge::restored(there.as_ref(), ours);
    let path = format!("{path}?fieldManager=deltaplane&force=true");
    request::apply::<IgnoredAny>(client, &path, &wanted).await?;
    Ok(())
}

fn name(kind: &Value) -> &str {
    kind["metadata"]["name"].as_str().unwrap_or_default()
}

fn path(kind: &Value) -> String {
    api::custom_kinds().object_path(&ObjectKey::cluster(name(kind)))
}

// === impl Guard ===

impl Guard {
    pub(super) fn new() -> Self {
        Self(Arc::new(Shared {
            found: watch::Sender::new(Found::default()),
            written: Mutex::default(),
        }))
    }

    /// Follows the kinds, and puts them right, for ever.
    pub(super) async fn run(&self, context: &Context) {
        let each = api::kinds().map(|ours| self.keep(context, ours));
        stream::iter(each)
            .for_each_concurrent(None, |keep| keep)
            .await;
    }

    async fn keep(&self, context: &Context, ours: Value) {
        let Context { client, pace } = context;
        let query = Query::all(api::custom_kinds());
        let query = query.with_fields(&format!("metadata.name={}", name(&ours)));
        let mut events = Feed::new(client.clone(), query, pace.clone()).events();
        let mut failures = 0;
        loop {
            let is_foreign = self.0.found.borrow().drops.contains_key(name(&ours));
            tokio::select! {
                // What is told last is looked at, however fast somebody else is.
                biased;
                Some(event) = events.next() => {
                    if let Event::Applied(item) = event {
                        self.found(&ours, &item.parse().unwrap_or(Value::Null));
                    }
                }
                // Whoever else puts it as it was gets tired of it.
                () = pace.rest(failures + 1, None), if is_foreign => {
                    failures += 1;
                    if let Err(error) = restore(client, ours.clone()).await {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(kind = name(&ours), error, "cannot put right what definitions are written in");
                    }
                }
            }
        }
    }

    fn found(&self, ours: &Value, there: &Value) {
        let (name, lacks) = (name(ours), judge::lacking(there, ours));
        self.0.found.send_if_modified(|found| {
            let before = match &lacks {
                Some(lacks) => found.drops.insert(name.to_owned(), lacks.clone()),
                None => found.drops.remove(name),
            };
            match (&before, &lacks) {
                (None, Some(field)) => {
                    tracing::warn!(kind = name, field, "somebody replaced what definitions are written in; nothing is taken from them until it is put right");
                }
                (Some(_), None) => found.restored = judge::version(there),
                (None, None) | (Some(_), Some(_)) => {}
            }
            before != lacks
        });
    }

    /// A definition is told of. Each time, since what follows may be somebody else's write.
    pub(super) fn see(&self, definition: &Value) {
        let name = name(definition);
        let generation = definition["metadata"]["generation"].as_i64();
        let mut written = self.0.written.lock();
        if written.get(name).copied() == generation {
            return;
        }
        let found = self.0.found.borrow();
        let before = found.restored.is_some() && judge::version(definition) <= found.restored;
        match !found.drops.is_empty() || before {
            true => drop(written.insert(name.to_owned(), generation.unwrap_or(0))),
            false => drop(written.remove(name)),
        }
    }

    /// The definition is gone.
    pub(super) fn forget(&self, definition: &str) {
        self.0.written.lock().remove(definition);
    }

    fn was_dropping(&self, definition: &Value) -> bool {
        let written = self.0.written.lock();
        let generation = definition["metadata"]["generation"].as_i64();
        written.get(name(definition)).copied() == generation && generation.is_some()
    }

    /// Told when that is otherwise.
    pub(super) fn changes(&self) -> watch::Receiver<Found> {
        self.0.found.subscribe()
    }

    /// Why nothing can be taken from definitions now, nor written to them.
    pub(super) fn foreign(&self) -> Option<String> {
        let found = self.0.found.borrow();
        let (name, field) = found.drops.first_key_value()?;
        Some(format!(
            "the CustomResourceDefinition {name} is not the one of this product, and drops {field}"
        ))
    }

    /// Waits until definitions can be written.
    pub(super) async fn ours(&self) {
        let mut found = self.changes();
        // Whoever asks has it, too.
        let _ = found.wait_for(|found| found.drops.is_empty()).await;
    }

    /// Why a definition, whose newest revision is given, is not to be followed: it lost a gate while
    /// its kind was somebody else's.
    pub(super) async fn lost(
        &self,
        context: &Context,
        definition: &Value,
        newest: Option<&Revision>,
    ) -> Result<Option<String>, Failure> {
        let Some(newest) = newest else {
            return Ok(None);
        };
        let Some(lost) = judge::lost(&newest.spec, &definition["spec"]) else {
            return Ok(None);
        };
        let sure = judge::is_marked(definition)
            || judge::is_undone(definition, newest)
            || self.was_dropping(definition);
        if !sure && (is_judged(definition) || !is_suspect(context, definition).await?) {
            return Ok(None);
        }
        Ok(Some(format!(
            "{lost} was lost when somebody replaced the CustomResourceDefinition of definitions; what was in force stays; hint: write it again, or say that it is empty"
        )))
    }
}

/// Asked for, since feeds tell of the kind and of its objects in any order.
async fn is_suspect(context: &Context, definition: &Value) -> Result<bool, Failure> {
    let [ours, _] = api::kinds();
    let there = request::get::<Value>(&context.client, &path(&ours)).await;
    let there = there.map_err(Failure::to("look at the kind of definitions"))?;
    Ok(judge::lacking(&there, &ours).is_some() || judge::is_suspect(definition, &there))
}
