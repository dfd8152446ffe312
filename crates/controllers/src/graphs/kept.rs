//! Why an instance is not at the newest revision of its graph, as the instance itself says it. Pure.
//!
//! Invariant: nothing of it changes with each admission of another instance: it is written on all
//! that wait. Values that close a gate, and which expression of several does, are in the status of
//! the definition.

use deltaplane_api::keys;
use deltaplane_graph::Graph;
use deltaplane_propagation::Verdict;

/// What keeps an instance back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeptBy {
    /// Its owner.
    Held,
    /// The author of the graph.
    Paused,
    /// The gate of its graph.
    Closed,
    /// The gate cannot be asked of it: which of its expressions, and why.
    Error { expression: usize, why: String },
}

/// One that is not at the newest revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    /// The newest revision.
    pub(super) newest: i64,
    pub(super) kept: KeptBy,
    /// All expressions of the gate.
    gate: String,
}

/// A gate is told in so many bytes.
const LONGEST: usize = 1024;

// === impl KeptBy ===

impl KeptBy {
    /// What a gate says of an instance, given what was said before. That an earlier expression is
    /// closed by now does not make right what was wrong with a later one.
    pub(super) fn by_gate(verdict: Option<&Verdict>, before: Option<&Self>) -> Self {
        let closed = match verdict {
            Some(Verdict::Error { expression, .. } | Verdict::Limit { expression }) => {
                let expression = expression.index;
                let why = verdict.map(ToString::to_string).unwrap_or_default();
                return Self::Error { expression, why };
            }
            Some(Verdict::Closed { expression, .. } | Verdict::Waiting { expression, .. }) => {
                Some(expression.index)
            }
            Some(Verdict::Open) | None => None,
        };
        match (before, closed) {
            (Some(Self::Error { expression, why }), Some(closed)) if *expression > closed => {
                let (expression, why) = (*expression, why.clone());
                Self::Error { expression, why }
            }
            (Some(_) | None, _) => Self::Closed,
        }
    }

    /// For conditions.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Held => "Held",
            Self::Paused => "Paused",
            Self::Closed => "GateClosed",
            Self::Error { .. } => "GateError",
        }
    }
}

// === impl Behind ===

impl Behind {
    /// One that is kept from the newest revision, whose graph this is.
    pub(super) fn new(newest: i64, graph: &Graph, kept: KeptBy) -> Self {
        let expressions = graph.gate().when().into_iter().flatten();
        let expressions: Vec<&str> = expressions.map(|one| &*one.source).collect();
        let mut gate = expressions.join(", ");
        if gate.len() > LONGEST {
            gate.truncate(gate.floor_char_boundary(LONGEST));
            gate.push('…');
        }
        Self { newest, kept, gate }
    }

    pub(super) fn message(&self) -> String {
        let Self { newest, kept, gate } = self;
        let see = "see status.propagation of its ResourceGraphDefinition";
        match kept {
            KeptBy::Held => format!(
                "it is held where it is, and not moved to revision {newest}: \
                 the annotation {} says so",
                keys::HOLD
            ),
            KeptBy::Paused => format!(
                "its graph is paused, and nobody moves to revision {newest}: \
                 the annotation {} of its ResourceGraphDefinition says so",
                keys::PAUSED
            ),
            // It was closed by an earlier one, which is gone.
            KeptBy::Closed if gate.is_empty() => {
                format!("its graph has not let it move to revision {newest} yet; {see}")
            }
            KeptBy::Closed => format!(
                "the gate of its graph has not let it move to revision {newest} yet: {gate}; {see}"
            ),
            KeptBy::Error { why, .. } => {
                format!("the gate of its graph does not let it move to revision {newest}: {why}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_propagation::Place;

    use super::*;

    #[test]
    fn what_is_wrong_is_so_until_it_is_asked_again() {
        let place = |index| Place {
            index,
            text: "shop.spec.go".into(),
        };
        let closed = |index, value: &str| Verdict::Closed {
            expression: place(index),
            values: vec![value.to_owned()],
        };
        let wrong = Verdict::Error {
            expression: place(1),
            message: "no".to_owned(),
        };
        let error = KeptBy::by_gate(Some(&wrong), Some(&KeptBy::Closed));
        assert_eq!(error.reason(), "GateError");
        // Whether the first is closed goes to and fro with each that moves.
        assert_eq!(KeptBy::by_gate(Some(&closed(0, "1")), Some(&error)), error);
        assert_eq!(
            KeptBy::by_gate(Some(&closed(1, "1")), Some(&error)),
            KeptBy::Closed
        );
        let other = KeptBy::by_gate(Some(&closed(0, "2")), None);
        assert_eq!(KeptBy::by_gate(Some(&closed(1, "1")), None), other);
    }
}
