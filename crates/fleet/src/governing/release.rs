//! What a release says: which version of what, and what is different in some zones. Pure.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_api::selector::LabelSelector;
use deltaplane_propagation::stages;
use deltaplane_sync::{ObjectName, SyncKind, Version};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::authors::Since;
use super::render::Patch;

/// An object, wherever.
pub(crate) type Id = (SyncKind, ObjectName);

/// Which version of everything, before overrides.
pub(crate) type Manifest = BTreeMap<Id, Version>;

/// A release, as its object says. Immutable.
#[derive(Clone, Debug)]
pub(crate) struct Released {
    /// Of its object.
    pub(crate) uid: String,
    pub(crate) number: u64,
    /// The uid of its policy.
    pub(crate) policy: String,
    /// Of manifest and overrides: the same for the same content.
    pub(crate) digest: String,
    /// The store's revision that it shows.
    pub(crate) as_of: u64,
    /// The same of the release whose content it brings back: what came later is not among it, and
    /// was not taken away.
    pub(crate) content_as_of: u64,
    pub(crate) manifest: Manifest,
    /// Of what is in it.
    pub(crate) kinds: BTreeSet<SyncKind>,
    /// What older ones have, and was there and let go: it is no business of the policy.
    pub(crate) left: Vec<Id>,
    /// Objects of the manifest that leave the policy when every stage has completed it.
    pub(crate) departing: BTreeSet<Id>,
    /// What was let go and came back, and at which revision of the store.
    pub(crate) returned: BTreeMap<Id, u64>,
    /// Who made what came after older releases, itself included.
    pub(crate) authors_since: Since,
    pub(crate) patches: Vec<Patch>,
    /// As they are written.
    pub(crate) overrides: Value,
    /// What it takes away from zones that have an older one, and how many instances graphs that go
    /// leave behind.
    pub(crate) removes: BTreeMap<u64, (stages::Removes, u64)>,
    /// The versions at the hub that a rollback keeps from being released, nothing for objects that
    /// are not there. Nothing if the release is of a version that did not write this down.
    pub(crate) withheld: Option<Withheld>,
    /// The same of overrides, as the policy had them.
    pub(crate) withheld_overrides: Option<Value>,
    /// The release that was rolled back, and why, while anything is withheld.
    pub(crate) rolled_back: Option<(u64, stages::RollbackCause)>,
    /// What decisions are about.
    pub(crate) decided: stages::Release,
}

/// Objects, and the versions of them that were rolled back.
pub(crate) type Withheld = BTreeMap<Id, Option<Version>>;

// === impl Released ===

impl Released {
    /// Of the object of a release. Nothing if it is none that we write.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let spec = &object["spec"];
        let number = spec["number"].as_u64()?;
        let text = |field: &str| spec[field].as_str().map(str::to_owned);
        let texts = |field: &str| {
            let list = spec[field].as_array().into_iter().flatten();
            list.filter_map(|one| one.as_str().map(str::to_owned))
        };
        let overrides = spec["overrides"].as_array().into_iter().flatten();
        let patches: Option<Vec<Patch>> = overrides.map(Patch::read).collect();
        let patches = patches?;
        let manifest = manifest(&spec["objects"])?;
        let departing = ids(&spec["departing"]).map(|(id, _)| id);
        let departing = departing.collect::<Option<BTreeSet<Id>>>()?;
        let removes = stages::Removes::read(&spec["removes"])?;
        let behind = behind(&spec["removes"]);
        let behind = |since: &u64| behind.get(since).copied().unwrap_or(0);
        // A graph that is in use is in nobody's budget: it is as if nobody knew what goes, so that
        // somebody has to agree to it.
        let counted = removes.iter().filter(|(since, _)| behind(since) == 0);
        let counted = counted.map(|(since, removes)| (*since, *removes)).collect();
        let decided = stages::Release {
            number,
            authors: texts("authors").collect(),
            restores: spec["restores"].as_u64(),
            overrides: patches.iter().map(|patch| patch.zones.clone()).collect(),
            removes: counted,
            data: data(number, object),
            content: stages::ContentId {
                manifest: Some(digest(&manifest, &Value::Null, &departing)),
                patches: spec["overrides"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(override_digest)
                    .collect(),
            },
        };
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        Some(Self {
            uid: uid.to_owned(),
            number,
            policy: text("policyUID")?,
            digest: text("digest")?,
            as_of: spec["revision"].as_u64()?,
            content_as_of: spec["contentRevision"]
                .as_u64()
                .or_else(|| spec["revision"].as_u64())?,
            kinds: manifest.keys().map(|(kind, _)| kind.clone()).collect(),
            manifest,
            departing,
            left: ids(&spec["left"])
                .map(|(id, _)| id)
                .collect::<Option<_>>()?,
            returned: returned(&spec["returned"])?,
            authors_since: since(&spec["authorsSince"])?,
            patches,
            overrides: spec["overrides"].clone(),
            removes: removes
                .into_iter()
                .map(|(since, removes)| (since, (removes, behind(&since))))
                .collect(),
            withheld: match spec["withheld"].is_null() {
                true => None,
                false => Some(withheld(&spec["withheld"])?),
            },
            withheld_overrides: spec.get("withheldOverrides").cloned(),
            rolled_back: stages::RollbackCause::read(&spec["rolledBack"]),
            decided,
        })
    }

    /// Returns true if an object is in the manifest, in whichever version.
    pub(crate) fn names(&self, object: &stages::Object<'_>) -> bool {
        let kind = SyncKind::new(object.group, object.kind);
        let name = ObjectName::new(object.namespace, object.name);
        let id = kind.ok().zip(name.ok());
        id.is_some_and(|id| self.manifest.contains_key(&id))
    }

    /// The overrides that may be for an object, as they are written.
    pub(crate) fn overrides_for(&self, id: &Id) -> Vec<&Value> {
        let written = self.overrides.as_array().into_iter().flatten();
        let both = self.patches.iter().zip(written);
        let concerning = both.filter(|(patch, _)| patch.may_change((&id.0, &id.1)));
        concerning.map(|(_, written)| written).collect()
    }

    /// How many objects it takes away from zones that have the release before it.
    pub(crate) fn removes_from_the_last(&self) -> u64 {
        let last = self.removes.last_key_value();
        last.map_or(0, |(_, (removes, _))| removes.objects)
    }
}

/// What the expressions of gates see of a release.
fn data(number: u64, object: &Value) -> Value {
    let spec = &object["spec"];
    let mut data = json!({
        "number": number,
        "authors": spec["authors"],
        "writers": spec["writers"],
        "restores": spec["restores"],
        "createdAt": object["metadata"]["creationTimestamp"],
        "changes": spec["changes"],
    });
    if let Some(settles) = spec.get("settles") {
        data["settles"] = settles.clone();
    }
    data
}

/// The objects of a release, by kind.
pub(crate) fn write_manifest(manifest: &Manifest) -> Value {
    let mut kinds: BTreeMap<&SyncKind, Map<String, Value>> = BTreeMap::new();
    for ((kind, name), version) in manifest {
        let names = kinds.entry(kind).or_default();
        names.insert(name.to_string(), version.to_string().into());
    }
    let kinds = kinds.into_iter().map(
        |(kind, names)| json!({"group": kind.group(), "kind": kind.kind(), "versions": names}),
    );
    kinds.collect()
}

fn manifest(written: &Value) -> Option<Manifest> {
    let mut manifest = Manifest::new();
    for kind in written.as_array()? {
        let of = SyncKind::new(kind["group"].as_str()?, kind["kind"].as_str()?).ok()?;
        for (name, version) in kind["versions"].as_object()? {
            let (namespace, name) = name.split_once('/').unwrap_or(("", name));
            let name = ObjectName::new(namespace, name).ok()?;
            let version = version.as_str()?.parse().ok()?;
            manifest.insert((of.clone(), name), version);
        }
    }
    Some(manifest)
}

pub(super) fn write_id((kind, name): &Id) -> Value {
    json!({"group": kind.group(), "kind": kind.kind(), "name": name.to_string()})
}

pub(crate) fn write_left<'a>(left: impl IntoIterator<Item = &'a Id>) -> Value {
    left.into_iter().map(write_id).collect()
}

pub(crate) fn write_returned<'a>(returned: impl IntoIterator<Item = (&'a Id, &'a u64)>) -> Value {
    let one = |(id, at): (&Id, &u64)| {
        let mut written = write_id(id);
        written["revision"] = (*at).into();
        written
    };
    returned.into_iter().map(one).collect()
}

/// Objects that are listed, and what is said of each.
pub(super) fn ids(written: &Value) -> impl Iterator<Item = (Option<Id>, &Value)> {
    let id = |one: &Value| {
        let kind = SyncKind::new(one["group"].as_str()?, one["kind"].as_str()?).ok()?;
        Some((kind, one["name"].as_str()?.parse().ok()?))
    };
    let all = written.as_array().into_iter().flatten();
    all.map(move |one| (id(one), one))
}

pub(super) fn returned(written: &Value) -> Option<BTreeMap<Id, u64>> {
    let all = ids(written);
    all.map(|(id, one)| Some((id?, one["revision"].as_u64()?)))
        .collect()
}

pub(crate) fn write_withheld(withheld: &Withheld) -> Value {
    let one = |(id, version): (&Id, &Option<Version>)| {
        let mut written = write_id(id);
        written["version"] = version.map(|version| version.to_string()).into();
        written
    };
    withheld.iter().map(one).collect()
}

fn withheld(written: &Value) -> Option<Withheld> {
    let one = |(id, one): (Option<Id>, &Value)| {
        let version = &one["version"];
        if version.is_null() {
            return Some((id?, None));
        }
        Some((id?, Some(version.as_str()?.parse().ok()?)))
    };
    ids(written).map(one).collect()
}

pub(crate) fn write_removes(removes: &BTreeMap<u64, (stages::Removes, u64)>) -> Value {
    let one = |(since, (removes, behind)): (&u64, &(stages::Removes, u64))| {
        let stages::Removes { objects, of } = removes;
        let mut written = json!({"since": since, "objects": objects, "of": of});
        if *behind > 0 {
            written["behind"] = (*behind).into();
        }
        written
    };
    removes.iter().map(one).collect()
}

/// How many are left behind, by the release that zones have.
fn behind(removes: &Value) -> BTreeMap<u64, u64> {
    let all = removes.as_array().into_iter().flatten();
    all.filter_map(|one| Some((one["since"].as_u64()?, one["behind"].as_u64()?)))
        .collect()
}

pub(crate) fn write_since(since: &Since) -> Value {
    let one = |(since, names): (&u64, &BTreeSet<String>)| json!({"since": since, "names": names});
    since.iter().map(one).collect()
}

fn since(written: &Value) -> Option<Since> {
    let one = |one: &Value| {
        let names = one["names"].as_array()?.iter();
        let names = names.map(|name| name.as_str().map(str::to_owned));
        Some((one["since"].as_u64()?, names.collect::<Option<_>>()?))
    };
    let all = written.as_array().into_iter().flatten();
    all.map(one).collect()
}

/// Of all that makes zones' content.
pub(crate) fn digest(manifest: &Manifest, overrides: &Value, departing: &BTreeSet<Id>) -> String {
    let mut hash = Sha256::new();
    for ((kind, name), version) in manifest {
        hash.update(format!("{kind} {name} {version}\n").as_bytes());
    }
    hash.update(overrides.to_string().as_bytes());
    for (kind, name) in departing {
        hash.update(format!("\n{kind} {name} departs").as_bytes());
    }
    let digest = hash.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of what an override does, wherever it does it.
fn override_digest(written: &Value) -> String {
    let does = json!({"targets": written["targets"], "patch": written["patch"]});
    digest(&Manifest::new(), &does, &BTreeSet::new())
}

/// What is not the same in two releases, in few words: added, changed, removed.
pub(crate) fn changes(before: &Manifest, now: &Manifest) -> (usize, usize, Vec<Id>) {
    let added = now.keys().filter(|id| !before.contains_key(*id)).count();
    let changed = now.iter().filter(|(id, version)| {
        let before = before.get(*id);
        before.is_some_and(|before| before != *version)
    });
    let removed = before.keys().filter(|id| !now.contains_key(*id));
    (added, changed.count(), removed.cloned().collect())
}

/// Selects everything where nothing is said.
pub(crate) fn selector(written: &Value) -> Option<LabelSelector> {
    if written.is_null() {
        return Some(LabelSelector::default());
    }
    LabelSelector::from_object(written)
}
