//! Statuses that the API stores otherwise than they are written.

use super::*;
use crate::world::{custom, definition as custom_definition, definitions_kind};

/// Projects what a Widget of somebody else says.
fn projecting() -> Value {
    json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {
                "kind": "Shop", "apiVersion": "v1", "spec": {"name": "string"},
                "status": {"parts": "${widget.spec.parts}"},
            },
            "resources": [
                {"id": "widget", "externalRef": {
                    "apiVersion": "example.com/v1", "kind": "Widget",
                    "metadata": {"name": "${schema.spec.name}"},
                }},
                {"id": "own", "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.spec.name}-first"},
                    "data": {"greeting": "hi"},
                }},
            ],
        },
    })
}

/// Widgets whose parts may have no size.
fn widgets() -> Value {
    let mut kind = custom_definition("widgets", "Widget", &[]);
    let part = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "size": {"type": "string", "nullable": true},
    }});
    kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {
            "parts": {"type": "array", "items": part},
        }}},
    });
    kind
}

#[tokio::test]
async fn a_status_with_nulls_is_written_once() {
    let graphs = Graphs::start().await;
    graphs.trust().await;
    let world = &graphs.world;
    world.create(&definitions_kind(), widgets()).await;
    let name = ObjectKey::cluster("widgets.example.com");
    let established = |object: &Value| condition(object, "Established", "True");
    world.until(&definitions_kind(), &name, established).await;
    let parts = json!([{"name": "lid", "size": null}, {"name": "box", "size": "L"}]);
    let widget = json!({"metadata": {"name": "a", "namespace": "default"},
        "spec": {"parts": parts}});
    world.create(&custom("widgets", "Widget"), widget).await;
    graphs.define(projecting()).await;
    world.create(&shops(), shop("a")).await;
    let active = graphs.until_state("a", "ACTIVE").await;
    let stored = json!([{"name": "lid"}, {"name": "box", "size": "L"}]);
    assert_eq!(active["status"]["parts"], stored);
    // Each pass puts one object right, and writes no status; the second begins when the first ended.
    graphs.mend("a", 1).await;
    graphs.mend("a", 2).await;
    let before = graphs.requests.load(Ordering::SeqCst);
    graphs.mend("a", 3).await;
    graphs.mend("a", 4).await;
    assert_eq!(graphs.requests.load(Ordering::SeqCst), before + 2);
    graphs.end().await;
}
