//! What a request asks for, read off its method and path. Pure.

use http::Method;

use crate::error::{About, Error};

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Objects: `/api/v1/…` and `/apis/<group>/<version>/…` below the version.
    Resource(ResourceRequest),
    /// Everything else: discovery, health, OpenAPI.
    Path { verb: &'static str, path: String },
}

/// A request about objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceRequest {
    pub(crate) verb: Verb,
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for cluster-scoped kinds and for all namespaces.
    pub(crate) namespace: String,
    pub(crate) resource: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    /// Empty for the collection.
    pub(crate) name: String,
}

/// What is done to objects, in the words that RBAC uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// The path or method makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadTarget {
    /// A path segment is not valid percent-encoded UTF-8.
    Encoding,
    /// No verb belongs to this method here.
    Method,
}

// === impl BadTarget ===

impl BadTarget {
    /// What the client is told.
    pub(crate) fn error(self, method: &Method) -> Error {
        match self {
            Self::Encoding => Error::bad_request("the path is not valid"),
            Self::Method => Error::method_not_allowed(About::nothing(), method.as_str()),
        }
    }
}

// === impl Verb ===

impl Verb {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    fn of(method: &Method, named: bool, watch: bool) -> Option<Self> {
        Some(match (method.as_str(), named) {
            // One object is never watched by its path, whatever the query says: who may get it
            // may not therefore watch.
            ("GET" | "HEAD", true) => Self::Get,
            ("GET" | "HEAD", false) if watch => Self::Watch,
            ("GET" | "HEAD", false) => Self::List,
            ("POST", _) => Self::Create,
            ("PUT", true) => Self::Update,
            ("PATCH", true) => Self::Patch,
            ("DELETE", true) => Self::Delete,
            ("DELETE", false) => Self::DeleteCollection,
            _ => return None,
        })
    }
}

// === impl Target ===

impl Target {
    /// Reads method, path and whether the query says `watch`.
    pub(crate) fn parse(method: &Method, path: &str, watch: bool) -> Result<Self, BadTarget> {
        // Empty segments count: `namespaces//configmaps` is not the namespace `configmaps`.
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Self::of_path(method, path),
        };
        let rest = rest
            .iter()
            .map(|segment| decode(segment))
            .collect::<Result<Vec<_>, _>>()?;
        let parts = Parts::parse(&rest).ok_or(BadTarget::Encoding)?;
        if parts.resource.is_empty() || (parts.name.is_empty() && !parts.subresource.is_empty()) {
            return Err(BadTarget::Encoding);
        }
        let verb = Verb::of(method, !parts.name.is_empty(), watch).ok_or(BadTarget::Method)?;
        Ok(Self::Resource(ResourceRequest {
            verb,
            group: decode(group)?,
            version: decode(version)?,
            namespace: parts.namespace,
            resource: parts.resource,
            subresource: parts.subresource,
            name: parts.name,
        }))
    }

    fn of_path(method: &Method, path: &str) -> Result<Self, BadTarget> {
        let verb = match method.as_str() {
            "GET" => "get",
            "HEAD" => "head",
            "POST" => "post",
            "PUT" => "put",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => return Err(BadTarget::Method),
        };
        Ok(Self::Path {
            verb,
            path: decode(path)?,
        })
    }
}

#[derive(Default)]
struct Parts {
    namespace: String,
    resource: String,
    name: String,
    subresource: String,
}

// === impl Parts ===

impl Parts {
    fn parse(rest: &[String]) -> Option<Self> {
        let texts: Vec<&str> = rest.iter().map(String::as_str).collect();
        let of = |namespace: &str, resource: &str, tail: &[&str]| Self {
            namespace: namespace.to_owned(),
            resource: resource.to_owned(),
            name: tail.first().copied().unwrap_or_default().to_owned(),
            subresource: tail.get(1..).unwrap_or_default().join("/"),
        };
        Some(match texts.as_slice() {
            // A namespace itself, and what belongs to the namespace and not to its content.
            ["namespaces"] => of("", "namespaces", &[]),
            ["namespaces", name] => of(name, "namespaces", &[name]),
            ["namespaces", name, sub @ ("status" | "finalize")] => {
                of(name, "namespaces", &[name, sub])
            }
            // No kind is called like this: it is something that is computed of the namespace.
            ["namespaces", name, sub] if sub.starts_with('_') => {
                of(name, "namespaces", &[name, sub])
            }
            ["namespaces", namespace, resource, tail @ ..] => of(namespace, resource, tail),
            [resource, tail @ ..] => of("", resource, tail),
            [] => return None,
        })
    }
}

impl ResourceRequest {
    /// What errors say this request is about.
    pub(crate) fn about(&self) -> About<'_> {
        About {
            group: &self.group,
            resource: &self.resource,
            name: &self.name,
        }
    }
}

fn decode(segment: &str) -> Result<String, BadTarget> {
    let decoded = percent_encoding::percent_decode_str(segment).decode_utf8();
    let decoded = decoded.map_err(|_| BadTarget::Encoding)?;
    match decoded.contains('\0') {
        true => Err(BadTarget::Encoding),
        false => Ok(decoded.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, path: &str, watch: bool, expected: &str) {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let text = match Target::parse(&method, path, watch) {
            Ok(Target::Resource(r)) => format!(
                "{} {}/{} ns={} {}/{} name={}",
                r.verb.as_str(),
                r.group,
                r.version,
                r.namespace,
                r.resource,
                r.subresource,
                r.name
            ),
            Ok(Target::Path { verb, path }) => format!("{verb} {path}"),
            Err(error) => format!("{error:?}"),
        };
        assert_eq!(text, expected, "{method} {path}");
    }

    #[test]
    fn requests_are_read_off_their_paths() {
        check(
            "GET",
            "/api/v1/namespaces",
            false,
            "list /v1 ns= namespaces/ name=",
        );
        check(
            "GET",
            "/api/v1/namespaces/a",
            false,
            "get /v1 ns=a namespaces/ name=a",
        );
        check(
            "PUT",
            "/api/v1/namespaces/a/finalize",
            false,
            "update /v1 ns=a namespaces/finalize name=a",
        );
        check(
            "GET",
            "/api/v1/namespaces/a/_zones",
            false,
            "get /v1 ns=a namespaces/_zones name=a",
        );
        check(
            "GET",
            "/api/v1/namespaces/a/pods",
            true,
            "watch /v1 ns=a pods/ name=",
        );
        check(
            "GET",
            "/api/v1/namespaces/a/pods/p/log",
            false,
            "get /v1 ns=a pods/log name=p",
        );
        check(
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/d/status",
            false,
            "patch apps/v1 ns=a deployments/status name=d",
        );
        check(
            "DELETE",
            "/apis/apps/v1/namespaces/a/deployments",
            false,
            "deletecollection apps/v1 ns=a deployments/ name=",
        );
        check(
            "POST",
            "/apis/g/v1/things",
            false,
            "create g/v1 ns= things/ name=",
        );
        check(
            "POST",
            "/api/v1/namespaces/a/serviceaccounts/s/token",
            false,
            "create /v1 ns=a serviceaccounts/token name=s",
        );
        check(
            "GET",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aa",
            false,
            "get rbac.authorization.k8s.io/v1 ns= clusterroles/ name=system:a",
        );
        check("PUT", "/api/v1/pods", false, "Method");
        check("BREW", "/api/v1/pods", false, "Method");
        check("GET", "/api/v1/pods/%ff", false, "Encoding");
        check("GET", "/api/v1/pods/%00", false, "Encoding");
        check("GET", "/api/v1", false, "get /api/v1");
        check("GET", "/apis/apps/v1", false, "get /apis/apps/v1");
        check("GET", "/livez", false, "get /livez");
    }
}
