//! The form of label selectors in policies and SyncedKinds. A selector with a key or value that no
//! label can have selects nothing, or everything with `NotIn`, and nobody is told.
//!
//! Selectors that are stored already are not checked: earlier versions accepted them.

use std::collections::HashSet;

use deltaplane_api::field::{Error, Path};
use deltaplane_api::selector::check_form;
use serde_json::Value;

/// All that is wrong with the selector of a SyncedKind.
pub(super) fn malformed_in_kind(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let selector = |object: &Value| object["spec"]["selector"].clone();
    if old.is_some_and(|old| selector(old) == selector(new)) {
        return Vec::new();
    }
    check_form(&selector(new), &Path::new("spec").child("selector"))
}

/// All that is wrong with the selectors of a policy.
pub(super) fn malformed_in_policy(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let stored = old.map(|old| selectors(&old["spec"])).unwrap_or_default();
    let stored: HashSet<&Value> = stored.into_iter().map(|(_, selector)| selector).collect();
    let written = selectors(&new["spec"]).into_iter();
    let written = written.filter(|(_, selector)| !stored.contains(selector));
    written
        .flat_map(|(path, selector)| check_form(selector, &path))
        .collect()
}

/// Adds errors of other checks, but for those about a selector whose form is known to be wrong.
pub(super) fn add_others(malformed: &mut Vec<Error>, others: Vec<Error>) {
    let paths: Vec<String> = malformed.iter().map(|one| one.path.to_string()).collect();
    let is_known = |other: &Error| {
        let selector = format!("{}.", other.path);
        paths.iter().any(|path| path.starts_with(&selector))
    };
    let mut all: Vec<Error> = others.into_iter().filter(|one| !is_known(one)).collect();
    std::mem::swap(malformed, &mut all);
    malformed.append(&mut all);
}

/// The selectors of a policy's spec, and where they are.
fn selectors(spec: &Value) -> Vec<(Path, &Value)> {
    let path = Path::new("spec");
    let mut found = vec![(path.child("zones"), &spec["zones"])];
    found.extend(of_targets(spec, &path));
    for (place, stage) in items(spec, &path, "stages") {
        found.push((place.child("zones"), &stage["zones"]));
    }
    for (place, one) in items(spec, &path, "overrides") {
        found.push((place.child("zones"), &one["zones"]));
        found.extend(of_targets(one, &place));
    }
    found
}

fn of_targets<'v>(holder: &'v Value, path: &Path) -> Vec<(Path, &'v Value)> {
    let targets = items(holder, path, "targets").into_iter();
    let selectors = targets.map(|(place, target)| (place.child("selector"), &target["selector"]));
    selectors.collect()
}

fn items<'v>(holder: &'v Value, path: &Path, field: &str) -> Vec<(Path, &'v Value)> {
    let list = holder[field].as_array().into_iter().flatten().enumerate();
    let place = |index| path.child(field).index(index);
    list.map(|(index, item)| (place(index), item)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(key: &str) -> Value {
        let selector = json!({"matchLabels": {key: "x"}});
        let operator = json!({"matchExpressions": [{"key": key, "operator": "In", "values": []}]});
        json!({"spec": {
            "zones": selector,
            "targets": [{"kind": "ConfigMap"}, {"kind": "Secret", "selector": operator}],
            "stages": [{"name": "first", "zones": selector}],
            "overrides": [{
                "zones": {"matchLabels": {"a": "not a value"}},
                "targets": [{"kind": "ConfigMap", "selector": selector}],
            }],
        }})
    }

    #[test]
    fn malformed_selectors_of_policies_are_named() {
        let errors = malformed_in_policy(&policy("not a key"), None);
        let mut fields: Vec<String> = errors.iter().map(|error| error.path.to_string()).collect();
        fields.dedup();
        assert_eq!(
            fields,
            [
                "spec.zones.matchLabels",
                "spec.targets[1].selector.matchExpressions[0].values",
                "spec.targets[1].selector.matchExpressions[0].key",
                "spec.stages[0].zones.matchLabels",
                "spec.overrides[0].zones.matchLabels",
                "spec.overrides[0].targets[0].selector.matchLabels",
            ]
        );
    }

    #[test]
    fn a_malformed_selector_is_reported_once() {
        let mut errors = malformed_in_policy(&policy("not a key"), None);
        let count = errors.len();
        let other = |path: &str| Error::forbidden(Path::new(path), "wrong".to_owned());
        add_others(
            &mut errors,
            vec![other("spec.stages[0].zones"), other("spec.windows[0]")],
        );
        assert_eq!(errors.len(), count + 1);
        assert_eq!(errors[0].path.to_string(), "spec.windows[0]");
    }

    #[test]
    fn stored_selectors_stay_as_they_are() {
        let stored = policy("not a key");
        let mut changed = stored.clone();
        changed["spec"]["paused"] = json!(true);
        assert!(malformed_in_policy(&changed, Some(&stored)).is_empty());
        changed["spec"]["zones"] = json!({"matchLabels": {"another bad key": "x"}});
        assert_eq!(malformed_in_policy(&changed, Some(&stored)).len(), 1);
        let kind = json!({"spec": {"selector": {"matchLabels": {"a b": "x"}}}});
        assert_eq!(malformed_in_kind(&kind, None).len(), 1);
        assert!(malformed_in_kind(&kind, Some(&kind)).is_empty());
    }
}
