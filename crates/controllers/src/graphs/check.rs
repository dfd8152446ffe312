//! Judges definitions that are not stored, as the controller would.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use deltaplane_client::discovery::discover;
use deltaplane_client::{ObjectKey, request};
use deltaplane_graph::Graph;
use kube::Client;
use serde_json::Value;

use super::api;
use super::circles::Circles;
use super::compiled::{Compiled, Uncompiled};
use super::kinds::Kinds;
use super::served;

/// Compiles definitions against the kinds that an API serves, and looks where they lead beside the
/// definitions that a controller has admitted. Cheap to clone.
#[derive(Clone)]
pub struct DefinitionChecker {
    client: Client,
    compiled: Compiled,
    circles: Circles,
    stale: Arc<AtomicBool>,
}

/// Why a controller would refuse a definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// The fault that does not compile, and its place.
    #[error("{0}")]
    Uncompiled(String),
    /// The way in which the definition leads back to itself, over others or not.
    #[error("{0}")]
    Circle(String),
    /// The kind belongs to another definition, or to nobody; this says to which.
    #[error("{0}")]
    KindIsTaken(String),
}

// === impl DefinitionChecker ===

impl DefinitionChecker {
    /// `circles` are those of the controller.
    pub fn new(client: Client, circles: Circles) -> Self {
        let stale = Arc::new(AtomicBool::new(false));
        Self {
            compiled: Compiled::new(Kinds::new(client.clone(), stale.clone())),
            circles,
            client,
            stale,
        }
    }

    /// Compiles a definition, or says why the controller would refuse it; nothing if that cannot be
    /// known now.
    pub async fn compile(&self, definition: &Value) -> Option<Result<Arc<Graph>, DefinitionError>> {
        let catalog = discover(&self.client).await.ok()?;
        self.stale.store(true, std::sync::atomic::Ordering::Release);
        let found = self.compiled.graph(definition, &catalog).await;
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        self.compiled.sweep(name);
        match found {
            Ok(graph) => {
                if let Err(why) = self.circles.would_admit(name, &graph) {
                    return Some(Err(DefinitionError::Circle(why)));
                }
                let taken = self.kind_owner(definition, &graph).await;
                Some(match taken {
                    Some(why) => Err(DefinitionError::KindIsTaken(why)),
                    None => Ok(graph),
                })
            }
            Err(Uncompiled::Wrong(problems)) => {
                Some(Err(DefinitionError::Uncompiled(problems.to_string())))
            }
            Err(Uncompiled::Later(_)) => None,
        }
    }

    /// Returns why the kind of a graph is not the definition's, if it is not.
    async fn kind_owner(&self, definition: &Value, graph: &Graph) -> Option<String> {
        let name = graph.crd()["metadata"]["name"].as_str().unwrap_or_default();
        let path = api::custom_kinds().object_path(&ObjectKey::cluster(name));
        let there: Value = request::get(&self.client, &path).await.ok()?;
        served::foreign(definition, &there, name)
    }
}
