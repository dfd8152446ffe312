//! Whether what definitions were can be run, told in the status of their revisions.

use deltaplane_api::time::Time;
use deltaplane_client::{ObjectKey, request};
use deltaplane_graph::{Graph, Problems};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::api;
use super::conditions::{Condition, written};
use super::definition::{MANAGER, dependencies};
use super::revision::Revision;
use crate::Context;

/// Writes the status of a revision, if it is another. That it cannot be written stops nothing.
pub(super) async fn tell(context: &Context, revision: &Revision, graph: Result<&Graph, &Problems>) {
    let now = Time::from_system(context.pace.clock.now());
    let status = status(revision, graph, now);
    if status == revision.status {
        return;
    }
    let name = &revision.name;
    let body = json!({
        "apiVersion": api::revisions().api_version(),
        "kind": api::revisions().kind,
        "metadata": {"name": name},
        "status": status,
    });
    let path = api::revisions().object_path(&ObjectKey::cluster(name));
    let path = format!("{path}/status?fieldManager={MANAGER}&force=true");
    let told = request::apply::<IgnoredAny>(&context.client, &path, &body).await;
    if let Err(error) = told.map(drop) {
        let error = &error as &dyn std::error::Error;
        tracing::debug!(revision = name, error, "cannot say whether it can be run");
    }
}

fn status(revision: &Revision, graph: Result<&Graph, &Problems>, now: Time) -> Value {
    let verified = match graph {
        Ok(_) => Condition::holds("GraphVerified", "Verified", "the graph can be run"),
        Err(problems) => Condition::fails("GraphVerified", "InvalidGraph", &problems.to_string()),
    };
    let before = &revision.status["conditions"];
    // What a revision says never changes.
    let conditions = written(&[verified], &[], before, 1, now);
    let mut status = json!({"conditions": conditions});
    if let Ok(graph) = graph {
        status["topologicalOrder"] = graph.order().collect();
        status["resources"] = dependencies(graph);
    }
    status
}
