//! Binds a join token to the first key that is presented with it, in the zone's object.
//!
//! The binding is stored before the first certificate is given: whoever copies a join string finds
//! it worthless once the zone has used it. The same key may ask again, since an answer can be lost,
//! until the zone has connected with it.

use std::sync::OnceLock;

use deltaplane_client::request::{self, Patch};
use deltaplane_client::{ObjectKey, RequestError, Resource};
use deltaplane_fleet::kinds;
use deltaplane_runtime::identity::ZoneKeyFingerprint;
use deltaplane_sync::ZoneName;
use kube::Client;
use serde_json::{Value, json};
use tonic::Status;

/// Keeps which key the join token of each zone was used with.
#[derive(Default)]
pub(crate) struct JoinBindings {
    client: OnceLock<Client>,
}

/// A join token that was verified, and the key that came with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PresentedToken<'a> {
    pub(super) zone: &'a ZoneName,
    pub(super) uid: &'a str,
    pub(super) id: &'a str,
    pub(super) key: ZoneKeyFingerprint,
}

/// The annotation of a zone with the id of a join token, the key that it is bound to, and
/// [`CONNECTED`] once a zone with that key has connected.
const BINDING: &str = "fleet.deltaplane.io/join-key";
const CONNECTED: &str = "connected";
/// Others may change the zone's object meanwhile, but not all the time.
const ATTEMPTS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// Nobody has used the token.
    Bind,
    /// The key is the one that has.
    Repeat,
    OtherKey,
    /// The zone has connected with it: it renews its certificate, and needs no token.
    Connected,
}

/// What becomes of a token that is presented with a key, by the zone's annotation.
fn decide(binding: &str, id: &str, key: &str) -> Decision {
    let mut words = binding.split(' ');
    if words.next() != Some(id) {
        return Decision::Bind;
    }
    match (words.next(), words.next()) {
        (Some(bound), None) if bound == key => Decision::Repeat,
        (Some(bound), Some(_)) if bound == key => Decision::Connected,
        _ => Decision::OtherKey,
    }
}

// === impl JoinBindings ===

impl JoinBindings {
    /// From now on bindings can be stored.
    pub(crate) fn attach(&self, client: Client) {
        let _ = self.client.set(client);
    }

    /// Binds a token to its key, or refuses it. When this returns, the binding is stored.
    pub(super) async fn bind(&self, presented: PresentedToken<'_>) -> Result<(), Status> {
        let PresentedToken { zone, uid, id, key } = presented;
        let key = key.to_string();
        for _ in 0..ATTEMPTS {
            let object = self.read(zone).await?;
            let annotation = |name: &str| text(&object["metadata"]["annotations"][name]);
            if text(&object["metadata"]["uid"]) != uid || annotation(kinds::TOKEN) != id {
                return Err(Status::unauthenticated(format!(
                    "the join token of zone {zone} was replaced by a newer one, or revoked"
                )));
            }
            match decide(annotation(BINDING), id, &key) {
                Decision::Repeat => return Ok(()),
                Decision::OtherKey => return Err(used(zone, "with another key")),
                Decision::Connected => return Err(used(zone, "and the zone has connected")),
                Decision::Bind => {}
            }
            if self.write(zone, &object, &format!("{id} {key}")).await? {
                return Ok(());
            }
        }
        Err(kept_changing(zone))
    }

    /// Notes that a zone has connected, which ends that its token counts.
    pub(super) async fn connected(&self, zone: &ZoneName, key: ZoneKeyFingerprint) {
        // Its key could ask again, and nobody else: the zone is served nevertheless, and this is
        // tried again when it connects the next time.
        if let Err(status) = self.note_connected(zone, &key.to_string()).await {
            let error = status.message();
            tracing::warn!(%zone, error, "failed to note that the zone's join token was used");
        }
    }

    async fn note_connected(&self, zone: &ZoneName, key: &str) -> Result<(), Status> {
        for _ in 0..ATTEMPTS {
            let object = self.read(zone).await?;
            let binding = text(&object["metadata"]["annotations"][BINDING]);
            let mut words = binding.split(' ').skip(1);
            let is_first = words.next() == Some(key) && words.next().is_none();
            let binding = format!("{binding} {CONNECTED}");
            if !is_first || self.write(zone, &object, &binding).await? {
                return Ok(());
            }
        }
        Err(kept_changing(zone))
    }

    fn client(&self) -> Result<&Client, Status> {
        let client = self.client.get();
        client.ok_or_else(|| Status::unavailable("the hub is not ready"))
    }

    async fn read(&self, zone: &ZoneName) -> Result<Value, Status> {
        let read = request::get::<Value>(self.client()?, &path(zone)).await;
        read.map_err(|error| failed(&error))
    }

    /// Returns false if the object is not any more what it was when it was read.
    async fn write(&self, zone: &ZoneName, read: &Value, binding: &str) -> Result<bool, Status> {
        let change = json!({"metadata": {
            "uid": read["metadata"]["uid"],
            "resourceVersion": read["metadata"]["resourceVersion"],
            "annotations": {BINDING: binding},
        }});
        let patched =
            request::patch::<Value>(self.client()?, &path(zone), Patch::Merge, &change).await;
        match patched {
            Ok(_) => Ok(true),
            Err(error) if error.is_conflict() => Ok(false),
            Err(error) => Err(failed(&error)),
        }
    }
}

fn path(zone: &ZoneName) -> String {
    let zones = Resource::cluster(kinds::GROUP, kinds::VERSION, "zones", "Zone");
    zones.object_path(&ObjectKey::cluster(zone.as_str()))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn failed(error: &RequestError) -> Status {
    Status::unavailable(format!("the hub cannot keep the zone's key: {error}"))
}

fn kept_changing(zone: &ZoneName) -> Status {
    Status::unavailable(format!(
        "the object of zone {zone} kept changing; try again"
    ))
}

fn used(zone: &ZoneName, how: &str) -> Status {
    Status::unauthenticated(format!(
        "the join token of zone {zone} was used already, {how}; make another with: deltaplane token create --zone {zone}"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deltaplane_api::identity::Identity;
    use deltaplane_client::in_process;
    use deltaplane_runtime::identity::ZoneKey;
    use http::{Method, Request, Response};
    use http_body_util::{BodyExt, Full};
    use parking_lot::Mutex;

    use super::*;

    /// The object of a zone, which somebody else changes before each of the first writes.
    fn zone_that_changes(binding: &str, changes: usize) -> (JoinBindings, Arc<Mutex<Value>>) {
        let object = json!({"metadata": {"uid": "u", "resourceVersion": "1",
            "annotations": {BINDING: binding}}});
        let object = Arc::new(Mutex::new(object));
        let (stored, left) = (object.clone(), Arc::new(Mutex::new(changes)));
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (stored, left) = (stored.clone(), left.clone());
            async move {
                let is_write = request.method() == Method::PATCH;
                let body = request.into_body().collect().await?.to_bytes();
                let mut stored = stored.lock();
                if !is_write {
                    return answer(200, &stored);
                }
                let change: Value = serde_json::from_slice(&body).expect("a patch");
                let mut left = left.lock();
                if *left > 0 {
                    *left -= 1;
                    stored["metadata"]["resourceVersion"] = json!(format!("changed-{left}"));
                }
                let (read, now) = (&change["metadata"], &stored["metadata"]);
                if read["resourceVersion"] != now["resourceVersion"] {
                    return answer(409, &json!({"kind": "Status", "reason": "Conflict"}));
                }
                stored["metadata"]["annotations"] = change["metadata"]["annotations"].clone();
                answer(200, &stored)
            }
        });
        let bindings = JoinBindings::default();
        bindings.attach(in_process(service, Identity::anonymous()));
        (bindings, object)
    }

    fn answer(code: u16, body: &Value) -> Result<Response<Full<bytes::Bytes>>, tower::BoxError> {
        let body = Full::new(body.to_string().into());
        Ok(Response::builder().status(code).body(body)?)
    }

    /// Somebody who edited the Zone in that moment left its token valid.
    #[tokio::test]
    async fn a_connection_is_noted_although_the_zone_changes_meanwhile() {
        let key = ZoneKey::generate().expect("a key");
        let key = ZoneKeyFingerprint::of_request(key.csr()).expect("a request");
        let zone: ZoneName = "eu-1".parse().expect("legal");
        let noted = format!("newest {key} connected");
        for (binding, changes, expected) in [
            (format!("newest {key}"), ATTEMPTS - 1, noted.as_str()),
            (noted.clone(), 0, noted.as_str()),
            ("newest sha256:aa".to_owned(), 0, "newest sha256:aa"),
        ] {
            let (bindings, object) = zone_that_changes(&binding, changes);
            bindings.connected(&zone, key).await;
            let found = object.lock()["metadata"]["annotations"][BINDING].clone();
            assert_eq!(found, *expected, "{binding:?}");
        }
    }

    #[test]
    fn a_token_counts_for_the_first_key_until_it_has_connected() {
        let cases = [
            ("", Decision::Bind),
            ("older sha256:aa", Decision::Bind),
            ("older sha256:bb connected", Decision::Bind),
            ("newest sha256:aa", Decision::Repeat),
            ("newest sha256:bb", Decision::OtherKey),
            ("newest sha256:bb connected", Decision::OtherKey),
            ("newest sha256:aa connected", Decision::Connected),
            ("newest", Decision::OtherKey),
        ];
        for (binding, expected) in cases {
            assert_eq!(
                decide(binding, "newest", "sha256:aa"),
                expected,
                "{binding:?}"
            );
        }
    }
}
