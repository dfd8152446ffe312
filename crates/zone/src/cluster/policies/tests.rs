//! The policies' expressions are evaluated here by our own engine, and said to what the rules say.

use deltaplane_expr::{Absent, Bindings, Budget, Eval, Value as Cel, compile, env};
use deltaplane_sync::{Origin, Part, SOURCE, VERSION, Write, Writer, judge};

use super::*;

const AGENT: &str = "system:serviceaccount:deltaplane-system:deltaplane-zone";

fn keeper() -> Keeper {
    Keeper {
        user: AGENT.to_owned(),
        zone: "eu-1".parse().expect("legal"),
    }
}

/// A write as an API server asks about it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    user: &'a str,
    subresource: &'a str,
    old: Option<&'a Value>,
    new: Option<&'a Value>,
}

/// What a policy says: the first message, or `yes`.
fn said(policy: &Value, asked: Asked<'_>, given: &[(&str, &str)]) -> String {
    let validations = policy["spec"]["validations"].as_array().expect("some");
    let refused = validations.iter().find(|one| {
        let expression = one["expression"].as_str().expect("text");
        evaluate(policy, expression, asked, given) != json!(true)
    });
    let Some(refused) = refused else {
        return "yes".to_owned();
    };
    let message = refused["messageExpression"].as_str().expect("text");
    let message = evaluate(policy, message, asked, given);
    message.as_str().expect("text").to_owned()
}

fn evaluate(policy: &Value, expression: &str, asked: Asked<'_>, given: &[(&str, &str)]) -> Value {
    let env = env::kubernetes().with_dynamic(&["object", "oldObject", "request"], Absent::Fails);
    let source = inlined(policy, expression, given);
    let program = compile(&source, &env).unwrap_or_else(|error| panic!("{source}: {error:?}"));
    let mut request = json!({
        "userInfo": {"username": asked.user},
        "resource": {"group": "example.com", "resource": "widgets"},
        "namespace": "ns",
    });
    if !asked.subresource.is_empty() {
        request["subResource"] = asked.subresource.into();
    }
    let object = asked.new.cloned().unwrap_or_default();
    let old = asked.old.cloned().unwrap_or_default();
    let mut bindings = Bindings::new(&env);
    for (name, value) in [
        ("object", &object),
        ("oldObject", &old),
        ("request", &request),
    ] {
        let slot = env.slot(name).expect("declared");
        bindings.set_json(&env, slot, value).expect("any JSON fits");
    }
    match program.eval(&bindings, Budget::default()) {
        Eval::Value(Cel::Bool(value)) => value.into(),
        Eval::Value(Cel::String(text)) => text.as_str().into(),
        other @ (Eval::Value(_) | Eval::Waiting(_) | Eval::Failed(_) | Eval::Stopped(_)) => {
            panic!("{source}: {other:?}")
        }
    }
}

/// With what variables stand for, except what is given.
fn inlined(policy: &Value, expression: &str, given: &[(&str, &str)]) -> String {
    let variables = policy["spec"]["variables"].as_array();
    let mut source = expression.to_owned();
    // Each is made of those before it.
    for variable in variables.into_iter().flatten().rev() {
        let name = variable["name"].as_str().expect("text");
        let known = given.iter().find(|(given, _)| *given == name);
        let stands_for = known.map_or(variable["expression"].as_str(), |(_, text)| Some(*text));
        let stands_for = format!("({})", stands_for.expect("text"));
        let reference = format!("variables.{name}");
        let mut words = source.split(&reference);
        let mut next = words.next().unwrap_or_default().to_owned();
        for word in words {
            let longer = word.starts_with(|c: char| c.is_ascii_alphanumeric());
            assert!(!longer, "variables.{name} begins another name");
            next.push_str(&stands_for);
            next.push_str(word);
        }
        source = next;
    }
    source
}

fn mirrored(origin: &str) -> Value {
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {
            "name": "a", "namespace": "ns",
            "labels": {"app": "web", ORIGIN: "hub"},
            "annotations": {VERSION: "1", SOURCE: "e@7"},
            "managedFields": [
                {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:labels": {"f:mine": {}}}}},
                {"manager": MANAGER, "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}},
                {"manager": "nothing"},
            ],
        },
        "spec": {"size": 1},
        "status": {"ready": true},
    });
    if origin != "hub" {
        object["metadata"]["labels"][ORIGIN] = "zone".into();
        object["metadata"]["labels"][ZONE] = origin.into();
        object["metadata"]["annotations"][DISPLAY_NAME] = "a".into();
        object["metadata"]["name"] = format!("{origin}.a").into();
    }
    object
}

fn own() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"size": 1},
    })
}

fn changed(object: &Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut object = object.clone();
    change(&mut object);
    object
}

/// What the rules say to the same.
fn ruled(asked: Asked<'_>) -> String {
    let write = Write {
        place: &Origin::Zone("eu-1".parse().expect("legal")),
        custom: true,
        synced: None,
        computed: &[],
        writer: match asked.user == AGENT {
            true => Writer::Sync,
            false => Writer::Other,
        },
        part: Part::Main,
        old: asked.old,
        new: asked.new,
        zones: &[],
    };
    judge(&write).map_or_else(|refusal| refusal.to_string(), |()| "yes".to_owned())
}

/// Ways to change an object.
fn changes(old: &Value) -> Vec<Option<Value>> {
    type Change<'a> = &'a dyn Fn(&mut Value);
    let changes: [Change<'_>; 12] = [
        &|_| {},
        &|new| new["spec"]["size"] = 2.into(),
        &|new| new["data"] = json!({}),
        &|new| drop(new.as_object_mut().map(|new| new.remove("spec"))),
        &|new| new["metadata"]["finalizers"] = json!(["a/b"]),
        &|new| new["metadata"]["ownerReferences"] = json!([{"uid": "u"}]),
        &|new| new["metadata"]["labels"]["mine"] = "x".into(),
        &|new| new["metadata"]["labels"]["app"] = "other".into(),
        &|new| new["metadata"]["labels"] = json!({}),
        &|new| new["metadata"]["annotations"][VERSION] = "2".into(),
        &|new| new["metadata"]["annotations"]["mine"] = "x".into(),
        &|new| {
            new["metadata"]["labels"][ORIGIN] = "zone".into();
            new["metadata"]["labels"][ZONE] = "eu-3".into();
        },
    ];
    let changed = changes.map(|change| Some(changed(old, change)));
    changed.into_iter().chain([None]).collect()
}

#[test]
fn the_policy_says_what_the_rules_say() {
    let policy = keeper().ownership();
    let olds = ["hub", "eu-2", "eu-1"].map(mirrored);
    let labelled = changed(&own(), |own| {
        own["metadata"]["labels"] = json!({"app": "web"})
    });
    let mut asked = 0;
    for old in olds.iter().map(Some).chain([None, Some(&labelled)]) {
        let begin = old.cloned().unwrap_or_else(own);
        for new in changes(&begin) {
            for user in ["eve", AGENT] {
                let subresource = "";
                let new = new.as_ref();
                let one = Asked {
                    user,
                    subresource,
                    old,
                    new,
                };
                let is_concerned = [old, new]
                    .into_iter()
                    .flatten()
                    .any(|object| object["metadata"]["labels"].get(ORIGIN).is_some());
                // Neither object matches the selector: the policy is not asked.
                if is_concerned {
                    let context = format!("{user}: {old:?} -> {new:?}");
                    assert_eq!(said(&policy, one, &[]), ruled(one), "{context}");
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 80, "{asked}");
}

#[test]
fn what_an_api_server_adds_is_minded() {
    let policy = keeper().ownership();
    let old = mirrored("hub");
    let say = |user, subresource, new: Option<&Value>| {
        let old = Some(&old);
        said(
            &policy,
            Asked {
                user,
                subresource,
                old,
                new,
            },
            &[],
        )
    };
    let refusal = "the object is managed by the hub and read-only here; edit it at the hub, as a";
    // Not every kind has a subresource for it.
    let status = changed(&old, |new| new["status"]["ready"] = false.into());
    assert_eq!(say("eve", "", Some(&status)), "yes");
    assert_eq!(say("eve", "status", Some(&status)), "yes");
    // Whoever resets what is known of fields could take the label away afterwards.
    let reset = changed(&old, |new| new["metadata"]["managedFields"] = json!([]));
    assert_eq!(say("eve", "", Some(&reset)), refusal);
    let label = changed(&old, |new| new["metadata"]["labels"]["app"] = "x".into());
    assert_eq!(say("eve", "status", Some(&label)), refusal);
    assert_eq!(say("eve", "", None), refusal);
    for collector in COLLECTORS {
        assert_eq!(say(collector, "", None), "yes");
        let spec = changed(&old, |new| new["spec"]["size"] = 2.into());
        assert_eq!(say(collector, "", Some(&spec)), refusal);
    }
}

#[test]
fn nobody_says_that_an_object_is_of_a_zone() {
    let policy = keeper().zone_label();
    let labelled = changed(&own(), |own| {
        own["metadata"]["labels"] = json!({ZONE: "eu-2"})
    });
    let forged = format!(
        "{ZONE} says where an object is from and is written by sync alone; leave it as it is"
    );
    let own = own();
    let say = |user, old: Option<&Value>, new: Option<&Value>| {
        said(
            &policy,
            Asked {
                user,
                subresource: "",
                old,
                new,
            },
            &[],
        )
    };
    assert_eq!(say("eve", None, Some(&labelled)), forged);
    assert_eq!(say("eve", Some(&own), Some(&labelled)), forged);
    assert_eq!(say("eve", Some(&labelled), Some(&own)), forged);
    assert_eq!(say("eve", Some(&labelled), Some(&labelled)), "yes");
    assert_eq!(say("eve", Some(&labelled), None), "yes");
    assert_eq!(say(AGENT, Some(&own), Some(&labelled)), "yes");
}

#[test]
fn computed_fields_are_written_by_those_who_may() {
    let widgets = ("example.com".to_owned(), "widgets".to_owned());
    let others = ("example.com".to_owned(), "others".to_owned());
    let fields = Fields::from([
        (others, Computed::list("spec.size")),
        (widgets, Computed::list("spec.state, spec.my-field.in")),
    ]);
    let policy = keeper().computed(&fields).expect("there are some");
    let old = changed(&own(), |own| {
        own["spec"] = json!({"size": 1, "state": "Up"})
    });
    let say = |user, may: &str, old: Option<&Value>, new: &Value| {
        let new = Some(new);
        said(
            &policy,
            Asked {
                user,
                subresource: "",
                old,
                new,
            },
            &[("may0", may), ("may1", may)],
        )
    };
    let size = changed(&old, |new| new["spec"]["size"] = 2.into());
    let state = changed(&old, |new| new["spec"]["state"] = "Down".into());
    let deep = changed(&old, |new| new["spec"]["my-field"] = json!({"in": 1}));
    let gone = changed(&old, |new| new["spec"] = json!(null));
    let refusal = |field: &str| {
        format!(
            "{field} is computed by controllers, which may update widgets/computed of example.com; leave it as it is"
        )
    };
    assert_eq!(say("eve", "false", Some(&old), &size), "yes");
    assert_eq!(
        say("eve", "false", Some(&old), &state),
        refusal("spec.state")
    );
    assert_eq!(say("eve", "false", None, &state), refusal("spec.state"));
    assert_eq!(say("eve", "false", None, &own()), "yes");
    assert_eq!(
        say("eve", "false", Some(&old), &deep),
        refusal("spec.my-field.in")
    );
    assert_eq!(
        say("eve", "false", Some(&old), &gone),
        refusal("spec.state")
    );
    assert_eq!(say("eve", "true", Some(&old), &state), "yes");
    assert_eq!(say(AGENT, "false", Some(&old), &state), "yes");
    assert_eq!(keeper().computed(&Fields::new()), None);
}
