//! A channel, with the zone at its other end played by the test.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use deltaplane_apiserver::Error;
use deltaplane_plane::RouteBody;
use deltaplane_runtime::transit::Stalled;
use deltaplane_runtime::{Clock, Tasks, TransitMonitor};
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::answer;
use futures::FutureExt;
use futures::stream::BoxStream;
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use tokio::sync::{mpsc, oneshot};

use super::*;

const LIMIT: Duration = Duration::from_secs(30);

/// The zone's end.
struct FarEnd {
    channels: Arc<Channels>,
    channel: Arc<Channel>,
    questions: BoxStream<'static, Question>,
    answers: mpsc::Sender<Answer>,
    session: Trigger,
    ended: oneshot::Receiver<Status>,
    tasks: Tasks,
}

fn zone() -> ZoneName {
    "eu-1".parse().unwrap()
}

fn connect() -> FarEnd {
    connect_to(&Arc::default(), 1)
}

fn connect_to(channels: &Arc<Channels>, session: u64) -> FarEnd {
    let opened = channels.open(&zone(), SessionId::new(session)).unwrap();
    let channel = opened.channel().clone();
    let (answers, received) = mpsc::channel(16);
    let (session, session_end) = Trigger::new();
    let (told, ended) = oneshot::channel();
    let tasks = Tasks::new();
    let hub = tasks.stop();
    tasks.group("zone").spawn(async move {
        let answers = futures::stream::unfold(received, |mut received| async {
            Some((Ok(received.recv().await?), received))
        });
        let _ = told.send(opened.run(answers, &session_end, &hub).await);
    });
    FarEnd {
        channels: channels.clone(),
        questions: channel.questions().boxed(),
        channel,
        answers,
        session,
        ended,
        tasks,
    }
}

impl FarEnd {
    async fn asked(&mut self) -> Question {
        self.questions.next().await.unwrap()
    }

    async fn say(&self, exchange: u64, part: answer::Part) {
        let part = Some(part);
        self.answers.send(Answer { exchange, part }).await.unwrap();
    }

    async fn head(&self, exchange: u64) {
        let head = answer::Head {
            status: 200,
            content_type: "application/json".to_owned(),
            warnings: vec!["299 - \"old\"".to_owned()],
        };
        self.say(exchange, answer::Part::Head(head)).await;
    }

    async fn body(&self, exchange: u64, body: impl Into<Bytes>) {
        self.say(exchange, answer::Part::Body(body.into())).await;
    }

    async fn end(&self, exchange: u64, error: &str) {
        let error = error.to_owned();
        self.say(exchange, answer::Part::End(answer::End { error }))
            .await;
    }
}

fn answering(far: &FarEnd, deadline: Deadline, clock: Clock) -> Answering {
    Answering {
        zone: zone(),
        group: far.tasks.group("zone answer"),
        question: question::Head::default(),
        deadline,
        until: None,
        body: Wanted::Yes,
        clock,
        transit: None,
    }
}

type Answered = Result<Response<RouteBody>, Error>;

fn ask(far: &FarEnd) -> impl Future<Output = Answered> + use<> {
    let channel = far.channel.clone();
    let answering = answering(far, Deadline::Whole(LIMIT), Clock::system());
    async move { answering.ask(&channel).await }
}

/// An answer of which the head has come, and its number.
async fn begun(far: &mut FarEnd) -> (Response<RouteBody>, u64) {
    let asking = ask(far);
    let answering = async {
        let number = far.asked().await.exchange;
        far.head(number).await;
        number
    };
    let (answer, number) = tokio::join!(asking, answering);
    (answer.unwrap(), number)
}

async fn text(answer: Response<RouteBody>) -> Result<String, String> {
    let read = answer.into_body().collect().await;
    let read = read.map_err(|error| error.to_string())?;
    Ok(String::from_utf8(read.to_bytes().to_vec()).unwrap())
}

fn refused(answer: Answered) -> (StatusCode, String) {
    let error = answer.expect_err("refused");
    (error.code, error.message)
}

fn is_cancel(question: &Question) -> bool {
    matches!(question.part, Some(question::Part::Cancel(_)))
}

#[tokio::test]
async fn an_answer_is_passed_on_with_its_head() {
    let mut far = connect();
    let (answer, number) = begun(&mut far).await;
    far.body(number, "one, ").await;
    far.body(number, "two").await;
    far.end(number, "").await;
    assert_eq!(answer.headers()["content-type"], "application/json");
    assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
    assert_eq!(answer.headers()["warning"], "299 - \"old\"");
    assert_eq!(text(answer).await, Ok("one, two".to_owned()));
}

#[tokio::test]
async fn what_breaks_off_does_not_look_complete() {
    let mut far = connect();
    let (failed, number) = begun(&mut far).await;
    far.body(number, "one").await;
    far.end(number, "the disk is gone").await;
    let expected = "the zone could not complete its answer: the disk is gone";
    assert_eq!(text(failed).await, Err(expected.to_owned()));

    let (lost, number) = begun(&mut far).await;
    far.body(number, "one").await;
    let early = ask(&far);
    let ending = async {
        far.asked().await;
        far.session.stop();
    };
    let (early, ()) = tokio::join!(early, ending);
    let expected = "the connection to the zone was lost";
    assert_eq!(text(lost).await, Err(expected.to_owned()));
    let expected = "zone eu-1 was disconnected before it answered";
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    assert_eq!(refused(early), (unavailable, expected.to_owned()));
    assert_eq!(far.ended.await.unwrap().code(), tonic::Code::Aborted);
    assert_eq!(far.questions.next().await, None);
}

#[tokio::test]
async fn a_zone_can_say_that_it_cannot_answer() {
    let mut far = connect();
    let asking = ask(&far);
    let answering = async {
        let number = far.asked().await.exchange;
        far.end(number, "its API is away").await;
    };
    let (answer, ()) = tokio::join!(asking, answering);
    let expected = "zone eu-1 could not answer: its API is away";
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    assert_eq!(refused(answer), (unavailable, expected.to_owned()));
}

#[tokio::test]
async fn nobody_waits_for_ever() {
    let mut far = connect();
    for deadline in [Deadline::Whole(LIMIT), Deadline::Head(LIMIT)] {
        let (clock, hand) = Clock::manual(UNIX_EPOCH);
        let asking = answering(&far, deadline, clock);
        let channel = far.channel.clone();
        let waiting = async {
            let question = far.asked().await;
            hand.advance(LIMIT);
            question
        };
        let (answer, question) = tokio::join!(asking.ask(&channel), waiting);
        let (code, message) = refused(answer);
        assert_eq!(code, StatusCode::GATEWAY_TIMEOUT);
        assert!(message.starts_with("zone eu-1 did not answer within 30 s; "));
        let cancel = far.asked().await;
        assert!(is_cancel(&cancel) && cancel.exchange == question.exchange);
    }
}

#[tokio::test]
async fn answers_have_a_deadline_and_watches_have_none() {
    let mut far = connect();
    for (deadline, told) in [(Deadline::Whole(LIMIT), 30_000), (Deadline::Head(LIMIT), 0)] {
        let (clock, hand) = Clock::manual(UNIX_EPOCH);
        let asking = answering(&far, deadline, clock);
        let channel = far.channel.clone();
        let beginning = async {
            let question = far.asked().await;
            far.head(question.exchange).await;
            question
        };
        let (answer, question) = tokio::join!(asking.ask(&channel), beginning);
        let Some(question::Part::Head(head)) = question.part else {
            panic!("it begins with a head");
        };
        assert_eq!(head.deadline_milliseconds, told);
        hand.advance(2 * LIMIT);
        let read = async {
            let ended = async {
                // For the one that has no deadline.
                far.body(question.exchange, "late").await;
                far.end(question.exchange, "").await;
            };
            match deadline {
                Deadline::Whole(_) => text(answer.unwrap()).await,
                Deadline::Head(_) => tokio::join!(text(answer.unwrap()), ended).0,
            }
        };
        let expected = match deadline {
            Deadline::Whole(_) => {
                Err("the answer of the zone was not complete in time, or the token of its user has ended".to_owned())
            }
            Deadline::Head(_) => Ok("late".to_owned()),
        };
        assert_eq!(read.await, expected);
        if let Deadline::Whole(_) = deadline {
            assert!(is_cancel(&far.asked().await));
        }
    }
}

#[tokio::test]
async fn a_watch_ends_with_the_token_that_opened_it() {
    let mut far = connect();
    let (clock, hand) = Clock::manual(UNIX_EPOCH);
    let mut asking = answering(&far, Deadline::Head(LIMIT), clock);
    asking.until = Some(UNIX_EPOCH + 2 * LIMIT);
    let channel = far.channel.clone();
    let beginning = async {
        let number = far.asked().await.exchange;
        far.head(number).await;
    };
    let (answer, ()) = tokio::join!(asking.ask(&channel), beginning);
    hand.advance(2 * LIMIT);
    assert!(text(answer.unwrap()).await.is_err());
    assert!(is_cancel(&far.asked().await));
}

#[tokio::test]
async fn a_client_that_goes_away_cancels() {
    let mut far = connect();
    let (answer, number) = begun(&mut far).await;
    drop(answer);
    let question = far.asked().await;
    assert!(is_cancel(&question) && question.exchange == number);
    // What was under way is no nonsense.
    far.body(number, "more").await;
    far.end(number, "cancelled").await;
    begun(&mut far).await;
}

#[tokio::test]
async fn a_slow_reader_stalls_nobody_else() {
    let mut far = connect();
    let (slow, first) = begun(&mut far).await;
    far.body(first, vec![b'x'; exchanges::WINDOW as usize])
        .await;
    let (quick, second) = begun(&mut far).await;
    far.body(second, "quick").await;
    far.end(second, "").await;
    assert_eq!(text(quick).await, Ok("quick".to_owned()));
    // Reading gives credit, and only then.
    let reading = text(slow);
    let sending = async {
        let question = far.asked().await;
        let credit = question::Part::Credit(exchanges::WINDOW);
        assert_eq!((question.exchange, question.part), (first, Some(credit)));
        far.body(first, "y").await;
        far.end(first, "").await;
    };
    let (read, ()) = tokio::join!(reading, sending);
    assert_eq!(
        read.map(|text| text.len()),
        Ok(exchanges::WINDOW as usize + 1)
    );
}

#[tokio::test]
async fn nonsense_ends_the_stream_and_frees_its_clients() {
    let mut far = connect();
    let (answer, number) = begun(&mut far).await;
    far.head(number).await;
    assert!(text(answer).await.is_err());
    let status = far.ended.await.unwrap();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert_eq!(status.message(), "exchange 1 has two heads");
    let again = connect_to(&far.channels, 1);
    assert!(far.channels.of(&zone(), SessionId::new(1)).await.is_some());
    drop(again);
}

#[tokio::test]
async fn the_newest_stream_of_the_newest_session_counts() {
    let channels = Arc::default();
    let first = connect_to(&channels, 1);
    let reopened = connect_to(&channels, 1);
    assert_eq!(first.ended.await.unwrap().code(), tonic::Code::Aborted);
    let newer = connect_to(&channels, 2);
    assert_eq!(reopened.ended.await.unwrap().code(), tonic::Code::Aborted);
    assert!(channels.open(&zone(), SessionId::new(1)).is_none());
    let found = channels.of(&zone(), SessionId::new(2)).await.unwrap();
    assert!(Arc::ptr_eq(&found, &newer.channel));
}

fn asked_by(user: &str) -> question::Head {
    question::Head {
        user: user.to_owned(),
        ..question::Head::default()
    }
}

#[tokio::test]
async fn a_zone_is_asked_only_so_much_at_once() {
    let far = connect();
    let watch = |user: &str| far.channel.ask(asked_by(user));
    let watches: Vec<Asked> = std::iter::from_fn(|| watch("greedy").ok()).collect();
    let mut one_more = answering(&far, Deadline::Head(LIMIT), Clock::system());
    one_more.question = asked_by("greedy");
    let (code, message) = refused(one_more.ask(&far.channel).await);
    assert_eq!(code, StatusCode::TOO_MANY_REQUESTS);
    assert!(message.contains("has its share"), "{message}");
    drop(watches);
    assert!(watch("greedy").is_ok());
}

/// A user with many watches gives one up, and hears of it, when another user needs the place.
#[tokio::test]
async fn a_newcomer_displaces_the_oldest_watch_of_the_user_with_the_most() {
    let mut far = connect();
    let (clock, _hand) = Clock::manual(UNIX_EPOCH);
    let (oldest, number) = watched(&mut far, &clock, "greedy").await;
    let watch = |user: &str| far.channel.ask(asked_by(user));
    let watches: Vec<Asked> = std::iter::from_fn(|| watch("greedy").ok()).collect();
    for _ in &watches {
        far.asked().await;
    }
    let newcomer = far.channel.ask(asked_by("bystander")).unwrap();
    let question = far.asked().await;
    assert!(is_cancel(&question) && question.exchange == number);
    far.end(number, "cancelled").await;
    assert_eq!(far.asked().await.exchange, newcomer.number);
    let told = text(oldest).await.unwrap_err();
    assert!(told.contains("make room for another user"), "{told}");
}

/// A watch of a user, of which the head has come, and its number.
async fn watched(far: &mut FarEnd, clock: &Clock, user: &str) -> (Response<RouteBody>, u64) {
    let mut asking = answering(far, Deadline::Head(LIMIT), clock.clone());
    asking.question = asked_by(user);
    answered(far, asking).await
}

/// An answer of which the head has come, and its number.
async fn answered(far: &mut FarEnd, asking: Answering) -> (Response<RouteBody>, u64) {
    let channel = far.channel.clone();
    let beginning = async {
        let number = far.asked().await.exchange;
        far.head(number).await;
        number
    };
    let (answer, number) = tokio::join!(asking.ask(&channel), beginning);
    (answer.unwrap(), number)
}

/// Lets other tasks run until they all wait.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Sends an answer as the listener does, to a client that reads nothing of it.
async fn send_unread(transit: &TransitMonitor, answer: Response<RouteBody>) -> Result<(), Stalled> {
    let mut body = answer.into_body();
    let sending = async {
        let _frame = body.frame().await;
        // The next one waits until the client has taken the first.
        body.frame().await;
    };
    transit.guard(UNREAD, sending).await
}

/// As long as the listener waits for a client.
const UNREAD: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_watch_that_nobody_reads_ends() {
    let mut far = connect();
    let transit = TransitMonitor::default();
    let (answer, number) = passed_on(&mut far, &transit, "anna").await;
    far.body(number, "unread").await;
    far.body(number, "unread too").await;
    assert_eq!(send_unread(&transit, answer).await, Err(Stalled));
    let question = far.asked().await;
    assert!(is_cancel(&question) && question.exchange == number);
}

/// An answer that the zone has completed left a frame with the connection, and its place free.
#[tokio::test(start_paused = true)]
async fn an_exchange_is_held_until_the_client_has_taken_its_last_frame() {
    let mut far = connect();
    let transit = TransitMonitor::default();
    let (answer, number) = passed_on(&mut far, &transit, "anna").await;
    far.body(number, "unread").await;
    far.end(number, "").await;
    let mut body = answer.into_body();
    let frame = body.frame().await.unwrap().unwrap();
    settle().await;
    assert!(body.frame().now_or_never().is_none(), "it is not taken");
    assert_eq!(far.channel.state.lock().readers.len(), 1);
    drop(frame);
    assert!(body.frame().await.is_none());
    drop(body);
    assert_eq!(far.channel.state.lock().readers.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_transit_ends_with_an_answer_that_is_late_or_displaced() {
    let mut far = connect();
    let began = tokio::time::Instant::now();
    let (clock, hand) = Clock::manual(UNIX_EPOCH);
    let transit = TransitMonitor::default();
    let mut asking = answering(&far, Deadline::Whole(LIMIT), clock);
    asking.transit = Some(transit.clone());
    let (answer, number) = answered(&mut far, asking).await;
    far.body(number, "some").await;
    let late = async {
        settle().await;
        hand.advance(LIMIT);
    };
    let (ended, ()) = tokio::join!(send_unread(&transit, answer), late);
    assert_eq!(ended, Err(Stalled));
    assert!(is_cancel(&far.asked().await));

    let transit = TransitMonitor::default();
    let (answer, number) = passed_on(&mut far, &transit, "greedy").await;
    far.body(number, "some").await;
    let displaced = async {
        settle().await;
        far.channel.end(number, CutOff::Displaced);
    };
    let (ended, ()) = tokio::join!(send_unread(&transit, answer), displaced);
    assert_eq!(ended, Err(Stalled));
    assert_eq!(began.elapsed(), Duration::ZERO, "nothing was waited for");
}

/// A watch of a user that is passed on to a client, and its number.
async fn passed_on(
    far: &mut FarEnd,
    transit: &TransitMonitor,
    user: &str,
) -> (Response<RouteBody>, u64) {
    let mut asking = answering(far, Deadline::Head(LIMIT), Clock::system());
    asking.question = asked_by(user);
    asking.transit = Some(transit.clone());
    answered(far, asking).await
}

/// Nobody polls the body of an answer whose client has closed its window.
#[tokio::test]
async fn an_answer_that_nobody_reads_ends_in_time() {
    let mut far = connect();
    // Sooner than a client is cut off that reads nothing.
    let limit = UNREAD / 2;
    let cases = [
        (Deadline::Whole(limit), None),
        (Deadline::Head(limit), Some(UNIX_EPOCH + limit)),
    ];
    for (deadline, until) in cases {
        let (clock, hand) = Clock::manual(UNIX_EPOCH);
        let mut asking = answering(&far, deadline, clock);
        asking.until = until;
        let channel = far.channel.clone();
        let beginning = async {
            let number = far.asked().await.exchange;
            far.head(number).await;
            number
        };
        let (answer, number) = tokio::join!(asking.ask(&channel), beginning);
        far.body(number, "some").await;
        settle().await;
        hand.advance(limit);
        settle().await;
        // The zone is told although nobody polls the answer.
        let told = far.questions.next().now_or_never().flatten();
        let question = told.expect("the zone is told");
        assert!(is_cancel(&question) && question.exchange == number);
        let told = text(answer.unwrap()).await.unwrap_err();
        assert!(told.contains("was not complete in time"), "{told}");
    }
}
