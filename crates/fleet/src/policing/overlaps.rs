//! Finds objects that one policy selects and another one governs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use deltaplane_propagation::stages::{Object, Policy, Problem};
use deltaplane_sync::SyncKind;

use super::stays;
use crate::fleet::Fleet;
use crate::governing::{Governing, Governor};

/// Objects that another policy governs.
pub(super) fn taken(governing: &Governing, name: &str, policy: &Policy) -> Vec<Problem> {
    let includes = |about: &Object<'_>| policy.target(about).is_some();
    let kinds = policy.targets.iter();
    let kinds = kinds.filter_map(|one| SyncKind::new(&one.group, &one.kind).ok());
    let both = overlaps(governing, name, &kinds.collect(), includes);
    let problem = |both: Overlap| Problem {
        path: "spec.targets".to_owned(),
        message: format!("{both} already"),
        hint: Some(
            "an object is governed by one policy: select less, or change that one".to_owned(),
        ),
    };
    both.into_iter().map(problem).collect()
}

/// What a policy would govern, and another one does.
struct Overlap {
    /// The first of them.
    object: String,
    more: usize,
    policy: String,
    reason: Precedence,
}

/// Why the other policy governs what both include.
enum Precedence {
    /// It is older.
    Age,
    /// Zones have the objects from it, and its stages need approval.
    Approval,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, policy, .. } = self;
        match self.more {
            0 => write!(f, "{object} is governed by policy {policy}"),
            more => write!(
                f,
                "{object} and {more} more are governed by policy {policy}"
            ),
        }
    }
}

impl fmt::Display for Precedence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Age => "which has it because it is older",
            Self::Approval => {
                "which keeps it because zones have it from there and its stages need approval"
            }
        })
    }
}

/// What other policies govern of what this one includes, one for each.
fn overlaps(
    governing: &Governing,
    name: &str,
    kinds: &BTreeSet<SyncKind>,
    includes: impl Fn(&Object<'_>) -> bool,
) -> Vec<Overlap> {
    let mut overlaps = Vec::new();
    let own = governing.policies.get(name);
    let others = governing.policies.iter();
    for (other, governor) in others.filter(|(other, _)| *other != name) {
        // Most are of another kind, which is seen without reading them.
        let both = governor.head.iter();
        let both = both.filter(|((kind, _), _)| kinds.contains(kind));
        let mut both = both.filter(|(id, head)| includes(&head.about(id)));
        if let Some(((kind, object), _)) = both.next() {
            overlaps.push(Overlap {
                object: format!("{} {object}", kind.kind()),
                more: both.count(),
                policy: other.clone(),
                reason: if own.is_some_and(|own| own.age() < governor.age()) {
                    Precedence::Approval
                } else {
                    Precedence::Age
                },
            });
        }
    }
    overlaps
}

/// What is said of policies that came to overlap, until something changes that it depends on.
#[derive(Default)]
pub(crate) struct Overlaps(BTreeMap<String, (u64, Vec<String>)>);

impl Fleet {
    /// What a policy cannot do where it is: what it is for and another one governs, and kinds that
    /// do not cross.
    pub fn troubles(&self, policy: &str) -> Vec<String> {
        let governing = self.inner().governing.lock();
        let Some(governor) = governing.policies.get(policy) else {
            return Vec::new();
        };
        let mut troubles = self.overlaps(&governing, (policy, governor));
        let kinds = governor.kinds();
        let kept = kinds.difference(&governing.crossing);
        troubles.extend(kept.map(|kind| format!("spec.targets: {}", stays(kind.kind()))));
        troubles
    }

    /// What a policy is for and another one governs: labels changed after both were written, or
    /// both were written at once. The other one keeps it, and the reason is said.
    fn overlaps(
        &self,
        governing: &Governing,
        (policy, governor): (&str, &Governor),
    ) -> Vec<String> {
        let mut stamp = DefaultHasher::new();
        for (name, governor) in &governing.policies {
            let generation = governor.object["metadata"]["generation"].as_u64();
            (name, &governor.uid, generation, governor.changed).hash(&mut stamp);
        }
        let stamp = stamp.finish();
        let mut known = self.inner().overlaps.lock();
        known
            .0
            .retain(|name, _| governing.policies.contains_key(name));
        if let Some((_, said)) = known.0.get(policy).filter(|(of, _)| *of == stamp) {
            return said.clone();
        }
        let includes = |about: &Object<'_>| governor.includes(about);
        let found = overlaps(governing, policy, &governor.kinds(), includes);
        let said = found.iter().map(|one| {
            let reason = &one.reason;
            format!("spec.targets: {one}, {reason}: select less, or change that one")
        });
        let said: Vec<String> = said.collect();
        known.0.insert(policy.to_owned(), (stamp, said.clone()));
        said
    }
}
