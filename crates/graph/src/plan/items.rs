//! Collections: an object for every combination of items.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_expr::{Eval, Value};

use super::content::{Wanted, fill_one, finish};
use super::gates::{self, Asked, Fate};
use super::walk::Walk;
use super::{Gated, NotReady, Standing, Unknown, Wrong, ready};
use crate::graph::{Dimension, Node, NodeIndex};
use crate::labels::Item;
use crate::observed::Live;
use crate::template::{Filled, Template, Unfilled};

/// A collection has no more items.
pub(super) const MOST: usize = 1000;
/// What goes into their templates takes no more bytes, nor what gates are shown of those that are not
/// there.
const MOST_BYTES: usize = 64 << 20;

pub(super) fn each<'a>(
    walk: &mut Walk<'a>,
    (index, node): (NodeIndex, &'a Node),
    dimensions: &'a [Dimension],
    template: &'a Template,
) -> Result<Standing, Unknown> {
    let wanted = all_wanted(walk, node, dimensions, template)?;
    let size = wanted.len();
    let observed = walk.inputs.observed;
    let live: Vec<Option<&'a Arc<Live>>> = wanted
        .iter()
        .map(|wanted| observed.get(node.id(), &wanted.id))
        .collect();
    let there: Vec<&'a Arc<Live>> = live.iter().copied().flatten().collect();
    walk.show_all(node, &there);
    let hindered = match hindrances(walk, (index, node), &wanted, &live) {
        Ok(hindered) => hindered,
        Err(standing) => return Ok(*standing),
    };
    let unready = match node.is_gated() || node.is_watched() {
        true => Some(ready::of_each(walk, node, &live)),
        false => None,
    };
    let fates = match &unready {
        Some(unready) => {
            let asked = wanted.iter().zip(&live).zip(unready).enumerate();
            let asked = asked.map(|(at, ((wanted, live), unready))| Asked {
                wanted,
                live: *live,
                ready: unready.is_none(),
                hindered: hindered.contains_key(&at),
            });
            let asked: Vec<Asked<'_, 'a>> = asked.collect();
            let absent = asked.iter().filter(|one| one.live.is_none());
            bounded(node, absent.map(|one| template.weight(&one.wanted.filled)))?;
            gates::decide(walk, node, template, &asked)
        }
        None => {
            let items = wanted.iter().zip(&live);
            let causes = items.map(|(wanted, live)| gates::cause(wanted, *live));
            causes.map(Fate::of).collect()
        }
    };
    let mut objects = 0;
    let mut gated = Vec::new();
    let mut absent = Vec::new();
    for (at, ((wanted, live), fate)) in wanted.into_iter().zip(&live).zip(fates).enumerate() {
        if hindered.contains_key(&at) {
            continue;
        }
        let item = Some(Item { index: at, size });
        let fate = walk.seen_to((node, template), &wanted, (*live, item), fate);
        match (fate, live) {
            (Fate::Rest, _) => {}
            (Fate::Apply(cause), _) => {
                objects += 1;
                walk.push(index, node, template, wanted, (cause, item));
            }
            (Fate::Keep(verdict), Some(live)) => {
                objects += usize::from(walk.freeze(index, live, verdict));
            }
            (Fate::Keep(verdict), None) if walk.put_back(index, &wanted.id, &verdict) => {
                objects += 1;
            }
            (Fate::Keep(verdict), None) => {
                absent.push(at);
                gated.push(Gated {
                    node: index,
                    id: wanted.id,
                    verdict,
                });
            }
        }
    }
    walk.keep_old(node, &absent);
    if objects > 0 {
        return Ok(Standing::Applying { objects });
    }
    // How one that cannot be applied fares says nothing of what it will be.
    let worst = match unready {
        Some(unready) => ready::worst(unhindered(unready, &hindered)),
        None => {
            let there: Vec<&'a Arc<Live>> = unhindered(live, &hindered).collect();
            ready::of_all(walk, node, &there)
        }
    };
    Ok(at_rest(hindered, gated, worst))
}

/// What is known of items, but for those that cannot be applied.
fn unhindered<T>(
    items: Vec<Option<T>>,
    hindered: &BTreeMap<usize, Standing>,
) -> impl Iterator<Item = T> {
    let items = items.into_iter().enumerate();
    items.filter_map(|(at, item)| item.filter(|_| !hindered.contains_key(&at)))
}

/// How a collection stands of which nothing is to be applied. What is somebody else's is told before
/// what is on its way out: that passes by itself.
fn at_rest(
    hindered: BTreeMap<usize, Standing>,
    gated: Vec<Gated>,
    worst: Option<NotReady>,
) -> Standing {
    let is_taken = |one: &Standing| matches!(one, Standing::Taken { .. });
    let hindered = hindered.into_values().min_by_key(|one| !is_taken(one));
    match hindered {
        Some(Standing::Ending { id, .. }) => Standing::Ending {
            id,
            broken: worst.filter(NotReady::is_broken),
        },
        Some(other) => other,
        None if !gated.is_empty() => Standing::Gated {
            objects: gated,
            broken: worst.filter(NotReady::is_broken),
        },
        None => worst.map_or(Standing::Ready, Standing::NotReady),
    }
}

/// The items that cannot be applied, by their numbers: others go on without them. A gate that counts
/// items takes them for ones on their way.
fn hindrances<'a>(
    walk: &mut Walk<'a>,
    (index, node): (NodeIndex, &'a Node),
    wanted: &[Wanted],
    live: &[Option<&'a Arc<Live>>],
) -> Result<BTreeMap<usize, Standing>, Box<Standing>> {
    let mut hindered = BTreeMap::new();
    for (at, (wanted, live)) in wanted.iter().zip(live).enumerate() {
        match walk.hindered(index, node, wanted, *live) {
            None => {}
            // Two are one, and which of them is not known.
            Some(wrong @ Standing::Failed(_)) => return Err(Box::new(wrong)),
            Some(standing) => drop(hindered.insert(at, standing)),
        }
    }
    Ok(hindered)
}

/// All objects, in the order of the combinations.
fn all_wanted<'a>(
    walk: &mut Walk<'a>,
    node: &'a Node,
    dimensions: &'a [Dimension],
    template: &'a Template,
) -> Result<Vec<Wanted>, Unknown> {
    let mut lists = Vec::with_capacity(dimensions.len());
    let mut sizes = Vec::with_capacity(dimensions.len());
    for dimension in dimensions {
        let mut list = list(walk, dimension)?;
        sizes.push(list.len());
        // Of more there are no items, or too many.
        list.truncate(MOST);
        list.shrink_to_fit();
        lists.push(list);
    }
    // One without items leaves none, however many others have.
    let size = match sizes.contains(&0) {
        true => Some(0),
        false => sizes.into_iter().try_fold(1_usize, usize::checked_mul),
    };
    let size = size.filter(|size| *size <= MOST).ok_or_else(|| {
        let place = format!("spec.resources[{}].forEach", node.source());
        let message = format!("there are more than {MOST} items");
        Unknown::Wrong(Wrong::at(place, message))
    })?;
    // What is the same for all items.
    let shared = shared(walk, template, size)?;
    let mut wanted: Vec<Wanted> = Vec::with_capacity(size);
    let mut bytes = 0;
    for number in 0..size {
        bind(walk, dimensions, &lists, number);
        let mut filled = Vec::with_capacity(shared.len());
        for (hole, shared) in template.holes().iter().zip(&shared) {
            filled.push(match shared {
                Some(shared) => shared.clone(),
                None => fill_one(walk, hole)?,
            });
        }
        bytes += filled.iter().map(Filled::weight).sum::<usize>();
        bounded(node, [bytes].into_iter())?;
        wanted.push(finish(walk, node, template, filled)?);
    }
    Ok(wanted)
}

/// What all of it takes is not too much.
fn bounded(node: &Node, weights: impl Iterator<Item = usize>) -> Result<(), Unknown> {
    if weights.sum::<usize>() <= MOST_BYTES {
        return Ok(());
    }
    let place = format!("spec.resources[{}]", node.source());
    let most = MOST_BYTES >> 20;
    let message = format!("its items are larger than {most} MiB together");
    Err(Unknown::Wrong(Wrong::at(place, message)))
}

/// What goes into the holes that read no item.
fn shared<'a>(
    walk: &mut Walk<'a>,
    template: &'a Template,
    size: usize,
) -> Result<Vec<Option<Filled>>, Unknown> {
    if size == 0 {
        return Ok(Vec::new());
    }
    let holes = template.holes().iter();
    let value = holes.map(|hole| match hole.reads().item {
        true => Ok(None),
        false => fill_one(walk, hole).map(Some),
    });
    value.collect()
}

/// The items of a dimension.
fn list<'a>(walk: &mut Walk<'a>, dimension: &'a Dimension) -> Result<Vec<Value<'a>>, Unknown> {
    let list = dimension.list();
    let unfilled = match list.program().eval_metered(&walk.bindings, &mut walk.meter) {
        Eval::Value(value) => match value.as_list().map(|list| list.to_vec()) {
            Some(Ok(items)) => return Ok(items),
            Some(Err(fault)) => Unfilled::from(*fault),
            None => {
                let wrong = Wrong::at(list.path().as_str(), "it is not a list");
                return Err(Unknown::Wrong(wrong));
            }
        },
        Eval::Waiting(path) => Unfilled::Waiting(path),
        Eval::Failed(failure) => Unfilled::Failed(failure),
        Eval::Stopped(stopped) => Unfilled::Stopped(stopped),
    };
    let unknown = Unknown::of(unfilled, list.source(), list.path().as_str());
    Err(walk
        .inputs
        .graph
        .redact(list.reads(), list.source(), unknown))
}

/// Binds the iterators to the combination of this number; the last dimension goes fastest.
fn bind<'a>(
    walk: &mut Walk<'a>,
    dimensions: &[Dimension],
    lists: &[Vec<Value<'a>>],
    number: usize,
) {
    let mut rest = number;
    for (dimension, list) in dimensions.iter().zip(lists).rev() {
        walk.bindings
            .set(dimension.slot(), list[rest % list.len()].clone());
        rest /= list.len();
    }
}
