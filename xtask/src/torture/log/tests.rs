use super::*;
use crate::torture::history::Tick;
use crate::torture::history::notation::{self, version};

/// Changes of the first key, as `+5:1`, `=6:2`, `-7:2`.
fn log(changes: &str) -> Log {
    let change = |word: &str| {
        let (kind, rest) = word.split_at(1);
        let kind = match kind {
            "+" => Kind::Added,
            "=" => Kind::Modified,
            _ => Kind::Deleted,
        };
        let key = Key {
            namespace: 0,
            name: 0,
        };
        let version = version(rest);
        (Tick(0), Seen::Change(Change { kind, key, version }))
    };
    let watched = Watched {
        name: "it".to_owned(),
        scope: Scope::default(),
        seen: changes.split_whitespace().map(change).collect(),
        until: Revision(0),
        connections: 1,
    };
    let (log, findings) = Log::new(&[watched]);
    assert_eq!(findings, Findings::new());
    log
}

/// `lists` are `8=6:3`, the state at a revision, or `8=` if nothing was there.
fn check(changes: &str, ops: &str, lists: &str, findings: &[&str]) {
    let list = |word: &str| {
        let (revision, object) = word.split_once('=').unwrap();
        let key = Key {
            namespace: 0,
            name: 0,
        };
        let object = Some(object).filter(|object| !object.is_empty());
        Listing {
            client: 0,
            namespace: None,
            began: Tick(0),
            ended: Tick(0),
            revision: Revision(revision.parse().unwrap()),
            live: true,
            objects: object
                .map(|object| (key, version(object)))
                .into_iter()
                .collect(),
        }
    };
    let history = History {
        ops: notation::ops(ops),
        lists: lists.split_whitespace().map(list).collect(),
        oddities: Vec::new(),
    };
    let found = super::check(&log(changes), &history);
    let starts = found.iter().map(|finding| {
        let end = finding.find([':', ';', '\n']).unwrap_or(finding.len());
        finding[..end].to_owned()
    });
    assert_eq!(starts.collect::<Vec<_>>(), findings, "{found:#?}");
}

const OPS: &str = "0-1 1 create 5:1
    2-3 2 replace 6:2
    4-5 3 patch 7:2+3
    6-7 4 delete deleted
    8-? 5 create
    9-? 6 delete
    10-11 7 replace absent
    12-13 8 read 7:2+3";
const CHANGES: &str = "+5:1 =6:2 =7:2+3 -8:2+3";

#[test]
fn a_log_that_agrees_with_all_answers() {
    check(CHANGES, OPS, "4= 5=5:1 7=7:2+3 8= 100=", &[]);
    check(&format!("{CHANGES} +9:5~2 -12:5~2"), OPS, "9=9:5~2", &[]);
}

#[test]
fn an_acknowledged_write_that_no_watch_saw_is_missing() {
    check(
        "+5:1 -8:1",
        OPS,
        "",
        &[
            "an acknowledged write is missing",
            "an acknowledged write is missing",
            "what was read never was",
        ],
    );
    check("+5:1 =6:2 =7:2+3", OPS, "", &["torture-0/map-0"]);
}

#[test]
fn changes_follow_from_each_other() {
    let ops = "0-? 1 create\n 0-? 2 replace\n 0-? 3 delete\n 0-? 4 create";
    check("+5:1 =6:2 -7:2 +8:4~2", ops, "", &[]);
    let broken = |change: &str| format!("{change} does not follow from what was seen before");
    check(
        "=6:2",
        ops,
        "",
        &[&broken(
            "MODIFIED torture-0/map-0 (revision 6, written by #2)",
        )],
    );
    check(
        "+5:1 +8:4~2",
        ops,
        "",
        &[&broken("ADDED torture-0/map-0 (revision 8, written by #4)")],
    );
    check(
        "+5:1 -7:2",
        ops,
        "",
        &[&broken(
            "DELETED torture-0/map-0 (revision 7, written by #2)",
        )],
    );
    check(
        "+5:1 =6:2~2",
        ops,
        "",
        &[&broken(
            "MODIFIED torture-0/map-0 (revision 6, written by #2)",
        )],
    );
}

#[test]
fn nothing_happens_that_was_refused_or_not_asked_for() {
    let ops = "0-1 1 create 5:1\n 2-3 2 replace@4 conflict\n 4-? 3 replace";
    check("+5:1 =6:3", ops, "", &[]);
    let saw = |what: &str| format!("watches saw MODIFIED torture-0/map-0 ({what}), ");
    let refused = saw("revision 6, written by #2") + "whose writer was told that it was refused";
    check("+5:1 =6:2", ops, "", &[&refused]);
    let nobody = saw("revision 6, written by #9") + "which nobody wrote";
    check("+5:1 =6:9", ops, "", &[&nobody]);
    let twice = saw("revision 7, written by #3") + "which was written before";
    check("+5:1 =6:3 =7:3", ops, "", &[&twice]);
    let moved = saw("revision 6, written by #1") + "which is not what its writer was told";
    check("+5:1 =6:1", ops, "", &[&moved]);
    check("+5:1 -7:1", ops, "", &["torture-0/map-0"]);
}

#[test]
fn a_list_is_the_state_of_its_revision() {
    for (list, is) in [
        ("4=5:1", "4"),
        ("6=5:1", "6"),
        ("7=", "7"),
        ("8=7:2+3", "8"),
    ] {
        check(
            CHANGES,
            OPS,
            list,
            &[&format!(
                "a list of revision {is} (from 0.000 ms to 0.000 ms) shows torture-0/map-0 as {}",
                shown(list)
            )],
        );
    }

    fn shown(list: &str) -> String {
        let story = match list {
            "4=5:1" => "revision 5, written by #1, and it is absent",
            "6=5:1" => "revision 5, written by #1, and it is revision 6, written by #2",
            "7=" => "absent, and it is revision 7, written by #3 on top of #2",
            _ => "revision 7, written by #3 on top of #2, and it is absent",
        };
        story.to_owned()
    }
}
