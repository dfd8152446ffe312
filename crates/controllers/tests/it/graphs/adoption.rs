//! Whose objects are: an instance takes on what one of its name left behind, and what is nobody's;
//! and leaves alone what others apply.

use super::*;

#[tokio::test]
async fn what_an_instance_of_that_name_left_behind_is_taken_on() {
    let mut graphs = Graphs::start().await;
    graphs.define(definition()).await;
    let before = graphs.active("a").await;
    let uid = graphs.uid("a-first").await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    // Somebody takes the finalizer away, and so nothing of it is deleted.
    let free = json!({"metadata": {"finalizers": []}});
    graphs.change(&shops(), &key("a"), free).await;
    graphs.world.delete(&shops(), &key("a"), "Orphan").await;
    graphs.world.until_gone(&shops(), &key("a")).await;
    // What it is not made of any more goes with it.
    let mut less = definition();
    let resources = less["spec"]["resources"].as_array_mut();
    resources.expect("a list").truncate(1);
    less["spec"]["schema"]["status"]["greets"] = json!("${first.data.greeting}");
    graphs.redefine(&less).await;
    graphs.world.create(&shops(), shop("a")).await;
    (graphs.tasks, graphs.requests) = run(&graphs.world);
    graphs
        .world
        .until_gone(&config_maps(), &key("a-second"))
        .await;
    let after = graphs.until_state("a", "ACTIVE").await;
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(graphs.uid("a-first").await, uid);
    let label = |object: &Value| object["metadata"]["labels"]["kro.run/instance-id"].clone();
    let first = graphs.world.get(&config_maps(), &key("a-first")).await;
    assert_eq!(label(&first.expect("there")), after["metadata"]["uid"]);
    graphs.end().await;
}

#[tokio::test]
async fn what_others_apply_as_a_set_is_left_alone() {
    let graphs = Graphs::start().await;
    graphs.define(definition()).await;
    let theirs = json!({
        "metadata": {
            "name": "a-first", "namespace": "default",
            "labels": {"applyset.kubernetes.io/part-of": "applyset-theirs-v1"},
        },
        "data": {"greeting": "theirs"},
    });
    graphs.world.create(&config_maps(), theirs).await;
    let nobodys = json!({
        "metadata": {"name": "b-first", "namespace": "default"},
        "data": {"greeting": "nobody's"},
    });
    graphs.world.create(&config_maps(), nobodys).await;
    graphs.world.create(&shops(), shop("a")).await;
    let told = graphs.until_state("a", "ERROR").await;
    let shown = told["status"]["conditions"].to_string();
    let why = "ConfigMap default/a-first belongs to the apply set applyset-theirs-v1";
    assert!(shown.contains(why), "{shown}");
    graphs.active("b").await;
    let says = |object: Option<Value>| object.map(|object| object["data"]["greeting"].clone());
    let first = graphs.world.get(&config_maps(), &key("a-first")).await;
    assert_eq!(says(first), Some(json!("theirs")));
    let first = graphs.world.get(&config_maps(), &key("b-first")).await;
    assert_eq!(says(first), Some(json!("hi")));
    // When it is gone, ours is made.
    graphs
        .world
        .delete(&config_maps(), &key("a-first"), "Background")
        .await;
    graphs.open("a").await;
    graphs.until_state("a", "ACTIVE").await;
    graphs.end().await;
}

impl Graphs {
    async fn uid(&self, name: &str) -> Value {
        let object = self.world.get(&config_maps(), &key(name)).await;
        object.expect("there")["metadata"]["uid"].clone()
    }
}
