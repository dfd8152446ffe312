//! Watchers that follow a scope over all interruptions, and write down what they are told.
//!
//! A watcher that was cut off goes on after the last revision that it saw. It lists again only if
//! it is told that the history does not reach back so far.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::timeout;

use super::history::{Key, Recorder, Revision, Version};
use super::link::{Link, Request, Targets};
use super::random::Random;
use super::watches::{Kind, Scope, Seen, Watched};
use super::wire::{self, Frame};

/// The last writes of a run, once they are done.
pub(crate) type Closing = watch::Receiver<Option<Arc<End>>>;

pub(crate) struct End {
    pub(crate) written: Vec<(Key, Version)>,
    /// Who has not seen them by then has waited long enough.
    pub(crate) deadline: Instant,
}

/// How a watcher behaves.
#[derive(Clone, Copy)]
pub(crate) struct Habit {
    pub(crate) scope: Scope,
    pub(crate) begin: Begin,
    /// Reads now and then only.
    pub(crate) slow: bool,
    /// Asks for a watch that ends by itself, with a bookmark.
    pub(crate) short: bool,
}

/// Where a watcher begins.
#[derive(Clone, Copy)]
pub(crate) enum Begin {
    /// At a revision at which there was nothing.
    At(Revision),
    /// With a list.
    List,
    /// With a watch that sends what is there first.
    Stream,
}

pub(crate) struct Watcher {
    habit: Habit,
    link: Link,
    recorder: Arc<Recorder>,
    closing: Closing,
    random: Random,
    /// Everything up to here was seen; nothing yet if there is none.
    cursor: Option<Revision>,
    /// What a watch sent before it said that this was all there is.
    initial: Vec<(Key, Version)>,
    watched: Watched,
}

/// How one connection ended.
enum Ended {
    /// It is to be made again.
    Cut,
    /// All was seen, or the time is over.
    Over,
}

/// Patience with an answer that does not begin.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often a watcher that is told nothing looks whether it is over.
const GLANCE: Duration = Duration::from_millis(100);

// === impl Watcher ===

impl Watcher {
    pub(crate) fn new(
        name: String,
        habit: Habit,
        targets: Targets,
        closing: Closing,
        recorder: Arc<Recorder>,
        random: Random,
    ) -> Self {
        let mut watcher = Self {
            habit,
            link: Link::new(targets),
            recorder,
            closing,
            random,
            cursor: None,
            initial: Vec::new(),
            watched: Watched {
                name,
                scope: habit.scope,
                seen: Vec::new(),
                until: Revision(0),
                connections: 0,
            },
        };
        if let Begin::At(revision) = habit.begin {
            watcher.saw(Seen::Listed(revision, Vec::new()));
        }
        watcher
    }

    /// Watches until the last writes of the run were seen.
    pub(crate) async fn run(mut self) -> Watched {
        while !self.is_over() {
            if self.link.ready().await
                && let Ended::Over = self.connection().await
            {
                break;
            }
            self.link.cut();
            self.link.moved().await;
        }
        self.watched
    }

    /// One connection: a list if one is needed, and a watch from there.
    async fn connection(&mut self) -> Ended {
        let lists = match self.habit.begin {
            Begin::At(_) | Begin::List => true,
            Begin::Stream => false,
        };
        if self.cursor.is_none() && lists && !self.list().await {
            return Ended::Cut;
        }
        let request = Request::get(self.watch_path());
        let Ok(Ok((status, body))) = timeout(PATIENCE, self.link.open(request)).await else {
            return Ended::Cut;
        };
        match status {
            StatusCode::OK => {
                self.watched.connections += 1;
                self.follow(body).await
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => Ended::Cut,
            status => {
                let body = timeout(PATIENCE, body.collect()).await;
                let body = body.ok().and_then(Result::ok);
                let body = body.map(|body| body.to_bytes()).unwrap_or_default();
                self.refused(status.as_u16(), &wire::read_status(&body));
                Ended::Cut
            }
        }
    }

    fn watch_path(&mut self) -> String {
        let mut path = wire::scope(self.habit.scope);
        path.push_str("watch=1&allowWatchBookmarks=true");
        match self.cursor {
            Some(revision) => path.push_str(&format!("&resourceVersion={revision}")),
            None => path.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
        }
        if self.habit.short {
            path.push_str(&format!("&timeoutSeconds={}", self.random.within(1..3)));
        }
        path
    }

    async fn list(&mut self) -> bool {
        let path = wire::scope(self.habit.scope);
        let answer = self.link.call(Request::get(path), PATIENCE).await;
        let Ok((StatusCode::OK, body)) = answer else {
            return false;
        };
        match wire::read_list(&body) {
            Ok(page) => self.saw(Seen::Listed(page.revision, page.objects)),
            Err(error) => self.odd(&format!("{error:#}")),
        }
        self.cursor.is_some()
    }

    async fn follow(&mut self, mut body: Incoming) -> Ended {
        self.initial.clear();
        let mut buffer = BytesMut::new();
        // Some leave before they are cut off.
        let leaves = match self.random.percent(50) {
            true => Some(Instant::now() + self.random.millis(50..1_500)),
            false => None,
        };
        loop {
            if self.is_over() {
                return Ended::Over;
            }
            if leaves.is_some_and(|leaves| Instant::now() > leaves) {
                return Ended::Cut;
            }
            // Nobody waits for the slow at the end.
            if self.habit.slow && self.closing.borrow().is_none() {
                let pause = self.random.millis(0..60);
                tokio::time::sleep(pause).await;
            }
            let frame = match timeout(GLANCE, body.frame()).await {
                Err(_nothing_yet) => continue,
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(_)) | None) => return Ended::Cut,
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            buffer.extend_from_slice(&data);
            if data.contains(&b'\n') && !self.lines(&mut buffer) {
                return Ended::Cut;
            }
        }
    }

    /// Takes note of all lines that are complete; whether the watch goes on.
    fn lines(&mut self, buffer: &mut BytesMut) -> bool {
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end);
            buffer.advance(1);
            if !self.line(&line) {
                return false;
            }
        }
        true
    }

    /// Takes note of one line; whether the watch goes on.
    fn line(&mut self, line: &[u8]) -> bool {
        match wire::read_frame(line) {
            Ok(Frame::Change(change)) if self.cursor.is_none() => {
                if change.kind != Kind::Added {
                    self.odd(&format!("{change} among what was there"));
                }
                self.initial.push((change.key, change.version));
            }
            Ok(Frame::Change(change)) => self.saw(Seen::Change(change)),
            Ok(Frame::Foreign(_)) if self.cursor.is_none() => {}
            // Where it goes on must not depend on what it is not about; but it is the truth.
            Ok(Frame::Foreign(revision)) => self.saw(Seen::Bookmark(revision)),
            Ok(Frame::Bookmark {
                revision,
                initial_end,
            }) => match (self.cursor, initial_end) {
                (None, true) => {
                    let initial = std::mem::take(&mut self.initial);
                    self.saw(Seen::Listed(revision, initial));
                }
                (Some(_), _) => self.saw(Seen::Bookmark(revision)),
                (None, false) => self.odd("a bookmark among what was there"),
            },
            Ok(Frame::Error(status)) => {
                self.refused(status.code, &status);
                return false;
            }
            Err(error) => {
                self.odd(&format!("{error:#}"));
                return false;
            }
        }
        true
    }

    /// A watch that is refused: what is too old is listed again, what is too busy is tried again.
    fn refused(&mut self, code: u16, status: &wire::Status) {
        match code {
            410 => {
                self.saw(Seen::Gone);
                self.cursor = None;
            }
            429 | 503 => {}
            _ => {
                self.odd(&format!("{code} {status}"));
                // Nothing else is to be expected: start over, and see what else is wrong.
                self.cursor = None;
            }
        }
    }

    fn saw(&mut self, seen: Seen) {
        match &seen {
            Seen::Listed(revision, _) | Seen::Bookmark(revision) => self.cursor = Some(*revision),
            Seen::Change(change) => self.cursor = Some(change.version.revision),
            Seen::Gone => {}
        }
        self.watched.seen.push((self.recorder.now(), seen));
    }

    fn odd(&self, what: &str) {
        let Watched { name, scope, .. } = &self.watched;
        let cursor = self.cursor.map_or(0, |cursor| cursor.0);
        let oddity = format!("{name} ({scope}) at revision {cursor}: {what}");
        self.recorder.oddity(oddity);
    }

    /// Whether the last writes were seen, or will not be.
    fn is_over(&mut self) -> bool {
        let closing = self.closing.borrow();
        let Some(end) = closing.as_deref() else {
            // Nobody will say any more when it is over.
            return self.closing.has_changed().is_err();
        };
        let shown = |(key, version): &&(Key, Version)| self.habit.scope.shows(*key, version);
        let written = end.written.iter().filter(shown);
        let last = written.map(|(_, version)| version.revision).max();
        self.watched.until = last.unwrap_or(Revision(0));
        self.cursor >= last || Instant::now() > end.deadline
    }
}
