//! The objects that a receiver asks for again because they were changed or deleted here behind sync.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_sync::{MAX_REPAIRS, ObjectName, SyncKind};

use crate::mirror::Told;

/// The objects that sync itself is writing, with what was last told of each meanwhile: whether that
/// is its own doing is known when it has written.
#[derive(Debug, Default)]
pub struct PendingWrites(BTreeMap<(SyncKind, ObjectName), Option<Told>>);

/// Names of objects by kind. Invariant: no set is empty.
#[derive(Debug, Default)]
pub struct RepairNames(BTreeMap<SyncKind, BTreeSet<ObjectName>>);

// === impl PendingWrites ===

impl PendingWrites {
    pub fn begin(&mut self, kind: &SyncKind, name: &ObjectName) {
        self.0.insert((kind.clone(), name.clone()), None);
    }

    /// Returns true if it is too early to say what that means. Of what is told meanwhile the last
    /// counts: it is how the object is, and what sync wrote is known.
    pub fn defer(&mut self, kind: &SyncKind, name: &ObjectName, told: Told) -> bool {
        if self.0.is_empty() {
            return false;
        }
        match self.0.get_mut(&(kind.clone(), name.clone())) {
            Some(last) => {
                *last = Some(told);
                true
            }
            None => false,
        }
    }

    /// Returns what was told of an object while it was written.
    pub fn end(&mut self, kind: &SyncKind, name: &ObjectName) -> Option<Told> {
        self.0.remove(&(kind.clone(), name.clone())).flatten()
    }
}

// === impl RepairNames ===

impl RepairNames {
    pub fn of(&self, kind: &SyncKind) -> BTreeSet<ObjectName> {
        self.0.get(kind).cloned().unwrap_or_default()
    }

    pub fn add(&mut self, kind: &SyncKind, name: &ObjectName) {
        let names = self.0.entry(kind.clone()).or_default();
        names.insert(name.clone());
    }

    /// Sets all names of a kind.
    pub fn set(&mut self, kind: &SyncKind, names: BTreeSet<ObjectName>) {
        match names.is_empty() {
            true => self.0.remove(kind),
            false => self.0.insert(kind.clone(), names),
        };
    }

    pub fn remove(&mut self, kind: &SyncKind, name: &ObjectName) {
        if let Some(names) = self.0.get_mut(kind) {
            names.remove(name);
            if names.is_empty() {
                self.0.remove(kind);
            }
        }
    }

    /// Takes as many of one of these kinds as one request may name.
    pub fn take(&mut self, kinds: &BTreeSet<SyncKind>) -> Option<(SyncKind, BTreeSet<ObjectName>)> {
        let kind = self.0.keys().find(|kind| kinds.contains(*kind))?.clone();
        let mut names = self.0.remove(&kind)?;
        if let Some(next) = names.iter().nth(MAX_REPAIRS).cloned() {
            let rest = names.split_off(&next);
            self.0.insert(kind.clone(), rest);
        }
        Some((kind, names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(kind: &str) -> SyncKind {
        SyncKind::new("example.com", kind).expect("legal")
    }

    fn name(text: &str) -> ObjectName {
        text.parse().expect("legal")
    }

    #[test]
    fn what_is_told_while_sync_writes_waits_until_it_has_written() {
        let (widget, a) = (kind("Widget"), name("ns/a"));
        let mut writes = PendingWrites::default();
        assert!(!writes.defer(&widget, &a, Told::Gone(1)));
        writes.begin(&widget, &a);
        assert!(writes.defer(&widget, &a, Told::Gone(2)));
        assert!(writes.defer(&widget, &a, Told::Gone(3)));
        assert!(!writes.defer(&widget, &name("ns/b"), Told::Gone(4)));
        assert_eq!(writes.end(&widget, &a), Some(Told::Gone(3)));
        assert!(!writes.defer(&widget, &a, Told::Gone(5)));
    }

    #[test]
    fn however_much_is_lost_is_said_in_parts_of_what_is_subscribed_to() {
        let mut names = RepairNames::default();
        for number in 0..MAX_REPAIRS + 5 {
            names.add(&kind("Widget"), &name(&format!("ns/{number}")));
        }
        names.add(&kind("Gadget"), &name("a"));
        let widgets = BTreeSet::from([kind("Widget")]);
        let mut sizes = Vec::new();
        while let Some((kind, names)) = names.take(&widgets) {
            sizes.push((kind.kind().to_owned(), names.len()));
        }
        let widget = || "Widget".to_owned();
        assert_eq!(sizes, [(widget(), MAX_REPAIRS), (widget(), 5)]);
        assert!(!names.of(&kind("Gadget")).is_empty());
    }
}
