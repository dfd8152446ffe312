//! The few rules of workload kinds that users meet at once. The kinds are inert here: nothing
//! runs them, so what only a scheduler or a node would notice is not checked.

use deltaplane_api::field::{Error, Path};
use deltaplane_api::names::NameRule;
use serde_json::Value;

use super::{GENERIC, Strategy, immutable};
use crate::seams::Operation;
use crate::value;

pub(crate) static WORKLOAD: Strategy = Strategy {
    generation: true,
    validate: Some(validate_workload),
    ..GENERIC
};
pub(crate) static JOB: Strategy = Strategy {
    generation: true,
    ..GENERIC
};
pub(crate) static POD: Strategy = Strategy {
    generation: true,
    returns_deleted: true,
    ..GENERIC
};
pub(crate) static SERVICE: Strategy = Strategy {
    name: NameRule::Dns1035,
    create_on_update: true,
    returns_deleted: true,
    refuse: Some(|operation, namespace, name| {
        let own = (namespace, name) == ("default", "kubernetes");
        (own && operation != Operation::Create)
            .then_some("this Service is kept by the server itself")
    }),
    ..GENERIC
};
pub(crate) static ENDPOINTS: Strategy = Strategy {
    create_on_update: true,
    ..GENERIC
};

/// The selector is there, selects the template, and does not change.
fn validate_workload(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    let selector = value::at(new, "spec.selector");
    let labels = value::at(new, "spec.template.metadata.labels");
    let empty = |field: &str| {
        selector[field]
            .as_object()
            .is_none_or(serde_json::Map::is_empty)
    };
    if selector.is_null() {
        errors.push(Error::required(spec.child("selector"), ""));
    } else if empty("matchLabels") && value::list(selector, "matchExpressions").is_empty() {
        let detail = "empty selector is invalid for deployment";
        errors.push(Error::invalid(
            spec.child("selector"),
            selector.clone(),
            detail,
        ));
    }
    super::selectors::validate(selector, &spec.child("selector"), &mut errors);
    let differs = value::entries(selector, "matchLabels").any(|(key, want)| labels[key] != *want);
    if differs {
        let path = spec.child("template").child("metadata").child("labels");
        let detail = "`selector` does not match template `labels`";
        errors.push(Error::invalid(path, labels.clone(), detail));
    }
    if let Some(replicas) = value::at(new, "spec.replicas")
        .as_i64()
        .filter(|&count| count < 0)
    {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(spec.child("replicas"), replicas, detail));
    }
    if let Some(old) = old {
        immutable("spec.selector", new, old, &mut errors);
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_selector_matches_the_template() {
        let check = |spec: Value, expected: &[&str]| {
            let errors = validate_workload(&json!({ "spec": spec }), None);
            let texts: Vec<String> = errors.iter().map(Error::to_string).collect();
            assert_eq!(texts, expected);
        };
        let template = json!({"metadata": {"labels": {"app": "a"}}});
        check(
            json!({"selector": {"matchLabels": {"app": "a"}}, "template": template}),
            &[],
        );
        check(
            json!({"selector": {"matchLabels": {"app": "b"}}, "template": template, "replicas": -1}),
            &[
                "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`",
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
        check(
            json!({"template": template}),
            &["spec.selector: Required value"],
        );
    }
}
