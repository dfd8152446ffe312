//! What an instance's status is made of.

use std::collections::BTreeSet;
use std::sync::Arc;

use deltaplane_api::field::Path;
use deltaplane_expr::syntax::condition_types;
use serde_json::{Map, Value as Json};

use super::expression::Expression;
use super::scope::{Context, Names};
use super::structure::walk;
use super::word;
use crate::definition::Definition;
use crate::problem::{Problem, Problems};
use crate::template::{Spot, Step};

/// A status whose expressions are parsed.
pub(crate) struct StatusDraft {
    pub(crate) literal: Json,
    pub(crate) holes: Vec<Expression>,
    /// What the author says of conditions.
    pub(crate) conditions: Vec<Expression>,
}

const CONDITIONS: &str = "conditions";

pub(super) fn draft(
    definition: &Definition,
    names: &Names<'_>,
    problems: &mut Problems,
) -> StatusDraft {
    let base = Arc::new(Path::new("spec").child("schema").child("status"));
    let (status, conditions) = fields(&definition.schema().status, &base, problems);
    let conditions = match conditions {
        Some(conditions) => draft_conditions(&conditions, &base, names, problems),
        None => Vec::new(),
    };
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
    StatusDraft {
        literal,
        holes,
        conditions,
    }
}

/// The fields, and the conditions apart from them.
fn fields(
    status: &Json,
    base: &Path,
    problems: &mut Problems,
) -> (Map<String, Json>, Option<Json>) {
    let mut fields = match status {
        Json::Null => Map::new(),
        Json::Object(map) => map.clone(),
        other @ (Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) => {
            let message = format!("expected object, got {}", word(other));
            problems.push(Problem::new(base, message));
            Map::new()
        }
    };
    let conditions = fields.remove(CONDITIONS);
    (fields, conditions)
}

/// A list of expressions, each of which comes to a condition, or to several.
fn draft_conditions(
    conditions: &Json,
    base: &Arc<Path>,
    names: &Names<'_>,
    problems: &mut Problems,
) -> Vec<Expression> {
    let path = base.child(CONDITIONS);
    let Json::Array(items) = conditions else {
        let message = format!("expected array, got {}", word(conditions));
        problems.push(Problem::new(&path, message));
        return Vec::new();
    };
    let scope = names.scope(None, &[]);
    let mut drafts = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let steps = [Step::Key(CONDITIONS.into()), Step::Index(index)];
        let Json::String(text) = item else {
            let message = format!("expected an expression, got {}", word(item));
            problems.push(Problem::new(&path.index(index), message));
            continue;
        };
        let spot = Spot::new(base, &steps);
        let context = (&scope, Context::Condition);
        drafts.extend(Expression::alone(text, spot, context, problems));
    }
    let mut declared = BTreeSet::new();
    for draft in &drafts {
        let types = condition_types(&draft.ast);
        for twice in types.iter().filter(|one| declared.contains(*one)) {
            let message = format!("condition type {twice:?} is declared by more than one entry");
            problems.push(draft.problem(message));
        }
        declared.extend(types);
    }
    drafts
}
