//! Graphs whose objects depend on what instances say, and on objects of others.

use serde_json::{Value, json};

use super::{definition, map};

/// Dishes with prices that a ConfigMap of somebody else says, and a note if it is wanted.
pub(in super::super) fn menu() -> Value {
    let spec = json!({
        "dishes": "[]Dish",
        "noted": "boolean | default=false",
        "currency": "string | default=\"eur\" enum=\"eur,usd\"",
    });
    let mut dishes = map(
        "dishes",
        &json!({"price": "${string(dish.price)} ${schema.spec.currency}", "tax": "${prices.data.tax}"}),
    );
    dishes["forEach"] = json!([{"dish": "${schema.spec.dishes}"}]);
    dishes["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${dish.name}");
    let mut note = map("note", &json!({"text": "${string(size(dishes))}"}));
    note["includeWhen"] = json!(["${schema.spec.noted}"]);
    let prices = json!({"id": "prices", "externalRef": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices"},
    }});
    let mut menu = definition("Menu", &spec, &json!([prices, dishes, note]));
    let schema = &mut menu["spec"]["schema"];
    schema["types"] = json!({"Dish": {
        "name": "string | required=true",
        "price": "integer | default=5 minimum=0",
    }});
    schema["status"] = json!({
        "names": "${dishes.map(one, one.metadata.name)}",
        "tax": "${prices.data.tax}",
    });
    menu
}

/// As many objects as there are names.
pub(in super::super) fn crowd() -> Value {
    let mut people = map("people", &json!({"greeting": "${schema.spec.greeting}"}));
    people["forEach"] = json!([{"one": "${schema.spec.names}"}]);
    people["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${one}");
    let spec = json!({"names": "[]string", "greeting": "string | default=hi"});
    definition("Crowd", &spec, &json!([people]))
}

/// A kind of somebody else.
pub(in super::super) fn gadgets() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": {"size": {"type": "integer"}},
    }}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// One of those.
/// What a hostile author would write: all but the first and the two copies need rights that a graph
/// does not have.
pub(in super::super) fn heist(vault: &str) -> Value {
    let rbac = "rbac.authorization.k8s.io";
    let secret =
        |metadata: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
    let named = secret(json!({"name": "db", "namespace": vault}));
    let selector = json!({"matchLabels": {"app": "db"}});
    let selected = secret(json!({"namespace": vault, "selector": selector}));
    let resources = json!([
        map("own", &json!({"a": "b"})),
        {"id": "binding", "template": {
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": "heist"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": "mallory"}],
        }},
        {"id": "loot", "template": {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "loots.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "loots", "kind": "Loot"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }],
            },
        }},
        {"id": "theirs", "template": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "theirs", "namespace": vault}, "data": {"mine": "yes"},
        }},
        {"id": "secret", "externalRef": named},
        {"id": "secrets", "externalRef": selected},
        map("named", &json!({"stolen": "${string(secret.data.password)}"})),
        map("selected", &json!({"stolen": "${string(secrets[0].data.password)}"})),
    ]);
    definition("Heist", &json!({}), &resources)
}

pub(in super::super) fn holder() -> Value {
    let gadget = json!({"id": "gadget", "template": {
        "apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": "${schema.metadata.name}"},
        "spec": {"size": "${schema.spec.size}"},
    }});
    let spec = json!({"size": "integer | default=1"});
    definition("Holder", &spec, &json!([gadget]))
}
