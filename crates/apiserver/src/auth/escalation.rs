//! Nobody gives what they do not have: roles and bindings can only grant rights that their
//! author holds, or is expressly allowed to grant.

use serde_json::Value;

use super::rbac::{Action, GROUP, Rbac, ResourceAction, Rule};
use crate::context::Cx;
use crate::error::Error;
use crate::value;

/// Refuses a role or binding that grants more than its author has.
pub(crate) fn check(cx: &Cx, new: &Value, old: Option<&Value>) -> Result<(), Error> {
    if cx.kind.group != GROUP || cx.user.is_in(deltaplane_api::identity::MASTERS) {
        return Ok(());
    }
    let rbac = cx.server.rbac.read();
    let (allowed, wanted) = match cx.kind.plural.as_str() {
        "roles" | "clusterroles" => {
            let same = |field: &str| old.is_some_and(|old| old[field] == new[field]);
            if same("rules") && same("aggregationRule") {
                return Ok(());
            }
            (
                may(
                    cx,
                    &rbac,
                    "escalate",
                    &cx.kind.plural,
                    value::text(new, "metadata.name"),
                ),
                Rule::all(new),
            )
        }
        _ => {
            if old.is_some_and(|old| old["subjects"] == new["subjects"]) {
                return Ok(());
            }
            let (plural, namespace) = match value::text(new, "roleRef.kind") {
                "Role" => ("roles", cx.target.namespace.as_str()),
                _ => ("clusterroles", ""),
            };
            let name = value::text(new, "roleRef.name");
            // Asked first: who may bind anything may bind what does not exist yet.
            if may(cx, &rbac, "bind", plural, name) {
                return Ok(());
            }
            let rules = rbac.role(namespace, name).ok_or_else(|| {
                let about = crate::error::About {
                    group: GROUP,
                    resource: plural,
                    name,
                };
                Error::not_found(about)
            })?;
            (false, rules.to_vec())
        }
    };
    if allowed {
        return Ok(());
    }
    let own: Vec<&Rule> = rbac.rules(&cx.user, &cx.target.namespace).collect();
    // What is gathered can be anything, so whoever gathers must have everything.
    let gathers = |role: &Value| !role["aggregationRule"].is_null();
    if (gathers(new) || old.is_some_and(gathers))
        && !Rule::everything()
            .iter()
            .all(|rule| Rule::cover(&own, rule))
    {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        let name = value::text(new, "metadata.name");
        return Err(Error::forbidden(cx.kind.about(name), why));
    }
    let missing: Vec<String> = wanted
        .iter()
        .filter(|rule| !Rule::cover(&own, rule))
        .map(|rule| rule.to_value().to_string())
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => {
            let why = format!(
                "user {:?} (groups={:?}) is attempting to grant RBAC permissions not currently held:\n{}",
                cx.user.name,
                cx.user.groups,
                missing.join("\n")
            );
            Err(Error::forbidden(
                cx.kind.about(value::text(new, "metadata.name")),
                &why,
            ))
        }
    }
}

fn may(cx: &Cx, rbac: &Rbac, verb: &str, resource: &str, name: &str) -> bool {
    rbac.allows(
        &cx.user,
        Action::Resource(ResourceAction {
            verb,
            group: GROUP,
            resource,
            subresource: "",
            namespace: &cx.target.namespace,
            name,
        }),
    )
}
