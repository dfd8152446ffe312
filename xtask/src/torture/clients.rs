//! Clients that write and read a few objects as fast as they get answers, and write down both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};

use super::history::Revision;
use super::history::{Answer, Call, Key, Listing, NAMES, NAMESPACES, Op, OpId, Recorder, Version};
use super::link::{Link, Request, Targets, Unanswered};
use super::random::Random;
use super::wire;

/// One client.
pub(crate) struct Client {
    number: u16,
    link: Link,
    recorder: Arc<Recorder>,
    random: Random,
    patience: Duration,
    /// What it saw last of each object, to build on.
    known: BTreeMap<Key, Version>,
}

/// What to do next.
#[derive(Clone, Copy)]
enum Choice {
    Create,
    ReplaceKnown,
    ReplaceAny,
    Patch,
    DeleteKnown,
    DeleteUid,
    DeleteAny,
    Read,
    List,
}

/// What an answer says about a request.
enum Told {
    /// It was carried out or refused.
    Surely(Answer),
    /// It was turned away before anything was done.
    Never,
    Maybe,
}

/// Longer than any misfortune but the last.
const PATIENCE: Duration = Duration::from_secs(10);
/// Lists in pages come in pages of so many.
const PAGE: usize = 2;

// === impl Client ===

impl Client {
    pub(crate) fn new(number: u16, targets: Targets, recorder: Arc<Recorder>, seed: u64) -> Self {
        let mut random = Random::new(seed, u64::from(number));
        // Some are gone before a stopped hub goes on.
        let patience = match random.percent(50) {
            true => random.millis(150..400),
            false => PATIENCE,
        };
        Self {
            number,
            link: Link::new(targets),
            recorder,
            random,
            patience,
            known: BTreeMap::new(),
        }
    }

    /// The same client, but one that waits for its answers.
    pub(crate) fn patient(self) -> Self {
        Self {
            patience: PATIENCE,
            ..self
        }
    }

    /// Works until told to stop.
    pub(crate) async fn run(mut self, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) {
            if !self.link.ready().await {
                self.link.moved().await;
                continue;
            }
            self.step().await;
            if self.random.percent(1) {
                self.link.cut();
            }
            let pause = self.random.millis(0..4);
            tokio::time::sleep(pause).await;
        }
    }

    async fn step(&mut self) {
        let key = Key {
            namespace: u8::try_from(self.random.within(0..NAMESPACES.into())).unwrap_or_default(),
            name: u8::try_from(self.random.within(0..NAMES.into())).unwrap_or_default(),
        };
        let choice = self.random.pick([
            (16, Choice::Create),
            (24, Choice::ReplaceKnown),
            (10, Choice::ReplaceAny),
            (14, Choice::Patch),
            (5, Choice::DeleteKnown),
            (3, Choice::DeleteUid),
            (3, Choice::DeleteAny),
            (20, Choice::Read),
            (5, Choice::List),
        ]);
        let known = self.known.get(&key).copied();
        let at = known.map(|known| known.revision);
        let uid = known.map(|known| known.uid);
        let call = match choice {
            // Mostly of what is not there.
            Choice::Create if known.is_none() || self.random.percent(20) => Call::Create,
            Choice::Create | Choice::ReplaceAny => Call::Replace { at: None },
            Choice::Patch => Call::Patch,
            Choice::DeleteAny => Call::Delete {
                at: None,
                uid: None,
            },
            Choice::ReplaceKnown if at.is_some() => Call::Replace { at },
            Choice::DeleteKnown if at.is_some() => Call::Delete { at, uid: None },
            Choice::DeleteUid if uid.is_some() => Call::Delete { at: None, uid },
            Choice::ReplaceKnown | Choice::DeleteKnown | Choice::DeleteUid | Choice::Read => {
                Call::Read
            }
            Choice::List => return self.list_something().await,
        };
        let id = self.recorder.number();
        self.operate(id, key, call).await;
    }

    async fn list_something(&mut self) {
        let namespace = self
            .random
            .pick([(1, None), (1, Some(0)), (1, Some(NAMESPACES - 1))]);
        let limit = self.random.percent(50).then_some(PAGE);
        self.list(namespace, limit, None).await;
    }

    /// One operation, written down; the answer if there was one.
    pub(crate) async fn operate(&mut self, id: OpId, key: Key, call: Call) -> Option<Answer> {
        if !self.link.ready().await {
            return None;
        }
        let began = self.recorder.now();
        let told = match self.link.call(request(id, key, call), self.patience).await {
            Ok((status, body)) => match told(key, call, status, &body) {
                Ok(told) => told,
                Err(error) => {
                    let number = self.number;
                    let oddity = format!("client {number}, {id} {call} of {key}: {error:#}");
                    self.recorder.oddity(oddity);
                    Told::Maybe
                }
            },
            Err(Unanswered) => Told::Maybe,
        };
        let ended = match told {
            Told::Surely(answer) => Some((self.recorder.now(), answer)),
            Told::Never => return None,
            Told::Maybe => None,
        };
        self.recorder.op(Op {
            id,
            client: self.number,
            key,
            call,
            began,
            ended,
        });
        let answer = ended.map(|(_, answer)| answer);
        self.learn(key, answer);
        answer
    }

    fn learn(&mut self, key: Key, answer: Option<Answer>) {
        match answer {
            Some(Answer::Object(version)) => {
                self.known.insert(key, version);
            }
            Some(Answer::Deleted | Answer::Absent | Answer::Conflict) => {
                self.known.remove(&key);
            }
            Some(Answer::Exists) | None => {}
        }
    }

    /// A list, all at once or in pages, of now or of a revision, written down if it was answered.
    pub(crate) async fn list(
        &mut self,
        namespace: Option<u8>,
        limit: Option<usize>,
        at: Option<Revision>,
    ) -> Option<Listing> {
        if !self.link.ready().await {
            return None;
        }
        let began = self.recorder.now();
        let mut path = format!("{}?", wire::collection(namespace));
        if let Some(limit) = limit {
            path.push_str(&format!("limit={limit}&"));
        }
        let first = match at {
            Some(at) => format!("{path}resourceVersion={at}&resourceVersionMatch=Exact"),
            None => path.clone(),
        };
        let mut page = self.page(first).await?;
        let mut objects = std::mem::take(&mut page.objects);
        while let Some(token) = page.next.take() {
            let next = self.page(format!("{path}continue={token}")).await?;
            if next.revision != page.revision {
                self.recorder.oddity(format!(
                    "client {}: a list began at revision {} and went on at {}",
                    self.number, page.revision, next.revision
                ));
                return None;
            }
            page = next;
            objects.append(&mut page.objects);
        }
        let listing = Listing {
            client: self.number,
            namespace,
            began,
            ended: self.recorder.now(),
            revision: page.revision,
            live: at.is_none(),
            objects,
        };
        self.known.extend(listing.objects.iter().copied());
        self.recorder.list(listing.clone());
        Some(listing)
    }

    async fn page(&mut self, path: String) -> Option<wire::Page> {
        let asked = self.link.call(Request::get(path.clone()), self.patience);
        let (status, body) = asked.await.ok()?;
        let page = match status {
            StatusCode::OK => wire::read_list(&body),
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => return None,
            status => Err(anyhow::anyhow!("{status}: {}", wire::read_status(&body))),
        };
        let number = self.number;
        let odd = |error| {
            self.recorder
                .oddity(format!("client {number}, {path}: {error:#}"))
        };
        page.map_err(odd).ok()
    }

    /// An answer that is neither an object nor a list.
    pub(crate) async fn plain(&mut self, request: Request) -> Option<(StatusCode, Bytes)> {
        if !self.link.ready().await {
            return None;
        }
        self.link.call(request, self.patience).await.ok()
    }
}

fn request(id: OpId, key: Key, call: Call) -> Request {
    let body = wire::request(id, key, call);
    let (method, path) = match call {
        Call::Create => (Method::POST, wire::collection(Some(key.namespace))),
        Call::Replace { .. } => (Method::PUT, wire::object(key)),
        Call::Patch => (Method::PATCH, wire::object(key)),
        Call::Delete { .. } => (Method::DELETE, wire::object(key)),
        Call::Read => (Method::GET, wire::object(key)),
    };
    let request = Request::new(method, path, body);
    match call {
        Call::Patch => Request {
            content_type: "application/merge-patch+json",
            ..request
        },
        Call::Create | Call::Replace { .. } | Call::Delete { .. } | Call::Read => request,
    }
}

/// What a status and body say; an error if they say what they must not.
fn told(key: Key, call: Call, status: StatusCode, body: &[u8]) -> anyhow::Result<Told> {
    let creates = call == Call::Create;
    let refused = |reason| wire::read_status(body).reason == reason;
    Ok(match status {
        StatusCode::OK if matches!(call, Call::Delete { .. }) => Told::Surely(Answer::Deleted),
        StatusCode::OK | StatusCode::CREATED if creates == (status == StatusCode::CREATED) => {
            let (read, version) = wire::read_object(body)?;
            anyhow::ensure!(read == key, "the answer is {read}");
            Told::Surely(Answer::Object(version))
        }
        StatusCode::NOT_FOUND if !creates && refused("NotFound") => Told::Surely(Answer::Absent),
        StatusCode::CONFLICT if creates && refused("AlreadyExists") => Told::Surely(Answer::Exists),
        StatusCode::CONFLICT if !creates && refused("Conflict") => Told::Surely(Answer::Conflict),
        StatusCode::TOO_MANY_REQUESTS => Told::Never,
        StatusCode::SERVICE_UNAVAILABLE => Told::Maybe,
        status => anyhow::bail!("{status}: {}", wire::read_status(body)),
    })
}
