//! The graphs that are run, and their instances.

mod gated;
mod shaped;

pub(super) use gated::{gated_shop, lamp, pipe, wall};
pub(super) use shaped::{crowd, gadgets, heist, holder, menu};

use serde_json::{Value, json};

use super::stage::NAMESPACE;

/// The kinds that the graphs here define, and their plurals.
pub(super) const KINDS: [(&str, &str); 10] = [
    ("shop", "shops"),
    ("pair", "pairs"),
    ("vault", "vaults"),
    ("menu", "menus"),
    ("crowd", "crowds"),
    ("holder", "holders"),
    ("pipe", "pipes"),
    ("wall", "walls"),
    ("lamp", "lamps"),
    ("heist", "heists"),
];

/// A definition, called as its kind is.
fn definition(kind: &str, spec: &Value, resources: &Value) -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": kind.to_lowercase()},
        "spec": {
            "schema": {"kind": kind, "apiVersion": "v1alpha1", "spec": spec},
            "resources": resources,
        },
    })
}

/// A node that is a ConfigMap, called after the instance.
fn map(id: &str, data: &Value) -> Value {
    json!({"id": id, "template": {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("${{schema.metadata.name}}-{id}")},
        "data": data,
    }})
}

/// Settings, a Deployment that reads them, and a Service that waits until that is available.
/// `mark` is in the settings, and so in everything.
/// Where workloads are simulated the Deployment hangs until somebody says that it is available.
pub(super) fn shop(mark: &str) -> Value {
    let app = json!({"app": "${schema.metadata.name}"});
    let settings = json!({"greeting": format!("${{schema.spec.greeting}}{mark}")});
    let spec = json!({"greeting": "string | default=hi", "replicas": "integer | default=1"});
    let nodes = json!([
        map("settings", &settings),
        {
            "id": "app",
            "readyWhen": ["${app.status.availableReplicas == app.spec.replicas}"],
            "template": {
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {
                    "name": "${schema.metadata.name}",
                    "annotations": {"deltaplane.io/simulate": "hang"},
                },
                "spec": {
                    "replicas": "${schema.spec.replicas}",
                    "selector": {"matchLabels": app},
                    "template": {
                        "metadata": {"labels": app},
                        "spec": {"containers": [{
                            "name": "app", "image": "registry.example.com/app:1",
                            "env": [{"name": "GREETING", "value": "${settings.data.greeting}"}],
                        }]},
                    },
                },
            },
        },
        {
            "id": "door",
            "template": {
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "${app.metadata.name}"},
                "spec": {
                    "selector": {"app": "${app.metadata.name}"},
                    "ports": [{"port": 80}],
                },
            },
        },
    ]);
    let mut shop = definition("Shop", &spec, &nodes);
    shop["spec"]["schema"]["status"] = json!({
        "address": "${door.spec.clusterIP}",
        "greets": "${settings.data.greeting}",
    });
    shop
}

/// Two objects that wait for nobody.
pub(super) fn pair() -> Value {
    let nodes = json!([
        map("left", &json!({"text": "${schema.spec.text}"})),
        map("right", &json!({"text": "${left.data.text}"})),
    ]);
    definition("Pair", &json!({"text": "string | default=x"}), &nodes)
}

/// A Secret, which the account may not see.
pub(super) fn vault() -> Value {
    let nodes = json!([{"id": "secret", "template": {
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}"},
        "stringData": {"word": "${schema.spec.word}"},
    }}]);
    definition("Vault", &json!({"word": "string"}), &nodes)
}

pub(super) fn instance(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    })
}

/// A ConfigMap of nobody's graph.
pub(super) fn config_map(name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": data,
    })
}

/// Objects that are applied together.
pub(super) fn list(items: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
