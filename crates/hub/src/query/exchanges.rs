//! What was asked of one zone on one stream, and what of the answers has come: a state machine
//! without time or tasks.
//!
//! Invariants: of an exchange no more than [`WINDOW`] bytes wait here, and a zone has no more than
//! [`MOST`] exchanges, whatever the zone sends and however slowly clients read; no users have so
//! many of them that another finds none (`places`), those that go on without a deadline leave places
//! to those that have one, and some are left to administrators; what a zone is to
//! be told is derived from the state, so that nothing queues for a zone that does not listen; a
//! number is never used twice.

mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use deltaplane_api::identity::MASTERS;
use deltaplane_sync_grpc::cut;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::{Answer, Question, answer, question};
use http::StatusCode;

use places::{Admitted, ExchangePlaces};

/// All exchanges of a stream.
#[derive(Debug)]
pub(super) struct Exchanges {
    last: u64,
    all: BTreeMap<u64, Exchange>,
    /// The places of watches and of other answers without a deadline.
    watches: ExchangePlaces,
    /// The places of answers with a deadline.
    requests: ExchangePlaces,
    /// The exchanges that count against the share of a user; those of administrators do not.
    askers: BTreeMap<u64, Asker>,
    /// Those of which the zone may have to be told something.
    news: BTreeSet<u64>,
    closed: bool,
}

/// An exchange that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) number: u64,
    /// The exchange of another user that was given up for it.
    pub(super) displaced: Option<u64>,
}

/// The user of an exchange, and which places it is counted among.
#[derive(Clone, Debug)]
struct Asker {
    user: Arc<str>,
    duration: ExchangeDuration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExchangeDuration {
    /// A watch: no deadline ends it.
    Unlimited,
    Limited,
}

/// What comes of an answer, in this order; `Lost` and `CutOff` at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Head(Head),
    Body(Bytes),
    /// The answer is complete.
    Complete,
    /// The zone could not answer, or broke off.
    Failed(String),
    /// The stream is gone.
    Lost,
    /// The hub ended it.
    CutOff(CutOff),
}

/// Why the hub ended an answer before the zone did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CutOff {
    /// It took too long, or its user's token has ended.
    Late,
    /// Another user needed its place.
    Displaced,
}

/// The head of an answer, which is legal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) content_type: String,
    pub(super) warnings: Vec<String>,
}

/// Why nothing can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There are as many exchanges as there may be.
    Full,
    /// Their user has as many of them as it may have beside others.
    BeyondShare,
    /// The stream is gone.
    Closed,
}

/// The zone does not keep to the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    #[error("an answer to exchange {0}, which is not open")]
    Unknown(u64),
    #[error("exchange {0} goes on after its end")]
    AfterEnd(u64),
    #[error("exchange {0} has two heads")]
    TwoHeads(u64),
    #[error("the head of exchange {exchange} has {bytes} bytes")]
    LargeHead { exchange: u64, bytes: usize },
    #[error("exchange {exchange} has the status {status}")]
    Status { exchange: u64, status: u32 },
    #[error("exchange {0} has a body before its head")]
    BodyBeforeHead(u64),
    #[error("exchange {exchange} has {bytes} bytes where {credit} are allowed")]
    BeyondCredit {
        exchange: u64,
        bytes: usize,
        credit: u32,
    },
    #[error("exchange {0} ends without a head or an error")]
    EndBeforeHead(u64),
}

#[derive(Debug)]
enum Exchange {
    /// The zone has not been asked yet.
    Queued(Box<question::Head>),
    /// The zone answers.
    Open(Open),
    /// Nobody waits for the answer any more. The zone still has to end it: parts may be under way.
    Cancelled,
    /// The zone has ended it; the client has not read everything.
    Ended { inbox: Inbox, error: String },
}

#[derive(Debug)]
struct Open {
    inbox: Inbox,
    headed: bool,
    /// How many bytes of body the zone may send.
    credit: u32,
    /// How many have been read without giving credit for them.
    read: u32,
}

/// What has come and is not read yet.
#[derive(Debug, Default)]
struct Inbox {
    head: Option<Head>,
    /// In one piece, because a zone may send it byte by byte.
    body: BytesMut,
}

/// How many bytes of an answer's body may wait here.
pub(super) const WINDOW: u32 = 256 << 10;
/// How many exchanges a zone has at most, those included that it has yet to end.
pub(super) const MOST: usize = 256;
/// How many of them only administrators can have.
pub(super) const RESERVED: usize = 32;
/// How many of them can be watches of users who are no administrators. The rest is for requests,
/// which end by themselves.
pub(super) const WATCHES: usize = (MOST - RESERVED) / 2;
/// What clients take as the headers of an answer.
const LARGEST_HEAD: usize = 64 << 10;
/// How much of a zone's words is shown.
const LONGEST_ERROR: usize = 1024;

// === impl Exchanges ===

impl Default for Exchanges {
    fn default() -> Self {
        Self {
            last: 0,
            all: BTreeMap::new(),
            watches: ExchangePlaces::new(WATCHES),
            requests: ExchangePlaces::new(MOST - RESERVED - WATCHES),
            askers: BTreeMap::new(),
            news: BTreeSet::new(),
            closed: false,
        }
    }
}

impl Exchanges {
    /// Begins an exchange, before anything is sent, so that no answer comes too early.
    pub(super) fn open(&mut self, head: question::Head) -> Result<Opened, Refused> {
        if self.closed {
            return Err(Refused::Closed);
        }
        let number = self.last + 1;
        let asker = Asker::of(&head);
        let admitted = self.admit(number, asker.as_ref())?;
        self.last = number;
        if let Some(asker) = asker {
            self.askers.insert(number, asker);
        }
        let head = question::Head {
            credit: WINDOW,
            ..head
        };
        self.all.insert(number, Exchange::Queued(Box::new(head)));
        let displaced = match admitted {
            Admitted::Placed => {
                self.news.insert(number);
                None
            }
            Admitted::Waiting => None,
            Admitted::InsteadOf(other) => Some(other),
        };
        if let Some(displaced) = displaced {
            self.cancel(displaced);
        }
        Ok(Opened { number, displaced })
    }

    fn admit(&mut self, number: u64, asker: Option<&Asker>) -> Result<Admitted, Refused> {
        let waiting = self.watches.waiting() + self.requests.waiting();
        let is_full = self.all.len() - waiting >= MOST;
        let Some(Asker { user, duration }) = asker else {
            return if is_full {
                Err(Refused::Full)
            } else {
                Ok(Admitted::Placed)
            };
        };
        let places = self.places(*duration);
        // Administrators may have more than what is left to them.
        if is_full && places.free() > 0 {
            return Err(Refused::Full);
        }
        places.admit(user, number).ok_or(Refused::BeyondShare)
    }

    fn places(&mut self, duration: ExchangeDuration) -> &mut ExchangePlaces {
        match duration {
            ExchangeDuration::Unlimited => &mut self.watches,
            ExchangeDuration::Limited => &mut self.requests,
        }
    }

    /// Whether the zone may have to be told something.
    pub(super) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// What the zone is to be told next.
    pub(super) fn next_question(&mut self) -> Option<Question> {
        while let Some(number) = self.news.pop_first() {
            let part = self.all.get_mut(&number).and_then(Exchange::tell);
            if part.is_some() {
                let exchange = number;
                return Some(Question { exchange, part });
            }
        }
        None
    }

    /// Takes what the zone answers; gives the exchange that has something to read now.
    pub(super) fn receive(&mut self, answer: Answer) -> Result<Option<u64>, Violation> {
        let Answer { exchange, part } = answer;
        // What a newer zone adds to the protocol is left alone.
        let Some(part) = part else {
            return Ok(None);
        };
        match self.all.get_mut(&exchange) {
            None | Some(Exchange::Queued(_)) => Err(Violation::Unknown(exchange)),
            Some(Exchange::Ended { .. }) => Err(Violation::AfterEnd(exchange)),
            Some(Exchange::Cancelled) => {
                if matches!(part, answer::Part::End(_)) {
                    self.forget(exchange);
                }
                Ok(None)
            }
            Some(state @ Exchange::Open(_)) => {
                state.take(exchange, part)?;
                Ok(Some(exchange))
            }
        }
    }

    /// What has come of an answer since the last time; nothing if nothing has.
    pub(super) fn read(&mut self, number: u64) -> Option<Part> {
        let Some(exchange) = self.all.get_mut(&number) else {
            return Some(Part::Lost);
        };
        match exchange {
            Exchange::Queued(_) | Exchange::Cancelled => None,
            Exchange::Open(open) => {
                let part = open.inbox.read();
                if let Some(Part::Body(bytes)) = &part {
                    open.read += u32::try_from(bytes.len()).unwrap_or(WINDOW);
                    if open.owes() {
                        self.news.insert(number);
                    }
                }
                part
            }
            Exchange::Ended { inbox, error } => {
                if let Some(part) = inbox.read() {
                    return Some(part);
                }
                let error = std::mem::take(error);
                self.forget(number);
                Some(match error.is_empty() {
                    true => Part::Complete,
                    false => Part::Failed(error),
                })
            }
        }
    }

    /// Nobody reads an answer any more.
    pub(super) fn cancel(&mut self, number: u64) {
        match self.all.get_mut(&number) {
            None | Some(Exchange::Cancelled) => {}
            Some(Exchange::Queued(_) | Exchange::Ended { .. }) => {
                self.forget(number);
                self.news.remove(&number);
            }
            Some(open @ Exchange::Open(_)) => {
                *open = Exchange::Cancelled;
                self.news.insert(number);
                if let Some(Asker { user, duration }) = self.askers.get(&number).cloned() {
                    self.places(duration).give_up(&user, number);
                }
            }
        }
    }

    /// The stream is gone. Answers that have come in full can still be read.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.news.clear();
        self.all
            .retain(|_, exchange| matches!(exchange, Exchange::Ended { .. }));
    }

    /// Frees the place of an exchange. The zone is asked what waited for it.
    fn forget(&mut self, number: u64) {
        self.all.remove(&number);
        let Some(Asker { user, duration }) = self.askers.remove(&number) else {
            return;
        };
        let next = self.places(duration).release(&user, number);
        self.news.extend(next);
    }
}

// === impl Asker ===

impl Asker {
    /// None for administrators, whom no share bounds.
    fn of(head: &question::Head) -> Option<Self> {
        let is_administrator = head.groups.iter().any(|group| group == MASTERS);
        let duration = match head.deadline_milliseconds {
            0 => ExchangeDuration::Unlimited,
            _ => ExchangeDuration::Limited,
        };
        (!is_administrator).then(|| Self {
            user: head.user.as_str().into(),
            duration,
        })
    }
}

// === impl Exchange ===

impl Exchange {
    /// What the zone has to know of it now.
    fn tell(&mut self) -> Option<question::Part> {
        match self {
            Self::Queued(head) => {
                let head = std::mem::take(&mut **head);
                *self = Self::Open(Open {
                    inbox: Inbox::default(),
                    headed: false,
                    credit: head.credit,
                    read: 0,
                });
                Some(question::Part::Head(head))
            }
            Self::Open(open) if open.owes() => {
                let more = std::mem::take(&mut open.read);
                open.credit += more;
                Some(question::Part::Credit(more))
            }
            Self::Open(_) | Self::Ended { .. } => None,
            Self::Cancelled => Some(question::Part::Cancel(question::Cancel {})),
        }
    }

    fn take(&mut self, number: u64, part: answer::Part) -> Result<(), Violation> {
        let Self::Open(open) = self else {
            return Err(Violation::Unknown(number));
        };
        match part {
            answer::Part::Head(head) => open.head(number, head),
            answer::Part::Body(body) => open.body(number, &body),
            answer::Part::End(end) => {
                if !open.headed && end.error.is_empty() {
                    return Err(Violation::EndBeforeHead(number));
                }
                let inbox = std::mem::take(&mut open.inbox);
                let error = cut(end.error, LONGEST_ERROR);
                *self = Self::Ended { inbox, error };
                Ok(())
            }
        }
    }
}

// === impl Open ===

impl Open {
    /// Whether enough has been read to be worth a message. The zone can send as much meanwhile.
    fn owes(&self) -> bool {
        self.read >= WINDOW / 2
    }

    fn head(&mut self, exchange: u64, head: answer::Head) -> Result<(), Violation> {
        if std::mem::replace(&mut self.headed, true) {
            return Err(Violation::TwoHeads(exchange));
        }
        let answer::Head {
            status,
            content_type,
            warnings,
        } = head;
        let bytes = content_type.len() + warnings.iter().map(String::len).sum::<usize>();
        if bytes > LARGEST_HEAD {
            return Err(Violation::LargeHead { exchange, bytes });
        }
        // What is below is not an answer, but says that one will come.
        let legal = u16::try_from(status).ok().filter(|code| *code >= 200);
        let code = legal.and_then(|code| StatusCode::from_u16(code).ok());
        self.inbox.head = Some(Head {
            status: code.ok_or(Violation::Status { exchange, status })?,
            content_type,
            warnings,
        });
        Ok(())
    }

    fn body(&mut self, exchange: u64, body: &[u8]) -> Result<(), Violation> {
        if !self.headed {
            return Err(Violation::BodyBeforeHead(exchange));
        }
        let (bytes, credit) = (body.len(), self.credit);
        let size = u32::try_from(bytes).ok();
        let left = size.and_then(|size| credit.checked_sub(size));
        self.credit = left.ok_or(Violation::BeyondCredit {
            exchange,
            bytes,
            credit,
        })?;
        self.inbox.body.extend_from_slice(body);
        Ok(())
    }
}

// === impl Inbox ===

impl Inbox {
    fn read(&mut self) -> Option<Part> {
        if let Some(head) = self.head.take() {
            return Some(Part::Head(head));
        }
        match self.body.is_empty() {
            true => None,
            false => Some(Part::Body(std::mem::take(&mut self.body).freeze())),
        }
    }
}

#[cfg(test)]
mod tests;
