use std::collections::BTreeMap;

use deltaplane_sync::{
    Crossing, Epoch, Item, Known, ObjectName, Position, Rejection, Relayed, Request, Response,
    SyncKind, Verdict, Version,
};
use deltaplane_sync_grpc::{
    decode_request, decode_response, encode_request, encode_response, size_of_subscription,
};
use proptest::prelude::*;
use prost::Message as _;
use serde_json::json;

fn version(content: u32) -> Version {
    let object =
        json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "data": content});
    Crossing::of(&object).expect("an object").version()
}

fn kind() -> impl Strategy<Value = SyncKind> {
    let group = prop_oneof![Just(""), Just("apps"), Just("kro.run")];
    (group, "[A-Z][a-z]{1,6}").prop_map(|(group, kind)| SyncKind::new(group, &kind).expect("legal"))
}

fn name() -> impl Strategy<Value = ObjectName> {
    let namespace = prop_oneof![Just(String::new()), "[a-z]{1,5}"];
    (namespace, "[a-z0-9]{1,6}(\\.[a-z]{1,3})?")
        .prop_map(|(namespace, name)| ObjectName::new(&namespace, &name).expect("legal"))
}

fn position() -> impl Strategy<Value = Position> {
    ("[a-z0-9@-]{1,8}", any::<u64>()).prop_map(|(epoch, revision)| Position {
        epoch: Epoch(epoch.as_str().into()),
        revision,
    })
}

fn versions() -> impl Strategy<Value = BTreeMap<ObjectName, Version>> {
    prop::collection::btree_map(name(), (0..9_u32).prop_map(version), 0..5)
}

prop_compose! {
    fn response()(
        kind in kind(),
        nonce in any::<u64>(),
        at in position(),
        (complete, approved) in any::<(bool, bool)>(),
        items in prop::collection::vec((name(), 0..9_u32, prop::collection::vec(any::<u8>(), 0..50)), 0..4),
        orphaned in prop::collection::vec(name(), 0..4),
        removed in prop::collection::vec(name(), 0..4),
        releases in prop::collection::btree_map("[a-z]{1,5}(\\.[a-z]{1,5})?", any::<u64>(), 0..3),
    ) -> Response {
        let item = |(name, content, body): (ObjectName, u32, Vec<u8>)| {
            let relayed = content.is_multiple_of(3).then(|| Relayed {
                zone: "eu-1".parse().expect("legal"),
                name: "a".into(),
            });
            (name, Item { version: version(content), body: body.into(), relayed })
        };
        let items = items.into_iter().map(item).collect();
        Response { kind, nonce, at, complete, items, orphaned, removed, approved, releases }
    }
}

fn request() -> impl Strategy<Value = Request> {
    let sources = prop::collection::vec(position(), 0..3);
    let by_versions =
        (versions(), sources).prop_map(|(held, sources)| Known::Versions { held, sources });
    let beyond =
        prop::collection::btree_map(name(), prop::option::of((0..9_u32).prop_map(version)), 0..4);
    let by_position =
        (position(), beyond).prop_map(|(position, beyond)| Known::Position { position, beyond });
    let known = prop_oneof![by_versions, by_position];
    let verdict = prop_oneof![
        Just(Verdict::Failed),
        Just(Verdict::Held),
        Just(Verdict::Own),
        Just(Verdict::Foreign)
    ];
    let rejection = (name(), "\\PC*", verdict).prop_map(|(name, reason, verdict)| Rejection {
        name,
        reason,
        verdict,
    });
    let rejected = prop::collection::vec(rejection, 0..3);
    prop_oneof![
        (kind(), known).prop_map(|(kind, known)| Request::Subscribe { kind, known }),
        (kind(), any::<u64>(), rejected).prop_map(|(kind, nonce, rejected)| Request::Ack {
            kind,
            nonce,
            rejected
        }),
        (kind(), prop::collection::btree_set(name(), 1..4))
            .prop_map(|(kind, names)| Request::Repair { kind, names }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(response in response(), request in request()) {
        let bytes = encode_response(&response).encode_to_vec();
        let wire = prost::Message::decode(&*bytes).expect("written by us");
        prop_assert_eq!(decode_response(wire), Ok(response));
        let bytes = encode_request(&request).encode_to_vec();
        let wire = prost::Message::decode(&*bytes).expect("written by us");
        if let Request::Subscribe { known, .. } = &request {
            prop_assert!(bytes.len() <= size_of_subscription(known));
        }
        prop_assert_eq!(decode_request(wire), Ok(request));
    }

    #[test]
    fn no_bytes_panic(
        mut bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            response().prop_map(|response| encode_response(&response).encode_to_vec()),
            request().prop_map(|request| encode_request(&request).encode_to_vec()),
        ],
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        for (at, byte) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        if let Ok(wire) = prost::Message::decode(&*bytes) {
            let _ = decode_response(wire);
        }
        if let Ok(wire) = prost::Message::decode(&*bytes) {
            let _ = decode_request(wire);
        }
    }
}

#[test]
fn what_is_not_legal_is_said() {
    let good = || {
        encode_response(&Response {
            releases: BTreeMap::from([("web".to_owned(), 3)]),
            kind: SyncKind::new("", "ConfigMap").expect("legal"),
            nonce: 1,
            at: Position {
                epoch: Epoch("e".into()),
                revision: 7,
            },
            complete: true,
            items: vec![(
                "ns/a".parse().expect("legal"),
                Item {
                    version: version(1),
                    body: (*b"{}").into(),
                    relayed: None,
                },
            )],
            orphaned: Vec::new(),
            removed: Vec::new(),
            approved: false,
        })
    };
    assert_eq!(good().system_version_info, "e@7 complete web=3");
    assert_eq!(good().type_url, "deltaplane.io/core/ConfigMap");
    type Change =
        fn(&mut deltaplane_sync_grpc::proto::envoy::service::discovery::v3::DeltaDiscoveryResponse);
    let cases: [(Change, &str); 7] = [
        (
            |wire| wire.type_url = "x".to_owned(),
            "\"x\" is no type: it must be deltaplane.io/<group>/<kind>",
        ),
        (
            |wire| wire.nonce = "-1".to_owned(),
            "\"-1\" is no nonce of ours",
        ),
        (
            |wire| wire.system_version_info = String::new(),
            "\"\" is no position: it must be <epoch>@<revision>",
        ),
        (
            |wire| wire.resources[0].version = "1".to_owned(),
            "\"1\" is no version",
        ),
        (
            |wire| wire.resources[0].name = "../a".to_owned(),
            "\"../a\" is no name of an object: it must be <namespace>/<name>, or <name>",
        ),
        (
            |wire| wire.resources[0].resource = None,
            "ns/a is a \"\", which is unknown",
        ),
        (
            |wire| wire.removed_resources = vec![String::new()],
            "\"/\" is no name of an object: it must be <namespace>/<name>, or <name>",
        ),
    ];
    for (change, expected) in cases {
        let mut wire = good();
        change(&mut wire);
        let said = decode_response(wire).map_err(|why| why.to_string());
        assert_eq!(said, Err(expected.to_owned()));
    }
}

/// As Envoy's clients ask for single resources once more.
#[test]
fn what_is_lost_is_subscribed_to_again() {
    let request = Request::Repair {
        kind: SyncKind::new("", "ConfigMap").expect("legal"),
        names: ["ns/b", "ns/a"]
            .map(|name| name.parse().expect("legal"))
            .into(),
    };
    let wire = encode_request(&request);
    assert_eq!(wire.type_url, "deltaplane.io/core/ConfigMap");
    assert_eq!(wire.resource_names_subscribe, ["ns/a", "ns/b"]);
    assert_eq!(
        (wire.response_nonce.as_str(), wire.node.as_ref()),
        ("", None)
    );
    assert!(wire.initial_resource_versions.is_empty());
    let mut nameless = wire.clone();
    nameless.resource_names_subscribe.clear();
    let said = decode_request(nameless).map_err(|why| why.to_string());
    let expected = "a subscription must be to all of a type (\"*\")";
    assert_eq!(said, Err(expected.to_owned()));
}

/// The bound is one of what is written per entry, too, and not much more.
#[test]
fn the_size_of_a_subscription_is_known_before_it_is_written() {
    let names = (0..10_000).map(|number| format!("namespace/name-{number}"));
    let names = names.map(|name| name.parse::<ObjectName>().expect("legal"));
    let beyond = |name: ObjectName| (name, Some(version(1)));
    let position = Position {
        epoch: Epoch("e".into()),
        revision: 7,
    };
    let held: BTreeMap<ObjectName, Version> =
        names.clone().map(|name| (name, version(1))).collect();
    let by_versions = Known::Versions {
        held,
        sources: vec![position.clone()],
    };
    let by_position = Known::Position {
        position,
        beyond: names.map(beyond).collect(),
    };
    for known in [by_versions, by_position] {
        let bound = size_of_subscription(&known);
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        let written = encode_request(&Request::Subscribe { kind, known }).encoded_len();
        assert!(written <= bound && bound < 2 * written, "{written} {bound}");
    }
}
