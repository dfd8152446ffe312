use serde_json::{Value, json};

use super::*;

fn zone(name: &str) -> ZoneName {
    name.parse().expect("legal")
}

/// An object as it is stored, from `origin` or authored here.
fn object(origin: Option<&str>) -> Value {
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "a", "namespace": "ns", "labels": {"app": "web"}},
        "spec": {"size": 1, "state": "Up"},
        "status": {"ready": true},
    });
    let metadata = &mut object["metadata"];
    match origin {
        Some("hub") => metadata["labels"][ORIGIN] = "hub".into(),
        Some(name) => {
            metadata["labels"][ORIGIN] = "zone".into();
            metadata["labels"][ZONE] = name.into();
            metadata["annotations"] = json!({DISPLAY_NAME: "a"});
            metadata["name"] = format!("{name}.a").into();
        }
        None => return object,
    }
    metadata["managedFields"] = json!([
        {"manager": MANAGER, "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}}},
    ]);
    object
}

/// What is said to a write at `place` that makes `new` of `old`.
fn said(place: &str, part: Part, old: Option<&Value>, new: Option<&Value>) -> String {
    let place = match place {
        "hub" => Origin::Hub,
        name => Origin::Zone(zone(name)),
    };
    let write = Write {
        place: &place,
        synced: Some(Synced {
            direction: Direction::Both,
            status: StatusWriters::Zones,
        }),
        custom: true,
        computed: &Computed::list("spec.state, spec.none"),
        writer: Writer::Other,
        part,
        old,
        new,
        zones: &[zone("eu-1"), zone("eu-2")],
    };
    judge(&write).map_or_else(|refusal| refusal.to_string(), |()| "yes".to_owned())
}

fn changed(object: &Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut object = object.clone();
    change(&mut object);
    object
}

#[test]
fn status_is_written_where_an_object_is_consumed() {
    let old = object(None);
    let new = changed(&old, |new| new["status"]["ready"] = false.into());
    let at = |place| said(place, Part::Status, Some(&old), Some(&new));
    assert_eq!(
        at("hub"),
        "status is computed where an object is consumed: in zones, and not at the hub; write it in the zone, and read it at /zones/<zone>/…"
    );
    assert_eq!(at("eu-1"), "yes");
    // Kinds without the subresource have it in the main one.
    let at = |place| said(place, Part::Main, Some(&old), Some(&new));
    assert!(at("hub").starts_with("status is computed"));
    assert_eq!(at("eu-1"), "yes");
    let mirrored = object(Some("hub"));
    let new = changed(&mirrored, |new| new["status"]["ready"] = false.into());
    let main = said("eu-1", Part::Main, Some(&mirrored), Some(&new));
    assert_eq!(main, "yes");
    assert_eq!(
        said("eu-1", Part::Status, Some(&mirrored), Some(&new)),
        "yes"
    );
}

#[test]
fn mirrored_objects_are_changed_at_their_origin() {
    for (place, origin, expected) in [
        (
            "hub",
            "eu-1",
            "the object is managed by zone eu-1 and read-only here; edit it in zone eu-1, as a",
        ),
        (
            "eu-2",
            "eu-1",
            "the object is managed by zone eu-1 and read-only here; edit it in zone eu-1, as a",
        ),
        (
            "eu-1",
            "hub",
            "the object is managed by the hub and read-only here; edit it at the hub, as a",
        ),
    ] {
        let old = object(Some(origin));
        let write = |new: Option<&Value>| said(place, Part::Main, Some(&old), new);
        let spec = changed(&old, |new| new["spec"]["size"] = 2.into());
        let label = changed(&old, |new| {
            new["metadata"]["labels"]["app"] = "other".into()
        });
        let unlabelled = changed(&old, |new| {
            let labels = new["metadata"]["labels"].as_object_mut();
            labels.expect("some").remove("app");
        });
        let unmanaged = changed(&old, |new| new["metadata"]["managedFields"] = json!([{}]));
        // The garbage collector would delete it.
        let owned = changed(&old, |new| {
            let absent =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u"});
            new["metadata"]["ownerReferences"] = json!([absent]);
        });
        let changes = [&spec, &label, &unlabelled, &unmanaged, &owned];
        for new in changes.map(Some).into_iter().chain([None]) {
            assert_eq!(write(new), expected, "{new:?}");
        }
        assert_eq!(
            said(place, Part::Computed, Some(&old), Some(&spec)),
            expected
        );
        let notes = changed(&old, |new| {
            new["metadata"]["finalizers"] = json!(["kro.run/finalizer"]);
            new["metadata"]["labels"]["mine"] = "x".into();
        });
        assert_eq!(write(Some(&notes)), "yes", "controllers keep notes");
        // An owner that it has already can be removed.
        assert_eq!(said(place, Part::Main, Some(&owned), Some(&old)), "yes");
    }
    // What a zone left behind that is gone can be deleted at the hub, and not changed.
    let left = object(Some("eu-9"));
    let new = changed(&left, |new| new["spec"]["size"] = 2.into());
    assert_eq!(said("hub", Part::Main, Some(&left), None), "yes");
    assert_ne!(said("hub", Part::Main, Some(&left), Some(&new)), "yes");
    let own = object(None);
    let new = changed(&own, |new| new["spec"]["size"] = 2.into());
    assert_eq!(said("hub", Part::Main, Some(&own), Some(&new)), "yes");
    assert_eq!(said("eu-1", Part::Main, Some(&own), None), "yes");
}

#[test]
fn a_status_carries_nothing_else_along() {
    let mirrored = object(Some("hub"));
    let freed = changed(&mirrored, |new| {
        let labels = new["metadata"]["labels"].as_object_mut();
        labels.expect("some").remove(ORIGIN);
    });
    let relabelled = changed(&mirrored, |new| {
        new["metadata"]["labels"]["app"] = "x".into()
    });
    for new in [&freed, &relabelled] {
        assert_ne!(
            said("eu-1", Part::Status, Some(&mirrored), Some(new)),
            "yes"
        );
    }
}

#[test]
fn our_controllers_end_what_is_in_a_namespace_that_ends() {
    let mirrored = object(Some("hub"));
    let spec = changed(&mirrored, |new| new["spec"]["size"] = 2.into());
    let going = changed(&mirrored, |new| {
        new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    });
    let judged = |old: &Value, new: Option<&Value>| {
        let write = Write {
            place: &Origin::Zone(zone("eu-1")),
            synced: None,
            custom: true,
            computed: &[],
            writer: Writer::Controllers,
            part: Part::Main,
            old: Some(old),
            new,
            zones: &[],
        };
        judge(&write).is_ok()
    };
    assert!(judged(&mirrored, None));
    assert!(
        judged(&going, Some(&spec)),
        "finalizers of namespaces are in their spec"
    );
    assert!(!judged(&mirrored, Some(&spec)));
}

#[test]
fn nobody_charges_a_namespace_to_a_zone() {
    let own = json!({"metadata": {"name": "team", "labels": {}}});
    let made = changed(&own, |new| {
        new["metadata"]["labels"]["deltaplane.io/made-for"] = "eu-2".into();
    });
    let write = |old: &Value, new: &Value| said("hub", Part::Main, Some(old), Some(new));
    assert!(write(&own, &made).contains("deltaplane.io/made-for"));
    let allowed = write(&own, &own);
    assert_eq!(write(&made, &made), allowed);
    assert_eq!(write(&made, &own), allowed, "anybody may take it away");
}

#[test]
fn where_an_object_is_from_cannot_be_forged() {
    let own = object(None);
    for (place, key) in [
        ("labels", ORIGIN),
        ("labels", ZONE),
        ("annotations", VERSION),
        ("annotations", DISPLAY_NAME),
    ] {
        let forged = changed(&own, |new| new["metadata"][place][key] = "eu-2".into());
        let expected = format!(
            "{key} says where an object is from and is written by sync alone; leave it as it is"
        );
        assert_eq!(said("hub", Part::Main, None, Some(&forged)), expected);
        assert_eq!(
            said("eu-1", Part::Main, Some(&own), Some(&forged)),
            expected
        );
    }
}

/// `kubectl rollout undo` also brings back annotations, those of sync among them.
#[test]
fn a_mirrored_object_is_read_only_whatever_a_write_changes() {
    let mirrored = object(Some("hub"));
    let freed = changed(&mirrored, |new| {
        new["metadata"]["labels"] = json!({"app": "web"})
    });
    let rolled_back = changed(&mirrored, |new| {
        new["metadata"]["annotations"][VERSION] = "an older one".into();
        new["spec"]["size"] = 2.into();
    });
    for (part, new) in [
        (Part::Main, &freed),
        (Part::Main, &rolled_back),
        (Part::Status, &freed),
    ] {
        assert_eq!(
            said("eu-1", part, Some(&mirrored), Some(new)),
            "the object is managed by the hub and read-only here; edit it at the hub, as a"
        );
    }
}

#[test]
fn names_of_zones_objects_are_theirs() {
    let new = |name: &str| {
        let object = changed(&object(None), |new| {
            new["metadata"]["name"] = name.into();
            new["spec"] = json!({"size": 1});
            new["status"] = json!({});
        });
        said("hub", Part::Main, None, Some(&object))
    };
    assert_eq!(
        new("eu-1.a"),
        "names that begin with \"eu-1.\" are those of zone eu-1's objects; choose another name"
    );
    assert_eq!(new("eu-3.a"), "yes");
    assert_eq!(new("eu-1-a"), "yes");
    assert_eq!(new("eu-1-a-0123456789"), "yes", "it would be eu-1.a");
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "eu-1-a-0123456789"},
    });
    assert_eq!(
        said("hub", Part::Main, None, Some(&service)),
        "names that begin with \"eu-1-\" and end with a dash and ten hex digits are those of zone eu-1's objects; choose another name"
    );
    assert_eq!(
        said("eu-1", Part::Main, None, Some(&service)),
        "yes",
        "in zones they are as good as others"
    );
}

#[test]
fn computed_fields_have_a_way_of_their_own() {
    let old = object(None);
    let state = changed(&old, |new| new["spec"]["state"] = "Down".into());
    let size = changed(&old, |new| new["spec"]["size"] = 2.into());
    let write = |part, new| said("hub", part, Some(&old), Some(new));
    assert_eq!(
        write(Part::Main, &state),
        "spec.state is computed by controllers; they write it through the /computed subresource"
    );
    assert_eq!(write(Part::Main, &size), "yes");
    assert_eq!(write(Part::Computed, &state), "yes");
    assert_eq!(
        write(Part::Computed, &size),
        "only computed fields are written through /computed, and spec.size is none"
    );
}

#[test]
fn computed_fields_bring_the_objects_that_hold_them() {
    let (old, all) = (
        json!({"spec": {"size": 1}}),
        json!({"spec": {"size": 1, "network": {"address": "a"}}}),
    );
    let write = |part, old: &Value, new: &Value| {
        judge(&Write {
            place: &Origin::Hub,
            synced: None,
            custom: true,
            computed: &Computed::list("spec.network.address"),
            writer: Writer::Other,
            part,
            old: Some(old),
            new: Some(new),
            zones: &[],
        })
    };
    assert_eq!(write(Part::Computed, &old, &all), Ok(()));
    assert_eq!(write(Part::Computed, &all, &old), Ok(()));
    let other = changed(&all, |new| new["spec"]["network"]["mtu"] = 1.into());
    let refused = Refusal::NotComputed("spec.network".to_owned());
    assert_eq!(write(Part::Computed, &old, &other), Err(refused));
    for parent in [json!("text"), json!([])] {
        let without = changed(&all, |new| new["spec"]["network"] = parent);
        assert!(write(Part::Main, &all, &without).is_err(), "{without}");
    }
}

#[test]
fn sync_at_the_hub_never_removes_an_origin() {
    let old = object(Some("eu-1"));
    let stripped = changed(&old, |new| {
        let labels = new["metadata"]["labels"].as_object_mut().expect("some");
        labels.retain(|key, _| ![ORIGIN, ZONE].contains(&key.as_str()));
    });
    let by_sync = |place: Origin, new: Option<&Value>| {
        judge(&Write {
            place: &place,
            synced: None,
            custom: false,
            computed: &[],
            writer: Writer::Sync,
            part: Part::Main,
            old: Some(&old),
            new,
            zones: &[zone("eu-1")],
        })
    };
    let owner = Owner(Origin::Zone(zone("eu-1")));
    let refused = Err(Refusal::OriginRemoved(owner));
    assert_eq!(by_sync(Origin::Hub, Some(&stripped)), refused);
    assert_eq!(by_sync(Origin::Hub, None), Ok(()));
    assert_eq!(by_sync(Origin::Zone(zone("eu-2")), Some(&stripped)), Ok(()));
}

#[test]
fn computed_fields_that_are_left_out_stay() {
    let fields = Computed::list("spec.state, spec.deep.number, spec.none");
    let old = json!({"spec": {"size": 1, "state": "Up", "deep": {"number": 7, "a": 1}}});
    let check = |mut new: Value, expected: Value| {
        restore_computed(&fields, &mut new, &old);
        assert_eq!(new, expected);
    };
    check(
        json!({"spec": {"size": 2, "deep": {"a": 2}}}),
        json!({"spec": {"size": 2, "state": "Up", "deep": {"number": 7, "a": 2}}}),
    );
    check(old.clone(), old.clone());
    let changed = json!({"spec": {"state": "Down", "deep": {"number": 8}}});
    check(changed.clone(), changed);
    // The objects that hold a field are restored with it.
    let only = json!({"spec": {"state": "Up", "deep": {"number": 7}}});
    for absent in [
        json!({}),
        json!({"spec": {}}),
        json!({"spec": null}),
        json!({"spec": {"state": null, "deep": null}}),
    ] {
        check(absent, only.clone());
    }
    check(
        json!({"spec": {"size": 1}}),
        json!({"spec": {"size": 1, "state": "Up", "deep": {"number": 7}}}),
    );
    // Something else in their place is a change.
    for other in [json!("text"), json!([{"number": 7}])] {
        let new = json!({"spec": {"state": "Up", "deep": other}});
        check(new.clone(), new);
    }
}
