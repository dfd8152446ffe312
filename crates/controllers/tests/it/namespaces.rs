use deltaplane_client::ObjectKey;
use serde_json::{Value, json};

use crate::world::{
    World, condition, config_maps, custom, definition, definitions_kind, namespaces_kind, secrets,
};

#[tokio::test]
async fn a_namespace_goes_when_it_is_empty_and_says_what_is_left() {
    let world = World::start().await;
    let name = ObjectKey::cluster("a");
    world
        .create(&namespaces_kind(), json!({"metadata": {"name": "a"}}))
        .await;
    world
        .create(&definitions_kind(), definition("widgets", "Widget", &[]))
        .await;
    let established = |object: &Value| condition(object, "Established", "True");
    let widgets = ObjectKey::cluster("widgets.example.com");
    world
        .until(&definitions_kind(), &widgets, established)
        .await;
    let plain = json!({"metadata": {"name": "plain", "namespace": "a"}});
    world.create(&secrets(), plain.clone()).await;
    world.create(&custom("widgets", "Widget"), plain).await;
    let held = json!({"metadata": {"name": "held", "namespace": "a",
        "finalizers": ["example.com/slow"]}});
    world.create(&config_maps(), held).await;

    world.delete(&namespaces_kind(), &name, "Background").await;
    let remaining = |object: &Value| condition(object, "NamespaceContentRemaining", "True");
    let namespace = world.until(&namespaces_kind(), &name, remaining).await;
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let message = |kind: &str| {
        let conditions = namespace["status"]["conditions"]
            .as_array()
            .expect("a list");
        let found = conditions
            .iter()
            .find(|condition| condition["type"] == kind);
        found.expect("it is there")["message"].clone()
    };
    assert_eq!(
        message("NamespaceContentRemaining"),
        "Some resources are remaining: configmaps. has 1 resource instances"
    );
    assert_eq!(
        message("NamespaceFinalizersRemaining"),
        "Some content in the namespace has finalizers remaining: example.com/slow in 1 resource instances"
    );
    let key = ObjectKey::new("a", "held");
    world
        .patch(
            &config_maps(),
            &key,
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    world.until_gone(&namespaces_kind(), &name).await;
    let widget = ObjectKey::new("a", "plain");
    assert!(
        world
            .get(&custom("widgets", "Widget"), &widget)
            .await
            .is_none()
    );
}

#[tokio::test]
async fn a_namespace_that_was_going_before_the_start_goes() {
    let mut world = World::start().await;
    let name = ObjectKey::cluster("a");
    world
        .create(&namespaces_kind(), json!({"metadata": {"name": "a"}}))
        .await;
    let held = json!({"metadata": {"name": "held", "namespace": "a",
        "finalizers": ["example.com/slow"]}});
    world.create(&config_maps(), held).await;
    world.delete(&namespaces_kind(), &name, "Background").await;
    world.restart_controllers().await;
    let key = ObjectKey::new("a", "held");
    let deleting = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    world.until(&config_maps(), &key, deleting).await;
    world
        .patch(
            &config_maps(),
            &key,
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    world.until_gone(&namespaces_kind(), &name).await;
}
