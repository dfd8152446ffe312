//! All objects of a kind and every later change, as one ordered stream that never ends.
//!
//! A feed begins with everything that exists, says when that is complete, and goes on with
//! changes. When it loses touch it resumes where it was; when the server no longer remembers that
//! point, it begins anew, and says so. It asks for the initial objects as a watch where the server
//! can do that, and page by page where it cannot.
//!
//! Not here: keeping objects. [`crate::cache::Cache`] does, and finds what vanished while the feed
//! was not looking; consumers with less to remember do it themselves, which is why a feed keeps
//! nothing.
//!
//! Invariants: between [`Event::Restarted`] and [`Event::InSync`] every object is told that existed
//! throughout; after `InSync` every change is told exactly once, in order, until the next
//! `Restarted`. Losing touch never looks like a deletion.

mod lines;
mod query;
mod wire;

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use kube::Client;
use tokio::sync::watch;

use crate::header::Item;
use crate::pace::Pace;
use crate::request::{self, Refusal, RequestError};

pub use query::{Content, Query};

use lines::Lines;
use query::From;
use wire::{Frame, Page};

/// What a feed tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// What was told before is void: everything that exists follows, up to `InSync`.
    Restarted,
    /// The object exists, and is this.
    Applied(Item),
    /// The object is gone; this is what it last was.
    Deleted(Item),
    /// All that exists has been told.
    InSync,
}

/// A feed that was not asked for events yet.
pub struct Feed {
    client: Client,
    query: Query,
    pace: Pace,
    initial: Initial,
    state: State,
    failures: u32,
    trouble: Option<watch::Sender<Option<String>>>,
}

/// How to get what exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Initial {
    Streamed,
    Paged,
}

#[derive(Debug)]
enum State {
    /// Nothing is known.
    Blank,
    /// Some pages of what exists have been told, the last of them up to `items`.
    Paging {
        items: std::vec::IntoIter<Item>,
        next: Option<String>,
        revision: String,
    },
    /// What exists is being streamed.
    Starting(Lines),
    /// Everything is told up to `revision`, and more may come.
    Following { lines: Lines, revision: String },
    /// Everything is told up to `revision`, and nothing comes.
    Cut { revision: String },
}

/// What one step leads to: perhaps something to tell, and how to go on.
struct Next {
    tell: Option<Event>,
    state: State,
    pace: Going,
}

enum Going {
    AtOnce,
    /// After a rest, not shorter than the server asked for.
    AfterARest(Option<Duration>),
}

/// Bookmarks come about every minute; a watch that is silent for so long is dead.
const SILENCE: Duration = Duration::from_secs(300);

/// Everything that exists now, page by page: calls `each` with every object.
pub async fn list(
    client: &Client,
    query: &Query,
    mut each: impl FnMut(Item),
) -> Result<(), RequestError> {
    let mut token = None;
    loop {
        let page = read(client, query, token.as_deref()).await?;
        page.items.into_iter().for_each(&mut each);
        match page.next {
            Some(next) => token = Some(next),
            None => return Ok(()),
        }
    }
}

async fn read(client: &Client, query: &Query, token: Option<&str>) -> Result<Page, RequestError> {
    let accept = query.content.accept_list();
    let request = request::request(http::Method::GET, &query.page(token), accept, None)?;
    let bytes = request::send(client, request).await?;
    Ok(Page::parse(&bytes)?)
}

// === impl Feed ===

impl Feed {
    /// A feed of what `query` selects.
    pub fn new(client: Client, query: Query, pace: Pace) -> Self {
        Self {
            client,
            query,
            pace,
            initial: Initial::Streamed,
            state: State::Blank,
            failures: 0,
            trouble: None,
        }
    }

    /// Whoever listens is told what keeps the feed from going on, for as long as something does.
    pub fn telling(mut self, trouble: watch::Sender<Option<String>>) -> Self {
        self.trouble = Some(trouble);
        self
    }

    /// The events; never ends. Cancel safe: what was being read is not lost.
    pub fn events(self) -> BoxStream<'static, Event> {
        stream::unfold(self, |mut feed| async {
            let event = feed.next().await;
            Some((event, feed))
        })
        .boxed()
    }

    async fn next(&mut self) -> Event {
        loop {
            let state = std::mem::replace(&mut self.state, State::Blank);
            let Next { tell, state, pace } = self.step(state).await;
            self.state = state;
            if let Some(event) = tell {
                self.troubled(None);
                // Not before: a server that breaks off each beginning is one that fails.
                if matches!(self.state, State::Following { .. }) {
                    self.failures = 0;
                }
                return event;
            }
            match pace {
                Going::AtOnce => {}
                Going::AfterARest(asked) => {
                    self.failures = self.failures.saturating_add(1);
                    self.pace.rest(self.failures, asked).await;
                }
            }
        }
    }

    async fn step(&mut self, state: State) -> Next {
        match state {
            State::Blank => match self.initial {
                Initial::Streamed => self.start_streamed().await,
                Initial::Paged => self.page(None).await,
            },
            State::Paging {
                mut items,
                next,
                revision,
            } => match (items.next(), next) {
                (Some(item), next) => {
                    let state = State::Paging {
                        items,
                        next,
                        revision,
                    };
                    Next::tell(Event::Applied(item), state)
                }
                (None, Some(next)) => self.page(Some(next)).await,
                (None, None) => Next::tell(Event::InSync, State::Cut { revision }),
            },
            State::Starting(lines) => self.start(lines).await,
            State::Following { lines, revision } => self.follow(lines, revision).await,
            State::Cut { revision } => self.resume(revision).await,
        }
    }

    async fn start_streamed(&mut self) -> Next {
        match self.watch(From::Everything).await {
            Ok(lines) => Next::tell(Event::Restarted, State::Starting(lines)),
            Err(error) if error.refusal().is_some_and(cannot_stream) => {
                self.initial = Initial::Paged;
                Next::go(State::Blank)
            }
            Err(error) => self.lost(&error, State::Blank),
        }
    }

    /// The page after `token`, or the first.
    async fn page(&mut self, token: Option<String>) -> Next {
        let page = match read(&self.client, &self.query, token.as_deref()).await {
            Ok(page) => page,
            Err(error) => return self.lost(&error, State::Blank),
        };
        let state = State::Paging {
            items: page.items.into_iter(),
            next: page.next,
            revision: page.revision,
        };
        match token {
            None => Next::tell(Event::Restarted, state),
            Some(_) => Next::go(state),
        }
    }

    async fn start(&mut self, mut lines: Lines) -> Next {
        match self.frame(&mut lines).await {
            Some(Frame::Applied(item)) => Next::tell(Event::Applied(item), State::Starting(lines)),
            Some(Frame::Deleted(item)) => Next::tell(Event::Deleted(item), State::Starting(lines)),
            Some(Frame::Bookmark {
                revision,
                complete: true,
            }) => Next::tell(Event::InSync, State::Following { lines, revision }),
            Some(Frame::Bookmark {
                complete: false, ..
            }) => Next::go(State::Starting(lines)),
            Some(Frame::Error(refusal)) => self.lost(&RequestError::Refused(refusal), State::Blank),
            None => Next::rest(State::Blank),
        }
    }

    async fn follow(&mut self, mut lines: Lines, revision: String) -> Next {
        match self.frame(&mut lines).await {
            Some(Frame::Applied(item)) => {
                let revision = item.header.resource_version.clone();
                Next::tell(Event::Applied(item), State::Following { lines, revision })
            }
            Some(Frame::Deleted(item)) => {
                let revision = item.header.resource_version.clone();
                Next::tell(Event::Deleted(item), State::Following { lines, revision })
            }
            Some(Frame::Bookmark { revision, .. }) => {
                self.failures = 0;
                Next::go(State::Following { lines, revision })
            }
            Some(Frame::Error(refusal)) if is_expired(&refusal) => Next::go(State::Blank),
            Some(Frame::Error(refusal)) => {
                self.lost(&RequestError::Refused(refusal), State::Cut { revision })
            }
            // Watches end after a while; one that ends without having told anything is rested on.
            None if lines.any() => Next::go(State::Cut { revision }),
            None => Next::rest(State::Cut { revision }),
        }
    }

    async fn resume(&mut self, revision: String) -> Next {
        match self.watch(From::Revision(&revision)).await {
            Ok(lines) => {
                self.troubled(None);
                Next::go(State::Following { lines, revision })
            }
            Err(error) if error.refusal().is_some_and(is_expired) => {
                tracing::debug!(query = %self.query, revision, "beginning anew");
                Next::rest(State::Blank)
            }
            Err(error) => self.lost(&error, State::Cut { revision }),
        }
    }

    async fn watch(&mut self, from: From<'_>) -> Result<Lines, RequestError> {
        let path = self.query.watch(from, (self.pace.chance)());
        let accept = self.query.content.accept_object();
        let request = request::request(http::Method::GET, &path, accept, None)?;
        Ok(Lines::new(request::open(&self.client, request).await?))
    }

    /// The next frame that makes sense; `None` when the watch has ended, however that came.
    async fn frame(&mut self, lines: &mut Lines) -> Option<Frame> {
        loop {
            let line = match lines.buffered() {
                Some(line) => line,
                None => self.line(lines).await?,
            };
            match Frame::parse(&line) {
                Ok(frame) => return Some(frame),
                // Not an object as we know them: it affects itself only.
                Err(error) if error.is_data() => {
                    tracing::warn!(query = %self.query, %error, "watch told of something odd");
                }
                Err(error) => {
                    tracing::warn!(query = %self.query, %error, "watch told nonsense");
                    return None;
                }
            }
        }
    }

    async fn line(&mut self, lines: &mut Lines) -> Option<Bytes> {
        tokio::select! {
            line = lines.next() => match line {
                Ok(line) => line,
                Err(error) => {
                    tracing::debug!(query = %self.query, %error, "watch broke off");
                    None
                }
            },
            () = self.pace.clock.sleep(SILENCE) => {
                tracing::debug!(query = %self.query, "watch fell silent");
                None
            }
        }
    }

    fn troubled(&self, by: Option<String>) {
        if let Some(trouble) = &self.trouble {
            trouble.send_if_modified(|now| {
                let other = *now != by;
                *now = by;
                other
            });
        }
    }

    fn lost(&self, error: &RequestError, state: State) -> Next {
        self.troubled(Some(format!("cannot follow {}: {error}", self.query)));
        if self.failures == 0 {
            let (query, cause) = (&self.query, error as &dyn std::error::Error);
            // Kinds come and go; whoever follows one that went will notice by other means.
            match error.is_not_found() {
                true => tracing::debug!(%query, error = cause, "kind is not served"),
                false => tracing::warn!(%query, error = cause, "feed lost touch"),
            }
        }
        Next {
            pace: Going::AfterARest(error.retry_after()),
            ..Next::go(state)
        }
    }
}

// === impl Next ===

impl Next {
    fn tell(event: Event, state: State) -> Self {
        let tell = Some(event);
        Self {
            tell,
            ..Self::go(state)
        }
    }

    fn go(state: State) -> Self {
        let pace = Going::AtOnce;
        Self {
            tell: None,
            state,
            pace,
        }
    }

    fn rest(state: State) -> Self {
        let pace = Going::AfterARest(None);
        Self {
            pace,
            ..Self::go(state)
        }
    }
}

/// Whether the server no longer remembers the revision.
fn is_expired(refusal: &Refusal) -> bool {
    refusal.code == 410 || refusal.reason == "Expired"
}

/// Whether the server does not know how to stream what exists.
fn cannot_stream(refusal: &Refusal) -> bool {
    matches!(refusal.code, 400 | 422)
}

#[cfg(test)]
mod tests;
