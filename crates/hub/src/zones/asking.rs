//! Questions to zones that are not in this process: who can be asked, what, and for how long.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use deltaplane_api::identity::Identity;
use deltaplane_api::time::Time;
use deltaplane_apiserver::Error;
use deltaplane_apiserver::error::About;
use deltaplane_fleet::{Fleet, Session, kinds};
use deltaplane_plane::RouteBody;
use deltaplane_runtime::{Clock, TaskGroup};
use deltaplane_sync::{QUERY, ZoneName};
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::question;
use http::header::{ACCEPT, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, Method, Response, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::query::{Answering, Channel, Channels, Deadline, Wanted};

/// Asks zones elsewhere.
pub(crate) struct Asking {
    pub(crate) fleet: Fleet,
    pub(crate) channels: Arc<Channels>,
    pub(crate) clock: Clock,
    /// How long an answer may take.
    pub(crate) limit: Duration,
    pub(crate) group: TaskGroup,
}

/// A zone that has just connected opens its streams one after the other.
const OPENING: Duration = Duration::from_secs(2);
/// What a client may send for nothing: as much as an API takes at most.
const PASSED: usize = 3 << 20;
const PASSING: Duration = Duration::from_secs(5);

// === impl Asking ===

impl Asking {
    /// The zone's answer to a request, whose path is the one in the zone.
    pub(crate) async fn answer(
        &self,
        zone: ZoneName,
        parts: &Parts,
        (user, until): (Identity, Option<SystemTime>),
    ) -> Result<Response<RouteBody>, Error> {
        if !self.fleet.is_zone(&zone) {
            return Err(unknown(&zone));
        }
        let body = wanted(parts, &zone)?;
        let session = self.session(&zone)?;
        let channel = self.channel(&session).await?;
        let answering = Answering {
            question: question(parts, user)?,
            deadline: deadline(&parts.uri, self.limit),
            until,
            clock: self.clock.clone(),
            group: self.group.clone(),
            transit: parts.extensions.get().cloned(),
            zone,
            body,
        };
        answering.ask(&channel).await
    }

    /// Lets the body of a refused request go by: clients lose answers that come while they write.
    pub(crate) async fn pass(&self, mut body: Incoming) {
        let mut left = PASSED;
        let passed = async {
            while let Some(Ok(frame)) = body.frame().await {
                let size = frame.data_ref().map_or(0, Bytes::len);
                match left.checked_sub(size) {
                    Some(rest) => left = rest,
                    None => return,
                }
            }
        };
        tokio::select! {
            () = passed => {}
            () = self.clock.sleep(PASSING) => {}
        }
    }

    /// The zone's newest session, if it is open and can be asked.
    fn session(&self, zone: &ZoneName) -> Result<Arc<Session>, Error> {
        let Some(session) = self.fleet.session_of(zone) else {
            return Err(Error::away(format!(
                "zone {zone} is not connected, and was not since the hub was started"
            )));
        };
        if !session.is_open() {
            let since = session.lost().unwrap_or_else(|| session.heard());
            return Err(Error::away(format!(
                "zone {zone} is not connected since {}; it goes on by itself, and can be asked again when it is back",
                Time::from_system(since)
            )));
        }
        match session.peer.features.contains(QUERY) {
            true => Ok(session),
            false => Err(Error::not_implemented(format!(
                "zone {zone} runs deltaplane {}, which cannot be asked through the hub: upgrade the zone, or ask it directly",
                session.peer.product
            ))),
        }
    }

    async fn channel(&self, session: &Session) -> Result<Arc<Channel>, Error> {
        let ended = session.ended();
        let found = tokio::select! {
            found = self.channels.of(&session.zone, session.id) => found,
            () = self.clock.sleep(OPENING) => None,
            () = ended.wait() => None,
        };
        found.ok_or_else(|| {
            let zone = &session.zone;
            Error::unavailable(format!(
                "zone {zone} is connected, and not ready to be asked"
            ))
        })
    }
}

fn unknown(zone: &ZoneName) -> Error {
    Error::not_found(About {
        group: kinds::GROUP,
        resource: "zones",
        name: zone.as_str(),
    })
}

/// Whether the request wants a body, if it only reads.
fn wanted(parts: &Parts, zone: &ZoneName) -> Result<Wanted, Error> {
    if parts.headers.contains_key(UPGRADE) {
        return Err(Error::read_only(format!(
            "zones are only read through the hub: exec, attach, cp and port-forward need the API of zone {zone} itself"
        )));
    }
    match parts.method {
        Method::GET => Ok(Wanted::Yes),
        Method::HEAD => Ok(Wanted::No),
        _ => Err(Error::read_only(format!(
            "writing to zone {zone} through the hub is off: write at the hub, which sends what belongs in the zone there, or at the API of the zone itself"
        ))),
    }
}

fn question(parts: &Parts, user: Identity) -> Result<question::Head, Error> {
    let path = parts.uri.path_and_query();
    let path = path.ok_or_else(|| Error::bad_request("the request has no path"))?;
    Ok(question::Head {
        path: path.as_str().to_owned(),
        accept: accept(&parts.headers)?,
        user: user.name,
        groups: user.groups,
        ..question::Head::default()
    })
}

fn accept(headers: &HeaderMap) -> Result<String, Error> {
    let values = headers.get_all(ACCEPT).iter();
    let values: Result<Vec<&str>, _> = values.map(|value| value.to_str()).collect();
    let values = values.map_err(|_| Error::bad_request("the header accept is not legal"))?;
    Ok(values.join(", "))
}

/// What follows things as they happen has no end that could be waited for.
fn deadline(uri: &Uri, limit: Duration) -> Deadline {
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let mut follows = query.filter(|(key, value)| {
        let is_set = !matches!(value.as_ref(), "false" | "0");
        matches!(key.as_ref(), "watch" | "follow") && is_set
    });
    // The old form of a watch, which is still served by clusters.
    let mut segments = uri.path().split('/').skip(1);
    let old = match segments.next() {
        Some("api") => segments.nth(1),
        Some("apis") => segments.nth(2),
        Some(_) | None => None,
    };
    match follows.next().is_some() || old == Some("watch") {
        true => Deadline::Head(limit),
        false => Deadline::Whole(limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_has_no_end() {
        let limit = Duration::from_secs(30);
        let check = |uri: &str, expected: Deadline| {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(deadline(&uri, limit), expected, "{uri}");
        };
        for whole in [
            "/",
            "/api/v1/pods",
            "/api/v1/pods?watch=false",
            "/api/v1/pods?watch=0&limit=5",
            "/api/v1/namespaces/watch/pods",
            "/api/v1/namespaces/a/pods/p/log?follow=false",
        ] {
            check(whole, Deadline::Whole(limit));
        }
        for head in [
            "/api/v1/pods?watch=1",
            "/api/v1/pods?limit=5&watch=true",
            "/api/v1/pods?watch",
            "/api/v1/watch/pods",
            "/apis/apps/v1/watch/deployments",
            "/api/v1/namespaces/a/pods/p/log?follow=true",
        ] {
            check(head, Deadline::Head(limit));
        }
    }

    #[test]
    fn only_reads_pass() {
        let zone: ZoneName = "eu-1".parse().unwrap();
        let check = |request: http::request::Builder, expected: Result<Wanted, &str>| {
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let wanted = wanted(&parts, &zone);
            let shown = wanted.map_err(|error| format!("{} {}", error.code, error.message));
            match (&shown, expected) {
                (Err(error), Err(word)) => assert!(error.contains(word), "{error}"),
                _ => assert_eq!(shown, expected.map_err(str::to_owned)),
            }
        };
        check(http::Request::get("/"), Ok(Wanted::Yes));
        check(http::Request::head("/"), Ok(Wanted::No));
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"] {
            let request = http::Request::builder().method(method);
            check(request, Err("write at the hub"));
        }
        let upgrade = http::Request::get("/").header("upgrade", "websocket");
        check(upgrade, Err("405 Method Not Allowed zones are only read"));
    }
}
