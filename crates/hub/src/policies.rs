//! What the fleet knows, for the controller that moves policies on.

use deltaplane_controllers::policies;
use deltaplane_fleet::Fleet;
use deltaplane_propagation::stages::{Inputs, PolicyFacts};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

pub(crate) struct Facts(pub(crate) Fleet);

impl policies::Fleet for Facts {
    fn stirred(&self) -> watch::Receiver<u64> {
        self.0.stirred()
    }

    fn at(&self) -> u64 {
        self.0.catalog().read().at()
    }

    fn told(&self, policy: &str, at: u64) {
        self.0.told(policy, at);
    }

    fn policies(&self) -> Vec<String> {
        self.0.policies()
    }

    fn stamp(&self, policy: &str) -> Option<u64> {
        self.0.stamp(policy)
    }

    fn look(&self, policy: &str) -> Option<PolicyFacts> {
        self.0.look(policy)
    }

    fn troubles(&self, policy: &str) -> Vec<String> {
        self.0.troubles(policy)
    }

    fn decided(&self, policy: &str, inputs: Inputs) {
        self.0.decided(policy, inputs);
    }

    fn draft<'a>(
        &'a self,
        policy: &'a str,
        restores: Option<u64>,
    ) -> BoxFuture<'a, Result<Value, String>> {
        let draft = self.0.draft(policy, restores);
        draft.map(|draft| draft.map_err(said)).boxed()
    }

    fn forsake(&self, policy: &str) {
        self.0.forsake(policy);
    }

    fn sweep(&self) -> BoxFuture<'_, Result<usize, String>> {
        self.0.sweep().map(|swept| swept.map_err(said)).boxed()
    }
}

/// With all that led to it.
fn said(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
