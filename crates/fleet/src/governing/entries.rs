//! What the catalog has to be told of a policy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_border::{Absent, Governed, Placement, Slot};
use deltaplane_propagation::stages::Class;
use deltaplane_sync::{Item, SyncKind, Version, Withdrawal, ZoneName};
use serde_json::{Map, Value};

use super::contents::Contents;
use super::governor::Governor;
use super::release::Id;
use super::render::render;

/// The entries of a policy, as the catalog has them.
#[derive(Default)]
pub(crate) struct Entries {
    known: BTreeSet<Id>,
    slots: BTreeSet<Slot>,
    placement: Option<Placement>,
    /// Made once, while they are in use: by version and overrides.
    made: BTreeMap<(Version, u64, u32), Option<Item>>,
}

/// What is news.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) objects: Vec<(Id, Option<Governed>)>,
    pub(crate) placement: Option<Placement>,
}

// === impl Entries ===

impl Entries {
    /// Brings them up to date.
    pub(crate) fn refresh(
        &mut self,
        governor: &mut Governor,
        contents: &Contents,
        zones: &BTreeMap<ZoneName, Arc<Map<String, Value>>>,
        withdrawal: &dyn Fn(&SyncKind) -> Withdrawal,
    ) -> News {
        let mut news = News::default();
        let touched = std::mem::take(&mut governor.touched);
        let slots = governor.slots();
        let all = std::mem::take(&mut governor.stale) || slots != self.slots;
        let ids: BTreeSet<Id> = match all {
            true => self.all(governor, &slots),
            false => touched,
        };
        for id in ids {
            if !governor.has(&id) {
                self.known.remove(&id);
                continue;
            }
            let entry = self.entry(governor, contents, &id, &slots, withdrawal(&id.0));
            match entry.is_some() {
                true => self.known.insert(id.clone()),
                false => self.known.remove(&id),
            };
            news.objects.push((id, entry));
        }
        if all {
            let used = |key: &(Version, u64, u32)| {
                slots.contains(&Slot {
                    release: key.1,
                    class: key.2,
                })
            };
            self.made.retain(|key, _| used(key));
        }
        self.slots = slots;
        if std::mem::take(&mut governor.moved) || all {
            let placement = governor.placement(zones, &self.slots);
            if self.placement.as_ref() != Some(&placement) {
                self.placement = Some(placement.clone());
                news.placement = Some(placement);
            }
        }
        news
    }

    pub(crate) fn known(&self) -> impl Iterator<Item = &Id> {
        self.known.iter()
    }

    /// All objects that zones may hold because of the policy.
    fn all(&self, governor: &Governor, slots: &BTreeSet<Slot>) -> BTreeSet<Id> {
        let releases: BTreeSet<u64> = slots.iter().map(|slot| slot.release).collect();
        let releases = releases
            .iter()
            .filter_map(|number| governor.releases.get(number));
        let released = releases.flat_map(|release| release.manifest.keys());
        let all = released.chain(governor.head.keys()).chain(&self.known);
        all.cloned().collect()
    }

    fn entry(
        &mut self,
        governor: &Governor,
        contents: &Contents,
        id: &Id,
        slots: &BTreeSet<Slot>,
        withdrawal: Withdrawal,
    ) -> Option<Governed> {
        let mut items = BTreeMap::new();
        // What is there and in no release yet waits for the one that has it.
        let mut absent = match governor.head.contains_key(id) {
            true => Absent::Frozen,
            false => Absent::Gone,
        };
        for slot in slots {
            let release = governor.releases.get(&slot.release);
            let Some(version) = release.and_then(|release| release.manifest.get(id)) else {
                continue;
            };
            match self.item(governor, contents, id, (*version, *slot)) {
                Some(item) => drop(items.insert(*slot, item)),
                None => absent = Absent::Frozen,
            }
        }
        if items.is_empty() && absent == Absent::Gone {
            return None;
        }
        Some(Governed {
            policy: governor.id.clone(),
            slots: items,
            absent,
            withdrawal,
        })
    }

    fn item(
        &mut self,
        governor: &Governor,
        contents: &Contents,
        id: &Id,
        (version, slot): (Version, Slot),
    ) -> Option<Item> {
        let key = (version, slot.release, slot.class);
        if let Some(made) = self.made.get(&key) {
            return made.clone();
        }
        let release = governor.releases.get(&slot.release)?;
        let head = governor.head.get(id).filter(|head| head.version == version);
        let body = head
            .map(|head| head.body.clone())
            .or_else(|| contents.get(version));
        let Some(body) = body else {
            tracing::error!(policy = %governor.id, kind = %id.0, object = %id.1, %version, "the content of a release is gone; zones keep what they have");
            return None;
        };
        let item = match slot.class {
            0 => Ok(Item {
                version,
                body,
                relayed: None,
            }),
            bits => render(
                (&id.0, &id.1),
                &body,
                &release.patches,
                Class::from_bits(bits),
            ),
        };
        if let Err(reason) = &item {
            tracing::error!(policy = %governor.id, kind = %id.0, object = %id.1, reason, "an override cannot be applied; zones keep what they have");
        }
        let item = item.ok();
        self.made.insert(key, item.clone());
        item
    }
}
