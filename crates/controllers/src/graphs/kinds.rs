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
        let Some(address) = self.index().await?.get(&name).cloned() else {
            return Ok(Lookup::Absent);
        };
        let fresh = self.read.lock().documents.get(&name).cloned();
        let document = match fresh.filter(|document| document.address == address) {
            Some(fresh) => fresh,
            None => {
                let document = Arc::new(self.read(address, gvk, catalog).await?);
                let mut read = self.read.lock();
                read.documents.insert(name, document.clone());
                document
            }
        };
        let known = document.kinds.get(&gvk.kind);
        let lookup = known.map_or(Lookup::Absent, |known| Lookup::Known(known.clone()));
        tracing::trace!(%gvk, resource = %served.resource, "looked up");
        Ok(lookup)
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
        address: String,
        gvk: &Gvk,
        catalog: &Catalog,
    ) -> Result<Document, RequestError> {
        let document: OpenApi = request::get(&self.client, &address).await?;
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
        Ok(Document { address, kinds })
    }
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
