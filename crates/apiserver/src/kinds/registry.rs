//! All kinds that are served right now: a snapshot that is replaced, never changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use deltaplane_api::kind::compare_versions;

use super::{Kind, Source, builtin};

/// A snapshot of what is served.
#[derive(Default)]
pub(crate) struct Registry {
    /// By group, version, plural.
    kinds: BTreeMap<String, BTreeMap<String, BTreeMap<String, Arc<Kind>>>>,
    /// Documents made from this snapshot, by path, each made once.
    pub(crate) documents: Documents,
}

/// Rendered documents of one snapshot.
#[derive(Default)]
pub(crate) struct Documents {
    by_name: parking_lot::Mutex<BTreeMap<String, Document>>,
}

/// A rendered document. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Document {
    pub(crate) bytes: Bytes,
    /// Differs when the document does. Kept, since a document may be large.
    pub(crate) hash: Arc<str>,
}

// === impl Registry ===

impl Registry {
    /// The built-in kinds alone.
    pub(crate) fn built_in() -> Self {
        let mut registry = Self::default();
        for kind in builtin::kinds() {
            registry.insert(kind);
        }
        registry
    }

    /// A snapshot where `definition`'s kinds are replaced by these; none removes them.
    pub(crate) fn with_definition(&self, definition: &str, kinds: Vec<Arc<Kind>>) -> Self {
        let mut next = Self::default();
        let others = self.all().filter(|kind| match &kind.source {
            Source::BuiltIn(_) => true,
            Source::Custom(other) => other.name != definition,
        });
        for kind in others.cloned().chain(kinds) {
            next.insert(kind);
        }
        next
    }

    fn insert(&mut self, kind: Arc<Kind>) {
        let versions = self.kinds.entry(kind.group.clone()).or_default();
        let resources = versions.entry(kind.version.clone()).or_default();
        // A custom kind never takes a built-in one's place.
        resources.entry(kind.plural.clone()).or_insert(kind);
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.kinds.get(group)?.get(version)?.get(plural)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds
            .values()
            .flat_map(BTreeMap::values)
            .flat_map(BTreeMap::values)
    }

    /// The groups, each with its versions, preferred first.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.kinds.iter().map(|(group, versions)| {
            let mut versions: Vec<&str> = versions.keys().map(String::as_str).collect();
            versions.sort_by(|left, right| compare_versions(left, right));
            (group.as_str(), versions)
        })
    }

    /// The kinds of one version, by plural.
    pub(crate) fn version(
        &self,
        group: &str,
        version: &str,
    ) -> Option<&BTreeMap<String, Arc<Kind>>> {
        self.kinds.get(group)?.get(version)
    }
}

// === impl Documents ===

impl Documents {
    /// The document of this name, made by `make` if this snapshot has not made it yet. One that
    /// does not exist leaves nothing behind.
    pub(crate) fn get(&self, name: &str, make: impl FnOnce() -> Option<Bytes>) -> Option<Document> {
        let known = self.by_name.lock().get(name).cloned();
        if known.is_some() {
            return known;
        }
        // Outside the lock: two who ask at once make the same.
        let made = Document::new(make()?);
        self.by_name.lock().insert(name.to_owned(), made.clone());
        Some(made)
    }
}

// === impl Document ===

impl Document {
    pub(crate) fn new(bytes: Bytes) -> Self {
        let hash = crate::fingerprint(&[&String::from_utf8_lossy(&bytes)]);
        Self {
            bytes,
            hash: format!("{hash:016X}").into(),
        }
    }
}
