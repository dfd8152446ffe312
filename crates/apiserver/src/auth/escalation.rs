//! Nobody gives what they do not have: roles and bindings can only grant rights that their
//! author holds, or is expressly allowed to grant.
//!
//! Every write is checked, whatever it changes: a label alone can make a role part of another one
//! (`auth::aggregation`). Only writes that change what garbage collection needs are exempt.

use serde_json::Value;

use super::coverage::missing_rules;
use super::rbac::{Action, GROUP, Rbac, ResourceAction, Rule};
use crate::context::Cx;
use crate::error::{About, Error};
use crate::{meta, value};

/// So many bytes of missing rules are in a refusal.
const MOST_SHOWN: usize = 8_000;

/// Refuses a role or binding that grants more than its author has.
pub(crate) fn check(cx: &Cx, new: &Value, old: Option<&Value>) -> Result<(), Error> {
    if cx.kind.group != GROUP || cx.user.is_in(deltaplane_api::identity::MASTERS) {
        return Ok(());
    }
    if old.is_some_and(|old| grants(old) == grants(new)) {
        return Ok(());
    }
    // A snapshot: comparing rules takes long, and keeps nobody from their rights meanwhile.
    let rbac = cx.server.rights();
    match cx.kind.plural.as_str() {
        "roles" | "clusterroles" => check_role(cx, &rbac, new, old),
        _ => check_binding(cx, &rbac, new),
    }
}

/// The object without the fields that garbage collection writes and those that the server keeps.
fn grants(object: &Value) -> Value {
    let mut object = object.clone();
    for field in [
        "finalizers",
        "ownerReferences",
        "managedFields",
        "resourceVersion",
        "generation",
    ] {
        value::take(&mut object["metadata"], field);
    }
    meta::tidy(&mut object);
    object
}

fn check_role(cx: &Cx, rbac: &Rbac, new: &Value, old: Option<&Value>) -> Result<(), Error> {
    let name = value::text(new, "metadata.name");
    let plural = cx.kind.plural.as_str();
    let key = (cx.target.namespace.clone(), name.to_owned());
    let roles = rbac.roles_after(key.clone(), new);
    let may_escalate = |role: &str| may(cx, rbac, "escalate", plural, role);
    if may_escalate(name) && roles.aggregators(&key).iter().all(|one| may_escalate(one)) {
        return Ok(());
    }
    let own: Vec<&Rule> = rbac.rules(&cx.user, &cx.target.namespace).collect();
    // What is gathered can be anything, so whoever gathers must have everything.
    let gathers = |role: &Value| !role["aggregationRule"].is_null();
    if (gathers(new) || old.is_some_and(gathers))
        && !missing_rules(&own, &Rule::everything()).rules.is_empty()
    {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        return Err(Error::forbidden(cx.kind.about(name), why));
    }
    let wanted = roles.resulting_rules(&key).unwrap_or_default();
    check_held(cx, &own, &wanted, name)
}

fn check_binding(cx: &Cx, rbac: &Rbac, new: &Value) -> Result<(), Error> {
    let (plural, namespace) = match value::text(new, "roleRef.kind") {
        "Role" => ("roles", cx.target.namespace.as_str()),
        _ => ("clusterroles", ""),
    };
    let role = value::text(new, "roleRef.name");
    // Asked first: who may bind anything may bind what does not exist yet.
    if may(cx, rbac, "bind", plural, role) {
        return Ok(());
    }
    let wanted = rbac.resulting_rules(namespace, role).ok_or_else(|| {
        Error::not_found(About {
            group: GROUP,
            resource: plural,
            name: role,
        })
    })?;
    let own: Vec<&Rule> = rbac.rules(&cx.user, &cx.target.namespace).collect();
    check_held(cx, &own, &wanted, value::text(new, "metadata.name"))
}

fn check_held(cx: &Cx, own: &[&Rule], wanted: &[Rule], name: &str) -> Result<(), Error> {
    let missing = missing_rules(own, wanted);
    if missing.rules.is_empty() {
        return Ok(());
    }
    let mut text = shown(&missing.rules);
    if missing.is_cut {
        text.push_str(
            "\nthere are too many rules and names to compare with the rights of the user; \
             split the role into several",
        );
    }
    let why = format!(
        "user {:?} (groups={:?}) is attempting to grant RBAC permissions not currently held:\n{}",
        cx.user.name, cx.user.groups, text
    );
    Err(Error::forbidden(cx.kind.about(name), &why))
}

/// A line for each rule, cut where a refusal would be too long.
fn shown(rules: &[&Rule]) -> String {
    let mut shown = String::new();
    for (index, rule) in rules.iter().enumerate() {
        let line = rule.to_value().to_string();
        if shown.len() + line.len() > MOST_SHOWN {
            let room = line.floor_char_boundary(MOST_SHOWN.saturating_sub(shown.len()));
            let more = rules.len() - index - 1;
            return format!("{shown}{}… and {more} more rules", &line[..room]);
        }
        shown.push_str(&line);
        if index + 1 < rules.len() {
            shown.push('\n');
        }
    }
    shown
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
