//! The order of resources: dependencies first, else as they are written.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use deltaplane_api::field::Path;

use super::draft::Draft;
use crate::problem::{Problem, Problems};

/// The order of the resources of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Places in the definition, in topological order.
    pub(crate) topological: Vec<usize>,
    /// Where each resource is in that.
    pub(crate) position: Vec<usize>,
    /// What each resource reads.
    pub(crate) depends: Vec<BTreeSet<usize>>,
    /// The wave that each resource is applied in, from 1.
    pub(crate) waves: Vec<u32>,
}

// === impl Order ===

impl Order {
    /// When there is a cycle it is reported, and the order is that of the definition. What the gate
    /// of a resource waits for comes before it too, but it makes no waves: those are part of what is
    /// applied, which gates do not change.
    pub(crate) fn of(
        drafts: &[Draft<'_>],
        waits: &[BTreeSet<usize>],
        problems: &mut Problems,
    ) -> Self {
        let depends: Vec<BTreeSet<usize>> = drafts.iter().map(Draft::depends_on).collect();
        let ids: Vec<&str> = drafts.iter().map(|draft| &*draft.resource.id).collect();
        let topological = match sorted(&depends) {
            Ok(topological) if waits.iter().all(BTreeSet::is_empty) => topological,
            Ok(topological) => gated(&depends, waits, &ids, problems).unwrap_or(topological),
            Err(cycles) => {
                for cycle in cycles {
                    problems.push(Problem::new(
                        &Path::new("spec.resources"),
                        shown(&cycle, &ids),
                    ));
                }
                (0..drafts.len()).collect()
            }
        };
        let mut position = vec![0; drafts.len()];
        for (at, index) in topological.iter().enumerate() {
            position[*index] = at;
        }
        let waves = waves(&topological, &depends);
        Self {
            topological,
            position,
            depends,
            waves,
        }
    }
}

/// Dependencies, and what gates wait for, first. A resource that waits for one that is made of it
/// never comes to be.
fn gated(
    depends: &[BTreeSet<usize>],
    waits: &[BTreeSet<usize>],
    ids: &[&str],
    problems: &mut Problems,
) -> Option<Vec<usize>> {
    let both: Vec<BTreeSet<usize>> = {
        let both = depends.iter().zip(waits);
        both.map(|(depends, waits)| depends | waits).collect()
    };
    let cycles = match sorted(&both) {
        Ok(order) => return Some(order),
        Err(cycles) => cycles,
    };
    for mut cycle in cycles {
        let next = |at: usize| cycle[(at + 1) % cycle.len()];
        let mut gates = (0..cycle.len()).filter(|at| waits[cycle[*at]].contains(&next(*at)));
        let first = gates.next().unwrap_or(0);
        cycle.rotate_left(first);
        let names = cycle.iter().chain(cycle.first()).map(|index| ids[*index]);
        let names: Vec<&str> = names.collect();
        let message = format!(
            "the gate waits for what waits for it: {}",
            names.join(" -> ")
        );
        let path = Path::new("spec.resources").index(cycle[0]);
        problems.push(Problem::new(&path.child("propagateWhen"), message));
    }
    None
}

/// `graph contains a cycle: a -> b -> a`.
pub(crate) fn shown(cycle: &[usize], ids: &[&str]) -> String {
    let names: Vec<&str> = cycle
        .iter()
        .chain(cycle.first())
        .map(|index| ids[*index])
        .collect();
    format!("graph contains a cycle: {}", names.join(" -> "))
}

/// Dependencies first; of those that can come next, the one that is written first. Or the cycles.
pub(crate) fn sorted(depends: &[BTreeSet<usize>]) -> Result<Vec<usize>, Vec<Vec<usize>>> {
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); depends.len()];
    for (index, on) in depends.iter().enumerate() {
        for other in on {
            dependents[*other].push(index);
        }
    }
    let mut missing: Vec<usize> = depends.iter().map(BTreeSet::len).collect();
    let free = (0..depends.len()).filter(|index| missing[*index] == 0);
    let mut next: BinaryHeap<Reverse<usize>> = free.map(Reverse).collect();
    let mut order = Vec::with_capacity(depends.len());
    while let Some(Reverse(index)) = next.pop() {
        order.push(index);
        for dependent in &dependents[index] {
            missing[*dependent] -= 1;
            if missing[*dependent] == 0 {
                next.push(Reverse(*dependent));
            }
        }
    }
    match order.len() == depends.len() {
        true => Ok(order),
        false => Err(cycles(depends, &missing)),
    }
}

/// Each resource that is left depends on one that is left: whoever follows them comes round. Every
/// cycle begins with the resource of it that is written first.
fn cycles(depends: &[BTreeSet<usize>], missing: &[usize]) -> Vec<Vec<usize>> {
    let mut walked: Vec<Option<usize>> = vec![None; depends.len()];
    let mut cycles = Vec::new();
    for start in 0..depends.len() {
        let mut way = Vec::new();
        let mut at = start;
        while missing[at] > 0 && walked[at].is_none() {
            walked[at] = Some(start);
            way.push(at);
            let next = depends[at].iter().find(|index| missing[**index] > 0);
            at = *next.unwrap_or(&at);
        }
        let Some(from) = way.iter().position(|index| *index == at) else {
            continue;
        };
        let mut cycle = way.split_off(from);
        let first = (0..cycle.len()).min_by_key(|at| cycle[*at]).unwrap_or(0);
        cycle.rotate_left(first);
        cycles.push(cycle);
    }
    cycles
}

/// What nothing depends on is applied last, and everything as late as its dependents allow.
fn waves(topological: &[usize], depends: &[BTreeSet<usize>]) -> Vec<u32> {
    let mut height = vec![0_u32; depends.len()];
    for index in topological.iter().rev() {
        for on in &depends[*index] {
            height[*on] = height[*on].max(height[*index] + 1);
        }
    }
    let layers = height.iter().max().map_or(0, |most| most + 1);
    height.iter().map(|height| layers - height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(depends: &[&[usize]]) -> Vec<BTreeSet<usize>> {
        depends
            .iter()
            .map(|on| on.iter().copied().collect())
            .collect()
    }

    #[test]
    fn dependencies_come_first_and_the_rest_as_written() {
        assert_eq!(sorted(&sets(&[&[2], &[], &[]])), Ok(vec![1, 2, 0]));
        assert_eq!(
            sorted(&sets(&[&[], &[0], &[0], &[1, 2]])),
            Ok(vec![0, 1, 2, 3])
        );
        assert_eq!(
            waves(&[0, 1, 2, 3], &sets(&[&[], &[0], &[0], &[1]])),
            [1, 2, 3, 3]
        );
    }

    #[test]
    fn cycles_are_found_apart() {
        let depends = sets(&[&[], &[2], &[1], &[4], &[5], &[3], &[3]]);
        assert_eq!(sorted(&depends), Err(vec![vec![1, 2], vec![3, 4, 5]]));
    }
}
