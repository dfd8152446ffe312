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
