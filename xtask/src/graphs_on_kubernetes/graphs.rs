//! The graphs that are run, and their instances.

use serde_json::{Value, json};

use super::stage::NAMESPACE;

/// Settings, a Deployment that reads them, and a Service that waits until that is available.
/// `mark` is in the settings, and so in everything.
pub(super) fn shop(mark: &str) -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {
                "kind": "Shop", "apiVersion": "v1alpha1",
                "spec": {
                    "greeting": "string | default=hi",
                    "replicas": "integer | default=1",
                },
                "status": {
                    "address": "${door.spec.clusterIP}",
                    "greets": "${settings.data.greeting}",
                },
            },
            "resources": [
                {"id": "settings", "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.metadata.name}-settings"},
                    "data": {"greeting": format!("${{schema.spec.greeting}}{mark}")},
                }},
                {"id": "app",
                 "readyWhen": ["${app.status.availableReplicas == app.spec.replicas}"],
                 "template": {
                    "apiVersion": "apps/v1", "kind": "Deployment",
                    "metadata": {"name": "${schema.metadata.name}"},
                    "spec": {
                        "replicas": "${schema.spec.replicas}",
                        "selector": {"matchLabels": {"app": "${schema.metadata.name}"}},
                        "template": {
                            "metadata": {"labels": {"app": "${schema.metadata.name}"}},
                            "spec": {"containers": [{
                                "name": "app", "image": "registry.example.com/app:1",
                                "env": [{"name": "GREETING", "value": "${settings.data.greeting}"}],
                            }]},
                        },
                    },
                }},
                {"id": "door", "template": {
                    "apiVersion": "v1", "kind": "Service",
                    "metadata": {"name": "${app.metadata.name}"},
                    "spec": {
                        "selector": {"app": "${app.metadata.name}"},
                        "ports": [{"port": 80}],
                    },
                }},
            ],
        },
    })
}

/// The same, whose instances move one by one.
pub(super) fn gated_shop(mark: &str) -> Value {
    let mut shop = shop(mark);
    shop["spec"]["propagateWhen"] = json!(["linearlyReady(shop, shops, 1)"]);
    shop
}

/// Two objects that wait for nobody.
pub(super) fn pair() -> Value {
    let map = |id: &str, text: &str| {
        json!({"id": id, "template": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("${{schema.metadata.name}}-{id}")},
            "data": {"text": text},
        }})
    };
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "pair"},
        "spec": {
            "schema": {
                "kind": "Pair", "apiVersion": "v1alpha1",
                "spec": {"text": "string | default=x"},
            },
            "resources": [
                map("left", "${schema.spec.text}"),
                map("right", "${left.data.text}"),
            ],
        },
    })
}

/// A Secret, which the account may not see.
pub(super) fn vault() -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "vault"},
        "spec": {
            "schema": {"kind": "Vault", "apiVersion": "v1alpha1", "spec": {"word": "string"}},
            "resources": [{"id": "secret", "template": {
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "${schema.metadata.name}"},
                "stringData": {"word": "${schema.spec.word}"},
            }}],
        },
    })
}

pub(super) fn instance(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    })
}
