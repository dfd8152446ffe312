//! What operators see of a request that was answered: metrics, and a line in the log.
//!
//! Every request is logged at `debug`; at `warn` those that failed for a fault of the server that
//! nobody else tells of, and those that took long for another reason than the client's. All lines have the same fields and name the request by its audit id,
//! which its answer carries too.

use std::time::Duration;

use deltaplane_api::identity::Identity;
use http::{HeaderValue, StatusCode};

use crate::auth;
use crate::metrics::Metrics;
use crate::request::{Target, Verb};

/// Requests that take longer are worth a warning; watches begin when they can.
const SLOW: Duration = Duration::from_secs(1);

/// A request and what became of it.
pub(crate) struct Answered<'a> {
    /// None if it made no sense.
    pub(crate) target: Option<&'a Target>,
    /// None if it is not known who asked.
    pub(crate) user: Option<&'a Identity>,
    pub(crate) audit: &'a HeaderValue,
    pub(crate) code: StatusCode,
    pub(crate) took: Duration,
    /// The answer waits for something that the client asked for.
    pub(crate) is_long_poll: bool,
}

/// The same fields at every level.
macro_rules! line {
    ($level:expr, $answered:expr, $message:literal) => {
        tracing::event!(
            $level,
            audit_id = %String::from_utf8_lossy($answered.audit.as_bytes()),
            verb = $answered.verb(),
            resource = %$answered.resource(),
            object = %$answered.object(),
            user = $answered.user.map_or("", |user| &user.name),
            code = $answered.code.as_u16(),
            seconds = $answered.took.as_secs_f64(),
            $message
        )
    };
}

// === impl Answered ===

impl Answered<'_> {
    pub(crate) fn count(&self, metrics: &Metrics) {
        metrics.answered(self.verb(), self.code.as_u16(), self.took.as_secs_f64());
    }

    pub(crate) fn log(&self) {
        if self.is_fault() {
            line!(tracing::Level::WARN, self, "request failed");
        } else if self.is_slow() {
            line!(tracing::Level::WARN, self, "slow request");
        } else {
            line!(tracing::Level::DEBUG, self, "request");
        }
    }

    fn verb(&self) -> &'static str {
        match self.target {
            Some(Target::Resource(request)) => request.verb.as_str(),
            Some(Target::Path { .. }) => "path",
            None => "invalid",
        }
    }

    /// `deployments.apps/scale`, or the path.
    fn resource(&self) -> String {
        match self.target {
            Some(Target::Resource(request)) => {
                let dot = if request.group.is_empty() { "" } else { "." };
                let slash = if request.subresource.is_empty() {
                    ""
                } else {
                    "/"
                };
                let (of, group, sub) = (&request.resource, &request.group, &request.subresource);
                format!("{of}{dot}{group}{slash}{sub}")
            }
            Some(Target::Path { path, .. }) => path.clone(),
            None => String::new(),
        }
    }

    /// `namespace/name`, as far as the request names them.
    fn object(&self) -> String {
        match self.target {
            Some(Target::Resource(request)) => format!("{}/{}", request.namespace, request.name),
            Some(Target::Path { .. }) | None => String::new(),
        }
    }

    /// What is unavailable (503) says so itself, once; too early a question (504) is the client's
    /// mistake. Not being ready is an answer.
    fn is_fault(&self) -> bool {
        let told = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
        self.code.is_server_error() && !told.contains(&self.code) && !self.is_health()
    }

    /// Watches and long polls take as long as the client wants, and slow uploads are the client's.
    fn is_slow(&self) -> bool {
        let waits = self.is_watch() || self.is_long_poll;
        self.took > SLOW && !waits && self.code != StatusCode::REQUEST_TIMEOUT
    }

    fn is_watch(&self) -> bool {
        matches!(self.target, Some(Target::Resource(request)) if request.verb == Verb::Watch)
    }

    /// Not being ready is an answer, and asked for all the time.
    fn is_health(&self) -> bool {
        matches!(self.target, Some(Target::Path { path, .. }) if auth::is_public(path))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use http::Method;
    use parking_lot::Mutex;
    use tracing::Level;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged at `level` and above.
    fn logged(level: Level, path: &str, code: u16, millis: u64) -> String {
        let watch = path.ends_with("?watch");
        let target = Target::parse(&Method::GET, path.trim_end_matches("?watch"), watch);
        let user = Identity::authenticated("eve", &[]);
        let answered = Answered {
            target: target.as_ref().ok(),
            user: Some(&user),
            audit: &HeaderValue::from_static("id-1"),
            code: StatusCode::from_u16(code).unwrap(),
            took: Duration::from_millis(millis),
            is_long_poll: path.ends_with("/_wait"),
        };
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || answered.log());
        let bytes = lines.0.lock().clone();
        String::from_utf8(bytes).unwrap().trim().to_owned()
    }

    #[test]
    fn every_request_can_be_seen_and_those_that_matter_are() {
        let scale = "/apis/apps/v1/namespaces/a/deployments/d/scale";
        let fields =
            "audit_id=id-1 verb=\"get\" resource=deployments.apps/scale object=a/d user=\"eve\"";
        assert_eq!(
            logged(Level::DEBUG, scale, 200, 3),
            format!("DEBUG request {fields} code=200 seconds=0.003"),
        );
        assert_eq!(
            logged(Level::WARN, scale, 500, 3),
            format!("WARN request failed {fields} code=500 seconds=0.003"),
        );
        assert_eq!(
            logged(Level::WARN, scale, 404, 1500),
            format!("WARN slow request {fields} code=404 seconds=1.5"),
        );
        for (path, code, millis) in [
            (scale, 200, 1000),
            (scale, 403, 3),
            ("/api/v1/pods?watch", 200, 9000),
            ("/apis/apps/v1/namespaces/a/deployments/d/_wait", 200, 9000),
            ("/readyz", 500, 3),
        ] {
            assert_eq!(logged(Level::INFO, path, code, millis), "", "{path} {code}");
        }
    }
}
