//! Watches: every change once, in order, from wherever the client was.
//!
//! A watch holds no queue. It is a cursor in the store's history, and a stream that the
//! connection polls: a client that reads slowly is read for slowly.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bytes::{Buf, Bytes};
use deltaplane_api::time::Time;
use deltaplane_runtime::{Clock, Stop};
use deltaplane_store::{Event, Object, Revision, Scope, Watch, WatchError};
use futures::stream;
use http::StatusCode;
use serde_json::{Value, json};

use crate::body::{Body, Pieces};
use crate::context::{Answer, Cx, json as answer};
use crate::encode;
use crate::error::Error;
use crate::filter::Filter;
use crate::kinds::Kind;
use crate::negotiate::{self, Form};
use crate::options::{ListOptions, revision};
use crate::present;
use crate::seams::BoxFuture;
use crate::server::Inner;
use crate::table::{Include, Table};

/// Bookmarks at least this often, so that an idle client's revision stays recent.
const BOOKMARK_EVERY: Duration = Duration::from_secs(50);
/// A watch that names no end gets one between this and twice this.
const DEFAULT_TIMEOUT: u64 = 1800;
/// As many events as are turned into one write.
const BATCH: usize = 128;
/// Initial objects that are turned into one write.
const INITIAL_BATCH: usize = 64;

struct Stream {
    encoder: Encoder,
    filter: Filter,
    /// What existed when the watch began, to be sent first.
    initial: VecDeque<Arc<Object>>,
    phase: Phase,
    watch: Watch,
    times: Times,
    ends: Ends,
    /// Kept between wakes: most wakes are for events, and a timer is not free.
    alarm: BoxFuture<'static, Alarm>,
    _slot: Slot,
}

/// When something is due, events or not.
struct Times {
    clock: Clock,
    deadline: SystemTime,
    /// None if the client wants no bookmarks.
    bookmark_at: Option<SystemTime>,
}

/// What ends a watch from outside: the server drains, or the kind is not served like this any
/// more.
struct Ends {
    stop: Stop,
    retired: Option<Stop>,
}

/// What a watch waits for besides events.
enum Alarm {
    /// A bookmark is due, or the end.
    Time,
    /// One of its [`Ends`].
    End,
}

enum Phase {
    /// Objects that exist are still to be sent; then a bookmark that says so, if asked for.
    Initial {
        announce_end: bool,
    },
    Live,
    Done,
}

/// Turns events into the client's form.
struct Encoder {
    kind: Arc<Kind>,
    form: Form,
    include: Include,
    columns_sent: bool,
    now: Time,
}

/// One of the watches that are allowed at once.
struct Slot {
    server: Arc<Inner>,
    user: String,
}

pub(crate) async fn watch(cx: &Cx) -> Result<Answer, Error> {
    let form = negotiate::form(&cx.headers, true)?;
    let options = ListOptions::parse(&cx.query)?;
    options.check_watch()?;
    let filter = Filter::new(&cx.kind, &options)?;
    let include = Include::parse(&cx.query)?;
    let slot = Slot::take(cx)?;
    let start = start(cx, &options, &filter).await?;
    let (initial, phase, watch) = match start {
        Start::At {
            initial,
            phase,
            watch,
        } => (initial, phase, *watch),
        Start::TooOld(error) => {
            let frame = Pieces::from(error_frame(&error));
            return Ok(answer(StatusCode::OK, Body::stream(stream::iter([frame]))));
        }
    };
    let now = cx.server.config.clock.now();
    let timeout = options.timeout_seconds.filter(|seconds| *seconds > 0);
    let timeout = timeout.unwrap_or_else(|| DEFAULT_TIMEOUT + spread());
    let ends = Ends {
        stop: cx.server.stop.clone(),
        retired: cx.kind.retired(),
    };
    let times = Times {
        clock: cx.server.config.clock.clone(),
        deadline: now + Duration::from_secs(timeout.min(86_400)),
        bookmark_at: options.bookmarks.then_some(now + BOOKMARK_EVERY),
    };
    let stream = Stream {
        alarm: times.alarm(&ends),
        encoder: Encoder {
            kind: Arc::clone(&cx.kind),
            form,
            include,
            columns_sent: false,
            now: cx.now,
        },
        filter,
        initial,
        phase,
        watch,
        times,
        ends,
        _slot: slot,
    };
    // Boxed, because it is passed on with every event.
    let stream = stream::unfold(Box::new(stream), Stream::next);
    Ok(answer(StatusCode::OK, Body::stream(stream)))
}

/// So that watches that began together do not end together.
fn spread() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0 % DEFAULT_TIMEOUT
}

enum Start {
    At {
        initial: VecDeque<Arc<Object>>,
        phase: Phase,
        watch: Box<Watch>,
    },
    TooOld(Error),
}

/// Where the watch begins, by Kubernetes' rules of `resourceVersion`.
async fn start(cx: &Cx, options: &ListOptions, filter: &Filter) -> Result<Start, Error> {
    let store = &cx.server.store;
    let wanted = match options.resource_version.as_str() {
        "" | "0" => 0,
        text => revision(text)?,
    };
    let current = store.revision();
    if wanted > current.get() {
        return Err(Error::future_revision(wanted, current.get()));
    }
    let with_initial = options.send_initial_events.unwrap_or(wanted == 0);
    let (initial, from, phase) = match with_initial {
        true => {
            let query = super::list::query(cx, filter)?;
            let kind = &cx.kind;
            let page = store
                .list_where(&query, &|object: &Object| filter.matches(kind, object))
                .await
                .map_err(|error| Error::unavailable(error.to_string()))?;
            let announce_end = options.send_initial_events == Some(true) && options.bookmarks;
            (
                page.items.into(),
                page.revision,
                Phase::Initial { announce_end },
            )
        }
        false if wanted == 0 => (VecDeque::new(), current, Phase::Live),
        false => (VecDeque::new(), Revision::new(wanted), Phase::Live),
    };
    match store.watch(scope(cx, filter)?, from) {
        Ok(watch) => Ok(Start::At {
            initial,
            phase,
            watch: Box::new(watch),
        }),
        Err(WatchError::Future { requested, newest }) => {
            Err(Error::future_revision(requested.get(), newest.get()))
        }
        Err(error @ WatchError::Resync { .. }) => Ok(Start::TooOld(watch_error(&error))),
        Err(error @ (WatchError::Storage { .. } | WatchError::Closed)) => {
            Err(Error::unavailable(error.to_string()))
        }
    }
}

/// The narrowest part of the store that can concern this watch.
fn scope(cx: &Cx, filter: &Filter) -> Result<Scope, Error> {
    let collection = cx.server.collection(&cx.kind)?;
    let namespace = match cx.target.namespace.as_str() {
        "" => filter.namespace().unwrap_or_default(),
        namespace => namespace,
    };
    let name = match cx.target.name.as_str() {
        "" => filter.name(),
        name => Some(name),
    };
    let bad = |_| Error::bad_request("a selector names what cannot be a name");
    match (cx.kind.namespaced, namespace, name) {
        (false, _, Some(name)) => collection.key("", name).map(|key| Scope::object(&key)),
        (true, namespace, Some(name)) if !namespace.is_empty() => collection
            .key(namespace, name)
            .map(|key| Scope::object(&key)),
        (true, namespace, _) if !namespace.is_empty() => Scope::namespace(&collection, namespace),
        _ => Ok(Scope::collection(&collection)),
    }
    .map_err(bad)
}

fn watch_error(error: &WatchError) -> Error {
    match error {
        WatchError::Resync { after, oldest } => Error::expired(format!(
            "too old resource version: {} ({})",
            after.get(),
            oldest.get()
        )),
        WatchError::Future { requested, newest } => {
            Error::future_revision(requested.get(), newest.get())
        }
        WatchError::Storage { .. } | WatchError::Closed => Error::unavailable(error.to_string()),
    }
}

// === impl Stream ===

impl Stream {
    /// The next bytes for the client, or the end.
    async fn next(mut self: Box<Self>) -> Option<(Pieces, Box<Self>)> {
        loop {
            let pieces = match self.phase {
                Phase::Initial { announce_end } => self.next_initial(announce_end),
                Phase::Live => self.next_live().await,
                Phase::Done => return None,
            };
            if pieces.has_remaining() {
                return Some((pieces, self));
            }
        }
    }

    fn next_initial(&mut self, announce_end: bool) -> Pieces {
        let mut out = Pieces::with_capacity(INITIAL_BATCH);
        for _ in 0..INITIAL_BATCH {
            let Some(object) = self.initial.pop_front() else {
                if announce_end {
                    out.push(self.bookmark(true));
                }
                self.phase = Phase::Live;
                break;
            };
            out.push(self.encoder.plain("ADDED", &object));
        }
        out
    }

    async fn next_live(&mut self) -> Pieces {
        tokio::select! {
            biased;
            batch = self.watch.next_batch(BATCH) => match batch {
                Ok(batch) => self.encode_all(&batch.events),
                Err(WatchError::Closed) => self.end(Bytes::new()),
                Err(error) => self.end(error_frame(&watch_error(&error))),
            },
            alarm = &mut self.alarm => match alarm {
                Alarm::End => self.end(Bytes::new()),
                Alarm::Time => self.timer(),
            },
        }
    }

    fn encode_all(&mut self, events: &[Arc<Event>]) -> Pieces {
        let mut out = Pieces::with_capacity(events.len());
        for event in events {
            out.push(self.encoder.event(&self.filter, event));
        }
        out
    }

    /// A bookmark is due, or the end.
    fn timer(&mut self) -> Pieces {
        let now = self.times.clock.now();
        let bookmark = match self.times.bookmark_at.as_mut() {
            Some(at) => {
                *at = now + BOOKMARK_EVERY;
                self.bookmark(false)
            }
            None => Bytes::new(),
        };
        if now >= self.times.deadline {
            return self.end(bookmark);
        }
        self.alarm = self.times.alarm(&self.ends);
        bookmark.into()
    }

    fn end(&mut self, last: Bytes) -> Pieces {
        self.phase = Phase::Done;
        last.into()
    }

    fn bookmark(&mut self, end_of_initial: bool) -> Bytes {
        self.encoder.bookmark(self.watch.progress(), end_of_initial)
    }
}

// === impl Times ===

impl Times {
    /// Ends when the next thing is due, or when the watch must end.
    fn alarm(&self, ends: &Ends) -> BoxFuture<'static, Alarm> {
        let (clock, stop, retired) = (self.clock.clone(), ends.stop.clone(), ends.retired.clone());
        let at = self
            .bookmark_at
            .map_or(self.deadline, |at| at.min(self.deadline));
        let over = async move {
            match retired {
                Some(retired) => retired.wait().await,
                None => std::future::pending().await,
            }
        };
        Box::pin(async move {
            tokio::select! {
                biased;
                () = stop.wait() => Alarm::End,
                () = over => Alarm::End,
                () = clock.sleep_until(at) => Alarm::Time,
            }
        })
    }
}

// === impl Encoder ===

impl Encoder {
    /// The event as this client sees it; nothing if it does not concern the client.
    fn event(&mut self, filter: &Filter, event: &Arc<Event>) -> Bytes {
        let (object, previous) = (event.object(), event.previous());
        if filter.is_empty() {
            let kind = match (event.is_delete(), previous) {
                (true, _) => "DELETED",
                (false, None) => "ADDED",
                (false, Some(_)) => "MODIFIED",
            };
            return self.shared(kind, event);
        }
        let now = !event.is_delete() && filter.matches(&self.kind, object);
        let before = previous.is_some_and(|previous| filter.matches(&self.kind, previous));
        match (before, now) {
            (false, false) => Bytes::new(),
            (false, true) => self.plain("ADDED", object),
            (true, true) => self.shared("MODIFIED", event),
            (true, false) if event.is_delete() => self.shared("DELETED", event),
            (true, false) => self.left(event),
        }
    }

    /// Encoded once for all clients that want it in the common form.
    fn shared(&mut self, kind: &'static str, event: &Arc<Event>) -> Bytes {
        let object = event.object();
        match self.form {
            Form::Object if object.tag() == self.kind.tag => {
                event.encoded(|event| frame(kind, event.object().bytes()))
            }
            Form::Object | Form::Table { .. } | Form::Metadata { .. } => self.plain(kind, object),
        }
    }

    fn plain(&mut self, kind: &'static str, object: &Arc<Object>) -> Bytes {
        match self.form {
            Form::Object => frame(kind, &present::bytes(&self.kind, object)),
            Form::Metadata { version } => {
                frame(kind, &present::partial_bytes(&self.kind, object, version))
            }
            Form::Table { .. } => {
                let value = present::value(&self.kind, object);
                self.formed(kind, value)
            }
        }
    }

    /// An object that changed so that it no longer matches is deleted to this client: shown as
    /// it was, at the revision of the change.
    fn left(&mut self, event: &Arc<Event>) -> Bytes {
        let Some(previous) = event.previous() else {
            return Bytes::new();
        };
        let mut value = present::value(&self.kind, previous);
        value["metadata"]["resourceVersion"] = json!(event.revision().get().to_string());
        self.formed("DELETED", value)
    }

    fn formed(&mut self, kind: &'static str, value: Value) -> Bytes {
        let object = match self.form {
            Form::Object => value,
            Form::Metadata { version } => present::partial(&value, version),
            Form::Table { version } => {
                let mut table = Table::new(&self.kind, version, self.include, self.now);
                table.push(&value);
                let revision = value["metadata"]["resourceVersion"].clone();
                let mut table = table.into_value(json!({ "resourceVersion": revision }));
                if std::mem::replace(&mut self.columns_sent, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
        };
        frame(kind, &encode::bytes(&object))
    }

    fn bookmark(&mut self, revision: Revision, end_of_initial: bool) -> Bytes {
        let mut metadata = json!({
            "resourceVersion": revision.get().to_string(),
            "creationTimestamp": null,
        });
        if end_of_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, api_version) = match self.form {
            Form::Object | Form::Table { .. } => {
                (self.kind.kind.as_str(), self.kind.api_version.clone())
            }
            Form::Metadata { version } => {
                ("PartialObjectMetadata", format!("meta.k8s.io/{version}"))
            }
        };
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        match self.form {
            Form::Table { .. } => self.bookmark_row(&object),
            Form::Object | Form::Metadata { .. } => frame("BOOKMARK", &encode::bytes(&object)),
        }
    }

    /// A Table's bookmark carries the object in a row without cells' content.
    fn bookmark_row(&mut self, object: &Value) -> Bytes {
        let Form::Table { version } = self.form else {
            return Bytes::new();
        };
        let mut table = Table::new(&self.kind, version, Include::Object, self.now);
        table.push(object);
        let revision = object["metadata"]["resourceVersion"].clone();
        let mut table = table.into_value(json!({ "resourceVersion": revision }));
        if self.columns_sent {
            table["columnDefinitions"] = Value::Null;
        }
        frame("BOOKMARK", &encode::bytes(&table))
    }
}

/// One event on the wire.
fn frame(kind: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 40);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    out.into()
}

fn error_frame(error: &Error) -> Bytes {
    frame("ERROR", &encode::bytes(&error.to_status()))
}

// === impl Slot ===

impl Slot {
    fn take(cx: &Cx) -> Result<Self, Error> {
        let limits = &cx.server.config.limits;
        let slot = Self {
            server: Arc::clone(&cx.server),
            user: cx.user.name.clone(),
        };
        let total = cx.server.watches.fetch_add(1, Ordering::Relaxed) + 1;
        let own = cx.server.flow.watch_begins(&cx.user.name);
        cx.server
            .metrics
            .watches
            .set(i64::try_from(total).unwrap_or(i64::MAX));
        match total > limits.watches || own > limits.watches_per_user {
            // Dropping the slot gives it back.
            true => Err(Error::too_many_requests(
                "too many watches are open, please try again later",
            )),
            false => Ok(slot),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let before = self.server.watches.fetch_sub(1, Ordering::Relaxed);
        self.server
            .metrics
            .watches
            .set(i64::try_from(before.saturating_sub(1)).unwrap_or(0));
        self.server.flow.watch_ends(&self.user);
    }
}
