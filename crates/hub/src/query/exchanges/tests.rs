use std::fmt::Write;

use expect_test::{Expect, expect};

use super::*;

/// A word per step: what the hub does (`open`, `tell`, `read`, `cancel`, `close`), or what the zone
/// sends (`head`, `body`, `end`, `nothing`), with the number of the exchange and what it is about.
fn check(script: &str, expected: Expect) {
    let mut exchanges = Exchanges::default();
    let mut shown = String::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let mut words = line.split(' ');
        let (verb, number) = (words.next().unwrap(), words.next());
        let number = number.map_or(0, |number| number.parse().unwrap());
        let rest = words.next();
        match step(&mut exchanges, verb, number, rest) {
            told if told.is_empty() => writeln!(shown, "{line}").unwrap(),
            told => writeln!(shown, "{line}: {told}").unwrap(),
        }
    }
    expected.assert_eq(&shown);
}

fn step(exchanges: &mut Exchanges, verb: &str, number: u64, rest: Option<&str>) -> String {
    let size = || rest.map_or(1, |size| size.parse().unwrap());
    match verb {
        "open" => format!("{:?}", number_of(exchanges.open(question::Head::default()))),
        "tell" => {
            let told = std::iter::from_fn(|| exchanges.next_question());
            told.map(show).collect::<Vec<_>>().join(", ")
        }
        "read" => match exchanges.read(number) {
            Some(Part::Body(bytes)) => format!("{} bytes", bytes.len()),
            Some(Part::Head(head)) => format!("head {}", head.status.as_u16()),
            Some(other @ (Part::Complete | Part::Failed(_) | Part::Lost | Part::CutOff(_))) => {
                format!("{other:?}")
            }
            None => "nothing".to_owned(),
        },
        "cancel" => {
            exchanges.cancel(number);
            String::new()
        }
        "close" => {
            exchanges.close();
            String::new()
        }
        "head" => {
            let status = rest.map_or(200, |status| status.parse().unwrap());
            let head = answer::Head {
                status,
                ..answer::Head::default()
            };
            receive(exchanges, number, Some(answer::Part::Head(head)))
        }
        "warn" => {
            let head = answer::Head {
                status: 200,
                warnings: vec!["x".repeat(size())],
                ..answer::Head::default()
            };
            receive(exchanges, number, Some(answer::Part::Head(head)))
        }
        "body" => {
            let body = vec![b'x'; size()].into();
            receive(exchanges, number, Some(answer::Part::Body(body)))
        }
        "end" => {
            let error = rest.unwrap_or_default().to_owned();
            let end = answer::End { error };
            receive(exchanges, number, Some(answer::Part::End(end)))
        }
        "nothing" => receive(exchanges, number, None),
        other => panic!("no step is called {other}"),
    }
}

fn receive(exchanges: &mut Exchanges, exchange: u64, part: Option<answer::Part>) -> String {
    match exchanges.receive(Answer { exchange, part }) {
        Ok(_) => String::new(),
        Err(violation) => format!("violation: {violation}"),
    }
}

fn show(question: Question) -> String {
    let part = match question.part.unwrap() {
        question::Part::Head(head) => format!("head with {}", head.credit),
        question::Part::Cancel(_) => "cancel".to_owned(),
        question::Part::Credit(more) => format!("credit {more}"),
    };
    format!("{} {part}", question.exchange)
}

#[test]
fn an_answer_comes_in_parts() {
    check(
        "open\n tell\n read 1\n head 1\n body 1 5\n read 1\n body 1 2\n read 1\n read 1\n end 1\n read 1\n read 1",
        expect![[r#"
            open: Ok(1)
            tell: 1 head with 262144
            read 1: nothing
            head 1
            body 1 5
            read 1: head 200
            body 1 2
            read 1: 7 bytes
            read 1: nothing
            end 1
            read 1: Complete
            read 1: Lost
        "#]],
    );
}

#[test]
fn a_zone_can_fail_before_and_after_its_head() {
    check(
        "open\n open\n tell\n end 1 broken\n read 1\n head 2\n body 2\n end 2 broken\n read 2\n read 2\n read 2",
        expect![[r#"
            open: Ok(1)
            open: Ok(2)
            tell: 1 head with 262144, 2 head with 262144
            end 1 broken
            read 1: Failed("broken")
            head 2
            body 2
            end 2 broken
            read 2: head 200
            read 2: 1 bytes
            read 2: Failed("broken")
        "#]],
    );
}

#[test]
fn credit_is_given_for_what_was_read_and_only_then() {
    check(
        "open\n tell\n head 1\n body 1 262144\n tell\n read 1\n tell\n read 1\n tell\n body 1 262144",
        expect![[r#"
            open: Ok(1)
            tell: 1 head with 262144
            head 1
            body 1 262144
            tell
            read 1: head 200
            tell
            read 1: 262144 bytes
            tell: 1 credit 262144
            body 1 262144
        "#]],
    );
    check(
        "open\n tell\n head 1\n read 1\n body 1 131071\n read 1\n tell\n body 1\n read 1\n tell\n body 1 262145",
        expect![[r#"
            open: Ok(1)
            tell: 1 head with 262144
            head 1
            read 1: head 200
            body 1 131071
            read 1: 131071 bytes
            tell
            body 1
            read 1: 1 bytes
            tell: 1 credit 131072
            body 1 262145: violation: exchange 1 has 262145 bytes where 262144 are allowed
        "#]],
    );
}

#[test]
fn a_cancelled_exchange_is_kept_until_the_zone_ends_it() {
    check(
        "open\n tell\n head 1\n cancel 1\n body 1 9999999\n tell\n head 1\n end 1\n body 1",
        expect![[r#"
            open: Ok(1)
            tell: 1 head with 262144
            head 1
            cancel 1
            body 1 9999999
            tell: 1 cancel
            head 1
            end 1
            body 1: violation: an answer to exchange 1, which is not open
        "#]],
    );
}

#[test]
fn what_was_not_asked_is_not_cancelled() {
    check(
        "open\n cancel 1\n tell\n end 1 late",
        expect![[r#"
            open: Ok(1)
            cancel 1
            tell
            end 1 late: violation: an answer to exchange 1, which is not open
        "#]],
    );
}

#[test]
fn with_the_stream_all_is_lost_but_what_is_complete() {
    check(
        "open\n open\n open\n tell\n open\n head 2\n body 2\n head 3\n end 3\n close\n read 1\n read 2\n read 3\n read 3\n read 4\n tell\n open",
        expect![[r#"
            open: Ok(1)
            open: Ok(2)
            open: Ok(3)
            tell: 1 head with 262144, 2 head with 262144, 3 head with 262144
            open: Ok(4)
            head 2
            body 2
            head 3
            end 3
            close
            read 1: Lost
            read 2: Lost
            read 3: head 200
            read 3: Complete
            read 4: Lost
            tell
            open: Err(Closed)
        "#]],
    );
}

#[test]
fn nonsense_is_told_from_what_is_new() {
    check("nothing 7", expect!["nothing 7\n"]);
    let asked = |then: &str, expected: Expect| check(&format!("open\n tell\n {then}"), expected);
    check(
        "head 1",
        expect![[r#"
            head 1: violation: an answer to exchange 1, which is not open
        "#]],
    );
    check(
        "open\n head 1",
        expect![[r#"
            open: Ok(1)
            head 1: violation: an answer to exchange 1, which is not open
        "#]],
    );
    asked(
        "body 1",
        expect![[r#"
            open: Ok(1)
            tell: 1 head with 262144
            body 1: violation: exchange 1 has a body before its head
        "#]],
    );
    asked(
        "head 1\n head 1",
        expect![[r#"
            open: Ok(1)
            tell: 1 head with 262144
            head 1
            head 1: violation: exchange 1 has two heads
        "#]],
    );
    asked(
        "head 1 101",
        expect![[r#"
            open: Ok(1)
            tell: 1 head with 262144
            head 1 101: violation: exchange 1 has the status 101
        "#]],
    );
    asked(
        "head 1 70000",
        expect![[r#"
            open: Ok(1)
            tell: 1 head with 262144
            head 1 70000: violation: exchange 1 has the status 70000
        "#]],
    );
    asked(
        "warn 1 70000",
        expect![[r#"
            open: Ok(1)
            tell: 1 head with 262144
            warn 1 70000: violation: the head of exchange 1 has 70000 bytes
        "#]],
    );
    asked(
        "end 1",
        expect![[r#"
            open: Ok(1)
            tell: 1 head with 262144
            end 1: violation: exchange 1 ends without a head or an error
        "#]],
    );
    asked(
        "head 1\n end 1\n end 1",
        expect![[r#"
            open: Ok(1)
            tell: 1 head with 262144
            head 1
            end 1
            end 1: violation: exchange 1 goes on after its end
        "#]],
    );
}

fn number_of(opened: Result<Opened, Refused>) -> Result<u64, Refused> {
    opened.map(|opened| opened.number)
}

fn asked_by(user: &str, groups: &[&str]) -> question::Head {
    question::Head {
        user: user.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        ..question::Head::default()
    }
}

fn watch_of(user: &str) -> question::Head {
    asked_by(user, &[])
}

fn request_of(user: &str) -> question::Head {
    question::Head {
        deadline_milliseconds: 30_000,
        ..asked_by(user, &[])
    }
}

#[test]
fn there_are_only_so_many_exchanges() {
    let mut exchanges = Exchanges::default();
    let open = |exchanges: &mut Exchanges| {
        let administrator = asked_by("admin", &[MASTERS]);
        number_of(exchanges.open(administrator))
    };
    for number in 1..=MOST as u64 {
        assert_eq!(open(&mut exchanges), Ok(number));
    }
    assert_eq!(open(&mut exchanges), Err(Refused::Full));
    let user = number_of(exchanges.open(watch_of("anna")));
    assert_eq!(user, Err(Refused::Full));
    // One that was asked takes its place until the zone ends it; one that was not asked does not.
    assert!(exchanges.next_question().is_some());
    exchanges.cancel(1);
    assert_eq!(open(&mut exchanges), Err(Refused::Full));
    exchanges.cancel(2);
    let next = MOST as u64 + 1;
    assert_eq!(open(&mut exchanges), Ok(next));
}

/// Opens as many exchanges for a user as it gets.
fn fill(exchanges: &mut Exchanges, head: fn(&str) -> question::Head, user: &str) -> Vec<u64> {
    let opened = std::iter::from_fn(|| exchanges.open(head(user)).ok());
    opened.map(|opened| opened.number).collect()
}

/// Lets the zone hear of all exchanges and end those that were cancelled; returns the heads.
fn settle(exchanges: &mut Exchanges) -> Vec<u64> {
    let mut heads = Vec::new();
    while let Some(Question { exchange, part }) = exchanges.next_question() {
        match part.unwrap() {
            question::Part::Head(_) => heads.push(exchange),
            question::Part::Cancel(_) => end(exchanges, exchange),
            question::Part::Credit(_) => {}
        }
    }
    heads
}

fn end(exchanges: &mut Exchanges, exchange: u64) {
    let error = "it failed".to_owned();
    let part = Some(answer::Part::End(answer::End { error }));
    exchanges.receive(Answer { exchange, part }).unwrap();
}

/// With halves of what is free, eight users had taken all.
#[test]
fn no_users_take_the_exchanges_of_others() {
    for head in [watch_of, request_of] {
        let mut exchanges = Exchanges::default();
        for number in 0..40 {
            fill(&mut exchanges, head, &format!("greedy-{number}"));
            settle(&mut exchanges);
        }
        assert!(exchanges.all.len() <= MOST - RESERVED);
        let opened = exchanges.open(head("bystander")).unwrap();
        assert!(opened.displaced.is_some());
        assert_eq!(settle(&mut exchanges), [opened.number]);
        let refused = exchanges.open(head("greedy-0"));
        assert_eq!(refused, Err(Refused::BeyondShare));
        for _ in 0..RESERVED {
            assert!(exchanges.open(asked_by("admin", &[MASTERS])).is_ok());
        }
        let opened = exchanges.open(head("newcomer")).unwrap();
        assert_eq!(settle(&mut exchanges).last(), Some(&opened.number));
    }
}

#[test]
fn watches_leave_places_to_requests() {
    let mut exchanges = Exchanges::default();
    let watches = fill(&mut exchanges, watch_of, "greedy");
    assert_eq!(watches.len(), WATCHES);
    let requests = fill(&mut exchanges, request_of, "greedy");
    assert_eq!(requests.len(), MOST - RESERVED - WATCHES);
    assert_eq!(settle(&mut exchanges).len(), MOST - RESERVED);
    let displaced = |opened: Opened| opened.displaced;
    let watch = exchanges.open(watch_of("bystander")).map(displaced);
    assert_eq!(watch, Ok(Some(watches[0])), "a watch displaces a watch");
    let request = exchanges.open(request_of("bystander")).map(displaced);
    assert_eq!(
        request,
        Ok(Some(requests[0])),
        "a request displaces a request"
    );
}

#[test]
fn a_displaced_exchange_keeps_its_place_until_the_zone_ends_it() {
    let mut exchanges = Exchanges::default();
    let watches = fill(&mut exchanges, watch_of, "greedy");
    while exchanges.next_question().is_some() {}
    let opened = exchanges.open(watch_of("bystander")).unwrap();
    let told = exchanges.next_question().map(show);
    assert_eq!(told, Some(format!("{} cancel", watches[0])));
    assert_eq!(exchanges.next_question(), None, "the zone has no place yet");
    end(&mut exchanges, watches[0]);
    let told = exchanges.next_question().map(show);
    assert_eq!(told, Some(format!("{} head with {WINDOW}", opened.number)));
    // What the zone has not heard of, or has ended, is displaced at once.
    end(&mut exchanges, watches[1]);
    let opened = exchanges.open(watch_of("third")).unwrap();
    assert_eq!(opened.displaced, Some(watches[1]));
    assert_eq!(settle(&mut exchanges), [opened.number]);
}

/// Exchanges that clients open and drop at once leave the place of one that stays.
#[test]
fn cancelled_exchanges_keep_nobody_out() {
    let mut exchanges = Exchanges::default();
    let cancelled = fill(&mut exchanges, request_of, "hasty");
    while exchanges.next_question().is_some() {}
    for number in &cancelled {
        exchanges.cancel(*number);
    }
    let opened = exchanges.open(request_of("bystander")).unwrap();
    assert_eq!(opened.displaced, None);
    let _more = fill(&mut exchanges, request_of, "hasty");
    assert_eq!(settle(&mut exchanges).first(), Some(&opened.number));
}

#[test]
fn an_exchange_that_ends_is_free_again_however_it_ends() {
    let mut exchanges = Exchanges::default();
    let asked = fill(&mut exchanges, watch_of, "anna");
    while exchanges.next_question().is_some() {}
    let full = Err(Refused::BeyondShare);
    end(&mut exchanges, asked[0]);
    let unread = exchanges.open(watch_of("anna"));
    assert_eq!(unread, full, "it is not read yet");
    exchanges.read(asked[0]);
    assert!(exchanges.open(watch_of("anna")).is_ok());
    assert!(exchanges.next_question().is_some());
    exchanges.cancel(asked[1]);
    let waiting = exchanges.open(watch_of("anna")).unwrap();
    assert_eq!(exchanges.open(watch_of("anna")), full);
    let told = exchanges.next_question().map(show);
    assert_eq!(told, Some(format!("{} cancel", asked[1])));
    assert_eq!(exchanges.next_question(), None, "the zone has not ended it");
    end(&mut exchanges, asked[1]);
    assert_eq!(settle(&mut exchanges), [waiting.number]);
}
