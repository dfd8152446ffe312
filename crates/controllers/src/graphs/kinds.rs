//! Which kinds the API serves, and what their objects look like: from its discovery and OpenAPI
//! documents, read when a graph first asks, and again when they changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deltaplane_client::{Catalog, RequestError, request};
use deltaplane_graph::{Gvk, Known, Lookup};
use deltaplane_schema::Definitions;
use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

/// Kinds that were read, until the API serves others.
pub(super) struct Kinds {
    client: Client,
    /// Told when the API serves others.
    stale: Arc<AtomicBool>,
    read: Mutex<Read>,
}

/// Not held while something is asked for: one document that does not come keeps nobody waiting but
/// those who need it.
#[derive(Default)]
struct Read {
    /// Where the documents are; nothing if that has to be asked for.
    index: Option<Arc<BTreeMap<String, String>>>,
    /// How often the API served others.
    changes: usize,
    documents: BTreeMap<String, Arc<Document>>,
}

/// The kinds of a group and version.
struct Document {
    /// It changes with the document.
    address: String,
    kinds: BTreeMap<String, Arc<Known>>,
}

#[derive(Deserialize)]
struct Index {
    paths: BTreeMap<String, Place>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    #[serde(rename = "serverRelativeURL")]
    address: String,
}

#[derive(Deserialize)]
struct OpenApi {
    #[serde(default)]
    components: Components,
}

#[derive(Default, Deserialize)]
struct Components {
    #[serde(default)]
    schemas: BTreeMap<String, Value>,
}

const TYPES: &str = "x-kubernetes-group-version-kind";

// === impl Kinds ===

impl Kinds {
    /// `stale` is set when the API serves others.
    pub(super) fn new(client: Client, stale: Arc<AtomicBool>) -> Self {
        Self {
            client,
            stale,
            read: Mutex::default(),
        }
    }

    /// What is known of these kinds.
    pub(super) async fn look_up(
        &self,
        wanted: impl IntoIterator<Item = Gvk>,
        catalog: &Catalog,
    ) -> BTreeMap<Gvk, Lookup> {
        if self.stale.swap(false, Ordering::AcqRel) {
            let mut read = self.read.lock();
            read.index = None;
            read.changes += 1;
        }
        let mut found = BTreeMap::new();
        for gvk in wanted {
            let lookup = self.one(&gvk, catalog).await;
            let lookup = lookup.unwrap_or_else(|error| Lookup::Unavailable(error.to_string()));
            found.insert(gvk, lookup);
        }
        found
    }

    async fn one(&self, gvk: &Gvk, catalog: &Catalog) -> Result<Lookup, RequestError> {
        let Some(served) = catalog.kind(&gvk.api_version(), &gvk.kind) else {
            let group_version = gvk.api_version();
            return Ok(match catalog.failures.get(&group_version) {
                Some(why) => Lookup::Unavailable(why.clone()),
                None => Lookup::Absent,
            });
        };
        let name = match gvk.group.as_str() {
            "" => format!("api/{}", gvk.version),
            group => format!("apis/{group}/{}", gvk.version),
        };
        let Some(document) = self.document(&name, gvk, catalog).await? else {
            return Ok(self.later(&name));
        };
        let Some(known) = document.kinds.get(&gvk.kind) else {
            return Ok(self.later(&name));
        };
        tracing::trace!(%gvk, resource = %served.resource, "looked up");
        Ok(Lookup::Known(known.clone()))
    }

    /// The document of a group and version, if the API has one.
    async fn document(
        &self,
        name: &str,
        gvk: &Gvk,
        catalog: &Catalog,
    ) -> Result<Option<Arc<Document>>, RequestError> {
        let Some(address) = self.index().await?.get(name).cloned() else {
            return Ok(None);
        };
        let fresh = self.read.lock().documents.get(name).cloned();
        if let Some(fresh) = fresh.filter(|document| document.address == address) {
            return Ok(Some(fresh));
        }
        let mut document = self.read(&address, gvk, catalog).await;
        if document.as_ref().is_err_and(is_moved) {
            // kube-apiserver has a document only at the address of how it is now, and sends whoever
            // asks for another there. Without a version in the address it is the newest.
            let newest = address.split_once('?').map_or(&*address, |(path, _)| path);
            document = self.read(newest, gvk, catalog).await;
        }
        let document = document.inspect_err(|_| self.read.lock().index = None)?;
        let document = Arc::new(Document {
            address,
            ..document
        });
        let mut read = self.read.lock();
        read.documents.insert(name.to_owned(), document.clone());
        Ok(Some(document))
    }

    /// What the API serves and what its documents say change apart, and nobody tells when the
    /// documents follow: they are read again when somebody asks again.
    fn later(&self, name: &str) -> Lookup {
        let mut read = self.read.lock();
        read.index = None;
        read.documents.remove(name);
        Lookup::Unavailable("the API serves it, and does not say what it looks like".to_owned())
    }

    async fn index(&self) -> Result<Arc<BTreeMap<String, String>>, RequestError> {
        let changes = {
            let read = self.read.lock();
            if let Some(index) = &read.index {
                return Ok(index.clone());
            }
            read.changes
        };
        let index: Index = request::get(&self.client, "/openapi/v3").await?;
        let paths = index.paths.into_iter();
        let index: BTreeMap<_, _> = paths.map(|(path, place)| (path, place.address)).collect();
        let index = Arc::new(index);
        let mut read = self.read.lock();
        // What was asked for before the API served others is old.
        if read.changes == changes {
            read.index = Some(index.clone());
        }
        Ok(index)
    }

    async fn read(
        &self,
        address: &str,
        gvk: &Gvk,
        catalog: &Catalog,
    ) -> Result<Document, RequestError> {
        let document: OpenApi = request::get(&self.client, address).await?;
        let schemas = document.components.schemas;
        let mut kinds = BTreeMap::new();
        let references = schemas.iter().map(|(name, schema)| (name.as_str(), schema));
        match Definitions::from_openapi(references) {
            Ok(definitions) => {
                let named = schemas.iter().flat_map(|(name, schema)| {
                    kinds_of(schema, gvk).map(move |kind| (name.as_str(), kind))
                });
                for (name, kind) in named {
                    let one = Gvk::new(&gvk.group, &gvk.version, &kind);
                    let served = catalog.kind(&one.api_version(), &kind);
                    if let (Some(schema), Some(served)) = (definitions.get(name), served) {
                        let resource = &served.resource;
                        let known = Known::new(one, &resource.plural, resource.namespaced, schema);
                        kinds.insert(kind, Arc::new(known));
                    }
                }
            }
            Err(error) => tracing::warn!(%address, %error, "cannot read the kinds of a version"),
        }
        let address = address.to_owned();
        Ok(Document { address, kinds })
    }
}

/// Whether the API answers that a document is at another address now.
fn is_moved(error: &RequestError) -> bool {
    matches!(error.code(), Some(301 | 302 | 307 | 308))
}

/// The kinds of this group and version that a schema describes.
fn kinds_of<'s>(schema: &'s Value, gvk: &Gvk) -> impl Iterator<Item = String> + use<'s> {
    let (group, version) = (gvk.group.clone(), gvk.version.clone());
    let types = schema[TYPES].as_array().into_iter().flatten();
    types.filter_map(move |one| {
        let same =
            one["group"].as_str() == Some(&group) && one["version"].as_str() == Some(&version);
        same.then(|| one["kind"].as_str().map(str::to_owned))?
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use deltaplane_client::discovery::discover;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    type Documents = Arc<Mutex<BTreeMap<&'static str, Value>>>;

    fn server(documents: &Documents) -> Client {
        let documents = documents.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let documents = documents.lock();
            let uri = request.uri();
            let whole = uri.path_and_query().map(http::uri::PathAndQuery::as_str);
            let found = whole.and_then(|whole| documents.get(whole));
            let found = found.or_else(|| documents.get(uri.path())).cloned();
            drop(documents);
            let found = found.unwrap_or_else(|| json!({"resources": []}));
            let status = if found.is_null() { 301 } else { 200 };
            let response = Response::builder().status(status).body(found.to_string());
            async move { Ok::<_, Infallible>(response.expect("a response")) }
        });
        Client::new(service, "default")
    }

    /// The document of these kinds.
    fn document(kinds: &[&str]) -> Value {
        let schemas = kinds.iter().map(|kind| {
            let types = json!([{"group": "example.com", "version": "v1", "kind": kind}]);
            ((*kind).to_owned(), json!({"type": "object", TYPES: types}))
        });
        let schemas: serde_json::Map<String, Value> = schemas.collect();
        json!({"components": {"schemas": schemas}})
    }

    fn index(address: Option<&str>) -> Value {
        let place = address.map(|address| json!({"serverRelativeURL": address}));
        let paths = place.map_or_else(|| json!({}), |place| json!({"apis/example.com/v1": place}));
        json!({"paths": paths})
    }

    /// A server of two kinds, without documents yet.
    fn two_kinds() -> Documents {
        let version = json!({"groupVersion": "example.com/v1"});
        let groups = json!({"groups": [{"name": "example.com", "versions": [version]}]});
        Arc::new(Mutex::new(BTreeMap::from([
            ("/apis", groups),
            ("/apis/example.com/v1", served(&["Gadget", "Other"])),
            ("/openapi/v3", index(None)),
            ("/one", document(&["Other"])),
            ("/old", Value::Null),
            ("/two", document(&["Gadget", "Other"])),
        ])))
    }

    fn served(kinds: &[&str]) -> Value {
        let one = |kind: &&str| json!({"name": format!("{kind}s"), "kind": kind, "namespaced": true, "verbs": ["list"]});
        let all: Vec<Value> = kinds.iter().map(one).collect();
        json!({"resources": all})
    }

    async fn is_known(kinds: &Kinds, kind: &str, catalog: &Catalog) -> bool {
        let gvk = Gvk::new("example.com", "v1", kind);
        let found = kinds.look_up([gvk.clone()], catalog).await;
        match &found[&gvk] {
            Lookup::Known(_) => true,
            Lookup::Unavailable(_) => false,
            Lookup::Absent => panic!("{kind} is served"),
        }
    }

    /// kube-apiserver says that it serves a kind before its documents do, and moves them when they
    /// change.
    #[tokio::test]
    async fn documents_that_come_later_are_read_when_they_come() {
        let documents = two_kinds();
        let client = server(&documents);
        let catalog = discover(&client).await.expect("answered");
        let kinds = Kinds::new(client, Arc::default());
        for (address, expected) in [
            (None, false),
            (Some("/one"), false),
            (Some("/old"), false),
            (Some("/two"), true),
        ] {
            documents.lock().insert("/openapi/v3", index(address));
            let known = is_known(&kinds, "Gadget", &catalog).await;
            assert_eq!(known, expected, "{address:?}");
        }
    }

    /// The index tells of a document as it was a moment ago, and the API does not have that any more.
    #[tokio::test]
    async fn a_document_that_moved_is_followed() {
        let documents = two_kinds();
        let address = "/two?hash=old";
        documents.lock().insert(address, Value::Null);
        documents.lock().insert("/openapi/v3", index(Some(address)));
        let client = server(&documents);
        let catalog = discover(&client).await.expect("answered");
        let kinds = Kinds::new(client, Arc::default());
        assert!(is_known(&kinds, "Gadget", &catalog).await);
        // As long as the index says the same, it is not asked for again.
        documents.lock().insert("/two", Value::Null);
        assert!(is_known(&kinds, "Gadget", &catalog).await);
        // It is when that changes.
        documents.lock().insert("/openapi/v3", index(Some("/one")));
        kinds.stale.store(true, Ordering::Release);
        assert!(!is_known(&kinds, "Gadget", &catalog).await);
    }

    /// Or the other way round.
    #[tokio::test]
    async fn a_document_that_was_read_too_soon_is_read_again() {
        let documents = two_kinds();
        documents.lock().insert("/openapi/v3", index(Some("/two")));
        let client = server(&documents);
        let all = discover(&client).await.expect("answered");
        let fewer = served(&["Other"]);
        documents.lock().insert("/apis/example.com/v1", fewer);
        let fewer = discover(&client).await.expect("answered");
        let kinds = Kinds::new(client, Arc::default());
        assert!(is_known(&kinds, "Other", &fewer).await);
        assert!(!is_known(&kinds, "Gadget", &all).await);
        assert!(is_known(&kinds, "Gadget", &all).await);
    }
}
