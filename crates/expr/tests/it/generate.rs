//! Random expressions, as text.

use proptest::prelude::*;

/// Operands of an expression about `i`, `s`, `b`, `l` (list of int) and `m` (map of string to int).
fn leaf() -> impl Strategy<Value = String> {
    const FIXED: &[&str] = &[
        "i",
        "s",
        "b",
        "l",
        "m",
        "0",
        "1",
        "-7",
        "9223372036854775807",
        "2u",
        "1.5",
        "true",
        "false",
        "'a'",
        "'hello world'",
        "b'x'",
        "null",
        "[]",
        "[1, 2, 3]",
        "{}",
        "{'a': 1}",
        "duration('1h')",
        "timestamp('2026-01-01T00:00:00Z')",
        "l[0]",
        "m.a",
        "m['zz']",
    ];
    prop::sample::select(FIXED).prop_map(str::to_owned)
}

/// Any expression that parses; most do not check.
pub(crate) fn expression() -> impl Strategy<Value = String> {
    leaf().prop_recursive(5, 40, 3, |inner| {
        let operator = prop::sample::select(
            &[
                "+", "-", "*", "/", "%", "<", "<=", "==", "!=", "&&", "||", "in",
            ][..],
        );
        let member = prop::sample::select(
            &[
                "size()",
                "startsWith('a')",
                "trim()",
                "x",
                "?x",
                "distinct()",
                "orValue(1)",
            ][..],
        );
        let fold = prop::sample::select(&["all", "exists", "exists_one", "map", "filter"][..]);
        prop_oneof![
            (inner.clone(), operator, inner.clone())
                .prop_map(|(a, op, b)| format!("({a}) {op} {b}")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a}) ? ({b}) : {c}")),
            (inner.clone(), member).prop_map(|(a, name)| format!("({a}).{name}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            inner.clone().prop_map(|a| format!("!({a})")),
            inner.clone().prop_map(|a| format!("-({a})")),
            inner.clone().prop_map(|a| format!("size({a})")),
            inner.clone().prop_map(|a| format!("string({a})")),
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{'k': {a}, 'j': {b}}}")),
            (inner.clone(), fold, inner.clone())
                .prop_map(|(a, name, b)| format!("({a}).{name}(x, {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}).all(k, v, {b})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("cel.bind(y, {a}, {b})")),
        ]
    })
}

/// Expressions in which types fit, so that most of them check.
pub(crate) fn typed() -> impl Strategy<Value = String> {
    let int = prop_oneof![
        Just("i".to_owned()),
        Just("l[0]".to_owned()),
        Just("m.a".to_owned()),
        Just("m['zz']".to_owned()),
        Just("size(s)".to_owned()),
        Just("l.sum()".to_owned()),
        (-3_i64..4).prop_map(|value| value.to_string()),
    ];
    int.prop_recursive(5, 40, 3, |int| {
        let bool = (
            int.clone(),
            prop::sample::select(&["<", "==", "!=", ">="][..]),
            int.clone(),
        )
            .prop_map(|(a, op, b)| format!("({a}) {op} ({b})"));
        let list = prop_oneof![
            Just("l".to_owned()),
            prop::collection::vec(int.clone(), 1..4)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            bool.clone()
                .prop_map(|condition| format!("l.filter(x, x > 1 || {condition})")),
            int.clone()
                .prop_map(|body| format!("l.map(x, x + ({body}))")),
        ];
        prop_oneof![
            (
                int.clone(),
                prop::sample::select(&["+", "-", "*", "/", "%"][..]),
                int.clone()
            )
                .prop_map(|(a, op, b)| format!("({a}) {op} ({b})")),
            (bool.clone(), int.clone(), int.clone())
                .prop_map(|(c, a, b)| format!("({c} ? ({a}) : ({b}))")),
            (list.clone(), int.clone()).prop_map(|(list, at)| format!("({list})[{at}]")),
            list.clone().prop_map(|list| format!("size({list})")),
            (list, bool)
                .prop_map(|(list, test)| format!("(({list}).all(x, x > 0 && {test}) ? 1 : 0)")),
            int.prop_map(|a| format!("int(string({a}))")),
        ]
    })
}
