//! Macros that go through lists and maps.

use std::ops::Add as _;
use std::sync::Arc;

use super::{Coster, Entry, Interval, Local, Path, Step};
use crate::syntax::{Fold, FoldKind, NodeId};
use crate::types::Type;

impl Coster<'_> {
    pub(super) fn fold(&mut self, id: NodeId, fold: &Fold) -> Interval {
        let range_cost = self.cost(fold.range);
        let depth = self.locals.len();
        self.push_variables(fold);
        let filter = fold.filter.map(|filter| self.cost(filter));
        let body = self.cost(fold.body);
        let body_size = if let FoldKind::Filter = fold.kind {
            self.locals[depth].size.or_else(|| self.item_size(depth))
        } else {
            self.size(fold.body)
        };
        self.locals.truncate(depth);
        let count = self.size_or_unknown(fold.range);
        let step = step_cost(fold.kind, filter, body);
        let loops = count.multiply(step.add(Interval::fixed(condition_cost(fold.kind))));
        self.result_size(id, fold.kind, count, body_size);
        let sum = range_cost
            .add(Interval::fixed(
                init_cost(fold.kind) + result_cost(fold.kind),
            ))
            .add(loops);
        if fold.kind != FoldKind::SortBy {
            return sum;
        }
        // A variable for the list, read for the loop and for the call; the call itself.
        let texts = matches!(self.checked.ty(fold.body), Type::String | Type::Bytes);
        let sorting = count.multiply(count).scale(if texts { 2.1 } else { 2.0 });
        sum.add(Interval::fixed(10 + 1 + 1))
            .add(sorting)
            .add(Interval::fixed(1 + 10))
    }

    fn push_variables(&mut self, fold: &Fold) {
        let entry = self.entry(fold.range);
        let path = self.paths[fold.range.index()].clone();
        let is_list = match entry {
            Some(entry) => entry.is_list,
            None => matches!(self.checked.ty(fold.range), Type::List(_)),
        };
        let key = || Local {
            name: fold.var.clone(),
            path: extend(&path, if is_list { Step::Indices } else { Step::Keys }),
            size: entry.map(|entry| entry.key),
            entry: None,
        };
        let value = |name: &Arc<str>| Local {
            name: name.clone(),
            path: extend(&path, if is_list { Step::Items } else { Step::Values }),
            size: entry.map(|entry| entry.value),
            entry: None,
        };
        match &fold.var2 {
            Some(second) => self.locals.extend([key(), value(second)]),
            None if is_list => self.locals.push(value(&fold.var)),
            None => self.locals.push(key()),
        }
    }

    /// The size of the loop's variable, by where it comes from.
    fn item_size(&self, local: usize) -> Option<Interval> {
        self.declared(self.locals[local].path.as_ref())
    }

    fn result_size(&mut self, id: NodeId, kind: FoldKind, count: Interval, body: Option<Interval>) {
        match kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne | FoldKind::ExistsOneCamel => {
                self.sizes[id.index()] = Some(Interval::fixed(1));
            }
            FoldKind::TransformMap | FoldKind::TransformMapEntry => {
                self.sizes[id.index()] = Some(count);
            }
            // cel-go takes the number of comparisons for the size of what is sorted.
            FoldKind::SortBy => self.sizes[id.index()] = Some(count.multiply(count)),
            FoldKind::Map | FoldKind::Filter | FoldKind::TransformList => {
                self.sizes[id.index()] = Some(count);
                let empty = Interval::fixed(0);
                self.entries[id.index()] = Some(Entry {
                    is_list: true,
                    key: Interval::fixed(1),
                    value: empty.union(body.unwrap_or(Interval::UNKNOWN)),
                });
            }
        }
    }
}

fn extend(path: &Option<Path>, step: Step) -> Option<Path> {
    let before = path.as_deref().unwrap_or_default();
    Some(before.iter().cloned().chain([step]).collect())
}

/// The accumulator's first value.
fn init_cost(kind: FoldKind) -> u64 {
    match kind {
        FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne | FoldKind::ExistsOneCamel => 0,
        FoldKind::Map | FoldKind::Filter | FoldKind::TransformList | FoldKind::SortBy => 10,
        FoldKind::TransformMap | FoldKind::TransformMapEntry => 30,
    }
}

/// Whether to go on.
fn condition_cost(kind: FoldKind) -> u64 {
    match kind {
        FoldKind::All => 2,
        FoldKind::Exists => 3,
        FoldKind::ExistsOne
        | FoldKind::ExistsOneCamel
        | FoldKind::Map
        | FoldKind::Filter
        | FoldKind::TransformList
        | FoldKind::TransformMap
        | FoldKind::TransformMapEntry
        | FoldKind::SortBy => 0,
    }
}

fn result_cost(kind: FoldKind) -> u64 {
    match kind {
        FoldKind::ExistsOne | FoldKind::ExistsOneCamel => 2,
        FoldKind::All
        | FoldKind::Exists
        | FoldKind::Map
        | FoldKind::Filter
        | FoldKind::TransformList
        | FoldKind::TransformMap
        | FoldKind::TransformMapEntry
        | FoldKind::SortBy => 1,
    }
}

/// What one item costs.
fn step_cost(kind: FoldKind, filter: Option<Interval>, body: Interval) -> Interval {
    let accumulator = Interval::fixed(1);
    let taken = match kind {
        FoldKind::All | FoldKind::Exists => return Interval::new(1, body.max.saturating_add(1)),
        FoldKind::ExistsOne | FoldKind::ExistsOneCamel => {
            return body.add(Interval::fixed(2).union(accumulator));
        }
        FoldKind::Filter => return body.add(Interval::fixed(13).union(accumulator)),
        FoldKind::Map | FoldKind::TransformList | FoldKind::SortBy => body.add(Interval::fixed(12)),
        FoldKind::TransformMap => body.add(Interval::fixed(3)),
        FoldKind::TransformMapEntry => body.add(Interval::fixed(2)),
    };
    match filter {
        Some(filter) => filter.add(taken.union(accumulator)),
        None => taken,
    }
}
