//! `/zones/<zone>/…`: the APIs of zones, through the hub.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use deltaplane_api::identity::Identity;
use deltaplane_apiserver::{ApiServer, Error};
use deltaplane_fleet::Fleet;
use deltaplane_plane::{Route, RouteBody};
use deltaplane_runtime::Clock;
use deltaplane_sync::ZoneName;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::RwLock;
use tower::ServiceExt;

/// Answers for zones.
pub(crate) struct ZonesRoute {
    fleet: Fleet,
    #[expect(dead_code, reason = "deadlines of the reverse channel")]
    clock: Clock,
    /// The hub's own, which knows who asks.
    hub: OnceLock<ApiServer>,
    local: RwLock<BTreeMap<ZoneName, ApiServer>>,
}

const PREFIX: &str = "/zones/";

// === impl ZonesRoute ===

impl ZonesRoute {
    pub(crate) fn new(fleet: Fleet, clock: Clock) -> Self {
        Self {
            fleet,
            clock,
            hub: OnceLock::new(),
            local: RwLock::default(),
        }
    }

    /// From now on it is known who asks.
    pub(crate) fn attach(&self, hub: ApiServer) {
        let _ = self.hub.set(hub);
    }

    pub(crate) fn add_local(&self, zone: ZoneName, api: ApiServer) {
        self.local.write().insert(zone, api);
    }

    fn find(&self, path: &str) -> Result<(ZoneName, String), Error> {
        let rest = path.strip_prefix(PREFIX).unwrap_or_default();
        let (zone, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let zone: ZoneName = zone
            .parse()
            .map_err(|error: deltaplane_sync::NameError| Error::bad_request(error.to_string()))?;
        Ok((zone, format!("/{rest}")))
    }

    fn route(&self, request: Request<Incoming>) -> Result<BoxFuture<'static, Answer>, Error> {
        let hub = self.hub.get();
        let hub = hub.ok_or_else(|| Error::unavailable("the hub is not ready"))?;
        let (mut parts, body) = request.into_parts();
        let user = hub.authenticate(&parts)?;
        let (zone, path) = self.find(parts.uri.path())?;
        let Some(api) = self.local.read().get(&zone).cloned() else {
            return Err(self.unreachable(&zone));
        };
        parts.uri = with_path(&parts.uri, &path)?;
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
        Ok(answer
            .map(|answer| match answer {
                Ok(answer) => answer.map(boxed),
                Err(never) => match never {},
            })
            .boxed())
    }

    fn unreachable(&self, zone: &ZoneName) -> Error {
        match self.fleet.is_zone(zone) {
            true => Error::unavailable(format!("zone {zone} is not connected")),
            false => Error::bad_request(format!("there is no zone {zone}")),
        }
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
            Err(error) => {
                let answer = error.response().map(boxed);
                std::future::ready(answer).boxed()
            }
        }
    }
}

fn boxed(body: deltaplane_apiserver::Body) -> RouteBody {
    body.map_err(Into::into).boxed_unsync()
}

fn with_path(uri: &Uri, path: &str) -> Result<Uri, Error> {
    let query = uri
        .query()
        .map_or_else(String::new, |query| format!("?{query}"));
    format!("{path}{query}").parse().map_err(Error::internal)
}
