use bytes::Bytes;
use deltaplane_graph::{Definition, Known, Lookup, compile};
use deltaplane_schema::Schema;
use serde_json::json;

use super::*;

fn config_map(version: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "a", "namespace": "team", "uid": "u-a", "resourceVersion": version,
            "labels": {
                labels::PART_OF: "set", labels::OWNED: "true", labels::INSTANCE: "u-1",
                labels::NODE: "config", labels::INSTANCE_GROUP: "kro.run",
                labels::INSTANCE_KIND: "Shop",
            },
            "managedFields": [{
                "manager": labels::MANAGER, "operation": "Apply", "fieldsV1": {"f:data": {}},
            }],
        },
        "data": {"a": "b", "c": "d"},
    })
}

fn gvk() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

fn key() -> ObjectKey {
    ObjectKey::new("team", "a")
}

fn told(version: &str) -> ToldObject {
    ToldObject::of(&gvk(), config_map(version)).expect("of an instance")
}

/// What a write was answered with is the same object that the feed tells of next, and not a
/// copy of it; what was written since is another.
#[test]
fn what_was_answered_is_not_read_again() {
    let item = |version| Item::new(Bytes::from(config_map(version).to_string()));
    let mut picture = Picture::default();
    picture.put(told("7"), true);
    assert!(picture.has(&gvk(), &item("7").expect("an object")));
    assert!(!picture.has(&gvk(), &item("8").expect("an object")));
}

/// What is applied while a feed tells everything again is there, told or not.
#[test]
fn what_was_written_meanwhile_is_not_taken_for_gone() {
    let mut picture = Picture::default();
    let id = object_id(&gvk(), &key());
    let untold = BTreeSet::new();
    let before = picture.versions(&gvk());
    picture.put(told("7"), true);
    assert_eq!(picture.vanished(&gvk(), before, &untold), []);
    let before = picture.versions(&gvk());
    let all = BTreeSet::from([key()]);
    assert_eq!(picture.vanished(&gvk(), before.clone(), &all), []);
    assert_eq!(picture.vanished(&gvk(), before.clone(), &untold), [id]);
    picture.put(told("8"), true);
    assert_eq!(picture.vanished(&gvk(), before, &untold), []);
}

/// A graph whose status reads these.
fn reading(paths: &[&str]) -> Graph {
    let status = paths.iter().enumerate();
    let status: BTreeMap<String, String> = status
        .map(|(at, path)| (format!("f{at}"), format!("${{{path}}}")))
        .collect();
    let definition = json!({"metadata": {"name": "shop"}, "spec": {
        "schema": {"kind": "Shop", "apiVersion": "v1", "status": status},
        "resources": [{"id": "config", "template": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        }}],
    }});
    let definition = Definition::read(&definition).expect("a definition");
    let lookup = |gvk: &Gvk| {
        let known = Known::new(gvk.clone(), "configmaps", true, Schema::deduced());
        Lookup::Known(Arc::new(known))
    };
    compile(&definition, &lookup).expect("it is sound")
}

fn data(picture: &Picture) -> Value {
    let one = picture.find(&gvk(), &key()).expect("it is in the picture");
    let (_, live) = one.live().expect("it is of an instance");
    live.json()["data"].clone()
}

/// A second graph that reads more gets it, as soon as the feed of the kind told it again.
#[test]
fn what_is_kept_is_what_graphs_need() {
    let mut picture = Picture::default();
    // Nobody said yet what is needed.
    picture.put(told("7"), false);
    assert_eq!(data(&picture), json!({"a": "b", "c": "d"}));
    assert_eq!(picture.need(&reading(&["config.data.a"])), BTreeSet::new());
    assert_eq!(data(&picture), json!({"a": "b"}));
    picture.put(told("8"), false);
    assert_eq!(data(&picture), json!({"a": "b"}));
    assert!(picture.has(
        &gvk(),
        &Item::new(Bytes::from(config_map("8").to_string())).expect("an object")
    ));

    let more = reading(&["config.data.a", "config.data.c"]);
    assert_eq!(picture.need(&more), BTreeSet::from([gvk()]));
    assert!(picture.is_narrow(&gvk()));
    let item = Item::new(Bytes::from(config_map("8").to_string()));
    assert!(!picture.has(&gvk(), &item.expect("an object")));
    // What is older is not believed, however much it says.
    picture.put(told("6"), false);
    assert!(picture.is_narrow(&gvk()));
    picture.put(told("8"), false);
    assert!(!picture.is_narrow(&gvk()));
    assert_eq!(data(&picture), json!({"a": "b", "c": "d"}));
    // What is needed already takes nothing.
    assert_eq!(picture.need(&reading(&["config.data.c"])), BTreeSet::new());
    assert_eq!(data(&picture), json!({"a": "b", "c": "d"}));
}

/// Managed fields are kept until it is known that what was applied is intact; afterwards their
/// digest tells.
#[test]
fn managed_fields_are_kept_until_they_were_verified() {
    let mut picture = Picture::default();
    picture.need(&reading(&[]));
    let one = |picture: &Picture| {
        let one = picture.find(&gvk(), &key()).expect("it is in the picture");
        one.live().expect("it is of an instance").1
    };
    picture.put(told("7"), false);
    assert!(!one(&picture).sure && one(&picture).fields().is_some());
    picture.put(told("8"), true);
    assert!(one(&picture).sure && one(&picture).fields().is_none());
    picture.put(told("9"), false);
    assert!(one(&picture).sure && one(&picture).fields().is_none());
}
