use deltaplane_client::ObjectKey;
use serde_json::{Value, json};

use crate::world::{World, condition, custom, definition, definitions_kind, namespaces_kind};

fn established(object: &Value) -> bool {
    condition(object, "Established", "True")
}

/// Defines widgets; the definition's name.
async fn define_widgets(world: &World) -> ObjectKey {
    let kind = definitions_kind();
    let name = ObjectKey::cluster("widgets.example.com");
    world
        .create(&kind, definition("widgets", "Widget", &[]))
        .await;
    world.until(&kind, &name, established).await;
    name
}

#[tokio::test]
async fn names_are_given_once() {
    let world = World::start().await;
    let kind = definitions_kind();
    let (first, second) = (
        ObjectKey::cluster("widgets.example.com"),
        ObjectKey::cluster("gadgets.example.com"),
    );
    // Both at once: whoever is first has the name.
    tokio::join!(
        world.create(&kind, definition("widgets", "Widget", &["wd"])),
        world.create(&kind, definition("gadgets", "Gadget", &["wd"])),
    );
    let judged = |object: &Value| {
        condition(object, "NamesAccepted", "True") || condition(object, "NamesAccepted", "False")
    };
    let one = world.until(&kind, &first, judged).await;
    let two = world.until(&kind, &second, judged).await;
    // Established is written only once the kind is served, so it may come a moment later.
    let accepted = |object: &Value| condition(object, "NamesAccepted", "True");
    let (winner, loser) = match (accepted(&one), accepted(&two)) {
        (true, false) => (&first, &second),
        (false, true) => (&second, &first),
        _ => panic!("one of two has the name: {one} {two}"),
    };
    world.until(&kind, winner, established).await;
    world.delete(&kind, winner, "Background").await;
    world.until_gone(&kind, winner).await;
    world.until(&kind, loser, established).await;
}

#[tokio::test]
async fn a_definition_goes_with_its_objects() {
    let world = World::start().await;
    let (kind, widgets) = (definitions_kind(), custom("widgets", "Widget"));
    let name = define_widgets(&world).await;
    world
        .create(&namespaces_kind(), json!({"metadata": {"name": "a"}}))
        .await;
    for namespace in ["default", "a"] {
        let metadata = json!({"name": "one", "namespace": namespace});
        world.create(&widgets, json!({"metadata": metadata})).await;
    }
    let held = json!({"metadata": {"name": "held", "namespace": "a",
        "finalizers": ["example.com/slow"]}});
    world.create(&widgets, held).await;
    world.delete(&kind, &name, "Background").await;
    let terminating = |object: &Value| condition(object, "Terminating", "True");
    world.until(&kind, &name, terminating).await;
    for namespace in ["default", "a"] {
        world
            .until_gone(&widgets, &ObjectKey::new(namespace, "one"))
            .await;
    }
    assert!(
        world.get(&kind, &name).await.is_some(),
        "it waits for what is held"
    );
    let held = ObjectKey::new("a", "held");
    world
        .patch(&widgets, &held, json!({"metadata": {"finalizers": null}}))
        .await;
    world.until_gone(&kind, &name).await;

    // And comes again, empty.
    define_widgets(&world).await;
    assert!(
        world
            .get(&widgets, &ObjectKey::new("default", "one"))
            .await
            .is_none()
    );
}

#[tokio::test]
async fn objects_that_are_not_served_go_too() {
    let world = World::start().await;
    let (kind, widgets) = (definitions_kind(), custom("widgets", "Widget"));
    let name = define_widgets(&world).await;
    let one = json!({"metadata": {"name": "one", "namespace": "default"}});
    world.create(&widgets, one).await;
    let mut hidden = definition("widgets", "Widget", &[]);
    hidden["spec"]["versions"][0]["served"] = json!(false);
    let versions = json!({"spec": {"versions": hidden["spec"]["versions"]}});
    world.patch(&kind, &name, versions).await;
    world.delete(&kind, &name, "Background").await;
    world.until_gone(&kind, &name).await;

    define_widgets(&world).await;
    let one = ObjectKey::new("default", "one");
    assert_eq!(world.get(&widgets, &one).await, None);
}
