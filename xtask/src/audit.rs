//! What kube-apiserver wrote down of somebody's requests: how many there were, and of what.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Reads on where it has stopped.
pub(crate) struct Audit {
    path: PathBuf,
    /// Up to where it has been read.
    read: u64,
    /// Requests that go on: a watch is written down when it begins, and when it ends.
    open: BTreeSet<String>,
}

/// Requests, by what they were: `patch configmaps`.
pub(crate) type Requests = BTreeMap<String, usize>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(rename = "auditID")]
    id: String,
    stage: String,
    verb: String,
    #[serde(default, rename = "requestURI")]
    uri: String,
    object_ref: Option<Reference>,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(default)]
    resource: String,
    subresource: Option<String>,
}

// === impl Audit ===

impl Audit {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            read: 0,
            open: BTreeSet::new(),
        }
    }

    /// The requests that began since this was asked last.
    pub(crate) fn news(&mut self) -> Result<Requests> {
        let mut requests = Requests::new();
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            // Nobody has asked for anything yet.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(requests),
            Err(error) => return Err(error).context("opening the audit log"),
        };
        file.seek(SeekFrom::Start(self.read))
            .context("reading the audit log")?;
        let mut text = String::new();
        file.read_to_string(&mut text)
            .context("reading the audit log")?;
        // The last line may be half written.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        for line in text[..whole].lines() {
            let entry: Entry = serde_json::from_str(line).context("reading the audit log")?;
            if self.begins(&entry) {
                *requests.entry(entry.what()).or_default() += 1;
            }
        }
        Ok(requests)
    }

    /// Whether it tells of a request that was not told of before.
    fn begins(&mut self, entry: &Entry) -> bool {
        match entry.stage.as_str() {
            "ResponseStarted" => self.open.insert(entry.id.clone()),
            _ => !self.open.remove(&entry.id),
        }
    }
}

// === impl Entry ===

impl Entry {
    fn what(&self) -> String {
        let Self {
            verb,
            uri,
            object_ref,
            ..
        } = self;
        match object_ref {
            Some(Reference {
                resource,
                subresource: Some(part),
            }) => format!("{verb} {resource}/{part}"),
            Some(Reference { resource, .. }) => format!("{verb} {resource}"),
            None => format!("{verb} {uri}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_once_and_half_a_line_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let mut audit = Audit::new(path.clone());
        assert_eq!(audit.news().unwrap(), Requests::new());
        let line = |id: &str, stage: &str, verb: &str| {
            format!(
                r#"{{"auditID":"{id}","stage":"{stage}","verb":"{verb}","requestURI":"/x","objectRef":{{"resource":"shops","subresource":"status"}}}}"#
            )
        };
        let begun = line("1", "ResponseStarted", "watch");
        let patched = line("2", "ResponseComplete", "patch");
        std::fs::write(&path, format!("{begun}\n{patched}")).unwrap();
        let one = |what: &str| Requests::from([(what.to_owned(), 1)]);
        assert_eq!(audit.news().unwrap(), one("watch shops/status"));
        let ended = line("1", "ResponseComplete", "watch");
        std::fs::write(&path, format!("{begun}\n{patched}\n{ended}\n")).unwrap();
        assert_eq!(audit.news().unwrap(), one("patch shops/status"));
    }
}
