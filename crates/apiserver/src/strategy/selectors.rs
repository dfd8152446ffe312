//! Label selectors in objects, checked.

use deltaplane_api::field::{Error, Path};
use deltaplane_api::names;
use serde_json::Value;

use crate::value;

/// All that is wrong with a selector.
pub(crate) fn validate(selector: &Value, path: &Path, errors: &mut Vec<Error>) {
    let labels = path.child("matchLabels");
    for (key, text) in value::entries(selector, "matchLabels") {
        check(names::qualified_name(key), &labels, key, errors);
        let text = text.as_str().unwrap_or_default();
        check(names::label_value(text), &labels, text, errors);
    }
    let expressions = value::list(selector, "matchExpressions").iter().enumerate();
    for (index, expression) in expressions {
        let path = path.child("matchExpressions").index(index);
        validate_expression(expression, &path, errors);
    }
}

fn validate_expression(expression: &Value, path: &Path, errors: &mut Vec<Error>) {
    let values = value::list(expression, "values");
    match (value::text(expression, "operator"), values.is_empty()) {
        ("In" | "NotIn", true) => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(Error::required(path.child("values"), detail));
        }
        ("Exists" | "DoesNotExist", false) => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(path.child("values"), detail));
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
        (other, _) => {
            let detail = "not a valid selector operator";
            errors.push(Error::invalid(path.child("operator"), other, detail));
        }
    }
    let key = value::text(expression, "key");
    check(names::qualified_name(key), &path.child("key"), key, errors);
    for (index, text) in value::texts(expression, "values").enumerate() {
        let path = path.child("values").index(index);
        check(names::label_value(text), &path, text, errors);
    }
}

fn check(faults: Vec<String>, path: &Path, text: &str, errors: &mut Vec<Error>) {
    let faults = faults.into_iter();
    errors.extend(faults.map(|fault| Error::invalid(path.clone(), text, fault)));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_make_sense() {
        let check = |expression: Value, expected: &[&str]| {
            let mut errors = Vec::new();
            let selector = json!({"matchExpressions": [expression]});
            validate(&selector, &Path::new("selector"), &mut errors);
            let texts: Vec<String> = errors.iter().map(Error::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(json!({"key": "a", "operator": "In", "values": ["b"]}), &[]);
        check(json!({"key": "a", "operator": "Exists"}), &[]);
        check(
            json!({"key": "a", "operator": "In"}),
            &[
                "selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ],
        );
        check(
            json!({"key": "a", "operator": "Exists", "values": ["b"]}),
            &[
                "selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ],
        );
        check(
            json!({"key": "a", "operator": "Near"}),
            &[
                "selector.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
            ],
        );
    }
}
