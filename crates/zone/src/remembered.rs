//! Which kinds ever came from the hub, kept beside the zone's credential: what is here of a kind
//! that does not cross any more must still be let go of, also by a process that never heard of it.
//! The zone names them when it connects: how it differs from its hub is known once it has said what
//! it holds of all of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use deltaplane_runtime::files::{self, FileError};
use deltaplane_sync::SyncKind;
use serde_json::{Map, Value};

/// Kinds, and what they are called in paths.
pub(crate) struct Remembered {
    path: PathBuf,
    kinds: BTreeMap<SyncKind, String>,
}

const FILE: &str = "kinds.json";

// === impl Remembered ===

impl Remembered {
    /// What was written down in a directory. What cannot be read counts as nothing: then leftovers
    /// of kinds that do not cross any more stay as they are.
    pub(crate) fn open(directory: &Path) -> Result<Self, FileError> {
        let path = directory.join(FILE);
        let text = files::read_if_exists(&path)?.unwrap_or_default();
        let kinds: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
        let kinds = kinds.iter().filter_map(|(name, plural)| {
            let (kind, group) = name.split_once('.').unwrap_or((name, ""));
            let kind = SyncKind::new(group, kind).ok()?;
            Some((kind, plural.as_str()?.to_owned()))
        });
        let kinds = kinds.collect();
        Ok(Self { path, kinds })
    }

    pub(crate) fn kinds(&self) -> &BTreeMap<SyncKind, String> {
        &self.kinds
    }

    /// Writes down that a kind comes, before anything of it does. May be repeated when it failed.
    pub(crate) fn add(&mut self, kind: &SyncKind, plural: &str) -> Result<(), FileError> {
        if self.kinds.get(kind).is_some_and(|known| known == plural) {
            return Ok(());
        }
        let mut all = self.kinds.clone();
        all.insert(kind.clone(), plural.to_owned());
        let kinds = all.iter().map(|(kind, plural)| {
            let name = match kind.group() {
                "" => kind.kind().to_owned(),
                group => format!("{}.{group}", kind.kind()),
            };
            (name, Value::from(plural.as_str()))
        });
        let text = Value::Object(kinds.collect()).to_string();
        files::write_private(&self.path, text.as_bytes())?;
        self.kinds = all;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_remembered() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Remembered::open(directory.path()).expect("readable");
        let mut remembered = open();
        let widgets = SyncKind::new("example.com", "Widget").expect("legal");
        let secrets = SyncKind::new("", "Secret").expect("legal");
        remembered.add(&widgets, "widgets").expect("written");
        remembered.add(&secrets, "secrets").expect("written");
        let expected = [
            (secrets, "secrets".to_owned()),
            (widgets, "widgets".to_owned()),
        ];
        assert_eq!(open().kinds(), &BTreeMap::from(expected));
    }

    #[test]
    fn a_kind_that_was_not_written_is_written_later() {
        let directory = tempfile::tempdir().expect("a directory");
        let membership = directory.path().join("zone");
        let mut remembered = Remembered::open(&membership).expect("there is none yet");
        let secrets = SyncKind::new("", "Secret").expect("legal");
        assert!(remembered.add(&secrets, "secrets").is_err());
        assert!(remembered.kinds().is_empty());
        std::fs::create_dir(&membership).expect("made");
        remembered.add(&secrets, "secrets").expect("written");
        let again = Remembered::open(&membership).expect("readable");
        assert_eq!(again.kinds(), remembered.kinds());
        assert_eq!(again.kinds().len(), 1);
    }
}
