//! Conditions of the author of a graph, beside those that every instance has.

use super::*;

/// A ConfigMap that is never ready, and what its author says of it.
fn authored(conditions: &Value) -> Graph {
    let definition = json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {
                "kind": "Shop", "apiVersion": "v1", "spec": {"name": "string"},
                "status": {"conditions": conditions},
            },
            "resources": [{
                "id": "first", "readyWhen": ["${first.data.text == 'ready'}"],
                "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "first"}, "data": {"text": "${schema.spec.name}"},
                },
            }],
        },
    });
    let definition = Definition::read(&definition).expect("a definition");
    compile(&definition, &lookup).unwrap_or_else(|problems| panic!("{problems}"))
}

fn made(r#type: &str, status: &str) -> String {
    format!("${{runtime.newCondition({{type: {type}, status: {status}}})}}")
}

/// The status that follows, at a time.
fn told(graph: &Graph, before: &Value, seconds: i64) -> Value {
    let mut instance = instance();
    instance["status"] = before.clone();
    let plan = planned(graph, 1);
    let none = Hindrances::default();
    let ended = Ended::Planned {
        graph,
        plan: &plan,
        hindered: &none,
        runs: Point::new(7, "ff"),
        behind: None,
    };
    status(&instance, &ended, Time::from_unix(seconds))
}

fn shown(status: &Value) -> String {
    let mut out = format!("{}\n", status["state"].as_str().expect("a state"));
    for one in status["conditions"].as_array().expect("conditions") {
        let text = |key: &str| one[key].as_str().unwrap_or_default();
        assert_eq!(one["observedGeneration"], 3, "{one}");
        let (name, status) = (text("type"), text("status"));
        let since = text("lastTransitionTime");
        writeln!(out, "{name} {status} since {since}").expect("a text");
    }
    out
}

#[test]
fn conditions_of_an_author_come_in_place_of_the_others() {
    let author = json!([made("'Ready'", "'False'"), made("'AppReady'", "'True'")]);
    let graph = authored(&author);
    let first = told(&graph, &Value::Null, 0);
    // Nothing changes since, although what the instance says itself differs.
    let second = told(&graph, &first, 60);
    assert_eq!(first, second);
    expect![[r#"
        IN_PROGRESS
        Ready False since 1970-01-01T00:00:00Z
        AppReady True since 1970-01-01T00:00:00Z
        deltaplane.io/InstanceManaged True since 1970-01-01T00:00:00Z
        deltaplane.io/GraphResolved True since 1970-01-01T00:00:00Z
        deltaplane.io/ResourcesReady False since 1970-01-01T00:00:00Z
        deltaplane.io/Ready False since 1970-01-01T00:00:00Z
    "#]]
    .assert_eq(&shown(&second));
    // And without a word of the author's there are those that every instance has.
    let plain = authored(&json!([]));
    let third = told(&plain, &second, 120);
    expect![[r#"
        IN_PROGRESS
        InstanceManaged True since 1970-01-01T00:02:00Z
        GraphResolved True since 1970-01-01T00:02:00Z
        ResourcesReady False since 1970-01-01T00:02:00Z
        Ready False since 1970-01-01T00:00:00Z
    "#]]
    .assert_eq(&shown(&third));
}

#[test]
fn what_cannot_be_evaluated_now_stays_as_it_was() {
    let known = authored(&json!([made("'A'", "'True'"), made("'B'", "'True'")]));
    let before = told(&known, &Value::Null, 0);
    let waits = made("'B'", "first.data['nothing'] == '' ? 'True' : 'False'");
    let graph = authored(&json!([made("'A'", "'True'"), waits]));
    let after = told(&graph, &before, 60);
    assert_eq!(after, before);
    // Those that every instance has are no author's.
    let plain = authored(&json!([]));
    let usual = told(&plain, &Value::Null, 0);
    let after = told(&graph, &usual, 60);
    let conditions = after["conditions"].as_array().expect("a list");
    let names: Vec<&str> = conditions
        .iter()
        .filter_map(|one| one["type"].as_str())
        .collect();
    assert!(
        !names.contains(&"Ready") && !names.contains(&"B"),
        "{names:?}"
    );
}

#[test]
fn what_is_wrong_with_conditions_is_an_error_of_the_instance() {
    let graph = authored(&json!([
        made("'A'", "'True'"),
        made("'Same-' + schema.spec.name", "'True'"),
        made("'Same-' + schema.spec.name", "'False'"),
    ]));
    let status = told(&graph, &Value::Null, 0);
    expect![[r#"
        ERROR
        A True since 1970-01-01T00:00:00Z
        deltaplane.io/InstanceManaged True since 1970-01-01T00:00:00Z
        deltaplane.io/GraphResolved True since 1970-01-01T00:00:00Z
        deltaplane.io/ResourcesReady False since 1970-01-01T00:00:00Z
        deltaplane.io/ConditionsEvaluated False since 1970-01-01T00:00:00Z
        deltaplane.io/Ready False since 1970-01-01T00:00:00Z
    "#]]
    .assert_eq(&shown(&status));
    let evaluated = &status["conditions"][4];
    assert_eq!(
        evaluated["message"],
        "condition types are made twice: Same-a"
    );
}

/// Nothing is evaluated of an instance that goes, or of one without a graph.
#[test]
fn what_the_author_said_last_stays_when_nothing_is_planned() {
    let graph = authored(&json!([made("'AppReady'", "'True'")]));
    let mut instance = instance();
    instance["status"] = told(&graph, &Value::Null, 0);
    let ended = Ended::Unresolved { why: "gone" };
    let status = status(&instance, &ended, Time::from_unix(60));
    expect![[r#"
        ERROR
        AppReady True since 1970-01-01T00:00:00Z
        deltaplane.io/InstanceManaged True since 1970-01-01T00:00:00Z
        deltaplane.io/GraphResolved False since 1970-01-01T00:01:00Z
        deltaplane.io/ResourcesReady Unknown since 1970-01-01T00:01:00Z
        deltaplane.io/ResourcesPruned Unknown since 1970-01-01T00:01:00Z
        deltaplane.io/Ready False since 1970-01-01T00:00:00Z
    "#]]
    .assert_eq(&shown(&status));
}
