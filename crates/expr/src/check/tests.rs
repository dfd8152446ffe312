use deltaplane_api::field;
use deltaplane_schema::crd;
use serde_json::json;

use crate::decl::{Absent, Decl, Exposure, Reading};
use crate::env::{self, Env};

fn environment() -> Env {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {
                "replicas": {"type": "integer"},
                "image": {"type": "string"},
                "ports": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "number": {"type": "integer"}}}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "port": {"x-kubernetes-int-or-string": true},
                "since": {"type": "string", "format": "date-time"},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": {"type": "string"}}},
            }},
        },
    });
    let schema = crd::compile(&schema, &field::Path::root(), crd::Options::default()).unwrap();
    let reading = Reading {
        absent: Absent::Waits,
        exposure: Exposure::Open,
        resource: true,
    };
    let decl = Decl::of_schema(&schema, "app", reading).unwrap();
    env::kro()
        .build()
        .with_variables([("app".to_owned(), decl)])
}

/// The type of an expression, or everything that is wrong with it.
fn check(source: &str, expected: &str) {
    let env = environment();
    let ast = crate::parse(source, &env).unwrap();
    let found = match super::check(&ast, &env) {
        Ok(checked) => checked.ty(ast.root()).to_string(),
        Err(problems) => problems.to_string(),
    };
    assert_eq!(found, expected, "{source}");
}

#[test]
fn schemas_give_types() {
    let cases = [
        ("app.spec.replicas", "int"),
        ("app.spec.replicas + 1 > 2", "bool"),
        ("app.spec.ports.map(p, p.name)", "list(string)"),
        ("app.spec.labels['a']", "string"),
        ("app.spec.labels.all(k, v, k == v)", "bool"),
        (
            "app.spec.labels.transformMap(k, v, v.size())",
            "map(string, int)",
        ),
        ("app.spec.port", "dyn"),
        ("app.spec.since", "google.protobuf.Timestamp"),
        ("app.metadata.name", "string"),
        ("app.spec.open.known", "string"),
        ("app.spec.open.unknown.deeper", "dyn"),
        ("app.?spec.?image", "optional_type(string)"),
        ("app.?spec.image.orValue('x')", "string"),
        ("app.spec.ports[0]", "app.spec.ports.@idx"),
        ("[]", "list(dyn)"),
        ("[1, 'a']", "list(dyn)"),
        ("{'a': 1}", "map(string, int)"),
        ("true ? 1 : dyn('x')", "dyn"),
        (
            "cel.bind(x, app.spec.ports, x.filter(p, p.number > 1))",
            "list(app.spec.ports.@idx)",
        ),
        ("type(1)", "type(int)"),
    ];
    for (source, ty) in cases {
        check(source, ty);
    }
}

#[test]
fn every_error_is_reported_in_order() {
    check(
        "app.spec.nope == 1 && app.spec.image + 1 == 2 && undeclared",
        "1:9: undefined field 'nope'\n\
         1:23: found no matching overload for '_+_' applied to '(string, int)'\n\
         1:50: undeclared reference to 'undeclared' (in container '')",
    );
    let cases = [
        (
            "app.spec.image.nope()",
            "1:1: undeclared reference to 'nope' (in container '')",
        ),
        (
            "app.spec.replicas.size()",
            "1:1: found no matching overload for 'size' applied to 'int.()'",
        ),
        (
            "app.spec.replicas.x",
            "1:1: type 'int' does not support field selection",
        ),
        (
            "app.spec.ports.all(p, p.name)",
            "1:23: expected type 'bool' but found 'string'",
        ),
        (
            "app.spec.replicas.map(x, x)",
            "1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        (
            "1 ? 2 : 3",
            "1:1: found no matching overload for '_?_:_' applied to '(int, int, int)'",
        ),
        (
            "Foo{a: 1}",
            "1:1: undeclared reference to 'Foo' (in container '')",
        ),
        (
            "true ? 1 : 'x'",
            "1:1: found no matching overload for '_?_:_' applied to '(bool, int, string)'",
        ),
    ];
    for (source, problems) in cases {
        check(source, problems);
    }
}

#[test]
fn references_are_paths_from_variables() {
    let env = environment();
    let paths = |source: &str| {
        let ast = crate::parse(source, &env).unwrap();
        let mut found: Vec<String> = super::references(&ast, &env)
            .iter()
            .map(|one| one.path.to_string())
            .collect();
        found.dedup();
        found.join(" ")
    };
    let cases = [
        ("app.spec.replicas + 1", "app.spec.replicas"),
        (
            "app.spec.ports[0].name + app.spec.labels['a/b']",
            "app.spec.ports[0].name app.spec.labels[\"a/b\"]",
        ),
        (
            "app.spec.ports.all(p, p.number > app.spec.replicas)",
            "app.spec.ports app.spec.ports[*].number app.spec.replicas",
        ),
        ("has(app.spec.image)", "app.spec.image"),
        ("cel.bind(s, app.spec, s.image)", "app.spec app.spec.image"),
        ("[1].map(app, app)", ""),
        ("app.?spec.image", "app.spec.image"),
    ];
    for (source, expected) in cases {
        assert_eq!(paths(source), expected, "{source}");
    }
}

/// Variables of types that stand for each other make chains as long as the expression.
#[test]
fn chains_of_unknown_types_are_no_problem() {
    let env = env::kro().build();
    let chain = vec!["[]"; 30_000].join("+");
    let ast = crate::parse(&chain, &env).unwrap();
    let checked = super::check(&ast, &env).unwrap();
    assert_eq!(checked.ty(ast.root()).to_string(), "list(dyn)");
    let one = format!("cel.bind(a, [], [{}])", vec!["a + []"; 10_000].join(", "));
    let ast = crate::parse(&one, &env).unwrap();
    assert!(super::check(&ast, &env).is_ok());
}

/// Types share their parts, but are compared as trees.
#[test]
fn types_that_double_are_refused() {
    let env = env::kro().build();
    let mut source = "x30".to_owned();
    for level in (1..=30).rev() {
        let before = level - 1;
        source = format!("[{{x{before}: x{before}}}].map(x{level}, {source})");
    }
    let source = format!("[{{1: 1}}].map(x0, {source})");
    let ast = crate::parse(&source, &env).unwrap();
    let problems = super::check(&ast, &env).unwrap_err().to_string();
    assert!(problems.contains("too many parts"), "{problems}");
}

#[test]
fn nobody_reads_more_than_a_hundred_problems() {
    let env = env::kro().build();
    let ast = crate::parse(&vec!["a"; 20_000].join("+"), &env).unwrap();
    let problems = super::check(&ast, &env).unwrap_err();
    assert_eq!(problems.iter().count(), 100);
    assert!(problems.reported().len() < 1_000_000);
}

/// The paths of a long chain together would be as long as its square.
#[test]
fn costs_of_long_chains_are_estimated() {
    let env = env::kro().build().with_dynamic(&["x"], Absent::Fails);
    let ast = crate::parse(&format!("x{}", ".a".repeat(40_000)), &env).unwrap();
    let checked = super::check(&ast, &env).unwrap();
    assert!(crate::cost::estimate(&ast, &checked, &env).min > 0);
}

#[test]
fn literals_fit_as_kubernetes_wants_them() {
    let cases = [
        ("[1, 2]", "list(int)"),
        ("[[], [1]]", "list(list(int))"),
        ("'%s %d'.format([[1, 'a'], 1])", "string"),
        ("'%s'.format([size([1, 'a'])])", "string"),
        ("[1, dyn(2)]", "1:5: expected type 'int' but found 'dyn'"),
        (
            "[int, string]",
            "1:7: expected type 'type(int)' but found 'type(string)'",
        ),
        (
            "{'a': 1, 'b': 'c', 2: 2}",
            "1:15: expected type 'int' but found 'string'\n\
             1:20: expected type 'string' but found 'int'",
        ),
        ("'%s %s'.format([1])", "1:1: index 1 out of range"),
        (
            "'%s'.format([1, 2])",
            "1:1: too many arguments supplied to string.format (expected 1, got 2)",
        ),
        (
            "'%o'.format(['a'])",
            "1:14: error during formatting: octal clause can only be used on integers, was given string",
        ),
        (
            "'%y'.format([1])",
            "1:1: could not parse formatting clause: unrecognized formatting clause \"y\"",
        ),
    ];
    let env = env::kubernetes();
    for (source, expected) in cases {
        let ast = crate::parse(source, &env).unwrap();
        let found = match super::check(&ast, &env) {
            Ok(checked) => checked.ty(ast.root()).to_string(),
            Err(problems) => problems.to_string(),
        };
        assert_eq!(found, expected, "{source}");
    }
}

#[test]
fn calls_that_do_not_fit_come_with_those_that_would() {
    let env = environment();
    let expected = |source: &str| {
        let ast = crate::parse(source, &env).unwrap();
        let problems = super::check(&ast, &env).unwrap_err();
        let problem = problems.iter().next().unwrap();
        assert!(!problems.reported().contains("->"));
        problems.expected(problem).join("; ")
    };
    let cases = [
        (
            "app.spec.image + 1",
            "(int, int) -> int; (string, string) -> string; (bytes, bytes) -> bytes; \
             (double, double) -> double; (google.protobuf.Duration, google.protobuf.Duration) -> google.protobuf.Duration; 4 more",
        ),
        ("app.spec.image.startsWith(1)", "string.(string) -> bool"),
        ("app.spec.nope", ""),
    ];
    for (source, signatures) in cases {
        assert_eq!(expected(source), signatures, "{source}");
    }
}

#[test]
fn names_that_stand_for_nothing_are_found() {
    let env = env::kro()
        .build()
        .with_dynamic(&["app"], crate::Absent::Waits);
    for (source, unknown) in [
        ("app.spec.name + base64.encode(b'x')", &[][..]),
        ("ap.spec.name + app.x", &["ap"]),
        ("[1].map(x, x + y)", &["y"]),
        (
            "type(1) == google.protobuf.Timestamp || google.x",
            &["google"],
        ),
        ("b.f(a) ? c : cel.bind(d, e, d)", &["b", "a", "c", "e"]),
    ] {
        let ast = crate::parse(source, &env).unwrap();
        let found = super::names(&ast, &env).unknown;
        let found: Vec<&str> = found.iter().map(|(_, name)| &**name).collect();
        assert_eq!(found, unknown, "{source}");
    }
}
