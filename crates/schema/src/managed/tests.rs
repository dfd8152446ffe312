use deltaplane_api::field::Path;
use serde_json::{Value, json};

use super::*;
use crate::crd;

fn schema() -> Schema {
    let keyed = json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "value": {"type": "integer"}},
        },
    });
    let raw = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "image": {"type": "string"},
            "ports": keyed,
        }},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
    }});
    crd::compile(&raw, &Path::root(), crd::Options::default()).unwrap()
}

/// One object, and the requests that change it.
struct Fixture {
    schema: Schema,
    live: Option<Value>,
    now: i64,
    filter: Filter,
}

impl Fixture {
    fn new() -> Self {
        Self {
            schema: schema(),
            live: None,
            now: 0,
            filter: Filter::Exclude(Set::of_fields(&[&["status"]])),
        }
    }

    fn with<T>(
        &mut self,
        manager: &str,
        subresource: &str,
        act: impl FnOnce(&Context<'_>, Option<&Value>) -> T,
    ) -> T {
        self.now += 1;
        let versions = SingleVersion {
            api_version: "x.io/v1",
            schema: &self.schema,
        };
        let cx = Context {
            versions: &versions,
            api_version: "x.io/v1",
            kind: "X",
            subresource,
            manager,
            fields: &self.filter,
            now: Time::from_unix(self.now),
        };
        act(&cx, self.live.as_ref())
    }

    fn update(&mut self, manager: &str, body: Value) {
        let mut new = object(body);
        self.with(manager, "", |cx, live| track_update(cx, live, &mut new));
        self.live = Some(new);
    }

    /// Keeps the managed fields of the stored object, as a client does that read it before.
    fn edit(&mut self, manager: &str, edit: impl FnOnce(&mut Value)) {
        let mut new = self.live.clone().unwrap();
        edit(&mut new);
        self.with(manager, "", |cx, live| track_update(cx, live, &mut new));
        self.live = Some(new);
    }

    fn apply(&mut self, manager: &str, body: Value, force: bool) -> Result<bool, ApplyError> {
        let patch = object(body);
        let applied = self.with(manager, "", |cx, live| apply(cx, live, &patch, force))?;
        let changed = self.live.as_ref() != Some(&applied);
        self.live = Some(applied);
        Ok(changed)
    }

    /// `manager operation time fields` of every entry.
    fn owners(&self) -> Vec<String> {
        let entries = self
            .live
            .as_ref()
            .and_then(|live| metadata(live, "managedFields"))
            .and_then(Value::as_array);
        let entries = entries.into_iter().flatten().map(|entry| {
            let word = |key: &str| {
                entry
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or("-")
                    .to_owned()
            };
            let seconds = word("time")
                .parse::<Time>()
                .map_or("-".to_owned(), |time| time.unix().to_string());
            let fields = Set::from_fields_v1(&entry["fieldsV1"]).unwrap();
            let fields: Vec<String> = fields
                .leaves()
                .paths()
                .iter()
                .map(ToString::to_string)
                .collect();
            format!(
                "{} {} {seconds} {}",
                word("manager"),
                word("operation"),
                fields.join(" ")
            )
        });
        entries.collect()
    }

    fn spec(&self) -> Value {
        self.live
            .as_ref()
            .map(|live| live["spec"].clone())
            .unwrap_or_default()
    }
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "a", "uid": "u"}, "spec": spec})
}

#[test]
fn the_wire_form_is_that_of_kubernetes() {
    let mut fixture = Fixture::new();
    fixture.update(
        "kubectl-create",
        json!({"image": "a", "ports": [{"name": "p", "value": 1}]}),
    );
    assert_eq!(
        fixture.live.unwrap()["metadata"]["managedFields"],
        json!([{
            "apiVersion": "x.io/v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {".": {}, "f:image": {}, "f:ports": {
                ".": {}, "k:{\"name\":\"p\"}": {".": {}, "f:name": {}, "f:value": {}}}}},
            "manager": "kubectl-create",
            "operation": "Update",
            "time": "1970-01-01T00:00:01Z",
        }])
    );
}

#[test]
fn updaters_own_what_they_change() {
    let mut fixture = Fixture::new();
    fixture.update("a", json!({"image": "a", "replicas": 1}));
    fixture.edit("b", |new| new["spec"]["replicas"] = json!(2));
    fixture.edit("a", |_| {});
    assert_eq!(
        fixture.owners(),
        ["a Update 1 .spec.image", "b Update 2 .spec.replicas"]
    );
    fixture.edit("c", |new| {
        drop(new["spec"].as_object_mut().unwrap().remove("replicas"))
    });
    assert_eq!(fixture.owners(), ["a Update 1 .spec.image"]);
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let mut fixture = Fixture::new();
    assert_eq!(
        fixture.apply("a", json!({"image": "a", "ports": [{"name": "p"}]}), false),
        Ok(true)
    );
    let stored = fixture.live.clone();
    assert_eq!(
        fixture.apply("a", json!({"image": "a", "ports": [{"name": "p"}]}), false),
        Ok(false)
    );
    assert_eq!(fixture.live, stored);
}

#[test]
fn conflicts_are_told_and_forced() {
    let mut fixture = Fixture::new();
    fixture.update(
        "kubectl-client-side-apply",
        json!({"replicas": 1, "image": "x"}),
    );
    let Err(ApplyError::Conflicts(conflicts)) = fixture.apply("b", json!({"replicas": 2}), false)
    else {
        panic!()
    };
    assert_eq!(
        conflicts.message(),
        r#"Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using x.io/v1: .spec.replicas"#
    );
    let cause = Cause {
        field: ".spec.replicas".to_owned(),
        message: r#"conflict with "kubectl-client-side-apply" using x.io/v1"#.to_owned(),
    };
    assert_eq!(conflicts.causes().collect::<Vec<_>>(), [cause]);
    let Err(ApplyError::Conflicts(two)) =
        fixture.apply("b", json!({"replicas": 2, "image": "y"}), false)
    else {
        panic!()
    };
    assert_eq!(
        two.message(),
        "Apply failed with 2 conflicts: conflicts with \"kubectl-client-side-apply\" using x.io/v1:\n- .spec.image\n- .spec.replicas"
    );
    assert_eq!(fixture.apply("b", json!({"replicas": 2}), true), Ok(true));
    assert_eq!(
        fixture.owners(),
        [
            "b Apply 4 .spec.replicas",
            "kubectl-client-side-apply Update 1 .spec.image"
        ]
    );
}

#[test]
fn what_is_no_longer_applied_goes() {
    let mut fixture = Fixture::new();
    fixture
        .apply(
            "a",
            json!({"image": "a", "ports": [{"name": "p", "value": 1}, {"name": "q"}]}),
            false,
        )
        .unwrap();
    fixture
        .apply("b", json!({"ports": [{"name": "q", "value": 2}]}), false)
        .unwrap();
    fixture
        .apply("a", json!({"ports": [{"name": "p", "value": 1}]}), false)
        .unwrap();
    assert_eq!(
        fixture.spec(),
        json!({"ports": [{"name": "p", "value": 1}, {"name": "q", "value": 2}]})
    );
    fixture.apply("b", json!({}), false).unwrap();
    assert_eq!(
        fixture.spec(),
        json!({"ports": [{"name": "p", "value": 1}]})
    );
}

#[test]
fn what_was_there_before_belongs_to_the_past() {
    let mut fixture = Fixture::new();
    fixture.live = Some(object(json!({"image": "a", "replicas": 1})));
    let error = fixture
        .apply("b", json!({"image": "b"}), false)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" using x.io/v1: .spec.image"#
    );
    fixture.apply("b", json!({"image": "b"}), true).unwrap();
    assert_eq!(
        fixture.owners(),
        [
            "b Apply 2 .spec.image",
            "before-first-apply Update 2 .spec.replicas"
        ]
    );
}

#[test]
fn owners_can_be_cleared_by_users() {
    let mut fixture = Fixture::new();
    fixture.update("a", json!({"image": "a"}));
    for cleared in [json!([]), json!([{}])] {
        let mut fixture = Fixture {
            live: fixture.live.clone(),
            ..Fixture::new()
        };
        fixture.edit("b", |new| {
            new["metadata"]["managedFields"] = cleared;
            new["spec"]["replicas"] = json!(1);
        });
        assert_eq!(fixture.owners(), [""; 0]);
        fixture.edit("b", |new| new["spec"]["replicas"] = json!(2));
        assert_eq!(fixture.owners(), [""; 0], "cleared stays cleared");
    }
    fixture.edit("b", |new| {
        new["metadata"]["managedFields"] = json!([{"operation": "Steal"}])
    });
    assert_eq!(
        fixture.owners(),
        ["a Update 1 .spec.image"],
        "nonsense is ignored"
    );
}

#[test]
fn updaters_are_limited() {
    let mut fixture = Fixture::new();
    fixture.update("m00", json!({"image": "a"}));
    for number in 1..=12 {
        let name = format!("label{number:02}");
        fixture.edit(&format!("m{number:02}"), |new| {
            new["metadata"]["labels"][&name] = json!("x")
        });
    }
    let owners = fixture.owners();
    assert_eq!(owners.len(), 10);
    assert_eq!(
        owners[0],
        "ancient-changes Update 4 .metadata.labels.label01 .metadata.labels.label02 .metadata.labels.label03 .spec.image"
    );
}

#[test]
fn kubectl_takes_over_from_itself() {
    let mut fixture = Fixture::new();
    let last =
        r#"{"apiVersion":"x.io/v1","kind":"X","metadata":{"name":"a"},"spec":{"image":"a"}}"#;
    let mut live = object(json!({"image": "a", "replicas": 1}));
    live["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    fixture.with("kubectl-client-side-apply", "", |cx, _| {
        track_update(cx, None, &mut live)
    });
    fixture.live = Some(live);
    assert_eq!(
        fixture.apply("kubectl", json!({"image": "b"}), false),
        Ok(true)
    );
    let live = fixture.live.as_ref().unwrap();
    assert_eq!(
        live["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"],
        json!(
            "{\"apiVersion\":\"x.io/v1\",\"kind\":\"X\",\"metadata\":{\"name\":\"a\",\"uid\":\"u\"},\"spec\":{\"image\":\"b\"}}\n"
        )
    );
    assert!(
        fixture
            .apply("kubectl", json!({"replicas": 2}), false)
            .is_err()
    );
}

#[test]
fn the_status_subresource_has_owners_of_its_own() {
    let mut fixture = Fixture::new();
    fixture.update("a", json!({"image": "a"}));
    let mut new = fixture.live.clone().unwrap();
    new["status"] = json!({"ready": 1});
    new["metadata"]["managedFields"] = json!([]);
    fixture.filter = Filter::Exclude(Set::of_fields(&[&["spec"], &["metadata"]]));
    fixture.with("b", "status", |cx, live| track_update(cx, live, &mut new));
    fixture.live = Some(new);
    assert_eq!(
        fixture.owners(),
        ["a Update 1 .spec.image", "b Update 2 .status.ready"]
    );
    assert_eq!(
        fixture.live.unwrap()["metadata"]["managedFields"][1]["subresource"],
        "status"
    );
}

#[test]
fn bad_patches_are_refused() {
    let mut fixture = Fixture::new();
    let mut try_apply = |patch: Value| {
        fixture
            .with("a", "", |cx, live| apply(cx, live, &patch, false))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        try_apply(json!({"apiVersion": "v1", "kind": "X"})),
        "invalid object type: /v1, Kind=X"
    );
    let mut own = object(json!({}));
    own["metadata"]["managedFields"] = json!([]);
    assert_eq!(try_apply(own), "metadata.managedFields must be nil");
    assert_eq!(
        try_apply(object(json!({"foo": 1}))),
        "failed to create typed patch object (/a; x.io/v1, Kind=X): .spec.foo: field not declared in schema"
    );
    assert_eq!(
        try_apply(object(json!({"ports": [{"name": "a"}, {"name": "a"}]}))),
        r#"failed to create typed patch object (/a; x.io/v1, Kind=X): .spec.ports: duplicate entries for key [name="a"]"#
    );
}

#[test]
fn names_of_managers() {
    assert_eq!(
        manager_from_user_agent("kubectl/v1.36.0 (linux/amd64) kubernetes/abc"),
        "kubectl"
    );
    assert_eq!(manager_from_user_agent(&"x".repeat(200)).len(), 128);
    assert_eq!(manager_from_user_agent(""), "");
    assert_eq!(validate_field_manager("a b", &Path::root()), []);
    assert_eq!(validate_field_manager("a\tb", &Path::root()).len(), 1);
    assert_eq!(
        validate_field_manager(&"x".repeat(129), &Path::root()).len(),
        1
    );
    let object = json!({"metadata": {"managedFields": [{"operation": "Own", "fieldsType": "V2"}]}});
    assert_eq!(validate_managed_fields(&object).len(), 2);
}
