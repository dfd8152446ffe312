//! Graphs with gates.
//!
//! What is ready is said by the steps: a ConfigMap is, when somebody has written into it that he saw
//! what it says.

use serde_json::{Value, json};

use super::{definition, map, shop};

/// A shop whose instances move one by one.
pub(in super::super) fn gated_shop(mark: &str) -> Value {
    let mut shop = shop(mark);
    shop["spec"]["propagateWhen"] = json!(["linearlyReady(shop, shops, 1)"]);
    shop
}

/// Whether somebody saw what an object says.
fn seen(object: &str) -> Value {
    json!([format!(
        "${{has({object}.data.seen) && {object}.data.seen == {object}.data.text}}"
    )])
}

/// Two objects, of which one follows the instance only while a tap is open.
pub(in super::super) fn pipe() -> Value {
    let text = json!({"text": "${schema.spec.text}"});
    let tap = json!({"id": "tap", "externalRef": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tap"},
    }});
    let mut gated = map("gated", &text);
    gated["propagateWhen"] = json!(["tap.data.open == 'yes'"]);
    let nodes = json!([tap, gated, map("free", &text)]);
    definition("Pipe", &json!({"text": "string"}), &nodes)
}

/// Objects of which at most two change at a time.
pub(in super::super) fn wall() -> Value {
    let mut bricks = map("bricks", &json!({"text": "${schema.spec.text}"}));
    bricks["forEach"] = json!([{"brick": "${schema.spec.names}"}]);
    bricks["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${brick}");
    bricks["readyWhen"] = seen("each");
    bricks["propagateWhen"] = json!(["linearlyReady(brick, bricks, 2)"]);
    let spec = json!({"names": "[]string", "text": "string"});
    definition("Wall", &spec, &json!([bricks]))
}

/// One object; instances move as these gates allow.
pub(in super::super) fn lamp(text: &str, gates: &[&str]) -> Value {
    let mut light = map("light", &json!({"text": text}));
    light["readyWhen"] = seen("light");
    let spec = json!({"room": "string | default=hall"});
    let mut lamp = definition("Lamp", &spec, &json!([light]));
    lamp["spec"]["propagateWhen"] = json!(gates);
    lamp
}
