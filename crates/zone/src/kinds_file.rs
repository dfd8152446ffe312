//! The synced kinds as the hub says them, kept beside the zone's credential.
//!
//! A hub that was restored to an earlier state sends the zone nothing until a person settles it. A
//! process that starts meanwhile takes from the file which kinds are synced: so it says what it
//! holds of them, and goes on to upload what the zone authored. The file says nothing of objects,
//! and no object is changed because of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use deltaplane_fleet::kinds::SyncedKind;
use deltaplane_runtime::files::{self, FileError};
use deltaplane_sync::{Crossing, ObjectName, Position, Version};
use serde_json::{Map, Value, json};

/// The synced kinds, by the names of their objects.
pub(crate) type Kinds = BTreeMap<ObjectName, Kind>;

/// A synced kind, and the state of the hub that it was sent with.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) version: Version,
    pub(crate) at: Position,
    pub(crate) synced: SyncedKind,
    /// The object as it was sent, without what does not cross.
    object: Value,
}

/// Where the synced kinds are kept.
pub(crate) struct KindsFile {
    path: PathBuf,
}

// === impl Kind ===

impl Kind {
    /// Fails if the object is no synced kind, or not of that version.
    pub(crate) fn received(
        name: &ObjectName,
        object: Value,
        version: Version,
        at: Position,
    ) -> Result<Self, String> {
        let crossing = Crossing::received(object, name, version);
        let crossing = crossing.map_err(|smuggled| smuggled.to_string())?;
        let object = Value::Object(crossing.object().clone());
        let synced = SyncedKind::of(&object).map_err(|error| error.to_string())?;
        Ok(Self {
            version,
            at,
            synced,
            object,
        })
    }

    /// Returns true if both say the same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.version == other.version
    }

    /// Returns true if objects of the kind are sent to zones.
    pub(crate) fn comes(&self) -> bool {
        self.synced.goes_down() || self.synced.spec.across_zones
    }

    fn written(&self) -> Value {
        json!({
            "version": self.version.to_string(),
            "at": self.at.to_string(),
            "object": self.object,
        })
    }

    fn read(name: &ObjectName, written: &Value) -> Option<Self> {
        let version = written["version"].as_str()?.parse().ok()?;
        let at = written["at"].as_str()?.parse().ok()?;
        Self::received(name, written["object"].clone(), version, at).ok()
    }
}

// === impl KindsFile ===

impl KindsFile {
    pub(crate) const NAME: &str = "synced-kinds.json";

    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            path: directory.join(Self::NAME),
        }
    }

    /// The synced kinds that can be read. The hub sends the others again, as soon as it sends
    /// anything.
    pub(crate) fn load(&self) -> Result<Kinds, FileError> {
        let Some(bytes) = files::read_bytes_if_exists(&self.path)? else {
            return Ok(Kinds::new());
        };
        let written: Map<String, Value> = serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            let (error, path) = (&error as &dyn std::error::Error, self.path.display());
            tracing::warn!(error, %path, "the synced kinds cannot be read; the hub sends them again");
            Map::new()
        });
        let read = |(name, written): (&String, &Value)| {
            let name = ObjectName::new("", name).ok()?;
            let kind = Kind::read(&name, written)?;
            Some((name, kind))
        };
        let kinds: Kinds = written.iter().filter_map(read).collect();
        if kinds.len() < written.len() {
            let (path, lost) = (self.path.display(), written.len() - kinds.len());
            tracing::warn!(%path, lost, "some synced kinds cannot be read; the hub sends them again");
        }
        Ok(kinds)
    }

    pub(crate) fn save(&self, kinds: &Kinds) -> Result<(), FileError> {
        let written = kinds.iter();
        let written: Map<String, Value> = written
            .map(|(name, kind)| (name.name().to_owned(), kind.written()))
            .collect();
        files::write_private(&self.path, Value::Object(written).to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> (ObjectName, Kind) {
        let object = json!({
            "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "SyncedKind",
            "metadata": {"name": name},
            "spec": {"kind": "ConfigMap", "direction": "Both"},
        });
        let crossing = Crossing::of(&object).expect("it may cross");
        let name = ObjectName::new("", name).expect("legal");
        let at = "s.a@5".parse().expect("legal");
        let kind = Kind::received(&name, object, crossing.version(), at).expect("a synced kind");
        (name, kind)
    }

    #[test]
    fn synced_kinds_survive_a_restart() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = KindsFile::new(directory.path());
        assert!(file.load().expect("readable").is_empty());
        let kinds = Kinds::from([kind("configmaps")]);
        file.save(&kinds).expect("written");
        let loaded = KindsFile::new(directory.path()).load().expect("readable");
        assert_eq!(format!("{loaded:?}"), format!("{kinds:?}"));
    }

    /// The hub compares versions: one that is not that of the content would hide a difference.
    #[test]
    fn a_kind_that_is_not_as_it_was_sent_is_not_loaded() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = KindsFile::new(directory.path());
        file.save(&Kinds::from([kind("configmaps")]))
            .expect("written");
        let path = directory.path().join(KindsFile::NAME);
        let text = std::fs::read_to_string(&path).expect("readable");
        for damaged in [
            text.replace("Both", "HubToZone"),
            text[..9].to_owned(),
            String::new(),
        ] {
            std::fs::write(&path, damaged).expect("written");
            assert!(file.load().expect("readable").is_empty());
        }
    }
}
