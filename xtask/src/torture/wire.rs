//! Objects, lists and events on the wire, both ways.
//!
//! Reading checks what every answer must show whatever happened before: that an object's label and
//! padding belong to the operation that wrote last.

#[cfg(test)]
mod tests;

use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::history::{Call, Key, NAMESPACES, OpId, Revision, Uid, Version};
use super::watches::{Change, Kind, Scope};

const NAMESPACE: &str = "torture-";
const NAME: &str = "map-";
/// How the end of what was there when a watch began is marked.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// What a watch sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Change(Change),
    Bookmark {
        revision: Revision,
        /// All that was there has been sent.
        initial_end: bool,
    },
    /// A change of something that is not ours.
    Foreign(Revision),
    Error(Status),
}

/// One page of a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) revision: Revision,
    pub(crate) objects: Vec<(Key, Version)>,
    /// Where the next one begins.
    pub(crate) next: Option<String>,
}

/// Why something was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    data: Data,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    resource_version: String,
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    annotations: serde_json::Map<String, Value>,
}

#[derive(Default, Deserialize)]
struct Labels {
    #[serde(default)]
    colour: String,
}

/// What we write. Objects of others have other keys.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Data {
    whole: String,
    last: String,
    padding: String,
}

#[derive(Deserialize)]
struct List {
    metadata: ListMetadata,
    items: Vec<Object>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The namespaces that are written to.
pub(crate) fn namespaces() -> impl Iterator<Item = Bytes> {
    (0..NAMESPACES).map(|number| {
        let name = format!("{NAMESPACE}{number}");
        body(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    })
}

/// The path of a namespace's objects, or of all.
pub(crate) fn collection(namespace: Option<u8>) -> String {
    match namespace {
        Some(namespace) => format!("/api/v1/namespaces/{NAMESPACE}{namespace}/configmaps"),
        None => "/api/v1/configmaps".to_owned(),
    }
}

/// The path of an object.
pub(crate) fn object(key: Key) -> String {
    format!("{}/{NAME}{}", collection(Some(key.namespace)), key.name)
}

/// The path and selectors of what a watch is of, without its further parameters.
pub(crate) fn scope(scope: Scope) -> String {
    let mut path = format!("{}?", collection(scope.namespace));
    if let Some(name) = scope.name {
        path.push_str(&format!("fieldSelector=metadata.name%3D{NAME}{name}&"));
    }
    if let Some(colour) = scope.colour {
        path.push_str(&format!("labelSelector=colour%3D{}&", colour.label()));
    }
    path
}

/// What an operation sends.
pub(crate) fn request(id: OpId, key: Key, call: Call) -> Bytes {
    let labels = json!({"colour": id.colour().label()});
    let number = id.0.to_string();
    match call {
        Call::Create | Call::Replace { at: None } => body(&whole(id, key)),
        Call::Replace { at: Some(at) } => {
            let mut object = whole(id, key);
            object["metadata"]["resourceVersion"] = json!(at.to_string());
            body(&object)
        }
        Call::Patch => body(&json!({
            "metadata": {"labels": labels},
            "data": {"last": number, "padding": padding(id)},
        })),
        Call::Delete { at, uid } => {
            let mut preconditions = serde_json::Map::new();
            if let Some(at) = at {
                preconditions.insert("resourceVersion".to_owned(), json!(at.to_string()));
            }
            if let Some(uid) = uid {
                preconditions.insert("uid".to_owned(), json!(uid.to_string()));
            }
            body(&json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions,
            }))
        }
        Call::Read => Bytes::new(),
    }
}

fn whole(id: OpId, key: Key) -> Value {
    let number = id.0.to_string();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("{NAME}{}", key.name),
            "namespace": format!("{NAMESPACE}{}", key.namespace),
            "labels": {"colour": id.colour().label()},
        },
        "data": {"whole": number, "last": number, "padding": padding(id)},
    })
}

fn padding(id: OpId) -> String {
    let letter = char::from(b'a' + u8::try_from(id.0 % 26).unwrap_or_default());
    letter.to_string().repeat(id.padding())
}

fn body(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

/// Reads an object of ours.
pub(crate) fn read_object(bytes: &[u8]) -> Result<(Key, Version)> {
    let object: Object = serde_json::from_slice(bytes).context("reading an object")?;
    object.read()?.context("an object of somebody else")
}

pub(crate) fn read_list(bytes: &[u8]) -> Result<Page> {
    let list: List = serde_json::from_slice(bytes).context("reading a list")?;
    let mut objects = Vec::new();
    for object in &list.items {
        objects.extend(object.read()?);
    }
    Ok(Page {
        revision: revision(&list.metadata.resource_version)?,
        objects,
        next: Some(list.metadata.r#continue).filter(|token| !token.is_empty()),
    })
}

/// Reads one line of a watch.
pub(crate) fn read_frame(line: &[u8]) -> Result<Frame> {
    let event: Event = serde_json::from_slice(line).context("reading an event")?;
    let kind = match event.r#type {
        "ADDED" => Kind::Added,
        "MODIFIED" => Kind::Modified,
        "DELETED" => Kind::Deleted,
        "BOOKMARK" => {
            let object: Object = serde_json::from_str(event.object.get())?;
            return Ok(Frame::Bookmark {
                revision: revision(&object.metadata.resource_version)?,
                initial_end: object.metadata.annotations.contains_key(INITIAL_END),
            });
        }
        "ERROR" => return Ok(Frame::Error(serde_json::from_str(event.object.get())?)),
        other => bail!("an event of type {other:?}"),
    };
    let object: Object = serde_json::from_str(event.object.get()).context("reading an event")?;
    Ok(match object.read()? {
        Some((key, version)) => Frame::Change(Change { kind, key, version }),
        None => Frame::Foreign(revision(&object.metadata.resource_version)?),
    })
}

/// Reads a refusal; whatever it is, there is one.
pub(crate) fn read_status(bytes: &[u8]) -> Status {
    serde_json::from_slice(bytes).unwrap_or_default()
}

fn revision(text: &str) -> Result<Revision> {
    let number = text.parse();
    Ok(Revision(
        number.with_context(|| format!("revision {text:?}"))?,
    ))
}

// === impl Object ===

impl Object {
    /// None if it is not ours.
    fn read(&self) -> Result<Option<(Key, Version)>> {
        let Metadata {
            name, namespace, ..
        } = &self.metadata;
        let number = |text: &str, prefix| text.strip_prefix(prefix)?.parse::<u8>().ok();
        let (Some(namespace), Some(name)) = (number(namespace, NAMESPACE), number(name, NAME))
        else {
            return Ok(None);
        };
        let key = Key { namespace, name };
        let version = self.version().with_context(|| format!("reading {key}"))?;
        Ok(Some((key, version)))
    }

    fn version(&self) -> Result<Version> {
        let number = |text: &str| {
            let number = text.parse();
            number
                .map(OpId)
                .with_context(|| format!("operation {text:?}"))
        };
        let last = number(&self.data.last)?;
        let colour = &self.metadata.labels.colour;
        ensure!(
            colour == last.colour().label() && self.data.padding == padding(last),
            "label {colour:?} and {} bytes of padding were not written by {last}",
            self.data.padding.len()
        );
        Ok(Version {
            revision: revision(&self.metadata.resource_version)?,
            uid: uid(&self.metadata.uid)?,
            whole: number(&self.data.whole)?,
            last,
        })
    }
}

fn uid(text: &str) -> Result<Uid> {
    let number = u128::from_str_radix(&text.replace('-', ""), 16);
    Ok(Uid(number.with_context(|| format!("uid {text:?}"))?))
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.reason, self.message)
    }
}
