//! The sync services: from requests of zones to the fleet's sessions. It decides nothing.

mod down;
mod issuer;
mod joining;
mod pace;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use deltaplane_apiserver::Pieces;
use deltaplane_fleet::{Fleet, HandshakeError, Session, SessionStream, StreamPlace};
use deltaplane_plane::{Route, RouteBody};
use deltaplane_runtime::identity::{ZoneKeyFingerprint, ZoneSubject};
use deltaplane_runtime::{Clock, TaskGroup};
use deltaplane_sync::{
    Epoch, FollowedPosition, Hello, MOST_MIRRORED_KINDS, ProtocolError, SessionId, SyncKind,
    ZoneName,
};
use deltaplane_sync_grpc::proto::deltaplane::sync::v1 as wire;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::sync_server::{Sync, SyncServer};
use deltaplane_sync_grpc::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse,
};
use deltaplane_sync_grpc::{
    MAX_MESSAGE, MAX_PART, SESSION, cut, decode_fared, decode_request, decode_response,
    decode_uploaded, encode_asked, encode_request, encode_response, protocol_status, receiving,
};
use futures::future::{BoxFuture, ready};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tonic::codec::CompressionEncoding;
use tonic::{Status, Streaming};
use tower::ServiceExt;

pub(crate) use issuer::Issuer;
pub(crate) use joining::JoinBindings;

use pace::ReportPaces;

use crate::query::Channels;

/// Takes the requests of zones.
pub(crate) struct SyncRoute {
    services: Arc<Services>,
    server: SyncServer<Services>,
    /// For calls that are no streams.
    calls: SyncServer<Services>,
}

struct Services {
    fleet: Fleet,
    issuer: Issuer,
    channels: Arc<Channels>,
    group: TaskGroup,
    paces: Arc<Mutex<ReportPaces>>,
}

type Stream<T> = BoxStream<'static, Result<T, Status>>;

const PREFIX: &str = "/deltaplane.sync.v1.Sync/";
/// What a zone says of itself is kept while it is connected.
const MAX_WORD: usize = 128;
const MAX_FEATURES: usize = 64;
const MAX_RELEASES: usize = 10_000;
const MAX_POLICY_NAME: usize = 253;
/// A group, a kind, and what is before and between them.
const MAX_KIND_URL: usize = 512;
/// Calls that are no streams are small, and some come from nobody yet.
const MAX_CALL: usize = 64 << 10;
/// A handshake names the newest release of each policy that the zone followed, and the kinds that it
/// mirrors.
const MAX_HANDSHAKE: usize =
    MAX_RELEASES * (MAX_POLICY_NAME + 32) + MOST_MIRRORED_KINDS * (MAX_KIND_URL + 8);
const HANDSHAKE: &str = "Handshake";
const JOIN: &str = "Join";
/// Calls are small: whoever takes longer to send one holds memory for nothing.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const STREAMS: [&str; 4] = ["HubToZone", "ZoneToHub", "Report", "Query"];
/// At most one response of a kind is not answered yet, so that few wait here.
const OUTBOX: usize = 16;

// === impl SyncRoute ===

impl SyncRoute {
    pub(crate) fn new(
        fleet: Fleet,
        issuer: Issuer,
        channels: Arc<Channels>,
        group: TaskGroup,
    ) -> Self {
        let services = Arc::new(Services {
            fleet,
            issuer,
            channels,
            group,
            paces: Arc::default(),
        });
        // A zone that wants compression asks for it. `HubToZone`, the one stream on which messages
        // come that are larger than a part, is answered by `down`.
        let server = SyncServer::from_arc(services.clone())
            .accept_compressed(CompressionEncoding::Gzip)
            .send_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(MAX_PART)
            .max_encoding_message_size(MAX_MESSAGE);
        // What is sent compressed is bounded by what it becomes.
        let calls = server.clone().max_decoding_message_size(MAX_HANDSHAKE);
        Self {
            services,
            server,
            calls,
        }
    }
}

impl Route for SyncRoute {
    fn takes(&self, path: &str) -> bool {
        path.starts_with(PREFIX)
    }

    fn answer(&self, request: Request<Incoming>) -> BoxFuture<'static, Response<RouteBody>> {
        if request.uri().path() == down::PATH {
            return down::answer(self.services.clone(), request).boxed();
        }
        let method = request
            .uri()
            .path()
            .strip_prefix(PREFIX)
            .unwrap_or_default();
        // Nothing is read of somebody without a certificate but what a zone joins with.
        if method != JOIN && request.extensions().get::<ZoneSubject>().is_none() {
            return ready(answered(no_certificate().into_http())).boxed();
        }
        if STREAMS.contains(&method) {
            let request = request.map(|body| Limited::new(body, usize::MAX));
            return called(self.server.clone(), request).boxed();
        }
        let most = match method {
            HANDSHAKE => MAX_HANDSHAKE,
            _ => MAX_CALL,
        };
        let request = request.map(|body| Limited::new(body, most));
        let call = called(self.calls.clone(), request);
        let call = tokio::time::timeout(CALL_TIMEOUT, call);
        call.map(|answer| {
            answer.unwrap_or_else(|_| {
                let late = Status::deadline_exceeded("the call was not sent in time");
                answered(late.into_http())
            })
        })
        .boxed()
    }
}

// === impl Services ===

impl Services {
    /// The session that a request is of, if it is its zone's newest.
    fn session<T>(&self, request: &tonic::Request<T>) -> Result<Arc<Session>, Status> {
        let (zone, uid) = subject(request)?;
        // The number of a session can be guessed; a certificate of an earlier zone cannot join it.
        self.fleet
            .admit(&zone, &uid)
            .map_err(|error| refused(&error))?;
        let number = request.metadata().get(SESSION);
        let number = number.and_then(|number| number.to_str().ok()?.parse().ok());
        let number = number
            .ok_or_else(|| Status::invalid_argument(format!("the header {SESSION} is missing")))?;
        let session = self.fleet.session(&zone, SessionId::new(number));
        session.ok_or_else(superseded)
    }

    /// Opens a stream of the session that a request is of. Nothing of the request is read if the
    /// session has such a stream.
    fn open_stream<T>(
        &self,
        request: &tonic::Request<T>,
        stream: SessionStream,
    ) -> Result<StreamPlace, Status> {
        let session = self.session(request)?;
        session.open_stream(stream).ok_or_else(|| {
            let id = session.id.get();
            let message = format!("session {id} already has an open {stream:?} stream");
            Status::already_exists(message)
        })
    }

    /// Runs one end of a stream, and gives how it ended. It ends with the hub: zones do not leave by
    /// themselves.
    fn carry(
        &self,
        end_of_stream: impl Future<Output = Result<(), ProtocolError>> + Send + 'static,
    ) -> oneshot::Receiver<Result<(), ProtocolError>> {
        let (ended, end) = oneshot::channel();
        let stop = self.group.stop();
        self.group.spawn(async move {
            let end = stop.unless(end_of_stream).await;
            end.map(|end| ended.send(end));
        });
        end
    }
}

#[tonic::async_trait]
impl Sync for Services {
    async fn join(
        &self,
        request: tonic::Request<wire::CertificateRequest>,
    ) -> Result<tonic::Response<wire::Certificate>, Status> {
        let chain = self.issuer.join(&self.fleet, &request).await?;
        Ok(tonic::Response::new(wire::Certificate { chain }))
    }

    async fn renew(
        &self,
        request: tonic::Request<wire::CertificateRequest>,
    ) -> Result<tonic::Response<wire::Certificate>, Status> {
        let (zone, uid) = subject(&request)?;
        self.fleet
            .admit(&zone, &uid)
            .map_err(|error| refused(&error))?;
        let chain = self.issuer.renew((&zone, &uid), &request.get_ref().csr)?;
        Ok(tonic::Response::new(wire::Certificate { chain }))
    }

    async fn handshake(
        &self,
        request: tonic::Request<wire::Hello>,
    ) -> Result<tonic::Response<wire::Welcome>, Status> {
        let (zone, uid) = subject(&request)?;
        let key = request.extensions().get::<ZoneKeyFingerprint>().copied();
        let hello = hello(request.into_inner())?;
        let opened = self.fleet.handshake((&zone, &uid), &hello);
        let (session, welcome) = opened.map_err(|error| refused(&error))?;
        if let Some(key) = key {
            self.issuer.bindings.connected(&zone, key).await;
        }
        tracing::info!(%zone, session = session.id.get(), product = hello.product, "zone connected");
        Ok(tonic::Response::new(wire::Welcome {
            product: welcome.product,
            protocol: welcome.protocol,
            features: welcome.features.into_iter().collect(),
            epoch: welcome.epoch.0.to_string(),
            session: session.id.get(),
            deletion_max: Some(session.budget.max),
            deletion_percent: Some(session.budget.percent.into()),
            diverged: session.is_diverged(),
        }))
    }

    type HubToZoneStream = Stream<DeltaDiscoveryResponse>;

    async fn hub_to_zone(
        &self,
        request: tonic::Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<tonic::Response<Self::HubToZoneStream>, Status> {
        let place = self.open_stream(&request, SessionStream::HubToZone)?;
        let requests = request.into_inner().map(|request| match request {
            Ok(request) => decode_request(request),
            Err(status) => Err(lost(&status)),
        });
        let (out, responses) = mpsc::channel(OUTBOX);
        let fleet = self.fleet.clone();
        let end = self.carry(async move {
            let session = place.session();
            fleet.hub_to_zone(session, requests, out).await
        });
        let responses = receiving(responses).map(|response| Ok(encode_response(&response)));
        Ok(tonic::Response::new(until(responses, end)))
    }

    type ZoneToHubStream = Stream<DeltaDiscoveryRequest>;

    async fn zone_to_hub(
        &self,
        request: tonic::Request<Streaming<DeltaDiscoveryResponse>>,
    ) -> Result<tonic::Response<Self::ZoneToHubStream>, Status> {
        let place = self.open_stream(&request, SessionStream::ZoneToHub)?;
        let responses = request.into_inner().map(|response| match response {
            Ok(response) => decode_response(response),
            Err(status) => Err(lost(&status)),
        });
        let (out, requests) = mpsc::channel(OUTBOX);
        let fleet = self.fleet.clone();
        let end = self.carry(async move {
            let session = place.session();
            fleet.zone_to_hub(session, responses, out).await
        });
        let requests = receiving(requests).map(|request| Ok(encode_request(&request)));
        Ok(tonic::Response::new(until(requests, end)))
    }

    type ReportStream = Stream<wire::ReportSeen>;

    async fn report(
        &self,
        request: tonic::Request<Streaming<wire::ZoneReport>>,
    ) -> Result<tonic::Response<Self::ReportStream>, Status> {
        let place = self.open_stream(&request, SessionStream::Report)?;
        let session = place.session().clone();
        let fleet = self.fleet.clone();
        let ended = session.ended();
        let approvals = fleet.approvals(&session).map(|approved| wire::ReportSeen {
            approved,
            ..wire::ReportSeen::default()
        });
        let asked = fleet.asked(&session).map(|asked| wire::ReportSeen {
            asked: Some(encode_asked(&asked)),
            ..wire::ReportSeen::default()
        });
        let told = stream::select(approvals, asked).map(|told| Some(Ok(told)));
        let clock = Clock::system();
        let (zone, paces) = (session.zone.clone(), self.paces.clone());
        let reports = request.into_inner().then(move |report| {
            let pause = paces.lock().take(&zone, clock.elapsed());
            let clock = clock.clone();
            async move {
                clock.sleep(pause).await;
                report
            }
        });
        let seen = reports.map(move |report| {
            let wire::ZoneReport {
                at,
                uploaded,
                fared,
            } = report?;
            let uploaded = uploaded.map(decode_uploaded).transpose();
            let uploaded = uploaded.map_err(|error| protocol_status(&error))?;
            let session = place.session();
            fleet.reported(session, uploaded);
            if let Some(fared) = fared {
                fleet.fared(session, decode_fared(fared));
            }
            let seen = wire::ReportSeen::default();
            Ok(wire::ReportSeen { at, ..seen })
        });
        // When the zone says no more, nobody hears what people approve and what is asked.
        let seen = seen.map(Some).chain(stream::once(ready(None)));
        let seen = stream::select(seen, told);
        let seen = seen.take_while(|seen| ready(seen.is_some()));
        let seen = seen.filter_map(ready);
        let stop = self.group.stop();
        let seen = seen.take_until(async move { stop.unless(ended.wait()).await });
        Ok(tonic::Response::new(seen.boxed()))
    }

    type QueryStream = Stream<wire::Question>;

    async fn query(
        &self,
        request: tonic::Request<Streaming<wire::Answer>>,
    ) -> Result<tonic::Response<Self::QueryStream>, Status> {
        let session = self.session(&request)?;
        let opened = self.channels.open(&session.zone, session.id);
        let opened = opened.ok_or_else(superseded)?;
        let questions = opened.channel().questions();
        let (ended, end) = oneshot::channel();
        let stop = self.group.stop();
        self.group.spawn(async move {
            let answers = request.into_inner();
            let _ = ended.send(opened.run(answers, &session.ended(), &stop).await);
        });
        let end = stream::once(end).filter_map(async |end| end.ok().map(Err));
        Ok(tonic::Response::new(questions.map(Ok).chain(end).boxed()))
    }
}

fn superseded() -> Status {
    Status::aborted("a newer session of this zone was opened")
}

/// The zone and the uid of its object, as the certificate of the connection says.
fn no_certificate() -> Status {
    Status::unauthenticated("this needs the certificate of a zone; join the hub first")
}

/// Lets the server answer.
async fn called(
    server: SyncServer<Services>,
    request: Request<Limited<Incoming>>,
) -> Response<RouteBody> {
    match server.oneshot(request).await {
        Ok(answer) => answered(answer),
        Err(never) => match never {},
    }
}

fn answered(answer: Response<tonic::body::Body>) -> Response<RouteBody> {
    answer.map(|body| {
        let pieces = |bytes: Bytes| Pieces::from(bytes);
        let body = body.map_frame(move |frame| frame.map_data(pieces));
        body.map_err(Into::into).boxed_unsync()
    })
}

fn subject<T>(request: &tonic::Request<T>) -> Result<(ZoneName, String), Status> {
    let subject = request.extensions().get::<ZoneSubject>();
    let subject = subject.ok_or_else(no_certificate)?;
    let zone = subject.zone.parse();
    let zone = zone.map_err(|_| Status::unauthenticated("the certificate names no legal zone"))?;
    Ok((zone, subject.uid.clone()))
}

fn hello(hello: wire::Hello) -> Result<Hello, Status> {
    let zone = hello.zone.parse();
    let legal_epoch = !hello.epoch.is_empty() && !hello.epoch.contains([' ', '@']);
    if !legal_epoch || hello.oldest_protocol > hello.newest_protocol {
        return Err(Status::invalid_argument("the handshake is not legal"));
    }
    let features = hello.features.into_iter().take(MAX_FEATURES);
    let features = features.map(|feature| cut(feature, MAX_WORD));
    Ok(Hello {
        zone: zone.map_err(|error: deltaplane_sync::NameError| {
            Status::invalid_argument(error.to_string())
        })?,
        product: cut(hello.product, MAX_WORD),
        protocols: hello.oldest_protocol..=hello.newest_protocol,
        features: features.collect(),
        epoch: Epoch(hello.epoch.into()),
        followed: followed(&hello.followed, hello.releases)?,
        mirrored_kinds: mirrored_kinds(&hello.mirrored_kinds)?,
    })
}

/// The kinds that a zone says that it mirrors. They are kept in memory while the zone is connected, so
/// no more than so many count: a zone must not be kept out because it remembers more.
fn mirrored_kinds(urls: &[String]) -> Result<BTreeSet<SyncKind>, Status> {
    if urls.iter().any(|url| url.len() > MAX_KIND_URL) {
        let message = format!("the URL of a mirrored kind has more than {MAX_KIND_URL} characters");
        return Err(Status::invalid_argument(message));
    }
    let kinds = urls.iter().take(MOST_MIRRORED_KINDS);
    let kinds = kinds.map(|url| url.parse());
    let kinds: Result<_, deltaplane_sync::NameError> = kinds.collect();
    kinds.map_err(|error| Status::invalid_argument(error.to_string()))
}

/// What a zone says that it followed. A claim is kept in memory while the zone is connected.
fn followed(
    position: &str,
    releases: HashMap<String, u64>,
) -> Result<Option<FollowedPosition>, Status> {
    if position.is_empty() {
        return Ok(None);
    }
    let position = position.parse();
    let position = position
        .map_err(|error: deltaplane_sync::NameError| Status::invalid_argument(error.to_string()))?;
    let legal = |name: &String| name.len() <= MAX_POLICY_NAME;
    if releases.len() > MAX_RELEASES || !releases.keys().all(legal) {
        return Err(Status::invalid_argument(
            "the handshake names more releases than a zone can follow",
        ));
    }
    let releases = releases.into_iter().collect();
    Ok(Some(FollowedPosition { position, releases }))
}

fn refused(error: &HandshakeError) -> Status {
    let text = error.to_string();
    match error {
        HandshakeError::Unknown(_) | HandshakeError::Earlier(_) | HandshakeError::Revoked(_) => {
            Status::unauthenticated(text)
        }
        HandshakeError::OtherZone { .. } => Status::permission_denied(text),
        HandshakeError::Unrecorded => Status::unavailable(text),
        HandshakeError::Disabled(_)
        | HandshakeError::Unreadable(_)
        | HandshakeError::Refused(_) => Status::failed_precondition(text),
    }
}

/// The connection ended, or what came on it made no sense.
fn lost(status: &Status) -> ProtocolError {
    ProtocolError::Malformed(status.message().to_owned())
}

/// What is sent, and at last why it ended.
fn until<T: Send + 'static>(
    items: impl futures::Stream<Item = Result<T, Status>> + Send + 'static,
    end: oneshot::Receiver<Result<(), ProtocolError>>,
) -> Stream<T> {
    let end = stream::once(end).filter_map(|ended| {
        ready(match ended {
            Ok(Err(error)) => Some(Err(protocol_status(&error))),
            Ok(Ok(())) | Err(_) => None,
        })
    });
    items.chain(end).boxed()
}
