//! Histories as text, for tests.
//!
//! A line is an operation: `2-3 7 replace@5 6:7` began at 2, ended at 3, has the number 7, and
//! asked to replace revision 5; the answer was revision 6, written by 7. `6:4+7` is a revision that
//! 7 patched on top of what 4 wrote, and `6:7~2` belongs to the object with the uid 2 (otherwise
//! 1). `2-? 7 create` was never answered. Other answers are words.

use super::{Answer, Call, Key, Op, OpId, Revision, Tick, Uid, Version};

/// All operations of a text, on the first key.
pub(crate) fn ops(text: &str) -> Vec<Op> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(op).collect()
}

fn op(line: &str) -> Op {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (began, ended) = words[0].split_once('-').unwrap();
    let answer = words.get(3).map(|word| answer(word));
    Op {
        id: OpId(number(words[1])),
        client: 0,
        key: Key {
            namespace: 0,
            name: 0,
        },
        call: call(words[2]),
        began: Tick(number(began)),
        ended: answer.map(|answer| (Tick(number(ended)), answer)),
    }
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    let parsed = word.parse().ok();
    parsed.unwrap_or_else(|| panic!("{word:?} is not a number"))
}

fn call(word: &str) -> Call {
    let (word, uid) = match word.split_once('~') {
        Some((word, uid)) => (word, Some(Uid(number(uid)))),
        None => (word, None),
    };
    let (word, at) = match word.split_once('@') {
        Some((word, at)) => (word, Some(Revision(number(at)))),
        None => (word, None),
    };
    match word {
        "create" => Call::Create,
        "replace" => Call::Replace { at },
        "patch" => Call::Patch,
        "delete" => Call::Delete { at, uid },
        "read" => Call::Read,
        other => panic!("{other:?} is no call"),
    }
}

fn answer(word: &str) -> Answer {
    match word {
        "deleted" => Answer::Deleted,
        "absent" => Answer::Absent,
        "exists" => Answer::Exists,
        "conflict" => Answer::Conflict,
        word => Answer::Object(version(word)),
    }
}

pub(crate) fn version(word: &str) -> Version {
    let (word, uid) = word.split_once('~').unwrap_or((word, "1"));
    let (revision, authors) = word.split_once(':').unwrap();
    let (whole, last) = authors.split_once('+').unwrap_or((authors, authors));
    Version {
        revision: Revision(number(revision)),
        uid: Uid(number(uid)),
        whole: OpId(number(whole)),
        last: OpId(number(last)),
    }
}
