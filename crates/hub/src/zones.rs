//! `/zones/<zone>/…`: the APIs of zones, through the hub.
//!
//! A zone in this process is called directly; another one is asked over its connection, which can
//! only be read through.

mod asking;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use deltaplane_api::identity::Identity;
use deltaplane_apiserver::{ApiServer, Error};
use deltaplane_plane::{Route, RouteBody};
use deltaplane_sync::ZoneName;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{ALLOW, AUTHORIZATION};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::RwLock;
use tower::ServiceExt;

pub(crate) use asking::Asking;

/// Answers for zones.
pub(crate) struct ZonesRoute {
    /// The hub's own, which knows who asks.
    hub: OnceLock<ApiServer>,
    local: RwLock<BTreeMap<ZoneName, (ApiServer, Member)>>,
    elsewhere: Arc<Asking>,
}

/// Which zone of its name the one in this process is: it may have been deleted, and another have
/// joined under its name. Known as soon as its object is.
#[derive(Clone, Default)]
struct Member(Arc<OnceLock<String>>);

// === impl Member ===

impl Member {
    fn is(&self, uid: Option<String>) -> bool {
        match uid {
            Some(uid) => *self.0.get_or_init(|| uid.clone()) == uid,
            None => true,
        }
    }
}

const PREFIX: &str = "/zones/";

// === impl ZonesRoute ===

impl ZonesRoute {
    pub(crate) fn new(elsewhere: Asking) -> Self {
        Self {
            hub: OnceLock::new(),
            local: RwLock::default(),
            elsewhere: Arc::new(elsewhere),
        }
    }

    /// From now on it is known who asks.
    pub(crate) fn attach(&self, hub: ApiServer) {
        let _ = self.hub.set(hub);
    }

    pub(crate) fn add_local(&self, zone: ZoneName, api: ApiServer) {
        let member = Member::default();
        member.is(self.elsewhere.fleet.uid_of(&zone));
        self.local.write().insert(zone, (api, member));
    }

    fn route(&self, request: Request<Incoming>) -> Result<BoxFuture<'static, Answer>, Error> {
        let hub = self.hub.get();
        let hub = hub.ok_or_else(|| Error::unavailable("the hub is not ready"))?;
        let (mut parts, body) = request.into_parts();
        let (user, until) = hub.authenticate(&parts)?;
        let (zone, uri) = find(&parts.uri)?;
        parts.uri = uri;
        let local = self.local.read().get(&zone).cloned();
        let uid = || self.elsewhere.fleet.uid_of(&zone);
        let Some((api, _)) = local.filter(|(_, member)| member.is(uid())) else {
            let elsewhere = self.elsewhere.clone();
            let answer = async move {
                match elsewhere.answer(zone, &parts, (user, until)).await {
                    Ok(answer) => answer,
                    Err(error) => {
                        elsewhere.pass(body).await;
                        failed(error)
                    }
                }
            };
            return Ok(answer.boxed());
        };
        Ok(in_process(api, parts, body, user))
    }
}

type Answer = Response<RouteBody>;

impl Route for ZonesRoute {
    fn takes(&self, path: &str) -> bool {
        path.starts_with(PREFIX)
    }

    fn answer(&self, request: Request<Incoming>) -> BoxFuture<'static, Answer> {
        match self.route(request) {
            Ok(answer) => answer,
            Err(error) => std::future::ready(failed(error)).boxed(),
        }
    }
}

fn in_process(
    api: ApiServer,
    mut parts: Parts,
    body: Incoming,
    user: Identity,
) -> BoxFuture<'static, Answer> {
    for header in [
        AUTHORIZATION.as_str(),
        "impersonate-user",
        "impersonate-group",
        "impersonate-uid",
    ] {
        parts.headers.remove(header);
    }
    parts.extensions.insert::<Identity>(user);
    let answer = api.oneshot(Request::from_parts(parts, body));
    answer
        .map(|answer| match answer {
            Ok(answer) => answer.map(boxed),
            Err(never) => match never {},
        })
        .boxed()
}

fn failed(error: Error) -> Answer {
    let mut answer = error.response().map(boxed);
    if answer.status() == StatusCode::METHOD_NOT_ALLOWED {
        let reading = HeaderValue::from_static("GET, HEAD");
        answer.headers_mut().insert(ALLOW, reading);
    }
    answer
}

fn boxed(body: deltaplane_apiserver::Body) -> RouteBody {
    body.map_err(Into::into).boxed_unsync()
}

/// The zone that a request is for, and what it asks there.
fn find(uri: &Uri) -> Result<(ZoneName, Uri), Error> {
    let rest = uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let (zone, path) = rest.split_once('/').unwrap_or((rest, ""));
    let zone: ZoneName = zone
        .parse()
        .map_err(|error: deltaplane_sync::NameError| Error::bad_request(error.to_string()))?;
    let query = uri
        .query()
        .map_or_else(String::new, |query| format!("?{query}"));
    let there = format!("/{path}{query}").parse();
    Ok((zone, there.map_err(Error::internal)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_zone_of_the_same_name_is_not_asked_in_this_process() {
        let member = Member::default();
        let uid = |text: &str| Some(text.to_owned());
        assert!(member.is(None), "its object is not known yet");
        assert!(member.is(uid("first")));
        assert!(member.is(None), "it was deleted, and nobody has its name");
        assert!(!member.is(uid("second")));
    }
}
