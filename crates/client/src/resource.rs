//! Where the objects of a kind are, as paths of the API.

use std::fmt;

/// A kind as the API serves it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    /// The version to use.
    pub version: String,
    /// The name in paths, such as `configmaps`.
    pub plural: String,
    /// The name in objects, such as `ConfigMap`.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// What tells objects of one kind apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Empty for objects that live in none.
    pub namespace: String,
    /// Unique among those of its kind in its namespace.
    pub name: String,
}

// === impl Resource ===

impl Resource {
    /// A kind whose objects live in namespaces.
    pub fn namespaced(group: &str, version: &str, plural: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            namespaced: true,
        }
    }

    /// A kind whose objects live in none.
    pub fn cluster(group: &str, version: &str, plural: &str, kind: &str) -> Self {
        Self {
            namespaced: false,
            ..Self::namespaced(group, version, plural, kind)
        }
    }

    /// As objects name it: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path of all objects, or of those in one namespace.
    pub fn collection_path(&self, namespace: Option<&str>) -> String {
        let mut path = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            path.push_str("/namespaces/");
            escape(&mut path, namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }

    /// The path of one object.
    pub fn object_path(&self, key: &ObjectKey) -> String {
        let mut path = self.collection_path(Some(&key.namespace));
        path.push('/');
        escape(&mut path, &key.name);
        path
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

// === impl ObjectKey ===

impl ObjectKey {
    /// An object that lives in no namespace.
    pub fn cluster(name: &str) -> Self {
        Self::new("", name)
    }

    /// An object in a namespace; an empty one means that it lives in none.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// Appends `text` as part of a path or of a query.
pub(crate) fn escape(out: &mut String, text: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let check = |resource: &Resource, key: ObjectKey, expected: [&str; 3]| {
            let paths = [
                resource.collection_path(None),
                resource.collection_path(Some(&key.namespace)),
                resource.object_path(&key),
            ];
            assert_eq!(paths, expected);
        };
        check(
            &Resource::namespaced("", "v1", "configmaps", "ConfigMap"),
            ObjectKey::new("default", "web"),
            [
                "/api/v1/configmaps",
                "/api/v1/namespaces/default/configmaps",
                "/api/v1/namespaces/default/configmaps/web",
            ],
        );
        check(
            &Resource::cluster(
                "rbac.authorization.k8s.io",
                "v1",
                "clusterroles",
                "ClusterRole",
            ),
            ObjectKey::cluster("a:b/c d"),
            [
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/a:b%2Fc%20d",
            ],
        );
    }
}
