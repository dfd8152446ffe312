//! Roles and bindings: their shape. Who may write them is in `auth::escalation`.

use deltaplane_api::field::{Error, Path};
use deltaplane_api::names::{self, NameRule};
use deltaplane_api::selector::check_form;
use serde_json::Value;

use super::{GENERIC, Strategy};
use crate::auth::rbac::GROUP;
use crate::value;

pub(crate) static ROLE: Strategy = Strategy {
    name: NameRule::PathSegment,
    create_on_update: true,
    validate: Some(|role, _| validate_role(role)),
    ..GENERIC
};

pub(crate) static BINDING: Strategy = Strategy {
    name: NameRule::PathSegment,
    create_on_update: true,
    validate: Some(validate_binding),
    ..GENERIC
};

fn validate_role(role: &Value) -> Vec<Error> {
    let namespaced = value::text(role, "kind") == "Role";
    let mut errors = Vec::new();
    for (index, rule) in value::list(role, "rules").iter().enumerate() {
        validate_rule(
            &Path::new("rules").index(index),
            rule,
            namespaced,
            &mut errors,
        );
    }
    if !role["aggregationRule"].is_null() {
        let path = Path::new("aggregationRule").child("clusterRoleSelectors");
        let selectors = value::list(role, "aggregationRule.clusterRoleSelectors");
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(Error::required(path.clone(), detail));
        }
        for (index, selector) in selectors.iter().enumerate() {
            errors.extend(check_form(selector, &path.index(index)));
        }
    }
    errors
}

fn validate_rule(path: &Path, rule: &Value, namespaced: bool, errors: &mut Vec<Error>) {
    let has = |field: &str| !value::list(rule, field).is_empty();
    if !has("verbs") {
        let detail = "verbs must contain at least one value";
        errors.push(Error::required(path.child("verbs"), detail));
    }
    if has("nonResourceURLs") {
        let urls = rule["nonResourceURLs"].clone();
        let path = path.child("nonResourceURLs");
        if namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(Error::invalid(path.clone(), urls.clone(), detail));
        }
        if has("apiGroups") || has("resources") || has("resourceNames") {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(Error::invalid(path, urls, detail));
        }
        return;
    }
    if !has("apiGroups") {
        let detail = "resource rules must supply at least one api group";
        errors.push(Error::required(path.child("apiGroups"), detail));
    }
    if !has("resources") {
        let detail = "resource rules must supply at least one resource";
        errors.push(Error::required(path.child("resources"), detail));
    }
}

fn validate_binding(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let namespaced = value::text(new, "kind") == "RoleBinding";
    let mut errors = Vec::new();
    validate_role_ref(&new["roleRef"], namespaced, &mut errors);
    for (index, subject) in value::list(new, "subjects").iter().enumerate() {
        validate_subject(
            &Path::new("subjects").index(index),
            subject,
            namespaced,
            &mut errors,
        );
    }
    if old.is_some_and(|old| old["roleRef"] != new["roleRef"]) {
        let detail = "cannot change roleRef";
        errors.push(Error::invalid(
            Path::new("roleRef"),
            new["roleRef"].clone(),
            detail,
        ));
    }
    errors
}

fn validate_role_ref(reference: &Value, namespaced: bool, errors: &mut Vec<Error>) {
    let path = Path::new("roleRef");
    if value::text(reference, "apiGroup") != GROUP {
        let group = reference["apiGroup"].clone();
        errors.push(Error::not_supported(
            path.child("apiGroup"),
            group,
            &[GROUP],
        ));
    }
    let kinds: &[&str] = match namespaced {
        true => &["Role", "ClusterRole"],
        false => &["ClusterRole"],
    };
    let kind = value::text(reference, "kind");
    if !kinds.contains(&kind) {
        errors.push(Error::not_supported(path.child("kind"), kind, kinds));
    }
    match value::text(reference, "name") {
        "" => errors.push(Error::required(path.child("name"), "")),
        name => {
            let faults = names::path_segment(name).into_iter();
            errors.extend(faults.map(|fault| Error::invalid(path.child("name"), name, fault)));
        }
    }
}

fn validate_subject(path: &Path, subject: &Value, namespaced: bool, errors: &mut Vec<Error>) {
    let (kind, group) = (
        value::text(subject, "kind"),
        value::text(subject, "apiGroup"),
    );
    if value::text(subject, "name").is_empty() {
        errors.push(Error::required(path.child("name"), ""));
    }
    let expected = match kind {
        "ServiceAccount" => "",
        "User" | "Group" => GROUP,
        other => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(Error::not_supported(path.child("kind"), other, &kinds));
            return;
        }
    };
    if group != expected {
        errors.push(Error::not_supported(
            path.child("apiGroup"),
            group,
            &[expected],
        ));
    }
    if kind == "ServiceAccount" && !namespaced && value::text(subject, "namespace").is_empty() {
        errors.push(Error::required(path.child("namespace"), ""));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_about_resources_or_about_paths() {
        let check = |kind: &str, rule: Value, faults: usize| {
            let role = json!({"kind": kind, "rules": [rule]});
            assert_eq!(validate_role(&role).len(), faults, "{role}");
        };
        check(
            "Role",
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}),
            0,
        );
        check("Role", json!({"apiGroups": [""], "resources": ["pods"]}), 1);
        check("Role", json!({"verbs": ["get"]}), 2);
        check(
            "Role",
            json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}),
            1,
        );
        check(
            "ClusterRole",
            json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}),
            0,
        );
        check(
            "ClusterRole",
            json!({"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["a"]}),
            1,
        );
    }

    #[test]
    fn roles_are_gathered_by_selectors_that_make_sense() {
        let check = |rule: Value, faults: usize| {
            let role = json!({"kind": "ClusterRole", "aggregationRule": rule});
            assert_eq!(validate_role(&role).len(), faults, "{role}");
        };
        check(
            json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}),
            0,
        );
        check(json!({"clusterRoleSelectors": []}), 1);
        check(
            json!({"clusterRoleSelectors": [{"matchLabels": {"-": "b"}}]}),
            1,
        );
    }

    #[test]
    fn bindings_name_a_role_once_and_for_all() {
        let binding = |name: &str| {
            json!({
                "kind": "ClusterRoleBinding",
                "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "User", "apiGroup": GROUP, "name": "eve"}],
            })
        };
        assert_eq!(validate_binding(&binding("a"), Some(&binding("a"))), []);
        assert_eq!(
            validate_binding(&binding("b"), Some(&binding("a"))).len(),
            1
        );
        let mut account = binding("a");
        account["subjects"] =
            json!([{"kind": "ServiceAccount", "name": "x"}, {"kind": "Robot", "name": ""}]);
        assert_eq!(validate_binding(&account, None).len(), 3);
    }
}
