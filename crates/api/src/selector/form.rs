//! The form of label selectors in objects, as Kubernetes requires it.

use serde_json::Value;

use super::MAX_TERMS;
use crate::field::{Error, Path};
use crate::names;

/// Returns how many requirements and values a selector of `matchLabels` and `matchExpressions` has.
pub fn terms(selector: &Value) -> usize {
    let labels = selector["matchLabels"]
        .as_object()
        .map_or(0, |labels| labels.len());
    let expressions = list(&selector["matchExpressions"]).iter();
    let expressions = expressions.map(|one| 1 + list(&one["values"]).len());
    labels + expressions.sum::<usize>()
}

/// All that is wrong with a selector of `matchLabels` and `matchExpressions`.
pub fn check_form(selector: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    let terms = terms(selector);
    if terms > MAX_TERMS {
        // One error for each of them would be longer than the selector.
        return vec![Error::too_many(path.clone(), terms, MAX_TERMS)];
    }
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
    fn a_selector_has_so_many_terms_at_most() {
        let absent = |count: usize| {
            let one = json!({"key": "x", "operator": "DoesNotExist"});
            json!({"matchExpressions": vec![one; count], "matchLabels": {"a": "b"}})
        };
        let path = Path::new("selector");
        assert_eq!(check_form(&absent(MAX_TERMS - 1), &path), []);
        let errors = check_form(&absent(MAX_TERMS), &path);
        let texts: Vec<String> = errors.iter().map(Error::to_string).collect();
        let expected = "selector: Too many: 2001: must have at most 2000 items";
        assert_eq!(texts, [expected]);
    }

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
