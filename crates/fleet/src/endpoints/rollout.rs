//! `…/propagationpolicies/<name>/_rollout`: how far a policy is and why it is not further, as the
//! one function that decides has it now. Nothing is written.
//!
//! `?zone=` leaves one zone, `?release=` adds what is in a release, `?inputs=true` what the last
//! decision was made of.

mod told;

use deltaplane_apiserver::seams::{BoxFuture, SubresourceRequest, VirtualSubresource};
use deltaplane_apiserver::{Body, Error};
use deltaplane_propagation::Timestamp;
use deltaplane_propagation::stages::{Inputs, Outcome};
use http::Response;
use serde_json::{Value, json};

use super::{json, may_read, only_get, parameter};
use crate::fleet::Fleet;
use crate::kinds::GROUP;

/// Answers `_rollout` of policies.
pub struct PolicyRollout(pub Fleet);

// === impl PolicyRollout ===

impl VirtualSubresource for PolicyRollout {
    fn name(&self) -> &str {
        "_rollout"
    }

    fn handle<'a>(
        &'a self,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        Box::pin(async move {
            only_get(&request)?;
            let policy = policy_of(&request)?;
            self.0.caught_up().await;
            self.0.gathered(policy).await;
            json(&self.answer(policy, &request).await?)
        })
    }
}

/// The policy that a request is about.
pub(super) fn policy_of<'a>(request: &SubresourceRequest<'a>) -> Result<&'a str, Error> {
    let resource = request.resource;
    match (resource.group, resource.plural) {
        (GROUP, "propagationpolicies") => Ok(resource.name),
        (_, _) => Err(Error::no_such_path()),
    }
}

impl PolicyRollout {
    async fn answer(&self, policy: &str, request: &SubresourceRequest<'_>) -> Result<Value, Error> {
        let inputs = self
            .0
            .inputs(policy)
            .await
            .ok_or_else(Error::no_such_path)?;
        let mut answer = match inputs.decide() {
            Ok(outcome) => {
                let zone = parameter(request, "zone");
                let troubles = self.0.troubles(policy);
                let unheard = self.0.unheard(policy);
                let beside = told::Beside { troubles, unheard };
                let mut answer = told::rollout((&inputs, &outcome), &beside, zone.as_deref());
                if parameter(request, "inputs").as_deref() == Some("true") {
                    answer["decision"] = self.decision(policy, inputs, outcome);
                }
                answer
            }
            Err(problems) => told::invalid(&inputs, &problems),
        };
        if let Some(asked) = parameter(request, "release") {
            let number = asked.parse().ok();
            let shown =
                number.and_then(|number| self.0.release(policy, number, &may_read(request)));
            let unknown = || Error::bad_request(format!("there is no release {asked}"));
            answer["shown"] = shown.ok_or_else(unknown)?;
        }
        answer["kind"] = "PolicyRollout".into();
        answer["apiVersion"] = "fleet.deltaplane.io/v1alpha1".into();
        Ok(answer)
    }

    /// What was decided last, and by what: what led to what is recorded, as long as this process
    /// runs, or else what is decided now.
    fn decision(&self, policy: &str, now: Inputs, outcome: Outcome) -> Value {
        let record = now.facts.record.clone();
        let mut kept = self.0.decided_by(policy).into_iter();
        let recorded = kept.find_map(|inputs| {
            let outcome = inputs.decide().ok()?;
            (outcome.record == record).then_some((inputs, outcome))
        });
        match recorded {
            Some((inputs, outcome)) => json!({
                "recorded": record.write(), "inputs": inputs.write(), "outcome": outcome.write(),
            }),
            None => json!({
                "recorded": null, "inputs": now.write(), "outcome": outcome.write(),
            }),
        }
    }
}

// === impl Fleet ===

impl Fleet {
    /// Returns what holds a policy's newest release back from a zone, as far as that is known.
    pub(crate) async fn hold_reason(&self, policy: &str, zone: &str) -> Option<String> {
        let inputs = self.inputs(policy).await?;
        let outcome = inputs.decide().ok()?;
        let beside = told::Beside {
            troubles: self.troubles(policy),
            unheard: self.unheard(policy),
        };
        told::hold_reason(&told::rollout((&inputs, &outcome), &beside, Some(zone)))
    }

    /// All that a decision about a policy would be made of now.
    pub(crate) async fn inputs(&self, policy: &str) -> Option<Inputs> {
        let mut stirred = self.stirred();
        loop {
            stirred.borrow_and_update();
            if let Some(facts) = self.look(policy) {
                let now = Timestamp::from_system(self.inner().clock.now());
                return Some(Inputs { facts, now });
            }
            let is_there = self.policies().iter().any(|one| one == policy);
            if !is_there || stirred.changed().await.is_err() {
                return None;
            }
        }
    }
}
