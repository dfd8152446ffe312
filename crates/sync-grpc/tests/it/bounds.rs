//! Peers that send messages of a few bytes which would become gigabytes.

use deltaplane_sync_grpc::proto::deltaplane::sync::v1::sync_client::SyncClient;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::sync_server::{Sync, SyncServer};
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::{
    Answer, Asked, Certificate, CertificateRequest, Fared, Hello, KindFared, Question, ReportSeen,
    Welcome, ZoneReport, answer as answer_part, asked, question,
};
use deltaplane_sync_grpc::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource,
};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tonic::{Code, Request, Response, Status, Streaming};

/// A hub that answers every stream with empty elements, and reads what comes first.
struct HostileHub;

type Outgoing<T> = BoxStream<'static, Result<T, Status>>;

const MANY: usize = 500_000;

fn request() -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        resource_names_subscribe: vec![String::new(); MANY],
        ..DeltaDiscoveryRequest::default()
    }
}

fn response() -> DeltaDiscoveryResponse {
    DeltaDiscoveryResponse {
        resources: vec![Resource::default(); MANY],
        ..DeltaDiscoveryResponse::default()
    }
}

fn report() -> ZoneReport {
    ZoneReport {
        fared: Some(Fared {
            kinds: vec![KindFared::default(); MANY],
            ..Fared::default()
        }),
        ..ZoneReport::default()
    }
}

fn seen() -> ReportSeen {
    ReportSeen {
        asked: Some(Asked {
            policies: vec![asked::Policy::default(); MANY],
        }),
        ..ReportSeen::default()
    }
}

fn question() -> Question {
    Question {
        exchange: 1,
        part: Some(question::Part::Head(question::Head {
            groups: vec![String::new(); MANY],
            ..question::Head::default()
        })),
    }
}

/// Says whether the first message could be read, and goes on with a message.
async fn answer<T, U>(
    request: Request<Streaming<T>>,
    message: U,
) -> Result<Response<Outgoing<U>>, Status>
where
    U: Send + 'static,
{
    request.into_inner().message().await?;
    Ok(Response::new(stream::iter([Ok(message)]).boxed()))
}

#[tonic::async_trait]
impl Sync for HostileHub {
    type HubToZoneStream = Outgoing<DeltaDiscoveryResponse>;
    type ZoneToHubStream = Outgoing<DeltaDiscoveryRequest>;
    type ReportStream = Outgoing<ReportSeen>;
    type QueryStream = Outgoing<Question>;

    async fn join(&self, _: Request<CertificateRequest>) -> Result<Response<Certificate>, Status> {
        Ok(Response::new(Certificate::default()))
    }

    async fn renew(&self, _: Request<CertificateRequest>) -> Result<Response<Certificate>, Status> {
        Ok(Response::new(Certificate::default()))
    }

    async fn handshake(&self, _: Request<Hello>) -> Result<Response<Welcome>, Status> {
        Ok(Response::new(Welcome {
            features: vec![String::new(); MANY],
            ..Welcome::default()
        }))
    }

    async fn hub_to_zone(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::HubToZoneStream>, Status> {
        answer(request, response()).await
    }

    async fn zone_to_hub(
        &self,
        responses: Request<Streaming<DeltaDiscoveryResponse>>,
    ) -> Result<Response<Self::ZoneToHubStream>, Status> {
        answer(responses, request()).await
    }

    async fn report(
        &self,
        reports: Request<Streaming<ZoneReport>>,
    ) -> Result<Response<Self::ReportStream>, Status> {
        answer(reports, seen()).await
    }

    async fn query(
        &self,
        answers: Request<Streaming<Answer>>,
    ) -> Result<Response<Self::QueryStream>, Status> {
        answer(answers, question()).await
    }
}

type Zone = SyncClient<SyncServer<HostileHub>>;

fn zone() -> Zone {
    SyncClient::new(SyncServer::new(HostileHub))
}

fn check_refused<T>(result: Result<T, Status>) {
    let status = result.err().expect("refused");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("elements"), "{status:?}");
}

/// The first message of a stream that the hub sends.
async fn first<T>(opened: Result<Response<Streaming<T>>, Status>) -> Result<Option<T>, Status> {
    opened.expect("opened").into_inner().message().await
}

fn one<T: Default + Send + 'static>() -> impl futures::Stream<Item = T> + Send + 'static {
    stream::iter([T::default()])
}

#[tokio::test]
async fn a_zone_decodes_no_message_of_empty_elements() {
    let mut zone = zone();
    check_refused(zone.handshake(Hello::default()).await);
    check_refused(first(zone.hub_to_zone(one()).await).await);
    check_refused(first(zone.zone_to_hub(one()).await).await);
    check_refused(first(zone.report(one()).await).await);
    check_refused(first(zone.query(one()).await).await);
}

#[tokio::test]
async fn a_hub_decodes_no_message_of_empty_elements() {
    let mut zone = zone();
    check_refused(zone.hub_to_zone(stream::iter([request()])).await);
    check_refused(zone.zone_to_hub(stream::iter([response()])).await);
    check_refused(zone.report(stream::iter([report()])).await);
    let warnings = vec![String::new(); MANY];
    let head = answer_part::Head {
        warnings,
        ..Default::default()
    };
    let answer = Answer {
        exchange: 1,
        part: Some(answer_part::Part::Head(head)),
    };
    check_refused(zone.query(stream::iter([answer])).await);
}
