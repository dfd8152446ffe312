//! `…/propagationpolicies/<name>/_plan`: what a change would do, before anything is written.
//!
//! Posted, because it has a body; it needs the right to `create` `propagationpolicies/_plan`, and
//! writes nothing. It names and shows objects that the caller may `get`, but for the values of Secrets,
//! and counts the others.

use std::collections::BTreeMap;

use deltaplane_apiserver::error::About;
use deltaplane_apiserver::seams::{BoxFuture, SubresourceRequest, VirtualSubresource};
use deltaplane_apiserver::{Body, Error};
use deltaplane_propagation::stages::{Policy, PolicySpec};
use deltaplane_sync::{ObjectName, SyncKind};
use http::{Method, Response};
use serde::Deserialize;
use serde_json::Value;

use super::json;
use super::may_read;
use super::rollout::policy_of;
use crate::fleet::Fleet;
use crate::governing::{Change, PlanError};
use crate::policing::authorize;

/// Answers `_plan` of policies.
pub struct PolicyPlan(pub Fleet);

/// What is posted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Posted {
    /// As they would be stored.
    #[serde(default)]
    objects: Vec<Value>,
    #[serde(default)]
    deletions: Vec<Deletion>,
    /// The policy itself, as it would be stored.
    #[serde(default)]
    policy: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deletion {
    #[serde(default)]
    group: String,
    kind: String,
    #[serde(default)]
    namespace: String,
    name: String,
}

// === impl PolicyPlan ===

impl VirtualSubresource for PolicyPlan {
    fn name(&self) -> &str {
        "_plan"
    }

    /// A policy that is posted need not be there yet.
    fn needs_object(&self) -> bool {
        false
    }

    fn writes(&self) -> bool {
        false
    }

    fn handle<'a>(
        &'a self,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        Box::pin(async move {
            let policy = policy_of(&request)?;
            if *request.method != Method::POST {
                return Err(Error::bad_request("post what would change"));
            }
            let mut change = read(request.body)?;
            let refused = |error: PlanError| refuse(&request, policy, error);
            change.check().map_err(refused)?;
            if let Some(posted) = &change.policy {
                permit(&request, posted)?;
            }
            change.refused = self.0.refused_definitions(&change.objects).await;
            self.0.caught_up().await;
            self.0.gathered(policy).await;
            let planned = self.0.plan(policy, change, &may_read(&request)).await;
            let mut planned = planned.map_err(refused)?;
            planned["kind"] = "PolicyPlan".into();
            planned["apiVersion"] = "fleet.deltaplane.io/v1alpha1".into();
            json(&planned)
        })
    }
}

fn refuse(request: &SubresourceRequest<'_>, policy: &str, error: PlanError) -> Error {
    match error {
        PlanError::Unknown => Error::not_found(About {
            group: request.resource.group,
            resource: request.resource.plural,
            name: policy,
        }),
        PlanError::Object(why) | PlanError::Policy(why) => Error::bad_request(why),
        PlanError::TooLarge(why) => Error::too_large_object(why),
    }
}

/// Whoever may not write a policy is not told what it would do to what it reads and changes.
fn permit(request: &SubresourceRequest<'_>, posted: &Value) -> Result<(), Error> {
    let spec: Result<PolicySpec, _> = serde_json::from_value(posted["spec"].clone());
    // What else is wrong with it is told with the plan.
    let Some(policy) = spec.ok().and_then(|spec| Policy::compile(&spec).ok()) else {
        return Ok(());
    };
    let old = Some(request.object).filter(|object| !object.is_null());
    authorize(request.resource, (old, posted), &policy, request.may)
}

fn read(body: &[u8]) -> Result<Change, Error> {
    let posted: Posted = serde_json::from_slice(body)
        .map_err(|error| Error::bad_request(format!("the body cannot be read: {error}")))?;
    let deletions = posted.deletions.iter().map(|one| {
        let kind = SyncKind::new(&one.group, &one.kind);
        let name = ObjectName::new(&one.namespace, &one.name);
        let wrong = |error: deltaplane_sync::NameError| Error::bad_request(error.to_string());
        Ok((kind.map_err(wrong)?, name.map_err(wrong)?))
    });
    Ok(Change {
        objects: posted.objects,
        deletions: deletions.collect::<Result<_, Error>>()?,
        policy: posted.policy,
        refused: BTreeMap::new(),
    })
}
