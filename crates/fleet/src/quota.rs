//! How much a zone may keep at the hub. Pure.
//!
//! What zones author is stored at the hub, so one zone could fill the hub's disk and memory for all
//! others. `Zone.spec.quota` bounds it. An update that makes an object smaller always passes: a zone
//! that is beyond its quota, because the quota became smaller, must be able to get below it.
//!
//! An object is held against the quota twice: as the zone sends it, before anything is made for it
//! (`reserve`), and as the hub would store it, with the defaults of its schema (`store`). The second
//! is what counts.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_sync::{ObjectName, SyncKind, crosses};
use serde::Deserialize;
use serde_json::Value;

/// As the object of a zone has it; what is not given is as usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct QuotaSpec {
    pub objects: Option<u64>,
    pub bytes: Option<u64>,
    pub namespaces: Option<u64>,
}

/// How much a zone may keep at the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZoneQuota {
    objects: u64,
    bytes: u64,
    namespaces: u64,
}

/// How much a zone keeps at the hub.
#[derive(Clone, Debug, Default)]
pub(crate) struct ZoneUsage {
    sizes: BTreeMap<(SyncKind, ObjectName), u64>,
    bytes: u64,
    /// How many objects there are in each namespace.
    namespaces: BTreeMap<String, u64>,
}

/// The bounds of what a zone keeps at the hub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotaLimits<'a> {
    pub(crate) quota: &'a ZoneQuota,
    /// The namespaces at the hub that were made for the zone: they count also without objects.
    pub(crate) made: &'a BTreeSet<String>,
}

/// The sizes of an object at the hub, before a write and after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeChange {
    /// None if the object is not there.
    pub(crate) before: Option<u64>,
    pub(crate) after: u64,
}

/// Which part of a quota an object would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the zone would have {wanted} {part} at the hub, and its quota allows {allowed}: delete {excess}, or raise spec.quota.{part} of its Zone",
    excess = excess(part)
)]
pub(crate) struct QuotaExceeded {
    part: &'static str,
    wanted: u64,
    allowed: u64,
}

fn excess(part: &str) -> &'static str {
    match part {
        "namespaces" => {
            "namespaces there that were made for the zone (label deltaplane.io/made-for) and are empty"
        }
        _ => "what the zone does not need there",
    }
}

/// The part of an object's metadata that counts; the rest is written by control planes.
const COUNTED: [&str; 3] = ["labels", "annotations", "ownerReferences"];

/// How many bytes an object counts for: its content as JSON. The status and what control planes keep
/// in the metadata do not count.
pub(crate) fn content_size(object: &Value) -> u64 {
    let length = |value: &Value| value.to_string().len() as u64;
    let fields = object.as_object().into_iter().flatten();
    let content: u64 = fields
        .filter(|(field, _)| !matches!(field.as_str(), "metadata" | "status"))
        .map(|(field, value)| field.len() as u64 + length(value))
        .sum();
    let metadata = COUNTED.iter().map(|field| &object["metadata"][field]);
    let counted = metadata.map(|value| match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| crosses(key))
            .map(|(key, value)| key.len() as u64 + length(value))
            .sum(),
        Value::Null => 0,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => length(value),
    });
    content + counted.sum::<u64>()
}

// === impl ZoneQuota ===

impl ZoneQuota {
    /// As a zone's object says, and as usual where it does not.
    pub(crate) fn of(spec: QuotaSpec) -> Self {
        Self {
            objects: spec.objects.unwrap_or(50_000),
            bytes: spec.bytes.unwrap_or(256_000_000),
            namespaces: spec.namespaces.unwrap_or(500),
        }
    }
}

// === impl SizeChange ===

impl SizeChange {
    fn is_growth(self) -> bool {
        self.before.is_none_or(|before| self.after > before)
    }
}

// === impl ZoneUsage ===

impl ZoneUsage {
    /// Counts an object as it is at the hub, whatever the quota is.
    pub(crate) fn set(&mut self, kind: &SyncKind, name: &ObjectName, size: u64) {
        self.remove(kind, name);
        self.sizes.insert((kind.clone(), name.clone()), size);
        self.bytes = self.bytes.saturating_add(size);
        if !name.namespace().is_empty() {
            *self
                .namespaces
                .entry(name.namespace().to_owned())
                .or_default() += 1;
        }
    }

    /// Counts an object no more; returns how large it was.
    pub(crate) fn remove(&mut self, kind: &SyncKind, name: &ObjectName) -> Option<u64> {
        let size = self.sizes.remove(&(kind.clone(), name.clone()))?;
        self.bytes = self.bytes.saturating_sub(size);
        if let Some(count) = self.namespaces.get_mut(name.namespace()) {
            *count -= 1;
            if *count == 0 {
                self.namespaces.remove(name.namespace());
            }
        }
        Some(size)
    }

    /// Returns true if the object is counted.
    pub(crate) fn counts(&self, kind: &SyncKind, name: &ObjectName) -> bool {
        self.sizes.contains_key(&(kind.clone(), name.clone()))
    }

    /// Counts no objects of a kind but these.
    pub(crate) fn retain(&mut self, kind: &SyncKind, names: &BTreeSet<ObjectName>) {
        let gone: Vec<ObjectName> = self
            .sizes
            .keys()
            .filter(|(of, name)| of == kind && !names.contains(name))
            .map(|(_, name)| name.clone())
            .collect();
        for name in gone {
            self.remove(kind, &name);
        }
    }

    /// Makes room for an object that a zone sends, if the quota allows it; returns how large it is at
    /// the hub. An object that is there counts as before until it is stored.
    pub(crate) fn reserve(
        &mut self,
        limits: QuotaLimits<'_>,
        kind: &SyncKind,
        name: &ObjectName,
        size: u64,
    ) -> Result<Option<u64>, QuotaExceeded> {
        let before = self.sizes.get(&(kind.clone(), name.clone())).copied();
        if before.is_none_or(|before| size > before) {
            self.check(limits, before, name, size)?;
        }
        if before.is_none() {
            self.set(kind, name, size);
        }
        Ok(before)
    }

    /// Counts an object as it is about to be stored, if the quota allows it.
    pub(crate) fn store(
        &mut self,
        quota: &ZoneQuota,
        kind: &SyncKind,
        name: &ObjectName,
        change: SizeChange,
    ) -> Result<(), QuotaExceeded> {
        let counted = self.sizes.get(&(kind.clone(), name.clone())).copied();
        let others = self.bytes.saturating_sub(counted.unwrap_or(0));
        let wanted = others.saturating_add(change.after);
        if change.is_growth() && wanted > quota.bytes {
            return Err(QuotaExceeded {
                part: "bytes",
                wanted,
                allowed: quota.bytes,
            });
        }
        self.set(kind, name, change.after);
        Ok(())
    }

    fn check(
        &self,
        limits: QuotaLimits<'_>,
        before: Option<u64>,
        name: &ObjectName,
        size: u64,
    ) -> Result<(), QuotaExceeded> {
        let QuotaLimits { quota, made } = limits;
        let new = u64::from(before.is_none());
        let namespace = name.namespace();
        let counts = |one: &str| self.namespaces.contains_key(one);
        let is_new = !namespace.is_empty() && !counts(namespace) && !made.contains(namespace);
        let empty = made.iter().filter(|one| !counts(one)).count();
        let bytes = self.bytes.saturating_sub(before.unwrap_or(0));
        let parts = [
            (
                "objects",
                self.sizes.len() as u64 + new,
                quota.objects,
                new > 0,
            ),
            ("bytes", bytes.saturating_add(size), quota.bytes, true),
            (
                "namespaces",
                (self.namespaces.len() + empty) as u64 + u64::from(is_new),
                quota.namespaces,
                is_new,
            ),
        ];
        let exceeded = parts
            .into_iter()
            .find(|(_, wanted, allowed, grows)| *grows && wanted > allowed);
        match exceeded {
            Some((part, wanted, allowed, _)) => Err(QuotaExceeded {
                part,
                wanted,
                allowed,
            }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind() -> SyncKind {
        SyncKind::new("", "ConfigMap").expect("legal")
    }

    fn name(text: &str) -> ObjectName {
        text.parse().expect("legal")
    }

    fn reserve(
        usage: &mut ZoneUsage,
        quota: &ZoneQuota,
        made: &[&str],
        object: &str,
        size: u64,
    ) -> Result<Option<u64>, QuotaExceeded> {
        let made = made.iter().map(|one| (*one).to_owned()).collect();
        let limits = QuotaLimits { quota, made: &made };
        let before = usage.reserve(limits, &kind(), &name(object), size)?;
        let change = SizeChange {
            before,
            after: size,
        };
        usage.store(quota, &kind(), &name(object), change)?;
        Ok(before)
    }

    /// As the guide says.
    #[test]
    fn what_a_zone_may_keep_unless_its_object_says_otherwise() {
        let usual = ZoneQuota {
            objects: 50_000,
            bytes: 256_000_000,
            namespaces: 500,
        };
        assert_eq!(ZoneQuota::of(QuotaSpec::default()), usual);
        let given = QuotaSpec {
            bytes: Some(1),
            ..QuotaSpec::default()
        };
        assert_eq!(ZoneQuota::of(given), ZoneQuota { bytes: 1, ..usual });
    }

    /// Defaults of a schema may make a small object large.
    #[test]
    fn the_stored_size_of_an_object_counts() {
        let quota = ZoneQuota {
            objects: 9,
            bytes: 100,
            namespaces: 9,
        };
        let mut usage = ZoneUsage::default();
        let mut put = |object: &str, sent: u64, stored: u64| {
            let made = BTreeSet::new();
            let limits = QuotaLimits {
                quota: &quota,
                made: &made,
            };
            let before = usage.reserve(limits, &kind(), &name(object), sent)?;
            let change = SizeChange {
                before,
                after: stored,
            };
            let stored = usage.store(&quota, &kind(), &name(object), change);
            if stored.is_err() && before.is_none() {
                usage.remove(&kind(), &name(object));
            }
            stored.map(|()| before)
        };
        let wanted = |put: Result<Option<u64>, QuotaExceeded>| put.map_err(|one| one.wanted);
        assert_eq!(wanted(put("a/one", 10, 60)), Ok(None));
        assert_eq!(wanted(put("a/two", 10, 60)), Err(120));
        assert_eq!(wanted(put("a/two", 10, 40)), Ok(None));
        // An update that is smaller than what is stored, and becomes larger.
        assert_eq!(wanted(put("a/one", 20, 61)), Err(101));
        assert_eq!(wanted(put("a/one", 20, 30)), Ok(Some(60)));
        assert_eq!(wanted(put("a/one", 20, 60)), Ok(Some(30)));
    }

    /// They stay when their objects are refused or go.
    #[test]
    fn namespaces_that_were_made_for_a_zone_count_without_objects() {
        let quota = ZoneQuota {
            objects: 9,
            bytes: 100,
            namespaces: 2,
        };
        let mut usage = ZoneUsage::default();
        let mut put = |made: &[&str], object: &str| {
            let put = reserve(&mut usage, &quota, made, object, 1);
            put.map_err(|exceeded| (exceeded.part, exceeded.wanted))
        };
        assert_eq!(put(&["a", "b"], "c/one"), Err(("namespaces", 3)));
        assert_eq!(put(&["a", "b"], "b/one"), Ok(None));
        assert_eq!(put(&["b"], "c/one"), Ok(None), "each counts once");
        assert_eq!(put(&["b", "c"], "d/one"), Err(("namespaces", 3)));
    }

    #[test]
    fn a_zone_keeps_so_much_and_no_more() {
        let quota = ZoneQuota {
            objects: 3,
            bytes: 100,
            namespaces: 2,
        };
        let mut usage = ZoneUsage::default();
        let mut put = |object: &str, size: u64| {
            let put = reserve(&mut usage, &quota, &[], object, size);
            put.map_err(|exceeded| exceeded.part)
        };
        assert_eq!(put("a/one", 40), Ok(None));
        assert_eq!(put("b/two", 40), Ok(None));
        assert_eq!(put("c/three", 1), Err("namespaces"));
        assert_eq!(put("b/three", 30), Err("bytes"));
        assert_eq!(put("b/three", 20), Ok(None));
        assert_eq!(put("b/four", 0), Err("objects"));
        assert_eq!(put("a/one", 41), Err("bytes"));
        assert_eq!(put("a/one", 10), Ok(Some(40)));
        assert_eq!(put("a/one", 40), Ok(Some(10)));
        assert_eq!(usage.remove(&kind(), &name("b/three")), Some(20));
        assert_eq!(usage.remove(&kind(), &name("b/two")), Some(40));
        assert_eq!(usage.remove(&kind(), &name("b/two")), None);
        let put = reserve(&mut usage, &quota, &[], "c/three", 60);
        assert_eq!(put, Ok(None), "what is gone does not count");
    }

    #[test]
    fn an_update_that_shrinks_passes_beyond_the_quota() {
        let quota = ZoneQuota {
            objects: 0,
            bytes: 0,
            namespaces: 0,
        };
        let mut usage = ZoneUsage::default();
        usage.set(&kind(), &name("a/one"), 40);
        let update = |usage: &mut ZoneUsage, size| {
            let update = reserve(usage, &quota, &[], "a/one", size);
            update.map_err(|exceeded| exceeded.to_string())
        };
        assert_eq!(update(&mut usage, 40), Ok(Some(40)));
        assert_eq!(update(&mut usage, 39), Ok(Some(40)));
        let expected = "the zone would have 40 bytes at the hub, and its quota allows 0: delete what the zone does not need there, or raise spec.quota.bytes of its Zone";
        assert_eq!(update(&mut usage, 40), Err(expected.to_owned()));
    }

    #[test]
    fn an_object_counts_alike_where_it_came_from_and_here() {
        let authored = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
            "metadata": {"name": "one", "namespace": "a", "labels": {"team": "web"}}});
        let stored = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
            "metadata": {"name": "one.eu-1", "namespace": "a", "uid": "u", "resourceVersion": "7",
                "labels": {"team": "web", "deltaplane.io/zone": "eu-1"},
                "annotations": {"deltaplane.io/version": "x", "deltaplane.io/source": "b"},
                "managedFields": [{"manager": "m"}]},
            "status": {"phase": "ready"}});
        assert_eq!(content_size(&authored), content_size(&stored));
        // All that crosses counts, whatever it is called.
        for key in ["note", "x.deltaplane.io/pad", "deltaplane.io/simulate"] {
            let mut larger = authored.clone();
            larger["metadata"]["annotations"] = json!({key: "long"});
            let more = key.len() as u64 + 6;
            assert_eq!(
                content_size(&larger),
                content_size(&authored) + more,
                "{key}"
            );
        }
    }
}
