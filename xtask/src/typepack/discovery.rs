//! Groups and kinds, from the published discovery documents.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::SERVED;
use super::openapi::{self, Definitions};

/// One kind of the pack, as it is written.
#[derive(Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) plural: String,
    pub(super) singular: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) categories: Vec<String>,
    pub(super) namespaced: bool,
    pub(super) verbs: Vec<String>,
    pub(super) definition: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) list_definition: String,
    /// `[group, version, kind]` that is stored; absent when nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stored: Option<(String, String, String)>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) storage_hash: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) subresources: Vec<Subresource>,
    /// `[name, type, format, priority]` of each Table column.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) columns: Vec<Value>,
}

#[derive(Clone, Serialize)]
pub(super) struct Subresource {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<Resource>,
}

/// `metav1.APIResource`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    name: String,
    kind: String,
    #[serde(default)]
    group: Option<String>,
    #[serde(default)]
    version: Option<String>,
    singular_name: String,
    namespaced: bool,
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    storage_version_hash: String,
}

/// Virtual resources, which no store holds and which we do not compute.
const LEFT_OUT: [&str; 1] = ["componentstatuses"];

/// `[name, [versions]]` in the order in which the real server lists them, preferred version first.
pub(super) fn groups(dir: &Path) -> Result<Vec<Value>> {
    let list: Value = read(&dir.join("apis.json"))?;
    let named = list
        .get("groups")
        .and_then(Value::as_array)
        .context("apis.json has no groups")?;
    let mut names = vec![""];
    names.extend(
        named
            .iter()
            .filter_map(|group| group.get("name").and_then(Value::as_str)),
    );
    let mut groups = Vec::new();
    for name in names {
        if let Some((name, versions)) = SERVED.iter().find(|(served, _)| *served == name) {
            groups.push(json!([name, versions]));
        }
    }
    anyhow::ensure!(
        groups.len() == SERVED.len(),
        "a served group is missing in apis.json"
    );
    Ok(groups)
}

/// Every kind with a resource in a served group version, sorted by group, version and plural.
pub(super) fn kinds(dir: &Path, definitions: &Definitions) -> Result<Vec<Kind>> {
    let mut kinds = BTreeMap::new();
    for (group, versions) in SERVED {
        for version in versions {
            let name = match group {
                "" => format!("api__{version}.json"),
                group => format!("apis__{group}__{version}.json"),
            };
            let list: ResourceList = read(&dir.join(&name))?;
            for kind in group_version(group, version, list.resources, definitions)? {
                kinds.insert(
                    (
                        kind.group.clone(),
                        kind.version.clone(),
                        kind.plural.clone(),
                    ),
                    kind,
                );
            }
        }
    }
    let mut kinds: Vec<Kind> = kinds.into_values().collect();
    let known: Vec<_> = kinds.iter().map(Kind::key).collect();
    for kind in &mut kinds {
        kind.stored = stored(kind, &known);
        kind.storage_hash = kind.stored.as_ref().map(hash).unwrap_or_default();
    }
    Ok(kinds)
}

/// The definitions that must be kept: of kinds, their lists, their subresources, and metav1's own.
pub(super) fn roots(kinds: &[Kind]) -> Vec<String> {
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.";
    let mut roots: Vec<String> = ["DeleteOptions", "Patch", "Status", "WatchEvent"]
        .map(|name| format!("{meta}{name}"))
        .to_vec();
    for (group, version, kind) in [("policy", "v1", "Eviction"), ("autoscaling", "v1", "Scale")] {
        roots.push(format!("io.k8s.api.{group}.{version}.{kind}"));
    }
    roots.push("io.k8s.api.authentication.v1.TokenRequest".to_owned());
    for kind in kinds {
        roots.extend([kind.definition.clone(), kind.list_definition.clone()]);
    }
    roots
}

fn group_version(
    group: &str,
    version: &str,
    resources: Vec<Resource>,
    definitions: &Definitions,
) -> Result<Vec<Kind>> {
    let mut kinds: Vec<Kind> = Vec::new();
    for resource in resources {
        if let Some((parent, name)) = resource.name.split_once('/') {
            let parent = kinds.iter_mut().find(|kind| kind.plural == parent);
            let parent = parent.with_context(|| format!("{} has no parent", resource.name))?;
            parent.subresources.push(Subresource {
                name: name.to_owned(),
                group: resource.group.unwrap_or_else(|| group.to_owned()),
                version: resource.version.unwrap_or_else(|| version.to_owned()),
                kind: resource.kind,
                verbs: resource.verbs,
            });
        } else if !LEFT_OUT.contains(&resource.name.as_str()) {
            kinds.push(kind(group, version, resource, definitions)?);
        }
    }
    Ok(kinds)
}

fn kind(group: &str, version: &str, resource: Resource, definitions: &Definitions) -> Result<Kind> {
    let definition = openapi::find(definitions, group, version, &resource.kind)
        .with_context(|| format!("no definition for {}", resource.kind))?;
    let list = openapi::find(
        definitions,
        group,
        version,
        &format!("{}List", resource.kind),
    );
    Ok(Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        definition: definition.to_owned(),
        list_definition: list.unwrap_or_default().to_owned(),
        kind: resource.kind,
        plural: resource.name,
        singular: resource.singular_name,
        short_names: resource.short_names,
        categories: resource.categories,
        namespaced: resource.namespaced,
        verbs: resource.verbs,
        storage_hash: resource.storage_version_hash,
        ..Kind::default()
    })
}

/// Which of the known kinds the storage hash belongs to: other versions and the other group of
/// events share a store. A kind that the real server stores in a version that is not in the pack
/// is stored as itself here.
fn stored(kind: &Kind, known: &[(String, String, String)]) -> Option<(String, String, String)> {
    if kind.storage_hash.is_empty() {
        return None;
    }
    let of_same_name = known.iter().filter(|other| other.2 == kind.kind);
    Some(
        of_same_name
            .into_iter()
            .find(|key| hash(key) == kind.storage_hash)
            .cloned()
            .unwrap_or_else(|| kind.key()),
    )
}

/// Discovery's `storageVersionHash` of a kind.
fn hash((group, version, kind): &(String, String, String)) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(format!("{group}/{version}/{kind}"));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("parsing {}", path.display()))
}

// === impl Kind ===

impl Kind {
    /// Group, version and kind.
    pub(super) fn key(&self) -> (String, String, String) {
        (self.group.clone(), self.version.clone(), self.kind.clone())
    }
}
