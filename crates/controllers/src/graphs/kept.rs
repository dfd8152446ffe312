//! Why an instance is not at the newest revision of its graph, as the instance itself says it. Pure.
//!
//! Invariant: nothing of it changes with each admission of another instance: it is written on all
//! that wait. Values that close a gate, and which expression of several does, are in the status of
//! the definition.

use deltaplane_api::admission::Point;
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
    Error {
        expression: usize,
        why: String,
        asked: Question,
    },
}

/// What a gate was asked: what was wrong with another question says nothing of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The revision whose gate it is.
    pub(super) newest: Point,
    /// Of the instance.
    pub(super) generation: i64,
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
    /// closed by now does not make right what was wrong with a later one, as long as the gate and the
    /// instance are what they were.
    pub(super) fn by_gate(
        verdict: Option<&Verdict>,
        asked: Question,
        before: Option<&Self>,
    ) -> Self {
        let closed = match verdict {
            Some(Verdict::Error { expression, .. } | Verdict::Limit { expression }) => {
                return Self::Error {
                    expression: expression.index,
                    why: verdict.map(ToString::to_string).unwrap_or_default(),
                    asked,
                };
            }
            Some(Verdict::Closed { expression, .. } | Verdict::Waiting { expression, .. }) => {
                Some(expression.index)
            }
            Some(Verdict::Open) | None => None,
        };
        let still = before.filter(|before| before.is_error_after(closed, asked));
        still.cloned().unwrap_or(Self::Closed)
    }

    /// Whether it is what is wrong with an expression after the one that is closed, which was not
    /// asked this time.
    fn is_error_after(&self, closed: Option<usize>, now: Question) -> bool {
        match self {
            Self::Error {
                expression, asked, ..
            } => *asked == now && closed.is_some_and(|closed| *expression > closed),
            Self::Held | Self::Paused | Self::Closed => false,
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

    /// The gate of a revision, and an instance of a generation.
    fn asked(newest: i64, generation: i64) -> Question {
        Question {
            newest: Point {
                number: newest,
                hash: None,
            },
            generation,
        }
    }

    fn place(index: usize) -> Place {
        Place {
            index,
            text: "shop.spec.go".into(),
        }
    }

    fn closed(index: usize, value: &str) -> Verdict {
        Verdict::Closed {
            expression: place(index),
            values: vec![value.to_owned()],
        }
    }

    /// What is wrong with the second expression of the second revision's gate.
    fn wrong() -> KeptBy {
        let wrong = Verdict::Error {
            expression: place(1),
            message: "no".to_owned(),
        };
        KeptBy::by_gate(Some(&wrong), asked(2, 1), Some(&KeptBy::Closed))
    }

    #[test]
    fn what_is_wrong_is_so_until_it_is_asked_again() {
        let by_gate = |verdict, before| KeptBy::by_gate(Some(&verdict), asked(2, 1), before);
        let error = wrong();
        assert_eq!(error.reason(), "GateError");
        // Whether the first is closed goes to and fro with each that moves.
        assert_eq!(by_gate(closed(0, "1"), Some(&error)), error);
        assert_eq!(by_gate(closed(1, "1"), Some(&error)), KeptBy::Closed);
        let other = by_gate(closed(0, "2"), None);
        assert_eq!(by_gate(closed(1, "1"), None), other);
    }

    #[test]
    fn what_was_wrong_with_another_gate_or_instance_is_not_said_of_this() {
        let error = wrong();
        for now in [asked(3, 1), asked(2, 2)] {
            let kept = KeptBy::by_gate(Some(&closed(0, "1")), now, Some(&error));
            assert_eq!(kept, KeptBy::Closed, "{now:?}");
        }
    }
}
