//! What the catalog has to be told of a policy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_border::{Governed, Place, Placement, Slot};
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
    /// Whether there are zones that are not placed.
    undecided: bool,
    placement: Option<Placement>,
    /// Made once, while they are in use: by version and overrides.
    made: BTreeMap<(Version, u64, u32), Option<Item>>,
}

/// What is news.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) objects: Vec<Told>,
    pub(crate) placement: Option<Placement>,
}

/// What is to be known of an object.
pub(crate) struct Told {
    pub(crate) id: Id,
    /// It governs it, or released it; otherwise it did for a moment, and somebody else may by now.
    pub(crate) certain: bool,
    pub(crate) entry: Option<Governed>,
}

// === impl Entries ===

impl Entries {
    /// Returns the entries as a catalog has them. What else is kept here is derived again.
    pub(crate) fn in_catalog(
        objects: impl Iterator<Item = Id>,
        placement: Option<Arc<Placement>>,
    ) -> Self {
        Self {
            known: objects.collect(),
            placement: placement.map(|placement| (*placement).clone()),
            ..Self::default()
        }
    }

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
        let moved = std::mem::take(&mut governor.moved);
        let mut all = std::mem::take(&mut governor.stale) || slots != self.slots;
        let before = self.placement.as_ref();
        let placement = (moved || all).then(|| governor.placement(zones, &slots, before));
        if let Some(placement) = &placement {
            let undecided = placement.iter().any(|(_, place)| place == Place::Frozen);
            all |= undecided != self.undecided;
            self.undecided = undecided;
        }
        let ids: BTreeSet<Id> = match all {
            true => self.all(governor),
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
            news.objects.push(Told {
                certain: governor.may_be_had(&id),
                id,
                entry,
            });
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
        let news_of = placement.filter(|one| self.placement.as_ref() != Some(one));
        if let Some(placement) = news_of {
            self.placement = Some(placement.clone());
            news.placement = Some(placement);
        }
        news
    }

    /// An object is somebody else's.
    pub(crate) fn forget(&mut self, id: &Id) {
        self.known.remove(id);
    }

    pub(crate) fn known(&self) -> impl Iterator<Item = &Id> {
        self.known.iter()
    }

    /// All objects that zones may hold because of the policy.
    fn all(&self, governor: &Governor) -> BTreeSet<Id> {
        let releases = governor.releases.values();
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
        let mut items: BTreeMap<Slot, Option<Item>> = BTreeMap::new();
        for slot in slots {
            let release = governor.releases.get(&slot.release);
            if release.is_some_and(|release| !governor.decides(id, release)) {
                continue;
            }
            match release.and_then(|release| release.manifest.get(id)) {
                // What cannot be made is not decided.
                Some(version) => {
                    let item = self.item(governor, contents, id, (*version, *slot));
                    items.extend(item.map(|item| (*slot, Some(item))));
                }
                None if governor.took_away(id, slot.release) => drop(items.insert(*slot, None)),
                None => {}
            }
        }
        // Who is not placed may still have it, until it is decided that it goes there, too; and who is
        // not selected keeps it, however many are.
        let gone = items.len() == slots.len() && items.values().all(Option::is_none);
        let nobody_has_it = gone && !self.undecided && !governor.may_be_had(id);
        let agreed = items.iter().filter(|(_, item)| item.is_none());
        let agreed = agreed.filter(|(slot, _)| governor.agreed_to_lose(id, slot.release));
        let agreed: BTreeSet<Slot> = agreed.map(|(slot, _)| *slot).collect();
        // That somebody agreed has to be known for as long as a zone may not have lost it.
        (!nobody_has_it || !agreed.is_empty()).then(|| Governed {
            policy: governor.id.clone(),
            agreed,
            slots: items,
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
        let Some(body) = governor.content(contents, id, version) else {
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
