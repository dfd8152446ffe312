//! What definitions were: numbered, and never changed. Pure.

use std::collections::BTreeSet;

use deltaplane_api::admission::Point;
use deltaplane_graph::{Graph, labels};
use serde_json::{Value, json};

use super::{api, finalizers};

/// One that is kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Revision {
    /// Of the object.
    pub(super) name: String,
    pub(super) number: i64,
    /// kro's hash of what the definition said.
    pub(super) hash: String,
    /// What the definition said.
    pub(super) spec: Value,
    /// Of the definition, when it first said so.
    pub(super) generation: Option<i64>,
    pub(super) status: Value,
    /// The uid of the definition that it belongs to.
    pub(super) owner: Option<String>,
    /// Is being deleted, and the finalizer of kro keeps it.
    pub(super) finalizing: bool,
}

/// Whether a new one is due.
#[derive(Debug, PartialEq)]
pub(super) enum Issue {
    /// The newest says what the definition says.
    Keep(i64),
    New {
        number: i64,
        object: Value,
    },
    /// There is no number after this one.
    Exhausted(i64),
}

/// The label with kro's hash.
pub(super) const HASH: &str = "kro.run/graph-revision-hash";
/// So many are kept to go back to, used or not, unless an administrator says otherwise.
pub(super) const KEPT: usize = 10;
/// No revision has a higher number. At one a second that takes thirty years.
pub(super) const HIGHEST: i64 = 999_999_999;
/// Names are no longer.
const LONGEST: usize = 253;

/// What is due for a definition, whose revisions are given.
pub(super) fn issue(definition: &Value, graph: &Graph, revisions: &[Revision]) -> Issue {
    let newest = revisions.iter().max_by_key(|revision| revision.number);
    if let Some(newest) = newest.filter(|newest| newest.hash == graph.revision_hash()) {
        return Issue::Keep(newest.number);
    }
    let highest = newest.map(|newest| newest.number).max(issued(definition));
    match highest.unwrap_or(0) {
        last @ HIGHEST.. => Issue::Exhausted(last),
        last => {
            let number = last + 1;
            let object = object(definition, graph, number);
            Issue::New { number, object }
        }
    }
}

/// The number that was issued last, as the status of a definition says.
pub(super) fn issued(definition: &Value) -> Option<i64> {
    number(&definition["status"]["lastIssuedRevision"])
}

/// What somebody else wrote there is not believed.
fn number(value: &Value) -> Option<i64> {
    value
        .as_i64()
        .filter(|number| (1..=HIGHEST).contains(number))
}

fn object(definition: &Value, graph: &Graph, number: i64) -> Value {
    let metadata = &definition["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    json!({
        "apiVersion": api::revisions().api_version(),
        "kind": api::revisions().kind,
        "metadata": {
            "name": self::name(name, number),
            "labels": {
                labels::OWNED: "true",
                labels::VERSION: env!("CARGO_PKG_VERSION"),
                labels::DEFINITION_NAME: labels::value(name),
                HASH: graph.revision_hash(),
            },
            "ownerReferences": owners(definition),
        },
        "spec": {
            "revision": number,
            "snapshot": {
                "name": name,
                "generation": metadata["generation"],
                "spec": definition["spec"],
            },
        },
    })
}

/// Revisions go with their definition.
pub(super) fn owners(definition: &Value) -> Value {
    json!([{
        "apiVersion": api::definitions().api_version(),
        "kind": api::definitions().kind,
        "name": definition["metadata"]["name"],
        "uid": definition["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// `<definition>-r00007`; a name that would be too long keeps its beginning, and a hash.
pub(super) fn name(definition: &str, number: i64) -> String {
    let name = format!("{definition}-r{number:05}");
    if name.len() <= LONGEST {
        return name;
    }
    let end = format!("-r{number:05}-{:08x}", fnv32a(definition));
    let kept = &definition[..LONGEST - end.len()];
    format!("{}{end}", kept.trim_end_matches(['.', '-']))
}

fn fnv32a(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step)
}

// === impl Revision ===

impl Revision {
    pub(super) fn belongs_to(&self, definition: &Value) -> bool {
        self.owner.as_deref() == definition["metadata"]["uid"].as_str()
    }

    pub(super) fn point(&self) -> Point {
        Point::new(self.number, &self.hash)
    }

    /// Which definition it is of, and what it says.
    pub(super) fn read(object: &Value) -> Option<(String, Self)> {
        let spec = &object["spec"];
        let definition = spec["snapshot"]["name"].as_str()?.to_owned();
        let revision = Self {
            name: object["metadata"]["name"].as_str()?.to_owned(),
            number: number(&spec["revision"])?,
            hash: object["metadata"]["labels"][HASH]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            spec: spec["snapshot"]["spec"].clone(),
            generation: spec["snapshot"]["generation"].as_i64(),
            status: object["status"].clone(),
            owner: object["metadata"]["ownerReferences"][0]["uid"]
                .as_str()
                .map(str::to_owned),
            finalizing: finalizers::keeps(object),
        };
        Some((definition, revision))
    }
}

/// Those that may go: the oldest, but not what an instance runs or may run.
pub(super) fn surplus<'r>(
    revisions: &'r [Revision],
    kept: usize,
    in_use: &'r BTreeSet<Point>,
) -> impl Iterator<Item = &'r Revision> {
    let mut all: Vec<&Revision> = revisions.iter().collect();
    all.sort_by_key(|revision| -revision.number);
    let old = all.into_iter().skip(kept);
    let used = |one: &Revision| {
        let at = one.point();
        // The number may be one that it had before its definition was deleted and made again.
        in_use
            .iter()
            .any(|used| used.number == at.number || used.hash == at.hash)
    };
    old.filter(move |revision| !used(revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_goes_unless_it_is_used() {
        let revision = |number| Revision {
            name: format!("shop-r{number:05}"),
            number,
            hash: format!("{number:016x}"),
            spec: Value::Null,
            generation: None,
            status: Value::Null,
            owner: None,
            finalizing: false,
        };
        let revisions: Vec<Revision> = (1..=14).map(revision).collect();
        let elsewhere = Point::new(99, "3");
        let in_use = BTreeSet::from([Point::new(2, ""), Point::new(13, "d"), elsewhere]);
        let gone = surplus(&revisions, KEPT, &in_use);
        let gone: Vec<i64> = gone.map(|revision| revision.number).collect();
        assert_eq!(gone, [4, 1]);
        assert_eq!(
            surplus(&revisions[..KEPT], KEPT, &BTreeSet::new()).count(),
            0
        );
    }

    #[test]
    fn numbers_that_nobody_issued_are_not_believed() {
        let said = |number: i64| issued(&json!({"status": {"lastIssuedRevision": number}}));
        assert_eq!(said(7), Some(7));
        for forged in [i64::MIN, -1, 0, HIGHEST + 1, i64::MAX] {
            assert_eq!(said(forged), None, "{forged}");
            let spec = json!({"revision": forged, "snapshot": {"name": "shop", "spec": {}}});
            let object = json!({"metadata": {"name": "shop-r1"}, "spec": spec});
            assert_eq!(Revision::read(&object), None, "{forged}");
        }
    }

    #[test]
    fn long_names_stay_apart() {
        assert_eq!(name("shop", 7), "shop-r00007");
        let [a, b] = ["a", "b"].map(|end| name(&format!("{}{end}", "x".repeat(252)), 1));
        assert!(a.len() <= LONGEST && b.len() <= LONGEST);
        assert_ne!(a, b);
        assert!(a.contains("-r00001-"));
    }
}
