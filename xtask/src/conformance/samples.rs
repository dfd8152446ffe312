//! Objects of every kind, most of them minimal, given to a real server.

use anyhow::{Context, Result};
use deltaplane_api::kind::ApiVersion;
use deltaplane_apiserver::typepack::{self, Kind};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::proxy::Reply;

/// An object as we send it.
pub(super) struct Sample {
    /// `Kind/name`.
    pub(super) name: String,
    pub(super) kind: &'static Kind,
    pub(super) object: Value,
}

/// The samples, in an order in which they can be created.
pub(super) fn all() -> Result<Vec<Sample>> {
    let objects: Vec<Value> =
        serde_json::from_str(include_str!("samples.json")).context("parsing samples.json")?;
    objects.into_iter().map(Sample::new).collect()
}

/// A real server with the namespace that the samples live in.
pub(super) fn server() -> Result<Cluster> {
    let cluster = Cluster::start()?;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "samples"}});
    cluster.post("/api/v1/namespaces", &namespace)?.ok()?;
    Ok(cluster)
}

// === impl Sample ===

impl Sample {
    fn new(object: Value) -> Result<Self> {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let version: ApiVersion = text("/apiVersion").parse()?;
        let kind = typepack::load()
            .kind(&version.group, &version.version, text("/kind"))
            .with_context(|| format!("{} is not in the pack", text("/kind")))?;
        Ok(Self {
            name: format!(
                "{} {}/{}",
                text("/apiVersion"),
                kind.kind,
                text("/metadata/name")
            ),
            kind,
            object,
        })
    }

    /// The path of its collection.
    pub(super) fn path(&self) -> String {
        let root = match self.kind.group {
            "" => format!("/api/{}", self.kind.version),
            group => format!("/apis/{group}/{}", self.kind.version),
        };
        match self.kind.namespaced {
            true => format!("{root}/namespaces/samples/{}", self.kind.plural),
            false => format!("{root}/{}", self.kind.plural),
        }
    }

    /// Creates it; what the real server ignores on creation (the status) is left out by the server.
    pub(super) fn create(&self, cluster: &Cluster) -> Result<Reply> {
        cluster.post(&self.path(), &self.object)
    }

    /// Writes its status, when it has one, onto the object that was created.
    pub(super) fn write_status(&self, cluster: &Cluster, created: &Value) -> Result<()> {
        let Some(status) = self.object.get("status") else {
            return Ok(());
        };
        let mut object = created.clone();
        object["status"] = status.clone();
        let name = self
            .object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        cluster
            .put(&format!("{}/{name}/status", self.path()), &object)?
            .ok()?;
        Ok(())
    }
}
