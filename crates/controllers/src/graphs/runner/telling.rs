//! How it stands with the instances of a graph, told in the status of its definition.

use futures::future::BoxFuture;
use serde_json::Value;

use super::super::definition;
use super::super::instance::Definition;
use crate::Context;

/// Tells the definition's status how it stands with its instances: one write at a time, the newest.
#[derive(Default)]
pub(super) struct Telling {
    last: Option<Value>,
    running: Option<BoxFuture<'static, ()>>,
}

impl Telling {
    pub(super) fn tell(&mut self, context: &Context, definition: &Definition, told: Value) {
        // What is newer is told when this is over.
        if self.running.is_some() || self.last.as_ref() == Some(&told) {
            return;
        }
        self.last = Some(told.clone());
        let (context, name, uid) = (
            context.clone(),
            definition.name.clone(),
            definition.uid.clone(),
        );
        self.running = Some(Box::pin(async move {
            definition::tell_propagation(&context, &name, &uid, Some(&told)).await;
        }));
    }

    /// There is nothing to tell: what was told is taken back where the definition is seen to.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// Runs what is told, for ever.
    pub(super) async fn next(&mut self) {
        match &mut self.running {
            Some(running) => running.await,
            None => std::future::pending().await,
        }
        self.running = None;
    }
}
