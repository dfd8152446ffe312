//! What the hub may ask, from what it sent: decided here and not by the hub.

use deltaplane_api::identity::{ANONYMOUS, AUTHENTICATED, Identity, MASTERS};
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

/// With this begin the names of the hub's own, so that they are not taken for the zone's.
const OF_THE_HUB: &str = "hub:";

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
        let user = from_hub(&user, &groups)?;
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

/// The hub's user, as the zone's API should see them.
///
/// Names that begin with `system:` are given by the API that knows their owners. The hub's service
/// account `default/web` is not the zone's, and must not have its rights; but all APIs mean the
/// same by administrators, and by whoever proved who they are.
fn from_hub(user: &str, groups: &[String]) -> Result<Identity, Error> {
    if user.is_empty() || user == ANONYMOUS {
        return Err(Error::unauthorized());
    }
    let translated = |name: &str| match name {
        MASTERS | AUTHENTICATED => name.to_owned(),
        own if own.starts_with("system:") => format!("{OF_THE_HUB}{own}"),
        other => other.to_owned(),
    };
    // As a user's name, those of groups mean nothing.
    let name = match user {
        MASTERS | AUTHENTICATED => format!("{OF_THE_HUB}{user}"),
        other => translated(other),
    };
    let groups: Vec<String> = groups.iter().map(|group| translated(group)).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    Ok(Identity::authenticated(&name, &groups))
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

    #[test]
    fn names_of_the_hub_are_not_those_of_the_zone() {
        let check = |user: &str, groups: &[&str], expected: (&str, &[&str])| {
            let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
            let (name, groups) = (from_hub(user, &groups).unwrap(), expected.1);
            assert_eq!(name, Identity::authenticated(expected.0, groups));
        };
        check(
            "anna",
            &["ops", AUTHENTICATED],
            ("anna", &["ops", AUTHENTICATED]),
        );
        check("admin", &[MASTERS], ("admin", &[MASTERS]));
        check(
            "system:serviceaccount:default:web",
            &["system:serviceaccounts", AUTHENTICATED],
            (
                "hub:system:serviceaccount:default:web",
                &["hub:system:serviceaccounts", AUTHENTICATED],
            ),
        );
        check(
            MASTERS,
            &["system:nodes"],
            ("hub:system:masters", &["hub:system:nodes"]),
        );
    }
}
