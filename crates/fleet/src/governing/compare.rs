//! What zones would get instead of what they have: of each object, with overrides. Zones that get
//! the same together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_propagation::stages::{Class, Target, sets};
use deltaplane_sync::Version;
use serde_json::{Value, json};

use super::release::{Id, Manifest, Released};
use super::render::{self, Patch};
use crate::difference::{Field, difference, secret_difference};

/// What all zones of a release have, before overrides.
#[derive(Clone, Copy)]
pub(super) struct Edition<'a> {
    manifest: &'a Manifest,
    patches: &'a [Patch],
    /// The overrides, as they are written.
    written: &'a Value,
}

/// The content of versions.
pub(super) type Bodies<'a> = dyn Fn(&Id, Version) -> Option<Arc<[u8]>> + 'a;

/// Returns true if whoever asks may read an object at the hub.
pub(crate) type MayRead<'a> = dyn Fn(&Id) -> bool + Send + Sync + 'a;

/// Shown instead of the content of an object.
const HIDDEN: &str = "the content is not shown: you may not get the object at the hub";

/// What becomes of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hunk {
    id: Id,
    change: Became,
}

/// Places of the overrides that are for an object.
type Places = BTreeSet<usize>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Became {
    Added(Vec<Field>),
    Changed(Vec<Field>),
    Removed,
    /// An override cannot be applied: what is there stays.
    Impossible(String),
}

/// What zones would get, by what it is.
#[derive(Default)]
pub(super) struct Hunks {
    zones: BTreeMap<Hunk, Zones>,
    unchanged: BTreeSet<String>,
}

#[derive(Default)]
struct Zones {
    names: BTreeSet<String>,
    /// The releases that they have now.
    from: BTreeSet<u64>,
    /// The overrides that are for the object in all of them.
    overrides: Option<Places>,
}

// === impl Edition ===

impl<'a> Edition<'a> {
    pub(super) fn of(release: &'a Released) -> Self {
        Self {
            manifest: &release.manifest,
            patches: &release.patches,
            written: &release.overrides,
        }
    }

    /// What nothing overrides.
    pub(super) fn plain(manifest: &'a Manifest) -> Self {
        Self {
            manifest,
            patches: &[],
            written: &Value::Null,
        }
    }

    /// The overrides of a class, as they are written.
    fn patches_of(&self, class: Class) -> Vec<&'a Value> {
        class.places().map(|place| &self.written[place]).collect()
    }

    /// An object as zones of a class get it, and which overrides are for it.
    fn object(
        &self,
        id: &Id,
        class: Class,
        bodies: &Bodies<'_>,
    ) -> Result<Option<(Value, Places)>, String> {
        let Some(version) = self.manifest.get(id) else {
            return Ok(None);
        };
        let body = bodies(id, *version).ok_or("its content is not kept")?;
        let rendered = render::render((&id.0, &id.1), &body, self.patches, class)?;
        let object = serde_json::from_slice(&rendered.body).map_err(|error| error.to_string())?;
        let mut plain: Value = serde_json::from_slice(&body).unwrap_or_default();
        let applied = class.places().filter(|place| {
            let patch = self.patches.get(*place);
            patch.is_some_and(|patch| patch.apply((&id.0, &id.1), &mut plain) == Ok(true))
        });
        Ok(Some((object, applied.collect())))
    }
}

/// What becomes of all objects of zones of a class. Without a before they have none.
pub(super) fn compare(
    before: Option<(Edition<'_>, Class)>,
    (after, class): (Edition<'_>, Class),
    bodies: &Bodies<'_>,
) -> Vec<(Hunk, Places)> {
    let had = before.map(|(edition, _)| edition.manifest.keys());
    let ids: BTreeSet<&Id> = had
        .into_iter()
        .flatten()
        .chain(after.manifest.keys())
        .collect();
    let alike = before
        .is_some_and(|(edition, before)| edition.patches_of(before) == after.patches_of(class));
    let mut hunks = Vec::new();
    for id in ids {
        let was = before.and_then(|(edition, _)| edition.manifest.get(id));
        if alike && was == after.manifest.get(id) {
            continue;
        }
        let old = before.map_or(Ok(None), |(edition, class)| {
            edition.object(id, class, bodies)
        });
        let new = after.object(id, class, bodies);
        hunks.extend(hunk(id, old, new));
    }
    hunks
}

type Rendered = Result<Option<(Value, Places)>, String>;

fn hunk(id: &Id, old: Rendered, new: Rendered) -> Option<(Hunk, Places)> {
    let is_secret = (id.0.group(), id.0.kind()) == ("", "Secret");
    let difference = match is_secret {
        true => secret_difference,
        false => difference,
    };
    // What cannot be read of what is there is as if nothing were.
    let old = old.ok().flatten().map(|(object, _)| object);
    let (change, overrides) = match (old, new) {
        (_, Err(why)) => (Became::Impossible(why), Places::new()),
        (None, Ok(None)) => return None,
        (Some(_), Ok(None)) => (Became::Removed, Places::new()),
        (None, Ok(Some((new, overrides)))) => {
            let fields = difference(None, Some(&new));
            (Became::Added(fields), overrides)
        }
        (Some(old), Ok(Some((new, overrides)))) => {
            let fields = difference(Some(&old), Some(&new));
            if fields.is_empty() {
                return None;
            }
            (Became::Changed(fields), overrides)
        }
    };
    let id = id.clone();
    Some((Hunk { id, change }, overrides))
}

// === impl Hunks ===

impl Hunks {
    /// Zones that have the same now, and would get the same.
    pub(super) fn add(&mut self, hunks: Vec<(Hunk, Places)>, zones: &[&str], from: Option<Target>) {
        let names = || zones.iter().map(|zone| (*zone).to_owned());
        if hunks.is_empty() {
            self.unchanged.extend(names());
        }
        for (hunk, overrides) in hunks {
            let of_hunk = self.zones.entry(hunk).or_default();
            of_hunk.names.extend(names());
            of_hunk.from.extend(from.map(|target| target.release));
            of_hunk.overrides = Some(match of_hunk.overrides.take() {
                Some(known) => &known & &overrides,
                None => overrides,
            });
        }
    }

    /// The objects that change somewhere.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Id> {
        self.zones.keys().map(|hunk| &hunk.id)
    }

    /// What most zones get first, object by object, of those that may be read.
    pub(super) fn json(&self, may_read: &MayRead<'_>) -> Value {
        let shown = self.zones.iter().filter(|(hunk, _)| may_read(&hunk.id));
        let mut hunks: Vec<(&Hunk, &Zones)> = shown.collect();
        // Of as many, those who get what all get come first.
        hunks.sort_by_key(|(hunk, zones)| {
            let overrides = zones.overrides.as_ref().map_or(0, Places::len);
            (&hunk.id, Reverse(zones.names.len()), overrides)
        });
        let mut most: Option<(&Hunk, &Zones)> = None;
        let hunks = hunks.into_iter().map(|(hunk, zones)| {
            let usual = most.filter(|(first, _)| first.id == hunk.id);
            let usual = usual.map(|(_, zones)| zones);
            if usual.is_none() {
                most = Some((hunk, zones));
            }
            let mut json = hunk.json(may_read);
            json["zones"] = set(&zones.names);
            json["from"] = zones.from.iter().copied().collect();
            json["overrides"] = zones.beside(usual).into_iter().collect();
            json
        });
        hunks.collect()
    }

    pub(super) fn unchanged(&self) -> Value {
        set(&self.unchanged)
    }
}

// === impl Zones ===

impl Zones {
    /// The overrides by which they get something else than most zones do.
    fn beside(&self, most: Option<&Self>) -> Places {
        let own = self.overrides.iter().flatten().copied();
        let usual = most.and_then(|most| most.overrides.as_ref());
        let is_usual = |place: &usize| usual.is_none_or(|usual| usual.contains(place));
        own.filter(|place| !is_usual(place)).collect()
    }
}

/// How many, and which, in few words.
pub(super) fn set(names: &BTreeSet<String>) -> Value {
    json!({"count": names.len(), "names": sets::write(names.iter().map(String::as_str))})
}

// === impl Hunk ===

impl Hunk {
    /// The content is left out of objects that may not be read.
    pub(super) fn json(&self, may_read: &MayRead<'_>) -> Value {
        let (kind, name) = &self.id;
        let (change, mut fields, mut message) = match &self.change {
            Became::Added(fields) => ("Added", fields.as_slice(), None),
            Became::Changed(fields) => ("Changed", fields.as_slice(), None),
            Became::Removed => ("Removed", &[][..], None),
            Became::Impossible(why) => ("Impossible", &[][..], Some(why.as_str())),
        };
        if !may_read(&self.id) {
            (fields, message) = (&[], Some(HIDDEN));
        }
        json!({
            "group": kind.group(), "kind": kind.kind(),
            "namespace": name.namespace(), "name": name.name(),
            "change": change,
            "fields": fields.iter().map(Field::json).collect::<Vec<_>>(),
            "message": message,
        })
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_sync::SyncKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn content_is_shown_to_those_who_may_read_it() {
        let kind = SyncKind::new("", "ConfigMap").expect("a kind");
        let id = (kind, "team/a".parse().expect("a name"));
        let map = json!({"kind": "ConfigMap", "data": {"key": "hunter2"}});
        let rendered = || Ok(Some((map.clone(), Places::new())));
        for (old, new) in [
            (Ok(None), rendered()),
            (Ok(Some((json!({}), Places::new()))), rendered()),
            (rendered(), Err("hunter2 does not fit".to_owned())),
        ] {
            let (hunk, _) = hunk(&id, old, new).expect("it is another");
            let mut hunks = Hunks::default();
            hunks.add(vec![(hunk, Places::new())], &["eu-1"], None);
            let shown = hunks.json(&|_| true).to_string();
            assert!(shown.contains("hunter2"), "{shown}");
            assert_eq!(hunks.json(&|_| false), json!([]));
            let hidden = hunks.zones.keys().map(|hunk| hunk.json(&|_| false));
            let hidden: Value = hidden.collect();
            assert!(!hidden.to_string().contains("hunter2"), "{hidden}");
            assert_eq!(hidden[0]["message"], HIDDEN);
            assert_eq!(hidden[0]["name"], "a");
        }
    }

    #[test]
    fn what_a_secret_says_is_told_to_nobody_whatever_it_is_called() {
        let kind = SyncKind::new("", "Secret").expect("a kind");
        let id = (kind, "team/a".parse().expect("a name"));
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "data": {"password": "c2VjcmV0"},
            "metadata": {"name": "a", "namespace": "team"},
        });
        let rendered = |object: &Value| Ok(Some((object.clone(), Places::new())));
        let mut renamed = secret.clone();
        renamed["apiVersion"] = json!("v2");
        renamed["data"] = Value::Null;
        // As an override would have it.
        let mut copied = secret.clone();
        copied["metadata"]["labels"] = json!({"x": "c2VjcmV0"});
        let shown = |old: Rendered, new: Rendered| {
            let (hunk, _) = hunk(&id, old, new).expect("it is another");
            format!("{:?}", hunk.change)
        };
        for new in [&renamed, &copied] {
            for old in [rendered(&secret), Ok(None)] {
                let shown = shown(old, rendered(new));
                assert!(!shown.contains("c2VjcmV0"), "{shown}");
            }
        }
    }
}
