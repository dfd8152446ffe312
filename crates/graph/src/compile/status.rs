//! What an instance's status is made of.

use std::sync::Arc;

use deltaplane_api::field::Path;
use serde_json::{Map, Value as Json};

use super::expression::Expression;
use super::scope::{Context, Names};
use super::structure::walk;
use super::word;
use crate::definition::Definition;
use crate::problem::{Problem, Problems};

/// A status whose expressions are parsed.
pub(crate) struct StatusDraft {
    pub(crate) literal: Json,
    pub(crate) holes: Vec<Expression>,
}

const CONDITIONS: &str = "conditions";

pub(super) fn draft(
    definition: &Definition,
    names: &Names<'_>,
    problems: &mut Problems,
) -> StatusDraft {
    let base = Arc::new(Path::new("spec").child("schema").child("status"));
    let status = fields(&definition.schema().status, &base, problems);
    let literal = Json::Object(status);
    let walked = walk(&literal, &base, None, problems);
    for steps in &walked.plain {
        let message = "status fields without expressions are not supported";
        let path = crate::template::path(&base, steps);
        problems.push(Problem::new(&path, message).hint("write it as `${…}`"));
    }
    let scope = names.scope(None, &[]);
    let mut holes = Vec::with_capacity(walked.found.len());
    for found in walked.found {
        let context = (&scope, Context::Status);
        let Some(hole) = Expression::of((found.ast, found.form), found.spot, context, problems)
        else {
            continue;
        };
        if !hole.roots.schema && hole.roots.nodes.is_empty() {
            problems.push(hole.problem("a status field must refer to a resource or to `schema`"));
        }
        holes.push(hole);
    }
    StatusDraft { literal, holes }
}

/// The fields, without the conditions.
fn fields(status: &Json, base: &Path, problems: &mut Problems) -> Map<String, Json> {
    let mut fields = match status {
        Json::Null => Map::new(),
        Json::Object(map) => map.clone(),
        other @ (Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) => {
            let message = format!("expected object, got {}", word(other));
            problems.push(Problem::new(base, message));
            Map::new()
        }
    };
    if fields.remove(CONDITIONS).is_some() {
        let message = "conditions written by the author are not supported yet";
        let hint = "leave them out: the conditions that every instance has are there without them";
        problems.push(Problem::new(&base.child(CONDITIONS), message).hint(hint));
    }
    fields
}
