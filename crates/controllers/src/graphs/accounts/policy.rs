//! The admission policy that keeps the rights of authors of definitions where the API is a cluster's.
//! An API server of ours checks the same by itself. Data, and pure.

use deltaplane_api::keys::APPROVED_DELETIONS;
use serde_json::{Value, json};

use super::super::api;
use super::DEFAULT_ACCOUNT;

/// The name of the policy and of its binding.
pub const POLICY: &str = "graph-rights.deltaplane.io";
pub(super) const GROUP_VERSION: &str = "admissionregistration.k8s.io/v1";

/// The policy and its binding.
pub(super) fn objects() -> [Value; 2] {
    let metadata = json!({
        "name": POLICY, "labels": {"app.kubernetes.io/managed-by": "deltaplane"},
    });
    let policy = json!({
        "apiVersion": GROUP_VERSION, "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata, "spec": spec(),
    });
    let binding = json!({
        "apiVersion": GROUP_VERSION, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    });
    [policy, binding]
}

fn spec() -> Value {
    let (definitions, revisions) = (api::definitions(), api::revisions());
    let rule = |group: &str, plural: &str| {
        json!({
            "apiGroups": [group], "apiVersions": ["*"], "resources": [plural],
            "operations": ["CREATE", "UPDATE"],
        })
    };
    let plural = &revisions.plural;
    let of = |object: &str| {
        format!(
            "{object} == null ? {{}} : request.resource.resource == '{plural}' ? dyn({object}.spec.snapshot.spec) : dyn({object}.spec)"
        )
    };
    let approved = |object: &str| {
        format!(
            "{object} == null ? '' : {object}.metadata.?annotations[?'{APPROVED_DELETIONS}'].orValue('')"
        )
    };
    let may_impersonate = "authorizer.group('').resource('serviceaccounts').name(variables.account).check('impersonate').allowed()";
    let may_approve = format!(
        "authorizer.group('{}').resource('{}').name(object.metadata.name).check('approve').allowed()",
        definitions.group, definitions.plural
    );
    json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [
            rule(&definitions.group, &definitions.plural),
            rule(&revisions.group, &revisions.plural),
        ]},
        "variables": [
            {"name": "definition", "expression": of("object")},
            {"name": "oldDefinition", "expression": of("oldObject")},
            {
                "name": "account",
                "expression": "variables.definition.?serviceAccountName.orValue('')",
            },
            {"name": "approved", "expression": approved("object")},
            {"name": "oldApproved", "expression": approved("oldObject")},
        ],
        "validations": [
            {
                "expression": format!(
                    "variables.account in ['', '{DEFAULT_ACCOUNT}'] || variables.definition == variables.oldDefinition || {may_impersonate}"
                ),
                "messageExpression": "'you may not impersonate ServiceAccount ' + variables.account + ' in all namespaces, which instances act as by spec.serviceAccountName; leave it out, or ask for the right'",
                "reason": "Forbidden",
            },
            {
                "expression": format!(
                    "variables.approved in ['', variables.oldApproved] || {may_approve}"
                ),
                "message": format!(
                    "you may not approve {}, which the annotation {APPROVED_DELETIONS} does; ask for the verb approve on {}",
                    definitions.plural, definitions.plural
                ),
                "reason": "Forbidden",
            },
        ],
    })
}
