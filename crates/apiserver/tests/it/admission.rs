//! Admission decides about every write, by whichever way it comes, and answers wait for it.

use std::pin::Pin;
use std::sync::Arc;

use deltaplane_apiserver::Error;
use deltaplane_apiserver::seams::{Admission, BoxFuture, Review};
use deltaplane_store::Revision;
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::custom::{definition, establish};
use crate::harness::{Reply, Server, Setup};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

/// Lets everything pass, and writes down what it was asked.
#[derive(Default)]
struct Recorder(Mutex<Vec<(bool, String)>>);

impl Admission for Recorder {
    fn admit<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<(), Error>> {
        let one = review.resource;
        let line = format!(
            "{:?} {}/{} {} {}/{}: {} <- {}",
            review.operation,
            one.plural,
            one.subresource,
            one.kind,
            one.namespace,
            one.name,
            brief(review.object),
            review.old.map_or("none".to_owned(), brief),
        );
        self.0.lock().push((review.dry_run, line));
        Box::pin(async { Ok(()) })
    }
}

/// What matters of an object here.
fn brief(object: &Value) -> String {
    let fields = ["data", "spec", "status"].into_iter();
    let parts = fields.flat_map(|part| object[part].as_object().into_iter().flatten());
    let parts: Vec<String> = parts
        .map(|(field, value)| format!("{field}={value}"))
        .collect();
    match object.is_null() {
        true => "null".to_owned(),
        false => format!("[{}]", parts.join(" ")),
    }
}

/// Writes `change` in some way.
async fn write(server: &Server, way: &str, path: &str, dry: &str, change: &Value) -> Reply {
    let address = format!("{path}?{dry}");
    match way {
        "post" => server.post(&address, change).await,
        "put" => {
            let shown = path.trim_end_matches("/finalize");
            let mut object = server.get(shown).await.json();
            json_patch::merge(&mut object, change);
            server.put(&address, &object).await
        }
        "new" => server.put(&address, change).await,
        "apply" => {
            let address = format!("{address}&fieldManager=m&force=true");
            server.patch(&address, way, change).await
        }
        "delete" => server.send(Method::DELETE, &address, "", b"").await,
        way => server.patch(&address, way, change).await,
    }
}

async fn with_recorder() -> (Server, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let server = Server::start_with(Setup {
        admission: vec![recorder.clone()],
        ..Setup::default()
    })
    .await;
    let mut definition = definition();
    let annotations = json!({"deltaplane.io/computed-fields": "spec.size"});
    definition["metadata"]["annotations"] = annotations;
    server.post(DEFINITIONS, &definition).await.expect(201);
    establish(&server, "widgets.example.com").await;
    (server, recorder)
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

fn scale(replicas: u64) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"},
        "spec": {"replicas": replicas}})
}

/// Each way is tried dry first, which must look the same.
async fn check(cases: &[(&str, &str, Value, &[&str])]) {
    let (server, recorder) = with_recorder().await;
    for (way, path, change, expected) in cases {
        for (query, dry) in [("dryRun=All", true), ("", false)] {
            recorder.0.lock().clear();
            let reply = write(&server, way, path, query, change).await;
            assert!(reply.code.is_success(), "{way} {path}: {:?}", reply.bytes);
            let revision = reply.headers.get("deltaplane-revision");
            let visible = server.store.revision().get().to_string();
            let visible = (!dry).then_some(visible.as_str());
            let revision = revision.and_then(|value| value.to_str().ok());
            assert_eq!(revision, visible, "{way} {path}");
            let mut asked = std::mem::take(&mut *recorder.0.lock());
            asked.sort();
            let expected = expected.iter().map(|line| (dry, (*line).to_owned()));
            assert_eq!(asked, expected.collect::<Vec<_>>(), "{way} {path}");
        }
    }
}

#[tokio::test]
async fn what_is_made_and_goes_is_decided_about() {
    let one = &format!("{WIDGETS}/a");
    let red = json!({"color": "red"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1"},
        "metadata": {"name": "m", "finalizers": ["example.com/held"]}});
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}});
    let make = "Create widgets/ Widget default/a: [color=\"red\"] <- none";
    let free = json!({"metadata": {"finalizers": null}});
    check(&[
        ("post", WIDGETS, widget("a", red.clone()), &[make]),
        (
            "delete",
            one,
            Value::Null,
            &["Delete widgets/ Widget default/a: [color=\"red\" size=3] <- [color=\"red\" size=3]"],
        ),
        ("apply", one, widget("a", red.clone()), &[make]),
        (
            "apply",
            &format!("{WIDGETS}/b"),
            widget("b", red),
            &[&make.replace("/a", "/b")],
        ),
        (
            "delete",
            WIDGETS,
            Value::Null,
            &[
                "Delete widgets/ Widget default/a: [color=\"red\" size=3] <- [color=\"red\" size=3]",
                "Delete widgets/ Widget default/b: [color=\"red\" size=3] <- [color=\"red\" size=3]",
            ],
        ),
        (
            "new",
            &format!("{LEASES}/l"),
            lease,
            &["Create leases/ Lease default/l: [holderIdentity=\"x\"] <- none"],
        ),
        (
            "post",
            MAPS,
            map,
            &["Create configmaps/ ConfigMap default/m: [k=\"1\"] <- none"],
        ),
        (
            "delete",
            &format!("{MAPS}/m"),
            Value::Null,
            &["Delete configmaps/ ConfigMap default/m: [k=\"1\"] <- [k=\"1\"]"],
        ),
        // It is marked, and goes with this.
        (
            "merge",
            &format!("{MAPS}/m"),
            free,
            &["Update configmaps/ ConfigMap default/m: [k=\"1\"] <- [k=\"1\"]"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_changes_is_decided_about() {
    let one = &format!("{WIDGETS}/a");
    let spec = |replicas: u64| json!({"color": "red", "size": 1, "replicas": replicas});
    let replace =
        |replicas: u64| json!([{"op": "replace", "path": "/spec/replicas", "value": replicas}]);
    let map = json!({"metadata": {"name": "m"}, "data": {"k": "1"}});
    let seen = |sub: &str, new: u64, old: u64| {
        let all = |replicas| format!("[color=\"red\" replicas={replicas} size=1]");
        format!(
            "Update widgets/{sub} Widget default/a: {} <- {}",
            all(new),
            all(old)
        )
    };
    check(&[
        (
            "post",
            WIDGETS,
            widget("a", spec(0)),
            &["Create widgets/ Widget default/a: [color=\"red\" replicas=0 size=1] <- none"],
        ),
        ("put", one, widget("a", spec(1)), &[&seen("", 1, 0)]),
        (
            "merge",
            one,
            json!({"spec": {"replicas": 2}}),
            &[&seen("", 2, 1)],
        ),
        ("json", one, replace(3), &[&seen("", 3, 2)]),
        ("apply", one, widget("a", spec(4)), &[&seen("", 4, 3)]),
        (
            "put",
            &format!("{one}/scale"),
            scale(5),
            &[&seen("scale", 5, 4)],
        ),
        (
            "merge",
            &format!("{one}/scale"),
            scale(6),
            &[&seen("scale", 6, 5)],
        ),
        (
            "json",
            &format!("{one}/scale"),
            replace(7),
            &[&seen("scale", 7, 6)],
        ),
        (
            "apply",
            &format!("{one}/scale"),
            scale(8),
            &[&seen("scale", 8, 7)],
        ),
        (
            "post",
            MAPS,
            map,
            &["Create configmaps/ ConfigMap default/m: [k=\"1\"] <- none"],
        ),
        (
            "strategic-merge",
            &format!("{MAPS}/m"),
            json!({"data": {"k": "2"}}),
            &["Update configmaps/ ConfigMap default/m: [k=\"2\"] <- [k=\"1\"]"],
        ),
    ])
    .await;
}

/// The whole object is shown, and what the request says of other parts is not.
#[tokio::test]
async fn parts_of_objects_are_decided_about() {
    let one = &format!("{WIDGETS}/a");
    let (status, computed) = (&format!("{one}/status"), &format!("{one}/computed"));
    let both = |count: u64| {
        let mut object = widget("a", json!({"size": count, "color": "red"}));
        object["status"] = json!({"replicas": count});
        object
    };
    let replace = |count: u64| {
        json!([
            {"op": "add", "path": "/spec/size", "value": count},
            {"op": "add", "path": "/status", "value": {"replicas": count}},
        ])
    };
    let seen = |sub: &str, new: (u64, u64), old: (u64, u64)| {
        let all = |(size, status)| format!("[color=\"red\" size={size} replicas={status}]");
        format!(
            "Update widgets/{sub} Widget default/a: {} <- {}",
            all(new),
            all(old)
        )
    };
    let namespace = json!({"metadata": {"name": "n"}});
    let finalizers = json!({"spec": {"finalizers": ["example.com/held"]}});
    check(&[
        ("post", WIDGETS, both(1), &[
            "Create widgets/ Widget default/a: [color=\"red\" size=1] <- none",
        ]),
        ("put", status, both(2), &[
            "Update widgets/status Widget default/a: [color=\"red\" size=1 replicas=2] <- [color=\"red\" size=1]",
        ]),
        ("merge", status, both(3), &[&seen("status", (1, 3), (1, 2))]),
        ("json", status, replace(4), &[&seen("status", (1, 4), (1, 3))]),
        ("apply", status, both(5), &[&seen("status", (1, 5), (1, 4))]),
        ("put", computed, both(6), &[&seen("computed", (6, 5), (1, 5))]),
        ("merge", computed, both(7), &[&seen("computed", (7, 5), (6, 5))]),
        ("json", computed, replace(8), &[&seen("computed", (8, 5), (7, 5))]),
        ("apply", computed, both(9), &[&seen("computed", (9, 5), (8, 5))]),
        ("post", "/api/v1/namespaces", namespace, &[
            "Create namespaces/ Namespace /n: [finalizers=[\"kubernetes\"] phase=\"Active\"] <- none",
        ]),
        ("put", "/api/v1/namespaces/n/finalize", finalizers, &[
            "Update namespaces/finalize Namespace /n: [finalizers=[\"example.com/held\"] phase=\"Active\"] <- [finalizers=[\"kubernetes\"] phase=\"Active\"]",
        ]),
    ])
    .await;
}

/// Restores a computed field of widgets with the object that holds it.
struct Restorer;

impl Admission for Restorer {
    fn admit<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<(), Error>> {
        if review.resource.kind == "Widget" && review.old.is_some() {
            review.object["spec"]["network"]["address"] = "10.0.0.1".into();
        }
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn objects_that_hold_computed_fields_get_their_defaults() {
    let server = Server::start_with(Setup {
        admission: vec![Arc::new(Restorer)],
        ..Setup::default()
    })
    .await;
    let mut definition = definition();
    let annotations = json!({"deltaplane.io/computed-fields": "spec.network.address"});
    definition["metadata"]["annotations"] = annotations;
    for version in 0..2 {
        let schema = &mut definition["spec"]["versions"][version]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"]["properties"]["network"] = json!({
            "type": "object",
            "required": ["mtu"],
            "properties": {
                "address": {"type": "string"},
                "mtu": {"type": "integer", "default": 1500},
            },
        });
    }
    server.post(DEFINITIONS, &definition).await.expect(201);
    establish(&server, "widgets.example.com").await;
    let red = widget("a", json!({"color": "red"}));
    server.post(WIDGETS, &red).await.expect(201);
    let one = format!("{WIDGETS}/a");
    let blue = json!({"spec": {"color": "blue"}});
    let written = server.patch(&one, "merge", &blue).await.expect(200);
    let network = json!({"address": "10.0.0.1", "mtu": 1500});
    assert_eq!(written["spec"]["network"], network);
}

/// Remembers what is written of config maps, as late as a test wants.
struct Cache {
    wanted: watch::Sender<Revision>,
    reached: watch::Sender<Revision>,
}

impl Admission for Cache {
    fn admit<'a>(&'a self, _review: Review<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn caught_up<'a>(
        &'a self,
        group: &str,
        plural: &str,
        revision: Revision,
    ) -> Option<BoxFuture<'a, ()>> {
        ((group, plural) == ("", "configmaps")).then(|| -> BoxFuture<'a, ()> {
            Box::pin(async move {
                self.wanted.send_replace(revision);
                let mut reached = self.reached.subscribe();
                let _ = reached.wait_for(|reached| *reached >= revision).await;
            })
        })
    }
}

impl Cache {
    /// The revision that this write waits for, and the write, not yet answered.
    async fn awaited<F: Future<Output = Reply>>(&self, write: F) -> (Revision, Pin<Box<F>>) {
        let mut write = Box::pin(write);
        let mut wanted = self.wanted.subscribe();
        tokio::select! {
            reply = &mut write => panic!("answered too early: {:?}", reply.bytes),
            wanted = wanted.changed() => wanted.expect("the cache is there"),
        }
        let revision = *wanted.borrow();
        (revision, write)
    }

    async fn awaits(&self, write: impl Future<Output = Reply>, code: u16) -> Value {
        let (revision, write) = self.awaited(write).await;
        self.reached.send_replace(revision);
        write.await.expect(code)
    }
}

#[tokio::test]
async fn answers_wait_for_what_admission_remembers() {
    let cache = Arc::new(Cache {
        wanted: watch::Sender::new(Revision::ZERO),
        reached: watch::Sender::new(Revision::ZERO),
    });
    let server = Server::start_with(Setup {
        admission: vec![cache.clone()],
        ..Setup::default()
    })
    .await;
    let one = &format!("{MAPS}/m");
    let (map, none) = (json!({"metadata": {"name": "m"}}), json!({}));
    let created = cache.awaits(server.post(MAPS, &map), 201).await;
    let revision = cache.reached.borrow().get().to_string();
    assert_eq!(created["metadata"]["resourceVersion"], json!(revision));

    let change = json!({"data": {"k": "1"}});
    let (_, lost) = cache.awaited(server.patch(one, "merge", &change)).await;
    drop(lost);
    // Whoever tries again changes nothing, and waits all the same.
    let again = server.patch(one, "merge", &change);
    let again = cache.awaits(again, 200).await;
    assert_eq!(again["data"], change["data"]);
    // What is shown already holds up nobody.
    server.patch(one, "merge", &change).await.expect(200);

    cache.awaits(server.delete(one, &none), 200).await;
    cache.awaits(server.post(MAPS, &map), 201).await;
    cache.awaits(server.delete(MAPS, &none), 200).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    server.post(secrets, &map).await.expect(201);
}
