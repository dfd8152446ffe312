//! Who may do what.

use serde_json::{Value, json};

use crate::harness::Server;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn role(rules: Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "r"}, "rules": rules,
    })
}

fn binding(user: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

/// Gives a user these rights in all namespaces.
async fn grant_everywhere(server: &Server, user: &str, rules: Value) {
    let mut role = role(rules);
    role["kind"] = json!("ClusterRole");
    let mut binding = binding(user);
    binding["kind"] = json!("ClusterRoleBinding");
    binding["roleRef"]["kind"] = json!("ClusterRole");
    for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("{RBAC}/{plural}");
        server.post(&path, &object).await.expect(201);
    }
}

#[tokio::test]
async fn rights_begin_and_end_with_the_answer_that_grants_them() {
    let server = Server::start().await;
    let eve = server.as_user("eve", &[]);
    assert_eq!(
        eve.get(MAPS).await.refused(403),
        "configmaps is forbidden: User \"eve\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    let rules =
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]);
    server
        .post(&format!("{RBAC}/namespaces/default/roles"), &role(rules))
        .await
        .expect(201);
    server
        .post(
            &format!("{RBAC}/namespaces/default/rolebindings"),
            &binding("eve"),
        )
        .await
        .expect(201);
    eve.get(MAPS).await.expect(200);
    eve.watch(&format!("{MAPS}?watch=1")).await;
    eve.get("/api/v1/configmaps").await.refused(403);
    eve.get("/api/v1/namespaces/default/secrets")
        .await
        .refused(403);
    server
        .delete(
            &format!("{RBAC}/namespaces/default/rolebindings/b"),
            &json!({}),
        )
        .await
        .expect(200);
    eve.get(MAPS).await.refused(403);
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_have() {
    let server = Server::start().await;
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]);
    let roles = format!("{RBAC}/namespaces/default/roles");
    server.post(&roles, &role(rules)).await.expect(201);
    server
        .post(
            &format!("{RBAC}/namespaces/default/rolebindings"),
            &binding("eve"),
        )
        .await
        .expect(201);
    let eve = server.as_user("eve", &[]);
    let named = |name: &str, rules: Value| {
        let mut role = role(rules);
        role["metadata"]["name"] = json!(name);
        role
    };
    let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let refused = eve
        .post(&roles, &named("more", secrets.clone()))
        .await
        .refused(403);
    assert!(
        refused.contains("attempting to grant RBAC permissions not currently held"),
        "{refused}"
    );
    let own = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    eve.post(&roles, &named("own", own)).await.expect(201);
    server
        .post(&roles, &named("secrets", secrets))
        .await
        .expect(201);
    let mut greedy = binding("eve");
    greedy["metadata"]["name"] = json!("greedy");
    greedy["roleRef"]["name"] = json!("secrets");
    eve.post(&format!("{RBAC}/namespaces/default/rolebindings"), &greedy)
        .await
        .refused(403);
}

/// As when a directory is applied in the order of its files.
#[tokio::test]
async fn whoever_may_bind_may_bind_before_the_role_is_there() {
    let server = Server::start().await;
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["create"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["bind"], "resourceNames": ["later"]},
    ]);
    let roles = format!("{RBAC}/namespaces/default/roles");
    server.post(&roles, &role(rules)).await.expect(201);
    server.post(&bindings, &binding("eve")).await.expect(201);
    let eve = server.as_user("eve", &[]);
    let to = |role: &str| {
        let mut binding = binding("mallory");
        binding["metadata"]["name"] = json!(role);
        binding["roleRef"]["name"] = json!(role);
        binding
    };
    eve.post(&bindings, &to("later")).await.expect(201);
    eve.post(&bindings, &to("never")).await.refused(404);
    let mallory = server.as_user("mallory", &[]);
    mallory.get(MAPS).await.refused(403);
    let mut later =
        role(json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]));
    later["metadata"]["name"] = json!("later");
    server.post(&roles, &later).await.expect(201);
    mallory.get(MAPS).await.expect(200);
}

#[tokio::test]
async fn the_anonymous_see_health_and_version_only() {
    let server = Server::start().await;
    let ask = |path: &'static str| {
        let request = http::Request::get(path)
            .body(Default::default())
            .expect("a request");
        server.raw(request)
    };
    for path in ["/livez", "/readyz", "/healthz", "/version", "/livez/ping"] {
        assert_eq!(ask(path).await.code.as_u16(), 200, "{path}");
    }
    for path in [
        "/api",
        "/apis",
        "/metrics",
        "/openapi/v3",
        "/api/v1/namespaces",
        "/",
    ] {
        assert_eq!(ask(path).await.code.as_u16(), 401, "{path}");
    }
}

#[tokio::test]
async fn tokens_are_good_while_their_account_is() {
    let server = Server::start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}});
    server.post(accounts, &account).await.expect(201);
    let issued = server
        .post(&format!("{accounts}/web/token"), &json!({"spec": {}}))
        .await
        .expect(201);
    let token = issued["status"]["token"]
        .as_str()
        .expect("a token")
        .to_owned();
    let whoami = || {
        let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("authorization", format!("Bearer {token}"))
            .body(Default::default())
            .expect("a request");
        server.raw(request)
    };
    let user = whoami().await.expect(201)["status"]["userInfo"].clone();
    assert_eq!(user["username"], "system:serviceaccount:default:web");
    let review = json!({"spec": {"token": token}});
    let reviewed = server
        .post("/apis/authentication.k8s.io/v1/tokenreviews", &review)
        .await
        .expect(201);
    assert_eq!(reviewed["status"]["authenticated"], true);
    server
        .delete(&format!("{accounts}/web"), &json!({}))
        .await
        .expect(200);
    whoami().await.refused(401);
    let reviewed = server
        .post("/apis/authentication.k8s.io/v1/tokenreviews", &review)
        .await
        .expect(201);
    assert_ne!(reviewed["status"]["authenticated"], true);
}

#[tokio::test]
async fn acting_as_someone_takes_the_right_to_and_gives_no_more() {
    let server = Server::start().await;
    let ask = |user: &Server, as_user: &str| {
        let request = http::Request::get("/api/v1/namespaces")
            .header("impersonate-user", as_user)
            .extension(user.user().clone())
            .body(Default::default())
            .expect("a request");
        server.raw(request)
    };
    let refused = ask(&server, "eve").await.refused(403);
    assert!(refused.contains("User \"eve\" cannot list"), "{refused}");
    let eve = server.as_user("eve", &[]);
    let refused = ask(&eve, "admin").await.refused(403);
    assert!(
        refused.contains("User \"eve\" cannot impersonate resource \"users\""),
        "{refused}"
    );
}

#[tokio::test]
async fn nobody_acts_as_the_system_itself() {
    let server = Server::start().await;
    let why = "is forbidden: names that begin with \"system:deltaplane:\" are those of the system itself, which nobody can impersonate";
    let ours = "system:deltaplane:controllers";
    let cases = [
        (ours, "ops", format!("users {ours:?} {why}")),
        ("eve", ours, format!("groups {ours:?} {why}")),
        ("eve", "system:masters", String::new()),
        ("system:deltaplane", "system:masters", String::new()),
    ];
    for (user, group, refusal) in cases {
        let request = http::Request::get("/api/v1/namespaces")
            .header("impersonate-user", user)
            .header("impersonate-group", "other")
            .header("impersonate-group", group)
            .extension(server.user().clone())
            .body(Default::default());
        let reply = server.raw(request.expect("a request")).await;
        match refusal.is_empty() {
            true => assert_eq!(reply.expect(200)["kind"], "NamespaceList", "{user}"),
            false => assert_eq!(reply.refused(403), refusal),
        }
    }
}

#[tokio::test]
async fn questions_about_rights_are_answered() {
    let server = Server::start().await;
    let eve = server.as_user("eve", &[]);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let ask = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}});
    assert_eq!(
        eve.post(path, &ask).await.expect(201)["status"]["allowed"],
        false
    );
    assert_eq!(
        server.post(path, &ask).await.expect(201)["status"]["allowed"],
        true
    );
    let rules = json!({"spec": {"namespace": "default"}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = eve.post(path, &rules).await.expect(201);
    assert!(
        answer["status"]["resourceRules"]
            .to_string()
            .contains("selfsubjectaccessreviews")
    );
    assert_eq!(answer["status"]["incomplete"], false);
}

#[tokio::test]
async fn reviews_are_bounded() {
    let server = Server::start().await;
    let review = |groups: usize| {
        json!({"spec": {
            "groups": (0..groups).map(|number| format!("g{number}")).collect::<Vec<_>>(),
            "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"},
        }})
    };
    let path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    server.post(path, &review(1000)).await.expect(201);
    let refused = server.post(path, &review(1001)).await.refused(422);
    assert!(
        refused.contains("spec.groups: Too many: 1001: must have at most 1000 items"),
        "{refused}"
    );

    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let names: Vec<String> = (0..100_000)
        .map(|number| format!("name-{number}"))
        .collect();
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"],
        "resourceNames": names});
    let role = json!({"metadata": {"name": "many"}, "rules": [rule]});
    server
        .post(&format!("{rbac}/roles"), &role)
        .await
        .expect(201);
    let binding = json!({"metadata": {"name": "many"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "many"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"}]});
    server
        .post(&format!("{rbac}/rolebindings"), &binding)
        .await
        .expect(201);
    let eve = server.as_user("eve", &[]);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let rules = json!({"spec": {"namespace": "default"}});
    let status = eve.post(path, &rules).await.expect(201)["status"].clone();
    assert_eq!(status["incomplete"], true);
    assert!(status.to_string().len() < 100_000, "it is cut");
    let shown = status["resourceRules"].to_string();
    assert!(shown.contains("selfsubjectaccessreviews"), "{shown}");
}

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";

#[tokio::test]
async fn tokens_can_be_verified_by_what_the_issuer_says_of_itself() {
    let server = Server::start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "robot"}});
    server.post(accounts, &account).await.expect(201);
    let path = format!("{accounts}/robot/token");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": ["elsewhere"]}});
    let token = server.post(&path, &review).await.expect(201)["status"]["token"].clone();
    let token = token.as_str().expect("a token").to_owned();

    let robot = "system:serviceaccount:default:robot";
    let robot = server.as_user(robot, &["system:serviceaccounts"]);
    let configuration = robot.get(CONFIGURATION).await;
    assert_eq!(configuration.headers["content-type"], "application/json");
    let configuration = configuration.expect(200);
    assert_eq!(configuration["issuer"], "https://kubernetes.default.svc");
    assert_eq!(
        configuration["jwks_uri"],
        "https://127.0.0.1:7443/openid/v1/jwks"
    );
    let keys = robot.get(KEYS).await;
    assert_eq!(keys.headers["content-type"], "application/jwk-set+json");
    let keys: jsonwebtoken::jwk::JwkSet = serde_json::from_value(keys.expect(200)).expect("keys");

    let header = jsonwebtoken::decode_header(&token).expect("a header");
    let key = keys
        .find(&header.kid.expect("it names its key"))
        .expect("the key is there");
    let key = jsonwebtoken::DecodingKey::from_jwk(key).expect("a usable key");
    let mut validation = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::ES256);
    validation.set_issuer(&[configuration["issuer"].as_str().expect("an issuer")]);
    validation.set_audience(&["elsewhere"]);
    let claims = jsonwebtoken::decode::<Value>(&token, &key, &validation).expect("it is valid");
    assert_eq!(claims.claims["sub"], "system:serviceaccount:default:robot");
}

#[tokio::test]
async fn service_accounts_alone_may_see_the_issuer() {
    let server = Server::start().await;
    let eve = server.as_user("eve", &["system:authenticated"]);
    let anonymous = server.as_user("system:anonymous", &["system:unauthenticated"]);
    for path in [CONFIGURATION, KEYS] {
        eve.get(path).await.refused(403);
        anonymous.get(path).await.refused(401);
        server.get(path).await.expect(200);
    }
}

/// A label alone can make a role part of another one, so every write is checked.
#[tokio::test]
async fn labels_grant_nothing_that_their_author_does_not_hold() {
    let server = Server::start().await;
    let author = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"],
            "verbs": ["create", "patch", "update"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]);
    grant_everywhere(&server, "eve", author).await;
    let eve = server.as_user("eve", &[]);
    let merge = "merge";
    let label =
        json!({"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}});
    let roles = format!("{RBAC}/clusterroles");
    let refused = eve
        .patch(&format!("{roles}/cluster-admin"), merge, &label)
        .await
        .refused(403);
    assert!(
        refused.contains("attempting to grant RBAC permissions not currently held"),
        "{refused}"
    );
    // The same by replacing the whole object, and by server-side apply.
    let mut whole = server
        .get(&format!("{roles}/cluster-admin"))
        .await
        .expect(200);
    whole["metadata"]["labels"] = label["metadata"]["labels"].clone();
    eve.put(&format!("{roles}/cluster-admin"), &whole)
        .await
        .refused(403);
    let applied = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "cluster-admin", "labels": label["metadata"]["labels"]}});
    eve.send(
        http::Method::PATCH,
        &format!("{roles}/cluster-admin?fieldManager=eve"),
        "application/apply-patch+yaml",
        applied.to_string().as_bytes(),
    )
    .await
    .refused(403);
    // An aggregated role may become anything, so its labels are a matter of those who have all.
    let refused = eve
        .patch(&format!("{roles}/edit"), merge, &label)
        .await
        .refused(403);
    assert!(refused.contains("cluster-admin privileges"), "{refused}");

    // Rules that the author holds may be labelled, and fields of garbage collection set.
    let mut own = role(json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]));
    own["kind"] = json!("ClusterRole");
    own["metadata"]["name"] = json!("own");
    eve.post(&roles, &own).await.expect(201);
    eve.patch(&format!("{roles}/own"), merge, &label)
        .await
        .expect(200);
    let finalizer = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    eve.patch(&format!("{roles}/view"), merge, &finalizer)
        .await
        .expect(200);
}

/// The controller that aggregates may be behind; a binding grants what the role becomes.
#[tokio::test]
async fn a_binding_grants_what_its_role_will_aggregate() {
    let server = Server::start().await;
    let author = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterrolebindings"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]);
    grant_everywhere(&server, "eve", author).await;
    let eve = server.as_user("eve", &[]);
    let cluster_role = |name: &str, resource: &str| {
        let mut role =
            role(json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]));
        role["kind"] = json!("ClusterRole");
        role["metadata"] = json!({"name": name, "labels": {"part": name}});
        role
    };
    let roles = format!("{RBAC}/clusterroles");
    let mut whole = cluster_role("whole", "configmaps");
    whole["aggregationRule"] =
        json!({"clusterRoleSelectors": [{"matchLabels": {"part": "secrets"}}]});
    server.post(&roles, &whole).await.expect(201);
    let to_whole = |name: &str| {
        let mut binding = binding("mallory");
        binding["kind"] = json!("ClusterRoleBinding");
        binding["metadata"]["name"] = json!(name);
        binding["roleRef"]["kind"] = json!("ClusterRole");
        binding["roleRef"]["name"] = json!("whole");
        binding
    };
    let bindings = format!("{RBAC}/clusterrolebindings");
    eve.post(&bindings, &to_whole("before")).await.expect(201);
    server
        .post(&roles, &cluster_role("secrets", "secrets"))
        .await
        .expect(201);
    eve.post(&bindings, &to_whole("after")).await.refused(403);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    eve.patch(&format!("{bindings}/before"), "merge", &label)
        .await
        .refused(403);
}
