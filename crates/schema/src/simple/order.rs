//! In which order custom types can be built, and which ones never can.
//!
//! Nothing recurses: an alias of an alias costs no depth, so chains may be long.

use std::collections::{BTreeSet, HashMap};

use super::Problems;
use super::shape::Type;

/// How many names of a cycle are told.
const MAX_TOLD: usize = 10;

/// Who needs whom among types, by index.
struct Uses {
    needs: Vec<BTreeSet<usize>>,
    needed_by: Vec<Vec<usize>>,
}

/// The indices of the types, such that each comes after those it uses. Types that use themselves,
/// and those that use them, are left out; each cycle is reported.
pub(super) fn sorted(types: &[Type<'_>], problems: &mut Problems) -> Vec<usize> {
    let uses = Uses::of(types);
    let mut missing: Vec<usize> = uses.needs.iter().map(BTreeSet::len).collect();
    let mut order: Vec<usize> = (0..types.len()).filter(|one| missing[*one] == 0).collect();
    let mut next = 0;
    while let Some(&done) = order.get(next) {
        next += 1;
        for &user in &uses.needed_by[done] {
            missing[user] -= 1;
            if missing[user] == 0 {
                order.push(user);
            }
        }
    }
    if order.len() < types.len() {
        report_cycles(types, &uses, &missing, problems);
    }
    order
}

/// Follows, from every type that was left out, the first one it uses that was left out, too.
fn report_cycles(types: &[Type<'_>], uses: &Uses, missing: &[usize], problems: &mut Problems) {
    // The walk in which a type was seen.
    let mut seen = vec![None; types.len()];
    for start in (0..types.len()).filter(|one| missing[*one] > 0) {
        let mut trail = Vec::new();
        let mut at = start;
        while seen[at].is_none() {
            seen[at] = Some(start);
            trail.push(at);
            let left_out = uses.needs[at].iter().find(|one| missing[**one] > 0);
            match left_out {
                Some(next) => at = *next,
                None => break,
            }
        }
        let closed = trail.iter().position(|one| *one == at);
        if let Some(from) = closed.filter(|_| seen[at] == Some(start)) {
            report(types, &trail[from..], problems);
        }
    }
}

fn report(types: &[Type<'_>], cycle: &[usize], problems: &mut Problems) {
    // The same cycle is told the same way, wherever it was entered.
    let first = (0..cycle.len()).min_by_key(|at| cycle[*at]).unwrap_or(0);
    let names = (0..=cycle.len()).map(|step| types[cycle[(first + step) % cycle.len()]].name);
    let told: Vec<&str> = match cycle.len() > MAX_TOLD {
        true => names.take(MAX_TOLD).chain(["…"]).collect(),
        false => names.collect(),
    };
    let message = format!("a type cannot contain itself: {}", told.join(" -> "));
    problems.push(&types[cycle[first]].path, message);
}

// === impl Uses ===

impl Uses {
    /// Names that are not declared are reported when they are resolved.
    fn of(types: &[Type<'_>]) -> Self {
        let index: HashMap<&str, usize> = types
            .iter()
            .enumerate()
            .map(|(at, one)| (one.name, at))
            .collect();
        let mut uses = Self {
            needs: vec![BTreeSet::new(); types.len()],
            needed_by: vec![Vec::new(); types.len()],
        };
        for (user, one) in types.iter().enumerate() {
            let mut names = Vec::new();
            one.shape.names(&mut names);
            for needed in names.iter().filter_map(|name| index.get(name)) {
                if uses.needs[user].insert(*needed) {
                    uses.needed_by[*needed].push(user);
                }
            }
        }
        uses
    }
}
