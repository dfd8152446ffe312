//! The reverse channel: what clients of the hub ask of zones elsewhere, over the connection that
//! the zone has opened.
//!
//! Not here: the protocol's rules (`exchanges`), and who may ask (`zones`).
//!
//! Invariants: an exchange is registered before its question is sent; a client that goes away
//! cancels it; a stream that ends takes all its exchanges along at once, and no answer that was
//! broken off looks like a complete one.

mod answering;
mod exchanges;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use deltaplane_runtime::{Stop, TransitMonitor, Trigger};
use deltaplane_sync::{SessionId, ZoneName};
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::{Answer, Question, question};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tonic::Status;

pub(crate) use answering::{Answering, Deadline, Wanted};

use exchanges::{CutOff, Exchanges, Opened, Part, Refused, Violation};

/// The streams of all zones that have one.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    open: watch::Sender<BTreeMap<ZoneName, Arc<Channel>>>,
}

/// A zone's stream.
#[derive(Debug)]
pub(crate) struct Channel {
    session: SessionId,
    state: Mutex<State>,
    /// There may be something to tell the zone.
    news: Notify,
    ended: Trigger,
}

#[derive(Debug, Default)]
struct State {
    exchanges: Exchanges,
    readers: BTreeMap<u64, Reader>,
}

#[derive(Debug)]
struct Reader {
    woken: Arc<Notify>,
    /// Nothing of the answer is passed on any more.
    cut_off: Option<CutOff>,
    /// Ends what the client has not taken when the answer is cut off. None before the body begins.
    transit: Option<TransitMonitor>,
}

/// A stream that is open as long as this lives.
pub(crate) struct Registration {
    channels: Arc<Channels>,
    zone: ZoneName,
    channel: Arc<Channel>,
}

/// An exchange, cancelled when nobody holds it any more.
struct Asked {
    channel: Arc<Channel>,
    number: u64,
    woken: Arc<Notify>,
}

// === impl Channels ===

impl Channels {
    /// Opens a zone's stream, which replaces an earlier one. None if a newer session has one.
    pub(crate) fn open(self: &Arc<Self>, zone: &ZoneName, id: SessionId) -> Option<Registration> {
        let channel = Arc::new(Channel::new(id));
        let mut before = None;
        let opened = self.open.send_if_modified(|open| {
            let newest = open.get(zone).is_none_or(|other| other.session <= id);
            if newest {
                before = open.insert(zone.clone(), channel.clone());
            }
            newest
        });
        if let Some(before) = before {
            before.close();
        }
        opened.then(|| Registration {
            channels: self.clone(),
            zone: zone.clone(),
            channel,
        })
    }

    /// The stream of a session, as soon as there is one.
    pub(crate) async fn of(&self, zone: &ZoneName, id: SessionId) -> Option<Arc<Channel>> {
        let mut open = self.open.subscribe();
        let found = |channel: &Arc<Channel>| channel.session == id;
        let open = open
            .wait_for(|open| open.get(zone).is_some_and(found))
            .await;
        open.ok()?.get(zone).cloned()
    }
}

// === impl Registration ===

impl Registration {
    pub(crate) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Takes what the zone answers, until it is told to end, and says why.
    pub(crate) async fn run<S>(self, answers: S, session: &Stop, hub: &Stop) -> Status
    where
        S: Stream<Item = Result<Answer, Status>>,
    {
        let mut answers = pin!(answers);
        let replaced = self.channel.ended.subscribe();
        loop {
            let answer = tokio::select! {
                () = session.wait() => return Status::aborted("the session has ended"),
                () = replaced.wait() => return Status::aborted("a newer stream was opened"),
                () = hub.wait() => return Status::unavailable("the hub stops"),
                answer = answers.next() => match answer {
                    Some(Ok(answer)) => answer,
                    Some(Err(status)) => return status,
                    None => return Status::ok("the zone has ended it"),
                },
            };
            if let Err(violation) = self.channel.receive(answer) {
                tracing::warn!(zone = %self.zone, %violation, "a zone does not keep to the protocol");
                return Status::invalid_argument(violation.to_string());
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.channels.open.send_if_modified(|open| {
            let is_this = |other: &Arc<Channel>| Arc::ptr_eq(other, &self.channel);
            open.get(&self.zone).is_some_and(is_this) && open.remove(&self.zone).is_some()
        });
        self.channel.close();
    }
}

// === impl Channel ===

impl Channel {
    fn new(session: SessionId) -> Self {
        Self {
            session,
            state: Mutex::default(),
            news: Notify::new(),
            ended: Trigger::new().0,
        }
    }

    /// What the zone is asked, until the stream ends. For one reader.
    pub(crate) fn questions(self: &Arc<Self>) -> impl Stream<Item = Question> + Send + use<> {
        futures::stream::unfold(self.clone(), |channel| async {
            let question = channel.next_question().await?;
            Some((question, channel))
        })
    }

    async fn next_question(&self) -> Option<Question> {
        let ended = self.ended.subscribe();
        loop {
            let question = self.state.lock().exchanges.next_question();
            if question.is_some() {
                return question;
            }
            ended.unless(self.news.notified()).await?;
        }
    }

    fn receive(&self, answer: Answer) -> Result<(), Violation> {
        let mut state = self.state.lock();
        let reader = state.exchanges.receive(answer)?;
        let reader = reader.and_then(|number| state.readers.get(&number));
        if let Some(reader) = reader {
            reader.woken.notify_one();
        }
        let news = state.exchanges.has_news();
        drop(state);
        if news {
            // An exchange has ended, and another one has its place.
            self.news.notify_one();
        }
        Ok(())
    }

    fn ask(self: &Arc<Self>, head: question::Head) -> Result<Asked, Refused> {
        let woken = Arc::new(Notify::new());
        let mut state = self.state.lock();
        let Opened { number, displaced } = state.exchanges.open(head)?;
        let reader = Reader {
            woken: woken.clone(),
            cut_off: None,
            transit: None,
        };
        state.readers.insert(number, reader);
        if let Some(displaced) = displaced {
            state.cut_off(displaced, CutOff::Displaced);
        }
        drop(state);
        self.news.notify_one();
        Ok(Asked {
            channel: self.clone(),
            number,
            woken,
        })
    }

    /// Ends an exchange, whether or not its client reads.
    fn end(&self, number: u64, reason: CutOff) {
        self.state.lock().cut_off(number, reason);
        self.news.notify_one();
    }

    /// Says that the body of an answer is passed on to its client from now on.
    fn pass_on(&self, number: u64, transit: TransitMonitor) {
        if let Some(reader) = self.state.lock().readers.get_mut(&number) {
            reader.transit = Some(transit);
        }
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.exchanges.close();
        for reader in state.readers.values() {
            reader.woken.notify_one();
        }
        drop(state);
        self.ended.stop();
    }
}

// === impl State ===

impl State {
    fn cut_off(&mut self, number: u64, reason: CutOff) {
        let Some(reader) = self.readers.get_mut(&number) else {
            return;
        };
        reader.cut_off = Some(reason);
        reader.woken.notify_one();
        if let Some(transit) = &reader.transit {
            transit.end();
        }
        self.exchanges.cancel(number);
    }
}

// === impl Asked ===

impl Asked {
    /// The next of what comes. Cancel safe.
    async fn next(&self) -> Part {
        loop {
            let (part, news) = {
                let mut state = self.channel.state.lock();
                let reader = state.readers.get(&self.number);
                if let Some(reason) = reader.and_then(|reader| reader.cut_off) {
                    return Part::CutOff(reason);
                }
                let part = state.exchanges.read(self.number);
                (part, state.exchanges.has_news())
            };
            if news {
                // What was read is credit for more.
                self.channel.news.notify_one();
            }
            if let Some(part) = part {
                return part;
            }
            self.woken.notified().await;
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let mut state = self.channel.state.lock();
        state.readers.remove(&self.number);
        state.exchanges.cancel(self.number);
        drop(state);
        self.channel.news.notify_one();
    }
}

#[cfg(test)]
mod tests;
