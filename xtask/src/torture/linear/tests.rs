mod exhaustive;

use super::*;
use crate::torture::history::notation;

fn accepts(history: &str) {
    assert_eq!(check(&notation::ops(history)), Ok(()), "{history}");
}

/// `next` is what the search could not put in order, by number.
fn rejects(history: &str, next: &[u32]) {
    match check(&notation::ops(history)) {
        Err(Failure::None(stuck)) => {
            let numbers: Vec<u32> = stuck.next.iter().map(|op| op.id.0).collect();
            assert_eq!(numbers, next, "{history}");
        }
        other => panic!("{other:?}: {history}"),
    }
}

#[test]
fn one_after_the_other() {
    accepts("");
    accepts(
        "0-1 1 read absent
         2-3 2 create 5:2
         4-5 3 replace@5 6:3
         6-7 4 replace@5 conflict
         8-9 5 patch 8:3+5
         10-11 6 replace 9:6
         12-13 7 create exists
         14-15 8 delete@8 conflict
         16-17 9 delete~1 deleted
         18-19 10 delete absent
         20-21 11 patch absent
         22-23 12 create 20:12~2
         24-25 13 delete~1 conflict
         26-27 14 read 20:12~2",
    );
}

#[test]
fn answers_must_fit_what_is_there() {
    rejects("0-1 1 read 5:1", &[1]);
    rejects("0-1 1 replace 5:1", &[1]);
    rejects("0-1 1 delete deleted", &[1]);
    rejects("0-1 1 create exists", &[1]);
    let made = "0-1 1 create 5:1\n";
    for impossible in [
        "2-3 2 read absent",
        "2-3 2 create 6:2",
        "2-3 2 delete absent",
        "2-3 2 replace@4 6:2",
        "2-3 2 replace@5 conflict",
        "2-3 2 replace 6:2~9",
        "2-3 2 patch 6:2",
        "2-3 2 delete@4 deleted",
        "2-3 2 delete~2 deleted",
        "2-3 2 delete~1 conflict",
        "2-3 2 read 6:1",
        "2-3 2 read 5:1~2",
    ] {
        rejects(&format!("{made}{impossible}"), &[2]);
    }
}

#[test]
fn what_overlaps_may_be_in_any_order() {
    accepts(
        "0-9 1 create 5:1
         0-9 2 read absent
         0-9 3 read 5:1
         0-9 4 patch 6:1+4
         0-9 5 delete deleted
         0-9 6 read absent
         0-9 7 create 9:7~2",
    );
}

#[test]
fn a_read_that_began_after_a_write_ended_sees_it() {
    accepts(
        "0-1 1 create 5:1
         2-9 2 replace 6:2
         3-4 3 read 6:2
         3-5 4 read 5:1
         10-11 5 read 6:2",
    );
    rejects(
        "0-1 1 create 5:1
         2-9 2 replace 6:2
         3-4 3 read 6:2
         5-6 4 read 5:1",
        &[4],
    );
    rejects(
        "0-1 1 create 5:1
         2-3 2 replace 6:2
         4-5 3 read 5:1",
        &[3],
    );
}

#[test]
fn no_update_is_lost() {
    rejects(
        "0-1 1 create 5:1
         2-3 2 replace@5 6:2
         2-3 3 replace@5 7:3",
        &[3],
    );
    rejects(
        "0-1 1 create 5:1
         2-3 2 patch 6:1+2
         4-5 3 replace@6 7:3
         6-7 4 patch 8:1+4",
        &[4],
    );
}

#[test]
fn writes_take_effect_in_the_order_of_their_revisions() {
    accepts(
        "0-1 1 create 5:1
         2-9 2 replace 7:2
         2-9 3 replace 6:3",
    );
    rejects(
        "0-1 1 create 5:1
         2-3 2 replace 7:2
         4-5 3 replace 6:3",
        &[2],
    );
}

#[test]
fn an_unknown_write_may_happen_late_or_never() {
    let unknown = "0-1 1 create 5:1
         2-? 2 replace@5\n";
    accepts(&format!("{unknown} 4-5 3 read 5:1"));
    accepts(&format!("{unknown} 4-5 3 read 5:1\n 6-7 4 read 6:2"));
    accepts(&format!("{unknown} 4-5 3 read 6:2"));
    accepts(&format!("{unknown} 4-5 3 replace@5 conflict"));
    accepts(&format!(
        "{unknown} 4-5 3 read 5:1\n 6-7 4 replace@5 conflict"
    ));
    accepts(&format!("{unknown} 4-5 3 patch 7:2+3"));
    rejects(&format!("{unknown} 4-5 3 read 6:2\n 6-7 4 read 5:1"), &[4]);
    rejects(
        &format!("{unknown} 4-5 3 replace@5 7:3\n 6-7 4 read 8:2"),
        &[2, 4],
    );
}

#[test]
fn an_unknown_deletion_may_happen_late_or_never() {
    let unknown = "0-1 1 create 5:1
         2-? 2 delete\n";
    accepts(&format!("{unknown} 4-5 3 read 5:1\n 6-7 4 read absent"));
    accepts(&format!("{unknown} 4-5 3 read 5:1\n 6-7 4 read 5:1"));
    accepts(&format!("{unknown} 4-5 3 create 7:3~2\n 6-7 4 read 7:3~2"));
    rejects(
        &format!("{unknown} 4-5 3 read absent\n 6-7 4 read 5:1"),
        &[4],
    );
    rejects(
        &format!("{unknown} 4-5 3 create 7:3~2\n 6-7 4 read absent"),
        &[4],
    );
}

#[test]
fn nothing_happens_before_it_begins() {
    rejects(
        "0-1 1 create 5:1
         2-3 2 read 6:3
         4-? 3 replace",
        &[2],
    );
    rejects(
        "0-1 1 create 5:1
         2-3 2 read absent
         4-? 3 delete",
        &[2],
    );
}

#[test]
fn a_write_that_was_cut_off_and_acknowledged_elsewhere_is_lost() {
    rejects(
        "0-1 1 create 5:1
         2-? 2 replace
         3-4 3 read 6:2
         5-6 4 read 5:1",
        &[4],
    );
}

#[test]
fn many_unknown_writes_do_not_explode() {
    let mut history = String::from("0-1 1 create 5:1\n");
    for number in 0..40 {
        history.push_str(&format!("2-? {} replace\n", 100 + number));
        history.push_str(&format!("2-? {} delete\n", 200 + number));
    }
    for number in 0..200 {
        let began = 10 + number * 2;
        let revision = 10 + number;
        let id = 1000 + number;
        history.push_str(&format!(
            "{began}-{} {id} replace {revision}:{id}\n",
            began + 1
        ));
    }
    accepts(&history);
    // The last one has to be seen.
    history.push_str("900-901 5000 read 208:1198");
    match check(&notation::ops(&history)) {
        Err(Failure::None(stuck)) => {
            assert_eq!(stuck.ordered.last().map(|op| op.id.0), Some(1199));
            assert_eq!(stuck.next.last().map(|op| op.id.0), Some(5000));
        }
        other => panic!("{other:?}"),
    }
}
