//! The admission policies that keep the rules of [`deltaplane_sync::judge`] where the API is a
//! real cluster: pure.
//!
//! - [`OWNERSHIP`]: what came from elsewhere is changed at its origin alone, its marks are written
//!   by the agent alone, and the agent leaves alone what was authored in the cluster.
//! - [`ZONE_LABEL`]: nobody but the agent says that an object is of a zone.
//! - [`COMPUTED`]: fields that controllers compute are written by those who may.
//!
//! **Who is concerned.** The first two select by label, and a selector counts when the old *or* the
//! new object has the label: one cannot evade it by taking the label away. So `failurePolicy: Fail`
//! is harmless: whatever goes wrong with these policies, only objects that came from elsewhere, or
//! claim to have, cannot be written, and the cluster's own are not even looked at. The third names
//! the kinds it is about.
//!
//! **Who may delete.** Garbage collection and the end of a namespace must not be refused: a
//! namespace would stay `Terminating` and an owner's foreground deletion would hang for as long as
//! the hub keeps the object, with nobody in the cluster able to help. Their controllers may delete,
//! and nothing else: whoever can only get at an object through them must first be allowed to delete
//! its namespace or its owner. What they delete comes back when the agent starts the next time.
//!
//! **What a policy cannot see.** `/scale` is judged by a `Scale`, which has no labels: that right is
//! RBAC's to withhold. Marks in annotations alone, without the label, mean nothing to anyone, and
//! are not looked for.

use std::collections::BTreeMap;

use deltaplane_sync::{
    AUTHORED_HERE, Computed, DISPLAY_NAME, MANAGER, ORIGIN, ORPHANED, SYNCS_ANNOTATIONS,
    SYNCS_LABELS, ZONE, ZoneName,
};
use serde_json::{Value, json};

/// What the policies and their bindings are called.
pub(crate) const OWNERSHIP: &str = "ownership.deltaplane.io";
pub(crate) const ZONE_LABEL: &str = "zone-label.deltaplane.io";
pub(crate) const COMPUTED: &str = "computed-fields.deltaplane.io";

/// Who keeps whose rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keeper {
    /// The user that the agent is to the cluster.
    pub(crate) user: String,
    pub(crate) zone: ZoneName,
}

/// The fields that controllers compute, by group and plural.
pub(crate) type Fields = BTreeMap<(String, String), Vec<Computed>>;

pub(crate) const GROUP_VERSION: &str = "admissionregistration.k8s.io/v1";

/// They delete what lost its owner or its namespace; the last is all of them in one where they
/// have no accounts of their own.
const COLLECTORS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
];

/// Words of CEL that are no names.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

// === impl Keeper ===

impl Keeper {
    /// What came from elsewhere is changed there.
    pub(crate) fn ownership(&self) -> Value {
        let selector = json!({"matchExpressions": [{"key": ORIGIN, "operator": "Exists"}]});
        let validations = json!([
            validation(
                &format!(
                    "variables.agent || variables.owner in ['', {}] || variables.collected || (variables.noted && size(variables.forged) == 0)",
                    literal(&format!("zone {}", self.zone))
                ),
                &format!(
                    r#""the object is managed by " + variables.owner + " and read-only here; edit it " + (variables.owner == "the hub" ? "at the hub" : "in " + variables.owner) + ", as " + variables.oldAnnotations[?{}].orValue(oldObject.metadata.name)"#,
                    literal(DISPLAY_NAME)
                ),
            ),
            validation(
                "variables.agent || size(variables.forged) == 0",
                r#"variables.forged[0] + " says where an object is from and is written by sync alone; leave it as it is""#,
            ),
            validation(
                &format!(
                    "!variables.agent || oldObject == null || object == null || variables.owner != '' || {} in variables.oldAnnotations",
                    literal(ORPHANED)
                ),
                &literal(AUTHORED_HERE),
            ),
            validation(
                "!variables.agent || variables.owner == '' || variables.becomes in ['', variables.owner]",
                r#""an object of this name belongs to " + variables.owner + "; rename one of them""#,
            ),
        ]);
        policy(
            OWNERSHIP,
            &json!({
                "failurePolicy": "Fail",
                "matchConstraints": {"objectSelector": selector, "resourceRules": [everything()]},
                "variables": self.variables(),
                "validations": validations,
            }),
        )
    }

    /// What the rules speak of, each from those before it.
    fn variables(&self) -> Value {
        let of = |object: &str, place: &str| {
            format!("{object} == null ? {{}} : {object}.metadata.?{place}.orValue({{}})")
        };
        let entries = |object: &str| {
            let ours = format!("m.?manager.orValue('') == {}", literal(MANAGER));
            format!("{object}.metadata.?managedFields.orValue([]).filter(m, {ours})")
        };
        let owners = |object: &str| format!("{object}.metadata.?ownerReferences.orValue([])");
        let kept = |place: &str, now: &str, before: &str| {
            let applied = format!("m[?'fieldsV1'][?'f:metadata'][?'f:{place}'].orValue({{}})");
            let same = format!("{now}[?f.substring(2)] == {before}[?f.substring(2)]");
            format!("variables.applied.all(m, {applied}.all(f, !f.startsWith('f:') || {same}))")
        };
        let whole = "object.all(k, k in ['metadata', 'status'] || (k in oldObject && object[k] == oldObject[k])) && oldObject.all(k, k in ['metadata', 'status'] || k in object)";
        let noted = [
            "object != null && oldObject != null".to_owned(),
            format!("(request.?subResource.orValue('') == 'status' || ({whole}))"),
            kept("labels", "variables.labels", "variables.oldLabels"),
            kept(
                "annotations",
                "variables.annotations",
                "variables.oldAnnotations",
            ),
            // The garbage collector deletes an object whose owners are gone.
            format!("{}.all(r, r in {})", owners("object"), owners("oldObject")),
            // Whoever could make the cluster forget what sync applied could then change it.
            format!("{} == variables.applied", entries("object")),
        ];
        let variables = [
            ("agent", self.is_agent()),
            ("labels", of("object", "labels")),
            ("oldLabels", of("oldObject", "labels")),
            ("annotations", of("object", "annotations")),
            ("oldAnnotations", of("oldObject", "annotations")),
            ("owner", owner("variables.oldLabels")),
            ("becomes", owner("variables.labels")),
            ("forged", forged()),
            (
                "collected",
                format!(
                    "object == null && request.userInfo.username in {}",
                    literal(&COLLECTORS)
                ),
            ),
            (
                "applied",
                format!("oldObject == null ? [] : {}", entries("oldObject")),
            ),
            ("noted", noted.join(" && ")),
        ];
        let variables =
            variables.map(|(name, expression)| json!({"name": name, "expression": expression}));
        variables.into_iter().collect()
    }

    /// Whose an object is said to be, although nothing else says that it came from elsewhere.
    pub(crate) fn zone_label(&self) -> Value {
        let selector = json!({"matchExpressions": [
            {"key": ORIGIN, "operator": "DoesNotExist"},
            {"key": ZONE, "operator": "Exists"},
        ]});
        let label = |object: &str| format!("{object}.metadata.?labels[?{}]", literal(ZONE));
        let (new, old) = (label("object"), label("oldObject"));
        let message = format!(
            "{ZONE} says where an object is from and is written by sync alone; leave it as it is"
        );
        policy(
            ZONE_LABEL,
            &json!({
                "failurePolicy": "Fail",
                "matchConstraints": {"objectSelector": selector, "resourceRules": [everything()]},
                "validations": [validation(
                    &format!("{} || object == null || {new} == (oldObject == null ? optional.none() : {old})", self.is_agent()),
                    &literal(&message),
                )],
            }),
        )
    }

    /// Fields that controllers compute; nothing if there are none.
    pub(crate) fn computed(&self, fields: &Fields) -> Option<Value> {
        let fields = fields.iter().filter(|(_, fields)| !fields.is_empty());
        let (mut rules, mut variables) = (Vec::new(), Vec::new());
        let mut validations = Vec::new();
        for ((group, plural), fields) in fields {
            rules.push(json!({
                "apiGroups": [group], "apiVersions": ["*"], "resources": [plural],
                "operations": ["CREATE", "UPDATE"],
            }));
            // Asked once for all fields: asking costs much of what a policy may.
            let may = format!("may{}", variables.len());
            variables.push(json!({"name": may, "expression": may_compute(group, plural)}));
            for field in fields {
                let is_fine = self.unless_computed((group, plural), field);
                let message = format!(
                    "{field} is computed by controllers, which may update {plural}/computed of {group}; leave it as it is"
                );
                let is_fine = format!("{is_fine} || variables.{may}");
                validations.push(validation(&is_fine, &literal(&message)));
            }
        }
        let spec = json!({
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules},
            "variables": variables,
            "validations": validations,
        });
        (!rules.is_empty()).then(|| policy(COMPUTED, &spec))
    }

    /// That a write is another kind's, or the agent's, or leaves the field as it was.
    fn unless_computed(&self, (group, plural): (&str, &str), field: &Computed) -> String {
        let path = field.to_string();
        let path: String = path.split('.').map(selection).collect();
        let other_kind = format!(
            "request.resource.group != {} || request.resource.resource != {}",
            literal(group),
            literal(plural)
        );
        let agent = self.is_agent();
        format!(
            "{other_kind} || {agent} || object{path} == (oldObject == null ? optional.none() : oldObject{path})"
        )
    }

    fn is_agent(&self) -> String {
        format!("request.userInfo.username == {}", literal(&self.user))
    }
}

/// That whoever writes may compute fields of a kind.
fn may_compute(group: &str, plural: &str) -> String {
    format!(
        "authorizer.group({}).resource({}).subresource('computed').namespace(request.?namespace.orValue('')).name(object.metadata.?name.orValue('')).check('update').allowed()",
        literal(group),
        literal(plural)
    )
}

/// In force everywhere that the policy of this name is about.
pub(crate) fn binding(name: &str) -> Value {
    json!({
        "apiVersion": GROUP_VERSION, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "labels": managed()},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    })
}

fn policy(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": GROUP_VERSION, "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "labels": managed()},
        "spec": spec,
    })
}

fn managed() -> Value {
    json!({"app.kubernetes.io/managed-by": "deltaplane"})
}

/// All that can carry labels; some kinds' labels can be changed with their status, too.
fn everything() -> Value {
    json!({
        "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "*/status"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
    })
}

/// The message is an expression.
fn validation(expression: &str, message: &str) -> Value {
    json!({"expression": expression, "messageExpression": message, "reason": "Forbidden"})
}

/// Who an object belongs to by its labels, in words; empty if it is the cluster's own.
fn owner(labels: &str) -> String {
    let (origin, zone) = (literal(ORIGIN), literal(ZONE));
    format!(
        "!({origin} in {labels}) ? '' : {labels}[{origin}] != 'zone' ? 'the hub' : 'zone ' + {labels}[?{zone}].orValue('?')"
    )
}

/// The marks that differ from what they were.
fn forged() -> String {
    let differ = |keys: &Value, now: &str, before: &str| {
        format!("{keys}.filter(k, {now}[?k] != {before}[?k])")
    };
    let labels = differ(
        &json!(SYNCS_LABELS),
        "variables.labels",
        "variables.oldLabels",
    );
    let annotations = differ(
        &json!(SYNCS_ANNOTATIONS),
        "variables.annotations",
        "variables.oldAnnotations",
    );
    format!("object == null ? [] : {labels} + {annotations}")
}

/// A field, if it is there. Kubernetes checks policies against the schemas of custom kinds, and
/// warns of a key in brackets; names that CEL cannot write have no other form.
fn selection(key: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = key.starts_with(|c: char| c.is_ascii_alphabetic());
    match begins && key.chars().all(is_name) && !RESERVED.contains(&key) {
        true => format!(".?{key}"),
        false => format!("[?{}]", literal(key)),
    }
}

/// JSON's texts and lists are CEL's, too.
fn literal<T: serde::Serialize + ?Sized>(value: &T) -> String {
    json!(value).to_string()
}

#[cfg(test)]
mod tests;
