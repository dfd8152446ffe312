use super::*;
use crate::torture::history::notation::version;

/// Changes are `+0:5:1`, `=0:6:2` and `-0:7:2`: of the object with that name, at that revision,
/// written by that operation. A list is `[5 0:4:1]`, with a revision and objects; a bookmark is
/// `!8`; `gone` is what it says.
fn seen(text: &str) -> Vec<(Tick, Seen)> {
    let mut list: Option<Vec<&str>> = None;
    let mut seen = Vec::new();
    for word in text.split_whitespace() {
        if let Some(word) = word.strip_prefix('[') {
            match word.strip_suffix(']') {
                Some(revision) => seen.push(Seen::Listed(revision_of(revision), Vec::new())),
                None => list = Some(vec![word]),
            }
        } else if let Some(mut words) = list.take() {
            words.push(word.trim_end_matches(']'));
            match word.ends_with(']') {
                true => {
                    let objects = words[1..].iter().map(|word| object(word)).collect();
                    seen.push(Seen::Listed(revision_of(words[0]), objects));
                }
                false => list = Some(words),
            }
        } else {
            seen.push(one(word));
        }
    }
    seen.into_iter().map(|seen| (Tick(0), seen)).collect()
}

fn one(word: &str) -> Seen {
    let change = |kind, word| {
        let (key, version) = object(word);
        Seen::Change(Change { kind, key, version })
    };
    match word.split_at(1) {
        ("+", word) => change(Kind::Added, word),
        ("=", word) => change(Kind::Modified, word),
        ("-", word) => change(Kind::Deleted, word),
        ("!", word) => Seen::Bookmark(revision_of(word)),
        _ => Seen::Gone,
    }
}

fn object(word: &str) -> (Key, Version) {
    let (name, rest) = word.split_once(':').unwrap();
    let key = Key {
        namespace: 0,
        name: name.parse().unwrap(),
    };
    (key, version(rest))
}

fn revision_of(word: &str) -> Revision {
    Revision(word.parse().unwrap())
}

fn watched(scope: Scope, text: &str) -> Watched {
    Watched {
        name: "it".to_owned(),
        scope,
        seen: seen(text),
        until: Revision(0),
        connections: 1,
    }
}

/// Checks a watch against the log that another one saw; gives the beginnings of what is wrong.
fn check(scope: Scope, log: &str, text: &str, findings: &[&str]) {
    let whole = watched(Scope::default(), log);
    let (log, disagreements) = Log::new(&[whole]);
    assert_eq!(disagreements, Findings::new());
    let found = super::check(&watched(scope, text), &log);
    let starts = found.iter().map(|finding| {
        let end = finding.find([';', '(']).unwrap_or(finding.len());
        finding[..end].trim().to_owned()
    });
    assert_eq!(starts.collect::<Vec<_>>(), findings, "{found:#?}");
}

const LOG: &str = "[3] +0:4:1 +1:5:2 =0:6:3 -1:7:2 +1:9:4 =0:10:5";

#[test]
fn every_change_once_and_in_order() {
    let all = Scope::default();
    check(all, LOG, LOG, &[]);
    check(
        all,
        LOG,
        "[3] +0:4:1 +1:5:2 !5 =0:6:3 -1:7:2 !8 +1:9:4",
        &[],
    );
    check(all, LOG, "[6 0:6:3 1:5:2] -1:7:2 +1:9:4", &[]);
    check(all, LOG, "[3] +0:4:1 gone [7 0:6:3] +1:9:4 =0:10:5", &[]);
}

#[test]
fn a_missing_change_is_found() {
    let all = Scope::default();
    let changed = &["it did not see MODIFIED torture-0/map-0"];
    check(all, LOG, "[3] +0:4:1 +1:5:2 -1:7:2", changed);
    check(all, LOG, "[3] +0:4:1 +1:5:2 !6", changed);
    check(
        all,
        LOG,
        "[3] !10",
        &["it did not see ADDED torture-0/map-0"],
    );
}

#[test]
fn nothing_comes_twice_or_late() {
    let all = Scope::default();
    let twice = "it saw ADDED torture-0/map-1";
    check(all, LOG, "[3] +0:4:1 +1:5:2 +1:5:2", &[twice]);
    check(all, LOG, "[3] +0:4:1 !5 +1:5:2", &[twice]);
    check(all, LOG, "[5 0:4:1 1:5:2] +1:5:2", &[twice]);
    check(
        all,
        LOG,
        "[5 0:4:1 1:5:2] !4",
        &["it saw revision 4 at 0.000 ms, after revision 5"],
    );
}

#[test]
fn wrong_content_is_found() {
    let all = Scope::default();
    check(all, LOG, "[3] +0:4:9", &["it saw ADDED torture-0/map-0"]);
    check(all, LOG, "[3] =0:4:1", &["it saw MODIFIED torture-0/map-0"]);
    check(all, LOG, "[3] +1:4:1", &["it saw ADDED torture-0/map-1"]);
    let early = "[3] +0:4:1 +1:5:2 =0:6:3 -1:7:2 +1:8:4";
    check(all, LOG, early, &["it saw ADDED torture-0/map-1"]);
    check(
        all,
        LOG,
        "[6 0:4:1 1:5:2]",
        &[
            "it was given torture-0/map-0 as revision 4, written by #1 at revision 6, where it is revision 6, written by #3",
        ],
    );
    check(
        all,
        LOG,
        "[8 0:6:3 1:5:2]",
        &[
            "it was given torture-0/map-1 as revision 5, written by #2 at revision 8, where it is absent",
        ],
    );
}

#[test]
fn a_watch_must_come_to_the_end() {
    let (log, _) = Log::new(&[watched(Scope::default(), LOG)]);
    let mut short = watched(Scope::default(), "[3] +0:4:1");
    short.until = Revision(10);
    assert_eq!(
        super::check(&short, &log),
        ["it came no further than revision 4, and revision 10 is in its scope"]
    );
}

#[test]
fn a_scope_sees_its_own() {
    let one = Scope {
        name: Some(1),
        ..Scope::default()
    };
    check(one, LOG, "[3] +1:5:2 -1:7:2 +1:9:4", &[]);
    check(
        one,
        LOG,
        "[3] +1:5:2 +1:9:4",
        &["it did not see DELETED torture-0/map-1"],
    );
    check(one, LOG, "[3] +0:4:1", &["it saw ADDED torture-0/map-0"]);
}

#[test]
fn what_comes_to_match_is_added_and_what_no_longer_does_is_deleted() {
    // Even numbers write blue.
    let log = "[3] +0:4:1 =0:5:2 =0:6:4 =0:7:3 =0:8:6 -0:9:6 +0:11:5 -0:12:5";
    let blue = Scope {
        colour: Some(Colour::Blue),
        ..Scope::default()
    };
    check(blue, log, "[3] +0:5:2 =0:6:4 -0:7:4 +0:8:6 -0:9:6 !12", &[]);
    check(blue, log, "[5 0:5:2] =0:6:4 -0:7:4", &[]);
    check(
        blue,
        log,
        "[4] =0:5:2",
        &["it saw MODIFIED torture-0/map-0"],
    );
    let now = "[3] +0:5:2 =0:6:4 -0:7:3";
    check(blue, log, now, &["it saw DELETED torture-0/map-0"]);
    let never = "[3] +0:5:2 =0:6:4 +0:8:6";
    check(
        blue,
        log,
        never,
        &["it did not see DELETED torture-0/map-0"],
    );
}
