//! What the hub asks of the zone's API, on behalf of its users.
//!
//! Not here: how the API is reached (`api`), and what can be asked at all (`reading`).
//!
//! Invariants: nothing is ever written, whatever the hub says; every question is ended once, and
//! nothing is said of it after that; no more of an answer is sent than the hub has room for; an
//! answer that nobody waits for any more costs nothing more.

mod api;
mod reading;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use deltaplane_runtime::{Clock, Stop, TaskGroup, Trigger};
use deltaplane_sync::ProtocolError;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::{Answer, Question, answer, question};
use futures::{FutureExt, Stream, StreamExt};
use http::Response;
use http::header::{CONTENT_TYPE, WARNING};
use http::response::Parts;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tonic::Status;

pub use api::{ApiBody, ApiError, Cluster, Embedded, ZoneApi};
pub use reading::Reading;

use crate::agent::LinkError;

/// Answers what the hub asks.
pub(crate) struct Queries {
    pub(crate) api: Arc<dyn ZoneApi>,
    /// Answers are made beside everything else that the connection does.
    pub(crate) group: TaskGroup,
    pub(crate) clock: Clock,
}

/// The exchanges of a stream that have not ended, by their numbers. They end with it.
type Running = Mutex<BTreeMap<u64, Exchange>>;

struct Exchange {
    credit: Arc<Credit>,
    cancel: Trigger,
}

/// How much the hub has room for.
struct Credit {
    bytes: Mutex<u64>,
    more: Notify,
}

/// A question on its way to being answered.
struct Answering {
    api: Arc<dyn ZoneApi>,
    number: u64,
    credit: Arc<Credit>,
    out: mpsc::Sender<Answer>,
}

/// How many exchanges a stream may have. The hub has at most as many.
const MOST: usize = 256;
/// No part of a body is larger, so that others have their turn in between.
const CHUNK: usize = 64 << 10;
/// The hub refuses larger heads; what is left out are warnings.
const LARGEST_HEAD: usize = 32 << 10;
/// The hub ends what takes too long; this is for one that does not.
const GRACE: Duration = Duration::from_secs(5);

// === impl Queries ===

impl Queries {
    /// Answers into `out` until the questions end. What is not answered then is given up.
    pub(crate) async fn serve(
        &self,
        questions: impl Stream<Item = Result<Question, Status>>,
        out: mpsc::Sender<Answer>,
    ) -> Result<(), LinkError> {
        // Nobody else holds it: when this ends, however it does, all exchanges do.
        let running = Arc::new(Running::default());
        let mut questions = pin!(questions);
        while let Some(question) = questions.next().await {
            let Question { exchange, part } = question?;
            match part {
                Some(question::Part::Head(head)) => self.begin(exchange, head, &running, &out)?,
                // Of exchanges that have ended the hub may not know it yet.
                Some(question::Part::Cancel(_)) => {
                    if let Some(exchange) = running.lock().get(&exchange) {
                        exchange.cancel.stop();
                    }
                }
                Some(question::Part::Credit(more)) => {
                    if let Some(exchange) = running.lock().get(&exchange) {
                        exchange.credit.add(more);
                    }
                }
                // What a newer hub adds to the protocol is left alone.
                None => {}
            }
        }
        Ok(())
    }

    fn begin(
        &self,
        number: u64,
        head: question::Head,
        running: &Arc<Running>,
        out: &mpsc::Sender<Answer>,
    ) -> Result<(), ProtocolError> {
        let malformed = |what: String| Err(ProtocolError::Malformed(what));
        let credit = Arc::new(Credit::new(head.credit));
        let (cancel, cancelled) = Trigger::new();
        let exchange = Exchange {
            credit: credit.clone(),
            cancel,
        };
        let mut open = running.lock();
        if open.len() >= MOST {
            return malformed(format!("more than {MOST} exchanges are open"));
        }
        if open.insert(number, exchange).is_some() {
            return malformed(format!("exchange {number} is asked twice"));
        }
        drop(open);
        let answering = Answering {
            api: self.api.clone(),
            number,
            credit,
            out: out.clone(),
        };
        let (clock, running) = (self.clock.clone(), Arc::downgrade(running));
        self.group.spawn(async move {
            let error = answering.run(head, &cancelled, &clock).await;
            // First, because the hub may ask the next thing when it sees the end.
            if let Some(running) = running.upgrade() {
                running.lock().remove(&number);
            }
            let end = answer::End { error };
            answering.say(answer::Part::End(end)).await;
        });
        Ok(())
    }
}

// === impl Answering ===

impl Answering {
    /// Answers up to the end; says what went wrong, or nothing.
    async fn run(&self, head: question::Head, cancelled: &Stop, clock: &Clock) -> String {
        let deadline = head.deadline_milliseconds;
        let late = async {
            match deadline {
                0 => std::future::pending().await,
                limit => {
                    clock
                        .sleep(Duration::from_millis(limit.into()) + GRACE)
                        .await
                }
            }
        };
        tokio::select! {
            biased;
            () = cancelled.wait() => "it was cancelled".to_owned(),
            () = late => "it took too long".to_owned(),
            // Without its end the hub would wait for it.
            answered = AssertUnwindSafe(self.answer(head)).catch_unwind() => match answered {
                Ok(Ok(())) => String::new(),
                Ok(Err(error)) => chain(&error),
                Err(_) => {
                    tracing::error!(exchange = self.number, "answering a question panicked");
                    "it failed in the zone".to_owned()
                }
            },
        }
    }

    async fn answer(&self, head: question::Head) -> Result<(), ApiError> {
        let answer = match Reading::parse(head) {
            Ok(reading) => self.api.read(reading).await?,
            Err(error) => error.response().map(api::boxed),
        };
        self.pass(answer).await
    }

    async fn pass(&self, answer: Response<ApiBody>) -> Result<(), ApiError> {
        let (parts, mut body) = answer.into_parts();
        self.say(answer::Part::Head(head(&parts))).await;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(ApiError)?;
            // Nobody waits for trailers.
            let Ok(mut data) = frame.into_data() else {
                continue;
            };
            while data.has_remaining() {
                let wanted = data.remaining().min(CHUNK);
                let size = self.credit.take(wanted).await;
                let chunk = data.copy_to_bytes(size);
                self.say(answer::Part::Body(chunk)).await;
            }
        }
        Ok(())
    }

    async fn say(&self, part: answer::Part) {
        let exchange = self.number;
        let part = Some(part);
        // When nobody listens the exchange is about to be given up.
        let _ = self.out.send(Answer { exchange, part }).await;
    }
}

fn head(parts: &Parts) -> answer::Head {
    let text = |value: &http::HeaderValue| str::from_utf8(value.as_bytes()).map(str::to_owned);
    let content_type = parts.headers.get(CONTENT_TYPE).map(text);
    let warnings = parts.headers.get_all(WARNING).iter().flat_map(text);
    let fitting = warnings.scan(LARGEST_HEAD, |room, warning| {
        *room = room.checked_sub(warning.len())?;
        Some(warning)
    });
    answer::Head {
        status: parts.status.as_u16().into(),
        content_type: content_type.and_then(Result::ok).unwrap_or_default(),
        warnings: fitting.collect(),
    }
}

/// An error with its causes, for the hub's user.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

// === impl Credit ===

impl Credit {
    fn new(bytes: u32) -> Self {
        Self {
            bytes: Mutex::new(bytes.into()),
            more: Notify::new(),
        }
    }

    fn add(&self, bytes: u32) {
        let mut all = self.bytes.lock();
        *all = all.saturating_add(bytes.into());
        drop(all);
        self.more.notify_one();
    }

    /// Takes as much as there is of `wanted`, as soon as there is some.
    async fn take(&self, wanted: usize) -> usize {
        loop {
            {
                let mut all = self.bytes.lock();
                let taken = wanted.min(usize::try_from(*all).unwrap_or(usize::MAX));
                if taken > 0 {
                    *all -= taken as u64;
                    return taken;
                }
            }
            self.more.notified().await;
        }
    }
}

#[cfg(test)]
mod tests;
