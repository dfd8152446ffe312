use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::{StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;

use crate::resource::Resource;

use super::*;

/// What the server does with one request.
enum Answer {
    /// Lines, then the end.
    Ends(&'static [&'static str]),
    /// Lines, then silence.
    Stays(&'static [&'static str]),
    /// An answer in one piece.
    Body(&'static str),
    /// A refusal.
    Refuses(u16, &'static str),
    /// No answer.
    Fails,
}

use Answer::{Body as Whole, Ends, Fails, Refuses, Stays};

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

/// A server that expects these requests, by what their query says, and answers so.
fn server(script: Vec<(&'static str, Answer)>) -> Client {
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let next = script.lock().expect("not poisoned").pop_front();
        async move {
            let (expected, answer) = next.unwrap_or_else(|| panic!("unexpected {query}"));
            let missing = |part: &&str| !query.split('&').any(|one| one == *part);
            let missing: Vec<_> = expected.split(' ').filter(missing).collect();
            assert_eq!(missing, Vec::<&str>::new(), "{query}");
            respond(answer)
        }
    });
    Client::new(service, "default")
}

fn respond(answer: Answer) -> Result<Response<AnyBody>, std::io::Error> {
    let lines = |lines: &'static [&'static str]| {
        let frames = lines.iter().map(|line| Bytes::from(format!("{line}\n")));
        stream::iter(frames.map(|bytes| Ok(http_body::Frame::data(bytes))))
    };
    let body = |body: AnyBody| Ok(Response::new(body));
    match answer {
        Ends(text) => body(UnsyncBoxBody::new(StreamBody::new(lines(text)))),
        Stays(text) => {
            let stream = lines(text).chain(stream::pending());
            body(UnsyncBoxBody::new(StreamBody::new(stream)))
        }
        Whole(text) => body(UnsyncBoxBody::new(text.to_owned())),
        Refuses(code, text) => {
            let mut response = Response::new(UnsyncBoxBody::new(text.to_owned()));
            *response.status_mut() = http::StatusCode::from_u16(code).expect("a status");
            Ok(response)
        }
        Fails => Err(std::io::Error::other("as the test wants it")),
    }
}

/// Runs a feed against the script until it has told `expected`.
async fn check(script: Vec<(&'static str, Answer)>, expected: &str) {
    let query = Query::all(Resource::namespaced("", "v1", "configmaps", "ConfigMap"));
    let mut events = Feed::new(server(script), query, Pace::system()).events();
    let show = |event: &Event| match event {
        Event::Restarted => "restart".to_owned(),
        Event::Applied(item) => format!("{}={}", item.header.name, item.header.resource_version),
        Event::Deleted(item) => format!("-{}", item.header.name),
        Event::InSync => "sync".to_owned(),
    };
    let mut told = Vec::new();
    for _ in expected.split_whitespace() {
        told.push(show(&events.next().await.expect("a feed never ends")));
    }
    assert_eq!(told.join(" "), expected);
}

const EVERYTHING: &str = "watch=true sendInitialEvents=true resourceVersionMatch=NotOlderThan";
const A1: &str = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}"#;
const B2: &str = r#"{"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"2"}}}"#;
const A3: &str = r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"3"}}}"#;
const NO_B4: &str =
    r#"{"type":"DELETED","object":{"metadata":{"name":"b","resourceVersion":"4"}}}"#;
const COMPLETE2: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
const BOOKMARK9: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
const ODD: &str = r#"{"type":"ADDED","object":{"metadata":{}}}"#;
const GONE: &str = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
const BROKEN: &str = r#"{"type":"ERROR","object":{"kind":"Status","code":500}}"#;

#[tokio::test(start_paused = true)]
async fn everything_then_changes() {
    check(
        vec![(EVERYTHING, Stays(&[A1, ODD, B2, COMPLETE2, A3, NO_B4]))],
        "restart a=1 b=2 sync a=3 -b",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ended_is_resumed_where_it_was() {
    check(
        vec![
            (EVERYTHING, Ends(&[A1, B2, COMPLETE2])),
            ("watch=true resourceVersion=2", Ends(&[A3])),
            ("watch=true resourceVersion=3", Ends(&[BOOKMARK9])),
            ("resourceVersion=9", Fails),
            ("resourceVersion=9", Refuses(429, "")),
            ("resourceVersion=9", Ends(&[BROKEN])),
            ("resourceVersion=9", Ends(&["nonsense"])),
            ("resourceVersion=9", Ends(&[])),
            ("resourceVersion=9", Stays(&[])),
            ("resourceVersion=9", Stays(&[NO_B4])),
        ],
        "restart a=1 b=2 sync a=3 -b",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_a_rest_gets_it() {
    const BUSY: &str = r#"{"code":429,"details":{"retryAfterSeconds":40}}"#;
    const BUSY_LINE: &str =
        r#"{"type":"ERROR","object":{"code":503,"details":{"retryAfterSeconds":50}}}"#;
    let began = tokio::time::Instant::now();
    check(
        vec![
            (EVERYTHING, Refuses(429, BUSY)),
            (EVERYTHING, Ends(&[A1, COMPLETE2, BUSY_LINE])),
            ("watch=true resourceVersion=2", Stays(&[A3])),
        ],
        "restart a=1 sync a=3",
    )
    .await;
    // With the milliseconds of what it would have waited anyway, it would be over at once.
    let rested = began.elapsed().as_secs();
    assert!((90..91).contains(&rested), "{rested}");
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_revision_is_a_new_beginning() {
    for gone in [Refuses(410, ""), Ends(&[GONE])] {
        check(
            vec![
                (EVERYTHING, Ends(&[A1, B2, COMPLETE2])),
                ("watch=true resourceVersion=2", gone),
                (EVERYTHING, Stays(&[A3, COMPLETE2])),
            ],
            "restart a=1 b=2 sync restart a=3 sync",
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_beginning_that_broke_off_is_begun_anew() {
    check(
        vec![
            (EVERYTHING, Fails),
            (EVERYTHING, Refuses(403, "")),
            (EVERYTHING, Ends(&[A1])),
            (EVERYTHING, Ends(&[A1, GONE])),
            (EVERYTHING, Stays(&[A1, BOOKMARK9, B2, COMPLETE2])),
        ],
        "restart a=1 restart a=1 restart a=1 b=2 sync",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn pages_where_the_server_cannot_stream() {
    let first = r#"{"metadata":{"resourceVersion":"5","continue":"t"},"items":[{"metadata":{"name":"a","resourceVersion":"1"}}]}"#;
    let second = r#"{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"b","resourceVersion":"2"}}]}"#;
    check(
        vec![
            (EVERYTHING, Refuses(422, "")),
            ("limit=500", Whole(first)),
            ("limit=500 continue=t", Refuses(410, "")),
            ("limit=500", Whole(first)),
            ("limit=500 continue=t", Whole(second)),
            ("watch=true resourceVersion=5", Ends(&[A3, GONE])),
            ("limit=500", Whole(second)),
            ("watch=true resourceVersion=5", Stays(&[A3])),
        ],
        "restart a=1 restart a=1 b=2 sync a=3 restart b=2 sync a=3",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn only_metadata_is_asked_for() {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let accept = request.headers()[http::header::ACCEPT]
            .to_str()
            .expect("text");
        let expected = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(accept, expected);
        respond(Stays(&[COMPLETE2]))
    });
    let client = Client::new(service, "default");
    let query = Query::metadata(Resource::namespaced("", "v1", "configmaps", "ConfigMap"));
    let events = Feed::new(client, query, Pace::system()).events();
    let told: Vec<_> = events.take(2).collect().await;
    assert_eq!(told, [Event::Restarted, Event::InSync]);
}

#[tokio::test(start_paused = true)]
async fn what_keeps_it_from_going_on_is_told_for_as_long_as_it_does() {
    let forbidden = r#"{"kind":"Status","code":403,"reason":"Forbidden","message":"not you"}"#;
    let script = vec![
        (EVERYTHING, Refuses(403, forbidden)),
        (EVERYTHING, Stays(&[])),
    ];
    let query = Query::all(Resource::namespaced("", "v1", "configmaps", "ConfigMap"));
    let (trouble, mut told) = watch::channel(None);
    let feed = Feed::new(server(script), query, Pace::system()).telling(trouble);
    let mut events = feed.events();
    let why = async {
        let why = told.wait_for(Option::is_some).await.expect("it goes on");
        why.clone().unwrap_or_default()
    };
    let (event, why) = tokio::join!(events.next(), why);
    assert!(why.contains("not you"), "{why}");
    assert_eq!(event, Some(Event::Restarted));
    assert_eq!(*told.borrow(), None);
}

#[tokio::test(start_paused = true)]
async fn trouble_is_over_when_it_follows_again_although_nothing_changed() {
    let script = vec![
        (EVERYTHING, Ends(&[A1, COMPLETE2])),
        ("watch=true resourceVersion=2", Refuses(403, "{}")),
        ("watch=true resourceVersion=2", Stays(&[])),
    ];
    let query = Query::all(Resource::namespaced("", "v1", "configmaps", "ConfigMap"));
    let (trouble, mut told) = watch::channel(None);
    let feed = Feed::new(server(script), query, Pace::system()).telling(trouble);
    let mut events = feed.events();
    for _ in 0..3 {
        events.next().await;
    }
    let over = async {
        told.wait_for(Option::is_some).await.expect("it goes on");
        told.wait_for(Option::is_none).await.expect("it goes on");
    };
    tokio::select! {
        event = events.next() => panic!("{event:?}"),
        () = over => {}
    }
}
