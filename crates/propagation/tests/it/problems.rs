//! What is wrong with gates is said at once, with its place.

use deltaplane_expr::types::Type;
use deltaplane_expr::{Absent, Decl, ObjectType};
use deltaplane_propagation::{Gate, Order, Scope};
use expect_test::{Expect, expect};

fn typed() -> Decl {
    let string = || Decl::of_type(Type::String, Absent::Waits);
    let int = || Decl::of_type(Type::Int, Absent::Waits);
    let object = |name: &str, fields: Vec<(String, Decl)>| {
        Decl::of_type(Type::Object(ObjectType::new(name, fields)), Absent::Waits)
    };
    let spec = object(
        "app.spec",
        vec![("tier".to_owned(), string()), ("wave".to_owned(), int())],
    );
    object("app", vec![("spec".to_owned(), spec)])
}

fn scope() -> Scope {
    Scope::new(typed(), &["app", "instance"])
        .collection(&["apps", "instances"])
        .subject("db", Decl::dynamic(Absent::Waits).clone())
        .data("schema", Decl::dynamic(Absent::Waits).clone())
}

/// The problems of a gate, each with what is marked in its text.
fn check_in(scope: Scope, texts: &[&str], expected: &Expect) {
    let told = match Gate::compile(texts, scope) {
        Ok(_) => "fine".to_owned(),
        Err(problems) => {
            let lines = problems.0.iter().map(|problem| {
                let span = problem.span.start as usize..problem.span.end as usize;
                format!("{problem}\n    at `{}`", &problem.text[span])
            });
            lines.collect::<Vec<String>>().join("\n")
        }
    };
    expected.assert_eq(&told);
}

fn check(texts: &[&str], expected: &Expect) {
    check_in(scope(), texts, expected);
}

#[test]
fn gates_are_written_bare_or_wrapped() {
    check(&[], &expect!["fine"]);
    check(
        &[
            "linearlyReady(app, apps, 3)",
            "${exponentiallyReady(instance, instances)}",
            "\n  ${ exponentiallyReady(app, apps, 3) }\n",
            "db.ready() && db.updated() && app.updated()",
            "readyFor(app, '10m') && readyFor(db, duration('1h'))",
            "time.now().getHours('Europe/Berlin') >= 22",
            "schema.spec.enabled",
        ],
        &expect!["fine"],
    );
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    check(
        &[
            "app.spec.teir == 'gold'",
            "app.ready()",
            "app.spec.wave",
            "app.ready( && true",
            "  ${app.spec.tier}",
            "a ${app.ready()}",
            "${app.ready()} and ${db.ready()}",
            "${app.ready()",
            "'text'.ready() || unknown",
        ],
        &expect![[r#"
            [0]: 1:9: undefined field 'teir'
                at `.teir`
            [2]: 1:1: a gate is true or false: expected type 'bool' but found 'int'
                at `app.spec.wave`
            [3]: 1:12: Syntax error: unexpected '&&', expecting an expression
                at `&&`
            [4]: 1:5: a gate is true or false: expected type 'bool' but found 'string'
                at `app.spec.tier`
            [5]: 1:3: Syntax error: token recognition error at: '$'
                at `$`
            [6]: 1:1: it must be one expression, not a text with some
                at `${app.ready()} and ${db.ready()}`
            [7]: 1:1: Syntax error: token recognition error at: '$'
                at `$`
            [8]: 1:19: undeclared reference to 'unknown' (in container '')
                at `unknown`"#]],
    );
}

#[test]
fn constants_that_never_do_are_refused() {
    check(
        &[
            "linearlyReady(app, apps, 0)",
            "linearlyReady(app, apps, 1 - 3)",
            "exponentiallyReady(app, apps, 1) && linearlyReady(app, apps, -1)",
            "readyFor(app, '10 minutes')",
            "readyFor(app, duration('-5m'))",
            "linearlyReady(app, apps, app.spec.wave)",
            "linearlyReady(apps, app, 1)",
        ],
        &expect![[r#"
            [0]: 1:26: n must be 1 or more
                at `0`
            [1]: 1:26: n must be 1 or more
                at `1 - 3`
            [2]: 1:31: factor must be 2 or more
                at `1`
            [2]: 1:62: n must be 1 or more
                at `-1`
            [3]: 1:15: it must be a length of time such as '10m' or '1h30m'
                at `'10 minutes'`
            [4]: 1:15: it must be a length of time such as '10m' or '1h30m'
                at `duration('-5m')`
            [6]: 1:1: found no matching overload for 'linearlyReady' applied to '(list(app), app, int)'
                at `linearlyReady(apps, app, 1)`"#]],
    );
}

#[test]
fn windows_are_declared() {
    check(
        &["!window('weekend')"],
        &expect![[r#"
        [0]: 1:9: there is no window 'weekend': none is declared
            at `'weekend'`"#]],
    );
    let declared = || scope().windows(&["night", "weekend"]);
    check_in(declared(), &["!window('weekend')"], &expect!["fine"]);
    check_in(
        declared(),
        &["window('weeknd') || window(app.spec.tier)"],
        &expect![[r#"
            [0]: 1:8: there is no window 'weeknd': declared are night, weekend
                at `'weeknd'`
            [0]: 1:28: the name of a window must be written down
                at `app.spec.tier`"#]],
    );
}

#[test]
fn where_there_is_no_collection_none_can_be_named() {
    let node = Scope::new(typed(), &["web"]).subject("db", Decl::dynamic(Absent::Waits).clone());
    check_in(
        node,
        &["db.ready() && web.updated()", "linearlyReady(web, webs, 1)"],
        &expect![[r#"
            [1]: 1:20: undeclared reference to 'webs' (in container '')
                at `webs`"#]],
    );
}

#[test]
fn orders_have_an_order() {
    let problems = |text: &str| match Order::compile(text, &scope()) {
        Ok(_) => "fine".to_owned(),
        Err(problems) => problems.to_string(),
    };
    let texts = [
        "app.spec.wave",
        "${app.spec.tier + 'x'}",
        "app.ready() ? 1 : 2",
        "schema.spec.anything",
        "app.spec",
        "[app.spec.wave]",
        "time.now()",
    ];
    let told = texts.map(|text| format!("{text}: {}", problems(text)));
    expect![[r#"
        app.spec.wave: fine
        ${app.spec.tier + 'x'}: fine
        app.ready() ? 1 : 2: fine
        schema.spec.anything: fine
        app.spec: [0]: 1:1: orderBy must be a number, string, boolean or timestamp, and is of type 'app.spec'
        [app.spec.wave]: [0]: 1:1: orderBy must be a number, string, boolean or timestamp, and is of type 'list(int)'
        time.now(): [0]: 1:1: the order does not depend on the time"#]]
    .assert_eq(&told.join("\n"));
}
