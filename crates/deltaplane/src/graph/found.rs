//! What is wrong, and in which document.

use deltaplane_graph::Problem;
use serde_json::{Value, json};

use super::documents::Place;

/// Something that is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) problem: Problem,
}

// === impl Found ===

impl Found {
    /// As people read it.
    pub(super) fn drawn(&self) -> String {
        let drawn = self.problem.drawn();
        // It begins with the path, which is empty for the document itself.
        format!("{}: {}", self.place, drawn.trim_start_matches(": "))
    }

    pub(super) fn json(&self) -> Value {
        let Self { place, problem } = self;
        let mut json = json!({
            "file": place.file,
            "document": place.number,
            "path": problem.path.as_str(),
            "message": problem.message,
        });
        if let Some(excerpt) = &problem.excerpt {
            let at = excerpt.span.position(&excerpt.text);
            json["expression"] = json!({
                "text": excerpt.text,
                "line": at.line,
                "column": at.column + 1,
                "start": excerpt.span.start,
                "end": excerpt.span.end,
            });
        }
        if let Some(hint) = &problem.hint {
            json["hint"] = hint.as_str().into();
        }
        json
    }
}

/// All of them, and how many there are.
pub(super) fn drawn(all: &[Found]) -> String {
    let mut text: String = all.iter().map(Found::drawn).collect();
    let mut documents: Vec<&Place> = all.iter().map(|one| &one.place).collect();
    documents.dedup();
    let many = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    };
    text.push_str(&format!(
        "{} in {}\n",
        many(all.len(), "problem"),
        many(documents.len(), "document")
    ));
    text
}

pub(super) fn json(all: &[Found]) -> Vec<Value> {
    all.iter().map(Found::json).collect()
}
