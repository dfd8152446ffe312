//! Which objects a feed tells, and the requests that ask for them.

use std::fmt;

use crate::request::JSON;
use crate::resource::{Resource, escape};

/// Which objects, and how much of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Of this kind.
    pub resource: Resource,
    /// In this namespace, or in all of them.
    pub namespace: Option<String>,
    /// With these labels: a selector, or empty for all.
    pub labels: String,
    /// With these fields: a selector, or empty for all.
    pub fields: String,
    /// How much.
    pub content: Content,
}

/// How much of an object is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// All of it.
    Whole,
    /// Its metadata.
    Metadata,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum From<'a> {
    /// With what exists.
    Everything,
    /// After this revision.
    Revision(&'a str),
}

/// Objects in one page of a list.
const PAGE: &str = "500";
/// Seconds that a watch lasts, at least; up to half as much again by chance.
const WATCH_SECONDS: f64 = 1800.0;

// === impl Query ===

impl Query {
    /// All objects of a kind.
    pub fn all(resource: Resource) -> Self {
        Self {
            resource,
            namespace: None,
            labels: String::new(),
            fields: String::new(),
            content: Content::Whole,
        }
    }

    /// Only their metadata.
    pub fn metadata(resource: Resource) -> Self {
        Self {
            content: Content::Metadata,
            ..Self::all(resource)
        }
    }

    /// Only those with these fields.
    #[must_use]
    pub fn with_fields(self, selector: &str) -> Self {
        Self {
            fields: selector.to_owned(),
            ..self
        }
    }

    /// Only those with these labels.
    #[must_use]
    pub fn with_labels(self, selector: &str) -> Self {
        Self {
            labels: selector.to_owned(),
            ..self
        }
    }

    /// Only those in this namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..self
        }
    }

    pub(super) fn page(&self, token: Option<&str>) -> String {
        let mut parameters = vec![("limit", PAGE)];
        parameters.extend(token.map(|token| ("continue", token)));
        self.path(&parameters)
    }

    pub(super) fn watch(&self, from: From<'_>, chance: f64) -> String {
        let seconds = format!("{:.0}", WATCH_SECONDS * (1.0 + chance / 2.0));
        let mut parameters = vec![
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", &seconds),
        ];
        match from {
            From::Everything => parameters.extend([
                ("sendInitialEvents", "true"),
                ("resourceVersionMatch", "NotOlderThan"),
            ]),
            From::Revision(revision) => parameters.push(("resourceVersion", revision)),
        }
        self.path(&parameters)
    }

    fn path(&self, parameters: &[(&str, &str)]) -> String {
        let selectors = [
            ("labelSelector", self.labels.as_str()),
            ("fieldSelector", self.fields.as_str()),
        ];
        let selectors = selectors.iter().filter(|(_, value)| !value.is_empty());
        let mut path = self.resource.collection_path(self.namespace.as_deref());
        let mut separator = '?';
        for (name, value) in parameters.iter().chain(selectors) {
            path.push(separator);
            path.push_str(name);
            path.push('=');
            escape(&mut path, value);
            separator = '&';
        }
        path
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path(&[]))
    }
}

// === impl Content ===

impl Content {
    pub(super) fn accept_list(self) -> &'static str {
        match self {
            Self::Whole => JSON,
            Self::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        }
    }

    pub(super) fn accept_object(self) -> &'static str {
        match self {
            Self::Whole => JSON,
            Self::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let query = Query::all(Resource::namespaced("", "v1", "secrets", "Secret"));
        assert_eq!(query.page(None), "/api/v1/secrets?limit=500");
        assert_eq!(
            query.page(Some("a=b")),
            "/api/v1/secrets?limit=500&continue=a%3Db"
        );
        assert_eq!(
            query.watch(From::Everything, 0.0),
            "/api/v1/secrets?watch=true&allowWatchBookmarks=true&timeoutSeconds=1800\
             &sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        );
        let query = query
            .in_namespace("default")
            .with_labels("a in (b,c)")
            .with_fields("type=x/y");
        assert_eq!(
            query.watch(From::Revision("7"), 0.5),
            "/api/v1/namespaces/default/secrets?watch=true&allowWatchBookmarks=true\
             &timeoutSeconds=2250&resourceVersion=7\
             &labelSelector=a%20in%20%28b%2Cc%29&fieldSelector=type%3Dx%2Fy"
        );
    }
}
