//! Bounds on what a plan may ask for. They are checked before anything is worked out.

use serde_json::Value;

use super::{Change, PlanError};
use crate::governing::governor::Governor;

/// The objects and deletions of one plan.
const MAX_CHANGES: usize = 10_000;
/// As the definition of policies says; what is posted was not checked by it.
const MAX_OVERRIDES: usize = 32;
const MAX_STAGES: usize = 64;
const MAX_TARGETS: usize = 128;
/// Names and labels of targets are compared with those of all objects.
const MAX_POLICY_BYTES: usize = 1 << 20;
/// The bytes of objects and patches that are gone through when all overrides are tried on all
/// objects of a policy.
const MAX_TRIED: usize = 1 << 30;

/// Refuses a change with too many parts.
pub(super) fn check_change(change: &Change) -> Result<(), PlanError> {
    let spec = change.policy.as_ref().map(|policy| &policy["spec"]);
    let count = |field: &str| {
        let list = spec.and_then(|spec| spec[field].as_array());
        list.map_or(0, Vec::len)
    };
    let changes = change.objects.len() + change.deletions.len();
    let policy = spec.map_or(0, |spec| spec.to_string().len());
    for (what, count, most) in [
        ("objects and deletions", changes, MAX_CHANGES),
        ("spec.overrides", count("overrides"), MAX_OVERRIDES),
        ("spec.stages", count("stages"), MAX_STAGES),
        ("spec.targets", count("targets"), MAX_TARGETS),
        ("bytes of the policy's spec", policy, MAX_POLICY_BYTES),
    ] {
        if count > most {
            return Err(PlanError::TooLarge(format!(
                "the plan has {count} {what}, and {most} are possible; plan less at once"
            )));
        }
    }
    Ok(())
}

/// Refuses to try overrides on more than can be tried.
pub(super) fn check_trials(governor: &Governor) -> Result<(), PlanError> {
    let overrides = governor.overrides();
    let overrides = overrides.as_array().map_or(&[][..], Vec::as_slice);
    if overrides.is_empty() {
        return Ok(());
    }
    let patches: usize = overrides
        .iter()
        .map(Value::to_string)
        .map(|one| one.len())
        .sum();
    let objects = governor.head.values().map(|head| head.body.len());
    let tried = objects.fold(0_usize, |tried, body| {
        tried.saturating_add(body * overrides.len() + patches)
    });
    if tried > MAX_TRIED {
        return Err(PlanError::TooLarge(format!(
            "spec.overrides would be tried on {} objects, {tried} bytes with their patches, and {MAX_TRIED} are possible; make several policies of it",
            governor.head.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::governing::HeadObject;

    fn change(objects: usize, overrides: usize) -> Change {
        Change {
            objects: vec![json!({}); objects],
            deletions: Vec::new(),
            policy: Some(json!({"spec": {"overrides": vec![json!({"patch": []}); overrides]}})),
            refused: BTreeMap::new(),
        }
    }

    fn too_large(result: Result<(), PlanError>) -> bool {
        matches!(result, Err(PlanError::TooLarge(_)))
    }

    #[test]
    fn plans_are_bounded_before_they_are_made() {
        assert!(!too_large(check_change(&change(10_000, 32))));
        assert!(too_large(check_change(&change(10_001, 0))));
        assert!(too_large(check_change(&change(1, 33))));
        let mut many = change(0, 0);
        many.policy = Some(json!({"spec": {"targets": vec![json!({"kind": "A"}); 129]}}));
        assert!(too_large(check_change(&many)));
        many.policy =
            Some(json!({"spec": {"targets": [{"kind": "A", "names": ["x".repeat(1 << 20)]}]}}));
        assert!(too_large(check_change(&many)));
    }

    #[test]
    fn overrides_are_tried_on_so_much_and_no_more() {
        let patch = json!([{"op": "add", "path": "/data/x", "value": "x".repeat(1 << 20)}]);
        let mut governor = Governor::new(json!({
            "metadata": {"name": "web"}, "spec": {"overrides": [{ "patch": patch }]},
        }));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let head = HeadObject::of(&map).expect("nothing is smuggled");
        let mut govern = |count: usize| {
            for number in 0..count {
                let kind = deltaplane_sync::SyncKind::new("", "ConfigMap").expect("legal");
                let name = format!("shop/a-{number}").parse().expect("legal");
                governor.head.insert((kind, name), head.clone());
            }
            check_trials(&governor)
        };
        assert!(!too_large(govern(1_000)));
        assert!(too_large(govern(1_100)));
    }
}
