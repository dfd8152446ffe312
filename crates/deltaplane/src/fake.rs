//! An API for tests, whose answers a function gives.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A client of it: `answer` is told what is asked (`GET /api/v1`, without its query) and with which
/// body. Nothing can be watched: feeds list.
pub(crate) fn api(
    answer: impl FnMut(&str, &Value) -> (u16, Value) + Send + Sync + 'static,
) -> Client {
    let answer = Arc::new(Mutex::new(answer));
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = Arc::clone(&answer);
        async move {
            let what = format!("{} {}", request.method(), request.uri().path());
            let watches = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=true"));
            let body = request.into_body().collect().await.expect("a body");
            let body: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
            let mut answer = answer.lock().expect("nobody panicked before");
            let (code, said) = match watches {
                true => refusal(422),
                false => (*answer)(&what, &body),
            };
            let response = Response::builder().status(code).body(said.to_string());
            Ok::<_, Infallible>(response.expect("an answer"))
        }
    });
    Client::new(service, "default")
}

/// How a server refuses.
pub(crate) fn refusal(code: u16) -> (u16, Value) {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "no"});
    (code, status)
}
