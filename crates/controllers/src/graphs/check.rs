//! Compiles definitions that are not stored, as the controller would.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use deltaplane_client::discovery::discover;
use deltaplane_graph::{Graph, Problems};
use kube::Client;
use serde_json::Value;

use super::compiled::{Compiled, Uncompiled};
use super::kinds::Kinds;

/// Compiles definitions against the kinds that an API serves. Cheap to clone.
#[derive(Clone)]
pub struct DefinitionChecker {
    client: Client,
    compiled: Compiled,
    stale: Arc<AtomicBool>,
}

// === impl DefinitionChecker ===

impl DefinitionChecker {
    pub fn new(client: Client) -> Self {
        let stale = Arc::new(AtomicBool::new(false));
        Self {
            compiled: Compiled::new(Kinds::new(client.clone(), stale.clone())),
            client,
            stale,
        }
    }

    /// Compiles a definition; nothing if that cannot be done now.
    pub async fn compile(&self, definition: &Value) -> Option<Result<Arc<Graph>, Problems>> {
        let catalog = discover(&self.client).await.ok()?;
        self.stale.store(true, std::sync::atomic::Ordering::Release);
        let found = self.compiled.graph(definition, &catalog).await;
        let name = definition["metadata"]["name"].as_str();
        name.into_iter().for_each(|name| self.compiled.sweep(name));
        match found {
            Ok(graph) => Some(Ok(graph)),
            Err(Uncompiled::Wrong(problems)) => Some(Err(problems)),
            Err(Uncompiled::Later(_)) => None,
        }
    }
}
