//! What a gate says of an item, and why.

use std::fmt;
use std::sync::Arc;

/// What a gate says of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Open,
    /// An expression is false. These values made it so; they are given for the first few items.
    Closed {
        expression: Place,
        values: Vec<String>,
    },
    /// Data is not there yet.
    Waiting {
        expression: Place,
        path: String,
    },
    /// It cannot be evaluated.
    Error {
        expression: Place,
        message: String,
    },
    /// It takes too much to evaluate it, or so much was evaluated in this pass already.
    Limit {
        expression: Place,
    },
}

/// Which expression of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub index: usize,
    pub text: Arc<str>,
}

// === impl Verdict ===

impl Verdict {
    /// For conditions: what is closed for now, apart from what is wrong.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Open => "GateOpen",
            Self::Closed { .. } | Self::Waiting { .. } => "GateClosed",
            Self::Error { .. } | Self::Limit { .. } => "GateError",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Closed { expression, values } if values.is_empty() => {
                write!(f, "closed: {expression}")
            }
            // One value that is the expression says it all.
            Self::Closed { expression, values }
                if values.len() == 1 && values[0].starts_with(&*expression.text) =>
            {
                write!(f, "closed: {}", values[0])
            }
            Self::Closed { expression, values } => {
                write!(f, "closed: {expression}: {}", values.join(", "))
            }
            Self::Waiting { expression, path } => {
                write!(f, "closed: {expression}: waiting for {path}")
            }
            Self::Error {
                expression,
                message,
            } => write!(f, "error: {expression}: {message}"),
            Self::Limit { expression } => {
                write!(f, "error: {expression}: it takes too much to evaluate")
            }
        }
    }
}

// === impl Verdict ===

impl Verdict {
    /// The state of a gate as a sentence: one that cannot be evaluated has failed.
    pub fn sentence(&self) -> String {
        match self {
            Self::Error {
                expression,
                message,
            } => format!("gate failed: {expression}: {message}"),
            Self::Limit { expression } => {
                format!("gate failed: {expression}: it takes too much to evaluate")
            }
            Self::Open | Self::Closed { .. } | Self::Waiting { .. } => format!("gate {self}"),
        }
    }

    /// The verb and the rest of a sentence about the gate of something: `is closed: …`, `failed: …`.
    pub fn predicate(&self) -> String {
        let sentence = self.sentence();
        let rest = sentence.strip_prefix("gate ").unwrap_or(&sentence);
        match self {
            Self::Error { .. } | Self::Limit { .. } => rest.to_owned(),
            Self::Open | Self::Closed { .. } | Self::Waiting { .. } => format!("is {rest}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is closed for now is told apart from what cannot be asked.
    #[test]
    fn reasons_tell_what_waits_from_what_is_wrong() {
        let expression = || Place {
            index: 0,
            text: "app.spec.go".into(),
        };
        let (values, path, message) = (Vec::new(), "app.spec".to_owned(), "no".to_owned());
        let verdicts = [
            Verdict::Open,
            Verdict::Closed {
                expression: expression(),
                values,
            },
            Verdict::Waiting {
                expression: expression(),
                path,
            },
            Verdict::Error {
                expression: expression(),
                message,
            },
            Verdict::Limit {
                expression: expression(),
            },
        ];
        let sentences = verdicts.each_ref().map(Verdict::sentence);
        assert_eq!(
            sentences[2],
            "gate closed: app.spec.go: waiting for app.spec"
        );
        assert_eq!(sentences[3], "gate failed: app.spec.go: no");
        let reasons = verdicts.map(|verdict| verdict.reason());
        let expected = [
            "GateOpen",
            "GateClosed",
            "GateClosed",
            "GateError",
            "GateError",
        ];
        assert_eq!(reasons, expected);
    }
}
