//! Objects of others that nodes refer to.

use super::*;

/// A room for each guest, who is somebody else's, and a sign if there are any.
const HOTEL: &str = r#"
schema:
  kind: Hotel
  apiVersion: v1
  spec: {name: string}
  status: {guests: "${guests.size()}"}
resources:
- id: guests
  externalRef:
    {apiVersion: v1, kind: ConfigMap, metadata: {selector: {matchLabels: {guest: "yes"}}}}
- id: rooms
  forEach: [{guest: "${guests}"}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "room-${guest.metadata.name}"}}
- id: sign
  includeWhen: ["${guests.size() > 0}"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: sign}}
"#;

fn config_map(name: &str, labels: Json) -> Arc<Live> {
    let id = ObjectId {
        gvk: crate::Gvk::new("", "v1", "ConfigMap"),
        namespace: "team".to_owned(),
        name: name.to_owned(),
    };
    let json = json!({"metadata": {"name": name, "labels": labels}});
    Arc::new(Live::parsed(id, json))
}

impl World {
    fn arrive(&mut self, name: &str) {
        let guest = config_map(name, json!({"guest": "yes"}));
        self.observed.insert("guests", guest);
    }
}

/// That nobody sees them does not mean that they are gone.
#[test]
fn what_cannot_be_seen_is_not_taken_for_none() {
    let mut world = World::new(HOTEL, json!({"spec": {"name": "inn"}}));
    for name in ["ann", "bob"] {
        world.arrive(name);
    }
    world.step("pass");
    world.step("unseen guests");
    world.step("pass");
    world.arrive("ann");
    world.step("seen guests");
    world.step("pass");
    expect![[r#"
        apply ConfigMap team/room-ann (Absent)
        apply ConfigMap team/room-bob (Absent)
        apply ConfigMap team/sign (Absent)
        guests: Ready
        rooms: Ready
        sign: Ready
        status {"guests":2}
        guests: Unseen
        rooms: blocked by guests
        sign: blocked by guests
        status {}
        delete ConfigMap team/room-bob of rooms
        guests: Ready
        rooms: Ready
        sign: Ready
        status {"guests":1}
    "#]]
    .assert_eq(&world.said);
}

/// With a house of its own.
const OWN: &str = r#"
schema: {kind: Inn, apiVersion: v1, spec: {name: string}}
resources:
- id: house
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: mine}}
"#;

/// With somebody else's, of some name.
const REFERRING: &str = r#"
schema: {kind: Inn, apiVersion: v1, spec: {name: string, there: boolean}}
resources:
- id: house
  includeWhen: ["${schema.spec.there}"]
  externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.name}"}}
"#;

/// It has a house of its own, sees one of others, and then refers to the one of this name.
fn check_referring(name: &str, steps: &[&str], expected: &Expect) {
    let mut world = World::new(OWN, json!({"spec": {"name": name, "there": true}}));
    world.step("pass");
    world.said.clear();
    world.graph = compiled(REFERRING).unwrap_or_else(|problems| panic!("{problems}"));
    let theirs = config_map("theirs", json!({}));
    world.observed.insert("house", theirs);
    steps.iter().for_each(|step| world.step(step));
    expected.assert_eq(&world.said);
}

#[test]
fn what_a_node_made_goes_when_it_refers_to_another() {
    check_referring(
        "theirs",
        &["pass"],
        &expect![[r#"
            delete ConfigMap team/mine of house
            house: Ready
            status {}
        "#]],
    );
}

#[test]
fn what_a_node_made_stays_when_it_refers_to_that() {
    check_referring(
        "mine",
        &["pass", "twin house/mine", "pass"],
        &expect![[r#"
            house: Ready
            status {}
            house: Ready
            status {}
        "#]],
    );
}

/// What a node referred to may still be seen when it refers to nothing.
#[test]
fn what_is_others_stays_when_nobody_refers_to_it() {
    check_referring(
        "theirs",
        &["set schema spec.there=false", "pass"],
        &expect![[r#"
            delete ConfigMap team/mine of house
            house: excluded by ${schema.spec.there}
            status {}
        "#]],
    );
}
