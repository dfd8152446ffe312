//! When time alone changes what a gate says.

use expect_test::{Expect, expect};

use crate::passes::check;

/// What a gate says of one item at twelve, and when to look again.
fn at_noon(gate: &str, expected: &Expect) {
    let object = r#"{"metadata": {"creationTimestamp": "2026-03-01T11:30:00Z"}}"#;
    check(
        &format!(
            "gate {gate}
             window night closed until 22:00
             window always open
             window soon closed until 12:00:30
             node db current 11:50:30
             item web ready 11:55 {object}"
        ),
        expected,
    );
}

#[test]
fn ready_for_is_exact() {
    at_noon(
        "readyFor(app, '10m')",
        &expect![[r#"
        web closed: readyFor(app, '10m'): ready since 2026-03-01T11:55:00Z
        next 2026-03-01T12:05:00Z
    "#]],
    );
    at_noon(
        "readyFor(app, '5m')",
        &expect![[r#"
        admit web
    "#]],
    );
    at_noon(
        "readyFor(app, '10m') && readyFor(db, '1h')",
        &expect![[r#"
        web closed: readyFor(app, '10m') && readyFor(db, '1h'): readyFor(app, '10m'): ready since 2026-03-01T11:55:00Z, readyFor(db, '1h'): ready since 2026-03-01T11:50:30Z
        next 2026-03-01T12:05:00Z
    "#]],
    );
    at_noon(
        "apps.all(a, readyFor(a, '6m'))",
        &expect![[r#"
        web closed: apps.all(a, readyFor(a, '6m')): false
        next 2026-03-01T12:01:00Z
    "#]],
    );
    at_noon(
        "!apps.exists(app, !readyFor(app, '6m'))",
        &expect![[r#"
        web closed: !apps.exists(app, !readyFor(app, '6m')): apps.exists(app, !readyFor(app, '6m')): true
        next 2026-03-01T12:01:00Z
    "#]],
    );
}

#[test]
fn comparisons_are_solved() {
    at_noon(
        "time.now() >= timestamp('2026-03-01T13:00:00Z')",
        &expect![[r#"
            web closed: time.now() >= timestamp('2026-03-01T13:00:00Z'): timestamp('2026-03-01T13:00:00Z'): 2026-03-01T13:00:00Z
            next 2026-03-01T13:00:00Z
        "#]],
    );
    at_noon(
        "time.now() > timestamp('2026-03-01T13:00:00Z')",
        &expect![[r#"
            web closed: time.now() > timestamp('2026-03-01T13:00:00Z'): timestamp('2026-03-01T13:00:00Z'): 2026-03-01T13:00:00Z
            next 2026-03-01T13:00:00.000000001Z
        "#]],
    );
    at_noon(
        "timestamp('2026-03-01T13:00:00Z') <= time.now()",
        &expect![[r#"
            web closed: timestamp('2026-03-01T13:00:00Z') <= time.now(): timestamp('2026-03-01T13:00:00Z'): 2026-03-01T13:00:00Z
            next 2026-03-01T13:00:00Z
        "#]],
    );
    at_noon(
        "!(time.now() < timestamp('2026-03-01T13:00:00Z'))",
        &expect![[r#"
            web closed: !(time.now() < timestamp('2026-03-01T13:00:00Z')): timestamp('2026-03-01T13:00:00Z'): 2026-03-01T13:00:00Z
            next 2026-03-01T13:00:00Z
        "#]],
    );
    at_noon(
        "time.now() == timestamp('2026-03-01T13:00:00Z')",
        &expect![[r#"
            web closed: time.now() == timestamp('2026-03-01T13:00:00Z'): timestamp('2026-03-01T13:00:00Z'): 2026-03-01T13:00:00Z
            next 2026-03-01T13:00:00Z
        "#]],
    );
    at_noon(
        "time.now() < timestamp('2026-03-01T11:00:00Z')",
        &expect![[r#"
            web closed: time.now() < timestamp('2026-03-01T11:00:00Z'): timestamp('2026-03-01T11:00:00Z'): 2026-03-01T11:00:00Z
        "#]],
    );
    at_noon(
        "time.now() - timestamp(app.metadata.creationTimestamp) > duration('1h')",
        &expect![[r#"
            web closed: time.now() - timestamp(app.metadata.creationTimestamp) > duration('1h'): timestamp(app.metadata.creationTimestamp): 2026-03-01T11:30:00Z, duration('1h'): "1h0m0s"
            next 2026-03-01T12:30:00.000000001Z
        "#]],
    );
    at_noon(
        "duration('1h') <= time.now() - timestamp(app.metadata.creationTimestamp)",
        &expect![[r#"
            web closed: duration('1h') <= time.now() - timestamp(app.metadata.creationTimestamp): duration('1h'): "1h0m0s", timestamp(app.metadata.creationTimestamp): 2026-03-01T11:30:00Z
            next 2026-03-01T12:30:00Z
        "#]],
    );
    at_noon(
        "timestamp(app.metadata.creationTimestamp) - time.now() < duration('-45m')",
        &expect![[r#"
            web closed: timestamp(app.metadata.creationTimestamp) - time.now() < duration('-45m'): timestamp(app.metadata.creationTimestamp): 2026-03-01T11:30:00Z, duration('-45m'): "-45m0s"
            next 2026-03-01T12:15:00.000000001Z
        "#]],
    );
    at_noon(
        "apps.all(a, time.now() - timestamp(a.metadata.creationTimestamp) >= duration('31m'))",
        &expect![[r#"
            web closed: apps.all(a, time.now() - timestamp(a.metadata.creationTimestamp) >= duration('31m')): false
            next 2026-03-01T12:01:00Z
        "#]],
    );
    at_noon(
        "time.now() > timestamp(app.metadata.deletionTimestamp)",
        &expect![[r#"
            web closed: time.now() > timestamp(app.metadata.deletionTimestamp): waiting for app.metadata.deletionTimestamp
        "#]],
    );
}

#[test]
fn clocks_and_calendars_turn() {
    at_noon(
        "time.now().getHours() >= 22",
        &expect![[r#"
        web closed: time.now().getHours() >= 22: time.now().getHours(): 12
        next 2026-03-01T13:00:00Z
    "#]],
    );
    at_noon(
        "time.now().getHours('+05:30') >= 22",
        &expect![[r#"
        web closed: time.now().getHours('+05:30') >= 22: time.now().getHours('+05:30'): 17
        next 2026-03-01T12:30:00Z
    "#]],
    );
    at_noon(
        "time.now().getDayOfWeek('Europe/Berlin') == 1",
        &expect![[r#"
            web closed: time.now().getDayOfWeek('Europe/Berlin') == 1: time.now().getDayOfWeek('Europe/Berlin'): 0
            next 2026-03-01T23:00:00Z
        "#]],
    );
    at_noon(
        "(time.now() + duration('45m')).getHours() == 14",
        &expect![[r#"
            web closed: (time.now() + duration('45m')).getHours() == 14: (time.now() + duration('45m')).getHours(): 12
            next 2026-03-01T12:15:00Z
        "#]],
    );
    at_noon(
        "time.now().getMonth() == 11",
        &expect![[r#"
        web closed: time.now().getMonth() == 11: time.now().getMonth(): 2
        next 2026-04-01T00:00:00Z
    "#]],
    );
    at_noon(
        "(time.now() - timestamp('2026-03-01T11:30:00Z')).getMinutes() > 40",
        &expect![[r#"
            web closed: (time.now() - timestamp('2026-03-01T11:30:00Z')).getMinutes() > 40
            next 2026-03-01T12:01:00Z
        "#]],
    );
    at_noon(
        "string(time.now()).startsWith('2027')",
        &expect![[r#"
        web closed: string(time.now()).startsWith('2027'): false
        next 2026-03-01T12:01:00Z
    "#]],
    );
}

#[test]
fn windows_have_edges() {
    at_noon(
        "window('night')",
        &expect![[r#"
        web closed: window('night'): false
        next 2026-03-01T22:00:00Z
    "#]],
    );
    at_noon(
        "!window('always')",
        &expect![[r#"
        web closed: !window('always'): window('always'): true
    "#]],
    );
    at_noon(
        "window('always') && !window('night')",
        &expect![[r#"
        admit web
    "#]],
    );
}

#[test]
fn what_depends_on_the_time_in_two_ways_is_looked_at_again() {
    at_noon(
        "readyFor(app, window('soon') ? '1m' : '20m')",
        &expect![[r#"
        web closed: readyFor(app, window('soon') ? '1m' : '20m'): ready since 2026-03-01T11:55:00Z
        next 2026-03-01T12:00:30Z
    "#]],
    );
    at_noon(
        "time.now() > (window('soon') ? time.now() : time.now())",
        &expect![[r#"
            web closed: time.now() > (window('soon') ? time.now() : time.now()): window('soon'): false
            next 2026-03-01T12:00:30Z
        "#]],
    );
    at_noon(
        "apps.all(a, readyFor(a, window('always') ? '7m' : '1m'))",
        &expect![[r#"
            web closed: apps.all(a, readyFor(a, window('always') ? '7m' : '1m')): false
            next 2026-03-01T12:01:00Z
        "#]],
    );
    at_noon(
        "time.now() > timestamp('2026-03-01T13:00:00Z') || window('soon')",
        &expect![[r#"
            web closed: time.now() > timestamp('2026-03-01T13:00:00Z') || window('soon'): timestamp('2026-03-01T13:00:00Z'): 2026-03-01T13:00:00Z, window('soon'): false
            next 2026-03-01T12:00:30Z
        "#]],
    );
}

#[test]
fn the_first_of_all_instants_counts() {
    check(
        "gate readyFor(app, '10m') || time.now().getHours() >= 22
         gate window('night')
         window night closed until 23:00
         item a ready 11:57
         item b ready 11:51
         item c broken
         item d ready 11:00",
        &expect![[r#"
            a closed: readyFor(app, '10m') || time.now().getHours() >= 22: readyFor(app, '10m'): ready since 2026-03-01T11:57:00Z, time.now().getHours(): 12
            b closed: readyFor(app, '10m') || time.now().getHours() >= 22: readyFor(app, '10m'): ready since 2026-03-01T11:51:00Z, time.now().getHours(): 12
            d closed: window('night'): false
            c closed: readyFor(app, '10m') || time.now().getHours() >= 22: readyFor(app, '10m'): not ready, time.now().getHours(): 12
            next 2026-03-01T12:01:00Z
        "#]],
    );
}
