//! GET of one object.

use http::StatusCode;

use crate::context::{Answer, Cx, json};
use crate::error::Error;
use crate::negotiate;
use crate::options::revision;
use crate::present::{self, Presented};
use crate::table::Include;

pub(crate) fn get(cx: &Cx) -> Result<Answer, Error> {
    let form = negotiate::form(&cx.headers, false)?;
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
    let now = cx.now;
    let body = present::one(
        &cx.kind,
        Presented::Stored(&object),
        form,
        Include::parse(&cx.query),
        now,
    )?;
    Ok(json(StatusCode::OK, body))
}
