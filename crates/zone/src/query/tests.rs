//! A stream of questions, with the hub at its other end played by the test, and an API that does
//! as its paths say.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use deltaplane_apiserver::Pieces;
use deltaplane_runtime::Tasks;
use deltaplane_runtime::clock::Hand;
use futures::future::BoxFuture;
use futures::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::oneshot;

use super::*;

#[derive(Default)]
struct Script {
    open: Arc<AtomicUsize>,
    closed: Arc<Notify>,
}

/// Counts requests that are open.
struct Guard(Arc<AtomicUsize>, Arc<Notify>);

struct NearEnd {
    questions: mpsc::Sender<Result<Question, Status>>,
    answers: mpsc::Receiver<Answer>,
    served: oneshot::Receiver<Result<(), LinkError>>,
    open: Arc<AtomicUsize>,
    closed: Arc<Notify>,
    hand: Hand,
    tasks: Tasks,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        self.1.notify_one();
    }
}

impl ZoneApi for Script {
    fn read(&self, reading: Reading) -> BoxFuture<'static, Result<Response<ApiBody>, ApiError>> {
        self.open.fetch_add(1, Ordering::SeqCst);
        let guard = Guard(self.open.clone(), self.closed.clone());
        async move {
            let data = |bytes: Bytes| Ok(Frame::data(Pieces::from(bytes)));
            let large = Bytes::from(vec![b'x'; 100_000]);
            let begun = stream::iter([data(Bytes::from_static(b"begun"))]);
            let frames = match reading.path.path() {
                "/large" => stream::iter([data(large)]).boxed(),
                "/watch" => begun.chain(stream::pending()).boxed(),
                "/broken" => begun.chain(stream::iter([Err("torn".into())])).boxed(),
                "/away" => return Err(ApiError("nobody there".into())),
                "/panic" => panic!("as the path says"),
                _ => std::future::pending().await,
            };
            let frames = frames.inspect(move |_| {
                let _ = &guard;
            });
            Ok(Response::new(StreamBody::new(frames).boxed_unsync()))
        }
        .boxed()
    }
}

fn connect() -> NearEnd {
    let api = Script::default();
    let (open, closed) = (api.open.clone(), api.closed.clone());
    let (clock, hand) = Clock::manual(UNIX_EPOCH);
    let tasks = Tasks::new();
    let queries = Queries {
        api: Arc::new(api),
        group: tasks.group("query"),
        clock,
    };
    let (questions, asked) = mpsc::channel(16);
    let (out, answers) = mpsc::channel(16);
    let (done, served) = oneshot::channel();
    tasks.group("stream").spawn(async move {
        let asked = stream::unfold(asked, |mut asked| async {
            Some((asked.recv().await?, asked))
        });
        let _ = done.send(queries.serve(asked, out).await);
    });
    NearEnd {
        questions,
        answers,
        served,
        open,
        closed,
        hand,
        tasks,
    }
}

impl NearEnd {
    async fn ask(&self, exchange: u64, path: &str, credit: u32) {
        let head = question::Head {
            path: path.to_owned(),
            user: "anna".to_owned(),
            deadline_milliseconds: 30_000,
            credit,
            ..question::Head::default()
        };
        self.say(exchange, question::Part::Head(head)).await;
    }

    async fn say(&self, exchange: u64, part: question::Part) {
        let part = Some(part);
        let question = Question { exchange, part };
        self.questions.send(Ok(question)).await.unwrap();
    }

    /// The next part, with its exchange.
    async fn next(&mut self) -> String {
        let Answer { exchange, part } = self.answers.recv().await.unwrap();
        let part = match part.unwrap() {
            answer::Part::Head(head) => format!("head {}", head.status),
            answer::Part::Body(body) => format!("body {}", body.len()),
            answer::Part::End(end) => format!("end {:?}", end.error),
        };
        format!("{exchange} {part}")
    }

    async fn until_none_is_open(&self) {
        while self.open.load(Ordering::SeqCst) > 0 {
            self.closed.notified().await;
        }
    }
}

#[tokio::test]
async fn no_more_is_sent_than_there_is_room_for() {
    let mut near = connect();
    near.ask(1, "/large", 70_000).await;
    assert_eq!(near.next().await, "1 head 200");
    assert_eq!(near.next().await, "1 body 65536");
    assert_eq!(near.next().await, "1 body 4464");
    // Another exchange is not held up.
    near.ask(2, "/watch", 10).await;
    assert_eq!(near.next().await, "2 head 200");
    assert_eq!(near.next().await, "2 body 5");
    near.say(1, question::Part::Credit(100_000)).await;
    assert_eq!(near.next().await, "1 body 30000");
    assert_eq!(near.next().await, "1 end \"\"");
}

#[tokio::test]
async fn what_is_cancelled_ends_at_once() {
    let mut near = connect();
    near.ask(1, "/watch", 10).await;
    assert_eq!(near.next().await, "1 head 200");
    assert_eq!(near.next().await, "1 body 5");
    near.ask(2, "/silent", 10).await;
    for exchange in [2, 1, 7] {
        near.say(exchange, question::Part::Cancel(question::Cancel {}))
            .await;
    }
    let mut ends = [near.next().await, near.next().await];
    ends.sort();
    let expected = ["1 end \"it was cancelled\"", "2 end \"it was cancelled\""];
    assert_eq!(ends, expected);
    near.until_none_is_open().await;
}

#[tokio::test]
async fn with_the_stream_everything_ends() {
    let mut near = connect();
    near.ask(1, "/watch", 10).await;
    assert_eq!(near.next().await, "1 head 200");
    near.ask(2, "/large", 10).await;
    assert_eq!(near.next().await, "1 body 5");
    assert_eq!(near.next().await, "2 head 200");
    near.questions
        .send(Err(Status::unavailable("gone")))
        .await
        .unwrap();
    assert!(near.served.await.unwrap().is_err());
    while near.open.load(Ordering::SeqCst) > 0 {
        near.closed.notified().await;
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_ends_everything() {
    let mut near = connect();
    near.ask(1, "/watch", 10).await;
    assert_eq!(near.next().await, "1 head 200");
    let shut = near.tasks.shutdown(Duration::ZERO);
    let (_, ()) = tokio::join!(shut, near.until_none_is_open());
}

#[tokio::test]
async fn every_failure_is_told() {
    for (path, expected) in [
        ("/broken", "end \"failed to ask the zone's API: torn\""),
        (
            "/away",
            "end \"failed to ask the zone's API: nobody there\"",
        ),
        ("/panic", "end \"it failed in the zone\""),
        ("no-path", "end \"\""),
    ] {
        let mut near = connect();
        near.ask(1, path, 1000).await;
        let mut last = near.next().await;
        while !last.contains("end") {
            last = near.next().await;
        }
        assert_eq!(last, format!("1 {expected}"), "{path}");
    }
}

#[tokio::test]
async fn a_hub_that_forgets_does_not_keep_requests_open() {
    let mut near = connect();
    near.ask(1, "/watch", 10).await;
    assert_eq!(near.next().await, "1 head 200");
    assert_eq!(near.next().await, "1 body 5");
    near.hand.advance(Duration::from_secs(30) + GRACE);
    assert_eq!(near.next().await, "1 end \"it took too long\"");
    near.until_none_is_open().await;
}

#[tokio::test]
async fn nonsense_ends_the_stream() {
    let near = connect();
    near.ask(1, "/silent", 10).await;
    near.ask(1, "/silent", 10).await;
    let error = near.served.await.unwrap().unwrap_err();
    assert!(matches!(error, LinkError::Protocol(_)), "{error}");

    let near = connect();
    for exchange in 0..=MOST as u64 {
        near.ask(exchange, "/silent", 10).await;
    }
    let error = near.served.await.unwrap().unwrap_err();
    assert!(matches!(error, LinkError::Protocol(_)), "{error}");
}
