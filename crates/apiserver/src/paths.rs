//! Paths that are not objects: health, version, metrics, discovery, OpenAPI.

use std::sync::Arc;

use deltaplane_runtime::readiness::{Check, State};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, Method, StatusCode};
use serde_json::json;

use crate::body::{Body, Pieces};
use crate::context::{Answer, json, text};
use crate::error::{About, Error};
use crate::kinds::registry::Document;
use crate::options::Query;
use crate::server::Inner;
use crate::{discovery, issuer, negotiate, openapi, typepack};

pub(crate) fn answer(
    server: &Arc<Inner>,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    query: &Query,
) -> Result<Answer, Error> {
    if method != Method::GET && method != Method::HEAD {
        return Err(Error::method_not_allowed(About::nothing(), method.as_str()));
    }
    let trimmed = path.trim_end_matches('/');
    if let Some(check) = health(trimmed) {
        return check_health(server, check, query);
    }
    match trimmed {
        "" => Ok(root(server)),
        "/version" => Ok(version(server.config.commit)),
        "/metrics" => metrics(server),
        issuer::CONFIGURATION_PATH => Ok(issuer::configuration(server)),
        issuer::KEYS_PATH => Ok(issuer::keys(server)),
        "/openapi/v2" => {
            let (bytes, kind) = openapi::v2::document(headers, typepack::load().release())?;
            Ok(tagged(&Document::new(bytes), kind, headers))
        }
        "/openapi/v3" => tagged_json(&openapi::index(&server.registry.load()), headers),
        path if path.starts_with("/openapi/v3/") => document(server, path, headers, query),
        path => {
            let address = server.config.address.to_string();
            let found = discovery::document(&server.registry.load(), path, &address);
            tagged_json(&found.ok_or_else(Error::no_such_path)?, headers)
        }
    }
}

/// Which of the health paths this is, and which single check it asks for.
fn health(path: &str) -> Option<(bool, &str)> {
    ["/livez", "/healthz", "/readyz"]
        .into_iter()
        .find_map(|base| {
            let rest = path.strip_prefix(base)?;
            let check = match rest {
                "" => "",
                rest => rest.strip_prefix('/')?,
            };
            // Alive means that requests are answered; ready means that they are carried out.
            Some((base == "/readyz", check))
        })
}

fn check_health(server: &Inner, wanted: (bool, &str), query: &Query) -> Result<Answer, Error> {
    let (readiness, one) = wanted;
    let mut checks = vec![Check {
        name: "ping".to_owned(),
        state: State::Ready,
    }];
    if readiness {
        checks.extend(server.config.readiness.snapshot());
    }
    if !one.is_empty() {
        checks.retain(|check| check.name == one);
    }
    if checks.is_empty() {
        return Err(Error::no_such_path());
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    checks.retain(|check| !excluded.contains(&check.name.as_str()));
    let failed = checks.iter().any(|check| check.state != State::Ready);
    let verbose = query.flag("verbose") || failed;
    let code = if failed {
        StatusCode::INTERNAL_SERVER_ERROR
    } else {
        StatusCode::OK
    };
    let body = match verbose {
        false => "ok".to_owned(),
        true => {
            let lines = checks.iter().map(|check| match &check.state {
                State::Ready => format!("[+]{} ok\n", check.name),
                State::Failing(reason) => format!("[-]{} failed: {reason}\n", check.name),
                State::Pending | State::Abandoned | State::Draining => {
                    format!("[-]{} failed: {:?}\n", check.name, check.state)
                }
            });
            let verdict = if failed { "failed" } else { "passed" };
            let name = if readiness { "readyz" } else { "livez" };
            format!("{}{name} check {verdict}\n", lines.collect::<String>())
        }
    };
    Ok(text(code, body))
}

fn root(server: &Inner) -> Answer {
    let registry = server.registry.load();
    let mut paths: Vec<String> = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in registry.groups().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(
            versions
                .iter()
                .map(|version| format!("/apis/{group}/{version}")),
        );
    }
    let others = [
        issuer::CONFIGURATION_PATH,
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        issuer::KEYS_PATH,
        "/readyz",
        "/version",
    ];
    paths.extend(others.iter().map(|&path| path.to_owned()));
    json(
        StatusCode::OK,
        crate::encode::bytes(&json!({ "paths": paths })),
    )
}

/// Charts and clients gate on the release of Kubernetes whose API this is.
fn version(commit: &str) -> Answer {
    let release = typepack::load().release();
    let mut parts = release.split('.');
    let body = json!({
        "major": parts.next().unwrap_or_default(),
        "minor": parts.next().unwrap_or_default(),
        "gitVersion": format!("v{release}+deltaplane-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": commit,
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    });
    json(StatusCode::OK, crate::encode::bytes(&body))
}

fn metrics(server: &Inner) -> Result<Answer, Error> {
    let mut out = String::new();
    prometheus_client::encoding::text::encode(&mut out, &server.metrics_registry.lock())
        .map_err(Error::internal)?;
    let mut answer = text(StatusCode::OK, out);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(answer)
}

fn document(
    server: &Inner,
    path: &str,
    headers: &HeaderMap,
    query: &Query,
) -> Result<Answer, Error> {
    let name = path.trim_start_matches("/openapi/v3/");
    let (group, version) = openapi::parse(name).ok_or_else(Error::no_such_path)?;
    let document = openapi::document(&server.registry.load(), group, version);
    let document = document.ok_or_else(Error::no_such_path)?;
    let wanted = query.get("hash");
    if !wanted.is_empty() && *wanted != *document.hash {
        // Whoever keeps what is at a hash must not keep another document there.
        return Ok(moved(&openapi::url(group, version, &document.hash)));
    }
    let mut answer = tagged_json(&document, headers)?;
    if !wanted.is_empty() {
        let forever = HeaderValue::from_static("public, immutable, max-age=31536000");
        answer.headers_mut().insert(CACHE_CONTROL, forever);
    }
    Ok(answer)
}

fn moved(to: &str) -> Answer {
    let mut answer = http::Response::new(Body::empty());
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(to) = HeaderValue::from_str(to) {
        answer.headers_mut().insert(LOCATION, to);
    }
    answer
}

fn tagged_json(document: &Document, headers: &HeaderMap) -> Result<Answer, Error> {
    negotiate::plain(headers)?;
    Ok(tagged(document, "application/json", headers))
}

/// A document that the registry and clients may keep: answered in full only if it changed.
fn tagged(document: &Document, kind: &'static str, headers: &HeaderMap) -> Answer {
    let tag = format!("\"{}\"", document.hash);
    let known = headers
        .get(IF_NONE_MATCH)
        .is_some_and(|sent| sent.as_bytes() == tag.as_bytes());
    let mut answer = match known {
        true => {
            let mut answer = http::Response::new(Body::empty());
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            answer
        }
        false => json(StatusCode::OK, Pieces::shared(document.bytes.clone())),
    };
    let answered = answer.headers_mut();
    answered.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answered.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answered.insert(ETAG, tag);
    }
    answer
}
