//! The status of zones' objects: written when a zone connects or is lost, and never in between.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use deltaplane_api::time::Time;
use deltaplane_client::feed::{self, Query};
use deltaplane_client::request::{self, Patch, RequestError};
use deltaplane_client::{ObjectKey, Pace, Resource};
use deltaplane_propagation::stages::RECONCILED;
use deltaplane_runtime::Stop;
use deltaplane_sync::ZoneName;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::divergence::{DIVERGED, DivergedCondition, FORK, StoreFork, ZoneSettlement};
use crate::fleet::Fleet;
use crate::kinds::{GROUP, VERSION};

/// What is to be written, the newest of each zone.
#[derive(Default)]
pub(crate) struct Transitions {
    waiting: Mutex<BTreeMap<ZoneName, Transition>>,
    more: Notify,
}

/// A zone came or went.
#[derive(Clone, Debug)]
pub(crate) struct Transition {
    /// Of the zone's object: one that was made anew has a status of its own.
    pub(crate) uid: String,
    pub(crate) connected: bool,
    pub(crate) at: SystemTime,
    pub(crate) product: String,
    pub(crate) features: BTreeSet<String>,
    pub(crate) message: Option<String>,
    pub(crate) diverged: DivergedUpdate,
    /// The settlement under an earlier Zone of the same name.
    pub(crate) earlier_settlement: Option<ZoneSettlement>,
}

/// What becomes of the condition `Diverged` of a zone.
#[derive(Clone, Debug)]
pub(crate) enum DivergedUpdate {
    /// The zone has said nothing of how far it followed.
    Keep,
    Set(DivergedCondition, StoreFork),
    Remove,
}

/// How long zones have to come back after the hub started before they count as lost.
const GRACE: Duration = Duration::from_secs(15);

/// Where zones are.
pub(crate) fn zones() -> Resource {
    Resource::cluster(GROUP, VERSION, "zones", "Zone")
}

/// Writes until told to stop.
pub(crate) async fn run(fleet: Fleet, client: Client, pace: Pace, stop: Stop) {
    let transitions = &fleet.inner().transitions;
    let written = async {
        loop {
            for (zone, transition) in transitions.take().await {
                write(&fleet, (&client, &pace), &zone, &transition).await;
            }
        }
    };
    let lost = async {
        pace.clock.sleep(GRACE).await;
        let mut failures = 0;
        while let Err(error) = find_lost(&fleet, &client).await {
            failures += 1;
            tracing::debug!(%error, failures, "failed to look which zones were lost");
            pace.rest(failures, error.retry_after()).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = stop.wait() => {}
        () = written => {}
        () = lost => {}
    }
}

async fn write(
    fleet: &Fleet,
    (client, pace): (&Client, &Pace),
    zone: &ZoneName,
    transition: &Transition,
) {
    let path = zones().object_path(&ObjectKey::cluster(zone.as_str()));
    let mut failures = 0;
    loop {
        fleet.caught_up().await;
        if fleet.uid_of(zone).as_ref() != Some(&transition.uid) {
            // It is gone, or another one by now.
            return;
        }
        match patch(client, &path, transition).await {
            Ok(()) => return,
            // The zone's object is gone; so is its status.
            Err(error) if error.is_not_found() => return,
            Err(error) if failures > 5 => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%zone, error, "failed to write that a zone came or went");
                return;
            }
            Err(error) => {
                failures += 1;
                pace.rest(failures, error.retry_after()).await;
            }
        }
    }
}

async fn patch(client: &Client, path: &str, transition: &Transition) -> Result<(), RequestError> {
    let status_path = format!("{path}/status");
    let status = transition.status();
    request::patch::<Value>(client, &status_path, Patch::Merge, &status).await?;
    // Not before: people see that the zone is connected whatever becomes of this.
    match &transition.earlier_settlement {
        Some(settlement) => carry_over(client, path, (&transition.uid, settlement)).await,
        None => Ok(()),
    }
}

/// Says of a Zone that was made again what was settled before, unless a person settled more since.
/// A Zone of another uid is not written: its resource version is another one, too.
async fn carry_over(
    client: &Client,
    path: &str,
    (uid, settlement): (&str, &ZoneSettlement),
) -> Result<(), RequestError> {
    let zone: Value = request::get(client, path).await?;
    let metadata = &zone["metadata"];
    if metadata["uid"] != uid || !zone["status"][RECONCILED].is_null() {
        return Ok(());
    }
    let status = json!({
        "metadata": {"resourceVersion": metadata["resourceVersion"]},
        "status": {RECONCILED: settlement.reconciled},
    });
    let path = format!("{path}/status");
    request::patch::<Value>(client, &path, Patch::Merge, &status).await?;
    Ok(())
}

/// Zones that were connected to the process before, and are not to this one.
async fn find_lost(fleet: &Fleet, client: &Client) -> Result<(), RequestError> {
    let mut lost = Vec::new();
    let query = Query::all(zones());
    let listed = feed::list(client, &query, |item| {
        let object: Value = item.parse().unwrap_or_default();
        let connected = object["status"]["connection"] == "Connected";
        let zone = item.header.name.parse::<ZoneName>().ok();
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let zone = zone.filter(|_| connected);
        lost.extend(zone.map(|zone| (zone, uid.to_owned())));
    });
    listed.await?;
    for (zone, uid) in lost {
        let session = fleet.session_of(&zone);
        if session.is_none_or(|session| session.uid != uid) {
            let transition = Transition {
                uid,
                connected: false,
                at: fleet.inner().clock.now(),
                product: String::new(),
                features: BTreeSet::new(),
                message: Some("it did not come back after the hub was restarted".to_owned()),
                diverged: DivergedUpdate::Keep,
                earlier_settlement: None,
            };
            fleet.inner().transitions.note(&zone, transition);
        }
    }
    Ok(())
}

// === impl Transitions ===

impl Transitions {
    pub(crate) fn note(&self, zone: &ZoneName, transition: Transition) {
        self.waiting.lock().insert(zone.clone(), transition);
        self.more.notify_one();
    }

    async fn take(&self) -> BTreeMap<ZoneName, Transition> {
        loop {
            let waiting = std::mem::take(&mut *self.waiting.lock());
            if !waiting.is_empty() {
                return waiting;
            }
            self.more.notified().await;
        }
    }
}

// === impl Transition ===

impl Transition {
    fn status(&self) -> Value {
        let connection = match self.connected {
            true => "Connected",
            false => "Disconnected",
        };
        let at = Time::from_system(self.at).to_string();
        let mut status = json!({
            "connection": connection,
            "since": at,
            "message": self.message,
        });
        match &self.diverged {
            DivergedUpdate::Keep => {}
            DivergedUpdate::Set(condition, fork) => {
                status[FORK] = fork.write();
                status["conditions"] = json!([{
                    "type": DIVERGED, "status": "True", "reason": condition.reason,
                    "message": condition.message, "lastTransitionTime": at,
                }]);
            }
            // A merge patch: null takes them away.
            DivergedUpdate::Remove => status["conditions"] = Value::Null,
        }
        if !self.product.is_empty() {
            status["product"] = self.product.as_str().into();
            status["features"] = self.features.iter().cloned().collect();
        }
        json!({"status": status})
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use deltaplane_api::identity::Identity;
    use deltaplane_client::in_process;
    use http::{Method, Request, Response};
    use kube::client::Body;

    use super::*;

    const PATH: &str = "/apis/fleet.deltaplane.io/v1alpha1/zones/eu-1";

    /// Writes the status of the Zone `mine` when a read answers this. Returns the bodies that were
    /// written, and whether all of them could be.
    async fn written(read: (u16, Value)) -> (Vec<Value>, bool) {
        let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
        let seen = Arc::clone(&bodies);
        let server = tower::service_fn(move |request: Request<Body>| {
            let (read, seen) = (read.clone(), Arc::clone(&seen));
            async move {
                let is_read = request.method() == Method::GET;
                let body = request.into_body().collect_bytes().await.expect("read");
                let (code, said) = if is_read {
                    read
                } else {
                    let body: Value = serde_json::from_slice(&body).expect("JSON");
                    seen.lock().push(body.clone());
                    (200, body)
                };
                let answer = Response::builder().status(code).body(said.to_string());
                Ok::<_, Infallible>(answer.expect("an answer"))
            }
        });
        let client = in_process(server, Identity::authenticated("controllers", &[]));
        let transition = Transition {
            uid: "mine".to_owned(),
            connected: true,
            at: SystemTime::UNIX_EPOCH,
            product: String::new(),
            features: BTreeSet::new(),
            message: None,
            diverged: DivergedUpdate::Keep,
            earlier_settlement: Some(ZoneSettlement::of(json!({"revision": 7}))),
        };
        let patched = patch(&client, PATH, &transition).await;
        let bodies = bodies.lock().clone();
        (bodies, patched.is_ok())
    }

    fn zone(uid: &str) -> (u16, Value) {
        (
            200,
            json!({"metadata": {"uid": uid, "resourceVersion": "5"}}),
        )
    }

    #[tokio::test]
    async fn a_settlement_is_carried_over_to_the_zone_that_connected() {
        let (bodies, done) = written(zone("mine")).await;
        assert!(done);
        assert_eq!(bodies[0]["status"]["connection"], "Connected");
        let expected = json!({
            "metadata": {"resourceVersion": "5"},
            "status": {"reconciled": {"revision": 7}},
        });
        assert_eq!(bodies[1..], [expected]);
    }

    #[tokio::test]
    async fn a_settlement_is_not_carried_over_to_another_zone_of_the_name() {
        let (bodies, done) = written(zone("another")).await;
        assert!(done);
        assert_eq!(bodies.len(), 1, "{bodies:?}");
    }

    #[tokio::test]
    async fn a_connection_is_told_whatever_becomes_of_the_settlement() {
        let (bodies, done) = written((422, json!({"code": 422}))).await;
        assert!(!done);
        assert_eq!(bodies.len(), 1);
        assert_eq!(bodies[0]["status"]["connection"], "Connected");
    }
}
