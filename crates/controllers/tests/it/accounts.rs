use deltaplane_client::ObjectKey;
use serde_json::{Value, json};

use crate::world::{World, accounts_kind, config_maps, namespaces_kind, secrets};

fn root_ca(object: &Value) -> bool {
    object["data"] == json!({"ca.crt": "CA"})
}

#[tokio::test]
async fn every_namespace_has_its_account_and_certificate() {
    let world = World::start().await;
    for namespace in ["default", "kube-system"] {
        let account = ObjectKey::new(namespace, "default");
        assert!(
            world.get(&accounts_kind(), &account).await.is_some(),
            "ready too early"
        );
        let ca = world
            .get(
                &config_maps(),
                &ObjectKey::new(namespace, "kube-root-ca.crt"),
            )
            .await;
        assert!(ca.is_some_and(|ca| root_ca(&ca)), "ready too early");
    }
    world
        .create(&namespaces_kind(), json!({"metadata": {"name": "a"}}))
        .await;
    let account = ObjectKey::new("a", "default");
    let first = world.until(&accounts_kind(), &account, |_| true).await;
    let ca = ObjectKey::new("a", "kube-root-ca.crt");
    world.until(&config_maps(), &ca, root_ca).await;

    world
        .patch(
            &config_maps(),
            &ca,
            json!({"data": {"ca.crt": "", "more": "x"}}),
        )
        .await;
    world.until(&config_maps(), &ca, root_ca).await;
    world.delete(&config_maps(), &ca, "Background").await;
    world.until(&config_maps(), &ca, root_ca).await;
    world.delete(&accounts_kind(), &account, "Background").await;
    let other = |object: &Value| object["metadata"]["uid"] != first["metadata"]["uid"];
    world.until(&accounts_kind(), &account, other).await;
}

#[tokio::test]
async fn secrets_get_their_token_and_go_with_their_account() {
    let world = World::start().await;
    let key = ObjectKey::new("default", "web");
    let metadata = json!({"name": "web", "namespace": "default"});
    let account = world
        .create(&accounts_kind(), json!({"metadata": metadata}))
        .await;
    let secret = json!({
        "metadata": {"name": "web", "namespace": "default",
            "annotations": {"kubernetes.io/service-account.name": "web"}},
        "type": "kubernetes.io/service-account-token",
    });
    world.create(&secrets(), secret).await;
    let filled = |secret: &Value| secret["data"]["token"].is_string();
    let filled = world.until(&secrets(), &key, filled).await;
    // "CA", "default" and "token of web", in base 64.
    let data = json!({"ca.crt": "Q0E=", "namespace": "ZGVmYXVsdA==", "token": "dG9rZW4gb2Ygd2Vi"});
    assert_eq!(filled["data"], data);
    let uid = &filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"];
    assert_eq!(*uid, account["metadata"]["uid"]);
    world.delete(&accounts_kind(), &key, "Background").await;
    world.until_gone(&secrets(), &key).await;
}
