//! The definitions that a hub installs for the kinds of the fleet.

use serde_json::{Value, json};

use super::{GROUP, VERSION, policies};

/// All of them.
pub fn definitions() -> Vec<Value> {
    vec![
        zones(),
        synced_kinds(),
        policies::policies(),
        policies::releases(),
        policies::approvals(),
    ]
}

fn zones() -> Value {
    let spec = json!({
        "type": "object",
        "properties": {
            "enabled": {
                "type": "boolean", "default": true,
                "description": "Whether the zone may connect.",
            },
            "deletionBudget": {
                "type": "object",
                "description": "How many objects of a kind may be deleted in the zone within ten minutes without approval: max, or percent of what is there, whichever is more.",
                "properties": {
                    "max": {"type": "integer", "format": "int64", "minimum": 0},
                    "percent": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100},
                },
            },
            "quota": {
                "type": "object",
                "description": "How much of what the zone authors the hub keeps at most. Updates that make an object smaller always pass.",
                "properties": {
                    "objects": {"type": "integer", "format": "int64", "minimum": 0, "description": "Objects; 50000 if not given."},
                    "bytes": {"type": "integer", "format": "int64", "minimum": 0, "description": "Bytes of all of them as JSON, without status and what control planes add; 256000000 if not given."},
                    "namespaces": {"type": "integer", "format": "int64", "minimum": 0, "description": "Namespaces that these objects are in; 500 if not given."},
                },
            },
        },
    });
    // The rule about the name names the field.
    let metadata = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let schema = json!({
        "type": "object",
        "description": "A member of the fleet.",
        "properties": {"metadata": metadata, "spec": spec, "status": zone_status()},
        "x-kubernetes-validations": [{
            "fieldPath": ".metadata.name",
            "rule": "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63 && self.metadata.name != 'hub'",
            "message": "a zone's name must be a DNS label, and not \"hub\"",
        }],
    });
    let columns = json!([
        {"name": "Connection", "type": "string", "jsonPath": ".status.connection"},
        {"name": "Since", "type": "date", "jsonPath": ".status.since"},
        {"name": "Diverged", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Diverged\")].status"},
        {"name": "Version", "type": "string", "jsonPath": ".status.product"},
        {"name": "Enabled", "type": "boolean", "jsonPath": ".spec.enabled", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition("Zone", "zones", &schema, &columns)
}

fn zone_status() -> Value {
    json!({
        "type": "object",
        "properties": {
            "connection": {
                "type": "string", "enum": ["Connected", "Disconnected"],
                "description": "Whether the zone is connected. Written when that changes, and never in between.",
            },
            "since": {"type": "string", "format": "date-time"},
            "product": {"type": "string", "description": "The version of deltaplane in the zone."},
            "features": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "message": {"type": "string", "description": "Why it is not connected, if that is known."},
            "conditions": conditions("Diverged: the hub was restored to an earlier state than the zone followed (HubRestored), or the zone lost its record of how far it followed (RecordLost); the hub sends it nothing until a person settles it: deltaplane zones reconcile."),
            "fork": {
                "type": "object",
                "description": "The newest revision that the hub can have in common with the future of its store that the zone followed and the hub lost: what the hub made later, the zone was never sent.",
                "properties": {
                    "opening": {"type": "string"},
                    "revision": {"type": "integer", "format": "int64"},
                },
            },
            "reconciled": {
                "type": "object",
                "description": "The position of a lost future of the hub that the zone followed, and a person settled.",
                "properties": {
                    "position": {"type": "string"},
                    "revision": {"type": "integer", "format": "int64"},
                    "record": {"type": "string", "description": "The record of how far it followed that the zone lost, and a person settled."},
                    "releases": {
                        "type": "object", "additionalProperties": {"type": "integer", "format": "int64"},
                        "description": "The newest release of each policy that the zone had followed; a policy of the same name that is made later begins above it.",
                    },
                    "at": {"type": "string", "format": "date-time"},
                    "by": {"type": "string"},
                },
            },
        },
    })
}

fn synced_kinds() -> Value {
    let spec = json!({
        "type": "object",
        "required": ["kind", "direction"],
        "properties": {
            "group": {"type": "string", "default": "", "maxLength": 253, "description": "The API group; empty for Kubernetes' first kinds."},
            "kind": {"type": "string", "minLength": 1, "maxLength": 63},
            "direction": {
                "type": "string", "enum": ["HubToZone", "ZoneToHub", "Both"],
                "description": "Where objects of the kind may be authored, and where they go.",
            },
            "acrossZones": {
                "type": "boolean", "default": false,
                "description": "Whether a zone's objects are passed on to the other zones, without their status.",
            },
            "zoneAuthored": {
                "type": "boolean", "default": true,
                "description": "Whether objects that zones author are sent to the hub.",
            },
            "selector": {
                "type": "object",
                "description": "Which objects cross, wherever they were authored; all if absent.",
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
            },
            "status": {
                "type": "string", "enum": ["Zones", "Each"],
                "description": "Who computes the status of the objects: only zones, which run them, or every control plane its own. Zones if absent; Each for kinds that the hub itself reads: CustomResourceDefinition, Namespace, ResourceGraphDefinition.",
            },
            "onWithdraw": {
                "type": "string", "enum": ["Orphan", "Delete"], "default": "Orphan",
                "description": "What zones do with objects that they should not have any more, and that were not deleted.",
            },
        },
        "x-kubernetes-validations": [
        {
            "rule": "self.group != 'fleet.deltaplane.io' && !(self.kind in ['Event', 'Lease'])",
            "message": "objects of this kind are about the control plane where they are, and do not cross",
        },
        {
            "rule": "self.group != 'rbac.authorization.k8s.io' || self.direction == 'HubToZone'",
            "message": "rights can be given from the hub to zones, and not the other way",
        },
        {
            "rule": "self.group == oldSelf.group && self.kind == oldSelf.kind",
            "message": "group and kind cannot be changed; make another SyncedKind",
        }],
    });
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "description": "A kind whose objects cross the border between hub and zones.",
        "properties": {"spec": spec, "status": synced_kind_status()},
        "x-kubernetes-validations": [{
            "rule": "self.spec.group == '' ? !self.metadata.name.contains('.') : self.metadata.name.endsWith('.' + self.spec.group)",
            "message": "metadata.name must be <plural>.<group>, such as widgets.example.com, or <plural> for kinds of the core group",
        }],
    });
    let columns = json!([
        {"name": "Kind", "type": "string", "jsonPath": ".spec.kind"},
        {"name": "Direction", "type": "string", "jsonPath": ".spec.direction"},
        {"name": "Across", "type": "boolean", "jsonPath": ".spec.acrossZones"},
        {"name": "Served", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Served\")].status"},
        {"name": "Status", "type": "string", "jsonPath": ".spec.status", "priority": 1},
        {"name": "Withdraw", "type": "string", "jsonPath": ".spec.onWithdraw", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition("SyncedKind", "syncedkinds", &schema, &columns)
}

fn synced_kind_status() -> Value {
    json!({
        "type": "object",
        "properties": {
            "conditions": conditions("Served: whether the hub serves the kind; nothing crosses while it does not."),
        },
    })
}

/// The schema of a list of conditions.
fn conditions(description: &str) -> Value {
    json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "description": description,
        "items": {
            "type": "object", "required": ["type", "status"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string"},
                "reason": {"type": "string"},
                "message": {"type": "string"},
                "observedGeneration": {"type": "integer", "format": "int64"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
            },
        },
    })
}

pub(super) fn definition(kind: &str, plural: &str, schema: &Value, columns: &Value) -> Value {
    let has_status = schema["properties"].get("status").is_some();
    let subresources = match has_status {
        true => json!({"status": {}}),
        false => json!({}),
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": kind, "listKind": format!("{kind}List"),
                "plural": plural, "singular": kind.to_lowercase(),
                "categories": ["fleet"],
            },
            "versions": [{
                "name": VERSION, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": subresources,
                "additionalPrinterColumns": columns,
            }],
        },
    })
}
