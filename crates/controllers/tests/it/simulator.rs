use std::sync::atomic::Ordering;
use std::time::Duration;

use deltaplane_client::request::{self, Patch};
use deltaplane_client::{Cache, Feed, ObjectKey, Pace, Query, Resource};
use deltaplane_controllers::Context;
use deltaplane_controllers::simulator::{self, MANAGER, SimulatorConfig};
use deltaplane_runtime::Tasks;
use futures::StreamExt;
use serde_json::{Value, json};

use crate::world::{World, condition, counting};

const DELAY: Duration = Duration::from_millis(500);

fn deployments() -> Resource {
    Resource::namespaced("apps", "v1", "deployments", "Deployment")
}

fn core(plural: &str, kind: &str) -> Resource {
    Resource::namespaced("", "v1", plural, kind)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": image}]}})
}

fn workload(name: &str, image: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": template(image)},
    })
}

fn simulate(context: Context) -> Tasks {
    let tasks = Tasks::new();
    let config = SimulatorConfig { delay: DELAY };
    tasks.spawn("simulator", |stop| simulator::run(context, config, stop));
    tasks
}

fn has(object: &Value, r#type: &str, status: &str, reason: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let is = |one: &Value| one["type"] == r#type && one["reason"] == reason;
    condition(object, r#type, status) && conditions.is_some_and(|all| all.iter().any(is))
}

fn is_under_way(object: &Value) -> bool {
    let (status, metadata) = (&object["status"], &object["metadata"]);
    status["observedGeneration"] == metadata["generation"]
        // None, that is: Kubernetes leaves out counts that are zero.
        && status["updatedReplicas"].is_null()
        && has(object, "Progressing", "True", "ReplicaSetUpdated")
}

fn is_available(object: &Value) -> bool {
    let (status, metadata) = (&object["status"], &object["metadata"]);
    status["observedGeneration"] == metadata["generation"]
        && status["availableReplicas"] == object["spec"]["replicas"]
        && has(object, "Available", "True", "MinimumReplicasAvailable")
        && has(object, "Progressing", "True", "NewReplicaSetAvailable")
}

#[tokio::test]
async fn a_deployment_rolls_out_and_a_bad_change_stops() {
    let world = World::start().await;
    let _simulator = simulate(world.context());
    let (kind, web) = (deployments(), key("web"));
    let created = world.create(&kind, workload("web", "nginx:1")).await;
    world.until(&kind, &web, is_under_way).await;
    world.hand.advance(DELAY);
    let ready = world.until(&kind, &web, is_available).await;
    assert_eq!(ready["spec"], created["spec"]);
    assert_eq!(ready["metadata"]["generation"], 1);
    for condition in ready["status"]["conditions"].as_array().expect("some") {
        let message = condition["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("simulated: "), "{message}");
    }

    let change = json!({"spec": {"template": template("nginx:broken")}});
    world.patch(&kind, &web, change).await;
    world.until(&kind, &web, is_under_way).await;
    world.hand.advance(DELAY);
    let failed = |object: &Value| {
        has(object, "Progressing", "False", "ProgressDeadlineExceeded")
            && object["status"]["unavailableReplicas"] == 2
    };
    world.until(&kind, &web, failed).await;

    let change = json!({"spec": {"template": template("nginx:2")}});
    world.patch(&kind, &web, change).await;
    world.until(&kind, &web, is_under_way).await;
    world.hand.advance(DELAY);
    world.until(&kind, &web, is_available).await;
}

type Wanted = fn(&Value) -> bool;

/// Of each kind one object, and whether it is as a healthy cluster would have it.
fn one_of_each() -> Vec<(Resource, Value, Wanted)> {
    let metadata = json!({"name": "web", "namespace": "default"});
    let apps = |plural: &str, kind: &str| Resource::namespaced("apps", "v1", plural, kind);
    let claim = json!({"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}});
    let job = json!({"template": {"spec": {"restartPolicy": "Never",
        "containers": [{"name": "app", "image": "busybox"}]}}});
    let ports = json!([{"port": 80}]);
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let object = |spec: Value| json!({"metadata": metadata, "spec": spec});
    let mut daemons = workload("web", "nginx:1");
    daemons["spec"]["replicas"].take();
    vec![
        (deployments(), workload("web", "nginx:1"), is_available),
        (
            apps("replicasets", "ReplicaSet"),
            workload("web", "nginx:1"),
            |object| object["status"]["availableReplicas"] == 2,
        ),
        (
            apps("statefulsets", "StatefulSet"),
            workload("web", "nginx:1"),
            |object| {
                let status = &object["status"];
                status["readyReplicas"] == 2
                    && status["currentRevision"] == status["updateRevision"]
            },
        ),
        (apps("daemonsets", "DaemonSet"), daemons, |object| {
            object["status"]["numberReady"] == 1
        }),
        (
            Resource::namespaced("batch", "v1", "jobs", "Job"),
            object(job),
            |object| has(object, "Complete", "True", "CompletionsReached"),
        ),
        (
            core("pods", "Pod"),
            object(template("nginx:1")["spec"].clone()),
            |object| object["status"]["phase"] == "Running" && condition(object, "Ready", "True"),
        ),
        (
            core("services", "Service"),
            object(json!({"type": "LoadBalancer", "ports": ports})),
            |object| object["status"]["loadBalancer"]["ingress"][0]["ip"].is_string(),
        ),
        (
            Resource::namespaced("networking.k8s.io", "v1", "ingresses", "Ingress"),
            object(json!({"defaultBackend": backend})),
            |object| object["status"]["loadBalancer"]["ingress"][0]["ip"].is_string(),
        ),
        (
            core("persistentvolumeclaims", "PersistentVolumeClaim"),
            object(claim),
            |object| {
                object["status"]["phase"] == "Bound"
                    && object["status"]["capacity"]["storage"] == "1Gi"
            },
        ),
    ]
}

/// Waits until all objects of a kind together are as wanted.
async fn until_all(
    world: &World,
    kind: &Resource,
    wanted: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    let context = world.context();
    let feed = Feed::new(context.client, Query::all(kind.clone()), Pace::system());
    let mut events = feed.events();
    let mut cache = Cache::<Value>::new();
    let found = async {
        while let Some(event) = events.next().await {
            cache.apply(event, |item| item.parse().ok());
            let all: Vec<Value> = cache.iter().map(|(_, object)| object.clone()).collect();
            if cache.is_synced() && wanted(&all) {
                return all;
            }
        }
        panic!("a feed does not end");
    };
    let patience = Duration::from_secs(20);
    let found = tokio::time::timeout(patience, found).await;
    found.unwrap_or_else(|_| panic!("{} are never as wanted", kind.plural))
}

fn replica_sets() -> Resource {
    Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet")
}

fn is_at_rest(object: &Value) -> bool {
    let status = &object["status"];
    match object["kind"].as_str() {
        Some("Pod") => matches!(status["phase"].as_str(), Some("Running" | "Succeeded")),
        _ => {
            let count = |value: &Value| value.as_i64().unwrap_or(0);
            status["observedGeneration"] == object["metadata"]["generation"]
                && count(&status["availableReplicas"]) == count(&object["spec"]["replicas"])
        }
    }
}

/// Waits until there are so many Pods and ReplicaSets, and all are at rest.
async fn family_at_rest(world: &World, pods: usize, sets: usize) -> Vec<Value> {
    let wanted = |all: &[Value], count: usize| all.len() == count && all.iter().all(is_at_rest);
    let mut all = until_all(world, &core("pods", "Pod"), |all| wanted(all, pods)).await;
    all.extend(until_all(world, &replica_sets(), |all| wanted(all, sets)).await);
    all
}

/// Waits until the rollout of a Deployment of this name is seen to begin, and lets it end: what
/// came before it has been looked at then.
async fn beat(world: &World, name: &str) {
    world
        .create(&deployments(), workload(name, "nginx:1"))
        .await;
    world.until(&deployments(), &key(name), is_under_way).await;
    world.hand.advance(DELAY);
    world.until(&deployments(), &key(name), is_available).await;
}

#[tokio::test]
async fn all_kinds_come_to_rest_and_stay_there() {
    let world = World::start().await;
    let (client, requests) = counting(world.client.clone());
    let context = Context {
        client,
        ..world.context()
    };
    let first = simulate(context.clone());
    let settled = one_to_rest(&world, "web").await;
    // Of each workload its Pods, and one that is nobody's.
    let family = family_at_rest(&world, 9, 2).await;
    pod_to_rest(&world, "before").await;

    let (asked, revision) = (requests.load(Ordering::SeqCst), world.store.revision());
    world.hand.advance(Duration::from_secs(60));
    pod_to_rest(&world, "after").await;
    // It waits, and then runs; it was also created.
    assert_eq!(requests.load(Ordering::SeqCst) - asked, 2);
    assert_eq!(world.store.revision().get() - revision.get(), 3);

    let end = first.shutdown(Duration::from_secs(20));
    end.await.expect("a clean end");
    let _second = simulate(context);
    // What was there is looked at before what comes.
    one_to_rest(&world, "again").await;
    for (kind, object) in settled {
        assert_eq!(world.get(&kind, &key("web")).await, Some(object));
    }
    for object in family {
        let kind = match object["kind"].as_str() {
            Some("Pod") => core("pods", "Pod"),
            _ => replica_sets(),
        };
        let name = object["metadata"]["name"].as_str().expect("a name");
        assert_eq!(world.get(&kind, &key(name)).await, Some(object.clone()));
    }
}

/// Makes a Pod, waits until it is seen to wait, and lets it run: what came before it has been
/// looked at then.
async fn pod_to_rest(world: &World, name: &str) {
    let kind = core("pods", "Pod");
    let spec = template("nginx:1")["spec"].clone();
    let pod = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    world.create(&kind, pod).await;
    let waits = |object: &Value| condition(object, "Ready", "False");
    world.until(&kind, &key(name), waits).await;
    world.hand.advance(DELAY);
    world.until(&kind, &key(name), is_at_rest).await;
}

/// Makes an object of each kind, and waits until all are as a healthy cluster would have them.
async fn one_to_rest(world: &World, name: &str) -> Vec<(Resource, Value)> {
    let mut settled = Vec::new();
    for (kind, mut object, wanted) in one_of_each() {
        object["metadata"]["name"] = json!(name);
        // Some show nothing meanwhile, by which to know that the clock can be moved.
        object["metadata"]["annotations"] = json!({"deltaplane.io/simulate": "delay=0s"});
        world.create(&kind, object).await;
        let object = world.until(&kind, &key(name), wanted).await;
        settled.push((kind, object));
    }
    settled
}

#[tokio::test]
async fn what_others_say_of_an_object_stays() {
    let world = World::start().await;
    let (kind, web) = (deployments(), key("web"));
    world.create(&kind, workload("web", "nginx:1")).await;
    let path = format!("{}/status?fieldManager=kubelet", kind.object_path(&web));
    let status = json!({"status": {"replicas": 1}});
    let written = request::patch::<Value>(&world.client, &path, Patch::Merge, &status).await;
    let written = written.expect("written");
    let _simulator = simulate(world.context());
    beat(&world, "other").await;
    assert_eq!(world.get(&kind, &web).await, Some(written));

    // One that is taken over while it is under way.
    world.create(&kind, workload("taken", "nginx:1")).await;
    let taken = key("taken");
    let begun = |object: &Value| is_under_way(object) && revision(object) == "1";
    let simulated = world.until(&kind, &taken, begun).await;
    let managers = simulated["metadata"]["managedFields"].as_array();
    let mut managers = managers.expect("some").iter();
    assert!(managers.any(|one| one["manager"] == MANAGER && one["subresource"] == "status"));
    let path = format!("{}/status?fieldManager=kubelet", kind.object_path(&taken));
    let written = request::patch::<Value>(&world.client, &path, Patch::Merge, &status).await;
    let written = written.expect("written");
    beat(&world, "last").await;
    assert_eq!(world.get(&kind, &taken).await, Some(written));
}

#[tokio::test]
async fn what_is_deleted_and_made_again_begins_anew() {
    let world = World::start().await;
    let _simulator = simulate(world.context());
    let (kind, web) = (deployments(), key("web"));
    world.create(&kind, workload("web", "nginx:1")).await;
    world.until(&kind, &web, is_under_way).await;
    world.hand.advance(DELAY / 2);
    world.delete(&kind, &web, "Background").await;
    world.until_gone(&kind, &web).await;
    world.create(&kind, workload("web", "nginx:1")).await;
    world.until(&kind, &web, is_under_way).await;
    world.hand.advance(DELAY / 2);
    // The first one's time is over, and its own is not.
    let mut at_once = workload("other", "nginx:1");
    at_once["metadata"]["annotations"] = json!({"deltaplane.io/simulate": "delay=0s"});
    world.create(&kind, at_once).await;
    world.until(&kind, &key("other"), is_available).await;
    let object = world.get(&kind, &web).await.expect("there");
    assert!(is_under_way(&object), "{object}");
    world.hand.advance(DELAY / 2);
    world.until(&kind, &web, is_available).await;
}

fn at_once(mut object: Value) -> Value {
    object["metadata"]["annotations"] = json!({"deltaplane.io/simulate": "delay=0s"});
    object
}

fn revision(set: &Value) -> &str {
    let annotations = &set["metadata"]["annotations"];
    annotations["deployment.kubernetes.io/revision"]
        .as_str()
        .unwrap_or_default()
}

#[tokio::test]
async fn a_deployment_has_a_history_that_it_can_go_back_to() {
    let world = World::start().await;
    let _simulator = simulate(world.context());
    let (kind, web) = (deployments(), key("web"));
    let made = world
        .create(&kind, at_once(workload("web", "nginx:1")))
        .await;
    family_at_rest(&world, 2, 1).await;
    let first = world.list(&replica_sets()).await.remove(0);
    assert_eq!(revision(&first), "1");
    let hash = &first["metadata"]["labels"]["pod-template-hash"];
    for pod in world.list(&core("pods", "Pod")).await {
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "web", "pod-template-hash": hash})
        );
        let owner = &pod["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["kind"], &owner["uid"]),
            (&json!("ReplicaSet"), &first["metadata"]["uid"])
        );
        assert!(condition(&pod, "Ready", "True"), "{pod}");
    }

    let change = json!({"spec": {"template": template("nginx:2")}});
    world.patch(&kind, &web, change).await;
    family_at_rest(&world, 2, 2).await;
    let newest = |sets: &[Value]| {
        let newest = sets.iter().max_by_key(|set| revision(set).to_owned());
        newest.cloned().expect("there are some")
    };
    let sets = until_all(&world, &replica_sets(), |sets| {
        revision(&newest(sets)) == "2" && sets.iter().all(is_at_rest)
    })
    .await;
    let second = newest(&sets);
    assert_eq!(second["spec"]["replicas"], 2);

    // As kubectl rollout undo does it: the template of that ReplicaSet, without its hash, and
    // annotations, which it takes for granted.
    let mut old = first["spec"]["template"].clone();
    let labels = old["metadata"]["labels"].as_object_mut();
    labels.expect("there are some").remove("pod-template-hash");
    let is_second = |object: &Value| revision(object) == "2";
    let current = world.until(&kind, &web, is_second).await;
    let annotations = &current["metadata"]["annotations"];
    let change = json!([
        {"op": "replace", "path": "/spec/template", "value": old},
        {"op": "replace", "path": "/metadata/annotations", "value": annotations},
    ]);
    let path = kind.object_path(&web);
    let undone = request::patch::<Value>(&world.client, &path, Patch::Json, &change).await;
    undone.expect("patched");
    let sets = until_all(&world, &replica_sets(), |sets| {
        revision(&newest(sets)) == "3" && sets.iter().all(is_at_rest)
    })
    .await;
    let third = newest(&sets);
    assert_eq!(third["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(third["spec"]["replicas"], 2);

    world.delete(&kind, &web, "Background").await;
    until_all(&world, &core("pods", "Pod"), <[Value]>::is_empty).await;
    until_all(&world, &replica_sets(), <[Value]>::is_empty).await;
    assert_eq!(made["metadata"]["generation"], 1);
}

#[tokio::test]
async fn jobs_have_pods_that_succeed_and_others_jobs_are_left_alone() {
    let world = World::start().await;
    let jobs = Resource::namespaced("batch", "v1", "jobs", "Job");
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let job = |name: &str| {
        at_once(json!({"metadata": {"name": name, "namespace": "default"},
            "spec": {"parallelism": 2, "completions": 2, "template": {"spec": pod}}}))
    };
    let mut foreign = job("foreign");
    foreign["spec"]["managedBy"] = json!("example.com/batch");
    let foreign = world.create(&jobs, foreign).await;
    let _simulator = simulate(world.context());
    world.create(&jobs, job("own")).await;
    let complete = |object: &Value| has(object, "Complete", "True", "CompletionsReached");
    world.until(&jobs, &key("own"), complete).await;
    let succeeded = |pod: &Value| pod["status"]["phase"] == "Succeeded";
    let pods = until_all(&world, &core("pods", "Pod"), |pods| {
        pods.len() == 2 && pods.iter().all(succeeded)
    })
    .await;
    for pod in pods {
        let labels = &pod["metadata"]["labels"];
        assert_eq!(labels["batch.kubernetes.io/job-name"], "own");
    }
    assert_eq!(world.get(&jobs, &key("foreign")).await, Some(foreign));
}
