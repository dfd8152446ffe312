//! What is written down of a rollout while it runs, as somebody sees who watches the policy.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use deltaplane_fleet::kinds::{GROUP, VERSION};
use deltaplane_propagation::stages::{Record, Target};
use futures::{StreamExt, pin_mut};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, WatchEvent, WatchParams};
use kube::{Api, Client};
use serde_json::Value;

use crate::fleet::authored;

/// What became of a policy.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// From the first word of a newer release until it was everywhere.
    pub(super) took: Duration,
    /// How often its status was written.
    pub(super) writes: usize,
    /// How often zones were let in, and at most at once.
    pub(super) waves: usize,
    pub(super) widest: usize,
    /// The size of the status when it was largest.
    pub(super) largest: usize,
}

const PATIENCE: Duration = Duration::from_secs(300);

/// Follows a policy from a moment on until a release is everywhere. `begun` is done when the watch
/// has begun.
pub(super) async fn follow(hub: &Client, policy: &Value, release: u64) -> Result<Followed> {
    let metadata = &policy["metadata"];
    let name = metadata["name"].as_str().context("no name")?;
    let from = metadata["resourceVersion"].as_str().context("no version")?;
    let gvk = GroupVersionKind::gvk(GROUP, VERSION, "PropagationPolicy");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "propagationpolicies");
    let api: Api<DynamicObject> = Api::all_with(hub.clone(), &resource);
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    let events = api
        .watch(&params, from)
        .await
        .context("watching a policy")?;
    pin_mut!(events);
    let began = Instant::now();
    let mut followed = Followed::default();
    let mut before = record(policy);
    while let Some(event) = tokio::time::timeout(PATIENCE, events.next())
        .await
        .context("nothing is written any more")?
    {
        let object = match event.context("following a policy")? {
            WatchEvent::Modified(object) => serde_json::to_value(object)?,
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Added(_) | WatchEvent::Deleted(_) | WatchEvent::Error(_) => {
                bail!("something else happened to the policy")
            }
        };
        let after = record(&object);
        followed.note(&object, &before, &after);
        before = after;
        let done = object["status"]["release"].as_u64() >= Some(release);
        if done && authored::is_propagated(&object) {
            followed.took = began.elapsed();
            return Ok(followed);
        }
    }
    Err(anyhow!("the watch ended"))
}

fn record(policy: &Value) -> Record {
    Record::read(&policy["status"]["decisions"]).unwrap_or_default()
}

// === impl Followed ===

impl Followed {
    fn note(&mut self, policy: &Value, before: &Record, after: &Record) {
        self.writes += 1;
        self.largest = self.largest.max(policy["status"].to_string().len());
        let target = |record: &Record, zone: &String| -> Option<Target> {
            record.zones.get(zone).map(|one| one.target)
        };
        let zones = after.zones.keys();
        let admitted = zones.filter(|zone| target(before, zone) != target(after, zone));
        let admitted = admitted.count();
        if admitted > 0 {
            self.waves += 1;
            self.widest = self.widest.max(admitted);
        }
    }
}
