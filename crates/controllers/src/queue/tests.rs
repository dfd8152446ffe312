use std::sync::{Arc, Mutex};

use deltaplane_client::pace::Backoff;
use deltaplane_client::request::Refusal;
use deltaplane_runtime::Clock;

use super::*;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Each word is a step: `+a` add, `+a@5` add at a time, `+a<5` by a time, `-a` cancel, `@5` the time, `a` finish,
/// `a!` fail, `a~` later, `a.` again, `?` take; shown is what each take gave.
fn check(steps: &str, expected: &str) {
    let mut book = Book::new();
    let mut now = at(0);
    let mut taken = Vec::new();
    for step in steps.split_whitespace() {
        let seconds = |text: &str| at(text.parse().expect("a number"));
        match (
            step.strip_prefix('+'),
            step.strip_prefix('@'),
            step.strip_prefix('-'),
        ) {
            (Some(added), ..) => match added.split_once('@') {
                Some((key, time)) => book.add_at(key.to_owned(), seconds(time)),
                None => match added.split_once('<') {
                    Some((key, time)) => book.add_by(key.to_owned(), seconds(time)),
                    None => book.add(added.to_owned()),
                },
            },
            (_, Some(time), _) => now = seconds(time),
            (.., Some(key)) => book.cancel(&key.to_owned()),
            _ if step == "?" => taken.push(book.take(now).unwrap_or_else(|| ".".to_owned())),
            _ => {
                let (key, how) = match step.split_at(step.len() - 1) {
                    (key, "!") => (key, None),
                    (key, "~") => (key, Some(Next::Later)),
                    (key, ".") => (key, Some(Next::Again)),
                    _ => (step, Some(Next::Rest)),
                };
                book.finish(key.to_owned(), how);
            }
        }
    }
    assert_eq!(taken.join(" "), expected, "{steps}");
}

#[test]
fn keys_are_taken_once_and_in_order() {
    check("?", ".");
    check("+a +b +a ? ? ?", "a b .");
    check("+a ? +b ? ?", "a b .");
}

#[test]
fn a_key_that_is_added_while_it_runs_runs_again() {
    check("+a ? +a ? a ? a ?", "a . a .");
    check("+a ? a. ? a ?", "a a .");
    check("+a ? +a a! ? a ?", "a a .");
    check("+a ? +a a~ ? a ?", "a a .");
}

#[test]
fn timers() {
    check("+a@5 ? @4 ? @5 ? ?", ". . a .");
    check("+a@5 +a@3 @3 ? a @5 ?", "a .");
    check("+a@3 +a@5 @3 ? @5 ?", ". a");
    check("+a@5 +a ? a @5 ?", "a .");
    check("+a ? +a@5 @5 ? a ?", "a . a");
    check("+b@2 +a@1 @2 ? ?", "a b");
}

#[test]
fn of_two_times_the_sooner_counts() {
    check("+a@9 +a<5 @4 ? @5 ?", ". a");
    check("+a@3 +a<5 @3 ? a @5 ?", "a .");
    check("+a<5 @5 ?", "a");
}

#[test]
fn cancelled_keys_are_not_due() {
    check("+a -a ?", ".");
    check("+a@5 -a @5 ?", ".");
    check("+a ? +a -a a ?", "a .");
    check("-a ?", ".");
}

#[test]
fn a_key_without_work_is_forgotten() {
    let mut book = Book::new();
    for round in 0..3 {
        book.add(1);
        book.add_at(2, at(9));
        assert_eq!(book.take(at(0)), Some(1));
        assert_eq!(book.finish(1, None), 1, "{round}");
        book.add(1);
        assert_eq!(book.take(at(0)), Some(1));
        assert_eq!(book.finish(1, Some(Next::Later)), 2);
        book.add(1);
        assert_eq!(book.take(at(0)), Some(1));
        assert_eq!(book.finish(1, Some(Next::Rest)), 0);
        book.cancel(&2);
        book.add(3);
        assert_eq!(book.take(at(0)), Some(3));
        assert_eq!(book.finish(3, None), 1);
        book.cancel(&3);
        assert!(book.keys.is_empty() && book.timers.is_empty() && book.ready.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_less_and_less_often() {
    let pace = Pace {
        clock: Clock::system(),
        backoff: Backoff {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(3),
        },
        chance: Arc::new(|| 0.0),
    };
    let (clock, hand) = Clock::manual(at(0));
    let mut work = Work::new(
        2,
        Pace {
            clock: clock.clone(),
            ..pace
        },
    );
    let runs = Arc::new(Mutex::new(Vec::new()));
    work.add("a");
    // The server asks for so much.
    for seconds in [None, Some(2), None, Some(9), None] {
        let key = tokio::select! {
            key = work.next() => key,
            // Only polled when there is nothing to do at this time.
            () = async {
                loop {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    hand.advance(Duration::from_secs(1));
                }
            } => unreachable!("it never ends"),
        };
        runs.lock().expect("sound").push((key, clock.now()));
        let refusal = Refusal {
            retry_after: seconds.map(Duration::from_secs),
            ..Refusal::default()
        };
        work.start(key, async {
            let error = RequestError::Refused(refusal);
            Err::<Next, _>(Failure::to("fail")(error))
        });
    }
    let runs = runs.lock().expect("sound").clone();
    assert_eq!(runs, [0, 1, 3, 6, 15].map(|seconds| ("a", at(seconds))));
}

#[tokio::test]
async fn no_more_at_once_than_allowed() {
    let mut work = Work::new(2, Pace::system());
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    for key in 0..3 {
        work.add(key);
    }
    let first = work.next().await;
    work.start(first, async move {
        ended.await.map_err(Failure::to("wait"))?;
        Ok(Next::Rest)
    });
    let second = work.next().await;
    work.start(second, std::future::pending::<Result<Next, Failure>>());
    let third = async {
        end.send(()).expect("waited for");
        std::future::pending::<()>().await;
    };
    let third = tokio::select! {
        biased;
        key = work.next() => key,
        () = third => unreachable!("it never ends"),
    };
    assert_eq!((first, second, third), (0, 1, 2));
}

#[tokio::test]
async fn those_who_wait_take_no_place() {
    let mut work = Work::new(1, Pace::system());
    let (over, wait) = tokio::sync::oneshot::channel::<()>();
    work.add(1);
    let first = work.next().await;
    let wait = Box::pin(async move {
        let _ = wait.await;
    });
    work.start(first, async move { Ok(Outcome::Wait(wait)) });
    work.add(2);
    assert_eq!(work.next().await, 2, "the only place is free");
    work.skip(2);
    over.send(()).unwrap();
    assert_eq!(work.next().await, 1, "it goes on");
}
