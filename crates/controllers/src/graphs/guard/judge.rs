//! Whether a kind that definitions are written in keeps all that they say, and whether one lost
//! something while it did not. Pure.

use serde_json::Value;

use super::super::conditions::FOREIGN;
use super::super::revision::Revision;

/// On the definition of a kind: it was somebody else's, who did not keep all fields, and was put
/// right. Definitions that were last written before that may have lost some.
pub(super) const RESTORED: &str = "deltaplane.io/restored";

/// Any value is kept.
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

/// The field of ours that a kind as it is there would drop, if there is one.
pub(super) fn lacking(there: &Value, ours: &Value) -> Option<String> {
    let wanted = &ours["spec"]["versions"][0];
    let versions = there["spec"]["versions"].as_array().into_iter().flatten();
    let mut same = versions.filter(|version| version["name"] == wanted["name"]);
    let Some(version) = same.next() else {
        return Some(format!(
            "version {}",
            wanted["name"].as_str().unwrap_or_default()
        ));
    };
    let [there, ours] = [version, wanted].map(|one| &one["schema"]["openAPIV3Schema"]);
    dropped(there, ours, "")
}

fn dropped(there: &Value, ours: &Value, path: &str) -> Option<String> {
    if there[OPEN] == true {
        return None;
    }
    if ours[OPEN] == true {
        return Some(path.to_owned());
    }
    let fields = ours["properties"].as_object().into_iter().flatten();
    let mut fields = fields.map(|(name, ours)| {
        let path = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        match there["properties"].get(name) {
            Some(there) => dropped(there, ours, &path),
            None => Some(path),
        }
    });
    if let Some(found) = fields.find_map(|found| found) {
        return Some(found);
    }
    let parts = [
        ("items", format!("{path}[*]")),
        ("additionalProperties", format!("{path}.*")),
    ];
    let mut parts = parts.iter().filter(|(part, _)| ours[*part].is_object());
    parts.find_map(|(part, path)| match there[*part].is_object() {
        true => dropped(&there[*part], &ours[*part], path),
        // Whatever is there may be true.
        false => (there[*part] != true).then(|| path.clone()),
    })
}

/// The kind as it is put right. What was somebody else's says so from then on.
pub(super) fn restored(there: Option<&Value>, mut ours: Value) -> Value {
    let Some(there) = there else { return ours };
    let metadata = &there["metadata"];
    let version = match lacking(there, &ours) {
        Some(_) => &metadata["resourceVersion"],
        None => &metadata["annotations"][RESTORED],
    };
    if version.is_string() {
        ours["metadata"]["annotations"][RESTORED] = version.clone();
    }
    ours
}

/// The gate that a definition had as a revision, and about which it says nothing any more.
pub(super) fn lost(was: &Value, now: &Value) -> Option<String> {
    let missing = |was: &Value, now: &Value| {
        let mut gates = ["propagateWhen", "orderBy", "deletionBudget"].into_iter();
        gates.find(|gate| !was[gate].is_null() && now[gate].is_null())
    };
    if let Some(gate) = missing(was, now) {
        return Some(format!("spec.{gate}"));
    }
    let [was, now] = [was, now].map(|spec| spec["resources"].as_array().into_iter().flatten());
    was.filter(|was| was["id"].is_string()).find_map(|was| {
        let node = now.clone().find(|now| now["id"] == was["id"])?;
        let gate = missing(was, node)?;
        Some(format!("{gate} of {}", was["id"].as_str()?))
    })
}

/// Whether a definition may have been written last while its kind dropped fields, given the kind as
/// it is now.
pub(super) fn is_suspect(definition: &Value, kind: &Value) -> bool {
    let restored = kind["metadata"]["annotations"][RESTORED].is_string();
    // Nobody writes a kind without need: it is as old as that it was put right, or older than it
    // need be.
    restored && version(definition) <= version(kind)
}

/// Whether a definition says something else than its newest revision, although nobody changed what
/// it says: a write of something else dropped it.
pub(super) fn is_undone(definition: &Value, newest: &Revision) -> bool {
    let generation = definition["metadata"]["generation"].as_i64();
    newest.belongs_to(definition) && newest.generation == generation
}

/// The version of an object, by which it is told what was written first.
pub(super) fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// Whether a definition was found to have lost something, and nobody wrote it since.
pub(super) fn is_marked(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| {
        one["type"] == "GraphAccepted"
            && one["reason"] == FOREIGN
            && one["observedGeneration"] == definition["metadata"]["generation"]
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::api;
    use super::*;

    const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";

    fn without(path: &str, field: &str) -> Value {
        let [mut kind, _] = api::kinds();
        let fields = kind.pointer_mut(path).and_then(Value::as_object_mut);
        fields.expect("fields").remove(field).expect("there");
        kind
    }

    #[test]
    fn a_kind_that_drops_something_is_not_ours() {
        let [ours, revisions] = api::kinds();
        assert_eq!(lacking(&ours, &ours), None);
        let dropped = |path: &str, field: &str| lacking(&without(path, field), &ours);
        let gate = dropped(SPEC, "propagateWhen");
        assert_eq!(gate.as_deref(), Some("spec.propagateWhen"));
        let node = format!("{SPEC}/resources/items/properties");
        let of_node = dropped(&node, "orderBy");
        assert_eq!(of_node.as_deref(), Some("spec.resources[*].orderBy"));
        let template = dropped(&format!("{node}/template"), OPEN);
        assert_eq!(template.as_deref(), Some("spec.resources[*].template"));
        assert!(lacking(&revisions, &ours).is_some());
        assert!(lacking(&json!({}), &ours).is_some());
        // More does no harm.
        let mut more = ours.clone();
        more["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(lacking(&more, &ours), None);
    }

    #[test]
    fn what_was_put_right_says_so() {
        let [ours, _] = api::kinds();
        let says = |there: &Value| {
            let restored = restored(Some(there), ours.clone());
            restored["metadata"]["annotations"][RESTORED].clone()
        };
        let mut there = without(SPEC, "propagateWhen");
        there["metadata"]["resourceVersion"] = json!("7");
        assert_eq!(says(&there), "7");
        let mut after = ours.clone();
        after["metadata"]["annotations"] = json!({RESTORED: "7"});
        after["metadata"]["resourceVersion"] = json!("8");
        assert_eq!(says(&after), "7");
        assert_eq!(says(&ours), Value::Null);
        let written = |at: &str| json!({"metadata": {"resourceVersion": at}});
        assert!(is_suspect(&written("7"), &after));
        assert!(!is_suspect(&written("9"), &after));
        assert!(!is_suspect(&written("7"), &ours));
    }

    #[test]
    fn a_gate_about_which_nothing_is_said_is_lost() {
        let spec = |gate: Value, of_node: Value| json!({"propagateWhen": gate, "resources": [{"id": "a", "propagateWhen": of_node}]});
        let was = spec(json!(["false"]), json!(["true"]));
        assert_eq!(lost(&was, &was), None);
        let gone = lost(&was, &spec(Value::Null, json!(["true"])));
        assert_eq!(gone.as_deref(), Some("spec.propagateWhen"));
        let gone = lost(&was, &spec(json!(["false"]), Value::Null));
        assert_eq!(gone.as_deref(), Some("propagateWhen of a"));
        // Somebody said that everything is open, or that there is no such node.
        assert_eq!(lost(&was, &spec(json!([]), json!([]))), None);
        let without = json!({"propagateWhen": ["false"], "resources": []});
        assert_eq!(lost(&was, &without), None);
    }
}
