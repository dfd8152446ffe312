//! The stream from the hub to a zone, on which most goes, put into frames here and not by tonic:
//! that would keep buffers as large as the largest message for each zone that is connected.

use std::sync::Arc;

use deltaplane_apiserver::Pieces;
use deltaplane_plane::RouteBody;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::sync_server::Sync;
use deltaplane_sync_grpc::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse,
};
use deltaplane_sync_grpc::{BoundedCodec, MAX_MESSAGE, MAX_PART, frame};
use futures::{StreamExt, stream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use tonic::codec::{Codec, CompressionEncoding};
use tonic::{Status, Streaming};

use super::{Services, Stream};

/// The requests that are answered here.
pub(super) const PATH: &str = "/deltaplane.sync.v1.Sync/HubToZone";

const ENCODING: &str = "grpc-encoding";
const ACCEPTED: &str = "grpc-accept-encoding";
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");

pub(super) async fn answer(
    services: Arc<Services>,
    request: Request<Incoming>,
) -> Response<RouteBody> {
    let compress = takes_gzip(request.headers());
    let begun = match received(request) {
        Ok(request) => services.hub_to_zone(request).await,
        Err(status) => Err(status),
    };
    match begun {
        Ok(responses) => answer_with(responses.into_inner(), compress),
        Err(status) => status
            .into_http()
            .map(|body: Empty<Pieces>| body.map_err(|never| match never {}).boxed_unsync()),
    }
}

fn received(
    request: Request<Incoming>,
) -> Result<tonic::Request<Streaming<DeltaDiscoveryRequest>>, Status> {
    // Zones compress nothing here: requests are mostly digests. What others compress is bounded by
    // what it becomes.
    let (encoding, limit) = match request.headers().get(ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => (None, MAX_MESSAGE),
        Some(b"gzip") => (Some(CompressionEncoding::Gzip), MAX_PART),
        Some(_) => return Err(Status::unimplemented("only gzip is understood")),
    };
    let request = request.map(|body| {
        let mut codec = BoundedCodec::<DeltaDiscoveryResponse, DeltaDiscoveryRequest>::default();
        Streaming::new_request(codec.decoder(), body, encoding, Some(limit))
    });
    Ok(tonic::Request::from_http(request))
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get(ACCEPTED)
        .and_then(|accepted| accepted.to_str().ok());
    let mut accepted = accepted.into_iter().flat_map(|all| all.split(','));
    accepted.any(|one| one.trim() == "gzip")
}

fn answer_with(responses: Stream<DeltaDiscoveryResponse>, compress: bool) -> Response<RouteBody> {
    let frames = stream::unfold(Some(responses), move |responses| async move {
        let mut responses = responses?;
        let next = responses.next().await;
        let framed = next.map(|response| frame(&response?, compress));
        Some(match framed {
            Some(Ok(framed)) => (Ok(Frame::data(Pieces::from(framed))), Some(responses)),
            Some(Err(status)) => (Ok(Frame::trailers(trailers(&status))), None),
            None => (Ok(Frame::trailers(trailers(&Status::ok("")))), None),
        })
    });
    let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    if compress {
        headers.insert(ENCODING, GZIP);
    }
    answer
}

fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if status.add_header(&mut trailers).is_err() {
        // Its words cannot be sent; that it failed can.
        let code = i32::from(status.code());
        trailers.insert("grpc-status", HeaderValue::from(code));
    }
    trailers
}
