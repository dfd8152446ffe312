//! What there is for an instance, as its controller last saw it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use deltaplane_expr::Timestamp;
use serde_json::Value as Json;

use crate::digest::hex;
use crate::kinds::Gvk;
use crate::labels;
use crate::owned;

/// The objects of an instance, and those of others that it refers to, by the id of the node that
/// they are for.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    nodes: BTreeMap<String, BTreeMap<ObjectId, Arc<Live>>>,
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    pub gvk: Gvk,
    /// Empty for objects that are in none.
    pub namespace: String,
    pub name: String,
}

/// An object that is there.
#[derive(Clone, Debug)]
pub struct Live {
    pub id: ObjectId,
    pub uid: String,
    pub resource_version: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What it was last applied with, if that is known.
    pub applied: Option<Applied>,
    /// Whether somebody knows if that is intact; otherwise it is found out by who owns its fields.
    pub sure: bool,
    owned: OnceLock<bool>,
    json: Arc<Json>,
    managed: ManagedFields,
}

/// Who applied what to an object, as far as plans read it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManagedFields {
    /// What the manager of graphs applied, as the API has it down: written, since it is asked for
    /// seldom, and would be the larger part of most objects otherwise.
    fields: Option<Arc<[u8]>>,
    /// When it was last written, but for its subresources.
    pub(crate) written: Option<Timestamp>,
    /// When anything of it was.
    pub(crate) touched: Option<Timestamp>,
}

/// How an object stands to what was applied to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub content: Content,
    /// Whether nobody changed since what was applied.
    pub intact: bool,
}

/// A digest of what was rendered for an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Content(String);

/// Whose an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner(pub String);

// === impl Observed ===

impl Observed {
    /// The object is there for this node; it replaces what was known of it.
    pub fn insert(&mut self, node: &str, live: Arc<Live>) {
        let objects = match self.nodes.get_mut(node) {
            Some(objects) => objects,
            None => self.nodes.entry(node.to_owned()).or_default(),
        };
        objects.insert(live.id.clone(), live);
    }

    /// The object is not there any more.
    pub fn remove(&mut self, node: &str, id: &ObjectId) {
        if let Some(objects) = self.nodes.get_mut(node) {
            objects.remove(id);
        }
    }

    /// The objects of a node, in the order of their kinds and names.
    pub fn of(&self, node: &str) -> impl Iterator<Item = &Arc<Live>> {
        self.nodes.get(node).into_iter().flat_map(BTreeMap::values)
    }

    pub fn get(&self, node: &str, id: &ObjectId) -> Option<&Arc<Live>> {
        self.nodes.get(node)?.get(id)
    }

    /// All objects, with the nodes that they are for.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<Live>)> {
        let nodes = self.nodes.iter();
        nodes.flat_map(|(node, objects)| objects.values().map(|live| (node.as_str(), live)))
    }
}

// === impl ObjectId ===

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.gvk.kind)?;
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

// === impl Live ===

impl Live {
    /// An object that was read. Who applied what to it is not shown to expressions.
    pub fn parsed(id: ObjectId, mut json: Json) -> Self {
        let metadata = json.get_mut("metadata").and_then(Json::as_object_mut);
        let managers = metadata.and_then(|metadata| metadata.remove("managedFields"));
        let managers = managers.unwrap_or_default();
        Self::stored(id, json, ManagedFields::of(&managers))
    }

    /// An object of which this is kept.
    pub(crate) fn stored(id: ObjectId, json: Json, managed: ManagedFields) -> Self {
        Self {
            id,
            uid: String::new(),
            resource_version: String::new(),
            deleting: false,
            applied: None,
            sure: true,
            owned: OnceLock::new(),
            json: Arc::new(json),
            managed,
        }
    }

    pub(crate) fn managed(&self) -> &ManagedFields {
        &self.managed
    }

    /// Returns true if a plan found by the managed fields that what was applied is intact, which
    /// nobody knew before.
    pub fn is_verified(&self) -> bool {
        !self.sure && self.owned.get() == Some(&true)
    }

    /// Whether the manager still owns all that it applied, which was this. It is the same for each
    /// that has the content of [`Self::applied`].
    pub(crate) fn is_owned(&self, applied: impl FnOnce() -> Json) -> bool {
        *self.owned.get_or_init(|| {
            let fields = self.read_fields();
            fields.is_some_and(|fields| owned::holds(&fields, &applied()))
        })
    }

    /// What was last applied to it, if it is known that nobody changed that since.
    pub fn as_applied(&self) -> Option<Json> {
        let known = self.sure || self.owned.get() == Some(&true);
        let applied = self.applied.as_ref();
        applied.filter(|applied| known && applied.intact)?;
        Some(owned::extract(&self.read_fields()?, self.json()))
    }

    /// What the manager of graphs applied, as the API has it down.
    pub fn fields(&self) -> Option<&[u8]> {
        self.managed.fields()
    }

    fn read_fields(&self) -> Option<Json> {
        serde_json::from_slice(self.fields()?).ok()
    }

    pub fn json(&self) -> &Json {
        &self.json
    }

    /// Returns true if a graph created the object. One that was there before a graph applied it is
    /// somebody else's, although a graph may write it.
    pub fn is_created(&self) -> bool {
        self.json()["metadata"]["annotations"][labels::CREATED] == "true"
    }

    /// The object with its identity and what graphs wrote on it, and nothing else of it.
    #[must_use]
    pub fn without_content(&self) -> Self {
        let whole = self.json();
        let mut json = serde_json::json!({"metadata": {}});
        for field in ["apiVersion", "kind"] {
            json[field] = whole[field].clone();
        }
        for field in ["name", "namespace", "uid", "resourceVersion", "generation"] {
            if let Some(value) = whole["metadata"].get(field) {
                json["metadata"][field] = value.clone();
            }
        }
        for part in ["labels", "annotations"] {
            let all = whole["metadata"][part].as_object().into_iter().flatten();
            let ours = all.filter(|(key, _)| labels::is_ours(key));
            let ours: serde_json::Map<String, Json> = ours
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            json["metadata"][part] = Json::Object(ours);
        }
        Self {
            json: Arc::new(json),
            ..self.clone()
        }
    }

    /// Its status is that of an earlier generation: the two, if it says so.
    pub fn stale(&self) -> Option<(i64, i64)> {
        let json = self.json();
        let generation = json["metadata"]["generation"].as_i64()?;
        let observed = json["status"]["observedGeneration"].as_i64()?;
        (observed < generation).then_some((observed, generation))
    }
}

// === impl ManagedFields ===

impl ManagedFields {
    fn of(managers: &Json) -> Self {
        Self {
            fields: fields(managers).map(Arc::from),
            written: last(managers, |entry| entry["subresource"].is_null()),
            touched: last(managers, |_| true),
        }
    }

    pub(crate) fn fields(&self) -> Option<&[u8]> {
        self.fields.as_deref()
    }
}

/// The fields of the manager of graphs among those of all managers.
fn fields(managers: &Json) -> Option<Vec<u8>> {
    let ours = managers.as_array()?.iter().find(|entry| {
        entry["manager"] == labels::MANAGER
            && entry["operation"] == "Apply"
            && entry["subresource"].is_null()
    })?;
    serde_json::to_vec(&ours["fieldsV1"]).ok()
}

/// When the last of some managers wrote.
fn last(managers: &Json, which: impl Fn(&Json) -> bool) -> Option<Timestamp> {
    let all = managers.as_array().into_iter().flatten();
    let times = all.filter(|entry| which(entry)).map(|entry| &entry["time"]);
    times
        .filter_map(|time| Timestamp::parse(time.as_str()?))
        .max()
}

// === impl Content ===

impl Content {
    /// As it is written on objects.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As it was read off an object.
    pub fn read(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn of(digest: &[u8]) -> Self {
        Self(hex(&digest[..CONTENT]))
    }
}

/// So many bytes of a digest tell contents apart.
const CONTENT: usize = 16;

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
