//! The search against one that leaves nothing out, on small histories that are right or nearly so.

use super::*;
use crate::torture::history::{Call, Key, Tick, Uid};
use crate::torture::random::Random;

const CASES: u64 = 20_000;
const OPS: u32 = 7;

/// Whether any order of the operations explains them: all are tried, each that need not have
/// happened with and without.
fn explained(ops: &[Op]) -> bool {
    let observed = observed(ops);
    let with_answers: Vec<(Op, Option<Answer>)> = ops
        .iter()
        .filter(|op| op.call.writes() || op.ended.is_some())
        .map(|op| {
            let seen = observed.get(&op.id).copied().map(Answer::Object);
            (*op, op.answer().or(seen))
        })
        .collect();
    try_all(&with_answers, State::default(), Revision(0))
}

fn try_all(left: &[(Op, Option<Answer>)], state: State, last: Revision) -> bool {
    if left.iter().all(|(_, answer)| answer.is_none()) {
        return true;
    }
    let end = |(op, _): &(Op, Option<Answer>)| op.ended.map(|(tick, _)| tick);
    let first_end = left.iter().filter_map(end).min();
    (0..left.len()).any(|index| {
        let (op, answer) = left[index];
        if first_end.is_some_and(|first| op.began > first) {
            return false;
        }
        let mut rest = left.to_vec();
        rest.remove(index);
        let (after, last) = match answer {
            Some(answer @ Answer::Object(version)) if op.call.writes() => {
                if version.revision <= last {
                    return false;
                }
                (state.after(&op, answer), version.revision)
            }
            Some(answer) => (state.after(&op, answer), last),
            None => (state.done(op.call, op.id), last),
        };
        after.is_some_and(|after| try_all(&rest, after, last))
    })
}

/// An object that does what it should.
#[derive(Default)]
struct Real {
    object: Option<Version>,
    revision: u64,
    uid: u128,
}

impl Real {
    fn answer(&mut self, id: OpId, call: Call) -> Answer {
        let uid = self.uid;
        match (call, self.object) {
            (Call::Create, Some(_)) => Answer::Exists,
            (Call::Create, None) => {
                self.uid += 1;
                self.write(id, id, Uid(uid + 1))
            }
            (_, None) => Answer::Absent,
            (Call::Read, Some(object)) => Answer::Object(object),
            (Call::Replace { at: Some(at) }, Some(object)) if at != object.revision => {
                Answer::Conflict
            }
            (Call::Replace { .. }, Some(object)) => self.write(id, id, object.uid),
            (Call::Patch, Some(object)) => self.write(object.whole, id, object.uid),
            (Call::Delete { at, uid }, Some(object)) => {
                let stale = at.is_some_and(|at| at != object.revision)
                    || uid.is_some_and(|uid| uid != object.uid);
                if stale {
                    return Answer::Conflict;
                }
                self.object = None;
                self.revision += 1;
                Answer::Deleted
            }
        }
    }

    fn write(&mut self, whole: OpId, last: OpId, uid: Uid) -> Answer {
        self.revision += 1;
        let version = Version {
            revision: Revision(self.revision),
            uid,
            whole,
            last,
        };
        self.object = Some(version);
        Answer::Object(version)
    }
}

fn call(random: &mut Random, seen: &[Version]) -> Call {
    let known = match seen.len() {
        0 => None,
        count => Some(seen[random.within(0..count as u64) as usize]),
    };
    let at = known.map(|known| known.revision);
    let uid = known.map(|known| known.uid);
    random.pick([
        (3, Call::Create),
        (2, Call::Replace { at: None }),
        (3, Call::Replace { at }),
        (3, Call::Patch),
        (
            1,
            Call::Delete {
                at: None,
                uid: None,
            },
        ),
        (1, Call::Delete { at, uid: None }),
        (1, Call::Delete { at: None, uid }),
        (4, Call::Read),
    ])
}

/// A history that a real object had, with operations that overlap and answers that got lost.
fn history(random: &mut Random) -> Vec<Op> {
    let mut real = Real::default();
    let mut seen = Vec::new();
    let mut ops = Vec::new();
    for number in 1..=OPS {
        let (id, call) = (OpId(number), call(random, &seen));
        let moment = u64::from(number) * 10 + 30;
        let lost = random.percent(30);
        let ended = match lost && random.percent(50) {
            true => None,
            false => Some(real.answer(id, call)),
        };
        if let Some(Answer::Object(version)) = ended.filter(|_| !lost) {
            seen.push(version);
        }
        ops.push(Op {
            id,
            client: 0,
            key: Key {
                namespace: 0,
                name: 0,
            },
            call,
            began: Tick(moment - random.within(0..25)),
            ended: ended
                .filter(|_| !lost)
                .map(|answer| (Tick(moment + random.within(0..25)), answer)),
        });
    }
    ops.sort_by_key(|op| op.began);
    ops
}

/// Changes one answer to one that another operation got, or to another word.
fn corrupt(random: &mut Random, ops: &mut [Op]) {
    let answers: Vec<Answer> = ops.iter().filter_map(Op::answer).collect();
    let one = random.within(0..ops.len() as u64) as usize;
    let other = random.within(0..answers.len().max(1) as u64) as usize;
    let word = random.pick([
        (2, answers.get(other).copied()),
        (1, Some(Answer::Absent)),
        (1, Some(Answer::Exists)),
        (1, Some(Answer::Conflict)),
    ]);
    if let (Some((_, answer)), Some(word)) = (&mut ops[one].ended, word) {
        *answer = word;
    }
}

#[test]
fn finds_an_order_if_and_only_if_there_is_one() {
    let (mut right, mut wrong) = (0, 0);
    for case in 0..CASES {
        let mut random = Random::new(1, case);
        let mut ops = history(&mut random);
        let corrupted = random.percent(60);
        if corrupted {
            corrupt(&mut random, &mut ops);
        }
        let expected = explained(&ops);
        assert!(expected || corrupted, "case {case}: {ops:#?}");
        assert_eq!(check(&ops).is_ok(), expected, "case {case}: {ops:#?}");
        match expected {
            true => right += 1,
            false => wrong += 1,
        }
    }
    assert!(right > CASES / 4 && wrong > CASES / 10, "{right} {wrong}");
}
