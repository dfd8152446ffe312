//! What kro writes on the objects of an instance, so that they are found and told apart.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use crate::graph::{GraphKind, Node};
use crate::observed::Content;
use crate::plan::Instance;

/// On everything that a graph makes.
pub const OWNED: &str = "kro.run/owned";
pub const VERSION: &str = "kro.run/kro-version";
/// The uid of the instance.
pub const INSTANCE: &str = "kro.run/instance-id";
pub const INSTANCE_NAME: &str = "kro.run/instance-name";
pub const INSTANCE_NAMESPACE: &str = "kro.run/instance-namespace";
pub const INSTANCE_GROUP: &str = "kro.run/instance-group";
pub const INSTANCE_VERSION: &str = "kro.run/instance-version";
pub const INSTANCE_KIND: &str = "kro.run/instance-kind";
pub const NODE: &str = "kro.run/node-id";
pub const ITEM: &str = "kro.run/collection-index";
pub const ITEMS: &str = "kro.run/collection-size";
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const PART_OF: &str = "applyset.kubernetes.io/part-of";
pub const APPLY_SET: &str = "applyset.kubernetes.io/id";
/// The uid and the name of the definition, on instances.
pub const DEFINITION: &str = "kro.run/resource-graph-definition-id";
pub const DEFINITION_NAME: &str = "kro.run/resource-graph-definition-name";
/// The wave that an object is deleted in: the highest goes first.
pub const APPLY_ORDER: &str = "internal.kro.run/apply-order";
/// Who applies the objects of graphs: kro's name, so that either can go on where the other stopped.
pub const MANAGER: &str = "kro.run/applyset";
/// What an object was rendered to, ours.
pub const CONTENT: &str = "deltaplane.io/content";
/// On an object that a graph created, with the value `true`; an object that was there before a graph
/// applied it has no such annotation, ours.
pub const CREATED: &str = "deltaplane.io/created";
pub const FINALIZER: &str = "kro.run/finalizer";

/// Values of labels are no longer than this.
const LONGEST: usize = 63;
/// So much of a digest stands for the rest of a value that is too long.
const DIGEST: usize = 8;

/// Returns true if graphs write the label or annotation of this name on what they make.
pub(crate) fn is_ours(key: &str) -> bool {
    [
        OWNED,
        VERSION,
        INSTANCE,
        INSTANCE_NAME,
        INSTANCE_NAMESPACE,
        INSTANCE_GROUP,
        INSTANCE_VERSION,
        INSTANCE_KIND,
        NODE,
        ITEM,
        ITEMS,
        MANAGED_BY,
        PART_OF,
        APPLY_ORDER,
        CONTENT,
    ]
    .contains(&key)
}

/// A value as a label can have it: one that is too long keeps its beginning, and a digest.
pub fn value(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(text));
    let digest: String = digest
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(DIGEST)
        .collect();
    let mut end = LONGEST - 1 - DIGEST;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{digest}", &text[..end])
}

/// The id of the set of objects that an instance is the parent of.
pub fn apply_set((group, kind): (&str, &str), namespace: &str, name: &str) -> String {
    let text = format!("{name}.{namespace}.{kind}.{group}");
    let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(text));
    format!("applyset-{digest}-v1")
}

/// The id of the set of an instance's objects.
pub(crate) fn set_of(kind: &GraphKind, instance: &Instance<'_>) -> String {
    let of = (kind.group.as_str(), kind.kind.as_str());
    apply_set(of, instance.namespace(), instance.name())
}

/// Labels that all objects of an instance have.
pub(crate) fn of_instance(
    kind: &GraphKind,
    instance: &Instance<'_>,
    product: &str,
) -> Map<String, Json> {
    let mut labels = Map::new();
    let mut set = |key: &str, text: &str| labels.insert(key.to_owned(), value(text).into());
    set(OWNED, "true");
    set(VERSION, product);
    set(INSTANCE, instance.uid());
    set(INSTANCE_NAME, instance.name());
    if kind.namespaced {
        set(INSTANCE_NAMESPACE, instance.namespace());
    }
    set(INSTANCE_GROUP, &kind.group);
    set(INSTANCE_VERSION, &kind.version);
    set(INSTANCE_KIND, &kind.kind);
    set(MANAGED_BY, "kro");
    labels.insert(PART_OF.to_owned(), set_of(kind, instance).into());
    labels
}

/// Which item of how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) index: usize,
    pub(crate) size: usize,
}

/// What our annotations say of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp<'a> {
    pub(crate) content: &'a Content,
    /// Whether a graph created it, or is about to.
    pub(crate) created: bool,
}

/// Writes on an object which node of which instance it is for.
pub(crate) fn mark(
    object: &mut Json,
    shared: &Map<String, Json>,
    node: &Node,
    item: Option<Item>,
    Stamp { content, created }: Stamp<'_>,
) {
    let labels = entry(object, "labels");
    labels.extend(
        shared
            .iter()
            .map(|(key, value)| (key.clone(), value.clone())),
    );
    labels.insert(NODE.to_owned(), value(node.id()).into());
    if let Some(Item { index, size }) = item {
        labels.insert(ITEM.to_owned(), index.to_string().into());
        labels.insert(ITEMS.to_owned(), size.to_string().into());
    }
    let annotations = entry(object, "annotations");
    let order = node.apply_order().to_string();
    annotations.insert(APPLY_ORDER.to_owned(), order.into());
    annotations.insert(CONTENT.to_owned(), content.as_str().into());
    if created {
        annotations.insert(CREATED.to_owned(), "true".into());
    } else {
        // A template does not say so of what was there before.
        annotations.remove(CREATED);
    }
}

/// The map of this name in the metadata; made if it is not there.
fn entry<'o>(object: &'o mut Json, name: &str) -> &'o mut Map<String, Json> {
    let place = &mut object["metadata"][name];
    if !place.is_object() {
        *place = Json::Object(Map::new());
    }
    match place {
        Json::Object(map) => map,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            unreachable!("it was made one")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_stay_apart() {
        let [a, b] = ["a", "b"].map(|end| value(&format!("{}{end}", "x".repeat(70))));
        assert!(a.len() <= LONGEST && b.len() <= LONGEST);
        assert_ne!(a, b);
        assert_eq!(value("short"), "short");
    }
}
