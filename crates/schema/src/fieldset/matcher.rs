//! Which fields of a set are looked at.

use super::element::PathElement;
use super::{Entry, Set};

/// A choice among the fields of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// All.
    #[default]
    All,
    /// All but these and what is below them.
    Exclude(Set),
    /// Those that match.
    Include(Matcher),
}

/// Patterns of paths. Matches whatever begins with one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matcher {
    /// Everything from here on matches.
    all: bool,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    /// Nothing stands for any element.
    element: Option<PathElement>,
    below: Matcher,
}

// === impl Filter ===

impl Filter {
    /// The part of `set` that is chosen.
    #[must_use]
    pub fn apply(&self, set: Set) -> Set {
        match self {
            Self::All => set,
            Self::Exclude(_) | Self::Include(_) if set.is_empty() => set,
            Self::Exclude(excluded) => set.recursive_difference(excluded),
            Self::Include(matcher) => matcher.filter(&set),
        }
    }
}

// === impl Matcher ===

impl Matcher {
    /// Matches what begins with `prefix`, in which `None` stands for any element.
    pub fn prefix(
        prefix: impl IntoIterator<Item = Option<PathElement>, IntoIter: DoubleEndedIterator>,
    ) -> Self {
        let everything = Self {
            all: true,
            steps: Vec::new(),
        };
        prefix
            .into_iter()
            .rev()
            .fold(everything, |below, element| Self {
                all: false,
                steps: vec![Step { element, below }],
            })
    }

    /// Matches what either matches.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        if self.all || other.all {
            return Self {
                all: true,
                steps: Vec::new(),
            };
        }
        for step in other.steps {
            match self
                .steps
                .iter()
                .position(|own| own.element == step.element)
            {
                Some(index) => {
                    let own = &mut self.steps[index];
                    own.below = std::mem::take(&mut own.below).or(step.below);
                }
                // A wildcard goes first: the first step that matches decides.
                None if step.element.is_none() => self.steps.insert(0, step),
                None => self.steps.push(step),
            }
        }
        self
    }

    fn filter(&self, set: &Set) -> Set {
        if self.all {
            return set.clone();
        }
        let mut out = Set::new();
        for Entry {
            element,
            member,
            children,
        } in set.entries()
        {
            let matches = |step: &&Step| step.element.as_ref().is_none_or(|own| own == element);
            if let Some(step) = self.steps.iter().find(matches) {
                out.put(element.clone(), *member, step.below.filter(children));
            }
        }
        out
    }
}
