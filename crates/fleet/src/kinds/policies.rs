//! The definitions of what moves through the fleet in stages.

use serde_json::{Value, json};

use super::definitions::definition;

fn selector(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "properties": {
            "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
            "matchExpressions": {"type": "array", "items": {
                "type": "object", "required": ["key", "operator"],
                "properties": {
                    "key": {"type": "string"},
                    "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                    "values": {"type": "array", "items": {"type": "string"}},
                },
            }},
        },
    })
}

fn texts(description: &str) -> Value {
    json!({"type": "array", "description": description, "items": {"type": "string"}})
}

fn targets(description: &str) -> Value {
    json!({
        "type": "array",
        "description": description,
        "items": {
            "type": "object",
            "required": ["kind"],
            "properties": {
                "group": {"type": "string", "default": "", "description": "The API group; empty for Kubernetes' first kinds."},
                "kind": {"type": "string", "minLength": 1},
                "names": texts("Names, in any namespace, or namespace/name; all of the kind if absent."),
                "selector": selector("Which objects, by their labels; all if absent."),
                "readyWhen": texts("Expressions over `object`, evaluated in zones, that must all be true for it to be ready; the common rules if there are none."),
            },
        },
    })
}

fn stage() -> Value {
    json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
            "zones": selector("The zones of the stage, of those that no stage before it has; all of these if absent."),
            "propagateWhen": texts("Expressions over `zone`, `zones` (of the stage) and `release`, that must all be true for a zone to be let in."),
            "readyWhen": texts("Expressions over `object`, added to those of the targets."),
            "orderBy": {"type": "string", "description": "An expression over `zone`: zones are asked in the order of its values."},
            "soak": {"type": "string", "description": "How long all zones of the stage must be ready before a release goes on."},
            "maxFailures": {
                "x-kubernetes-int-or-string": true,
                "description": "How many zones may fail, or which share of them; none if absent.",
            },
            "progressDeadline": {"type": "string", "description": "Whoever is not ready after so long has failed, or lost its place if it is away; 10m if absent."},
            "approval": {
                "type": "string", "enum": ["None", "Required", "RequiredByOther"], "default": "None",
                "description": "Whether somebody has to agree before the stage begins with a release; RequiredByOther: somebody who did not author it.",
            },
            "whenNoEvidence": {
                "type": "string", "enum": ["Hold", "Proceed"], "default": "Hold",
                "description": "What it means that nothing in a zone shows whether a release works, such as a graph without instances.",
            },
            "paused": {"type": "boolean", "default": false},
        },
    })
}

fn spec() -> Value {
    json!({
        "type": "object",
        "required": ["targets"],
        "properties": {
            "targets": targets("What is governed. An object is governed by one policy."),
            "zones": selector("Which zones it goes to; all if absent."),
            "overrides": {
                "type": "array", "maxItems": 32,
                "description": "What is different in some zones.",
                "items": {
                    "type": "object", "required": ["patch"],
                    "properties": {
                        "zones": selector("In which zones; in all if absent."),
                        "targets": targets("Of which objects, and then of all of these; if absent, of those that it can be applied to."),
                        "patch": {
                            "type": "array", "description": "A JSON patch.",
                            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                        },
                    },
                },
            },
            "stages": {
                "type": "array", "maxItems": 64, "description": "In which order zones get it; all at once if absent.",
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": stage(),
            },
            "windows": {
                "type": "array", "description": "Times that expressions may ask about: window('name').",
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object", "required": ["name", "rrule", "duration"],
                    "properties": {
                        "name": {"type": "string", "minLength": 1},
                        "rrule": {"type": "string", "description": "A recurrence rule of RFC 5545."},
                        "duration": {"type": "string"},
                        "timeZone": {"type": "string", "description": "Whose clocks the rule is about, such as Europe/Berlin; UTC if absent."},
                        "start": {"type": "string", "description": "Nothing comes before: 2026-03-01, or 2026-03-01T22:00."},
                    },
                },
            },
            "onFailure": {
                "type": "string", "enum": ["Pause", "Rollback"], "default": "Pause",
                "description": "What happens when more zones of a stage failed than may: nothing moves on, or a new release brings back what had completed before.",
            },
            "onNewer": {
                "type": "string", "enum": ["Supersede", "Queue"], "default": "Supersede",
                "description": "What happens to a release that is in a stage when there is a newer one: that takes over at once, or waits until the stage is done.",
            },
            "deletionBudget": {
                "type": "object",
                "description": "How many objects a release may take away without approval: max, or percent of what there is, whichever is more.",
                "properties": {
                    "max": {"type": "integer", "format": "int64", "minimum": 0},
                    "percent": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100},
                },
            },
            "paused": {"type": "boolean", "default": false, "description": "Nothing moves."},
        },
    })
}

pub(super) fn policies() -> Value {
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "description": "What goes to which zones, in which order, under which gates.",
        "properties": {
            "spec": spec(),
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let columns = json!([
        {"name": "Release", "type": "integer", "jsonPath": ".status.release"},
        {"name": "Propagated", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Propagated\")].status"},
        {"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Propagated\")].reason"},
        {"name": "Zones", "type": "string", "jsonPath": ".status.progress"},
        {"name": "Paused", "type": "boolean", "jsonPath": ".spec.paused", "priority": 1},
        {"name": "Message", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Propagated\")].message", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition(
        "PropagationPolicy",
        "propagationpolicies",
        &schema,
        &columns,
    )
}

pub(super) fn releases() -> Value {
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "description": "All that a policy governed at one moment: which version of what. Written by the hub, and never changed.",
        "properties": {"spec": {
            "type": "object",
            "required": ["policy", "policyUID", "number", "digest", "objects"],
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "policy": {"type": "string"},
                "policyUID": {"type": "string"},
                "number": {"type": "integer", "format": "int64"},
                "restores": {"type": "integer", "format": "int64", "nullable": true, "description": "The release whose content it brings back."},
                "digest": {"type": "string", "description": "Of all content: the same for the same."},
                "revision": {"type": "integer", "format": "int64", "description": "Of the store, that it shows."},
                "contentRevision": {"type": "integer", "format": "int64", "description": "The same of the release whose content it brings back. It says nothing of what came to the policy later and was in zones before."},
            },
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "a release is never changed"}],
        }},
    });
    let columns = json!([
        {"name": "Policy", "type": "string", "jsonPath": ".spec.policy"},
        {"name": "Number", "type": "integer", "jsonPath": ".spec.number"},
        {"name": "Added", "type": "integer", "jsonPath": ".spec.changes.added"},
        {"name": "Changed", "type": "integer", "jsonPath": ".spec.changes.changed"},
        {"name": "Removed", "type": "integer", "jsonPath": ".spec.changes.removed"},
        {"name": "Restores", "type": "integer", "jsonPath": ".spec.restores"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition("Release", "releases", &schema, &columns)
}

pub(super) fn approvals() -> Value {
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "description": "A person's yes to one stage of one policy at one release, or to what a release takes away.",
        "properties": {"spec": {
            "type": "object",
            "required": ["policy", "release"],
            "properties": {
                "policy": {"type": "string", "minLength": 1},
                "release": {"type": "integer", "format": "int64", "minimum": 1},
                "stage": {"type": "string", "description": "The stage that may begin with it."},
                "deletions": {"type": "boolean", "description": "Whether it may take away more than the budget allows."},
                "approvedBy": {"type": "string", "description": "Who said so; written by the hub."},
                "policyUID": {"type": "string", "nullable": true, "description": "Of the policy; written by the hub."},
            },
            "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "an approval is never changed; make another one"},
                {"rule": "has(self.stage) != (has(self.deletions) && self.deletions)", "message": "say either a stage, or deletions: true"},
            ],
        }},
    });
    let columns = json!([
        {"name": "Policy", "type": "string", "jsonPath": ".spec.policy"},
        {"name": "Release", "type": "integer", "jsonPath": ".spec.release"},
        {"name": "Stage", "type": "string", "jsonPath": ".spec.stage"},
        {"name": "Deletions", "type": "boolean", "jsonPath": ".spec.deletions"},
        {"name": "By", "type": "string", "jsonPath": ".spec.approvedBy"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition("Approval", "approvals", &schema, &columns)
}
