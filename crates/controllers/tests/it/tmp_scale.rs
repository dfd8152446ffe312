use crate::world::{World, config_maps, namespaces_kind, owner};
use deltaplane_client::ObjectKey;
use futures::StreamExt;
use serde_json::json;
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scale() {
    let world = World::start().await;
    let t = std::time::Instant::now();
    world
        .create(&namespaces_kind(), json!({"metadata": {"name": "a"}}))
        .await;
    let top = world
        .create(
            &config_maps(),
            json!({"metadata": {"name": "top", "namespace": "a"}}),
        )
        .await;
    let w = &world;
    let top = &top;
    futures::stream::iter(0..5000).for_each_concurrent(64, |i| async move {
        w.create(&config_maps(), json!({"metadata": {"name": format!("x{i}"), "namespace": "a", "ownerReferences": [owner(&config_maps(), top, true)]}})).await;
    }).await;
    eprintln!("created {:?}", t.elapsed());
    let t = std::time::Instant::now();
    world
        .delete(&config_maps(), &ObjectKey::new("a", "top"), "Foreground")
        .await;
    world
        .until_gone(&config_maps(), &ObjectKey::new("a", "top"))
        .await;
    eprintln!("foreground {:?}", t.elapsed());
    futures::stream::iter(0..5000)
        .for_each_concurrent(64, |i| async move {
            w.create(
                &config_maps(),
                json!({"metadata": {"name": format!("x{i}"), "namespace": "a"}}),
            )
            .await;
        })
        .await;
    let t = std::time::Instant::now();
    world
        .delete(&namespaces_kind(), &ObjectKey::cluster("a"), "Background")
        .await;
    world
        .until_gone(&namespaces_kind(), &ObjectKey::cluster("a"))
        .await;
    eprintln!("namespace {:?}", t.elapsed());
}
