use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use tokio::sync::mpsc;

use deltaplane_runtime::Tasks;

use super::*;

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;
type Documents = Arc<Mutex<BTreeMap<&'static str, &'static str>>>;

/// A server with these documents; the watch of definitions tells what the sender is given.
fn server(documents: &Documents) -> (Client, mpsc::UnboundedSender<String>) {
    let (sender, receiver) = mpsc::unbounded_channel::<String>();
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    let documents = documents.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().path();
        let watch = path.ends_with("customresourcedefinitions");
        let body: Result<AnyBody, u16> = match documents.lock().expect("sound").get(path) {
            Some(document) => Ok(UnsyncBoxBody::new((*document).to_owned())),
            None if watch => {
                let receiver = receiver.lock().expect("sound").take().expect("asked once");
                Ok(UnsyncBoxBody::new(StreamBody::new(lines(receiver))))
            }
            None => Err(503),
        };
        async move {
            let mut response = Response::new(UnsyncBoxBody::new(String::new()));
            match body {
                Ok(body) => *response.body_mut() = body,
                Err(code) => {
                    *response.status_mut() = http::StatusCode::from_u16(code).expect("a status");
                }
            }
            Ok::<_, Infallible>(response)
        }
    });
    (Client::new(service, "default"), sender)
}

fn lines(
    receiver: mpsc::UnboundedReceiver<String>,
) -> impl stream::Stream<Item = Result<http_body::Frame<Bytes>, Infallible>> {
    stream::unfold(receiver, |mut receiver| async {
        let line = receiver.recv().await?;
        Some((
            Ok(http_body::Frame::data(Bytes::from(line + "\n"))),
            receiver,
        ))
    })
}

fn documents(content: &[(&'static str, &'static str)]) -> Documents {
    Arc::new(Mutex::new(content.iter().copied().collect()))
}

const CORE: (&str, &str) = (
    "/api/v1",
    r#"{"resources":[
        {"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["list","watch","delete"]},
        {"name":"namespaces","kind":"Namespace","namespaced":false,"verbs":["list","delete"]},
        {"name":"namespaces/status","kind":"Namespace","namespaced":false,"verbs":["get"]}]}"#,
);
const GROUPS: &str = r#"{"groups":[{"name":"apps","preferredVersion":{"groupVersion":"apps/v1"},
    "versions":[{"groupVersion":"apps/v2beta1"},{"groupVersion":"apps/v1"}]}]}"#;
const APPS: &str = r#"{"resources":[{"name":"deployments","kind":"Deployment","namespaced":true,"verbs":["list"]}]}"#;
const BETA: &str = r#"{"resources":[{"name":"deployments","kind":"Deployment","namespaced":true,"verbs":[]},
    {"name":"things","kind":"Thing","namespaced":false,"verbs":["list","delete"]}]}"#;

fn names(catalog: &Catalog, verbs: &[&str]) -> Vec<String> {
    let name = |resource: &Resource| format!("{}/{}", resource.api_version(), resource.plural);
    catalog.with_verbs(verbs).map(name).collect()
}

#[tokio::test]
async fn every_kind_once_at_its_preferred_version() {
    let all = [
        CORE,
        ("/apis", GROUPS),
        ("/apis/apps/v1", APPS),
        ("/apis/apps/v2beta1", BETA),
    ];
    let (client, _sender) = server(&documents(&all));
    let catalog = discover(&client).await.expect("answered");
    assert_eq!(catalog.failures, BTreeMap::new());
    assert_eq!(
        names(&catalog, &["list"]),
        [
            "v1/configmaps",
            "v1/namespaces",
            "apps/v1/deployments",
            "apps/v2beta1/things"
        ]
    );
    assert_eq!(
        names(&catalog, &["list", "delete"]),
        ["v1/configmaps", "v1/namespaces", "apps/v2beta1/things"]
    );
    let found = |version, kind| {
        catalog
            .kind(version, kind)
            .map(|served| served.resource.clone())
    };
    let deployments = Resource::namespaced("apps", "v1", "deployments", "Deployment");
    assert_eq!(found("apps/v1", "Deployment"), Some(deployments.clone()));
    assert_eq!(found("apps/v2beta1", "Deployment"), Some(deployments));
    let namespaces = Resource::cluster("", "v1", "namespaces", "Namespace");
    assert_eq!(found("v1", "Namespace"), Some(namespaces));
    assert_eq!(found("apps/v3", "Deployment"), None);
    assert_eq!(found("v1", "Deployment"), None);
}

#[tokio::test]
async fn a_group_that_does_not_answer_is_named() {
    let all = [CORE, ("/apis", GROUPS), ("/apis/apps/v1", APPS)];
    let (client, _sender) = server(&documents(&all));
    let catalog = discover(&client).await.expect("answered");
    assert_eq!(
        catalog.failures.into_keys().collect::<Vec<_>>(),
        ["apps/v2beta1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_group_that_hangs_is_not_waited_for_as_long_as_others() {
    let all = [CORE, ("/apis", GROUPS), ("/apis/apps/v1", APPS)];
    let (client, _sender) = server(&documents(&all));
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if request.uri().path() == "/apis/apps/v2beta1" {
                std::future::pending::<()>().await;
            }
            client.send(request).await
        }
    });
    let begun = tokio::time::Instant::now();
    let catalog = discover(&Client::new(service, "default")).await;
    assert_eq!(begun.elapsed(), PATIENCE);
    let catalog = catalog.expect("answered");
    let failures: Vec<_> = catalog.failures.keys().collect();
    assert_eq!(failures, ["apps/v2beta1"]);
    assert!(catalog.kind("apps/v1", "Deployment").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_new_definition_is_found_as_soon_as_it_is_served() {
    let none = r#"{"groups":[]}"#;
    let documents = documents(&[CORE, ("/apis", none)]);
    let (client, sender) = server(&documents);
    let (mut discovery, follower) = follow(client, Pace::system());
    let tasks = Tasks::new();
    tasks.spawn("discovery", |stop| follower.run(stop));
    let send = |line: &str| sender.send(line.to_owned()).expect("watched");
    let first = discovery.changed().await;
    assert_eq!(names(&first, &["list"]), ["v1/configmaps", "v1/namespaces"]);
    send(
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
    );
    send(
        r#"{"type":"ADDED","object":{"metadata":{"name":"deployments.apps","resourceVersion":"2"},
        "spec":{"group":"apps","names":{"plural":"deployments"}},
        "status":{"conditions":[{"type":"Established","status":"True"}]}}}"#
            .replace('\n', "")
            .as_str(),
    );
    // The server is late.
    tokio::time::sleep(Duration::from_secs(3)).await;
    {
        let mut documents = documents.lock().expect("sound");
        documents.insert("/apis", GROUPS);
        documents.insert("/apis/apps/v1", APPS);
        documents.insert("/apis/apps/v2beta1", r#"{"resources":[]}"#);
    }
    let second = discovery.changed().await;
    assert_eq!(
        names(&second, &["list"]),
        ["v1/configmaps", "v1/namespaces", "apps/v1/deployments"]
    );
    tasks.shutdown(Duration::from_secs(1)).await.expect("clean");
}
