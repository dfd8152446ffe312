//! From an exchange to the answer of an HTTP request.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use deltaplane_apiserver::{Error, Pieces};
use deltaplane_plane::RouteBody;
use deltaplane_runtime::transit::Taken;
use deltaplane_runtime::{Clock, Stop, TaskGroup, TransitMonitor, Trigger};
use deltaplane_sync::ZoneName;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::question;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use tower::BoxError;

use super::exchanges::{CutOff, Head, Part, Refused};
use super::{Asked, Channel};

/// A question, and what its answer must be like.
pub(crate) struct Answering {
    pub(crate) zone: ZoneName,
    pub(crate) question: question::Head,
    pub(crate) deadline: Deadline,
    /// When it ends that this is the user.
    pub(crate) until: Option<SystemTime>,
    pub(crate) body: Wanted,
    pub(crate) clock: Clock,
    /// Ends answers in time.
    pub(crate) group: TaskGroup,
    /// Follows what is in transit to the client, and ends it. None for clients in this process.
    pub(crate) transit: Option<TransitMonitor>,
}

/// How long an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// All of it.
    Whole(Duration),
    /// Its head; the rest comes as it happens.
    Head(Duration),
}

/// Whether the body of an answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Yes,
    No,
}

/// Why an answer broke off in the midst of its body. The client sees that it did, and no more.
#[derive(Debug, thiserror::Error)]
enum BrokenOff {
    #[error("the connection to the zone was lost")]
    Lost,
    #[error("the zone could not complete its answer: {0}")]
    Failed(String),
    #[error("the answer of the zone was not complete in time, or the token of its user has ended")]
    Late,
    #[error("the answer was closed to make room for another user; ask again")]
    Displaced,
}

/// The body of an answer on its way to the client.
struct Passing {
    asked: Asked,
    transit: Option<TransitMonitor>,
    /// The part before. The exchange is held until the client has taken it.
    before: Option<Taken>,
    /// Says that nobody reads any more when it is dropped.
    _read: Trigger,
}

/// What Kubernetes APIs answer in.
const SAFE_TYPES: [&str; 8] = [
    "application/cbor",
    "application/cbor-seq",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/json",
    "application/openmetrics-text",
    "application/vnd.kubernetes.protobuf",
    "application/yaml",
    "text/plain",
];

type Late = BoxFuture<'static, ()>;

// === impl BrokenOff ===

impl From<CutOff> for BrokenOff {
    fn from(reason: CutOff) -> Self {
        match reason {
            CutOff::Late => Self::Late,
            CutOff::Displaced => Self::Displaced,
        }
    }
}

// === impl Answering ===

impl Answering {
    /// Asks, and answers with what comes.
    pub(crate) async fn ask(self, channel: &Arc<Channel>) -> Result<Response<RouteBody>, Error> {
        let whole = match self.deadline {
            Deadline::Whole(limit) => u32::try_from(limit.as_millis()).unwrap_or(u32::MAX),
            Deadline::Head(_) => 0,
        };
        let question = question::Head {
            deadline_milliseconds: whole,
            ..self.question.clone()
        };
        let asked = channel.ask(question);
        let asked = asked.map_err(|refused| self.refused(refused))?;
        let mut late = self.late();
        let first = tokio::select! {
            biased;
            part = asked.next() => part,
            () = &mut late => return Err(self.too_late()),
        };
        let head = match first {
            Part::Head(head) => head,
            Part::Failed(error) => return Err(self.failed(&error)),
            Part::Lost => return Err(self.lost()),
            Part::CutOff(reason) => return Err(self.cut_off(reason)),
            Part::Body(_) | Part::Complete => {
                return Err(Error::internal("an answer without a head was taken"));
            }
        };
        if let Deadline::Head(_) = self.deadline {
            late = self.expiry();
        }
        let body = match self.body {
            Wanted::Yes => {
                let (read, gone) = Trigger::new();
                self.end_in_time(&asked, late, gone);
                let passing = Passing {
                    asked,
                    transit: self.transit,
                    before: None,
                    _read: read,
                };
                StreamBody::new(passing.frames()).boxed_unsync()
            }
            Wanted::No => Empty::new().map_err(|never| match never {}).boxed_unsync(),
        };
        Ok(with_head(head, body))
    }

    /// Ends an answer when it is late. The body itself cannot: it is polled only while its client
    /// reads.
    fn end_in_time(&self, asked: &Asked, late: Late, gone: Stop) {
        let (channel, number) = (asked.channel.clone(), asked.number);
        if let Some(transit) = &self.transit {
            channel.pass_on(number, transit.clone());
        }
        let stop = self.group.stop();
        self.group.spawn(async move {
            tokio::select! {
                () = late => channel.end(number, CutOff::Late),
                () = gone.wait() => {}
                () = stop.wait() => {}
            }
        });
    }

    fn late(&self) -> Late {
        let (Deadline::Whole(limit) | Deadline::Head(limit)) = self.deadline;
        let clock = self.clock.clone();
        async move { clock.sleep(limit).await }.boxed()
    }

    /// What goes on without an end ends with the right to it.
    fn expiry(&self) -> Late {
        let clock = self.clock.clone();
        match self.until {
            Some(until) => async move { clock.sleep_until(until).await }.boxed(),
            None => std::future::pending().boxed(),
        }
    }

    fn refused(&self, refused: Refused) -> Error {
        match refused {
            Refused::Full => Error::too_many_requests(format!(
                "zone {} is being asked too many things at once; try again soon, or close watches of it that nobody needs",
                self.zone
            )),
            Refused::BeyondShare => Error::too_many_requests(format!(
                "user {:?} has its share of what zone {} can be asked at once; try again soon, or close watches of it that nobody needs",
                self.question.user, self.zone
            )),
            Refused::Closed => self.lost(),
        }
    }

    fn cut_off(&self, reason: CutOff) -> Error {
        match reason {
            CutOff::Late => self.too_late(),
            CutOff::Displaced => Error::too_many_requests(format!(
                "user {:?} has more requests to zone {} open than another user who needs a place; try again soon, or close watches of it that nobody needs",
                self.question.user, self.zone
            )),
        }
    }

    fn lost(&self) -> Error {
        let zone = &self.zone;
        Error::unavailable(format!("zone {zone} was disconnected before it answered"))
    }

    fn failed(&self, error: &str) -> Error {
        let zone = &self.zone;
        Error::unavailable(format!("zone {zone} could not answer: {error}"))
    }

    fn too_late(&self) -> Error {
        let (Deadline::Whole(limit) | Deadline::Head(limit)) = self.deadline;
        Error::gateway_timeout(format!(
            "zone {} did not answer within {} s; ask for less at once (limit=500, a namespace, a selector), or ask the zone directly",
            self.zone,
            limit.as_secs_f32()
        ))
    }
}

fn with_head(head: Head, body: RouteBody) -> Response<RouteBody> {
    let mut answer = Response::new(body);
    *answer.status_mut() = head.status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, content_type(&head.content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // What is no legal header is the zone's own fault, and the rest of the answer is not.
    for warning in head.warnings {
        if let Ok(value) = HeaderValue::from_bytes(warning.as_bytes()) {
            headers.append(WARNING, value);
        }
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// The content type of an answer, if it is one that no browser executes or renders: a zone must
/// not make the hub's address serve pages and scripts. Everything else is bytes.
fn content_type(of_zone: &str) -> HeaderValue {
    let essence = of_zone.split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    let passed = SAFE_TYPES.contains(&essence.as_str());
    let value = HeaderValue::from_str(of_zone).ok().filter(|_| passed);
    value.unwrap_or(HeaderValue::from_static("application/octet-stream"))
}

// === impl Passing ===

impl Passing {
    /// The body, as the zone sends it and the client reads it; an error unless it is complete.
    fn frames(self) -> impl Stream<Item = Result<Frame<Pieces>, BoxError>> + Send + 'static {
        stream::unfold(Some(self), |passing| async move {
            let mut passing = passing?;
            let broken_off = match passing.next().await {
                Part::Body(bytes) => {
                    let frame = passing.frame(bytes);
                    return Some((Ok(frame), Some(passing)));
                }
                Part::Complete => return None,
                Part::Failed(error) => BrokenOff::Failed(error),
                Part::Lost => BrokenOff::Lost,
                Part::CutOff(reason) => reason.into(),
                Part::Head(_) => BrokenOff::Failed("two heads".to_owned()),
            };
            Some((Err(broken_off.into()), None))
        })
    }

    async fn next(&mut self) -> Part {
        if let Some(before) = self.before.take() {
            before.await;
        }
        self.asked.next().await
    }

    fn frame(&mut self, bytes: Bytes) -> Frame<Pieces> {
        let mut pieces = Pieces::from(bytes);
        if let Some(transit) = &self.transit {
            let (part, taken) = transit.hand_out();
            pieces.follow(part);
            self.before = Some(taken);
        }
        Frame::data(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_answer_in_types_that_no_browser_renders() {
        let bytes = "application/octet-stream";
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let cases = [
            ("application/json", "application/json"),
            (table, table),
            ("Text/Plain; charset=utf-8", "Text/Plain; charset=utf-8"),
            ("application/yaml", "application/yaml"),
            ("text/html", bytes),
            ("TEXT/HTML; charset=utf-8", bytes),
            (" text/html", bytes),
            ("application/xhtml+xml", bytes),
            ("image/svg+xml", bytes),
            ("text/javascript", bytes),
            ("application/json\r\nset-cookie: a=b", bytes),
            ("", bytes),
        ];
        for (of_zone, expected) in cases {
            assert_eq!(content_type(of_zone), expected, "{of_zone:?}");
        }
    }
}
