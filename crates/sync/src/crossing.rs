//! What of an object crosses the border.

use deltaplane_api::{jobs, keys, names};
use serde_json::{Map, Value, json};

use crate::names::{ObjectName, ZoneName};
use crate::secrets::SALT;
use crate::version::Version;
use crate::wire::Position;

/// An object as it crosses: what users and the origin's controllers wrote. Invariant: no status,
/// nothing that a server writes, and none of our own keys; its version is the hash of the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossing {
    object: Map<String, Value>,
    name: ObjectName,
    version: Version,
}

/// Where an object was authored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Hub,
    Zone(ZoneName),
}

/// How an object is called and marked where it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    pub name: &'a str,
    pub origin: &'a Origin,
    /// What it is called at its origin.
    pub authored_as: &'a str,
    /// Where the sender's store was.
    pub source: &'a Position,
}

/// What the marks of an object that arrived say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    pub origin: Origin,
    pub version: Version,
    /// Nothing if it was marked by somebody who did not say.
    pub source: Option<Position>,
}

/// What came that may not cross.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Smuggled {
    #[error("it is no object")]
    NoObject,
    #[error("it has no {0}")]
    Missing(&'static str),
    #[error("{0} does not cross the border")]
    Field(String),
    #[error("its content has version {found}, and not {claimed}, which it is said to have")]
    Version { claimed: Version, found: Version },
    #[error("it is called {found}, and not {claimed}")]
    Name {
        claimed: ObjectName,
        found: ObjectName,
    },
}

/// Our own labels and annotations begin with this.
const OURS: &str = "deltaplane.io/";
pub use deltaplane_api::keys::ORIGIN;
/// The label with the name of the zone that it is from.
pub const ZONE: &str = "deltaplane.io/zone";
/// The annotation with the name that it was given at its origin.
pub const DISPLAY_NAME: &str = "deltaplane.io/display-name";
/// The annotation with the version that was applied.
pub const VERSION: &str = "deltaplane.io/version";
/// The annotation with the position of the sender's store when it was sent.
pub const SOURCE: &str = "deltaplane.io/source";
/// The annotation of an object that was left to whoever is here: whose it was. It may be taken
/// back.
pub const ORPHANED: &str = "deltaplane.io/orphaned-from";
/// The label of a namespace that sync made at the hub, because a zone's object needed it: for which
/// zone. The namespace is the hub's own otherwise.
pub const MADE_FOR: &str = "deltaplane.io/made-for";
/// The annotation of a definition with the fields that controllers compute. Users write it, and it
/// must be known wherever objects of that kind are: it crosses.
pub const COMPUTED_FIELDS: &str = "deltaplane.io/computed-fields";
/// Those of our own annotations that users write cross, and the salt of Secrets.
const CONTENT: [&str; 6] = [
    COMPUTED_FIELDS,
    keys::APPROVED_DELETIONS,
    keys::HOLD,
    keys::PAUSED,
    keys::SIMULATE,
    SALT,
];
/// What kubectl keeps for itself is about the object at its origin.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The controller of a Deployment counts its ReplicaSets, which do not cross: each control plane has
/// a number of its own, and would overwrite another's for ever.
const REVISION: &str = "deployment.kubernetes.io/revision";

// === impl Crossing ===

impl Crossing {
    /// What of a stored object crosses.
    pub fn of(object: &Value) -> Result<Self, Smuggled> {
        let object = object.as_object().ok_or(Smuggled::NoObject)?;
        let metadata = object.get("metadata").and_then(Value::as_object);
        let metadata = metadata.ok_or(Smuggled::Missing("metadata"))?;
        let text = |key: &str| metadata.get(key).and_then(Value::as_str);
        let name = text("name").ok_or(Smuggled::Missing("name"))?;
        let mut kept = Map::new();
        kept.insert("name".to_owned(), name.into());
        let namespace = text("namespace").unwrap_or_default();
        if !namespace.is_empty() {
            kept.insert("namespace".to_owned(), namespace.into());
        }
        for key in ["labels", "annotations"] {
            let users: Map<String, Value> = users_entries(metadata.get(key)).collect();
            if !users.is_empty() {
                kept.insert(key.to_owned(), users.into());
            }
        }
        let mut crossing: Map<String, Value> = object
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        crossing.insert("metadata".to_owned(), kept.into());
        if let Some(spec) = crossing.get_mut("spec").filter(|_| is_job(object)) {
            jobs::remove_generated(spec);
        }
        Self::new(crossing)
    }

    /// What a peer sent, if it is what may cross and nothing else.
    pub fn received(object: Value, name: &ObjectName, version: Version) -> Result<Self, Smuggled> {
        let clean = Self::of(&object)?;
        let Value::Object(object) = object else {
            return Err(Smuggled::NoObject);
        };
        if let Some(field) = surplus(&object, &clean.object) {
            return Err(Smuggled::Field(field));
        }
        if clean.version != version {
            return Err(Smuggled::Version {
                claimed: version,
                found: clean.version,
            });
        }
        if clean.name != *name {
            return Err(Smuggled::Name {
                claimed: name.clone(),
                found: clean.name,
            });
        }
        Ok(clean)
    }

    fn new(object: Map<String, Value>) -> Result<Self, Smuggled> {
        for key in ["apiVersion", "kind"] {
            if !object.get(key).is_some_and(Value::is_string) {
                return Err(Smuggled::Missing(match key {
                    "kind" => "kind",
                    _ => "apiVersion",
                }));
            }
        }
        let metadata = &object["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default();
        let name = ObjectName::new(text("namespace"), text("name"));
        let name = name.map_err(|_| Smuggled::Missing("legal name"))?;
        let canonical = serde_json::to_vec(&object).unwrap_or_default();
        Ok(Self {
            name,
            version: Version::of(&canonical),
            object,
        })
    }

    pub fn version(&self) -> Version {
        self.version
    }

    pub fn name(&self) -> &ObjectName {
        &self.name
    }

    /// The object, as it is on the wire.
    pub fn object(&self) -> &Map<String, Value> {
        &self.object
    }

    /// The object as it is applied where it arrives, with where it is from.
    pub fn arriving(&self, arrival: Arrival<'_>) -> Value {
        let Arrival {
            name,
            origin,
            authored_as,
            source,
        } = arrival;
        let mut object = self.object.clone();
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        metadata["name"] = name.into();
        let part = |key: &str| metadata[key].as_object().cloned().unwrap_or_default();
        let (mut labels, mut annotations) = (part("labels"), part("annotations"));
        labels.insert(ORIGIN.to_owned(), origin.word().into());
        if let Origin::Zone(zone) = origin {
            labels.insert(ZONE.to_owned(), zone.as_str().into());
        }
        annotations.insert(VERSION.to_owned(), self.version.to_string().into());
        annotations.insert(SOURCE.to_owned(), source.to_string().into());
        if name != authored_as {
            annotations.insert(DISPLAY_NAME.to_owned(), authored_as.into());
        }
        metadata["labels"] = labels.into();
        metadata["annotations"] = annotations.into();
        Value::Object(object)
    }
}

// === impl Origin ===

impl Origin {
    /// What the label says.
    fn word(&self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::Zone(_) => "zone",
        }
    }

    /// Where an object is from, if its labels say that it came from elsewhere.
    pub fn of(object: &Value) -> Option<Self> {
        let labels = &object["metadata"]["labels"];
        match labels[ORIGIN].as_str()? {
            "zone" => Some(Self::Zone(labels[ZONE].as_str()?.parse().ok()?)),
            _ => Some(Self::Hub),
        }
    }
}

// === impl Mirrored ===

impl Mirrored {
    /// What an object says of itself, if it came from elsewhere.
    pub fn of(object: &Value) -> Option<Self> {
        let annotation = |key: &str| object["metadata"]["annotations"][key].as_str();
        Some(Self {
            origin: Origin::of(object)?,
            version: annotation(VERSION)?.parse().ok()?,
            source: annotation(SOURCE).and_then(|text| text.parse().ok()),
        })
    }

    /// What an object is called at its origin.
    pub fn authored_as(object: &Value) -> &str {
        let metadata = &object["metadata"];
        let given = metadata["annotations"][DISPLAY_NAME].as_str();
        given.or(metadata["name"].as_str()).unwrap_or_default()
    }
}

/// Returns true if a label or annotation of this name crosses.
pub fn crosses(key: &str) -> bool {
    (!key.starts_with(OURS) || CONTENT.contains(&key)) && ![APPLIED, REVISION].contains(&key)
}

fn is_job(object: &Map<String, Value>) -> bool {
    let is = |field: &str, text: &str| object.get(field).is_some_and(|found| found == text);
    is("apiVersion", "batch/v1") && is("kind", "Job")
}

/// The labels or annotations that are the users' own.
fn users_entries(entries: Option<&Value>) -> impl Iterator<Item = (String, Value)> {
    let entries = entries.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter(|(key, value)| {
            crosses(key) && value.is_string() && names::qualified_name(key).is_empty()
        })
        .map(|(key, value)| (key.clone(), value.clone()))
}

/// The first field that is in `object` and may not be.
fn surplus(object: &Map<String, Value>, clean: &Map<String, Value>) -> Option<String> {
    if let Some(key) = object.keys().find(|key| !clean.contains_key(*key)) {
        return Some(key.clone());
    }
    let parts = |object: &Map<String, Value>| object["metadata"].as_object().cloned();
    let (metadata, kept) = (parts(object)?, parts(clean)?);
    for (key, value) in &metadata {
        if kept.get(key) == Some(value) {
            continue;
        }
        let inner = value.as_object().and_then(|entries| {
            let known = kept.get(key).and_then(Value::as_object);
            let unknown = |entry: &&String| known.is_none_or(|known| !known.contains_key(*entry));
            entries.keys().find(unknown)
        });
        return Some(match inner {
            Some(inner) => format!("metadata.{key}[{inner}]"),
            None => format!("metadata.{key}"),
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
            "metadata": {
                "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [], "finalizers": ["x/y"],
                "ownerReferences": [{"uid": "u"}],
                "labels": {"app": "web", "deltaplane.io/origin": "hub"},
                "annotations": {
                    "note": "x", "deltaplane.io/version": "1", APPLIED: "{}", REVISION: "3",
                    COMPUTED_FIELDS: "spec.state", keys::HOLD: "true", keys::SIMULATE: "fail",
                    keys::APPROVED_DELETIONS: "07f55fde99", "deltaplane.io/admission": "arrived/1",
                },
            },
            "status": {"ready": true},
        })
    }

    #[test]
    fn only_what_users_wrote_crosses() {
        let crossing = Crossing::of(&stored()).expect("an object");
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
            "metadata": {
                "name": "a", "namespace": "ns", "labels": {"app": "web"},
                "annotations": {
                    "note": "x", COMPUTED_FIELDS: "spec.state", keys::HOLD: "true",
                    keys::SIMULATE: "fail", keys::APPROVED_DELETIONS: "07f55fde99",
                },
            },
        });
        assert_eq!(Value::Object(crossing.object().clone()), expected);
        let mut other = stored();
        other["status"]["ready"] = false.into();
        other["metadata"]["resourceVersion"] = "8".into();
        assert_eq!(
            Crossing::of(&other).map(|other| other.version()),
            Ok(crossing.version())
        );
        other["data"]["a"] = "2".into();
        assert_ne!(
            Crossing::of(&other).map(|other| other.version()),
            Ok(crossing.version())
        );
    }

    #[test]
    fn generated_selectors_of_jobs_do_not_cross() {
        let uid = "batch.kubernetes.io/controller-uid";
        let mut job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "ns"},
            "spec": {
                "selector": {"matchLabels": {uid: "u"}},
                "template": {"metadata": {"labels": {"app": "a", uid: "u"}}},
            },
        });
        let crossing = Crossing::of(&job).expect("an object");
        let expected = json!({"template": {"metadata": {"labels": {"app": "a"}}}});
        assert_eq!(crossing.object()["spec"], expected);
        job["spec"]["manualSelector"] = json!(true);
        let crossing = Crossing::of(&job).expect("an object");
        assert_eq!(crossing.object()["spec"], job["spec"]);
    }

    #[test]
    fn what_arrives_says_where_it_is_from() {
        let crossing = Crossing::of(&stored()).expect("an object");
        let zone = Origin::Zone("eu-1".parse().expect("legal"));
        let source: Position = "e@7".parse().expect("legal");
        let arrived = crossing.arriving(Arrival {
            name: "eu-1.a",
            origin: &zone,
            authored_as: "a",
            source: &source,
        });
        assert_eq!(
            arrived["metadata"]["labels"],
            json!({"app": "web", ORIGIN: "zone", ZONE: "eu-1"})
        );
        assert_eq!(Mirrored::authored_as(&arrived), "a");
        let mirrored = Mirrored {
            origin: zone,
            version: crossing.version(),
            source: Some(source),
        };
        assert_eq!(Mirrored::of(&arrived), Some(mirrored));
        // What arrived is what was sent: it can be told by its content, too.
        let mut again = arrived.clone();
        again["metadata"]["name"] = "a".into();
        assert_eq!(Crossing::of(&again), Ok(crossing));
    }

    #[test]
    fn nothing_is_smuggled() {
        let clean = Crossing::of(&stored()).expect("an object");
        let sent = |change: &dyn Fn(&mut Value)| {
            let mut object = Value::Object(clean.object().clone());
            change(&mut object);
            Crossing::received(object, clean.name(), clean.version()).map_err(|why| why.to_string())
        };
        assert_eq!(sent(&|_| {}), Ok(clean.clone()));
        type Alter<'a> = &'a dyn Fn(&mut Value);
        let cases: [(Alter<'_>, &str); 7] = [
            (
                &|object| object["status"] = json!({}),
                "status does not cross the border",
            ),
            (
                &|object| object["metadata"]["uid"] = json!("u"),
                "metadata.uid does not cross the border",
            ),
            (
                &|object| object["metadata"]["labels"]["deltaplane.io/zone"] = json!("b"),
                "metadata.labels[deltaplane.io/zone] does not cross the border",
            ),
            (
                &|object| object["metadata"]["finalizers"] = json!(["a/b"]),
                "metadata.finalizers does not cross the border",
            ),
            (
                &|object| object["metadata"]["labels"] = json!("x"),
                "metadata.labels does not cross the border",
            ),
            (
                &|object| object["metadata"] = json!(null),
                "it has no metadata",
            ),
            (&|object| *object = json!([]), "it is no object"),
        ];
        for (change, expected) in cases {
            assert_eq!(sent(change), Err(expected.to_owned()));
        }
        let changed = sent(&|object| object["data"]["a"] = json!("2"));
        assert!(changed.is_err_and(|why| why.contains("which it is said to have")));
        let renamed = sent(&|object| object["metadata"]["name"] = json!("b"));
        assert!(renamed.is_err());
    }
}
