use bytes::Bytes;
use expect_test::{Expect, expect};
use serde_json::json;

use deltaplane_client::Item;

use super::*;

fn item(object: serde_json::Value) -> Item {
    Item::new(Bytes::from(object.to_string())).expect("an object")
}

fn namespace(name: &str) -> Event {
    Event::Applied(item(json!({"metadata": {"name": name}})))
}

fn account(namespace: &str, name: &str, uid: &str) -> Item {
    item(json!({"metadata": {"namespace": namespace, "name": name, "uid": uid}}))
}

fn root_ca(namespace: &str, data: serde_json::Value) -> Event {
    let metadata = json!({"namespace": namespace, "name": ROOT_CA});
    Event::Applied(item(json!({"metadata": metadata, "data": data})))
}

fn secret(name: &str, annotations: serde_json::Value, data: serde_json::Value) -> Event {
    let metadata = json!({"namespace": "a", "name": name, "uid": "s", "resourceVersion": "7",
        "annotations": annotations});
    Event::Applied(item(json!({"metadata": metadata, "data": data})))
}

/// What each event, after the first complete picture, leads to.
fn check(events: Vec<(Source, Event)>, expected: Expect) {
    let mut observed = Observed::default();
    let sources = [
        Source::Namespaces,
        Source::Accounts,
        Source::ConfigMaps,
        Source::Secrets,
    ];
    for source in sources {
        observed.apply(source, Event::Restarted, "CA");
        observed.apply(source, Event::InSync, "CA");
    }
    let mut shown = String::new();
    for (source, event) in events {
        for key in observed.apply(source, event, "CA") {
            shown.push_str(&format!("{key:?}\n"));
            for action in observed.plan(&key) {
                shown.push_str(&format!("  {action:?}\n"));
            }
        }
    }
    expected.assert_eq(&shown);
}

#[test]
fn a_namespace_gets_its_account_and_certificate() {
    use Source::{Accounts, ConfigMaps, Namespaces};
    let deleted = || Event::Deleted(account("a", "default", "u"));
    check(
        vec![
            (Namespaces, namespace("a")),
            (Accounts, Event::Applied(account("a", "default", "u"))),
            (ConfigMaps, root_ca("a", json!({"ca.crt": "CA"}))),
            (ConfigMaps, root_ca("a", json!({"ca.crt": ""}))),
            (
                ConfigMaps,
                root_ca("a", json!({"ca.crt": "CA", "more": ""})),
            ),
            (ConfigMaps, root_ca("a", json!({"ca.crt": "CA"}))),
            (Accounts, deleted()),
            (Accounts, Event::Applied(account("a", "other", "v"))),
            (
                Accounts,
                Event::Applied(account("elsewhere", "default", "w")),
            ),
        ],
        expect![[r#"
            Namespace("a")
              CreateAccount { namespace: "a" }
              CreateRootCa { namespace: "a" }
            Namespace("a")
              CreateRootCa { namespace: "a" }
            Namespace("a")
            Namespace("a")
              RepairRootCa { namespace: "a" }
            Namespace("a")
            Namespace("a")
              CreateAccount { namespace: "a" }
            Namespace("elsewhere")
        "#]],
    );
}

#[test]
fn nothing_is_made_in_a_namespace_that_is_going() {
    let metadata = json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    let going = Event::Applied(item(json!({"metadata": metadata})));
    check(
        vec![
            (Source::Namespaces, going),
            (Source::ConfigMaps, root_ca("a", json!({}))),
        ],
        expect![[r#"
            Namespace("a")
            Namespace("a")
        "#]],
    );
}

#[test]
fn secrets_are_filled_once_and_checked_when_their_account_is_gone() {
    use Source::{Accounts, Secrets};
    let name = |uid: &str| match uid {
        "" => json!({"kubernetes.io/service-account.name": "web"}),
        uid => json!({"kubernetes.io/service-account.name": "web",
            "kubernetes.io/service-account.uid": uid}),
    };
    let full = || json!({"ca.crt": "Q0E=", "namespace": "YQ==", "token": "dG9rZW4="});
    check(
        vec![
            (Secrets, secret("nobody", json!({}), json!({}))),
            (Secrets, secret("web", name(""), json!({}))),
            (Accounts, Event::Applied(account("a", "web", "u"))),
            (
                Secrets,
                secret("web", name("u"), json!({"token": "dG9rZW4="})),
            ),
            (Secrets, secret("web", name("u"), full())),
            (
                Secrets,
                secret(
                    "web",
                    name("u"),
                    json!({"ca.crt": "!", "namespace": "", "token": "dG9rZW4="}),
                ),
            ),
            (Secrets, secret("web", name("older"), full())),
            (Secrets, secret("web", name("u"), full())),
            (Accounts, Event::Deleted(account("a", "web", "u"))),
        ],
        expect![[r#"
            Secret(ObjectKey { namespace: "a", name: "web" })
              CheckSecret(Check { key: ObjectKey { namespace: "a", name: "web" }, secret: TokenSecret { uid: "s", revision: "7", account: "web", account_uid: None, has: Has { ca: false, namespace: false, token: false } } })
            Secret(ObjectKey { namespace: "a", name: "web" })
              FillSecret(Fill { key: ObjectKey { namespace: "a", name: "web" }, secret: TokenSecret { uid: "s", revision: "7", account: "web", account_uid: None, has: Has { ca: false, namespace: false, token: false } }, account_uid: "u" })
            Secret(ObjectKey { namespace: "a", name: "web" })
              FillSecret(Fill { key: ObjectKey { namespace: "a", name: "web" }, secret: TokenSecret { uid: "s", revision: "7", account: "web", account_uid: Some("u"), has: Has { ca: false, namespace: false, token: true } }, account_uid: "u" })
            Secret(ObjectKey { namespace: "a", name: "web" })
            Secret(ObjectKey { namespace: "a", name: "web" })
              FillSecret(Fill { key: ObjectKey { namespace: "a", name: "web" }, secret: TokenSecret { uid: "s", revision: "7", account: "web", account_uid: Some("u"), has: Has { ca: false, namespace: false, token: true } }, account_uid: "u" })
            Secret(ObjectKey { namespace: "a", name: "web" })
              CheckSecret(Check { key: ObjectKey { namespace: "a", name: "web" }, secret: TokenSecret { uid: "s", revision: "7", account: "web", account_uid: Some("older"), has: Has { ca: true, namespace: true, token: true } } })
            Secret(ObjectKey { namespace: "a", name: "web" })
            Secret(ObjectKey { namespace: "a", name: "web" })
              CheckSecret(Check { key: ObjectKey { namespace: "a", name: "web" }, secret: TokenSecret { uid: "s", revision: "7", account: "web", account_uid: Some("u"), has: Has { ca: true, namespace: true, token: true } } })
        "#]],
    );
}

#[test]
fn the_first_complete_picture_leads_to_everything() {
    let mut observed = Observed::default();
    for source in [
        Source::Namespaces,
        Source::Accounts,
        Source::ConfigMaps,
        Source::Secrets,
    ] {
        assert!(!observed.is_complete());
        observed.apply(source, Event::Restarted, "CA");
        if let Source::Namespaces = source {
            observed.apply(source, namespace("a"), "CA");
        }
        observed.apply(source, Event::InSync, "CA");
    }
    assert!(observed.is_complete());
    assert_eq!(observed.all_keys(), [Key::Namespace("a".to_owned())]);
}
