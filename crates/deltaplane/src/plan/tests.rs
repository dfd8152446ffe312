//! Plans as data.

use serde_json::{Value, json};

use super::shown;

fn planned(deletions: Value) -> Value {
    json!({"policies": [{"policy": "web", "release": 2, "deletions": deletions}]})
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
