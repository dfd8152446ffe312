//! Plans as data.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::change::Changed;
use super::fleet::Fleet;
use super::shown;

fn planned(deletions: Value) -> Value {
    let done = "2026-03-01T12:00:00Z";
    json!({"policies": [{"policy": "web", "release": 2, "done": done, "deletions": deletions}]})
}

#[track_caller]
fn says(planned: &Value, expected: &str) {
    let text = shown::text(planned);
    assert!(text.contains(expected), "{text}");
}

#[test]
fn what_goes_is_said_with_what_it_needs() {
    let few = json!({"removes": 1, "of": 5, "may": 20, "behind": 0, "needsApproval": false});
    says(
        &planned(few),
        "deletions: 1 of 5 objects go, and 20 may without approval\n",
    );
    let used = json!({"removes": 1, "of": 1, "may": 20, "behind": 3, "needsApproval": true});
    let used = planned(used);
    says(
        &used,
        "may without approval: needs approval of the deletions\n",
    );
    says(&used, "a graph goes that is in use: 3 instances stay");
}

#[test]
fn what_would_stop_is_not_good() {
    assert!(shown::is_good(&planned(json!({}))));
    for (field, value) in [
        ("stuck", json!({"stage": "canary", "why": "no evidence"})),
        ("problems", json!(["spec.overrides[0]: it cannot be read"])),
        ("hunks", json!([{"change": "Impossible"}])),
    ] {
        let mut bad = planned(json!({}));
        bad["policies"][0][field] = value;
        assert!(!shown::is_good(&bad), "{field}");
    }
}

#[test]
fn what_is_not_foreseen_is_said_and_not_good() {
    let mut open = planned(json!({}));
    open["policies"][0]["done"] = Value::Null;
    assert!(!shown::is_good(&open));
    says(&open, "further is not foreseen\n");
    // Nothing is to be foreseen where nothing is released.
    open["policies"][0]["release"] = Value::Null;
    assert!(shown::is_good(&open));
}

#[test]
fn a_definition_that_stays_at_the_hub_is_not_good() {
    let warning = |message: &str, stays: bool| {
        json!({
            "group": "kro.run", "kind": "ResourceGraphDefinition", "namespace": "", "name": "shop",
            "message": message, "stays": stays,
        })
    };
    let planned =
        json!({"policies": [], "others": [], "warnings": [warning("it is in use", false)]});
    says(
        &planned,
        "warning: ResourceGraphDefinition.kro.run shop: it is in use\n",
    );
    assert!(shown::is_good(&planned));
    let planned = json!({"warnings": [warning("it does not compile", true)]});
    assert!(!shown::is_good(&planned));
}

#[test]
fn a_release_that_another_policy_moves_on_is_told() {
    let mut moved = planned(json!({}));
    moved["policies"][0]["released"] = true.into();
    says(&moved, "policy web would go on with release 2\n");
    let held = json!({"policies": [{"policy": "web", "problems": ["it does not compile"]}]});
    says(
        &held,
        "policy web would release nothing until its problems are solved\n",
    );
}

/// The policy `web` for ConfigMaps of these names.
fn policy(names: &[&str]) -> Value {
    json!({
        "apiVersion": "fleet.deltaplane.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web"},
        "spec": {"targets": [{"kind": "ConfigMap", "names": names}]},
    })
}

/// Of new ConfigMaps `site` and `extra`, those that no policy would govern if `web` became another.
fn ungoverned(live: &[&str], given: &[&str]) -> Vec<String> {
    let synced = json!({
        "metadata": {"name": "configmaps"},
        "spec": {"kind": "ConfigMap", "direction": "HubToZone"},
    });
    let fleet = Fleet::new(vec![policy(live)], &[synced], Vec::new());
    let changed = |live: Option<Value>, stored: Value| Changed {
        live,
        stored,
        note: None,
        warnings: Vec::new(),
    };
    let config = |name: &str| {
        let metadata = json!({"namespace": "default", "name": name});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    };
    let changes = [
        changed(Some(policy(live)), policy(given)),
        changed(None, config("site")),
        changed(None, config("extra")),
    ];
    let own = BTreeMap::from([("web", &changes[0])]);
    assert_eq!(fleet.concerned(&changes, &[], &own), ["web"]);
    let others = fleet.others(&changes, &[], &own);
    let names = others.iter().filter_map(|other| other["name"].as_str());
    names.map(str::to_owned).collect()
}

#[test]
fn a_policy_that_changes_governs_what_it_says_then() {
    assert_eq!(ungoverned(&["site"], &["site"]), ["extra"]);
    assert!(ungoverned(&["site"], &["site", "extra"]).is_empty());
    assert_eq!(ungoverned(&["site", "extra"], &["site"]), ["extra"]);
}
