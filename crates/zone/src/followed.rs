//! How far the zone followed its hub, kept beside the zone's credential.
//!
//! A hub that was restored to an earlier state is told by it, so that it does not rewind the zone.
//! What was applied carries its position itself; what was removed leaves no trace on any object, and
//! neither does the opening of the hub's store that nothing was applied of. So the file is written
//! before a response is acted on that removes something, is of another opening, or brings a newer
//! release; and when a connection ends.

use std::path::{Path, PathBuf};

use deltaplane_runtime::files::{self, FileError};
use deltaplane_sync::{FollowedPosition, Response};
use serde_json::{Map, Value, json};

/// The newest position that the zone followed. Invariant: `saved` is what the file says.
pub(crate) struct FollowedHub {
    path: PathBuf,
    newest: Option<FollowedPosition>,
    saved: Option<FollowedPosition>,
}

const FILE: &str = "followed.json";

// === impl FollowedHub ===

impl FollowedHub {
    /// What was written down in a directory. A file that cannot be read counts as none: the objects
    /// themselves still say where they are from.
    pub(crate) fn open(directory: &Path) -> Result<Self, FileError> {
        let path = directory.join(FILE);
        let text = files::read_if_exists(&path)?.unwrap_or_default();
        let saved = read(&text);
        Ok(Self {
            path,
            newest: saved.clone(),
            saved,
        })
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
        newest.position = response.at.clone();
        for (policy, release) in &response.releases {
            let known = newest.releases.entry(policy.clone()).or_default();
            *known = (*known).max(*release);
        }
        match leaves_no_trace {
            true => self.save(),
            false => Ok(()),
        }
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

fn read(text: &str) -> Option<FollowedPosition> {
    let value: Value = serde_json::from_str(text).ok()?;
    let releases = value["releases"].as_object()?.iter();
    let releases = releases.map(|(policy, release)| Some((policy.clone(), release.as_u64()?)));
    Some(FollowedPosition {
        position: value["position"].as_str()?.parse().ok()?,
        releases: releases.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use deltaplane_sync::SyncKind;

    use super::*;

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
        let mut followed = FollowedHub::open(directory.path()).expect("readable");
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
            let found = FollowedHub::open(directory.path()).expect("readable");
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

    #[test]
    fn a_file_that_is_damaged_counts_as_none() {
        let directory = tempfile::tempdir().expect("a directory");
        for text in [
            "",
            "{",
            r#"{"position": 7}"#,
            r#"{"position": "x", "releases": {}}"#,
        ] {
            std::fs::write(directory.path().join(FILE), text).expect("written");
            let followed = FollowedHub::open(directory.path()).expect("readable");
            assert_eq!(followed.newest(), None, "{text}");
        }
    }
}
