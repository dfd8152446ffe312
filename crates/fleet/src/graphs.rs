//! Graph definitions at the hub: one that does not compile there, or whose kind cannot be served
//! there, does not leave it.

use deltaplane_border::graphs;
use deltaplane_sync::{ObjectName, SyncKind};
use futures::future::BoxFuture;
use serde_json::Value;

/// The outcome of compiling a definition before it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionFindings {
    /// Why the hub would not accept it.
    pub problem: Option<DefinitionProblem>,
    /// What is most likely not meant although it compiles, a sentence each.
    pub warnings: Vec<String>,
}

/// Why the hub does not accept a definition, which therefore does not leave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinitionProblem {
    DoesNotCompile(String),
    /// Its instances would make each other, or wait for each other, without end.
    LeadsInACircle(String),
    /// Its kind belongs to another definition, or to nobody.
    KindIsTaken(String),
}

/// Compiles a definition; nothing if that cannot be done now.
pub type DefinitionCheck =
    Box<dyn Fn(Value) -> BoxFuture<'static, Option<DefinitionFindings>> + Send + Sync>;

/// The beginnings of the warnings about definitions that the hub does not accept.
const DOES_NOT_COMPILE: &str = "the definition does not compile and stays at the hub";
const LEADS_IN_A_CIRCLE: &str = "the definition leads in a circle and stays at the hub";
const KIND_IS_TAKEN: &str =
    "the kind of the definition is taken, and the definition stays at the hub";

/// Said of a definition that the hub has not compiled since it changed.
pub(crate) const UNJUDGED: &str = "the hub has not compiled it yet";

/// Returns why a definition stays at the hub, if a warning says that it does.
pub fn stays_at_hub(warning: &str) -> Option<&'static str> {
    if warning.starts_with(DOES_NOT_COMPILE) {
        Some("it does not compile")
    } else if warning.starts_with(LEADS_IN_A_CIRCLE) {
        Some("it leads in a circle")
    } else if warning.starts_with(KIND_IS_TAKEN) {
        Some("its kind is taken")
    } else {
        None
    }
}

/// Returns the kind of the instances of a stored definition.
pub(crate) fn instance_kind(graph: &Value) -> Option<SyncKind> {
    let schema = &graph["spec"]["schema"];
    let kinds = graphs();
    let group = schema["group"].as_str().unwrap_or(kinds.group());
    SyncKind::new(group, schema["kind"].as_str()?).ok()
}

/// Returns true for objects that are graph definitions.
pub(crate) fn is_graph(object: &Value) -> bool {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap_or_default();
    SyncKind::new(group, kind).is_ok_and(|kind| kind == graphs())
}

/// Returns why a stored object must not leave the hub: it is a definition, and its condition
/// `GraphAccepted` is not true for what it says now, or its kind cannot be served. A zone that joins
/// later would take it for the owner of the kind.
pub(crate) fn not_accepted(object: &Value) -> Option<String> {
    if !is_graph(object) {
        return None;
    }
    let condition = |r#type: &str| {
        let conditions = object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.find(|one| {
            one["type"] == r#type && one["observedGeneration"] == object["metadata"]["generation"]
        })
    };
    let message = |one: &Value| one["message"].as_str().unwrap_or_default().to_owned();
    match condition("GraphAccepted") {
        Some(one) if one["status"] != "True" => Some(message(one)),
        Some(_) => {
            let kind = condition("KindReady").filter(|one| one["status"] != "True")?;
            let why = message(kind);
            Some(if why.is_empty() {
                "the hub does not serve its kind yet".to_owned()
            } else {
                why
            })
        }
        None => Some(UNJUDGED.to_owned()),
    }
}

/// Returns what is said of a definition that holds a release.
pub(crate) fn held_release(name: &ObjectName, why: &str) -> String {
    format!("ResourceGraphDefinition {name} is not accepted at the hub and not released: {why}")
}

// === impl DefinitionProblem ===

impl DefinitionProblem {
    /// Returns what is wrong, in the words of whoever judged the definition.
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::DoesNotCompile(why) | Self::LeadsInACircle(why) | Self::KindIsTaken(why) => why,
        }
    }

    /// Returns what whoever writes the definition is warned of, on one line.
    pub(crate) fn warning(&self) -> String {
        let stays = match self {
            Self::DoesNotCompile(_) => DOES_NOT_COMPILE,
            Self::LeadsInACircle(_) => LEADS_IN_A_CIRCLE,
            Self::KindIsTaken(_) => KIND_IS_TAKEN,
        };
        format!("{stays}: {}", self.why().replace('\n', "; "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_compiled_as_it_is_leaves_the_hub() {
        let graph = |conditions: Value| {
            json!({
                "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
                "metadata": {"name": "shop", "generation": 2}, "status": {"conditions": conditions},
            })
        };
        let said = |status: &str, generation: i64| {
            json!([{
                "type": "GraphAccepted", "status": status, "observedGeneration": generation,
                "message": "no such kind",
            }])
        };
        let held = |why: &str| Some(why.to_owned());
        assert_eq!(not_accepted(&graph(said("True", 2))), None);
        assert_eq!(not_accepted(&graph(said("True", 1))), held(UNJUDGED));
        assert_eq!(not_accepted(&graph(json!([]))), held(UNJUDGED));
        assert_eq!(not_accepted(&graph(said("False", 2))), held("no such kind"));
        assert_eq!(
            not_accepted(&graph(said("Unknown", 2))),
            held("no such kind")
        );
        let with_kind = |status: &str| {
            let mut conditions = said("True", 2);
            let kind = json!({
                "type": "KindReady", "status": status, "observedGeneration": 2,
                "message": "the kind belongs to another",
            });
            conditions.as_array_mut().expect("a list").push(kind);
            graph(conditions)
        };
        assert_eq!(not_accepted(&with_kind("True")), None);
        let taken = held("the kind belongs to another");
        for status in ["False", "Unknown"] {
            assert_eq!(not_accepted(&with_kind(status)), taken, "{status}");
        }
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        assert_eq!(not_accepted(&other), None);
    }
}
