//! Conditions that the author of a graph writes on its instances.

use super::*;

fn with_conditions(conditions: &Value) -> Value {
    let mut definition = definition();
    definition["spec"]["schema"]["status"]["conditions"] = conditions.clone();
    definition
}

fn says(object: &Value, r#type: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|one| one["type"] == r#type)?;
    found["status"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn conditions_of_the_author_are_those_of_the_instance() {
    let graphs = Graphs::start().await;
    let open = "second.data.?open.orValue('') == 'yes' ? 'True' : 'False'";
    let own = "runtime.condition(schema, 'ResourcesReady').status";
    let conditions = json!([
        format!("${{runtime.newCondition({{type: 'Open', status: {open}, reason: 'Data'}})}}"),
        format!("${{runtime.newCondition({{type: 'Ready', status: {own}}})}}"),
    ]);
    graphs.define(with_conditions(&conditions)).await;
    graphs.world.create(&shops(), shop("a")).await;
    let world = &graphs.world;
    let closed = |object: &Value| says(object, "Open").as_deref() == Some("False");
    let waiting = world.until(&shops(), &key("a"), closed).await;
    assert_eq!(says(&waiting, "Ready").as_deref(), Some("False"));
    assert_eq!(says(&waiting, "GraphResolved"), None);
    graphs.open("a").await;
    let active = graphs.until_state("a", "ACTIVE").await;
    assert_eq!(says(&active, "Open").as_deref(), Some("True"));
    assert_eq!(says(&active, "Ready").as_deref(), Some("True"));
    let resolved = says(&active, "deltaplane.io/GraphResolved");
    assert_eq!(resolved.as_deref(), Some("True"));
    // A pass that changes nothing of that writes no status.
    graphs.mend("a", 1).await;
    graphs.mend("a", 2).await;
    let before = graphs.requests.load(Ordering::SeqCst);
    graphs.mend("a", 3).await;
    graphs.mend("a", 4).await;
    assert_eq!(graphs.requests.load(Ordering::SeqCst), before + 2);
    // Without them the instance has those that every instance has.
    let without = json!({"spec": {"schema": {"status": {"conditions": null}}}});
    graphs.change(&api::definitions(), &rgd(), without).await;
    let usual = |object: &Value| says(object, "GraphResolved").is_some();
    let usual = world.until(&shops(), &key("a"), usual).await;
    assert_eq!(says(&usual, "Open"), None);
    world.delete(&shops(), &key("a"), "Background").await;
    world.until_gone(&shops(), &key("a")).await;
    graphs.end().await;
}
