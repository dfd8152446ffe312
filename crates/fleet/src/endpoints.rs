//! What the hub computes about zones when it is asked.

mod object;
mod origins;
mod plan;
mod propagated;
mod reconcile;
mod rollout;
mod zone;

use deltaplane_apiserver::seams::{Access, SubresourceRequest};
use deltaplane_apiserver::{Body, Error};
use http::{Method, Response};
use serde_json::Value;

use crate::governing::Id;

pub use object::ObjectZones;
pub use origins::KindOrigins;
pub use plan::PolicyPlan;
pub use propagated::ZonePropagated;
pub use reconcile::ZoneReconcile;
pub use rollout::PolicyRollout;
pub use zone::ZoneSync;

fn json(value: &Value) -> Result<Response<Body>, Error> {
    let bytes = serde_json::to_vec(value).map_err(Error::internal)?;
    let response = Response::builder().header(http::header::CONTENT_TYPE, "application/json");
    response.body(Body::from(bytes)).map_err(Error::internal)
}

/// They are read, and nothing else.
fn only_get(request: &SubresourceRequest<'_>) -> Result<(), Error> {
    match *request.method {
        Method::GET => Ok(()),
        _ => Err(Error::bad_request("this can only be read: use GET")),
    }
}

/// Whether whoever asks may read an object at the hub.
fn may_read<'a>(request: &'a SubresourceRequest<'_>) -> impl Fn(&Id) -> bool + Send + Sync + 'a {
    |(kind, name)| {
        (request.may)(Access {
            verb: "get",
            group: kind.group(),
            kind: kind.kind(),
            namespace: name.namespace(),
            name: name.name(),
        })
    }
}

fn parameter(request: &SubresourceRequest<'_>, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(request.query.as_bytes());
    pairs
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}
