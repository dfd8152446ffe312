//! What there is to send, and what changed of it: pure.
//!
//! One catalog serves all who read it. What a reader should have is a function of the object and
//! the reader, so that a hub keeps each object once, and of a zone next to nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use deltaplane_sync::{
    Before, Change, Epoch, Item, Lineage, Need, ObjectName, Position, Presence, Revision, SyncKind,
    Version, View, Withdrawal, ZoneName,
};

use crate::openings::Openings;

/// All objects that may be sent, and the last changes.
#[derive(Debug)]
pub struct Catalog {
    openings: Openings,
    at: Revision,
    kinds: BTreeMap<SyncKind, Kept>,
    log: VecDeque<Logged>,
    /// How many entries the log has lost at its beginning.
    dropped: u64,
    /// Changes up to here are not known, or not all of them.
    forgotten: Option<Revision>,
    /// Nothing is known of before.
    began: Revision,
}

/// An object that is there, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub item: Item,
    pub audience: Audience,
}

/// Who should have an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audience {
    Everyone,
    /// It came from there.
    EveryoneBut(ZoneName),
    /// Whoever had it should do this with it.
    Nobody(Withdrawal),
}

/// A change of a catalog.
#[derive(Clone, Debug)]
pub struct Edit {
    pub kind: SyncKind,
    pub name: ObjectName,
    pub revision: Revision,
    /// Nothing when it was deleted.
    pub becomes: Option<Entry>,
}

/// A catalog as one reader sees it: a zone, or the hub.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    pub catalog: &'a Catalog,
    /// None for the hub.
    pub zone: Option<&'a ZoneName>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: BTreeMap<ObjectName, Entry>,
    /// How many are for everyone, and how many for everyone but one.
    everyone: u64,
    but: BTreeMap<ZoneName, u64>,
    /// The definition that must be there first.
    definition: Option<ObjectName>,
    /// Set when what is not there was withdrawn, and not deleted.
    retired: Option<Withdrawal>,
}

#[derive(Debug)]
struct Logged {
    /// How far the catalog was when it showed the change.
    stamp: Revision,
    /// Whether the catalog was that far before already: watches of several kinds have no common
    /// order. Whoever was there may or may not have seen it.
    late: bool,
    kind: SyncKind,
    name: ObjectName,
    before: Option<(Version, Audience)>,
}

/// Readers that are further behind begin anew, by versions.
const LOG: usize = 100_000;

/// What namespaces are called on the wire.
pub fn namespaces() -> SyncKind {
    SyncKind::new("", "Namespace").expect("a legal name")
}

/// What definitions are called on the wire.
pub fn definitions() -> SyncKind {
    SyncKind::new("apiextensions.k8s.io", "CustomResourceDefinition").expect("a legal name")
}

// === impl Catalog ===

impl Catalog {
    /// A catalog of a store that is at `at`, with nothing in it yet.
    pub fn new(openings: Openings, at: Revision) -> Self {
        Self {
            openings,
            at,
            kinds: BTreeMap::new(),
            log: VecDeque::new(),
            dropped: 0,
            forgotten: None,
            began: at,
        }
    }

    pub fn at(&self) -> Revision {
        self.at
    }

    /// Nothing is known of before.
    pub fn began(&self) -> Revision {
        self.began
    }

    /// What is there now was there from the beginning: nobody has read yet.
    pub fn settle(&mut self) {
        self.dropped = self.end();
        self.log.clear();
        self.began = self.at;
    }

    pub fn epoch(&self) -> &Epoch {
        self.openings.current()
    }

    /// A kind is sent from now on, and needs this definition.
    pub fn declare(&mut self, kind: SyncKind, definition: Option<ObjectName>) {
        let kept = self.kinds.entry(kind).or_default();
        kept.definition = definition;
        kept.retired = None;
    }

    /// What is not there of a kind was withdrawn, and not deleted: the kind is not sent any more,
    /// or only where something needs it. Its entries are to be taken away with edits, after this.
    pub fn retire(&mut self, kind: &SyncKind, withdrawal: Withdrawal) {
        let kept = self.kinds.entry(kind.clone()).or_default();
        kept.retired = Some(withdrawal);
    }

    /// Brings it to `at`. Whether that concerns anybody.
    pub fn apply(&mut self, edits: Vec<Edit>, at: Revision) -> bool {
        let before = self.end();
        for edit in edits {
            self.edit(edit);
        }
        self.at = self.at.max(at);
        while self.log.len() > LOG {
            let first = self.log.pop_front();
            self.forgotten = first.map(|first| first.stamp).or(self.forgotten);
            self.dropped += 1;
        }
        self.end() != before
    }

    fn edit(&mut self, edit: Edit) {
        let Edit {
            kind,
            name,
            revision,
            becomes,
        } = edit;
        let kept = self.kinds.entry(kind.clone()).or_default();
        let before = kept.entries.get(&name);
        if before == becomes.as_ref() {
            return;
        }
        let before = before.map(|entry| (entry.item.version, entry.audience.clone()));
        if let Some((_, audience)) = &before {
            kept.count(audience, false);
        }
        match becomes {
            Some(entry) => {
                kept.count(&entry.audience, true);
                kept.entries.insert(name.clone(), entry);
            }
            None => {
                kept.entries.remove(&name);
            }
        }
        let late = revision <= self.at;
        self.log.push_back(Logged {
            stamp: revision.max(self.at),
            late,
            kind,
            name,
            before,
        });
    }

    /// An object, whoever should have it.
    pub fn entry(&self, kind: &SyncKind, name: &ObjectName) -> Option<&Entry> {
        self.kinds.get(kind)?.entries.get(name)
    }

    /// The objects of a kind.
    pub fn entries(
        &self,
        kind: &SyncKind,
    ) -> impl Iterator<Item = (&ObjectName, &Entry)> + use<'_> {
        self.kinds
            .get(kind)
            .into_iter()
            .flat_map(|kept| &kept.entries)
    }

    /// How many changes there were.
    pub(crate) fn end(&self) -> u64 {
        self.dropped + self.log.len() as u64
    }

    /// Whether the changes after `cursor` are all there.
    pub(crate) fn reaches(&self, cursor: u64) -> bool {
        cursor >= self.dropped
    }

    /// The changes after `cursor`, of each kind in their order.
    pub(crate) fn after(
        &self,
        cursor: u64,
        zone: Option<&ZoneName>,
    ) -> BTreeMap<SyncKind, Vec<Change>> {
        let skip = usize::try_from(cursor.saturating_sub(self.dropped)).unwrap_or(usize::MAX);
        let mut changes: BTreeMap<SyncKind, Vec<Change>> = BTreeMap::new();
        for logged in self.log.range(skip.min(self.log.len())..) {
            let one = logged.change(zone);
            match changes.get_mut(&logged.kind) {
                Some(changes) => changes.push(one),
                None => {
                    changes.insert(logged.kind.clone(), vec![one]);
                }
            }
        }
        changes
    }

    /// How many objects there are in a namespace.
    fn inside(&self, namespace: &str) -> u64 {
        let Ok(first) = ObjectName::new(namespace, "!") else {
            return 0;
        };
        let from = (Bound::Excluded(first), Bound::Unbounded);
        let kinds = self.kinds.values();
        let inside = kinds.map(|kept| {
            let range = kept.entries.range(from.clone());
            let range = range.take_while(|(name, _)| name.namespace() == namespace);
            range.count() as u64
        });
        inside.sum()
    }
}

// === impl Kept ===

impl Kept {
    fn count(&mut self, audience: &Audience, comes: bool) {
        let count = match audience {
            Audience::Everyone => &mut self.everyone,
            Audience::EveryoneBut(zone) => self.but.entry(zone.clone()).or_default(),
            Audience::Nobody(_) => return,
        };
        *count = match comes {
            true => *count + 1,
            false => count.saturating_sub(1),
        };
        self.but.retain(|_, count| *count > 0);
    }
}

// === impl Audience ===

impl Audience {
    pub fn includes(&self, zone: Option<&ZoneName>) -> bool {
        match self {
            Self::Everyone => true,
            Self::EveryoneBut(other) => zone != Some(other),
            Self::Nobody(_) => false,
        }
    }
}

// === impl Logged ===

impl Logged {
    fn change(&self, zone: Option<&ZoneName>) -> Change {
        let before = self.before.as_ref();
        let before = before.filter(|(_, audience)| audience.includes(zone));
        Change {
            name: self.name.clone(),
            before: before.map(|(version, _)| *version).into(),
            revision: self.stamp,
        }
    }
}

// === impl Reader ===

impl View for Reader<'_> {
    fn at(&self) -> Position {
        Position {
            epoch: self.catalog.openings.current().clone(),
            revision: self.catalog.at,
        }
    }

    fn lineage(&self, followed: &Position) -> Lineage {
        self.catalog.openings.lineage(followed, self.catalog.at)
    }

    fn presence(&self, kind: &SyncKind, name: &ObjectName) -> Presence {
        let Some(kept) = self.catalog.kinds.get(kind) else {
            // Nobody ever said that it crosses: it is not ours to take away.
            return Presence::Withdrawn(Withdrawal::Orphan);
        };
        match (kept.entries.get(name), kept.retired) {
            (Some(entry), _) if entry.audience.includes(self.zone) => {
                Presence::Wanted(entry.item.clone())
            }
            (Some(entry), _) => Presence::Withdrawn(match entry.audience {
                Audience::Nobody(withdrawal) => withdrawal,
                Audience::Everyone | Audience::EveryoneBut(_) => Withdrawal::Orphan,
            }),
            (None, Some(withdrawal)) => Presence::Withdrawn(withdrawal),
            (None, None) => Presence::Gone,
        }
    }

    fn wanted(&self, kind: &SyncKind) -> Box<dyn Iterator<Item = (ObjectName, Version)> + '_> {
        let wanted = self
            .catalog
            .entries(kind)
            .filter(|(_, entry)| entry.audience.includes(self.zone));
        Box::new(wanted.map(|(name, entry)| (name.clone(), entry.item.version)))
    }

    fn kinds(&self) -> Vec<SyncKind> {
        let kinds = self.catalog.kinds.keys();
        kinds.filter(|kind| self.count(kind) > 0).cloned().collect()
    }

    fn count(&self, kind: &SyncKind) -> u64 {
        self.catalog.kinds.get(kind).map_or(0, |kept| {
            let but: u64 = kept.but.values().sum();
            let own = self.zone.and_then(|zone| kept.but.get(zone));
            kept.everyone + but - own.copied().unwrap_or_default()
        })
    }

    fn since(&self, kind: &SyncKind, revision: Revision) -> Option<Vec<Change>> {
        let Catalog {
            log,
            forgotten,
            began,
            ..
        } = self.catalog;
        if revision < *began || forgotten.is_some_and(|forgotten| revision <= forgotten) {
            return None;
        }
        let from = log.partition_point(|logged| logged.stamp < revision);
        let later = log
            .range(from..)
            .filter(|logged| logged.stamp > revision || logged.late);
        let of_kind = later.filter(|logged| logged.kind == *kind);
        Some(of_kind.map(|logged| logged.change(self.zone)).collect())
    }

    fn remembers(&self, kind: &SyncKind) -> BTreeSet<ObjectName> {
        let of_kind = self
            .catalog
            .log
            .iter()
            .filter(|logged| logged.kind == *kind);
        let changes = of_kind.map(|logged| logged.change(self.zone));
        let had = changes.filter(|change| change.before != Before::Nothing);
        had.map(|change| change.name).collect()
    }

    fn needs(&self, kind: &SyncKind, name: &ObjectName) -> Vec<Need> {
        let kept = self.catalog.kinds.get(kind);
        let definition = kept.and_then(|kept| kept.definition.clone());
        let definition = definition.map(|name| Need {
            kind: definitions(),
            name,
        });
        let namespace = match name.namespace() {
            "" => None,
            namespace => ObjectName::new("", namespace).ok(),
        };
        let namespace = namespace.map(|name| Need {
            kind: namespaces(),
            name,
        });
        definition.into_iter().chain(namespace).collect()
    }

    fn cascade(&self, kind: &SyncKind, name: &ObjectName) -> u64 {
        if *kind == namespaces() {
            return self.catalog.inside(name.name());
        }
        if *kind != definitions() {
            return 0;
        }
        let defined = self.catalog.kinds.values();
        let defined = defined.filter(|kept| kept.definition.as_ref() == Some(name));
        defined.map(|kept| kept.entries.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests;
