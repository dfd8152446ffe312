//! The conditions that the author of a graph writes on its instances.
//!
//! They are evaluated when everything else is known: they may read the conditions that an instance
//! has without them.

use std::collections::BTreeMap;

use deltaplane_expr::{Bindings, Eval, Meter, Value};
use serde_json::{Value as Json, json};

use super::walk::BUDGET;
use super::{Instance, Plan, Unknown};
use crate::graph::{Condition, Graph, Node};
use crate::observed::Live;
use crate::template::Unfilled;

/// What the author says of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authored {
    /// In the order of the definition; no two are of one type.
    pub conditions: Vec<AuthoredCondition>,
    /// Something could not be evaluated: what was said before of types that are not here still
    /// counts.
    pub is_partial: bool,
    /// What cannot be evaluated whatever comes, and why.
    pub wrong: Vec<String>,
}

/// A condition that an expression made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthoredCondition {
    pub r#type: String,
    pub status: String,
    pub reason: String,
    pub message: String,
}

/// Evaluates the conditions of an author. `own` are the conditions that the instance has without
/// them: expressions read those, whatever the author says of the same types.
pub fn author_conditions(
    graph: &Graph,
    instance: Instance<'_>,
    plan: &Plan,
    own: &Json,
) -> Authored {
    let mut schema = instance.json().clone();
    schema["status"] = json!({"conditions": own});
    let mut bindings = graph.bindings();
    if let Some(decl) = &graph.whole_instance
        && let Ok(value) = Value::declared(&schema, decl)
    {
        bindings.set(graph.schema_slot(), value);
    }
    for node in graph.nodes() {
        show(node, plan, &mut bindings);
    }
    let mut meter = Meter::new(BUDGET);
    let mut authored = Authored::default();
    for condition in &graph.author_conditions {
        authored.evaluate(graph, condition, &bindings, &mut meter);
    }
    authored.drop_duplicates();
    authored
}

/// Shows expressions what the plan was made with.
fn show<'a>(node: &'a Node, plan: &'a Plan, bindings: &mut Bindings<'a>) {
    let Some(objects) = plan.shown.get(node.id()) else {
        return;
    };
    let decl = node.known().decl();
    let of = |live: &'a Live| Value::declared(live.json(), decl).ok();
    let mut values = objects.iter().filter_map(|live| of(live));
    let value = match node.is_collection() {
        true => Value::list(values.collect()).ok(),
        false => values.next(),
    };
    if let Some(value) = value {
        bindings.set(node.slot(), value);
    }
}

// === impl Authored ===

impl Authored {
    fn evaluate(
        &mut self,
        graph: &Graph,
        condition: &Condition,
        bindings: &Bindings<'_>,
        meter: &mut Meter,
    ) {
        let made = match condition.program().eval_metered(bindings, meter) {
            Eval::Value(value) => match AuthoredCondition::of(&value, meter) {
                Some(made) => Ok(made),
                None => return self.fail(condition, "it is no condition"),
            },
            Eval::Waiting(path) => Err(Unfilled::Waiting(path)),
            Eval::Failed(failure) => Err(Unfilled::Failed(failure)),
            Eval::Stopped(stopped) => Err(Unfilled::Stopped(stopped)),
        };
        let unfilled = match made {
            Ok(made) => return self.conditions.extend(made),
            Err(unfilled) => unfilled,
        };
        let place = condition.path();
        let unknown = Unknown::of(unfilled, condition.source(), place.as_str());
        match graph.redact(condition.reads(), condition.source(), unknown) {
            Unknown::Waits(_) => self.is_partial = true,
            Unknown::Wrong(wrong) => self.fail(condition, &wrong.message),
        }
    }

    fn fail(&mut self, condition: &Condition, why: &str) {
        self.is_partial = true;
        self.wrong.push(format!("{}: {why}", condition.path()));
    }

    /// Of two with one type nobody knows which was meant.
    fn drop_duplicates(&mut self) {
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        for one in &self.conditions {
            *count.entry(one.r#type.clone()).or_default() += 1;
        }
        let is_single = |one: &AuthoredCondition| count.get(&one.r#type) == Some(&1);
        self.conditions.retain(is_single);
        let twice = count.into_iter().filter(|(_, times)| *times > 1);
        let twice: Vec<String> = twice.map(|(r#type, _)| r#type).collect();
        if !twice.is_empty() {
            self.is_partial = true;
            let twice = twice.join(", ");
            self.wrong
                .push(format!("condition types are made twice: {twice}"));
        }
    }
}

// === impl AuthoredCondition ===

impl AuthoredCondition {
    /// One condition, or a list of them.
    fn of(value: &Value<'_>, meter: &mut Meter) -> Option<Vec<Self>> {
        let Value::List(items) = value else {
            return Some(vec![Self::one(value, meter)?]);
        };
        let mut all = Vec::new();
        for item in items.iter() {
            all.push(Self::one(&item.ok()?, meter)?);
        }
        Some(all)
    }

    fn one(value: &Value<'_>, meter: &mut Meter) -> Option<Self> {
        let Value::Opaque(opaque) = value else {
            return None;
        };
        if opaque.ty() != deltaplane_expr::Type::opaque(deltaplane_expr::CONDITION) {
            return None;
        }
        let json = value.to_json(meter).ok()?;
        let text = |field: &str| json[field].as_str().unwrap_or_default().to_owned();
        let made = Self {
            r#type: text("type"),
            status: text("status"),
            reason: text("reason"),
            message: text("message"),
        };
        // A condition that was looked up and is not there has no type.
        (!made.r#type.is_empty()).then_some(made)
    }
}
