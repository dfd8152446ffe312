//! Volumes, claims and what provides them.

use serde_json::Value;

use super::{NONE, Row, UNSET, field, joined, marked, or, printed, texts};

/// Access modes in their customary order and spelling.
fn access_modes(modes: &[Value]) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| modes.iter().any(|value| value.as_str() == Some(mode));
    known
        .into_iter()
        .filter(|(mode, _)| has(mode))
        .map(|(_, short)| short)
        .collect::<Vec<_>>()
        .join(",")
}

/// The class by its field, or by the annotation that came before it.
fn storage_class_name(row: Row<'_>) -> String {
    let annotation = row
        .map("/metadata/annotations")
        .and_then(|annotations| annotations.get("volume.beta.kubernetes.io/storage-class"))
        .and_then(Value::as_str);
    annotation
        .unwrap_or_else(|| row.text("/spec/storageClassName"))
        .to_owned()
}

fn volume_phase(row: Row<'_>) -> Value {
    match row.is_deleted() {
        true => "Terminating".into(),
        false => row.text("/status/phase").into(),
    }
}

fn quantity(row: Row<'_>, pointer: &str) -> String {
    printed(row.at(pointer)).unwrap_or_else(|| "0".to_owned())
}

pub(super) fn volume(row: Row<'_>) -> Vec<Value> {
    let claim = row.at("/spec/claimRef");
    let claim = claim.map_or_else(String::new, |claim| {
        format!("{}/{}", field(claim, "namespace"), field(claim, "name"))
    });
    vec![
        row.name(),
        quantity(row, "/spec/capacity/storage").into(),
        access_modes(row.list("/spec/accessModes")).into(),
        row.text("/spec/persistentVolumeReclaimPolicy").into(),
        volume_phase(row),
        claim.into(),
        storage_class_name(row).into(),
        row.text_or("/spec/volumeAttributesClassName", UNSET),
        row.text("/status/reason").into(),
        row.age(),
        row.text_or("/spec/volumeMode", UNSET),
    ]
}

pub(super) fn claim(row: Row<'_>) -> Vec<Value> {
    let volume = row.text("/spec/volumeName");
    let (capacity, modes) = match volume {
        "" => (String::new(), String::new()),
        _ => (
            quantity(row, "/status/capacity/storage"),
            access_modes(row.list("/status/accessModes")),
        ),
    };
    vec![
        row.name(),
        volume_phase(row),
        volume.into(),
        capacity.into(),
        modes.into(),
        storage_class_name(row).into(),
        row.text_or("/spec/volumeAttributesClassName", UNSET),
        row.age(),
        row.text_or("/spec/volumeMode", UNSET),
    ]
}

pub(super) fn storage_class(row: Row<'_>) -> Vec<Value> {
    let annotations = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    vec![
        marked(row, &annotations),
        row.text("/provisioner").into(),
        row.text_or("/reclaimPolicy", "Delete"),
        row.text_or("/volumeBindingMode", "Immediate"),
        row.flag("/allowVolumeExpansion").unwrap_or(false).into(),
        row.age(),
    ]
}

pub(super) fn csi_driver(row: Row<'_>) -> Vec<Value> {
    let flag = |name: &str, default: bool| {
        Value::Bool(row.flag(&format!("/spec/{name}")).unwrap_or(default))
    };
    let requests = match row.at("/spec/tokenRequests") {
        Some(_) => joined(row.list("/spec/tokenRequests"), "audience"),
        None => UNSET.to_owned(),
    };
    vec![
        row.name(),
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        requests.into(),
        flag("requiresRepublish", false),
        or(texts(row.list("/spec/volumeLifecycleModes"), ","), NONE).into(),
        row.age(),
    ]
}

pub(super) fn csi_node(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.count("/spec/drivers").into(), row.age()]
}

pub(super) fn attachment(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text("/spec/attacher").into(),
        row.text("/spec/source/persistentVolumeName").into(),
        row.text("/spec/nodeName").into(),
        row.flag("/status/attached").unwrap_or(false).into(),
        row.age(),
    ]
}

pub(super) fn attributes_class(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text("/driverName").into(), row.age()]
}
