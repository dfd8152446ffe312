//! Which kinds ever came from the hub, kept beside the zone's credential: what is here of a kind
//! that does not cross any more must still be let go of, also by a process that never heard of it.
//! The zone names them when it connects: how it differs from its hub is known once it has said what
//! it holds of all of them. A damaged file never counts as none: the zone looks then which kinds it
//! has objects of, before it connects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use deltaplane_client::RequestError;
use deltaplane_client::discovery::{Catalog, PluralCheck, Served, discover};
use deltaplane_client::feed::{self, Query};
use deltaplane_runtime::files::{self, FileError};
use deltaplane_sync::{NameError, ORIGIN, SyncKind};
use kube::Client;
use serde_json::{Map, Value};

/// Kinds, and what they are called in paths.
pub(crate) struct Remembered {
    path: PathBuf,
    kinds: BTreeMap<SyncKind, String>,
    /// The file cannot be read: there are more kinds than these.
    is_damaged: bool,
}

/// Why it is not known which kinds the zone mirrors.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FindKindsError {
    #[error("failed to list mirrored objects")]
    Request(#[source] Box<RequestError>),
    #[error("the zone's API does not say what it serves of {group}: {reason}")]
    Discovery { group: String, reason: String },
    #[error(transparent)]
    Name(#[from] NameError),
}

pub(crate) const FILE: &str = "kinds.json";

// === impl Remembered ===

impl Remembered {
    /// What was written down in a directory.
    pub(crate) fn open(directory: &Path) -> Result<Self, FileError> {
        let path = directory.join(FILE);
        let bytes = files::read_bytes_if_exists(&path)?;
        let kinds = bytes.map_or_else(|| Some(BTreeMap::new()), |bytes| read(&bytes));
        Ok(Self {
            path,
            is_damaged: kinds.is_none(),
            kinds: kinds.unwrap_or_default(),
        })
    }

    /// Returns true if the kinds must be found and recovered before the zone connects.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Returns true if kinds came from a hub.
    pub(crate) fn has_followed(&self) -> bool {
        self.is_damaged || !self.kinds.is_empty()
    }

    /// Replaces a damaged file.
    pub(crate) fn recover(&mut self, kinds: BTreeMap<SyncKind, String>) -> Result<(), FileError> {
        self.write(kinds)?;
        self.is_damaged = false;
        Ok(())
    }

    pub(crate) fn kinds(&self) -> &BTreeMap<SyncKind, String> {
        &self.kinds
    }

    /// Writes down that a kind comes, before anything of it does. May be repeated when it failed.
    pub(crate) fn add(&mut self, kind: &SyncKind, plural: &str) -> Result<(), FileError> {
        if self.kinds.get(kind).is_some_and(|known| known == plural) {
            return Ok(());
        }
        let mut kinds = self.kinds.clone();
        kinds.insert(kind.clone(), plural.to_owned());
        self.write(kinds)
    }

    /// Corrects the plurals that are of other kinds: a SyncedKind had a wrong name. What the API does
    /// not serve at all stays, since it may again.
    pub(crate) fn repair(&mut self, catalog: &Catalog) -> Result<(), FileError> {
        let as_served = |(kind, plural): (&SyncKind, &String)| {
            let plural = match catalog.check_plural(kind.group(), kind.kind(), plural) {
                PluralCheck::Matches | PluralCheck::NotServed | PluralCheck::Unknown => plural,
                PluralCheck::ServedAs(resource) => &resource.plural,
                PluralCheck::Taken(_) => return None,
            };
            Some((kind.clone(), plural.clone()))
        };
        let kinds: BTreeMap<SyncKind, String> = self.kinds.iter().filter_map(as_served).collect();
        if kinds == self.kinds {
            return Ok(());
        }
        tracing::warn!(
            path = %self.path.display(),
            "some kinds were remembered by the plurals of other kinds; corrected them"
        );
        self.write(kinds)
    }

    fn write(&mut self, kinds: BTreeMap<SyncKind, String>) -> Result<(), FileError> {
        let written = kinds.iter().map(|(kind, plural)| {
            let name = match kind.group() {
                "" => kind.kind().to_owned(),
                group => format!("{}.{group}", kind.kind()),
            };
            (name, Value::from(plural.as_str()))
        });
        let text = Value::Object(written.collect()).to_string();
        files::write_private(&self.path, text.as_bytes())?;
        self.kinds = kinds;
        Ok(())
    }
}

fn read(bytes: &[u8]) -> Option<BTreeMap<SyncKind, String>> {
    let kinds: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
    let kinds = kinds.iter().map(|(name, plural)| {
        let (kind, group) = name.split_once('.').unwrap_or((name, ""));
        let kind = SyncKind::new(group, kind).ok()?;
        Some((kind, plural.as_str()?.to_owned()))
    });
    kinds.collect()
}

/// The kinds of which an API has objects that came from a hub. Of a kind that the agent may not list
/// none came.
pub(crate) async fn find_mirrored_kinds(
    client: &Client,
) -> Result<BTreeMap<SyncKind, String>, FindKindsError> {
    let catalog = discover(client).await?;
    if let Some((group, reason)) = catalog.failures.into_iter().next() {
        return Err(FindKindsError::Discovery { group, reason });
    }
    let mut kinds = BTreeMap::new();
    for Served {
        resource, verbs, ..
    } in catalog.kinds.into_values()
    {
        if !verbs.contains("list") {
            continue;
        }
        let query = Query::all(resource.clone()).with_labels(ORIGIN);
        let mut mirrored = 0_usize;
        match feed::list(client, &query, |_| mirrored += 1).await {
            // Not allowed, not served any more, or not to be listed.
            Err(error) if matches!(error.code(), Some(403..=405)) => {}
            listed => listed?,
        }
        if mirrored > 0 {
            let kind = SyncKind::new(&resource.group, &resource.kind)?;
            kinds.insert(kind, resource.plural);
        }
    }
    Ok(kinds)
}

// === impl FindKindsError ===

impl From<RequestError> for FindKindsError {
    fn from(error: RequestError) -> Self {
        Self::Request(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_client::Resource;

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
    fn plurals_of_other_kinds_are_corrected() {
        let mut catalog = Catalog::default();
        for (group, plural, kind) in [
            ("", "configmaps", "ConfigMap"),
            ("", "secrets", "Secret"),
            ("example.com", "widgets", "Widget"),
        ] {
            catalog.insert_served(Served {
                resource: Resource::cluster(group, "v1", plural, kind),
                verbs: Default::default(),
                short_names: Default::default(),
            });
        }
        let reason = "it is away".to_owned();
        catalog
            .failures
            .insert("away.example.com/v1".to_owned(), reason);
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Remembered::open(directory.path()).expect("readable");
        let written = r#"{"ConfigMap":"configmaps","Secret":"configmaps","Gear.example.com":"widgets",
            "Gadget.example.com":"gadgets","Thing.away.example.com":"others"}"#;
        std::fs::write(directory.path().join(FILE), written).expect("written");
        open().repair(&catalog).expect("written");
        let expected = [
            ("", "ConfigMap", "configmaps"),
            ("", "Secret", "secrets"),
            ("away.example.com", "Thing", "others"),
            ("example.com", "Gadget", "gadgets"),
        ];
        let expected = expected.map(|(group, kind, plural)| {
            let kind = SyncKind::new(group, kind).expect("legal");
            (kind, plural.to_owned())
        });
        assert_eq!(open().kinds(), &BTreeMap::from(expected));
    }

    #[test]
    fn a_damaged_file_is_found_until_it_is_recovered() {
        let secrets = SyncKind::new("", "Secret").expect("legal");
        let kinds = BTreeMap::from([(secrets, "secrets".to_owned())]);
        for bytes in [b"".as_slice(), b"{\"Sec", b"\xff", br#"{"Secret": 7}"#] {
            let directory = tempfile::tempdir().expect("a directory");
            let open = || Remembered::open(directory.path()).expect("readable");
            assert!(!open().is_damaged() && !open().has_followed());
            std::fs::write(directory.path().join(FILE), bytes).expect("written");
            let mut remembered = open();
            assert!(remembered.is_damaged() && remembered.has_followed());
            remembered.recover(kinds.clone()).expect("written");
            assert!(!remembered.is_damaged());
            assert!(!open().is_damaged());
            assert_eq!(open().kinds(), &kinds);
        }
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
