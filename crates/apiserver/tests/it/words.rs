//! What clients read: the words of kube-apiserver 1.36, compared with it request by request.

use http::Method;
use serde_json::{Value, json};

use crate::custom::establish;
use crate::harness::{Reply, Server};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GEARS: &str = "/apis/words.example.com/v1/namespaces/default/gears";

/// A request (method, path, and perhaps a body), and the code and message of its answer.
const ANSWERS: &str = r#"
GET /api/v1/configmaps?labelSelector=%21%21
400 unable to parse requirement: found '!', expected: identifier

GET /api/v1/configmaps?labelSelector=a%20in
400 unable to parse requirement: found '' expected: '('

GET /api/v1/configmaps?fieldSelector=metadata.name
400 invalid selector: 'metadata.name'; can't understand 'metadata.name'

GET /api/v1/configmaps?resourceVersion=nonsense
400 invalid resource version: resourceVersion: Invalid value: "nonsense": strconv.ParseUint: parsing "nonsense": invalid syntax

GET /api/v1/configmaps?limit=1&continue=nonsense
400 invalid continue token: continue key is not valid: invalid character '\u009e' looking for beginning of value

DELETE /api/v1/namespaces
405 the server does not allow this method on the requested resource

POST /api/v1/namespaces/default/configmaps this is not json
400 the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: invalid character 'h' in literal true (expecting 'r') (74686973206973206e6f74206a736f6e)

POST /api/v1/namespaces/default/configmaps {"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}
400 Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion

POST /api/v1/namespaces/default/configmaps {"apiVersion":"v1","kind":"ConfigMap","data":{"a":1}}
400 ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string

POST /api/v1/namespaces/default/configmaps {"kind":"ConfigMap","metadata":{"labels":{"a":1}}}
400 ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string

POST /apis/apps/v1/namespaces/default/deployments {"spec":{"template":{"spec":{"containers":{"a":1}}}}}
400 Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container

POST /apis/apps/v1/namespaces/default/deployments {"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}}}
400 Deployment in version "v1" cannot be handled as a Deployment: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'

POST /apis/apps/v1/namespaces/default/deployments {"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"}]}}}}
422 Deployment.apps "d" is invalid: spec.template.spec.containers[0].image: Required value

POST /apis/events.k8s.io/v1/namespaces/kube-public/events {"metadata":{"name":"e"}}
422 Event "e" is invalid: [involvedObject.namespace: Invalid value: "": does not match event.namespace, eventTime: Required value, type: Invalid value: "": has invalid value: ]

POST /api/v1/namespaces/default/configmaps?dryRun=x {"metadata":{"name":"a"}}
422 CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["x"]: supported values: "All"

DELETE /api/v1/namespaces/default/configmaps/a {"propagationPolicy":"Orphan","orphanDependents":true}
422 DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set

POST /apis/authorization.k8s.io/v1/subjectaccessreviews {}
422 .authorization.k8s.io "" is invalid: [spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified, spec.user: Invalid value: "": at least one of user or group must be specified]

POST /apis/authentication.k8s.io/v1/tokenreviews {}
400 token is required for TokenReview in authentication

POST /apis/words.example.com/v1/namespaces/default/gears {}
400 the object provided is unrecognized (must be of type Gear): Object 'Kind' is missing in '{}' ({})

POST /apis/words.example.com/v1/namespaces/default/gears {"apiVersion":"words.example.com/v1","kind":"Wheel"}
422 Wheel.words.example.com "" is invalid: kind: Invalid value: "Wheel": must be Gear

POST /apis/words.example.com/v1/namespaces/default/gears {"apiVersion":"words.example.com/v1","kind":"Gear","metadata":{"name":1}}
400 Gear in version "v1" cannot be handled as a Gear: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string

POST /apis/words.example.com/v1/namespaces/default/gears {"apiVersion":"words.example.com/v1","kind":"Gear","metadata":{"name":"g"},"spec":{"size":-1}}
422 Gear.words.example.com "g" is invalid: .spec.size: Invalid value: -1: should be a non-negative integer

PUT /apis/words.example.com/v1/namespaces/default/gears/present {"apiVersion":"words.example.com/v1","kind":"Gear","metadata":{"name":"present"}}
422 gears.words.example.com "present" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update

PUT /apis/words.example.com/v1/namespaces/default/gears/present/scale {"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"present"},"spec":{"replicas":-2}}
422 Gear.words.example.com "present" is invalid: .spec.size: Invalid value: -2: should be a non-negative integer
"#;

async fn with_gears() -> Server {
    let server = Server::start().await;
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
            }}},
            "subresources": {
                "status": {},
                "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
            },
        })
    };
    let mut old = version("v1beta1", false);
    old["deprecated"] = json!(true);
    let mut oldest = version("v1alpha1", false);
    oldest["deprecated"] = json!(true);
    oldest["deprecationWarning"] = json!("no \"longer\"");
    let definition = json!({
        "metadata": {"name": "gears.words.example.com"},
        "spec": {
            "group": "words.example.com",
            "scope": "Namespaced",
            "names": {"plural": "gears", "kind": "Gear"},
            "versions": [version("v1", true), old, oldest],
        },
    });
    server.post(DEFINITIONS, &definition).await.expect(201);
    establish(&server, "gears.words.example.com").await;
    let gear = gear("present");
    server.post(GEARS, &gear).await.expect(201);
    server
}

fn gear(name: &str) -> Value {
    json!({"apiVersion": "words.example.com/v1", "kind": "Gear", "metadata": {"name": name},
        "spec": {"size": 1}})
}

fn code_and_message(reply: &Reply) -> String {
    let status = reply.json();
    let message = status["message"].as_str().unwrap_or_default();
    format!("{} {message}", reply.code.as_u16())
}

#[tokio::test]
async fn mistakes_are_answered_in_the_words_that_clients_know() {
    let server = with_gears().await;
    for case in ANSWERS.trim().split("\n\n") {
        let (request, expected) = case.split_once('\n').expect("two lines");
        let mut parts = request.splitn(3, ' ');
        let mut next = || parts.next().unwrap_or_default();
        let (method, path, body) = (next(), next(), next());
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let reply = server
            .send(method, path, "application/json", body.as_bytes())
            .await;
        assert_eq!(code_and_message(&reply), expected, "{request}");
    }
}

#[tokio::test]
async fn patches_that_are_none_are_answered_in_the_words_that_clients_know() {
    let server = with_gears().await;
    let present = format!("{GEARS}/present");
    let map_path = "/api/v1/namespaces/default/configmaps/a";
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
    let maps = "/api/v1/namespaces/default/configmaps";
    server.post(maps, &map).await.expect(201);
    let cases = [
        (
            "merge",
            "{",
            "400 error decoding patch: unexpected end of JSON input",
        ),
        (
            "merge",
            "[]",
            "400 error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        ("strategic-merge", "{", "400 unexpected end of JSON input"),
        (
            "json",
            "{}",
            "400 error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            "json",
            "nope",
            "400 error decoding patch: invalid character 'o' in literal null (expecting 'u')",
        ),
    ];
    for (sort, body, expected) in cases {
        let kind = format!("application/{sort}-patch+json");
        let reply = server
            .send(Method::PATCH, map_path, &kind, body.as_bytes())
            .await;
        assert_eq!(code_and_message(&reply), expected, "{body}");
    }
    // The real server says no more than the first half.
    let odd = json!([{"op": "what", "path": "/a"}]);
    for path in [
        map_path.to_owned(),
        present.clone(),
        format!("{present}/scale"),
    ] {
        let refused = server.patch(&path, "json", &odd).await.refused(422);
        let rejected = "the server rejected our request due to an error in our request";
        assert!(refused.starts_with(rejected), "{path}: {refused}");
    }
}

#[tokio::test]
async fn revisions_that_are_not_there_yet_are_named() {
    let server = Server::start().await;
    let current = server.store.revision();
    let message = server
        .get("/api/v1/configmaps?resourceVersion=999999999")
        .await
        .refused(504);
    let expected = format!("Timeout: Too large resource version: 999999999, current: {current}");
    assert_eq!(message, expected);
}

#[tokio::test]
async fn every_request_of_a_deprecated_version_warns() {
    let server = with_gears().await;
    let old =
        "299 - \"words.example.com/v1beta1 Gear is deprecated; use words.example.com/v1 Gear\"";
    let oldest = "299 - \"no \\\"longer\\\"\"";
    let endpoints =
        "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\"";
    let cases: [(&str, &[&str]); 7] = [
        ("/apis/words.example.com/v1/gears", &[]),
        ("/apis/words.example.com/v1beta1/gears", &[old]),
        (
            "/apis/words.example.com/v1beta1/namespaces/default/gears/present",
            &[old],
        ),
        (
            "/apis/words.example.com/v1beta1/namespaces/default/gears/absent",
            &[old],
        ),
        (
            "/apis/words.example.com/v1beta1/gears?watch=1&timeoutSeconds=1",
            &[old],
        ),
        ("/apis/words.example.com/v1alpha1/gears", &[oldest]),
        ("/api/v1/endpoints", &[endpoints]),
    ];
    for (path, expected) in cases {
        assert_eq!(server.get(path).await.warnings(), expected, "{path}");
    }
    let mut gear = gear("old");
    gear["apiVersion"] = json!("words.example.com/v1beta1");
    let path = "/apis/words.example.com/v1beta1/namespaces/default/gears";
    assert_eq!(server.post(path, &gear).await.warnings(), [old]);
}

#[tokio::test]
async fn nothing_new_comes_to_a_definition_that_is_going() {
    let server = with_gears().await;
    let path = format!("{DEFINITIONS}/gears.words.example.com");
    server.delete(&path, &json!({})).await.expect(200);
    let expected = "gears.words.example.com \"new\" is forbidden: create not allowed while custom resource definition is terminating";
    let refused = server.post(GEARS, &gear("new")).await.refused(403);
    assert_eq!(refused, expected);
    let apply = format!("{GEARS}/new?fieldManager=m");
    let refused = server
        .patch(&apply, "apply", &gear("new"))
        .await
        .refused(403);
    assert_eq!(refused, expected);
    // What is there can still be changed, so that it can let go.
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    let present = format!("{GEARS}/present");
    server.patch(&present, "merge", &change).await.expect(200);
}

#[tokio::test]
async fn whoever_asks_for_the_old_openapi_gets_one() {
    let server = Server::start().await;
    let json = server.get("/openapi/v2").await;
    assert_eq!(json.expect(200)["swagger"], "2.0");
    for kind in ["v2.v1.0", "v2@v1.0"] {
        let accept = format!("application/com.github.proto-openapi.spec.{kind}+protobuf");
        let reply = server.accept("/openapi/v2", &accept).await;
        assert_eq!(reply.code.as_u16(), 200, "{accept}");
        let answered = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        assert_eq!(reply.headers["content-type"], answered, "{accept}");
        assert!(reply.bytes.starts_with(b"\n\x032.0"), "{accept}");
    }
    let refused = server.accept("/openapi/v2", "text/html").await;
    assert_eq!(refused.code.as_u16(), 406);
}

#[tokio::test]
async fn namespaces_go_one_by_one() {
    let server = Server::start().await;
    let resources = server.get("/api/v1").await.expect(200);
    let rows = resources["resources"].as_array().into_iter().flatten();
    let verbs = rows
        .filter(|row| row["name"] == "namespaces")
        .map(|row| &row["verbs"]);
    let expected = json!([
        "create", "delete", "get", "list", "patch", "update", "watch"
    ]);
    assert_eq!(verbs.collect::<Vec<_>>(), [&expected]);
}

#[tokio::test]
async fn whoever_gathers_rules_must_have_all_of_them() {
    let server = Server::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let author = json!({"kind": "ClusterRole", "metadata": {"name": "author"}, "rules": [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["create"]}]});
    server.post(roles, &author).await.expect(201);
    let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "author"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "author"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    server.post(bindings, &binding).await.expect(201);
    let eve = server.as_user("eve", &["system:authenticated"]);
    let all = json!({"kind": "ClusterRole", "metadata": {"name": "all"}, "aggregationRule":
        {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    let refused = eve.post(roles, &all).await.refused(403);
    assert_eq!(
        refused,
        "clusterroles.rbac.authorization.k8s.io \"all\" is forbidden: must have cluster-admin privileges to use the aggregationRule"
    );
    server.post(roles, &all).await.expect(201);
    // Discovery is for everyone; the list of all paths is not.
    eve.get("/apis").await.expect(200);
    eve.get("/").await.refused(403);
}

#[tokio::test]
async fn whoever_asks_for_what_runs_is_told_that_nothing_does() {
    let server = Server::start().await;
    let pod = json!({"kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pods = "/api/v1/namespaces/default/pods";
    server.post(pods, &pod).await.expect(201);
    for what in ["log", "exec", "attach", "portforward", "proxy"] {
        let path = format!("{pods}/p/{what}");
        let words = format!(
            "nothing runs pods here, so pods \"p\" has no {what}: this control plane keeps objects, and clusters run them"
        );
        assert_eq!(server.get(&path).await.refused(404), words);
        assert_eq!(server.post(&path, &json!({})).await.refused(404), words);
    }
    let unknown = server.get(&format!("{pods}/p/nothing")).await.refused(404);
    assert_eq!(unknown, "the server could not find the requested resource");
}
