//! One request on its way: who asks for what, and how the answer is put together.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use deltaplane_api::headers;
use deltaplane_api::identity::Identity;
use deltaplane_api::time::Time;
use deltaplane_store::Revision;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT, WARNING};
use http::{HeaderMap, Response, StatusCode};

use crate::auth::rbac::{Action, ResourceAction};
use crate::body::Body;
use crate::error::Error;
use crate::flow::Turn;
use crate::kinds::Kind;
use crate::options::Query;
use crate::request::ResourceRequest;
use crate::seams::{Access, Resource};
use crate::server::Inner;

/// An answer.
pub(crate) type Answer = Response<Body>;

/// A request about objects, authenticated and authorized.
pub(crate) struct Cx {
    pub(crate) server: Arc<Inner>,
    pub(crate) user: Identity,
    /// When it ends that this is the user; never, for certificates of a connection.
    pub(crate) until: Option<SystemTime>,
    pub(crate) kind: Arc<Kind>,
    pub(crate) target: ResourceRequest,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) now: Time,
    pub(crate) warnings: Vec<String>,
    /// From which revision on it is visible what this request wrote.
    pub(crate) visible: Option<Revision>,
    /// Held until the answer begins; given up earlier by what waits for others.
    pub(crate) turn: Turn,
}

/// More than this many warnings are not sent.
const MAX_WARNINGS: usize = 32;
/// Longer warnings are cut.
const MAX_WARNING: usize = 512;

// === impl Cx ===

impl Cx {
    pub(crate) fn header(&self, name: HeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    pub(crate) fn content_type(&self) -> &str {
        self.header(CONTENT_TYPE)
    }

    pub(crate) fn user_agent(&self) -> &str {
        self.header(USER_AGENT)
    }

    /// What admission is told this request is about.
    pub(crate) fn resource<'a>(&'a self, name: &'a str) -> Resource<'a> {
        // The path of a namespace names it as one.
        let namespace = match self.kind.namespaced {
            true => self.target.namespace.as_str(),
            false => "",
        };
        Resource {
            group: &self.kind.group,
            version: &self.kind.version,
            kind: &self.kind.kind,
            plural: &self.kind.plural,
            subresource: &self.target.subresource,
            namespace,
            name,
        }
    }

    /// Returns true if the user of this request may do something else, as seams ask.
    pub(crate) fn may(&self, access: Access<'_>) -> bool {
        let registry = self.server.registry.load();
        let mut kinds = registry.all();
        let kind = kinds.find(|one| one.group == access.group && one.kind == access.kind);
        let action = ResourceAction {
            verb: access.verb,
            group: access.group,
            resource: kind.map_or("*", |kind| &kind.plural),
            subresource: "",
            namespace: access.namespace,
            name: access.name,
        };
        let rbac = self.server.rbac.read();
        rbac.allows(&self.user, Action::Resource(action))
    }

    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    pub(crate) fn warn_all(&mut self, texts: Vec<String>) {
        texts.into_iter().for_each(|text| self.warn(text));
    }

    /// Adds to an answer what there is to warn of, and where to see what was written.
    pub(crate) fn finish(&self, mut answer: Answer) -> Answer {
        if let Some(revision) = self.visible {
            let name = HeaderName::from_static(headers::REVISION);
            answer.headers_mut().insert(name, revision.get().into());
        }
        for text in &self.warnings {
            let safe: String = text
                .chars()
                .filter(|c| !c.is_control())
                .take(MAX_WARNING)
                .collect();
            let quoted = safe.replace('\\', "\\\\").replace('"', "\\\"");
            if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
                answer.headers_mut().append(WARNING, value);
            }
        }
        answer
    }
}

/// An answer in JSON.
pub(crate) fn json(code: StatusCode, body: impl Into<Body>) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = code;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// An answer in plain text.
pub(crate) fn text(code: StatusCode, body: impl Into<String>) -> Answer {
    let mut answer = Response::new(Body::from(body.into().into_bytes()));
    *answer.status_mut() = code;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, plain);
    answer
}

/// The answer that says what went wrong.
pub(crate) fn failure(error: &Error) -> Answer {
    let body = crate::encode::bytes(&error.to_status());
    let mut answer = json(error.code, body);
    if let Some(seconds) = error.retry_after {
        answer
            .headers_mut()
            .insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if error.code == StatusCode::UNAUTHORIZED {
        let realm = HeaderValue::from_static("Bearer realm=\"deltaplane\"");
        answer
            .headers_mut()
            .insert(http::header::WWW_AUTHENTICATE, realm);
    }
    answer
}
