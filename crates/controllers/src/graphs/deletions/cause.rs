//! Whether the owner of an instance caused that its objects are to be deleted. Pure.
//!
//! An object that was wanted is the owner's to lose if the owner changed the instance since, and
//! nobody changed the graph. It may take several passes until it is known whether an object is
//! wanted still, and until it is gone: those objects are kept in memory, and in the status of the
//! instance by their nodes and uids, in the write that says which generation was looked at.
//!
//! Invariant: what is not known to be caused by the owner is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deltaplane_api::admission::{Admission, Point};
use deltaplane_api::conditions;
use deltaplane_graph::observed::{Live, ObjectId, Observed};
use serde_json::Value;

use super::super::admission::Revisions;

/// Objects that may have to be deleted, by the nodes that they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::graphs) struct PendingDeletions {
    /// Those that the owner of the instance causes.
    by_owner: BTreeMap<ObjectId, Child>,
    /// All others, which count.
    counted: BTreeMap<ObjectId, Child>,
}

/// An object of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Child {
    /// The id of the node that it is for.
    pub(super) node: String,
    pub(super) uid: String,
}

/// What an instance was, when it was last known which of its objects are pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::graphs) struct KnownPass {
    pub(super) generation: i64,
    /// The content version of the graph; nothing if that is not known any more.
    pub(super) version: Option<String>,
    pub(super) pending: PendingDeletions,
}

/// The same as the status of the instance says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::graphs) struct RecordedPass {
    pub(in crate::graphs) at: Point,
    pub(in crate::graphs) generation: i64,
    by_owner: UidsByNode,
    counted: UidsByNode,
}

/// The beginnings of the uids of objects, by their nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct UidsByNode(BTreeMap<String, BTreeSet<String>>);

/// What a pass finds.
pub(super) struct PassFindings<'a> {
    pub(super) generation: i64,
    pub(super) version: &'a str,
    /// The objects of the instance, and their nodes.
    pub(super) objects: &'a BTreeMap<ObjectId, Child>,
    pub(super) unwanted: &'a BTreeSet<ObjectId>,
    /// Objects that may become unwanted without another change.
    pub(super) undecided: &'a BTreeSet<ObjectId>,
}

/// The condition of an instance of which objects may have to be deleted.
pub(in crate::graphs) const PRUNED: &str = "ResourcesPruned";
const RESOLVED: &str = "GraphResolved";
/// What stands between the parts of its message.
const GENERATION: &str = " at generation ";
const NODES: &str = "; may be deleted: ";
/// What is said of a node.
const COUNTED: &str = " (counted: ";
const BY_OWNER: &str = " (by the owner: ";
/// Stands for all objects of a node.
const ALL: &str = "all";
/// Of more objects of a node that count, all count: the message would become too long.
const LISTED: usize = 100;
/// So much of a uid tells objects of an instance apart.
const UID: usize = 8;

/// The objects that are pending once a pass has found this.
pub(super) fn pending(before: Option<&KnownPass>, found: &PassFindings<'_>) -> PendingDeletions {
    let same = before.filter(|before| before.version.as_deref() == Some(found.version));
    let mut next = match same {
        Some(before) => {
            let mut next = before.pending.clone();
            if before.generation != found.generation {
                let others = found.objects.iter();
                let others = others.filter(|(id, _)| !next.counted.contains_key(id));
                next.by_owner = others
                    .map(|(id, node)| (id.clone(), node.clone()))
                    .collect();
            }
            next
        }
        None => PendingDeletions {
            by_owner: BTreeMap::new(),
            counted: found.objects.clone(),
        },
    };
    let is_open = |id: &ObjectId| {
        let there = found.objects.contains_key(id);
        there && (found.unwanted.contains(id) || found.undecided.contains(id))
    };
    next.by_owner.retain(|id, _| is_open(id));
    next.counted.retain(|id, _| is_open(id));
    for (id, child) in found.objects {
        if found.unwanted.contains(id) && !next.by_owner.contains_key(id) {
            next.counted.insert(id.clone(), child.clone());
        }
    }
    next
}

/// Whether the status of an instance says that objects are pending.
pub(super) fn is_recorded(instance: &Value) -> bool {
    conditions::of_instance(instance, PRUNED).is_some()
}

/// The objects of an instance.
pub(super) fn children(observed: &Observed) -> BTreeMap<ObjectId, Child> {
    let child = |(node, live): (&str, &Arc<Live>)| {
        let (node, uid) = (node.to_owned(), live.uid.clone());
        (live.id.clone(), Child { node, uid })
    };
    observed.iter().map(child).collect()
}

/// The beginning of a uid.
fn short(uid: &str) -> &str {
    uid.get(..UID).unwrap_or(uid)
}

// === impl PendingDeletions ===

impl PendingDeletions {
    pub(super) fn is_empty(&self) -> bool {
        self.by_owner.is_empty() && self.counted.is_empty()
    }

    pub(super) fn is_by_owner(&self, id: &ObjectId) -> bool {
        self.by_owner.contains_key(id)
    }

    /// The object goes, and its deletion needs no cause any more.
    pub(super) fn remove(&mut self, id: &ObjectId) {
        self.by_owner.remove(id);
        self.counted.remove(id);
    }

    /// The message of the condition.
    pub(super) fn message(&self, at: Point, generation: i64) -> String {
        let mut counted = UidsByNode::of(&self.counted);
        for uids in counted.0.values_mut() {
            if uids.len() > LISTED {
                *uids = BTreeSet::from([ALL.to_owned()]);
            }
        }
        let record = RecordedPass {
            at,
            generation,
            by_owner: UidsByNode::of(&self.by_owner),
            counted,
        };
        record.message()
    }
}

// === impl RecordedPass ===

impl RecordedPass {
    /// What the status of an instance says. Nothing if it does not say which revision it was.
    pub(in crate::graphs) fn read(instance: &Value) -> Option<Self> {
        let find = |r#type: &str| conditions::of_instance(instance, r#type);
        if let Some(condition) = find(PRUNED) {
            return Self::parse(condition["message"].as_str()?);
        }
        let resolved = find(RESOLVED)?;
        Some(Self {
            at: Point::heard(resolved["message"].as_str()?)?,
            generation: resolved["observedGeneration"].as_i64()?,
            by_owner: UidsByNode::default(),
            counted: UidsByNode::default(),
        })
    }

    fn parse(message: &str) -> Option<Self> {
        let (at, rest) = message.split_once(GENERATION)?;
        let (generation, nodes) = match rest.split_once(NODES) {
            Some((generation, nodes)) => (generation, Some(nodes)),
            None => (rest, None),
        };
        let mut record = Self {
            at: Point::heard(at)?,
            generation: generation.parse().ok()?,
            by_owner: UidsByNode::default(),
            counted: UidsByNode::default(),
        };
        for node in nodes.into_iter().flat_map(|nodes| nodes.split(", ")) {
            // What was cut off, or is somebody else's, is not believed.
            let node = node.strip_suffix(')')?;
            let (uids, (node, list)) = match node.split_once(COUNTED) {
                Some(found) => (&mut record.counted, found),
                None => (&mut record.by_owner, node.split_once(BY_OWNER)?),
            };
            let list = list.split(' ').map(str::to_owned).collect();
            uids.0.insert(node.to_owned(), list);
        }
        Some(record)
    }

    pub(in crate::graphs) fn message(&self) -> String {
        let counted = self.counted.told(COUNTED);
        let by_owner = self.by_owner.told(BY_OWNER);
        let nodes: Vec<String> = counted.chain(by_owner).collect();
        let (at, generation) = (self.at.told(), self.generation);
        match nodes.is_empty() {
            true => format!("{at}{GENERATION}{generation}"),
            false => format!("{at}{GENERATION}{generation}{NODES}{}", nodes.join(", ")),
        }
    }

    /// The content version that its graph had. Nothing if the instance was let run another since,
    /// which may have made objects: that is written on it before anything is made.
    pub(in crate::graphs) fn version(
        &self,
        instance: &Value,
        revisions: &Revisions,
    ) -> Option<String> {
        let version = |at: Point| {
            let (_, graph) = revisions.resolve(at)?;
            Some(graph.content_version().short().to_owned())
        };
        let admitted = version(Admission::read(instance)?.at);
        version(self.at).filter(|version| admitted.as_ref() == Some(version))
    }

    /// What that means for the objects that there are, if the graph had this version.
    pub(super) fn known(
        &self,
        version: Option<String>,
        objects: &BTreeMap<ObjectId, Child>,
    ) -> KnownPass {
        let mut pending = PendingDeletions::default();
        for (id, child) in objects {
            if self.counted.contains(child) {
                pending.counted.insert(id.clone(), child.clone());
            } else if self.by_owner.contains(child) {
                pending.by_owner.insert(id.clone(), child.clone());
            }
        }
        KnownPass {
            generation: self.generation,
            version,
            pending,
        }
    }
}

// === impl UidsByNode ===

impl UidsByNode {
    fn of(children: &BTreeMap<ObjectId, Child>) -> Self {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for child in children.values() {
            let uids = all.entry(child.node.clone()).or_default();
            uids.insert(short(&child.uid).to_owned());
        }
        Self(all)
    }

    fn contains(&self, child: &Child) -> bool {
        let uids = self.0.get(&child.node);
        uids.is_some_and(|uids| uids.contains(short(&child.uid)) || uids.contains(ALL))
    }

    /// `web (counted: 1f2e3d4c 5a6b7c8d)`, for each node.
    fn told<'s>(&'s self, what: &'s str) -> impl Iterator<Item = String> + 's {
        self.0.iter().map(move |(node, uids)| {
            let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
            format!("{node}{what}{})", uids.join(" "))
        })
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_graph::Gvk;
    use serde_json::json;

    use super::*;

    fn id(name: &str) -> ObjectId {
        ObjectId {
            gvk: Gvk::new("", "v1", "ConfigMap"),
            namespace: "default".to_owned(),
            name: name.to_owned(),
        }
    }

    fn objects(names: &str) -> BTreeMap<ObjectId, Child> {
        let all = names.split_whitespace();
        let child = |name: &str| Child {
            node: name[..1].to_owned(),
            uid: format!("00000-{name}-0000"),
        };
        all.map(|name| (id(name), child(name))).collect()
    }

    /// `owner: a1 counted: b1`, the objects that are pending after a pass over `a1 b1 c1`, of which
    /// some are unwanted and some undecided.
    fn check(
        before: Option<(i64, &str, &PendingDeletions)>,
        (generation, version): (i64, &str),
        unwanted: &str,
        undecided: &str,
        expected: &str,
    ) -> PendingDeletions {
        let before = before.map(|(generation, version, pending)| KnownPass {
            generation,
            version: Some(version.to_owned()),
            pending: pending.clone(),
        });
        let objects = objects("a1 b1 c1");
        let found = PassFindings {
            generation,
            version,
            objects: &objects,
            unwanted: &unwanted.split_whitespace().map(id).collect(),
            undecided: &undecided.split_whitespace().map(id).collect(),
        };
        let pending = pending(before.as_ref(), &found);
        let names = |of: &BTreeMap<ObjectId, Child>| {
            let names: Vec<&str> = of.keys().map(|id| &*id.name).collect();
            names.join(" ")
        };
        let (owner, counted) = (names(&pending.by_owner), names(&pending.counted));
        assert_eq!(format!("owner: {owner} counted: {counted}"), expected);
        pending
    }

    #[test]
    fn deletions_are_the_owners_after_a_change_of_the_instance_alone() {
        let none = PendingDeletions::default();
        check(
            Some((1, "v", &none)),
            (2, "v"),
            "a1",
            "",
            "owner: a1 counted: ",
        );
        // A reference or a status changed, the graph, both, or nobody knows.
        check(
            Some((2, "v", &none)),
            (2, "v"),
            "a1",
            "",
            "owner:  counted: a1",
        );
        check(
            Some((2, "v", &none)),
            (2, "w"),
            "a1",
            "",
            "owner:  counted: a1",
        );
        check(
            Some((1, "v", &none)),
            (2, "w"),
            "a1",
            "",
            "owner:  counted: a1",
        );
        check(None, (2, "v"), "a1", "", "owner:  counted: a1");
    }

    #[test]
    fn a_cause_lasts_until_all_is_known_and_gone() {
        let none = PendingDeletions::default();
        let first = check(
            Some((1, "v", &none)),
            (2, "v"),
            "",
            "b1",
            "owner: b1 counted: ",
        );
        // Something else changes meanwhile, and then the node is known.
        let second = check(
            Some((2, "v", &first)),
            (2, "v"),
            "a1 b1",
            "",
            "owner: b1 counted: a1",
        );
        // The owner takes nothing over.
        check(
            Some((2, "v", &second)),
            (3, "v"),
            "a1 c1",
            "",
            "owner: c1 counted: a1",
        );
        // A change of the graph that is not known yet to delete something is no owner's later.
        let third = check(
            Some((1, "v", &none)),
            (1, "w"),
            "",
            "b1",
            "owner:  counted: b1",
        );
        check(
            Some((1, "w", &third)),
            (2, "w"),
            "b1 c1",
            "",
            "owner: c1 counted: b1",
        );
    }

    #[test]
    fn what_is_recorded_is_read() {
        let at = Point::new(3, "6b2fa01c99d2e4f7");
        let pending = PendingDeletions {
            by_owner: objects("a1 a2"),
            counted: objects("b1"),
        };
        let message = pending.message(at, 4);
        assert_eq!(
            message,
            "revision 3/6b2fa01c99d2e4f7 at generation 4; may be deleted: b (counted: 00000-b1), a (by the owner: 00000-a1 00000-a2)"
        );
        let instance = |r#type: &str, message: &str| {
            let condition = json!({"type": r#type, "message": message, "observedGeneration": 7});
            json!({"status": {"conditions": [condition]}})
        };
        let record = RecordedPass::read(&instance(PRUNED, &message)).expect("it is one");
        assert_eq!(record.message(), message);
        let known = record.known(None, &objects("a1 a2 a3 b1 c1"));
        assert_eq!((known.generation, known.pending), (4, pending));
        let resolved = RecordedPass::read(&instance(RESOLVED, &at.told())).expect("it is one");
        assert_eq!((resolved.at, resolved.generation), (at, 7));
        for broken in [&message[..message.len() - 1], "revision 3", ""] {
            assert_eq!(
                RecordedPass::read(&instance(PRUNED, broken)),
                None,
                "{broken}"
            );
        }
    }
}
