//! Which dependents each owner waits for, if it goes in the foreground. Pure.
//!
//! Invariant: whether an owner waits is known without a look at all of its dependents, since it is
//! asked with every event of each of them.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_client::header::OwnerReference;

use super::graph::{Deletion, Node, Uid};

/// By the uid of an owner: the dependents that block its deletion.
#[derive(Debug, Default)]
pub(super) struct Blockers(BTreeMap<Uid, Blocking>);

/// What an owner waits for.
#[derive(Debug, Default)]
struct Blocking {
    /// Those that do not wait for dependents of their own.
    others: BTreeSet<Uid>,
    /// Those that do: perhaps for this very owner.
    waiting: BTreeSet<Uid>,
}

/// The answer to whether an owner waits, and what it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) waits: bool,
    /// How many objects were looked at.
    pub(super) visited: usize,
}

// === impl Blockers ===

impl Blockers {
    pub(super) fn add(&mut self, uid: &Uid, node: &Node) {
        for owner in blocked_by(node) {
            let blocking = self.0.entry(Uid::from(owner)).or_default();
            let set = match node.deletion {
                Deletion::Foreground => &mut blocking.waiting,
                Deletion::No | Deletion::Plain | Deletion::Orphan => &mut blocking.others,
            };
            set.insert(uid.clone());
        }
    }

    pub(super) fn remove(&mut self, uid: &Uid, node: &Node) {
        for owner in blocked_by(node) {
            if let Some(blocking) = self.0.get_mut(owner) {
                blocking.others.remove(uid);
                blocking.waiting.remove(uid);
                if blocking.others.is_empty() && blocking.waiting.is_empty() {
                    self.0.remove(owner);
                }
            }
        }
    }

    /// Whether the owner has something to wait for. An object that is waited for by what it waits
    /// for, and by nothing but such, would wait for ever: a circle has no way out.
    ///
    /// One way out is enough to wait, so the search goes down one path and not to all dependents.
    /// Whoever is next to a way out is told when it is gone, and looks again.
    pub(super) fn look(&self, uid: &Uid, node: &Node) -> Look {
        let Some(direct) = self.0.get(uid) else {
            return Look::at(0, false);
        };
        // What nothing waits for is in no circle.
        if !direct.others.is_empty() || blocked_by(node).next().is_none() {
            return Look::at(0, true);
        }
        let mut seen = BTreeSet::new();
        let mut circular = false;
        let mut path = vec![direct.waiting.iter()];
        while let Some(below) = path.last_mut() {
            let Some(next) = below.next() else {
                path.pop();
                continue;
            };
            circular |= next == uid;
            if next == uid || !seen.insert(next) {
                continue;
            }
            match self.0.get(next) {
                Some(blocking) if blocking.others.is_empty() => path.push(blocking.waiting.iter()),
                // It waits for something that is in no circle, or for nothing any more.
                Some(_) | None => return Look::at(seen.len(), true),
            }
        }
        Look::at(seen.len(), !circular)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The owners whose deletion the object blocks; some of them perhaps twice.
fn blocked_by(node: &Node) -> impl Iterator<Item = &str> {
    let blocks = |owner: &&OwnerReference| owner.block_owner_deletion == Some(true);
    let owners = node.owners.iter().filter(blocks);
    owners.map(|owner| owner.uid.as_str())
}

// === impl Look ===

impl Look {
    fn at(visited: usize, waits: bool) -> Self {
        Self { waits, visited }
    }
}
