//! What real clients send and expect, where the server once answered otherwise than Kubernetes.

use http::Method;
use serde_json::{Value, json};

use crate::harness::Server;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const NETWORK_POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";

#[tokio::test]
async fn what_is_not_found_has_details() {
    let server = Server::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    server.post(pods, &pod).await.expect(201);
    let check = async |method: Method, path: &str, code: u16, details: Value| {
        let status = server.send(method, path, "application/json", b"").await;
        assert_eq!(status.expect(code)["details"], details, "{path}");
    };
    // As kubectl debug asks: it tells a missing subresource from a missing Pod by the name.
    let ephemeral = format!("{pods}/a/ephemeralcontainers");
    check(Method::PATCH, &ephemeral, 404, json!({"kind": "pods"})).await;
    let missing = json!({"kind": "pods", "name": "b"});
    check(Method::GET, &format!("{pods}/b"), 404, missing).await;
    let gears = json!({"kind": "gears", "group": "example.com"});
    check(Method::GET, "/apis/example.com/v1/gears", 404, gears).await;
    check(Method::GET, "/apis/example.com", 404, json!({})).await;
    check(Method::GET, "/nowhere", 404, json!({})).await;
    check(Method::POST, "/version", 405, json!({})).await;
}

#[tokio::test]
async fn timeouts_that_are_no_durations_are_refused() {
    let server = Server::start().await;
    for path in ["/version", SERVICES, "/readyz"] {
        let refused = server.get(&format!("{path}?timeout=invalid")).await;
        let expected =
            "invalid timeout specified in the request URL - time: invalid duration \"invalid\"";
        assert_eq!(refused.refused(400), expected, "{path}");
    }
    server
        .get(&format!("{SERVICES}?timeout=32s"))
        .await
        .expect(200);
    let watch = format!("{SERVICES}?watch=1&timeoutSeconds=1&timeout=invalid");
    assert_eq!(server.get(&watch).await.code, 200);
}

#[tokio::test]
async fn zero_times_are_accepted_where_go_has_them() {
    let server = Server::start().await;
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    let mut service = server.post(SERVICES, &service).await.expect(201);
    let condition = json!({"type": "Ready", "status": "True", "reason": "Yes", "message": "",
        "lastTransitionTime": null});
    service["status"] = json!({"loadBalancer": {}, "conditions": [condition]});
    let status = format!("{SERVICES}/a/status");
    let stored = server.put(&status, &service).await.expect(200);
    assert_eq!(stored["status"]["conditions"][0]["type"], "Ready");
    let second = json!({"type": "Other", "status": "False", "reason": "No", "message": "m",
        "lastTransitionTime": null});
    for sort in ["strategic-merge", "merge"] {
        let patch = json!({"status": {"conditions": [second]}});
        server.patch(&status, sort, &patch).await.expect(200);
    }
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "a"}, "spec": {"minAvailable": 1}});
    let mut budget = server.post(budgets, &budget).await.expect(201);
    budget["status"] = json!({"conditions": [second], "currentHealthy": 0, "desiredHealthy": 0,
        "disruptionsAllowed": 0, "expectedPods": 0});
    let status = format!("{budgets}/a/status");
    server.put(&status, &budget).await.expect(200);
}

#[tokio::test]
async fn priority_classes_keep_their_values() {
    let server = Server::start().await;
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    let class = server.post(CLASSES, &class).await.expect(201);
    let high = format!("{CLASSES}/high");
    let patch = json!({"value": 2000});
    let refused = server.patch(&high, "merge", &patch).await.refused(422);
    assert_eq!(
        refused,
        "PriorityClass.scheduling.k8s.io \"high\" is invalid: value: Forbidden: may not be changed in an update."
    );
    let patch = json!({"preemptionPolicy": "Never"});
    let refused = server.patch(&high, "merge", &patch).await.refused(422);
    assert_eq!(
        refused,
        "PriorityClass.scheduling.k8s.io \"high\" is invalid: preemptionPolicy: Invalid value: \"Never\": field is immutable"
    );
    let mut described = class;
    described["description"] = json!("for what matters");
    server.put(&high, &described).await.expect(200);
    let too_high = json!({"metadata": {"name": "top"}, "value": 1_000_000_001});
    let refused = server.post(CLASSES, &too_high).await.refused(422);
    assert_eq!(
        refused,
        "PriorityClass.scheduling.k8s.io \"top\" is invalid: value: Forbidden: maximum allowed value of a user defined priority is 1000000000"
    );
    let reserved = json!({"metadata": {"name": "system-mine"}, "value": 1});
    let refused = server.post(CLASSES, &reserved).await.refused(422);
    assert!(
        refused.contains("system-mine is not a known system priority class"),
        "{refused}"
    );
    let own = json!({"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000});
    server.post(CLASSES, &own).await.expect(201);
}

#[tokio::test]
async fn network_policies_have_ports_and_peers_that_make_sense() {
    let server = Server::start().await;
    let check = async |rule: Value, fault: &str| {
        let policy =
            json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}, "egress": [rule]}});
        let reply = server
            .post(&format!("{NETWORK_POLICIES}?dryRun=All"), &policy)
            .await;
        let seen = match reply.code.is_success() {
            true => String::new(),
            false => reply.refused(422),
        };
        let expected = match fault {
            "" => String::new(),
            fault => {
                format!("NetworkPolicy.networking.k8s.io \"p\" is invalid: spec.egress[0].{fault}")
            }
        };
        assert_eq!(seen, expected, "{rule}");
    };
    let port = |port: Value| json!({"ports": [port]});
    let invalid = "ports[0].endPort: Invalid value:";
    check(port(json!({"port": 1, "endPort": 9})), "").await;
    check(port(json!({"port": "http"})), "").await;
    check(port(json!({})), "").await;
    let missing = format!("{invalid} 9: may not be specified when `port` is not specified");
    check(port(json!({"endPort": 9})), &missing).await;
    let named = format!("{invalid} 9: may not be specified when `port` is non-numeric");
    check(port(json!({"port": "http", "endPort": 9})), &named).await;
    let lower = format!("{invalid} 9: must be greater than or equal to `port`");
    check(port(json!({"port": 10, "endPort": 9})), &lower).await;
    let beyond = format!("{invalid} 70000: must be between 1 and 65535, inclusive");
    check(port(json!({"port": 10, "endPort": 70000})), &beyond).await;
    let zero = "ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive";
    check(port(json!({"port": 0})), zero).await;
    let peer = |peer: Value| json!({"to": [peer]});
    check(peer(json!({"podSelector": {}})), "").await;
    check(
        peer(json!({"podSelector": {}, "namespaceSelector": {}})),
        "",
    )
    .await;
    check(
        peer(json!({})),
        "to[0]: Required value: must specify a peer",
    )
    .await;
    let both = json!({"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}});
    let fault = "to[0]: Forbidden: may not specify both ipBlock and another peer";
    check(peer(both), fault).await;
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

#[tokio::test]
async fn pods_are_pending_from_the_beginning() {
    let server = Server::start().await;
    let limits = json!({"cpu": "1", "memory": "1Gi"});
    let check = async |name: &str, resources: Value, class: &str| {
        let container = json!({"name": "c", "image": "i", "resources": resources});
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [container]},
            "status": {"phase": "Running", "podIP": "10.0.0.1"}});
        let made = server.post(PODS, &pod).await.expect(201);
        assert_eq!(
            made["status"],
            json!({"phase": "Pending", "qosClass": class})
        );
        let managed = &made["metadata"]["managedFields"][0]["fieldsV1"];
        assert!(
            managed["f:status"].is_null(),
            "nobody wrote the status: {managed}"
        );
    };
    check("a", json!({}), "BestEffort").await;
    check("b", json!({"requests": {"cpu": "1"}}), "Burstable").await;
    // Requests are by default what the limits are.
    check("c", json!({"limits": limits}), "Guaranteed").await;
    let applied = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let path = format!("{PODS}/d?fieldManager=test");
    let made = server.patch(&path, "apply", &applied).await.expect(201);
    assert_eq!(made["status"]["phase"], "Pending");
}

fn job(name: &str) -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    json!({"metadata": {"name": name}, "spec": {"template": {"spec": pod}}})
}

#[tokio::test]
async fn jobs_select_their_own_pods() {
    let server = Server::start().await;
    let mut labelled = job("a");
    labelled["spec"]["template"]["metadata"] = json!({"labels": {"app": "x"}});
    let made = server.post(JOBS, &labelled).await.expect(201);
    let uid = &made["metadata"]["uid"];
    let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    assert_eq!(made["spec"]["selector"], selector);
    let labels = json!({"app": "x", "controller-uid": uid, "job-name": "a",
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "a"});
    assert_eq!(made["spec"]["template"]["metadata"]["labels"], labels);
    // What was read can be written back, and what others own stays.
    server.put(&format!("{JOBS}/a"), &made).await.expect(200);
    let patch = json!({"spec": {"suspend": true}});
    let changed = server.patch(&format!("{JOBS}/a"), "merge", &patch).await;
    let mut other = changed.expect(200);
    other["spec"]["selector"] = json!({"matchLabels": {"app": "x"}});
    let refused = server.put(&format!("{JOBS}/a"), &other).await.refused(422);
    assert!(
        refused.contains("`selector` not auto-generated"),
        "{refused}"
    );
    assert!(refused.contains("field is immutable"), "{refused}");
    let generated = json!({"metadata": {"generateName": "g-"}, "spec": job("g")["spec"]});
    let made = server.post(JOBS, &generated).await.expect(201);
    let labels = &made["spec"]["template"]["metadata"]["labels"];
    assert_eq!(
        labels["batch.kubernetes.io/job-name"],
        made["metadata"]["name"]
    );
}

#[tokio::test]
async fn jobs_with_a_selector_of_their_own_say_so() {
    let server = Server::start().await;
    let mut manual = job("a");
    manual["spec"]["selector"] = json!({"matchLabels": {"app": "x"}});
    manual["spec"]["template"]["metadata"] = json!({"labels": {"app": "x"}});
    let refused = server.post(JOBS, &manual).await.refused(422);
    assert!(
        refused.contains("`selector` not auto-generated"),
        "{refused}"
    );
    manual["spec"]["manualSelector"] = json!(true);
    let made = server.post(JOBS, &manual).await.expect(201);
    assert_eq!(made["spec"]["selector"], manual["spec"]["selector"]);
    assert_eq!(
        made["spec"]["template"]["metadata"]["labels"],
        json!({"app": "x"})
    );
    let mut bare = job("b");
    bare["spec"]["manualSelector"] = json!(true);
    let refused = server.post(JOBS, &bare).await.refused(422);
    assert_eq!(
        refused,
        "Job.batch \"b\" is invalid: spec.selector: Required value"
    );
    let mut foreign = job("c");
    foreign["spec"]["template"]["metadata"] = json!({"labels": {"job-name": "z"}});
    let refused = server.post(JOBS, &foreign).await.refused(422);
    assert!(
        refused.contains("spec.template.metadata.labels[job-name]: Invalid value"),
        "{refused}"
    );
}
