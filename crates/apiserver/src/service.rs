//! From a request to an answer: who asks, for what, may they, and who carries it out.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use deltaplane_api::identity::{Identity, MASTERS};
use deltaplane_api::selector::FieldSelector;
use deltaplane_runtime::{TransitMonitor, heavy};
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HeaderName, HeaderValue, VARY,
};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;

use crate::ApiServer;
use crate::answered::Answered;
use crate::auth::{self, Caller};
use crate::body::{Body, COMPRESSOR, Converted, RENDERED_AHEAD, UNCOUNTED};
use crate::context::{Answer, Cx, failure};
use crate::costly;
use crate::decode;
use crate::error::Error;
use crate::flow::{AnswerMemory, AnswerShare, Flow, Turn, Upload};
use crate::negotiate::{self, Encoding, Form};
use crate::options::Query;
use crate::paths;
use crate::present;
use crate::protobuf::{self, answers};
use crate::request::{ResourceRequest, Target, Verb};
use crate::reviews::{self, Question};
use crate::seams::{SubresourceRequest, VirtualSubresource};
use crate::server::Inner;
use crate::table::Include;
use crate::upload::{self, BoxError};
use crate::verbs::watch::slot::Slot;
use crate::verbs::write::Section;
use crate::verbs::{create, delete, get, list, patch, scale, update, watch};

/// Larger answers are compressed for clients that ask for it.
const GZIP_FROM: u64 = 128 << 10;

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
    let mut body = pin!(body);
    let gzip = negotiate::accepts_gzip(&parts.headers);
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let indented = negotiate::wants_indentation(&parts.headers, &query);
    let target = Target::parse(&parts.method, parts.uri.path(), query.flag("watch"));
    let outcome = match &target {
        Ok(target) => {
            let incoming = Incoming {
                server,
                parts: &parts,
                query,
            };
            incoming.carry_out(target, body.as_mut()).await
        }
        Err(bad) => Outcome::read(None, failure(&bad.error(&parts.method))),
    };
    let Outcome {
        user,
        answer,
        has_written,
    } = outcome;
    let share = user.as_ref().and_then(|user| share(server, user));
    // There was memory for it before anything was written (`reserve`).
    let owed = share
        .as_ref()
        .filter(|_| has_written)
        .map(AnswerShare::owed);
    let delivery_share = owed.or_else(|| share.clone());
    let mut answer = encoded(answer, &parts.headers);
    if let Some(share) = &delivery_share
        && let Err(error) = count(&mut answer, share)
    {
        answer = encoded(failure(&error), &parts.headers);
    }
    let audit = audit_id(&parts.headers);
    let answered = Answered {
        target: target.as_ref().ok(),
        user: user.as_ref(),
        audit: &audit,
        code: answer.status(),
        took: server.took(started),
        is_long_poll: target
            .as_ref()
            .is_ok_and(|target| is_long_poll(server, target)),
    };
    answered.count(&server.metrics);
    answered.log();
    if !body.is_end_stream() && !is_kept_back(&parts.headers, answer.status()) {
        let late = server.config.clock.sleep(upload::PASSING_TIME);
        tokio::select! {
            () = upload::pass(body) => {}
            () = late => {}
        }
    }
    let headers = answer.headers_mut();
    headers.insert(HeaderName::from_static("audit-id"), audit);
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    let mut answer = match (indented, gzip) {
        (true, _) if !is_openapi(&parts) => indent(answer),
        (true | false, true) => compressed(answer, share.as_ref()),
        (true | false, false) => answer,
    };
    let transit = parts.extensions.get::<TransitMonitor>().cloned();
    answer.body_mut().deliver(delivery_share, transit);
    answer
}

/// The share of memory that counts what is rendered for a user. None for administrators.
fn share(server: &Inner, user: &Identity) -> Option<AnswerShare> {
    (!user.is_in(MASTERS)).then(|| server.flow.answers(&user.name))
}

/// Counts what was rendered of an answer until its client has taken it.
fn count(answer: &mut Answer, share: &AnswerShare) -> Result<(), Error> {
    let bytes = answer.body().rendered_bytes();
    if bytes < UNCOUNTED {
        return Ok(());
    }
    let memory = share.take(bytes).ok_or_else(too_many_unread)?;
    answer.body_mut().count_with(memory);
    Ok(())
}

fn too_many_unread() -> Error {
    Error::too_many_requests(
        "too many answers wait to be read, please read them and try again later",
    )
}

/// The number by which logs speak of this request: the client's, or a new one.
fn audit_id(headers: &http::HeaderMap) -> HeaderValue {
    let sent = headers.get("audit-id").filter(|id| id.len() <= 64).cloned();
    sent.unwrap_or_else(|| {
        let mut buffer = uuid::Uuid::encode_buffer();
        let text = uuid::Uuid::new_v4().hyphenated().encode_lower(&mut buffer);
        HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("-"))
    })
}

/// Whether the rest of the body will not come: because the client waits to be asked for it, or
/// because it was too slow already.
fn is_kept_back(headers: &http::HeaderMap, code: StatusCode) -> bool {
    let waits = headers.contains_key(EXPECT) && code != StatusCode::PAYLOAD_TOO_LARGE;
    waits || code == StatusCode::REQUEST_TIMEOUT
}

/// Documents that nobody reads as they are, and that have a hash of their bytes.
fn is_openapi(parts: &http::request::Parts) -> bool {
    parts.uri.path().starts_with("/openapi/")
}

/// In protobuf for clients that take no JSON. What has no protobuf encoding stays as it is, which its
/// type says.
fn encoded(answer: Answer, headers: &http::HeaderMap) -> Answer {
    let kind = answer.headers().get(CONTENT_TYPE);
    if !negotiate::wants_protobuf(headers) {
        return answer;
    }
    if kind.is_none_or(|kind| kind != "application/json") {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    let size = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let convert = || body.converted(answers::object, answers::events);
    let (body, kind) = match costly::work_on(size, convert) {
        Converted::Whole(body) => (body, protobuf::MEDIA_TYPE),
        Converted::Stream(body) => (body, answers::WATCH_MEDIA_TYPE),
        Converted::Not(body) => return Response::from_parts(parts, body),
    };
    let kind = HeaderValue::from_static(kind);
    parts.headers.insert(CONTENT_TYPE, kind);
    Response::from_parts(parts, body)
}

/// For people who read with curl.
fn indent(answer: Answer) -> Answer {
    let kind = answer.headers().get(CONTENT_TYPE);
    match kind.is_some_and(|kind| kind == "application/json") {
        true => answer.map(Body::indented),
        false => answer,
    }
}

/// A large answer compressed, if there is memory for it.
fn compressed(answer: Answer, share: Option<&AnswerShare>) -> Answer {
    let size = answer.body().size_hint();
    let is_large = match size.exact() {
        Some(exact) => exact >= GZIP_FROM,
        // The beginning of one that is rendered as the client reads.
        None => size.lower() >= RENDERED_AHEAD as u64,
    };
    let memory = match share {
        Some(_) | None if !is_large => return answer,
        Some(share) => match share.take(COMPRESSOR) {
            Some(memory) => Some(memory),
            None => return answer,
        },
        None => None,
    };
    let mut answer = answer.map(|body| body.gzip(memory));
    answer
        .headers_mut()
        .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer
        .headers_mut()
        .append(VARY, HeaderValue::from_static("Accept-Encoding"));
    answer
}

/// A request that has been read so far as its head.
struct Incoming<'a> {
    server: &'a Arc<Inner>,
    parts: &'a http::request::Parts,
    query: Query,
}

/// What a request came to.
struct Outcome {
    /// None if it is not known who asked.
    user: Option<Identity>,
    answer: Answer,
    has_written: bool,
}

/// A request that may be carried out now.
struct Admitted {
    turn: Turn,
    body: Bytes,
    _upload: Upload,
}

// === impl Outcome ===

impl Outcome {
    /// An answer to a request that wrote nothing.
    fn read(user: Option<Identity>, answer: Answer) -> Self {
        Self {
            user,
            answer,
            has_written: false,
        }
    }
}

// === impl Incoming ===

impl Incoming<'_> {
    async fn carry_out<B>(self, target: &Target, body: Pin<&mut B>) -> Outcome
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        // Watches have a parameter of their own for it.
        if !matches!(target, Target::Resource(request) if request.verb == Verb::Watch)
            && let Err(error) = self.query.check_timeout()
        {
            return Outcome::read(None, failure(&error));
        }
        let caller = match auth::caller(self.server, &self.parts.extensions, &self.parts.headers) {
            Ok(caller) => caller,
            Err(error) => return Outcome::read(None, failure(&error)),
        };
        let admitted = match self.admit(&caller.user, target, body).await {
            Ok(admitted) => admitted,
            Err(error) => return Outcome::read(Some(caller.user), failure(&error)),
        };
        match target {
            Target::Path { path, .. } => {
                let (method, headers) = (&self.parts.method, &self.parts.headers);
                let outcome = paths::answer(self.server, method, path, headers, &self.query);
                let answer = outcome.unwrap_or_else(|error| failure(&error));
                Outcome::read(Some(caller.user), answer)
            }
            Target::Resource(request) => self.resource(caller, request.clone(), admitted).await,
        }
    }

    /// The body and a turn, for those who may do this. The body comes first: one that never ends
    /// must not take a place from others.
    async fn admit<B>(
        &self,
        user: &Identity,
        target: &Target,
        body: Pin<&mut B>,
    ) -> Result<Admitted, Error>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        auth::authorize(self.server, user, target, &self.selected_name(target))?;
        let mut upload = if user.is_in(MASTERS) {
            Upload::exempt()
        } else {
            self.server.flow.upload(&user.name)
        };
        let body = match target {
            Target::Path { .. } => Bytes::new(),
            Target::Resource(_) => self.read(body, &mut upload).await?,
        };
        Ok(Admitted {
            turn: self.turn(user, target).await?,
            body,
            _upload: upload,
        })
    }

    /// The whole body, which counts against its user's share while it comes and therefore may not
    /// take for ever.
    async fn read<B>(&self, body: Pin<&mut B>, upload: &mut Upload) -> Result<Bytes, Error>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let config = &self.server.config;
        tokio::select! {
            read = upload::read(body, config.limits.body, upload) => read,
            () = config.clock.sleep(config.limits.body_time) => Err(Error::body_too_slow()),
        }
    }

    /// The name that the field selector of a list or watch names, if it is one. Of other verbs it
    /// says nothing: who may write one object may not write all of them under its name.
    fn selected_name(&self, target: &Target) -> String {
        let reads = |verb: Verb| matches!(verb, Verb::List | Verb::Watch);
        let fields = match target {
            Target::Resource(request) if reads(request.verb) => self.query.get("fieldSelector"),
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
        caller: Caller,
        target: ResourceRequest,
        admitted: Admitted,
    ) -> Outcome {
        let Admitted {
            turn,
            body,
            _upload,
        } = admitted;
        if reviews::is_question(&target) {
            let ask = || self.question(&caller.user, &target, &body);
            let outcome = match target.resource.as_str() {
                // Its answer grows with the roles of the user.
                "selfsubjectrulesreviews" => heavy(ask),
                _ => costly::work_on(body.len(), ask),
            };
            let answer = outcome.unwrap_or_else(|error| failure(&error));
            return Outcome::read(Some(caller.user), answer);
        }
        let registry = self.server.registry.load();
        let kind = registry.get(&target.group, &target.version, &target.resource);
        let Some(kind) = kind.map(Arc::clone) else {
            let error = Error::no_such_resource(target.about());
            return Outcome::read(Some(caller.user), failure(&error));
        };
        drop(registry);
        let warnings = kind.deprecation.iter().cloned().collect();
        let mut cx = Cx {
            server: Arc::clone(self.server),
            now: self.server.now(),
            user: caller.user,
            until: caller.until,
            kind,
            target,
            query: self.query,
            headers: self.parts.headers.clone(),
            body,
            warnings,
            visible: None,
            turn,
        };
        // Held until what is rendered is counted.
        let _reserved = match reserve(&cx) {
            Ok(reserved) => reserved,
            Err(error) => return Outcome::read(Some(cx.user), failure(&error)),
        };
        let is_costly = is_costly(&cx);
        // Computed subresources may write as the hub, which would wait for a place behind them.
        let is_bounded = !cx.user.is_in(MASTERS) && !cx.target.subresource.starts_with('_');
        let place = is_bounded.then(|| cx.user.name.clone());
        let carried_out = dispatch(&mut cx, &self.parts.method, self.parts.uri.query());
        let outcome = if is_costly {
            let _place = match place {
                Some(user) => self.server.costly.take(&user).await,
                None => None,
            };
            costly::run(carried_out).await
        } else {
            carried_out.await
        };
        let answer = cx.finish(outcome.unwrap_or_else(|error| failure(&error)));
        let is_virtual = cx.target.subresource.starts_with('_');
        Outcome {
            has_written: cx.visible.is_some() || is_virtual && may_write(&cx),
            user: Some(cx.user),
            answer,
        }
    }

    fn question(
        &self,
        user: &Identity,
        target: &ResourceRequest,
        body: &Bytes,
    ) -> Result<Answer, Error> {
        negotiate::plain(&self.parts.headers)?;
        let content_type = self.parts.headers.get(CONTENT_TYPE);
        let content_type = content_type
            .and_then(|one| one.to_str().ok())
            .unwrap_or_default();
        let question = Question {
            server: self.server,
            user,
            target,
            content_type,
            body,
        };
        question.answer()
    }
}

/// Returns true if a request may take long to carry out: it is large, or the stored object is, or the
/// one can make the other large.
fn is_costly(cx: &Cx) -> bool {
    let target = &cx.target;
    match target.verb {
        Verb::DeleteCollection => true,
        // Fields are read from the bodies of all objects.
        Verb::List | Verb::Watch => !cx.query.get("fieldSelector").is_empty(),
        Verb::Get | Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {
            let key = cx.server.key(&cx.kind, &target.namespace, &target.name);
            let stored = key.ok().and_then(|key| cx.server.store.get(&key));
            let stored = stored.map_or(0, |stored| stored.bytes().len());
            cx.body.len() + stored >= costly::LARGE || is_amplifying(cx)
        }
    }
}

/// Returns true if a small body can stand for a large object: by copies of a JSON patch, or by the
/// aliases of YAML.
fn is_amplifying(cx: &Cx) -> bool {
    match decode::essence(cx.content_type()) {
        "application/json-patch+json" => true,
        "application/yaml" | "application/apply-patch+yaml" => cx.body.contains(&b'&'),
        _ => false,
    }
}

/// Carries out a request for a kind that is served.
async fn dispatch(cx: &mut Cx, method: &Method, query: Option<&str>) -> Result<Answer, Error> {
    check_scope(cx)?;
    if must_be_fresh(cx.target.verb, &cx.query) {
        cx.server.fresh().await?;
    }
    if cx.target.subresource.starts_with('_') {
        return virtual_subresource(cx, method, query.unwrap_or_default()).await;
    }
    if cx.target.subresource == "scale" {
        return match cx.kind.scale.clone() {
            Some(paths) => scale::scale(cx, paths).await,
            None => Err(Error::no_such_resource(cx.target.about())),
        };
    }
    let section = Section::of(&cx.kind, &cx.target.subresource);
    let section = section.ok_or_else(|| no_such_subresource(cx))?;
    // Before anything is done: nobody writes and is then told that the answer cannot be read.
    let several = matches!(cx.target.verb, Verb::List | Verb::Watch);
    let (form, encoding) = negotiate::answer(&cx.headers, several)?;
    if cx.kind.is_custom() && form == Form::Object && encoding == Encoding::Protobuf {
        return Err(Error::not_acceptable(&negotiate::JSON_ALONE));
    }
    Include::parse(&cx.query)?;
    let refused = |cx: &Cx| Error::method_not_allowed(cx.target.about(), cx.target.verb.as_str());
    match (cx.target.verb, section) {
        (Verb::Get, Section::Main | Section::Status | Section::Computed) => get::get(cx),
        (Verb::Update, section) => update::update(cx, section).await,
        (Verb::Patch, Section::Main | Section::Status | Section::Computed) => {
            patch::patch(cx, section).await
        }
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

/// What a running pod would answer gets a reason: people ask for it and wonder.
fn no_such_subresource(cx: &Cx) -> Error {
    let of_a_running_one = ["attach", "exec", "log", "portforward", "proxy"];
    match cx.kind.is("", "pods") && of_a_running_one.contains(&cx.target.subresource.as_str()) {
        true => Error::nothing_runs(cx.target.about(), &cx.target.subresource),
        false => Error::no_such_resource(cx.target.about()),
    }
}

/// Whether what is read must show all that was acknowledged before, to whomever: always, unless
/// the client says that anything will do. Nobody writes on what they read as old.
fn must_be_fresh(verb: Verb, query: &Query) -> bool {
    match verb {
        Verb::Get | Verb::List | Verb::Watch => query.get("resourceVersion") != "0",
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => true,
    }
}

/// Objects of namespaced kinds are reached through their namespace, others are not.
fn check_scope(cx: &Cx) -> Result<(), Error> {
    let in_namespace = !cx.target.namespace.is_empty() && !cx.kind.is("", "namespaces");
    let all_namespaces =
        cx.target.name.is_empty() && matches!(cx.target.verb, Verb::List | Verb::Watch);
    match (cx.kind.namespaced, in_namespace) {
        (false, true) => Err(Error::no_such_resource(cx.target.about())),
        (true, false) if !all_namespaces => {
            let verb = cx.target.verb.as_str();
            match cx.target.name.is_empty() {
                true => Err(Error::method_not_allowed(cx.target.about(), verb)),
                false => Err(Error::no_such_resource(cx.target.about())),
            }
        }
        (false, false) | (true, true | false) => Ok(()),
    }
}

async fn virtual_subresource(cx: &mut Cx, method: &Method, query: &str) -> Result<Answer, Error> {
    let handler = handler(cx).ok_or_else(|| Error::no_such_resource(cx.target.about()))?;
    let handler = Arc::clone(handler);
    let key = cx
        .server
        .key(&cx.kind, &cx.target.namespace, &cx.target.name)?;
    let stored = cx.server.store.get(&key);
    let object = stored.map(|stored| present::value(&cx.kind, &stored));
    if object.is_none() && handler.needs_object() {
        return Err(Error::not_found(cx.kind.about(&cx.target.name)));
    }
    let object = object.unwrap_or_default();
    let waiting = if handler.is_long_poll() {
        let slot = Slot::take(cx)?;
        cx.turn = Flow::exempt();
        Some(slot)
    } else {
        None
    };
    let request = SubresourceRequest {
        user: &cx.user,
        resource: cx.resource(&cx.target.name),
        object: &object,
        method,
        headers: &cx.headers,
        query,
        body: &cx.body,
        may: &|access| cx.may(access),
    };
    let answer = handler.handle(request).await;
    drop(waiting);
    answer
}

/// Returns true if a request waits for something that the client asked for.
fn is_long_poll(server: &Inner, target: &Target) -> bool {
    let Target::Resource(request) = target else {
        return false;
    };
    let mut subresources = server.config.subresources.iter();
    subresources.any(|one| one.name() == request.subresource && one.is_long_poll())
}

/// Who answers a request for a virtual subresource.
fn handler(cx: &Cx) -> Option<&Arc<dyn VirtualSubresource>> {
    let mut subresources = cx.server.config.subresources.iter();
    subresources.find(|one| one.name() == cx.target.subresource)
}

/// Memory for the answer to a write, before anything is written: afterwards it cannot be refused.
fn reserve(cx: &Cx) -> Result<Option<AnswerMemory>, Error> {
    let bytes = if may_write(cx) {
        expected_answer(cx)
    } else {
        0
    };
    match share(&cx.server, &cx.user) {
        Some(share) if bytes >= UNCOUNTED => {
            share.take(bytes).map(Some).ok_or_else(too_many_unread)
        }
        Some(_) | None => Ok(None),
    }
}

/// About how many bytes the answer to a write is rendered in.
fn expected_answer(cx: &Cx) -> usize {
    let target = &cx.target;
    if target.verb == Verb::DeleteCollection || target.subresource.starts_with('_') {
        return RENDERED_AHEAD;
    }
    let form = negotiate::answer(&cx.headers, false);
    let is_plain = matches!(form, Ok((Form::Object, Encoding::Json)) | Err(_));
    if is_plain && cx.kind.api_version == cx.kind.stored_as {
        // The answer is what is stored, or a dry run, which can still be refused.
        return 0;
    }
    let key = cx.server.key(&cx.kind, &target.namespace, &target.name);
    let stored = key.ok().and_then(|key| cx.server.store.get(&key));
    // Of what is sent, the names of its fields are stored once more.
    stored.map_or(0, |stored| stored.bytes().len()) + 2 * cx.body.len()
}

fn may_write(cx: &Cx) -> bool {
    match cx.target.verb {
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
            handler(cx).is_none_or(|handler| handler.writes())
        }
        Verb::Get | Verb::List | Verb::Watch => false,
    }
}
