//! Passes as scenarios: items, gates and what is around them in, decisions out.

use std::fmt::Write as _;

use deltaplane_expr::{Absent, Decl, Timestamp};
use deltaplane_propagation::{
    Gate, Given, Health, Hold, Limits, Order, Progress, Scope, Standing, Subject, Surroundings,
    Terms, Window, pass,
};
use expect_test::{Expect, expect};
use serde_json::{Map, Value as Json};

/// A time of the first of March, `12:00` or `12:00:01`, or any time in full.
pub(crate) fn time(text: &str) -> Timestamp {
    let seconds = if text.len() == 5 { ":00" } else { "" };
    let full = match text.contains('T') {
        true => text.to_owned(),
        false => format!("2026-03-01T{text}{seconds}Z"),
    };
    Timestamp::parse(&full).unwrap_or_else(|| panic!("no time: {text}"))
}

/// A subject: its key, how it stands, its object.
type Line = (String, Standing, Option<Map<String, Json>>);

#[derive(Default)]
struct Scenario {
    gates: Vec<String>,
    order: Option<String>,
    now: Option<Timestamp>,
    items: Vec<Line>,
    /// Other nodes.
    nodes: Vec<Line>,
    data: Vec<(String, Json)>,
    windows: Vec<(String, Window)>,
    limits: Limits,
}

impl Scenario {
    fn line(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "gate" => self.gates.push(rest.to_owned()),
            "order" => self.order = Some(rest.to_owned()),
            "now" => self.now = Some(time(rest)),
            "item" => self.items.push(item(rest)),
            "node" => self.nodes.push(item(rest)),
            "data" => {
                let (name, json) = rest.split_once(' ').expect("a name and data");
                let json = serde_json::from_str(json).expect("JSON");
                self.data.push((name.to_owned(), json));
            }
            "window" => {
                let words: Vec<&str> = rest.split(' ').collect();
                let window = Window {
                    open: words[1] == "open",
                    edge: words.get(3).map(|edge| time(edge)),
                };
                self.windows.push((words[0].to_owned(), window));
            }
            "limit" => self.limits.pass = rest.parse().expect("a number"),
            "explain" => self.limits.explained = rest.parse().expect("a number"),
            other => panic!("no such line: {other}"),
        }
    }

    fn scope(&self) -> Scope {
        let any = || Decl::dynamic(Absent::Waits).clone();
        let names: Vec<&str> = self.windows.iter().map(|(name, _)| &**name).collect();
        let scope = Scope::new(any(), &["app", "instance"]).collection(&["apps", "instances"]);
        let scope = self
            .nodes
            .iter()
            .fold(scope, |scope, (name, ..)| scope.subject(name, any()));
        let scope = self
            .data
            .iter()
            .fold(scope, |scope, (name, _)| scope.data(name, any()));
        scope.subject("absent", any()).windows(&names)
    }

    fn run(&self) -> String {
        let gate = match Gate::compile(&self.gates, self.scope()) {
            Ok(gate) => gate,
            Err(problems) => return problems.to_string(),
        };
        let order = self.order.as_ref();
        let order = order.map(|text| Order::compile(text, &self.scope()).expect("an order"));
        let subjects: Vec<Subject<'_>> = self.items.iter().map(subject).collect();
        let mut given = Surroundings::new();
        for node in &self.nodes {
            given.insert(&node.0, Given::Subject(subject(node)));
        }
        for (name, json) in &self.data {
            given.insert(name, Given::Data(json));
        }
        let windows = |name: &str, _: Timestamp| {
            let found = self.windows.iter().find(|(one, _)| one == name);
            found.expect("a declared window").1
        };
        let terms = Terms {
            gate: &gate,
            order: order.as_ref(),
            given: &given,
            now: self.now.unwrap_or_else(|| time("12:00")),
            windows: &windows,
            limits: self.limits,
        };
        let answer = pass(&subjects, terms);
        assert_eq!(answer, pass(&subjects, terms), "a replay differs");
        let mut out = String::new();
        for index in answer.admitted {
            writeln!(out, "admit {}", subjects[index].key).expect("a text takes it");
        }
        for one in answer.blocked {
            writeln!(out, "{} {}", subjects[one.index].key, one.verdict).expect("a text takes it");
        }
        for one in answer.unordered {
            writeln!(out, "unordered {}: {}", one.key, one.message).expect("a text takes it");
        }
        if let Some(next) = answer.next {
            writeln!(out, "next {next}").expect("a text takes it");
        }
        out
    }
}

fn subject((key, standing, object): &Line) -> Subject<'_> {
    Subject {
        key,
        object: object.as_ref(),
        standing: *standing,
    }
}

/// `name standing [since] [held] [{object}]`
fn item(text: &str) -> Line {
    let (text, object) = match text.split_once('{') {
        Some((text, json)) => {
            let json = serde_json::from_str(&format!("{{{json}")).expect("JSON");
            (text, Some(json))
        }
        None => (text, None),
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let since = words.get(2).filter(|word| **word != "held");
    let since = time(since.unwrap_or(&"11:00"));
    let hold = if words.contains(&"held") {
        Hold::Held
    } else {
        Hold::Free
    };
    let progress = Progress::UnderWay;
    let standing = match words[1] {
        "ready" => Standing::Behind {
            health: Health::Ready { since },
            hold,
        },
        "broken" => Standing::Behind {
            health: Health::Broken,
            hold,
        },
        "overtaken" => Standing::Overtaken { progress, hold },
        "starting" => Standing::Starting,
        "updating" => Standing::Updating { progress },
        "failed" => Standing::Updating {
            progress: Progress::Failed,
        },
        "current" => Standing::Current { since },
        other => panic!("no such standing: {other}"),
    };
    (words[0].to_owned(), standing, object)
}

pub(crate) fn check(text: &str, expected: &Expect) {
    let mut scenario = Scenario::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        scenario.line(line);
    }
    expected.assert_eq(&scenario.run());
}

#[test]
fn without_a_gate_all_are_admitted() {
    check(
        "item b ready
         item a broken
         item c ready held
         item d updating
         item e current",
        &expect![[r#"
            admit b
            admit a
        "#]],
    );
}

#[test]
fn linear_admits_as_many_as_may_be_in_flight() {
    check(
        "gate linearlyReady(app, apps, 2)
         item a ready
         item b ready
         item c ready
         item d current",
        &expect![[r#"
            admit a
            admit b
            c closed: linearlyReady(app, apps, 2): 2 in flight (a, b); 1 of 4 updated and ready
        "#]],
    );
    check(
        "gate ${linearlyReady(instance, instances, 2)}
         item a updating
         item b failed
         item c ready
         item d ready",
        &expect![[r#"
            c closed: linearlyReady(instance, instances, 2): 2 in flight (a, b); 0 of 4 updated and ready
            d closed: linearlyReady(instance, instances, 2): 2 in flight (a, b); 0 of 4 updated and ready
        "#]],
    );
}

#[test]
fn what_was_broken_before_or_is_held_does_not_count() {
    check(
        "gate linearlyReady(app, apps, 1)
         item a broken
         item b ready held
         item c starting
         item d broken held",
        &expect![[r#"
            admit a
        "#]],
    );
}

#[test]
fn exponential_follows_what_is_proven() {
    let items = "item a ready
         item b ready
         item c ready
         item d ready
         item e current
         item f current";
    check(
        &format!("gate exponentiallyReady(app, apps)\n{items}"),
        &expect![[r#"
            admit a
            admit b
            c closed: exponentiallyReady(app, apps): 2 in flight (a, b); 2 of 6 updated and ready
            d closed: exponentiallyReady(app, apps): 2 in flight (a, b); 2 of 6 updated and ready
        "#]],
    );
    check(
        &format!("gate exponentiallyReady(app, apps, 3)\n{items}"),
        &expect![[r#"
            admit a
            admit b
            admit c
            admit d
        "#]],
    );
    check(
        "gate exponentiallyReady(app, apps)
         item a ready
         item b ready",
        &expect![[r#"
            admit a
            b closed: exponentiallyReady(app, apps): 1 in flight (a); 0 of 2 updated and ready
        "#]],
    );
}

#[test]
fn the_first_wave_is_one_whatever_the_factor() {
    check(
        "gate exponentiallyReady(app, apps, 5)
         item a ready
         item b ready",
        &expect![[r#"
            admit a
            b closed: exponentiallyReady(app, apps, 5): 1 in flight (a); 0 of 2 updated and ready
        "#]],
    );
    check(
        "gate exponentiallyReady(app, apps, 3)
         item a current
         item b ready
         item c ready
         item d ready",
        &expect![[r#"
            admit b
            admit c
            d closed: exponentiallyReady(app, apps, 3): 2 in flight (b, c); 1 of 4 updated and ready
        "#]],
    );
}

#[test]
fn what_is_on_its_way_is_sent_on_without_another_place() {
    check(
        "gate linearlyReady(app, apps, 1)
         item a ready
         item b overtaken
         item c overtaken held
         item d overtaken",
        &expect![[r#"
            admit b
            d closed: linearlyReady(app, apps, 1): 3 in flight (b, c, d), 1 of them to this; 0 of 4 updated and ready
            a closed: linearlyReady(app, apps, 1): 3 in flight (b, c, d), 1 of them to this; 0 of 4 updated and ready
        "#]],
    );
    check(
        "gate linearlyReady(app, apps, 3)
         item a ready
         item b overtaken
         item c overtaken held
         item d overtaken",
        &expect![[r#"
            admit b
            admit d
            a closed: linearlyReady(app, apps, 3): 3 in flight (b, c, d), 2 of them to this; 0 of 4 updated and ready
        "#]],
    );
}

/// What nobody has proven yet reaches no more at once than it may, however many are on their way to
/// what was before.
#[test]
fn what_is_on_its_way_is_sent_on_no_faster_than_others() {
    let items = "item a overtaken
         item b overtaken
         item c overtaken
         item d updating
         item e current";
    check(
        &format!("gate exponentiallyReady(app, apps)\n{items}"),
        &expect![[r#"
            a closed: exponentiallyReady(app, apps): 4 in flight (a, b, c and 1 more), 1 of them to this; 1 of 5 updated and ready
            b closed: exponentiallyReady(app, apps): 4 in flight (a, b, c and 1 more), 1 of them to this; 1 of 5 updated and ready
            c closed: exponentiallyReady(app, apps): 4 in flight (a, b, c and 1 more), 1 of them to this; 1 of 5 updated and ready
        "#]],
    );
    check(
        &format!("gate exponentiallyReady(app, apps, 4)\n{items}"),
        &expect![[r#"
            admit a
            admit b
            c closed: exponentiallyReady(app, apps, 4): 4 in flight (a, b, c and 1 more), 3 of them to this; 1 of 5 updated and ready
        "#]],
    );
}

#[test]
fn budgets_can_be_of_a_part_of_the_collection() {
    check(
        "gate linearlyReady(app, apps.filter(a, a.spec.zone == app.spec.zone), 1)
         item a ready {\"spec\": {\"zone\": \"eu\"}}
         item b ready {\"spec\": {\"zone\": \"eu\"}}
         item c ready {\"spec\": {\"zone\": \"us\"}}
         item d updating {\"spec\": {\"zone\": \"us\"}}
         item e ready {\"spec\": {\"zone\": \"ap\"}}",
        &expect![[r#"
            admit a
            admit e
            b closed: linearlyReady(app, apps.filter(a, a.spec.zone == app.spec.zone), 1): 1 in flight (a); 0 of 2 updated and ready
            c closed: linearlyReady(app, apps.filter(a, a.spec.zone == app.spec.zone), 1): 1 in flight (d); 0 of 2 updated and ready
        "#]],
    );
}

#[test]
fn values_that_closed_a_gate_are_told() {
    check(
        "gate app.spec.tier in schema.spec.tiers && (db.ready() || app.spec.wave < 1 + 1)
         gate db.updated()
         data schema {\"spec\": {\"tiers\": [\"gold\"]}}
         node db updating
         item a ready {\"spec\": {\"tier\": \"iron\", \"wave\": 3}}
         item b ready {\"spec\": {\"tier\": \"gold\", \"wave\": 3}}
         item c ready {\"spec\": {\"tier\": \"gold\", \"wave\": 1}}",
        &expect![[r#"
            admit c
            a closed: app.spec.tier in schema.spec.tiers && (db.ready() || app.spec.wave < 1 + 1): app.spec.tier: "iron", schema.spec.tiers: ["gold"], db.ready(): false, app.spec.wave: 3
            b closed: app.spec.tier in schema.spec.tiers && (db.ready() || app.spec.wave < 1 + 1): app.spec.tier: "gold", schema.spec.tiers: ["gold"], db.ready(): false, app.spec.wave: 3
        "#]],
    );
    check(
        "gate apps.filter(a, a.updated() && !a.ready()).size() < [1, apps.filter(a, a.updated()).size()].max()
         item a ready
         item b ready
         item c ready",
        &expect![[r#"
            admit a
            b closed: apps.filter(a, a.updated() && !a.ready()).size() < [1, apps.filter(a, a.updated()).size()].max(): apps.filter(a, a.updated() && !a.ready()).size(): 1, [1, apps.filter(a, a.updated()).size()].max(): 1
            c closed: apps.filter(a, a.updated() && !a.ready()).size() < [1, apps.filter(a, a.updated()).size()].max(): apps.filter(a, a.updated() && !a.ready()).size(): 1, [1, apps.filter(a, a.updated()).size()].max(): 1
        "#]],
    );
}

#[test]
fn only_the_first_are_explained() {
    check(
        "explain 1
         gate app.spec.go
         item a ready {\"spec\": {\"go\": false}}
         item b ready {\"spec\": {\"go\": false}}",
        &expect![[r#"
            a closed: app.spec.go: false
            b closed: app.spec.go
        "#]],
    );
}

#[test]
fn one_that_cannot_be_evaluated_keeps_back_itself() {
    check(
        "gate app.spec.weight / app.spec.parts < 10
         item a ready {\"spec\": {\"weight\": 5, \"parts\": 0}}
         item b ready {\"spec\": {\"weight\": 5}}
         item c ready {\"spec\": {\"weight\": \"much\", \"parts\": 2}}
         item d ready {\"spec\": {\"weight\": 5, \"parts\": 2}}
         item e ready",
        &expect![[r#"
            admit d
            a error: app.spec.weight / app.spec.parts < 10: division by zero
            b closed: app.spec.weight / app.spec.parts < 10: waiting for app.spec.parts
            c error: app.spec.weight / app.spec.parts < 10: no such overload: _/_(string, int)
            e closed: app.spec.weight / app.spec.parts < 10: waiting for app.spec
        "#]],
    );
    check(
        "gate linearlyReady(app, apps, app.spec.n)
         gate app.spec.n == 1 || absent.ready() || app.spec.n
         item a ready {\"spec\": {\"n\": 0}}
         item b ready {\"spec\": {\"n\": 2}}
         item c ready {\"spec\": {\"n\": 1}}",
        &expect![[r#"
            admit c
            a error: linearlyReady(app, apps, app.spec.n): linearlyReady: n is 0, and must be 1 or more
            b closed: app.spec.n == 1 || absent.ready() || app.spec.n: waiting for absent
        "#]],
    );
}

#[test]
fn what_takes_too_much_is_closed() {
    check(
        "limit 60
         gate apps.all(a, a.spec.x != app.spec.x + 10)
         item a ready {\"spec\": {\"x\": 1}}
         item b ready {\"spec\": {\"x\": 2}}
         item c ready {\"spec\": {\"x\": 3}}
         item d ready {\"spec\": {\"x\": 4}}",
        &expect![[r#"
            admit a
            admit b
            c error: apps.all(a, a.spec.x != app.spec.x + 10): it takes too much to evaluate
            d error: apps.all(a, a.spec.x != app.spec.x + 10): it takes too much to evaluate
            next 2026-03-01T12:01:00Z
        "#]],
    );
}

/// An order is evaluated with a part of what a pass may do: who has no place comes last, and the gate
/// is asked of all.
#[test]
fn an_order_that_takes_too_much_is_not_followed_to_its_end() {
    check(
        "limit 80
         gate app.spec.x > 0
         order apps.filter(a, a.spec.x < app.spec.x).size()
         item a ready {\"spec\": {\"x\": 4}}
         item b ready {\"spec\": {\"x\": 3}}
         item c ready {\"spec\": {\"x\": 2}}
         item d ready {\"spec\": {\"x\": 1}}",
        &expect![[r#"
            admit b
            admit a
            admit c
            admit d
            unordered c: operation cancelled: step limit exceeded
            unordered d: operation cancelled: step limit exceeded
        "#]],
    );
}

#[test]
fn the_order_is_total() {
    check(
        "gate linearlyReady(app, apps, 99)
         item z/a broken {\"metadata\": {\"creationTimestamp\": \"2026-01-01T00:00:00Z\"}}
         item a-b/a ready
         item a/b ready
         item a/a ready
         item z/b ready {\"metadata\": {\"creationTimestamp\": \"2026-01-02T00:00:00Z\"}}
         item z/c ready {\"metadata\": {\"creationTimestamp\": \"2026-01-01T00:00:00Z\"}}
         item z/d overtaken",
        &expect![[r#"
            admit z/d
            admit z/c
            admit z/b
            admit a/a
            admit a/b
            admit a-b/a
            admit z/a
        "#]],
    );
    check(
        "order app.spec.wave
         item a ready {\"spec\": {\"wave\": 2}}
         item b ready {\"spec\": {\"wave\": 1.5}}
         item c ready {\"spec\": {\"wave\": \"one\"}}
         item d ready {\"spec\": {\"wave\": [1]}}
         item e ready
         item f broken {\"spec\": {\"wave\": 1}}
         item g ready {\"spec\": {\"wave\": 2}}",
        &expect![[r#"
            admit f
            admit b
            admit a
            admit g
            admit c
            admit d
            admit e
            unordered d: orderBy must be a number, string, boolean or timestamp, and is of type 'list(dyn)'
            unordered e: waiting for app.spec
        "#]],
    );
}

#[test]
fn a_node_is_a_collection_of_one() {
    check(
        "gate db.ready() && readyFor(db, '5m')
         node db current 11:58
         item web ready",
        &expect![[r#"
            web closed: db.ready() && readyFor(db, '5m'): db.ready(): true, readyFor(db, '5m'): ready since 2026-03-01T11:58:00Z
            next 2026-03-01T12:03:00Z
        "#]],
    );
}
