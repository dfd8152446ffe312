//! How far the zone followed its hub, kept beside the zone's credential.
//!
//! A hub that was restored to an earlier state is told by it, so that it does not rewind the zone.
//! What was applied carries its position itself; what was removed leaves no trace on any object, and
//! neither does the opening of the hub's store that nothing was applied of. So the file is written
//! before a response is acted on that removes something, is of another opening, or brings a newer
//! release; and when a connection ends.
//!
//! The file is replaced at once and durably, so a damaged one is a fault of the disk or of a person.
//! It never counts as nothing: the zone may have followed anything then, and what its objects carry
//! is no proof, since removals leave no trace on them. The zone tells its hub that the record is lost
//! (`Epoch::unproven`), is sent nothing, and keeps what it has until a person settles it as after a
//! restore (`deltaplane zones reconcile`). The damaged file is kept beside the new one. A file that
//! is missing although kinds came from a hub, or although the zone mirrors objects, is lost as well.
//!
//! It is the record of one store: that of another one takes its place when the zone acts on the first
//! response of it, and not when it joins, since until then it holds what the former sent. A zone that
//! leaves its fleet forgets it (`leaving`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use deltaplane_runtime::files::{self, FileError};
use deltaplane_sync::{Epoch, FollowedPosition, Position, Response};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::remembered::Remembered;

/// The newest position that the zone followed. Invariant: `saved` is what the file says.
pub(crate) struct FollowedHub {
    path: PathBuf,
    newest: Option<FollowedPosition>,
    saved: Option<FollowedPosition>,
}

pub(crate) const FILE: &str = "followed.json";
const DAMAGED: &str = "followed.json.damaged";

// === impl FollowedHub ===

impl FollowedHub {
    /// Reads what was written down in a directory. `remembered` is what else is known of the hub:
    /// a zone that kinds came to followed one.
    pub(crate) fn open(directory: &Path, remembered: &Remembered) -> Result<Self, FileError> {
        let path = directory.join(FILE);
        let bytes = files::read_bytes_if_exists(&path)?;
        let saved = bytes.as_deref().and_then(read);
        let is_lost = match bytes {
            Some(_) => saved.is_none(),
            None => remembered.has_followed(),
        };
        let mut followed = Self {
            path,
            newest: saved.clone(),
            saved,
        };
        if is_lost {
            followed.lose_record(bytes.as_deref());
        }
        Ok(followed)
    }

    /// Begins another record, in the place of one that was lost. If it cannot be written, the next
    /// process finds the loss again.
    pub(crate) fn lose_record(&mut self, damaged: Option<&[u8]>) {
        let file = self.path.display();
        tracing::error!(%file, "the record of how far the zone followed its hub is damaged or missing; the hub sends the zone nothing until a person settles it: deltaplane zones reconcile");
        self.newest = Some(FollowedPosition {
            position: Position {
                epoch: Epoch::unproven(&Uuid::new_v4().simple().to_string()),
                revision: 0,
            },
            releases: BTreeMap::new(),
        });
        let copy = self.path.with_file_name(DAMAGED);
        let kept = damaged.map_or(Ok(()), |bytes| files::write_private(&copy, bytes));
        if let Err(error) = kept.and_then(|()| self.save()) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "failed to write that the record is lost");
        }
    }

    pub(crate) fn newest(&self) -> Option<&FollowedPosition> {
        self.newest.as_ref()
    }

    /// The zone is about to act on a response of its hub.
    pub(crate) fn follow(&mut self, response: &Response) -> Result<(), FileError> {
        let saved = self.saved.as_ref();
        let known = |policy: &str| saved.and_then(|saved| saved.releases.get(policy));
        let newer =
            |(policy, release): (&String, &u64)| known(policy).is_none_or(|known| known < release);
        let leaves_no_trace = !response.removed.is_empty()
            || !response.orphaned.is_empty()
            || response.releases.iter().any(newer)
            || saved.is_none_or(|saved| saved.position.epoch != response.at.epoch);
        let newest = self.newest.get_or_insert_with(|| FollowedPosition {
            position: response.at.clone(),
            releases: response.releases.clone(),
        });
        // Releases of another hub say nothing of this one's, though policies are called the same.
        if newest.position.epoch.store() != response.at.epoch.store() {
            newest.releases.clear();
        }
        newest.position = response.at.clone();
        for (policy, release) in &response.releases {
            let known = newest.releases.entry(policy.clone()).or_default();
            *known = (*known).max(*release);
        }
        if leaves_no_trace {
            self.save()?;
        }
        Ok(())
    }

    /// Writes down what is known, if it is news.
    pub(crate) fn save(&mut self) -> Result<(), FileError> {
        let Some(newest) = self
            .newest
            .clone()
            .filter(|one| Some(one) != self.saved.as_ref())
        else {
            return Ok(());
        };
        let releases = newest.releases.iter();
        let releases = releases.map(|(policy, release)| (policy.clone(), Value::from(*release)));
        let releases: Map<String, Value> = releases.collect();
        let text = json!({"position": newest.position.to_string(), "releases": releases});
        files::write_private(&self.path, text.to_string().as_bytes())?;
        self.saved = Some(newest);
        Ok(())
    }
}

fn read(bytes: &[u8]) -> Option<FollowedPosition> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let releases = value["releases"].as_object()?.iter();
    let releases = releases.map(|(policy, release)| Some((policy.clone(), release.as_u64()?)));
    Some(FollowedPosition {
        position: value["position"].as_str()?.parse().ok()?,
        releases: releases.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use deltaplane_sync::SyncKind;

    use super::*;

    fn open(directory: &Path) -> FollowedHub {
        let remembered = Remembered::open(directory).expect("readable");
        FollowedHub::open(directory, &remembered).expect("readable")
    }

    fn response(at: &str, removed: &[&str], releases: &[(&str, u64)]) -> Response {
        Response {
            kind: SyncKind::new("", "ConfigMap").expect("legal"),
            nonce: 1,
            at: at.parse().expect("legal"),
            complete: false,
            items: Vec::new(),
            orphaned: Vec::new(),
            removed: removed
                .iter()
                .map(|name| name.parse().expect("legal"))
                .collect(),
            approved: false,
            releases: releases
                .iter()
                .map(|(policy, release)| ((*policy).to_owned(), *release))
                .collect(),
        }
    }

    /// What another process finds after each response: a process may end at any time.
    #[test]
    fn what_leaves_no_trace_is_written_before_it_is_done() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut followed = open(directory.path());
        assert_eq!(followed.newest(), None);
        for (response, saved, release) in [
            (response("s.a@5", &[], &[]), "s.a@5", None),
            // An object that is applied carries its position.
            (response("s.a@6", &[], &[]), "s.a@5", None),
            (response("s.a@7", &["ns/x"], &[]), "s.a@7", None),
            (response("s.a@8", &[], &[("web", 2)]), "s.a@8", Some(2)),
            (response("s.a@9", &[], &[("web", 2)]), "s.a@8", Some(2)),
            (response("s.b@9", &[], &[]), "s.b@9", Some(2)),
        ] {
            followed.follow(&response).expect("written");
            let found = open(directory.path());
            let releases = release.map(|release| ("web".to_owned(), release));
            let expected = FollowedPosition {
                position: saved.parse().expect("legal"),
                releases: releases.into_iter().collect::<BTreeMap<_, _>>(),
            };
            assert_eq!(found.newest(), Some(&expected));
            let newest = followed.newest().map(|newest| &newest.position);
            assert_eq!(newest, Some(&response.at));
        }
    }

    /// The zone joins another hub, whose policies are called the same.
    #[test]
    fn releases_of_another_store_are_forgotten_once_that_is_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let found = |releases: &[(&str, u64)]| {
            let newest = open(directory.path()).newest().cloned();
            let found = newest.expect("a record").releases;
            let releases = releases.iter();
            let expected = releases.map(|(policy, release)| ((*policy).to_owned(), *release));
            assert_eq!(found, expected.collect());
        };
        let mut followed = open(directory.path());
        let first = response("s.a@5", &[], &[("web", 20_000), ("db", 7)]);
        followed.follow(&first).expect("written");
        found(&[("web", 20_000), ("db", 7)]);
        // A process of before the first response of the other hub finds all of it.
        let mut followed = open(directory.path());
        found(&[("web", 20_000), ("db", 7)]);
        let second = response("t.a@3", &[], &[("web", 3)]);
        followed.follow(&second).expect("written");
        found(&[("web", 3)]);
        // Another opening of the same store is the same store.
        let third = response("t.b@4", &[], &[("db", 1)]);
        followed.follow(&third).expect("written");
        found(&[("web", 3), ("db", 1)]);
    }

    #[test]
    fn a_damaged_file_never_means_that_nothing_was_followed() {
        for bytes in [
            b"".as_slice(),
            b"{",
            b"\xff\xfe",
            br#"{"position": 7}"#,
            br#"{"position": "x", "releases": {}}"#,
        ] {
            let directory = tempfile::tempdir().expect("a directory");
            std::fs::write(directory.path().join(FILE), bytes).expect("written");
            let followed = open(directory.path());
            let lost = followed.newest().expect("a record of the loss");
            assert!(lost.position.epoch.is_unproven(), "{lost:?}");
            let kept = std::fs::read(directory.path().join(DAMAGED)).expect("kept");
            assert_eq!(kept, bytes);
            // It is one loss, however often the zone is started, until the hub is followed again.
            let mut again = open(directory.path());
            assert_eq!(again.newest(), Some(lost));
            again.follow(&response("s.a@5", &[], &[])).expect("written");
            let newest = open(directory.path()).newest().cloned();
            let newest = newest.map(|newest| newest.position.to_string());
            assert_eq!(newest.as_deref(), Some("s.a@5"));
        }
    }

    #[test]
    fn a_file_that_vanished_counts_as_lost() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(open(directory.path()).newest(), None);
        let mut remembered = Remembered::open(directory.path()).expect("readable");
        let kind = SyncKind::new("", "ConfigMap").expect("legal");
        remembered.add(&kind, "configmaps").expect("written");
        let lost = open(directory.path());
        let lost = lost.newest().expect("a record of the loss");
        assert!(lost.position.epoch.is_unproven(), "{lost:?}");
    }
}
