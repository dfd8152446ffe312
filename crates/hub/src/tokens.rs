//! `POST …/zones/<zone>/_token`: the join string of a zone. The newest counts; the others are void.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deltaplane_apiserver::seams::{BoxFuture, SubresourceRequest, VirtualSubresource};
use deltaplane_apiserver::{Body, Error, TENANT};
use deltaplane_client::request::{self, Patch};
use deltaplane_client::{ObjectKey, Resource};
use deltaplane_fleet::{Fleet, kinds};
use deltaplane_plane::Opened;
use deltaplane_runtime::Clock;
use deltaplane_runtime::identity::{Fingerprint, HubUrl, JoinString, ZoneGrant, ZoneTokens};
use http::{Method, Response};
use kube::Client;
use serde_json::{Value, json};
use uuid::Uuid;

/// Answers `_token` of zones.
pub(crate) struct ZoneToken {
    tokens: Arc<ZoneTokens>,
    url: String,
    ca: String,
    clock: Clock,
    fleet: Fleet,
    client: OnceLock<Client>,
}

/// How long a join string can be used if nobody says.
const USUAL: Duration = Duration::from_secs(3600);
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

// === impl ZoneToken ===

impl ZoneToken {
    pub(crate) fn new(tokens: Arc<ZoneTokens>, opened: &Opened, fleet: Fleet) -> Self {
        Self {
            tokens,
            url: opened.url(),
            ca: opened.served_ca(),
            clock: opened.clock().clone(),
            fleet,
            client: OnceLock::new(),
        }
    }

    /// From now on tokens can be written down.
    pub(crate) fn attach(&self, client: Client) {
        let _ = self.client.set(client);
    }

    async fn answer(&self, request: &SubresourceRequest<'_>) -> Result<Value, Error> {
        let resource = request.resource;
        if resource.group != kinds::GROUP || resource.plural != "zones" {
            return Err(Error::no_such_path());
        }
        if *request.method != Method::POST {
            return Err(Error::bad_request(
                "a token is made, and not read: use POST",
            ));
        }
        let lifetime = lifetime(request)?;
        let grant = ZoneGrant {
            zone: resource.name.to_owned(),
            uid: text(&request.object["metadata"]["uid"]),
            tenant: TENANT.to_owned(),
            id: Uuid::new_v4().simple().to_string(),
            expires: self.clock.now() + lifetime,
        };
        self.write_down(&grant).await?;
        let token = self.tokens.sign(&grant).map_err(Error::internal)?;
        let url: HubUrl = self.url.parse().map_err(Error::internal)?;
        let ca = Fingerprint::of_pem(&self.ca);
        let ca = ca.ok_or_else(|| Error::internal("the hub's authority cannot be read"))?;
        let join = JoinString { url, ca, token };
        Ok(json!({
            "kind": "ZoneToken",
            "apiVersion": "fleet.deltaplane.io/v1alpha1",
            "join": join.to_string(),
            "lifetimeSeconds": lifetime.as_secs(),
        }))
    }

    /// Says in the zone's object which token counts.
    async fn write_down(&self, grant: &ZoneGrant) -> Result<(), Error> {
        let client = self.client.get();
        let client = client.ok_or_else(|| Error::unavailable("the hub is not ready"))?;
        let zones = Resource::cluster(kinds::GROUP, kinds::VERSION, "zones", "Zone");
        let path = zones.object_path(&ObjectKey::cluster(&grant.zone));
        let change = json!({"metadata": {
            "uid": grant.uid, "annotations": {kinds::TOKEN: grant.id},
        }});
        let written = request::patch::<Value>(client, &path, Patch::Merge, &change).await;
        written.map_err(|error| {
            let refusal = error.refusal().map(|refusal| refusal.message.clone());
            Error::unavailable(refusal.unwrap_or_else(|| error.to_string()))
        })?;
        self.fleet.caught_up().await;
        Ok(())
    }
}

impl VirtualSubresource for ZoneToken {
    fn name(&self) -> &str {
        "_token"
    }

    fn handle<'a>(
        &'a self,
        request: SubresourceRequest<'a>,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        Box::pin(async move {
            let answer = self.answer(&request).await?;
            let bytes = serde_json::to_vec(&answer).map_err(Error::internal)?;
            let response = Response::builder()
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(Body::from(bytes));
            response.map_err(Error::internal)
        })
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn lifetime(request: &SubresourceRequest<'_>) -> Result<Duration, Error> {
    if request.body.is_empty() {
        return Ok(USUAL);
    }
    let body: Value = serde_json::from_slice(request.body)
        .map_err(|error| Error::bad_request(format!("the body is not JSON: {error}")))?;
    let Some(seconds) = body.get("lifetimeSeconds") else {
        return Ok(USUAL);
    };
    let seconds = seconds.as_u64().map(Duration::from_secs);
    let legal = seconds.filter(|lifetime| (1..=LONGEST.as_secs()).contains(&lifetime.as_secs()));
    legal.ok_or_else(|| {
        Error::bad_request(format!(
            "lifetimeSeconds must be a number from 1 to {}",
            LONGEST.as_secs()
        ))
    })
}
