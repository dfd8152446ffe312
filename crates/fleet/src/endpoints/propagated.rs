//! `…/zones/<zone>/_propagated?revision=R`: waits until a zone has what revision R wrote.
//!
//! `for=released` waits for policies only, `for=applied` (the default) for the zone. The answer names
//! no object: whoever may ask may not be allowed to read it.

use std::time::Duration;

use deltaplane_apiserver::seams::{BoxFuture, SubresourceRequest, VirtualSubresource};
use deltaplane_apiserver::{Body, Error};
use deltaplane_sync::ZoneName;
use http::Response;
use serde_json::json;

use super::zone::zone_of;
use super::{json, parameter};
use crate::fleet::Fleet;
use crate::propagated::{PropagationGoal, PropagationObstacle, WrittenError};

/// Answers `_propagated` of zones.
pub struct ZonePropagated(pub Fleet);

/// Longer waits are answered after this time; clients ask again.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

// === impl ZonePropagated ===

impl VirtualSubresource for ZonePropagated {
    fn name(&self) -> &str {
        "_propagated"
    }

    fn is_long_poll(&self) -> bool {
        true
    }

    fn handle<'a>(
        &'a self,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        Box::pin(async move {
            let zone = zone_of(&request)?;
            let number = |name: &str| -> Result<Option<u64>, Error> {
                let text = parameter(&request, name);
                let number = text.map(|text| text.parse::<u64>()).transpose();
                number.map_err(|_| Error::bad_request(format!("{name} must be a number")))
            };
            let revision = number("revision")?;
            let revision = revision
                .ok_or_else(|| Error::bad_request("say which revision: ?revision=<number>"))?;
            let goal = parameter(&request, "for").unwrap_or_else(|| "applied".to_owned());
            let goal: PropagationGoal = goal
                .parse()
                .map_err(|()| Error::bad_request("for must be released or applied"))?;
            let wait = number("timeoutSeconds")?.map_or(LONGEST_WAIT, Duration::from_secs);
            let written = self.0.written_by(revision).await.map_err(refused)?;
            tokio::select! {
                biased;
                () = self.0.propagated(&zone, &written, goal) => {}
                () = self.0.inner().clock.sleep(wait.min(LONGEST_WAIT)) => {}
            }
            let obstacle = self.0.propagation_obstacle(&zone, &written, goal);
            let reason = match &obstacle {
                Some(obstacle) => Some(self.reason(&zone, obstacle).await),
                None => None,
            };
            json(&json!({
                "kind": "ZonePropagated",
                "apiVersion": "fleet.deltaplane.io/v1alpha1",
                "zone": zone.as_str(),
                "revision": revision,
                "propagated": obstacle.is_none(),
                "crosses": self.0.crosses(&written),
                "reason": reason,
            }))
        })
    }
}

impl ZonePropagated {
    /// Returns what a zone waits for, with what holds the release at the policy's stage.
    async fn reason(&self, zone: &ZoneName, obstacle: &PropagationObstacle) -> String {
        let PropagationObstacle::NotReleased { policy, .. } = obstacle else {
            return obstacle.to_string();
        };
        match self.0.hold_reason(policy.as_str(), zone.as_str()).await {
            Some(held) => format!("{obstacle}: {held}"),
            None => obstacle.to_string(),
        }
    }
}

fn refused(error: WrittenError) -> Error {
    match error {
        WrittenError::Compacted { .. } => Error::expired(format!(
            "{error}; write the object again, or read its current resourceVersion, and wait for that"
        )),
        WrittenError::Future { .. } => Error::bad_request(error.to_string()),
        WrittenError::Read(_) => Error::unavailable(error.to_string()),
    }
}
