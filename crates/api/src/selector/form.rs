//! The form of label selectors in objects, as Kubernetes requires it.

use serde_json::Value;

use crate::field::{Error, Path};
use crate::names;

/// All that is wrong with a selector of `matchLabels` and `matchExpressions`.
pub fn check_form(selector: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    let labels = path.child("matchLabels");
    for (key, text) in selector["matchLabels"].as_object().into_iter().flatten() {
        check(names::qualified_name(key), &labels, key, &mut errors);
        let text = text.as_str().unwrap_or_default();
        check(names::label_value(text), &labels, text, &mut errors);
    }
    let expressions = list(&selector["matchExpressions"]).iter().enumerate();
    for (index, expression) in expressions {
        let path = path.child("matchExpressions").index(index);
        check_expression(expression, &path, &mut errors);
    }
    errors
}

fn check_expression(expression: &Value, path: &Path, errors: &mut Vec<Error>) {
    let text = |field: &str| expression[field].as_str().unwrap_or_default();
    let values = list(&expression["values"]);
    match (text("operator"), values.is_empty()) {
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
    let key = text("key");
    check(names::qualified_name(key), &path.child("key"), key, errors);
    let texts = values.iter().filter_map(Value::as_str);
    for (index, text) in texts.enumerate() {
        let path = path.child("values").index(index);
        check(names::label_value(text), &path, text, errors);
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
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
            let selector = json!({"matchExpressions": [expression]});
            let errors = check_form(&selector, &Path::new("selector"));
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
