//! A server on a store in a directory of its own, and requests to it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use deltaplane_api::identity::Identity;
use deltaplane_apiserver::seams::{Admission, TableColumns, VirtualSubresource};
use deltaplane_apiserver::{ApiServer, Body, Config, Limits};
use deltaplane_runtime::{Clock, Readiness, Tasks};
use deltaplane_store::driver::Driver;
use deltaplane_store::{Embedded, Options, Store};
use futures::stream::{self, Stream, StreamExt};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};
use tower::ServiceExt;

pub(crate) struct Server {
    pub(crate) api: ApiServer,
    pub(crate) store: Store,
    tasks: Tasks,
    directory: Option<tempfile::TempDir>,
    user: Identity,
    key: String,
}

/// What a test may want different.
pub(crate) struct Setup {
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
    pub(crate) admission: Vec<Arc<dyn Admission>>,
    pub(crate) columns: Vec<Arc<dyn TableColumns>>,
    pub(crate) subresources: Vec<Arc<dyn VirtualSubresource>>,
    /// A driver in front of the store's own.
    pub(crate) in_front: fn(Arc<dyn Driver>) -> Arc<dyn Driver>,
}

/// An answer, read whole.
pub(crate) struct Reply {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

/// A watch that is read event by event.
pub(crate) struct Watching {
    body: Body,
    buffer: Vec<u8>,
}

// === impl Setup ===

impl Default for Setup {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            clock: Clock::system(),
            admission: Vec::new(),
            columns: Vec::new(),
            subresources: Vec::new(),
            in_front: |driver| driver,
        }
    }
}

// === impl Server ===

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(Setup::default()).await
    }

    pub(crate) async fn start_with(setup: Setup) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let key = rcgen::KeyPair::generate().expect("a key").serialize_pem();
        Self::open(directory, key, setup).await
    }

    async fn open(directory: tempfile::TempDir, key: String, setup: Setup) -> Self {
        let store = Embedded::open(directory.path(), Options::default()).expect("the store opens");
        let store = Store::new((setup.in_front)(store.driver()));
        let tasks = Tasks::new();
        let config = Config {
            address: "127.0.0.1:7443".parse().expect("an address"),
            service_account_key: key.clone(),
            commit: "unknown",
            limits: setup.limits,
            admission: setup.admission,
            subresources: setup.subresources,
            columns: setup.columns,
            clock: setup.clock,
            readiness: Readiness::new(),
        };
        let api = ApiServer::start(config, store.clone(), &tasks)
            .await
            .expect("the server starts");
        let user = Identity::authenticated("admin", &["system:masters"]);
        Self {
            api,
            store,
            tasks,
            directory: Some(directory),
            user,
            key,
        }
    }

    /// Ends the server and starts it again on the same data.
    pub(crate) async fn restart(mut self) -> Self {
        self.api.drain();
        self.tasks
            .shutdown(Duration::from_secs(5))
            .await
            .expect("tasks end");
        self.store.close().await.expect("the store closes");
        let directory = self.directory.take().expect("it is taken once");
        let key = self.key.clone();
        drop(self);
        Self::open(directory, key, Setup::default()).await
    }

    /// The same server as another user sees it.
    pub(crate) fn as_user(&self, name: &str, groups: &[&str]) -> Self {
        Self {
            api: self.api.clone(),
            store: self.store.clone(),
            tasks: self.tasks.clone(),
            directory: None,
            user: Identity::authenticated(name, groups),
            key: self.key.clone(),
        }
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> Reply {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("user-agent", "test/1.0")
            .extension(self.user.clone())
            .body(Full::new(Bytes::copy_from_slice(body)))
            .expect("a request");
        self.raw(request).await
    }

    pub(crate) async fn raw(&self, request: Request<Full<Bytes>>) -> Reply {
        let answer = self
            .api
            .clone()
            .oneshot(request)
            .await
            .expect("it never fails");
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.expect("it never fails").to_bytes();
        Reply {
            code: parts.status,
            headers: parts.headers,
            bytes,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, "", b"").await
    }

    /// GET in another form.
    pub(crate) async fn accept(&self, path: &str, accept: &str) -> Reply {
        let request = Request::get(path)
            .header("accept", accept)
            .extension(self.user.clone())
            .body(Full::new(Bytes::new()))
            .expect("a request");
        self.raw(request).await
    }

    pub(crate) fn user(&self) -> &Identity {
        &self.user
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> Reply {
        self.send(
            Method::POST,
            path,
            "application/json",
            object.to_string().as_bytes(),
        )
        .await
    }

    pub(crate) async fn put(&self, path: &str, object: &Value) -> Reply {
        self.send(
            Method::PUT,
            path,
            "application/json",
            object.to_string().as_bytes(),
        )
        .await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, patch: &Value) -> Reply {
        let kind = match kind {
            "apply" => "application/apply-patch+yaml".to_owned(),
            kind => format!("application/{kind}-patch+json"),
        };
        self.send(Method::PATCH, path, &kind, patch.to_string().as_bytes())
            .await
    }

    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Reply {
        self.send(
            Method::DELETE,
            path,
            "application/json",
            options.to_string().as_bytes(),
        )
        .await
    }

    pub(crate) async fn watch(&self, path: &str) -> Watching {
        let request = Request::get(path)
            .extension(self.user.clone())
            .body(Full::new(Bytes::new()));
        self.watch_by(request.expect("a request")).await
    }

    /// A watch by whatever the request says.
    pub(crate) async fn watch_by(&self, request: Request<Full<Bytes>>) -> Watching {
        let answer = self.api.clone().oneshot(request).await;
        let answer = answer.expect("it never fails");
        assert_eq!(answer.status(), StatusCode::OK);
        Watching {
            body: answer.into_body(),
            buffer: Vec::new(),
        }
    }
}

// === impl Reply ===

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|_| panic!("not JSON: {}", String::from_utf8_lossy(&self.bytes)))
    }

    #[track_caller]
    pub(crate) fn expect(&self, code: u16) -> Value {
        assert_eq!(
            self.code.as_u16(),
            code,
            "{}",
            String::from_utf8_lossy(&self.bytes)
        );
        self.json()
    }

    /// The texts that the client is warned of.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let warnings = self.headers.get_all("warning").iter();
        warnings
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    }

    /// The message of a refusal.
    #[track_caller]
    pub(crate) fn refused(&self, code: u16) -> String {
        let status = self.expect(code);
        assert_eq!(status["kind"], "Status", "{status}");
        status["message"].as_str().unwrap_or_default().to_owned()
    }
}

// === impl Watching ===

impl Watching {
    /// The next event, as `TYPE name`.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("an event is JSON"));
            }
            let mut data = self.batch().await?;
            self.buffer
                .extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
    }

    /// What is sent at once, as it is handed to the connection.
    pub(crate) async fn batch(&mut self) -> Option<<Body as http_body::Body>::Data> {
        let frame = self.body.frame().await?.expect("it never fails");
        Some(frame.into_data().ok().expect("data"))
    }

    pub(crate) async fn brief(&mut self) -> String {
        let event = self.next().await.expect("the watch goes on");
        let name = event["object"]["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        format!("{} {name}", event["type"].as_str().unwrap_or_default())
    }
}

/// Gives a user these rights in the default namespace.
pub(crate) async fn grant(server: &Server, user: &str, rules: Value) {
    let group = "rbac.authorization.k8s.io";
    let meta = json!({"name": user});
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": meta,
        "rules": rules});
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
        "metadata": meta, "roleRef": {"apiGroup": group, "kind": "Role", "name": user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}]});
    for (plural, object) in [("roles", role), ("rolebindings", binding)] {
        let path = format!("/apis/{group}/v1/namespaces/default/{plural}");
        server.post(&path, &object).await.expect(201);
    }
}

/// A body that begins and never ends.
pub(crate) type Endless = StreamBody<Pin<Box<dyn Stream<Item = Piece> + Send>>>;
type Piece = Result<http_body::Frame<Bytes>, Infallible>;

/// A request to create something, of which only the beginning comes.
pub(crate) fn endless(user: &Server, path: &str, beginning: &'static [u8]) -> Request<Endless> {
    let first = stream::iter([Ok(http_body::Frame::data(Bytes::from_static(beginning)))]);
    let body: Pin<Box<dyn Stream<Item = Piece> + Send>> = Box::pin(first.chain(stream::pending()));
    Request::post(path)
        .header("content-type", "application/json")
        .extension(user.user().clone())
        .body(StreamBody::new(body))
        .expect("a request")
}
