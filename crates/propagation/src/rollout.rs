//! A collection that moves to a version: who moves now, and how far it all is.
//!
//! Counts are those of the target. When it changes, what is on its way to the one before keeps its
//! place in flight, and may be sent on to the new one without taking another: the bound holds
//! across the change.

use std::fmt;

use deltaplane_expr::Timestamp;
use serde_json::{Map, Value as Json};

use crate::order::Unordered;
use crate::pass::{Answer, Terms, pass};
use crate::subject::{Health, Hold, Progress, Standing, Subject};
use crate::verdict::Verdict;

/// An item and what is recorded of it.
#[derive(Clone, Debug)]
pub struct Item<'a, V> {
    /// What tells it apart from the others: `namespace/name`, or a name.
    pub key: &'a str,
    pub object: Option<&'a Map<String, Json>>,
    pub admission: Admission<V>,
    pub report: Report<V>,
    pub hold: Hold,
    /// It is not counted any more.
    pub deleting: bool,
}

/// What an item was admitted to last. It is recorded before the item is touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission<V> {
    New,
    /// It began with a version that others had completed.
    Started(V),
    /// A gate let it, and it has not been seen ready since.
    Admitted(V),
    /// A gate let it, and it was ready since. That it was ready at the same version some time
    /// before does not count: it may have been elsewhere meanwhile.
    Arrived(V),
    /// A gate let it, it failed, and its place in flight was given away.
    SetAside(V),
}

/// What an item says of itself, at its current generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report<V> {
    Unready,
    Failed,
    Ready { at: V, since: Timestamp },
}

/// Where a collection moves.
#[derive(Clone, Copy, Debug)]
pub struct Course<'a, V> {
    pub target: &'a V,
    /// The newest version that has completed: new items begin with it.
    pub completed: Option<&'a V>,
}

/// What is done now. It is recorded before it takes effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<V> {
    /// Items that are ready at what they were admitted to, to be recorded as arrived.
    pub arrivals: Vec<String>,
    /// New items that begin with the completed version.
    pub starts: Vec<Change<V>>,
    /// Items that are admitted to the target, in this order.
    pub admissions: Vec<Change<V>>,
    pub summary: Summary<V>,
}

/// An item that moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<V> {
    /// Where it is among the items that were given.
    pub index: usize,
    pub key: String,
    pub from: Option<V>,
    pub to: V,
}

/// How far it all is, once the decision has been carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary<V> {
    pub target: V,
    pub counts: Counts,
    /// The first of those who are kept back, and why.
    pub blocked: Vec<(String, Verdict)>,
    /// When time alone may change the decision.
    pub next: Option<Timestamp>,
    pub unordered: Vec<Unordered>,
}

/// How many items stand how. What is updating or failed is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub total: usize,
    pub current: usize,
    pub updating: usize,
    pub failed: usize,
    pub pending: usize,
    pub held: usize,
    /// New, and not ready at what they began with.
    pub starting: usize,
}

/// Decides who moves now. As many of those who are kept back are listed as are explained.
pub fn rollout<'a, V: Ord + Clone + fmt::Display>(
    items: &'a [Item<'a, V>],
    course: Course<'_, V>,
    terms: Terms<'a>,
) -> Decision<V> {
    let alive = items.iter().enumerate().filter(|(_, item)| !item.deleting);
    let (new, moving): (Vec<_>, Vec<_>) = alive.partition(|(_, item)| {
        // Without anything completed, what is new waits for its turn like the others.
        item.admission == Admission::New && course.completed.is_some()
    });
    let subjects: Vec<Subject<'a>> = moving
        .iter()
        .map(|(_, item)| Subject {
            key: item.key,
            object: item.object,
            standing: standing(item, course.target),
        })
        .collect();
    let answer = pass(&subjects, terms);
    let starts = course.completed.map(|completed| {
        let starts = new.iter();
        let starts = starts.map(|(index, item)| item.change(*index, completed));
        starts.collect()
    });
    let arrivals = moving.iter().filter(|(_, item)| item.arrives());
    let admissions = answer.admitted.iter().map(|index| {
        let (index, item) = moving[*index];
        item.change(index, course.target)
    });
    Decision {
        arrivals: arrivals.map(|(_, item)| item.key.to_owned()).collect(),
        starts: starts.unwrap_or_default(),
        admissions: admissions.collect(),
        summary: Summary {
            target: course.target.clone(),
            counts: Counts::of(&subjects, &answer, new.len()),
            blocked: listed(&subjects, &answer, terms.limits.explained),
            next: answer.next,
            unordered: answer.unordered,
        },
    }
}

fn listed(subjects: &[Subject<'_>], answer: &Answer, most: usize) -> Vec<(String, Verdict)> {
    let blocked = answer.blocked.iter().take(most);
    blocked
        .map(|one| (subjects[one.index].key.to_owned(), one.verdict.clone()))
        .collect()
}

/// How an item stands towards the target.
fn standing<V: Eq>(item: &Item<'_, V>, target: &V) -> Standing {
    let hold = item.hold;
    let progress = match item.report {
        Report::Failed => Progress::Failed,
        Report::Unready | Report::Ready { .. } => Progress::UnderWay,
    };
    let behind = || Standing::Behind {
        health: match (item.ready_since(), &item.admission) {
            (Some(since), _) => Health::Ready { since },
            (None, Admission::SetAside(_)) => Health::Failed,
            (None, _) => Health::Broken,
        },
        hold,
    };
    match (&item.admission, item.ready_since()) {
        (Admission::New, _) => behind(),
        (
            Admission::Started(version)
            | Admission::Admitted(version)
            | Admission::Arrived(version)
            | Admission::SetAside(version),
            Some(since),
        ) if version == target => Standing::Current { since },
        (Admission::Started(version) | Admission::SetAside(version), None) if version == target => {
            Standing::Starting
        }
        (Admission::Admitted(version) | Admission::Arrived(version), None) if version == target => {
            Standing::Updating { progress }
        }
        (Admission::Admitted(_), None) => Standing::Overtaken { progress, hold },
        (
            Admission::Started(_)
            | Admission::Admitted(_)
            | Admission::Arrived(_)
            | Admission::SetAside(_),
            _,
        ) => behind(),
    }
}

// === impl Item ===

impl<V> Item<'_, V> {
    /// The version that it was admitted to.
    fn version(&self) -> Option<&V> {
        match &self.admission {
            Admission::New => None,
            Admission::Started(version)
            | Admission::Admitted(version)
            | Admission::Arrived(version)
            | Admission::SetAside(version) => Some(version),
        }
    }
}

impl<V: Eq> Item<'_, V> {
    /// Since when it is ready at what it was admitted to. What is ready at something else says
    /// nothing about that.
    fn ready_since(&self) -> Option<Timestamp> {
        match &self.report {
            Report::Ready { at, since } if self.version() == Some(at) => Some(*since),
            Report::Ready { .. } | Report::Unready | Report::Failed => None,
        }
    }

    fn arrives(&self) -> bool {
        match self.admission {
            Admission::Admitted(_) => self.ready_since().is_some(),
            Admission::New
            | Admission::Started(_)
            | Admission::Arrived(_)
            | Admission::SetAside(_) => false,
        }
    }
}

impl<V: Clone> Item<'_, V> {
    fn change(&self, index: usize, to: &V) -> Change<V> {
        Change {
            index,
            key: self.key.to_owned(),
            from: self.version().cloned(),
            to: to.clone(),
        }
    }
}

// === impl Counts ===

impl Counts {
    fn of(subjects: &[Subject<'_>], answer: &Answer, starting: usize) -> Self {
        let mut admitted = vec![false; subjects.len()];
        for index in &answer.admitted {
            admitted[*index] = true;
        }
        let mut counts = Self {
            total: subjects.len() + starting,
            starting,
            ..Self::default()
        };
        for (subject, admitted) in subjects.iter().zip(admitted) {
            let place = match subject.standing {
                _ if admitted => &mut counts.updating,
                Standing::Current { .. } => &mut counts.current,
                Standing::Starting => &mut counts.starting,
                Standing::Updating { progress } | Standing::Overtaken { progress, .. } => {
                    match progress {
                        Progress::UnderWay => &mut counts.updating,
                        Progress::Failed => &mut counts.failed,
                    }
                }
                Standing::Behind { hold, .. } => match hold {
                    Hold::Free => &mut counts.pending,
                    Hold::Held => &mut counts.held,
                },
            };
            *place += 1;
        }
        counts
    }

    pub fn in_flight(&self) -> usize {
        self.updating + self.failed
    }

    /// Whether all that may move are there. What is held is waited for by nobody.
    pub fn is_complete(&self) -> bool {
        self.current + self.held == self.total
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} current", self.current, self.total)?;
        for (count, name) in [
            (self.updating, "updating"),
            (self.failed, "failed"),
            (self.pending, "pending"),
            (self.held, "held"),
            (self.starting, "starting"),
        ] {
            if count > 0 {
                write!(f, ", {count} {name}")?;
            }
        }
        Ok(())
    }
}

// === impl Summary ===

impl<V: fmt::Display> fmt::Display for Summary<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.target, self.counts)?;
        for (key, verdict) in &self.blocked {
            write!(f, "\n  {key}: {verdict}")?;
        }
        for one in &self.unordered {
            write!(f, "\n  {}: no place in the order: {}", one.key, one.message)?;
        }
        if let Some(next) = self.next {
            write!(f, "\n  next at {next}")?;
        }
        Ok(())
    }
}
