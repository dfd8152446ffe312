//! The rights that it takes to write a definition of a graph, beside those on the definition itself:
//! nobody gains rights by what instances act as, and nobody but who may approve lets deletions go.

use deltaplane_api::identity::GRAPH_ACCOUNT;
use deltaplane_api::keys::APPROVED_DELETIONS;
use deltaplane_apiserver::Error;
use deltaplane_apiserver::error::About;
use deltaplane_apiserver::seams::{Access, Admission, BoxFuture, Operation, Review, UserRights};
use deltaplane_border::graphs;
use serde_json::Value;

/// The field of a definition that names the account of its instances.
const ACCOUNT: &str = "serviceAccountName";

/// The kind that keeps what definitions said.
const REVISIONS: (&str, &str) = ("internal.kro.run", "GraphRevision");

/// Checks definitions and their revisions when they are written.
pub struct GraphAuthorRights;

impl Admission for GraphAuthorRights {
    fn admit<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { check(&review) })
    }
}

fn check(review: &Review<'_>) -> Result<(), Error> {
    let resource = &review.resource;
    let is_written = review.operation != Operation::Delete && resource.subresource.is_empty();
    let is_revision = (resource.group, resource.kind) == REVISIONS;
    if !is_written || !(is_revision || is_definition(resource.group, resource.kind)) {
        return Ok(());
    }
    let about = About {
        group: resource.group,
        resource: resource.plural,
        name: resource.name,
    };
    let spec = |object: &Value| {
        let spec = &object["spec"];
        let spec = if is_revision {
            &spec["snapshot"]["spec"]
        } else {
            spec
        };
        spec.clone()
    };
    let (old, new) = (review.old.map(spec), spec(review.object));
    if old.as_ref() != Some(&new)
        && let Some(name) = named_account(&new)
        && !may_impersonate(review.may, name)
    {
        let why = format!(
            "you may not impersonate ServiceAccount {name} in all namespaces, which instances act as by spec.{ACCOUNT}; leave it out, or ask for the right"
        );
        return Err(Error::forbidden(about, &why));
    }
    let approved = |object: &Value| object["metadata"]["annotations"][APPROVED_DELETIONS].clone();
    let (old, new) = (
        review.old.map(approved).unwrap_or_default(),
        approved(review.object),
    );
    let approves = (review.may)(Access {
        verb: "approve",
        group: resource.group,
        kind: resource.kind,
        namespace: "",
        name: resource.name,
    });
    if new.is_null() || old == new || approves {
        return Ok(());
    }
    let why = format!(
        "you may not approve {} {}, which the annotation {APPROVED_DELETIONS} does; ask for the verb approve on {}",
        resource.plural, resource.name, resource.plural
    );
    Err(Error::forbidden(about, &why))
}

fn is_definition(group: &str, kind: &str) -> bool {
    let definitions = graphs();
    (group, kind) == (definitions.group(), definitions.kind())
}

/// The account that a definition names, unless that is the default one.
fn named_account(spec: &Value) -> Option<&str> {
    let name = spec[ACCOUNT].as_str()?;
    (!name.is_empty() && name != GRAPH_ACCOUNT).then_some(name)
}

fn may_impersonate(may: &UserRights<'_>, name: &str) -> bool {
    may(Access {
        verb: "impersonate",
        group: "",
        kind: "ServiceAccount",
        namespace: "",
        name,
    })
}

/// Returns why the author of a policy may not override a definition so: what an override writes in
/// zones passes no check of definitions at the hub.
pub(crate) fn override_refused(
    (group, kind): (&str, &str),
    patch: &Value,
    may: &UserRights<'_>,
) -> Option<String> {
    if !is_definition(group, kind) {
        return None;
    }
    if writes(patch, &["spec", ACCOUNT]) && !may_impersonate(may, "") {
        return Some(format!(
            "you may not impersonate all ServiceAccounts, and the override changes spec.{ACCOUNT} of definitions; change the definition instead"
        ));
    }
    let approves = || {
        may(Access {
            verb: "approve",
            group,
            kind,
            namespace: "",
            name: "",
        })
    };
    (writes(patch, &["metadata", "annotations", APPROVED_DELETIONS]) && !approves())
        .then(|| format!("you may not approve {kind}s, which the override does"))
}

/// Returns true if a patch may change a field: a JSON patch, or a merge patch.
fn writes(patch: &Value, field: &[&str]) -> bool {
    let Value::Array(operations) = patch else {
        let mut at = patch;
        for key in field {
            match at.get(key) {
                Some(inner) => at = inner,
                // What is no object replaces all that was there.
                None => return !at.is_object(),
            }
        }
        return true;
    };
    operations.iter().any(|one| {
        let path = one["path"].as_str().unwrap_or_default();
        let mut steps = path.split('/').skip(1);
        // What is written above the field, or below it, is it as well.
        field.iter().all(|key| {
            let step = steps.next();
            step.is_none_or(|step| step.replace("~1", "/").replace("~0", "~") == *key)
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_writes_a_field_above_and_below_it() {
        let field = ["spec", ACCOUNT];
        for patch in [
            json!([{"op": "add", "path": "/spec/serviceAccountName", "value": "a"}]),
            json!([{"op": "replace", "path": "/spec", "value": {}}]),
            json!([{"op": "replace", "path": "", "value": {}}]),
            json!({"spec": {"serviceAccountName": "a"}}),
            json!({"spec": null}),
        ] {
            assert!(writes(&patch, &field), "{patch}");
        }
        for patch in [
            json!([{"op": "add", "path": "/spec/resources/0", "value": {}}]),
            json!({"spec": {"resources": []}}),
            json!({"metadata": {"labels": {}}}),
        ] {
            assert!(!writes(&patch, &field), "{patch}");
        }
        let annotation = ["metadata", "annotations", APPROVED_DELETIONS];
        let escaped = json!([{
            "op": "add", "path": "/metadata/annotations/deltaplane.io~1approved-deletions",
            "value": "x",
        }]);
        assert!(writes(&escaped, &annotation));
    }
}
