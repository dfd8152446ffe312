use serde_json::{Value as Json, json};

use super::{Bindings, Eval};
use crate::decl::{Absent, Decl, Reading};
use crate::env;
use crate::meter::{Budget, Meter};
use crate::syntax::Template;
use crate::value::{LazyJson, Value};

/// What an expression about `x` comes to, in words.
fn eval(source: &str, x: &Json, absent: Absent) -> String {
    let env = env::kro().build().with_dynamic(&["x"], absent);
    let program = match crate::compile(source, &env) {
        Ok(program) => program,
        Err(problems) => return problems.to_string(),
    };
    let mut bindings = Bindings::new(&env);
    bindings.set_json(&env, env.slot("x").unwrap(), x).unwrap();
    match program.eval(&bindings, Budget::default()) {
        Eval::Value(value) => match value.to_json(&mut Meter::new(Budget::default())) {
            Ok(json) => json.to_string(),
            Err(fault) => fault.to_string(),
        },
        Eval::Waiting(path) => format!("waiting for {path}"),
        Eval::Failed(failure) => {
            let span = failure.span;
            format!("{}..{}: {}", span.start, span.end, failure.reason)
        }
        Eval::Stopped(stopped) => stopped.to_string(),
    }
}

#[test]
fn what_is_bound_is_evaluated_when_it_is_read() {
    let x = json!({"a": {"b": 1}, "list": [1, 2]});
    let cases = [
        ("cel.bind(v, x.nope, true)", "true"),
        ("cel.bind(v, x.nope, x.a.b == 1 || v)", "true"),
        ("cel.bind(v, x.nope, x.a.b == 2 || v)", "waiting for x.nope"),
        ("cel.bind(v, x.a, cel.bind(w, v.c, w))", "waiting for x.a.c"),
        ("cel.bind(v, 1 / 0, v > 0 || v < 0 || true)", "true"),
        ("cel.bind(v, 1 / 0, v)", "12..17: division by zero"),
        (
            "cel.bind(v, x.list.map(i, i + 1), [7].map(j, v.map(i, i + j)))",
            "[[9,10]]",
        ),
        (
            "cel.bind(a, x.p, cel.bind(b, x.q, cel.bind(c, x.r, cel.bind(d, x.s, \
             cel.bind(e, x.t, cel.bind(f, e, true))))))",
            "true",
        ),
        (
            "cel.bind(a, 1, cel.bind(b, 1, cel.bind(c, 1, cel.bind(d, 1, \
             cel.bind(e, x.t, cel.bind(f, e.u, f))))))",
            "waiting for x.t",
        ),
    ];
    // In a long program some are evaluated where they are bound, but nobody sees their faults.
    let long = format!("[{}x.a.b]", "x.a.b, ".repeat(super::SHORT));
    for (source, wanted) in cases {
        assert_eq!(eval(source, &x, Absent::Waits), wanted, "{source}");
        let longer = format!("[dyn({long}), dyn({source})][1]");
        let wanted = wanted.split(": ").last().unwrap();
        let said = eval(&longer, &x, Absent::Waits);
        assert!(said.ends_with(wanted), "{source}: {said}");
    }
}

#[test]
fn what_is_bound_costs_once_and_only_when_it_is_read() {
    let env = env::kro().build();
    let cost = |source: &str| {
        let program = crate::compile(source, &env).unwrap();
        let mut meter = Meter::new(Budget::default());
        let result = program.eval_metered(&Bindings::new(&env), &mut meter);
        assert!(matches!(result, Eval::Value(_)), "{source}: {result:?}");
        meter.cost()
    };
    assert_eq!(cost("cel.bind(v, lists.range(50), true)"), 0);
    assert_eq!(cost("cel.bind(v, lists.range(50), v)"), 62);
    assert_eq!(cost("cel.bind(v, lists.range(50), v == v)"), 61 + 1 + 1 + 5);
}

#[test]
fn variables_that_read_each_other_do_not_exhaust_the_stack() {
    let chain = |count: usize, depth: usize| {
        let (open, close) = ("[1].map(i, ".repeat(depth), ")[0]".repeat(depth));
        let mut source = format!("{open}v{count}{close}");
        for at in (1..=count).rev() {
            source = format!("cel.bind(v{at}, {open}v{}{close}, {source})", at - 1);
        }
        format!("cel.bind(v0, 7, {source})")
    };
    let env = env::kro().build();
    for count in [1, 2, 4, 20] {
        let fits = |depth: &usize| crate::compile(&chain(count, *depth), &env).is_ok();
        let deepest = (0..200).rev().find(fits).unwrap();
        assert!(deepest > 20, "{count}: {deepest}");
        for depth in [1, 5, deepest] {
            let source = chain(count, depth);
            assert_eq!(eval(&source, &Json::Null, Absent::Fails), "7", "{count}");
        }
    }
}

#[test]
fn faults_follow_the_lattice() {
    let x = json!({"a": {"b": 1}, "list": [{"n": 1}, {}], "t": true});
    let cases = [
        ("x.a.c", "waiting for x.a.c"),
        ("x.a.c.d.e", "waiting for x.a.c"),
        ("x.list[5].n", "waiting for x.list[5]"),
        ("x.list[x.a.b].n", "waiting for x.list[*].n"),
        ("x.list.map(i, i.n)", "waiting for x.list[1].n"),
        ("x.list.exists(i, i.n == 1)", "true"),
        ("x.list.all(i, i.n == 1)", "waiting for x.list[1].n"),
        ("x.list.all(i, i.n == 2)", "false"),
        ("cel.bind(a, x.a, a.q)", "waiting for x.a.q"),
        // What is made of what may come may come.
        (
            "x.list.filter(i, i.?n.orValue(0) == 7)[0].n",
            "waiting for x.list[*][0]",
        ),
        ("x.list.map(i, 1)[5]", "waiting for x.list[*][5]"),
        ("x.a.merge({'z': 1}).q", "waiting for x.a.q"),
        ("dyn(x).a.q", "waiting for x.a.q"),
        (
            "cel.bind(y, x.list.map(i, i), y)[5]",
            "waiting for x.list[*][5]",
        ),
        ("x.nope.matches('(')", "waiting for x.nope"),
        ("(x.t ? x.a : x.list[0]).q", "waiting for x.a.q"),
        // It waits, but nobody remembers where a value in a literal is from.
        ("{'k': x.a}.transformList(k, v, v.q)", "waiting for ?.q"),
        ("x.transformList(k, v, v.q)", "waiting for x[*].q"),
        // What is written down stays as it is, and what cannot be there never comes.
        ("[x.t][1]", "0..8: index out of bounds: 1"),
        ("cel.bind(y, [x.t], y)[1]", "0..24: index out of bounds: 1"),
        ("{'a': x.t}.b", "0..12: no such key: b"),
        ("x.list[-1]", "0..10: index out of bounds: -1"),
        ("x.a[1]", "0..6: no such key: 1"),
        ("x.a.c == 1 || x.t", "true"),
        ("x.t || x.a.c == 1", "true"),
        ("x.a.c == 1 && !x.t", "false"),
        ("x.a.c == 1 && 1 / 0 == 1", "waiting for x.a.c"),
        ("1 / 0 == 1 && x.a.c == 1", "waiting for x.a.c"),
        ("1 / 0 == 1 && x.t", "0..5: division by zero"),
        ("1 / 0 + x.a.c", "0..5: division by zero"),
        ("has(x.a.c)", "false"),
        ("x.?a.?c.orValue(7)", "7"),
        ("x.?a.?b.orValue(1 / 0)", "1"),
        ("x.t ? 1 : x.nope", "1"),
        ("x.nope ? 1 : 2", "waiting for x.nope"),
    ];
    for (source, expected) in cases {
        assert_eq!(eval(source, &x, Absent::Waits), expected, "{source}");
    }
    assert_eq!(eval("x.a.c", &x, Absent::Fails), "0..5: no such key: c");
    assert_eq!(
        eval("x.list[9]", &x, Absent::Fails),
        "0..9: index out of bounds: 9"
    );
}

/// Found by asking cel-go.
#[test]
fn costs_are_counted_as_cel_go_counts_them() {
    let s = "a".repeat(49);
    let x = json!({"s": s, "y": "/".repeat(136)});
    let schema = json!({
        "type": "object",
        "properties": {"s": {"type": "string"}, "y": {"type": "string", "format": "byte"}},
    });
    let path = deltaplane_api::field::Path::root();
    let schema = deltaplane_schema::crd::compile(&schema, &path, Default::default()).unwrap();
    let decl = Decl::of_schema(&schema, "x", Reading::default()).unwrap();
    let env = env::kro().build().with_variables([("x".to_owned(), decl)]);
    let cases = [
        // As a function it costs one, whatever the pattern is.
        ("matches(x.s, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')", 3),
        ("x.s.matches('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')", 42),
        // A call that fails has cost what it costs: these bytes are no text.
        ("string(x.y)", 2 + 11),
        // What is computed ahead of time and free does not make free what is made of it.
        ("string([].sum())", 1),
        ("[[].sum()]", 10),
        // What fails is charged for by what does not; of more than two arguments none is.
        ("[{}.a]", 11 + 1),
        ("{'a': {}.a}", 31 + 1),
        ("{}.a + x.s + x.s", 14 + 2),
        ("{}.a.contains(x.s)", 8 + 1),
        ("{}.a == ''", 2),
        ("x.s.replace({}.a, x.s)", 2 + 2),
    ];
    for (source, expected) in cases {
        let program = crate::compile(source, &env).unwrap();
        let mut bindings = Bindings::new(&env);
        bindings.set_json(&env, env.slot("x").unwrap(), &x).unwrap();
        let mut meter = Meter::new(Budget::default());
        program.eval_metered(&bindings, &mut meter);
        assert_eq!(meter.cost(), expected, "{source}");
    }
}

/// Found by asking cel-go.
#[test]
fn an_optional_can_be_in_another() {
    for source in [
        "{1: optional.of(2)}[?1].value().value() == 2",
        "optional.of({1: optional.of(2)})[1].value().value() == 2",
        "optional.of({'a': optional.none()}).a.hasValue()",
        "[optional.none()][?0].hasValue()",
        "{'a': optional.of(2)}.?a.value().value() == 2",
    ] {
        assert_eq!(eval(source, &json!({}), Absent::Fails), "true", "{source}");
    }
}

#[test]
fn the_sum_of_nothing_is_of_the_type_of_its_list() {
    let cases = [
        ("[duration('1s')].filter(i, false).sum()", "\"0s\""),
        ("type([1u].filter(i, false).sum()) == uint", "true"),
        ("type([1.5].filter(i, false).sum()) == double", "true"),
        ("x.sum()", "0"),
    ];
    for (source, expected) in cases {
        assert_eq!(
            eval(source, &json!([]), Absent::Fails),
            expected,
            "{source}"
        );
    }
}

/// Found by asking kro's own code.
#[test]
fn kro_functions_keep_kros_oddities() {
    let x = json!({
        "m": {"a": 1},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Up"}]},
    });
    let cases = [
        ("json.unmarshal('-0')", "-0.0"),
        ("json.marshal([1e-7, 1e21, 0.1])", "\"[1e-7,1e+21,0.1]\""),
        ("json.marshal(duration('90s'))", "\"\\\"1m30s\\\"\""),
        (
            "json.marshal({1: 2})",
            "0..20: a map with a key of type int has no JSON form",
        ),
        (
            "x.m.deepMerge(1)",
            "0..16: no such overload: deepMerge(map, int)",
        ),
        ("runtime.condition(x, 'Ready').reason", "\"Up\""),
        ("runtime.condition(x, 'Nope').type", "\"\""),
        (
            "runtime.newCondition({type: 'A', status: 'True'}).status",
            "\"True\"",
        ),
        (
            "runtime.newCondition({type: 'A', status: 'True'}).nope",
            "1:50: undefined field 'nope'",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(eval(source, &x, Absent::Waits), expected, "{source}");
    }
}

#[test]
fn kro_functions_give_kros_results() {
    let x = json!({
        "m": {"a": 1, "b": {"c": 2, "d": [1]}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Up", "message": "<ok>"}]},
        "l": [1, 2, 3],
    });
    let cases = [
        (
            "'%x'.format([hash.fnv64a('hello world')])",
            "\"779a65e7023cd2e7\"",
        ),
        (
            "'%x'.format([hash.md5('')])",
            "\"d41d8cd98f00b204e9800998ecf8427e\"",
        ),
        (
            "'%x'.format([hash.sha256('')])",
            "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"",
        ),
        (
            "random.seededString(20, 'test-seed')",
            "\"5czheg3o5czheg3o5czh\"",
        ),
        (
            "random.seededString(0, 'x')",
            "0..27: random.seededString length must be positive",
        ),
        ("random.seededInt(5, 6, 'x')", "5"),
        (
            "random.seededInt(6, 6, 'x')",
            "0..27: random.seededInt min (6) must be less than max (6)",
        ),
        ("json.unmarshal('{\"a\": [1, 2.5]}')", "{\"a\":[1.0,2.5]}"),
        (
            "json.unmarshal('{')",
            "0..19: failed to unmarshal JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            "json.marshal({'b': '<&>', 'a': 1.0, 'c': b'hi'})",
            "\"{\\\"a\\\":1,\\\"b\\\":\\\"\\\\u003c\\\\u0026\\\\u003e\\\",\\\"c\\\":\\\"aGk=\\\"}\"",
        ),
        ("{'a': 1}.merge({'a': 2, 'b': 3})", "{\"a\":2,\"b\":3}"),
        (
            "x.m.deepMerge({'b': {'c': 9, 'd': [5]}})",
            "{\"a\":1,\"b\":{\"c\":9,\"d\":[5]}}",
        ),
        ("lists.setAtIndex(x.l, 1, 9)", "[1,9,3]"),
        ("lists.insertAtIndex(x.l, 3, 9)", "[1,2,3,9]"),
        ("lists.removeAtIndex(x.l, 0)", "[2,3]"),
        (
            "lists.removeAtIndex(x.l, 3)",
            "0..27: lists.removeAtIndex: index 3 out of bounds [0, 3)",
        ),
        ("runtime.condition(x, 'Ready').reason", "\"Up\""),
        ("runtime.condition(x, 'Nope').status", "\"\""),
        (
            "runtime.newCondition({type: 'A', status: x.l.size() > 2 ? 'True' : 'False', reason: 'R'})",
            "{\"message\":\"\",\"reason\":\"R\",\"status\":\"True\",\"type\":\"A\"}",
        ),
        ("x.l.indexOf(2) + 'abc'.indexOf('c')", "3"),
    ];
    for (source, expected) in cases {
        assert_eq!(eval(source, &x, Absent::Fails), expected, "{source}");
    }
}

#[test]
fn omitted_values_are_recognised_and_cannot_be_compared() {
    let env = env::kro().library(crate::Library::KroOmit).build();
    let program = crate::compile("[omit(), 1]", &env).unwrap();
    let bindings = Bindings::new(&env);
    let Eval::Value(Value::List(list)) = program.eval(&bindings, Budget::default()) else {
        panic!("no list");
    };
    let omitted: Vec<bool> = list
        .iter()
        .map(|item| crate::is_omitted(&item.unwrap()))
        .collect();
    assert_eq!(omitted, [true, false]);
    let program = crate::compile("omit() == omit()", &env).unwrap();
    assert!(matches!(
        program.eval(&bindings, Budget::default()),
        Eval::Failed(_)
    ));
}

#[test]
fn nothing_works_without_bound() {
    let x = json!([]);
    let mut grow = String::from("a40.size()");
    for step in (1..=40).rev() {
        grow = format!("cel.bind(a{step}, a{0} + a{0}, {grow})", step - 1);
    }
    let lists = format!("cel.bind(a0, [1, 2, 3], {grow})");
    let strings = format!("cel.bind(a0, 'abcdefgh', {grow})");
    for source in [
        lists.as_str(),
        strings.as_str(),
        "lists.range(1000000).map(x, lists.range(1000000)).size()",
        "lists.range(3000).all(a, lists.range(3000).all(b, lists.range(3000).all(c, true)))",
        "'a'.matches('(((a{100}){100}){100}){100}')",
        r"'a'.matches('^\\pL{1000}\\pL{1000}$')",
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'.matches('^(a+)+$') ? 1 : lists.range(1000001)[0]",
    ] {
        let outcome = eval(source, &x, Absent::Fails);
        let stopped = outcome.contains("limit exceeded")
            || outcome.contains("too large")
            || outcome.contains("invalid repeat count")
            || outcome.contains("not between");
        assert!(stopped, "{}: {outcome}", &source[..source.len().min(60)]);
    }
}

#[test]
fn bytes_are_parsed_when_they_are_looked_at() {
    let env = env::kro().build().with_dynamic(&["a", "b"], Absent::Waits);
    let program = crate::compile("a.n > 1 && b.n > 1", &env).unwrap();
    let eval = |a: &[u8], b: &[u8]| {
        let (a, b) = (LazyJson::new(a), LazyJson::new(b));
        let mut bindings = Bindings::new(&env);
        bindings.set_lazy(env.slot("a").unwrap(), &a);
        bindings.set_lazy(env.slot("b").unwrap(), &b);
        let shown = match program.eval(&bindings, Budget::default()) {
            Eval::Value(value) => format!("{:?}", value.as_bool()),
            Eval::Waiting(path) => format!("waiting for {path}"),
            other @ (Eval::Failed(_) | Eval::Stopped(_)) => format!("{other:?}"),
        };
        (shown, a.is_parsed(), b.is_parsed())
    };
    let (two, one): (&[u8], &[u8]) = (br#"{"n": 2}"#, br#"{"n": 1}"#);
    assert_eq!(eval(two, two), ("Some(true)".to_owned(), true, true));
    // What is not looked at may be anything.
    assert_eq!(eval(one, b"\xff{"), ("Some(false)".to_owned(), true, false));
    assert_eq!(eval(two, b"{}"), ("waiting for b.n".to_owned(), true, true));
    let (shown, ..) = eval(two, b"{");
    assert!(shown.contains("expected JSON: EOF"), "{shown}");
}

#[test]
fn reading_bytes_is_work() {
    let env = env::kro().build().with_dynamic(&["x"], Absent::Fails);
    let program = crate::compile("x.size()", &env).unwrap();
    let text = format!("[{}1]", "1,".repeat(5_000));
    let json = LazyJson::new(text.as_bytes());
    let mut bindings = Bindings::new(&env);
    bindings.set_lazy(env.slot("x").unwrap(), &json);
    let budget = Budget {
        steps: 100,
        ..Budget::default()
    };
    assert!(matches!(program.eval(&bindings, budget), Eval::Stopped(_)));
    assert!(!json.is_parsed());
}

#[test]
fn templates_are_values_or_texts() {
    let env = env::kro().build().with_dynamic(&["x"], Absent::Waits);
    let x = json!({"name": "web", "replicas": 3, "list": [1, 2]});
    let eval = |text: &str| match crate::compile_template(text, &env) {
        Ok(Template::Text) => "text".to_owned(),
        Ok(Template::Value(program) | Template::Joined(program)) => {
            let mut bindings = Bindings::new(&env);
            bindings.set_json(&env, env.slot("x").unwrap(), &x).unwrap();
            match program.eval(&bindings, Budget::default()) {
                Eval::Value(value) => {
                    let json = value.to_json(&mut Meter::new(Budget::default())).unwrap();
                    json.to_string()
                }
                Eval::Waiting(path) => format!("waiting for {path}"),
                Eval::Failed(failure) => {
                    let span = failure.span;
                    format!("{}..{}: {}", span.start, span.end, failure.reason)
                }
                Eval::Stopped(stopped) => stopped.to_string(),
            }
        }
        Err(problems) => problems.to_string(),
    };
    for (text, expected) in [
        ("plain", "text"),
        ("${x.list}", "[1,2]"),
        ("${x.replicas}", "3"),
        ("${x.name}\n", r#""web\n""#),
        ("${x.name}-${x.name}", r#""web-web""#),
        ("app-${x.name}-${string(x.replicas)}!", r#""app-web-3!""#),
        (r#"${"${X}"}"#, r#""${X}""#),
        ("${x.name // the name\n}!", r#""web!""#),
        ("app-${x.nope}", "waiting for x.nope"),
        // Nothing becomes a string by itself.
        (
            "app-${x.replicas}",
            "0..16: no such overload: _+_(string, int)",
        ),
        (
            "app-${1}-${'a'}-${[2]}",
            "1:7: expected type 'string' but found 'int': in a text, write string(…) around it\n\
             1:19: expected type 'string' but found 'list(int)': in a text, write string(…) around it",
        ),
        (
            "a-${nope}",
            "1:5: undeclared reference to 'nope' (in container '')",
        ),
        // What is in an expression stays in it.
        (
            "a-${x.name) + (x.name}",
            "1:11: Syntax error: unexpected ')', expecting the end of the expression",
        ),
    ] {
        assert_eq!(eval(text), expected, "{text}");
    }
}

/// What is done is counted, by the steps if not by the cost.
#[test]
fn work_that_the_cost_does_not_see_is_bounded() {
    let mut doubled = "[x40].indexOf(dyn(1))".to_owned();
    for level in (1..=40).rev() {
        let before = level - 1;
        doubled = format!("[dyn([x{before}, x{before}])].map(x{level}, {doubled})");
    }
    let doubled = format!("[dyn([1])].map(x0, {doubled})");
    let hex = format!("[x.s]{} == []", ".map(y, '%X'.format([y]))".repeat(20));
    let mut shared = "json.marshal(x45)".to_owned();
    for level in (1..=45).rev() {
        let before = level - 1;
        shared = format!("cel.bind(x{level}, dyn({{'a': x{before}, 'b': x{before}}}), {shared})");
    }
    let shared = format!("cel.bind(x0, dyn({{'z': 1}}), {shared})");
    let env = env::kro().build().with_dynamic(&["x"], Absent::Fails);
    let many = (0..10_000).map(|n| (n.to_string(), json!(n)));
    let many: serde_json::Map<String, Json> = many.collect();
    let pairs: Vec<String> = (0..50_000).map(|n| n.to_string()).collect();
    let x = json!({
        "s": "a".repeat(1_000_000), "t": "a".repeat(1_000_000), "m": many, "d": "1".repeat(1_000_000),
        "q": pairs.join("&"), "p": format!("(a|b)*a{}c", "[ab]".repeat(2_000)),
        "f": format!("{}%q", "%.999f".repeat(500)),
    });
    let budget = Budget {
        cost: u64::MAX,
        steps: 1_000_000,
    };
    for source in [
        "lists.range(1000).all(i, x.s.reverse() != '')",
        "lists.range(1000).all(i, base64.encode(bytes(x.s)) != '')",
        "lists.range(1000).all(i, random.seededInt(0, 9, x.s) < 9)",
        "lists.range(1000).all(i, !(x.s in {'a': 1}))",
        "lists.range(1000).all(i, [x.s] == [x.t])",
        "'%s'.format([lists.range(1000).map(i, x.s)]) == ''",
        "json.marshal(lists.range(1000).map(i, x.s)) == ''",
        "x.s.findAll('.*[^a]|[a]').size() > 0",
        "x.s.matches('a.{900}b!')",
        "x.s.matches('a.{90}' + 'b!')",
        "x.s.find('a.{90}b!') == ''",
        "x.s.split('').size() > 0",
        "x.s.replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') == ''",
        "lists.range(20).map(i, x.s).join() == ''",
        "lists.range(1000).all(i, x.m.exists(k, true))",
        "lists.range(1000).map(i, {x.s: 1, 'b': 1, 'c': 1, 'd': 1, 'e': 1, 'f': 1, 'g': 1, 'h': 1, 'i': 1, 'j': 1})",
        "lists.range(1000).all(i, !{'a': 1}[?x.s].hasValue())",
        "lists.range(1000).map(i, {x.s: 1}.merge({x.t: 1}))",
        "lists.range(1000).map(i, url('http://a/?' + x.s).getQuery())",
        "[url('http://a/?' + x.q)].map(u, lists.range(100).map(i, u.getQuery()))",
        "lists.range(1000).map(i, runtime.condition({'status': {'conditions': [{'type': 'T', 'message': x.s}]}}, 'T'))",
        "x.s.findAll('[ab]*a[ab]{900}c|[ab]')",
        "matches(x.s, x.p) || x.s.matches(x.p)",
        "[quantity(x.d)].all(q, lists.range(1000).all(i, q.compareTo(q) == 0))",
        "[quantity(x.d)].all(q, lists.range(1000).all(i, q == q))",
        "[bytes(x.s)].all(b, lists.range(1000).all(i, b == b))",
        "lists.range(1000).map(i, x.s + string(i)).sort()",
        "lists.range(1000).map(i, x.s + string(i)).max()",
        "lists.range(100).all(i, x.f.format(lists.range(501).map(j, 1.0)) == '' || true)",
        "x.s + x.s + x.s + x.s + x.s + x.s + x.s + x.s + x.s + x.s + x.s + x.s + x.s + x.s + x.s + x.s + x.s + x.s",
        hex.as_str(),
        shared.as_str(),
        doubled.as_str(),
    ] {
        let program = crate::compile(source, &env).unwrap();
        let mut bindings = Bindings::new(&env);
        bindings.set_json(&env, env.slot("x").unwrap(), &x).unwrap();
        let end = program.eval(&bindings, budget);
        assert!(matches!(end, Eval::Stopped(_)), "{source}: {end:?}");
    }
}

#[test]
fn a_null_field_is_no_entry() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "nullable": true}, "b": {"type": "string"}}});
    let env = declared(&schema);
    let x = json!({"a": null, "b": "y"});
    assert_eq!(
        told("dyn(x).all(k, v, k == 'b' && v == 'y')", &env, &x),
        "true"
    );
    assert_eq!(
        told("dyn(x).transformMap(k, v, v)", &env, &x),
        r#"{"b":"y"}"#
    );
}

#[test]
fn fields_that_nobody_declared_count_when_objects_are_compared() {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "a": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": {"type": "string"}}},
        "b": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": {"type": "string"}}}}});
    let env = declared(&schema);
    for (a, b, same) in [
        (
            json!({"known": "a", "x": {"y": [1]}}),
            json!({"known": "a", "x": {"y": [1]}}),
            "true",
        ),
        (
            json!({"known": "a", "x": {"y": [1]}}),
            json!({"known": "a", "x": {"y": [2]}}),
            "false",
        ),
        (
            json!({"known": "a", "x": 1}),
            json!({"known": "a", "y": 1}),
            "false",
        ),
        (
            json!({"known": null, "x": 1}),
            json!({"x": 1, "known": null}),
            "true",
        ),
        (json!({"known": null}), json!({"x": 1}), "false"),
        (json!({"known": "a"}), json!({"known": "b"}), "false"),
    ] {
        let x = json!({"a": a, "b": b});
        assert_eq!(told("dyn(x.a) == dyn(x.b)", &env, &x), same, "{x}");
    }
}

/// One step of an expression meets objects of several types, whose fields are not in the same
/// places: where one was found says nothing about the next.
#[test]
fn a_field_is_found_in_objects_of_all_types() {
    let text = || json!({"type": "string"});
    let env = declared(&json!({"type": "object", "properties": {
        "one": {"type": "object", "properties": {"name": text(), "other": text()}},
        "two": {"type": "object", "properties": {"a": text(), "b": text(), "name": text()}},
        "three": {"type": "object", "properties": {"a": text()}},
    }}));
    let x = json!({
        "one": {"name": "1", "other": "no"}, "two": {"a": "no", "b": "no", "name": "2"},
        "three": {"a": "no"},
    });
    let all = "[dyn(x.one), dyn(x.two), dyn(x.one), dyn(x.three), dyn(x.two)]";
    let read = format!("{all}.filter(v, has(v.name)).map(v, v.name)");
    assert_eq!(told(&read, &env, &x), r#"["1","2","1","2"]"#);
    let read = format!("{all}.map(v, v.?name.orValue('none'))");
    assert_eq!(told(&read, &env, &x), r#"["1","2","1","none","2"]"#);
}

/// An environment in which `x` has a schema.
fn declared(schema: &Json) -> env::Env {
    let path = deltaplane_api::field::Path::root();
    let options = deltaplane_schema::crd::Options::default();
    let schema = deltaplane_schema::crd::compile(schema, &path, options).unwrap();
    let decl = Decl::of_schema(&schema, "x", Reading::default()).unwrap();
    env::kro().build().with_variables([("x".to_owned(), decl)])
}

/// What an expression about the `x` of an environment comes to.
fn told(source: &str, env: &env::Env, x: &Json) -> String {
    let program = crate::compile(source, env).unwrap();
    let mut bindings = Bindings::new(env);
    bindings.set_json(env, env.slot("x").unwrap(), x).unwrap();
    match program.eval(&bindings, Budget::default()) {
        Eval::Value(value) => {
            let json = value.to_json(&mut Meter::new(Budget::default())).unwrap();
            json.to_string()
        }
        other @ (Eval::Waiting(_) | Eval::Failed(_) | Eval::Stopped(_)) => format!("{other:?}"),
    }
}

/// Nests operators in calls as deeply as texts can be, on as little stack as a server's thread has.
#[test]
fn the_deepest_texts_need_little_stack() {
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}x.n{}", open.repeat(depth), close.repeat(depth))
    };
    let run = move || {
        let env = env::kro().build().with_dynamic(&["x"], Absent::Fails);
        let x = json!({"n": 1, "t": "a"});
        for (open, close) in [
            ("int(", ")*1*1*1*1*1*1*1"),
            ("dyn(", ")-1+1-1+1-1+1-1"),
            ("[", "][0]*1%2*1%2*1%2*1"),
            ("(true ? ", " : 0)*1*1*1*1*1*1*1"),
            ("[1].map(i, ", ")[0]*1*1*1*1*1*1*1"),
            ("optional.of(", ").orValue(0)*1*1*1*1*1*1*1"),
        ] {
            let deepest = (1..400)
                .rev()
                .map(|depth| nested(open, close, depth))
                .find(|source| crate::parse(source, &env).is_ok())
                .expect("one level is few");
            for unchecked in [false, true] {
                let ast = crate::parse(&deepest, &env).expect("it was");
                let checked = crate::check::check(&ast, &env).ok().filter(|_| !unchecked);
                let program = crate::lower(&ast, checked.as_ref(), &env).expect("it compiles");
                let mut bindings = Bindings::new(&env);
                let slot = env.slot("x").expect("declared");
                bindings.set_json(&env, slot, &x).expect("any JSON fits");
                let result = program.eval(&bindings, Budget::default());
                assert!(!matches!(result, Eval::Stopped(_)), "{deepest}: {result:?}");
            }
        }
    };
    let small = std::thread::Builder::new().stack_size(2 << 20);
    small
        .spawn(run)
        .expect("a thread")
        .join()
        .expect("no fault");
}

/// A long chain of selections from the answer of `has`, which nobody checked.
#[test]
fn selections_from_an_answer_need_no_stack() {
    let env = env::kro().build().with_dynamic(&["x"], Absent::Fails);
    let source = format!("has(x.a){}", ".b".repeat(45_000));
    let ast = crate::parse(&source, &env).expect("it is text enough");
    let program = crate::lower(&ast, None, &env).expect("nothing is refused");
    let mut bindings = Bindings::new(&env);
    let x = json!({"a": 1});
    bindings.set_json(&env, env.slot("x").unwrap(), &x).unwrap();
    let end = program.eval(&bindings, Budget::default());
    let Eval::Failed(failure) = end else {
        panic!("{end:?}");
    };
    let said = failure.reason.to_string();
    assert!(said.contains("type 'bool' has no fields"), "{said}");
}

/// Patterns that are written down are compiled once, however often and wherever they are used.
#[test]
fn constant_patterns_are_compiled_once() {
    let env = env::kro().build().with_dynamic(&["x"], Absent::Fails);
    let x = json!({"s": "a1b22"});
    let steps = |source: &str| {
        let program = crate::compile(source, &env).unwrap();
        let mut bindings = Bindings::new(&env);
        bindings.set_json(&env, env.slot("x").unwrap(), &x).unwrap();
        let mut meter = Meter::new(Budget::default());
        let end = program.eval_metered(&bindings, &mut meter);
        assert!(matches!(end, Eval::Value(Value::Bool(true))), "{end:?}");
        meter.steps()
    };
    // Compiling takes 100,000 steps.
    assert!(steps("x.s.find('[0-9]+') == '1' && x.s.findAll('[0-9]+') == ['1', '22']") < 100);
    assert!(steps("x.s.matches('[0-9]+') && x.s.matches('^a')") < 100);
    assert!(steps("x.s.find('[0-9]' + (x.s == '' ? '' : '+')) == '1'") > 100_000);
    // They may be as large as those that are matched.
    assert!(steps("x.s.find('.{999}!') == ''") < 1000);
}

/// What is left of a chain is evaluated and charged when one of its terms fails, as in cel-go.
#[test]
fn chains_cost_the_same_when_they_fail() {
    let env = env::kro().build().with_dynamic(&["x"], Absent::Fails);
    let x = json!({"s": "a", "n": 1});
    let cost = |source: &str| {
        let program = crate::compile(source, &env).unwrap();
        let mut bindings = Bindings::new(&env);
        bindings.set_json(&env, env.slot("x").unwrap(), &x).unwrap();
        let mut meter = Meter::new(Budget::default());
        let _ = program.eval_metered(&bindings, &mut meter);
        meter.cost()
    };
    let whole = cost("x.s + x.s + x.s + x.s");
    for source in [
        "x.none + x.s + x.s + x.s",
        "x.s + x.none + x.s + x.s",
        "x.s + x.s + x.s + x.none",
        "x.n + x.s + x.s + x.s",
    ] {
        assert_eq!(cost(source), whole, "{source}");
    }
    let pairs = cost("((x.none + x.s) + x.s) + x.s");
    assert_eq!(pairs, whole);
}

/// Long lists of which only the order changed are compared by what their items are told apart by.
#[test]
fn reordered_sets_and_maps_are_compared_in_one_go() {
    let item = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "port": {"type": "integer"}, "size": {"type": "integer"}},
        "required": ["name", "port"]});
    let list = |kind: &str| {
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
            "items": item, "description": kind})
    };
    let set =
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": {
        "a": list("a"), "b": list("b"), "s": set, "t": set}});
    let env = declared(&schema);
    let items = |order: &dyn Fn(u64) -> u64, change: u64| -> Json {
        (0..20_000_u64)
            .map(|n| {
                let n = order(n);
                let size = if n == change { 0 } else { n };
                match n % 2 {
                    0 => json!({"name": n.to_string(), "port": 1, "size": size}),
                    _ => json!({"name": "x", "port": n, "size": size}),
                }
            })
            .collect()
    };
    let numbers = |order: &dyn Fn(u64) -> u64| -> Json { (0..50_000_u64).map(order).collect() };
    let reversed = |n: u64| 19_999 - n;
    let x = |change: u64| {
        json!({"a": items(&|n| n, u64::MAX), "b": items(&reversed, change),
            "s": numbers(&|n| n), "t": numbers(&|n| 49_999 - n)})
    };
    assert_eq!(
        told("dyn(x.a) == dyn(x.b) && x.s == x.t", &env, &x(u64::MAX)),
        "true"
    );
    assert_eq!(told("dyn(x.a) == dyn(x.b)", &env, &x(777)), "false");
}
