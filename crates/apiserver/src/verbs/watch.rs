//! Watches: every change once, in order, from wherever the client was.
//!
//! A watch holds no queue. It is a cursor in the store's history, and a stream that the
//! connection polls: a client that reads slowly is read for slowly. What is under way to a client
//! that does not read is one batch: objects that all share, or at most about `BATCH_BYTES` in a
//! form of its own, which counts against the share of its user (`body`).

mod alarm;
mod encoder;
mod initial;
mod rights;
pub(crate) mod slot;

use std::sync::Arc;
use std::time::Duration;
use std::vec;

use bytes::{Buf, Bytes};
use deltaplane_store::{Event, Revision, Watch, WatchError};
use futures::stream;
use http::StatusCode;

use self::alarm::{Alarm, Ends, Times};
use self::encoder::{Encoder, Sort, error_frame};
use self::initial::{Initial, Taken};
use self::rights::Rights;
use self::slot::Slot;
use crate::body::{Body, Pieces};
use crate::context::{Answer, Cx, json as answer};
use crate::error::Error;
use crate::filter::Filter;
use crate::negotiate;
use crate::options::{ListOptions, revision};
use crate::seams::BoxFuture;
use crate::table::{Extras, Include};
use crate::verbs::part::Part;

/// Bookmarks at least this often, so that an idle client's revision stays recent.
const BOOKMARK_EVERY: Duration = Duration::from_secs(50);
/// A watch that names no end gets one between this and twice this.
const DEFAULT_TIMEOUT: u64 = 1800;
/// As many events as are taken from the store at once.
const BATCH: usize = 128;
/// To a write that has this many bytes, no further objects or events are added.
const BATCH_BYTES: usize = 256 << 10;

struct Stream {
    encoder: Encoder,
    filter: Filter,
    /// What existed when the watch began, to be sent first.
    initial: Initial,
    phase: Phase,
    watch: Watch,
    /// Taken from the store, and still to be sent.
    taken: vec::IntoIter<Arc<Event>>,
    times: Times,
    ends: Ends,
    /// Kept between wakes: most wakes are for events, and a timer is not free.
    alarm: BoxFuture<'static, Alarm>,
    _slot: Slot,
}

enum Phase {
    /// Objects that exist are still to be sent; then a bookmark that says so, if asked for.
    Initial {
        announce_end: bool,
    },
    Live,
    Done,
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
        rights: Rights::of(cx, &filter),
    };
    let deadline = now + Duration::from_secs(timeout.min(86_400));
    let times = Times {
        clock: cx.server.config.clock.clone(),
        deadline: cx.until.map_or(deadline, |until| until.min(deadline)),
        bookmark_at: options.bookmarks.then_some(now + BOOKMARK_EVERY),
    };
    let stream = Stream {
        alarm: times.alarm(&ends),
        encoder: Encoder {
            kind: Arc::clone(&cx.kind),
            extras: Extras::of(&cx.server, &cx.kind),
            form,
            include,
            columns_sent: false,
            clock: cx.server.config.clock.clone(),
        },
        filter,
        initial,
        phase,
        watch,
        taken: Vec::new().into_iter(),
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
        initial: Initial,
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
            let (initial, revision) = Initial::now(cx, filter).await?;
            let announce_end = options.send_initial_events == Some(true) && options.bookmarks;
            (initial, revision, Phase::Initial { announce_end })
        }
        false if wanted == 0 => (Initial::none(), current, Phase::Live),
        false => (Initial::none(), Revision::new(wanted), Phase::Live),
    };
    let scope = Part::of(cx, filter)?.scope(&cx.server.collection(&cx.kind)?)?;
    match store.watch(scope, from) {
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
        if self.rights_are_lost() {
            return self.end(Bytes::new());
        }
        let Taken { objects, is_last } = self.initial.take();
        let mut out = Pieces::with_capacity(3 * objects.len() + 1);
        for object in &objects {
            self.encoder.plain(Sort::Added, object, &mut out);
        }
        if is_last {
            if announce_end {
                out.push(self.bookmark(true));
            }
            self.initial = Initial::none();
            self.phase = Phase::Live;
        }
        out
    }

    async fn next_live(&mut self) -> Pieces {
        if !self.taken.as_slice().is_empty() {
            return self.encode_taken();
        }
        tokio::select! {
            biased;
            batch = self.watch.next_batch(BATCH) => match batch {
                Ok(batch) => {
                    self.taken = batch.events.into_iter();
                    self.encode_taken()
                }
                Err(WatchError::Closed) => self.end(Bytes::new()),
                Err(error) => self.end(error_frame(&watch_error(&error))),
            },
            alarm = &mut self.alarm => match alarm {
                Alarm::End => self.end(Bytes::new()),
                Alarm::Rights if self.rights_are_lost() => self.end(Bytes::new()),
                Alarm::Rights => {
                    self.alarm = self.times.alarm(&self.ends);
                    Pieces::default()
                }
                Alarm::Time => self.timer(),
            },
        }
    }

    fn rights_are_lost(&mut self) -> bool {
        self.ends.rights.as_mut().is_some_and(Rights::are_lost)
    }

    fn encode_taken(&mut self) -> Pieces {
        if self.rights_are_lost() {
            return self.end(Bytes::new());
        }
        let mut out = Pieces::with_capacity(self.taken.len());
        while out.remaining() < BATCH_BYTES
            && let Some(event) = self.taken.next()
        {
            self.encoder.event(&self.filter, &event, &mut out);
        }
        if self.taken.as_slice().is_empty() {
            // An idle watch keeps no room for them.
            self.taken = Vec::new().into_iter();
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
