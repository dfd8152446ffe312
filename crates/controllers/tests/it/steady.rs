use deltaplane_client::ObjectKey;
use serde_json::{Value, json};

use crate::world::{
    World, condition, config_maps, custom, definition, definitions_kind, namespaces_kind, owner,
};

#[tokio::test]
async fn a_restart_writes_nothing() {
    let mut world = World::start().await;
    world
        .create(&namespaces_kind(), json!({"metadata": {"name": "a"}}))
        .await;
    world
        .create(
            &definitions_kind(),
            definition("widgets", "Widget", &["wd"]),
        )
        .await;
    let established = |object: &Value| condition(object, "Established", "True");
    let name = ObjectKey::cluster("widgets.example.com");
    world.until(&definitions_kind(), &name, established).await;
    let maps = config_maps();
    let plain = json!({"metadata": {"name": "plain", "namespace": "a"}});
    world
        .create(&custom("widgets", "Widget"), plain.clone())
        .await;
    let top = world.create(&maps, plain).await;
    let owned = json!({"metadata": {"name": "owned", "namespace": "a",
        "ownerReferences": [owner(&maps, &top, true)]}});
    world.create(&maps, owned).await;
    world
        .until(&maps, &ObjectKey::new("a", "kube-root-ca.crt"), |_| true)
        .await;

    let before = world.store.revision();
    world.restart_controllers().await;
    // The collector has seen everything when it collects this.
    let never = json!({"metadata": {"name": "never", "uid": "no-such-uid"}});
    let stray = json!({"metadata": {"name": "stray", "namespace": "a",
        "ownerReferences": [owner(&maps, &never, false)]}});
    world.create(&maps, stray).await;
    world.until_gone(&maps, &ObjectKey::new("a", "stray")).await;
    // One for its birth, one for its end.
    assert_eq!(world.store.revision().get() - before.get(), 2);
}
