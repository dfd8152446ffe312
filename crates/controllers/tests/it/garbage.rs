use deltaplane_client::{ObjectKey, Resource};
use serde_json::{Value, json};

use crate::gate::Gate;
use crate::world::{
    World, condition, config_maps, custom, definition, definitions_kind, owner, secrets,
};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

async fn create(world: &World, kind: &Resource, name: &str, owners: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "default", "ownerReferences": owners});
    world.create(kind, json!({"metadata": metadata})).await
}

#[tokio::test]
async fn background() {
    let world = World::start().await;
    let maps = config_maps();
    let top = create(&world, &maps, "top", json!([])).await;
    let other = create(&world, &maps, "other", json!([])).await;
    let middle = create(&world, &maps, "middle", json!([owner(&maps, &top, false)])).await;
    create(&world, &maps, "leaf", json!([owner(&maps, &middle, false)])).await;
    let both = json!([owner(&maps, &top, false), owner(&maps, &other, false)]);
    create(&world, &maps, "shared", both).await;
    world.delete(&maps, &key("top"), "Background").await;
    world.until_gone(&maps, &key("middle")).await;
    world.until_gone(&maps, &key("leaf")).await;
    let one_owner = |object: &Value| {
        object["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|owners| owners.len() == 1)
    };
    let shared = world.until(&maps, &key("shared"), one_owner).await;
    assert_eq!(
        shared["metadata"]["ownerReferences"][0]["uid"],
        other["metadata"]["uid"]
    );
}

#[tokio::test]
async fn an_owner_that_never_was_is_gone() {
    let world = World::start().await;
    let maps = config_maps();
    let never = json!({"metadata": {"name": "never", "uid": "no-such-uid"}});
    create(&world, &maps, "stray", json!([owner(&maps, &never, false)])).await;
    world.until_gone(&maps, &key("stray")).await;
    let top = create(&world, &maps, "top", json!([])).await;
    let impostor = json!({"metadata": {"name": top["metadata"]["name"], "uid": "other-uid"}});
    create(
        &world,
        &maps,
        "mistaken",
        json!([owner(&maps, &impostor, false)]),
    )
    .await;
    world.until_gone(&maps, &key("mistaken")).await;
    assert!(world.get(&maps, &key("top")).await.is_some());
}

#[tokio::test]
async fn foreground() {
    let world = World::start().await;
    let maps = config_maps();
    let top = create(&world, &maps, "top", json!([])).await;
    let owners = json!([owner(&maps, &top, true)]);
    let metadata = json!({"name": "held", "namespace": "default", "ownerReferences": owners,
        "finalizers": ["example.com/slow"]});
    world.create(&maps, json!({"metadata": metadata})).await;
    create(&world, &maps, "free", json!([owner(&maps, &top, true)])).await;
    world.delete(&maps, &key("top"), "Foreground").await;
    world.until_gone(&maps, &key("free")).await;
    let deleting = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    world.until(&maps, &key("held"), deleting).await;
    let top = world
        .get(&maps, &key("top"))
        .await
        .expect("it waits for what is held");
    assert_eq!(top["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    world
        .patch(
            &maps,
            &key("held"),
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    world.until_gone(&maps, &key("top")).await;
    world.until_gone(&maps, &key("held")).await;
}

#[tokio::test]
async fn a_circle_goes_in_the_foreground() {
    let world = World::start().await;
    let maps = config_maps();
    let a = create(&world, &maps, "a", json!([])).await;
    let b = create(&world, &maps, "b", json!([owner(&maps, &a, true)])).await;
    let c = create(&world, &maps, "c", json!([owner(&maps, &b, true)])).await;
    let owners = json!({"metadata": {"ownerReferences": [owner(&maps, &c, true)]}});
    world.patch(&maps, &key("a"), owners).await;
    world.delete(&maps, &key("a"), "Foreground").await;
    for name in ["a", "b", "c"] {
        world.until_gone(&maps, &key(name)).await;
    }
}

#[tokio::test]
async fn orphans_stay() {
    let world = World::start().await;
    let maps = config_maps();
    let top = create(&world, &maps, "top", json!([])).await;
    let names: Vec<String> = (0..40)
        .map(|number| format!("dependent-{number}"))
        .collect();
    for name in &names {
        create(&world, &maps, name, json!([owner(&maps, &top, true)])).await;
    }
    world.delete(&maps, &key("top"), "Orphan").await;
    world.until_gone(&maps, &key("top")).await;
    for name in &names {
        let left = world
            .get(&maps, &key(name))
            .await
            .expect("it was left behind");
        assert_eq!(left["metadata"]["ownerReferences"], Value::Null, "{name}");
    }
}

/// Both live at one time, but the collector hears of the owner's end first.
#[tokio::test]
async fn an_orphan_that_is_told_late_stays() {
    let mut gate = None;
    let world = World::start_with(|client| {
        let (client, own) = Gate::at(client, "/api/v1/secrets");
        gate = Some(own);
        client
    });
    let world = world.await;
    let gate = gate.expect("made at the start");
    let (maps, secrets) = (config_maps(), secrets());
    // The collector has its picture of secrets when this is gone.
    let never = json!({"metadata": {"name": "never", "uid": "no-such-uid"}});
    create(
        &world,
        &secrets,
        "stray",
        json!([owner(&maps, &never, false)]),
    )
    .await;
    world.until_gone(&secrets, &key("stray")).await;
    let top = create(&world, &maps, "top", json!([])).await;
    gate.shut();
    create(&world, &secrets, "late", json!([owner(&maps, &top, true)])).await;
    world.delete(&maps, &key("top"), "Orphan").await;
    world.until_gone(&maps, &key("top")).await;
    let late = world
        .get(&secrets, &key("late"))
        .await
        .expect("left behind");
    assert_eq!(late["metadata"]["ownerReferences"], Value::Null);
    // What it hears now is about an owner that is gone; another such is, by then, gone too.
    gate.open();
    create(
        &world,
        &secrets,
        "stray",
        json!([owner(&maps, &top, false)]),
    )
    .await;
    world.until_gone(&secrets, &key("stray")).await;
    assert!(world.get(&secrets, &key("late")).await.is_some());
}

/// Alone, and with another that waits for it.
#[tokio::test]
async fn what_waits_for_itself_goes() {
    let world = World::start().await;
    let maps = config_maps();
    for policy in ["Foreground", "Orphan", "Background"] {
        let own = create(&world, &maps, "own", json!([])).await;
        let below = json!([owner(&maps, &own, true)]);
        let below = create(&world, &maps, "below", below).await;
        let owners = [owner(&maps, &own, true), owner(&maps, &below, true)];
        let owners = json!({"metadata": {"ownerReferences": owners}});
        world.patch(&maps, &key("own"), owners).await;
        world.delete(&maps, &key("own"), policy).await;
        world.until_gone(&maps, &key("own")).await;
        if policy == "Orphan" {
            world.delete(&maps, &key("below"), policy).await;
        }
        world.until_gone(&maps, &key("below")).await;
    }
    let a = create(&world, &maps, "a", json!([])).await;
    let owners = json!({"metadata": {"ownerReferences": [owner(&maps, &a, true)]}});
    world.patch(&maps, &key("a"), owners).await;
    world.delete(&maps, &key("a"), "Foreground").await;
    world.until_gone(&maps, &key("a")).await;
}

#[tokio::test]
async fn custom_kinds_own_and_are_owned_at_once() {
    let world = World::start().await;
    let (maps, widgets) = (config_maps(), custom("widgets", "Widget"));
    world
        .create(&definitions_kind(), definition("widgets", "Widget", &[]))
        .await;
    let name = ObjectKey::cluster("widgets.example.com");
    let established = |object: &Value| condition(object, "Established", "True");
    world.until(&definitions_kind(), &name, established).await;
    let widget = create(&world, &widgets, "widget", json!([])).await;
    let map = create(
        &world,
        &maps,
        "map",
        json!([owner(&widgets, &widget, false)]),
    )
    .await;
    create(&world, &widgets, "part", json!([owner(&maps, &map, false)])).await;
    world.delete(&widgets, &key("widget"), "Background").await;
    world.until_gone(&maps, &key("map")).await;
    world.until_gone(&widgets, &key("part")).await;
}

#[tokio::test]
async fn kinds_that_are_not_served_are_not_gone() {
    let world = World::start().await;
    let maps = config_maps();
    let unknown = json!({"metadata": {"name": "who", "uid": "no-such-uid"}});
    let nowhere = custom("gizmos", "Gizmo");
    create(
        &world,
        &maps,
        "kept",
        json!([owner(&nowhere, &unknown, false)]),
    )
    .await;
    // What is made later, and is to go, is gone: the collector had its turn.
    let never = json!({"metadata": {"name": "never", "uid": "no-such-uid"}});
    create(&world, &maps, "stray", json!([owner(&maps, &never, false)])).await;
    world.until_gone(&maps, &key("stray")).await;
    assert!(world.get(&maps, &key("kept")).await.is_some());
    // When the kind comes, it is known that there is no such object.
    world
        .create(&definitions_kind(), definition("gizmos", "Gizmo", &[]))
        .await;
    world.until_gone(&maps, &key("kept")).await;
}
