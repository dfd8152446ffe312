use super::*;

fn syntax() -> Syntax {
    Syntax {
        limits: Limits::default(),
        macros: MacroSet {
            two_variables: true,
            bindings: true,
            optionals: true,
            sort_by: true,
            math: true,
            blocks: true,
            conditions: true,
        },
        optionals: true,
    }
}

/// Prints `source` as `printed`, which prints as itself.
fn check(source: &str, printed: &str) {
    let ast = parse(source, syntax()).unwrap_or_else(|problems| panic!("{source}: {problems}"));
    assert_eq!(print(&ast), printed, "{source}");
    let again = parse(printed, syntax()).unwrap_or_else(|problems| panic!("{printed}: {problems}"));
    assert!(
        again.same(&ast),
        "{source} prints as {printed}, which is another tree"
    );
}

fn refused(source: &str) -> String {
    match parse(source, syntax()) {
        Ok(ast) => panic!("{}: accepted as {ast:?}", &source[..source.len().min(40)]),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn expressions_print_as_they_are_read() {
    let cases = [
        ("a.b . c", "a.b.c"),
        ("a+b*c", "a + b * c"),
        ("(a+b)*c", "(a + b) * c"),
        ("a-(b-c)", "a - (b - c)"),
        ("a && b && (c || d)", "a && b && (c || d)"),
        ("(a && b) && c", "(a && b) && c"),
        ("a ? b : c ? d : e", "a ? b : c ? d : e"),
        ("(a ? b : c) ? d : e", "(a ? b : c) ? d : e"),
        ("!!a", "a"),
        ("!(a.b())", "!a.b()"),
        ("- - 1", "-(-1)"),
        ("-(1)", "-(1)"),
        ("-1.0", "-1.0"),
        ("1e3", "1000.0"),
        ("0xFFu", "255u"),
        ("r'\\d' + \"\\u00e9\\n\"", "\"\\\\d\" + \"é\\n\""),
        ("b'\\xff\\377a'", "b\"\\xff\\xffa\""),
        ("has(a.b)", "has(a.b)"),
        ("a.?b[?0].`c-d`", "a.?b[?0].`c-d`"),
        ("[1, ?a]", "[1, ?a]"),
        ("{?'a': b, 1: 2,}", "{?\"a\": b, 1: 2}"),
        ("a.b.C{x: 1}", "a.b.C{x: 1}"),
        ("a.map(x, x > 1, x * 2)", "a.map(x, x > 1, x * 2)"),
        ("a.transformMap(k, v, k + v)", "a.transformMap(k, v, k + v)"),
        ("cel.bind(x, 1, x + x)", "cel.bind(x, 1, x + x)"),
        ("a.optMap(x, x + 1)", "a.optMap(x, x + 1)"),
        ("a.sortBy(x, x.name)", "a.sortBy(x, x.name)"),
        (
            "cel.block([1], cel.index(0))",
            "cel.block([1], cel.index(0))",
        ),
        ("math.greatest(1, 2, 3)", "math.greatest([1, 2, 3])"),
        (
            "runtime.newCondition({type: 'A', status: 'True'})",
            "runtime.newCondition({type: \"A\", status: \"True\", reason: \"\", message: \"\"})",
        ),
        ("a // comment\n + b", "a + b"),
        ("x in [1] == true", "x in [1] == true"),
    ];
    for (source, printed) in cases {
        check(source, printed);
    }
}

#[test]
fn what_is_no_expression_is_refused_with_its_place() {
    let cases = [
        (
            "",
            "1:1: Syntax error: unexpected end of the expression, expecting an expression",
        ),
        (
            "1 +",
            "1:4: Syntax error: unexpected end of the expression, expecting an expression",
        ),
        (
            "a\n  ..b",
            "2:4: Syntax error: unexpected '.', expecting a field name",
        ),
        ("'abc", "1:1: Syntax error: unterminated string"),
        ("'\\ud800'", "1:1: Syntax error: invalid unicode code point"),
        (
            "b'\\u0041'",
            "1:1: Syntax error: unicode escapes are not allowed in bytes",
        ),
        (
            "99999999999999999999",
            "1:1: Syntax error: invalid number literal",
        ),
        ("for", "1:1: reserved identifier: for"),
        ("a.all(x.y, true)", "1:7: argument must be a simple name"),
        (
            "runtime.newCondition({type: '', status: 'True'})",
            "1:29: type must not be empty",
        ),
        (
            "runtime.condition(x, 'A') == runtime.condition(schema, 'A')",
            "1:56: of schema, only the conditions InstanceManaged, GraphResolved, ResourcesReady and Ready can be read",
        ),
        ("has(a)", "1:5: invalid argument to has() macro"),
        (
            "a @ b",
            "1:3: Syntax error: token recognition error at: '@'",
        ),
    ];
    for (source, message) in cases {
        assert_eq!(refused(source), message, "{source}");
    }
}

#[test]
fn nothing_nests_or_grows_without_bound() {
    let deep =
        |open: &str, close: &str| format!("{}1{}", open.repeat(40_000), close.repeat(40_000));
    for source in [
        deep("(", ")"),
        deep("[", "]"),
        deep("{1:", "}"),
        deep("f(", ")"),
        "a?b:".repeat(20_000) + "c",
        "x".to_owned() + &".f()".repeat(20_000),
        "x".to_owned() + &".map(y, y)".repeat(9_000),
        "1+".repeat(1_000_000) + "1",
    ] {
        refused(&source);
    }
    // Chains are no nesting, up to the limit on length.
    for source in [
        "1+".repeat(40_000) + "1",
        "a".to_owned() + &".b".repeat(40_000),
        "!".repeat(90_000) + "a",
    ] {
        let ast = parse(&source, syntax()).unwrap();
        assert!(
            parse(
                &print(&ast),
                Syntax {
                    limits: Limits {
                        length: 1 << 20,
                        ..Limits::default()
                    },
                    ..syntax()
                }
            )
            .unwrap()
            .same(&ast)
        );
    }
}

#[test]
fn problems_are_drawn_under_the_expression() {
    let problems = parse("a +\n  b @ c", syntax()).unwrap_err();
    assert_eq!(
        problems.drawn(),
        "2:5: Syntax error: token recognition error at: '@'\n |   b @ c\n |     ^\n"
    );
}
