//! Single requests, and what the server says when it refuses one.

use std::time::Duration;

use bytes::Bytes;
use http::response::Parts;
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::header::null_as_default;

/// A request did not lead to what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The server refused it.
    #[error("{0}")]
    Refused(Refusal),
    /// No answer came.
    #[error("failed to reach the server")]
    Unreachable(#[source] Box<kube::Error>),
    /// The answer is not what it should be.
    #[error("failed to read the answer")]
    Answer(#[from] serde_json::Error),
    /// The request is not one.
    #[error("failed to write the request")]
    Request(#[from] http::Error),
}

/// Why the server refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code} {reason})")]
pub struct Refusal {
    /// The HTTP status.
    pub code: u16,
    /// For programs, such as `AlreadyExists`; empty if there is none.
    pub reason: String,
    /// For people.
    pub message: String,
    /// How long the server wants not to be asked.
    pub retry_after: Option<Duration>,
    /// The object that it is about; empty if it is not about one, such as an unknown kind.
    pub name: String,
    /// Of what kind that object is, as in paths: `namespaces`.
    pub kind: String,
    /// Details for programs, such as `NamespaceTerminating`.
    pub causes: Vec<String>,
}

/// The format of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
}

impl Patch {
    fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Json => "application/json-patch+json",
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    reason: String,
    message: String,
    #[serde(deserialize_with = "null_as_default")]
    details: Details,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    retry_after_seconds: Option<u32>,
    name: String,
    kind: String,
    #[serde(deserialize_with = "null_as_default")]
    causes: Vec<Cause>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
}

pub(crate) const JSON: &str = "application/json";

// === impl Refusal ===

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        let Status {
            code,
            reason,
            message,
            details,
        } = status;
        let Details {
            retry_after_seconds,
            name,
            kind,
            causes,
        } = details;
        let seconds = retry_after_seconds.filter(|seconds| *seconds > 0);
        Self {
            code,
            reason,
            message,
            retry_after: seconds.map(|seconds| Duration::from_secs(seconds.into())),
            name,
            kind,
            causes: causes.into_iter().map(|cause| cause.reason).collect(),
        }
    }
}

impl Refusal {
    /// What a `Status` in the midst of an answer says.
    pub(crate) fn parse(status: &str) -> serde_json::Result<Self> {
        serde_json::from_str::<Status>(status).map(Self::from)
    }

    /// The object is not there, although its kind is.
    pub fn is_object_not_found(&self) -> bool {
        self.code == 404 && !self.name.is_empty()
    }

    /// The object cannot be made because its namespace is not there.
    pub fn lacks_namespace(&self, namespace: &str) -> bool {
        self.code == 404 && self.kind == "namespaces" && self.name == namespace
    }

    /// The kind is not served, at least not in this version: known by what is missing, because
    /// servers say it with a page of text.
    pub fn is_kind_not_served(&self) -> bool {
        self.code == 404 && self.name.is_empty()
    }

    /// Others manage fields that were to be applied without force.
    pub fn is_about_managers(&self) -> bool {
        self.code == 409 && self.has_cause("FieldManagerConflict")
    }

    fn has_cause(&self, reason: &str) -> bool {
        self.causes.iter().any(|cause| cause == reason)
    }

    /// The object cannot be made because its namespace is going.
    pub fn is_terminating(&self) -> bool {
        self.code == 403 && self.has_cause("NamespaceTerminating")
    }
}

// === impl RequestError ===

impl RequestError {
    /// Why the server refused, if it was reached.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Unreachable(_) | Self::Answer(_) | Self::Request(_) => None,
        }
    }

    /// The status with which the server refused.
    pub fn code(&self) -> Option<u16> {
        self.refusal().map(|refusal| refusal.code)
    }

    /// How long the server wants not to be asked, if it was reached and said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal()?.retry_after
    }

    /// The object, or the kind, is not there.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Somebody else was faster, or it exists already.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }
}

/// A write whose warnings are wanted.
#[derive(Clone, Copy, Debug)]
pub enum WarnedWrite<'a> {
    Apply(&'a serde_json::Value),
    Patch(Patch, &'a serde_json::Value),
    /// With these `DeleteOptions`.
    Delete(&'a serde_json::Value),
}

/// Writes an object; `path` says how. Returns the answer and the warnings that came with it.
pub async fn write_warned<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    write: WarnedWrite<'_>,
) -> Result<(T, Vec<String>), RequestError> {
    let (method, format, body) = match write {
        WarnedWrite::Apply(object) => (Method::PATCH, "application/apply-patch+yaml", object),
        WarnedWrite::Patch(format, change) => (Method::PATCH, format.content_type(), change),
        WarnedWrite::Delete(options) => (Method::DELETE, JSON, options),
    };
    let body = (format, serde_json::to_vec(body)?);
    let request = request(method, path, JSON, Some(body))?;
    let (headers, bytes) = in_time(DEADLINE, async {
        let (parts, body) = begin(client, request).await?;
        Ok((parts.headers, collect(body).await?))
    })
    .await?;
    let warnings = headers.get_all(http::header::WARNING).iter();
    let warnings = warnings.filter_map(|value| warning(&String::from_utf8_lossy(value.as_bytes())));
    Ok((serde_json::from_slice(&bytes)?, warnings.collect()))
}

/// Returns the text of a Warning header: `299 - "text"`.
fn warning(header: &str) -> Option<String> {
    let (_, quoted) = header.split_once('"')?;
    let mut text = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            other => text.push(other),
        }
    }
}

/// Reads an object, or whatever is at `path`.
pub async fn get<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, RequestError> {
    answer(client, Method::GET, path, None).await
}

/// Creates an object.
pub async fn create<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    object: &serde_json::Value,
) -> Result<T, RequestError> {
    let body = (JSON, serde_json::to_vec(object)?);
    answer(client, Method::POST, path, Some(body)).await
}

/// Replaces an object.
pub async fn replace<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    object: &serde_json::Value,
) -> Result<T, RequestError> {
    let body = (JSON, serde_json::to_vec(object)?);
    answer(client, Method::PUT, path, Some(body)).await
}

/// Changes an object.
pub async fn patch<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    format: Patch,
    change: &serde_json::Value,
) -> Result<T, RequestError> {
    let body = (format.content_type(), serde_json::to_vec(change)?);
    answer(client, Method::PATCH, path, Some(body)).await
}

/// Applies an object: `path` says as which manager, and whether by force.
pub async fn apply<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    object: &serde_json::Value,
) -> Result<T, RequestError> {
    let body = ("application/apply-patch+yaml", serde_json::to_vec(object)?);
    answer(client, Method::PATCH, path, Some(body)).await
}

/// Deletes an object, or all of a collection, with these `DeleteOptions`.
pub async fn delete(
    client: &Client,
    path: &str,
    options: &serde_json::Value,
) -> Result<(), RequestError> {
    Requester::from(client).delete(path, options).await
}

/// Sends requests as the user of a client, or as another user whom that one may impersonate.
#[derive(Clone, Copy)]
pub struct Requester<'a> {
    client: &'a Client,
    /// The user to impersonate.
    user: Option<&'a str>,
}

/// The answer to an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied<T> {
    pub object: T,
    /// Whether the object was not there before.
    pub created: bool,
}

const IMPERSONATE_USER: &str = "impersonate-user";

// === impl Requester ===

impl<'a> From<&'a Client> for Requester<'a> {
    fn from(client: &'a Client) -> Self {
        Self { client, user: None }
    }
}

impl<'a> Requester<'a> {
    /// Sends requests as another user.
    pub fn impersonating(client: &'a Client, user: &'a str) -> Self {
        Self {
            client,
            user: Some(user),
        }
    }

    /// Applies an object: `path` says as which manager, and whether by force.
    pub async fn apply<T: DeserializeOwned>(
        self,
        path: &str,
        object: &serde_json::Value,
    ) -> Result<Applied<T>, RequestError> {
        let body = ("application/apply-patch+yaml", serde_json::to_vec(object)?);
        let request = self.request(Method::PATCH, path, body)?;
        let (status, bytes) = in_time(DEADLINE, async {
            let (parts, body) = begin(self.client, request).await?;
            Ok((parts.status, collect(body).await?))
        })
        .await?;
        Ok(Applied {
            object: serde_json::from_slice(&bytes)?,
            created: status == http::StatusCode::CREATED,
        })
    }

    /// Deletes an object with these `DeleteOptions`.
    pub async fn delete(self, path: &str, options: &serde_json::Value) -> Result<(), RequestError> {
        let body = (JSON, serde_json::to_vec(options)?);
        let request = self.request(Method::DELETE, path, body)?;
        send(self.client, request).await?;
        Ok(())
    }

    fn request(
        self,
        method: Method,
        path: &str,
        body: (&str, Vec<u8>),
    ) -> Result<Request<Body>, http::Error> {
        let mut request = request(method, path, JSON, Some(body))?;
        if let Some(user) = self.user {
            let user = http::HeaderValue::from_str(user)?;
            request.headers_mut().insert(IMPERSONATE_USER, user);
        }
        Ok(request)
    }
}

async fn answer<T: DeserializeOwned>(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<(&str, Vec<u8>)>,
) -> Result<T, RequestError> {
    let bytes = send(client, request(method, path, JSON, body)?).await?;
    Ok(serde_json::from_slice(&bytes)?)
}

pub(crate) fn request(
    method: Method,
    path: &str,
    accept: &str,
    body: Option<(&str, Vec<u8>)>,
) -> Result<Request<Body>, http::Error> {
    let builder = Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::ACCEPT, accept);
    match body {
        Some((content_type, body)) => builder
            .header(http::header::CONTENT_TYPE, content_type)
            .body(Body::from(body)),
        None => builder.body(Body::empty()),
    }
}

/// The whole answer.
pub(crate) async fn send(client: &Client, request: Request<Body>) -> Result<Bytes, RequestError> {
    send_within(client, request, DEADLINE).await
}

async fn send_within(
    client: &Client,
    request: Request<Body>,
    deadline: Duration,
) -> Result<Bytes, RequestError> {
    in_time(deadline, async {
        collect(open(client, request).await?).await
    })
    .await
}

/// Nobody waits longer for an answer: what is not answered may hang for as long as TCP likes, and
/// whoever waits keeps a place that others need. An API server gives up after a minute by itself.
const DEADLINE: Duration = Duration::from_secs(30);

async fn in_time<T>(
    deadline: Duration,
    asking: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let late = |_| {
        let message = format!("no answer within {} seconds", deadline.as_secs());
        let error = std::io::Error::new(std::io::ErrorKind::TimedOut, message);
        unreachable(kube::Error::Service(error.into()))
    };
    tokio::time::timeout(deadline, asking).await.map_err(late)?
}

/// Reads what is at `path`, if it comes sooner than others may.
pub(crate) async fn get_within<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    deadline: Duration,
) -> Result<T, RequestError> {
    let request = request(Method::GET, path, JSON, None)?;
    let bytes = send_within(client, request, deadline).await?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// The answer as it comes: it begins in time, and ends whenever it does.
pub(crate) async fn open(client: &Client, request: Request<Body>) -> Result<Body, RequestError> {
    let (_, body) = begin(client, request).await?;
    Ok(body)
}

/// The answer with its headers, unless it is a refusal.
async fn begin(client: &Client, request: Request<Body>) -> Result<(Parts, Body), RequestError> {
    let sent = async { client.send(request).await.map_err(unreachable) };
    let response = in_time(DEADLINE, sent).await?;
    let (response, body) = response.into_parts();
    if response.status.is_success() {
        return Ok((response, body));
    }
    let body = collect(body).await?;
    Err(RequestError::Refused(refused(&response, &body)))
}

async fn collect(body: Body) -> Result<Bytes, RequestError> {
    body.collect_bytes().await.map_err(unreachable)
}

fn unreachable(error: kube::Error) -> RequestError {
    RequestError::Unreachable(Box::new(error))
}

fn refused(response: &Parts, body: &[u8]) -> Refusal {
    let status: Status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
        message: String::from_utf8_lossy(body).trim().to_owned(),
        ..Status::default()
    });
    let mut refusal = Refusal::from(status);
    refusal.code = response.status.as_u16();
    // Proxies and overloaded servers say it in the header alone.
    let header = response.headers.get(http::header::RETRY_AFTER);
    let seconds = header.and_then(|value| value.to_str().ok()?.parse().ok());
    refusal.retry_after = refusal
        .retry_after
        .or_else(|| seconds.map(Duration::from_secs));
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(code: u16, retry_after: Option<&str>) -> Parts {
        let mut response = http::Response::builder().status(code);
        if let Some(text) = retry_after {
            response = response.header(http::header::RETRY_AFTER, text);
        }
        response.body(()).expect("a response").into_parts().0
    }

    #[test]
    fn warnings_are_read() {
        let check = |header: &str, expected: Option<&str>| {
            assert_eq!(warning(header).as_deref(), expected, "{header}");
        };
        check("299 - \"old\"", Some("old"));
        check(
            r#"299 - "unknown field \"spec.a\" \\""#,
            Some(r#"unknown field "spec.a" \"#),
        );
        check(r#"299 - "cut"#, None);
        check("299", None);
    }

    #[test]
    fn refusals_are_read() {
        let check = |header: Option<&str>,
                     body: &str,
                     reason: &str,
                     message: &str,
                     seconds: Option<u64>| {
            let expected = Refusal {
                code: 429,
                reason: reason.to_owned(),
                message: message.to_owned(),
                retry_after: seconds.map(Duration::from_secs),
                ..Refusal::default()
            };
            assert_eq!(refused(&response(429, header), body.as_bytes()), expected);
        };
        let slow = r#"{"kind":"Status","code":429,"reason":"TooManyRequests","message":"slow","details":{"retryAfterSeconds":2}}"#;
        check(None, slow, "TooManyRequests", "slow", Some(2));
        check(Some("9"), slow, "TooManyRequests", "slow", Some(2));
        check(None, r#"{"kind":"Status"}"#, "", "", None);
        check(None, "slow down\n", "", "slow down", None);
        check(Some("7"), "slow down\n", "", "slow down", Some(7));
        check(Some("Wed, 21 Oct"), "", "", "", None);
        check(None, r#"{"details":{"retryAfterSeconds":0}}"#, "", "", None);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, std::convert::Infallible>>()
        });
        let client = Client::new(service, "default");
        let error = get::<serde_json::Value>(&client, "/api").await;
        let error = error.expect_err("no answer");
        let why = std::error::Error::source(&error).expect("why").to_string();
        assert!(why.contains("no answer within 30 seconds"), "{why}");
    }

    #[test]
    fn refusals_say_what_they_are_about() {
        let check = |code: u16, body: &str, object_not_found, terminating| {
            let refusal = refused(&response(code, None), body.as_bytes());
            let seen = (refusal.is_object_not_found(), refusal.is_terminating());
            assert_eq!(seen, (object_not_found, terminating), "{body}");
        };
        check(
            404,
            r#"{"details":{"name":"a","kind":"pods"}}"#,
            true,
            false,
        );
        check(404, r#"{"details":{}}"#, false, false);
        check(404, "404 page not found", false, false);
        check(
            403,
            r#"{"details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#,
            false,
            true,
        );
        check(403, r#"{"details":null}"#, false, false);
    }
}
