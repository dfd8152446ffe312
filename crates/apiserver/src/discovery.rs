//! Which groups, versions and kinds there are. Rendered once per registry snapshot.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use deltaplane_api::computed;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::encode;
use crate::kinds::Kind;
use crate::kinds::registry::{Document, Registry};
use crate::reviews;

/// What every stored kind can do, in the order that Kubernetes lists it.
pub(crate) const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// The document at `path`, if there is one.
pub(crate) fn document(registry: &Registry, path: &str, address: &str) -> Option<Document> {
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    // By what it is and not by how it was written, of which there is no end.
    registry.documents.get(&segments.join("/"), || {
        let value = match segments.as_slice() {
            ["api"] => versions(address),
            ["apis"] => groups(registry),
            ["api", version] => resources(registry, "", version)?,
            ["apis", group] => group_document(registry, group)?,
            ["apis", group, version] => resources(registry, group, version)?,
            _ => return None,
        };
        Some(encode::bytes(&value))
    })
}

fn versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

fn groups(registry: &Registry) -> Value {
    let mut groups: Vec<Value> = all_groups(registry)
        .into_iter()
        .map(|(name, versions)| group(&name, &versions))
        .collect();
    groups.sort_by_key(|group| rank(group["name"].as_str().unwrap_or_default()));
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Kubernetes' own groups first, then the others by name.
fn rank(group: &str) -> (bool, String) {
    let own = !group.contains('.') || group.ends_with(".k8s.io");
    (!own, group.to_owned())
}

/// Every group but the core one, with its versions: those with stored kinds, and those that only
/// answer reviews.
fn all_groups(registry: &Registry) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = registry
        .groups()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| {
            (
                group.to_owned(),
                versions.into_iter().map(str::to_owned).collect(),
            )
        })
        .collect();
    for (name, version) in reviews::GROUPS {
        if !groups.iter().any(|(group, _)| group == name) {
            groups.push((name.to_owned(), vec![version.to_owned()]));
        }
    }
    groups
}

fn group(name: &str, versions: &[String]) -> Value {
    let version =
        |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({
        "name": name,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(version),
    })
}

fn group_document(registry: &Registry, name: &str) -> Option<Value> {
    let (_, versions) = all_groups(registry)
        .into_iter()
        .find(|(group, _)| group == name)?;
    let mut document = group(name, &versions);
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    Some(document)
}

fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let stored = registry.version(group, version);
    let mut resources: Vec<Value> = stored
        .into_iter()
        .flat_map(|kinds| kinds.values())
        .flat_map(|kind| rows(kind))
        .collect();
    resources.extend(reviews::resources(group, version));
    if resources.is_empty() {
        return None;
    }
    let group_version = crate::kinds::builtin::api_version(group, version);
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }))
}

/// Namespaces go one by one: nobody means to delete them all.
pub(crate) fn verbs(kind: &Kind) -> Vec<&'static str> {
    let all = VERBS.into_iter();
    all.filter(|verb| !(kind.is("", "namespaces") && *verb == "deletecollection"))
        .collect()
}

/// A kind and its subresources.
fn rows(kind: &Kind) -> Vec<Value> {
    let mut main = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": verbs(kind),
    });
    if !kind.short_names.is_empty() {
        main["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        main["categories"] = json!(kind.categories);
    }
    if !kind.storage_hash.is_empty() {
        main["storageVersionHash"] = json!(kind.storage_hash);
    }
    let mut rows = vec![main];
    let sub = |name: &str, of: &str, verbs: &[&str]| {
        json!({
            "name": format!("{}/{name}", kind.plural),
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": of,
            "verbs": verbs,
        })
    };
    if !kind.computed.is_empty() {
        let verbs = ["get", "patch", "update"];
        rows.push(sub(computed::SUBRESOURCE, &kind.kind, &verbs));
    }
    if kind.is("", "namespaces") {
        rows.push(sub("finalize", &kind.kind, &["update"]));
    }
    if kind.scale.is_some() {
        let mut scale = sub("scale", "Scale", &["get", "patch", "update"]);
        scale["group"] = json!("autoscaling");
        scale["version"] = json!("v1");
        rows.push(scale);
    }
    if kind.status {
        rows.push(sub("status", &kind.kind, &["get", "patch", "update"]));
    }
    rows
}

/// The hash by which clients see that a kind is stored differently now.
pub(crate) fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(&digest[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_hashes_are_those_of_kubernetes() {
        // As the real server shows them for these kinds.
        assert_eq!(
            storage_version_hash("apps", "v1", "Deployment"),
            "8aSe+NMegvE="
        );
        assert_eq!(storage_version_hash("", "v1", "ConfigMap"), "qFsyl6wFWjQ=");
    }

    #[test]
    fn a_document_is_kept_once_however_its_path_is_written() {
        let registry = Registry::built_in();
        let made =
            |path: &str| document(&registry, path, "127.0.0.1:1").map(|one| one.bytes.as_ptr());
        let first = made("/apis/apps/v1");
        assert!(first.is_some());
        for path in ["/apis/apps/v1/", "//apis///apps/v1", "apis/apps//v1//"] {
            assert_eq!(made(path), first, "{path}");
        }
        assert_eq!(made("/apis/apps/v9"), None);
    }

    #[test]
    fn kubernetes_groups_come_first() {
        let mut groups = ["example.com", "apps", "rbac.authorization.k8s.io", "a.io"];
        groups.sort_by_key(|group| rank(group));
        assert_eq!(
            groups,
            ["apps", "rbac.authorization.k8s.io", "a.io", "example.com"]
        );
    }
}
