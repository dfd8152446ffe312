//! From a request to an answer: who asks, for what, may they, and who carries it out.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use deltaplane_api::identity::{Identity, MASTERS};
use deltaplane_api::selector::FieldSelector;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, HeaderName, HeaderValue, VARY};
use http::{Method, Request, Response, StatusCode};

use crate::ApiServer;
use crate::auth;
use crate::body::Body;
use crate::context::{Answer, Cx, failure};
use crate::decode;
use crate::error::Error;
use crate::flow::{Flow, Turn};
use crate::negotiate;
use crate::options::Query;
use crate::paths;
use crate::present;
use crate::request::{BadTarget, ResourceRequest, Target, Verb};
use crate::reviews::{self, Question};
use crate::seams::SubresourceRequest;
use crate::server::Inner;
use crate::table::Include;
use crate::verbs::write::Section;
use crate::verbs::{create, delete, get, list, patch, scale, update, watch};

/// Larger answers are compressed for clients that ask for it.
const GZIP_FROM: u64 = 128 << 10;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<B> tower::Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = Arc::clone(&self.0);
        Box::pin(async move { Ok(answer(&server, request).await) })
    }
}

/// The answer to any request; never fails.
async fn answer<B>(server: &Arc<Inner>, request: Request<B>) -> Answer
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    let started = server.config.clock.now();
    let (parts, body) = request.into_parts();
    let gzip = negotiate::accepts_gzip(&parts.headers);
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let target = Target::parse(&parts.method, parts.uri.path(), query.flag("watch"));
    let mut answer = match &target {
        Ok(target) => {
            let incoming = Incoming {
                server,
                parts: &parts,
                query,
            };
            let outcome = incoming.carry_out(target, body).await;
            outcome.unwrap_or_else(|error| failure(&error))
        }
        Err(BadTarget::Encoding) => failure(&Error::bad_request("the path is not valid")),
        Err(BadTarget::Method) => {
            let about = crate::error::About {
                group: "",
                resource: "",
                name: "",
            };
            failure(&Error::method_not_allowed(about, parts.method.as_str()))
        }
    };
    record(server, target.as_ref().ok(), answer.status(), started);
    let headers = answer.headers_mut();
    let audit = headers_audit(&parts.headers);
    headers.insert(HeaderName::from_static("audit-id"), audit);
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    match gzip {
        true => compressed(answer),
        false => answer,
    }
}

/// The number by which logs speak of this request: the client's, or a new one.
fn headers_audit(headers: &http::HeaderMap) -> HeaderValue {
    let sent = headers.get("audit-id").filter(|id| id.len() <= 64).cloned();
    sent.unwrap_or_else(|| {
        let mut buffer = uuid::Uuid::encode_buffer();
        let text = uuid::Uuid::new_v4().hyphenated().encode_lower(&mut buffer);
        HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("-"))
    })
}

fn compressed(answer: Answer) -> Answer {
    use http_body::Body as _;
    let large = answer
        .body()
        .size_hint()
        .exact()
        .is_some_and(|size| size >= GZIP_FROM);
    if !large {
        return answer;
    }
    let mut answer = answer.map(Body::gzip);
    answer
        .headers_mut()
        .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer
        .headers_mut()
        .append(VARY, HeaderValue::from_static("Accept-Encoding"));
    answer
}

fn record(server: &Inner, target: Option<&Target>, status: StatusCode, started: SystemTime) {
    let verb = match target {
        Some(Target::Resource(request)) => request.verb.as_str(),
        Some(Target::Path { .. }) => "path",
        None => "invalid",
    };
    let now = server.config.clock.now();
    let seconds = now
        .duration_since(started)
        .unwrap_or_default()
        .as_secs_f64();
    server.metrics.answered(verb, status.as_u16(), seconds);
}

/// A request that has been read so far as its head.
struct Incoming<'a> {
    server: &'a Arc<Inner>,
    parts: &'a http::request::Parts,
    query: Query,
}

// === impl Incoming ===

impl Incoming<'_> {
    async fn carry_out<B>(self, target: &Target, body: B) -> Result<Answer, Error>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let known = self.parts.extensions.get::<Identity>();
        let user = auth::authenticate(self.server, known, &self.parts.headers)?;
        let user = auth::impersonation::impersonate(self.server, user, &self.parts.headers)?;
        let selected = self.selected_name(target);
        auth::authorize(self.server, &user, target, &selected)?;
        let _turn = self.turn(&user, target).await?;
        match target {
            Target::Path { path, .. } => paths::answer(
                self.server,
                &self.parts.method,
                path,
                &self.parts.headers,
                &self.query,
            ),
            Target::Resource(request) => {
                let body = self.read(body).await?;
                self.resource(user, request.clone(), body).await
            }
        }
    }

    /// The whole body, which holds a turn while it comes and therefore may not take for ever.
    async fn read<B>(&self, body: B) -> Result<Bytes, Error>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let config = &self.server.config;
        tokio::select! {
            read = decode::read(body, config.limits.body) => read,
            () = config.clock.sleep(config.limits.body_time) => Err(Error::body_too_slow()),
        }
    }

    /// The name that the field selector of a collection names, if it is one.
    fn selected_name(&self, target: &Target) -> String {
        let fields = match target {
            Target::Resource(request) if request.name.is_empty() => self.query.get("fieldSelector"),
            Target::Resource(_) | Target::Path { .. } => "",
        };
        let selector = fields.parse::<FieldSelector>().unwrap_or_default();
        selector
            .exact("metadata.name")
            .unwrap_or_default()
            .to_owned()
    }

    /// Health is asked for when there are no turns left. A watch holds its turn until it begins.
    async fn turn(&self, user: &Identity, target: &Target) -> Result<Turn, Error> {
        let waits = matches!(target, Target::Resource(_));
        match waits && !user.is_in(MASTERS) {
            true => self.server.flow.turn(&user.name).await,
            false => Ok(Flow::exempt()),
        }
    }

    async fn resource(
        self,
        user: Identity,
        target: ResourceRequest,
        body: Bytes,
    ) -> Result<Answer, Error> {
        if reviews::is_question(&target) {
            negotiate::plain(&self.parts.headers)?;
            let content_type = self.parts.headers.get(http::header::CONTENT_TYPE);
            let content_type = content_type
                .and_then(|one| one.to_str().ok())
                .unwrap_or_default();
            let question = Question {
                server: self.server,
                user: &user,
                target: &target,
                content_type,
                body: &body,
            };
            return question.answer();
        }
        let registry = self.server.registry.load();
        let kind = registry.get(&target.group, &target.version, &target.resource);
        let kind = Arc::clone(kind.ok_or_else(Error::no_such_path)?);
        drop(registry);
        let warnings = kind.deprecation.iter().cloned().collect();
        let mut cx = Cx {
            server: Arc::clone(self.server),
            now: self.server.now(),
            user,
            kind,
            target,
            query: self.query,
            headers: self.parts.headers.clone(),
            body,
            warnings,
        };
        let outcome = dispatch(&mut cx, &self.parts.method, self.parts.uri.query()).await;
        Ok(cx.finish(outcome.unwrap_or_else(|error| failure(&error))))
    }
}

/// Carries out a request for a kind that is served.
async fn dispatch(cx: &mut Cx, method: &Method, query: Option<&str>) -> Result<Answer, Error> {
    check_scope(cx)?;
    if cx.target.subresource.starts_with('_') {
        return virtual_subresource(cx, method, query.unwrap_or_default()).await;
    }
    if cx.target.subresource == "scale" {
        return match cx.kind.scale.clone() {
            Some(paths) => scale::scale(cx, paths).await,
            None => Err(Error::no_such_path()),
        };
    }
    let section = Section::of(&cx.kind, &cx.target.subresource).ok_or_else(Error::no_such_path)?;
    // Before anything is done: nobody writes and is then told that the answer cannot be read.
    let several = matches!(cx.target.verb, Verb::List | Verb::Watch);
    negotiate::form(&cx.headers, several)?;
    Include::parse(&cx.query)?;
    let refused = |cx: &Cx| Error::method_not_allowed(cx.target.about(), cx.target.verb.as_str());
    match (cx.target.verb, section) {
        (Verb::Get, Section::Main | Section::Status) => get::get(cx),
        (Verb::Update, section) => update::update(cx, section).await,
        (Verb::Patch, Section::Main | Section::Status) => patch::patch(cx, section).await,
        (Verb::List, Section::Main) => list::list(cx).await,
        (Verb::Watch, Section::Main) => watch::watch(cx).await,
        (Verb::Create, Section::Main) if cx.target.name.is_empty() => create::create(cx).await,
        (Verb::Delete, Section::Main) => delete::delete(cx).await,
        (Verb::DeleteCollection, Section::Main)
            if crate::discovery::verbs(&cx.kind).contains(&"deletecollection") =>
        {
            delete::delete_collection(cx).await
        }
        (
            Verb::Get
            | Verb::Patch
            | Verb::List
            | Verb::Watch
            | Verb::Create
            | Verb::Delete
            | Verb::DeleteCollection,
            _,
        ) => Err(refused(cx)),
    }
}

/// Objects of namespaced kinds are reached through their namespace, others are not.
fn check_scope(cx: &Cx) -> Result<(), Error> {
    let in_namespace = !cx.target.namespace.is_empty() && !cx.kind.is("", "namespaces");
    let all_namespaces =
        cx.target.name.is_empty() && matches!(cx.target.verb, Verb::List | Verb::Watch);
    match (cx.kind.namespaced, in_namespace) {
        (false, true) => Err(Error::no_such_path()),
        (true, false) if !all_namespaces => {
            let verb = cx.target.verb.as_str();
            match cx.target.name.is_empty() {
                true => Err(Error::method_not_allowed(cx.target.about(), verb)),
                false => Err(Error::no_such_path()),
            }
        }
        (false, false) | (true, true | false) => Ok(()),
    }
}

async fn virtual_subresource(cx: &Cx, method: &Method, query: &str) -> Result<Answer, Error> {
    let subresources = &cx.server.config.subresources;
    let handler = subresources
        .iter()
        .find(|one| one.name() == cx.target.subresource);
    let handler = Arc::clone(handler.ok_or_else(Error::no_such_path)?);
    let key = cx
        .server
        .key(&cx.kind, &cx.target.namespace, &cx.target.name)?;
    let stored = cx.server.store.get(&key);
    let stored = stored.ok_or_else(|| Error::not_found(cx.kind.about(&cx.target.name)))?;
    let object = present::value(&cx.kind, &stored);
    let request = SubresourceRequest {
        user: &cx.user,
        resource: cx.resource(&cx.target.name),
        object: &object,
        method,
        headers: &cx.headers,
        query,
        body: &cx.body,
    };
    handler.handle(request).await
}
