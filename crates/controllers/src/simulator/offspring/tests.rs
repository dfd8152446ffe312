//! Scenarios: a workload, what is changed of it, and the objects that are there then.

use bytes::Bytes;
use expect_test::{Expect, expect};

use deltaplane_client::{Event, Item};

use super::super::Picture;
use super::super::tests::merge;
use super::*;

/// An API server in memory, and what the simulator knows of it.
struct Cluster {
    objects: std::collections::BTreeMap<(Kind, String), Value>,
    picture: Picture,
    born: u32,
}

/// The objects after each change, one to a line.
fn check(kind: Kind, spec: Value, changes: Vec<Value>, expected: &Expect) {
    let mut cluster = Cluster::start();
    cluster.put(kind, json!({"metadata": {"name": "web"}, "spec": spec}));
    cluster.settle(kind);
    let mut log = cluster.shown();
    for change in changes {
        let mut object = cluster.objects[&(kind, "web".to_owned())].clone();
        merge(&mut object, &change);
        cluster.put(kind, object);
        cluster.settle(kind);
        log += "--\n";
        log += &cluster.shown();
    }
    expected.assert_eq(&log);
}

// === impl Cluster ===

impl Cluster {
    fn start() -> Self {
        let mut picture = Picture::default();
        for kind in Kind::ALL {
            picture.apply(kind, Event::Restarted);
            picture.apply(kind, Event::InSync);
        }
        Self {
            objects: std::collections::BTreeMap::new(),
            picture,
            born: 0,
        }
    }

    fn put(&mut self, kind: Kind, mut object: Value) {
        if object["metadata"]["uid"].is_null() {
            self.born += 1;
            object["metadata"]["uid"] = json!(format!("u-{}", self.born));
        }
        object["metadata"]["namespace"] = json!("shop");
        let name = object["metadata"]["name"].as_str().expect("a name");
        let item = Item::new(Bytes::from(object.to_string())).expect("an object");
        self.objects.insert((kind, name.to_owned()), object);
        self.picture.apply(kind, Event::Applied(item));
    }

    fn delete(&mut self, kind: Kind, name: &str) {
        let gone = self.objects.remove(&(kind, name.to_owned()));
        let gone = gone.expect("it is there").to_string();
        let item = Item::new(Bytes::from(gone)).expect("an object");
        self.picture.apply(kind, Event::Deleted(item));
    }

    /// Does what the simulator wants for the workload and the ReplicaSets, until that is nothing.
    fn settle(&mut self, kind: Kind) {
        for _ in 0..10 {
            let sets = self.objects.keys();
            let sets = sets.filter(|(kind, _)| *kind == Kind::ReplicaSet);
            let mut keys: Vec<(Kind, String)> = sets.cloned().collect();
            keys.insert(0, (kind, "web".to_owned()));
            keys.dedup();
            let plan = |(kind, name): &(Kind, String)| {
                let key = (*kind, ObjectKey::new("shop", name));
                self.picture.plan_offspring(&key)
            };
            let acts: Vec<Act> = keys.iter().flat_map(plan).collect();
            if acts.is_empty() {
                return;
            }
            acts.into_iter().for_each(|act| self.perform(act));
        }
        panic!("never settles:\n{}", self.shown());
    }

    fn perform(&mut self, act: Act) {
        match act {
            Act::Create { kind, object } => {
                let name = object["metadata"]["name"].as_str().expect("a name");
                let key = (kind, name.to_owned());
                assert!(!self.objects.contains_key(&key), "{name} is there already");
                self.put(kind, object);
            }
            Act::Patch { kind, name, change } => {
                let mut object = self.objects[&(kind, name)].clone();
                merge(&mut object, &change);
                self.put(kind, object);
            }
            Act::Delete { kind, name, uid } => {
                let object = &self.objects[&(kind, name.clone())];
                assert_eq!(object["metadata"]["uid"], uid);
                self.delete(kind, &name);
            }
        }
    }

    /// Kind, name, owner, and what tells them apart.
    fn shown(&self) -> String {
        let line = |((kind, name), object): (&(Kind, String), &Value)| {
            let metadata = &object["metadata"];
            let owner = metadata["ownerReferences"][0]["name"].as_str()?;
            let annotated = metadata["annotations"][REVISION].as_str();
            let numbered = object["revision"].as_i64().map(|number| number.to_string());
            let revision = numbered.or(annotated.map(str::to_owned));
            let revision = revision.unwrap_or_else(|| "-".to_owned());
            let spec = if *kind == Kind::Pod {
                &object["spec"]
            } else {
                let data = &object["data"]["spec"];
                let holder = if data.is_null() {
                    &object["spec"]
                } else {
                    data
                };
                &holder["template"]["spec"]
            };
            let image = spec["containers"][0]["image"].as_str().unwrap_or("-");
            let replicas = object["spec"]["replicas"].as_i64();
            let replicas = replicas.map_or(String::new(), |count| format!(" x{count}"));
            let simulate = metadata["annotations"][order::ANNOTATION].as_str();
            let simulate = simulate.map_or(String::new(), |text| format!(" {text}"));
            Some(format!(
                "{kind:?} {name} of {owner} revision {revision} {image}{replicas}{simulate}\n"
            ))
        };
        self.objects.iter().filter_map(line).collect()
    }

    fn count(&self, kind: Kind) -> usize {
        self.objects.keys().filter(|(one, _)| *one == kind).count()
    }
}

fn spec(replicas: i64, image: &str) -> Value {
    json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": template(image)})
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn with_image(image: &str) -> Value {
    json!({"spec": {"template": template(image)}})
}

#[test]
fn deployments_make_replica_sets_and_these_make_pods() {
    check(
        Kind::Deployment,
        spec(2, "a:1"),
        vec![
            json!({"spec": {"replicas": 1}}),
            with_image("a:2"),
            json!({"metadata": {"annotations": {order::ANNOTATION: "fail"}}}),
            with_image("a:1"),
        ],
        &expect![[r#"
            Pod web-9tzsxq9mv7-78wq9 of web-9tzsxq9mv7 revision - a:1
            Pod web-9tzsxq9mv7-gqtt5 of web-9tzsxq9mv7 revision - a:1
            ReplicaSet web-9tzsxq9mv7 of web revision 1 a:1 x2
            --
            Pod web-9tzsxq9mv7-78wq9 of web-9tzsxq9mv7 revision - a:1
            ReplicaSet web-9tzsxq9mv7 of web revision 1 a:1 x1
            --
            Pod web-sq89lrp8tv-g8xkn of web-sq89lrp8tv revision - a:2
            ReplicaSet web-9tzsxq9mv7 of web revision 1 a:1 x0
            ReplicaSet web-sq89lrp8tv of web revision 2 a:2 x1
            --
            Pod web-sq89lrp8tv-g8xkn of web-sq89lrp8tv revision - a:2 fail
            ReplicaSet web-9tzsxq9mv7 of web revision 1 a:1 x0
            ReplicaSet web-sq89lrp8tv of web revision 2 a:2 x1 fail
            --
            Pod web-9tzsxq9mv7-78wq9 of web-9tzsxq9mv7 revision - a:1 fail
            ReplicaSet web-9tzsxq9mv7 of web revision 3 a:1 x1 fail
            ReplicaSet web-sq89lrp8tv of web revision 2 a:2 x0 fail
        "#]],
    );
}

#[test]
fn stateful_sets_number_their_pods() {
    check(
        Kind::StatefulSet,
        spec(2, "a:1"),
        vec![with_image("a:2"), json!({"spec": {"replicas": 1}})],
        &expect![[r#"
            ControllerRevision web-9tzsxq9mv7 of web revision 1 a:1
            Pod web-0 of web revision - a:1
            Pod web-1 of web revision - a:1
            --
            ControllerRevision web-9tzsxq9mv7 of web revision 1 a:1
            ControllerRevision web-sq89lrp8tv of web revision 2 a:2
            Pod web-0 of web revision - a:2
            Pod web-1 of web revision - a:2
            --
            ControllerRevision web-9tzsxq9mv7 of web revision 1 a:1
            ControllerRevision web-sq89lrp8tv of web revision 2 a:2
            Pod web-0 of web revision - a:2
        "#]],
    );
}

#[test]
fn daemon_sets_have_one_pod() {
    let mut spec = spec(1, "a:1");
    spec["replicas"].take();
    check(
        Kind::DaemonSet,
        spec,
        vec![with_image("a:2"), with_image("a:1")],
        &expect![[r#"
            ControllerRevision web-9tzsxq9mv7 of web revision 1 a:1
            Pod web-nrjsc of web revision - a:1
            --
            ControllerRevision web-9tzsxq9mv7 of web revision 1 a:1
            ControllerRevision web-sq89lrp8tv of web revision 2 a:2
            Pod web-c5vz9 of web revision - a:2
            --
            ControllerRevision web-9tzsxq9mv7 of web revision 3 a:1
            ControllerRevision web-sq89lrp8tv of web revision 2 a:2
            Pod web-nrjsc of web revision - a:1
        "#]],
    );
}

#[test]
fn jobs_have_as_many_pods_as_work_at_one_time() {
    let job = json!({"parallelism": 2, "completions": 5, "template": template("a:1")});
    let done = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]},
        "metadata": {"managedFields": [
            {"manager": super::super::MANAGER, "fieldsV1": {"f:status": {}}}]}});
    check(
        Kind::Job,
        job,
        vec![
            json!({"spec": {"suspend": true}}),
            json!({"spec": {"suspend": false}}),
            done,
            json!({"spec": {"parallelism": 0}}),
        ],
        &expect![[r#"
            Pod web-9qbmc of web revision - a:1
            Pod web-l6ljh of web revision - a:1
            --
            --
            Pod web-9qbmc of web revision - a:1
            Pod web-l6ljh of web revision - a:1
            --
            Pod web-9qbmc of web revision - a:1
            Pod web-l6ljh of web revision - a:1
            --
            Pod web-9qbmc of web revision - a:1
            Pod web-l6ljh of web revision - a:1
        "#]],
    );
}

#[test]
fn jobs_of_another_controller_are_left_alone() {
    let mut job = json!({"template": template("a:1"), "managedBy": "example.com/batch"});
    check(Kind::Job, job.clone(), Vec::new(), &expect![[""]]);
    job["managedBy"] = json!("kubernetes.io/job-controller");
    let mut cluster = Cluster::start();
    cluster.put(Kind::Job, json!({"metadata": {"name": "web"}, "spec": job}));
    cluster.settle(Kind::Job);
    assert_eq!(cluster.count(Kind::Pod), 1);
}

#[test]
fn a_workload_has_no_more_than_fifty_pods() {
    for (kind, replicas, expected) in [
        (Kind::Deployment, 49, 49),
        (Kind::Deployment, 80, 50),
        (Kind::StatefulSet, 80, 50),
        (Kind::ReplicaSet, 80, 50),
        (Kind::Deployment, 0, 0),
    ] {
        let mut cluster = Cluster::start();
        let object = json!({"metadata": {"name": "web"}, "spec": spec(replicas, "a:1")});
        cluster.put(kind, object);
        cluster.settle(kind);
        assert_eq!(cluster.count(Kind::Pod), expected, "{kind:?} {replicas}");
    }
}

#[test]
fn history_is_limited() {
    let mut cluster = Cluster::start();
    let mut spec = spec(1, "a:0");
    spec["revisionHistoryLimit"] = json!(2);
    let mut object = json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec});
    for number in 1..6 {
        cluster.put(Kind::Deployment, object.clone());
        cluster.settle(Kind::Deployment);
        merge(&mut object, &with_image(&format!("a:{number}")));
    }
    assert_eq!(cluster.count(Kind::ReplicaSet), 3);
    assert!(
        cluster.shown().contains("revision 5 a:4 x1"),
        "{}",
        cluster.shown()
    );
    assert!(
        cluster.shown().contains("revision 3 a:2 x0"),
        "{}",
        cluster.shown()
    );
}

#[test]
fn what_others_made_is_left_alone() {
    let mut cluster = Cluster::start();
    // A Pod that has the name, and a ReplicaSet of another Deployment with the same labels.
    cluster.put(
        Kind::Pod,
        json!({"metadata": {"name": "web-0"}, "spec": {}}),
    );
    let stranger = json!({"metadata": {"name": "web-other", "ownerReferences": [{"uid": "x",
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "controller": true}]},
        "spec": {"replicas": 0}});
    cluster.put(Kind::ReplicaSet, stranger.clone());
    let object = json!({"metadata": {"name": "web"}, "spec": spec(2, "a:1")});
    cluster.put(Kind::StatefulSet, object);
    cluster.settle(Kind::StatefulSet);
    assert_eq!(cluster.count(Kind::Pod), 2);
    let pod = &cluster.objects[&(Kind::Pod, "web-0".to_owned())];
    assert!(pod["metadata"]["ownerReferences"].is_null());
}

#[test]
fn nothing_is_made_before_what_is_there_is_known() {
    let mut cluster = Cluster::start();
    cluster.picture = Picture::default();
    let object = json!({"metadata": {"name": "web"}, "spec": spec(2, "a:1")});
    cluster.picture.apply(Kind::Deployment, Event::Restarted);
    cluster.put(Kind::Deployment, object);
    cluster.picture.apply(Kind::Deployment, Event::InSync);
    let key = (Kind::Deployment, ObjectKey::new("shop", "web"));
    for kind in Kind::MADE {
        assert!(cluster.picture.plan_offspring(&key).is_empty());
        cluster.picture.apply(kind, Event::Restarted);
        let woken = cluster.picture.apply(kind, Event::InSync);
        assert!(woken.contains(&key), "{kind:?}");
    }
    // The ReplicaSet, and the Deployment's annotation.
    assert_eq!(cluster.picture.plan_offspring(&key).len(), 2);
}
