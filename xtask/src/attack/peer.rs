//! A zone of which only the credential is real.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use deltaplane_runtime::Clock;
use deltaplane_runtime::identity::JoinString;
use deltaplane_sync::Crossing;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::{Hello, Rejected, SyncedObject};
use deltaplane_sync_grpc::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource,
};
use deltaplane_sync_grpc::{SESSION, receiving};
use deltaplane_zone::{LinkConfig, Membership, SyncClient};
use prost::Message;
use prost_types::Any;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tonic::Streaming;

use super::stage::Stage;
use crate::fleet::authored;

pub(super) const CONFIG_MAPS: &str = "deltaplane.io/core/ConfigMap";
const PATIENCE: Duration = Duration::from_secs(10);

/// A member of the fleet, connected.
pub(super) struct Peer {
    pub(super) client: SyncClient,
    pub(super) session: u64,
}

/// A stream on which objects are uploaded.
pub(super) struct Upload {
    out: mpsc::Sender<DeltaDiscoveryResponse>,
    answers: Streaming<DeltaDiscoveryRequest>,
    nonce: u64,
}

/// Makes a zone, and joins as it.
pub(super) async fn join(stage: &Stage, zone: &str) -> Result<Membership> {
    let join = authored::make_zone(&stage.admin, zone).await?;
    join_with(&join, &stage.directory(zone)).await
}

pub(super) async fn join_with(join: &str, directory: &Path) -> Result<Membership> {
    let join: JoinString = join.parse().context("a join string")?;
    let (link, clock) = (LinkConfig::default(), Clock::system());
    let joined = Membership::open(directory, Some(&join), link, &clock).await;
    joined.context("joining")
}

pub(super) fn with_session<T>(messages: T, session: u64) -> tonic::Request<T> {
    let mut request = tonic::Request::new(messages);
    request.metadata_mut().insert(SESSION, session.into());
    request
}

/// A ConfigMap that crosses.
pub(super) fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
        "metadata": {"name": name, "namespace": "default", "labels": {"cross": "yes"}}})
}

// === impl Peer ===

impl Peer {
    /// Connects as a zone that joined.
    pub(super) async fn connect(member: &Membership) -> Result<Self> {
        let mut client = member.connect().await?;
        let hello = Hello {
            zone: member.zone().to_string(),
            product: "0.0.0".to_owned(),
            oldest_protocol: 1,
            newest_protocol: 1,
            features: vec!["query".to_owned(), "report".to_owned()],
            epoch: "attack".to_owned(),
            ..Hello::default()
        };
        let welcome = client.handshake(hello).await?;
        let session = welcome.into_inner().session;
        Ok(Self { client, session })
    }

    /// Follows what the hub sends, which makes it a zone that is connected.
    pub(super) async fn follow(&mut self) -> Result<Streaming<DeltaDiscoveryResponse>> {
        let subscribe = DeltaDiscoveryRequest {
            type_url: CONFIG_MAPS.to_owned(),
            resource_names_subscribe: vec!["*".to_owned()],
            ..DeltaDiscoveryRequest::default()
        };
        let requests = futures::stream::iter([subscribe]);
        let requests = futures::StreamExt::chain(requests, futures::stream::pending());
        let opened = self
            .client
            .hub_to_zone(with_session(requests, self.session))
            .await?;
        Ok(opened.into_inner())
    }

    pub(super) async fn upload(&mut self) -> Result<Upload> {
        let (out, responses) = mpsc::channel(16);
        let opened = self
            .client
            .zone_to_hub(with_session(receiving(responses), self.session))
            .await?;
        let mut answers = opened.into_inner();
        let asked = tokio::time::timeout(PATIENCE, answers.message()).await??;
        let asked = asked.context("the hub asks for nothing")?;
        ensure!(
            asked.type_url == CONFIG_MAPS,
            "asked for {}",
            asked.type_url
        );
        Ok(Upload {
            out,
            answers,
            nonce: 0,
        })
    }
}

// === impl Upload ===

impl Upload {
    /// Sends an object; gives why it was rejected, if it was.
    pub(super) async fn put(&mut self, object: &Value) -> Result<Option<String>> {
        let crossing = Crossing::of(object).context("an object")?;
        let synced = SyncedObject {
            object: serde_json::to_vec(crossing.object())?,
            ..SyncedObject::default()
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let resource = Resource {
            name: format!("default/{name}"),
            version: crossing.version().to_string(),
            resource: Some(Any {
                type_url: "type.googleapis.com/deltaplane.sync.v1.SyncedObject".to_owned(),
                value: synced.encode_to_vec(),
            }),
            ..Resource::default()
        };
        let answer = self.send(vec![resource], Vec::new()).await?;
        let details = answer.error_detail.into_iter();
        let details = details.flat_map(|error| error.details);
        let rejected = details.filter_map(|detail| Rejected::decode(&*detail.value).ok());
        let mut reasons = rejected.flat_map(|rejected| rejected.rejections);
        Ok(reasons.next().map(|rejection| rejection.reason))
    }

    /// Says that the hub may keep an object as its own; fails if the hub ends the stream for it.
    pub(super) async fn orphan(&mut self, name: &str) -> Result<()> {
        let resource = Resource {
            name: format!("default/{name}"),
            resource: Some(Any {
                type_url: "type.googleapis.com/deltaplane.sync.v1.Orphaned".to_owned(),
                value: Vec::new(),
            }),
            ..Resource::default()
        };
        self.send(vec![resource], Vec::new()).await?;
        Ok(())
    }

    /// Says that objects are gone; fails if the hub ends the stream for it.
    pub(super) async fn remove(&mut self, names: Vec<String>) -> Result<()> {
        self.send(Vec::new(), names).await?;
        Ok(())
    }

    async fn send(
        &mut self,
        resources: Vec<Resource>,
        removed: Vec<String>,
    ) -> Result<DeltaDiscoveryRequest> {
        self.nonce += 1;
        let response = DeltaDiscoveryResponse {
            system_version_info: format!("attack@{}", self.nonce),
            resources,
            removed_resources: removed,
            type_url: CONFIG_MAPS.to_owned(),
            nonce: self.nonce.to_string(),
            ..DeltaDiscoveryResponse::default()
        };
        self.out.send(response).await.context("sending")?;
        let answer = tokio::time::timeout(PATIENCE, self.answers.message()).await??;
        answer.context("the hub ended the stream")
    }
}
