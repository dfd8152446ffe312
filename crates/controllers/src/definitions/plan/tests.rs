use bytes::Bytes;
use expect_test::{Expect, expect};

use super::*;

fn definition(group: &str, plural: &str, changes: Value) -> Definition {
    let kind = "Widget";
    let mut object = json!({
        "metadata": {"name": format!("{plural}.{group}"), "uid": "u", "resourceVersion": "7"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": "widget", "kind": kind,
                "listKind": "WidgetList", "shortNames": ["wd", "wdg"]},
            "versions": [{"name": "v1beta1", "served": true, "storage": false, "schema": {}},
                {"name": "v1", "served": true, "storage": true}],
        },
    });
    merge(&mut object, changes);
    Definition::of(&Item::new(Bytes::from(object.to_string())).expect("an object"))
        .expect("a definition")
}

fn merge(target: &mut Value, changes: Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, changes) => *target = changes,
    }
}

fn show(conditions: &Value) -> String {
    let line = |condition: &Value| {
        let text = |field: &str| condition[field].as_str().expect("text").to_owned();
        [
            text("type"),
            text("status"),
            text("reason"),
            text("message"),
        ]
        .join(" ")
    };
    let lines: Vec<_> = conditions
        .as_array()
        .expect("a list")
        .iter()
        .map(line)
        .collect();
    lines.join("\n")
}

/// What is written, and that it is not written twice.
fn check(definition: &Definition, others: &[&Names], expected: Expect) -> Value {
    let (status, after) = written(definition, others, expected);
    let mut used = Used::default();
    others.iter().for_each(|names| used.add(names));
    assert_eq!(plan(&after, &used, Time::from_unix(9)), Plan::Nothing);
    status
}

/// What is written, and the definition as it is then.
fn written(definition: &Definition, others: &[&Names], expected: Expect) -> (Value, Definition) {
    let mut used = Used::default();
    others.iter().for_each(|names| used.add(names));
    let Plan::Write { status, names } = plan(definition, &used, Time::from_unix(0)) else {
        panic!("nothing is written");
    };
    let shown = format!(
        "{}\n{}",
        show(&status["status"]["conditions"]),
        status["status"]["acceptedNames"]
    );
    expected.assert_eq(&shown);
    assert_eq!(
        status["metadata"],
        json!({"uid": "u", "resourceVersion": "7"})
    );
    let after = Definition {
        accepted: names,
        conditions: serde_json::from_value(status["status"]["conditions"].clone()).expect("sound"),
        ..definition.clone()
    };
    (status, after)
}

/// In two steps: it is served when the first is written, and everyone may know after the second.
#[test]
fn free_names_are_accepted() {
    let (_, named) = written(
        &definition("example.com", "widgets", json!({})),
        &[],
        expect![[r#"
            NamesAccepted True NoConflicts no conflicts found
            Established False Installing the initial names have been accepted
            {"categories":null,"kind":"Widget","listKind":"WidgetList","plural":"widgets","shortNames":["wd","wdg"],"singular":"widget"}"#]],
    );
    assert!(named.objects().is_some(), "there can be objects");
    check(
        &named,
        &[],
        expect![[r#"
            NamesAccepted True NoConflicts no conflicts found
            Established True InitialNamesAccepted the initial names have been accepted
            {"categories":null,"kind":"Widget","listKind":"WidgetList","plural":"widgets","shortNames":["wd","wdg"],"singular":"widget"}"#]],
    );
}

#[test]
fn taken_names_are_not() {
    let other = Names {
        plural: "gadgets".to_owned(),
        singular: "widget".to_owned(),
        short_names: vec!["wd".to_owned(), "wdg".to_owned()],
        kind: "Gadget".to_owned(),
        list_kind: "GadgetList".to_owned(),
        categories: Vec::new(),
    };
    check(
        &definition("example.com", "widgets", json!({})),
        &[&other],
        expect![[r#"
            NamesAccepted False ShortNamesConflict ["wd" is already in use, "wdg" is already in use]
            Established False NotAccepted not all names are accepted
            {"categories":null,"kind":"Widget","listKind":"WidgetList","plural":"widgets","shortNames":null,"singular":""}"#]],
    );
    let kind = Names {
        kind: "Widget".to_owned(),
        ..Names::default()
    };
    check(
        &definition("example.com", "widgets", json!({})),
        &[&kind],
        expect![[r#"
            NamesAccepted False KindConflict "Widget" is already in use
            Established False NotAccepted not all names are accepted
            {"categories":null,"kind":"","listKind":"WidgetList","plural":"widgets","shortNames":["wd","wdg"],"singular":"widget"}"#]],
    );
}

#[test]
fn what_is_established_stays_so_when_it_wants_a_taken_name() {
    let established = json!({"spec": {"names": {"shortNames": ["gd"]}}, "status": {
        "acceptedNames": {"plural": "widgets", "singular": "widget", "kind": "Widget",
            "listKind": "WidgetList", "shortNames": ["wd"]},
        "conditions": [
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts",
                "message": "no conflicts found", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    let other = Names {
        plural: "gd".to_owned(),
        ..Names::default()
    };
    check(
        &definition("example.com", "widgets", established),
        &[&other],
        expect![[r#"
            NamesAccepted False ShortNamesConflict "gd" is already in use
            Established True InitialNamesAccepted the initial names have been accepted
            {"categories":null,"kind":"Widget","listKind":"WidgetList","plural":"widgets","shortNames":["wd"],"singular":"widget"}"#]],
    );
}

#[test]
fn groups_of_the_kubernetes_project_say_who_approved() {
    let check = |group: &str, annotation: Option<&str>, expected: Option<&str>| {
        let wanted = approval(group, annotation);
        let shown = wanted.map(|wanted| {
            let Wanted {
                holds,
                reason,
                message,
                ..
            } = wanted;
            format!("{holds} {reason} {message}")
        });
        assert_eq!(shown.as_deref(), expected, "{group} {annotation:?}");
    };
    check("example.com", None, None);
    check("notk8s.io", None, None);
    check(
        "x.k8s.io",
        Some("https://github.com/kubernetes/kubernetes/pull/1"),
        Some("true ApprovedAnnotation approved in https://github.com/kubernetes/kubernetes/pull/1"),
    );
    check(
        "k8s.io",
        Some("unapproved, experimental"),
        Some("false UnapprovedAnnotation not approved: \"unapproved, experimental\""),
    );
    check(
        "a.b.kubernetes.io",
        Some("sure"),
        Some(
            "false InvalidAnnotation protected groups must have approval annotation \
             \"api-approved.kubernetes.io\" with either a URL or a reason starting with \
             \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
        ),
    );
    check(
        "kubernetes.io",
        None,
        Some(
            "false MissingAnnotation protected groups must have approval annotation \
             \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        ),
    );
}

#[test]
fn the_end() {
    let deleting = |established: &str, finalizers: Value| {
        let changes = json!({
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers},
            "status": {"acceptedNames": {"plural": "widgets", "kind": "Widget"},
                "conditions": [{"type": "Established", "status": established}]},
        });
        definition("example.com", "widgets", changes)
    };
    let ended =
        |definition: &Definition| match plan(definition, &Used::default(), Time::from_unix(0)) {
            Plan::End { status, objects } => {
                let said = status.map(|status| {
                    let conditions = status["status"]["conditions"].as_array().expect("a list");
                    show(&json!(conditions[1..]))
                });
                (said, objects.map(|objects| objects.collection_path(None)))
            }
            other @ (Plan::Nothing | Plan::Write { .. }) => panic!("{other:?}"),
        };
    let ours = || json!([finalizers::CUSTOM_RESOURCES, "other"]);
    let said = "Terminating True InstanceDeletionInProgress CustomResource deletion is in progress";
    let path = "/apis/example.com/v1/widgets";
    let first = deleting("True", ours());
    assert_eq!(
        ended(&first),
        (Some(said.to_owned()), Some(path.to_owned()))
    );
    assert_eq!(first.without_finalizer()["finalizers"], json!(["other"]));
    assert_eq!(
        ended(&deleting("False", ours())),
        (Some(said.to_owned()), None)
    );
    let others = deleting("True", json!(["other"]));
    assert_eq!(
        plan(&others, &Used::default(), Time::from_unix(0)),
        Plan::Nothing
    );
}
