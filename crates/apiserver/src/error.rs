//! What a failed request answers: Kubernetes' `Status`, with the reasons, codes and texts that
//! clients act on.
//!
//! The message is for the caller. What only operators should see goes to the log where it happens.

use deltaplane_api::field;
use http::StatusCode;
use serde_json::{Map, Value, json};

/// A refused or failed request.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// The HTTP status.
    pub code: StatusCode,
    /// Kubernetes' machine-readable reason, such as `NotFound`.
    pub reason: &'static str,
    /// The text for people.
    pub message: String,
    /// What the error is about.
    pub details: Box<Details>,
    /// When to try again, in seconds.
    pub retry_after: Option<u32>,
    /// A token to go on with an expired list, inconsistently.
    pub continue_token: Option<String>,
}

/// The object and fields that an error is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The resource, or for invalid objects the kind.
    pub kind: String,
    /// The object's uid.
    pub uid: String,
    /// The single faults.
    pub causes: Vec<Cause>,
}

/// One fault.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cause {
    /// A machine-readable reason.
    pub reason: String,
    /// The text for people.
    pub message: String,
    /// The field, where there is one.
    pub field: String,
}

/// A resource (`deployments` in `apps`) and perhaps a name, as errors speak of it.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The API group.
    pub group: &'a str,
    /// The plural.
    pub resource: &'a str,
    /// The object's name; empty if the error is about the collection.
    pub name: &'a str,
}

// === impl About ===

impl About<'static> {
    /// No resource at all.
    pub fn nothing() -> Self {
        Self {
            group: "",
            resource: "",
            name: "",
        }
    }
}

impl About<'_> {
    fn details(&self) -> Details {
        Details {
            name: self.name.to_owned(),
            group: self.group.to_owned(),
            kind: self.resource.to_owned(),
            ..Details::default()
        }
    }

    fn qualified(&self) -> String {
        match self.group {
            "" => self.resource.to_owned(),
            group => format!("{}.{group}", self.resource),
        }
    }
}

// === impl Error ===

impl Error {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Box::default(),
            retry_after: None,
            continue_token: None,
        }
    }

    fn about(code: StatusCode, reason: &'static str, about: About<'_>, message: String) -> Self {
        Self {
            details: Box::new(about.details()),
            ..Self::new(code, reason, message)
        }
    }

    /// There is no such object.
    pub fn not_found(about: About<'_>) -> Self {
        let message = format!("{} {:?} not found", about.qualified(), about.name);
        Self::about(StatusCode::NOT_FOUND, "NotFound", about, message)
    }

    /// There is nothing at this path.
    pub fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    /// No such resource is served; the path names it, or something of it.
    pub fn no_such_resource(about: About<'_>) -> Self {
        // Without a name: it is not the object that is missing, and clients tell the two apart by
        // that.
        let about = About { name: "", ..about };
        Self {
            details: Box::new(about.details()),
            ..Self::no_such_path()
        }
    }

    /// What only something that runs could answer.
    pub fn nothing_runs(about: About<'_>, what: &str) -> Self {
        let message = format!(
            "nothing runs pods here, so {} {:?} has no {what}: this control plane keeps objects, and clusters run them",
            about.qualified(),
            about.name
        );
        Self::about(StatusCode::NOT_FOUND, "NotFound", about, message)
    }

    /// An object of this name exists.
    pub fn already_exists(about: About<'_>) -> Self {
        let message = format!("{} {:?} already exists", about.qualified(), about.name);
        Self::about(StatusCode::CONFLICT, "AlreadyExists", about, message)
    }

    /// A generated name is taken again and again.
    pub fn generated_name_taken(about: About<'_>) -> Self {
        let message = format!(
            "{} {:?} already exists, the server was not able to generate a unique name for the object",
            about.qualified(),
            about.name
        );
        Self {
            retry_after: Some(1),
            ..Self::about(StatusCode::CONFLICT, "AlreadyExists", about, message)
        }
    }

    /// The object is not as the caller believes.
    pub fn conflict(about: About<'_>, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {:?}: {why}",
            about.qualified(),
            about.name
        );
        Self::about(StatusCode::CONFLICT, "Conflict", about, message)
    }

    /// The object changed since the caller read it.
    pub fn modified(about: About<'_>) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(about, why)
    }

    /// Server-side apply met fields that others own.
    pub fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        let details = Box::new(Details {
            causes,
            ..Details::default()
        });
        Self {
            details,
            ..Self::new(StatusCode::CONFLICT, "Conflict", message)
        }
    }

    /// The object breaks rules.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[field::Error]) -> Self {
        let qualified = match group {
            "" => kind.to_owned(),
            group => format!("{kind}.{group}"),
        };
        let message = format!(
            "{qualified} {name:?} is invalid: {}",
            field::aggregate(errors)
        );
        let causes = field::readable(errors).iter().map(|error| Cause {
            reason: error.kind.cause().to_owned(),
            message: error.body(),
            field: error.path.to_string(),
        });
        let details = Box::new(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes: causes.collect(),
            ..Details::default()
        });
        Self {
            details,
            ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
        }
    }

    /// The caller may not do this.
    pub fn forbidden(about: About<'_>, why: &str) -> Self {
        let message = match about.name {
            "" => format!("{} is forbidden: {why}", about.qualified()),
            name => format!("{} {name:?} is forbidden: {why}", about.qualified()),
        };
        Self::about(StatusCode::FORBIDDEN, "Forbidden", about, message)
    }

    /// The caller may not use this path.
    pub fn forbidden_path(path: &str, why: &str) -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "Forbidden",
            format!("forbidden: {why} path {path:?}"),
        )
    }

    /// Nobody knows who the caller is.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The patch is well-formed but cannot be carried out.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    /// The resource does not know this verb.
    pub fn method_not_allowed(about: About<'_>, verb: &str) -> Self {
        let message = "the server does not allow this method on the requested resource";
        tracing::debug!(resource = about.resource, verb, "verb is not supported");
        Self::about(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            about,
            message.to_owned(),
        )
    }

    /// What is asked for can be read, and not written this way.
    pub fn read_only(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// None of the forms that the caller accepts can be had.
    pub fn not_acceptable(supported: &[&str]) -> Self {
        let message = format!(
            "only the following media types are accepted: {}",
            supported.join(", ")
        );
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The body is in a form that nobody here reads.
    pub fn unsupported_media_type(supported: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            supported.join(", ")
        );
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            message,
        )
    }

    /// The body is larger than the limit.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            message,
        )
    }

    /// The object is larger than the store takes.
    pub fn too_large_object(why: impl std::fmt::Display) -> Self {
        let message = format!("Request entity too large: {why}");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            message,
        )
    }

    /// The body did not come within its time.
    pub fn body_too_slow() -> Self {
        let message = "the request's body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message)
    }

    /// The caller asks for more than its share.
    pub fn too_many_requests(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        Self {
            retry_after: Some(1),
            ..error
        }
    }

    /// The revision asked for is gone.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The revision asked for has not happened yet.
    pub fn future_revision(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        let details = Box::new(Details {
            causes: vec![cause],
            ..Details::default()
        });
        let error = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
        Self {
            details,
            retry_after: Some(1),
            ..error
        }
    }

    /// It cannot be done now, but may be later.
    pub fn unavailable(message: impl Into<String>) -> Self {
        let error = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            message,
        );
        Self {
            retry_after: Some(1),
            ..error
        }
    }

    /// Whoever would have to be asked is away. Without a time to try again: clients would wait
    /// for it, and people for them.
    pub fn away(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            message,
        )
    }

    /// Whoever was asked for the answer did not give one in time.
    pub fn gateway_timeout(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
    }

    /// Somebody would have to be upgraded for this.
    pub fn not_implemented(message: impl Into<String>) -> Self {
        // Kubernetes has no reason of this name; clients go by the code then.
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    /// A fault of ours.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {message}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// The same error with one more cause.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        self.details.causes.push(Cause {
            reason: reason.to_owned(),
            message: message.to_owned(),
            field: field.to_owned(),
        });
        self
    }

    /// As an answer.
    pub fn response(&self) -> http::Response<crate::Body> {
        crate::context::failure(self)
    }

    /// The `Status` object that says this.
    pub fn to_status(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), json!(token));
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code.as_u16(),
        });
        let details = self.details_json();
        // Clients look into the details of what is not found or not allowed without asking whether
        // there are some.
        let is_assumed = [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];
        if !details.is_empty() || is_assumed.contains(&self.code) {
            status["details"] = Value::Object(details);
        }
        status
    }

    fn details_json(&self) -> Map<String, Value> {
        let details = &self.details;
        let mut map = Map::new();
        let texts = [
            ("name", &details.name),
            ("group", &details.group),
            ("kind", &details.kind),
            ("uid", &details.uid),
        ];
        for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            map.insert(key.to_owned(), json!(text));
        }
        if !details.causes.is_empty() {
            let causes = details.causes.iter().map(Cause::to_json).collect();
            map.insert("causes".to_owned(), Value::Array(causes));
        }
        if let Some(seconds) = self.retry_after {
            map.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        map
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl Cause {
    fn to_json(&self) -> Value {
        let mut map = Map::new();
        let texts = [
            ("reason", &self.reason),
            ("message", &self.message),
            ("field", &self.field),
        ];
        for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            map.insert(key.to_owned(), json!(text));
        }
        Value::Object(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_the_shape_that_clients_read() {
        let about = About {
            group: "apps",
            resource: "deployments",
            name: "web",
        };
        assert_eq!(
            Error::not_found(about).to_status(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "deployments.apps \"web\" not found", "reason": "NotFound",
                "details": {"name": "web", "group": "apps", "kind": "deployments"}, "code": 404,
            })
        );
    }

    #[test]
    fn invalid_objects_list_every_cause_once() {
        let missing = field::Error::required(field::Path::new("spec"), "");
        let other = field::Error::required(field::Path::new("data"), "");
        let error = Error::invalid("", "ConfigMap", "a", &[missing.clone(), missing, other]);
        assert_eq!(
            error.message,
            "ConfigMap \"a\" is invalid: [spec: Required value, data: Required value]"
        );
        assert_eq!(error.details.causes.len(), 3);
        assert_eq!(error.details.causes[0].field, "spec");
    }
}
