//! What the gates of an instance must not forget: which objects they admitted to what, and what was
//! last applied to those that they keep as they are. Pure.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use deltaplane_graph::Gvk;
use deltaplane_graph::labels;
use deltaplane_graph::observed::{Content, ObjectId, Observed};
use deltaplane_graph::plan::Plan;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Memory {
    /// What was admitted, and is not ready yet.
    pub(super) in_flight: BTreeMap<ObjectId, Content>,
    /// As it was applied.
    pub(super) frozen: BTreeMap<ObjectId, Value>,
}

/// An object, as it is written down.
#[derive(Serialize, Deserialize)]
struct Entry {
    group: String,
    version: String,
    kind: String,
    namespace: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    admitted: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    applied: Option<Value>,
}

/// A Secret holds a little more; what is written in it is a third longer than this.
const MOST: usize = 700 << 10;
/// What is read is no longer than this.
const LONGEST: u64 = 64 << 20;

impl Memory {
    /// What is to be remembered once a plan was made, and before it is carried out.
    pub(super) fn after(&self, plan: &Plan, observed: &Observed) -> Self {
        let mut frozen = BTreeMap::new();
        if !plan.keep.is_empty() {
            let all: BTreeMap<_, _> = observed.iter().map(|(_, live)| (&live.id, live)).collect();
            for id in &plan.keep {
                let Some(live) = all.get(id) else {
                    // It is to be put back, which may fail.
                    if let Some(known) = self.frozen.get(id) {
                        frozen.insert(id.clone(), known.clone());
                    }
                    continue;
                };
                let applied = live
                    .applied
                    .as_ref()
                    .map(|applied| applied.content.as_str());
                let known = self.frozen.get(id);
                let known = known.filter(|known| content(known) == applied);
                if let Some(object) = known.cloned().or_else(|| live.as_applied()) {
                    frozen.insert(id.clone(), object);
                }
            }
        }
        Self {
            in_flight: plan.in_flight.clone(),
            frozen,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_empty() && self.frozen.is_empty()
    }

    /// Whether whoever reads this knows all of the other. More does no harm: what was admitted
    /// and is ready is not in flight, and what is not frozen is not looked up.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let mut in_flight = other.in_flight.iter();
        let mut frozen = other.frozen.iter();
        in_flight.all(|(id, content)| self.in_flight.get(id) == Some(content))
            && frozen.all(|(id, object)| self.frozen.get(id) == Some(object))
    }

    /// As it is written down. What was applied is left out if all of it is too much: then only what
    /// others change of frozen objects stays.
    pub(super) fn encode(&self) -> std::io::Result<Vec<u8>> {
        let whole = compressed(&self.entries(true))?;
        match whole.len() <= MOST {
            true => Ok(whole),
            false => compressed(&self.entries(false)),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> std::io::Result<Self> {
        let text = GzDecoder::new(bytes).take(LONGEST);
        let entries: Vec<Entry> = serde_json::from_reader(text)?;
        let mut memory = Self::default();
        for entry in entries {
            let id = ObjectId {
                gvk: Gvk::new(&entry.group, &entry.version, &entry.kind),
                namespace: entry.namespace,
                name: entry.name,
            };
            if let Some(content) = entry.admitted {
                let content = Content::read(&content);
                memory.in_flight.insert(id.clone(), content);
            }
            if let Some(object) = entry.applied {
                memory.frozen.insert(id, object);
            }
        }
        Ok(memory)
    }

    fn entries(&self, whole: bool) -> Vec<Entry> {
        let admitted = self.in_flight.iter().map(|(id, content)| Entry {
            admitted: Some(content.as_str().to_owned()),
            ..Entry::of(id)
        });
        let frozen = self.frozen.iter().filter(|_| whole);
        let frozen = frozen.map(|(id, object)| Entry {
            applied: Some(object.clone()),
            ..Entry::of(id)
        });
        admitted.chain(frozen).collect()
    }
}

impl Entry {
    fn of(id: &ObjectId) -> Self {
        Self {
            group: id.gvk.group.clone(),
            version: id.gvk.version.clone(),
            kind: id.gvk.kind.clone(),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            admitted: None,
            applied: None,
        }
    }
}

fn content(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][labels::CONTENT].as_str()
}

fn compressed(entries: &[Entry]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    serde_json::to_writer(&mut encoder, entries)?;
    encoder.flush()?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sha2::{Digest, Sha256};

    use super::*;

    fn id(name: &str) -> ObjectId {
        ObjectId {
            gvk: Gvk::new("", "v1", "ConfigMap"),
            namespace: "default".to_owned(),
            name: name.to_owned(),
        }
    }

    fn memory(admitted: &[(&str, &str)], frozen: &[(&str, Value)]) -> Memory {
        let admitted = admitted
            .iter()
            .map(|(name, content)| (id(name), Content::read(content)));
        let frozen = frozen
            .iter()
            .map(|(name, object)| (id(name), object.clone()));
        Memory {
            in_flight: admitted.collect(),
            frozen: frozen.collect(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let memory = memory(
            &[("a", "1"), ("b", "2")],
            &[("b", json!({"data": {"x": "y"}}))],
        );
        let bytes = memory.encode().expect("it is little");
        assert_eq!(Memory::decode(&bytes).expect("ours"), memory);
        assert!(Memory::decode(b"nonsense").is_err());
    }

    #[test]
    fn what_is_too_much_is_left_out_and_admissions_are_not() {
        // Digests do not compress.
        let digest = |at: u32| format!("{:?}", Sha256::digest(at.to_le_bytes()));
        let noise: String = (0..40_000).map(digest).collect();
        let much = memory(&[("a", "1")], &[("b", json!({ "data": noise }))]);
        let read = Memory::decode(&much.encode().expect("written")).expect("ours");
        assert!(read == memory(&[("a", "1")], &[]));
    }

    #[test]
    fn more_than_is_known_is_to_be_written() {
        let known = memory(&[("a", "1"), ("b", "2")], &[]);
        assert!(known.covers(&memory(&[("a", "1")], &[])));
        assert!(!known.covers(&memory(&[("a", "2")], &[])));
        assert!(!known.covers(&memory(&[("c", "1")], &[])));
        assert!(!known.covers(&memory(&[], &[("a", json!({}))])));
    }
}
