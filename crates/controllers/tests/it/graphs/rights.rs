//! Graphs act with the rights of a service account, and an author gains none.

use super::*;

/// A definition whose nodes beside a harmless ConfigMap are given.
fn with(resources: &[Value]) -> Value {
    let mut all = vec![json!({"id": "own", "template": {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.spec.name}-own"}, "data": {"a": "b"},
    }})];
    all.extend_from_slice(resources);
    json!({
        "metadata": {"name": "shop"},
        "spec": {
            "schema": {"kind": "Shop", "apiVersion": "v1", "spec": {"name": "string"}},
            "resources": all,
        },
    })
}

/// A definition that puts the data of a node into a ConfigMap and into the status.
fn copying(node: Value) -> Value {
    let from = match node["externalRef"]["metadata"]["selector"].is_null() {
        true => "${string(secret.data.password)}",
        false => "${string(secret[0].data.password)}",
    };
    let copy = json!({"id": "copy", "template": {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.spec.name}-copy"},
        "data": {"stolen": from},
    }});
    let mut definition = with(&[node, copy]);
    definition["spec"]["schema"]["status"] = json!({"stolen": from});
    definition
}

/// Whether the password is there, as it was written or as it is stored.
fn shows_password(object: &Value) -> bool {
    let text = object.to_string();
    ["hunter2", "aHVudGVyMg"]
        .iter()
        .any(|one| text.contains(one))
}

fn config_map_at(id: &str, namespace: &str, name: &str) -> Value {
    json!({"id": id, "template": {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace}, "data": {"mine": "yes"},
    }})
}

fn message(instance: &Value, r#type: &str) -> String {
    let conditions = instance["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|one| one["type"] == r#type);
    let found = found.unwrap_or(&Value::Null);
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    format!("{}: {}", text("reason"), text("message"))
}

fn resource(kind: &str) -> Resource {
    graphs::accounts::roles::resource(kind)
}

const ROLE_RULES: &str = "extra";

impl Graphs {
    /// An instance that lacks a right which its condition names.
    async fn until_missing(&self, name: &str, right: &str) -> Value {
        let lacks = |object: &Value| message(object, "ResourcesReady").contains(right);
        let instance = self.world.until(&shops(), &key(name), lacks).await;
        let said = message(&instance, "ResourcesReady");
        assert!(said.starts_with("MissingRights: "), "{said}");
        instance
    }

    /// Gives the default account of `default` further rights in a namespace.
    async fn grant(&self, namespace: &str, rules: Value) {
        let metadata = json!({"name": ROLE_RULES, "namespace": namespace});
        let role = json!({"metadata": metadata, "rules": rules});
        self.world.create(&resource("Role"), role).await;
        let account = "deltaplane-graphs";
        let binding = json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": ROLE_RULES},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
        });
        self.world.create(&resource("RoleBinding"), binding).await;
    }

    async fn delete(&self, kind: &Resource, at: &ObjectKey) {
        self.world.delete(kind, at, "Background").await;
    }

    async fn namespace(&self, name: &str) {
        let namespaces = resource("Namespace");
        let namespace = json!({"metadata": {"name": name}});
        self.world.create(&namespaces, namespace).await;
    }

    async fn secret(&self, namespace: &str) {
        self.namespace(namespace).await;
        let labels = json!({"app": "db"});
        let secret = json!({
            "metadata": {"name": "db", "namespace": namespace, "labels": labels},
            "stringData": {"password": "hunter2"},
        });
        self.world.create(&secrets(), secret).await;
    }
}

#[tokio::test]
async fn the_default_account_is_provided_where_instances_are() {
    let graphs = Graphs::start().await;
    graphs.define(with(&[])).await;
    graphs.world.create(&shops(), shop("a")).await;
    graphs.until_state("a", "ACTIVE").await;
    let at = key("deltaplane-graphs");
    let account = graphs.world.get(&resource("ServiceAccount"), &at).await;
    assert!(account.is_some());
    let binding = graphs.world.get(&resource("RoleBinding"), &at).await;
    let binding = binding.expect("a binding");
    assert_eq!(binding["roleRef"]["name"], "deltaplane-graphs");
    let own = graphs.world.get(&config_maps(), &key("a-own")).await;
    let own = own.expect("made");
    let created = &own["metadata"]["annotations"]["deltaplane.io/created"];
    assert_eq!(created, "true");
    graphs.end().await;
}

#[tokio::test]
async fn a_graph_binds_no_role_and_makes_no_kind() {
    let graphs = Graphs::start().await;
    let binding = json!({"id": "binding", "template": {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "mallory"}],
    }});
    let kind = json!({"id": "ownKind", "template": {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "owns.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "owns", "kind": "Own"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    }});
    graphs.define(with(&[binding, kind])).await;
    graphs.world.create(&shops(), shop("a")).await;
    let right = "ServiceAccount default/deltaplane-graphs may not patch clusterrolebindings.rbac.authorization.k8s.io \"mine\" in the cluster; grant it";
    let instance = graphs.until_missing("a", right).await;
    let said = message(&instance, "ResourcesReady");
    assert!(
        said.contains("may not patch customresourcedefinitions.apiextensions.k8s.io"),
        "{said}"
    );
    // What does not need the right is there.
    let own = graphs.world.get(&config_maps(), &key("a-own")).await;
    assert!(own.is_some());
    let bindings = resource("ClusterRoleBinding");
    let mine = ObjectKey::cluster("mine");
    assert!(graphs.world.get(&bindings, &mine).await.is_none());
    graphs.end().await;
}

#[tokio::test]
async fn a_graph_reads_no_secret_of_another_namespace_before_it_may() {
    let graphs = Graphs::start().await;
    graphs.secret("vault").await;
    let node = json!({"id": "secret", "externalRef": {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "vault"},
    }});
    graphs.define(copying(node)).await;
    graphs.world.create(&shops(), shop("a")).await;
    let right = "may not get secrets \"db\" in namespace vault";
    let instance = graphs.until_missing("a", right).await;
    assert!(!shows_password(&instance), "{instance}");
    let copy = graphs.world.get(&config_maps(), &key("a-copy")).await;
    assert!(copy.is_none());
    // An administrator grants it, and nobody need tell the instance.
    let rules = json!([{
        "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["db"],
    }]);
    graphs.grant("vault", rules).await;
    let instance = graphs.until_state("a", "ACTIVE").await;
    assert!(shows_password(&instance), "{instance}");
    // And takes it away.
    let at = ObjectKey::new("vault", ROLE_RULES);
    graphs.delete(&resource("RoleBinding"), &at).await;
    graphs.until_missing("a", right).await;
    graphs.end().await;
}

#[tokio::test]
async fn a_graph_selects_no_secrets_of_others() {
    let graphs = Graphs::start().await;
    graphs.secret("vault").await;
    let reference = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": "vault", "selector": {"matchLabels": {"app": "db"}}},
    });
    let node = json!({"id": "secret", "externalRef": reference});
    graphs.define(copying(node)).await;
    graphs.world.create(&shops(), shop("a")).await;
    let right = "may not list secrets in namespace vault";
    let instance = graphs.until_missing("a", right).await;
    assert!(!shows_password(&instance), "{instance}");
    graphs.end().await;
}

#[tokio::test]
async fn a_graph_takes_no_object_where_its_account_may_not_write() {
    let graphs = Graphs::start().await;
    graphs.namespace("others").await;
    let theirs = json!({
        "metadata": {"name": "theirs", "namespace": "others"}, "data": {"mine": "no"},
    });
    graphs.world.create(&config_maps(), theirs.clone()).await;
    let node = config_map_at("taken", "others", "theirs");
    graphs.define(with(&[node])).await;
    graphs.world.create(&shops(), shop("a")).await;
    let right = "may not patch configmaps \"theirs\" in namespace others";
    graphs.until_missing("a", right).await;
    // Passes in which nothing is other than before write nothing on the instance.
    let version =
        |object: Option<Value>| object.map(|one| one["metadata"]["resourceVersion"].clone());
    let before = version(graphs.world.get(&shops(), &key("a")).await);
    for time in 0..3 {
        let forged = json!({"data": {"a": format!("forged {time}")}});
        graphs.change(&config_maps(), &key("a-own"), forged).await;
        let mended = |object: &Value| object["data"]["a"] == "b";
        graphs
            .world
            .until(&config_maps(), &key("a-own"), mended)
            .await;
    }
    assert_eq!(version(graphs.world.get(&shops(), &key("a")).await), before);
    let at = ObjectKey::new("others", "theirs");
    let there = graphs.world.get(&config_maps(), &at).await;
    assert_eq!(there.expect("there")["data"], theirs["data"]);
    // The instance goes, and leaves it.
    graphs.delete(&shops(), &key("a")).await;
    graphs.world.until_gone(&shops(), &key("a")).await;
    assert!(graphs.world.get(&config_maps(), &at).await.is_some());
    graphs.end().await;
}

/// Rights to write an object are none to read it.
#[tokio::test]
async fn what_no_graph_created_is_not_read_without_the_right() {
    let graphs = Graphs::start().await;
    graphs.secret("vault").await;
    let mut node = json!({"id": "secret", "template": {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "vault"},
    }});
    node["readyWhen"] = json!(["${secret.data.size() > 0}"]);
    graphs.define(copying(node)).await;
    let rules =
        json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["patch", "create"]}]);
    graphs.grant("vault", rules).await;
    graphs.world.create(&shops(), shop("a")).await;
    let right = "may not get secrets \"db\" in namespace vault";
    let instance = graphs.until_missing("a", right).await;
    assert!(!shows_password(&instance), "{instance}");
    let at = ObjectKey::new("vault", "db");
    let adopted = graphs.world.get(&secrets(), &at).await.expect("there");
    let annotations = &adopted["metadata"]["annotations"];
    assert!(annotations.get("deltaplane.io/content").is_some());
    assert!(annotations.get("deltaplane.io/created").is_none());
    graphs.end().await;
}

/// A terminating namespace loses its bindings before its objects.
#[tokio::test]
async fn what_a_graph_created_goes_when_its_account_has_no_rights_any_more() {
    let mut graphs = Graphs::start().await;
    graphs.namespace("others").await;
    let theirs = json!({
        "metadata": {"name": "theirs", "namespace": "others"}, "data": {"mine": "no"},
    });
    graphs.world.create(&config_maps(), theirs).await;
    let adopted = config_map_at("adopted", "others", "theirs");
    let made = config_map_at("made", "others", "made");
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]);
    graphs.grant("others", rules).await;
    graphs.define(with(&[adopted, made])).await;
    graphs.world.create(&shops(), shop("a")).await;
    graphs.until_state("a", "ACTIVE").await;
    let at = ObjectKey::new("others", ROLE_RULES);
    graphs.delete(&resource("RoleBinding"), &at).await;
    // Nothing of it is known by the process alone.
    graphs.restart().await;
    graphs.delete(&shops(), &key("a")).await;
    for gone in [ObjectKey::new("others", "made"), key("a-own")] {
        graphs.world.until_gone(&config_maps(), &gone).await;
    }
    let right = "may not delete configmaps \"theirs\" in namespace others";
    let waits = |object: &Value| message(object, "ResourcesReady").contains(right);
    graphs.world.until(&shops(), &key("a"), waits).await;
    // An administrator deletes it.
    let theirs = ObjectKey::new("others", "theirs");
    graphs.delete(&config_maps(), &theirs).await;
    graphs.world.until_gone(&shops(), &key("a")).await;
    graphs.end().await;
}

#[tokio::test]
async fn an_instance_in_no_namespace_has_an_account_without_secrets() {
    let graphs = Graphs::start().await;
    let namespace = json!({"id": "room", "template": {
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${schema.spec.name}"},
    }});
    let secret = json!({"id": "secret", "template": {
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "mine", "namespace": "${room.metadata.name}"},
    }});
    let mut definition = with(&[namespace, secret]);
    definition["spec"]["schema"]["scope"] = json!("Cluster");
    definition["spec"]["resources"][0]["template"]["metadata"]["namespace"] =
        json!("${room.metadata.name}");
    graphs.define(definition).await;
    let shops = Resource::cluster("kro.run", "v1", "shops", "Shop");
    let shop = json!({"metadata": {"name": "a"}, "spec": {"name": "team-a"}});
    graphs.world.create(&shops, shop).await;
    let right = "ServiceAccount deltaplane-system/deltaplane-graphs may not patch secrets \"mine\" in namespace team-a";
    let lacks = |object: &Value| message(object, "ResourcesReady").contains(right);
    graphs
        .world
        .until(&shops, &ObjectKey::cluster("a"), lacks)
        .await;
    let own = ObjectKey::new("team-a", "team-a-own");
    assert!(graphs.world.get(&config_maps(), &own).await.is_some());
    graphs.end().await;
}

#[tokio::test]
async fn a_graph_of_the_hub_names_only_listed_accounts() {
    let graphs = Graphs::start().await;
    let mut definition = with(&[]);
    definition["metadata"]["labels"] = json!({"deltaplane.io/origin": "hub"});
    definition["spec"]["serviceAccountName"] = json!("deployer");
    let definitions = api::definitions();
    graphs.world.create(&definitions, definition).await;
    let refused = graphs.until_definition("GraphAccepted", "False").await;
    let said = message(&refused, "GraphAccepted");
    assert_eq!(
        said,
        "ServiceAccountRefused: graphs of the hub may not act as ServiceAccount deployer here; add it to --graph-accounts of the zone, or leave spec.serviceAccountName out"
    );
    // One that is authored here is checked when it is written.
    let origin = json!({"metadata": {"labels": {"deltaplane.io/origin": null}}});
    graphs.change(&definitions, &rgd(), origin).await;
    graphs.until_definition("Ready", "True").await;
    graphs.world.create(&shops(), shop("a")).await;
    let right = "ServiceAccount default/deployer may not patch configmaps \"a-own\" in namespace default; grant it with a RoleBinding";
    graphs.until_missing("a", right).await;
    graphs.end().await;
}

/// Migrated clusters have graphs that rely on the rights of kro's controller.
#[tokio::test]
async fn graphs_act_as_the_controller_if_an_administrator_says_so() {
    let mut graphs = Graphs::start().await;
    graphs.tasks.shutdown(GRACE).await.expect("a clean end");
    let options = GraphOptions {
        identity: graphs::GraphIdentity::Controller,
        ..GraphOptions::default()
    };
    let context = Context {
        client: graphs.world.client.clone(),
        pace: deltaplane_client::Pace::system(),
    };
    (graphs.tasks, graphs.requests) = run_as(context, options, Metrics::default());
    graphs.secret("vault").await;
    let node = json!({"id": "secret", "externalRef": {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "vault"},
    }});
    graphs.define(copying(node)).await;
    graphs.world.create(&shops(), shop("a")).await;
    graphs.until_state("a", "ACTIVE").await;
    let (accounts, at) = (resource("ServiceAccount"), key("deltaplane-graphs"));
    assert!(graphs.world.get(&accounts, &at).await.is_none());
    graphs.end().await;
}
