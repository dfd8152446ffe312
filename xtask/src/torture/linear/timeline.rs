//! Beginnings and ends of operations in order, from which operations are taken and put back.
//!
//! A list with links in both directions, so that both cost the same however long it is. Invariant:
//! operations are put back in the opposite order in which they were taken.

use crate::torture::history::Tick;

/// A place in the list.
#[derive(Clone, Copy)]
struct Node(usize);

pub(super) struct Timeline {
    links: Vec<Link>,
    /// Where each operation begins and, if it does, ends.
    places: Vec<(Node, Option<Node>)>,
}

struct Link {
    previous: Node,
    next: Node,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Begin(usize),
    End,
}

/// Before the first and after the last.
const EDGE: Node = Node(0);

// === impl Timeline ===

impl Timeline {
    pub(super) fn new(spans: impl Iterator<Item = (Tick, Option<Tick>)>) -> Self {
        let mut places = Vec::new();
        let mut moments = Vec::new();
        for (index, (began, ended)) in spans.enumerate() {
            places.push((EDGE, None));
            moments.push((began, What::Begin(index), index));
            moments.extend(ended.map(|ended| (ended, What::End, index)));
        }
        // At the same moment beginnings come first: such operations overlap.
        moments.sort_unstable();
        let mut links = vec![Link {
            previous: Node(moments.len()),
            next: Node(if moments.is_empty() { 0 } else { 1 }),
            what: What::End,
        }];
        for (place, (_, what, index)) in moments.iter().enumerate() {
            let node = Node(place + 1);
            let next = (place + 2) % (moments.len() + 1);
            links.push(Link {
                previous: Node(place),
                next: Node(next),
                what: *what,
            });
            match what {
                What::Begin(_) => places[*index].0 = node,
                What::End => places[*index].1 = Some(node),
            }
        }
        Self { links, places }
    }

    /// The operations that began before any of those in the list ended.
    pub(super) fn candidates(&self) -> impl Iterator<Item = usize> {
        let mut node = EDGE;
        std::iter::from_fn(move || {
            node = self.links[node.0].next;
            match self.links[node.0].what {
                What::Begin(entry) => Some(entry),
                // All that begins later begins after this end; or there is nothing more.
                What::End => None,
            }
        })
    }

    pub(super) fn remove(&mut self, entry: usize) {
        let (begin, end) = self.places[entry];
        for node in [Some(begin), end].into_iter().flatten() {
            let Link { previous, next, .. } = self.links[node.0];
            self.links[previous.0].next = next;
            self.links[next.0].previous = previous;
        }
    }

    pub(super) fn restore(&mut self, entry: usize) {
        let (begin, end) = self.places[entry];
        for node in [end, Some(begin)].into_iter().flatten() {
            let Link { previous, next, .. } = self.links[node.0];
            self.links[previous.0].next = node;
            self.links[next.0].previous = node;
        }
    }
}
