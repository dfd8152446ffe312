//! The hub's API as sync meets it: the hub's own admission control judges every write, and what it
//! lets pass is stored.
//!
//! Not here: schemas, managed fields and finalizers. What is applied takes the place of what was
//! there.

use std::convert::Infallible;
use std::sync::Arc;

use deltaplane_api::identity::Identity;
use deltaplane_apiserver::seams::{Admission, Operation, Resource, Review};
use deltaplane_client::in_process;
use deltaplane_fleet::{Ownership, SYNC_USER, UploadQuota};
use deltaplane_store::{Collection, Draft, Key, Store, Txn};
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::PLURALS;
use crate::world::World;

/// An API on the store of a hub.
pub(super) struct Api {
    store: Store,
    admission: Vec<Box<dyn Admission>>,
}

/// What a request is about.
struct Target<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    plural: &'a str,
    namespace: &'a str,
    name: &'a str,
}

/// How an object is to become another.
pub(super) enum Change {
    Apply(Value),
    Create(Value),
    Merge(Value),
    Delete,
}

/// A refusal, as the API says it.
#[derive(Debug)]
pub(super) struct Refused {
    code: u16,
    message: String,
    /// The plural and the name of what is missing.
    missing: (String, String),
}

type Answer = Result<Value, Refused>;

fn refused(code: u16, message: String) -> Refused {
    let missing = Default::default();
    Refused {
        code,
        message,
        missing,
    }
}

fn not_found(plural: &str, name: &str) -> Refused {
    Refused {
        missing: (plural.to_owned(), name.to_owned()),
        ..refused(404, format!("{plural} {name:?} not found"))
    }
}

// === impl Target ===

impl<'a> Target<'a> {
    /// Reads a path; nothing if it is of no object of ours.
    fn of(path: &'a str, body: &'a Value) -> Option<Self> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let created = || body["metadata"]["name"].as_str();
        let (namespace, plural, name) = match rest {
            ["namespaces", namespace, plural, name] => (*namespace, *plural, *name),
            ["namespaces", namespace, plural] => (*namespace, *plural, created()?),
            [plural, name] => ("", *plural, *name),
            [plural] => ("", *plural, created()?),
            _ => return None,
        };
        let (kind, _) = PLURALS.iter().find(|(_, of)| *of == plural)?;
        Some(Self {
            group,
            version,
            kind,
            plural,
            namespace,
            name,
        })
    }

    fn key(&self) -> Key {
        let collection = match self.group {
            "" => self.plural.to_owned(),
            group => format!("{group}/{}", self.plural),
        };
        let collection = Collection::new("default", &collection).expect("legal");
        collection.key(self.namespace, self.name).expect("legal")
    }

    fn resource(&self) -> Resource<'_> {
        Resource {
            group: self.group,
            version: self.version,
            kind: self.kind,
            plural: self.plural,
            subresource: "",
            namespace: self.namespace,
            name: self.name,
        }
    }
}

// === impl Api ===

impl Api {
    /// The API of a hub, by which its sync writes from now on.
    pub(super) fn attach(world: &World) -> Arc<Self> {
        let fleet = &world.fleet;
        let ownership = Ownership::at_hub(fleet.known(), fleet.catalog().clone());
        let api = Arc::new(Self {
            store: world.store.clone(),
            admission: vec![Box::new(ownership), Box::new(UploadQuota(fleet.clone()))],
        });
        let served = api.clone();
        let server = tower::service_fn(move |request: Request<Body>| {
            let api = served.clone();
            async move { Ok::<_, Infallible>(api.serve(request).await) }
        });
        let sync = Identity::authenticated(SYNC_USER, &[]);
        world.attach(in_process(server, sync));
        api
    }

    async fn serve(&self, request: Request<Body>) -> Response<String> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let format = parts.headers.get("content-type");
        let applies = format.is_some_and(|format| format == "application/apply-patch+yaml");
        let change = match parts.method {
            Method::GET => None,
            Method::POST => Some(Change::Create(body)),
            Method::DELETE => Some(Change::Delete),
            _ if applies => Some(Change::Apply(body)),
            _ => Some(Change::Merge(body)),
        };
        let sync = Identity::authenticated(SYNC_USER, &[]);
        let answer = match change {
            Some(change) => self.write(&sync, parts.uri.path(), change).await,
            None => self.read(parts.uri.path()),
        };
        let (code, body) = match answer {
            Ok(object) => (200, object),
            Err(refused) => {
                let (kind, name) = refused.missing;
                let details = json!({"kind": kind, "name": name});
                let status = json!({"kind": "Status", "message": refused.message,
                    "reason": "Refused", "code": refused.code, "details": details});
                (refused.code, status)
            }
        };
        let response = Response::builder().status(code).body(body.to_string());
        response.expect("a response")
    }

    /// An object, or what is served where.
    fn read(&self, path: &str) -> Answer {
        if let Some(target) = Target::of(path, &Value::Null) {
            let found = self.get(&target);
            return found.ok_or_else(|| not_found(target.plural, target.name));
        }
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let kinds = PLURALS.map(|(kind, plural)| json!({"kind": kind, "name": plural}));
        match segments.as_slice() {
            ["api", "v1"] | ["apis", _, "v1"] => Ok(json!({ "resources": kinds })),
            ["apis", _] => Ok(json!({"versions": [{"version": "v1"}]})),
            _ => Err(not_found("paths", path)),
        }
    }

    fn get(&self, target: &Target<'_>) -> Option<Value> {
        let stored = self.store.get(&target.key())?;
        Some(serde_json::from_slice(stored.bytes()).expect("JSON"))
    }

    /// Writes an object as a user does.
    pub(super) async fn write(&self, user: &Identity, path: &str, change: Change) -> Answer {
        let body = match &change {
            Change::Create(body) => body.clone(),
            Change::Apply(_) | Change::Merge(_) | Change::Delete => Value::Null,
        };
        let Some(target) = Target::of(path, &body) else {
            return Err(not_found("paths", path));
        };
        let old = self.get(&target);
        let new = match (change, &old) {
            (Change::Create(_), Some(_)) => return Err(refused(409, "it exists".to_owned())),
            (Change::Create(new) | Change::Apply(new), _) => Some(new),
            (Change::Merge(_) | Change::Delete, None) => {
                return Err(not_found(target.plural, target.name));
            }
            (Change::Merge(change), Some(old)) => {
                let mut new = old.clone();
                json_patch::merge(&mut new, &change);
                Some(new)
            }
            (Change::Delete, Some(_)) => None,
        };
        let namespace = Target {
            group: "",
            version: "v1",
            kind: "Namespace",
            plural: "namespaces",
            namespace: "",
            name: target.namespace,
        };
        if new.is_some() && !target.namespace.is_empty() && self.get(&namespace).is_none() {
            return Err(not_found("namespaces", target.namespace));
        }
        self.commit(user, &target, (old, new)).await
    }

    /// Asks admission control, and stores what it lets pass.
    async fn commit(
        &self,
        user: &Identity,
        target: &Target<'_>,
        (old, new): (Option<Value>, Option<Value>),
    ) -> Answer {
        let operation = match (&old, &new) {
            (_, None) => Operation::Delete,
            (None, Some(_)) => Operation::Create,
            (Some(_), Some(_)) => Operation::Update,
        };
        let mut object = new.or_else(|| old.clone()).unwrap_or_default();
        object["metadata"]["uid"] = "u".into();
        object["metadata"]["resourceVersion"] = "1".into();
        let mut warnings = Vec::new();
        for admission in &self.admission {
            let review = Review {
                user,
                operation,
                resource: target.resource(),
                object: &mut object,
                old: old.as_ref(),
                dry_run: false,
                warnings: &mut warnings,
                may: &|_| true,
            };
            let admitted = admission.admit(review).await;
            admitted.map_err(|error| refused(403, error.to_string()))?;
        }
        let key = target.key();
        if operation == Operation::Delete {
            if let Some(stored) = self.store.get(&key) {
                let delete = Txn::delete(key, stored.revision(), None);
                self.store.commit(delete).await.expect("deleted");
            }
            return Ok(object);
        }
        for admission in &self.admission {
            let review = Review {
                user,
                operation,
                resource: target.resource(),
                object: &mut object,
                old: old.as_ref(),
                dry_run: false,
                warnings: &mut warnings,
                may: &|_| true,
            };
            let concluded = admission.conclude(&review);
            concluded.map_err(|error| refused(403, error.to_string()))?;
        }
        let draft = Draft::opaque(object.to_string());
        let stored = self.store.commit(Txn::put(key, draft)).await;
        stored.expect("stored");
        Ok(object)
    }
}
