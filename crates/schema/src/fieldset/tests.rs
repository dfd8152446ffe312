use serde_json::{Value, json};

use super::*;

fn set(fields: Value) -> Set {
    Set::from_fields_v1(&fields).unwrap()
}

#[test]
fn the_wire_form_is_kept() {
    let fields = json!({
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
            "f:finalizers": {"v:\"a\\u003cb\"": {}, "v:1": {}, "v:true": {}},
            "f:list": {"i:0": {"f:x": {}}},
        },
    });
    assert_eq!(set(fields.clone()).to_fields_v1(), fields);
    assert_eq!(
        set(fields)
            .paths()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        [
            ".metadata.labels",
            ".metadata.labels.app",
            ".spec.ports",
            ".spec.finalizers[=1]",
            ".spec.finalizers[=\"a<b\"]",
            ".spec.finalizers[=true]",
            ".spec.list[0].x",
            ".spec.ports[port=80,protocol=\"TCP\"]",
            ".spec.ports[port=80,protocol=\"TCP\"].port",
        ]
    );
}

#[test]
fn what_is_no_set_is_refused() {
    for fields in [
        json!([]),
        json!({"f:a": 1}),
        json!({"x": {}}),
        json!({"i:x": {}}),
        json!({"k:{}": {}}),
        json!({"k:1": {}}),
        json!({"v:": {}}),
        json!({"é:": {}}),
    ] {
        assert!(Set::from_fields_v1(&fields).is_err(), "{fields}");
    }
    assert_eq!(set(json!({"f:a": {}, "r:b": {}})), set(json!({"f:a": {}})));
    assert_eq!(set(json!(null)), Set::new());
    let deep = (0..200).fold(json!({}), |inner, _| json!({"f:a": inner}));
    assert_eq!(Set::from_fields_v1(&deep), Err(ParseError::TooDeep));
}

#[test]
fn elements_have_an_order() {
    let keys = [
        "f:a",
        "f:b",
        "k:{\"a\":1}",
        "k:{\"a\":1,\"b\":1}",
        "k:{\"a\":2}",
        "v:1",
        "v:1.5",
        "v:\"a\"",
        "v:false",
        "v:[]",
        "v:{}",
        "v:null",
        "i:1",
        "i:2",
    ];
    let elements: Vec<PathElement> = keys
        .iter()
        .map(|key| PathElement::from_key(key).unwrap().unwrap())
        .collect();
    assert!(elements.is_sorted());
    assert_eq!(
        elements.iter().map(PathElement::to_key).collect::<Vec<_>>(),
        keys
    );
}

/// The order of these texts is the reverse of that of the elements: inserting each where it belongs,
/// among all others, would take minutes.
#[test]
fn long_sets_are_read_without_moving_all_entries() {
    let keys = (100_000..600_000).map(|number| (format!("v:-{number}"), json!({})));
    let set = set(Value::Object(keys.collect()));
    assert_eq!(set.len(), 500_000);
    let first = set.paths().into_iter().next();
    assert_eq!(
        first.map(|path| path.to_string()),
        Some("[=-599999]".to_owned())
    );
}

#[test]
fn algebra() {
    let a = set(json!({"f:x": {".": {}, "f:y": {}}, "f:z": {}}));
    let b = set(json!({"f:x": {"f:y": {}}, "f:w": {}}));
    assert_eq!(
        a.union(&b),
        set(json!({"f:x": {".": {}, "f:y": {}}, "f:z": {}, "f:w": {}}))
    );
    assert_eq!(a.intersection(&b), set(json!({"f:x": {"f:y": {}}})));
    assert_eq!(a.difference(&b), set(json!({"f:x": {}, "f:z": {}})));
    assert_eq!(
        a.recursive_difference(&set(json!({"f:x": {}}))),
        set(json!({"f:z": {}}))
    );
    assert_eq!(a.leaves(), set(json!({"f:x": {"f:y": {}}, "f:z": {}})));
    assert_eq!(a.len(), 3);
    assert!(a.intersects(&b) && !a.intersects(&set(json!({"f:w": {}}))));
    assert!(a.contains(&a.paths()[0]) && !b.contains(&a.paths()[0]));
}

#[test]
fn filters() {
    let fields = set(json!({"f:spec": {
        "f:replicas": {},
        "f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}, "f:resources": {"f:limits": {}}}},
    }}));
    let field = |name: &str| Some(PathElement::field(name));
    let matcher = Matcher::prefix([field("spec"), field("containers"), None, field("resources")]);
    assert_eq!(
        Filter::Include(matcher.clone()).apply(fields.clone()),
        set(
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:resources": {"f:limits": {}}}}}})
        )
    );
    let both = Filter::Include(matcher.or(Matcher::prefix([field("spec"), field("replicas")])));
    assert_eq!(both.apply(fields.clone()).len(), 2);
    let none = Filter::Exclude(Set::of_fields(&[&["spec"]]));
    assert_eq!(none.apply(fields), Set::new());
}
