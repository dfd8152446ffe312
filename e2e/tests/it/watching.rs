//! kubectl while things change.

use deltaplane_e2e::server::Shared;
use deltaplane_e2e::{Kubectl, Server, plain};
use serde_json::Value;

static SERVER: Shared = Shared::new(Server::up);

fn kubectl(
    namespace: &str,
) -> (
    std::sync::Arc<deltaplane_e2e::server::SharedServer>,
    Kubectl,
) {
    let shared = SERVER.get();
    let kubectl = Kubectl::in_new_namespace(shared.server.kubeconfig(), namespace);
    (shared, kubectl)
}

#[test]
fn a_watch_shows_what_changes() {
    let (_server, kubectl) = kubectl("watch-table");
    kubectl.ok(&["create", "configmap", "a", "--from-literal=x=1"]);
    let watch = kubectl.start(&["get", "configmap", "a", "--watch"]);
    let line = || plain::text(&watch.line());
    assert_eq!(line(), "NAME   DATA   AGE");
    assert_eq!(line(), "a   1   AGE");
    let patch = r#"{"data":{"y":"2"}}"#;
    kubectl.ok(&["patch", "configmap", "a", "-p", patch]);
    assert_eq!(line(), "a   2   AGE");
    kubectl.ok(&["delete", "configmap", "a"]);
    assert_eq!(line(), "a   2   AGE");
}

#[test]
fn a_watch_by_label_is_told_who_comes_and_goes() {
    let (_server, kubectl) = kubectl("watch-labels");
    kubectl.ok(&["create", "configmap", "old"]);
    kubectl.ok(&["label", "configmap", "old", "mine=yes"]);
    let events = ["--watch", "--output-watch-events", "-o"];
    let template = "jsonpath={.type} {.object.metadata.name}{'\\n'}";
    let words = [
        &["get", "configmaps", "-l", "mine"],
        &events[..],
        &[template],
    ]
    .concat();
    let watch = kubectl.start(&words);
    assert_eq!(watch.line(), "ADDED old");
    kubectl.ok(&["create", "configmap", "new"]);
    kubectl.ok(&["label", "configmap", "new", "mine=yes"]);
    assert_eq!(watch.line(), "ADDED new");
    kubectl.ok(&["label", "configmap", "old", "mine-"]);
    assert_eq!(watch.line(), "DELETED old");
    kubectl.ok(&["annotate", "configmap", "new", "a=b"]);
    assert_eq!(watch.line(), "MODIFIED new");
}

#[test]
fn a_new_default_shows_in_what_is_stored_already() {
    let (_server, kubectl) = kubectl("defaults");
    let definition = r#"{"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "cogs.defaults.example.com"},
        "spec": {"group": "defaults.example.com", "scope": "Namespaced",
        "names": {"plural": "cogs", "kind": "Cog"}, "versions": [{"name": "v1", "served": true,
        "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
        "properties": {"metal": {"type": "string"}}}}}]}}"#;
    let made = kubectl.run_reading(&["create", "-f", "-"], definition);
    assert_eq!(made.code, 0, "{made:?}");
    let crd = "crd/cogs.defaults.example.com";
    kubectl.ok(&["wait", crd, "--for=condition=Established", "--timeout=60s"]);
    let cog =
        r#"{"apiVersion": "defaults.example.com/v1", "kind": "Cog", "metadata": {"name": "c"}}"#;
    let made = kubectl.run_reading(&["create", "-f", "-"], cog);
    assert_eq!(made.code, 0, "{made:?}");
    let metal = "/spec/versions/0/schema/openAPIV3Schema/properties/metal/default";
    let patch = format!(r#"[{{"op": "add", "path": "{metal}", "value": "iron"}}]"#);
    kubectl.ok(&["patch", crd, "--type=json", "-p", &patch]);
    // The answer to a change of a definition comes when the change is in force.
    let seen = kubectl.ok(&["get", "cog", "c", "-o", "jsonpath={.metal}"]);
    assert_eq!(seen, "iron");
    kubectl.ok(&["delete", crd]);
}

#[test]
fn a_raw_watch_resumes_from_a_version() {
    let (_server, kubectl) = kubectl("watch-raw");
    kubectl.ok(&["create", "configmap", "a"]);
    let version = kubectl.ok(&[
        "get",
        "configmap",
        "a",
        "-o",
        "jsonpath={.metadata.resourceVersion}",
    ]);
    kubectl.ok(&["label", "configmap", "a", "n=1"]);
    kubectl.ok(&["label", "configmap", "a", "n=2", "--overwrite"]);
    kubectl.ok(&["delete", "configmap", "a"]);
    let path = format!(
        "/api/v1/namespaces/watch-raw/configmaps?watch=1&resourceVersion={version}\
         &fieldSelector=metadata.name%3Da&timeoutSeconds=60"
    );
    let watch = kubectl.start(&["get", "--raw", &path]);
    let next = || {
        let event: Value = serde_json::from_str(&watch.line()).expect("an event");
        let label = &event["object"]["metadata"]["labels"]["n"];
        format!(
            "{} {}",
            event["type"].as_str().unwrap_or("?"),
            label.as_str().unwrap_or("-")
        )
    };
    assert_eq!(
        [next(), next(), next()],
        ["MODIFIED 1", "MODIFIED 2", "DELETED 2"]
    );
}

#[test]
fn a_wait_ends_when_it_comes_true() {
    let (_server, kubectl) = kubectl("waiting");
    kubectl.ok(&["create", "configmap", "a", "--from-literal=phase=New"]);
    let done = kubectl.start(&[
        "wait",
        "configmap/a",
        "--for=jsonpath={.data.phase}=Done",
        "--timeout=60s",
    ]);
    let gone = kubectl.start(&["wait", "configmap/a", "--for=delete", "--timeout=60s"]);
    let made = kubectl.start(&["wait", "configmap/b", "--for=create", "--timeout=60s"]);
    kubectl.ok(&[
        "patch",
        "configmap",
        "a",
        "-p",
        r#"{"data":{"phase":"Done"}}"#,
    ]);
    assert_eq!(done.rest(), ("configmap/a condition met\n".to_owned(), 0));
    kubectl.ok(&["delete", "configmap", "a"]);
    let (said, code) = gone.rest();
    assert!(
        ["", "configmap/a condition met\n"].contains(&said.as_str()),
        "{said}"
    );
    assert_eq!(code, 0);
    kubectl.ok(&["create", "configmap", "b"]);
    assert_eq!(made.rest(), ("configmap/b condition met\n".to_owned(), 0));
}

#[test]
fn every_served_group_version_is_listed() {
    let (_server, kubectl) = kubectl("group-versions");
    let versions = kubectl.ok(&["api-versions"]);
    let versions: Vec<&str> = versions.lines().collect();
    for version in [
        "apiextensions.k8s.io/v1",
        "apps/v1",
        "authentication.k8s.io/v1",
        "authorization.k8s.io/v1",
        "autoscaling/v2",
        "batch/v1",
        "coordination.k8s.io/v1",
        "discovery.k8s.io/v1",
        "events.k8s.io/v1",
        "networking.k8s.io/v1",
        "policy/v1",
        "rbac.authorization.k8s.io/v1",
        "scheduling.k8s.io/v1",
        "storage.k8s.io/v1",
        "v1",
    ] {
        assert!(
            versions.contains(&version),
            "{version} is not in {versions:?}"
        );
    }
}

#[test]
fn a_token_is_its_service_account() {
    let (_server, kubectl) = kubectl("tokens");
    kubectl.ok(&["create", "serviceaccount", "bot"]);
    kubectl.ok(&[
        "create",
        "rolebinding",
        "view",
        "--clusterrole=view",
        "--serviceaccount=tokens:bot",
    ]);
    let token = kubectl.ok(&["create", "token", "bot", "--duration=10m"]);
    // The administrator's certificate would win over a token: a kubeconfig without it.
    let config = kubectl.ok(&["config", "view", "--raw", "-o", "json", "--minify"]);
    let mut config: Value = serde_json::from_str(&config).expect("JSON");
    config["users"][0]["user"] = serde_json::json!({"token": token.trim()});
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("kubeconfig");
    std::fs::write(&path, config.to_string()).expect("written");
    let bot = Kubectl::new(&path, "tokens");
    let who = bot.ok(&[
        "auth",
        "whoami",
        "-o",
        "jsonpath={.status.userInfo.username}",
    ]);
    assert_eq!(who, "system:serviceaccount:tokens:bot");
    assert_eq!(
        bot.ok(&["get", "configmaps", "-o", "name"]),
        "configmap/kube-root-ca.crt\n"
    );
    let refused = bot.run(&["create", "configmap", "mine"]);
    let message = "error: failed to create configmap: configmaps is forbidden: \
                   User \"system:serviceaccount:tokens:bot\" cannot create resource \
                   \"configmaps\" in API group \"\" in the namespace \"tokens\"\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (1, message));
    kubectl.ok(&["delete", "serviceaccount", "bot"]);
    let refused = bot.run(&["get", "configmaps"]);
    let message = "error: You must be logged in to the server (Unauthorized)\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (1, message));
}
