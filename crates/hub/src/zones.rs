//! `/zones/<zone>/…`: the APIs of zones, through the hub.
//!
//! A zone in this process is called directly; another one is asked over its connection, which can
//! only be read through. Both see the hub's users by the same names. The zone's own accounts reach
//! a zone in this process as themselves, since the hub does not know their tokens.

mod asking;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use deltaplane_api::identity::{Identity, hub_user_in_zone};
use deltaplane_apiserver::{ApiServer, Error, ValidUntil};
use deltaplane_plane::{Route, RouteBody};
use deltaplane_sync::ZoneName;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{ALLOW, AUTHORIZATION, HeaderName, X_CONTENT_TYPE_OPTIONS};
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
    /// Returns true if the zone's object has this uid; false if there is no such object.
    fn is(&self, uid: Option<String>) -> bool {
        uid.is_some_and(|uid| *self.0.get_or_init(|| uid.clone()) == uid)
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
        let found = find(&parts.uri);
        let local = found.as_ref().ok().and_then(|(zone, _)| self.local(zone));
        if let (Ok((_, uri)), Some(api)) = (&found, &local)
            && is_of_zone(api, &parts)
        {
            parts.uri = uri.clone();
            return Ok(call(api.clone(), parts, body));
        }
        let (user, until) = hub.authenticate(&parts)?;
        let (zone, uri) = found?;
        parts.uri = uri;
        let Some(api) = local else {
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
        as_hub_user(&mut parts, &user, until)?;
        Ok(call(api, parts, body))
    }

    /// The API of a zone in this process, unless its object is gone or of another zone.
    fn local(&self, zone: &ZoneName) -> Option<ApiServer> {
        let (api, member) = self.local.read().get(zone).cloned()?;
        member.is(self.elsewhere.fleet.uid_of(zone)).then_some(api)
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

/// Returns true if a request shows a token of the zone's own, and no certificate.
fn is_of_zone(zone: &ApiServer, parts: &Parts) -> bool {
    parts.extensions.get::<Identity>().is_none() && zone.knows_token(&parts.headers)
}

/// Makes a request one of the hub's user as the zone sees them. The hub has judged already whom the
/// request acts as; the zone must not judge it again by its own roles.
fn as_hub_user(parts: &mut Parts, user: &Identity, until: Option<SystemTime>) -> Result<(), Error> {
    let names: Vec<HeaderName> = parts.headers.keys().cloned().collect();
    let dropped = names
        .into_iter()
        .filter(|name| *name == AUTHORIZATION || name.as_str().starts_with("impersonate-"));
    for name in dropped {
        parts.headers.remove(name);
    }
    let seen = hub_user_in_zone(&user.name, &user.groups).ok_or_else(Error::unauthorized)?;
    parts.extensions.insert::<Identity>(seen);
    if let Some(until) = until {
        parts.extensions.insert(ValidUntil(until));
    }
    Ok(())
}

fn call(api: ApiServer, parts: Parts, body: Incoming) -> BoxFuture<'static, Answer> {
    let answer = api.oneshot(Request::from_parts(parts, body));
    answer
        .map(|answer| match answer {
            Ok(mut answer) => {
                let nosniff = HeaderValue::from_static("nosniff");
                answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, nosniff);
                answer.map(boxed)
            }
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
        assert!(!member.is(None), "its object is not known yet");
        assert!(member.is(uid("first")));
        assert!(!member.is(None), "it was deleted, and nobody has its name");
        assert!(!member.is(uid("second")));
        assert!(member.is(uid("first")));
    }

    #[test]
    fn the_hubs_users_are_none_of_the_zone() {
        let request = Request::get("/api/v1/pods")
            .header("authorization", "Bearer abc")
            .header("impersonate-user", "admin")
            .header("impersonate-extra-scopes", "all")
            .header("impersonate-group", "system:masters")
            .header("impersonate-group", "ops")
            .header("accept", "application/json")
            .body(());
        let (mut parts, ()) = request.expect("legal").into_parts();
        let account = Identity::authenticated(
            "system:serviceaccount:default:web",
            &["system:serviceaccounts"],
        );
        let until = SystemTime::UNIX_EPOCH;
        as_hub_user(&mut parts, &account, Some(until)).expect("known");
        let left: Vec<&str> = parts.headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["accept"]);
        let seen = parts.extensions.get::<Identity>().expect("somebody");
        assert_eq!(seen.name, "hub:system:serviceaccount:default:web");
        assert!(seen.is_in("hub:system:serviceaccounts") && !seen.is_in("system:serviceaccounts"));
        assert_eq!(
            parts.extensions.get::<ValidUntil>(),
            Some(&ValidUntil(until))
        );
        assert!(as_hub_user(&mut parts, &Identity::anonymous(), None).is_err());
    }
}
