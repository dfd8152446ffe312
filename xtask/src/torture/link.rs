//! A connection to a hub that comes and goes.
//!
//! Invariant: what is not known to have been refused or not sent counts as possibly carried out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::bench::load::{Client, JSON};
use crate::bench::target::Target;

/// Where the hub is now; nowhere while it is down.
pub(crate) type Targets = watch::Receiver<Option<Arc<Target>>>;

/// Patience with a connection that does not come about.
const CONNECT: Duration = Duration::from_secs(2);

/// One client's way to the hub.
pub(crate) struct Link {
    targets: Targets,
    client: Option<Client>,
}

/// A request.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
}

/// A request that was not answered, and may have been carried out or not.
#[derive(Debug)]
pub(crate) struct Unanswered;

// === impl Request ===

impl Request {
    pub(crate) fn get(path: String) -> Self {
        Self::new(Method::GET, path, Bytes::new())
    }

    pub(crate) fn new(method: Method, path: String, body: Bytes) -> Self {
        Self {
            method,
            path,
            content_type: JSON,
            body,
        }
    }
}

// === impl Link ===

impl Link {
    pub(crate) fn new(targets: Targets) -> Self {
        Self {
            targets,
            client: None,
        }
    }

    /// Connects if need be; whether there is a connection that takes a request.
    pub(crate) async fn ready(&mut self) -> bool {
        if let Some(client) = &mut self.client
            && client.ready().await.is_ok()
        {
            return true;
        }
        self.client = None;
        let Some(target) = self.targets.borrow_and_update().clone() else {
            return false;
        };
        // A stopped hub accepts connections and then says nothing.
        if let Ok(Ok(client)) = timeout(CONNECT, Client::connect(&target)).await {
            self.client = Some(client);
        }
        self.client.is_some()
    }

    /// Waits until the hub has moved, but not for long: it may be where it was.
    pub(crate) async fn moved(&mut self) {
        // Whoever tells where it is may be gone, at the end of a run.
        let _ = timeout(Duration::from_millis(20), self.targets.changed()).await;
    }

    /// Sends a request on the connection that is there, and reads all of the answer.
    pub(crate) async fn call(
        &mut self,
        request: Request,
        patience: Duration,
    ) -> Result<(StatusCode, Bytes), Unanswered> {
        let answered = timeout(patience, async {
            let (status, body) = self.open(request).await?;
            let body = body.collect().await.map_err(|_| Unanswered)?;
            Ok((status, body.to_bytes()))
        });
        let answered = answered.await.unwrap_or(Err(Unanswered));
        if answered.is_err() {
            self.cut();
        }
        answered
    }

    /// Sends a request on the connection that is there; its answer is read as it comes.
    pub(crate) async fn open(
        &mut self,
        request: Request,
    ) -> Result<(StatusCode, Incoming), Unanswered> {
        let client = self.client.as_mut().ok_or(Unanswered)?;
        let Request {
            method,
            path,
            content_type,
            body,
        } = request;
        let answer = client.send(method, &path, content_type, body).await;
        let answer = answer.map_err(|_| Unanswered)?;
        Ok((answer.status(), answer.into_body()))
    }

    /// Drops the connection.
    pub(crate) fn cut(&mut self) {
        self.client = None;
    }
}
