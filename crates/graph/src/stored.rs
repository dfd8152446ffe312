//! Objects as they are kept between plans: small.
//!
//! What planning does not read is left out, and the rest is text: parsed, an object takes many times
//! as much. Managed fields are kept while it is not known whether what was applied is intact.
//!
//! Invariant: a plan over objects that were stored with the needs of their nodes is the same as one
//! over whole objects.

use serde_json::Value as Json;

use crate::labels;
use crate::mask::FieldMask;
use crate::observed::{Applied, Content, Live, ManagedFields, ObjectId};

/// What planning reads of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectNeeds {
    pub fields: FieldMask,
    /// Whether it reads who applied what to it, and when, however sure it is that this is intact.
    pub managed: bool,
}

/// An object, as far as plans need it.
#[derive(Clone, Debug)]
pub struct StoredObject {
    /// The fields that are needed, as JSON.
    text: Box<[u8]>,
    managed: Option<Box<ManagedFields>>,
    deleting: bool,
    sure: bool,
    /// Whether what was applied is intact; nothing if it is not known what that was.
    intact: Option<bool>,
}

// === impl ObjectNeeds ===

impl Default for ObjectNeeds {
    /// Nothing.
    fn default() -> Self {
        Self {
            fields: FieldMask::empty(),
            managed: false,
        }
    }
}

impl ObjectNeeds {
    /// Everything there is.
    pub fn whole() -> Self {
        Self {
            fields: FieldMask::whole(),
            managed: true,
        }
    }

    /// Adds what another needs.
    pub fn merge(&mut self, other: &Self) {
        self.fields.merge(&other.fields);
        self.managed |= other.managed;
    }

    /// Returns true if this is all that the other needs, or more.
    pub fn cover(&self, other: &Self) -> bool {
        self.fields.covers(&other.fields) && (self.managed || !other.managed)
    }
}

// === impl StoredObject ===

impl StoredObject {
    /// Stores what is needed of an object.
    pub fn of(live: &Live, needs: &ObjectNeeds) -> Self {
        let selected;
        let json = match needs.fields.is_whole() {
            true => live.json(),
            false => {
                selected = needs.fields.select(live.json());
                &selected
            }
        };
        let managed = (needs.managed || !live.sure).then(|| live.managed().clone());
        Self {
            text: json.to_string().into_bytes().into(),
            managed: managed.map(Box::new),
            deleting: live.deleting,
            sure: live.sure,
            intact: live.applied.as_ref().map(|applied| applied.intact),
        }
    }

    /// The object, as plans take it. Which one it is is known to whoever keeps it.
    pub fn live(&self, id: ObjectId, uid: &str, resource_version: &str) -> Live {
        // It was written by this.
        let json: Json = serde_json::from_slice(&self.text).unwrap_or_default();
        let applied = self.intact.and_then(|intact| {
            let content = json["metadata"]["annotations"][labels::CONTENT].as_str()?;
            let content = Content::read(content);
            Some(Applied { content, intact })
        });
        let managed = self.managed.as_deref().cloned();
        let mut live = Live::stored(id, json, managed.unwrap_or_default());
        live.uid = uid.to_owned();
        live.resource_version = resource_version.to_owned();
        live.deleting = self.deleting;
        live.sure = self.sure;
        live.applied = applied;
        live
    }

    /// Leaves out what is not needed, of what there is.
    pub fn shrink(&mut self, needs: &ObjectNeeds) {
        if !needs.fields.is_whole() {
            let json: Json = serde_json::from_slice(&self.text).unwrap_or_default();
            self.text = needs.fields.select(&json).to_string().into_bytes().into();
        }
        if self.sure && !needs.managed {
            self.managed = None;
        }
    }

    /// Whether what was applied is intact is known from now on: managed fields are left out, if
    /// nothing else needs them.
    pub fn judge(&mut self, is_intact: bool, needs: &ObjectNeeds) {
        self.sure = true;
        self.intact = self.intact.map(|_| is_intact);
        if !needs.managed {
            self.managed = None;
        }
    }
}
