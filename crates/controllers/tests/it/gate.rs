//! A client that is told of changes as late as a test likes.

use futures::StreamExt;
use http::Request;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyStream, StreamBody};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;

/// Lets watches tell, or not.
pub(crate) struct Gate(watch::Sender<bool>);

// === impl Gate ===

impl Gate {
    /// A client like this one, and the gate for its watches of `path`, open.
    pub(crate) fn at(client: Client, path: &'static str) -> (Client, Self) {
        let (sender, open) = watch::channel(true);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, open) = (client.clone(), open.clone());
            let query = request.uri().query().unwrap_or_default();
            let gated = request.uri().path() == path && query.contains("watch=true");
            async move {
                let response = client.send(request).await?;
                Ok::<_, kube::Error>(response.map(|body| match gated {
                    true => hold(body, open),
                    false => UnsyncBoxBody::new(body),
                }))
            }
        });
        (Client::new(service, "default"), Self(sender))
    }

    pub(crate) fn shut(&self) {
        self.0.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }
}

fn hold(body: Body, open: watch::Receiver<bool>) -> UnsyncBoxBody<bytes::Bytes, kube::Error> {
    let frames = BodyStream::new(body).then(move |frame| {
        let mut open = open.clone();
        async move {
            // A gate that is gone is open.
            let _ = open.wait_for(|open| *open).await;
            frame
        }
    });
    UnsyncBoxBody::new(StreamBody::new(frames))
}
