//! Rules of objects and of what may change, in the words of kube-apiserver 1.36, compared with it
//! request by request.

use http::Method;
use serde_json::{Value, json};

use crate::custom::establish;
use crate::harness::Server;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Each case is a request and the code of its answer, with the message if it is refused. Paths
/// begin at a collection's short name; the sorts of patches stand for their methods.
async fn check(server: &Server, cases: &str) {
    for case in cases.trim().split("\n\n") {
        let (request, expected) = case.trim().split_once('\n').expect("two lines");
        let mut words = request.trim().splitn(3, ' ');
        let mut next = || words.next().unwrap_or_default();
        let (verb, path, body) = (next(), next(), next());
        let (method, content_type) = match verb {
            "POST" => (Method::POST, "application/json".to_owned()),
            "PUT" => (Method::PUT, "application/json".to_owned()),
            "APPLY" => (Method::PATCH, "application/apply-patch+yaml".to_owned()),
            sort => {
                let sort = sort.to_lowercase();
                (Method::PATCH, format!("application/{sort}-patch+json"))
            }
        };
        let body = body.as_bytes();
        let path = expand(path);
        let reply = server.send(method, &path, &content_type, body).await;
        let answer = reply.json();
        let message = match reply.code.is_success() {
            true => "",
            false => answer["message"].as_str().unwrap_or_default(),
        };
        let seen = format!("{} {message}", reply.code.as_u16());
        assert_eq!(seen.trim(), expected.trim(), "{request}");
    }
}

fn expand(path: &str) -> String {
    let (short, rest) = path.split_at(path.find(['/', '?']).unwrap_or(path.len()));
    let api = match short {
        "configmaps" | "pods" | "podtemplates" | "replicationcontrollers" => "/api/v1",
        "jobs" | "cronjobs" => "/apis/batch/v1",
        "gears" => "/apis/example.com/v1",
        "definitions" => return format!("{DEFINITIONS}{rest}"),
        _ => "/apis/apps/v1",
    };
    format!("{api}/namespaces/default/{short}{rest}")
}

#[tokio::test]
async fn pods_have_containers_with_names_and_images() {
    let server = Server::start().await;
    check(
        &server,
        r#"
        POST pods {"metadata":{"name":"p"}}
        422 Pod "p" is invalid: spec.containers: Required value

        POST pods {"metadata":{"name":"p"},"spec":{"containers":[]}}
        422 Pod "p" is invalid: spec.containers: Required value

        POST pods {"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"},{"name":"c","image":"i"}]}}
        422 Pod "p" is invalid: spec.containers[1].name: Duplicate value: "c"

        POST pods {"metadata":{"name":"p"},"spec":{"containers":[{"name":"C_","image":"i"}]}}
        422 Pod "p" is invalid: spec.containers[0].name: Invalid value: "C_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')

        POST pods {"metadata":{"name":"p"},"spec":{"containers":[{"image":"i"}]}}
        422 Pod "p" is invalid: spec.containers[0].name: Required value

        POST pods {"metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}
        422 Pod "p" is invalid: spec.containers[0].image: Required value

        POST pods {"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":" i "}]}}
        422 Pod "p" is invalid: spec.containers[0].image: Invalid value: " i ": must not have leading or trailing whitespace

        POST pods {"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}],"initContainers":[{"name":"c","image":"i"}]}}
        422 Pod "p" is invalid: spec.initContainers[0].name: Duplicate value: "c"

        POST pods {"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":0},{"containerPort":70000,"name":"UPPER"},{"containerPort":1,"name":"a"},{"containerPort":2,"name":"a"}]}]}}
        422 Pod "p" is invalid: [spec.containers[0].ports[0].containerPort: Required value, spec.containers[0].ports[1].name: Invalid value: "UPPER": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-), spec.containers[0].ports[1].name: Invalid value: "UPPER": must contain at least one letter (a-z), spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive, spec.containers[0].ports[3].name: Duplicate value: "a"]

        POST pods {"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":""},{"name":"a=b"},{"name":"x","value":"1","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}]}}
        422 Pod "p" is invalid: [spec.containers[0].env[0].name: Required value, spec.containers[0].env[1].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '=', spec.containers[0].env[2].valueFrom: Invalid value: "": may not be specified when `value` is not empty]

        POST pods {"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","volumeMounts":[{"name":"v","mountPath":"/a"},{"name":"w","mountPath":""}]}]}}
        422 Pod "p" is invalid: [spec.containers[0].volumeMounts[0].name: Not found: "v", spec.containers[0].volumeMounts[1].name: Not found: "w", spec.containers[0].volumeMounts[1].mountPath: Required value]

        POST pods {"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"a","emptyDir":{}},{"name":"a","emptyDir":{}}]}}
        422 Pod "p" is invalid: spec.volumes[1].name: Duplicate value: "a"

        POST pods {"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}],"activeDeadlineSeconds":0}}
        422 Pod "p" is invalid: spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive

        POST pods {"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}
        201

        STRATEGIC-MERGE pods/p {"spec":{"containers":[{"name":"c","$patch":"delete"}]}}
        422 Pod "p" is invalid: [spec.containers: Required value, spec.containers: Forbidden: pod updates may not add or remove containers]

        STRATEGIC-MERGE pods/p {"spec":{"containers":[{"name":"c","image":"j"}]}}
        200

        POST podtemplates {"metadata":{"name":"a"},"template":{"spec":{"containers":[]}}}
        422 PodTemplate "a" is invalid: template.spec.containers: Required value

        POST replicationcontrollers {"metadata":{"name":"a"},"spec":{"selector":{"a":"b"},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[]}}}}
        422 ReplicationController "a" is invalid: spec.template.spec.containers: Required value
        "#,
    )
    .await;
}

#[tokio::test]
async fn workloads_describe_pods_that_live_as_they_need() {
    let server = Server::start().await;
    check(
        &server,
        r#"
        POST deployments {"metadata":{"name":"w"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[]}}}}
        422 Deployment.apps "w" is invalid: spec.template.spec.containers: Required value

        POST deployments {"metadata":{"name":"w"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}],"restartPolicy":"Never","activeDeadlineSeconds":5}}}}
        422 Deployment.apps "w" is invalid: [spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always", spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported]

        POST deployments {"metadata":{"name":"w"},"spec":{"replicas":-1,"minReadySeconds":-1,"revisionHistoryLimit":-1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
        422 Deployment.apps "w" is invalid: [spec.replicas: Invalid value: -1: must be greater than or equal to 0, spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0, spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0]

        POST statefulsets {"metadata":{"name":"w"},"spec":{"selector":{},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
        422 StatefulSet.apps "w" is invalid: spec.selector: Invalid value: {}: empty selector is invalid for statefulset

        POST daemonsets {"metadata":{"name":"w"},"spec":{"selector":{},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}],"activeDeadlineSeconds":5}}}}
        422 DaemonSet.apps "w" is invalid: [spec.selector: Invalid value: {}: empty selector is invalid for daemonset, spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported]

        POST replicasets {"metadata":{"name":"w"},"spec":{"selector":{"matchLabels":{"x":"y"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"}]}}}}
        422 ReplicaSet.apps "w" is invalid: [spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`, spec.template.spec.containers[0].image: Required value]

        POST jobs {"metadata":{"name":"w"},"spec":{"template":{"spec":{"containers":[]}}}}
        422 Job.batch "w" is invalid: [spec.template.spec.containers: Required value, spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"]

        POST jobs {"metadata":{"name":"w"},"spec":{"parallelism":-1,"completions":-1,"backoffLimit":-1,"activeDeadlineSeconds":-1,"ttlSecondsAfterFinished":-1,"template":{"spec":{"containers":[{"name":"c","image":"i"}],"restartPolicy":"Never"}}}}
        422 Job.batch "w" is invalid: [spec.parallelism: Invalid value: -1: must be greater than or equal to 0, spec.completions: Invalid value: -1: must be greater than or equal to 0, spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0, spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0, spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0]

        POST cronjobs {"metadata":{"name":"w"},"spec":{"schedule":"bad","jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}],"restartPolicy":"Never"}}}}}}
        422 CronJob.batch "w" is invalid: spec.schedule: Invalid value: "bad": expected exactly 5 fields, found 1: [bad]

        POST cronjobs {"metadata":{"name":"w"},"spec":{"schedule":"TZ=UTC * * * * *","jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}],"restartPolicy":"Never"}}}}}}
        422 CronJob.batch "w" is invalid: spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead

        POST cronjobs {"metadata":{"name":"w"},"spec":{"schedule":"@daily","jobTemplate":{"spec":{"template":{"spec":{"containers":[]}}}}}}
        422 CronJob.batch "w" is invalid: [spec.jobTemplate.spec.template.spec.containers: Required value, spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"]

        POST cronjobs {"metadata":{"name":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"spec":{"schedule":"@daily","jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}],"restartPolicy":"Never"}}}}}}
        422 CronJob.batch "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" is invalid: metadata.name: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must be no more than 52 characters

        POST cronjobs {"metadata":{"name":"w"},"spec":{"schedule":"*/5 * * * *","jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}],"restartPolicy":"Never"}}}}}}
        201
        "#,
    )
    .await;
}

#[tokio::test]
async fn metadata_that_others_rely_on_is_checked() {
    let server = with_gears().await;
    let map = json!({"metadata": {"name": "a"}});
    server.post(MAPS, &map).await.expect(201);
    let going = json!({"metadata": {"name": "going", "finalizers": ["x.io/y"]}});
    server.post(MAPS, &going).await.expect(201);
    let path = format!("{MAPS}/going");
    server.delete(&path, &json!({})).await.expect(200);
    check(
        &server,
        r#"
        JSON configmaps/a [{"op":"add","path":"/metadata/finalizers","value":["nodomain"]}]
        422 ConfigMap "a" is invalid: metadata.finalizers[0]: Invalid value: "nodomain": name is neither a standard finalizer name nor is it fully qualified

        POST configmaps {"metadata":{"name":"b","finalizers":["orphan","foregroundDeletion"]}}
        422 ConfigMap "b" is invalid: metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set

        MERGE gears/g {"metadata":{"finalizers":["nodomain"]}}
        200

        MERGE configmaps/a {"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}
        422 ConfigMap "a" is invalid: metadata.deletionTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable

        MERGE configmaps/a {"metadata":{"deletionGracePeriodSeconds":5}}
        422 ConfigMap "a" is invalid: metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable

        MERGE configmaps/a {"metadata":{"uid":"other"}}
        422 ConfigMap "a" is invalid: metadata.uid: Invalid value: "other": field is immutable

        APPLY configmaps/a?fieldManager=x {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"other"}}
        422 ConfigMap "a" is invalid: metadata.uid: Invalid value: "other": field is immutable

        MERGE gears/g {"metadata":{"uid":"other"}}
        422 Gear.example.com "g" is invalid: metadata.uid: Invalid value: "other": field is immutable

        MERGE gears/g/status {"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","uid":"q"}}
        200

        MERGE configmaps/a {"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","generation":7,"uid":null}}
        200

        PUT configmaps/a {"metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"}}
        422 ConfigMap "a" is invalid: metadata.deletionTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable

        PUT configmaps/a {"metadata":{"name":"a"}}
        200

        MERGE configmaps/going {"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}
        200

        MERGE configmaps/going {"metadata":{"deletionTimestamp":null}}
        200

        MERGE configmaps/going {"metadata":{"deletionGracePeriodSeconds":7}}
        422 ConfigMap "going" is invalid: metadata.deletionGracePeriodSeconds: Invalid value: 7: field is immutable

        MERGE configmaps/going {"metadata":{"finalizers":["x.io/y","x.io/z"]}}
        422 ConfigMap "going" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"x.io/z"}

        POST configmaps {"metadata":{"name":"o","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":""}]}}
        422 ConfigMap "o" is invalid: metadata.ownerReferences.uid: Invalid value: "": must not be empty

        POST configmaps {"metadata":{"name":"o","ownerReferences":[{}]}}
        422 ConfigMap "o" is invalid: [metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty, metadata.ownerReferences.kind: Invalid value: "": must not be empty, metadata.ownerReferences.name: Invalid value: "": must not be empty, metadata.ownerReferences.uid: Invalid value: "": must not be empty]

        POST configmaps {"metadata":{"name":"o","ownerReferences":[{"apiVersion":"v1","kind":"Event","name":"x","uid":"u"},{"apiVersion":"a/b/c","kind":"X","name":"x","uid":"u"}]}}
        422 ConfigMap "o" is invalid: [metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"x","uid":"u"}: /v1, Kind=Event is disallowed from being an owner, metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty]

        PUT gears/g/status {"apiVersion":"example.com/v1","kind":"Gear","metadata":{"name":"g"},"status":{"size":1}}
        422 gears.example.com "g" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update
        "#,
    )
    .await;
}

#[tokio::test]
async fn scales_are_scales() {
    let server = with_gears().await;
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1,
        "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    server.post(DEPLOYMENTS, &deployment).await.expect(201);
    check(
        &server,
        r#"
        PUT deployments/d/scale {"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"e"},"spec":{"replicas":5}}
        400 the name of the object (e) does not match the name on the URL (d)

        PUT deployments/d/scale {"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":5}}
        400 the name of the object (d based on URL) was undeterminable: name must be provided

        PUT deployments/d/scale {"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d","namespace":"o"},"spec":{"replicas":5}}
        400 the namespace of the provided object does not match the namespace sent on the request

        PUT deployments/d/scale {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":5}}
        400 Deployment in version "v1" cannot be handled as a Scale: converting (v1.Deployment) to (autoscaling.Scale): unknown conversion

        PUT deployments/d/scale {"apiVersion":"extensions/v1beta1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":5}}
        400 the API version in the data (extensions/v1beta1) does not match the expected API version (autoscaling/v1)

        PUT deployments/d/scale?fieldValidation=Strict {"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":5,"x":1}}
        400 Scale in version "v1" cannot be handled as a Scale: strict decoding error: unknown field "spec.x"

        PUT deployments/d/scale {"metadata":{"name":"d"},"spec":{"replicas":5}}
        200

        MERGE deployments/d/scale?fieldValidation=Strict {"spec":{"replicas":5,"x":1}}
        422  "" is invalid: patch: Invalid value: "{\"spec\":{\"replicas\":5,\"x\":1}}": strict decoding error: unknown field "spec.x"

        MERGE deployments/d/scale {"metadata":{"name":"X"}}
        400 the name of the object (X) does not match the name on the URL (d)

        MERGE deployments/d/scale {"spec":{"replicas":-5}}
        422 Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -5: must be greater than or equal to 0

        PUT deployments/d/scale {"metadata":{"name":"d","resourceVersion":"1"},"spec":{"replicas":6}}
        409 Operation cannot be fulfilled on deployments.apps "d": the object has been modified; please apply your changes to the latest version and try again

        APPLY deployments/d/scale {"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":5}}
        422 PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch

        APPLY deployments/d/scale?fieldManager=y {"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":5}}
        400 invalid object type: apps/v1, Kind=Deployment

        APPLY deployments/nope/scale?fieldManager=y {"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":5}}
        404 deployments.apps "nope" not found

        APPLY deployments/d/scale?fieldManager=x&force=true {"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":4}}
        200

        APPLY deployments/d/scale?fieldManager=y {"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":5}}
        409 Apply failed with 1 conflict: conflict with "x" with subresource "scale": .spec.replicas

        APPLY gears/g/scale?fieldManager=y&force=true {"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":5}}
        200
        "#,
    )
    .await;
    let path = format!("{DEPLOYMENTS}/d");
    let stored = server.get(&path).await.expect(200);
    assert_eq!(stored["spec"]["replicas"], 4);
    let managers = stored["metadata"]["managedFields"].as_array();
    let scaled: Vec<&Value> = managers
        .into_iter()
        .flatten()
        .filter(|entry| entry["subresource"] == "scale")
        .map(|entry| &entry["fieldsV1"])
        .collect();
    assert_eq!(scaled, [&json!({"f:spec": {"f:replicas": {}}})]);
    let gear = server.get(&expand("gears/g")).await.expect(200);
    assert_eq!(gear["spec"]["size"], 5);
}

fn definition(plural: &str, group: &str, annotations: Value) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.{group}"), "annotations": annotations},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": "Gear"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
                }}},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
            }],
        },
    })
}

async fn with_gears() -> Server {
    let server = Server::start().await;
    let gears = definition("gears", "example.com", json!({}));
    server.post(DEFINITIONS, &gears).await.expect(201);
    establish(&server, "gears.example.com").await;
    let gear = json!({"apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": "g"},
        "spec": {"size": 1}});
    server.post(&expand("gears"), &gear).await.expect(201);
    server
}

#[tokio::test]
async fn groups_of_kubernetes_itself_need_its_consent() {
    let server = Server::start().await;
    const KEY: &str = "api-approved.kubernetes.io";
    let missing = "Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
    let senseless = "Invalid value: \"nope\": protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111";
    let cases = [
        ("a.k8s.io", json!({}), Some(missing)),
        ("k8s.io", json!({}), Some(missing)),
        ("a.kubernetes.io", json!({KEY: ""}), Some(missing)),
        ("a.k8s.io", json!({KEY: "nope"}), Some(senseless)),
        ("a.x-k8s.io", json!({}), None),
        ("a.k8s.io", json!({KEY: "unapproved, a test"}), None),
        (
            "b.k8s.io",
            json!({KEY: "https://github.com/a/b/pull/1"}),
            None,
        ),
    ];
    for (group, annotations, fault) in cases {
        let reply = server
            .post(DEFINITIONS, &definition("gears", group, annotations))
            .await;
        match fault {
            None => _ = reply.expect(201),
            Some(fault) => assert_eq!(
                reply.refused(422),
                format!(
                    "CustomResourceDefinition.apiextensions.k8s.io \"gears.{group}\" is invalid: metadata.annotations[{KEY}]: {fault}"
                )
            ),
        }
    }
    let path = format!("{DEFINITIONS}/gears.b.k8s.io");
    let change = |said: Value| json!({"metadata": {"annotations": {KEY: said}}});
    let gone = server.patch(&path, "merge", &change(Value::Null)).await;
    gone.refused(422);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    server.patch(&path, "merge", &label).await.expect(200);
}
