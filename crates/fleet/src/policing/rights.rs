//! The rights at the hub that an author of a policy needs beside those on the policy itself. Pure.
//!
//! Overrides change objects in zones, going back changes them there too, and readiness expressions
//! read them: nobody does by a policy what RBAC at the hub refuses to them.

use std::collections::BTreeSet;

use deltaplane_apiserver::seams::{Access, UserRights};
use deltaplane_propagation::stages::{Policy, Problem, Targets};
use serde_json::Value;

use crate::governing::Id;
use crate::graph_rights::override_refused;

/// The kinds by which rights are given: overrides would give rights that are not at the hub.
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const SERVICE_ACCOUNTS: (&str, &str) = ("", "ServiceAccount");
const SECRETS: (&str, &str) = ("", "Secret");

/// Returns true if no override may change objects of a kind.
pub(crate) fn is_protected(group: &str, kind: &str) -> bool {
    group == RBAC_GROUP || (group, kind) == SERVICE_ACCOUNTS
}

/// The overrides that are for kinds by which rights are given.
pub(super) fn protected_overrides(policy: &Policy) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (place, one) in policy.overrides.iter().enumerate() {
        let path = format!("spec.overrides[{place}].targets");
        let reached = reached(policy, &one.targets);
        let mut protected = reached
            .iter()
            .filter(|one| is_protected(&one.group, &one.kind));
        let Some(target) = protected.next() else {
            continue;
        };
        let hint = if one.targets.is_empty() {
            "an override without targets is for all that the policy governs: give it targets of its own"
        } else {
            "make another object for these zones"
        };
        problems.push(Problem {
            path,
            message: format!("overrides cannot target objects of kind {}", target.kind),
            hint: Some(hint.to_owned()),
        });
    }
    problems
}

/// Why the author of a policy may not write it with these overrides, if so. A patch that does not fit
/// is shown, so that patches could read Secrets bit by bit: their author needs the right to read them.
pub(super) fn overrides_refused(policy: &Policy, may: &UserRights<'_>) -> Option<String> {
    policy.overrides.iter().enumerate().find_map(|(place, one)| {
        let path = format!("spec.overrides[{place}]");
        let targets = reached(policy, &one.targets);
        let hint = |verb: &str| {
            format!("name objects in {path}.targets that you may {verb} at the hub, or ask for the right")
        };
        if let Some(missing) = missing(targets, "update", may) {
            return Some(format!("{missing}, which {path} changes in zones; {}", hint("update")));
        }
        let refused = |one: &Targets| override_refused((&one.group, &one.kind), &policy.overrides[place].patch, may);
        if let Some(why) = targets.iter().find_map(refused) {
            return Some(format!("{path}: {why}"));
        }
        let secrets = targets.iter().filter(|one| is_secret(one));
        let missing = missing(secrets, "get", may)?;
        Some(format!("{missing}, whose content {path} could test; {}", hint("get")))
    })
}

/// Why the author of a policy may not write it with these expressions over Secrets, if so.
pub(super) fn ready_when_refused(policy: &Policy, may: &UserRights<'_>) -> Option<String> {
    let by_stage = policy.stages.iter().any(|one| !one.ready_when.is_empty());
    let targets = policy.targets.iter();
    let secrets = targets.filter(|one| {
        let is_read = by_stage || !one.ready_when.is_empty();
        is_read && is_secret(one)
    });
    let missing = missing(secrets, "get", may)?;
    Some(format!(
        "{missing}, which readyWhen reads in zones; leave readyWhen out, or ask for the right"
    ))
}

fn is_secret(targets: &Targets) -> bool {
    (targets.group.as_str(), targets.kind.as_str()) == SECRETS
}

/// Why a person may not go back to an older release, if so.
pub(super) fn rollback_refused(differing: &BTreeSet<Id>, may: &UserRights<'_>) -> Option<String> {
    let refused = differing.iter().find(|(kind, name)| {
        !may(Access {
            verb: "update",
            group: kind.group(),
            kind: kind.kind(),
            namespace: name.namespace(),
            name: name.name(),
        })
    });
    let (kind, name) = refused?;
    let kind = kind.kind();
    Some(format!(
        "you cannot update {kind} {name} at the hub, which the rollback changes in zones; ask for the right, or for somebody who has it"
    ))
}

/// Returns true if the overrides of a policy may come to more, or to something else.
pub(super) fn overrides_changed(old: Option<&Value>, new: &Value) -> bool {
    ["overrides", "targets", "zones"]
        .iter()
        .any(|field| old.is_none_or(|old| old[field] != new[field]))
}

/// Returns true if other objects may be read in zones, or otherwise.
pub(super) fn ready_when_changed(old: Option<&Value>, new: &Value) -> bool {
    let expressions = |spec: &Value| -> Vec<Value> {
        let stages = spec["stages"].as_array().into_iter().flatten();
        let all = stages.map(|one| one["readyWhen"].clone());
        all.filter(|one| !one.is_null()).collect()
    };
    old.is_none_or(|old| old["targets"] != new["targets"] || expressions(old) != expressions(new))
}

/// What an override is for: all that the policy governs unless it says otherwise.
fn reached<'a>(policy: &'a Policy, targets: &'a [Targets]) -> &'a [Targets] {
    match targets {
        [] => &policy.targets,
        own => own,
    }
}

/// The first of these objects on which the user does not have a right: each that is named, or the
/// kind in all namespaces.
fn missing<'a>(
    targets: impl IntoIterator<Item = &'a Targets>,
    verb: &str,
    may: &UserRights<'_>,
) -> Option<String> {
    targets.into_iter().find_map(|target| {
        let Targets { group, kind, .. } = target;
        let lacks = |namespace: &str, name: &str| {
            !may(Access {
                verb,
                group,
                kind,
                namespace,
                name,
            })
        };
        // Rights on all of the kind are rights on each of them, and asked for once.
        if !lacks("", "") {
            return None;
        }
        if target.given().is_empty() {
            return Some(format!(
                "you cannot {verb} {kind} in all namespaces at the hub"
            ));
        }
        let refused = target.given().iter().find(|name| {
            let (namespace, name) = name.split_once('/').unwrap_or(("", name));
            lacks(namespace, name)
        });
        refused.map(|name| match name.contains('/') {
            true => format!("you cannot {verb} {kind} {name} at the hub"),
            false => format!("you cannot {verb} {kind} {name} in all namespaces at the hub"),
        })
    })
}
