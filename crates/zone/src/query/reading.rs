//! What the hub may ask, from what it sent: decided here and not by the hub.

use deltaplane_api::identity::{Identity, hub_user_in_zone};
use deltaplane_apiserver::Error;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::question;
use http::HeaderValue;
use http::uri::PathAndQuery;
use percent_encoding::percent_decode_str;

/// Something to read from the zone's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    pub path: PathAndQuery,
    pub accept: Option<HeaderValue>,
    /// Who reads, as the zone sees them.
    pub user: Identity,
}

// === impl Reading ===

impl Reading {
    /// What a question asks, if it only reads.
    pub(super) fn parse(head: question::Head) -> Result<Self, Error> {
        let question::Head {
            path,
            accept,
            user,
            groups,
            deadline_milliseconds: _,
            credit: _,
        } = head;
        let user = hub_user_in_zone(&user, &groups).ok_or_else(Error::unauthorized)?;
        let path = match path.starts_with('/') {
            true => path.parse::<PathAndQuery>().ok(),
            false => None,
        };
        let path = path.ok_or_else(|| Error::bad_request("the hub asks for an illegal path"))?;
        if connects(path.path()) {
            return Err(Error::read_only(
                "zones are only read through the hub: what connects to something behind the API needs the API of the zone itself",
            ));
        }
        let accept =
            match accept.as_str() {
                "" => None,
                accept => Some(HeaderValue::from_str(accept).map_err(|_| {
                    Error::bad_request("the hub passes on an illegal header accept")
                })?),
            };
        Ok(Self { path, accept, user })
    }
}

/// Whether a path leads through the API to something that runs. There a GET can do anything, and
/// Kubernetes does not call it reading either, but connecting.
fn connects(path: &str) -> bool {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let mut segments = decoded.split('/').filter(|segment| !segment.is_empty());
    if segments.next() != Some("api") {
        return false;
    }
    let mut rest: Vec<&str> = segments.skip(1).collect();
    if rest.first() == Some(&"proxy") {
        return true;
    }
    // The path of a namespace itself has no such subresources.
    if rest.first() == Some(&"namespaces") && rest.len() > 2 {
        rest.drain(..2);
    }
    let connecting = ["attach", "exec", "portforward", "proxy"];
    matches!(rest[..], ["nodes" | "pods" | "services", _, sub, ..] if connecting.contains(&sub))
}

#[cfg(test)]
mod tests {
    use deltaplane_api::identity::ANONYMOUS;

    use super::*;

    fn asked(path: &str, user: &str) -> Result<Reading, String> {
        let head = question::Head {
            path: path.to_owned(),
            user: user.to_owned(),
            ..question::Head::default()
        };
        Reading::parse(head).map_err(|error| format!("{} {}", error.code.as_u16(), error.message))
    }

    #[test]
    fn paths_are_read_and_nothing_behind_them() {
        for path in [
            "/",
            "/version",
            "/api/v1/namespaces/default/pods/web",
            "/api/v1/namespaces/default/pods/web/log?follow=true",
            "/api/v1/namespaces/proxy/pods",
            "/api/v1/namespaces/default/configmaps/proxy",
            "/apis/apps/v1/namespaces/default/deployments/web/scale",
            "/api/v1/nodes/proxy",
        ] {
            let reading = asked(path, "anna").expect(path);
            assert_eq!(reading.path, path);
        }
        for path in [
            "/api/v1/namespaces/default/pods/web/exec?command=sh",
            "/api/v1/namespaces/default/pods/web/attach",
            "/api/v1/namespaces/default/pods/web/portforward",
            "/api/v1/namespaces/default/pods/web/proxy",
            "/api/v1/namespaces/default/services/web/proxy/admin/reset",
            "/api/v1/nodes/one/proxy/pods",
            "/api/v1/nodes/one/%70roxy/pods",
            "/api/v1//nodes/one/proxy",
            "/api/v1/proxy/nodes/one",
        ] {
            let refused = asked(path, "anna").expect_err(path);
            assert!(refused.starts_with("405 "), "{path}: {refused}");
        }
        for path in ["", "api/v1/pods", "http://elsewhere/", "/a b"] {
            let refused = asked(path, "anna").expect_err(path);
            assert!(refused.starts_with("400 "), "{path}: {refused}");
        }
    }

    #[test]
    fn nobody_is_nobody() {
        for user in ["", ANONYMOUS] {
            assert_eq!(asked("/", user), Err("401 Unauthorized".to_owned()));
        }
    }
}
