//! The names of things in the store: keys, collections and scopes.
//!
//! All three are one string each, their parts separated by NUL, so that a
//! collection or a scope is a prefix of the keys that it holds and string
//! order is the order tenant, collection, namespace, name.
//!
//! Invariants: no part contains NUL; tenant, collection and name are never
//! empty; a key has exactly four parts and at most [`Key::MAX_LEN`] bytes.

use std::{borrow::Borrow, fmt, sync::Arc};

const SEPARATOR: char = '\0';

/// The name of one object: tenant, collection, namespace (empty for
/// cluster-scoped objects) and name. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// All objects of one kind in one tenant, such as `configmaps` or
/// `apps/deployments`. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collection(Arc<str>);

/// What a watch covers. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(ScopeKind);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ScopeKind {
    Everything,
    /// A tenant, a collection, a namespace of one, or one object: the first
    /// one to four parts of a key.
    Prefix(Arc<str>),
}

/// Why a name cannot be part of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A tenant, collection or name was empty.
    #[error("the {part} of a key must not be empty")]
    Empty {
        /// Which part.
        part: &'static str,
    },
    /// A part held the separator.
    #[error("the {part} of a key must not contain NUL")]
    Nul {
        /// Which part.
        part: &'static str,
    },
    /// The key is longer than [`Key::MAX_LEN`].
    #[error("a key of {len} bytes is longer than {max}", max = Key::MAX_LEN)]
    TooLong {
        /// Its length.
        len: usize,
    },
}

// === impl Key ===

impl Key {
    /// The longest key in bytes, separators included.
    pub const MAX_LEN: usize = 2048;

    /// Names an object; `namespace` is empty for cluster-scoped objects.
    pub fn new(
        tenant: &str,
        collection: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Self, KeyError> {
        part("tenant", tenant)?;
        part("collection", collection)?;
        without_nul("namespace", namespace)?;
        part("name", name)?;
        Ok(Self(joined(&[tenant, collection, namespace, name])?))
    }

    /// Reads back what [`Key::as_str`] gave; `None` if it is not a key.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(SEPARATOR);
        let (tenant, collection) = (parts.next()?, parts.next()?);
        let (_namespace, name) = (parts.next()?, parts.next()?);
        let legal = parts.next().is_none()
            && !tenant.is_empty()
            && !collection.is_empty()
            && !name.is_empty()
            && text.len() <= Self::MAX_LEN;
        legal.then(|| Self(text.into()))
    }

    /// The tenant.
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.nth(0)
    }

    /// The collection's name, without the tenant.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.nth(1)
    }

    /// The namespace, empty for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.nth(2)
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.nth(3)
    }

    /// The collection that holds this key.
    #[must_use]
    pub fn collection(&self) -> Collection {
        Collection(self.prefix(2).into())
    }

    /// The whole key, its parts separated by NUL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first `parts` parts, with the separators between them.
    pub(crate) fn prefix(&self, parts: usize) -> &str {
        let end = self.0.match_indices(SEPARATOR).nth(parts - 1);
        end.map_or(&*self.0, |(at, _)| &self.0[..at])
    }

    fn nth(&self, index: usize) -> &str {
        self.0.split(SEPARATOR).nth(index).unwrap_or_default()
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        slashed(f, &self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        slashed(f, &self.0)
    }
}

// === impl Collection ===

impl Collection {
    /// Names a collection of a tenant.
    pub fn new(tenant: &str, collection: &str) -> Result<Self, KeyError> {
        part("tenant", tenant)?;
        part("collection", collection)?;
        Ok(Self(joined(&[tenant, collection])?))
    }

    /// Names an object of this collection.
    pub fn key(&self, namespace: &str, name: &str) -> Result<Key, KeyError> {
        without_nul("namespace", namespace)?;
        part("name", name)?;
        Ok(Key(joined(&[&self.0, namespace, name])?))
    }

    /// The tenant.
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.0.split(SEPARATOR).next().unwrap_or_default()
    }

    /// The collection's name, without the tenant.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.0.split(SEPARATOR).nth(1).unwrap_or_default()
    }

    /// Whether this collection holds `key`.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        key.prefix(2) == &*self.0
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// What all keys of the collection, or of one namespace of it, begin with.
    pub(crate) fn prefix_of(&self, namespace: Option<&str>) -> String {
        match namespace {
            None => self.0.to_string(),
            Some(namespace) => format!("{}{SEPARATOR}{namespace}", self.0),
        }
    }

    pub(crate) fn from_prefix(prefix: &str) -> Self {
        Self(prefix.into())
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        slashed(f, &self.0)
    }
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        slashed(f, &self.0)
    }
}

// === impl Scope ===

impl Scope {
    /// Every change of the store, in order.
    #[must_use]
    pub fn everything() -> Self {
        Self(ScopeKind::Everything)
    }

    /// Every change of one tenant.
    pub fn tenant(tenant: &str) -> Result<Self, KeyError> {
        part("tenant", tenant)?;
        Ok(Self(ScopeKind::Prefix(joined(&[tenant])?)))
    }

    /// One collection.
    #[must_use]
    pub fn collection(collection: &Collection) -> Self {
        Self(ScopeKind::Prefix(Arc::clone(&collection.0)))
    }

    /// One namespace of one collection.
    pub fn namespace(collection: &Collection, namespace: &str) -> Result<Self, KeyError> {
        without_nul("namespace", namespace)?;
        let prefix = joined(&[&collection.0, namespace])?;
        Ok(Self(ScopeKind::Prefix(prefix)))
    }

    /// One object.
    #[must_use]
    pub fn object(key: &Key) -> Self {
        Self(ScopeKind::Prefix(Arc::clone(&key.0)))
    }

    /// Whether a change of `key` is seen by a watch of this scope.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        match &self.0 {
            ScopeKind::Everything => true,
            ScopeKind::Prefix(prefix) => key
                .as_str()
                .strip_prefix(&**prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(SEPARATOR)),
        }
    }

    /// The prefix that all keys of the scope have; `None` for everything.
    pub(crate) fn prefix(&self) -> Option<&str> {
        match &self.0 {
            ScopeKind::Everything => None,
            ScopeKind::Prefix(prefix) => Some(prefix),
        }
    }

    /// The collection that the scope is a part of, if it is within one.
    pub(crate) fn collection_prefix(&self) -> Option<&str> {
        let prefix = self.prefix()?;
        let mut ends = prefix.match_indices(SEPARATOR).map(|(at, _)| at);
        ends.next()?;
        Some(&prefix[..ends.next().unwrap_or(prefix.len())])
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        slashed(f, self.prefix().unwrap_or("*"))
    }
}

fn part(part: &'static str, text: &str) -> Result<(), KeyError> {
    if text.is_empty() {
        return Err(KeyError::Empty { part });
    }
    without_nul(part, text)
}

fn without_nul(part: &'static str, text: &str) -> Result<(), KeyError> {
    if text.contains(SEPARATOR) {
        return Err(KeyError::Nul { part });
    }
    Ok(())
}

fn joined(parts: &[&str]) -> Result<Arc<str>, KeyError> {
    let len = parts.iter().map(|part| part.len() + 1).sum::<usize>() - 1;
    if len > Key::MAX_LEN {
        return Err(KeyError::TooLong { len });
    }
    let mut text = String::with_capacity(len);
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            text.push(SEPARATOR);
        }
        text.push_str(part);
    }
    Ok(text.into())
}

/// Shows the parts separated by `|`, which no Kubernetes name contains.
fn slashed(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for (index, part) in text.split(SEPARATOR).enumerate() {
        if index > 0 {
            f.write_str("|")?;
        }
        f.write_str(part)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: &str, collection: &str, namespace: &str, name: &str) -> Key {
        Key::new(tenant, collection, namespace, name).unwrap()
    }

    #[test]
    fn a_key_gives_back_its_parts() {
        let pod = key("acme", "apps/deployments", "web", "front");
        let parts = (pod.tenant(), pod.resource(), pod.namespace(), pod.name());
        assert_eq!(parts, ("acme", "apps/deployments", "web", "front"));
        assert_eq!(
            pod.collection(),
            Collection::new("acme", "apps/deployments").unwrap()
        );
        assert_eq!(pod.collection().key("web", "front"), Ok(pod.clone()));
        assert_eq!(Key::parse(pod.as_str()), Some(pod.clone()));
        assert_eq!(pod.to_string(), "acme|apps/deployments|web|front");
        let namespace = key("acme", "namespaces", "", "web");
        assert_eq!((namespace.namespace(), namespace.name()), ("", "web"));
    }

    #[test]
    fn keys_sort_by_part_not_by_text() {
        let sorted = [
            key("a", "pods", "", "z"),
            key("a", "pods", "ns", "b"),
            key("a", "pods", "ns!", "a"),
            key("a", "pods-x", "", "a"),
            key("a!", "a", "", "a"),
        ];
        assert!(sorted.is_sorted());
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let new = |parts: [&str; 4]| Key::new(parts[0], parts[1], parts[2], parts[3]);
        assert_eq!(
            new(["", "c", "", "n"]),
            Err(KeyError::Empty { part: "tenant" })
        );
        assert_eq!(
            new(["t", "", "", "n"]),
            Err(KeyError::Empty { part: "collection" })
        );
        assert_eq!(
            new(["t", "c", "", ""]),
            Err(KeyError::Empty { part: "name" })
        );
        assert_eq!(
            new(["t", "c", "a\0b", "n"]),
            Err(KeyError::Nul { part: "namespace" })
        );
        let long = "n".repeat(Key::MAX_LEN);
        assert_eq!(
            new(["t", "c", "", &long]),
            Err(KeyError::TooLong {
                len: Key::MAX_LEN + 5
            })
        );
        for text in [
            "",
            "a",
            "a\0b\0c",
            "a\0b\0c\0",
            "a\0b\0c\0d\0e",
            "\0b\0c\0d",
        ] {
            assert_eq!(Key::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn scopes_contain_whole_parts_only() {
        let pods = Collection::new("a", "pods").unwrap();
        let front = pods.key("web", "front").unwrap();
        let check = |scope: &Scope, key: &Key, expected: bool| {
            assert_eq!(scope.contains(key), expected, "{scope:?} {key:?}");
        };
        let holding = [
            Scope::everything(),
            Scope::tenant("a").unwrap(),
            Scope::collection(&pods),
            Scope::namespace(&pods, "web").unwrap(),
            Scope::object(&front),
        ];
        let other_tenant = key("ab", "pods", "web", "front");
        for (parts, scope) in holding.iter().enumerate() {
            let within = (parts >= 2).then_some("a\0pods");
            assert_eq!(scope.collection_prefix(), within);
            check(scope, &front, true);
            check(scope, &other_tenant, parts == 0);
        }
        check(&holding[2], &key("a", "podsets", "web", "front"), false);
        check(&holding[3], &key("a", "pods", "web-2", "front"), false);
        check(&holding[4], &key("a", "pods", "web", "front-2"), false);
        let cluster = Scope::namespace(&pods, "").unwrap();
        check(&cluster, &front, false);
        check(&cluster, &key("a", "pods", "", "node"), true);
    }
}
