//! GET of one object.

use http::StatusCode;

use crate::context::{Answer, Cx, json};
use crate::error::Error;
use crate::options::revision;
use crate::present::{self, Presented};

pub(crate) fn get(cx: &Cx) -> Result<Answer, Error> {
    // Memory is fresh (`Inner::fresh`), so any revision that exists is old enough.
    match cx.query.get("resourceVersion") {
        "" | "0" => {}
        text => {
            let (wanted, current) = (revision(text)?, cx.server.store.revision().get());
            if wanted > current {
                return Err(Error::future_revision(wanted, current));
            }
        }
    }
    let key = cx
        .server
        .key(&cx.kind, &cx.target.namespace, &cx.target.name)?;
    let object = cx
        .server
        .store
        .get(&key)
        .ok_or_else(|| Error::not_found(cx.kind.about(&cx.target.name)))?;
    let body = present::one(cx, Presented::Stored(&object))?;
    Ok(json(StatusCode::OK, body))
}
