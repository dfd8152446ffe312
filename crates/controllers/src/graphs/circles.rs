//! Graphs that make instances of each other, which would go on for ever. Pure but for the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_graph::Graph;
use parking_lot::Mutex;

/// Which kinds the graph of each definition makes objects of. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Circles(Arc<Mutex<BTreeMap<String, Makes>>>);

struct Makes {
    kind: GroupKind,
    of: BTreeSet<GroupKind>,
}

type GroupKind = (String, String);

// === impl Circles ===

impl Circles {
    /// Notes what the graph of a definition makes, unless that leads back to its own kind: then the
    /// way there.
    pub(super) fn admit(&self, definition: &str, graph: &Graph) -> Result<(), String> {
        let kind = graph.kind();
        let made = graph.nodes().iter().filter(|node| !node.is_external());
        let made = made.map(|node| (node.gvk().group.clone(), node.gvk().kind.clone()));
        let makes = Makes {
            kind: (kind.group.clone(), kind.kind.clone()),
            of: made.collect(),
        };
        self.note(definition, makes)
    }

    fn note(&self, definition: &str, makes: Makes) -> Result<(), String> {
        let mut all = self.0.lock();
        let before = all.remove(definition);
        let way = way(&all, &makes).map(|way| way.join(" makes "));
        if let Some(way) = way {
            // What ran before goes on.
            all.extend(before.map(|before| (definition.to_owned(), before)));
            let why = format!("its instances would make each other without end: {way}");
            return Err(why);
        }
        all.insert(definition.to_owned(), makes);
        Ok(())
    }

    /// The definition is gone.
    pub(super) fn forget(&self, definition: &str) {
        self.0.lock().remove(definition);
    }
}

/// From a kind over others back to it, if that can be.
fn way<'a>(all: &'a BTreeMap<String, Makes>, from: &'a Makes) -> Option<Vec<&'a str>> {
    let mut ways: Vec<Vec<&GroupKind>> = from.of.iter().map(|kind| vec![kind]).collect();
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        let Some(last) = way.last() else { continue };
        if **last == from.kind {
            let kinds = std::iter::once(&from.kind).chain(way);
            return Some(kinds.map(|(_, kind)| kind.as_str()).collect());
        }
        if !seen.insert(*last) {
            continue;
        }
        let next = all.values().filter(|makes| makes.kind == **last);
        for kind in next.flat_map(|makes| &makes.of) {
            let mut way = way.clone();
            way.push(kind);
            ways.push(way);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Hen: Egg Nest`, what is noted of a definition of that name.
    fn note(circles: &Circles, line: &str) -> Result<(), String> {
        let (kind, of) = line.split_once(':').expect("a kind, and what it makes");
        let named = |kind: &str| ("example.com".to_owned(), kind.to_owned());
        let makes = Makes {
            kind: named(kind),
            of: of.split_whitespace().map(named).collect(),
        };
        circles.note(kind, makes)
    }

    #[test]
    fn what_leads_back_is_refused() {
        let circles = Circles::default();
        for fine in [
            "Hen: Egg Nest",
            "Nest: Straw",
            "Egg: Shell Nest",
            "Egg: Shell",
        ] {
            assert_eq!(note(&circles, fine), Ok(()), "{fine}");
        }
        let endless = "its instances would make each other without end: ";
        let way = note(&circles, "Egg: Shell Hen");
        assert_eq!(way, Err(format!("{endless}Egg makes Hen makes Egg")));
        let way = note(&circles, "Shell: Shell");
        assert_eq!(way, Err(format!("{endless}Shell makes Shell")));
        // What was noted before counts.
        assert_eq!(note(&circles, "Straw: Egg"), Ok(()));
        let way = note(&circles, "Shell: Straw");
        let long = format!("{endless}Shell makes Straw makes Egg makes Shell");
        assert_eq!(way, Err(long));
        circles.forget("Straw");
        assert_eq!(note(&circles, "Shell: Straw"), Ok(()));
    }
}
