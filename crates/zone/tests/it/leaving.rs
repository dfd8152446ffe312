//! A cluster that leaves its fleet, with the hub out of reach.

use deltaplane_client::request;
use deltaplane_zone::leave_cluster;
use serde_json::{Value, json};

use crate::world::{World, ZONE, get, until};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const POLICIES: [&str; 3] = [
    "ownership.deltaplane.io",
    "zone-label.deltaplane.io",
    "computed-fields.deltaplane.io",
];
/// The kinds of admission policies, which the clusters of these tests do not have by themselves.
const KINDS: [(&str, &str); 2] = [
    ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    (
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
    ),
];

fn collection(plural: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{plural}")
}

/// Serves admission policies in the cluster.
async fn serve_policies(world: &World) {
    for (kind, plural) in KINDS {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.admissionregistration.k8s.io"),
                "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
            },
            "spec": {
                "group": "admissionregistration.k8s.io", "scope": "Cluster",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        });
        create(world, DEFINITIONS, definition).await;
        let list = format!("{kind}List");
        until(&world.there, &collection(plural), |all| {
            all["kind"] == list.as_str()
        })
        .await;
    }
}

async fn create(world: &World, path: &str, object: Value) {
    let made = request::create::<Value>(&world.there, path, &object).await;
    // The agent may have been faster.
    if let Err(error) = made {
        assert!(error.is_conflict(), "{path}: {error}");
    }
}

/// How many admission policies and bindings the cluster has.
async fn policies(world: &World) -> usize {
    let mut count = 0;
    for (_, plural) in KINDS {
        let (_, list) = get(&world.there, &collection(plural)).await;
        count += list["items"].as_array().map_or(0, Vec::len);
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_leaves_has_no_policies_and_owns_what_came() {
    let world = World::on_cluster().await;
    let synced = json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
        "metadata": {"name": "configmaps"},
        "spec": {"kind": "ConfigMap", "direction": "HubToZone"},
    });
    let kinds = "/apis/fleet.deltaplane.io/v1alpha1/syncedkinds";
    let made = request::create::<Value>(&world.here, kinds, &synced).await;
    made.expect("made");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "hub"},
        "metadata": {"name": "a", "namespace": "default"},
    });
    let made = request::create::<Value>(&world.here, MAPS, &map).await;
    made.expect("made");
    let path = format!("{MAPS}/a");
    let origin = |object: &Value| object["metadata"]["labels"]["deltaplane.io/origin"].clone();
    until(&world.there, &path, |object| origin(object) == "hub").await;

    serve_policies(&world).await;
    world.zone.stop().await;
    for name in POLICIES {
        for (kind, plural) in KINDS {
            let policy = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": {"name": name},
            });
            create(&world, &collection(plural), policy).await;
        }
    }
    assert_eq!(policies(&world).await, 6);
    world.hub.stop().await;

    let (kubeconfig, data) = world.cluster_files();
    let left = leave_cluster(&kubeconfig, &data).await.expect("it leaves");
    assert_eq!((left.zone.as_str(), left.orphaned), (ZONE, 1));
    assert_eq!(policies(&world).await, 0);
    let (_, object) = get(&world.there, &path).await;
    assert_eq!(origin(&object), Value::Null);
    let left = &object["metadata"]["annotations"]["deltaplane.io/orphaned-from"];
    assert_eq!(left, "hub");
    // Once more does no harm.
    let again = leave_cluster(&kubeconfig, &data).await.expect("it left");
    assert_eq!((again.zone.as_str(), again.orphaned), (ZONE, 0));
    world.stop_cluster().await;
}
