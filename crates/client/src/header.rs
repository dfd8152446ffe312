//! The part of an object that says which object it is; the rest stays bytes until it is needed.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::resource::ObjectKey;

/// What `metadata` says, as far as most decisions need it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Unique among those of its kind in its namespace.
    pub name: String,
    /// Empty for objects that live in none.
    #[serde(default)]
    pub namespace: String,
    /// Tells objects of the same name apart that existed one after the other.
    #[serde(default)]
    pub uid: String,
    /// Changes with every write.
    #[serde(default)]
    pub resource_version: String,
    /// Changes with every write of what users own.
    #[serde(default)]
    pub generation: i64,
    /// When deletion was asked for, if it was.
    #[serde(default)]
    pub deletion_timestamp: Option<String>,
    /// For selection.
    #[serde(default, deserialize_with = "null_as_default")]
    pub labels: BTreeMap<String, String>,
    /// What this object exists for.
    #[serde(default, deserialize_with = "null_as_default")]
    pub owner_references: Vec<OwnerReference>,
    /// Who must agree before the object goes.
    #[serde(default, deserialize_with = "null_as_default")]
    pub finalizers: Vec<String>,
}

/// One owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// Group and version of the owner.
    #[serde(default)]
    pub api_version: String,
    /// Kind of the owner.
    #[serde(default)]
    pub kind: String,
    /// Name of the owner, in the same namespace or in none.
    #[serde(default)]
    pub name: String,
    /// Which object of that name.
    #[serde(default)]
    pub uid: String,
    /// Whether the owner waits for this object when it is deleted in the foreground.
    #[serde(default)]
    pub block_owner_deletion: Option<bool>,
    /// Whether the owner manages this object.
    #[serde(default)]
    pub controller: Option<bool>,
}

/// An object: its header, and its bytes.
///
/// The bytes may be a part of a larger answer and keep all of it in memory; whoever keeps an item
/// for long should keep what it parsed instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Parsed already.
    pub header: Header,
    body: Bytes,
}

#[derive(Deserialize)]
struct WithHeader {
    metadata: Header,
}

// === impl Header ===

impl Header {
    /// What tells it apart.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }

    /// Whether its deletion was asked for.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether this one must agree before the object goes.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }
}

// === impl Item ===

impl Item {
    /// Parses the header of an object.
    pub fn new(body: Bytes) -> serde_json::Result<Self> {
        let WithHeader { metadata } = serde_json::from_slice(&body)?;
        Ok(Self {
            header: metadata,
            body,
        })
    }

    /// The whole object, JSON.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The whole object, or the part of it that `T` wants.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.body)
    }
}

/// For fields that may be absent, null or there.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let check = |text: &str, expected: Option<Header>| {
            let item = Item::new(Bytes::copy_from_slice(text.as_bytes())).ok();
            assert_eq!(item.map(|item| item.header), expected, "{text}");
        };
        check(
            r#"{"metadata":{"name":"a"}}"#,
            Some(Header {
                name: "a".to_owned(),
                ..Header::default()
            }),
        );
        check(
            r#"{"kind":"X","spec":{"metadata":1},"metadata":{
                "name":"a","namespace":"n","uid":"u","resourceVersion":"7","generation":2,
                "deletionTimestamp":"2026-01-01T00:00:00Z","labels":{"k":"v"},
                "annotations":{"x":"y"},"managedFields":[{}],"finalizers":["f"],
                "ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"o","uid":"p",
                "controller":true,"blockOwnerDeletion":false}]}}"#,
            Some(Header {
                name: "a".to_owned(),
                namespace: "n".to_owned(),
                uid: "u".to_owned(),
                resource_version: "7".to_owned(),
                generation: 2,
                deletion_timestamp: Some("2026-01-01T00:00:00Z".to_owned()),
                labels: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
                owner_references: vec![OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Pod".to_owned(),
                    name: "o".to_owned(),
                    uid: "p".to_owned(),
                    block_owner_deletion: Some(false),
                    controller: Some(true),
                }],
                finalizers: vec!["f".to_owned()],
            }),
        );
        let nulls = r#"{"metadata":{"name":"a","labels":null,"ownerReferences":null,
            "finalizers":null,"deletionTimestamp":null}}"#;
        check(
            nulls,
            Some(Header {
                name: "a".to_owned(),
                ..Header::default()
            }),
        );
        check(r#"{"metadata":{}}"#, None);
        check("[]", None);
        check("", None);
    }
}
