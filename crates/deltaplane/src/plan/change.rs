//! What would be written: each object as it is, and as it would be stored.

use deltaplane_client::discovery::{Served, discover};
use deltaplane_client::request::{self, Patch, WarnedWrite};
use deltaplane_client::{Catalog, ObjectKey, RequestError, Resource};
use deltaplane_fleet::kinds::GROUP;
use deltaplane_sync::Origin;
use kube::Client;
use serde_json::{Map, Value, json};

use super::PlanError;
use super::cascade::{self, CascadedObjects};

/// An object that would be written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Changed {
    /// As it is, if it is there.
    pub(super) live: Option<Value>,
    /// As it would be.
    pub(super) stored: Value,
    /// What could not be known.
    pub(super) note: Option<String>,
    /// The warnings of the hub.
    pub(super) warnings: Vec<String>,
}

/// An object that would be deleted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Deleted {
    pub(super) live: Value,
    /// The objects that go with it; none do with most kinds.
    pub(super) cascade: Option<CascadedObjects>,
    /// The warnings of the hub.
    pub(super) warnings: Vec<String>,
}

/// As kubectl calls itself when it applies.
const MANAGER: &str = "kubectl";
/// What kubectl applied last, where it does not let the server remember.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

// === impl Changed ===

impl Changed {
    pub(super) fn name(&self) -> &str {
        self.stored["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(super) fn is_policy(&self) -> bool {
        group(&self.stored) == GROUP && self.stored["kind"] == "PropagationPolicy"
    }
}

// === impl Deleted ===

impl Deleted {
    pub(super) fn json(&self) -> Value {
        identity(&self.live)
    }

    /// The objects of the hub that would be deleted: itself, and those that go along.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Value> {
        let cascade = self.cascade.iter().flat_map(|cascade| &cascade.objects);
        let own = cascade.filter(|object| !is_from_zone(object));
        std::iter::once(&self.live).chain(own)
    }
}

/// Returns true for the copy of an object that a zone authored.
pub(super) fn is_from_zone(object: &Value) -> bool {
    matches!(Origin::of(object), Some(Origin::Zone(_)))
}

/// The group of an object.
pub(super) fn group(object: &Value) -> &str {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    version.split_once('/').map_or("", |(group, _)| group)
}

/// Which object it is.
pub(super) fn identity(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({
        "group": group(object), "kind": object["kind"],
        "namespace": metadata["namespace"].as_str().unwrap_or_default(), "name": metadata["name"],
    })
}

/// Asks the hub what documents would become.
pub(super) async fn read(
    client: &Client,
    documents: Vec<Value>,
    namespace: &str,
) -> Result<Vec<Changed>, PlanError> {
    check_documents(&documents)?;
    let catalog = ask_catalog(client).await?;
    let mut changes = Vec::new();
    for mut document in documents {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&document["apiVersion"]), text(&document["kind"]));
        let Some(served) = catalog.kind(&version, &kind) else {
            changes.push(unserved(document));
            continue;
        };
        let resource = Resource {
            version: version
                .split_once('/')
                .map_or(version.as_str(), |(_, one)| one)
                .to_owned(),
            ..served.resource.clone()
        };
        let metadata = &mut document["metadata"];
        if resource.namespaced && metadata["namespace"].is_null() {
            metadata["namespace"] = namespace.into();
        }
        changes.push(dry_run(client, &resource, document).await?);
    }
    Ok(changes)
}

/// Refuses documents that are no objects: without apiVersion, kind or name, or whose metadata is
/// something else than fields.
fn check_documents(documents: &[Value]) -> Result<(), PlanError> {
    let lines: Vec<String> = documents.iter().filter_map(document_fault).collect();
    match lines.is_empty() {
        true => Ok(()),
        false => Err(PlanError::Documents {
            wrong: lines.join("\n"),
        }),
    }
}

fn document_fault(document: &Value) -> Option<String> {
    let is_given = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let metadata = &document["metadata"];
    let kind = document["kind"].as_str().unwrap_or("a document");
    if !metadata.is_object() && !metadata.is_null() {
        return Some(format!(
            "{kind}: metadata is {metadata}, and not fields such as name"
        ));
    }
    let is_named = is_given(&metadata["name"]) || is_given(&metadata["generateName"]);
    let fields = [
        ("apiVersion", is_given(&document["apiVersion"])),
        ("kind", is_given(&document["kind"])),
        ("metadata.name", is_named),
    ];
    let missing = fields.iter().filter(|(_, is_given)| !is_given);
    let missing: Vec<&str> = missing.map(|(field, _)| *field).collect();
    let kind = match metadata["name"].as_str() {
        Some(name) if is_named => format!("{kind} {name}"),
        Some(_) | None => kind.to_owned(),
    };
    (!missing.is_empty()).then(|| format!("{kind}: missing {}", missing.join(", ")))
}

pub(super) async fn ask_catalog(client: &Client) -> Result<Catalog, PlanError> {
    let catalog = discover(client).await;
    catalog.map_err(|source| PlanError::Ask(Box::new(source)))
}

/// What is of a kind that may come with the same change.
fn unserved(document: Value) -> Changed {
    Changed {
        live: None,
        stored: document,
        note: Some("its kind is not served yet; it is taken as it is written".to_owned()),
        warnings: Vec::new(),
    }
}

async fn dry_run(
    client: &Client,
    resource: &Resource,
    document: Value,
) -> Result<Changed, PlanError> {
    let key = crate::rollout::key(&document);
    let path = resource.object_path(&key);
    let live: Option<Value> = match request::get(client, &path).await {
        Err(error) if error.is_not_found() => None,
        found => Some(found.map_err(|source| PlanError::Ask(Box::new(source)))?),
    };
    let stored = write(client, &path, live.as_ref(), &document).await;
    match stored {
        Ok((stored, warnings)) => Ok(Changed {
            live,
            stored,
            note: None,
            warnings,
        }),
        // The namespace may come with the same change.
        Err(error) if lacks(&error, &key) => Ok(Changed {
            live,
            stored: document,
            note: Some("its namespace is not there yet; it is taken as it is written".to_owned()),
            warnings: Vec::new(),
        }),
        Err(source) => Err(PlanError::Refused {
            what: format!("{} {key}", resource.kind),
            source: Box::new(source),
        }),
    }
}

fn lacks(error: &RequestError, key: &ObjectKey) -> bool {
    let refusal = error.refusal();
    refusal.is_some_and(|refusal| refusal.lacks_namespace(&key.namespace))
}

/// Writes without writing, as kubectl would.
async fn write(
    client: &Client,
    path: &str,
    live: Option<&Value>,
    document: &Value,
) -> Result<(Value, Vec<String>), RequestError> {
    let applied = live.and_then(|live| live["metadata"]["annotations"][APPLIED].as_str());
    let applied: Option<Value> = applied.and_then(|text| serde_json::from_str(text).ok());
    match applied {
        Some(applied) => {
            let path = format!("{path}?dryRun=All&fieldManager=kubectl-client-side-apply");
            let change = merged(Some(&applied), document);
            let write = WarnedWrite::Patch(Patch::Merge, &change);
            request::write_warned(client, &path, write).await
        }
        None => {
            let path = format!("{path}?dryRun=All&force=true&fieldManager={MANAGER}");
            request::write_warned(client, &path, WarnedWrite::Apply(document)).await
        }
    }
}

/// What makes an object say what is written, and no more what was written before and is not now.
fn merged(before: Option<&Value>, now: &Value) -> Value {
    let Value::Object(now) = now else {
        return now.clone();
    };
    let empty = Map::new();
    let before = before.and_then(Value::as_object).unwrap_or(&empty);
    let gone = before.keys().filter(|key| !now.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    let kept = now
        .iter()
        .map(|(key, value)| (key.clone(), merged(before.get(key), value)));
    Value::Object(gone.chain(kept).collect())
}

/// What would be deleted, as it is.
pub(super) async fn deletions(
    client: &Client,
    words: &[String],
    namespace: &str,
) -> Result<Vec<Deleted>, PlanError> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let catalog = ask_catalog(client).await?;
    let mut deletions = Vec::new();
    for word in words {
        let (kind, name) = word
            .split_once('/')
            .ok_or_else(|| PlanError::Word { word: word.clone() })?;
        let resource = named(catalog.kinds.values(), kind)?;
        let namespace = if resource.namespaced { namespace } else { "" };
        let path = resource.object_path(&ObjectKey::new(namespace, name));
        let live = request::get(client, &path)
            .await
            .map_err(|error| match error {
                error if error.is_not_found() => PlanError::NoObject {
                    kind: resource.kind.clone(),
                    name: name.to_owned(),
                },
                error => PlanError::Ask(Box::new(error)),
            })?;
        let warnings = delete_warnings(client, &path).await?;
        let cascade = cascade::read(client, &catalog, &live).await;
        deletions.push(Deleted {
            live,
            cascade,
            warnings,
        });
    }
    Ok(deletions)
}

/// Asks the hub what it would warn of if an object were deleted.
async fn delete_warnings(client: &Client, path: &str) -> Result<Vec<String>, PlanError> {
    let path = format!("{path}?dryRun=All");
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]});
    let write = WarnedWrite::Delete(&options);
    let answer: Result<(Value, Vec<String>), _> = request::write_warned(client, &path, write).await;
    let (_, warnings) = answer.map_err(|source| PlanError::Refused {
        what: "the deletion".to_owned(),
        source: Box::new(source),
    })?;
    Ok(warnings)
}

/// The kind that people call so: `cm`, `configmap`, `ConfigMaps`, `webapp.kro.run`.
pub(super) fn named<'r>(
    served: impl Iterator<Item = &'r Served>,
    word: &str,
) -> Result<&'r Resource, PlanError> {
    let lower = word.to_lowercase();
    let (kind, group) = match lower.split_once('.') {
        Some((kind, group)) => (kind, Some(group)),
        None => (lower.as_str(), None),
    };
    let fits = |one: &&Served| {
        let Served {
            resource,
            short_names,
            ..
        } = one;
        let called = resource.plural == kind
            || resource.kind.to_lowercase() == kind
            || short_names.contains(kind);
        called && group.is_none_or(|group| resource.group == group)
    };
    let found: Vec<&Resource> = served.filter(fits).map(|one| &one.resource).collect();
    let core = found.iter().find(|one| one.group.is_empty());
    match (found.as_slice(), core) {
        ([], _) => Err(PlanError::NoKind {
            word: word.to_owned(),
        }),
        ([one], _) | (_, Some(one)) => Ok(one),
        (several, None) => Err(PlanError::Several {
            word: word.to_owned(),
            known: several
                .iter()
                .map(|one| format!("{}.{}", one.plural, one.group))
                .collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_is_not_written_any_more_goes() {
        let before = json!({"data": {"a": "1", "b": "2"}, "metadata": {"labels": {"x": "y"}}});
        let now = json!({"data": {"a": "3"}, "metadata": {"name": "n"}});
        let expected = json!({
            "data": {"a": "3", "b": null}, "metadata": {"name": "n", "labels": null},
        });
        assert_eq!(merged(Some(&before), &now), expected);
    }

    #[tokio::test]
    async fn documents_that_name_no_object_are_refused() {
        let client = crate::fake::api(|what, _| panic!("nothing is asked: {what}"));
        for (document, said) in [
            (
                json!({"kind": "ConfigMap", "metadata": {"name": "web"}}),
                "ConfigMap web: missing apiVersion",
            ),
            (
                json!({"apiVersion": "v1", "kind": "ConfigMap"}),
                "ConfigMap: missing metadata.name",
            ),
            (
                json!({"metadata": {"name": ""}}),
                "a document: missing apiVersion, kind, metadata.name",
            ),
        ] {
            let error = read(&client, vec![document], "default").await;
            let error = error.expect_err("no object");
            assert_eq!(error.exit_code(), 2);
            let said = format!("there are documents that cannot be read:\n{said}");
            assert_eq!(error.to_string(), said);
        }
    }

    #[tokio::test]
    async fn metadata_that_is_no_object_is_refused() {
        let client = crate::fake::api(|what, _| panic!("nothing is asked: {what}"));
        for (metadata, shown) in [(json!("web"), "\"web\""), (json!([]), "[]")] {
            let document = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
            let error = read(&client, vec![document], "default").await;
            let error = error.expect_err("no metadata");
            assert_eq!(error.exit_code(), 2);
            let said = format!(
                "there are documents that cannot be read:\nConfigMap: metadata is {shown}, and not fields such as name"
            );
            assert_eq!(error.to_string(), said);
        }
    }

    #[test]
    fn kinds_as_people_call_them() {
        let served = |group: &str, plural: &str, kind: &str, short: &str| Served {
            resource: Resource::namespaced(group, "v1", plural, kind),
            verbs: BTreeSet::new(),
            short_names: BTreeSet::from([short.to_owned()]),
        };
        let all = [
            served("", "configmaps", "ConfigMap", "cm"),
            served("kro.run", "apps", "App", "a"),
            served("other.io", "apps", "App", "o"),
        ];
        let check = |word: &str, expected: Result<&str, &str>| {
            let found = named(all.iter(), word).map(Resource::api_version);
            let found = found.map_err(|error| format!("{error}; {}", error.hint()));
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{word}");
        };
        check("cm", Ok("v1"));
        check("configmap", Ok("v1"));
        check("ConfigMaps", Ok("v1"));
        check("app.kro.run", Ok("kro.run/v1"));
        check(
            "app",
            Err("there are several kinds app; say which: apps.kro.run, apps.other.io"),
        );
        check(
            "thing",
            Err("there is no kind thing; kubectl api-resources lists them"),
        );
    }
}
